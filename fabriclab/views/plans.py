"""A plan of a cluster: its servers and switches in racks and pods, and the cables between them.

`plan_rows` draws a plan whose cables lead from tier to tier, with the servers below; `plan_circle` draws one in which
switches of one tier are joined to each other, as in a torus or a dragonfly+. Both bundle cables where they are many,
and say which line stands for which cables, so that a part of the plan can be marked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Flags, Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import counted, upright
from fabriclab.views.page import plain
from fabriclab.views.scene import COLOUR, FORM, Layer, boxes, ink_on, lines

__all__ = [
    "FAILED",
    "OVERLOADED",
    "TIGHTEST",
    "Bundles",
    "Drawing",
    "Frame",
    "Mark",
    "Plan",
    "bundle_name",
    "cables_of_lines",
    "plan_layers",
    "plan_of",
]

FAILED = "failed"
OVERLOADED = "overloaded"
TIGHTEST = "tightest"
_MOST_SINGLE = 12  # so many marked cables are drawn each by itself
_ALONG = np.linspace(0.0, 1.0, 40)  # places along a line
_LETTER = 7.2  # width of a letter of a plate [px]
_PLATE = 20.0  # height of a plate [px]
_LARGE = 11.0  # least side of a marked box, where few are marked [px]
_MOST_LARGE = 24  # so many marked boxes are drawn larger than the others
# Where a plate may stand from what it belongs to, in halves of its own width and height; the nearest free place counts.
_BESIDE = (
    (0.0, 0.0),
    *((1.3, 0.0), (-1.3, 0.0), (0.0, 2.6), (0.0, -2.6)),
    *((1.3, 2.6), (-1.3, 2.6), (1.3, -2.6), (-1.3, -2.6)),
    *((2.0, 0.0), (-2.0, 0.0), (0.0, 4.2), (0.0, -4.2)),
    *((1.8, 4.2), (-1.8, 4.2), (1.8, -4.2), (-1.8, -4.2), (0.0, 6.0), (0.0, -6.0)),
)
_THICKEST = 1.1  # of a bundle that is not marked [px]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Servers and switches of a cluster with their places, and the cables between them: B boxes, K bundles.

    A bundle is all cables between two boxes.

    Parameters
    ----------
    names : tuple of str
        Name of each box, such as "leaf 3".
    kinds : tuple of str
        Kind of each box, such as "leaf".
    tier : (B,) int64
        0 for servers; switches stand above those of lower tiers.
    rack, pod : (B,) int64
        Number of its rack and of its pod; -1 for none.
    low, high : (K,) int64
        Boxes at both ends of a bundle; ``low`` is not above ``high``.
    cables : (K,) int64
        Number of its cables.
    rate : (K,) float64
        Rate of one of them, the slowest [B/s].
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    tier: Ints
    rack: Ints
    pod: Ints
    low: Ints
    high: Ints
    cables: Ints
    rate: Floats

    @property
    def n_boxes(self) -> int:
        """Number of servers and switches."""
        return len(self.names)

    @property
    def is_server(self) -> Flags:
        """Whether each box is a server, (B,)."""
        return np.asarray(self.tier == 0)

    @property
    def is_flat(self) -> bool:
        """Whether any cable joins two boxes of one tier."""
        return bool(np.any(self.tier[self.low] == self.tier[self.high]))

    @property
    def switches_of_server(self) -> Ints:
        """Number of switches that each server has cables to, (B,); 0 for switches."""
        is_server = self.is_server
        up = is_server[self.low] & ~is_server[self.high]
        return np.bincount(self.low[up], minlength=self.n_boxes)

    @property
    def pods_are_racks(self) -> bool:
        """Whether no pod has servers in more than one rack."""
        here = self.is_server & (self.pod >= 0)
        pairs = np.unique(np.stack([self.pod[here], self.rack[here]]), axis=1)
        return bool(pairs.shape[1] == np.unique(self.pod[here]).size)


class Frame(NamedTuple):
    """The part of a picture that a plan is drawn in [px]."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Its width [px]."""
        return self.right - self.left


class Bundles(NamedTuple):
    """Lines of a picture, each of which stands for some bundles of a plan."""

    paths: list[Floats]  # points of each line (P, 2) [px]
    of_bundle: Ints  # (K,) the line that stands for each bundle; -1: it is not drawn
    names: list[str]  # of each line


class Drawing(NamedTuple):
    """A plan with its places in a picture."""

    plan: Plan
    frame: Frame
    x: Floats  # (B,) middle of each box [px]
    y: Floats
    width: Floats  # (B,) [px]
    height: Floats
    lines: Bundles
    behind: Mapping[str, Layer]  # frames of pods and racks
    words: Mapping[str, Layer]  # names of rows and pods
    in_rows: bool  # whether cables lead upwards, from row to row


class Mark(NamedTuple):
    """What a picture points at: boxes and bundles of a plan, how they are drawn, and what a plate at them says.

    Boxes have failed (a cross in their outline) or are ``TIGHTEST``: they hold by the least and have an edge of ink.
    Bundles have failed (broken, with a cross), are asked for more than they carry (two rails), or are ``TIGHTEST``.
    """

    boxes: Ints
    bundles: Ints
    box_form: str = FAILED
    line_form: str = FAILED
    plate: str = ""


def plan_of(
    names: Sequence[str],
    kinds: Sequence[str],
    *,
    tier: Ints,
    rack: Ints,
    pod: Ints,
    ends: Ints,
    rate: Floats,
) -> Plan:
    """Return a plan of boxes and single cables: cable c joins boxes ``ends[c]``, (C, 2), at a rate, (C,) [B/s]."""
    upwards = tier[ends[:, 0]] <= tier[ends[:, 1]]
    same = tier[ends[:, 0]] == tier[ends[:, 1]]
    upwards = np.where(same, ends[:, 0] <= ends[:, 1], upwards)
    low = np.where(upwards, ends[:, 0], ends[:, 1]).astype(np.int64)
    high = np.where(upwards, ends[:, 1], ends[:, 0]).astype(np.int64)
    pair, bundle, cables = np.unique(
        low * len(names) + high, return_inverse=True, return_counts=True
    )
    slowest = np.full(pair.size, np.inf)
    np.minimum.at(slowest, bundle.ravel(), rate)
    return Plan(
        names=tuple(names),
        kinds=tuple(kinds),
        tier=tier,
        rack=rack,
        pod=pod,
        low=pair // len(names),
        high=pair % len(names),
        cables=cables.astype(np.int64),
        rate=slowest,
    )


# Layers -----------------------------------------------------------------------------------------


def plan_layers(drawing: Drawing, mark: Mark | None = None) -> dict[str, Layer]:
    """Return the layers of a plan: frames, cables, boxes and words, and what a mark points at, with its plate."""
    layers = {**drawing.behind, "cables": cable_layer(drawing)}
    paths: list[Floats] = []
    names: list[str] = []
    if mark is not None:
        paths, names = _marked_paths(drawing, mark)
        layers["marked cables"] = _marked_lines(paths, names, mark)
    layers["nodes"] = box_layer(drawing, mark)
    if (
        "marked cables" in layers and not drawing.in_rows
    ):  # on top of the boxes that they pass on a circle
        layers["marked cables"] = layers.pop("marked cables")
    if mark is not None and mark.box_form == FAILED:
        layers["crosses"] = _crosses(drawing, mark)
    layers |= drawing.words
    if mark is not None and mark.plate and (paths or mark.boxes.size):
        layers["plate"] = _plate(drawing, mark, paths)
    return layers


def cable_notes(plan: Plan, bundles: Bundles) -> list[str]:
    """Return how many cables each line stands for, and their rate."""
    notes = []
    for line in range(len(bundles.paths)):
        here = bundles.of_bundle == line
        n = int(plan.cables[here].sum())
        rate = plain(units.format_rate(float(plan.rate[here].min())))
        notes.append(f"{counted(n, 'cable')}, {rate}")
    return notes


def cables_of_lines(drawing: Drawing) -> Ints:
    """Return how many cables each line stands for."""
    of_bundle = drawing.lines.of_bundle
    drawn = of_bundle >= 0
    n = len(drawing.lines.paths)
    number = np.bincount(of_bundle[drawn], drawing.plan.cables[drawn], n)
    return np.asarray(number.astype(np.int64))


def cable_layer(drawing: Drawing) -> Layer:
    """Return all cables as hairlines, a little wider where a line stands for many of them."""
    number = cables_of_lines(drawing)
    many = len(drawing.lines.paths)
    thinnest = 0.8 if many <= 100 else 0.6
    return lines(
        drawing.lines.paths,
        width=np.minimum(thinnest * np.maximum(number, 1) ** 0.1, _THICKEST),
        colour=COLOUR["hair"],
        names=drawing.lines.names,
        notes=cable_notes(drawing.plan, drawing.lines),
    )


def box_layer(drawing: Drawing, mark: Mark | None) -> Layer:
    """Return a box for each server and switch; one that has failed keeps its outline, the tightest has one of ink."""
    plan = drawing.plan
    fill = np.where(plan.is_server, COLOUR["gpu"], COLOUR["node"])
    edge = np.full(plan.n_boxes, COLOUR["none"])
    if mark is not None:
        edge[mark.boxes] = COLOUR["ink"]
        if mark.box_form == FAILED:
            fill[mark.boxes] = COLOUR["paper"]
    width, height = _sides(drawing, mark)
    small = np.minimum(width, height)
    return boxes(
        drawing.x - width / 2,
        drawing.y - height / 2,
        width,
        height,
        colour=fill,
        edge=edge,
        ink=ink_on(fill),
        round=np.minimum(3.0, 0.3 * small),
        texts=_numbers(drawing, mark),
        names=list(plan.names),
        notes=place_notes(plan),
    )


def _sides(drawing: Drawing, mark: Mark | None) -> tuple[Floats, Floats]:
    """Return width and height of each box, (B,) [px]; marked ones are large enough to be seen, where they are few."""
    width = drawing.width.copy()
    height = drawing.height.copy()
    if mark is not None and mark.boxes.size <= _MOST_LARGE:
        width[mark.boxes] = np.maximum(width[mark.boxes], _LARGE)
        height[mark.boxes] = np.maximum(height[mark.boxes], _LARGE)
    return width, height


def _numbers(drawing: Drawing, mark: Mark | None) -> list[str]:
    """Return the number of each box, where all boxes of its kind have room for theirs; a marked one has a cross."""
    plan = drawing.plan
    numbers = [name.split()[-1] if name.split()[-1].isdigit() else "" for name in plan.names]
    room = np.array([_LETTER * len(number) + 4 for number in numbers])
    fits = (room < drawing.width) & (drawing.height >= 11)
    kinds = np.array(plan.kinds)
    for kind in np.unique(kinds).tolist():
        here = np.flatnonzero(kinds == kind)
        if not fits[here].all():
            for box in here.tolist():
                numbers[box] = ""
    if mark is not None and mark.box_form == FAILED:
        for box in mark.boxes.tolist():
            numbers[box] = ""
    return numbers


def place_notes(plan: Plan) -> list[str]:
    """Return where each box stands: its rack and its pod, if it has them."""
    notes = []
    for rack, pod in zip(plan.rack.tolist(), plan.pod.tolist(), strict=True):
        words = []
        if rack >= 0:
            words.append(text("plan.rack", n=rack))
        if pod >= 0:
            words.append(text("plan.pod", n=pod))
        notes.append(", ".join(words))
    return notes


# Marks ------------------------------------------------------------------------------------------


def _marked_paths(drawing: Drawing, mark: Mark) -> tuple[list[Floats], list[str]]:
    """Return the lines to be marked: each cable by itself where they are few, else the lines that stand for them."""
    plan = drawing.plan
    if 0 < mark.bundles.size <= _MOST_SINGLE:
        paths = []
        names = []
        for bundle in mark.bundles.tolist():
            line = int(drawing.lines.of_bundle[bundle])
            alone = np.count_nonzero(drawing.lines.of_bundle == line) == 1
            if line >= 0 and alone:
                paths.append(drawing.lines.paths[line])
            else:
                paths.append(_direct(drawing, int(plan.low[bundle]), int(plan.high[bundle])))
            names.append(bundle_name(plan, bundle))
        return paths, names
    found = np.unique(drawing.lines.of_bundle[mark.bundles])
    found = found[found >= 0]
    return (
        [drawing.lines.paths[line] for line in found.tolist()],
        [drawing.lines.names[line] for line in found.tolist()],
    )


def bundle_name(plan: Plan, bundle: int) -> str:
    """Return the name of a bundle by its ends, such as "leaf 3 – spine 0"."""
    return f"{plan.names[plan.low[bundle]]} – {plan.names[plan.high[bundle]]}"


def _direct(drawing: Drawing, low: int, high: int) -> Floats:
    """Return a line between two boxes, (P, 2) [px]: upright at both ends if one stands above the other."""
    start = np.array([drawing.x[low], drawing.y[low] - drawing.height[low] / 2])
    end = np.array([drawing.x[high], drawing.y[high] + drawing.height[high] / 2])
    if not drawing.in_rows:
        start[1] = drawing.y[low]
        end[1] = drawing.y[high]
        return np.stack([start, end])
    return upright([start, end])


def _marked_lines(paths: list[Floats], names: list[str], mark: Mark) -> Layer:
    """Return marked cables: broken with a cross, as two rails, or in ink."""
    few = len(paths) <= 4
    if mark.line_form == OVERLOADED:
        look = {"colour": COLOUR["overloaded"], "width": 7.5 if few else 4.5}
    elif mark.line_form == FAILED:
        look = {"colour": COLOUR["failed"], "width": 1.4}
    else:
        look = {"colour": COLOUR["ink"], "width": 2.2 if few else 1.5}
    form = FORM["plain"] if mark.line_form == TIGHTEST else FORM[mark.line_form]
    return lines(paths, form=form, names=names, **look)


def _crosses(drawing: Drawing, mark: Mark) -> Layer:
    """Return a cross in each marked box."""
    width, height = _sides(drawing, mark)
    small = np.minimum(width, height)[mark.boxes]
    return Layer(
        "dots",
        {
            "x": drawing.x[mark.boxes],
            "y": drawing.y[mark.boxes],
            "size": np.clip(0.4 * small, 2.0, 5.0),
            "shape": 2.0,
            "colour": COLOUR["failed"],
        },
    )


def _plate(drawing: Drawing, mark: Mark, paths: list[Floats]) -> Layer:
    """Return the plate of a mark, near its longest line or the highest of its boxes, where it hides least."""
    wide = _LETTER * len(mark.plate) + 12
    x, y = _plate_place(drawing, mark, paths, wide)
    is_overloaded = bool(paths) and mark.line_form == OVERLOADED
    hue = COLOUR["overloaded"] if is_overloaded else COLOUR["ink"]
    return boxes(
        x - wide / 2,
        y - _PLATE / 2,
        wide,
        _PLATE,
        colour=COLOUR["paper"],
        edge=hue,
        ink=hue,
        round=4.0,
        texts=[mark.plate],
    )


def _along(path: Floats) -> Floats:
    """Return points along a line, (2, P) [px]."""
    part = np.linspace(0.0, 1.0, len(path))
    return np.stack([np.interp(_ALONG, part, path[:, 0]), np.interp(_ALONG, part, path[:, 1])])


def _plate_place(
    drawing: Drawing, mark: Mark, paths: list[Floats], wide: float
) -> tuple[float, float]:
    """Return the middle of the plate of a mark [px]."""
    frame = drawing.frame
    if paths:
        lengths = [float(np.hypot(*np.diff(path, axis=0).T).sum()) for path in paths]
        longest = paths[int(np.argmax(lengths))]
        x, y = longest[len(longest) // 2 - 1 :][:2].mean(axis=0).tolist()
    else:
        top = mark.boxes[np.argmin(drawing.y[mark.boxes])]
        x, y = float(drawing.x[top]), float(drawing.y[top])

    if len(paths) == 1 and mark.line_form == OVERLOADED:
        return x, y  # on the two rails, which show on both sides of it
    # What a plate should not hide: first of all what is marked, then other boxes.
    points = [_along(path) for path in paths]
    hidden = np.concatenate([*points, np.stack([drawing.x, drawing.y])], axis=1)  # (2, P)
    weight = np.ones(hidden.shape[1])
    weight[: -drawing.x.size] = 4.0
    weight[hidden.shape[1] - drawing.x.size + mark.boxes] = 20.0
    best = (np.inf, x, y)
    for order, (right, down) in enumerate(_BESIDE):
        here_x = min(max(x + right * wide / 2, frame.left + wide / 2), frame.right - wide / 2)
        here_y = min(max(y + down * _PLATE / 2, frame.top + _PLATE / 2), frame.bottom - _PLATE / 2)
        is_hidden = (np.abs(hidden[0] - here_x) < wide / 2 + 4) & (
            np.abs(hidden[1] - here_y) < _PLATE / 2 + 5
        )
        cost = float(weight[is_hidden].sum()) + 0.5 * order
        best = min(best, (cost, here_x, here_y))
    return best[1], best[2]
