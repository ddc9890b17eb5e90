"""Where everything stands in the picture of a stepper: boxes of GPUs and switches, their blocks, and the links.

A ring stands on an oval, a tree as a tree, GPUs around the switch or the root that all others talk to, switches of
several kinds in rows, and anything else on a circle with chords. On a given fabric GPUs stand below its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import routing
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Schedule, StepGroup
from fabriclab.texts import text
from fabriclab.views.layout import lines_of, marks_of, paths_of
from fabriclab.views.scene import COLOUR, Layer, boxes, lines

WIDE, HIGH = 614.0, 388.0  # of the picture without its side panel [px]
_MARGIN = 6.0  # [px]
_POINTS = 49  # of a curve
_APART_ENOUGH = 0.01  # two neighbours on a path are farther apart [px]

# Boxes, in px: the fewer, the larger.
_SIZES = {8: (96.0, 66.0), 12: (84.0, 58.0), 16: (62.0, 50.0)}
# Exponent of the oval: a larger one has more room at its corners, and longer links.
_BENDS = {4: 2.0, 6: 2.5, 8: 4.5, 16: 3.5}
_HIGHEST = 66.0
_LEAST_LINK = 26.0  # between two levels of a tree
_INWARDS = 0.75  # of the way to the middle of the picture, to which chords bend
_HEAD = 8.0  # length of an arrowhead
_BARE = 26.0  # of a link that stays in sight beside its plate
_BOW = 9.0  # by which the two directions of a chord are apart
_AT_GPU = 0.15  # where on a link to a switch its plate stands, as a part of the way from the GPU
_OTHER_PLACES = (
    0.5,
    0.35,
    0.65,
    0.28,
    0.72,
    0.8,
)  # of a label on its link, where it would hide something
_NAME = 15.0  # height of a name in its box
_INSET = 7.0
_NARROWEST_BAR = 2.2
_LETTER = 6.6
_SMALL_LETTER = 6.6  # of the number of a block
_NUMBERS = 12.0  # height of the numbers below the bars
_NUMBERED = 44.0  # a box as high as this has room for them

# The fabric, in px.
_NODE_HEIGHT = 22.0
_ROW = 120.0

Pair = tuple[int, int]


class Cards(NamedTuple):
    """Boxes of GPUs and switches: their upper left corners, sizes and names, and the cells that each shows."""

    x: Floats  # (C,) [px]
    y: Floats  # (C,)
    w: Floats  # (C,)
    h: Floats  # (C,)
    names: list[str]
    cells: list[
        Ints
    ]  # of each box; a cell is its participant times the cells of each, plus its own number
    is_switch: Flags  # (C,)

    def middle(self, card: int) -> Floats:
        """Return the middle of a box [px]."""
        return np.array([self.x[card] + self.w[card] / 2, self.y[card] + self.h[card] / 2])


class Bars(NamedTuple):
    """The blocks of all boxes, as upright bars; where there is no room for all, a bar stands for several blocks."""

    x: Floats  # (B,) left end [px]
    w: Floats  # (B,)
    top: Floats  # (B,) of a full bar
    bottom: Floats  # (B,)
    cells: list[Ints]  # of each bar
    card: Ints  # (B,) box that each stands in
    numbered: Flags  # (B,) whether the box has room for numbers below its bars
    crowded: Flags  # (B,) whether it has no room for all of them

    @property
    def full(self) -> Floats:
        """Height of each full bar, (B,) [px]."""
        return np.asarray(self.bottom - self.top)


@dataclass(frozen=True, slots=True)
class Places:
    """The place of everything that stays the same from step to step."""

    cards: Cards
    bars: Bars
    bar_of: Ints  # (cells,) bar of each cell
    card_of: Ints  # (cells,) box of each cell
    paths: Mapping[Pair, Floats]  # two boxes -> points of the link from one to the other
    middle: Floats | None = None  # free place for words in the middle of the picture [px]
    label_at: float = 0.5  # where on its link a label stands, between 0 and 1
    crossing: bool = False  # whether links cross each other, so that plates must be short
    meeting: bool = (
        False  # whether links meet at switches, so that a plate stands at the end of its GPU
    )
    note: str = ""  # on names that are short
    below: Mapping[str, Layer] = field(default_factory=dict)  # layers of a given fabric

    def end(self, cell: int) -> Floats:
        """Return the middle of the bar of a cell [px]."""
        bar = self.bar_of[cell]
        bars = self.bars
        return np.array([bars.x[bar] + bars.w[bar] / 2, (bars.top[bar] + bars.bottom[bar]) / 2])

    def head(self, link: Pair) -> Floats:
        """Return the three points of an arrowhead where a link reaches its box, (3, 2) [px]."""
        path = self.paths[link]
        tip = path[-1]
        far = np.hypot(*(path - tip).T)
        before = path[np.flatnonzero(far >= _HEAD)[-1]] if far.max() >= _HEAD else path[0]
        ahead = (tip - before) / max(float(np.hypot(*(tip - before))), 1e-9)
        aside = np.array([-ahead[1], ahead[0]])
        back = tip - _HEAD * ahead
        return np.array([back + 0.55 * _HEAD * aside, tip, back - 0.55 * _HEAD * aside])

    def has_room(self, width: float, height: float) -> bool:
        """Return whether a plate of a width and height [px] leaves something of every link in sight."""
        if self.crossing:
            return False
        spans = np.array([np.ptp(path, axis=0) for path in self.paths.values()]).reshape(-1, 2)
        return bool(np.all(np.any(spans >= [width + _BARE, height + _BARE], axis=1)))

    def label(self, link: Pair, size: Floats, taken: Floats) -> Floats:
        """Return the middle of the label of a link [px], apart from boxes and from the labels at ``taken`` (K, 2).

        On a fabric it stands beside the box that sends.
        """
        path = self.paths[link]
        if self.below:
            return np.asarray((path[0] + path[1]) / 2)
        cards = self.cards
        boxes_x = cards.x + cards.w / 2
        boxes_y = cards.y + cards.h / 2
        label_at = self.label_at
        at_gpu = self.meeting and cards.is_switch[link[0]] != cards.is_switch[link[1]]
        if at_gpu:
            label_at = 1 - _AT_GPU if cards.is_switch[link[0]] else _AT_GPU
        best = path[round(label_at * (len(path) - 1))]
        if at_gpu:  # in the middle of its box, as far as it still lies on its link
            gpu = link[1] if cards.is_switch[link[0]] else link[0]
            middle = np.clip(boxes_x[gpu], best[0] - size[0] / 3, best[0] + size[0] / 3)
            best = np.array([middle, best[1]])
        on_link = [path[round(share * (len(path) - 1))] for share in _OTHER_PLACES]
        for place in (best, *on_link):
            from_labels = np.abs(taken - place)
            hits_label = np.all(from_labels < size + 1, axis=1).any()
            across = np.abs(boxes_x - place[0]) < (cards.w + size[0]) / 2
            along = np.abs(boxes_y - place[1]) < (cards.h + size[1]) / 2
            if not hits_label and not np.any(across & along):
                return np.asarray(place)
        return np.asarray(best)

    def way(self, source_cell: int, target_cell: int) -> Floats:
        """Return the points of the way from a block of one box along the link to a block of another, (P, 2) [px]."""
        link = self.paths[int(self.card_of[source_cell]), int(self.card_of[target_cell])]
        return np.vstack([self.end(source_cell), link, self.end(target_cell)])


class Layout(NamedTuple):
    """Middles and sizes of boxes, before they get names and bars."""

    x: Floats  # (C,) [px]
    y: Floats  # (C,)
    w: Floats  # (C,)
    h: Floats  # (C,)
    participants: list[list[int]]  # of each box
    rows: list[Ints]  # cells of each participant that the box shows
    kind: str  # how links are drawn: "arc", "chord", "straight" or "fall"
    order: tuple[int, ...] = ()  # boxes of a ring, in its order


# Which layout -----------------------------------------------------------------------------------


def rows_of(plan: Schedule) -> int:
    """Return the number of cells of each participant."""
    return plan.n_blocks * plan.segments


def cells_of(plan: Schedule, participants: NDArray[Any], step: StepGroup) -> Ints:
    """Return for each transfer of a step the cell of its first block at ``participants``, (T,)."""
    block = step.segment.astype(np.int64) * plan.n_blocks + step.first
    return np.asarray(participants.astype(np.int64) * rows_of(plan) + block)


def places_of(plan: Schedule, steps: list[StepGroup]) -> Places:
    """Return the places of a schedule that stands for itself, without a fabric."""
    pairs = pairs_of(steps)
    layout = layout_of(plan, steps, pairs)
    cards = cards_of(plan, layout)
    card_of = np.zeros(plan.n_participants * rows_of(plan), dtype=np.int64)
    for card, cells in enumerate(cards.cells):
        card_of[cells] = card

    wanted: set[Pair] = set()
    for step in steps:
        source = card_of[cells_of(plan, step.source, step)].tolist()
        target = card_of[cells_of(plan, step.target, step)].tolist()
        wanted.update(zip(source, target, strict=True))
    paths = {}
    for pair in sorted(wanted):
        paths[pair] = link_between(cards, layout, pair)
    bars, bar_of = bars_of(plan, cards)
    middle = np.array([WIDE / 2, HIGH / 2]) if layout.kind == "arc" else None
    label_at = {"chord": 0.22, "arc": 0.45}.get(layout.kind, 0.5)
    return Places(
        cards,
        bars,
        bar_of,
        card_of,
        paths,
        middle,
        label_at,
        crossing=layout.kind == "chord",
        meeting=layout.kind == "fall" and plan.n_switches > 0,
        note=note_on(cards),
    )


def note_on(cards: Cards) -> str:
    """Return what a number as the name of a box means, if there are any."""
    return text("live.stepper.short") if any(name.isdigit() for name in cards.names) else ""


def pairs_of(steps: Iterable[StepGroup]) -> set[Pair]:
    """Return which participant sends to which in any step."""
    pairs: set[Pair] = set()
    for step in steps:
        pairs.update(zip(step.source.tolist(), step.target.tolist(), strict=True))
    return pairs


def layout_of(plan: Schedule, steps: list[StepGroup], pairs: set[Pair]) -> Layout:
    """Return the layout that shows who talks to whom."""
    n_ranks = plan.n_ranks
    everything = np.arange(rows_of(plan))
    if plan.n_switches:
        return switch_layout(plan, pairs)
    order = ring_order(n_ranks, pairs)
    if order:
        return round_layout(n_ranks, everything, "arc", order)
    if is_tree(n_ranks, pairs):
        centre = [rank for rank in range(n_ranks) if len(neighbours(rank, pairs)) == n_ranks - 1]
        if centre and n_ranks > 3:
            others = [rank for rank in range(n_ranks) if rank != centre[0]]
            return star_layout([[rank] for rank in others], [centre[0]], everything)
        return tree_layout(plan.root, pairs, everything, 0.0, WIDE)
    trees = trees_of_blocks(plan, steps)
    if trees:
        return side_by_side(plan, trees)
    return round_layout(n_ranks, everything, "chord", list(range(n_ranks)))


def neighbours(participant: int, pairs: set[Pair]) -> list[int]:
    """Return with whom a participant exchanges anything, in their order."""
    found = {b for a, b in pairs if a == participant} | {a for a, b in pairs if b == participant}
    return sorted(found)


def ring_order(n_ranks: int, pairs: set[Pair]) -> list[int]:
    """Return all ranks in the order of their ring, or nothing if some rank sends to or hears from two others."""
    following = dict(pairs)
    if len(following) < len(pairs) or len(set(following.values())) < len(pairs):
        return []
    starts = sorted(set(range(n_ranks)) - set(following.values())) or [0]
    order = [starts[0]]
    while order[-1] in following and following[order[-1]] not in order:
        order.append(following[order[-1]])
    return order if len(order) == n_ranks else []


def is_tree(n_ranks: int, pairs: set[Pair]) -> bool:
    """Return whether pairs join all ranks without a circle."""
    links = {(min(pair), max(pair)) for pair in pairs}
    if len(links) != n_ranks - 1:
        return False
    reached = {0}
    frontier = [0]
    while frontier:
        for other in neighbours(frontier.pop(), pairs):
            if other not in reached:
                reached.add(other)
                frontier.append(other)
    return len(reached) == n_ranks


class BlockTree(NamedTuple):
    """A tree that carries some of the blocks."""

    root: int
    pairs: set[Pair]
    rows: Ints  # cells of each participant that it carries


def trees_of_blocks(plan: Schedule, steps: list[StepGroup]) -> list[BlockTree]:
    """Return the two trees of a schedule that sends one half of the blocks over each, or nothing."""
    pairs_of_row: dict[int, set[Pair]] = {}
    senders_of_sums: dict[int, set[int]] = {}
    for step in steps:
        columns = (step.source, step.target, step.first, step.count, step.segment, step.reduce)
        for source, target, first, count, segment, adds in zip(*columns, strict=True):
            for block in range(first, first + count):
                row = int(segment) * plan.n_blocks + block % plan.n_blocks
                pairs_of_row.setdefault(row, set()).add((int(source), int(target)))
                if adds:
                    senders_of_sums.setdefault(row, set()).add(int(source))

    rows_of_tree: dict[frozenset[Pair], list[int]] = {}
    for row, pairs in pairs_of_row.items():
        rows_of_tree.setdefault(frozenset(pairs), []).append(row)
    if len(rows_of_tree) != 2:
        return []
    trees = []
    for found, rows in rows_of_tree.items():
        pairs = set(found)
        silent = set(range(plan.n_ranks)) - senders_of_sums.get(rows[0], set())
        if not is_tree(plan.n_ranks, pairs) or len(silent) != 1:
            return []
        trees.append(BlockTree(silent.pop(), pairs, np.array(sorted(rows))))
    return trees


# Layouts ----------------------------------------------------------------------------------------


def by_number(table: Mapping[int, object], n: int) -> object:
    """Return the entry of a table for the least number that is not below n."""
    return table[min((most for most in table if most >= n), default=max(table))]


def card_size(n: int) -> tuple[float, float]:
    """Return width and height of a box where n stand on an oval [px]."""
    return by_number(_SIZES, n)  # type: ignore[return-value]


class Oval(NamedTuple):
    """A closed curve around the middle of the picture, with the length from its top to each of its points."""

    points: Floats  # (K, 2) [px]
    along: Floats  # (K,) 0 at the top, 1 where it is closed

    def at(self, share: Floats) -> Floats:
        """Return the points at shares of the whole length, (S, 2) [px]."""
        within = np.asarray(share) % 1.0
        x = np.interp(within, self.along, self.points[:, 0])
        y = np.interp(within, self.along, self.points[:, 1])
        return np.stack([x, y], axis=-1)


def oval(n: int) -> Oval:
    """Return the oval on which the middles of n boxes stand, clockwise from the top."""
    width, height = card_size(n)
    power = 2 / float(by_number(_BENDS, n))  # type: ignore[arg-type]
    angle = np.linspace(0, 2 * np.pi, 1441)
    sine, cosine = np.sin(angle), np.cos(angle)
    x = (WIDE - width - 2 * _MARGIN) / 2 * np.sign(sine) * np.abs(sine) ** power
    y = (HIGH - height - 2 * _MARGIN) / 2 * np.sign(cosine) * np.abs(cosine) ** power
    points = np.stack([WIDE / 2 + x, HIGH / 2 - y], axis=1)
    parts = np.hypot(*np.diff(points, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(parts)])
    return Oval(points, along / along[-1])


def places_on_oval(n: int) -> Floats:
    """Return the middles of n boxes on their oval, (n, 2) [px]: the first at the top, two beside each other."""
    if n == 1:
        return np.array([[WIDE / 2, HIGH / 2]])
    return oval(n).at(turned_by(n) + np.arange(n) / n)


def turned_by(n: int) -> float:
    """Return where on the oval the first box stands: two boxes stand left and right, others begin at the top."""
    return 0.75 if n == 2 else 0.0


def round_layout(n: int, rows: Ints, kind: str, order: list[int]) -> Layout:
    """Return a layout with all ranks on an oval, in a given order."""
    middle = np.empty((n, 2))
    middle[order] = places_on_oval(n)
    width, height = card_size(n)
    return Layout(
        x=middle[:, 0],
        y=middle[:, 1],
        w=np.full(n, width),
        h=np.full(n, height),
        participants=[[rank] for rank in range(n)],
        rows=[rows] * n,
        kind=kind,
        order=tuple(order),
    )


def star_layout(others: list[list[int]], centre: list[int], rows: Ints) -> Layout:
    """Return a layout with one box in the middle, and all others around it."""
    n = len(others)
    around = places_on_oval(n) if n > 1 else np.array([[WIDE / 4, HIGH / 2]])
    width, height = card_size(n)
    middle = np.vstack([around, [WIDE / 2, HIGH / 2]])
    participants = [*others, centre]
    # A reader meets the boxes in the order of their numbers.
    order = np.argsort([participant[0] for participant in participants])
    return Layout(
        x=middle[order, 0],
        y=middle[order, 1],
        w=np.append(np.full(n, width), 1.3 * width)[order],
        h=np.append(np.full(n, height), 1.2 * height)[order],
        participants=[participants[card] for card in order],
        rows=[rows] * (n + 1),
        kind="straight",
    )


def tree_layout(root: int, pairs: set[Pair], rows: Ints, left: float, width: float) -> Layout:
    """Return a layout of a tree with its root at the top, within a part of the picture."""
    column: dict[
        int, float
    ] = {}  # each leaf has a column of its own, each other rank stands above its children
    depth: dict[int, int] = {}
    n_leaves = 0

    def settle(rank: int, parent: int, level: int) -> None:
        nonlocal n_leaves
        depth[rank] = level
        children = [other for other in neighbours(rank, pairs) if other != parent]
        for child in children:
            settle(child, rank, level + 1)
        if children:
            column[rank] = (column[children[0]] + column[children[-1]]) / 2
        else:
            column[rank] = n_leaves + 0.5
            n_leaves += 1

    settle(root, -1, 0)
    n = len(depth)
    room = width / n_leaves
    levels = max(depth.values()) + 1
    height = min(_HIGHEST, (HIGH - 2 * _MARGIN - _LEAST_LINK * (levels - 1)) / levels)
    step = (HIGH - 2 * _MARGIN - height) / max(1, levels - 1)
    return Layout(
        x=left + room * np.array([column[rank] for rank in range(n)]),
        y=_MARGIN + height / 2 + step * np.array([depth[rank] for rank in range(n)]),
        w=np.full(n, min(card_size(8)[0], room - 6)),
        h=np.full(n, height),
        participants=[[rank] for rank in range(n)],
        rows=[rows] * n,
        kind="fall",
    )


def side_by_side(plan: Schedule, trees: list[BlockTree]) -> Layout:
    """Return a layout with trees beside each other, each of which has all ranks."""
    width = WIDE / len(trees)
    layouts = []
    for place, tree in enumerate(trees):
        layouts.append(tree_layout(tree.root, tree.pairs, tree.rows, place * width, width - 8))
    participants: list[list[int]] = []
    rows: list[Ints] = []
    for layout in layouts:
        participants += layout.participants
        rows += layout.rows
    x, y, w, h = (np.concatenate(part) for part in list(zip(*layouts, strict=True))[:4])
    return Layout(x, y, w, h, participants, rows, "fall")


def switch_layout(plan: Schedule, pairs: set[Pair]) -> Layout:
    """Return a layout with switches: one in the middle, or several in rows above and below the GPUs."""
    n_ranks = plan.n_ranks
    everything = np.arange(rows_of(plan))
    # Switches of a schedule that talk to the same others are sums in one machine. Those that talk to nobody are
    # left out.
    groups: dict[tuple[int, ...], list[int]] = {}
    for switch in range(n_ranks, plan.n_participants):
        others = tuple(neighbours(switch, pairs))
        if others:
            groups.setdefault(others, []).append(switch)
    ranks = [[rank] for rank in range(n_ranks)]
    among_ranks = any(max(pair) < n_ranks for pair in pairs)
    if len(groups) == 1 and not among_ranks:
        return star_layout(ranks, next(iter(groups.values())), everything)
    return rows_layout(ranks, groups, everything)


def rows_layout(
    ranks: list[list[int]], groups: Mapping[tuple[int, ...], list[int]], rows: Ints
) -> Layout:
    """Return a layout with GPUs in a row, a kind of switches below them, and others above, level by level."""
    n_ranks = len(ranks)
    room = WIDE / n_ranks
    x = {rank: (rank + 0.5) * room for rank in range(n_ranks)}
    level = dict.fromkeys(range(n_ranks), 0)
    taken: list[set[int]] = []  # GPUs of each kind of switches that only know GPUs
    kind_of: dict[int, int] = {}
    left = dict(groups)
    while left:
        waiting = len(left)
        for known, switches in list(left.items()):
            lower = [other for other in known if other in level]
            if not lower:
                continue
            del left[known]
            first = switches[0]
            at = 1 + min(level[other] for other in lower)
            for switch in switches:
                level[switch] = at
                x[switch] = float(np.mean([x[other] for other in lower]))
            if at == 1:
                gpus = {other for other in lower if other < n_ranks}
                kind = next((k for k, used in enumerate(taken) if not used & gpus), len(taken))
                if kind == len(taken):
                    taken.append(set())
                taken[kind] |= gpus
                kind_of[first] = kind
        if len(left) == waiting:
            raise RuntimeError(f"switches {sorted(left.values())} exchange nothing with the GPUs")
    several = len(taken) > 1
    participants = [*ranks, *groups.values()]
    height_of = []
    for card in participants:
        below = several and kind_of.get(card[0]) == 0
        height_of.append(-1 if below else level[card[0]] + max(0, kind_of.get(card[0], 0) - 1))
    heights = np.array(height_of)
    n_rows = int(np.ptp(heights)) + 1
    tall = min(_HIGHEST, (HIGH - 2 * _MARGIN) / n_rows - _LEAST_LINK)
    # Links between neighbours in the row of GPUs need room below it.
    depth = HIGH - 2 * _MARGIN - tall - (0 if several else 60)
    y = _MARGIN + tall / 2 + (heights.max() - heights) * depth / (n_rows - 1)

    middle = np.array([x[card[0]] for card in participants])
    width = np.empty(len(participants))
    for height in np.unique(heights):
        on_row = np.flatnonzero(heights == height)
        apart = spread_out(middle[on_row])
        middle[on_row] = apart
        gap = np.diff(np.sort(apart)).min(initial=WIDE)
        width[on_row] = min(card_size(8)[0], gap - 6)
    return Layout(
        x=middle,
        y=y,
        w=width,
        h=np.full(len(participants), tall),
        participants=participants,
        rows=[rows] * len(participants),
        kind="fall",
    )


def spread_out(x: Floats) -> Floats:
    """Return the places of boxes in a row: as wished if they are apart, else evenly spaced in the same order. [px]."""
    if np.diff(np.sort(x)).min(initial=WIDE) >= 32:
        return x
    even = np.empty(x.size)
    even[np.argsort(x, kind="stable")] = WIDE * (np.arange(x.size) + 0.5) / x.size
    return even


# Boxes, bars and links --------------------------------------------------------------------------


def cards_of(plan: Schedule, layout: Layout) -> Cards:
    """Return the boxes of a layout with their names, which are short where there is little room."""
    n_rows = rows_of(plan)
    names = []
    cells = []
    for participants, rows, width in zip(layout.participants, layout.rows, layout.w, strict=True):
        first = participants[0]
        names.append(name_in(plan, first, float(width), len(participants) > 1))
        shown = [participant * n_rows + rows for participant in participants]
        cells.append(np.concatenate(shown))
    is_switch = np.array([card[0] >= plan.n_ranks for card in layout.participants])
    left = layout.x - layout.w / 2
    return Cards(left, layout.y - layout.h / 2, layout.w, layout.h, names, cells, is_switch)


def name_in(plan: Schedule, participant: int, width: float, several: bool) -> str:
    """Return the name of a participant as far as its box has room for it."""
    if several:
        return text("live.stepper.one_switch")
    if participant < plan.n_ranks:
        number = participant
        name = text("live.stepper.rank", r=number)
    else:
        number = participant - plan.n_ranks
        name = text("live.stepper.switch", r=number)
    return name if _LETTER * len(name) + 6 <= width else str(number)


def bars_of(plan: Schedule, cards: Cards) -> tuple[Bars, Ints]:
    """Return the bars of all boxes, and the bar of each cell of the schedule."""
    x: list[float] = []
    w: list[float] = []
    top: list[float] = []
    bottom: list[float] = []
    shown: list[Ints] = []
    card_of_bar: list[int] = []
    numbered: list[bool] = []
    crowded: list[bool] = []
    bar_of = np.zeros(plan.n_participants * rows_of(plan), dtype=np.int64)
    for card, cells in enumerate(cards.cells):
        inset = min(_INSET, cards.w[card] / 8)
        room = cards.w[card] - 2 * inset
        n_bars = min(cells.size, int(room / _NARROWEST_BAR))
        pitch = room / n_bars
        gap = min(2.0, pitch / 4)
        longest = number_width(plan, cells)
        has_numbers = cards.h[card] >= _NUMBERED and rows_of(plan) > 1 and longest <= room
        has_all = n_bars == cells.size and longest <= pitch
        for place, folded in enumerate(np.array_split(cells, n_bars)):
            bar_of[folded] = len(x)
            x.append(cards.x[card] + inset + place * pitch + gap / 2)
            w.append(pitch - gap)
            top.append(cards.y[card] + _NAME + 4)
            below = _NUMBERS if has_numbers else 0.0
            bottom.append(cards.y[card] + cards.h[card] - 5 - below)
            shown.append(folded)
            card_of_bar.append(card)
            numbered.append(has_numbers)
            crowded.append(not has_all)
    bars = Bars(
        x=np.array(x),
        w=np.array(w),
        top=np.array(top),
        bottom=np.array(bottom),
        cells=shown,
        card=np.array(card_of_bar),
        numbered=np.array(numbered),
        crowded=np.array(crowded),
    )
    return bars, bar_of


def number_width(plan: Schedule, cells: Ints) -> float:
    """Return the room that the longest number of some blocks needs [px]."""
    return _SMALL_LETTER * max(len(block_of(plan, cell)) for cell in cells.tolist()) + 1.0


def block_of(plan: Schedule, cell: int) -> str:
    """Return the name of the block that a cell holds."""
    segment, block = divmod(cell % rows_of(plan), plan.n_blocks)
    return block_words(plan, block, segment)


def block_words(plan: Schedule, block: int, segment: int = 0, count: int = 1) -> str:
    """Return how a picture names a block or ``count`` blocks in a row: 2, 2–3, or 2a–3a of their first segments.

    A letter cannot be taken for a decimal; only where there are more segments than letters, a number stands for it.
    """
    part = ""
    if plan.segments > len(ascii_lowercase):
        part = f".{segment}"
    elif plan.segments > 1:
        part = ascii_lowercase[segment]
    last = f"–{(block + count - 1) % plan.n_blocks}{part}" if count > 1 else ""
    return f"{block}{part}{last}"


def link_between(cards: Cards, layout: Layout, pair: Pair) -> Floats:
    """Return the points of the link from one box to another, from edge to edge, (P, 2) [px]."""
    source, target = pair
    if layout.kind == "arc":
        path = arc_between(layout.order, source, target)
    elif layout.kind == "fall":
        return falling(cards, source, target)
    else:
        bow = _BOW if layout.kind == "chord" else 0.0
        path = bowed(cards.middle(source), cards.middle(target), bow)
    return outside(path, cards, pair)


def arc_between(order: tuple[int, ...], source: int, target: int) -> Floats:
    """Return the part of the oval between two neighbours of a ring, (P, 2) [px]."""
    n = len(order)
    begin = turned_by(n) + order.index(source) / n
    return oval(n).at(begin + np.linspace(0, 1 / n, _POINTS))


def bowed(start: Floats, end: Floats, bow: float) -> Floats:
    """Return a curve between two points on the oval, (P, 2) [px].

    With a ``bow`` it bends to the middle of the picture, so that it passes below the boxes between its ends, and swings
    aside by the bow, so that there and back are apart.
    """
    share = np.linspace(0, 1, _POINTS)[:, None]
    control = (start + end) / 2
    if bow:
        across = np.array([start[1] - end[1], end[0] - start[0]])
        inwards = np.array([WIDE / 2, HIGH / 2]) - control
        control = control + _INWARDS * inwards + 2 * bow * across / np.hypot(*across)
    return (1 - share) ** 2 * start + 2 * share * (1 - share) * control + share**2 * end


def falling(cards: Cards, source: int, target: int) -> Floats:
    """Return a curve that leaves and enters boxes upright; between two boxes of a row it hangs below both."""
    share = np.linspace(0, 1, _POINTS)[:, None]
    start, end = cards.middle(source), cards.middle(target)
    start_edge, end_edge = cards.h[source] / 2, cards.h[target] / 2
    if start[1] == end[1]:
        a = lower(start, start_edge)
        b = lower(end, end_edge)
        drop = 24 + 40 * abs(end[0] - start[0]) / WIDE
        first = lower(a, drop)
        second = lower(b, drop)
    else:
        down = np.sign(end[1] - start[1])
        a = lower(start, down * start_edge)
        b = lower(end, -down * end_edge)
        half = (b[1] - a[1]) / 2
        first = lower(a, half)
        second = lower(b, -half)
    rest = 1 - share
    return np.asarray(
        rest**3 * a + 3 * rest**2 * share * first + 3 * rest * share**2 * second + share**3 * b
    )


def lower(point: Floats, by: float) -> Floats:
    """Return the point that is ``by`` below another [px]."""
    return np.asarray(point + np.array([0.0, by]))


def outside(path: Floats, cards: Cards, pair: Pair) -> Floats:
    """Return the part of a path that lies outside of both boxes that it joins, from frame to frame."""
    hidden = np.zeros(len(path), dtype=bool)
    for card in pair:
        hidden |= is_inside(path, cards, card)
    seen = np.flatnonzero(~hidden)
    first, last = int(seen[0]), int(seen[-1])
    parts = [path[first : last + 1]]
    if first > 0:
        parts.insert(0, on_frame(path[first - 1], path[first], cards, pair)[None])
    if last + 1 < len(path):
        parts.append(on_frame(path[last + 1], path[last], cards, pair)[None])
    whole = np.concatenate(parts)
    # A point of the path may lie on the frame already. Without a way between both, an arrow would have no direction.
    moves = np.hypot(*np.diff(whole, axis=0).T) > _APART_ENOUGH
    return np.asarray(whole[np.concatenate([[True], moves])])


def is_inside(points: Floats, cards: Cards, card: int) -> Flags:
    """Return which points (P, 2) lie inside of a box, (P,)."""
    across = np.abs(points[:, 0] - cards.middle(card)[0]) < cards.w[card] / 2
    along = np.abs(points[:, 1] - cards.middle(card)[1]) < cards.h[card] / 2
    return np.asarray(across & along)


def on_frame(hidden: Floats, seen: Floats, cards: Cards, pair: Pair) -> Floats:
    """Return where the straight line from a point inside of a box to one outside of it meets the frame, (2,) [px]."""
    share = np.linspace(0.0, 1.0, _POINTS)[:, None]
    points = hidden + share * (seen - hidden)
    inside = np.any([is_inside(points, cards, card) for card in pair], axis=0)
    return np.asarray(points[int(np.argmin(inside))])


# On a given fabric ------------------------------------------------------------------------------


def places_on_fabric(plan: Schedule, steps: list[StepGroup], fabric: Fabric, node: Ints) -> Places:
    """Return the places of a schedule on a fabric: its nodes in rows, GPUs below, and switches that add above.

    ``node`` (P,) is the node of each participant. Links are routes over the cables of the fabric.
    """
    marks = marks_of(fabric, False)
    left = float((marks.x - marks.width / 2).min())
    unit = (WIDE - 2 * _MARGIN) / (float((marks.x + marks.width / 2).max()) - left)
    x = _MARGIN + (marks.x - left) * unit
    last_row = float(marks.row.max())
    tall = 56.0
    top = _MARGIN + _NODE_HEIGHT / 2 + (tall + 20 if plan.n_switches else 0)
    bottom = HIGH - _MARGIN - tall - 32 - _NODE_HEIGHT / 2
    row = min(_ROW, (bottom - top) / max(1.0, last_row))  # [px]
    y = np.asarray(bottom - marks.row * row, dtype=np.float64)

    origin, scale = np.array([left, 0.0]), np.array([unit, -row])
    shift = np.array([_MARGIN, bottom])
    bundles = lines_of(fabric, marks, np.full(fabric.n_links, np.nan))
    drawn = paths_of(marks, bundles)
    cables = []
    for path in drawn:
        path[[0, -1], 1] = np.rint(
            path[[0, -1], 1]
        )  # from row to row: its ends lie behind the nodes
        cables.append((path - origin) * scale + shift)

    box = marks.of_node[node]
    layout = fabric_layout(plan, x[box], tall)
    cards = cards_of(plan, layout)
    card_of = np.repeat(np.arange(plan.n_participants), rows_of(plan))
    bars, bar_of = bars_of(plan, cards)
    node_middle = np.stack([x[marks.of_node], y[marks.of_node]], axis=1)  # (nodes, 2)
    between = dict(
        zip(zip(bundles.a.tolist(), bundles.b.tolist(), strict=True), cables, strict=True)
    )
    paths = {}
    for pair in sorted(pairs_of(steps)):
        nodes = nodes_between(fabric, node[pair[0]], node[pair[1]])
        route = along_cables(marks.of_node[nodes].tolist(), between)
        ends = node_middle[nodes[0]], node_middle[nodes[-1]]
        paths[pair] = np.vstack(
            [edge_of(cards, pair[0]), ends[0], *route, ends[1], edge_of(cards, pair[1])]
        )

    half = marks.width / 2 * unit
    stems = [
        np.vstack([edge_of(cards, who), node_middle[node[who]]])
        for who in range(plan.n_participants)
    ]
    is_switch = fabric.transit[marks.first]
    below = {
        "cables": lines([*cables, *stems], width=0.8, colour=COLOUR["hair"]),
        "nodes": boxes(
            x - half,
            y - _NODE_HEIGHT / 2,
            2 * half,
            _NODE_HEIGHT,
            ink=COLOUR["node_ink"],
            colour=np.where(is_switch, COLOUR["switch"], COLOUR["host"]),
            texts=marks.names,
        ),
    }
    return Places(cards, bars, bar_of, card_of, paths, note=note_on(cards), below=below)


def along_cables(boxes_passed: list[int], between: Mapping[Pair, Floats]) -> list[Floats]:
    """Return the drawn cables from box to box, each in the direction of travel; ``between`` has the lower box first."""
    route = []
    for start, end in pairwise(boxes_passed):
        if start < end:
            route.append(between[start, end])
        elif start > end:
            route.append(between[end, start][::-1])
    return route


def fabric_layout(plan: Schedule, x: Floats, tall: float) -> Layout:
    """Return boxes of GPUs at the bottom and of switches at the top, close to the places of their nodes, (P,) [px]."""
    n = plan.n_participants
    middle = np.empty(n)
    width = np.empty(n)
    y = np.empty(n)
    for who, height in (
        (np.arange(plan.n_ranks), HIGH - _MARGIN - tall / 2),
        (np.arange(plan.n_ranks, n), _MARGIN + tall / 2),
    ):
        if who.size:
            middle[who] = spread_out(x[who])
            gap = np.diff(np.sort(middle[who])).min(initial=WIDE)
            width[who] = min(card_size(8)[0], gap - 8)
            y[who] = height
    middle = np.clip(middle, width / 2 + 4, WIDE - width / 2 - 4)
    everything = np.arange(rows_of(plan))
    participants = [[who] for who in range(n)]
    return Layout(middle, y, width, np.full(n, tall), participants, [everything] * n, "fall")


def edge_of(cards: Cards, card: int) -> Floats:
    """Return the middle of the edge of a box that faces the fabric [px]."""
    half = cards.h[card] / 2
    return lower(cards.middle(card), half if cards.is_switch[card] else -half)


def nodes_between(fabric: Fabric, source: int, target: int) -> list[int]:
    """Return the nodes on the route from one node to another; both may be the same."""
    if source == target:
        return [int(source)]
    routes = routing.route(fabric, Flows.make([source], [target], 1.0))
    return [int(source), *fabric.target[routes.row(0)].tolist()]
