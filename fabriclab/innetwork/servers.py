"""An all-reduce between servers of GPUs: by the algorithms of the library, and with switches that add between servers.

Switches between servers halve what a NIC carries. What the links inside a server carry stays the same, so the gain is
large only where the NICs are the limit.

References
----------
.. [1] R. L. Graham et al., SHARP Streaming-Aggregation Hardware Design and Evaluation, ISC High Performance 2020.
.. [2] NVIDIA, HPC-X 2.26, NCCL-RDMA-SHARP Plugins: one streaming flow for each rail, on leaves that serve one rail.
.. [3] NVIDIA/nccl issue 320, a maintainer: CollNet with 8 A100 and 8 NICs of 200 Gb/s is limited by NVLink, at about
   110 GB/s of algorithm bandwidth (for 1 GiB the model has 132 GB/s).
.. [4] NVIDIA/nccl issue 1219, a user: 480 GB/s of bus bandwidth with SHARP (the number of servers is not stated; for 32
   servers of 8 H100 the model has 536 GB/s at 1 GiB).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, collectives, engines, routing, tuner, units
from fabriclab.core import Fabric, Flags, Floats, ReadOnly, as_html
from fabriclab.errors import NoPath
from fabriclab.innetwork.trees import Mode, Tree, grow, run
from fabriclab.lower import lower
from fabriclab.simulation.library import (
    IN_NETWORK,
    UNKNOWN_PART,
    Cluster,
    Setup,
    as_chosen,
    at_streaming_rate,
    check_transport,
    described,
    outside_what_is_known,
    planned_startup,
    rail_switches,
    rates_in_network,
    server_switches,
    with_reached_rates,
)
from fabriclab.simulation.rings import at_once
from fabriclab.topologies.clusters import outside_servers
from fabriclab.tuner.system import System as Facts

BY_HOSTS = ("Ring", "Tree", "NVLSTree")


class ServerCost(NamedTuple):
    """Cost of an all-reduce with one algorithm; what is not known, or cannot run, is NaN.

    Parameters
    ----------
    time : float
        Until the last GPU has the result: start-up and data. [s]
    startup : float
        Part of the time that is no data, as the library's cost model counts it. [s]
    data_time : float
        Time of the fullest link, or of the protocol if it is slower. [s]
    nic_bytes, port_bytes : float
        Most bytes of a NIC, and of a GPU's port inside its server, in one direction. [B]
    nic_time, port_time : float
        Time of these bytes at the rate that is reached. [s]
    note : str
        What the number rests on, or why there is none.
    """

    time: float
    startup: float
    data_time: float
    nic_bytes: float
    port_bytes: float
    nic_time: float
    port_time: float
    note: str = ""

    @property
    def binds(self) -> str:
        """Name what takes longest: start-up, NIC, links inside a server, or another link; empty where nothing ran."""
        if np.isnan(self.data_time):
            return ""
        parts = {
            "start-up": self.startup,
            "NIC": self.nic_time,
            "links in a server": self.port_time,
        }
        if self.data_time > max(self.nic_time, self.port_time):
            parts["another link, or the protocol"] = self.data_time
        return max(parts, key=parts.__getitem__)


@dataclass(frozen=True, eq=False, repr=False)
class ServerComparison(Mapping[str, ServerCost]):
    """Costs of an all-reduce by algorithm, and what explains the gain of switches that add.

    Parameters
    ----------
    cluster : str
        The cluster, in words.
    size : float
        Size of the array. [B]
    costs : mapping of str to ServerCost
        By algorithm: those of the library, ``nvls_sharp`` and ``collnet``.
    operations : mapping of str to str
        What is published of the cost of an operation in a switch, by mode.
    why : str
        Which limit each side has, and how much switches that add can gain by it.
    """

    cluster: str
    size: float
    costs: Mapping[str, ServerCost]
    operations: Mapping[str, str]
    why: str

    def __getitem__(self, key: str) -> ServerCost:
        """Return the costs of an algorithm."""
        return self.costs[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the algorithms."""
        return iter(self.costs)

    def __len__(self) -> int:
        """Return the number of algorithms."""
        return len(self.costs)

    @property
    def gain(self) -> float:
        """Return the time of the fastest algorithm of the library by that of NVLS with switches that add, or NaN."""
        return best_by_hosts(self.costs).time / self.costs["nvls_sharp"].time

    def _rows(self) -> list[tuple[str, ...]]:
        """Return a table of the costs, the names of its columns first."""
        rows: list[tuple[str, ...]] = [("algorithm", "time", "NIC", "GPU port", "limit", "note")]
        for name, cost in self.costs.items():
            row = (
                name,
                _or_dash(cost.time, units.format_time),
                _or_dash(cost.nic_bytes, units.format_size),
                _or_dash(cost.port_bytes, units.format_size),
                cost.binds,
                cost.note,
            )
            rows.append(row)
        for mode, words in self.operations.items():
            rows.append((f"operation, {mode}", words, "", "", "", ""))
        return rows

    def __repr__(self) -> str:
        """Show the times, and why."""
        times = []
        for name, cost in self.costs.items():
            times.append(f"{name} {_or_dash(cost.time, units.format_time)}")
        head = f"all-reduce of {units.format_size(self.size)} on {self.cluster}"
        return f"<{head}: {', '.join(times)}; {self.why}>"

    def _repr_html_(self) -> str:
        return as_html(self._rows(), repr(self)[1:-1])


def for_servers(cluster: Cluster, size: units.Quantity) -> ServerComparison:
    """Compare an all-reduce on servers of GPUs by the library's algorithms with one through switches that add.

    All algorithms have the rates that the library reaches on NVLink and on NICs. Through switches that add, a NIC
    reaches 95 % of it, as published for streaming mode. A time is the start-up, as the library's cost model counts it,
    and the time of the fullest link, since in a full pipeline all steps are busy at the same time.

    No start-up of streaming mode is published for a named switch. The library plans with one, which no measurement
    confirms. Where it would be more than 10 % of the time, no number is given. Leaves out the filling of the pipeline,
    other jobs, limits of the switches to a part of their operations, and NICs beyond one for each GPU.

    Parameters
    ----------
    cluster : Cluster
        A system of several servers, as `fabriclab.system` makes one.
    size : float or str
        Size of the array. [B], > 0

    Returns
    -------
    ServerComparison
        Costs of Ring, Tree and NVLSTree, of NVLS with a tree of switches on each rail (``nvls_sharp``), and of direct
        messages in the servers with such trees between them (``collnet``).

    Raises
    ------
    TypeError
        If ``cluster`` does not say what its servers are.
    ValueError
        If it has a single scale-up domain, so that nothing passes a NIC.

    Examples
    --------
    >>> import fabriclab as fl
    >>> found = for_servers(fl.system(gpu="H100", servers=4, rate="100 Gb/s"), "1 GiB")
    >>> round(found.gain, 2), found["NVLSTree"].binds
    (1.86, 'NIC')
    """
    described(cluster)
    n_bytes = units.size(size, may_be_zero=False)
    facts = tuner.read({**_columns(cluster), "collective": "all_reduce"})
    if facts.servers < 2:
        raise ValueError(
            f"cluster must have two or more servers, got {cluster!r}; in one server there is only NVLS, see "
            "innetwork.nvls.times"
        )
    costs = {}
    for name in BY_HOSTS:
        costs[name] = _by_hosts(name, cluster, n_bytes)
    for name in IN_NETWORK:
        costs[name] = _by_network(name, cluster, n_bytes)
    return ServerComparison(
        cluster=repr(cluster).strip("<>"),
        size=n_bytes,
        costs=ReadOnly(costs),
        operations=ReadOnly(operations()),
        why=_why(costs, facts, n_bytes),
    )


def _columns(cluster: Any) -> dict[str, Any]:
    """Return the columns of a system."""
    return dict(cluster)


def best_by_hosts(costs: Mapping[str, ServerCost]) -> ServerCost:
    """Return the costs of the fastest algorithm without switches that add between servers."""
    known = [costs[name] for name in BY_HOSTS if not np.isnan(costs[name].time)]
    return min(known, key=lambda cost: cost.time)


@cache
def operations() -> dict[str, str]:
    """Return what is published of the cost of an operation in a switch that adds, by mode."""
    spec = catalog.switches["sharp1"].spec("operation_time")
    payload = catalog.value("switches", "sharp1", "operation_payload")
    part = catalog.value("switches", "sharp2", "streaming_part")
    low = (
        f"{units.format_time(spec.si or 0.0)} for {payload:.0f} B, of SHARP 1 in 2016; of later generations no time is "
        "published"
    )
    streaming = (
        f"no time is published; large arrays reach {units.format_share(part)} of the rate of a link"
    )
    return {"low latency": low, "streaming": streaming}


def _refused(why: str) -> ServerCost:
    """Return the costs of an algorithm that cannot run."""
    return ServerCost(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, why)


def _by_hosts(algorithm: str, cluster: Any, size: float) -> ServerCost:
    """Return the costs of an algorithm of the library."""
    try:
        setup = as_chosen("all_reduce", cluster, size, algorithm)
    except ValueError as refused:
        return _refused(str(refused))
    carried = _carried(setup)
    startup = 0.0
    protocol = 0.0
    if setup.estimate is not None:
        startup = setup.estimate.startup
        protocol = setup.estimate.terms.get("protocol", 0.0)
    return _cost(setup.fabric, carried, startup, protocol)


def _carried(setup: Setup) -> Floats:
    """Return the bytes on each link when a collective runs, (L,) [B]."""
    routes = routing.route(setup.fabric, setup.flows, setup.method)
    return engines.run(setup.fabric, routes, setup.flows).link_bytes


def _by_network(algorithm: str, cluster: Any, size: float) -> ServerCost:
    """Return the costs of an algorithm with a tree of switches on each rail."""
    network = described(cluster)
    try:
        check_transport(cluster)
        facts, plan, rates = rates_in_network(algorithm, cluster, size)
        fabric = at_streaming_rate(with_reached_rates(network, facts, rates))
        inside = _inside_servers(algorithm, fabric, facts, size)
        trees = rail_trees(fabric, facts)
    except (NoPath, ValueError) as refused:
        return _refused(str(refused))
    busy = _too_many_streams(trees, facts)
    if busy:
        return _refused(busy)

    each = size / len(trees)  # of the array, in one tree [B]
    carried = inside + run(trees, each).link_bytes
    startup = planned_startup(algorithm, plan)
    cost = _cost(fabric, carried, startup)

    unknown = outside_what_is_known(startup, cost.time)
    if unknown:
        return cost._replace(time=np.nan, note=unknown)
    words = units.format_time(startup)
    note = (
        f"rests on a start-up of {words} by the library's cost model, {units.format_share(startup / cost.time)} "
        "of the time"
    )
    return cost._replace(note=note)


def _inside_servers(algorithm: str, fabric: Fabric, facts: Facts, size: float) -> Floats:
    """Return the bytes on each link of an all-reduce inside each server, (L,) [B]."""
    g = facts.local
    if g == 1:
        return np.zeros(fabric.n_links)
    schedule = collectives.build("all_reduce", algorithm, g, per_server=g)
    switches = None
    if algorithm == "nvls_sharp":
        switches = server_switches(fabric, facts)[:, None]
    placement = np.arange(facts.ranks).reshape(facts.servers, g)
    flows = at_once(lower(schedule, fabric, size, placement=placement, switches=switches))
    routes = routing.route(fabric, flows, "spray")
    return engines.run(fabric, routes, flows).link_bytes


def rail_trees(fabric: Fabric, facts: Facts) -> list[Tree]:
    """Return the trees over the servers, one for each GPU of a server, which uses one NIC."""
    # `at_streaming_rate` has slowed the cables already
    mode = replace(Mode.sharp(True), part=1.0)
    trees = []
    load = np.zeros(fabric.n_links)
    for local in range(facts.local):
        tree = grow(fabric, np.arange(local, facts.ranks, facts.local), mode, load=load)
        load[tree.links] += 1
        trees.append(tree)
    return trees


def _too_many_streams(trees: list[Tree], facts: Facts) -> str:
    """Say which switch would add for more streaming flows than it can; empty if none would."""
    most = int(catalog.value("switches", "sharp3", "streaming_flows"))
    flows: dict[
        int, set[int]
    ] = {}  # switch -> cables of the first server by which its streams leave
    for tree in trees:
        fabric = tree.fabric
        up = tree.path[0]
        cable = int(up[(up >= 0) & outside_servers(fabric)[up]][0])
        for node in tree.switches.tolist():
            flows.setdefault(node, set()).add(cable)
    fullest = max(flows, key=lambda node: len(flows[node]))
    count = len(flows[fullest])
    if count <= most:
        return ""
    fabric = trees[0].fabric
    why = ""
    try:
        rail_switches(fabric, facts.local)
    except ValueError:
        why = "the servers of a rail have no leaf in common; "
    return (
        f"{why}{count} streaming flows, one for each of {facts.nics} NICs of a server, meet at {fabric.name(fullest)}, "
        f'and a switch has {most} at most; fabric="rail_optimised" gives each rail a leaf of its own'
    )


def _cost(fabric: Fabric, carried: Floats, startup: float, protocol: float = 0.0) -> ServerCost:
    """Return the costs of a run whose steps are all busy at the same time, from the bytes on each link (L,) [B].

    The protocol needs ``protocol`` seconds for the data, whatever the links are.
    """
    seconds = carried / np.maximum(fabric.capacity, 1.0)  # (L,)
    data_time = max(float(seconds.max()), protocol)
    nic = _nic_cables(fabric)
    port = np.isin(np.array(fabric.media)[fabric.medium], ["nvlink", "xgmi"])
    return ServerCost(
        time=startup + data_time,
        startup=startup,
        data_time=data_time,
        nic_bytes=_most(carried, nic),
        port_bytes=_most(carried, port),
        nic_time=_most(seconds, nic),
        port_time=_most(seconds, port),
    )


def _nic_cables(fabric: Fabric) -> Flags:
    """Tell which links are cables between a server and the network, (L,)."""
    in_server = fabric.coordinate("server") >= 0
    crosses = in_server[fabric.source] != in_server[fabric.target]
    return np.asarray(crosses & outside_servers(fabric))


def _most(values: Floats, which: Flags) -> float:
    """Return the largest of some values, 0 of none."""
    return float(values[which].max(initial=0.0))


def _why(costs: Mapping[str, ServerCost], facts: Facts, size: float) -> str:
    """Return in words which limits decide between NVLSTree and NVLS with switches that add."""
    tree = costs["NVLSTree"]
    added = costs["nvls_sharp"]
    for name, cost in (("NVLSTree", tree), ("nvls_sharp", added)):
        if np.isnan(cost.nic_time):
            return f"there is no gain to explain, since {name} does not run here: {cost.note}"
    g = facts.local
    if np.isnan(added.time):
        data = max(added.nic_time, added.port_time)
        enough = size * added.startup * (1 / UNKNOWN_PART - 1) / data
        return (
            "at this size the start-up of switches that add decides, which is not published; from about "
            f"{units.format_size(enough)} up there is a number"
        )
    bound = max(tree.nic_time, tree.port_time) / max(added.nic_time, added.port_time)
    return (
        f"in each direction a NIC carries {units.format_size(tree.nic_bytes)} with NVLSTree and "
        f"{units.format_size(added.nic_bytes)} through switches that add, and a GPU's port {1 + 1 / g:.4g} times the "
        f"array with both, so switches help only where NICs are the limit: NIC and port take "
        f"{units.format_time(tree.nic_time)} and {units.format_time(tree.port_time)} with NVLSTree, "
        f"{units.format_time(added.nic_time)} and {units.format_time(added.port_time)} with switches, a gain of "
        f"{bound:.2f} by data alone"
    )


def _or_dash(value: float, form: Any) -> str:
    """Return a value in words, and a dash for NaN."""
    return "-" if np.isnan(value) else str(form(value))
