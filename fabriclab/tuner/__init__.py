"""Time of a collective on a real system: algorithm and protocol chosen as NCCL does, each term of the time named.

NCCL's constants make the choice. The time has the same terms, each corrected by at most four constants for a
family of transport (``catalog/data/calibration.csv``), or by none.

Examples
--------
>>> import fabriclab as fl
>>> fl.estimate("oci_h100_2n", "all_reduce", "1 GiB", calibrated=False).algorithm
'NVLSTree'
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from fabriclab import catalog, units
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core._frozen import ReadOnly, Value
from fabriclab.tuner.plans import Plan, plans, post
from fabriclab.tuner.system import System, check, read

__all__ = ["CONSTANTS", "Constants", "Estimate", "calibration", "check", "classify", "constants", "estimate", "terms"]

Constants = Mapping[str, float]
# Without a fit: the low end of 2 to 10 us for a launch, NCCL's own latencies and rates, no limit of LL.
CONSTANTS: Final[Constants] = ReadOnly({
    "launch": 2e-6,  # s for each GPU that one process starts; source: catalog.memory_path["launch"], from memory
    "ll": 1.0, "ll128": 1.0, "simple": 1.0,  # x latency of a protocol
    "hop": 1.0,  # x latency between servers
    "post": 1.0,  # x time to post a request to a NIC
    "ll_rate": 1e14,  # B/s of an all-reduce by LL between servers; illustrative: no limit
    "rate": 1.0,  # x rate of what moves the data
    "pcie": 1.0,  # x rate of a NIC that PCIe holds back
    "all_to_all": 1.0,  # x rate of NICs that send to all
})  # fmt: skip
CLASSES: Final = ("latency", "middle", "bandwidth")
_SHARES: Final = (0.3, 0.7)  # of the data in the time, between the classes


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

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        for name in ("terms", "expected"):
            object.__setattr__(self, name, ReadOnly(getattr(self, name)))

    @property
    def binds(self) -> str:
        """Return the largest term: launch, hop latency, network latency, NVLink, xGMI, PCIe, NIC, fabric or protocol."""
        return max(self.terms, key=self.terms.__getitem__)

    def __repr__(self) -> str:
        """Show the time, its band, the choice and what binds."""
        time, low, high = (units.format_time(t) for t in (self.time, self.low, self.high))
        return (
            f"<Estimate {self.what} of {units.format_size(self.size)} on {self.ranks} ranks: {time} ({low} to {high}) "
            f"by {self.algorithm}/{self.protocol}; {self.binds} binds>"
        )

    def _repr_html_(self) -> str:
        rows = [(k, units.format_time(v)) for k, v in self.terms.items()]
        rows += [(f"NCCL expects of {k}", units.format_time(v)) for k, v in self.expected.items()]
        cells = "".join(f"<tr><th>{html.escape(k)}<td>{v}" for k, v in rows)
        return f"<table><caption>{html.escape(repr(self))}</caption>{cells}</table>"


@cache
def calibration(without: str = "") -> Mapping[str, Constants]:
    """Return the constants of each family of transport, fitted on all its systems or ``without`` one of them."""
    rows = [r for r in data_rows("calibration") if r["without"] == without]
    return {r["family"]: {k: float(r[k]) for k in CONSTANTS if r[k]} for r in rows}


def constants(system: System, fitted: Mapping[str, Constants] | None = None) -> tuple[Constants, Constants]:
    """Return the constants that hold in a server and those that hold for the whole system.

    Parameters
    ----------
    system : System
        Facts of the system.
    fitted : mapping, optional
        Constants of families, such as `calibration` returns; else those of the catalog alone.
    """
    known = fitted or {}
    launch = {k: v for k, v in known.get("nvlink", {}).items() if k == "launch"}  # no matter what links the GPUs
    inside, all_of = ({**CONSTANTS, **launch, **known.get(f, {})} for f in (system.inside, system.family))
    return inside, all_of


def terms(system: System, plan: Plan, size: float, inside: Constants, all_of: Constants) -> dict[str, float]:
    """Return the terms of the time of a plan [s], by what takes them."""
    p2p = plan.algorithm == "P2P"
    slow = 1.0 if p2p else all_of[plan.protocol.lower()]
    posting, data = post(system) * all_of["post"], size / plan.tree_part(size)
    own = data * plan.own / (1.0 if plan.algorithm.startswith("NVLS") else inside["rate"])
    wire = all_of["all_to_all"] if plan.peers > 1 else all_of["rate"]
    nic = data * plan.nic / (wire * (all_of["pcie"] if system.behind_pcie else _payload()))
    copy = data * plan.copy
    if plan.protocol == "LL" and system.what == "all_reduce" and system.servers > 1:
        copy = max(copy, size / all_of["ll_rate"])
    links = {"xgmi": "xGMI", "pcie": "PCIe", "shm": "PCIe"}.get(system.inside, "NVLink")
    outside = "fabric" if plan.peers > 1 else "PCIe" if system.behind_pcie else "NIC"
    longest, name = max((own, links), (nic, outside), (copy, "protocol"))
    network = plan.network * all_of["hop"] * slow + plan.peers * posting
    return {
        "launch": plan.start + system.started * all_of["launch"],
        "hop latency": plan.steps * max(plan.hop, plan.posts * posting) * slow,
        **({"network latency": network} if network else {}),
        name: longest,
    }


@cache
def _payload() -> float:
    return catalog.value("links", "eth-ovh", "goodput_fraction_mtu4096")


def classify(parts: Mapping[str, float]) -> str:
    """Return ``latency``, ``middle`` or ``bandwidth`` by the share of the data in the time."""
    share = [*parts.values()][-1] / sum(parts.values())
    return CLASSES[sum(share > limit for limit in _SHARES)]


def estimate(
    system: str | Mapping[str, Any], collective: str | None = None, size: units.Quantity = "1 MiB", *,
    calibrated: bool = True, without: str = "",
) -> Estimate:  # fmt: skip
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
        A system that the fit has not seen (a name in ``calibration.csv``).

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
    row = _row(system)
    facts = read({**row, "collective": collective} if collective else row)
    n = units.size(size)
    if n <= 0:
        msg = f"size must be above 0 B, got {size!r}"
        raise ValueError(msg)
    expected = {p: p.expected(facts, n) for p in plans(facts)}
    plan = min(expected, key=expected.__getitem__)
    fitted = calibration(without) if calibrated else {}
    parts = terms(facts, plan, n, *constants(facts, fitted))
    time = sum(parts.values())
    low, high = _band(facts.family if facts.family in fitted else "", classify(parts))
    names = {f"{p.algorithm}/{p.protocol}": t for p, t in expected.items()}
    return Estimate(
        facts.what, facts.ranks, n, time, time * low, time * high, plan.algorithm, plan.protocol, parts, names
    )


def _row(system: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(system, str):
        return system
    rows = {r["sweep_id"]: r for r in published.systems()}
    if system not in rows:
        raise KeyError(near(system, rows, "the published sweeps"))
    return rows[system]


@cache
def _band(family: str, kind: str) -> tuple[float, float]:
    """Return what to multiply a time with for its band: measured over predicted, 10th and 90th percentile."""
    rows = {(r["family"], r["without"]): r for r in data_rows("calibration")}
    row = rows[family, ""]
    low, _, high = row[f"band_{kind}"].partition(" to ")
    return float(low), float(high)
