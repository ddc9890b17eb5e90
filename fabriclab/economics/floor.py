"""Floor plan: every box in a rack, every cable as long as its way, in the cheapest medium that reaches.

Legality: what speaks against building a fabric, each with the name of the node or cable, the rule and the figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.tables import near
from fabriclab.core import Fabric, Flags, Ints, distinct_pairs, parts_of, texts
from fabriclab.metrics.hops import joined

# Medium -> the parts of catalog.media with its reach and its propagation, the cheapest medium first: copper costs
# least (source: LinkX-LACC), and optics cost more the farther they reach (source: Lux-cost).
MEDIA = {
    "copper": ("dac800", "acc800"),
    "active copper": ("acc800", "acc800"),
    "fibre": ("dr4x2", "fibre"),
    "long fibre": ("fr4x2", "fibre"),
}
# illustrative: racks of 0.6 m, 3 m from row to row, and 2 m of each cable inside the racks of its ends
_WIDTH, _PITCH, _SLACK = "0.6 m", "3 m", "2 m"
_FAR = 2**31 - 1


def reach(medium: str) -> float:
    """Return how far a medium reaches [m]; without end where no source says."""
    return catalog.value("media", MEDIA[medium][0], "reach_max") if medium in MEDIA else np.inf


def propagation(medium: str) -> float:
    """Return the time per metre [s/m]; 0 where no source says."""
    return catalog.value("media", MEDIA[medium][1], "propagation") if medium in MEDIA else 0.0


def of_kind(fabric: Fabric, *kinds: str) -> Flags:
    """Tell for every node whether it is of one of the kinds, (N,)."""
    return np.isin(fabric.kind, [code for code, kind in enumerate(fabric.kinds) if kind in kinds])


def switches(fabric: Fabric) -> Flags:
    """Tell for every node whether it is a switch: lets traffic pass, and is neither endpoint nor NIC, (N,)."""
    out: Flags = fabric.transit & ~of_kind(fabric, "nic")
    out[fabric.endpoint] = False
    return out


def floor_plan(
    fabric: Fabric,
    servers_per_rack: int = 4,
    *,
    switches_per_rack: int = 8,
    racks_per_row: int = 16,
    rack_width: units.Quantity = _WIDTH,
    row_pitch: units.Quantity = _PITCH,
    slack: units.Quantity = _SLACK,
    media: Sequence[str] = tuple(MEDIA),
) -> Fabric:
    """Return the fabric with racks in rows: lengths, media and propagation of its cables follow from the places.

    Servers fill racks in order. A switch with cables to servers stands in one of their racks, and those that
    serve the same racks take turns; all others stand in racks of their own in the middle. A cable goes along
    rows and across them, has ``slack`` besides, and is bought in whole metres. Its medium is the first of
    ``media`` that reaches, or the last where none does (`legality` finds it); active copper joins switches
    only. Left out: splitters of copper to NICs (`fabriclab.physics.media.hall` has them), heights of boxes and racks,
    and power and cooling of a rack.

    Parameters
    ----------
    fabric : Fabric
        Cables without length (boards), and those of media that this table does not have, stay as they are.
    servers_per_rack, switches_per_rack, racks_per_row : int
        Places in a rack and in a row; illustrative. >= 1
    rack_width, row_pitch, slack : float or str
        From rack to rack, from row to row, and for the way inside the racks; illustrative. [m]
    media : sequence of str
        Some of copper, active copper, fibre and long fibre, the cheapest first.

    Raises
    ------
    ValueError
        If a medium is unknown or a number out of range.
    """
    if not media or (wrong := [m for m in texts(media, "media") if m not in MEDIA]):
        raise ValueError(near(wrong[0] if media else media, MEDIA, "the table of media"))
    per_rack = (
        units.count(servers_per_rack, "servers_per_rack"),
        units.count(switches_per_rack, "switches_per_rack"),
    )
    row, column = np.divmod(_racks(fabric, *per_rack), units.count(racks_per_row, "racks_per_row"))
    known, box = (
        [code for code, medium in enumerate(fabric.media) if medium in MEDIA],
        switches(fabric),
    )
    laid = (fabric.length > 0) & np.isin(fabric.medium, known)
    a, b = fabric.source[laid], fabric.target[laid]
    along = units.length(rack_width, "rack_width") * np.abs(column[a] - column[b])
    across = units.length(row_pitch, "row_pitch") * np.abs(row[a] - row[b])
    metres = np.ceil(along + across + units.length(slack, "slack") - 1e-9)
    metres += metres == 0  # the shortest that is bought: a cable of no length would be a board
    fits = np.array(
        [(metres <= reach(m)) & ((m != "active copper") | (box[a] & box[b])) for m in media]
    )
    fits[-1] = True
    names = (*fabric.media, *(m for m in media if m not in fabric.media))
    length, medium, per_metre = (
        fabric.length.copy(),
        fabric.medium.copy(),
        np.array([*map(propagation, names)]),
    )
    length[laid], medium[laid] = (
        metres,
        np.array([*map(names.index, media)])[np.argmax(fits, axis=0)],
    )
    delay = fabric.delay + length * per_metre[medium] - fabric.length * per_metre[fabric.medium]
    places = f"{servers_per_rack=}, {switches_per_rack=}, {racks_per_row=}, {rack_width=}, {row_pitch=}, {slack=}"
    call = fabric.call and f"economics.floor_plan({fabric.call}, {places}, {media=})"
    return fabric.shown_as(
        call, length=length, medium=medium, media=names, delay=np.maximum(delay, 0.0)
    )


def _racks(fabric: Fabric, servers: int, boxes: int) -> Ints:
    """Return the rack of every node, (N,)."""
    a, b, wire = fabric.source, fabric.target, fabric.length == 0
    box = parts_of(fabric.n_nodes, a[wire], b[wire])  # what boards join is one box
    own = np.where(
        fabric.server < 0,
        fabric.server.max(initial=0) + 1 + np.arange(fabric.n_ranks),
        fabric.server,
    )
    n = int(box.max()) + 1
    rack = np.full(n, -1)
    rack[box[fabric.endpoint]] = np.unique(own, return_inverse=True)[1] // servers
    up = ~wire & (rack[box[a]] >= 0) & (rack[box[b]] < 0)
    low, high = np.full(n, _FAR), np.full(n, -1)
    np.minimum.at(low, box[b[up]], rack[box[a[up]]])
    np.maximum.at(high, box[b[up]], rack[box[a[up]]])
    leaf = np.argsort(low, kind="stable")[: np.count_nonzero(high >= 0)]
    turn = np.arange(leaf.size) - np.searchsorted(low[leaf], low[leaf])
    rack[leaf] = low[leaf] + turn % (high[leaf] - low[leaf] + 1)
    rest, half = np.flatnonzero(rack < 0), (rack.max() + 1) // 2
    rack[rack >= half] += -(-rest.size // boxes)
    rack[rest] = half + np.arange(rest.size) // boxes
    return np.asarray(rack[box])


@dataclass(frozen=True)
class Violation:
    """A breach of one of the rules radix [ports], reach [m], connectivity and single failure [ranks cut off]."""

    where: str
    rule: str
    figure: float
    limit: float


def legality(
    fabric: Fabric, *, radix: int | None = None, may_lose: int = 0
) -> tuple[Violation, ...]:
    """Return what speaks against building a fabric; empty if nothing does.

    Ranks are cut off if no path joins them to the largest part of all ranks; a failure cuts off as many as it
    takes from that part. GPUs pass on what the others of their server have for its NICs (a relay over the
    scale-up domain); hosts, and NICs that are endpoints, pass on nothing. Failures are of one cable, or of
    one node that is no endpoint. Left out: failures of several at once (power, planes), and the bandwidth that is left.

    Parameters
    ----------
    fabric : Fabric
        What has capacity 0 is not there. A node never has more ports than its own radix: `Fabric` refuses it.
    radix : int, optional
        Ports of the largest switch that can be bought.
    may_lose : int
        Ranks that one failure may cut off. >= 0

    Returns
    -------
    tuple of Violation
        In the order radix, reach, connectivity, failures of nodes, failures of cables.

    Raises
    ------
    ValueError, TypeError
        If ``radix`` or ``may_lose`` is no whole number in its range.
    """
    most, spare = (
        units.count(_FAR if radix is None else radix, "radix"),
        units.count(may_lose, "may_lose", 0),
    )
    limit = np.array([*map(reach, fabric.media)])[fabric.medium]
    long, big = (
        np.flatnonzero(fabric.length > limit)[::2],
        switches(fabric) & (fabric.ports_used > most),
    )
    apart, nodes, cables = _survey(fabric)
    found = [
        (fabric.name(n), "radix", fabric.ports_used[n], most) for n in np.flatnonzero(big).tolist()
    ]
    found += [(fabric.link_name(c), "reach", fabric.length[c], limit[c]) for c in long.tolist()]
    found += [
        (fabric.name(n), "connectivity", apart.size, 0) for n in fabric.endpoint[apart[:1]].tolist()
    ]
    lost = [(fabric.name, n, k) for n, k in nodes] + [
        (fabric.link_name, 2 * c, k) for c, k in cables
    ]
    found += [(name(i), "single failure", k, spare) for name, i, k in lost if k > spare]
    return tuple(
        Violation(where, rule, float(figure), float(bound)) for where, rule, figure, bound in found
    )


def _survey(fabric: Fabric) -> tuple[Ints, list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the ranks outside the largest part; nodes, then cables, with how many ranks it loses without them."""
    import networkx as nx

    n, (part, inner, (who, on, by)) = fabric.n_nodes, joined(fabric, relay=True)
    where, rank = distinct_pairs(part[on], who)
    size = np.bincount(where, minlength=2)
    main, (second, whole) = size.argmax(), np.sort(size)[-2:].tolist()
    apart = np.setdiff1d(np.arange(fabric.n_ranks), rank[where == main])
    who, on, by = (x[part[on] == main] for x in (who, on, by))
    cables = dict.fromkeys(
        by[(by >= 0) & (np.bincount(who)[who] == 1)].tolist(), min(1, whole - second)
    )
    who, on = distinct_pairs(who, on)
    inner = inner[part[fabric.source[2 * inner]] == main]
    ends, graph = (
        (fabric.source[2 * inner].tolist(), fabric.target[2 * inner].tolist()),
        nx.MultiGraph(),
    )
    graph.add_edges_from(zip(*ends, inner.tolist(), strict=True))
    # Blocks, which no single node parts, and nodes are a tree, lowest blocks first. Of a node or block and all below:
    # ranks with all of their ways there, ways of other ranks, and the most ranks that one branch has.
    blocks, ways = [*nx.biconnected_components(graph)], np.bincount(who)
    above = {node: i for i, block in enumerate(blocks, n) for node in block}
    inside = np.bincount(on[ways[who] == 1], minlength=n + len(blocks)).tolist()
    most, partly = [0] * len(inside), [dict[int, int]() for _ in inside]
    for r, node in zip(who[ways[who] > 1].tolist(), on[ways[who] > 1].tolist(), strict=True):
        partly[node][r] = 1
    for i, block in enumerate(blocks, n):
        steps = [(node, i) for node in block if above[node] == i] + [
            (i, node) for node in block if above[node] > i
        ]
        for branch, at in steps:
            most[at] = max(most[at], inside[branch] + len(partly[branch]))
            inside[at] += inside[branch]
            few, partly[at] = sorted((partly[branch], partly[at]), key=len)
            for r, k in few.items():
                partly[at][r] = k + partly[at].get(r, 0)
                if partly[at][r] == ways[r]:
                    del partly[at][r]
                    inside[at] += 1
    lost = whole - np.maximum(np.maximum(whole - np.array(inside), most), second)
    for k, (u, v, *more) in zip(lost[n:].tolist(), blocks, strict=True):
        if not more and len(graph[u][v]) == 1:
            cables[next(iter(graph[u][v]))] = k
    lost[fabric.endpoint] = 0
    return (
        apart,
        [(i, int(lost[i])) for i in np.flatnonzero(lost[:n]).tolist()],
        sorted(cables.items()),
    )
