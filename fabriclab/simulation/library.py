"""What a run of the collective library becomes on a fabric: its rings or trees over all NICs, at the rates it reaches.

`estimate` says which algorithm NCCL would choose and how fast each link then is. Here the same choice is run on the
fabric itself, so that cables which several paths share, failed parts and oversubscription show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from fabriclab import collectives, tuner, units
from fabriclab.collectives.ring import channel_rings
from fabriclab.core import (
    Fabric,
    Flags,
    Flows,
    Ints,
    Routes,
    Schedule,
    Timeline,
    bus_factor,
)
from fabriclab.lower import lower
from fabriclab.simulation.rings import MOST_RANKS, at_once, best_rings, ring_flows
from fabriclab.tuner.plans import Plan
from fabriclab.tuner.system import System as Facts

LIBRARY = "nccl"  # name under which `simulate` runs what the library would choose


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
    filling : float
        Bytes that are on their way before the pipeline of a tree is full; 0 if steps do not overlap. [B]
    estimate : Estimate
        What the cost model says about the same question.
    notes : tuple of str
        What the run assumes.
    """

    schedule: Schedule
    fabric: Fabric
    flows: Flows
    method: str
    filling: float
    estimate: tuner.Estimate
    notes: tuple[str, ...]


def as_chosen(collective: str, cluster: Any, size: float) -> Setup:
    """Return a collective as the library would run it on a cluster, with the algorithm that `estimate` chooses.

    Raises
    ------
    TypeError
        If ``cluster`` is a fabric without a description of its servers.
    ValueError
        If the library's choice has no counterpart here.
    """
    if not isinstance(cluster, Mapping) or not hasattr(cluster, "fabric"):
        raise TypeError(
            f"algorithm {LIBRARY!r} needs a system, which says what the servers are, got {cluster!r:.80}; "
            'make one with fabriclab.system(gpu="H100", servers=32)'
        )
    row = {**cluster, "collective": collective}
    estimate = tuner.estimate(row, size=size)
    facts = tuner.read(row)
    plan, _ = tuner.choose(facts, size)
    rates = reached(facts, plan, size)
    fabric = _with_reached_rates(cluster.fabric, facts, rates)
    n = facts.ranks
    servers = facts.servers
    in_servers = facts.local == row["gpus_per_node"] > 1
    method = "pxn" if servers > 1 and in_servers else "ecmp"
    filling = 0.0  # [B]

    if plan.algorithm == "Ring" and collective in ("all_reduce", "all_gather", "reduce_scatter"):
        schedule = collectives.build(collective, "ring", n)
        if servers == 1 and not facts.switched and n <= MOST_RANKS:
            rings = best_rings(fabric)
            method = "spray"  # between GPUs that share several links
            flows = ring_flows(collective, fabric, rings.orders, size, rings.rates)
        else:
            flows = ring_flows(collective, fabric, _orders(facts), size)
    elif plan.algorithm in ("NVLS", "NVLSTree"):
        schedule = collectives.build("all_reduce", "nvls_tree", n, per_server=facts.local)
        flows = at_once(lower(schedule, fabric, size, switches=_server_switches(fabric, facts)))
        # A GPU reads or writes through the switch in one operation, so NVLS has one stage up and one down. Each stage
        # but the last waits for its first chunk.
        stages = 2 + 2 * _tree_levels(servers)
        filling = (stages - 1) * plan.loop / 2
    elif plan.algorithm == "Tree":
        schedule = collectives.build("all_reduce", "chain_tree", n, per_server=facts.local)
        flows = at_once(lower(schedule, fabric, size))
        filling = plan.filling(size)
    elif plan.algorithm == "P2P":
        schedule = collectives.build(collective, "direct", n)
        flows = lower(schedule, fabric, size)
    else:
        raise ValueError(
            f"{collective} by {plan.algorithm} has no counterpart in simulate(..., {LIBRARY!r}), which runs rings, "
            "trees, NVLS and direct messages; name an algorithm of collectives.algorithms(...)"
        )
    return Setup(
        schedule=schedule,
        fabric=fabric,
        flows=flows,
        method=method,
        filling=min(filling, size),
        estimate=estimate,
        notes=_notes(facts, plan, rates),
    )


def _tree_levels(servers: int) -> int:
    """Return the levels of the double tree over the servers."""
    return (servers - 1).bit_length()


def _orders(facts: Facts) -> Ints:
    """Return the order of ranks in each ring, (rings, n): one for each GPU of a server."""
    n = facts.ranks
    g = facts.local
    if facts.switched or g < 3 or g % 2:
        return channel_rings(n, g, alternate=True)

    # Links join each pair of GPUs. Ring c passes a server as c, c+1, c-1, c+2, ..., so that no two rings share a link.
    zigzag = np.zeros(g, dtype=np.int64)
    zigzag[1::2] = np.arange(1, g // 2 + 1)
    zigzag[2::2] = -np.arange(1, g // 2)
    ring, server, place = np.indices((g, n // g, g))
    turned = np.where(server % 2 == 1, g - 1 - place, place)
    return np.reshape(server * g + (ring + zigzag[turned]) % g, (g, n))


def _server_switches(fabric: Fabric, facts: Facts) -> Ints:
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


def _with_reached_rates(fabric: Fabric, facts: Facts, rates: Rates) -> Fabric:
    """Return the fabric with the links that the library fills at the rates that it reaches."""
    media = np.array(fabric.media)[fabric.medium]
    is_inside = np.isin(media, ["nvlink", "xgmi"])
    is_outside = fabric.length > 0
    if np.isfinite(facts.peak):
        fabric = _slowed(fabric, is_inside, rates.inside / facts.peak)
    if facts.wire:
        fabric = _slowed(fabric, is_outside, rates.nic / facts.wire)
    return fabric


def _slowed(fabric: Fabric, which: Flags, part: float) -> Fabric:
    """Return the fabric with some links at a part of their rate."""
    for rate in np.unique(fabric.capacity[which]):
        links = np.flatnonzero(which & (fabric.capacity == rate))
        fabric = fabric.with_capacity(links, float(rate * part))
    return fabric


def _notes(facts: Facts, plan: Plan, rates: Rates) -> tuple[str, ...]:
    """Return what the run assumes, in words."""
    notes = [f"as NCCL's {plan.algorithm}/{plan.protocol}"]
    if facts.local > 1 and np.isfinite(facts.peak):
        notes.append(f"links in a server reach {_share(rates.inside, facts.peak)}")
    if facts.servers > 1:
        notes.append(f"NICs reach {_share(rates.nic, facts.wire)}")
    return tuple(notes)


def _share(rate: float, peak: float) -> str:
    """Return a rate beside the one that it could be at most."""
    return f"{rate / 1e9:.3g} of {peak / 1e9:.3g} GB/s"


def comparison(setup: Setup, timeline: Timeline, routes: Routes) -> list[str]:
    """Return why the time differs from the estimate, if it is outside of its band."""
    estimate = setup.estimate
    if estimate.low <= timeline.end <= estimate.high:
        return []
    words = f"estimate {units.format_time(estimate.time)}"
    data = list(estimate.terms.values())[-1]
    latency = estimate.time - data
    if timeline.end < estimate.low:
        return [
            f"{words}, of which {units.format_time(latency)} are latency that this run leaves out"
        ]
    load = timeline.link_bytes / np.maximum(setup.fabric.capacity, 1.0)
    worst = int(np.argmax(load))
    link = (
        setup.fabric.name(int(setup.fabric.source[worst]))
        + " to "
        + setup.fabric.name(int(setup.fabric.target[worst]))
    )
    share = load[worst] / timeline.end
    return [f"{words}; the fullest link, {link}, is busy {share:.0%} of the time"]
