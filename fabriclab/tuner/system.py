"""What the cost model needs to know of a system: counts and rates from a row of the catalog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

from fabriclab import catalog, units
from fabriclab.catalog import published

TEXTS = ("collective", "scale_up", "accelerator", "transport")
# by NCCL's cost model
_TIMED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
P2P = ("all_to_all", "send_recv", "gather", "scatter")
_ALGORITHMS = ("default", "unknown", "ring", "tree", "nvls", "nvlstree", "collnet", "pat")
COUNTS = ("ranks", "scale_up_domain_gpus", "gpus_per_node", "nic_gbps", "nics_per_node")
# servers where GPU and NIC share a PCIe switch, as LL128 across servers asks for
_SWITCHES = ("ib", "roce")
_AMPERE = 1
_XGMI = "xgmi-mi300x"  # the accelerator of most such systems
_NEWEST_PCIE = 5  # of servers in the catalog


@dataclass(frozen=True, slots=True)
class System:
    """Facts of one system and question, in SI units.

    Parameters
    ----------
    what : str
        Collective.
    ranks, servers, local : int
        Ranks in all, scale-up domains, and ranks in each.
    generation : int
        0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell; other vendors by the PCIe generation of their servers.
    kind : str
        Links inside a server: ``nvlink``, ``xgmi``, ``pcie``, or ``shm`` where copies go through host memory.
    peak, own, ring : float
        Rate of a GPU's links inside the server: by the datasheet, as NCCL counts it, and what rings get of it where
        they go on to other servers. [B/s]
    wire, nic, nics : float, float, int
        Rate of a NIC, and behind its PCIe link [B/s]; NICs of a domain.
    switched, long_lines : bool
        Whether NVSwitches join the GPUs; whether LL128 is on.
    family : str
        Family of transport whose constants hold; for a name that no sweep has those of the catalog alone.
    started : int
        GPUs that one process starts, one after the other; 0 where each has its own.
    algo : str
        What the run forced, such as ``ring``; else ``default``. Where a collective has no such way, NCCL takes a ring.
    """

    what: str
    ranks: int
    servers: int
    local: int
    generation: int
    kind: str
    peak: float
    own: float
    ring: float
    wire: float
    nic: float
    nics: int
    switched: bool
    long_lines: bool
    family: str
    started: int
    algo: str

    @property
    def node(self) -> float:
        """Return the rate of all NICs of a domain [B/s]."""
        return self.nic * self.nics


def check(row: Mapping[str, Any]) -> None:
    """Refuse what is no row of `catalog.published.systems`."""
    missing = (
        [k for k in (*TEXTS, *COUNTS) if k not in row]
        if isinstance(row, Mapping)
        else ["keys at all"]
    )
    if missing:
        msg = f"sweep must be a row of catalog.published.systems(), got {row!r:.60} without {', '.join(missing)}"
        raise ValueError(msg)
    for key in (*TEXTS, "algo"):
        if not isinstance(row.get(key, ""), str):
            raise TypeError(f"{key} must be text, got {row[key]!r}")
    for key in COUNTS:
        if row[key] != "":
            units.count(row[key], key, 0)


def read(row: Mapping[str, Any]) -> System:
    """Return the facts of a row of `catalog.published.systems`.

    Raises
    ------
    ValueError
        If the row does not say enough, or names links that the catalog does not have.
    """
    check(row)
    ranks, gpus = units.count(row["ranks"] or 0, "ranks"), row["gpus_per_node"] or 1
    domain = row["scale_up_domain_gpus"] or gpus
    local = min(ranks, domain)
    servers, (kind, _, rest), transport = (
        -(-ranks // local),
        row["scale_up"].partition("-"),
        row["transport"],
    )
    generation, own, peak = (
        _links(kind, row["accelerator"]) if local > 1 or kind in catalog.links else (2, inf, inf)
    )
    mesh = local > 1 and "mesh" in rest and "cube" not in rest
    # each pair has links of its own: fewer GPUs, fewer in use
    own *= (local - 1) / (domain - 1) if mesh else 1
    # P - 1 hops in place of P on links that nobody else takes: the rings of a mesh that go on to other servers
    ring = own * local / (local - 1) if mesh and kind == "xgmi" and servers > 1 else own
    wire = units.rate(f"{row['nic_gbps'] or 0} Gb/s", "nic_gbps", may_be_zero=True)
    nic = min(
        wire, catalog.value("links", f"pcie{min(generation + 3, _NEWEST_PCIE)}", "nccl_effective")
    )
    nics = (row["nics_per_node"] or 0) * max(1, local // gpus)
    if servers > 1 and not nic * nics:
        msg = f"{ranks} ranks in {servers} servers need NICs, got nics_per_node {nics}, nic_gbps {row['nic_gbps']!r}"
        raise ValueError(msg)
    what = units.choice(published.identifier(row["collective"]), "collective", (*_TIMED, *P2P))
    algo, inside = (
        row.get("algo", "default"),
        "shm" if transport == "shm" else kind.rstrip("0123456789"),
    )
    units.choice(
        (re.findall("|".join(_ALGORITHMS), algo.lower()) or [algo or "default"])[0],
        "algo",
        _ALGORITHMS,
    )
    return System(
        what,
        ranks,
        servers,
        local,
        generation,
        inside,
        peak,
        own,
        ring,
        wire,
        nic,
        nics,
        switched="nvswitch" in rest,
        long_lines=kind.startswith("nvlink") and (servers == 1 or transport in _SWITCHES),
        family=(transport + "-software" * ("software match" in algo)) if servers > 1 else inside,
        started=0 if row.get("launch", "mpi") == "mpi" else min(local, gpus),
        algo=algo,
    )


@cache
def _links(kind: str, accelerator: str) -> tuple[int, float, float]:
    """Return generation, and rate [B/s] of a GPU's links as NCCL counts it and by the datasheet."""
    links, value = catalog.links, catalog.value
    if kind == "xgmi":
        names = [
            p for p in links if p.startswith(kind) and accelerator and accelerator in links[p].name
        ]
        part = names[0] if names else _XGMI
        pair = value("measured", "mi300x-2", "busbw", name="2x MI300X all-reduce 4 GiB")
        reached = pair / value("links", _XGMI, "bandwidth_per_link")
        peak = value("links", part, "bandwidth_per_gpu_all_links")
        return _AMPERE + (part != "xgmi-mi250x"), reached * peak, peak
    if kind not in links or not kind.startswith(("nvlink", "pcie")):
        raise ValueError(
            f"scale_up must begin with a link of the catalog such as nvlink4, pcie5 or xgmi, got {kind!r}"
        )
    if kind.startswith("pcie"):
        peak, counted = (
            value("links", kind, a) for a in ("bandwidth_after_encoding", "nccl_effective")
        )
        return min(max(int(kind[-1]) - 3, 0), 3), counted, peak
    # newer: the same part of the rate
    known = kind if "nccl_effective_per_link" in links[kind] else "nvlink5"
    counted = value("links", known, "nccl_effective_per_link") * value(
        "links", known, "links_per_gpu"
    )
    old, peak = (value("links", k, "bandwidth_per_gpu") for k in (known, kind))
    return min(max(int(kind[-1]) - 2, 0), 3), counted / old * peak, peak
