"""A live view that is a game: one NIC of 1,024 is slow, and only timings of groups of servers can name it."""

from functools import cache, partial
from typing import NamedTuple

import numpy as np

from fabriclab.core import Flags, Floats
from fabriclab.operations.bisection import TimedServers
from fabriclab.texts import text
from fabriclab.views.live.widget import Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, EDGE, Layer, Scene, boxes, heading, texts

SERVERS, RAILS = 128, 8
CLICKS = 10  # illustrative: tests and replacements that the game allows
_LEFT = 0.25  # part of its rate that the slow NIC still has
_NOISE = 0.02  # illustrative: of a timing
_SLOW = 2.0  # times healthy, from which on a timing is slow: the geometric middle between 1 and 4
_TEST_MINUTES = 2  # illustrative: to time a group
_REPLACE_MINUTES = 30  # illustrative: to replace the NICs of a server
_MOST_GAMES = 20
_REPLACED = "!"  # before a server that was replaced

# The picture in px.
_WIDTH, _SIDE, _HEIGHT = 560.0, 320.0, 384.0
_ROW = 16  # servers in a row
_LEFT_EDGE, _TOP = 14.0, 44.0
_PITCH = (33.4, 40.0)
_BOX = (29.0, 30.0)  # a number of three digits fits in a small picture, too
_FRAME = 2.5  # from a box to the frame around it
_LIST_TOP, _LIST_ROW = 52.0, 30.0
_CELLS, _CELL = 96.0, 26.0


class Click(NamedTuple):
    """Servers ``first`` to ``last`` were timed, or, if ``is_replaced``, server ``first`` got new NICs."""

    first: int
    last: int
    is_replaced: bool


class Game(NamedTuple):
    """Where the slow NIC is, what was clicked, and what came of it.

    ``times`` has a row for each click, (C, 8), in times of healthy servers; NaN for a replacement. ``is_suspect`` says
    of each server whether the timings allow that it is the one, (128,). ``is_found`` tells that it was replaced.
    """

    server: int
    rail: int
    clicks: tuple[Click, ...]
    times: Floats
    is_suspect: Flags
    is_found: bool

    @property
    def is_over(self) -> bool:
        """Whether the NIC is replaced, or all clicks are used."""
        return self.is_found or len(self.clicks) >= CLICKS

    @property
    def minutes(self) -> int:
        """Minutes that all clicks took."""
        spent = 0
        for click in self.clicks:
            spent += _REPLACE_MINUTES if click.is_replaced else _TEST_MINUTES
        return spent


def read_clicks(clicks: str) -> tuple[Click, ...]:
    """Read clicks such as ``"0-63 64-95 !77"``: two groups were timed, then server 77 was replaced."""
    found = []
    for word in clicks.split():
        is_replaced = word.startswith(_REPLACED)
        ends = word.removeprefix(_REPLACED).split("-")
        numbers = [int(end) for end in ends if end.isdecimal()]
        if len(numbers) != len(ends) or len(ends) > 2 or max(numbers) >= SERVERS:
            msg = f"clicks must be words such as '0-63' or '!77', got {word!r:.60}"
            raise ValueError(msg)
        found.append(Click(min(numbers), max(numbers), is_replaced))
    return tuple(found[:CLICKS])


@cache
def hidden_nic(seed: int) -> tuple[int, int]:
    """Return server and rail of the slow NIC of a game."""
    rng = np.random.default_rng([seed, SERVERS])
    return int(rng.integers(SERVERS)), int(rng.integers(RAILS))


def game_of(seed: int, clicks: str) -> Game:
    """Return the state of a game after some clicks."""
    server, rail = hidden_nic(seed)
    # One server more than the cluster: a spare that is known to be healthy, beside which a single one is timed.
    cluster = TimedServers(
        SERVERS + 1, RAILS, slow={(server, rail): _LEFT}, noise=_NOISE, seed=seed
    )
    done = read_clicks(clicks)
    times = np.full((len(done), RAILS), np.nan)
    is_suspect = np.ones(SERVERS, dtype=bool)
    number = np.arange(SERVERS)
    is_found = False
    for k, click in enumerate(done):
        inside = (number >= click.first) & (number <= click.last)
        if click.is_replaced:
            is_found = is_found or click.first == server
            is_suspect &= inside if click.first == server else ~inside
            continue
        group = [*range(click.first, click.last + 1)]
        if len(group) == 1:
            group.append(SERVERS)
        times[k] = cluster.time([group])[0] / cluster.healthy(len(group))
        is_suspect &= inside if times[k].max() > _SLOW else ~inside
    return Game(server, rail, done, times, is_suspect, is_found)


def sick_nic(first: int = 0, last: int = 63, seed: int = 0, clicks: str = "") -> Live:
    """Find one NIC of 1,024 that works at a quarter of its rate: time groups of servers, then replace one server.

    A group of servers does an all-reduce on each of its eight rails. Each timing is of a job that has stopped; leaves
    out several slow NICs and timings of a running job.

    Parameters
    ----------
    first, last : int
        Servers that are timed next, 0..127. A single server is timed beside a spare that is known to be healthy.
    seed : int
        Game; each hides another NIC. 0..20
    clicks : str
        What was done so far, such as ``"0-63 64-95 !77"``: two groups were timed, then server 77 was replaced.
    """
    if not 0 <= seed <= _MOST_GAMES:
        raise ValueError(f"seed must be within 0..{_MOST_GAMES}, got {seed!r:.60}")
    arguments = {"first": first, "last": last, "seed": seed, "clicks": clicks}
    controls: dict[str, Control] = {
        "first": Slider(0, SERVERS - 1),
        "last": Slider(0, SERVERS - 1),
    }
    buttons = {
        text("live.sick_nic.time"): partial(press, mark=""),
        text("live.sick_nic.replace"): partial(press, mark=_REPLACED),
    }
    return live_view(
        "sick_nic", arguments, game_scene, controls, hidden=("seed", "clicks"), buttons=buttons
    )


def press(view: Live, mark: str) -> Scene:
    """Time the servers from first to last or, with the mark of a replacement, replace the first one."""
    values = view.values
    word = f"{mark}{values['first']}"
    if not mark:
        word = f"{values['first']}-{values['last']}"
    if not game_of(values["seed"], values["clicks"]).is_over:
        view.set(clicks=f"{values['clicks']} {word}".strip())
    return view.scene


def game_scene(first: int, last: int, seed: int, clicks: str) -> Scene:
    """Return the servers, those that are still suspects, and the list of clicks with the time of each rail."""
    game = game_of(seed, clicks)
    said = game_words(game)
    chosen = Click(min(first, last), max(first, last), is_replaced=False)
    return Scene(
        said,
        click_table(game),
        server_layers(game, chosen),
        _HEIGHT,
        alt=f"{said} {text('live.sick_nic.chosen', first=chosen.first, last=chosen.last)}",
        hint=text("live.sick_nic.hint", test=_TEST_MINUTES, replace=_REPLACE_MINUTES),
        width=_WIDTH,
        side=list_scene(game),
    )


# Words ------------------------------------------------------------------------------------------


def game_words(game: Game) -> str:
    """Return how the search stands."""
    key = "found" if game.is_found else "lost" if game.is_over else "going"
    return text(
        f"live.sick_nic.{key}",
        suspects=int(game.is_suspect.sum()),
        servers=SERVERS,
        used=len(game.clicks),
        clicks=CLICKS,
        minutes=game.minutes,
        server=game.server,
        rail=game.rail,
    )


def click_words(click: Click) -> str:
    """Return what was clicked, in words."""
    if click.is_replaced:
        return text("live.sick_nic.replaced", server=click.first)
    if click.first == click.last:
        return text("live.sick_nic.one", server=click.first)
    return text("live.sick_nic.group", first=click.first, last=click.last)


def time_words(value: float) -> str:
    """Return a time in times of healthy servers; nothing for a replacement."""
    return "" if np.isnan(value) else f"{value:.1f}"


def click_table(game: Game) -> Table:
    """Return a row for each click: what was timed, the slow rail, and the slowest and fastest time of a rail."""
    rows = list(zip(game.clicks, game.times, strict=True))
    nothing = [] if rows else [""]
    return Table(
        {
            "clicked": [click_words(click) for click, _ in rows] or [text("live.sick_nic.nothing")],
            "slow rail": [slow_rail(row) for _, row in rows] + nothing,
            "slowest rail [times healthy]": [time_words(row.max()) for _, row in rows] + nothing,
            "fastest rail [times healthy]": [time_words(row.min()) for _, row in rows] + nothing,
        }
    )


def slow_rail(times: Floats) -> str:
    """Return the rail on which a group is slow; a dash if it is fast, nothing for a replacement."""
    if np.isnan(times).all():
        return ""
    return str(int(times.argmax())) if times.max() > _SLOW else "-"


# Layers -----------------------------------------------------------------------------------------


def server_layers(game: Game, chosen: Click) -> dict[str, Layer]:
    """Return a box for each server, filled while it is a suspect, and in each row a frame around those timed next."""
    number = np.arange(SERVERS)
    x = _LEFT_EDGE + _PITCH[0] * (number % _ROW)
    y = _TOP + _PITCH[1] * (number // _ROW)
    suspect = game.is_suspect
    notes = [text(f"live.sick_nic.{'suspect' if s else 'cleared'}") for s in suspect]
    layers = {
        "title": heading(16.0, text("live.sick_nic.servers")),
        "servers": boxes(
            x,
            y,
            *_BOX,
            colour=np.where(suspect, COLOUR["host"], COLOUR["sunk"]),
            ink=np.where(suspect, COLOUR["paper"], COLOUR["soft"]),
            texts=[str(n) for n in number],
            size=11.0,
            names=[text("live.sick_nic.server", server=n) for n in number],
            notes=notes,
        ),
    }
    # One frame around those of a row: frames of neighbours would touch.
    row = np.arange(chosen.first // _ROW, chosen.last // _ROW + 1)
    begins = np.maximum(chosen.first, _ROW * row)
    ends = np.minimum(chosen.last, _ROW * row + _ROW - 1)
    layers["chosen"] = boxes(
        x[begins] - _FRAME,
        y[begins] - _FRAME,
        x[ends] - x[begins] + _BOX[0] + 2 * _FRAME,
        _BOX[1] + 2 * _FRAME,
        colour=COLOUR["none"],
        edge=COLOUR["ink"],
    )
    return layers


def list_scene(game: Game) -> Scene:
    """Return a row for each click, with a cell for each rail that says how slow it was."""
    rails = np.arange(RAILS)
    left = _CELLS + _CELL * rails
    y = _LIST_TOP + _LIST_ROW * np.arange(len(game.clicks))
    cells = [
        (k, rail) for k, click in enumerate(game.clicks) if not click.is_replaced for rail in rails
    ]
    value = np.array([game.times[k, rail] for k, rail in cells])
    is_slow = value > _SLOW
    layers = {
        "title": heading(16.0, text("live.sick_nic.list")),
        "rails": texts(
            left + _CELL / 2,
            38.0,
            [str(rail) for rail in rails],
            align=1.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "rail": texts(
            left[0] - 4,
            38.0,
            [text("live.sick_nic.rail")],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "clicks": texts(EDGE, y + 11, [click_words(click) for click in game.clicks], size=12.0),
        "cells": boxes(
            np.array([left[rail] for _, rail in cells]),
            np.array([y[k] for k, _ in cells]),
            _CELL - 2,
            22.0,
            colour=np.where(is_slow, COLOUR["wrong"], COLOUR["sunk"]),
            ink=np.where(is_slow, COLOUR["paper"], COLOUR["soft"]),
            texts=[time_words(v) for v in value],
            size=11.0,
        ),
    }
    if not game.clicks:
        nothing = [text("live.sick_nic.nothing")]
        layers["nothing"] = texts(EDGE, _LIST_TOP + 11, nothing, colour=COLOUR["soft"])
    return Scene("", layers=layers, height=_HEIGHT, width=_SIDE)
