"""What a run of the collective library becomes on a fabric: its rings or trees over all NICs, at the rates it reaches.

`estimate` says which algorithm NCCL would choose and how fast each link then is. Here the same choice is run on the
fabric itself, so that cables which several paths share, failed parts and oversubscription show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from fabriclab import catalog, collectives, routing, tuner, units
from fabriclab.collectives.ring import channel_rings
from fabriclab.core import (
    Fabric,
    FabricBuilder,
    Flags,
    Floats,
    Flows,
    Ints,
    Schedule,
    Timeline,
    available_memory,
    bus_factor,
    check_memory,
)
from fabriclab.errors import NoPath
from fabriclab.lower import lower
from fabriclab.routing.shortest import ShortestPathSearch
from fabriclab.simulation.rings import MOST_RANKS, Rings, at_once, best_rings, ring_flows
from fabriclab.topologies.clusters import outside_servers
from fabriclab.tuner.plans import Plan
from fabriclab.tuner.system import System as Facts

LIBRARY = "nccl"  # name under which `simulate` runs what the library would choose
# Bytes of each channel of a tree that are on their way from one step to the next.
# source: NVIDIA/nccl, src/init.cc, DEFAULT_BUFFSIZE (4 MiB) by NCCL_STEPS (8)
_TREE_CHUNK = 2**19
FLOW_BYTES = 1200  # B; measured, at the most, of a flow between two ranks that is routed and run
_CHANNELS_PER_NIC = 2  # source: NCCL-tune-old
_OVER_PCIE = ("pcie", "shm")  # kinds of links in a server whose GPUs meet over PCIe
# illustrative: ranks at most of an all-to-all over all NICs of a GPU, whose routes have some million entries ("spray")
_SPRAYED_RANKS = 256
# illustrative: the largest part of a time that may rest on a start-up which no measurement confirms
UNKNOWN_PART = 0.1
# Algorithms with one switch for each rail that adds, and the algorithm of the library whose rates they reach.
IN_NETWORK = {"nvls_sharp": "NVLSTree", "collnet": "CollNet"}


class Cluster(Protocol):
    """A mapping with the columns of `catalog.published.systems` that also has a fabric, as `fabriclab.system` makes."""

    @property
    def fabric(self) -> Fabric:
        """Return the fabric with the inside of its servers."""
        ...


class Setup(NamedTuple):
    """A collective as the library would run it on a fabric.

    Parameters
    ----------
    schedule : Schedule
        Steps of one ring or tree.
    fabric : Fabric
        The fabric, with the rates that the library reaches on its links.
    flows : Flows
        All rings or trees together.
    method : str
        Routing.
    startup : float
        Time before data flows, by the cost model. [s]
    protocol : float
        Time that the protocol needs for the data on links of any rate. [s]
    filling : float
        Bytes that are on their way before the pipeline of a tree is full; 0 if steps do not overlap. [B]
    estimate : Estimate or None
        What the cost model says about the same question, where it has an answer.
    notes : tuple of str
        What the run assumes.
    """

    schedule: Schedule
    fabric: Fabric
    flows: Flows
    method: str
    startup: float
    protocol: float
    filling: float
    estimate: tuner.Estimate | None
    notes: tuple[str, ...]


def described(cluster: Any) -> Fabric:
    """Return the fabric of a cluster that also says what its servers are, or refuse anything else."""
    if isinstance(cluster, Mapping):
        fabric = getattr(cluster, "fabric", None)
        if isinstance(fabric, Fabric):
            return fabric
    raise TypeError(
        f"cluster must be a system, which says what the servers are, got {cluster!r:.80}; "
        'make one with fabriclab.system(gpu="H100", servers=32)'
    )


def as_chosen(collective: str, cluster: Any, size: float, algorithm: str = "") -> Setup:
    """Return a collective as the library would run it on a cluster.

    Parameters
    ----------
    collective : str
        Such as ``"all_reduce"``.
    cluster : Cluster
        A system.
    size : float
        Size of the whole array, as nccl-tests counts it. [B], > 0
    algorithm : str
        Algorithm that is forced, such as ``"Tree"``; the one that `estimate` chooses unless given.

    Raises
    ------
    TypeError
        If ``cluster`` is a fabric without a description of its servers.
    ValueError
        If the library's choice has no counterpart here, or it cannot run the forced algorithm on this cluster.
    """
    network = described(cluster)
    row = {**cluster, "collective": collective}
    if algorithm:
        row["algo"] = algorithm.lower()
    estimate = tuner.estimate(row, size=size)
    facts = tuner.read(row)
    plan, _ = tuner.choose(facts, size)
    if algorithm:
        _check_forced(algorithm, plan, cluster)
    rates = reached(facts, plan, size)
    fabric = with_reached_rates(by_domain(network, facts), facts, rates)
    # The library's latency of a hop, which is in the start-up, includes cables and switches.
    fabric = replace(fabric, delay=np.zeros(fabric.n_links))
    n = facts.ranks
    servers = facts.servers
    method = _routing(facts, plan, _ports(fabric))
    notes = _notes(facts, plan, rates) + _beside_estimate(facts, plan, row, method)
    filling = 0.0  # [B]

    if plan.algorithm == "Ring" and collective in ("all_reduce", "all_gather", "reduce_scatter"):
        schedule = collectives.build(collective, "ring", n)
        if servers == 1 and _is_wired(facts) and n <= MOST_RANKS:
            rings = best_rings(fabric)
            method = "spray"  # between GPUs that share several links
            flows = ring_flows(collective, fabric, rings.orders, size, rings.rates)
        else:
            orders, weights = _orders(facts, fabric)
            flows = ring_flows(collective, fabric, orders, size, weights)
    elif plan.algorithm in ("NVLS", "NVLSTree"):
        schedule = collectives.build("all_reduce", "nvls_tree", n, per_server=facts.local)
        flows = at_once(lower(schedule, fabric, size, switches=server_switches(fabric, facts)))
        # A GPU reads or writes through the switch in one operation, so NVLS has one stage up and one down. Each stage
        # but the last waits for its first chunk.
        stages = 2 + 2 * _tree_levels(servers)
        filling = (stages - 1) * plan.loop / 2
    elif plan.algorithm == "Tree":
        schedule = collectives.build("all_reduce", "chain_tree", n, per_server=facts.local)
        flows = _tree_flows(schedule, facts, fabric, size)
        filling = plan.filling(size)
    elif plan.algorithm == "P2P" and collective in ("all_to_all", "send_recv"):
        if collective == "all_to_all":
            _check_pairs(n, facts.local)
        schedule = collectives.build(collective, "direct", n)
        flows = lower(schedule, fabric, size)
    else:
        others = ", ".join(collectives.algorithms(collective))
        raise ValueError(
            f"{collective} by {plan.algorithm} has no counterpart in simulate(..., {LIBRARY!r}), which runs "
            f"all_reduce, all_gather, reduce_scatter, all_to_all and send_recv; name one of {others}"
        )
    has_relays = servers > 1 and facts.kind not in _OVER_PCIE
    if method == "spray" and has_relays and _is_cut(fabric, flows):
        method = "pxn"
        notes += ("without some part, GPUs send by relays (PXN), over one NIC each",)
    return Setup(
        schedule=schedule,
        fabric=fabric,
        flows=flows,
        method=method,
        startup=estimate.startup,
        protocol=estimate.limits.get("protocol", 0.0),
        filling=min(filling, size),
        estimate=estimate,
        notes=notes,
    )


def _check_pairs(n: int, local: int) -> None:
    """Refuse an all-to-all that does not fit into memory, and say how many servers do."""
    servers = int(np.sqrt(available_memory() / FLOW_BYTES)) // local
    check_memory(
        FLOW_BYTES * n * n,
        f"all_to_all between {n:,} ranks",
        f"take fewer ranks: {servers * local:,} fit ({servers:,} domains of {local}), or ask estimate",
    )


def _check_forced(algorithm: str, plan: Plan, cluster: Any) -> None:
    """Refuse an algorithm that the library would replace by another one."""
    if plan.algorithm.lower() != algorithm.lower():
        raise ValueError(
            f"{algorithm} cannot run on {cluster!r}, where the library would take {plan.algorithm} instead; "
            "leave the algorithm out, or force one of Ring, Tree, NVLS (one server) and NVLSTree (several)"
        )


def in_network(algorithm: str, cluster: Any, size: float) -> Setup:
    """Return an all-reduce with a switch for each rail that adds, in chunks at the rates that the library reaches.

    NVLink and NICs are as fast as with the library's own algorithm, so that both can be compared. Through switches that
    add, a NIC reaches the published part of its rate in streaming mode. The start-up is what the library plans with, as
    none is published for this mode.

    Parameters
    ----------
    algorithm : str
        ``"nvls_sharp"`` or ``"collnet"``.
    cluster : Cluster
        A system whose servers have one leaf in common for each rail.
    size : float
        Size of the array. [B], > 0

    Raises
    ------
    TypeError, ValueError
        If ``cluster`` is no system, its servers cannot run the algorithm, or its rails have several leaves.
    """
    network = described(cluster)
    facts, plan, rates = rates_in_network(algorithm, cluster, size)
    if facts.servers > 1:
        check_transport(cluster)
    schedule = collectives.build("all_reduce", algorithm, facts.ranks, per_server=facts.local)
    switches = np.zeros(0, dtype=np.int64)
    if algorithm == "nvls_sharp":
        switches = server_switches(network, facts)
    if facts.servers > 1:
        switches = np.concatenate([switches, rail_switches(network, facts.local)])

    fabric = with_reached_rates(network, facts, rates)
    fabric = at_streaming_rate(fabric)
    flows = at_once(lower(schedule, fabric, size, switches=switches))
    notes = [f"at the rates of {facts.library}'s {plan.algorithm}/{plan.protocol}"]
    notes += _rates_in_words(facts, rates)
    notes.append("with a start-up that the library plans with and no measurement confirms")
    chunk = plan.loop / 2 or _TREE_CHUNK * _CHANNELS_PER_NIC * facts.nics  # [B]
    return Setup(
        schedule=schedule,
        fabric=fabric,
        flows=flows,
        method="ecmp",
        startup=planned_startup(algorithm, plan),
        protocol=0.0,
        # A chunk passes four stages: out of the GPUs and into them, once each inside the server and through the switch
        # of the rail. Each stage but the last waits for its first chunk.
        filling=min(3 * chunk, size),
        estimate=None,
        notes=tuple(notes),
    )


def check_transport(cluster: Mapping[str, Any]) -> None:
    """Refuse switches that add for a transport other than InfiniBand."""
    transport = cluster["transport"]
    if transport != "ib":
        raise ValueError(
            "SHARP, the only switches that add between servers whose figures are published, needs InfiniBand, and the "
            f'transport is {transport}; compare with system(..., transport="InfiniBand")'
        )


def planned_startup(algorithm: str, plan: Plan) -> float:
    """Return the start-up of an all-reduce with switches that add, as the library plans with it [s]."""
    startup = plan.steps * plan.hop
    if algorithm == "nvls_sharp":
        # one step inside a server and one through the switches, as NCCL counts NVLS in several servers
        return startup + catalog.value("nccl_model", "hw", "latency_Simple", name="hwLat NET NVLS")
    return startup + plan.network


def outside_what_is_known(startup: float, time: float) -> str:
    """Say that a time rests on a start-up of switches that no measurement confirms; empty if that hardly matters."""
    if startup <= UNKNOWN_PART * time:
        return ""
    return (
        "outside what is known: the only published time of an operation is of 2016, and the library plans with a "
        f"start-up of {units.format_time(startup)}, {units.format_share(startup / time)} of the time, which no "
        "measurement confirms"
    )


class PlanAndRates(NamedTuple):
    """Facts of a cluster, a plan of the library for it, and the rates that this plan reaches."""

    facts: Facts
    plan: Plan
    rates: Rates


def rates_in_network(algorithm: str, cluster: Any, size: float) -> PlanAndRates:
    """Return the library's plan whose rates an algorithm with switches that add also reaches on a cluster."""
    forced = IN_NETWORK[units.choice(algorithm, "algorithm", IN_NETWORK)]
    if forced == "NVLSTree" and tuner.read({**cluster, "collective": "all_reduce"}).servers == 1:
        forced = "NVLS"
    row = {**cluster, "collective": "all_reduce", "algo": forced.lower()}
    facts = tuner.read(row)
    plan, _ = tuner.choose(facts, size)
    _check_forced(forced, plan, cluster)
    return PlanAndRates(facts, plan, reached(facts, plan, size))


def at_streaming_rate(fabric: Fabric) -> Fabric:
    """Return the fabric with its cables at the part of their rate that streaming through switches that add reaches."""
    part = catalog.value("switches", "sharp2", "streaming_part")
    return _slowed(fabric, outside_servers(fabric), part)


def rail_switches(fabric: Fabric, local: int) -> Ints:
    """Return the leaf of each rail, (local,): the switch that the GPUs with the same number reach by one NIC.

    Raises
    ------
    ValueError
        If the servers have no leaf in common for some rail.
    """
    in_server = fabric.coordinate("server") >= 0
    is_uplink = outside_servers(fabric) & in_server[fabric.source] & ~in_server[fabric.target]
    leaves = np.unique(fabric.target[is_uplink]).astype(np.int64)
    if not leaves.size:
        raise ValueError(f"the servers must hang on switches, got {fabric!r} without cables to any")

    search = ShortestPathSearch(fabric)
    tables = [search.table(goals) for goals in search.blocks(leaves)]
    hops = np.concatenate(tables, axis=1)[fabric.endpoint]  # (n, leaves)
    is_nearest = hops == hops.min(axis=1, keepdims=True)
    is_common = is_nearest.reshape(-1, local, leaves.size).all(axis=0)  # (local, leaves)
    found: list[int] = []
    for rail in range(local):
        common = leaves[is_common[rail]]
        if not common.size:
            first = is_nearest.reshape(-1, local, leaves.size)[:, rail].any(axis=0)
            raise ValueError(
                f"nvls_sharp and collnet add on one leaf for each rail, and the servers of rail {rail} hang on "
                f"{np.count_nonzero(first)}; name the switches with switches=..., or compare with trees of several "
                "switches (innetwork.trees.grow) by innetwork.compare.for_servers"
            )
        unused = common[~np.isin(common, found)]
        found.append(int(unused[0] if unused.size else common[0]))
    return np.array(found)


def _ports(fabric: Fabric) -> int:
    """Return the largest number of cables of a NIC that leave its server."""
    if "nic" not in fabric.kinds:
        return 1
    server = fabric.coordinate("server")
    leaves = server[fabric.source] != server[fabric.target]
    cables = np.bincount(fabric.source[leaves], minlength=fabric.n_nodes)
    return int(cables[fabric.nodes("nic")].max())


def by_domain(fabric: Fabric, facts: Facts) -> Fabric:
    """Return the fabric with scale-up domains as servers, where a domain is a rack of several, for the routing."""
    local = facts.local
    gpus = int(np.bincount(fabric.server).max())
    if local <= gpus:
        return fabric
    coord = fabric.coord.copy()
    column = fabric.coord_names.index("server")
    in_server = coord[:, column] >= 0
    coord[in_server, column] //= local // gpus
    rank = np.arange(fabric.n_ranks, dtype=np.int32)
    return replace(fabric, coord=coord, server=rank // local, rail=rank % local)


def _tree_levels(servers: int) -> int:
    """Return the levels of the double tree over the servers."""
    return (servers - 1).bit_length()


class _WeightedOrders(NamedTuple):
    """Rings, and the part of the data on each, in any unit."""

    orders: Ints  # (rings, n)
    weights: Floats  # (rings,)


def _orders(facts: Facts, fabric: Fabric) -> _WeightedOrders:
    """Return the order of ranks in each ring, and how much of the data it carries."""
    n = facts.ranks
    g = facts.local
    rates = _between_gpus(fabric, g)
    is_even_mesh = g % 2 == 0 and np.count_nonzero(rates) == g * (g - 1)
    few = g <= MOST_RANKS  # whose rings can all be tried
    if not _is_wired(facts) or g < 3 or not rates.any() or not (few or is_even_mesh):
        orders = channel_rings(n, g, alternate=True)
        return _WeightedOrders(orders, np.ones(g))
    if not is_even_mesh:
        return _along_links(best_rings(_board(rates)), n)

    # Links join each pair of GPUs. Ring c passes a server as c, c+1, c-1, c+2, ..., so that no two rings share a link.
    zigzag = np.zeros(g, dtype=np.int64)
    zigzag[1::2] = np.arange(1, g // 2 + 1)
    zigzag[2::2] = -np.arange(1, g // 2)
    ring, server, place = np.indices((g, n // g, g))
    turned = np.where(server % 2 == 1, g - 1 - place, place)
    orders = np.reshape(server * g + (ring + zigzag[turned]) % g, (g, n))
    return _WeightedOrders(orders, np.ones(g))


def _is_wired(facts: Facts) -> bool:
    """Return whether links without switches join the GPUs of a server, so that their order matters."""
    return not facts.switched and facts.kind not in _OVER_PCIE


def _tree_flows(schedule: Schedule, facts: Facts, fabric: Fabric, size: float) -> Flows:
    """Return the flows of a tree whose chains in each server follow the links between the GPUs."""
    n = facts.ranks
    g = facts.local
    rates = _between_gpus(fabric, g)
    if not _is_wired(facts) or not 3 <= g <= MOST_RANKS or not rates.any():
        return at_once(lower(schedule, fabric, size))
    rings = best_rings(_board(rates))
    first = np.arange(0, n, g)[:, None]  # rank of each server
    parts = []
    for order, rate in zip(rings.orders, rings.rates.tolist(), strict=True):
        place = (first + order).ravel()
        share = size * rate / float(rings.rates.sum())
        parts.append(lower(schedule, fabric, share, placement=place))
    source = np.concatenate([part.source for part in parts]).astype(np.int64)
    target = np.concatenate([part.target for part in parts])
    sizes = np.concatenate([part.size for part in parts])
    pairs, number = np.unique(source * fabric.n_nodes + target, return_inverse=True)
    between = np.bincount(number, sizes, pairs.size)  # [B]
    # What several channels send between two GPUs has as much of a link as the channels would have.
    weight = np.bincount(number).astype(np.float64)
    return Flows.make(pairs // fabric.n_nodes, pairs % fabric.n_nodes, between, weight=weight)


def _between_gpus(fabric: Fabric, g: int) -> Floats:
    """Return the rate of the links between each two of the first ``g`` GPUs, (g, g) [B/s]."""
    one = fabric.rank_of[fabric.source]
    other = fabric.rank_of[fabric.target]
    direct = np.flatnonzero((one >= 0) & (other >= 0) & (one < g) & (other < g))
    rates = np.zeros((g, g))
    np.add.at(rates, (one[direct], other[direct]), fabric.capacity[direct])
    return rates


def _board(rates: Floats) -> Fabric:
    """Return GPUs with links of these rates, (g, g) [B/s], whose rings avoid the paths over PCIe if they can."""
    g = len(rates)
    b = FabricBuilder(("gpu", "pcie"), ("local",))
    gpu = b.add_nodes("gpu", g, tier=0, transit=False, local=np.arange(g))
    hub = b.add_nodes("pcie", 1, tier=1, transit=True)
    one, other = np.nonzero(np.triu(rates))
    b.add_cables(gpu[one], gpu[other], capacity=rates[one, other], medium="nvlink")
    b.add_cables(gpu, np.broadcast_to(hub, gpu.shape), capacity=float(rates.max()), medium="pcie")
    return b.build("server", {}, endpoint=gpu, rail=np.arange(g), server=np.zeros(g))


def _along_links(rings: Rings, n: int) -> _WeightedOrders:
    """Return the rings of one server continued through all, so that each enters and leaves at every GPU in turn.

    A ring is cut between any two of its GPUs. Every second server is passed backwards, so a ring stays on its rail.
    """
    g = rings.orders.shape[1]
    ring, cut, server, place = np.indices((len(rings.orders), g, n // g, g))
    turned = np.where(server % 2 == 1, g - 1 - place, place)
    local = rings.orders[ring, (cut + turned) % g]
    orders = np.reshape(server * g + local, (-1, n))
    return _WeightedOrders(orders, np.repeat(rings.rates, g))


def server_switches(fabric: Fabric, facts: Facts) -> Ints:
    """Return the node of the NVLink switches of each server, (servers,)."""
    if "nvlink" not in fabric.kinds:
        raise ValueError(
            f"NVLS needs a fabric with a node of kind 'nvlink' in each server, got the kinds {', '.join(fabric.kinds)}"
        )
    nodes = fabric.nodes("nvlink")
    if nodes.size != facts.servers:
        raise ValueError(
            f"NVLS needs one NVLink node for each of {facts.servers} domains, got {nodes.size}"
        )
    return nodes


class Rates(NamedTuple):
    """Rate of a GPU's links inside its domain, and of a NIC, that the library reaches [B/s]."""

    inside: float
    nic: float


def reached(facts: Facts, plan: Plan, size: float) -> Rates:
    """Return the rates at which data moves by a plan, from the terms of the cost model.

    The model has a time per byte of the array. Divided by the part of the array that passes a port, it is a rate.
    """
    constants = tuner.constants(facts, tuner.calibration())
    n = facts.ranks
    part = tuner.data_times(facts, plan, size, constants)
    if plan.algorithm == "Ring":
        through_links = bus_factor(facts.what, n)
        through_nics = through_links
    elif plan.algorithm == "P2P":
        # of its own message, which the plan divides among peers
        through_links = plan.own * facts.own
        through_nics = plan.nic * facts.node
    elif plan.algorithm == "CollNet":
        through_links = 2.0 * (facts.local - 1) / facts.local
        through_nics = 1.0
    else:
        through_links = 2.0 if plan.algorithm == "Tree" else 1.0 + 1.0 / facts.local
        through_nics = 1.0 if facts.servers == 2 else 2.0
    inside = facts.peak
    if part.links > 0:
        inside = min(inside, through_links * size / part.links)
    nic = facts.wire
    if part.nics > 0 and facts.nics:
        nic = min(nic, through_nics * size / part.nics / facts.nics)
    return Rates(inside, nic)


def with_reached_rates(fabric: Fabric, facts: Facts, rates: Rates) -> Fabric:
    """Return the fabric with the links that the library fills at the rates that it reaches."""
    media = np.array(fabric.media)[fabric.medium]
    if facts.kind in _OVER_PCIE:
        # GPUs meet over PCIe, and the link of each is what they share.
        has_gpu = (fabric.rank_of[fabric.source] >= 0) | (fabric.rank_of[fabric.target] >= 0)
        is_inside = (media == "pcie") & has_gpu
    else:
        is_inside = np.isin(media, ["nvlink", "xgmi"])
    if np.isfinite(facts.peak):
        fabric = _slowed(fabric, is_inside, rates.inside / facts.peak)
    if facts.wire:
        fabric = _slowed(fabric, outside_servers(fabric), rates.nic / facts.wire)
    return fabric


def _slowed(fabric: Fabric, which: Flags, part: float) -> Fabric:
    """Return the fabric with some links at a part of their rate."""
    for rate in np.unique(fabric.capacity[which]):
        links = np.flatnonzero(which & (fabric.capacity == rate))
        fabric = fabric.with_capacity(links, float(rate * part))
    return fabric


def _notes(facts: Facts, plan: Plan, rates: Rates) -> tuple[str, ...]:
    """Return what the run assumes, in words."""
    return (
        f"as {facts.library}'s {plan.algorithm}/{plan.protocol}",
        *_rates_in_words(facts, rates),
    )


def _routing(facts: Facts, plan: Plan, ports: int) -> str:
    """Return how the flows of a plan are routed: over NVLink to the rail, and over all NICs and ports of a GPU.

    Where GPUs meet over PCIe, the NIC of a neighbour is as near to another rail as the spine is, and both are used.
    """
    if facts.servers == 1:
        return "ecmp"
    over_pcie = facts.kind in _OVER_PCIE
    has_several = facts.nics > facts.local or ports > 1 or over_pcie
    if has_several and (plan.algorithm != "P2P" or facts.ranks <= _SPRAYED_RANKS):
        return "spray"
    return "pxn" if facts.local > 1 and not over_pcie else "ecmp"


def _is_cut(fabric: Fabric, flows: Flows) -> bool:
    """Return whether a failure leaves a flow without any path that needs no relay."""
    if fabric.capacity.all():
        return False
    try:
        routing.route(fabric, flows, "ecmp")
    except NoPath:
        return True
    return False


def _beside_estimate(
    facts: Facts, plan: Plan, row: Mapping[str, Any], method: str
) -> tuple[str, ...]:
    """Say what a run counts of the links and NICs of a server that the estimate does not."""
    notes = []
    gpus = int(row["gpus_per_node"] or 1)
    nics = int(row["nics_per_node"] or 1)
    board = int(row["scale_up_domain_gpus"] or gpus)
    if "cube" in row["scale_up"] and 1 < facts.local < board:
        notes.append("the estimate counts all links of a GPU, also those to GPUs that are not used")
    if "pair" in row["scale_up"] and facts.kind in _OVER_PCIE and plan.algorithm == "P2P":
        notes.append("the GPUs of a pair meet over their bridge, where the estimate counts PCIe")
    if facts.servers == 1:
        return tuple(notes)

    if facts.kind in _OVER_PCIE and facts.local > 1:
        notes.append(
            "traffic to GPUs and to NICs shares the PCIe link of a GPU, which the estimate counts apart"
        )
    if facts.nics > facts.local and plan.algorithm == "P2P":
        if method == "spray":
            notes.append(
                "over all NICs of a GPU, flows go from rail to rail through the spines, not by a relay (PXN)"
            )
        else:
            notes.append(
                "a GPU sends over one of its NICs and the others are idle, since all would take too many routes"
            )
    if nics < gpus and gpus % nics:
        most = -(-gpus // nics)
        more = most * nics / gpus - 1
        notes.append(
            f"{nics} NICs do not divide {gpus} GPUs evenly: one serves {most}, {units.format_share(more)} more "
            "than the mean, which "
            "the estimate takes"
        )
    if nics > gpus and nics % gpus:
        fewest = nics // gpus
        less = 1 - fewest * gpus / nics
        notes.append(
            f"{nics} NICs do not divide among {gpus} GPUs evenly: a GPU has {fewest}, {units.format_share(less)} "
            "less than the mean, "
            "which the estimate takes"
        )
    return tuple(notes)


def _rates_in_words(facts: Facts, rates: Rates) -> list[str]:
    """Return the rates that a run assumes, in words."""
    notes = []
    if facts.local > 1 and np.isfinite(facts.peak):
        notes.append(f"links in a server reach {_share(rates.inside, facts.peak)}")
    if facts.servers > 1:
        notes.append(f"NICs reach {_share(rates.nic, facts.wire)}")
    return notes


def _share(rate: float, peak: float) -> str:
    """Return a rate beside the one that it could be at most."""
    return f"{rate / 1e9:.3g} of {peak / 1e9:.3g} GB/s"


def comparison(setup: Setup, timeline: Timeline) -> list[str]:
    """Return why the time differs from the estimate, if it is outside of its band."""
    estimate = setup.estimate
    if estimate is None or estimate.low <= timeline.end <= estimate.high:
        return []
    name, data = list(estimate.terms.items())[-1]
    load = timeline.link_bytes / np.maximum(setup.fabric.capacity, 1.0)
    worst = int(np.argmax(load))
    start = setup.fabric.name(int(setup.fabric.source[worst]))
    end = setup.fabric.name(int(setup.fabric.target[worst]))
    share = timeline.link_bytes[worst] / estimate.size
    return [
        f"estimate {units.format_time(estimate.time)}, of which {units.format_time(data)} for data ({name}); here the "
        f"fullest link, {start} to {end}, carries {share:.3g} times the array in {units.format_time(load[worst])}"
    ]
