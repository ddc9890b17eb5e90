"""A plan on a circle, for networks that join switches of one tier: groups stand around it, cables cross its middle.

A group is a pod, a rack, or a switch with its servers, whichever shows the structure. Outside of the circle are the
servers of each group, further inside its switches, those of the highest tier at the inner edge.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import counted
from fabriclab.views.plans import Bundles, Drawing, Frame, Plan
from fabriclab.views.rings import bezier
from fabriclab.views.scene import COLOUR, Layer, lines, texts

_MOST_LINES = 700  # across the circle; more of them would be an area
_MOST_WITHIN = 700  # lines within groups
_MOST_SWITCHES = 150  # so many switches can each be a group
_FEW_PODS = 3  # fewer pods show no structure
_FILLED = 0.84  # part of its room on the circle that a group fills
_PITCH = 7.0  # distance of two boxes [px]
_LABEL = 12.0  # from the outermost servers to the name of a group [px]
_EDGE = 12.0  # from the names of groups to the edge of the picture [px]
_DEEPEST = 86.0  # greatest depth of all bands of boxes [px]
_BAND_GAP = 5.0  # between two bands [px]
_MOST_NAMES = 40  # names of groups around the circle

Complexes = NDArray[np.complex128]


class Circle(NamedTuple):
    """The circle that groups stand on: where its middle is, and where each box stands."""

    middle: complex  # [px]
    radius: float  # of its inner edge [px]
    group: Ints  # (B,) number of each box's group; -1: in the middle
    turn: Floats  # (B,) direction of each box from the middle; 0 is upwards [radians]
    away: Floats  # (B,) distance from the middle [px]
    pitch: float  # distance of two boxes [px]
    n_groups: int

    def at(self, turn: ArrayLike, away: ArrayLike) -> Complexes:
        """Return the point in a direction at a distance [px] from the middle. [px]."""
        direction = -1j * np.exp(1j * np.asarray(turn, dtype=np.float64))
        return np.asarray(self.middle + np.asarray(away) * direction)


def circle_drawing(plan: Plan, frame: Frame) -> Drawing:
    """Return a plan on a circle, within a frame; the words about it stand to the left."""
    circle = _circle(plan, frame)
    place = circle.at(circle.turn, circle.away)
    x = place.real.copy()
    y = place.imag.copy()
    _place_middle(circle, x, y)
    servers = plan.is_server
    side = np.where(servers, 0.72, 0.86) * circle.pitch
    bundles = _bundles(plan, circle, place)
    return Drawing(
        plan,
        frame,
        x,
        y,
        side,
        side,
        bundles,
        _bands(plan, circle),
        _words(plan, circle, frame),
        in_rows=False,
    )


# Groups -----------------------------------------------------------------------------------------


def groups_of(plan: Plan) -> Ints:
    """Return the number of each box's group, (B,); -1 for switches of the whole cluster."""
    switches = np.flatnonzero(~plan.is_server)
    pods = np.unique(plan.pod[plan.pod >= 0])
    belong_together = False
    for pod in pods.tolist():
        tiers = np.unique(plan.tier[switches][plan.pod[switches] == pod])
        belong_together = belong_together or tiers.size > 1
    belong_together = belong_together or bool(np.any(plan.switches_of_server > 1))
    if pods.size >= _FEW_PODS and (belong_together or switches.size > _MOST_SWITCHES):
        return _numbered(plan.pod)
    if switches.size > _MOST_SWITCHES:
        return _numbered(plan.rack)
    return _by_switch(plan)


def _numbered(key: Ints) -> Ints:
    """Return numbers from 0 for the values of a key; -1 stays."""
    known = key >= 0
    group = np.full(key.size, -1)
    group[known] = np.unique(key[known], return_inverse=True)[1]
    return group


def _by_switch(plan: Plan) -> Ints:
    """Return a group for each switch, with the servers of which it is the first switch; without switches for each."""
    key = np.arange(plan.n_boxes)
    if not plan.is_server.all():
        first = np.full(plan.n_boxes, plan.n_boxes)
        up = plan.is_server[plan.low] & ~plan.is_server[plan.high]
        np.minimum.at(first, plan.low[up], plan.high[up])
        joined = first < plan.n_boxes
        key[joined] = first[joined]
    order = np.lexsort((key, plan.rack[key], plan.pod[key]))
    place = np.empty(plan.n_boxes, dtype=np.int64)
    place[order] = np.arange(plan.n_boxes)
    # Groups are numbered by pod, rack and number of their switch, so that neighbours stand side by side.
    return np.unique(place[key], return_inverse=True)[1].astype(np.int64)


# Places -----------------------------------------------------------------------------------------


def _circle(plan: Plan, frame: Frame) -> Circle:
    """Return the circle that fits into a frame, and where each box stands on it."""
    group = groups_of(plan)
    n_groups = int(group.max()) + 1
    room = 2 * np.pi / n_groups
    outer = min(frame.width, frame.bottom - frame.top) / 2 - _EDGE - _LABEL  # [px]
    middle = complex(frame.right - outer - _EDGE - _LABEL, (frame.top + frame.bottom) / 2)

    pitch = _PITCH
    while True:
        places = _bands_of(plan, group, room, outer, pitch)
        if outer - places.inner <= _DEEPEST or pitch < 2:
            break
        pitch *= 0.92
    return Circle(
        middle, places.inner, group, group * room + places.aside, places.away, pitch, n_groups
    )


class _BandPlaces(NamedTuple):
    """Where boxes stand within the sector of their group."""

    aside: Floats  # (B,) direction from the middle of the sector [radians]
    away: Floats  # (B,) from the middle of the circle [px]
    inner: float  # where the innermost band ends [px]


def _bands_of(plan: Plan, group: Ints, room: float, outer: float, pitch: float) -> _BandPlaces:
    """Return the places of all boxes for a distance between two of them: servers outside, higher tiers further in."""
    aside = np.zeros(plan.n_boxes)
    away = np.zeros(plan.n_boxes)
    edge = outer
    for tier in np.unique(plan.tier).tolist():
        here = np.flatnonzero((plan.tier == tier) & (group >= 0))
        if not here.size:
            continue
        size = np.bincount(group[here])
        across = max(int(_FILLED * room * (edge - pitch) / pitch), 1)
        lines = -(-int(size.max()) // across)
        across = -(-int(size.max()) // lines)
        order = here[np.argsort(group[here], kind="stable")]
        before = np.cumsum(size) - size
        number = np.arange(order.size) - before[group[order]]
        line, column = np.divmod(number, across)
        in_line = np.minimum(size[group[order]] - line * across, across)
        away[order] = edge - pitch * (line + 0.5)
        wide = min(_FILLED * room * (edge - pitch * lines) / across, 3 * pitch)  # [px]
        aside[order] = (column - (in_line - 1) / 2) * wide / away[order]
        edge -= pitch * lines + _BAND_GAP
    return _BandPlaces(aside, away, edge)


def _place_middle(circle: Circle, x: Floats, y: Floats) -> None:
    """Set the places of boxes of no group: in lines around the middle."""
    here = np.flatnonzero(circle.group < 0)
    across = max(int(np.ceil(np.sqrt(here.size))), 1)
    line, column = np.divmod(np.arange(here.size), across)
    lines = -(-here.size // across)
    pitch = 2.2 * circle.pitch
    x[here] = circle.middle.real + pitch * (column - (across - 1) / 2)
    y[here] = circle.middle.imag + pitch * (line - (lines - 1) / 2)


# Lines ------------------------------------------------------------------------------------------


def _bundles(plan: Plan, circle: Circle, place: Complexes) -> Bundles:
    """Return lines across the circle, and within groups if they are few: of two boxes each, or of two groups."""
    of_bundle = np.full(plan.low.size, -1)
    group = circle.group
    is_within = (group[plan.low] == group[plan.high]) & (group[plan.low] >= 0)
    across = np.flatnonzero(~is_within)
    within = np.flatnonzero(is_within)

    key = np.arange(plan.n_boxes)
    if across.size > _MOST_LINES:
        key = np.where(group >= 0, group, plan.n_boxes + np.arange(plan.n_boxes))
    sides = np.sort(np.stack([key[plan.low[across]], key[plan.high[across]]]), axis=0)
    _, first, line = np.unique(sides, axis=1, return_index=True, return_inverse=True)
    of_bundle[across] = line.ravel()
    chosen = across[first]
    by_group = across.size > _MOST_LINES
    paths = _chords(plan, circle, place, chosen, by_group)
    names = []
    for bundle in chosen.tolist():
        low, high = int(plan.low[bundle]), int(plan.high[bundle])
        if by_group:
            names.append(f"{_group_name(plan, circle, low)} – {_group_name(plan, circle, high)}")
        else:
            names.append(f"{plan.names[low]} – {plan.names[high]}")

    to_server = plan.is_server[plan.low[within]]
    for part in (within[~to_server], within[to_server]):
        if part.size > _MOST_WITHIN:
            continue
        for bundle in part.tolist():
            low, high = int(plan.low[bundle]), int(plan.high[bundle])
            ends = place[[low, high]]
            of_bundle[bundle] = len(paths)
            paths.append(np.stack([ends.real, ends.imag], axis=1))
            names.append(f"{plan.names[low]} – {plan.names[high]}")
    return Bundles(paths, of_bundle, names)


def _chords(
    plan: Plan, circle: Circle, place: Complexes, chosen: Ints, by_group: bool
) -> list[Floats]:
    """Return the curve of each of some bundles through the circle; it comes the nearer to the middle the longer it is.

    A line that stands for all cables of two groups leads from the middle of one to that of the other.
    """
    room = 2 * np.pi / circle.n_groups
    ends = []
    for box in (plan.low[chosen], plan.high[chosen]):
        turn = circle.group[box] * room if by_group else circle.turn[box]
        away = np.where(by_group, circle.radius, circle.away[box] - 0.4 * circle.pitch)
        ends.append((np.asarray(turn), np.asarray(away), circle.group[box] < 0, place[box]))
    apart = np.abs(np.angle(np.exp(1j * (ends[0][0] - ends[1][0]))))
    depth = circle.radius * (1 - 0.72 * np.sin(apart / 2) ** 0.8)
    points = []
    for turn, away, is_middle, own in ends:
        points.append(np.where(is_middle, own, circle.at(turn, away)))
        points.append(np.where(is_middle, own, circle.at(turn, depth)))
    start, leave, end, arrive = points
    return bezier(start, leave, arrive, end)


def _group_name(plan: Plan, circle: Circle, box: int) -> str:
    """Return the name of the group of a box: its pod or rack; else the name of the box."""
    if circle.group[box] < 0:
        return plan.names[box]
    if plan.pod[box] >= 0:
        return text("plan.pod", n=int(plan.pod[box]))
    return text("plan.rack", n=int(plan.rack[box]))


# Frames and words -------------------------------------------------------------------------------


def _bands(plan: Plan, circle: Circle) -> dict[str, Layer]:
    """Return an arc behind the boxes of each group that has several switches, or no layer if none has."""
    members = np.bincount(circle.group[circle.group >= 0], minlength=circle.n_groups)
    if members.max(initial=0) < 3:
        return {}
    room = 2 * np.pi / circle.n_groups
    here = circle.group >= 0
    inner = circle.radius + _BAND_GAP
    outer = float(circle.away[here].max()) + 0.7 * circle.pitch
    paths = []
    for group in range(circle.n_groups):
        sweep = np.linspace(-0.46, 0.46, 17) * room + group * room
        arc = circle.at(sweep, (inner + outer) / 2)
        paths.append(np.stack([arc.real, arc.imag], axis=1))
    return {"bands": lines(paths, width=outer - inner, colour=COLOUR["sunk"])}


def _words(plan: Plan, circle: Circle, frame: Frame) -> dict[str, Layer]:
    """Return how many boxes of each kind there are, at the left, and the names of groups around the circle."""
    counts = []
    kinds = np.array(plan.kinds)
    for tier in np.unique(plan.tier).tolist():
        for kind in np.unique(kinds[plan.tier == tier]).tolist():
            n = int(np.count_nonzero((kinds == kind) & (plan.tier == tier)))
            counts.append(counted(n, kind))
    counts.append(counted(int(plan.cables.sum()), "cable"))
    y = frame.top + 12 + 18.0 * np.arange(len(counts))
    layers = {"rows names": texts(frame.left, y, counts)}
    pods = np.array([plan.pod[circle.group == g].max(initial=-1) for g in range(circle.n_groups)])
    starts = np.flatnonzero(np.diff(pods, prepend=-2) != 0)
    starts = starts[pods[starts] >= 0]
    if not 1 < starts.size <= _MOST_NAMES:
        starts = starts[:0]
    ends = np.append(starts[1:], circle.n_groups)
    middle = (starts + ends[: starts.size] - 1) / 2 if starts.size else starts.astype(float)
    outer = float(circle.away.max()) + circle.pitch / 2
    place = circle.at(middle * 2 * np.pi / circle.n_groups, outer + _LABEL)
    words = [str(pod) for pod in pods[starts].tolist()]
    if words:
        words[0] = text("plan.pod", n=int(pods[starts[0]]))
    layers["pod names"] = texts(place.real, place.imag, words, align=1.0, colour=COLOUR["soft"])
    return layers
