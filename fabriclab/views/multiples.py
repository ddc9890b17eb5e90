"""Small multiples: several fabrics side by side, each reduced to its nodes and cables, drawn to one scale of loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.core import Fabric, Flags, Floats, Ints, Timeline
from fabriclab.simulation import Rings
from fabriclab.texts import text
from fabriclab.views.fabrics import share_of
from fabriclab.views.layout import counted
from fabriclab.views.maps import cube_spots, is_cube
from fabriclab.views.page import Picture, Table
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    lines,
    link_width,
    printed,
    scale,
    shade,
    texts,
    turned,
)
from fabriclab.views.solids import solid_of
from fabriclab.views.sweeps import readable

MOST = 6
_WIDTH = 900.0  # [px]
# Room for titles and, below them, for lines that are bent beyond the drawing; its height; room for the scale. [px]
_TOP, _SIDE, _BOTTOM = 74.0, 188.0, 40.0
_INSIDE = ("cpu", "pcie", "nic", "port")  # parts of a server that no link between GPUs passes
_BEND, _MOST_BEND = (
    0.12,
    14.0,
)  # of a curve between two nodes, in lengths of the line and at most [px]
_MANY = 240  # lines beyond which they are thinner
_LIT = 2.2  # width of a line in ink [px]
_STUB = 0.4  # of a cable around the edge of a solid, in distances between nodes


class Mini(NamedTuple):
    """A small drawing of a fabric: nodes and the pairs that cables join, in a square from 0 to 1."""

    place: Floats  # (M, 2)
    is_end: Ints  # (M,) 1 for endpoints
    pairs: Ints  # (K, 2) numbers of nodes
    load: Floats  # (K,) of the fullest link between them; NaN where no load is given
    span: Ints  # (K,) in a grid the distance between the two; a line of more than 1 passes nodes, and is bent
    cut: Flags  # (K,) whether only the ends of a line are drawn, as it leads around the edge of a solid
    lit: Flags  # (K,) whether a line is in ink
    lit_end: Flags  # (M,) whether a node is in ink


def multiples(
    fabrics: Mapping[str, Fabric],
    *,
    load: Mapping[str, Timeline | ArrayLike] | None = None,
    notes: Mapping[str, str] | None = None,
    rings: Mapping[str, Rings] | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw several fabrics side by side, so that their wirings can be compared at a glance.

    Each is reduced to its nodes and the cables between them; parallel cables are one line, and the inside of a server
    is its GPUs and the switches between them.

    Parameters
    ----------
    fabrics : mapping of str to Fabric
        Two to six fabrics by the name that stands above them.
    load : mapping of str to Timeline or array_like of shape (L,), optional
        For some or all of them the load of each link as a fraction of its capacity. [1], >= 0
    notes : mapping of str to str, optional
        A line to stand below the name of each, such as its rate.
    rings : mapping of str to Rings, optional
        Rings to draw in ink, as `fabriclab.simulation.best_rings` gives them: their ranks, and the links that they use.
    finding : optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If there are fewer than two fabrics or more than six, or a load does not fit its fabric.
    """
    if not 2 <= len(fabrics) <= MOST:
        raise ValueError(
            f"multiples needs 2 to {MOST} fabrics, got {len(fabrics)}; fl.views.fabric draws one"
        )
    loads = dict(load or {})
    unknown = [name for name in loads if name not in fabrics]
    if unknown:
        raise ValueError(f"load is for fabrics that are not drawn: {', '.join(unknown)}")
    minis = {}
    # Where a map hides the cables to hosts, another drawing that showed them would look fuller than it is.
    no_hosts = not loads and _hide_hosts(fabrics)
    for name, fabric in fabrics.items():
        known = name in loads
        share = share_of(fabric, loads[name]) if known else np.full(fabric.n_links, np.nan)
        minis[name] = mini_of(fabric, share, no_hosts=no_hosts, rings=(rings or {}).get(name))
    return printed(multiples_scene(fabrics, minis, dict(notes or {})), finding=finding)


def _hide_hosts(fabrics: Mapping[str, Fabric]) -> bool:
    """Return whether all fabrics join hosts, and a map hides those of one of them in the dots of their switches."""
    all_hosts = all(f.kinds[f.kind[f.endpoint[0]]] == "host" for f in fabrics.values())
    return all_hosts and any(
        _has_map(f) and not f.transit[f.endpoint].any() for f in fabrics.values()
    )


def mini_of(
    f: Fabric, share: Floats, *, no_hosts: bool = False, rings: Rings | None = None
) -> Mini:
    """Return the small drawing of a fabric, with the load of each link (L,) and with some ``rings`` in ink.

    With ``no_hosts`` it shows switches alone.
    """
    inside = np.isin(f.kind, [i for i, kind in enumerate(f.kinds) if kind in _INSIDE])
    is_end = np.isin(np.arange(f.n_nodes), f.endpoint)
    # Of a direct network hosts are in the dot of their switch.
    hosts = is_end & ~f.transit & (_has_map(f) or no_hosts)
    keep = np.flatnonzero((~inside | is_end) & ~hosts)
    number = np.full(f.n_nodes, -1)
    number[keep] = np.arange(keep.size)

    ends = np.sort(number[[f.source, f.target]], axis=0)  # (2, L)
    drawn = (ends[0] >= 0) & (ends[0] != ends[1])
    key = ends[0] * keep.size + ends[1]
    pair, line = np.unique(key[drawn], return_inverse=True)
    fullest = np.full(pair.size, -1.0)
    np.maximum.at(fullest, line, np.nan_to_num(share[drawn], nan=-1.0))
    pairs = np.stack(np.divmod(pair, keep.size), axis=1)
    span, cut = _spans(f, keep[pairs])
    lit = np.zeros(pair.size, dtype=bool)
    lit_end = np.zeros(keep.size, dtype=bool)
    if rings is not None:
        np.logical_or.at(lit, line, rings.load[drawn] > 0)
        lit_end = np.isin(keep, f.endpoint[rings.orders.ravel()])
    return Mini(
        place=_places(f, keep),
        is_end=is_end[keep].astype(np.int64),
        pairs=pairs,
        load=np.where(fullest < 0, np.nan, fullest),
        span=span,
        cut=cut,
        lit=lit,
        lit_end=lit_end,
    )


def _grid(f: Fabric, nodes: Ints) -> list[Ints]:
    """Return the coordinates of nodes along each axis of a grid, or nothing if a fabric is no grid."""
    if not _has_map(f) or "x" not in f.coord_names:
        return []
    names = [name for name in f.coord_names if name != "local"]
    return [f.coordinate(name)[nodes].astype(np.int64) for name in names]


def _spans(f: Fabric, pairs: Ints) -> tuple[Ints, Flags]:
    """Return how far apart the nodes of each pair (K, 2) are in a grid, and whether only the ends are drawn.

    Those are cables that close the rings of a solid, where no other cable passes a node.
    """
    grid = _grid(f, pairs)
    if not grid:
        return np.ones(len(pairs), np.int64), np.zeros(len(pairs), bool)
    step = np.abs([np.diff(values, axis=1)[:, 0] for values in grid])  # (axes, K)
    span = step.max(axis=0)
    last = np.array([values.max() for values in grid])[:, None]
    around = ((step == last) & (last > 1)).any(axis=0)
    is_solid = len(grid) > 2 and not (~around & (span > 1)).any()
    return span, around & is_solid


def _has_map(f: Fabric) -> bool:
    """Return whether the coordinates of switches place them on a map: on a grid, or in groups."""
    names = f.coord_names
    return "half" not in names and ("x" in names or "group" in names)


def _places(f: Fabric, keep: Ints) -> Floats:
    """Return where each node is in a square from 0 to 1, (M, 2)."""
    names = f.coord_names
    if _has_map(f) and "x" in names:
        return _on_grid(f, keep)
    if _has_map(f):
        order = np.argsort(f.coordinate("group")[keep], kind="stable")
        return _on_circle(np.argsort(order), keep.size, 0.48)
    tiers = np.unique(f.tier[keep])
    in_one_server = np.unique(f.server).size == 1 and "host" not in f.kinds
    if in_one_server or tiers.size == 1:
        return _around_switches(f, keep)
    return _in_rows(f, keep)


def _on_grid(f: Fabric, keep: Ints) -> Floats:
    """Return nodes at their coordinates: a map of two axes, a solid of three, a hypercube as squares of squares."""
    grid = _grid(f, keep)
    if is_cube(grid):
        spots = cube_spots(grid)
        place = np.stack([spots.x, spots.y], axis=1)
    elif len(grid) > 2:
        solid = solid_of(grid[:3], (0.0, 0.0), (1.0, 1.0))
        x, y, _ = turned(*solid.place.T)
        place = np.stack([x, y], axis=1)
    else:
        flat = [*grid, np.zeros(keep.size, np.int64)][:2]
        place = np.stack([values / max(values.max(), 1) for values in flat], axis=1)
    place = place - place.min(axis=0)
    size = np.ptp(place, axis=0)
    if (
        len(grid) > 2
    ):  # keeps its proportions, and leaves room for the ends of cables around the edge
        return np.asarray(0.5 + 0.97 * (place - size / 2) / max(size.max(), 1e-9))
    return np.asarray(place / np.maximum(size, 1e-9))


def _on_circle(number: ArrayLike, of: int, radius: float) -> Floats:
    """Return the places of nodes with the given numbers on a circle, clockwise from the top."""
    turn = 2 * np.pi * np.asarray(number) / max(of, 1)
    return 0.5 + radius * np.stack([np.sin(turn), -np.cos(turn)], axis=1)


def _around_switches(f: Fabric, keep: Ints) -> Floats:
    """Return the endpoints of a server on a circle, and its switches on a line through the middle."""
    is_end = np.isin(keep, f.endpoint)
    place = np.empty((keep.size, 2))
    n_ends = int(is_end.sum())
    place[is_end] = _on_circle(np.arange(n_ends) + 0.5, n_ends, 0.48)  # none is level with a switch
    n_switches = int((~is_end).sum())
    place[~is_end, 0] = 0.5 + 0.14 * (np.arange(n_switches) - (n_switches - 1) / 2)
    place[~is_end, 1] = 0.5
    return place


def _in_rows(f: Fabric, keep: Ints) -> Floats:
    """Return nodes in a row for each tier, the endpoints at the bottom."""
    tiers, row = np.unique(f.tier[keep], return_inverse=True)
    place = np.empty((keep.size, 2))
    for r in range(tiers.size):
        here = np.flatnonzero(row == r)
        place[here, 0] = (np.arange(here.size) + 0.5) / here.size
        place[here, 1] = 1 - r / max(tiers.size - 1, 1)
    return place


def multiples_scene(
    fabrics: Mapping[str, Fabric], minis: Mapping[str, Mini], notes: Mapping[str, str]
) -> Scene:
    """Return the picture of small drawings side by side."""
    room = _WIDTH / len(minis)
    size = min(_SIDE, room - 36)
    layers: dict[str, Layer] = {}
    known = False
    for i, (name, mini) in enumerate(minis.items()):
        left = room * i + (room - size) / 2
        known |= bool(np.isfinite(mini.load).any())
        layers |= _panel(name, mini, np.array([left, _TOP]), size)
    middles = room * (np.arange(len(minis)) + 0.5)
    titles = [readable(name) for name in minis]
    apart = _hide_hosts(fabrics) and not known
    below = [notes.get(name) or _counted(fabric, apart) for name, fabric in fabrics.items()]
    layers["titles"] = texts(middles, 14.0, titles, align=1.0, bold=1.0, size=13.0)
    layers["notes"] = texts(middles, 32.0, below, align=1.0, colour=COLOUR["soft"])
    height = _TOP + size + 20
    if known:
        layers |= scale(height, left=_WIDTH / 2 - 130)
        height += 24

    said = _said(fabrics, is_counted=not notes)
    facts = "; ".join(f"{name}: {note}" for name, note in zip(minis, below, strict=True))
    table = Table(_columns(fabrics, minis, below))
    hints = [text("multiples.stubs")] if any(mini.cut.any() for mini in minis.values()) else []
    for name, fabric in fabrics.items():
        each = _cables_of_line(fabric) if apart and name not in notes else 1
        if each > 1:
            hints.append(text("multiples.bundles", name=readable(name), n=each))
    hint = " ".join(hints)
    return Scene(said, table, layers, height, f"{said} {facts}.", hint=hint, width=_WIDTH)


def _cables_of_line(f: Fabric) -> int:
    """Return how many cables between switches each line stands for, if it is the same number for all; otherwise 1."""
    is_end = np.isin(f.source, f.endpoint) | np.isin(f.target, f.endpoint)
    there = (f.source < f.target) & ~is_end
    pairs = f.source[there] * f.n_nodes + f.target[there]
    cables = f.ports[there]
    total = np.bincount(np.unique(pairs, return_inverse=True)[1], cables)
    return int(total[0]) if total.size and np.all(total == total[0]) else 1


def _said(fabrics: Mapping[str, Fabric], *, is_counted: bool) -> str:
    """Return the sentence above the picture: how many cables as many endpoints need, if the picture counts them."""
    cables = {name: f.n_cables for name, f in fabrics.items()}
    ends = {f.n_ranks for f in fabrics.values()}
    least, most = min(cables, key=cables.__getitem__), max(cables, key=cables.__getitem__)
    is_counted &= not any(np.isin(_INSIDE, f.kinds).any() for f in fabrics.values())
    if len(ends) > 1 or cables[least] == cables[most] or not is_counted:
        return text("multiples.said", list=", ".join(fabrics))
    said = text(
        "multiples.cables",
        ends=_ends(next(iter(fabrics.values()))),
        low=f"{cables[least]:,}",
        least=least,
        most=most,
        high=counted(cables[most], "cable"),
    )
    has_hosts = all(f.kinds[f.kind[f.endpoint[0]]] == "host" for f in fabrics.values())
    if not has_hosts:
        return said
    to_hosts = {int(np.isin(f.source, f.endpoint).sum()) for f in fabrics.values()}
    if len(to_hosts) == 1 and _hide_hosts(fabrics):
        counted_too = text("multiples.ends_apart", n=to_hosts.pop())
    else:
        counted_too = text("multiples.with_ends")
    return f"{said} {counted_too}"


def _ends(f: Fabric) -> str:
    """Return the number of endpoints of a fabric in words, such as "64 hosts"."""
    return counted(f.n_ranks, f.kinds[f.kind[f.endpoint[0]]])


def _counted(f: Fabric, apart: bool) -> str:
    """Return the number of endpoints of a fabric and, unless it is the inside of a server, of its cables in words.

    If cables to hosts are ``apart``, it is that of all cables and of those between switches.
    """
    if np.isin(_INSIDE, f.kinds).any():
        return _ends(f)
    cables = counted(f.n_cables, "cable")
    if apart:
        between = f.n_cables - int(np.isin(f.source, f.endpoint).sum())
        return text("multiples.between", cables=cables, n=between)
    return f"{_ends(f)}, {cables}"


def _columns(
    fabrics: Mapping[str, Fabric], minis: Mapping[str, Mini], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the columns of the table twin."""
    columns: dict[str, Any] = {
        "wiring": list(minis),
        "note": list(notes),
        "endpoints": [f.n_ranks for f in fabrics.values()],
        "nodes drawn": [len(mini.place) for mini in minis.values()],
        "lines drawn": [len(mini.pairs) for mini in minis.values()],
    }
    fullest = [
        float(np.max(mini.load, initial=-1.0, where=np.isfinite(mini.load)))
        for mini in minis.values()
    ]
    columns["fullest"] = [value if value >= 0 else np.nan for value in fullest]
    return columns


def _panel(name: str, mini: Mini, corner: Floats, size: float) -> dict[str, Layer]:
    """Return the layers of one small drawing."""
    place = corner + size * mini.place
    share = np.nan_to_num(mini.load)
    order = np.lexsort((share, mini.lit))  # the fullest on top, and over them what is in ink
    paths = []
    drawn = []  # which pair each path belongs to
    for i in order:
        start, end = place[mini.pairs[i]]
        if mini.cut[i]:
            out = _STUB * (end - start) / mini.span[i]
            paths += [np.array([start, start - out]), np.array([end, end + out])]
        else:
            paths.append(_curve(start, end) if mini.span[i] > 1 else np.array([start, end]))
        drawn += [i] * (2 if mini.cut[i] else 1)
    if np.isfinite(mini.load).any():
        look = {
            "colour": np.where(share > 0, shade(share), COLOUR["hair"])[drawn],
            "width": (link_width(share) * (0.7 if len(place) <= 40 else 0.45))[drawn],
        }
    else:
        wide = 1.0 if len(paths) <= _MANY else 0.6
        is_lit = mini.lit[drawn]
        look = {
            "colour": np.where(is_lit, COLOUR["ink"], COLOUR["hair"]),
            "width": np.where(is_lit, _LIT, wide),
        }
    is_end = mini.is_end > 0
    n_ends = max(int(is_end.sum()), 1)
    dots = {
        "x": place[:, 0],
        "y": place[:, 1],
        "size": np.where(is_end, _size(n_ends, len(place)), 5.0 if len(place) <= 40 else 3.0),
        "colour": np.where(
            mini.lit_end, COLOUR["ink"], np.where(is_end, COLOUR["gpu"], COLOUR["node"])
        ),
        "shape": np.where(is_end, 0.0, 3.0),
    }
    return {f"{name} cables": lines(paths, **look), f"{name} nodes": Layer("dots", dots)}


def _size(ends: int, nodes: int) -> float:
    """Return the radius of endpoints [px]; where they are all there is, they are larger."""
    if ends <= 16:
        return 5.0
    return 2.6 if ends == nodes else 1.6


def _curve(start: Floats, end: Floats) -> Floats:
    """Return a bent path between two nodes, which passes beside the nodes between them."""
    along = end - start
    length = float(np.hypot(*along))
    t = np.linspace(0, 1, 24)[:, None]
    aside = np.array([along[1], -along[0]]) / length
    return start + along * t + 4 * min(_BEND * length, _MOST_BEND) * t * (1 - t) * aside
