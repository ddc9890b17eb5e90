"""A cluster in the words of a purchase order: what `estimate`, `simulate` and the bill need to know about it.

Examples
--------
>>> import fabriclab as fl
>>> hall = fl.system(gpu="H100", servers=32)
>>> hall
<System: 32 servers x 8 H100 (256 ranks), 8 NICs of 400 Gb/s each, InfiniBand, rail_optimised>
>>> fl.estimate(hall, "all_reduce", "1 GiB").algorithm
'NVLSTree'
>>> hall.fabric.summary()["leaf"]
8
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab import catalog, economics, registry, topologies, units
from fabriclab.catalog import published
from fabriclab.catalog.tables import near, read_rows
from fabriclab.core import Fabric, FabricBuilder, Floats, Ints, ReadOnly, as_html, as_text
from fabriclab.importers import is_text
from fabriclab.topologies.clusters import outside_servers
from fabriclab.topologies.servers import SERVERS, links_between_gpus
from fabriclab.tuner.system import check_nic_rate, check_nics, host_link, link_rate, read

__all__ = ["System", "system"]

# Transports between servers, by the names that people and tools use.
_TRANSPORTS = {
    "infiniband": "ib",
    "ib": "ib",
    "roce": "roce",
    "rocev2": "roce",
    "ethernet": "roce",
    "slingshot": "cxi",
    "cxi": "cxi",
    "efa": "efa",
    "tcp": "tcp",
    "sockets": "tcp",
    "none": "none",
}
_TRANSPORT_NAMES = {
    "ib": "InfiniBand",
    "roce": "RoCE",
    "cxi": "Slingshot",
    "efa": "EFA",
    "tcp": "TCP",
}
_DEFAULT_FABRIC = "rail_optimised"
_FASTEST_HOST_LINK = "pcie6"  # one of 16 lanes for each GPU
_BOARDS = r"(SXM\d?(\d+GB)?|OAM|NVL72)?"  # what follows the name of a GPU that is on a board, not on a card
# What the links between the GPUs of a server form: NVSwitch chips, a link for each pair, the cube mesh of the DGX-1,
# bridges between two cards, or PCIe alone.
_SWITCH = "switch"
_MESH = "mesh"
_CUBE = "cube"
_PAIR = "pair"
_PCIE = "pcie"
_CUBE_SERVER = "dgx1v"
_WIRED = (_MESH, _CUBE)  # boards whose links end at other GPUs of the board


# Columns of the published table by the arguments of `system`.
_COLUMNS = {
    "servers": "nodes",
    "gpus": "gpus_per_node",
    "nics": "nics_per_node",
    "rate": "nic_gbps",
    "transport": "transport",
    "scale_up": "scale_up",
    "domain": "scale_up_domain_gpus",
}


@cache
def _gpu_rows() -> dict[str, dict[str, str]]:
    """Return the servers that GPUs are bought in, by GPU; the table names parts, whose facts are in the catalog."""
    return {row["gpu"]: row for row in read_rows(Path(__file__).with_suffix(".csv"))}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class System(Mapping[str, Any]):
    """A cluster: its servers, NICs and network. `system` makes one.

    As a mapping it has the columns of `catalog.published.systems`, which is what `estimate` reads.

    Parameters
    ----------
    name : str
        Name of a published system, or empty.
    gpu : str
        GPU or other accelerator.
    servers, gpus, nics : int
        Number of servers, and GPUs and NICs of each.
    rate : float
        Rate of a NIC in one direction. [B/s]
    network : str or Fabric
        Name of a topology, or a fabric that was built before.
    options : mapping
        Further arguments of the topology.
    row : mapping
        Columns of `catalog.published.systems`.
    asked : mapping
        Arguments of `system` that were given; empty for a published system.
    origins : mapping
        Where each part comes from, in words, if it was read from logs; see `fabriclab.system_from_logs`.
    """

    name: str
    gpu: str
    servers: int
    gpus: int
    nics: int
    rate: float
    network: str | Fabric
    options: Mapping[str, Any] = field(default_factory=ReadOnly)
    row: Mapping[str, Any]
    asked: Mapping[str, Any] = field(default_factory=ReadOnly)
    origins: Mapping[str, str] = field(default_factory=ReadOnly)

    def __getitem__(self, key: str) -> Any:
        """Return a column of `catalog.published.systems`."""
        return self.row[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns."""
        return iter(self.row)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.row)

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return self.servers * self.gpus

    @property
    def domain(self) -> int:
        """Number of GPUs in a scale-up domain: of a server, a rack, or a mesh of which a server has a part."""
        return int(self.row["scale_up_domain_gpus"] or self.gpus)

    @property
    def shape(self) -> str:
        """What the links between the GPUs of a server form: switch, mesh, cube, pair or pcie."""
        return _shape(str(self.row["scale_up"]), _usual(self.gpu))

    @property
    def joined(self) -> int:
        """Number of GPUs that reach each other without NICs."""
        if self.shape == _SWITCH:
            return min(self.domain, self.ranks)
        return self.gpus

    @cached_property
    def fabric(self) -> Fabric:
        """Fabric with the inside of the servers; it is built when it is first asked for."""
        if isinstance(self.network, Fabric):
            return self.network
        if not self.nics:  # a single scale-up domain
            return _box(self)
        return _cluster(self, self.network)

    @property
    def placement(self) -> Ints:
        """Endpoint of each rank, (ranks,): GPU by GPU, server by server."""
        return np.arange(self.ranks)

    def bill(self, **options: Any) -> economics.Bill:
        """Return the bill of the network on a floor plan; options as in `fabriclab.economics.bill`."""
        return economics.bill(economics.floor_plan(self.fabric), **options)

    def replace(self, **changes: Any) -> System:
        """Return this system with some arguments of `system` changed; what was not given is found anew.

        A published system keeps its accelerator, and what its run forced; it then has no name any more.
        """
        if self.asked:
            return system(**{**self.asked, **changes})
        _check_changes(changes)
        changed = f"{self.name}, changed" if self.name else self.row["system"]
        row = {**self.row, "sweep_id": "", "system": changed}
        for name, value in changes.items():
            if name in _COLUMNS:
                row[_COLUMNS[name]] = value
        if "rate" in changes:
            row["nic_gbps"] = _whole(units.rate(changes["rate"], "rate") * 8e-9)
        if "transport" in changes:
            row["transport"] = _transport(changes["transport"], {})
        if "gpus" in changes and "domain" not in changes:
            row["scale_up_domain_gpus"] = ""
        row["ranks"] = row["nodes"] * row["gpus_per_node"]
        facts = read(row)  # refuses what cannot be
        nics = row["nics_per_node"] or 0
        rate = units.rate(f"{row['nic_gbps'] or 0} Gb/s", "rate", may_be_zero=True)

        network = changes.get("fabric", self.network)
        options = {} if "fabric" in changes else dict(self.options)
        for name, value in changes.items():
            if name not in _COLUMNS and name != "fabric":
                options[name] = value
        _check_network(network, options)
        _check_size(network, row["ranks"])
        if isinstance(network, Fabric):
            needed = nics if facts.servers > 1 else 0
            _check_servers(network, row["gpus_per_node"], needed, rate)
        return System(
            name="",
            gpu=self.gpu,
            servers=row["nodes"],
            gpus=row["gpus_per_node"],
            nics=nics,
            rate=rate,
            network=network,
            options=ReadOnly(options),
            row=ReadOnly(row),
        )

    def _facts(self) -> list[tuple[str, str]]:
        """Return what the system consists of, as a table of two columns."""
        row = self.row
        network = self._network_name(repr(self.network))
        many = f"{self.domain} GPUs in a domain"
        if self.joined < self.domain:
            many = f"{self.joined} of {self.domain} GPUs"
        facts = [
            ("servers", f"{self.servers:,}"),
            ("GPUs", f"{self.ranks:,} {self.gpu}, {self.gpus} in each server"),
            ("scale-up", f"{row['scale_up']}, {many}"),
        ]
        if self.nics:
            transport = _TRANSPORT_NAMES.get(row["transport"], row["transport"])
            facts.append(("NICs", f"{self.nics} of {_gbps(self.rate)} in each server, {transport}"))
            facts.append(("network", network))
        for name, value in self.options.items():
            facts.append((name, str(value)))
        return facts

    def _network_name(self, own: str) -> str:
        """Return what connects the servers, in words; ``own`` stands for a fabric that was built before."""
        if not isinstance(self.network, str):
            return own
        # No table says how the servers of a published system are connected.
        return f"{self.network} (assumed)" if self.name else self.network

    def __repr__(self) -> str:
        """Show what the system consists of."""
        title = f"{self.name}: " if self.name else ""
        many = "server" if self.servers == 1 else "servers"
        text = f"<System: {title}{self.servers:,} {many} x {self.gpus} {self.gpu} ({self.ranks:,} ranks)"
        if self.domain > self.gpus:
            text += f", scale-up domains of {self.domain} GPUs"
        if self.nics:
            transport = _TRANSPORT_NAMES.get(self.row["transport"], self.row["transport"])
            network = self._network_name("a fabric of its own")
            text += f", {self.nics} NICs of {_gbps(self.rate)} each, {transport}, {network}"
        assumed = [name for name, where in self.origins.items() if where.startswith("assumed")]
        if assumed:
            text += f"; assumed: {', '.join(assumed)}"
        return text + ">"

    def draw(self) -> str:
        """Return what the system consists of as text, with where each part comes from if it was read from logs."""
        parts = as_text(self._facts())
        if not self.origins:
            return parts
        return f"{parts}\n\nread from logs\n{as_text(list(self.origins.items()))}"

    def _repr_html_(self) -> str:
        rows = self._facts()
        for name, where in self.origins.items():
            rows.append((f"{name}: from", where))
        return as_html(rows, repr(self)[1:-1])


def system(
    source: str | Path | None = None,
    *,
    gpu: str = "",
    servers: int | None = None,
    gpus: int | None = None,
    nics: int | None = None,
    rate: units.Quantity | None = None,
    fabric: str | Fabric = _DEFAULT_FABRIC,
    transport: str = "",
    scale_up: str = "",
    domain: int | None = None,
    ranks: int | None = None,
    **options: Any,
) -> System:
    """Describe a cluster, for `fabriclab.estimate`, `fabriclab.simulate`, its fabric and its bill.

    What is not given is that of the usual server of the GPU: 8 H100 with 8 NICs of 400 Gb/s.

    Parameters
    ----------
    source : str or Path, optional
        Name of a published system (``catalog.published.systems``), or a TOML file with the arguments below; then
        nothing else is given.
    gpu : str
        Such as ``"H100"``, ``"MI300X"`` or ``"GB200"``, which are the GPUs on boards. Others, and cards such as the
        H100-PCIe, need ``gpus``, ``scale_up`` and, in more than one server, ``nics``, ``rate`` and ``transport``.
    servers, gpus, nics : int
        Number of servers, and GPUs and NICs of each. A part of the usual GPUs has as large a part of the NICs unless
        ``nics`` is given. >= 1, nics >= 0
    rate : float or str, optional
        Rate of a NIC. A NIC that is faster than the PCIe link of its GPU is limited by that link. [B/s]
    fabric : str or Fabric
        Name of a topology that connects servers or hosts, or a fabric that was built before for such servers.
    transport : str, optional
        InfiniBand, RoCE, Slingshot, EFA or TCP.
    scale_up : str, optional
        Links between the GPUs of a server, as in the published table, such as ``"nvlink4-nvswitch"``,
        ``"nvlink3-mesh"``, ``"nvlink4-pair"`` or ``"pcie5"``.
    domain : int, optional
        GPUs in a scale-up domain, if that is more than a server: of a rack, or of a mesh of which a server has a part.
    ranks : int, optional
        Number of ranks, if you want it checked: one for each GPU.
    **options
        Further arguments of the topology, such as ``oversubscription=2``.

    Returns
    -------
    System
        The cluster. Its fabric is built when it is asked for.

    Raises
    ------
    ValueError, TypeError
        If the parts do not fit together, or one is missing or unknown.
    KeyError
        If no system is published under this name.

    Examples
    --------
    >>> system(gpu="H100", servers=2, fabric="leaf_spine", oversubscription=2).ranks
    16
    >>> system("oci_h100_2n").row["transport"]
    'roce'
    """
    if source is not None:
        numbers = (servers, gpus, nics, rate, domain, ranks)
        given = any(number is not None for number in numbers)
        if given or gpu or transport or scale_up or options or fabric != _DEFAULT_FABRIC:
            raise TypeError(
                f"system({source!r}) takes no further arguments; change a part of it with "
                f"system({source!r}).replace(...)"
            )
        return _from_source(source)

    arguments = {
        "gpu": gpu,
        "servers": servers,
        "gpus": gpus,
        "nics": nics,
        "rate": rate,
        "fabric": fabric,
        "transport": transport,
        "scale_up": scale_up,
        "domain": domain,
    }
    asked = {name: value for name, value in arguments.items() if value not in (None, "")} | options
    _check_network(fabric, options)
    usual = _usual(gpu)
    if not usual and not (gpus and scale_up):
        raise ValueError(
            f"{near(gpu, _gpu_rows(), 'the list of GPUs with known servers')}; a card such as the H100-PCIe, or any "
            'other GPU, needs gpus=8 and scale_up, such as "pcie5", "nvlink4-pair" or "nvlink4-nvswitch"'
        )
    n = units.count(_needed(servers, "servers", "servers=32"), "servers")
    per_server = units.count(_of_server(gpus, "gpus", usual, "gpus"), "gpus")
    links = scale_up or usual["scale_up"]
    accelerator = usual.get("accelerator", "")
    device = catalog.accelerators[accelerator].name if accelerator else gpu
    link_rate(links, device)  # refuses links that the catalog does not have
    _check_ranks(ranks, n, per_server)
    together = _domain(domain, usual, per_server, n, _shape(links, usual))
    reach = together if _shape(links, usual) == _SWITCH else per_server
    joined = n * per_server > reach  # whether there are several domains

    nics_each = 0
    speed = 0.0
    if joined or nics or rate:
        nics_each = units.count(_nics(nics, usual, per_server), "nics", 0)
        speed = _nic_rate(rate, usual)
        check_nic_rate(speed)
        check_nics(per_server, nics_each, speed)
    if joined and not nics_each:
        raise ValueError(f"nics must be >= 1 for {n} servers, got 0")
    carrier = _transport(transport, usual) if nics_each else "none"
    if joined and carrier == "none":
        raise ValueError(
            f"transport must be one between servers ({', '.join(_TRANSPORT_NAMES.values())}) for {n} servers, "
            f"got {transport!r}"
        )
    _check_size(fabric, n * per_server)
    if isinstance(fabric, Fabric):
        _check_servers(fabric, per_server, nics_each if joined else 0, speed)

    row = {
        "sweep_id": "",
        "system": f"{n} x {per_server} {gpu}",
        "accelerator": device,
        "server": usual.get("server", ""),
        "collective": "all_reduce",
        "algo": "default",
        "nodes": n,
        "gpus_per_node": per_server,
        "ranks": n * per_server,
        "scale_up": links,
        "scale_up_domain_gpus": together,
        "nics_per_node": nics_each,
        "nic_gbps": _whole(speed * 8e-9),
        "transport": carrier,
        "launch": "mpi",
        "source": "",
        "dtype": "",
        "confidence": "",
        "note": "",
    }
    return System(
        name="",
        gpu=gpu,
        servers=n,
        gpus=per_server,
        nics=nics_each,
        rate=speed,
        network=fabric,
        options=ReadOnly(options),
        row=ReadOnly(row),
        asked=ReadOnly(asked),
    )


def _from_source(source: str | Path) -> System:
    """Return a published system by name, or that of a TOML file."""
    if isinstance(source, Path) or str(source).endswith(".toml"):
        return _from_file(Path(source))
    if is_text(source) or Path(source).is_file():
        raise ValueError(
            f"source must be the name of a published system or a TOML file, got {source!r:.60}; "
            "fabriclab.system_from_logs(...) reads what tools printed"
        )
    row = published.system(source)
    nic_rate = 0.0
    if row["nic_gbps"]:
        nic_rate = units.rate(f"{row['nic_gbps']} Gb/s", "nic_gbps")
    return System(
        name=source,
        gpu=row["accelerator"],
        servers=row["nodes"],
        gpus=row["gpus_per_node"],
        nics=row["nics_per_node"] or 0,
        rate=nic_rate,
        network=_DEFAULT_FABRIC,
        row=ReadOnly(row),
    )


def _from_file(file: Path) -> System:
    """Return the system that a TOML file describes, with its arguments at the top or under ``[system]``."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"source must be a file that exists, got {str(file)!r}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file.name} is no TOML: {error}") from None
    asked = table.get("system", table)
    if "source" in asked:
        raise ValueError(
            f"{file.name} must describe a system by its parts, got source={asked['source']!r}"
        )
    try:
        return system(**asked)
    except (TypeError, ValueError, KeyError) as error:
        message = error.args[0] if error.args else error
        raise type(error)(f"{file.name}: {message}") from None


def _usual(gpu: str) -> Mapping[str, str]:
    """Return the row of a GPU's usual server; empty for a GPU that the table does not have."""
    if not isinstance(gpu, str) or not gpu.strip():
        raise ValueError(
            f'gpu must be given, such as gpu="H100" (known with their servers: {", ".join(_gpu_rows())}), got {gpu!r}'
        )
    plain = "".join(gpu.upper().replace("-", " ").split())
    for name, row in _gpu_rows().items():
        if re.fullmatch(name + _BOARDS, plain):
            return row
    return {}


def _check_changes(changes: Mapping[str, Any]) -> None:
    """Refuse changes of a published system that would make it another one."""
    for name in ("gpu", "ranks", "source"):
        if name in changes:
            raise TypeError(
                f"a published system keeps its accelerator and has a rank for each GPU, so {name} cannot be changed; "
                "describe another one with fabriclab.system(gpu=..., servers=...)"
            )


def _shape(links: str, usual: Mapping[str, str]) -> str:
    """Return what the links between the GPUs of a server form; those without a word for it form the usual."""
    kind, _, words = links.partition("-")
    usual_kind, _, usual_words = usual.get("scale_up", "").partition("-")
    if not words and kind == usual_kind:
        words = usual_words
    if kind.startswith(_PCIE):
        return _PCIE
    for shape in (_CUBE, _MESH, _PAIR):
        if shape in words:
            return shape
    return _SWITCH


def _needed(value: Any, name: str, example: str) -> Any:
    """Return a value that must be given."""
    if value is None:
        raise ValueError(f"{name} must be given, such as {example}")
    return value


def _of_server(value: int | None, name: str, usual: Mapping[str, str], fact: str) -> int:
    """Return a number of parts of a server: as given, else that of the usual server in the catalog."""
    if value is not None:
        return value
    facts = usual.get("facts", "")
    if facts and fact in catalog.systems[facts]:
        return int(catalog.value("systems", facts, fact))
    if fact == "gpus" and usual:
        return int(usual["domain"])
    server = f"a server of {usual['gpu']}" if usual else "this server"
    raise ValueError(f"{name} must be given: the catalog has no number of them for {server}")


def _nics(nics: int | None, usual: Mapping[str, str], gpus: int) -> int:
    """Return the NICs of a server: as given, else those of the usual server, or of as large a part of it."""
    number = _of_server(nics, "nics", usual, "scaleout_nics")
    whole = _usual_gpus(usual, gpus)
    if nics is not None or gpus >= whole:
        return number
    return -(-number * gpus // whole)  # rounded up


def _domain(
    domain: int | None, usual: Mapping[str, str], gpus: int, servers: int, shape: str
) -> int:
    """Return the number of GPUs in a scale-up domain: a server, a rack of whole servers, or the board of a mesh.

    Of a board with links between each two GPUs a server may have a part; the links to the others are then not used.
    """
    largest = int(usual["domain"]) if usual else gpus
    if shape in _WIRED:
        board = gpus if domain is None else units.count(domain, "domain")
        if shape == _CUBE:
            board = len(links_between_gpus(_CUBE_SERVER))
        elif usual and shape == _shape(usual["scale_up"], usual):
            board = largest
        if gpus > board:
            raise ValueError(f"gpus must be within 1..{board} (GPUs of the mesh), got {gpus}")
        if domain not in (None, board):
            raise ValueError(f"domain must be {board} (GPUs of the mesh), got {domain}")
        return board
    if shape != _SWITCH:
        if domain is not None and units.count(domain, "domain") != gpus:
            raise ValueError(
                f"domain must be {gpus} (GPUs of a server) where no switches join servers, got {domain}"
            )
        return gpus

    if domain is None:
        # A rack that is not full is one domain; a server with fewer GPUs than usual is a domain of its own.
        is_rack = largest > _usual_gpus(usual, gpus)
        n = largest if is_rack else gpus
    else:
        n = units.count(domain, "domain")
    if domain is None and n >= servers * gpus:
        return servers * gpus
    if n % gpus:
        raise ValueError(f"domain must be a multiple of {gpus} (GPUs of a server), got {n}")
    full = n // gpus  # servers
    if servers > full and servers % full:
        below = servers - servers % full
        raise ValueError(
            f"servers must fill scale-up domains of {n} GPUs, {full} servers each: take {below} or {below + full}, or "
            f"at most {full}, got {servers}"
        )
    return n


def _usual_gpus(usual: Mapping[str, str], gpus: int) -> int:
    """Return the GPUs of the usual server, or ``gpus`` where none is known."""
    if not usual:
        return gpus
    facts = usual["facts"]
    if facts and "gpus" in catalog.systems[facts]:
        return int(catalog.value("systems", facts, "gpus"))
    return int(usual["domain"])


def _nic_rate(rate: units.Quantity | None, usual: Mapping[str, str]) -> float:
    """Return the rate of a NIC [B/s]: as given, else that of the usual server."""
    if rate is not None:
        return units.rate(rate, "rate")
    if not usual.get("nic"):
        raise ValueError(
            'rate must be given, such as rate="400 Gb/s": the catalog has no NIC for this server'
        )
    return catalog.value("nics", usual["nic"], "throughput")


def _check_ranks(ranks: int | None, servers: int, gpus: int) -> None:
    """Refuse a number of ranks that is not that of the GPUs."""
    if ranks is None:
        return
    if units.count(ranks, "ranks") != servers * gpus:
        raise ValueError(
            f"ranks must be {servers * gpus} ({servers} servers x {gpus} GPUs, one rank each), got {ranks}; "
            "leave ranks out, or change servers or gpus"
        )


def _transport(transport: str, usual: Mapping[str, str]) -> str:
    """Return the transport between servers as the published table names it."""
    asked = transport or usual.get("transport", "")
    if not asked:
        raise ValueError(
            f'transport must be given, such as transport="InfiniBand" (known: {", ".join(_TRANSPORT_NAMES.values())}): '
            "the catalog has none for this server"
        )
    plain = asked.lower().replace(" ", "").replace("-", "")
    if plain not in _TRANSPORTS:
        raise ValueError(
            near(asked, [*_TRANSPORT_NAMES.values(), "none"], "the list of transports")
        )
    return _TRANSPORTS[plain]


def _check_size(network: str | Fabric, ranks: int) -> None:
    """Refuse a fabric that was built for another number of GPUs."""
    if isinstance(network, Fabric) and network.n_ranks != ranks:
        raise ValueError(f"fabric must have {ranks} ranks, one for each GPU, got {network.n_ranks}")


def _check_network(network: str | Fabric, options: Mapping[str, Any]) -> None:
    """Refuse an unknown topology, one without servers or hosts, and arguments that nobody has."""
    if isinstance(network, Fabric):
        if options:
            raise TypeError(f"a fabric that is built takes no arguments, got {', '.join(options)}")
        return
    known = inspect.signature(registry.get("topology", network)).parameters
    if not _connects_servers(network):
        fitting = ", ".join(name for name in topologies.names() if _connects_servers(name))
        raise ValueError(
            f"fabric must connect any number of servers, as {fitting} do, got {network!r}"
        )
    ours = {"servers", "hosts", "gpus", "rails", "rate", "expand", "nvlink", "pcie"}
    for name in options:
        if name not in known or name in ours:
            names = (set(known) - ours) | set(inspect.signature(system).parameters) - {"options"}
            raise TypeError(near(name, names, f"system() with fabric={network!r}"))


def _check_servers(network: Fabric, gpus: int, nics: int, rate: float) -> None:
    """Refuse a fabric that was built for servers with other GPUs or NICs; ``nics`` is 0 where none are needed."""
    each = np.bincount(network.server)
    wrong = each[each != gpus]
    if wrong.size:
        raise ValueError(
            f"fabric must have {gpus} GPUs in each server, as the system says, got {int(wrong[0])}; build it with "
            f"gpus={gpus}, or change gpus"
        )
    if not nics:
        return

    is_outside = outside_servers(network)
    has_inside = np.isin(network.endpoint, network.source[~is_outside])
    if gpus > 1 and not has_inside.all():
        raise ValueError(
            "fabric must have the inside of the servers, which joins their GPUs, got NICs as endpoints; build it with "
            "expand=True, or with gpus"
        )
    server = network.coordinate("server")
    server[network.endpoint] = network.server
    is_uplink = is_outside & (server[network.source] >= 0)
    per_nic = np.bincount(network.source[is_uplink], network.capacity[is_uplink], network.n_nodes)
    nic = np.unique(network.source[is_uplink])
    found = np.bincount(server[nic], minlength=each.size)
    other = found[found != nics]
    if other.size:
        raise ValueError(
            f"fabric must have {nics} NICs in each server, as the system says, got {int(other[0])}; change one of them"
        )
    fastest = float(per_nic.max())
    if abs(fastest - rate) > 0.01 * rate:
        raise ValueError(
            f"fabric must have NICs of {_gbps(rate)}, as the system says, got {_gbps(fastest)}; change rate in one of "
            "them"
        )


def _connects_servers(family: str) -> bool:
    """Return whether a topology takes a number of servers, or of hosts in all, and needs nothing else.

    One that needs more, such as a dragonfly+ with its leaves and spines, has hosts on each switch.
    """
    parameters = inspect.signature(registry.get("topology", family)).parameters
    needed = [name for name, p in parameters.items() if p.default is p.empty]
    takes = "servers" in parameters or next(iter(parameters), "") == "hosts"
    return takes and needed in ([], ["servers"], ["hosts"])


def _whole(number: float) -> int:
    """Return a rate in Gb/s as a whole number, as the published table has it."""
    nearest = round(number)
    if abs(number - nearest) > 1e-6 * max(number, 1.0):
        raise ValueError(f"rate must be a whole number of Gb/s, got {number:g} Gb/s")
    return nearest


def _gbps(rate: float) -> str:
    """Return a rate in Gb/s as text."""
    return f"{rate * 8e-9:g} Gb/s"


# ------------------------------------------------------------------ fabrics


def _cluster(asked: System, family: str) -> Fabric:
    """Return the fabric of servers that a topology connects."""
    parameters = inspect.signature(registry.get("topology", family)).parameters
    more = {"rate": asked.rate, **asked.options}
    in_rails = "expand" in parameters
    is_plain = asked.nics == asked.gpus == asked.domain and asked.shape == _SWITCH
    if in_rails and is_plain:
        return topologies.build(
            family,
            servers=asked.servers,
            gpus=asked.gpus,
            rails=asked.gpus,
            nvlink=_link_rate(asked),
            pcie=_host_rate(asked),
            **more,
        )

    if in_rails:
        network = topologies.build(
            family, servers=asked.servers, gpus=asked.nics, rails=asked.nics, expand=False, **more
        )
    else:
        network = topologies.build(family, hosts=asked.servers * asked.nics, **more)
    return topologies.compose(_box(asked), network, asked.ranks // asked.joined)


def _link_rate(asked: System) -> float:
    """Return the rate of all links of a GPU in its domain together [B/s]."""
    return link_rate(str(asked.row["scale_up"]), str(asked.row["accelerator"]))


def _host_rate(asked: System) -> float:
    """Return the rate of the PCIe link of a GPU, and of a NIC [B/s]; a faster NIC does not raise it."""
    if asked.shape == _PCIE:
        return _link_rate(asked)
    usual = _usual(asked.gpu)
    if not usual:
        link = host_link(str(asked.row["scale_up"]), str(asked.row["accelerator"]))
    elif usual["topology"]:
        link = SERVERS[usual["topology"]]["pcie"]
    else:
        link = _FASTEST_HOST_LINK
    return catalog.value("links", link, "bandwidth_after_encoding")


def _box(asked: System) -> Fabric:
    """Return a scale-up domain with its NICs.

    Where switches join the GPUs, one node stands for all of them, as in ``rail_optimised``. Otherwise GPUs have links
    to each other, and those that no link joins meet over PCIe. A server without NICs that the catalog has, with links
    between its GPUs, is that of the catalog, with its CPUs.
    """
    if _is_of_catalog(asked):
        return topologies.build(_usual(asked.gpu)["topology"])
    count = asked.joined
    server, local = np.divmod(np.arange(count), asked.gpus)
    direct = np.zeros((count, count)) if asked.shape == _SWITCH else _direct_rates(asked)
    is_apart = asked.shape != _SWITCH and bool(np.any((direct == 0) & ~np.eye(count, dtype=bool)))
    kinds = ["gpu"]
    if asked.shape == _SWITCH:
        kinds.append("nvlink")
        if 0 < asked.nics < asked.gpus:
            kinds.append("port")
    if asked.nics or is_apart:
        kinds.append("pcie")
    if asked.nics:
        kinds.append("nic")
        if is_apart and asked.nics > 1:
            kinds.append("cpu")
    b = FabricBuilder(kinds, ("server", "local"))
    gpu = b.add_nodes("gpu", count, tier=0, transit=False, server=server, local=local)
    if asked.shape == _SWITCH:
        hub = b.add_nodes("nvlink", 1, tier=1, transit=True, server=np.zeros(1, np.int64))
        to_hub = np.broadcast_to(hub, gpu.shape)
        b.add_cables(gpu, to_hub, capacity=_link_rate(asked), medium="nvlink")
    _add_direct(b, asked, gpu, direct)
    if asked.nics:
        _add_nics(b, asked, gpu, is_apart=is_apart)
    elif is_apart:
        meeting = b.add_nodes("pcie", 1, tier=1, transit=True, server=np.zeros(1, np.int64))
        to_meeting = np.broadcast_to(meeting, gpu.shape)
        b.add_cables(gpu, to_meeting, capacity=_host_rate(asked), medium="pcie")
    return b.build("server", {}, endpoint=gpu, rail=local, server=server)


def _is_of_catalog(asked: System) -> bool:
    """Return whether a system is one server of the catalog without NICs, with its own links between the GPUs."""
    usual = _usual(asked.gpu)
    if asked.nics or asked.shape not in _WIRED or not usual.get("topology"):
        return False
    kind = str(asked.row["scale_up"]).partition("-")[0]
    is_usual = _shape(usual["scale_up"], usual) == asked.shape
    same_links = usual["scale_up"].partition("-")[0] == kind
    return is_usual and same_links and asked.gpus == int(usual["domain"])


def _direct_rates(asked: System) -> Floats:
    """Return the rate of the links between each two GPUs of a server, (gpus, gpus) [B/s]."""
    g = asked.gpus
    rates = np.zeros((g, g))
    if asked.shape == _MESH:
        rates[:] = _link_rate(asked) / max(
            1, asked.domain - 1
        )  # a link to each other GPU of the board
    elif asked.shape == _CUBE:
        table = links_between_gpus(_CUBE_SERVER)
        rates = table[:g, :g] / table[0].sum() * _link_rate(asked)
    elif asked.shape == _PAIR:
        one = np.arange(0, g - 1, 2)
        rates[one, one + 1] = rates[one + 1, one] = _link_rate(asked)
    np.fill_diagonal(rates, 0.0)
    return rates


def _add_direct(b: FabricBuilder, asked: System, gpu: Ints, rates: Floats) -> None:
    """Add the links between GPUs, of these rates, (gpus, gpus) [B/s]."""
    one, other = np.nonzero(np.triu(rates))
    if not one.size:
        return
    kind = str(asked.row["scale_up"]).partition("-")[0]
    rate = rates[one, other]
    ports = np.ones(rate.size, dtype=np.int64)
    if asked.shape in _WIRED and kind in catalog.links:
        each = catalog.value("links", kind, "bandwidth_per_link")
        ports = np.maximum(np.rint(rate / each), 1).astype(np.int64)
    medium = "xgmi" if kind.startswith("xgmi") else "nvlink"
    b.add_cables(gpu[one], gpu[other], capacity=rate, ports=ports, medium=medium)


def _add_nics(b: FabricBuilder, asked: System, gpu: Ints, *, is_apart: bool) -> None:
    """Add the NICs of all servers of a domain, with PCIe switches, and plug the GPUs into the switches.

    There is a switch for each NIC, which neighbouring GPUs share, or for each GPU if there are more NICs. Where GPUs
    share one and also meet at NVLink switches, each has a node of its own (kind ``port``) before it, which makes the
    path over PCIe the longer one. If GPUs meet over PCIe alone (``is_apart``), a processor joins the switches at the
    rate of all GPUs below; the link between two processors is left out.
    """
    host = _host_rate(asked)
    g = asked.gpus
    q = asked.nics
    servers = gpu.size // g
    each = min(g, q)  # switches of a server
    has_ports = asked.shape == _SWITCH and each < g
    tier = 2 if has_ports else 1
    server, local = np.divmod(np.arange(gpu.size), g)
    of_switch, place = np.divmod(np.arange(servers * each), each)
    switch = b.add_nodes(
        "pcie", of_switch.size, tier=tier, transit=True, server=of_switch, local=place
    )
    lower = gpu
    if has_ports:
        lower = b.add_nodes("port", gpu.size, tier=1, transit=True, server=server, local=local)
        b.add_cables(gpu, lower, capacity=host, medium="pcie")
    above = server * each + local * each // g  # switch of each GPU
    b.add_cables(lower, switch[above], capacity=host, medium="pcie")

    of_nic, number = np.divmod(np.arange(servers * q), q)
    nic = b.add_nodes("nic", of_nic.size, tier=tier + 1, transit=True, server=of_nic, local=number)
    first = np.arange(each) * q // each  # first NIC of each switch
    below = of_nic * each + np.searchsorted(first, number, side="right") - 1
    b.add_cables(switch[below], nic, capacity=host, medium="pcie")
    if is_apart and each > 1:
        processor = b.add_nodes(
            "cpu", servers, tier=tier + 1, transit=True, server=np.arange(servers)
        )
        lanes = np.bincount(above, minlength=switch.size)  # GPUs of each switch
        b.add_cables(switch, processor[of_switch], capacity=host * lanes, medium="pcie")
