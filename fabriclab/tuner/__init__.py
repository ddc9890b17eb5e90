"""Time of a collective on a real system: algorithm and protocol chosen as NCCL does, each term of the time named.

NCCL's constants make the choice. The time has the same terms, each corrected by at most four constants for a
family of transport (``catalog/data/calibration.csv``), or by none.

Examples
--------
>>> import fabriclab as fl
>>> fl.estimate("oci_h100_2n", "all_reduce", "1 GiB", calibrated=False).algorithm
'NVLSTree'
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fabriclab import catalog, units
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows
from fabriclab.core import ReadOnly, Value, as_html
from fabriclab.tuner.plans import EAGER, LL_CHUNK, Plan, plans, post
from fabriclab.tuner.system import System, check, read

__all__ = [
    "CONSTANTS",
    "Constants",
    "Estimate",
    "calibration",
    "check",
    "choose",
    "classify",
    "constants",
    "estimate",
    "terms",
]

Constants = Mapping[str, float]
# Without a fit: the low end of 2 to 10 us for a launch (of each GPU that one process starts [s]; source:
# catalog.memory_path["launch"], from memory), NCCL's own latencies and rates, no limit of LL. The others are factors
# of the latency of a protocol (two), of that between servers, of the time to post a request to a NIC, of the rate at
# which an all-reduce by LL hands chunks on to another server, of the rate of what moves the data, of that of a NIC
# which PCIe holds back, and of that of NICs that send to all.
_FACTORS = ("ll128", "simple", "hop", "post", "forward", "rate", "pcie", "all_to_all")
CONSTANTS: Constants = ReadOnly({"launch": 2e-6, **dict.fromkeys(_FACTORS, 1.0)})
_LABELS = {"xgmi": "xGMI", "pcie": "PCIe", "shm": "PCIe"}
CLASSES = ("latency", "middle", "bandwidth")
_SHARES = (0.3, 0.7)  # of the data in the time, between the classes


_fact = cache(catalog.value)


@dataclass(frozen=True, eq=False)
class Estimate(Value):
    """Time of a collective of one size on a system, and why.

    Parameters
    ----------
    what : str
        Collective.
    ranks : int
        Ranks.
    size : float
        As nccl-tests counts it. [B]
    time, low, high : float
        Time, and what one measurement in ten falls below and above in this class. [s]
    algorithm, protocol : str
        What NCCL's constants choose.
    terms : mapping
        Time of each part, by what takes it. [s]
    expected : mapping
        Time of each algorithm and protocol by which NCCL chooses. [s]
    """

    what: str
    ranks: int
    size: float
    time: float
    low: float
    high: float
    algorithm: str
    protocol: str
    terms: Mapping[str, float]
    expected: Mapping[str, float]

    @property
    def binds(self) -> str:
        """Return the largest term: launch, hop or network latency, NVLink, xGMI, PCIe, NIC, fabric or protocol."""
        return max(self.terms, key=self.terms.__getitem__)

    def __repr__(self) -> str:
        """Show the time, its band, the choice and what binds."""
        time, low, high = (units.format_time(t) for t in (self.time, self.low, self.high))
        asked = f"{self.what} of {units.format_size(self.size)} on {self.ranks} ranks"
        return f"<Estimate {asked}: {time} ({low} to {high}) by {self.algorithm}/{self.protocol}; {self.binds} binds>"

    def _repr_html_(self) -> str:
        times = {**self.terms, **{f"NCCL expects of {k}": v for k, v in self.expected.items()}}
        return as_html(
            [("part", "time"), *((k, units.format_time(v)) for k, v in times.items())], repr(self)
        )


@cache
def calibration(without: str = "") -> Mapping[str, Constants]:
    """Return the constants of each family of transport, fitted on all its systems or ``without`` one of them."""
    units.choice(
        without or "largest", "without", ["largest", *{r["system"]: 0 for r in published.systems()}]
    )
    rows = sorted(
        (r for r in data_rows("calibration") if r["without"] in ("", without)),
        key=lambda r: r["without"],
    )
    return {r["family"]: {k: float(r[k]) for k in CONSTANTS if r[k]} for r in rows if r["family"]}


def constants(system: System, fitted: Mapping[str, Constants] | None = None) -> Constants:
    """Return the constants that hold for a system, and ``own``, the part of its rate that links inside a server reach.

    Parameters
    ----------
    system : System
        Facts of the system.
    fitted : mapping, optional
        Constants of families, such as `calibration` returns; else those of the catalog alone.
    """
    known = fitted or {}
    own = known.get(system.kind, {}).get("rate", 1.0)
    # no matter what links the GPUs
    launch = known.get("nvlink", CONSTANTS).get("launch", CONSTANTS["launch"])
    return {**CONSTANTS, "launch": launch, **known.get(system.family, {}), "own": own}


def choose(system: System, size: float) -> tuple[Plan, dict[str, float]]:
    """Return the plan that NCCL takes for a size [B], and the time that it expects of each [s]."""
    expected = {p: p.expected(system, size) for p in plans(system)}
    named = {f"{p.algorithm}/{p.protocol}": time for p, time in expected.items()}
    return min(expected, key=expected.__getitem__), named


def terms(system: System, plan: Plan, size: float, c: Constants) -> dict[str, float]:
    """Return the terms of the time of a plan by constants ``c`` [s], by what takes them; that of the data is last."""
    p2p, data = plan.algorithm == "P2P", size / plan.tree_part(size)
    slow = 1.0 if p2p else c.get(plan.protocol.lower(), 1.0)
    posts = 3 if p2p and size / system.ranks > EAGER else 1  # Simple asks three times
    posting = post(system) * c["post"]
    network = plan.network * c["hop"] * slow + plan.peers * posts * posting
    behind = system.nic < system.wire  # PCIe, not the NIC, is the narrow place
    narrow = c["pcie"] if behind else _fact("links", "eth-ovh", "goodput_fraction_mtu4096")
    nic = data * plan.nic / (narrow * c["all_to_all" if plan.peers > 1 else "rate"])
    own = (
        (data + min(size, plan.loop) / 2)
        * plan.own
        / (1.0 if plan.algorithm.startswith("NVLS") else c["own"])
    )
    copy = data * plan.copy
    if plan.forwards:  # through one NIC, and half of its bytes are flags
        handed = (plan.forwards - 1) * min(size, LL_CHUNK * system.nics) + size
        copy = max(
            copy,
            handed / (system.nic * _fact("nccl_model", "ll", "factor") * c["rate"] * c["forward"]),
        )
    outside = "fabric" if plan.peers > 1 else "PCIe" if behind else "NIC"
    longest, name = max(
        (own, _LABELS.get(system.kind, "NVLink")), (nic, outside), (copy, "protocol")
    )
    launch, hops = (
        plan.start + system.started * c["launch"],
        plan.steps * max(plan.hop, plan.posts * posting) * slow,
    )
    between = {"network latency": network} if network else {}
    return {"launch": launch, "hop latency": hops, **between, name: longest}


def classify(parts: Mapping[str, float]) -> str:
    """Return ``latency``, ``middle`` or ``bandwidth`` by the share of the data in the time."""
    share = [*parts.values()][-1] / sum(parts.values())
    return CLASSES[sum(share > limit for limit in _SHARES)]


def estimate(
    system: str | Mapping[str, Any],
    collective: str | None = None,
    size: units.Quantity = "1 MiB",
    *,
    calibrated: bool = True,
    without: str = "",
) -> Estimate:
    """Return the time of a collective on a system, with the algorithm and protocol that NCCL takes, and why.

    Left out are the version of the library, its tuner plugins, what other jobs send, and the size of chunks beyond
    what NCCL's latencies hold.

    Parameters
    ----------
    system : str or mapping
        Name of a published sweep, or a row as `catalog.published.systems` has them.
    collective : str, optional
        Unless given, that of the row.
    size : float or str
        Message size in the sense of nccl-tests. [B], > 0
    calibrated : bool
        Whether constants fitted to published sweeps correct those of the catalog.
    without : str
        A published system that the fit has not seen, or ``largest``, the most ranks of each family.

    Raises
    ------
    KeyError
        If no sweep has this name.
    ValueError, TypeError
        If the row does not say enough or names what the catalog does not have, or ``size`` is no size.

    References
    ----------
    .. [1] NVIDIA/nccl, src/graph/tuning.cc, cost model of algorithms and protocols.
    """
    row = published.system(system) if isinstance(system, str) else system
    facts = read({**row, "collective": collective} if collective else row)
    n = units.size(size)
    if n <= 0:
        raise ValueError(f"size must be above 0 B, got {size!r}")
    plan, expected = choose(facts, n)
    fitted = calibration(without) if units.flag(calibrated, "calibrated") else {}
    parts = terms(facts, plan, n, constants(facts, fitted))
    time = sum(parts.values())
    low, high = _band(facts.family if facts.family in fitted else "", classify(parts))
    return Estimate(
        facts.what,
        facts.ranks,
        n,
        time,
        time * low,
        time * high,
        plan.algorithm,
        plan.protocol,
        ReadOnly(parts),
        ReadOnly(expected),
    )


@cache
def _band(family: str, kind: str) -> tuple[float, float]:
    """Return what to multiply a time with for its band: measured over predicted, 10th and 90th percentile."""
    row = next(r for r in data_rows("calibration") if (r["family"], r["without"]) == (family, ""))
    low, high = map(float, row[f"band_{kind}"].split(" to "))
    return low, high
