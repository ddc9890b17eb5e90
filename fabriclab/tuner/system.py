"""Counts and rates of a system that the cost model needs, from a row of the catalog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, NamedTuple

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
# generations of GPUs in NCCL's tables
VOLTA = 0
AMPERE = 1
HOPPER = 2
BLACKWELL = 3
_PAIR = "pair"  # two GPUs with an NVLink bridge
_BRIDGED = 2  # GPUs that a bridge joins
# Bridged cards whose links differ from those of the boards with the same version of NVLink, by that version; and the
# beginning of the names of cards that have the chips of those boards.
_BRIDGES = {"nvlink2": "nvlink2-bridge", "nvlink3": "nvlink3-bridge", "nvlink4": "nvlink4-bridge"}
_BOARD_CHIPS = ("A100", "A800")
_LONG_LINES_SINCE = (2, 5)  # version of NCCL; source: NCCL-LL128
_XGMI = "xgmi-mi300x"  # the accelerator of most such systems
_OLDEST_XGMI = "xgmi-mi250x"
_NEWEST_PCIE = 5  # of servers in the catalog
_FASTEST_PCIE = 6  # that any server could have


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Facts of one system and question, in SI units.

    Parameters
    ----------
    what : str
        Collective.
    ranks, servers, local : int
        Number of ranks in all, of scale-up domains, and of ranks in each.
    generation : int
        0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell; other vendors by the PCIe generation of their servers.
    kind : str
        Links inside a server: ``nvlink``, ``xgmi``, ``pcie``, or ``shm`` if copies go through host memory.
    peak, own, ring : float
        Rate of a GPU's links inside the server: by the datasheet, as NCCL counts it, and the part that rings reach if
        they continue to other servers. [B/s]
    wire, nic, nics : float, float, int
        Rate of a NIC, its rate behind its PCIe link [B/s], and number of NICs in a domain.
    switched, long_lines : bool
        Whether NVSwitches join the GPUs; whether LL128 is enabled.
    family : str
        Family of transport whose constants apply; a family without sweeps gets those of the catalog alone.
    started : int
        GPUs that one process starts, one after another; 0 if each GPU has a process of its own.
    algo : str
        Algorithm that the run forced, such as ``ring``, else ``default``. If a collective has no such algorithm, NCCL
        uses a ring.
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
    def library(self) -> str:
        """Name of the library: that of AMD has NCCL's algorithms and constants of its own."""
        return "RCCL" if self.kind == "xgmi" else "NCCL"

    @property
    def node(self) -> float:
        """Return the rate of all NICs of a domain [B/s]."""
        return self.nic * self.nics


class _Links(NamedTuple):
    """Links of one GPU inside a server."""

    generation: int
    counted: float  # rate as NCCL counts it [B/s]
    peak: float  # rate by the datasheet [B/s]
    long_lines: bool = False  # whether NCCL uses LL128 on them


# GPUs of one rank to a server, whose links are never used and may have no name.
_NO_LINKS = _Links(HOPPER, counted=inf, peak=inf)


def check(row: Mapping[str, Any]) -> None:
    """Refuse anything but a row like those of `catalog.published.systems`."""
    if isinstance(row, Mapping):
        missing = [key for key in (*TEXTS, *COUNTS) if key not in row]
    else:
        missing = ["keys at all"]
    if missing:
        raise ValueError(
            f"sweep must be a row of catalog.published.systems(), got {row!r:.60} "
            f"without {', '.join(missing)}"
        )

    for key in (*TEXTS, "algo"):
        if not isinstance(row.get(key, ""), str):
            raise TypeError(f"{key} must be text, got {row[key]!r}")
    for key in COUNTS:
        if row[key] != "":
            units.count(row[key], key, 0)
    _check_ranks(row)
    gpus = row["gpus_per_node"] or 1
    rate = units.rate(f"{row['nic_gbps'] or 0} Gb/s", "nic_gbps", may_be_zero=True)
    check_nics(gpus, row["nics_per_node"] or 0, rate, "nics_per_node")


def _check_ranks(row: Mapping[str, Any]) -> None:
    """Refuse ranks that fill the nodes neither one after the other nor all alike."""
    nodes = row.get("nodes") or 0
    gpus = row["gpus_per_node"]
    ranks = row["ranks"]
    if not (nodes and gpus and ranks):
        return
    fills_in_order = -(-ranks // gpus) == nodes
    fills_alike = ranks % nodes == 0 and ranks <= nodes * gpus
    if not (fills_in_order or fills_alike):
        raise ValueError(
            f"ranks must fit the nodes ({nodes} x {gpus} GPUs, so {nodes * gpus} if all are used), got {ranks}; "
            "change nodes with ranks"
        )


def check_nics(gpus: int, nics: int, rate: float, name: str = "nics") -> None:
    """Refuse NICs that are more than GPUs and together faster than the fastest host links of all GPUs of a server.

    Parameters
    ----------
    gpus, nics : int
        Numbers of a server.
    rate : float
        Rate of a NIC. [B/s]
    name : str
        What the caller calls the number of NICs.
    """
    if not rate:
        return
    host_link = catalog.value("links", f"pcie{_FASTEST_PCIE}", "bandwidth_after_encoding")
    most = max(gpus, int(gpus * host_link / rate))
    if nics > most:
        raise ValueError(
            f"{name} must be within 0..{most} at {rate * 8e-9:g} Gb/s (each of {gpus} GPUs has at most 16 lanes of "
            f"PCIe {_FASTEST_PCIE}, {units.format_rate(host_link)}), got {nics}; is this the number of NICs of all "
            "servers?"
        )


def check_nic_rate(rate: float) -> None:
    """Refuse a NIC faster than any in the catalog, since its rate [B/s] was probably meant in bits."""
    fastest = _fastest_nic()
    if rate > fastest * (1 + 1e-9):
        bits = units.format_rate(rate).replace("B/s", "b/s")
        raise ValueError(
            f"rate must be at most {fastest * 8e-9:g} Gb/s, the fastest NIC of a GPU in the catalog, got "
            f"{rate * 8e-9:g} Gb/s, which is {units.format_rate(rate)}; was it meant in bits, {bits!r}?"
        )


@cache
def _fastest_nic() -> float:
    """Return the rate of the fastest NIC in the catalog, or of all that one GPU has [B/s]."""
    rates = [0.0]
    for part in catalog.nics.values():
        for attribute in ("throughput", "throughput_per_gpu"):
            if attribute in part:
                rates.append(part[attribute].si or 0.0)
    return max(rates)


def read(row: Mapping[str, Any]) -> System:
    """Return the facts of a row of `catalog.published.systems`.

    Raises
    ------
    ValueError
        If the row lacks a fact, or names links that are not in the catalog.
    """
    check(row)
    ranks = units.count(row["ranks"] or 0, "ranks")
    gpus = row["gpus_per_node"] or 1
    domain = row["scale_up_domain_gpus"] or gpus
    kind, _, shape = row["scale_up"].partition("-")  # such as nvlink4 and nvswitch
    local = min(ranks, domain)
    if "mesh" in shape and row["gpus_per_node"]:
        # Links without switches end at the board: of a mesh of 8 GPUs a server may have 4, and other servers the rest.
        local = min(local, gpus)
    servers = -(-ranks // local)  # rounded up

    if shape == _PAIR and gpus > _BRIDGED:
        # Bridges join pairs only. A ring over more GPUs of the server takes PCIe from one pair to the next.
        domain = max(domain, gpus)
        local = min(ranks, domain)
        servers = -(-ranks // local)
        if local > _BRIDGED:
            kind = f"pcie{min(_generation_of(kind) + 3, _NEWEST_PCIE)}"

    links = _NO_LINKS
    if local > 1 or kind in catalog.links:
        links = _links(kind, row["accelerator"], shape)
    own = links.counted
    peak = links.peak
    ring = own
    if local > 1 and "mesh" in shape and "cube" not in shape:
        # Each pair has links of its own, so with fewer GPUs fewer links are in use.
        part = (local - 1) / (domain - 1)
        own *= part
        peak *= part
        ring = own
        if kind == "xgmi" and servers > 1:
            # P - 1 hops in place of P on links that nobody else takes: the rings of a mesh that go on to other servers
            ring = own * local / (local - 1)

    wire = units.rate(f"{row['nic_gbps'] or 0} Gb/s", "nic_gbps", may_be_zero=True)
    nics = (row["nics_per_node"] or 0) * max(1, local // gpus)
    # A NIC has a PCIe link of its own; several NICs of one GPU share that of the GPU.
    sharers = max(1.0, nics / local)
    pcie = catalog.value("links", _host_link(links), "nccl_effective")
    nic = min(wire, pcie / sharers)
    if servers > 1 and not nic * nics:
        raise ValueError(
            f"{ranks} ranks in {servers} servers need NICs, got nics_per_node {nics}, "
            f"nic_gbps {row['nic_gbps']!r}"
        )

    what = units.choice(published.identifier(row["collective"]), "collective", (*_TIMED, *P2P))
    algo = row.get("algo", "default")
    _check_algorithm(algo)

    transport = row["transport"]
    inside = "shm" if transport == "shm" else kind.rstrip("0123456789")
    family = inside
    if servers > 1:
        family = transport
        if "software match" in algo:
            family += "-software"

    long_lines = links.long_lines and _has_long_lines(algo)
    if servers > 1 and transport not in _SWITCHES:
        long_lines = False

    started = 0
    if row.get("launch", "mpi") != "mpi":
        started = min(local, gpus)

    return System(
        what=what,
        ranks=ranks,
        servers=servers,
        local=local,
        generation=links.generation,
        kind=inside,
        peak=peak,
        own=own,
        ring=ring,
        wire=wire,
        nic=nic,
        nics=nics,
        switched="nvswitch" in shape,
        long_lines=long_lines,
        family=family,
        started=started,
        algo=algo,
    )


def _has_long_lines(algo: str) -> bool:
    """Return whether the version of NCCL that a run names has LL128; a run that names none has it."""
    named = re.search(r"(?<!-)\bnccl (before )?(\d+)\.(\d+)", algo.lower())
    if named is None:
        return True
    version = int(named[2]), int(named[3])
    if named[1]:
        return version > _LONG_LINES_SINCE
    return version >= _LONG_LINES_SINCE


def _check_algorithm(algo: str) -> None:
    """Refuse a text that is not empty and not the name of an algorithm."""
    named = re.findall("|".join(_ALGORITHMS), algo.lower())
    first = named[0] if named else algo or "default"
    units.choice(first, "algo", _ALGORITHMS)  # of a text in lower case


def link_rate(scale_up: str, accelerator: str = "") -> float:
    """Return the rate of all links of a GPU to the GPUs of its server, by the datasheet [B/s].

    Parameters
    ----------
    scale_up : str
        Links and what they form, as in the published table, such as ``"nvlink4-nvswitch"``.
    accelerator : str
        The GPU, by which links of the same name differ.

    Raises
    ------
    ValueError
        If the catalog has no such links.
    """
    kind, _, shape = scale_up.partition("-")
    return _links(kind, accelerator, shape).peak


def host_link(scale_up: str, accelerator: str = "") -> str:
    """Return the name in `catalog.links` of the PCIe link of a GPU with some scale-up links; see `link_rate`."""
    kind, _, shape = scale_up.partition("-")
    return _host_link(_links(kind, accelerator, shape))


def _host_link(links: _Links) -> str:
    """Return the name of the PCIe link of a GPU with these links."""
    return f"pcie{min(links.generation + 3, _NEWEST_PCIE)}"


@cache
def _links(kind: str, accelerator: str, shape: str = "") -> _Links:
    """Return the generation of a GPU's links, and their rate as NCCL counts it and by the datasheet."""
    if kind == "xgmi":
        return _xgmi(accelerator)
    if kind not in catalog.links or not kind.startswith(("nvlink", "pcie")):
        raise ValueError(
            f"scale_up must begin with a link of the catalog such as nvlink4, pcie5 or xgmi, got {kind!r}"
        )
    if kind.startswith("pcie"):
        return _pcie(kind)
    if shape == _PAIR and kind in _BRIDGES and not accelerator.startswith(_BOARD_CHIPS):
        return _bridge(kind)
    return _nvlink(kind)


def _xgmi(accelerator: str) -> _Links:
    """Return the xGMI links of an accelerator; counted is the fraction of the rate that two MI300X reached."""
    part = _XGMI
    if accelerator:
        for name, row in catalog.links.items():
            if name.startswith("xgmi") and accelerator in row.name:
                part = name
                break

    pair = catalog.value("measured", "mi300x-2", "busbw", name="2x MI300X all-reduce 4 GiB")
    reached = pair / catalog.value("links", _XGMI, "bandwidth_per_link")
    peak = catalog.value("links", part, "bandwidth_per_gpu_all_links")
    generation = AMPERE if part == _OLDEST_XGMI else HOPPER
    return _Links(generation, counted=reached * peak, peak=peak)


def _pcie(kind: str) -> _Links:
    """Return the PCIe link of a GPU."""
    peak = catalog.value("links", kind, "bandwidth_after_encoding")
    counted = catalog.value("links", kind, "nccl_effective")
    return _Links(_generation(int(kind[-1]) - 3), counted=counted, peak=peak)


def _nvlink(kind: str) -> _Links:
    """Return the NVLinks of a GPU; links that NCCL does not count yet get the fraction of their rate of NVLink 5."""
    known = kind if "nccl_effective_per_link" in catalog.links[kind] else "nvlink5"
    per_link = catalog.value("links", known, "nccl_effective_per_link")
    counted = per_link * catalog.value("links", known, "links_per_gpu")
    known_peak = catalog.value("links", known, "bandwidth_per_gpu")
    peak = catalog.value("links", kind, "bandwidth_per_gpu")
    return _Links(
        _generation_of(kind), counted=counted / known_peak * peak, peak=peak, long_lines=True
    )


def _bridge(kind: str) -> _Links:
    """Return the NVLinks of a card that bridges join to one other card; it has fewer of them than a board."""
    part = _BRIDGES[kind]
    per_link = catalog.value("links", part, "nccl_effective_per_link")
    counted = per_link * catalog.value("links", part, "links_per_gpu")
    peak = catalog.value("links", part, "bandwidth_per_gpu")
    generation = _generation_of(kind)
    # NCCL enables LL128 on chips for data centers only, and of the cards with bridges only those of Hopper have one.
    return _Links(generation, counted=counted, peak=peak, long_lines=generation >= HOPPER)


def _generation_of(nvlink: str) -> int:
    """Return the generation of GPUs with a version of NVLink."""
    return _generation(int(nvlink[-1]) - 2)


def _generation(number: int) -> int:
    """Return the generation of GPUs that the tables have, nearest to one counted from the version of a link."""
    return min(max(number, VOLTA), BLACKWELL)
