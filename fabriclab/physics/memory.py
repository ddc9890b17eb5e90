"""Memory tiers for loads and stores: latency as a sum over the parts of a path, rate from flits and lines in flight.

CXL.io is PCIe (set-up and DMA), CXL.mem lets a host load and store device memory, and CXL.cache lets a device cache
host memory. Pooling (2.0) gives slices of one memory box to several hosts; sharing (3.x) gives them the same bytes.

The model is compared with ByteDance's raw logs (Sapphire Rapids, one expander on x16, two DDR5 channels) and three
later papers. The load latency of one idle expander and the lines in flight of a thread are set by the logs; the rest is
not:

====================================  ==========  ==========  =======
what                                  model       published   error
====================================  ==========  ==========  =======
reads of one x16 link                 47.4 GB/s   48.0 GB/s   -1 %
two threads                           19.6 GB/s   19.1 GB/s   +3 %
load while 16 threads read            809 ns      803 ns      +1 %
another expander over its local DDR   2.53        2.18        +16 %
reads of another, on two x8 links     47.4 GB/s   47.2 GB/s   +1 %
expander behind a switch              314 ns      220.5 ns    +43 %
another one                           314 ns      600 ns      -48 %
====================================  ==========  ==========  =======

The last two rows are where the model breaks. No constant would repair it, because the model's latency lies between the
two published ones. One box with a switch is faster than our expander without one, so hosts and expanders differ as much
as switches do. Take the latency behind a switch as an order of magnitude. (Beluga has at least 750 ns; it does not say
whether a GPU or a host reads.)

Of the flits only the formats are used; they are recalled from the standard, not confirmed. `place`, `bought`, `mesi`,
`queue_messages` and `moved` are arithmetic and rules of the protocol; for `bought_normal` see there.

Examples
--------
>>> round(1e9 * load("CXL")), round(1e9 * load("ddr port port controller retimer"))
(244, 264)
>>> mesi([("device", "load"), ("host", "store")])[1]
(('M', 'I'), ('SnpInv', 'RspIHitSE'))
"""

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import column
from fabriclab.physics._facts import Floats, Numbers, one, si

LINE = 64  # bytes of a cache line, by definition of the protocols
Table = Mapping[str, tuple[float, ...]]
TIERS = {
    "HBM": "hbm",
    "DDR": "ddr",
    "remote socket": "ddr socket",
    "CXL": "ddr port port controller",
    "CXL switch": "ddr port port controller switch",
}
_RATES = {
    "HBM": ("accelerators", "h100", "hbm_bandwidth"),
    "DDR": ("emerging", "ddr-2", "bandwidth"),
    "remote socket": ("memory_path", "upi-spr", "bandwidth"),
}


def load(path: str) -> float:
    """Return the latency [s] of one load from an idle memory: the sum over the parts of ``path``, there and back.

    Parameters
    ----------
    path : str
        A name of `TIERS`, or names of parts separated by spaces: ddr (from a core), hbm (from a GPU), socket, port,
        controller, retimer, switch.
    """
    parts = TIERS.get(str(path), str(path)).split() or [""]  # no part at all is refused by name
    return sum(catalog.value("emerging", "cxl-path", part) for part in parts)


def tier(name: str) -> tuple[float, float]:
    """Return the latency of a load [s] and the rate of reads [B/s] for one of `TIERS`.

    HBM is that of an H100. DDR is two channels, a quarter of a socket; the remote socket has the rate with which NCCL
    plans; a CXL tier is one x16 link.
    """
    facts = _RATES.get(units.choice(name, "tier", TIERS))
    latency = load(name)
    rate = catalog.value(*facts) if facts else read_rate()
    return latency, rate


def evidence(name: str) -> str:
    """Return where the latency of one of `TIERS` comes from: "published", or "partly recalled" without a source."""
    parts = TIERS[units.choice(name, "tier", TIERS)].split()
    specs = [catalog.emerging["cxl-path"][part] for part in parts]
    recalled = any("not confirmed" in spec.evidence for spec in specs)
    return "partly recalled" if recalled else "published"


def read_rate(flit: str = "flit68", link: str = "cxl2.0") -> float:
    """Return the most that reads can get from an x16 link [B/s]; a line takes four slots of a flit, its header one.

    One header per line is assumed; headers that serve two lines give up to 11 % more. The flit of CXL 3 is
    ``"flit256"``.
    """
    slots = catalog.value("emerging", flit, "slots")
    size = catalog.value("emerging", flit, "size")
    coding = catalog.value("emerging", flit, "coding")
    return catalog.value("links", link, "x16_raw_bandwidth") * coding * slots / 5 * LINE / size


def throughput(lines: Numbers, latency: Numbers, peak: Numbers | None = None) -> Floats:
    """Return the rate [B/s] of ``lines`` loads in flight with ``latency`` [s] each, at most ``peak`` (Little's law)."""
    most = np.inf if peak is None else si(peak, "rate", "peak", 1.0)
    return np.asarray(
        np.minimum(si(lines, "count", "lines") * LINE / si(latency, "time", "latency", 1e-12), most)
    )


def loaded(lines: Numbers, latency: Numbers, peak: Numbers) -> Floats:
    """Return the latency [s] of a load among ``lines`` in flight: the idle one, or their time at ``peak`` if longer."""
    taken = si(lines, "count", "lines") * LINE / si(peak, "rate", "peak", 1.0)
    return np.asarray(np.maximum(si(latency, "time", "latency", 1e-12), taken))


def _rows(table: Table, name: str, **least: float) -> Table:
    """Return a table of finite numbers; the names in ``least`` are its columns, the values their lower bounds."""
    expected = f"{name}, a dict of name: ({', '.join(least)}),"
    given: list[tuple[float, ...]] = []
    if isinstance(table, Mapping):
        for key, row in table.items():
            if np.shape(column(row, f"{name}[{key!r}]")) != (len(least),):
                raise ValueError(
                    f"{expected} must have {len(least)} numbers in each row, got {key!r}: {row!r:.60}; mend it"
                )
            given.append(row)
    rows = si(given, "count", expected)  # (rows, columns)
    bounds = list(least.values())
    if not rows.size or (rows < bounds).any():
        raise ValueError(
            f"{expected} must be at least {bounds}, got {table!r:.80}; write SI numbers"
        )
    return dict(zip(table, map(tuple, rows.tolist()), strict=True))


def place(objects: Table, tiers: Table) -> tuple[dict[str, dict[str, float]], float]:
    """Return which share of each object to put into which tier, and the resulting time of a step [s].

    The objects of a step are read one after another, and an object may be split between tiers. Fastest tiers are filled
    first, with the hottest bytes first. This finds a placement whenever there is one. Its time is the least possible if
    no object's required rate excludes a tier that has room.

    Parameters
    ----------
    objects : mapping of str to tuple
        Size [B], >= 1; bytes touched per step [B]; least rate of a tier that may hold it [B/s], 0 for any tier.
    tiers : mapping of str to tuple
        Room [B] and rate [B/s], >= 1.

    Raises
    ------
    ValueError
        If an object finds no room in the tiers that are fast enough.
    """
    own = _rows(objects, "objects", size=1, touched=0, rate=0)  # source: below 1 B it is no object
    has = _rows(tiers, "tiers", room=0, rate=1)  # source: below 1 B/s it is no tier
    room = {tier: row[0] for tier, row in has.items()}  # [B] left
    rate = {tier: row[1] for tier, row in has.items()}  # [B/s]
    fastest_first = sorted(has, key=lambda tier: -rate[tier])
    choices: dict[str, list[str]] = {}  # tiers that are fast enough
    for name, (_, _, least) in own.items():
        choices[name] = [tier for tier in fastest_first if rate[tier] >= least]

    def order(name: str) -> tuple[int, float]:
        """Return a sort key: objects with few choices first, then those with many bytes touched per byte."""
        size, touched, _ = own[name]
        return len(choices[name]), -touched / size

    shares: dict[str, dict[str, float]] = {}
    for name in sorted(own, key=order):
        size = own[name][0]
        left = size
        shares[name] = {}
        for tier in choices[name]:
            part = min(left, room[tier])
            if part:
                room[tier] -= part
                left -= part
                shares[name][tier] = part / size
        if left > 0:
            raise ValueError(
                f"{name} must fit into {choices[name]}, got {left:g} B too much; add room or a fast tier"
            )

    time: float = 0
    for name, places in shares.items():
        _, touched, _ = own[name]
        for tier, share in places.items():
            time += touched * share / rate[tier]
    return shares, time


def bought(demand: Floats, pool: int = 1, spill: float = 0.01) -> float:
    """Return the memory to buy [B] so that each pool of ``pool`` hosts runs out in a share ``spill`` of the time.

    What is bought above the mean demand is stranded. Leaves out the granularity of slices, and the copy when a host
    gives memory back.

    Parameters
    ----------
    demand : array_like
        Bytes wanted by each host at each time. (times, hosts), the number of hosts a multiple of ``pool``
    """
    wanted = si(column(demand, "demand"), "size", "demand")
    part = 1 - one(spill, "count", "spill", 0, 1)
    if wanted.ndim != 2 or not wanted.size or wanted.shape[1] % units.count(pool, "pool"):
        raise ValueError(
            f"demand must be (times, hosts) with hosts a multiple of pool = {pool}, got {wanted.shape}"
        )
    of_pools = wanted.reshape(len(wanted), -1, pool).sum(axis=2)  # (times, pools)
    return float(np.quantile(of_pools, part, axis=0).sum())


def bought_normal(
    mean: float, deviation: float, hosts: int, pool: int = 1, spill: float = 0.01
) -> float:
    """Return `bought` for independent, normally distributed demand.

    The safety margin of a pool grows only with the square root of its number of hosts. With the stranded memory that
    Pond observed (median 10 %, 95th percentile 25 %) pools of 16 save 11 % of the memory. Pond saved 7 % (error +53 %),
    because data that cannot bear the latency stays out of the pool, and because hosts peak together. Its first version
    reports 9 to 10 %, with pools of 8 to 32 (error +13 %). No figure of other authors was found.
    """
    quantile = NormalDist().inv_cdf(1 - one(spill, "count", "spill", 1e-9, 0.999))
    margin = quantile * one(deviation, "size", "deviation")
    n = units.count(hosts, "hosts")
    each = one(mean, "size", "mean") + margin / math.sqrt(units.count(pool, "pool"))
    return n * each


def mesi(accesses: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], tuple[str, ...]]]:
    """Return, for each access to one line, the states of (host, device) and the messages of CXL.cache on the link.

    The home of the line is the host's memory (Type 1, or Type 2 on host memory). Leaves out evictions and device
    memory.

    Parameters
    ----------
    accesses : iterable of (str, str)
        Who accesses (``"host"``, ``"device"``) and how (``"load"``, ``"store"``).
    """
    state = {"host": "I", "device": "I"}
    trace: list[tuple[tuple[str, str], tuple[str, ...]]] = []
    try:
        pairs = [(who, what) for who, what in accesses]
    except (TypeError, ValueError):
        raise ValueError(
            f'accesses must be pairs: [("host", "load"), ...], got {accesses!r:.80}; write a list'
        ) from None
    for who, what in pairs:
        store = units.choice(what, "access", ("load", "store"), exact=True) == "store"
        other = "host" if units.choice(who, "agent", state, exact=True) == "device" else "device"
        mine = state[who]
        theirs = state[other]
        messages: list[str] = []
        if mine == "I" or (store and mine == "S"):
            if who == "device":
                messages = _device_asks(store, mine)
            else:
                messages = _host_snoops(store, theirs)
            if theirs != "I":
                state[other] = "I" if store else "S"
        if store:
            state[who] = "M"
        elif mine == "I":
            state[who] = "E" if theirs == "I" else "S"
        trace.append(((state["host"], state["device"]), tuple(messages)))
    return trace


def _device_asks(store: bool, state: str) -> list[str]:
    """Return the messages with which a device gets a line, or the right to write to one that it already has."""
    messages = ["RdOwn" if store else "RdAny", "GO"]
    if state == "I":
        messages.append("Data")
    return messages


def _host_snoops(store: bool, device: str) -> list[str]:
    """Return the messages with which a host takes a line from a device in the state ``device``, if it needs to."""
    if device == "I" or (device == "S" and not store):
        return []
    after = "I" if store else "S"
    snoop = "SnpInv" if store else "SnpData"
    if device == "M":
        return [snoop, f"Rsp{after}FwdM", "Data"]
    return [snoop, f"Rsp{after}HitSE"]


def queue_messages(items: int, batch: int = 1) -> tuple[int, int]:
    """Return the number of messages on the link to hand ``items`` lines to a device: by coherent loads, and by DMA.

    DMA needs a doorbell, the read of a descriptor and its answer for each ``batch``, and for each item the read of its
    data, the answer, and a completion. Leaves out the interrupt, and a device that polls an empty queue.
    """
    trace = mesi([("host", "store"), ("device", "load")] * units.count(items, "items", 1, 10**6))
    coherent = sum(len(messages) for _, messages in trace)
    batches = -(-items // units.count(batch, "batch"))
    return coherent, 3 * batches + 3 * items


def moved(size: float, share: float, record: float = LINE) -> tuple[float, float]:
    """Return the bytes on the link to touch ``share`` of ``size`` [B] in records: by cache lines, and by bulk copy."""
    whole = one(size, "size", "size")
    each = one(record, "size", "record", 1)
    records = round(whole * one(share, "count", "share", 0, 1) / each)
    lines = -(-each // LINE)  # of a record
    touched = records * lines * LINE
    return min(whole, touched), whole
