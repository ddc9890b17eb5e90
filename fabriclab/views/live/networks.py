"""Live views of networks: families side by side, the ways between two endpoints, and what a hash does to cables."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from fabriclab import collectives, metrics, topologies
from fabriclab.core import Fabric, Flows
from fabriclab.metrics.traffic import uniform_load
from fabriclab.routing import route
from fabriclab.routing._balance import expected_fullest
from fabriclab.routing._ways import hashed
from fabriclab.texts import text
from fabriclab.views.live.controls import Choice, Control, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live
from fabriclab.views.page import Floats
from fabriclab.views.scene import COLOUR, Layer, Scene, lines, shade, texts_at
from fabriclab.views.tables import Table

SIZES: Final = (16, 64, 256, 1024)
# illustrative: of each family the member nearest to so many endpoints
FAMILIES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "fat_tree": ({"k": 4}, {"k": 6}, {"k": 10}, {"k": 16}),
    "leaf_spine": tuple({"hosts": n, "radix": r} for n, r in zip(SIZES, (8, 12, 24, 64), strict=True)),
    "rail_optimised": tuple({"servers": n // 8, "radix": r, "expand": False} for n, r in
                            zip(SIZES, (8, 16, 32, 64), strict=True)),
    "dragonfly": tuple({"p": h, "a": 2 * h, "h": h} for h in (1, 2, 3, 4)),
    "torus": tuple({"shape": s} for s in ((2, 2, 4), (4, 4, 4), (4, 8, 8), (8, 8, 16))),
    "mesh": tuple({"shape": s} for s in ((2, 2, 4), (4, 4, 4), (4, 8, 8), (8, 8, 16))),
    "hypercube": tuple({"dimensions": d, "hosts": 1} for d in (4, 6, 8, 10)),
    "hyperx": tuple({"shape": (k, k), "hosts": k} for k in (3, 4, 6, 10)),
    "slim_fly": tuple({"q": q, "hosts": p} for q, p in ((3, 1), (5, 1), (5, 4), (7, 10))),
    "jellyfish": tuple({"switches": n, "degree": d, "hosts": p} for n, d, p in
                       ((8, 4, 2), (21, 6, 3), (52, 10, 5), (128, 16, 8))),
}  # fmt: skip


def _uniform(f: Fabric) -> tuple[Floats, dict[str, Any]]:
    """Return the load of each link if all send to all as fast as the fullest link allows, and the figures to tell."""
    hops, sends = metrics.hops(f), np.bincount(f.source, f.capacity, f.n_nodes)[f.endpoint] / (f.n_ranks - 1)
    load = uniform_load(f, sends)[0] / np.maximum(f.capacity, 1.0)
    part = 1 / load.max()
    load *= part
    figures = {"diameter": hops.diameter, "mean": f"{hops.mean:.3g}", "part": f"{100 * part:.3g}"}
    return load, figures | {"cables": f"{f.n_cables:,}"}


@cache
def _facts(family: str, size: int) -> tuple[Fabric, Any, str]:
    """Return the member of a family, the load of uniform traffic at its throughput, and what it is."""
    f = topologies.build(family, **FAMILIES[family][SIZES.index(size)])
    load, figures = _uniform(f)
    switches = f"{np.count_nonzero(f.tier > 0):,}"
    return f, load, text("live.explorer.said", ends=f"{f.n_ranks:,}", switches=switches, **figures)


def explorer(family: str = "fat_tree", size: int = 64, colour: str = "load", *,
             families: tuple[str, ...] = tuple(FAMILIES)) -> Live:  # fmt: skip
    """Show families of networks at about equal size: what they need, how far it is, what uniform traffic gets.

    Parameters
    ----------
    family : str
        One of ``families``.
    size : int
        About so many endpoints: 16, 64, 256 or 1,024.
    colour : str
        What the colour of a link says: load (of traffic of all to all at the rate that the fullest link allows) or
        tier; of a network without tiers, the direction of its cables.
    families : tuple of str
        Which families to offer.
    """

    def scene(family: str, size: int, colour: str) -> Scene:
        f, load, said = _facts(family, size)
        return scene_of(f, load if colour == "load" else None, colour, said=said)

    controls: dict[str, Control] = {
        "family": Choice(families, text("live.explorer.family")),
        "size": Choice(SIZES, text("live.explorer.size")),
        "colour": Choice(("load", "tier"), text("live.fabric.colour")),
    }
    values = {"family": family, "size": size, "colour": colour}
    call = "fl.live.explorer(" + (f"families={families!r}" if families != tuple(FAMILIES) else "")
    return Live(call, scene, controls, values, text("live.explorer.title"))


def twist(shape: tuple[int, ...] = (4, 4, 8), shift: int = 0, colour: str = "load") -> Live:
    """Show a torus whose closing cables can be plugged with a twist: same cables, other ways.

    Parameters
    ----------
    shape : tuple of int
        Sides k and 2k.
    shift : int
        How far along the long sides a cable that closes a short one is plugged; 0 is the plain torus.
    colour : str
        As in `explorer`.
    """

    @cache
    def facts(shift: int) -> tuple[Fabric, Any, str]:
        f = topologies.build("twisted_torus", shape=shape, shift=shift)
        load, figures = _uniform(f)
        full = 100 * load.reshape(len(shape), -1).max(axis=1)  # cables are numbered by direction
        along = ", ".join(f"{name} {part:.3g}%" for name, part in zip(f.coord_names, full, strict=True))
        return f, load, text("live.twist.said", shift=shift, along=along, **figures)

    def scene(shift: int, colour: str) -> Scene:
        f, load, said = facts(shift)
        return scene_of(f, load if colour == "load" else None, colour, said=said)

    controls: dict[str, Control] = {
        "shift": Slider(0, max(shape) - 1, label=text("live.twist.shift")),
        "colour": Choice(("load", "tier"), text("live.fabric.colour")),
    }
    call = f"fl.live.twist({tuple(shape)!r}"
    return Live(call, scene, controls, {"shift": shift, "colour": colour}, text("live.twist.title"))


def mix(fabric: Fabric, share: int = 0, routing: str = "spray", colour: str = "load", *,
        routings: tuple[str, ...] = ("spray", "pxn")) -> Live:  # fmt: skip
    """Show rings on the rails mixed with all-to-all: what stays on a leaf and what crosses the spine.

    Every GPU hands the same bytes to the network, a part of them to all GPUs of other servers alike, the rest to the
    next GPU of its rail.

    Parameters
    ----------
    fabric : Fabric
        With rails, such as ``topologies.build("rail_optimised", servers=16)``.
    share : int
        Part of the bytes that go to all. [%]
    routing, colour : str
        One of ``routings``; what the colour of a link says: load, tier or rail.
    routings : tuple of str
        "spray" sends from the own NIC, "pxn" over NVLink to the GPU that owns the target's rail.
    """
    groups = np.array(collectives.rail_groups(fabric))
    near, far = groups.ravel(), np.roll(groups, -1, axis=-1).ravel()
    server, n = fabric.server, fabric.n_ranks
    source, target = np.nonzero(server[:, None] != server[None, :])
    leaf = np.isin(np.arange(fabric.n_nodes), fabric.nodes("leaf"))
    up = np.flatnonzero(leaf[fabric.source] & (fabric.tier[fabric.target] > fabric.tier[fabric.source]))

    @cache
    def load_of(kind: str, routing: str) -> Any:
        one, other = (near, far) if kind == "ring" else (source, target)
        flows = Flows.make(fabric.endpoint[one], fabric.endpoint[other], 1.0)
        return route(fabric, flows, routing).link_bytes(flows, fabric.n_links) * n / one.size

    def scene(share: int, routing: str, colour: str) -> Scene:
        parts = {"ring": 1 - share / 100, "all": share / 100}
        carried = sum(part * load_of(kind, routing) for kind, part in parts.items())
        over = float(carried[up].sum()) / n
        time = carried / fabric.capacity
        said = text("live.mix.said", share=share, routing=routing, spine=f"{100 * over:.3g}",
                    leaf=f"{100 * (1 - over):.3g}", link=fabric.link_name(int(time.argmax())))  # fmt: skip
        return scene_of(fabric, time / time.max(), colour, said=said)

    controls: dict[str, Control] = {
        "share": Slider(0, 100, 5, label=text("live.mix.share"), unit="%"),
        "routing": Choice(routings, text("live.place.routing")),
        "colour": Choice(("load", "tier", "rail"), text("live.fabric.colour")),
    }
    call = f"fl.live.mix(fl.{fabric!r}" + (f", routings={routings!r}" if routings != ("spray", "pxn") else "")
    return Live(call, scene, controls, {"share": share, "routing": routing, "colour": colour}, text("live.mix.title"))


def paths(fabric: Fabric, source: int = 0, target: int | None = None, routing: str = "ecmp", *,
          routings: tuple[str, ...] = ("ecmp", "spray")) -> Live:  # fmt: skip
    """Show the links that a flow between two endpoints takes, by each routing.

    Parameters
    ----------
    fabric : Fabric
        Where.
    source, target : int
        Ranks; the last one is the target unless given.
    routing : str
        One of ``routings``.
    routings : tuple of str
        Names of `fabriclab.routing.names` that the fabric allows.
    """

    def scene(source: int, target: int, routing: str) -> Scene:
        ends = [fabric.name(int(fabric.endpoint[r])) for r in (source, target)]
        if source == target:
            return scene_of(fabric, np.zeros(fabric.n_links), said=text("live.paths.same", a=ends[0]))
        flows = Flows.make(fabric.endpoint[[source]], fabric.endpoint[[target]], 1.0)
        routes = route(fabric, flows, routing)
        use = np.bincount(routes.link, routes.use * np.repeat(routes.share, np.diff(routes.ptr)), fabric.n_links)
        on = np.flatnonzero(use)
        said = text("live.paths.said", a=ends[0], b=ends[1], hops=f"{use.sum():.4g}", links=on.size, routing=routing)
        if routes.n_rows == 1 and np.all(routes.use == 1):
            way = [fabric.name(int(n)) for n in (*fabric.source[routes.row(0)], fabric.target[routes.row(0)[-1]])]
            said = text("live.paths.way", way=" → ".join(way), hops=routes.link.size, routing=routing)
        return scene_of(fabric, use, said=said)

    last = fabric.n_ranks - 1
    controls: dict[str, Control] = {
        "source": Slider(0, last, label=text("live.paths.source")),
        "target": Slider(0, last, label=text("live.paths.target")),
        "routing": Choice(routings, text("live.place.routing")),
    }
    values = {"source": source, "target": last if target is None else target, "routing": routing}
    call = f"fl.live.paths(fl.{fabric!r}"
    call += f", routings={routings!r}" if routings != ("ecmp", "spray") else ""
    return Live(call, scene, controls, values, text("live.paths.title"))


def roulette(flows: int = 32, cables: int = 32, seed: int = 0) -> Live:
    """Show how a hash deals equal flows out to equal cables, against the mean over all seeds and against spraying.

    Parameters
    ----------
    flows, cables : int
        How many. 1..256, 2..64
    seed : int
        Seed of the hash, the one of the routing "ecmp".
    """

    def scene(flows: int, cables: int, seed: int) -> Scene:
        number = np.arange(flows)
        pick = hashed(seed, number) % np.uint64(cables)
        held = np.bincount(pick.astype(np.int64), minlength=cables)
        even, most = flows / cables, int(held.max())
        left, wide, foot, tall = 60.0, 580.0 / cables, 190.0, 160.0 / max(most, 4)
        x, scale = left + wide * np.arange(cables), np.arange(0, max(most, 4) + 1, max(1, most // 6))
        names = [text("live.dice.cable", n=i) for i in range(cables)]
        notes = [text("live.dice.flows", n=n) for n in held]
        marks = ((even, "spray", 1.0), (expected_fullest(flows, cables), "expected", 0.0))
        rules = [np.array([[left - 6, foot - tall * v], [left + 586, foot - tall * v]]) for v, _, _ in marks]
        layers = {
            "bars": Layer("boxes", {"x": x, "y": foot - tall * held, "w": np.full(cables, max(wide - 2, 2.0)),
                                    "h": np.maximum(tall * held, 1.0), "colour": shade(held / most), "round": 0.0,
                                    "names": names, "notes": notes}),
            "rules": lines(rules, width=1.5, colour=COLOUR["ink"], dash=np.array([2.0, 1.0])),
            "words": texts_at(*((650.0, foot - tall * v, text(f"live.dice.{name}"), 0) for v, name, _ in marks),
                              *((left - 12, foot - tall * int(v), str(v), 2) for v in scale),
                              (left, foot + 16, text("live.dice.below", cables=cables), 0)),
        }  # fmt: skip
        said = text(
            "live.dice.said",
            flows=flows,
            cables=cables,
            most=most,
            idle=int(np.sum(held == 0)),
            slow=f"{most / max(even, 1.0):.3g}",
            mean=f"{marks[1][0]:.3g}",
        )
        return Scene(said, Table({"cable": np.arange(cables), "flows": held}), layers, foot + 30, said)

    controls: dict[str, Control] = {
        "flows": Slider(1, 256, label=text("live.dice.n_flows")),
        "cables": Slider(2, 64, label=text("live.dice.n_cables")),
        "seed": Slider(0, 99, label=text("live.dice.seed"), play=True),
    }
    start = {"flows": flows, "cables": cables, "seed": seed}
    return Live("fl.live.roulette(", scene, controls, start, text("live.dice.title"))
