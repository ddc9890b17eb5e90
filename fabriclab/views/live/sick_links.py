"""A live view that is a game: counters of a small fabric stream in, and one of its links is sick."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from fabriclab import topologies
from fabriclab.core import Fabric, Floats, Ints
from fabriclab.operations.causes import COUNTERS, Cause
from fabriclab.operations.telemetry import Telemetry, observe
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)

MINUTES = 150  # a sample each
CLICKS = 10  # illustrative: links that may be cordoned
PRICE = 10  # illustrative: minutes that the cordon of a healthy link counts
_EACH = 60.0  # time between two samples [s]
_KINDS = ("dirty connector", "bad module", "slow NIC")  # causes that one link shows
_EARLIEST, _LATEST = 20, 60  # illustrative: when a link goes bad [min]
_MOST_GAMES = 20
_FIRST, _LAST = 10, 5  # minutes that are compared: the first ones, and the last ones so far

# The picture in px.
_WIDTH, _SIDE, _HEIGHT = 560.0, 320.0, 384.0
_PLOT = (64.0, 44.0, 460.0, 300.0)  # left, top, width, height
_HALF_HOUR = 30.0  # [min]
_LIST_TOP, _LIST_ROW = 44.0, 30.0
_DOT = 10  # minutes between two dots of the chosen line
_OUT = 10.0  # side of the box at the end of a line that was cordoned
_LEAST = 0.5  # what stands for a count of 0 on the logarithmic axis


class Cordon(NamedTuple):
    """A link, by its place, that was taken out of service in a minute."""

    minute: int
    link: int


class Game(NamedTuple):
    """What is seen, which link is sick and from which minute on, and which links were cordoned."""

    seen: Telemetry
    sick: int
    onset: int
    cordons: tuple[Cordon, ...]

    def is_right(self, cordon: Cordon) -> bool:
        """Return whether a cordon took the cable of the sick link, in this or the other direction."""
        names = self.seen.names
        source, _, target = names[self.sick].partition(" -> ")
        return names[cordon.link] in (names[self.sick], f"{target} -> {source}")

    @property
    def found(self) -> int:
        """Minute in which the sick link was cordoned; -1 if it was not."""
        for cordon in self.cordons:
            if self.is_right(cordon):
                return cordon.minute
        return -1

    @property
    def late(self) -> int:
        """Minutes in which the sick link was in use after it went bad, once it is found."""
        return max(0, self.found - self.onset)

    @property
    def wrong(self) -> int:
        """Cordons of healthy links."""
        return len(self.cordons) - (self.found >= 0)

    @property
    def score(self) -> int:
        """Minutes in which the sick link was in use, and what each wrong cordon costs; few are good."""
        return self.late + PRICE * self.wrong

    @property
    def is_over(self) -> bool:
        """Whether the sick link is cordoned, or all clicks are used."""
        return self.found >= 0 or len(self.cordons) >= CLICKS


def read_cordons(cordons: str, links: int) -> tuple[Cordon, ...]:
    """Read cordons such as ``"35:4 60:11"``: link 4 in minute 35, link 11 in minute 60."""
    found = []
    for word in cordons.split():
        minute, colon, link = word.partition(":")
        is_read = colon and minute.isdecimal() and link.isdecimal()
        if not is_read or int(link) >= links or int(minute) > MINUTES:
            msg = f"cordons must be words such as '35:4', minute and link, got {word!r:.60}"
            raise ValueError(msg)
        found.append(Cordon(int(minute), int(link)))
    return tuple(found[:CLICKS])


@cache
def played(seed: int) -> tuple[Telemetry, int, int]:
    """Return the counters of a game, the place of its sick link, and the minute from which on it is sick."""
    rng = np.random.default_rng([seed, MINUTES])
    onset = int(rng.integers(_EARLIEST, _LATEST))
    cause = hidden_causes()[seed]._replace(start=onset * _EACH)
    seen = observe(_hall(), [cause], samples=MINUTES, interval=_EACH, seed=seed)
    # A slow NIC shows on the link that leads to it; a connector or module on its own.
    name = cause.where if " -> " in cause.where else _into(cause.where, seen.names)
    return seen, seen.place(name), onset


@cache
def _hall() -> Fabric:
    """Return the fabric of all games."""
    return topologies.build("leaf_spine", hosts=8, radix=4)


def _into(node: str, names: tuple[str, ...]) -> str:
    """Return the link that leads to a host."""
    return next(name for name in names if name.endswith(f" -> {node}"))


@cache
def hidden_causes() -> tuple[Cause, ...]:
    """Return what is wrong in each game, and where: no two games have the same link.

    Each three games, from 0 on, have each cause once, in changing order.
    """
    rng = np.random.default_rng(MINUTES)
    games = _MOST_GAMES + 1
    kinds = [_KINDS[int(k)] for _ in range(0, games, len(_KINDS)) for k in rng.permutation(3)]
    names = observe(_hall(), samples=1).names
    order = [names[int(k)] for k in rng.permutation(len(names))]
    where = {}
    for nics in (True, False):  # NICs first, as only some links lead to one
        for game in range(games):
            if (kinds[game] == "slow NIC") is nics:
                link = next(name for name in order if not nics or " -> host" in name)
                order.remove(link)
                where[game] = link.partition(" -> ")[2] if nics else link
    return tuple(Cause(kinds[game], where[game]) for game in range(games))


def sick_link(
    counter: str = "bit_errors", minute: int = 15, link: int = 0, seed: int = 0, cordons: str = ""
) -> Live:
    """Find the sick link of a small fabric while its counters come in, and cordon it.

    The link has a dirty connector, a bad module, or a NIC at its end that cannot keep up. Levels of counters are
    illustrative; leaves out links that go down.

    Parameters
    ----------
    counter : str
        What is shown, such as "bit_errors" or "pauses".
    minute : int
        Minutes that have come in. 1..150
    link : int
        Link whose line has dots, and that the button cordons.
    seed : int
        Game; each has another link and another fault. 0..20
    cordons : str
        Links that were cordoned so far, such as ``"35:4"``: link 4 in minute 35.
    """
    if not 0 <= seed <= _MOST_GAMES:
        raise ValueError(f"seed must be within 0..{_MOST_GAMES}, got {seed!r:.60}")
    arguments = {
        "counter": counter,
        "minute": minute,
        "link": link,
        "seed": seed,
        "cordons": cordons,
    }
    names = tuple(text(f"live.sick_link.{each}") for each in COUNTERS)
    links = len(played(seed)[0].names)
    controls: dict[str, Control] = {
        "counter": Choice(tuple(COUNTERS), names=names),
        "minute": Slider(1, MINUTES, play=True, beat=250.0),
        "link": Slider(0, links - 1),
    }
    clock = Clock(minute)
    buttons = {text("live.sick_link.cordon"): partial(press, clock=clock)}
    return live_view(
        "sick_link",
        arguments,
        game_scene,
        controls,
        hidden=("seed", "cordons"),
        buttons=buttons,
        watch=clock.see,
        room=1,
    )


class Clock:
    """The latest minute that a reader of one view has seen: whoever turns time back knows what comes."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.latest = first

    def see(self, values: Mapping[str, Any]) -> None:
        """Note which minute the reader sees; the first one without any cordon begins the game anew."""
        minute = values["minute"]
        begins = minute == self.first and not values["cordons"]
        self.latest = minute if begins else max(minute, self.latest)


def press(view: Live, clock: Clock) -> Scene:
    """Cordon the link that is chosen, in the latest minute that was seen."""
    values = view.values
    game = game_of(values["seed"], values["cordons"])
    if not game.is_over and values["link"] not in cordoned_from(game, MINUTES):
        word = f"{clock.latest}:{values['link']}"
        view.set(cordons=f"{values['cordons']} {word}".strip())
    return view.scene


def game_of(seed: int, cordons: str) -> Game:
    """Return the state of a game."""
    seen, sick, onset = played(seed)
    return Game(seen, sick, onset, read_cordons(cordons, len(seen.names)))


def game_scene(counter: str, minute: int, link: int, seed: int, cordons: str) -> Scene:
    """Return a line for each link up to the present minute, and beside it what was cordoned."""
    game = game_of(seed, cordons)
    said = game_words(game, minute)
    values = game.seen.values[counter][:minute]
    return Scene(
        said,
        counter_table(game, counter, minute),
        {**axis_layers(game, counter, minute), **line_layers(game, counter, values, link)},
        _HEIGHT,
        alt=f"{said} {setting_words(game, counter, link)}",
        hint=text("live.sick_link.hint"),
        pressed=pressed_words(game, link),
        width=_WIDTH,
        side=list_scene(game, counter, minute, link),
    )


# Words ------------------------------------------------------------------------------------------


def game_words(game: Game, minute: int) -> str:
    """Return how the search stands."""
    key = "lost" if game.is_over else "going"
    if game.found >= 0:
        key = "found" if game.found >= game.onset else "early"
    return text(
        f"live.sick_link.{key}",
        minute=minute,
        name=link_words(game, game.sick),
        cause=game.seen.causes[0].kind,
        late=game.late,
        wrong=game.wrong,
        score=game.score,
        price=PRICE,
        used=len(game.cordons),
        clicks=CLICKS,
    )


def pressed_words(game: Game, link: int) -> dict[str, str]:
    """Return what the button says once there is nothing left to cordon: the link is out, or the game is over."""
    is_out = link in cordoned_from(game, MINUTES)
    if not is_out and not game.is_over:
        return {}
    word = text("live.sick_link.is_out" if is_out else "live.sick_link.over")
    return {text("live.sick_link.cordon"): word}


def setting_words(game: Game, counter: str, link: int) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.sick_link.chosen",
        counter=text(f"live.sick_link.{counter}"),
        link=link,
        name=link_words(game, link),
    )


def link_words(game: Game, link: int) -> str:
    """Return the name of a link as a picture shows it, such as "host 4 → leaf 2"."""
    return game.seen.names[link].replace(" -> ", " → ")


def is_degrees(counter: str) -> bool:
    """Return whether a counter is a temperature, of which differences mean something and ratios do not."""
    return counter == "temperature"


def grown(game: Game, counter: str, minute: int) -> Floats:
    """Return by how much each link's mean of the last five minutes is above that of its first ten. (L,).

    Of a count it is the ratio, for which a mean below 1 counts as 1; of a temperature the difference [deg C].
    """
    values = game.seen.values[counter][:minute]
    first = values[:_FIRST].mean(axis=0)
    last = values[-_LAST:].mean(axis=0)
    if is_degrees(counter):
        return np.asarray(last - first)
    return np.asarray(last / np.maximum(first, 1.0))


def most_grown(game: Game, counter: str, minute: int) -> Ints:
    """Return the places of all links, the one that has grown most first."""
    return np.argsort(-grown(game, counter, minute), kind="stable").astype(np.int64)


def counter_table(game: Game, counter: str, minute: int) -> Table:
    """Return a row for each link: its last sample, its first ten minutes, its last five, and how far it has grown."""
    values = game.seen.values[counter][:minute]
    order = most_grown(game, counter, minute)
    growth = "grown by [deg C]" if is_degrees(counter) else "times"
    return Table(
        {
            "link": order,
            "name": [link_words(game, k) for k in order],
            "last sample": values[-1][order],
            "mean of the first ten": values[:_FIRST].mean(axis=0)[order],
            "mean of the last five": values[-_LAST:].mean(axis=0)[order],
            growth: grown(game, counter, minute)[order],
        }
    )


# Layers -----------------------------------------------------------------------------------------


def axis_ends(game: Game, counter: str) -> tuple[float, float]:
    """Return the ends of the axis of a counter, the same in every minute."""
    values = game.seen.values[counter]
    if is_degrees(counter):
        return 30.0, 100.0  # deg C
    return _LEAST, max(10.0, 2.0 * float(values.max()))


def shown(values: Floats) -> Floats:
    """Return samples as they are drawn: a count of 0 has a place of its own below 1."""
    return np.maximum(values, _LEAST)


def count_name(value: float) -> str:
    """Return the name of a tick, short enough for the margin: 100, 1,000, 100,000, 1 M, 10 G."""
    for factor, letter in ((1e9, " G"), (1e6, " M")):
        if value >= factor:
            return f"{value / factor:.0f}{letter}"
    return f"{value:,.0f}"


def last_minute(minute: int) -> float:
    """Return where the time axis ends: at the next half hour, so that what has been seen fills it."""
    return common_ends("minutes", 0.0, min(_HALF_HOUR * np.ceil(minute / _HALF_HOUR), MINUTES))[1]


def axis_layers(game: Game, counter: str, minute: int = MINUTES) -> dict[str, Layer]:
    """Return grid, ticks and titles of both axes."""
    left, top, wide, high = _PLOT
    low, most = axis_ends(game, counter)
    at = log_axis(low, most, top + high, top)
    decades = np.floor(np.log10(most))
    ticks = 10.0 ** np.arange(0, decades + 1, 2 if decades > 4 else 1)
    if is_degrees(counter):
        ticks = np.array([40.0, 60.0, 80.0])
    last = last_minute(minute)
    across = log_axis(0, last, left, left + wide)
    layers = tick_layers(ticks, at, count_name, (left, left + wide), across=False)
    minutes = np.arange(0.0, last + 1, _HALF_HOUR if last > 2 * _HALF_HOUR else _HALF_HOUR / 3)
    layers |= tick_layers(
        minutes, across, lambda value: f"{value:.0f} min", (top, top + high), across=True
    )
    layers["title"] = heading(
        16.0, text("live.sick_link.axis", counter=text(f"live.sick_link.{counter}"))
    )
    return layers


def line_layers(game: Game, counter: str, values: Floats, link: int) -> dict[str, Layer]:
    """Return a grey line for each link, the chosen one in ink with dots, and a hatched box where one was cordoned.

    The dots tell it from a line that somebody points at, which is in ink as well.
    """
    left, top, wide, high = _PLOT
    low, most = axis_ends(game, counter)
    at = log_axis(low, most, top + high, top)
    across = log_axis(0, last_minute(len(values)), left, left + wide)
    x = across(np.arange(1, len(values) + 1))
    paths = [np.stack([x, at(shown(values[:, k]))], axis=1) for k in range(values.shape[1])]
    names = [
        text("live.sick_link.named", link=k, name=link_words(game, k)) for k in range(len(paths))
    ]
    notes = [f"{value:,.4g}" for value in values[-1]]
    out = cordoned_from(game, len(values))
    chosen = paths[link][: out.get(link, len(values))]  # a line out of service is plain again
    dots = chosen[::-_DOT][::-1]  # the last sample has one
    ends = np.array([paths[k][minute - 1] for k, minute in out.items()]).reshape(-1, 2)
    return {
        "links": lines(paths, width=1.0, colour=COLOUR["edge"], names=names, notes=notes),
        "chosen": lines([chosen], width=2.2, colour=COLOUR["ink"]),
        "dots": Layer(
            "dots", {"x": dots[:, 0], "y": dots[:, 1], "size": 4.0, "colour": COLOUR["ink"]}
        ),
        "cordoned": boxes(
            ends[:, 0] - _OUT / 2,
            ends[:, 1] - _OUT / 2,
            _OUT,
            _OUT,
            colour=COLOUR["paper"],
            edge=COLOUR["ink"],
            hatch=1.0,
            names=[link_words(game, k) for k in out],
            notes=[text("live.sick_link.out", minute=minute) for minute in out.values()],
        ),
    }


def cordoned_from(game: Game, minutes: int) -> dict[int, int]:
    """Return the links that are out of service by a minute, and since which minute each of them is."""
    out: dict[int, int] = {}
    for cordon in game.cordons:
        if cordon.minute <= minutes:
            out.setdefault(cordon.link, max(cordon.minute, 1))
    return out


def list_scene(game: Game, counter: str, minute: int, link: int) -> Scene:
    """Return the chosen link, the three links that have grown most, and the cordons."""
    order = most_grown(game, counter, minute)[:3]
    by = grown(game, counter, minute)
    unit = "degrees" if is_degrees(counter) else "times"
    rows = [text("live.sick_link.dots", link=link, name=link_words(game, link)), ""]
    rows.append(text(f"live.sick_link.loudest_{unit}"))
    for k in order:
        name = link_words(game, k)
        rows.append(text(f"live.sick_link.loud_{unit}", link=k, name=name, value=float(by[k])))
    rows += ["", text("live.sick_link.cordoned", used=len(game.cordons), clicks=CLICKS)]
    y = 24.0 + 22.0 * np.arange(len(rows))
    is_bold = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    below = y[-1] + 14.0 + 15.0 * np.arange(len(game.cordons))
    done = [
        text("live.sick_link.done", minute=c.minute, name=link_words(game, c.link))
        for c in game.cordons
    ]
    is_right = [game.is_right(cordon) for cordon in game.cordons]
    layers = {
        "words": texts(EDGE, y, rows, size=13.0, bold=np.array(is_bold)),
        "cordons": texts(
            30.0,
            below + 8,
            done,
            size=12.0,
        ),
        "marks": boxes(
            EDGE,
            below,
            12.0,
            12.0,
            colour=np.where(is_right, COLOUR["right"], COLOUR["paper"]),
            edge=np.where(is_right, COLOUR["right"], COLOUR["ink"]),
            hatch=np.where(is_right, 0.0, 1.0),
        ),
    }
    return Scene("", layers=layers, height=_HEIGHT, width=_SIDE)
