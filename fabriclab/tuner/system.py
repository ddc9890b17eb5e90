"""What the cost model needs to know of a system: counts and rates from a row of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from fabriclab import catalog, units
from fabriclab.catalog import published

TEXTS: Final = ("collective", "scale_up", "accelerator", "transport")
COUNTS: Final = ("ranks", "scale_up_domain_gpus", "gpus_per_node", "nic_gbps", "nics_per_node")
_SWITCHES: Final = ("ib", "roce")  # servers where GPU and NIC share a PCIe switch, as LL128 across servers asks for
_AMPERE: Final = 1
_NEWEST_PCIE: Final = 5  # of servers in the catalog


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
    link : str
        Link inside a server, as NCCL's latencies name it: ``NVLINK`` or ``PCI``.
    own, ring : float
        Rate of a GPU's links inside the server, and what rings through the server get of them. [B/s]
    nic, gpu_nic, node : float
        Rate of a NIC behind its PCIe link, a GPU's share, and of all NICs of a server. [B/s]
    nics : int
        NICs of a server.
    behind_pcie : bool
        Whether PCIe, not the NIC, is the narrow place.
    switched : bool
        Whether NVSwitches join the GPUs.
    long_lines : bool
        Whether LL128 is on.
    inside, outside : str
        Families of transport whose constants hold in a server and between servers.
    started : int
        GPUs that one process starts, one after the other; 0 where each has its own.
    algo : str
        What the run forced, such as ``ring``; else ``default``.
    """

    what: str
    ranks: int
    servers: int
    local: int
    generation: int
    link: str
    own: float
    ring: float
    nic: float
    gpu_nic: float
    node: float
    nics: int
    behind_pcie: bool
    switched: bool
    long_lines: bool
    inside: str
    outside: str
    started: int
    algo: str

    @property
    def family(self) -> str:
        """Return the family of transport that most of the time depends on."""
        return self.outside if self.servers > 1 else self.inside


def check(row: Mapping[str, Any]) -> None:
    """Refuse what is no row of `catalog.published.systems`."""
    missing = [k for k in (*TEXTS, *COUNTS) if k not in row] if isinstance(row, Mapping) else ["keys at all"]
    if missing:
        msg = f"sweep must be a row of catalog.published.systems(), got {row!r:.60} without {', '.join(missing)}"
        raise ValueError(msg)
    for key in TEXTS:
        if not isinstance(row[key], str):
            msg = f"{key} must be text, got {row[key]!r}"
            raise TypeError(msg)
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
    ranks, gpus = units.count(row["ranks"], "ranks"), row["gpus_per_node"] or 1
    domain = row["scale_up_domain_gpus"] or gpus
    local = min(ranks, domain)
    servers = -(-ranks // local)
    kind, _, rest = row["scale_up"].partition("-")
    generation, own = (2, float("inf")) if local == 1 and not kind else _links(kind, row["accelerator"])
    mesh = "mesh" in rest and "cube" not in rest  # each pair has links of its own: fewer GPUs, fewer links in use
    own *= (local - 1) / (domain - 1) if mesh and 1 < local else 1
    # P - 1 hops in place of P on links that nobody else takes: the rings of a mesh that go on to other servers
    ring = own * local / (local - 1) if mesh and kind == "xgmi" and servers > 1 < local else own
    wire = units.rate(f"{row['nic_gbps'] or 0} Gb/s", "nic_gbps", may_be_zero=True)
    nic = min(wire, catalog.value("links", f"pcie{min(generation + 3, _NEWEST_PCIE)}", "nccl_effective"))
    nics = row["nics_per_node"] or 0
    if servers > 1 and not nic * nics:
        msg = f"{ranks} ranks in {servers} servers need NICs, got nics_per_node {nics}, nic_gbps {row['nic_gbps']!r}"
        raise ValueError(msg)
    algo, transport = row.get("algo", "default"), row["transport"]
    return System(
        what=published.identifier(row["collective"]), ranks=ranks, servers=servers, local=local,
        generation=generation, link="PCI" if kind.startswith("pcie") else "NVLINK", own=own, ring=ring, nic=nic,
        gpu_nic=nic * nics / gpus, node=nic * nics, nics=nics, behind_pcie=nic < wire, switched="nvswitch" in rest,
        long_lines=kind.startswith("nvlink") and (servers == 1 or transport in _SWITCHES),
        inside="shm" if transport == "shm" else kind.rstrip("0123456789"),
        outside=f"{transport}-software" if "software match" in algo else transport,
        started=0 if row.get("launch", "mpi") == "mpi" else min(local, gpus), algo=algo,
    )  # fmt: skip


@cache
def _links(kind: str, accelerator: str) -> tuple[int, float]:
    """Return generation, and rate [B/s] of a GPU's links as NCCL counts them."""
    links = catalog.links
    if kind == "xgmi":
        names = [p for p in links if p.startswith(kind) and accelerator and accelerator in links[p].name]
        part = names[0] if names else "xgmi-mi300x"  # the accelerator of most such systems
        pair = "2x MI300X all-reduce 4 GiB"
        reached = catalog.value("measured", "mi300x-2", "busbw", name=pair) / catalog.value(
            "links", "xgmi-mi300x", "bandwidth_per_link"
        )
        return _AMPERE + (part != "xgmi-mi250x"), reached * catalog.value("links", part, "bandwidth_per_gpu_all_links")
    if kind not in links or not kind.startswith(("nvlink", "pcie")):
        msg = f"scale_up must begin with a link of the catalog such as nvlink4, pcie5 or xgmi, got {kind!r}"
        raise ValueError(msg)
    number = int(kind[-1])
    if kind.startswith("pcie"):
        return min(max(number - 3, 0), 3), catalog.value("links", kind, "nccl_effective")
    known = kind if "nccl_effective_per_link" in links[kind] else "nvlink5"  # newer: the same part of the rate
    counted = catalog.value("links", known, "nccl_effective_per_link") * catalog.value("links", known, "links_per_gpu")
    part_of = counted / catalog.value("links", known, "bandwidth_per_gpu")
    return min(max(number - 2, 0), 3), part_of * catalog.value("links", kind, "bandwidth_per_gpu")
