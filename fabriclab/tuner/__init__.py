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
# shares of the data in the time, between the classes
_SOME_DATA = 0.3
_MOSTLY_DATA = 0.7


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
        asked = f"{self.what} of {units.format_size(self.size)} on {self.ranks} ranks"
        time = units.format_time(self.time)
        low = units.format_time(self.low)
        high = units.format_time(self.high)
        choice = f"{self.algorithm}/{self.protocol}"
        return f"<Estimate {asked}: {time} ({low} to {high}) by {choice}; {self.binds} binds>"

    def _repr_html_(self) -> str:
        rows = [("part", "time")]
        for part, time in self.terms.items():
            rows.append((part, units.format_time(time)))
        for plan, time in self.expected.items():
            rows.append((f"NCCL expects of {plan}", units.format_time(time)))
        return as_html(rows, repr(self))


@cache
def calibration(without: str = "") -> Mapping[str, Constants]:
    """Return the constants of each family of transport, fitted on all its systems or ``without`` one of them."""
    systems = dict.fromkeys(row["system"] for row in published.systems())
    units.choice(without or "largest", "without", ["largest", *systems])

    rows = _calibration_rows("")
    if without:
        rows += _calibration_rows(without)  # in place of those of the same families
    return {row["family"]: _fitted(row) for row in rows if row["family"]}


def _calibration_rows(without: str) -> list[Mapping[str, str]]:
    """Return the rows that are fitted without a system, or on all systems where ``without`` is empty.

    The row without a family has the bands of all of them.
    """
    return [row for row in data_rows("calibration") if row["without"] == without]


def _fitted(row: Mapping[str, str]) -> Constants:
    """Return the constants that a row of the calibration gives."""
    return {name: float(row[name]) for name in CONSTANTS if row[name]}


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
    # A launch takes the same time whatever links the GPUs.
    launch = known.get("nvlink", CONSTANTS).get("launch", CONSTANTS["launch"])
    found = {**CONSTANTS, "launch": launch}
    found.update(known.get(system.family, {}))
    found["own"] = known.get(system.kind, {}).get("rate", 1.0)
    return found


def choose(system: System, size: float) -> tuple[Plan, dict[str, float]]:
    """Return the plan that NCCL takes for a size [B], and the time that it expects of each [s]."""
    expected = {plan: plan.expected(system, size) for plan in plans(system)}
    named = {f"{plan.algorithm}/{plan.protocol}": time for plan, time in expected.items()}
    fastest = min(expected, key=expected.__getitem__)
    return fastest, named


def terms(system: System, plan: Plan, size: float, c: Constants) -> dict[str, float]:
    """Return the terms of the time of a plan by constants ``c`` [s], by what takes them; that of the data is last."""
    slow = 1.0
    posts = 1
    if plan.algorithm == "P2P":
        if size / system.ranks > EAGER:
            posts = 3  # Simple asks three times
    else:
        slow = c.get(plan.protocol.lower(), 1.0)
    posting = post(system) * c["post"]

    launch = plan.start + system.started * c["launch"]
    hops = plan.steps * max(plan.hop, plan.posts * posting) * slow
    network = plan.network * c["hop"] * slow + plan.peers * posts * posting
    found = {"launch": launch, "hop latency": hops}
    if network:
        found["network latency"] = network

    # The slowest part moves the data; of equal times the last name counts.
    time, name = max(
        (_links_time(plan, size, c), _LABELS.get(system.kind, "NVLink")),
        (_nic_time(system, plan, size, c), _nic_label(system, plan)),
        (_protocol_time(system, plan, size, c), "protocol"),
    )
    found[name] = time
    return found


def _at_full_rate(plan: Plan, size: float) -> float:
    """Return how many bytes take as long at the full rate as ``size`` does at what a tree reaches of it [B]."""
    return size / plan.tree_part(size)


def _links_time(plan: Plan, size: float, c: Constants) -> float:
    """Return the time of the data on the links inside a server [s]."""
    data = _at_full_rate(plan, size) + min(size, plan.loop) / 2
    part = 1.0 if plan.algorithm.startswith("NVLS") else c["own"]  # of its rate
    return data * plan.own / part


def _nic_time(system: System, plan: Plan, size: float, c: Constants) -> float:
    """Return the time of the data on the NICs, or on the PCIe links before them [s]."""
    if _behind_pcie(system):
        goodput = c["pcie"]
    else:
        goodput = _fact("links", "eth-ovh", "goodput_fraction_mtu4096")
    part = c["all_to_all"] if plan.peers > 1 else c["rate"]
    return _at_full_rate(plan, size) * plan.nic / (goodput * part)


def _nic_label(system: System, plan: Plan) -> str:
    """Return what limits the data between servers."""
    if plan.peers > 1:
        return "fabric"
    return "PCIe" if _behind_pcie(system) else "NIC"


def _behind_pcie(system: System) -> bool:
    """Return whether PCIe, and not the NIC, limits the rate of a NIC."""
    return system.nic < system.wire


def _protocol_time(system: System, plan: Plan, size: float, c: Constants) -> float:
    """Return the time that the protocol itself needs for the data [s]."""
    copy = _at_full_rate(plan, size) * plan.copy
    if not plan.forwards:
        return copy

    # Chunks are handed on to another server through one NIC, and half of its bytes are flags.
    chunk = min(size, LL_CHUNK * system.nics)
    handed_on = (plan.forwards - 1) * chunk + size  # [B]
    rate = system.nic * _fact("nccl_model", "ll", "factor") * c["rate"] * c["forward"]
    return max(copy, handed_on / rate)


def classify(parts: Mapping[str, float]) -> str:
    """Return ``latency``, ``middle`` or ``bandwidth`` by the share of the data in the time."""
    times = list(parts.values())
    share = times[-1] / sum(times)
    if share > _MOSTLY_DATA:
        return "bandwidth"
    if share > _SOME_DATA:
        return "middle"
    return "latency"


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
    if collective:
        row = {**row, "collective": collective}
    facts = read(row)
    n = units.size(size)
    if n <= 0:
        raise ValueError(f"size must be above 0 B, got {size!r}")

    plan, expected = choose(facts, n)
    fitted: Mapping[str, Constants] = {}
    if units.flag(calibrated, "calibrated"):
        fitted = calibration(without)
    parts = terms(facts, plan, n, constants(facts, fitted))
    time = sum(parts.values())
    band_family = facts.family if facts.family in fitted else ""
    low, high = _band(band_family, classify(parts))

    return Estimate(
        what=facts.what,
        ranks=facts.ranks,
        size=n,
        time=time,
        low=time * low,
        high=time * high,
        algorithm=plan.algorithm,
        protocol=plan.protocol,
        terms=ReadOnly(parts),
        expected=ReadOnly(expected),
    )


@cache
def _band(family: str, kind: str) -> tuple[float, float]:
    """Return what to multiply a time with for its band: measured over predicted, 10th and 90th percentile."""
    row = next(row for row in _calibration_rows("") if row["family"] == family)
    low, high = row[f"band_{kind}"].split(" to ")
    return float(low), float(high)
