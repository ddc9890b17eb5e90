"""A plan in rows of tiers: servers below as cells of their racks, pods as frames, switches above.

Between two rows each line stands for single cables where they are few enough to be told apart, else for all cables of a
rack, of the switches of a pod, or of a whole row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import counted, upright
from fabriclab.views.page import plain
from fabriclab.views.plans import Bundles, Drawing, Frame, Plan
from fabriclab.views.scene import COLOUR, Layer, boxes, texts

_MOST_LINES = 200  # between two rows; more of them would be an area
_LETTER = 7.0  # width of a letter [px]
_POD_GAP = 1.0  # between two pods, in widths of a rack
_SWITCH_PART = 0.5  # what a switch needs of the width of a rack
_RACK_GAP = 1.5  # between two racks [px]
_SERVERS_HIGH = 56.0  # greatest height of a rack of servers [px]
_CELL_HIGH = 15.0  # greatest height of a box [px]
_PITCH = 7.0  # least distance of two switches side by side [px]
_WIDEST = 30.0  # of a switch [px]
_LOW_CELL = 9.0  # height of a switch where several lines of them stand above each other [px]
_NAMES_HIGH = 22.0  # room for the names of pods [px]
_PAD = 5.0  # from boxes to their frame [px]
_MOST_NAMES = 8  # so many pods have their whole name below them


class Row(NamedTuple):
    """Boxes that stand side by side: those of one tier, within pods or above them."""

    tier: int
    in_pods: bool
    boxes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Where pods and the racks with servers stand from left to right [px]."""

    pods: list[int]
    left: dict[int, float]  # of each pod
    right: dict[int, float]
    racks: dict[int, list[int]]  # racks of each pod that have servers
    narrowest: float  # width of a rack in the pod where they are narrowest

    def rack(self, pod: int, rack: int) -> tuple[float, float]:
        """Return the left and right end of a rack within a pod [px]."""
        racks = self.racks[pod]
        wide = (self.right[pod] - self.left[pod]) / len(racks)
        left = self.left[pod] + wide * racks.index(rack)
        return left, left + wide


class Block(NamedTuple):
    """The room that several boxes take together [px]."""

    left: float
    right: float
    top: float
    bottom: float


def rows_of(plan: Plan) -> list[Row]:
    """Return the rows of a plan from the servers up; switches of a pod stand below those of the cluster."""
    rows = [Row(0, True, np.flatnonzero(plan.tier == 0))]
    for in_pods in (True, False):
        for tier in np.unique(plan.tier[plan.tier > 0]).tolist():
            here = np.flatnonzero((plan.tier == tier) & ((plan.pod >= 0) == in_pods))
            if here.size:
                rows.append(Row(tier, in_pods, here))
    return rows


def row_name(plan: Plan, row: Row) -> str:
    """Return how many boxes of which kind a row has, such as "32 leaves"."""
    kinds = sorted({plan.kinds[box] for box in row.boxes.tolist()})
    kind = kinds[0] if len(kinds) == 1 else "switch"
    return counted(row.boxes.size, kind)


def margin_of(plan: Plan) -> float:
    """Return the room that the names of rows need to the left of the drawing [px]."""
    words = [row_name(plan, row) for row in rows_of(plan)]
    words.append(counted(int(plan.cables.sum()), "cable"))
    return 20.0 + _LETTER * max(map(len, words))


def rows_drawing(plan: Plan, frame: Frame) -> Drawing:
    """Return a plan in rows of tiers, within a frame."""
    rows = rows_of(plan)
    columns = _columns(plan, frame)
    x = np.zeros(plan.n_boxes)
    y = np.zeros(plan.n_boxes)
    width = np.zeros(plan.n_boxes)
    height = np.zeros(plan.n_boxes)

    grids = []  # of each row: lines of boxes above each other, and the height of a box
    for row in rows:
        grids.append(_grid_of(plan, row, columns, frame))
    tall = [lines * high for lines, high in grids]  # [px]
    room = frame.bottom - _NAMES_HIGH - frame.top - sum(tall) - _PAD
    gap = room / max(len(rows) - 1, 1)
    foot = frame.bottom - _NAMES_HIGH
    for row, (_, high), whole in zip(rows, grids, tall, strict=True):
        for members, left, right in _parts(plan, row, columns, frame):
            _place(members, left, right, foot, high, row.tier == 0, (x, y, width, height))
        foot -= whole + gap

    places = (x, y, width, height)
    lines = _bundles(plan, rows, places, frame)
    words = _words(plan, rows, places, columns, frame)
    behind = _frames(plan, rows, places, columns, frame)
    return Drawing(plan, frame, x, y, width, height, lines, behind, words, in_rows=True)


# Places -----------------------------------------------------------------------------------------


def _columns(plan: Plan, frame: Frame) -> Columns:
    """Return where pods and racks stand: a pod is as wide as it has racks with servers, or half as many switches."""
    servers = plan.is_server
    pods = np.unique(plan.pod[(plan.pod >= 0) | servers]).tolist()
    racks: dict[int, list[int]] = {}
    weight: dict[int, float] = {}
    for pod in pods:
        here = plan.pod == pod
        racks[pod] = np.unique(plan.rack[servers & here]).tolist() or [-1]
        tiers = np.bincount(plan.tier[here & ~servers], minlength=1)
        weight[pod] = max(len(racks[pod]), _SWITCH_PART * int(tiers.max()))
    unit = frame.width / (sum(weight.values()) + _POD_GAP * (len(pods) - 1))
    left = {}
    right = {}
    x = frame.left
    for pod in pods:
        left[pod] = x
        right[pod] = x + unit * weight[pod]
        x = right[pod] + _POD_GAP * unit
    narrowest = min(unit * weight[pod] / len(racks[pod]) for pod in pods)
    return Columns(pods, left, right, racks, narrowest)


def _parts(plan: Plan, row: Row, columns: Columns, frame: Frame) -> list[tuple[Ints, float, float]]:
    """Return the boxes of a row that share a place, with its left and right end: a rack, a pod or the whole width."""
    if not row.in_pods:
        return [(_in_order(plan, row.boxes), frame.left, frame.right)]
    parts = []
    for pod in np.unique(plan.pod[row.boxes]).tolist():
        members = row.boxes[plan.pod[row.boxes] == pod]
        if row.tier:
            parts.append((_in_order(plan, members), columns.left[pod], columns.right[pod]))
            continue
        for rack in columns.racks[pod]:
            left, right = columns.rack(pod, rack)
            here = members[plan.rack[members] == rack]
            parts.append((here, left + _RACK_GAP / 2, right - _RACK_GAP / 2))
    return parts


def _in_order(plan: Plan, members: Ints) -> Ints:
    """Return switches from left to right: by the mean rack of the servers below them, those of one place by number."""
    mean = np.zeros(plan.n_boxes)
    below = np.isin(plan.high, members) & plan.is_server[plan.low]
    number = np.bincount(plan.high[below], minlength=plan.n_boxes)
    total = np.bincount(plan.high[below], plan.rack[plan.low[below]], plan.n_boxes)
    known = number > 0
    mean[known] = total[known] / number[known]
    return members[np.lexsort((members, np.round(mean[members], 3)))]


def _grid_of(plan: Plan, row: Row, columns: Columns, frame: Frame) -> tuple[int, float]:
    """Return how many lines of boxes a row has above each other, and the height of a box with its gap [px]."""
    most = 1
    for members, left, right in _parts(plan, row, columns, frame):
        if row.tier == 0:
            most = max(most, members.size)
        else:
            across = max(int((right - left) / _PITCH), 1)
            most = max(most, -(-members.size // across))
    if row.tier == 0:
        return most, min(_SERVERS_HIGH / most, _CELL_HIGH)
    return most, _LOW_CELL if most > 1 else _CELL_HIGH + 1


def _place(
    members: Ints,
    left: float,
    right: float,
    foot: float,
    high: float,
    stacked: bool,
    places: tuple[Floats, Floats, Floats, Floats],
) -> None:
    """Set the places of some boxes: evenly from left to right, further lines above; ``stacked`` ones one by one."""
    x, y, width, height = places
    whole = right - left
    most_across = 1 if stacked else max(int(whole / _PITCH), 1)
    lines = -(-members.size // most_across)
    across = -(-members.size // max(lines, 1))
    number = np.arange(members.size)
    line, column = np.divmod(number, max(across, 1))
    pitch = whole / max(across, 1)
    x[members] = left + pitch * (column + 0.5)
    y[members] = foot - high * (line + 0.5)
    width[members] = min(pitch - 1.0, _WIDEST)
    height[members] = high - 1.0


# Lines ------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """One way to bundle the cables between two rows: a number for each group of boxes that share a line."""

    low: Ints  # (B,)
    high: Ints  # (B,)


def _bundles(
    plan: Plan,
    rows: Sequence[Row],
    places: tuple[Floats, Floats, Floats, Floats],
    frame: Frame,
) -> Bundles:
    """Return the lines between all pairs of rows, each pair as finely as it can be read."""
    row_of = np.zeros(plan.n_boxes, dtype=np.int64)
    for number, row in enumerate(rows):
        row_of[row.boxes] = number
    of_bundle = np.full(plan.low.size, -1)
    paths: list[Floats] = []
    names: list[str] = []
    pairs = np.unique(np.stack([row_of[plan.low], row_of[plan.high]]), axis=1).T
    for low, high in pairs.tolist():
        here = np.flatnonzero((row_of[plan.low] == low) & (row_of[plan.high] == high))
        ends = _finest(plan, here, rows[low], rows[high])
        for line in _lines_between(plan, here, ends):
            of_bundle[line] = len(paths)
            low_boxes = _members(plan.low[line], ends.low, rows[low].boxes)
            high_boxes = _members(plan.high[line], ends.high, rows[high].boxes)
            paths.append(_path(low_boxes, high_boxes, places, frame))
            names.append(f"{_group_name(plan, low_boxes)} – {_group_name(plan, high_boxes)}")
    return Bundles(paths, of_bundle, names)


def _finest(plan: Plan, here: Ints, low: Row, high: Row) -> _Ends:
    """Return the finest way to bundle some cables that leaves few enough lines, or the one with the fewest."""
    each = np.arange(plan.n_boxes)
    pod = plan.n_boxes + plan.pod + 1
    rack = np.where(plan.rack >= 0, 2 * plan.n_boxes + plan.rack, each)
    whole = np.zeros(plan.n_boxes, dtype=np.int64)
    lows = [each, rack, pod] if low.tier == 0 else [each, pod]
    highs = [each, pod] if high.in_pods else [each, whole]
    ways = []
    for low_group in lows:
        for high_group in highs:
            ways.append(_Ends(low_group, high_group))
    counts = []
    for way in ways:
        pairs = np.stack([way.low[plan.low[here]], way.high[plan.high[here]]])
        counts.append(np.unique(pairs, axis=1).shape[1])
    allowed = [i for i, n in enumerate(counts) if n <= _MOST_LINES]
    if not allowed:
        return ways[int(np.argmin(counts))]
    return ways[max(allowed, key=lambda i: counts[i])]


def _lines_between(plan: Plan, here: Ints, ends: _Ends) -> list[Ints]:
    """Return the bundles of each line."""
    pairs = np.stack([ends.low[plan.low[here]], ends.high[plan.high[here]]])
    _, line = np.unique(pairs, axis=1, return_inverse=True)
    order = np.argsort(line.ravel(), kind="stable")
    starts = np.flatnonzero(np.diff(line.ravel()[order])) + 1
    return np.split(here[order], starts)


def _members(ends: Ints, group: Ints, row: Ints) -> Ints:
    """Return all boxes of a row that share a line with its ends."""
    return row[np.isin(group[row], group[ends])]


def _block(members: Ints, places: tuple[Floats, Floats, Floats, Floats]) -> Block:
    """Return the room that some boxes take together."""
    x, y, width, height = places
    return Block(
        left=float((x[members] - width[members] / 2).min()),
        right=float((x[members] + width[members] / 2).max()),
        top=float((y[members] - height[members] / 2).min()),
        bottom=float((y[members] + height[members] / 2).max()),
    )


def _path(
    low: Ints, high: Ints, places: tuple[Floats, Floats, Floats, Floats], frame: Frame
) -> Floats:
    """Return the curve between two groups of boxes: from the middle of a box, or spread over the width of several."""
    lower = _block(low, places)
    upper = _block(high, places)
    start = (lower.left + lower.right) / 2
    end = (upper.left + upper.right) / 2
    if low.size > 1 and high.size == 1:
        start = _spread(end, lower, frame)
    elif high.size > 1 and upper.right - upper.left > lower.right - lower.left:
        end = min(max(start, upper.left), upper.right)
    elif high.size > 1:
        end = _spread(start, upper, frame)
    pad = _PAD if low.size > 1 else 0.0
    return upright([np.array([start, lower.top - pad]), np.array([end, upper.bottom])])


def _spread(x: float, block: Block, frame: Frame) -> float:
    """Return where a line to ``x`` leaves a block, so that the lines of a block lie side by side in their order."""
    part = (x - frame.left) / frame.width
    return block.left + (block.right - block.left) * (0.08 + 0.84 * part)


def _group_name(plan: Plan, members: Ints) -> str:
    """Return the name of some boxes: of the only one, or how many there are, with their rack or pod."""
    if members.size == 1:
        return plan.names[int(members[0])]
    kinds = {plan.kinds[box] for box in members.tolist()}
    name = counted(members.size, kinds.pop() if len(kinds) == 1 else "switch")
    racks = np.unique(plan.rack[members])
    pods = np.unique(plan.pod[members])
    if plan.is_server[members].all() and racks.size == 1 and racks[0] >= 0:
        return f"{name}, {text('plan.rack', n=int(racks[0]))}"
    if pods.size == 1 and pods[0] >= 0:
        return f"{name}, {text('plan.pod', n=int(pods[0]))}"
    return name


# Frames and words -------------------------------------------------------------------------------


def _frames(
    plan: Plan,
    rows: Sequence[Row],
    places: tuple[Floats, Floats, Floats, Floats],
    columns: Columns,
    frame: Frame,
) -> dict[str, Layer]:
    """Return a frame around each pod, with its racks as columns in it, and around each row of the cluster."""
    in_pods = [row for row in rows if row.in_pods]
    top = min(_block(row.boxes, places).top for row in in_pods)
    bottom = _block(rows[0].boxes, places).bottom
    left = np.array([columns.left[pod] for pod in columns.pods])
    right = np.array([columns.right[pod] for pod in columns.pods])
    pad = min(_PAD, 0.3 * columns.narrowest)
    layers = {
        "pods": boxes(
            left - pad,
            top - _PAD,
            right - left + 2 * pad,
            bottom - top + 2 * _PAD,
            colour=COLOUR["sunk"],
            edge=COLOUR["line"],
            round=6.0,
        )
    }
    above = [_block(row.boxes, places) for row in rows if not row.in_pods]
    if above:
        top_of = np.array([block.top for block in above])
        bottom_of = np.array([block.bottom for block in above])
        layers["rows"] = boxes(
            frame.left - pad,
            top_of - _PAD,
            frame.width + 2 * pad,
            bottom_of - top_of + 2 * _PAD,
            colour=COLOUR["paper"],
            edge=COLOUR["line"],
            round=6.0,
        )
    return layers


def _words(
    plan: Plan,
    rows: Sequence[Row],
    places: tuple[Floats, Floats, Floats, Floats],
    columns: Columns,
    frame: Frame,
) -> dict[str, Layer]:
    """Return the names of the rows at the left with the cables between them, and those of the pods below."""
    margin = frame.left - 12
    blocks = [_block(row.boxes, places) for row in rows]
    y = [(block.top + block.bottom) / 2 for block in blocks]
    names = texts(margin, np.array(y), [row_name(plan, row) for row in rows], align=2.0)
    row_of = np.zeros(plan.n_boxes, dtype=np.int64)
    for number, row in enumerate(rows):
        row_of[row.boxes] = number
    cable_words = []
    cable_y = []
    for number in range(len(rows) - 1):
        here = (row_of[plan.low] == number) & (row_of[plan.high] == number + 1)
        if not here.any():
            continue
        middle = (blocks[number].top + blocks[number + 1].bottom) / 2
        rate = plain(units.format_rate(float(plan.rate[here].min())))
        cable_words += [counted(int(plan.cables[here].sum()), "cable"), rate]
        cable_y += [middle - 7, middle + 8]
    cables = texts(margin, np.array(cable_y), cable_words, align=2.0, colour=COLOUR["soft"])
    return {
        "rows names": names,
        "cable words": cables,
        "pod names": _pod_names(plan, columns, frame),
    }


def _pod_names(plan: Plan, columns: Columns, frame: Frame) -> Layer:
    """Return the names of pods below them: whole names where they fit, else numbers, else some of them.

    A pod that is no more than a rack is called so. Numbers have their word at the left.
    """
    key = "plan.rack" if plan.pods_are_racks else "plan.pod"
    kind = "plan.racks" if plan.pods_are_racks else "plan.pods"
    pods = [pod for pod in columns.pods if pod >= 0]
    middle = [(columns.left[pod] + columns.right[pod]) / 2 for pod in pods]
    words = [text(key, n=pod) for pod in pods]
    align = [1.0] * len(pods)
    room = frame.width / max(len(pods), 1)
    if _LETTER * max(map(len, words), default=0) > room:
        step = -(-len(pods) // _MOST_NAMES)
        middle = [frame.left - 12, *middle[::step]]
        words = [text(kind), *map(str, pods[::step])]
        align = [2.0] + [1.0] * (len(words) - 1)
    return texts(
        np.array(middle),
        frame.bottom - 4,
        words,
        align=np.array(align),
        colour=COLOUR["soft"],
    )
