"""Live collective stepper: packets run along links, and then the blocks change to which they are added or copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import collectives, topologies, units
from fabriclab.core import Fabric, Flags, Floats, Ints, Schedule, StepGroup
from fabriclab.look import algorithm as look_of
from fabriclab.lower import lower
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES
from fabriclab.views.layout import counted
from fabriclab.views.live.stepper_places import (
    HIGH,
    WIDE,
    Places,
    block_of,
    block_words,
    cells_of,
    number_width,
    places_of,
    places_on_fabric,
    rows_of,
)
from fabriclab.views.live.widget import Control, Live, Slider, Table, live_view
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, ink_on, lines, texts

_MOST_RANKS = 16
_MOST_CELLS = 256  # cells of a rank, enough for a block for each pair of ranks

# Packets, in px. Where there are many, they are small and have no number.
_PACKET_HEIGHT = 16.0
_PACKET_WIDTH = 20.0
_LETTER = 7.0
_MOST_LABELS = 40

# The legend below the picture, in px.
_LEGEND = 22.0
_LEAST_FILL = 2.5  # of a bar that has anything, so that it is seen [px]
_SAMPLE_WIDE, _SAMPLE_HIGH = 10.0, 13.0

_FRAMED = 4.0  # px; bars as wide as this get a frame when they change

# The list of steps, in px.
_LIST_WIDTH = 300.0
_LIST_ROW = 21.5
_LIST_TOP = 16.0
_MOST_ROWS = 16  # steps and heads


# The view ---------------------------------------------------------------------------------------


def stepper(
    collective: str,
    algorithm: str,
    n_ranks: int = 4,
    *,
    fabric: Fabric | None = None,
    root: int = 0,
    segments: int = 1,
    pipelined: bool = False,
    switches: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    step: int = 0,
) -> Live:
    """Step through any registered algorithm: which block goes where, and what each GPU and switch then has.

    The number below a bar is that of its block. A bar is filled as far as its sum has come and has a frame if the last
    step changed it. The plate on a link says which block the link carried or, where the array is not cut into blocks,
    how many arrays its sum has; the read-out says both. In the table, rank r begins with the number r + 1 in each of
    its blocks. When packets of the same block meet in a switch, they become one.

    Parameters
    ----------
    collective, algorithm, n_ranks, root, segments, pipelined, options
        As in `fabriclab.simulate`, with at most 16 ranks, and 256 blocks times segments. Where there is no room for
        all blocks of a GPU, neighbours share a bar, which shows their mean.
    fabric : Fabric, optional
        Network on whose links the packets move, with at most 200 nodes; by default only those who send to each other
        are joined.
    switches : array_like, shape (n_switches,), optional
        Node for each switch of the schedule that adds or multicasts, as in `fabriclab.lower.lower`; by default all are
        at the first of the switches farthest from the endpoints.
    step : int
        Step to show first; 0 is before the first step.

    Raises
    ------
    ValueError
        If there are too many ranks, cells or nodes to be readable.
    """
    cut = {"segments": segments, "pipelined": pipelined, **(options or {})}
    plan = collectives.build(collective, algorithm, n_ranks, root=root, **cut)
    stage = prepare(plan, fabric, switches)

    listed = plan.draw(first=1)
    if plan.n_switches:
        listed += text("live.stepper.listed", n=n_ranks)
    arguments = {
        "collective": collective,
        "algorithm": algorithm,
        "n_ranks": n_ranks,
        "fabric": fabric,
        "root": root,
        "segments": segments,
        "pipelined": pipelined,
        "switches": switches,
        "options": options,
        "step": step,
    }
    controls: dict[str, Control] = {"step": Slider(0, plan.n_steps, play=True)}
    scene = partial(stepper_scene, stage)
    return live_view("stepper", arguments, scene, controls, listed=listed)


class Row(NamedTuple):
    """What one GPU does in a step."""

    step: int
    sends: str
    gets: str
    phase: str  # "reduce-scatter: pass on and add"
    arrays: int  # in the sums that it sends; 0 where it sends nothing, or nothing is added


class Further(NamedTuple):
    """A row of the list that stands for all further steps before or after those shown."""

    words: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What stays the same from step to step: the schedule with its states, the place of everything, and the list."""

    show: Played
    places: Places
    rows: list[Row]  # of all steps
    hue: float


def prepare(plan: Schedule, fabric: Fabric | None, switches: ArrayLike | None) -> Stage:
    """Return a schedule, on a fabric if there is one, with the states after all steps and the layout of the picture.

    Raises
    ------
    ValueError
        If there are too many ranks, cells or nodes to be readable, or the schedule does not fit the fabric.
    """
    more = "of a stepper (schedule.draw() shows more)"
    units.count(plan.n_ranks, f"ranks {more}", 1, _MOST_RANKS)
    units.count(plan.n_blocks * plan.segments, f"blocks times segments {more}", 1, _MOST_CELLS)
    if fabric is None and switches is not None:
        # Without a fabric switches have no nodes: those of a star, so that a wrong number of them is refused.
        fabric = topologies.build("crossbar", hosts=max(2, plan.n_ranks))
    if fabric is not None:
        units.count(fabric.n_ranks, "endpoints of fabric", plan.n_ranks)
        units.count(fabric.n_nodes, "nodes of fabric", 1, MOST_NODES)
    show = played(plan)
    if fabric is None:
        places = places_of(plan, show.steps)
    else:
        places = places_on_fabric(plan, show.steps, fabric, nodes_of(plan, fabric, switches))
    return Stage(show, places, list_of_steps(show), look_of(plan.algorithm).colour)


def nodes_of(plan: Schedule, fabric: Fabric, switches: ArrayLike | None) -> Ints:
    """Return the node of each participant: ranks, then switches, (P,).

    The switches of the schedule are at the nodes ``switches``, or by default all at the first of the switches farthest
    from the endpoints.
    """
    if switches is None:
        farthest = np.argmax(fabric.transit * (fabric.tier + 1.0))
        switch_nodes = np.full(plan.n_switches, farthest)
    else:
        switch_nodes = np.asarray(switches)
    lower(plan, fabric, 0.0, switches=switch_nodes)  # raises if the schedule does not fit
    return np.append(fabric.endpoint[: plan.n_ranks], switch_nodes.astype(np.int64))


def stepper_scene(stage: Stage, step: int) -> Scene:
    """Return the picture after ``step`` steps."""
    show = stage.show
    group = show.steps[step - 1] if step else None  # the last step done
    states = show.states_after(step)
    packets = packets_of(stage, step, group)
    below = dict(stage.places.below)
    nodes = {"nodes": below.pop("nodes")} if below else {}
    layers = {
        **below,
        "links": link_layer(stage),
        "loaded": loaded_layer(stage, packets),
        **nodes,
        **card_layers(stage),
        **bar_layers(stage, states, group),
        "heads": head_layer(stage, packets),
        "labels": label_layer(stage, packets),
        **middle_layers(stage, step),
        **legend_layers(stage),
        "movers": mover_layer(stage, packets),
    }
    caption = caption_after(show, step, states)
    moves = "" if group is None else moves_in_words(show, group)
    return Scene(
        said=caption,
        table=states_table(show, states),
        layers=layers,
        height=HIGH + _LEGEND,
        width=WIDE,
        alt=f"{caption} {moves}",
        moves=group is not None,
        hint=hint_of(show, step),
        side=side_panel(stage, step),
    )


def hint_of(show: Played, step: int) -> str:
    """Return what a bar means, and what the numbers of blocks mean where a block is cut into segments."""
    hint = text("live.stepper.hint" if show.adds else "live.stepper.hint_copy")
    if show.plan.segments > 1 and step:  # before the first step the sentence on top says it
        hint = f"{hint} {parts_words(show.plan)}"
    return hint


# Playing a schedule -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CellStates:
    """The contents of all cells at one moment: arrays with the cells of each participant in turn."""

    value: NDArray[Any]  # the number in the cell
    filled: Flags  # whether the cell has a number
    share: Floats  # fraction of all ranks that have contributed, 0..1


@dataclass(frozen=True, slots=True)
class Played:
    """A schedule with the states of all cells before the first step and after each."""

    plan: Schedule
    steps: list[StepGroup]
    value: NDArray[Any]  # (steps + 1, P, segments, blocks) number in each cell
    filled: Flags  # of the same shape
    ranks: Ints  # of the same shape; bit r: rank r has contributed

    @property
    def rows(self) -> int:
        """Number of cells of each participant: one for each block of each segment."""
        return rows_of(self.plan)

    @property
    def adds(self) -> bool:
        """Whether any step adds."""
        return any(step.reduce.any() for step in self.steps)

    @property
    def participants(self) -> list[str]:
        """Names of all ranks and switches."""
        return [self.name(participant) for participant in range(self.plan.n_participants)]

    @property
    def blocks(self) -> list[str]:
        """Names of the cells of a participant, segment by segment."""
        plan = self.plan
        names = []
        for segment in range(plan.segments):
            for block in range(plan.n_blocks):
                names.append(block_words(plan, block, segment))
        return names

    def name(self, participant: int) -> str:
        """Return the name of a rank or switch."""
        n_ranks = self.plan.n_ranks
        if participant < n_ranks:
            return text("live.stepper.rank", r=participant)
        return text("live.stepper.switch", r=participant - n_ranks)

    def states_after(self, step: int) -> CellStates:
        """Return the contents of all cells after ``step`` steps."""
        return CellStates(
            value=self.value[step].ravel(),
            filled=self.filled[step].ravel(),
            share=np.bitwise_count(self.ranks[step].ravel()) / self.plan.n_ranks,
        )


def played(plan: Schedule) -> Played:
    """Return a schedule with the states of all cells after each step; rank r begins with r + 1 in each block."""
    n_ranks = plan.n_ranks
    value, filled = collectives.trace(plan, np.arange(1, n_ranks + 1))
    ranks, _ = collectives.trace(plan, 1 << np.arange(n_ranks), np.bitwise_or)
    return Played(plan=plan, steps=list(plan.steps()), value=value, filled=filled, ranks=ranks)


# Boxes and their blocks --------------------------------------------------------------------------


def written_cells(show: Played, group: StepGroup) -> Flags:
    """Return which cells a step writes, (P, rows)."""
    n_blocks = show.plan.n_blocks
    written = np.zeros((show.plan.n_participants, show.rows), dtype=bool)
    transfers = zip(group.target, group.first, group.count, group.segment, strict=True)
    for target, first, count, segment in transfers:
        blocks = (first + np.arange(count)) % n_blocks
        written[target, blocks + segment * n_blocks] = True
    return written


def link_layer(stage: Stage) -> Layer:
    """Return all links that any step uses, as hairlines; on a given fabric these are its cables."""
    if stage.places.below:
        return lines([])
    drawn = list(stage.places.paths.values())
    return lines(drawn, width=0.8, colour=COLOUR["hair"])


def card_layers(stage: Stage) -> dict[str, Layer]:
    """Return the boxes of GPUs and switches with their names."""
    cards = stage.places.cards
    inset = np.minimum(8.0, cards.w / 8)
    frame = np.where(cards.is_switch, COLOUR["switch"], COLOUR["edge"])
    face = np.where(cards.is_switch, COLOUR["domain"], COLOUR["paper"])
    return {
        "cards": boxes(cards.x, cards.y, cards.w, cards.h, colour=face, edge=frame, round=6.0),
        "names": texts(cards.x + inset, cards.y + 11, cards.names, bold=1.0),
    }


def bar_layers(stage: Stage, states: CellStates, group: StepGroup | None) -> dict[str, Layer]:
    """Return the blocks of all boxes, filled as far as their sums have come; what the last step did has a frame."""
    show = stage.show
    bars = stage.places.bars
    share = shares_of(show, states)
    written = np.zeros(share.size, dtype=bool)
    if group is not None:
        written = written_cells(show, group).ravel()
    filled = np.array([share[cells].mean() for cells in bars.cells])
    changed = np.array([written[cells].any() for cells in bars.cells])
    height = np.where(filled > 0, np.maximum(bars.full * filled, _LEAST_FILL), 0.0)
    framed = np.flatnonzero(changed & (bars.w >= _FRAMED))
    numbered = numbered_bars(stage, changed)
    corner = 1.5
    return {
        "empty": boxes(bars.x, bars.top, bars.w, bars.full, colour=COLOUR["line"], round=corner),
        "blocks": boxes(
            bars.x,
            bars.bottom - height,
            bars.w,
            height,
            colour=stage.hue,
            alpha=np.where(changed, 1.0, 0.5),
            round=corner,
            late=True,
        ),
        "changed": boxes(
            bars.x[framed],
            bars.top[framed],
            bars.w[framed],
            bars.full[framed],
            colour=COLOUR["none"],
            edge=COLOUR["ink"],
            round=corner,
            late=True,
        ),
        "numbers": texts(
            bars.x[numbered] + bars.w[numbered] / 2,
            bars.bottom[numbered] + 8,
            [block_of(show.plan, int(bars.cells[bar][0])) for bar in numbered],
            align=1.0,
            size=11.0,
            bold=changed[numbered].astype(float),
            colour=np.where(changed[numbered], COLOUR["ink"], COLOUR["soft"]),
            late=True,
        ),
        # Without a colour, as large as full bars, so that empty ones can be read, too.
        "cells": boxes(
            bars.x,
            bars.top,
            bars.w,
            bars.full,
            colour=COLOUR["none"],
            names=bar_names(stage),
            notes=bar_notes(stage, states),
        ),
    }


def numbered_bars(stage: Stage, changed: Flags) -> Ints:
    """Return the bars that have the number of their block below: all, or where they would meet, a few of each box.

    Those are the first and the last of what has changed, and the ends of the box as far as they stay apart.
    """
    bars = stage.places.bars
    found = np.flatnonzero(bars.numbered & ~bars.crowded).tolist()
    for card in np.unique(bars.card[bars.numbered & bars.crowded]):
        inside = np.flatnonzero(bars.card == card)
        apart = number_width(stage.show.plan, stage.places.cards.cells[card]) + 3
        here = inside[changed[inside]]
        kept: list[int] = []
        for bar in [*here[:1].tolist(), *here[-1:].tolist(), int(inside[0]), int(inside[-1])]:
            if all(abs(bars.x[bar] - bars.x[other]) >= apart for other in kept):
                kept.append(bar)
        found += kept
    return np.array(sorted(found), dtype=np.int64)


def shares_of(show: Played, states: CellStates) -> Floats:
    """Return how full each cell is, 0..1: by the arrays in its sum or, where nothing is added, all or nothing."""
    if show.adds:
        return np.asarray(np.where(states.filled, states.share, 0.0))
    return np.asarray(states.filled, dtype=np.float64)


def bar_names(stage: Stage) -> list[str]:
    """Return the name of each bar: its GPU or switch, and its blocks."""
    names = cell_names(stage.show)
    found = []
    for cells in stage.places.bars.cells:
        name = names[cells[0]]
        found.append(name if cells.size == 1 else f"{name} .. {names[cells[-1]]}")
    return found


def bar_notes(stage: Stage, states: CellStates) -> list[str]:
    """Return the contents of each bar in words."""
    notes = cell_notes(stage.show, states)
    found = []
    for cells in stage.places.bars.cells:
        if cells.size == 1:
            found.append(notes[cells[0]])
        else:
            n = int(np.count_nonzero(states.filled[cells]))
            found.append(text("live.stepper.folded", n=n, all=cells.size))
    return found


def cell_names(show: Played) -> list[str]:
    """Return the name of each cell, participant by participant."""
    names = []
    blocks = show.blocks
    for participant in show.participants:
        for block in blocks:
            names.append(text("live.stepper.cell", who=participant, b=block))
    return names


def cell_notes(show: Played, states: CellStates) -> list[str]:
    """Return the contents of each cell in words."""
    notes = []
    for value, share, filled in zip(states.value, states.share, states.filled, strict=True):
        if filled:
            ranks = round(show.plan.n_ranks * share)
            notes.append(text("live.stepper.holds", value=value, n=ranks))
        else:
            notes.append(text("live.stepper.empty"))
    return notes


def states_table(show: Played, states: CellStates) -> Table:
    """Return a table with a row for each cell: its number, and how many ranks have contributed to it."""
    plan = show.plan
    participants: Any = np.arange(plan.n_ranks)
    if plan.n_switches:
        ranks = [str(rank) for rank in range(plan.n_ranks)]
        participants = ranks + show.participants[plan.n_ranks :]
    cell = np.tile(np.arange(show.rows), plan.n_participants)
    segment, block = np.divmod(cell, plan.n_blocks)
    ranks_in_cell = np.where(states.filled, plan.n_ranks * states.share, 0)
    columns = {
        "rank": np.repeat(participants, show.rows),
        "block": block,
        "segment": segment if plan.segments > 1 else np.nan * segment,  # NaN: not shown
        "holds": np.where(states.filled, states.value, 0),
        "from ranks": ranks_in_cell.astype(int),
    }
    return Table(columns)


# Packets ----------------------------------------------------------------------------------------


class Packet(NamedTuple):
    """All blocks that one box sends to another in a step; they travel together."""

    link: tuple[int, int]
    way: Floats  # (P, 2), from block to block [px]
    words: str  # which block it carries or, if there is only one, how many arrays its sum has
    note: str  # both in a sentence


def packets_of(stage: Stage, step: int, group: StepGroup | None) -> list[Packet]:
    """Return the packets of a step."""
    if group is None:
        return []
    show = stage.show
    places = stage.places
    source = cells_of(show.plan, group.source, group)
    target = cells_of(show.plan, group.target, group)
    arrays = np.bitwise_count(show.ranks[step - 1].ravel()[source])
    transfers: dict[tuple[int, int], list[int]] = {}
    for i in range(group.n_transfers):
        link = int(places.card_of[source[i]]), int(places.card_of[target[i]])
        transfers.setdefault(link, []).append(i)
    found = []
    for link, members in transfers.items():
        first = members[0]
        note = note_of(show, group, members, arrays)
        way = places.way(int(source[first]), int(target[first]))
        found.append(Packet(link, way, plate_of(show, group, members, arrays), note))
    in_words = [in_full(show, group, packet.words) for packet in found]
    longest = max((len(words) for words in in_words), default=0)
    if not places.has_room(6.0 + _LETTER * longest, _PACKET_HEIGHT):
        return found
    return [packet._replace(words=words) for packet, words in zip(found, in_words, strict=True)]


def plate_of(show: Played, group: StepGroup, members: list[int], arrays: Ints) -> str:
    """Return what the plate of a link says in short: its block, or how many arrays the sum has of which there is one.

    Of several blocks that are no neighbours it says nothing.
    """
    if show.adds and show.rows == 1:
        return str(int(arrays[members].max()))
    names = {chunk_names(show.plan, group)[i] for i in members}
    return names.pop() if len(names) == 1 else ""


def in_full(show: Played, group: StepGroup, words: str) -> str:
    """Return what a plate says in words, such as "block 3"."""
    if not words:
        return ""
    if show.adds and show.rows == 1:
        return text("live.stepper.sum_of", n=words)
    return text("live.stepper.sends_blocks" if "–" in words else "live.stepper.sends", blocks=words)


def note_of(show: Played, group: StepGroup, members: list[int], arrays: Ints) -> str:
    """Return in a sentence what a link carried, and what became of it."""
    names = sorted({chunk_names(show.plan, group)[i] for i in members})
    blocks = text("live.stepper.blocks", list=", ".join(names))
    if len(names) == 1 and group.count[members[0]] == 1:
        blocks = text("live.stepper.block", b=names[0])
    if not show.adds:
        return text("live.stepper.carried", blocks=blocks)
    kind = "added" if group.reduce[members[0]] else "copied"
    n = int(arrays[members].max())
    return text(f"live.stepper.carried_{kind}", blocks=blocks, arrays=counted(n, "array"))


def packet_width(packets: list[Packet]) -> float:
    """Return the width that packets need for their words [px]."""
    longest = max((len(packet.words) for packet in packets), default=0)
    return max(_PACKET_WIDTH, 6.0 + _LETTER * longest)


def loaded_layer(stage: Stage, packets: list[Packet]) -> Layer:
    """Return the links that the last step used."""
    # Each link once: two lines over each other would be darker than the others. Routes over a fabric share cables.
    used = dict.fromkeys(packet.link for packet in packets)
    return lines(
        [stage.places.paths[link] for link in used],
        width=2.5,
        colour=stage.hue,
        alpha=1.0 if stage.places.below else 0.6,
    )


def head_layer(stage: Stage, packets: list[Packet]) -> Layer:
    """Return arrowheads: of a ring one on each link, of anything else where the last step went.

    On a fabric there are none, because a GPU sends and receives over the same cable: there the plates have arrows.
    """
    places = stage.places
    if places.below:
        return lines([])
    used = {packet.link for packet in packets}
    shown = sorted(places.paths) if places.middle is not None else sorted(used)
    return lines(
        [places.head(link) for link in shown],
        width=2.0,
        colour=np.array([stage.hue if link in used else COLOUR["edge"] for link in shown]),
    )


def label_layer(stage: Stage, packets: list[Packet]) -> Layer:
    """Return a plate on each link that says what the last step carried over it."""
    shown = [packet for packet in packets if packet.words]
    if len(shown) > _MOST_LABELS:
        shown = []
    width = packet_width(shown) + (2 * _LETTER if stage.places.below else 0.0)
    size = np.array([width, _PACKET_HEIGHT])
    at = np.empty((0, 2))
    for packet in shown:
        at = np.vstack([at, stage.places.label(packet.link, size, at)])
    cards = stage.places.cards
    names = cards.names
    words = [packet.words for packet in shown]
    if stage.places.below:  # a plate stands beside the box that sends, above it or below
        leaves = ["↓" if cards.is_switch[packet.link[0]] else "↑" for packet in shown]
        words = [f"{packet.words} {arrow}" for packet, arrow in zip(shown, leaves, strict=True)]
    return boxes(
        at[:, 0] - width / 2,
        at[:, 1] - _PACKET_HEIGHT / 2,
        width,
        _PACKET_HEIGHT,
        colour=COLOUR["paper"],
        edge=stage.hue,
        ink=stage.hue,
        texts=words,
        names=[text("live.stepper.link", a=names[a], b=names[b]) for (a, b), *_ in shown],
        notes=[packet.note for packet in shown],
    )


def mover_layer(stage: Stage, packets: list[Packet]) -> Layer:
    """Return the packets of a step on their way; having arrived they are part of the blocks that they changed."""
    many = len(packets) > _MOST_LABELS
    fields = {
        "w": 8.0 if many else packet_width(packets),
        "h": 8.0 if many else _PACKET_HEIGHT,
        "texts": ["" if many else packet.words for packet in packets],
        "colour": stage.hue,
        "ink": float(ink_on(stage.hue)[0]),
        "gone": True,
    }
    return Layer("movers", {**lines([packet.way for packet in packets]).fields, **fields})


def legend_layers(stage: Stage) -> dict[str, Layer]:
    """Return a line below the picture that says what a full bar, a pale bar, its number and a plate mean."""
    show = stage.show
    words = [text("live.stepper.key_changed"), text("live.stepper.key_kept")]
    samples = ["", ""]
    if stage.places.bars.numbered.any():
        words.append(text("live.stepper.key_number"))
        samples.append("3")
    if stage.places.note:
        words.append(stage.places.note)
        samples.append("8")
    plates = show.adds and show.rows == 1
    short = "_short" if stage.places.note else ""
    words.append(text("live.stepper.key_sum" if plates else f"live.stepper.key_plate{short}"))
    wide = np.full(len(words), _SAMPLE_WIDE)
    wide[-1] = _PACKET_WIDTH
    room = wide + 5 + 6.0 * np.array([len(each) for each in words]) + 14
    x = np.maximum(4.0, (WIDE - room.sum()) / 2) + np.concatenate([[0.0], np.cumsum(room)[:-1]])
    y = HIGH + _LEGEND / 2
    plate = np.array([len(words) - 1])
    return {
        "key_cells": boxes(
            x[:2],
            y - _SAMPLE_HIGH / 2,
            _SAMPLE_WIDE,
            _SAMPLE_HIGH,
            colour=COLOUR["line"],
            round=1.5,
        ),
        "key_bars": boxes(
            x[:2],
            y - _SAMPLE_HIGH / 2,
            _SAMPLE_WIDE,
            _SAMPLE_HIGH,
            colour=stage.hue,
            alpha=np.array([1.0, 0.5]),
            round=1.5,
        ),
        "key_frame": boxes(
            x[:1],
            y - _SAMPLE_HIGH / 2,
            _SAMPLE_WIDE,
            _SAMPLE_HIGH,
            colour=COLOUR["none"],
            edge=COLOUR["ink"],
            round=1.5,
        ),
        "key_plate": boxes(
            x[plate],
            y - _PACKET_HEIGHT / 2,
            _PACKET_WIDTH,
            _PACKET_HEIGHT,
            colour=COLOUR["paper"],
            edge=stage.hue,
            ink=stage.hue,
            texts=["3"],
        ),
        "key_number": texts(
            x[2:-1] + _SAMPLE_WIDE / 2,
            y,
            samples[2:],
            align=1.0,
            bold=np.array([float(sample == "8") for sample in samples[2:]]),
            size=11.0,
        ),
        "key_words": texts(x + wide + 5, y, words, size=11.0, colour=COLOUR["soft"]),
    }


def middle_layers(stage: Stage, step: int) -> dict[str, Layer]:
    """Return phase and step in the middle of the picture, where there is room."""
    middle = stage.places.middle
    if middle is None or stage.show.plan.n_ranks < 3:
        return {}
    x, y = middle
    n_steps = stage.show.plan.n_steps
    shown = stage.rows[max(step - 1, 0)] if stage.rows else None
    words = [shown.phase if shown else "", text("live.stepper.count", step=step, steps=n_steps)]
    last = text("live.stepper.begins")
    if step and shown:
        last = text("live.stepper.first_gpu", words=shown.sends)
        if shown.arrays:
            last = text("live.stepper.first_sum", words=last, arrays=counted(shown.arrays, "array"))
    return {
        "phase": texts(x, y - 22, words[:1], align=1.0, size=13.0, bold=1.0),
        "count": texts(x, y, words[1:], align=1.0),
        "first": texts(x, y + 21, [last], align=1.0, colour=COLOUR["soft"]),
    }


# The list of steps ------------------------------------------------------------------------------


def list_of_steps(show: Played) -> list[Row]:
    """Return what GPU 0 does in each step."""
    names = phases_of(show)
    rows = []
    for step, group in enumerate(show.steps, 1):
        sends = what_is_sent(show, group)
        gets = what_is_there(show, step, group, list_room(sends))
        rows.append(Row(step, sends, gets, names[step - 1], arrays_sent(show, step, group)))
    return rows


def phases_of(show: Played) -> list[str]:
    """Return the name of the phase of each step, from what the steps do and from where the sums are then."""
    plan = show.plan
    adding = [bool(step.reduce.any()) for step in show.steps]
    copying = [not step.reduce.all() for step in show.steps]
    if not any(adding):
        return [text("live.stepper.copies", what=plan.collective.replace("_", "-"))] * len(adding)

    first, second = "reduce", "broadcast"
    if plan.n_switches:
        first, second = "in_switch", "from_switch"
    else:
        holders = first_holders(show)  # (P, rows)
        if holders.all() and plan.n_ranks > 1:
            first = "all_reduce"
        elif holders.any(axis=1).all():
            first, second = "reduce_scatter", "all_gather"
        if plan.collective == "reduce_scatter":
            second = "scatter"
    names = []
    for adds, copies in zip(adding, copying, strict=True):
        kind = "both" if adds and copies else first if adds else second
        names.append(text(f"live.stepper.phase.{kind}"))
    return names


def first_holders(show: Played) -> Flags:
    """Return which participants have the complete sum of a block as soon as anybody has it, (P, rows)."""
    contributors = np.bitwise_count(show.ranks).reshape(len(show.steps) + 1, -1, show.rows)
    is_whole = contributors == show.plan.n_ranks  # (steps + 1, P, rows)
    first = np.argmax(is_whole.any(axis=1), axis=0)  # (rows,)
    return np.asarray(is_whole[first, :, np.arange(show.rows)].T)


def what_is_sent(show: Played, group: StepGroup) -> str:
    """Return in words what GPU 0 sends in a step."""
    sent = np.flatnonzero(group.source == 0)
    if not sent.size:
        return text("live.stepper.silent")
    names = {chunk_names(show.plan, group)[i] for i in sent}
    n_receivers = len(set(group.target[sent].tolist()))
    if len(names) > 1:
        return text("live.stepper.sends_many", n=int(group.count[sent].sum()))
    name = names.pop()
    if n_receivers > 1:
        return text("live.stepper.sends_to", blocks=name, n=n_receivers)
    several = group.count[sent[0]] > 1
    return text("live.stepper.sends_blocks" if several else "live.stepper.sends", blocks=name)


def arrays_sent(show: Played, step: int, group: StepGroup) -> int:
    """Return how many arrays the fullest sum has that GPU 0 sends in a step; 0 if it sends none."""
    sent = group.source == 0
    if not show.adds or not sent.any():
        return 0
    cells = cells_of(show.plan, group.source, group)[sent]
    return int(np.bitwise_count(show.ranks[step - 1].ravel()[cells]).max())


def list_room(sends: str) -> float:
    """Return the room that the list of steps has beside what GPU 0 sends in a step [px]."""
    return _LIST_WIDTH - 56 - _LETTER * len(sends)


def what_is_there(show: Played, step: int, group: StepGroup, room: float) -> str:
    """Return in words what GPU 0 has after a step in the blocks that it received, fitted into some room [px]."""
    received = np.flatnonzero(group.target == 0)
    if not received.size:
        return ""
    names = {chunk_names(show.plan, group)[i] for i in received}
    cells = np.flatnonzero(written_cells(show, group)[0])
    if len(names) > 1:
        blocks = [text("live.stepper.number", n=cells.size)]
    elif cells.size > 1:
        name = names.pop()
        blocks = [text("live.stepper.sends_blocks", blocks=name), name]
    else:
        blocks = [text("live.stepper.block", b=names.pop())]
    arrays = np.bitwise_count(show.ranks[step].reshape(show.plan.n_participants, -1)[0, cells])
    if not show.adds:
        kind = "has"
    elif arrays.min() == show.plan.n_ranks:
        kind = "complete"
    else:
        kind = "sum" if arrays.min() == arrays.max() else "up_to"
    said = [text(f"live.stepper.{kind}", blocks=each, n=int(arrays.max())) for each in blocks]
    return next((words for words in said if _LETTER * len(words) <= room), fitted(said[-1], room))


def side_panel(stage: Stage, step: int) -> Scene:
    """Return the list of steps with the present one in ink; of many steps, those around the present one."""
    lines_of_list: list[Row | str] = []
    for before, row in pairwise([None, *stage.rows]):
        if row is not None and (before is None or before.phase != row.phase):
            lines_of_list.append(row.phase)
        if row is not None:
            lines_of_list.append(row)
    here = next(
        (i for i, line in enumerate(lines_of_list) if isinstance(line, Row) and line.step == step),
        0,
    )
    first = int(np.clip(here - _MOST_ROWS // 2, 0, max(0, len(lines_of_list) - _MOST_ROWS)))
    after = first + _MOST_ROWS
    shown: list[Row | str | Further] = [*lines_of_list[first:after]]
    if first > 0:
        last = max(line.step for line in lines_of_list[: first + 1] if isinstance(line, Row))
        shown[0] = Further(text("live.stepper.earlier", last=last))
    if after < len(lines_of_list):
        rest = [line.step for line in lines_of_list[after - 1 :] if isinstance(line, Row)]
        shown[-1] = Further(text("live.stepper.later", first=min(rest)))

    y = _LIST_TOP + _LIST_ROW * (1 + np.arange(len(shown)))
    more = [i for i, line in enumerate(shown) if isinstance(line, Further)]
    words = [line.words for line in shown if isinstance(line, Further)]
    heads = [i for i, line in enumerate(shown) if isinstance(line, str)]
    rows = [i for i, line in enumerate(shown) if isinstance(line, Row)]
    steps = [line for line in shown if isinstance(line, Row)]
    current = np.array([row.step == step for row in steps], dtype=float)
    ink = np.where(current > 0, COLOUR["ink"], COLOUR["soft"])
    at = y[rows]
    marked = at[current > 0]
    phases = [str(shown[i]) for i in heads]
    gets = [row.gets for row in steps]
    numbers = [str(row.step) for row in steps]
    sends = [row.sends for row in steps]
    layers = {
        "title": list_title(stage.show.adds),
        "row": boxes(8.0, marked - 11, _LIST_WIDTH - 16, 22.0, colour=COLOUR["wash"], round=6.0),
        "heads": texts(16.0, y[heads], phases, bold=1.0, colour=COLOUR["soft"]),
        "steps": texts(32.0, at, numbers, align=2.0, bold=current, colour=ink),
        "sends": texts(40.0, at, sends, bold=current, colour=ink),
        "further": texts(40.0, y[more], words, colour=COLOUR["soft"]),
        "gets": texts(_LIST_WIDTH - 12, at, gets, align=2.0, bold=current, colour=ink),
    }
    return Scene("", layers=layers, height=HIGH, width=_LIST_WIDTH)


def list_title(adds: bool) -> Layer:
    """Return the titles of both columns of the list: what is sent, and what is there then or, without sums, comes."""
    ends = np.array([16.0, _LIST_WIDTH - 12])
    words = [
        text("live.stepper.seen_by"),
        text("live.stepper.then" if adds else "live.stepper.gets"),
    ]
    return texts(ends, _LIST_TOP, words, align=np.array([0.0, 2.0]), bold=1.0)


# Words ------------------------------------------------------------------------------------------


def chunk_names(plan: Schedule, step: StepGroup) -> list[str]:
    """Return the names of the blocks in each chunk of a step, as they are written on it."""
    return list(map(partial(block_words, plan), step.first, step.segment, step.count))


def parts_words(plan: Schedule) -> str:
    """Return what the name of a segment means."""
    return text("live.stepper.parts", name=block_words(plan, 0, 1))


def caption_after(show: Played, step: int, states: CellStates) -> str:
    """Return the sentence after a step: how far the sums have come, and how many blocks have moved."""
    plan = show.plan
    if step == 0:
        key = "live.stepper.before" if show.adds else "live.stepper.before_copy"
        caption = text(key, steps=plan.n_steps)
        if plan.segments > 1:
            caption += f" {parts_words(plan)}"
        return caption

    group = show.steps[step - 1]
    moved = int(group.count.sum())
    added = int(group.count[group.reduce].sum())
    chunk = text("live.stepper.array")
    if show.rows > 1:
        chunk = text("live.stepper.chunk", n=show.rows)
    whole = whole_cells(show, states)
    if not show.adds:
        all_moved = sum(int(other.count.sum()) for other in show.steps[:step])
        state = text("live.stepper.state_moved", n=all_moved)
    elif whole:
        state = text("live.stepper.state_whole", whole=whole, cells=plan.n_ranks * show.rows)
    else:
        most = round(float(np.max(shares_of(show, states)) * plan.n_ranks))
        state = text("live.stepper.state_sum", most=most, ranks=plan.n_ranks)
    if not moved:
        return text("live.stepper.still", step=step, steps=plan.n_steps, state=state)
    return text(
        "live.stepper.said",
        step=step,
        steps=plan.n_steps,
        state=state,
        chunk=chunk,
        moved=moved_in_words(added, moved - added),
    )


def moved_in_words(added: int, copied: int) -> str:
    """Return how many blocks a step added and copied, one of them at least; what it did not do is not said."""
    kind = "both" if added and copied else "added" if added else "copied"
    blocks = {"added": counted(added, "block"), "copied": counted(copied, "block")}
    return text(f"live.stepper.moved_{kind}", **blocks)


def whole_cells(show: Played, states: CellStates) -> int:
    """Return how many cells of ranks have contributions from every rank."""
    of_ranks = slice(0, show.plan.n_ranks * show.rows)
    contributors = np.round(states.share[of_ranks] * show.plan.n_ranks)
    return int(np.sum(states.filled[of_ranks] & (contributors == show.plan.n_ranks)))


def moves_in_words(show: Played, group: StepGroup) -> str:
    """Return in words who sends what to whom in a step."""
    names = chunk_names(show.plan, group)
    moves = []
    for source, target, name, count, reduce in zip(
        group.source, group.target, names, group.count, group.reduce, strict=True
    ):
        move = text(
            "live.stepper.moves" if count > 1 else "live.stepper.move",
            source=show.name(source),
            target=show.name(target),
            blocks=name,
        )
        if reduce:
            move += text("live.stepper.added")
        moves.append(move)
    return "; ".join(moves)
