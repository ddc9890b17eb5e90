"""Live views of networks: families side by side, a twist, traffic on rails, parts that fail, and cuts."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab import catalog, collectives, metrics, operations, topologies
from fabriclab.core import Fabric, Floats, Flows, Ints
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES, scene_of
from fabriclab.views.layout import counted, marks_of
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.maps import is_direct, places_of
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on, key, lines

SIZES = (16, 64, 256, 1024)
# illustrative: of each family a member with about so many endpoints
_FILE = Path(__file__).with_name("families.json")
FAMILIES: dict[str, list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))


def _uniform(f: Fabric) -> tuple[Floats, dict[str, Any]]:
    """Return the load of each link if all send to all as fast as the fullest link allows, and the figures to tell."""
    hops, sends = (
        metrics.hops(f),
        np.bincount(f.source, f.capacity, f.n_nodes)[f.endpoint] / (f.n_ranks - 1),
    )
    load = metrics.traffic.uniform_load(f, sends)[0] / np.maximum(f.capacity, 1.0)
    part = 1 / load.max()
    load *= part
    figures = {"diameter": hops.diameter, "mean": hops.mean, "part": 100 * part}
    return load, figures | {
        "rate": part * (f.n_ranks - 1) * sends.mean(),
        "cables": counted(f.n_cables, "cable"),
    }


@cache
def _facts(family: str, size: int) -> tuple[Fabric, Any, str]:
    """Return the member of a family, the load of uniform traffic at its throughput, and what it is."""
    f = topologies.build(family, **FAMILIES[family][SIZES.index(size)])
    load, figures = _uniform(f)
    ports = np.bincount(f.source, minlength=f.n_nodes)[f.endpoint]
    links = (text("fabric.to", rate=ports.min()) + " ") * bool(np.ptp(ports)) + counted(
        int(ports.max()), "link"
    )
    figures |= {"links": links, "switches": counted(int(np.sum(f.tier > 0)), "switch")}
    return (
        f,
        load,
        text(
            "live.explorer.said", ends=counted(f.n_ranks, f.kinds[f.kind[f.endpoint[0]]]), **figures
        ),
    )


def explorer(
    family: str = "fat_tree",
    size: int = 64,
    colour: str = "load",
    *,
    families: tuple[str, ...] = tuple(FAMILIES),
) -> Live:
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

    return live_view(
        "explorer",
        locals(),
        scene,
        {"family": Choice(families), "size": Choice(SIZES), "colour": Choice(("load", "tier"))},
    )


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
    short, rate = int(np.argmin(shape)), catalog.value("links", "ici-tpu4", "bandwidth_per_link")

    def scene(shift: int, colour: str) -> Scene:
        f = topologies.build("twisted_torus", shape=shape, shift=shift, rate=rate)
        load, figures = _uniform(f)
        full = 100 * load.reshape(len(shape), -1).max(axis=1)  # cables are numbered by direction
        along = ", ".join(
            f"{name} {part:.3g}%" for name, part in zip(f.coord_names, full, strict=True)
        )
        # It begins at the edge of the map below which, or beside which, there is room for cables that close it.
        side, further = int(short == 0), f.target[::2].reshape(len(shape), -1)[short]
        ring = [
            int(
                np.flatnonzero(
                    (f.coord[:, short] == 0) & (f.coord[:, side] == f.coord[:, side].max())
                )[0]
            )
        ]
        while (to := int(further[ring[-1]])) != ring[0]:
            ring.append(to)
        figures |= {"axis": f.coord_names[short], "ring": counted(len(ring), "chip")}
        said = text("live.twist.said", shift=shift, along=along, **figures)
        made = scene_of(f, load if colour == "load" else None, colour, said=said)
        if made.wrong:  # too large to be drawn
            return made
        box, turn = made.layers["nodes"].fields, np.linspace(0, 1, 24)
        place = box["x"] + box["w"] / 2 + 1j * (box["y"] + box["h"] / 2)
        out = np.sort(np.abs(place - place[ring[0]]))[1] * (
            (1.6 + 1.2j) if short == 1 else (1.2 + 1.6j)
        )
        back = out.conjugate() * (1 if short == 1 else -1)
        # of Bezier
        bend = np.stack(
            [(1 - turn) ** 3, 3 * (1 - turn) ** 2 * turn, 3 * (1 - turn) * turn**2, turn**3]
        )
        paths = []
        for a, b in pairwise([*ring, ring[0]]):
            closes = f.coord[a, short] == min(shape) - 1  # other cables are straight
            points = place[[a, a, b, b]] + np.array([0, out, back, 0]) * closes
            paths.append(np.stack([(points @ bend).real, (points @ bend).imag], axis=1))
        below = {name: made.layers[name] for name in ("cables", "stubs")}
        return replace(
            made,
            layers={
                **below,
                "ring": lines(paths, width=3.0, colour=COLOUR["other1"]),
                **made.layers,
            },
        )

    return live_view(
        "twist",
        locals(),
        scene,
        {"shift": Slider(0, max(shape) - 1), "colour": Choice(("load", "tier"))},
    )


def mix(
    fabric: Fabric,
    share: int = 0,
    routing: str = "spray",
    colour: str = "load",
    *,
    routings: tuple[str, ...] = ("spray", "pxn"),
) -> Live:
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
    up = np.flatnonzero(
        leaf[fabric.source] & (fabric.tier[fabric.target] > fabric.tier[fabric.source])
    )

    @cache
    def load_of(kind: str, routing: str) -> Any:
        one, other = (near, far) if kind == "ring" else (source, target)
        flows = Flows.make(fabric.endpoint[one], fabric.endpoint[other], 1.0)
        return route(fabric, flows, routing).link_bytes(flows, fabric.n_links) * n / one.size

    def scene(share: int, routing: str, colour: str) -> Scene:
        carried = (1 - share / 100) * load_of("ring", routing) + share / 100 * load_of(
            "all", routing
        )
        over = float(carried[up].sum()) / n
        time = carried / fabric.capacity
        said = text(
            "live.mix.said",
            share=share,
            routing=routing,
            spine=100 * over,
            leaf=100 * (1 - over),
            link=fabric.link_name(int(time.argmax())),
        )
        return scene_of(fabric, time / time.max(), colour, said=said)

    return live_view(
        "mix",
        locals(),
        scene,
        {
            "share": Slider(0, 100, 5, unit="%"),
            "routing": Choice(routings),
            "colour": Choice(("load", "tier", "rail")),
        },
    )


def failures(
    fabric: Fabric,
    what: str = "cable",
    count: int = 1,
    seed: int = 0,
    *,
    kinds: tuple[str, ...] = ("cable", "leaf", "spine"),
) -> Live:
    """Show what is left of a fabric when some of its parts fail, drawn at random.

    Parameters
    ----------
    fabric : Fabric
        Which.
    what : str
        One of ``kinds``.
    count : int
        How many fail, at most 32.
    seed : int
        Of the draw.
    kinds : tuple of str
        What may fail, as in `fabriclab.operations.parts`.
    """
    there = {kind: [*operations.parts(fabric, kind)] for kind in kinds}

    def scene(what: str, count: int, seed: int) -> Scene:
        drawn = np.random.default_rng(seed).permutation(len(there[what]))[:count]
        hurt = operations.fail(fabric, what, [there[what][i] for i in drawn])
        left = operations.report(fabric, hurt)
        said = text(
            "live.failures.said",
            seed=seed,
            n=drawn.size,
            what=counted(len(there[what]), what),
            part=100 * left.bandwidth,
            cut=counted(left.cut_off.size, "rank"),
        )
        if helped := np.setdiff1d(left.alone, left.cut_off).size:
            said += " " + text("live.failures.alone", ranks=counted(helped, "rank"))
        return scene_of(hurt, None, "failure", said=said)

    most = Slider(0, min(32, *map(len, there.values())))
    return live_view(
        "failures", locals(), scene, {"what": Choice(kinds), "count": most, "seed": Slider(0, 20)}
    )


def _halved(fabric: Fabric, made: Scene, half: Ints) -> Scene:
    """Return the picture of a cut, whose load is 1, with its own colours and words, and the halves told apart."""
    table = dict(made.table.columns) if made.table else {}
    table["cut"] = np.rint(table.pop("load") * table["cables"]).astype(int)
    del table["fullest"]
    at = (
        places_of(fabric)[1]
        if is_direct(fabric)
        else marks_of(fabric, fabric.n_nodes > MOST_NODES).of_node
    )
    box = made.layers["nodes"].fields
    ranks, first = (
        np.bincount(at[fabric.endpoint[r]], minlength=box["x"].size) for r in (slice(None), half)
    )
    looks = {
        "one": COLOUR["tint"],
        "other": COLOUR["host"],
        "both": COLOUR["switch"],
        "cut": COLOUR["other1"],
    }
    one, other, both, line = looks.values()
    shades = np.select(
        [(first > 0) & (first == ranks), (first == 0) & (ranks > 0)], [one, other], both
    )
    layers = {
        **made.layers,
        "nodes": Layer("boxes", {**box, "colour": shades, "ink": ink_on(shades)}),
    }
    notes = {
        f"{a} – {b}": (n, text("live.cut.note", cables=counted(int(k), "cable"), n=n))
        for a, b, k, n in zip(
            table["from"], table["to"], table["cables"], table["cut"], strict=True
        )
    }
    for name in {"cables", "stubs"} & layers.keys():
        drawn = layers[name].fields
        is_cut = np.array([notes[x][0] > 0 for x in drawn["names"]])
        look = {
            "colour": np.where(is_cut, line, COLOUR["grey"]),
            "alpha": np.where(is_cut, 1.0, 0.4),
            "width": np.where(is_cut, np.maximum(drawn["width"], 2.0), drawn["width"]),
        }
        layers[name] = Layer(
            "lines", {**drawn, **look, "notes": [notes[x][1] for x in drawn["names"]]}
        )
    names = [
        text(f"live.cut.{name}") if c in shades or c == line else "" for name, c in looks.items()
    ]
    layers |= key(float(layers["scale"].fields["y"][0]), "", names, [*looks.values()])
    layers = {name: layer for name, layer in layers.items() if name not in ("case", "idle")}
    return replace(made, layers=layers, alt=made.said, table=Table(table))


def cut(fabric: Fabric, first: int = 0, order: str = "in order") -> Live:
    """Cut the ranks into halves, and show the fewest links that part them.

    Parameters
    ----------
    fabric : Fabric
        Which.
    first : int
        Where the first half begins.
    order : str
        "in order", "every other" rank, or "shuffled".
    """
    n, own = (
        fabric.n_ranks,
        np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[fabric.endpoint],
    )
    orders = {
        "in order": np.arange(n),
        "every other": np.argsort(np.arange(n) % 2, kind="stable"),
        "shuffled": np.random.default_rng(0).permutation(n),
    }
    bound = metrics.bisection(fabric).lower

    def scene(first: int, order: str) -> Scene:
        half = np.roll(orders[order], -first)[: n // 2]
        links = metrics.cut(fabric, half)
        rate = float(fabric.capacity[links].sum())
        said = text(
            "live.cut.said",
            order=order,
            first=half[0],
            links=counted(links.size, "link"),
            rate=rate,
            part=100 * rate / own[half].sum(),
            least=bound,
        )
        # No cut is more than the ranks of a half can send, and none is less than the bound.
        said += " " + text("live.cut.full") if bound >= np.sort(own)[-(n // 2) :].sum() else ""
        made = scene_of(fabric, np.isin(np.arange(fabric.n_links), links).astype(float), said=said)
        return made if made.wrong else _halved(fabric, made, half)

    return live_view(
        "cut", locals(), scene, {"first": Slider(0, n - 1), "order": Choice(tuple(orders))}
    )
