"""Floor plan and legality of a fabric.

The floor plan puts every box in a rack, gives every cable the length of its path, and selects the cheapest medium that
reaches. Legality lists why a fabric cannot or should not be built: the node or cable, the rule, and the number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
# illustrative: from rack to rack
_WIDTH = "0.6 m"
# illustrative: from row to row
_PITCH = "3 m"
# illustrative: of each cable, inside the racks of its ends
_SLACK = "2 m"
_FAR = 2**31 - 1


def reach(medium: str) -> float:
    """Return how far a medium reaches [m]; inf for a medium that is not in the table."""
    return catalog.value("media", MEDIA[medium][0], "reach_max") if medium in MEDIA else np.inf


def propagation(medium: str) -> float:
    """Return the propagation time per metre [s/m]; 0 for a medium that is not in the table."""
    return catalog.value("media", MEDIA[medium][1], "propagation") if medium in MEDIA else 0.0


def of_kind(fabric: Fabric, *kinds: str) -> Flags:
    """Return for every node whether it is of one of the kinds, (N,)."""
    return np.isin(fabric.kind, [code for code, kind in enumerate(fabric.kinds) if kind in kinds])


def switches(fabric: Fabric) -> Flags:
    """Return for every node whether it is a switch, (N,): it lets traffic pass and is neither endpoint nor NIC."""
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
    """Place a fabric in racks and rows, and return it with the lengths, media and delays that its cables then have.

    Servers fill racks in order. A switch with cables to servers is placed in one of their racks, and switches that
    serve the same racks take turns; all other switches get racks of their own in the middle. A cable runs along and
    across rows, has ``slack`` in addition, and is bought in whole metres. Its medium is the first of ``media`` that
    reaches, or the last if none does (`legality` reports it); active copper joins switches only. Leaves out copper
    splitters to NICs (`fabriclab.physics.media.hall` has them), heights of boxes and racks, and power and cooling of a
    rack.

    Parameters
    ----------
    fabric : Fabric
        The network. Cables without length (on boards) and cables of other media than these stay as they are.
    servers_per_rack, switches_per_rack, racks_per_row : int
        Places in a rack and in a row; illustrative. >= 1
    rack_width, row_pitch, slack : float or str
        Distance from rack to rack and from row to row, and extra length inside the racks; illustrative. [m]
    media : sequence of str
        Some of copper, active copper, fibre and long fibre, cheapest first.

    Raises
    ------
    ValueError
        If a medium is unknown or a number is out of range.
    """
    if not media:
        raise ValueError(near(media, MEDIA, "the table of media"))
    for name in texts(media, "media"):
        if name not in MEDIA:
            raise ValueError(near(name, MEDIA, "the table of media"))
    servers = units.count(servers_per_rack, "servers_per_rack")
    boxes = units.count(switches_per_rack, "switches_per_rack")
    rack = node_racks(fabric, servers, boxes)
    row, column = np.divmod(rack, units.count(racks_per_row, "racks_per_row"))

    known = [code for code, medium in enumerate(fabric.media) if medium in MEDIA]
    laid = (fabric.length > 0) & np.isin(fabric.medium, known)  # (L,) what is laid through the hall
    a = fabric.source[laid]
    b = fabric.target[laid]
    along = units.length(rack_width, "rack_width") * np.abs(column[a] - column[b])
    across = units.length(row_pitch, "row_pitch") * np.abs(row[a] - row[b])
    metres = np.ceil(along + across + units.length(slack, "slack") - 1e-9)
    metres[metres == 0] = 1  # the shortest that is bought: a cable of no length would be a board

    is_switch = switches(fabric)
    between_switches = is_switch[a] & is_switch[b]
    fits = []  # for each medium, which cables it can be
    for name in media:
        enough = metres <= reach(name)
        fits.append(enough & between_switches if name == "active copper" else enough)
    fits[-1] = np.ones_like(fits[-1])  # the last one where none reaches
    first_that_fits = np.argmax(fits, axis=0)  # its place in ``media``

    names = (*fabric.media, *(name for name in media if name not in fabric.media))
    code = np.array([names.index(name) for name in media])
    length = fabric.length.copy()
    length[laid] = metres
    medium = fabric.medium.copy()
    medium[laid] = code[first_that_fits]
    per_metre = np.array([propagation(name) for name in names])  # [s/m]
    delay = fabric.delay + length * per_metre[medium] - fabric.length * per_metre[fabric.medium]

    places = f"{servers_per_rack=}, {switches_per_rack=}, {racks_per_row=}, {rack_width=}, {row_pitch=}, {slack=}"
    call = fabric.call and f"economics.floor_plan({fabric.call}, {places}, {media=})"
    return fabric.shown_as(
        call, length=length, medium=medium, media=names, delay=np.maximum(delay, 0.0)
    )


def node_racks(fabric: Fabric, servers: int, boxes: int) -> Ints:
    """Return the rack of every node, (N,); see `floor_plan`."""
    on_board = fabric.length == 0
    box = parts_of(
        fabric.n_nodes, fabric.source[on_board], fabric.target[on_board]
    )  # (N,) what boards join
    n = int(box.max()) + 1
    rack = np.full(n, -1)  # of each box

    # Servers fill racks in order; a rank without a server stands alone.
    alone = fabric.server.max(initial=0) + 1 + np.arange(fabric.n_ranks)
    server = np.where(fabric.server < 0, alone, fabric.server)
    rack[box[fabric.endpoint]] = np.unique(server, return_inverse=True)[1] // servers

    # Switches with cables to servers: those that serve the same racks, from low to high, take turns.
    from_box = box[fabric.source]
    to_box = box[fabric.target]
    up = ~on_board & (rack[from_box] >= 0) & (rack[to_box] < 0)
    low = np.full(n, _FAR)
    high = np.full(n, -1)
    np.minimum.at(low, to_box[up], rack[from_box[up]])
    np.maximum.at(high, to_box[up], rack[from_box[up]])
    leaf = np.argsort(low, kind="stable")[: np.count_nonzero(high >= 0)]
    turn = np.arange(leaf.size) - np.searchsorted(
        low[leaf], low[leaf]
    )  # among those with the same low
    rack[leaf] = low[leaf] + turn % (high[leaf] - low[leaf] + 1)

    # All others stand in racks of their own in the middle, which move the second half on.
    rest = np.flatnonzero(rack < 0)
    middle = (rack.max() + 1) // 2
    rack[rack >= middle] += -(-rest.size // boxes)
    rack[rest] = middle + np.arange(rest.size) // boxes
    return np.asarray(rack[box])


@dataclass(frozen=True)
class Violation:
    """A violation of one of the rules radix [ports], reach [m], connectivity and single failure [ranks cut off]."""

    where: str
    rule: str
    figure: float
    limit: float


def legality(
    fabric: Fabric, *, radix: int | None = None, may_lose: int = 0
) -> tuple[Violation, ...]:
    """Check whether a fabric can and should be built, and return all violations; an empty tuple if there are none.

    Ranks are cut off if no path connects them to the largest connected part of all ranks; a failure cuts off as many
    ranks as that part loses. GPUs relay traffic of other GPUs of their server over the scale-up domain to its NICs;
    hosts, and NICs that are endpoints, relay nothing. A failure concerns one cable, or one node that is not an
    endpoint. Leaves out failures of several parts at once (power, planes), and the bandwidth that is left.

    Parameters
    ----------
    fabric : Fabric
        The network. Anything with capacity 0 counts as absent. A node never has more cables than its own radix allows,
        because `Fabric` refuses that.
    radix : int, optional
        Number of ports of the largest switch that can be bought.
    may_lose : int
        Number of ranks that one failure may cut off. >= 0

    Returns
    -------
    tuple of Violation
        In the order radix, reach, connectivity, failures of nodes, failures of cables.

    Raises
    ------
    ValueError, TypeError
        If ``radix`` or ``may_lose`` is not a whole number in its range.
    """
    most = units.count(_FAR if radix is None else radix, "radix")
    spare = units.count(may_lose, "may_lose", 0)
    found = []

    too_big = switches(fabric) & (fabric.ports_used > most)
    for node in np.flatnonzero(too_big).tolist():
        ports = float(fabric.ports_used[node])
        found.append(Violation(fabric.name(node), "radix", ports, float(most)))

    limit = np.array([reach(medium) for medium in fabric.media])[fabric.medium]  # (L,) [m]
    for link in np.flatnonzero(fabric.length > limit)[::2].tolist():
        length = float(fabric.length[link])
        found.append(Violation(fabric.link_name(link), "reach", length, float(limit[link])))

    survey = _survey(fabric)
    if survey.apart.size:
        node = int(fabric.endpoint[survey.apart[0]])
        figure = float(survey.apart.size)
        found.append(Violation(fabric.name(node), "connectivity", figure, 0.0))
    failures = [(fabric.name(node), lost) for node, lost in survey.nodes]
    failures += [(fabric.link_name(2 * cable), lost) for cable, lost in survey.cables]
    for name, lost in failures:
        if lost > spare:
            found.append(Violation(name, "single failure", float(lost), float(spare)))
    return tuple(found)


class Survey(NamedTuple):
    """The ranks outside the largest part, and nodes and cables with the number of ranks that it loses without each."""

    apart: Ints
    nodes: list[tuple[int, int]]
    cables: list[tuple[int, int]]


def _survey(fabric: Fabric) -> Survey:
    """Return which ranks are cut off, and how many more each single failure cuts off."""
    import networkx as nx

    n = fabric.n_nodes
    part, inner, (who, on, by) = joined(fabric, relay=True)
    part_of_rank, rank = distinct_pairs(part[on], who)
    size = np.bincount(part_of_rank, minlength=2)  # ranks of each part
    main = size.argmax()
    second, whole = np.sort(size)[-2:].tolist()
    apart = np.setdiff1d(np.arange(fabric.n_ranks), rank[part_of_rank == main])

    # Cables by which a rank of the main part alone is joined to it.
    in_main = part[on] == main
    who, on, by = who[in_main], on[in_main], by[in_main]
    is_only = (by >= 0) & (np.bincount(who)[who] == 1)
    cables = dict.fromkeys(by[is_only].tolist(), min(1, whole - second))

    who, on = distinct_pairs(who, on)
    inner = inner[part[fabric.source[2 * inner]] == main]
    graph = nx.MultiGraph()
    one = fabric.source[2 * inner].tolist()
    other = fabric.target[2 * inner].tolist()
    graph.add_edges_from(zip(one, other, inner.tolist(), strict=True))
    blocks = list(nx.biconnected_components(graph))

    lost = _lost_without(n, blocks, who, on, whole, second)
    for block, ranks in zip(blocks, lost[n:].tolist(), strict=True):
        if len(block) == 2:
            u, v = block
            parallel = graph[u][v]
            if len(parallel) == 1:
                cables[next(iter(parallel))] = ranks
    lost[fabric.endpoint] = 0
    nodes = [(node, int(lost[node])) for node in np.flatnonzero(lost[:n]).tolist()]
    return Survey(apart, nodes, sorted(cables.items()))


def _lost_without(
    n: int, blocks: list[set[int]], who: Ints, on: Ints, whole: int, second: int
) -> Ints:
    """Return how many ranks the largest part loses without each of ``n`` nodes, then without each block.

    Blocks, which no single node parts, and nodes are a tree, lowest blocks first. Rank ``who[i]`` has a path to the
    rest through node ``on[i]``. The largest part has ``whole`` ranks, and the next one ``second``.
    """
    above = {}  # the block above each node
    for i, block in enumerate(blocks, n):
        for node in block:
            above[node] = i

    # Of a node or block and all below: ranks with all of their paths there, paths of other ranks, and the most
    # ranks that one branch has.
    n_paths = np.bincount(who)  # of each rank
    inside = np.bincount(on[n_paths[who] == 1], minlength=n + len(blocks)).tolist()
    partly: list[dict[int, int]] = [{} for _ in inside]
    several = n_paths[who] > 1
    for rank, node in zip(who[several].tolist(), on[several].tolist(), strict=True):
        partly[node][rank] = 1
    most = [0] * len(inside)

    for i, block in enumerate(blocks, n):
        steps = [(node, i) for node in block if above[node] == i]
        steps += [(i, node) for node in block if above[node] > i]
        for branch, at in steps:
            most[at] = max(most[at], inside[branch] + len(partly[branch]))
            inside[at] += inside[branch]
            few, partly[at] = sorted((partly[branch], partly[at]), key=len)
            for rank, paths in few.items():
                partly[at][rank] = paths + partly[at].get(rank, 0)
                if partly[at][rank] == n_paths[rank]:
                    del partly[at][rank]
                    inside[at] += 1

    outside = whole - np.array(inside)
    largest_left = np.maximum(np.maximum(outside, most), second)
    return np.asarray(whole - largest_left)
