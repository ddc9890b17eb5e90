"""Compare in-network reduction with hosts: time, bytes, work of hosts, published gains, and cost of the switches."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, economics, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Floats, Ints
from fabriclab.errors import OutOfSlots
from fabriclab.innetwork import nvls
from fabriclab.innetwork.servers import for_servers
from fabriclab.innetwork.trees import Manager, Mode, Tree, grow, run
from fabriclab.simulation import simulate
from fabriclab.simulation.library import UNKNOWN_PART
from fabriclab.texts import text

__all__ = [
    "HOSTS",
    "PIPES",
    "Way",
    "bound",
    "claims",
    "compare",
    "deployment",
    "for_servers",
    "gains",
    "program",
]

HOSTS = ("ring", "halving_doubling", "double_tree")
PIPES = 4  # source: p4app-switchML, which adds 256 values in all of them, one after the other
# B: Ethernet, gap and preamble, IP, UDP, SwitchML with its exponents
_HEADER = 18 + 20 + 20 + 8 + 10
_ONE_PIPE = 64  # values that one pipe adds in one pass; source: p4app-switchML, packets of 256 B
_SEGMENT = 2**16  # least size of a segment with which hosts pipeline a tree [B]
_MOST_SEGMENTS = 16  # of an array, however large
_LONGEST_STREAM = 2**30 - 32  # B; source: SHARP-261, of a streaming all-reduce
_LAG = "1 us"  # illustrative: software of a host
_TIMER = "1 ms"  # illustrative: software of a host
_PROJECTS = {"sharp": "SHARP", "switchml": "SwitchML", "atp": "ATP"}  # as they write their names
_MTU = 4096  # B; source: rdma-core, the largest packet of a host's NIC


class Way(NamedTuple):
    """Costs of an all-reduce of all jobs with one algorithm; times are NaN where none is known.

    ``note`` says why there is no time, or what it rests on.
    """

    time: float  # until the last rank of the last job has its sum [s]
    link_bytes: Floats  # (L,)
    added: float  # by the busiest host [B]
    converted: float  # to integers and back by each host [B]
    messages: int  # that the busiest host's NIC sends
    note: str = ""


def program(
    children: int,
    ranks: int,
    jobs: int = 1,
    *,
    slots: int = 512,
    lanes: int = 64,
    loss: float = 0.0,
    timer: units.Quantity = _TIMER,
    host: units.Quantity = np.inf,
) -> Mode:
    """Return the mode in which a programmable switch adds, as in SwitchML: each slot has one chunk in transit.

    A chunk waits for a ``timer`` each time that one of its missing packets is lost. Packets of more than 64 values pass
    all four pipes, and seven times more to collect the result; then only the ports of the first pipe are left for
    workers. Leaves out losses between switches, and that some slots lose more than others. So the predicted time is up
    to 3 % longer than that of the simulated protocol without loss; with a loss of 0.1 to 5 % it is between 6 % too long
    and 2.5 times too short.

    Parameters
    ----------
    children, ranks, jobs : int
        Number of children whose packets the busiest switch adds, of ranks that take part, and of jobs among which the
        slots are divided; `run` divides the time of the switch.
    slots, lanes : int
        Slots of the pool, and values per packet, 1..256. In one pipe `Aggregator` adds 64 values, as the published
        program does; without ``published`` 56 for several jobs.
    loss : float
        Probability that a packet is lost, for each packet on each link. 0 <= loss <= 0.2
    timer, host : float or str
        Time until a packet is sent again, illustrative [s]; rate at which a host converts floats to integers and back,
        as fast as it sends unless given [B/s].
    """
    share = units.count(slots, "slots") // units.count(jobs, "jobs")
    if not share or not 0 <= loss <= 0.2:
        raise ValueError(
            f"slots must be at least the {jobs} jobs, and loss 0..0.2, got {slots} and {loss}"
        )
    # A worker sends again if its packet or the answer is lost, and each time it waits twice as long.
    again = 1 - (1 - loss) ** 2
    passes: float = children + 1  # of packets through one pipe, for each chunk
    if lanes > _ONE_PIPE:
        passes = (PIPES * children + 7) / PIPES
    seconds = passes / catalog.value("switches", "tofino1", "packet_rate_per_pipe")
    payload = 4 * units.count(lanes, "lanes", high=PIPES * _ONE_PIPE)  # [B]
    return Mode(
        payload=payload,
        header=_HEADER,
        window=share,
        seconds=seconds,
        again=again,
        timer=units.time(timer),
        ranks=ranks,
        host=host if host == np.inf else units.rate(host, "host"),
    )


def compare(
    fabric: Fabric,
    size: units.Quantity,
    *,
    jobs: int = 1,
    lag: units.Quantity = _LAG,
    loss: float = 0.0,
    timer: units.Quantity = _TIMER,
    **pool: Any,
) -> dict[str, Way]:
    """Compare an all-reduce by hosts with one in the network: time, bytes per link and work of hosts per algorithm.

    ``jobs`` jobs run at the same time, each on every ``jobs``-th rank. Hosts use all shortest paths. With every
    algorithm a sender of a lost packet waits for the same timer, which doubles each time. Hosts send all 4 KiB packets
    of a message at once, and all wait for the slowest packet after each step. SHARP's network loses nothing, which
    favours it. Leaves out the time that hosts need to add, losses between switches, and NICs that learn of a gap before
    the timer ends; with a timer of 0 nobody waits.

    The only published time of a SHARP operation is of 2016, in low-latency mode, which rests on it. Of streaming mode
    the manual prints one run, on a switch that it does not name. So there is no model of its start-up, and its time is
    NaN for sizes where an operation of 2016 would be more than 10 % of it, or if the network refuses the jobs. For
    servers with several GPUs use `for_servers`.

    Parameters
    ----------
    fabric : Fabric
        The network, with one rank per host.
    size : float or str
        Size of each job's array. [B]
    jobs, loss, **pool
        As in `program`.
    lag, timer : float or str
        Software time of a message, and time until what is lost is sent again, by hosts and `program`; illustrative. [s]

    Returns
    -------
    dict of str to Way
        By algorithm of the hosts, and ``low_latency``, ``streaming`` and ``program`` for the network.

    Raises
    ------
    TypeError, ValueError
        If the fabric is none, or has several ranks in a server.
    """
    _check_hosts(fabric)
    total = units.size(size)
    n = fabric.n_ranks // units.count(jobs, "jobs")
    ranks = np.arange(n * jobs).reshape(n, jobs).T  # (jobs, n)
    lossy = Mode(_MTU, again=1 - (1 - loss) ** 2, timer=units.time(timer))

    costs: dict[str, Way] = {}
    for name in HOSTS:
        costs[name] = _by_hosts(fabric, name, total, ranks, lag, loss, lossy)

    trees: dict[str, list[Tree]] = {}
    for name in ("low_latency", "streaming"):
        manager = Manager(fabric)
        try:
            trees[name] = []
            for j, row in enumerate(ranks):
                tree = manager.start(f"job {j}", row, streaming=name == "streaming")
                trees[name].append(tree)
        except OutOfSlots as refused:
            del trees[name]
            costs[name] = Way(
                time=np.nan,
                link_bytes=np.zeros(fabric.n_links),
                added=0.0,
                converted=0.0,
                messages=0,
                note=str(refused),
            )

    trees["program"] = []
    load = np.zeros(fabric.n_links)
    for row in ranks:
        tree = grow(fabric, row, Mode(1.0), load=load, radix=fabric.n_nodes)
        children = int(np.bincount(tree.parent).max())
        mode = program(children, n, jobs, loss=loss, timer=timer, **pool)
        trees["program"].append(replace(tree, mode=mode))
        load[tree.links] += 1

    for name, of_mode in trees.items():
        costs[name] = _by_network(name, of_mode, total, lag, loss)
    return costs


def _check_hosts(fabric: Fabric) -> None:
    """Refuse anything but a fabric with one rank for each host."""
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric must be a Fabric, got {fabric!r:.80}; for a system use compare.for_servers(system, size)"
        )
    servers = fabric.server[fabric.server >= 0]
    most = int(np.bincount(servers).max(initial=0))
    if most > 1:
        raise ValueError(
            f"compare takes one rank for each host, got {most} in a server of {fabric!r}; for servers with GPUs use "
            'compare.for_servers(fabriclab.system(gpu="H100", servers=32), size)'
        )


def _by_hosts(
    fabric: Fabric,
    algorithm: str,
    total: float,
    ranks: Ints,
    lag: units.Quantity,
    loss: float,
    lossy: Mode,
) -> Way:
    """Return the costs of an all-reduce by hosts alone, for jobs over ``ranks`` (jobs, n)."""
    n = ranks.shape[1]
    segments = 1
    if "tree" in algorithm:
        segments = int(np.clip(total // _SEGMENT, 1, _MOST_SEGMENTS))
    sim = simulate(
        "all_reduce",
        algorithm,
        fabric,
        total,
        placement=ranks,
        lag=lag,
        segments=segments,
        pipelined=segments > 1,
        method="spray",
    )

    added = np.zeros(n)  # by each rank of a job [B]
    for group in sim.schedule.groups:
        moved = total * sim.schedule.moved(group) * group.reduce * group.repeat
        np.add.at(added, group.target, moved)
    messages = np.bincount(sim.flows.source, sim.flows.repeat[sim.flows.group])

    packets = np.bincount(sim.flows.group, np.ceil(sim.flows.size / _MTU))  # of each step group
    waiting = 0.0  # for the slowest retransmission of each step [s]
    for repeat, n_packets in zip(sim.flows.repeat, packets, strict=True):
        waiting += repeat * lossy.wait(n_packets)
    return Way(
        time=sim.time / (1 - loss) + waiting,
        link_bytes=sim.timeline.link_bytes / (1 - loss),
        added=float(added.max()),
        converted=0.0,
        messages=int(messages.max()),
    )


def _by_network(
    name: str, trees: list[Tree], total: float, lag: units.Quantity, loss: float
) -> Way:
    """Return the costs of an all-reduce through switches, for jobs with one tree each."""
    mode = trees[0].mode
    timeline = run(trees, total, lag=lag)
    carried = timeline.link_bytes
    converted = 0.0
    if name == "program":  # SHARP's network loses nothing and adds floats
        carried = carried / (1 - loss)
        converted = 2 * total
    longest = _LONGEST_STREAM if name == "streaming" else mode.payload  # of a message [B]
    operation = catalog.value("switches", "sharp1", "operation_time")
    time = timeline.end
    note = ""
    if name == "low_latency":
        note = f"rests on {units.format_time(operation)} for an operation, published in 2016 for SHARP 1"
    if name == "streaming":
        startup = max(_adding(tree, operation) for tree in trees)
        if startup > UNKNOWN_PART * time:
            time = np.nan
            note = (
                "outside what is known: no start-up of streaming mode is published for a named switch, and the "
                "operations of 2016 "
                f"({units.format_time(startup)} in all) would be {units.format_share(startup / timeline.end)} of "
                "the time"
            )
    return Way(
        time=time,
        link_bytes=carried,
        added=0.0,
        converted=converted,
        messages=int(np.ceil(total / longest)),
        note=note,
    )


def _adding(tree: Tree, operation: float) -> float:
    """Return how long the switches between a rank and the root add, if each needs the time of an ``operation`` [s]."""
    slow = replace(tree, mode=replace(tree.mode, seconds=operation))
    fast = replace(tree, mode=replace(tree.mode, seconds=0.0))
    return slow.round_trip(0.0) - fast.round_trip(0.0)


def bound(ranks: float) -> float:
    """Return the largest possible gain of a tree of switches over a ring, 2 (n - 1) / n, since each host sends once."""
    return 2 * (1 - 1 / ranks)


def gains() -> list[dict[str, Any]]:
    """Return published gains, each with what its bound allows, the model's gain, and the model's error.

    The bound is that of bytes: 2 (n - 1) / n for a tree, 2 without a number of ranks, 2 (n - 1) / (n + 1) for NVLS; for
    latency log2 n messages against one. A gain above it, or the upper end of a range, says that the baseline did not
    reach its own bound. For latency a tree takes one of the hosts' messages of 8 B, two tiers of switches, and each
    ``further`` operation; only their time is a constant, set by the row that says so in ``sets``. That row has no error
    and confirms nothing; the row of 8 B, whose time is its other end, has an error, but is no independent test. Of
    training (also ATP's) the part that is communication is not published, so there is no model: NaN.
    """
    out = []
    for row in read_rows(Path(__file__).with_name("data") / "gains.csv"):
        ranks = _number(row["ranks"], np.inf)
        low = _number(row["low"], np.inf)
        high = _number(row["high"], np.inf)
        limit, model = _bound_and_gain(row, ranks)
        error = np.nan
        if row["sets"] != "yes":
            error = model / np.clip(model, low, high) - 1
        is_above = high > limit
        if np.isinf(high):  # a single gain, not a range
            is_above = low >= limit
        facts = {
            "ranks": ranks,
            "low": low,
            "high": high,
            "bound": limit,
            "model": model,
            "error": error,
            "above": is_above,
            "source": catalog.cite(row["source"]),
        }
        out.append(row | facts)
    return out


def claims() -> list[dict[str, Any]]:
    """Return published gains between hosts as rows of a table: who, of what, how much, the bound, and our model.

    Gains inside a server, which `nvls.measured` has, and the row that sets a constant of the model are left out. A
    dash for the model means that there is none, since it is not published which part of training is communication.
    """
    rows = []
    for gain in gains():
        if gain["kind"] == "nvls" or gain["sets"] == "yes":
            continue
        published = text("gains.range", low=gain["low"], high=gain["high"])
        if np.isinf(gain["high"]):
            published = text("gains.more", low=gain["low"])
        elif gain["high"] == gain["low"]:
            published = text("gains.one", low=gain["low"])
        if gain["note"].startswith("up to"):
            published = text("gains.up_to", gain=published)
        rows.append(
            {
                "from": _PROJECTS[gain["id"].partition("-")[0]],
                "what": gain["what"],
                "published": published,
                "bound": gain["bound"],
                "model": gain["model"],
                "above the bound": text("word.yes") if gain["above"] else text("word.no"),
            }
        )
    return rows


def _number(field: str, missing: float) -> float:
    """Return a number of a table, or ``missing`` for an empty field."""
    return float(field or missing)


def _bound_and_gain(row: Mapping[str, str], ranks: float) -> tuple[float, float]:
    """Return the most that a tree may gain over the baseline of a published row, and the gain of the model."""
    kind = row["kind"]
    if kind == "latency":
        base = _number(row["base"], np.nan)
        one = _number(row["one"], np.nan)
        further = _number(row["further"], np.nan)
        rounds = np.log2(ranks)
        operations = 2 + further  # two tiers of switches add
        operation_time = catalog.value("switches", "sharp1", "operation_time")
        return rounds, base / (one / rounds + operations * operation_time)
    if kind == "streaming":
        return bound(ranks), bound(ranks) * Mode.sharp(True).part
    if kind == "program":
        packet = program(8, 8)
        return bound(ranks), bound(ranks) * packet.payload / (packet.payload + packet.header)
    if kind == "nvls":
        return nvls.bound(ranks), nvls.default_gain(int(ranks), "Hopper")
    if kind == "training":
        return bound(ranks), np.nan
    raise ValueError(f"kind must be one of the model's, got {kind!r}")


def deployment(
    fabric: Fabric, jobs: int = 1, *, slots: int = 512, **over: float
) -> dict[str, float]:
    """Return how much programmable switches add to the bill of a fabric, and how many slots each tenant gets.

    Parameters
    ----------
    fabric : Fabric
        As for `fabriclab.economics.bill`, whose list has one price and one power for a switch.
    jobs, slots : int
        Number of tenants, and of slots in a switch.
    **over : float
        ``price`` and ``power`` of a programmable switch divided by those of an ordinary switch. No price of such a
        switch is public, so any number is illustrative; 1 unless given, which a vendor claims for the chip alone.
    """
    bill = economics.bill(fabric)
    boxes = [item for name, item in bill.items.items() if name.startswith("switch ")]
    figures = {"slots per tenant": float(slots // units.count(jobs, "jobs"))}
    for what in ("price", "power"):
        factor = over.get(what, catalog.value("switches", "tofino1", f"{what}_over_ordinary"))
        figures[what] = sum(item.total(what) for item in boxes)
        figures[f"{what} more per rank"] = figures[what] * (factor - 1) / fabric.n_ranks
    return figures
