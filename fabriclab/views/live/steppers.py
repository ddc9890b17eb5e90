"""Live collective stepper: chunks move over a fabric, and their values are added or copied where they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import collectives, routing, topologies, units
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Schedule, StepGroup
from fabriclab.lower import lower
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES
from fabriclab.views.layout import Marks, lines_of, marks_of, paths_of
from fabriclab.views.live.widget import Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, WIDTH, Layer, Scene, boxes, ink_on, lines, shade, texts

_MOST_RANKS = 16
_MOST_CELLS = 256  # cells of a rank, enough for a block for each pair of ranks

# The network, in px: rows of nodes from the switches down to the endpoints.
_LEFT = 72.0  # room for the names of the blocks
_TOP = 34.0
_ROW = 62.0
_BELOW_NETWORK = 46
_NODE_HEIGHT = 22.0
_NARROWEST_COLUMN = 36  # nodes closer together have no room for cells below them

# Cells below the network, in px: a column for each participant, a row for each block.
_CELL = 20.0
_ALL_CELLS = 512.0  # greatest total height of a rank's cells
_READABLE_CELL = 14.0  # least height of a cell that shows a number
_WIDEST_CELL = 64.0
_LETTER = 7.7
_BETWEEN_BANDS = 30  # room for the heads of the switches' columns

# Chunks, in px. Between steps they rest in piles, above the cells of a rank or above a switch.
_CHUNK_HEIGHT = 17.0
_CHUNK_GAP = 3.0
_ABOVE_CELLS = 25.0
_SINGLE = 3  # so many chunks of a rank are stacked before its pile gets wider
_COLUMNS_ASIDE = 12  # columns of a pile on each side of its middle
_LEVEL_OF_RANKS = -9  # all ranks share one level, below all rows of the network


# Places of piles --------------------------------------------------------------------------------


def columns_of_pile() -> list[int]:
    """Return the columns of a pile in the order in which they fill: the middle, then left and right in turn."""
    columns = [0]
    for aside in range(1, _COLUMNS_ASIDE + 1):
        columns += [-aside, aside]
    return columns


def places_at_rank() -> list[tuple[int, int]]:
    """Return row and column of the places above a rank, the best first; from the fourth row on, three are abreast."""
    places = []
    for row in range(2 * _MOST_CELLS):
        width = 1 if row < _SINGLE else 3
        for column in columns_of_pile()[:width]:
            places.append((row, column))
    return places


def places_at_switch() -> list[tuple[int, int]]:
    """Return row and column of the places above a switch, the best first; they fill in pairs of rows."""
    places = []
    for row in range(0, 2 * _MOST_CELLS, 2):
        for column in columns_of_pile():
            places += [(row, column), (row + 1, column)]
    return places


_AT_RANK = places_at_rank()
_AT_SWITCH = places_at_switch()


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
    """Step through any registered algorithm: which chunk goes where, and what each rank and switch then has.

    Rank r begins with the number r + 1 in each of its blocks. A cell shows the present number of a block, and its shade
    shows how many ranks have contributed to it. When chunks of the same block meet in a switch, they become one.

    Parameters
    ----------
    collective, algorithm, n_ranks, root, segments, pipelined, options
        As in `fabriclab.simulate`, with at most 16 ranks, and 256 blocks times segments. Cells show their numbers if
        blocks times segments are at most 36.
    fabric : Fabric, optional
        Network on whose links the chunks move, with at most 200 nodes; by default a crossbar.
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
    drawn_fabric = fabric
    if drawn_fabric is None:
        drawn_fabric = topologies.build("crossbar", hosts=max(2, n_ranks))
    stage = prepare(plan, drawn_fabric, switches)

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


@dataclass(frozen=True, slots=True)
class Stage:
    """What stays the same from step to step: the schedule with its states, and the place of everything."""

    show: Played
    network: NetworkPlaces
    columns: Columns
    cells: CellPlaces


def prepare(plan: Schedule, fabric: Fabric, switches: ArrayLike | None) -> Stage:
    """Return a schedule on a fabric, with the states after all steps and the layout of the picture.

    Raises
    ------
    ValueError
        If there are too many ranks, cells or nodes to be readable, or the schedule does not fit the fabric.
    """
    more = "of a stepper (schedule.draw() shows more)"
    units.count(plan.n_ranks, f"ranks {more}", 1, _MOST_RANKS)
    units.count(plan.n_blocks * plan.segments, f"blocks times segments {more}", 1, _MOST_CELLS)
    units.count(fabric.n_ranks, "endpoints of fabric", plan.n_ranks)
    units.count(fabric.n_nodes, "nodes of fabric", 1, MOST_NODES)
    show = played(plan, fabric, switches)
    return laid_out(show)


def stepper_scene(stage: Stage, step: int) -> Scene:
    """Return the picture after ``step`` steps."""
    show = stage.show
    group = show.steps[step - 1] if step else None  # the last step done
    states = show.states_after(step)
    layers = {
        **network_layers(show, stage.network),
        **key_layers(),
        **stage.cells.words,
        **cell_layers(stage, states, group),
        "movers": mover_layer(stage, group),
    }
    caption = caption_after(show, step, states)
    moves = "" if group is None else moves_in_words(show, group)
    return Scene(
        said=caption,
        table=states_table(show, states),
        layers=layers,
        height=stage.cells.bottom + 8,
        alt=f"{caption} {moves}",
        moves=group is not None,
    )


# Playing a schedule -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CellStates:
    """The contents of all cells at one moment: arrays with the cells of each participant in turn."""

    value: NDArray[Any]  # the number in the cell
    filled: Flags  # whether the cell has a number
    share: Floats  # fraction of all ranks that have contributed, 0..1


@dataclass(frozen=True, slots=True)
class Played:
    """A schedule on a fabric, with the states of all cells before the first step and after each."""

    plan: Schedule
    fabric: Fabric
    node: Ints  # (P,) node of each participant: ranks, then switches
    steps: list[StepGroup]
    value: NDArray[Any]  # (steps + 1, P, segments, blocks) number in each cell
    filled: Flags  # of the same shape
    ranks: Ints  # of the same shape; bit r: rank r has contributed

    @property
    def rows(self) -> int:
        """Number of cells of each participant: one for each block of each segment."""
        return self.plan.n_blocks * self.plan.segments

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
                names.append(plan.block_name(block, segment))
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


def played(plan: Schedule, fabric: Fabric, switches: ArrayLike | None) -> Played:
    """Return a schedule with the states of all cells after each step; rank r begins with r + 1 in each block.

    The switches of the schedule are at the nodes ``switches``, or by default all at the first of the switches farthest
    from the endpoints.
    """
    n_ranks = plan.n_ranks
    if switches is None:
        farthest = np.argmax(fabric.transit * (fabric.tier + 1.0))
        switch_nodes = np.full(plan.n_switches, farthest)
    else:
        switch_nodes = np.asarray(switches)
    lower(plan, fabric, 0.0, switches=switch_nodes)  # raises if the schedule does not fit

    value, filled = collectives.trace(plan, np.arange(1, n_ranks + 1))
    ranks, _ = collectives.trace(plan, 1 << np.arange(n_ranks), np.bitwise_or)
    return Played(
        plan=plan,
        fabric=fabric,
        node=np.append(fabric.endpoint[:n_ranks], switch_nodes.astype(np.int64)),
        steps=list(plan.steps()),
        value=value,
        filled=filled,
        ranks=ranks,
    )


# Layout -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NetworkPlaces:
    """Places of the nodes and cables of the fabric in the picture. [px]."""

    marks: Marks
    x: Floats  # (M,) middle of each box
    y: Floats  # (M,)
    half_width: Floats  # (M,)
    cables: list[Floats]  # (points, 2) each


@dataclass(frozen=True, slots=True)
class Columns:
    """The place above which the chunks of each participant rest, and its level."""

    x: Floats  # (P,) middle of the pile [px]
    level: Ints  # (P,) level of the pile; piles of one level must not overlap


@dataclass(frozen=True, slots=True)
class Piles:
    """Heights of the highest piles, as negative numbers because y points downwards. [px]."""

    at_ranks: float
    at_switches: float


@dataclass(frozen=True, slots=True)
class CellPlaces:
    """Places of the cells of all participants, and of the lower ends of their piles. [px]."""

    x: Floats  # (P, rows) middle of each cell
    y: Floats  # (P, rows) upper edge
    width: Floats  # (P, rows)
    height: float
    bottom: float
    pile_foot: Floats  # (P,) middle of the lowest chunk of each pile
    words: dict[str, Layer]  # names beside and above the cells

    @property
    def is_readable(self) -> bool:
        """Whether cells have room for their numbers."""
        return self.height >= _READABLE_CELL


def laid_out(show: Played) -> Stage:
    """Return the places of the network, the piles and the cells, from the top to the bottom of the picture."""
    plan = show.plan
    n_ranks = plan.n_ranks
    marks = marks_of(show.fabric, False)
    left = float((marks.x - marks.width / 2).min())
    right = float((marks.x + marks.width / 2).max())
    unit = (WIDTH - _LEFT - 8) / (right - left)  # room for one endpoint [px]
    x = _LEFT + (marks.x - left) * unit  # (M,)

    box = marks.of_node[show.node]  # (P,) box of each participant
    column = rank_columns(x[box[:n_ranks]])
    # Chunks rest above the column of a rank, or above the node of a switch.
    columns = Columns(
        x=np.append(column, x[box[n_ranks:]]),
        level=np.append(np.full(n_ranks, _LEVEL_OF_RANKS), marks.row[box[n_ranks:]]),
    )
    piles = highest_piles(plan, columns, show.steps)

    top = _TOP - piles.at_switches
    if plan.n_switches:
        top += _CHUNK_HEIGHT + _CHUNK_GAP
    last_row = float(marks.row.max())
    y = np.asarray(top + (last_row - marks.row) * _ROW, dtype=np.float64)  # (M,)
    drawn_cables = paths_of(
        marks, lines_of(show.fabric, marks, np.full(show.fabric.n_links, np.nan))
    )
    origin = np.array([left, last_row])
    scale = np.array([unit, -_ROW])
    cables = [(path - origin) * scale + np.array([_LEFT, top]) for path in drawn_cables]
    network = NetworkPlaces(marks, x, y, half_width=marks.width / 2 * unit, cables=cables)

    cells_top = float(y.max()) + _BELOW_NETWORK - piles.at_ranks
    above_switch = y[box[n_ranks:]] - 12 - _CHUNK_GAP - _CHUNK_HEIGHT / 2
    pile_foot = np.append(np.full(n_ranks, cells_top - _ABOVE_CELLS), above_switch)
    cells = cell_places(show, column, cells_top, pile_foot)
    return Stage(show, network, columns, cells)


def rank_columns(below_nodes: Floats) -> Floats:
    """Return the middle of each rank's column of cells: below its node if there is room, else evenly spaced. [px]."""
    if np.all(np.diff(np.sort(below_nodes)) > _NARROWEST_COLUMN):
        return below_nodes
    return evenly(below_nodes.size)


def evenly(n: int) -> Floats:
    """Return the middles of n columns that divide the width evenly [px]."""
    return _LEFT + (WIDTH - _LEFT) * (np.arange(n) + 0.5) / n


def highest_piles(plan: Schedule, columns: Columns, steps: list[StepGroup]) -> Piles:
    """Return the greatest height of piles in any step, at ranks and at switches."""
    at_ranks = 0.0
    at_switches = 0.0
    for step in steps:
        for participants in (step.source, step.target):
            y = resting_places(plan, columns, participants, step)[:, 1]
            is_rank = participants < plan.n_ranks
            at_ranks = min(at_ranks, float(y[is_rank].min(initial=0.0)))
            at_switches = min(at_switches, float(y[~is_rank].min(initial=0.0)))
    return Piles(at_ranks, at_switches)


# Cells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Band:
    """The cells of all ranks, or of all switches, with a column for each participant and a row for each block.

    With only a few switches, ``is_turned`` exchanges the two: each switch has a row, and each block a column.
    """

    heads: list[str]  # names above the columns
    short_heads: list[str]  # names where there is less room
    short_title: str  # said once, to the left of short heads
    sides: list[str]  # names beside the rows
    column: Floats  # middle of each column [px]
    top: float  # [px]
    cell: float  # height of a cell [px]
    is_turned: bool

    @property
    def room(self) -> float:
        """Distance between columns [px]."""
        return float(np.diff(np.sort(self.column)).min(initial=70.0))

    @property
    def width(self) -> float:
        """Width of a cell [px]."""
        return min(self.room - 6, _WIDEST_CELL)

    @property
    def left(self) -> float:
        """Right end of the names beside the rows [px]."""
        return float(self.column.min()) - self.width / 2 - 6

    @property
    def bottom(self) -> float:
        """Lower edge of the last row [px]."""
        return self.top + self.cell * len(self.sides)

    def places(self) -> Floats:
        """Return the middle (x) and the upper edge (y) of each cell, (2, participants, blocks). [px]."""
        row = self.top + self.cell * np.arange(len(self.sides))
        grid = np.array(np.broadcast_arrays(self.column, row[:, None]))  # (2, rows, columns)
        return grid if self.is_turned else grid.transpose(0, 2, 1)

    def head_layer(self) -> Layer:
        """Return the names above the columns or, if they have no room, a title and short names."""
        x = self.column
        align = np.ones(self.column.size)
        words = self.heads
        longest = max(map(len, self.heads))
        if _LETTER * longest > self.room:
            x = np.append(self.left, self.column)
            align = np.append(2, align)
            words = [self.short_title, *self.short_heads]
        return texts(x, self.top - 8, words, align=align, size=11.0)

    def side_layer(self) -> Layer:
        """Return as many of the names beside the rows as have room."""
        middle = self.top + self.cell * (np.arange(len(self.sides)) + 0.5) - 1.5
        every = int(np.ceil(_READABLE_CELL / self.cell))
        shown = slice(every // 2, None, every)
        return texts(self.left, middle[shown], self.sides[shown], align=2.0, size=11.0)


def cell_places(show: Played, column: Floats, top: float, pile_foot: Floats) -> CellPlaces:
    """Return the places of the cells: those of ranks from ``top`` downwards, and those of switches below. [px]."""
    plan = show.plan
    n_ranks = plan.n_ranks
    height = min(_CELL, _ALL_CELLS / show.rows)
    shape = (plan.n_participants, show.rows)
    places = np.zeros((2, *shape))
    width = np.zeros(shape)

    band = band_of_ranks(show, column, top, height)
    places[:, :n_ranks] = band.places()
    width[:n_ranks] = band.width
    words = {"ranks": band.head_layer(), "beside ranks": band.side_layer()}
    if plan.n_switches:
        band = band_of_switches(show, band.bottom + _BETWEEN_BANDS, height)
        places[:, n_ranks:] = band.places()
        width[n_ranks:] = band.width
        words["switches"] = band.head_layer()
        words["beside switches"] = band.side_layer()
    x, y = places
    return CellPlaces(x, y, width, height, band.bottom, pile_foot, words)


def band_of_ranks(show: Played, column: Floats, top: float, cell: float) -> Band:
    """Return the cells of all ranks, with a column for each rank."""
    heads = show.participants[: show.plan.n_ranks]
    return Band(
        heads=heads,
        short_heads=[str(rank) for rank in range(len(heads))],
        short_title=text("live.stepper.ranks"),
        sides=block_heads(show),
        column=column,
        top=top,
        cell=cell,
        is_turned=False,
    )


def band_of_switches(show: Played, top: float, cell: float) -> Band:
    """Return the cells of all switches, with a row for each if there are fewer switches than cells, else a column."""
    switches = show.participants[show.plan.n_ranks :]
    blocks = block_heads(show)
    if len(switches) < show.rows:
        return Band(
            heads=blocks,
            short_heads=show.blocks,
            short_title=text("live.stepper.blocks"),
            sides=switches,
            column=evenly(len(blocks)),
            top=top,
            cell=cell,
            is_turned=True,
        )
    return Band(
        heads=switches,
        short_heads=[str(switch) for switch in range(len(switches))],
        short_title=text("live.stepper.switches"),
        sides=blocks,
        column=evenly(len(switches)),
        top=top,
        cell=cell,
        is_turned=False,
    )


def block_heads(show: Played) -> list[str]:
    """Return the names of the blocks as they are written beside rows."""
    return [text("live.stepper.block", b=name) for name in show.blocks]


def written_cells(show: Played, group: StepGroup) -> Flags:
    """Return which cells a step writes, (P, rows)."""
    n_blocks = show.plan.n_blocks
    written = np.zeros((show.plan.n_participants, show.rows), dtype=bool)
    transfers = zip(group.target, group.first, group.count, group.segment, strict=True)
    for target, first, count, segment in transfers:
        blocks = (first + np.arange(count)) % n_blocks
        written[target, blocks + segment * n_blocks] = True
    return written


def cell_layers(stage: Stage, states: CellStates, group: StepGroup | None) -> dict[str, Layer]:
    """Return all cells with their numbers; cells that the last step wrote have a red edge."""
    cells = stage.cells
    x = cells.x.ravel()
    y = cells.y.ravel()
    width = cells.width.ravel()
    height = cells.height
    corner = 0.0
    edge = None
    numbers = [""] * x.size
    if cells.is_readable:
        height = cells.height - 3
        corner = 3.0
        edge = cell_edges(stage.show, group)
        pairs = zip(states.value, states.filled, strict=True)
        numbers = [str(value) if filled else "" for value, filled in pairs]
    colour = shade(states.share)
    return {
        "cells": boxes(
            x - width / 2,
            y,
            width,
            height,
            edge=edge,
            round=corner,
            names=cell_names(stage.show),
            notes=cell_notes(stage.show, states),
            colour=np.where(states.filled, colour, COLOUR["none"]),
        ),
        "numbers": texts(x, y + cells.height / 2 - 1.5, numbers, align=1.0, colour=ink_on(colour)),
    }


def cell_edges(show: Played, group: StepGroup | None) -> Floats:
    """Return the colour of the edge of each cell, participant by participant."""
    if group is None:
        return np.full(show.plan.n_participants * show.rows, COLOUR["grey"])
    return np.where(written_cells(show, group).ravel(), COLOUR["failed"], COLOUR["grey"])


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


def key_layers() -> dict[str, Layer]:
    """Return the key to the colours of chunks: added or copied."""
    x = np.array([12.0, 112.0])
    colours = np.array([COLOUR["ring"], COLOUR["in_switch"]])
    words = [text("live.stepper.legend_added"), text("live.stepper.legend_copied")]
    return {
        "key": boxes(x, 6.0, 12.0, 12.0, colour=colours),
        "key words": texts(x + 18, 12.0, words, size=11.0),
    }


def network_layers(show: Played, network: NetworkPlaces) -> dict[str, Layer]:
    """Return the cables and nodes of the fabric."""
    is_switch = show.fabric.transit[network.marks.first]  # (M,)
    return {
        "cables": lines(network.cables, width=1.5, colour=COLOUR["grey"], alpha=0.7),
        "nodes": boxes(
            network.x - network.half_width,
            network.y - _NODE_HEIGHT / 2,
            2 * network.half_width,
            _NODE_HEIGHT,
            ink=COLOUR["white"],
            colour=np.where(is_switch, COLOUR["switch"], COLOUR["host"]),
            texts=network.marks.names,
        ),
    }


# Chunks -----------------------------------------------------------------------------------------


def chunk_names(plan: Schedule, step: StepGroup) -> list[str]:
    """Return the names of the blocks in each chunk of a step, as they are written on it."""
    return list(map(plan.block_name, step.first, step.segment, step.count))


def chunk_width(plan: Schedule, step: StepGroup) -> float:
    """Return the width that the chunks of a step need for their names [px]."""
    longest = max(map(len, chunk_names(plan, step)), default=0)
    return max(26.0, 8.0 + 7.0 * longest)


def resting_places(
    plan: Schedule, columns: Columns, participants: NDArray[np.int32], step: StepGroup
) -> Floats:
    """Return the resting places of the chunks of a step at ``participants`` (T,), where none hides another.

    The result (T, 2) is x, and y relative to the lowest row of the pile [px]. A high pile at a rank is three wide. A
    pile above a switch is two high as long as there is room, and chunks of the same block share one place.
    """
    width = chunk_width(plan, step)
    names = chunk_names(plan, step)
    middle = columns.x[participants]
    level = columns.level[participants]
    earlier = earlier_at_same(participants)

    x = np.full(participants.size, np.inf)  # inf: not placed yet
    row = np.zeros(participants.size)
    first_of: dict[tuple[int, str], int] = {}  # switch and block -> its first chunk
    for i in np.lexsort((middle, earlier)):
        is_rank = participants[i] < plan.n_ranks
        if not is_rank:
            first = first_of.setdefault((int(participants[i]), names[i]), i)
            if first != i:
                x[i] = x[first]
                row[i] = row[first]
                continue
        for place_row, column in _AT_RANK if is_rank else _AT_SWITCH:
            wanted = middle[i] + column * (width + _CHUNK_GAP)
            place_x = np.clip(wanted, width / 2, WIDTH - width / 2)
            is_apart = (np.abs(x - place_x) > width + 1) | (row != place_row) | (level != level[i])
            if np.all(is_apart):
                x[i] = place_x
                row[i] = place_row
                break
    return np.stack([x, -row * (_CHUNK_HEIGHT + _CHUNK_GAP)], axis=1)


def earlier_at_same(participants: NDArray[np.int32]) -> Ints:
    """Return for each chunk how many earlier chunks are at the same participant, (T,)."""
    counts = []
    for i, participant in enumerate(participants):
        counts.append(np.count_nonzero(participants[:i] == participant))
    return np.array(counts)


def mover_layer(stage: Stage, group: StepGroup | None) -> Layer:
    """Return the chunks of a step, which move along their links; blue ones will be added, purple ones copied."""
    if group is None:
        return Layer("movers", {**lines([]).fields, "w": 24.0, "h": _CHUNK_HEIGHT})
    plan = stage.show.plan
    start = places_on_page(stage, group.source, group)
    end = places_on_page(stage, group.target, group)
    paths = []
    for i, nodes in enumerate(nodes_on_routes(stage.show, group)):
        box = stage.network.marks.of_node[nodes]
        between = np.stack([stage.network.x[box], stage.network.y[box]], axis=1)
        paths.append(np.vstack([start[i], between, end[i]]))
    fields = {
        "w": chunk_width(plan, group),
        "h": _CHUNK_HEIGHT,
        "texts": chunk_names(plan, group),
        "colour": np.where(group.reduce, COLOUR["ring"], COLOUR["in_switch"]),
    }
    return Layer("movers", {**lines(paths).fields, **fields})


def places_on_page(stage: Stage, participants: NDArray[np.int32], group: StepGroup) -> Floats:
    """Return the resting places of the chunks of a step at ``participants`` in the picture, (T, 2). [px]."""
    places = resting_places(stage.show.plan, stage.columns, participants, group)
    places[:, 1] += stage.cells.pile_foot[participants]
    return places


def nodes_on_routes(show: Played, group: StepGroup) -> list[list[int]]:
    """Return the nodes on the route of each transfer of a step, from its source to its target."""
    source = show.node[group.source]  # (T,)
    target = show.node[group.target]  # (T,)
    nodes = [[int(node)] for node in source]
    leaves = np.flatnonzero(source != target)  # several switches may be at one node
    flows = Flows.make(source[leaves], target[leaves], 1.0)
    routes = routing.route(show.fabric, flows)
    for row, transfer in enumerate(leaves):
        nodes[transfer] += show.fabric.target[routes.row(row)].tolist()
    return nodes


# Words ------------------------------------------------------------------------------------------


def caption_after(show: Played, step: int, states: CellStates) -> str:
    """Return the sentence after a step: how many blocks moved, and how many cells are complete."""
    plan = show.plan
    if step == 0:
        caption = text("live.stepper.before", steps=plan.n_steps)
        if plan.segments > 1:
            caption += " " + text("live.stepper.parts")
        return caption

    group = show.steps[step - 1]
    moved = int(group.count.sum())
    added = int(group.count[group.reduce].sum())
    chunk = text("live.stepper.array")
    if show.rows > 1:
        chunk = text("live.stepper.chunk", n=show.rows)
    caption = text(
        "live.stepper.said",
        step=step,
        steps=plan.n_steps,
        n=moved,
        chunk=chunk,
        added=added,
        copied=moved - added,
    )
    if any(other.reduce.any() for other in show.steps):
        whole = whole_cells(show, states)
        cells = plan.n_ranks * show.rows
        caption += " " + text("live.stepper.whole", ranks=plan.n_ranks, whole=whole, cells=cells)
    return caption


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
