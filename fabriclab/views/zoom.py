"""Zoom: a cluster wired by rails in three steps, one server, one rail, and all of it with a dot for each GPU.

The three steps stand side by side in one picture, or each of them in a picture of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats, Ints, Timeline
from fabriclab.texts import text
from fabriclab.views.fabrics import share_of
from fabriclab.views.page import Picture, Table, plain
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    link_width,
    printed,
    scale,
    shade,
    texts,
    texts_at,
)

_WIDTH, _HEIGHT = 960.0, 356.0
_SERVER = (16.0, 264.0)  # ends of each panel [px]
_RAIL = (308.0, 572.0)
_ALL = (636.0, 944.0)
_ALONE = {"server": (16.0, 424.0), "rail": (16.0, 504.0), "all": (64.0, 584.0)}  # ends, each alone
_SPINES = 92.0  # y of the row of spines
_LEAVES = 150.0
_GPUS = 256.0
_NVLINK = 298.0
_NICS = 176.0
_BOTTOM = 330.0
_SCALES = {"server": 360.0, "rail": 306.0, "all": 360.0}  # y of the scale of loads, each alone
_SHOWN_RAIL, _SHOWN_SERVER = 3, 0


class Rails(NamedTuple):
    """The parts of a fabric wired by rails, and how full the links between them are."""

    fabric: Fabric
    n_servers: int
    n_rails: int
    per_leaf: int  # servers at a leaf
    leaf: Ints  # (rails, groups) nodes
    spine: Ints  # (S,) nodes
    nic_load: (
        Floats  # (servers, rails) of the link from the NIC to its leaf; NaN where no load is given
    )
    nvlink_load: float
    up_load: Floats  # (rails, groups, spines) of the fullest cable between a leaf and a spine


def zoom(
    fabric: Fabric,
    *,
    load: Timeline | ArrayLike | None = None,
    part: str | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw a cluster wired by rails in three steps: one server, one rail, and the whole with a dot for each GPU.

    Parameters
    ----------
    fabric : Fabric
        Servers with NVLink and a NIC for each GPU, a leaf for each rail and group of servers, and spines above, as
        ``topologies.build("rail_optimised")`` builds it.
    load : Timeline or array_like, shape (L,), optional
        Load of each link as a fraction of its capacity. [1], >= 0
    part : str, optional
        One of the three steps, which is then drawn alone and larger: ``"server"``, ``"rail"`` or ``"all"``.
    finding : optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If the fabric has no rails with leaves and spines, ``load`` does not fit it, or there is no such ``part``.
    """
    if part is not None:
        part = units.choice(part, "part", tuple(_ALONE))
    share = np.full(fabric.n_links, np.nan) if load is None else share_of(fabric, load)
    return printed(zoom_scene(rails_of(fabric, share), part), finding=finding)


def rails_of(f: Fabric, share: Floats) -> Rails:
    """Return the parts of a fabric wired by rails; ``share`` (L,) is the load of each link."""
    needed = ("gpu", "nic", "leaf", "spine")
    missing = [kind for kind in needed if kind not in f.kinds]
    if missing or f.rail.min() < 0:
        raise ValueError(
            f"zoom needs a fabric with rails, leaves and spines, got {f!r} without"
            f' {", ".join(missing) or "rails"}; build("rail_optimised") makes one'
        )
    kind = {name: np.flatnonzero(f.kind == f.kinds.index(name)) for name in needed}
    n_rails = int(f.rail.max()) + 1
    n_servers = int(f.server.max()) + 1
    leaf = kind["leaf"].reshape(n_rails, -1)

    from_nic = np.isin(f.source, kind["nic"]) & np.isin(f.target, kind["leaf"])
    up = np.isin(f.source, kind["leaf"]) & np.isin(f.target, kind["spine"])
    down = np.isin(f.source, kind["spine"]) & np.isin(f.target, kind["leaf"])
    nic_load = np.full(f.n_nodes, np.nan)
    nic_load[f.source[from_nic]] = share[from_nic]
    number = np.zeros(f.n_nodes, dtype=np.int64)  # of a leaf among leaves, of a spine among spines
    number[leaf.ravel()] = np.arange(leaf.size)
    number[kind["spine"]] = np.arange(kind["spine"].size)
    up_load = np.zeros((leaf.size, kind["spine"].size))
    np.maximum.at(up_load, (number[f.source[up]], number[f.target[up]]), np.nan_to_num(share[up]))
    np.maximum.at(
        up_load, (number[f.target[down]], number[f.source[down]]), np.nan_to_num(share[down])
    )
    from_gpu = np.isin(f.source, kind["gpu"])
    inside = from_gpu & (f.capacity == f.capacity[from_gpu].max())  # NVLink
    return Rails(
        fabric=f,
        n_servers=n_servers,
        n_rails=n_rails,
        per_leaf=-(-n_servers // leaf.shape[1]),
        leaf=leaf,
        spine=kind["spine"],
        nic_load=nic_load[kind["nic"]].reshape(n_servers, n_rails),
        nvlink_load=float(np.nan_to_num(share[inside]).max()),
        up_load=up_load.reshape(*leaf.shape, -1),
    )


def zoom_scene(r: Rails, part: str | None = None) -> Scene:
    """Return the picture of the three steps, or of one of them."""
    f = r.fabric
    known = bool(np.isfinite(r.nic_load).all())
    counts = {
        "gpus": f.n_ranks,
        "servers": r.n_servers,
        "rails": r.n_rails,
        "leaves": r.leaf.size,
        "spines": r.spine.size,
        "per_rail": r.leaf.shape[1],
    }
    said = text("zoom.said", **counts)
    ends = {"server": _SERVER, "rail": _RAIL, "all": _ALL} if part is None else {part: _ALONE[part]}
    layers: dict[str, Layer] = {}
    for name, place in ends.items():
        layers |= _title(name, place[0], counts)
        layers |= _PANELS[name](r, known, place, alone=part is not None)
    if known:
        left = _RAIL[0] + 6 if part is None else _ALONE[part][0] + 56
        layers |= scale(_BOTTOM + 8 if part is None else _SCALES[part], left=left)
        loads = {
            "nic": 100 * float(r.nic_load.max()),
            "up": 100 * float(r.up_load.max()),
            "busy": int(np.sum(r.up_load > 0)),
            "pairs": r.up_load.size,
        }
        said += " " + text("zoom.loads", **loads)
    table = Table(
        {
            "part": ["GPU", "NIC", "leaf", "spine"],
            "in a server": [r.n_rails, r.n_rails, 0, 0],
            "on a rail": [r.n_servers, r.n_servers, r.leaf.shape[1], r.spine.size],
            "in the cluster": [f.n_ranks, f.n_ranks, r.leaf.size, r.spine.size],
        }
    )
    if part is None:
        return Scene(said, table, layers, _HEIGHT, said, width=_WIDTH)
    height = _SCALES[part] + (26 if known else 0)
    return Scene(said, table, layers, height, said, width=_ALONE[part][1] + 16)


def _title(name: str, left: float, counts: dict[str, int]) -> dict[str, Layer]:
    """Return the title of a panel, with a line on what it holds."""
    title = text(f"zoom.{name}", **counts, number=_SHOWN_RAIL)
    note = text(f"zoom.{name}_note", **counts, number=_SHOWN_RAIL)
    return {
        f"{name} title": heading(16.0, title, left),
        f"{name} note": texts(left, 36.0, [note], colour=COLOUR["soft"]),
    }


def _look(load: ArrayLike, known: bool) -> dict[str, Floats]:
    """Return colour, width and flow of links by their load; without loads all are hairlines."""
    share = np.nan_to_num(np.asarray(load, dtype=np.float64))
    if not known:
        return {"colour": np.full(share.shape, COLOUR["hair"]), "width": np.full(share.shape, 1.0)}
    return {
        "colour": np.where(share > 0, shade(share), COLOUR["hair"]),
        "width": link_width(share),
        "flow": share,
    }


def _straight(x: NDArray[Any], top: float, bottom: float) -> list[Floats]:
    """Return a vertical line at each x."""
    return [np.array([[place, bottom], [place, top]]) for place in x]


def _server(r: Rails, known: bool, ends: tuple[float, float], *, alone: bool) -> dict[str, Layer]:
    """Return one server: its GPUs on NVLink, and a NIC for each of them."""
    left, right = ends
    n = r.n_rails
    step = (right - left - 24) / n
    centre = left + 12 + step * (np.arange(n) + 0.5)
    half = min(16.0 if alone else 13.0, 0.42 * step)
    load = r.nic_load[_SHOWN_SERVER]
    numbers = [str(i) for i in range(n)]
    nvlink = _look(np.full(n, r.nvlink_load), known)
    node, gpu = COLOUR["node"], COLOUR["gpu"]
    up = [text("zoom.to_rail", n=i) if i in (0, n - 1) else "" for i in range(n)]
    f = r.fabric
    to_nic = units.format_rate(float(f.capacity[f.source == r.leaf[0, 0]].max()))
    to_nvlink = units.format_rate(float(f.capacity[f.source == f.endpoint[0]].max()))
    return {
        "server": boxes(
            left,
            _NICS - 24,
            right - left,
            _BOTTOM - _NICS + 24,
            colour=-1.0,
            edge=COLOUR["edge"],
            round=8.0,
        ),
        "domain": boxes(
            left + 6,
            _GPUS - 20,
            right - left - 12,
            _BOTTOM - _GPUS + 14,
            colour=COLOUR["domain"],
            round=6.0,
        ),
        "to rails": lines(_straight(centre, 112.0, _NICS - 12), **_look(load, known)),
        "in server": lines(_straight(centre, _NICS + 12, _GPUS - 12), **_look(load, known)),
        "nvlink": lines(_straight(centre, _GPUS + 12, _NVLINK - 10), **nvlink),
        "nics": boxes(
            centre - half,
            _NICS - 12,
            2 * half,
            24.0,
            colour=node,
            texts=numbers,
            ink=ink_on(np.full(n, node)),
        ),
        "gpus": boxes(
            centre - half,
            _GPUS - 12,
            2 * half,
            24.0,
            colour=gpu,
            texts=numbers,
            ink=ink_on(np.full(n, gpu)),
        ),
        "switch": boxes(
            left + 14,
            _NVLINK - 10,
            right - left - 28,
            20.0,
            colour=node,
            texts=[text("zoom.nvlink", rate=plain(to_nvlink))],
            ink=ink_on(node),
        ),
        "rail names": texts(centre, 102.0, up, align=1.0, colour=COLOUR["soft"]),
        "kinds": texts(
            left, _BOTTOM + 14, [text("zoom.rows", rate=plain(to_nic))], colour=COLOUR["soft"]
        ),
    }


def _rail(r: Rails, known: bool, ends: tuple[float, float], *, alone: bool) -> dict[str, Layer]:
    """Return one rail: the NICs of one number as dots below their leaves, and the spines above."""
    left, right = ends
    rail = min(_SHOWN_RAIL, r.n_rails - 1)
    n_groups = r.leaf.shape[1]
    room = (right - left) / n_groups
    centre = left + room * (np.arange(n_groups) + 0.5)
    server = np.arange(r.n_servers)
    group, place = np.divmod(server, r.per_leaf)
    across = min(8, r.per_leaf)
    step = min(0.86 * room / across, 12.0)
    x = centre[group] + step * (place % across - (across - 1) / 2)
    y = 218.0 + 14.0 * (place // across)

    first = place < across  # the dots of the upper row, which stand for those below them
    fans = [
        np.array([[x[i], y[i] - 5], [centre[group[i]], _LEAVES + 11]])
        for i in np.flatnonzero(first)
    ]
    spine_x = left + (right - left) * (np.arange(r.spine.size) + 0.5) / r.spine.size
    ups = [np.array([[c, _LEAVES - 11], [s, _SPINES + 8]]) for c in centre for s in spine_x]
    up = r.up_load[rail].ravel()
    order = np.argsort(up, kind="stable")  # the fullest on top
    ups = [ups[i] for i in order]
    names = [text("zoom.leaf", n=rail * n_groups + i) for i in range(n_groups)]
    node = COLOUR["node"]
    size = min(14.0, 0.7 * (right - left) / r.spine.size)
    load = r.nic_load[:, rail]
    dot = np.where(np.isfinite(load), shade(load), COLOUR["gpu"])
    width = min(60.0, 0.84 * room)
    under = {}
    if alone:  # only then is there room for the names of servers
        last = np.minimum(r.per_leaf * np.arange(1, n_groups + 1), r.n_servers) - 1
        spans = [
            text("zoom.servers", first=r.per_leaf * i, last=int(end)) for i, end in enumerate(last)
        ]
        under["spans"] = texts(centre, float(y.max()) + 22, spans, align=1.0, colour=COLOUR["soft"])
    return {
        **under,
        "to spines": lines(ups, **_look(up[order], known)),
        "fans": lines(fans, **_look(load[first], known) | {"width": 0.8}),
        "spines": boxes(spine_x - size / 2, _SPINES - 8, size, 16.0, colour=node),
        "leaves": boxes(
            centre - width / 2,
            _LEAVES - 11,
            width,
            22.0,
            colour=node,
            texts=names,
            ink=ink_on(np.full(n_groups, node)),
        ),
        "rail nics": Layer("dots", {"x": x, "y": y, "size": 3.2, "colour": dot}),
        "spine name": texts_at((left, _SPINES - 22, text("zoom.spines", n=r.spine.size), 0)),
    }


def _cluster(r: Rails, known: bool, ends: tuple[float, float], *, alone: bool) -> dict[str, Layer]:
    """Return the whole cluster: a dot for each GPU, in the band of its rail and above the bar of its leaf."""
    left, right = ends
    n_groups = r.leaf.shape[1]
    gap = 10.0  # between the servers of neighbouring leaves
    room = (right - left - gap * (n_groups - 1)) / n_groups
    across = -(-r.per_leaf // 2)  # dots side by side, in two rows
    step = room / across
    band = (_BOTTOM - 174.0) / r.n_rails

    server, rail = (axis.ravel() for axis in np.indices(r.nic_load.shape))
    group, place = np.divmod(server, r.per_leaf)
    x = left + (room + gap) * group + step * (place % across + 0.5)
    y = 178.0 + band * rail + 0.3 * band * (place // across)
    load = r.nic_load.ravel()
    colour = np.where(np.isfinite(load), shade(load), COLOUR["gpu"])

    spine_x = left + (right - left) * (np.arange(r.spine.size) + 0.5) / r.spine.size
    size = min(12.0, 0.7 * (right - left) / r.spine.size)
    starts = left + (room + gap) * np.arange(n_groups)
    bundles = _straight(starts + room / 2, _SPINES + 8, 168.0)
    tops = 178.0 + band * np.arange(r.n_rails)
    is_shown = np.arange(r.n_rails) == _SHOWN_RAIL
    shown = server == _SHOWN_SERVER
    return {
        "bundles": lines(bundles, **_look(r.up_load.max(axis=(0, 2)), known)),
        "all spines": boxes(spine_x - size / 2, _SPINES - 8, size, 16.0, colour=COLOUR["node"]),
        "all leaves": boxes(
            np.tile(starts, r.n_rails),
            np.repeat(tops, n_groups) + 0.52 * band,
            room,
            2.0,
            colour=COLOUR["node"],
            round=1.0,
        ),
        "all gpus": Layer("dots", {"x": x, "y": y, "size": 1.9, "colour": colour}),
        "this server": Layer(
            "dots", {"x": x[shown], "y": y[shown], "size": 4.0, "shape": 1.0, "colour": 0.0}
        ),
        "again": Layer(
            "dots", {"x": x[shown], "y": y[shown], "size": 1.9, "colour": colour[shown]}
        ),
        "rows": texts(
            left - 8,
            tops + 0.2 * band,
            [text("zoom.to_rail", n=i) for i in range(r.n_rails)],
            align=2.0,
            bold=is_shown.astype(float),
            colour=np.where(is_shown, 0.0, COLOUR["soft"]),
            size=11.0,
        ),
        "shown server": texts(
            left, _BOTTOM + 14, [text("zoom.this_server", n=_SHOWN_SERVER)], colour=COLOUR["soft"]
        ),
        "all names": texts_at((left, _SPINES - 22, text("zoom.spines", n=r.spine.size), 0)),
    }


_PANELS = {"server": _server, "rail": _rail, "all": _cluster}
