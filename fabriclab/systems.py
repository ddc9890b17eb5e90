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
from fabriclab.core import Fabric, FabricBuilder, Ints, ReadOnly, as_html
from fabriclab.topologies.servers import SERVERS, links_between_gpus
from fabriclab.tuner.system import check_nics, read

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
        """Number of GPUs in a scale-up domain, which may be a rack of several servers."""
        return int(self.row["scale_up_domain_gpus"] or self.gpus)

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
        row = {**self.row, "sweep_id": "", "system": f"{self.name}, changed"}
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
        read(row)  # refuses what cannot be
        network = changes.get("fabric", self.network)
        options = {name: value for name, value in changes.items() if name not in _COLUMNS}
        options.pop("fabric", None)
        _check_network(network, options, row["ranks"])
        return System(
            name="",
            gpu=self.gpu,
            servers=row["nodes"],
            gpus=row["gpus_per_node"],
            nics=row["nics_per_node"] or 0,
            rate=units.rate(f"{row['nic_gbps'] or 0} Gb/s", "rate", may_be_zero=True),
            network=network,
            options=ReadOnly(options),
            row=ReadOnly(row),
        )

    def _facts(self) -> list[tuple[str, str]]:
        """Return what the system consists of, as a table of two columns."""
        row = self.row
        network = self.network if isinstance(self.network, str) else repr(self.network)
        facts = [
            ("servers", f"{self.servers:,}"),
            ("GPUs", f"{self.ranks:,} {self.gpu}, {self.gpus} in each server"),
            ("scale-up", f"{row['scale_up']}, {self.domain} GPUs in a domain"),
        ]
        if self.nics:
            transport = _TRANSPORT_NAMES.get(row["transport"], row["transport"])
            facts.append(("NICs", f"{self.nics} of {_gbps(self.rate)} in each server, {transport}"))
            facts.append(("network", network))
        for name, value in self.options.items():
            facts.append((name, str(value)))
        return facts

    def __repr__(self) -> str:
        """Show what the system consists of."""
        title = f"{self.name}: " if self.name else ""
        many = "server" if self.servers == 1 else "servers"
        text = f"<System: {title}{self.servers:,} {many} x {self.gpus} {self.gpu} ({self.ranks:,} ranks)"
        if self.nics:
            transport = _TRANSPORT_NAMES.get(self.row["transport"], self.row["transport"])
            network = self.network if isinstance(self.network, str) else "a fabric of its own"
            text += f", {self.nics} NICs of {_gbps(self.rate)} each, {transport}, {network}"
        return text + ">"

    def _repr_html_(self) -> str:
        return as_html(self._facts(), repr(self)[1:-1])


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
        Such as ``"H100"``, ``"MI300X"`` or ``"GB200"``. Others need ``gpus``, ``scale_up`` and, in more than one
        server, ``nics`` and ``rate``.
    servers, gpus, nics : int
        Number of servers, and GPUs and NICs of each. >= 1, nics >= 0
    rate : float or str, optional
        Rate of a NIC. [B/s]
    fabric : str or Fabric
        Name of a topology that connects servers or hosts, or a fabric that was built before.
    transport : str, optional
        InfiniBand, RoCE, Slingshot, EFA or TCP.
    scale_up : str, optional
        Links between the GPUs of a server, as in the published table, such as ``"nvlink4-nvswitch"`` or ``"pcie5"``.
    domain : int, optional
        GPUs in a scale-up domain, if that is more than a server.
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
        given = [gpu, servers, gpus, nics, rate, transport, scale_up, domain, ranks, *options]
        if any(given) or fabric != _DEFAULT_FABRIC:
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
    usual = _usual(gpu)
    if not usual and not (gpus and scale_up):
        raise ValueError(
            f"{near(gpu, _gpu_rows(), 'the list of GPUs with known servers')}; any other needs gpus=8 and scale_up, "
            'such as "nvlink4-nvswitch" or "pcie5"'
        )
    n = units.count(_needed(servers, "servers", "servers=32"), "servers")
    per_server = units.count(_of_server(gpus, "gpus", usual, "gpus"), "gpus")
    links = scale_up or usual["scale_up"]
    _check_ranks(ranks, n, per_server)
    together = _domain(domain, usual, per_server, n)
    joined = n * per_server > together  # whether there are several domains

    nics_each = 0
    speed = 0.0
    if joined or nics or rate:
        nics_each = units.count(_of_server(nics, "nics", usual, "scaleout_nics"), "nics", 0)
        speed = _nic_rate(rate, usual)
        check_nics(per_server, nics_each, speed)
    if joined and not nics_each:
        raise ValueError(f"nics must be >= 1 for {n} servers, got 0")
    carrier = _transport(transport, usual) if nics_each else "none"
    _check_network(fabric, options, n * per_server)

    accelerator = usual.get("accelerator", "")
    row = {
        "sweep_id": "",
        "system": f"{n} x {per_server} {gpu}",
        "accelerator": catalog.accelerators[accelerator].name if accelerator else gpu,
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
    plain = "".join(gpu.upper().split())
    for name, row in _gpu_rows().items():
        if plain == name or plain.startswith((f"{name}-", f"{name}SXM")):
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


def _domain(domain: int | None, usual: Mapping[str, str], gpus: int, servers: int) -> int:
    """Return the number of GPUs in a scale-up domain: a server, or a rack of whole servers."""
    largest = int(usual["domain"]) if usual else gpus
    if domain is None:
        # A rack that is not full is one domain; a server with fewer GPUs than usual is a domain of its own.
        is_rack = largest > _usual_gpus(usual, gpus)
        return min(largest, servers * gpus) if is_rack else gpus
    n = units.count(domain, "domain")
    if n % gpus:
        raise ValueError(f"domain must be a multiple of {gpus} (GPUs of a server), got {domain}")
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
    plain = asked.lower().replace(" ", "").replace("-", "")
    if plain not in _TRANSPORTS:
        raise ValueError(
            near(asked, [*_TRANSPORT_NAMES.values(), "none"], "the list of transports")
        )
    return _TRANSPORTS[plain]


def _check_network(network: str | Fabric, options: Mapping[str, Any], ranks: int) -> None:
    """Refuse a fabric of another size, an unknown topology, one without servers or hosts, and unknown arguments."""
    if isinstance(network, Fabric):
        if options:
            raise TypeError(f"a fabric that is built takes no arguments, got {', '.join(options)}")
        if network.n_ranks != ranks:
            raise ValueError(
                f"fabric must have {ranks} ranks, one for each GPU, got {network.n_ranks}"
            )
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
            raise TypeError(near(name, set(known) - ours, f"system() with fabric={network!r}"))


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
    own_servers = in_rails and asked.nics == asked.gpus == asked.domain and _is_switched(asked)
    if own_servers:
        nvlink, pcie = _links(asked)
        return topologies.build(
            family,
            servers=asked.servers,
            gpus=asked.gpus,
            rails=asked.gpus,
            nvlink=nvlink,
            pcie=pcie,
            **more,
        )

    if in_rails:
        network = topologies.build(
            family, servers=asked.servers, gpus=asked.nics, rails=asked.nics, expand=False, **more
        )
    else:
        network = topologies.build(family, hosts=asked.servers * asked.nics, **more)
    return topologies.compose(_box(asked), network, asked.ranks // min(asked.domain, asked.ranks))


def _is_switched(asked: System) -> bool:
    """Return whether switch chips join the GPUs of a domain."""
    return "switch" in str(asked.row["scale_up"])


def _links(asked: System) -> tuple[float, float]:
    """Return the rates of a GPU's links in its domain and of its link to the NICs [B/s]."""
    usual = _usual(asked.gpu)
    own = str(asked.row["scale_up"]).partition("-")[0]
    if usual.get("accelerator"):
        inside = catalog.value("accelerators", usual["accelerator"], "scaleup_bandwidth")
    else:
        facts = catalog.links[own]
        inside = (
            facts[
                "bandwidth_per_gpu" if "bandwidth_per_gpu" in facts else "bandwidth_after_encoding"
            ].si
            or 0.0
        )
    topology = usual.get("topology", "")
    pcie = SERVERS[topology]["pcie"] if topology else _FASTEST_HOST_LINK
    host = catalog.value("links", pcie, "bandwidth_after_encoding")
    return inside, max(host, asked.rate)


def _box(asked: System) -> Fabric:
    """Return a scale-up domain with its NICs.

    Where switches join the GPUs, one node stands for all of them, as in ``rail_optimised``; otherwise GPUs have the
    links between each other that their server has. Each NIC has a PCIe switch of its own. A server without NICs whose
    GPUs are joined by links alone is that of the catalog, with its CPUs.
    """
    domain = min(asked.domain, asked.ranks)
    topology = "" if _is_switched(asked) else _usual(asked.gpu).get("topology", "")
    is_whole = bool(topology) and domain == len(links_between_gpus(SERVERS[topology]["facts"]))
    if is_whole and not asked.nics:
        return topologies.build(topology)

    kinds = ["gpu"]
    if not is_whole:
        kinds.append("nvlink")
    if asked.nics:
        kinds += ["pcie", "nic"]
    b = FabricBuilder(kinds, ("server", "local"))
    server, local = np.divmod(np.arange(domain), asked.gpus)
    gpu = b.add_nodes("gpu", domain, tier=0, transit=False, server=server, local=local)
    if is_whole:
        _add_mesh(b, gpu, topology)
    else:
        inside, _ = _links(asked)
        hub = b.add_nodes("nvlink", 1, tier=1, transit=True, server=np.zeros(1, np.int64))
        b.add_cables(gpu, np.broadcast_to(hub, gpu.shape), capacity=inside, medium="nvlink")
    if asked.nics:
        _add_nics(b, asked, gpu)
    return b.build("server", {}, endpoint=gpu, rail=local, server=server)


def _add_mesh(b: FabricBuilder, gpu: Ints, topology: str) -> None:
    """Add the direct links between the GPUs of a server of the catalog."""
    parts = SERVERS[topology]
    each = catalog.value("links", parts["link"], "bandwidth_per_link")
    links = links_between_gpus(parts["facts"])
    one, other = np.nonzero(np.triu(links))
    count = links[one, other]
    medium = "xgmi" if "xgmi" in parts["link"] else "nvlink"
    b.add_cables(gpu[one], gpu[other], capacity=each * count, ports=count, medium=medium)


def _add_nics(b: FabricBuilder, asked: System, gpu: Ints) -> None:
    """Add the NICs of all servers of a domain, each with a PCIe switch, and plug the GPUs into the switches."""
    _, host = _links(asked)
    servers = gpu.size // asked.gpus
    server, local = np.divmod(np.arange(gpu.size), asked.gpus)
    of_server, number = np.divmod(np.arange(servers * asked.nics), asked.nics)
    switch = b.add_nodes(
        "pcie", of_server.size, tier=1, transit=True, server=of_server, local=number
    )
    nic = b.add_nodes("nic", of_server.size, tier=2, transit=True, server=of_server, local=number)
    b.add_cables(switch, nic, capacity=max(host, asked.rate), medium="pcie")

    # Each GPU is plugged into the switch of its NIC; a NIC without a GPU of its own shares that of a neighbour.
    above = server * asked.nics + local * asked.nics // asked.gpus
    b.add_cables(gpu, switch[above], capacity=host, medium="pcie")
    is_served = np.zeros(switch.size, dtype=bool)
    is_served[above] = True
    spare = np.flatnonzero(~is_served)
    owner = of_server[spare] * asked.gpus + number[spare] * asked.gpus // asked.nics
    b.add_cables(gpu[owner], switch[spare], capacity=host, medium="pcie")
