"""Groups of switches on a ring, as a dragonfly has them: global cables are curves inside, endpoints are dots outside.

The switches of a group share an arc of the ring. Where they are few, each is a box and local cables are small curves;
where they are many, the group is a band in the colour of its fullest local cable. An endpoint has the colour of the
load of its own link, so that the dots light up with the rate that endpoints get.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import Lines, Placed, colours_of, readable
from fabriclab.views.scene import (
    COLOUR,
    FORM,
    Layer,
    boxes,
    ink_on,
    lines,
    link_width,
    shade,
    texts,
)

MOST_IN_GROUPS = 64  # with more switches, each group is one band
_ARC = 0.8  # share of its room on the ring that a group fills
_CURVE = 28  # points of a curve
_LABEL = 0.26  # distance of a group's name from the ring, in radii
_FIRST, _NEXT = 0.085, 0.034  # distance of the first dot from the ring and between dots, in radii
_LOCAL = 0.11  # room that local cables take outside the ring, in radii, where switches are boxes
_MOST_DOTS = 2048
_MOST_NAMES = 40  # with more groups, only some have room for a name
_MANY = 200  # so many idle cables are drawn paler
_MUCH_INK = 6.0e4  # area that busy cables may cover before they become thinner and let others shine through [px^2]
_THIN, _VEIL = 0.25, 0.45  # least part of their width, and least opacity

Complexes = NDArray[np.complex128]


class Ring(NamedTuple):
    """The ring that groups are on."""

    middle: complex  # [px]
    radius: float  # [px]
    group: Ints  # (N,) number of the group of each node
    turn: Floats  # (N,) direction of each node's switch from the middle; 0 is upwards [radians]
    wide: float  # room of a switch [radians]

    def at(self, turn: ArrayLike, far: ArrayLike) -> Complexes:
        """Return the point in a direction, at a distance of ``far`` radii from the middle. [px]."""
        direction = -1j * np.exp(1j * np.asarray(turn, dtype=np.float64))
        return np.asarray(self.middle + self.radius * np.asarray(far) * direction)


def radius_in(room: float, folded: bool) -> float:
    """Return the radius of a ring that fits with its endpoints and names into a square, given the half of its side."""
    return (room - 7.0) / (1 + _LABEL + (0.0 if folded else _LOCAL))


def ring_of(f: Fabric, of_switch: Ints, middle: complex, radius: float) -> Ring:
    """Return where each node of a fabric with groups stands; ``of_switch`` is the switch of each node, (N,)."""
    _, group = np.unique(f.coordinate("group"), return_inverse=True)
    switches = np.flatnonzero(f.transit)
    n_groups = int(group.max()) + 1
    size = np.bincount(group[switches], minlength=n_groups)  # (groups,) switches
    # Switches are numbered by group, so that its place in its group follows from how many come before it.
    ordered = switches[np.argsort(group[switches], kind="stable")]
    place = np.zeros(f.n_nodes)
    before = np.cumsum(size) - size
    place[ordered] = np.arange(ordered.size) - before[group[ordered]]

    room = 2 * np.pi / n_groups
    wide = _ARC * room / float(size.max())
    turn = group * room + (place - (size[group] - 1) / 2) * wide
    return Ring(middle, radius, group[of_switch], turn[of_switch], wide)


def ring_layers(
    placed: Placed, ring: Ring, every_name: bool, colour: str, *, flow: bool = True
) -> dict[str, Layer]:
    """Return the layers of a fabric with groups: cables, endpoints, switches or bands, and names."""
    marks, k = placed.marks, placed.lines
    if not marks.folded:
        inside = ring.group[marks.first[k.a]] == ring.group[marks.first[k.b]]
    else:
        inside = np.zeros(k.a.size, dtype=bool)
    order = np.argsort(np.nan_to_num(k.fullest), kind="stable")
    order = order[k.a[order] != k.b[order]]
    k = Lines._make(column[order] for column in k)
    inside = inside[order]

    hosts = _hosts(placed, ring, colour)
    layers = {
        "cables": _cables(placed, k, ring, inside, colour, flow=flow),
        **_host_links(placed, ring, colour, hosts),
        "hosts": hosts,
        "nodes": _bands(placed, ring, colour) if marks.folded else _switches(placed, ring),
        "words": _names(ring, every_name),
    }
    return layers


# Cables -------------------------------------------------------------------------------------------


def global_curves(ring: Ring, one: Ints, other: Ints) -> list[Floats]:
    """Return the curves (28, 2) of cables between groups, given the nodes at both ends of each.

    A curve is a cubic Bezier that leaves both ends towards the middle, and comes the nearer to it the further the
    ends are apart.
    """
    apart = np.abs(np.angle(np.exp(1j * (ring.turn[one] - ring.turn[other]))))
    depth = 1 - 0.72 * np.sin(apart / 2) ** 0.8
    return bezier(
        ring.at(ring.turn[one], 1),
        ring.at(ring.turn[one], depth),
        ring.at(ring.turn[other], depth),
        ring.at(ring.turn[other], 1),
    )


def local_curves(ring: Ring, one: Ints, other: Ints) -> list[Floats]:
    """Return the curves (28, 2) of cables within groups: arcs outside the ring that pass above the switches between."""
    start, end = ring.turn[one], ring.turn[other]
    steps = np.abs(end - start) / ring.wide
    clear = 1.42 * _half(ring) + 3.0  # what an arc needs to pass a box [px]
    high = np.where(steps < 1.5, 0.5, 1.4 + 0.35 * (steps - 2)) * clear / ring.radius
    return bezier(
        ring.at(start, 1), ring.at(start, 1 + high), ring.at(end, 1 + high), ring.at(end, 1)
    )


def _half(ring: Ring) -> float:
    """Return half the side of a switch's box [px]."""
    return float(np.clip(0.36 * ring.wide * ring.radius, 2.0, 9.0))


def bezier(start: Complexes, leave: Complexes, arrive: Complexes, end: Complexes) -> list[Floats]:
    """Return points (28, 2) of cubic Bezier curves from their four points: the first and the last are the ends."""
    t = np.linspace(0, 1, _CURVE)
    weights = np.stack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
    points = np.stack([start, leave, arrive, end], axis=-1) @ weights  # (curves, 28)
    return list(np.stack([points.real, points.imag], axis=-1))


def _ends(placed: Placed, k: Lines) -> tuple[Ints, Ints]:
    """Return the two nodes that each line joins; of a bundle between groups, those of its fullest cable.

    The first is the one from which the fuller direction leads.
    """
    f, marks, _, share = placed
    one, other = f.source[::2], f.target[::2]
    low, high = np.sort(marks.of_node[[one, other]], axis=0)
    known = np.nan_to_num(share)
    fuller = np.maximum(known[::2], known[1::2])
    # The last cable of each pair of places is the fullest.
    by_load = np.argsort(fuller, kind="stable")
    cable = np.full((marks.first.size, marks.first.size), -1)
    cable[low[by_load], high[by_load]] = by_load
    chosen = cable[k.a, k.b]
    backwards = known[1::2][chosen] > known[::2][chosen]
    return (
        np.where(backwards, other[chosen], one[chosen]),
        np.where(backwards, one[chosen], other[chosen]),
    )


def _cables(
    placed: Placed, k: Lines, ring: Ring, inside: NDArray[np.bool_], colour: str, *, flow: bool
) -> Layer:
    """Return all cables between different places, the fullest on top; a bundle has the load of its fullest cable."""
    marks = placed.marks
    one, other = _ends(placed, k)
    paths = np.empty(k.a.size, dtype=object)
    across = np.flatnonzero(~inside)
    for i, path in zip(across, global_curves(ring, one[across], other[across]), strict=True):
        paths[i] = path
    within = np.flatnonzero(inside)
    for i, path in zip(within, local_curves(ring, one[within], other[within]), strict=True):
        paths[i] = path

    load = np.nan_to_num(k.fullest)
    known = colour == "load" and bool(np.isfinite(k.fullest).all())
    busy = load > 0
    width = link_width(load)
    alpha = np.ones(k.a.size)
    if known:
        colours = np.where(busy, shade(load), COLOUR["hair"])
        lengths = np.array([np.abs(np.diff(path @ [1, 1j])).sum() for path in paths])
        ink = max(float((width * lengths)[busy].sum()), 1.0)  # [px^2]
        part = float(np.clip(_MUCH_INK / ink, _THIN, 1.0))
        width = np.where(busy, np.maximum(part * width, 0.8), width)
        alpha = np.where(busy, max(part, _VEIL), alpha)
        # Many hairlines are a texture; few of them are read one by one.
        many = np.count_nonzero(~busy) > _MANY
        alpha = np.where(busy, alpha, 0.6 if many else 1.0)
        width = np.where(busy, width, 0.6 if many else width)
    elif colour == "failure" or colour == "load":
        colours = np.full(k.a.size, COLOUR["hair"])
        width = np.full(k.a.size, 1.0)
    else:
        colours = colours_of(colour, load, k.failed, np.where(inside, 1, 0))
        width = np.full(k.a.size, 1.0)
    dead = k.failed == k.cables
    form = np.where(dead, FORM["failed"], FORM["plain"])
    return lines(
        list(paths),
        width=np.where(dead, 1.2, width),
        colour=np.where(dead, COLOUR["failed"], colours),
        alpha=alpha,
        form=form,
        flow=load if known and flow and busy.any() else None,
        a=ring.group[one] if marks.folded else None,
        b=ring.group[other] if marks.folded else None,
        **readable(marks, k),
    )


# Endpoints, switches, names -----------------------------------------------------------------------


def _load_of_nodes(placed: Placed, nodes: Ints) -> Floats:
    """Return the load of the fullest link to or from each node; NaN where no load is given."""
    f, share = placed.fabric, placed.share
    most = np.full(f.n_nodes, np.nan if np.isnan(share).any() else 0.0)
    for ends in (f.source, f.target):
        np.fmax.at(most, ends, share)
    return np.asarray(most[nodes])


def _hosts(placed: Placed, ring: Ring, colour: str) -> Layer:
    """Return a dot for each endpoint beside its switch, in the colour of the load of its link."""
    f, marks = placed.fabric, placed.marks
    hosts = f.endpoint[~f.transit[f.endpoint]].astype(np.int64)
    if not 0 < hosts.size <= _MOST_DOTS:
        hosts = hosts[:0]
    # The endpoints of one switch stand in a row outwards.
    turn = ring.turn[hosts]
    _, which = np.unique(np.round(turn, 9), return_inverse=True)
    first = np.searchsorted(np.sort(which), which)
    order = np.empty(hosts.size, dtype=np.int64)
    order[np.argsort(which, kind="stable")] = np.arange(hosts.size)
    rank = order - first
    many = max(int(rank.max(initial=0)) + 1, 1)
    step = min(_NEXT, 0.5 * (_LABEL - _FIRST) / many * 1.6)
    away = 1 + _FIRST + step * rank
    if not marks.folded:
        away = away + _LOCAL
    place = ring.at(turn, away)
    load = _load_of_nodes(placed, hosts)
    known = colour == "load" and bool(np.isfinite(load).all())
    lit = np.where(load > 0, shade(load), COLOUR["hair"]) if known else COLOUR["gpu"]
    size = (0.0125 if marks.folded else 0.018) * ring.radius * np.ones(hosts.size)
    if known:  # the more an endpoint gets, the larger its dot
        size = size * np.where(load > 0, 0.8 + 0.35 * load, 0.75)
    return Layer(
        "dots",
        {
            "x": place.real,
            "y": place.imag,
            "size": size,
            "colour": np.broadcast_to(lit, hosts.size),
            "plain": 1.0,
            "a": ring.group[hosts] if marks.folded else None,
        },
    )


def _host_links(placed: Placed, ring: Ring, colour: str, hosts: Layer) -> dict[str, Layer]:
    """Return the links that endpoints use, from the box of their switch to their dot, where switches are boxes."""
    f, marks = placed.fabric, placed.marks
    x, y = np.asarray(hosts.fields["x"]), np.asarray(hosts.fields["y"])
    nodes = f.endpoint[~f.transit[f.endpoint]].astype(np.int64)
    if marks.folded or colour != "load" or x.size != nodes.size:
        return {}
    load = _load_of_nodes(placed, nodes)
    used = np.flatnonzero(np.nan_to_num(load) > 0)
    start = ring.at(ring.turn[nodes[used]], 1)
    paths = [
        np.array([[a.real, a.imag], [x[i], y[i]]])
        for a, i in zip(start, used.tolist(), strict=True)
    ]
    look = {"width": link_width(load[used]), "colour": shade(load[used])}
    return {"host links": lines(paths, **look)} if used.size else {}


def _bands(placed: Placed, ring: Ring, colour: str) -> Layer:
    """Return a band for each group in the colour of its fullest local cable, which says what its cables carry."""
    f, marks, every, share = placed
    n_groups = len(marks.names)
    local = np.full(n_groups, np.nan)
    within = np.flatnonzero(
        f.transit[f.source]
        & f.transit[f.target]
        & (marks.of_node[f.source] == marks.of_node[f.target])
    )
    local[:] = np.nan if np.isnan(share).any() else 0.0
    np.fmax.at(local, marks.of_node[f.source[within]], share[within])

    known = colour == "load" and bool(np.isfinite(local).all())
    load = np.nan_to_num(local)
    if known:
        colours = np.where(load > 0, shade(load), COLOUR["hair"])
        width = ring.radius / 56 * (1 + load)
    else:
        colours = np.full(n_groups, COLOUR["node"])
        width = np.full(n_groups, ring.radius / 40)
    paths, notes = [], []
    between = every.a != every.b
    for mark in range(n_groups):
        here = ring.turn[marks.of_node == mark]
        sweep = np.linspace(here.min() - 0.35 * ring.wide, here.max() + 0.35 * ring.wide, _CURVE)
        points = ring.at(sweep, 1.02)
        paths.append(np.stack([points.real, points.imag], axis=1))
        out = between & ((every.a == mark) | (every.b == mark))
        notes.append(_band_note(every, out, float(local[mark])))
    return lines(
        paths,
        width=width,
        colour=colours,
        names=list(marks.names),
        notes=notes,
        focus=True,
        a=np.arange(n_groups),
    )


def _band_note(every: Lines, out: NDArray[np.bool_], local: float) -> str:
    """Return what the cables of a group carry, in words."""
    cables = int(every.cables[out].sum())
    if np.isnan(local):
        return text("ring.cables", n=cables)
    load = every.fullest[out]
    used = int(every.cables[out][load > 0].sum())
    return text(
        "ring.note", used=used, n=cables, most=100 * load.max(initial=0.0), local=100 * local
    )


def _switches(placed: Placed, ring: Ring) -> Layer:
    """Return a box for each switch, with its number in its group where that fits."""
    f, marks = placed.fabric, placed.marks
    place = ring.at(ring.turn[marks.first], 1)
    half = _half(ring)
    labels = [name.split(",")[0].split()[-1].split(".")[-1] for name in marks.names]
    if max(map(len, labels)) * 7 > 2 * half:
        labels = [""] * len(labels)
    colours = np.where(f.tier[marks.first] > 0, COLOUR["switch"], COLOUR["host"])
    return boxes(
        place.real - half,
        place.imag - half,
        2 * half,
        2 * half,
        colour=colours,
        ink=ink_on(colours),
        names=marks.names,
        texts=labels,
        round=2.0,
    )


def _names(ring: Ring, every_name: bool) -> Layer:
    """Return the names of groups around the ring: the first in full, the others as numbers."""
    n_groups = int(ring.group.max()) + 1
    apart = -(-n_groups // _MOST_NAMES)
    shown = np.arange(0, n_groups, apart)
    turn = shown * 2 * np.pi / n_groups
    place = ring.at(turn, 1 + _LABEL + (0.0 if every_name else _LOCAL))
    words = [text("map.group", n=0), *(str(n) for n in shown[1:])]
    return texts(place.real, place.imag, words, align=1.0, size=11.0, colour=COLOUR["soft"])
