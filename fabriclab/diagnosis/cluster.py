"""The cluster that logs describe: its GPUs, servers, NICs and their rate, with the line that says each."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab.core import ReadOnly
from fabriclab.diagnosis.case import Case, read_case
from fabriclab.errors import FileFormat
from fabriclab.importers import Line
from fabriclab.systems import System, system

__all__ = ["Fact", "facts_of", "system_from_logs", "system_of"]

_TRANSPORTS = {"IB": "infiniband", "RoCE": "roce"}
# Sockets are missing: a log that uses them may be that of a cluster whose RDMA did not come up.
_NETWORKS = {"aws libfabric": "efa"}
_P4D = 100.0  # [Gb/s] of each of four; source: AWS, EC2 instance types, P4
_GPU = re.compile(
    r"\b(V100|A100|H100|H200|B200|B300|GB200|GB300|GH200|MI300X|MI325X|MI355X)\b", re.IGNORECASE
)
_NEVER_A_BOARD = re.compile(r"PCIe|NVL\b|L40|RTX", re.IGNORECASE)
_NEAR = ("PIX", "PXB")
# Words of the lines in which tools name GPUs: nvidia-smi -L, nvidia-smi -q, rocm-smi.
_GPU_WORDS = ("gpu 0:", "product name", "card series")
# What is needed, and which tools say it.
_SOURCES = {
    "gpu": "the GPU (nccl-tests prints it for each rank; so do nvidia-smi -L and lspci -vv)",
    "servers": "the number of servers (nccl-tests, or a log with NCCL_DEBUG=INFO)",
}


class Fact(NamedTuple):
    """An argument of `fabriclab.system`, its value, the line that says it, and what that line is, in words."""

    name: str
    value: Any
    where: Line | None
    why: str

    def __str__(self) -> str:
        """Return where the value comes from."""
        return f"{self.why}, {self.where!s:.160}" if self.where else self.why


def facts_of(case: Case) -> dict[str, Fact]:
    """Return what files say about the cluster, as arguments of `fabriclab.system`; what they do not say is missing.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    facts: dict[str, Fact] = {}
    for fact in (*_gpus(case), *_servers(case), *_nics(case), *_rates(case), *_transports(case)):
        facts.setdefault(fact.name, fact)  # the first that says it counts
    return facts


def _first(case: Case, word: str) -> Line | None:
    """Return the first line that holds a word."""
    return next(case.lines_with(word.lower()), None)


def _gpus(case: Case) -> Iterator[Fact]:
    """Yield the GPU, as far as it is one whose usual server is known."""
    for table in case.tables:
        found = _GPU.search(table.gpu)
        if found and not _NEVER_A_BOARD.search(table.gpu):
            yield Fact("gpu", found[1].upper(), _first(case, table.gpu), "ranks of the test")
            break
    for word in _GPU_WORDS:
        line = _first(case, word)
        found = _GPU.search(line.text) if line else None
        if line and found and not _NEVER_A_BOARD.search(line.text):
            yield Fact("gpu", found[1].upper(), line, "name of the GPU")
    for device in case.pcie:
        found = _GPU.search(device.title)
        if found and not _NEVER_A_BOARD.search(device.title):
            yield Fact("gpu", found[1].upper(), _first(case, device.title), "name of a PCIe device")
            break


def _servers(case: Case) -> Iterator[Fact]:
    """Yield the number of servers, and of GPUs in each."""
    for table in case.tables:
        per_host = Counter(table.hosts)
        if per_host:
            where = _first(case, f" on {table.hosts[0]}") or _first(case, table.hosts[0])
            yield Fact("servers", len(per_host), where, "hosts of the ranks of the test")
            yield Fact("gpus", max(per_host.values()), where, "ranks of a host of the test")
            break
    shape = _first(case, "nnodes")
    if case.log.nodes:
        yield Fact("servers", case.log.nodes, shape, "nNodes in NCCL's log")
    if case.log.local_ranks:
        yield Fact("gpus", case.log.local_ranks, shape, "localRanks in NCCL's log")
    for topology in case.topologies.values():
        gpus = [name for name in topology.names if name.startswith("GPU")]
        yield Fact("gpus", len(gpus), _first(case, "gpu0"), "GPUs of nvidia-smi topo -m")
    for xml in case.xml:
        if xml.gpus:
            yield Fact("gpus", len(xml.gpus), _first(case, "<gpu"), "GPUs of NCCL's topology")
    if case.log.ranks and len(case.log.hosts) > 1 and case.log.ranks % len(case.log.hosts) == 0:
        line = case.log.messages[0].line
        hosts = len(case.log.hosts)
        yield Fact("servers", hosts, line, "hosts that write into NCCL's log")
        yield Fact("gpus", case.log.ranks // hosts, line, "ranks of each host of NCCL's log")


def _nics(case: Case) -> Iterator[Fact]:
    """Yield the number of NICs of a server."""
    if case.log.devices:
        host = max(case.log.devices, key=lambda each: len(case.log.devices[each]))
        number = len(case.log.devices[host])
        if number:
            yield Fact("nics", number, case.log.device_lines[host], "devices that NCCL uses")
    outside = [each for each in case.log.outside_channels if each.network != "Socket"]
    for _, (number, line) in case.log.plugin_nics.items():
        yield Fact("nics", number, line, "NICs that the plugin found")
    if outside and any(name in each.network.lower() for each in outside for name in _NETWORKS):
        number = len({each.device for each in outside})
        yield Fact("nics", number, outside[0].line, "NICs of the channels between servers")
    most: list[Any] = []
    for ports in case.ports.values():
        up = [port for port in case.ports_of_job(ports) if port.up]
        most = max(most, up, key=len)
    if most:
        devices = len({port.device for port in most})
        yield Fact("nics", devices, most[0].line, "RDMA devices with an active port")
    for each in case.nic_rates:
        if each.nics:
            yield Fact("nics", each.nics, each.line, "network of the instance")
    for xml in case.xml:
        if xml.nets:
            yield Fact("nics", len(xml.nets), xml.nets[0].line, "NICs of NCCL's topology")
    for topology in case.topologies.values():
        # NICs that are near no GPU are those for storage or management.
        near = set()
        for gpu in topology.names:
            if gpu.startswith("GPU"):
                near |= {n for n in topology.nearest(gpu) if topology.relation(gpu, n) in _NEAR}
        if near:
            why = "NICs that share a PCIe switch with a GPU in nvidia-smi topo -m"
            yield Fact("nics", len(near), _first(case, "gpu0"), why)


def _rates(case: Case) -> Iterator[Fact]:
    """Yield the rate of a NIC: the fastest, since a slower one is a fault, not the order."""
    found: list[tuple[float, Line, str]] = []
    instance = next(case.kinds_of_lines_with("running on p4d"), None)
    if instance:
        found.append((_P4D, instance, "instance that the plugin names"))
    for ports in case.ports.values():
        used = [port for port in case.ports_of_job(ports) if port.up]
        found += [(port.rate, port.line, "rate of a port") for port in used]
    found += [(each.rate, each.line, "rate of a port") for each in case.nic_rates]
    for xml in case.xml:
        found += [(net.speed / 1000, net.line, "speed in NCCL's topology") for net in xml.nets]
    rate, line, why = max(found, key=lambda each: each[0], default=(0.0, None, ""))
    if rate:
        yield Fact("rate", f"{rate:g} Gb/s", line, why)


def _transports(case: Case) -> Iterator[Fact]:
    """Yield what carries the traffic between servers."""
    for host, devices in case.log.devices.items():
        layers = {device.layer for device in devices.values()} & set(_TRANSPORTS)
        if layers:
            name = _TRANSPORTS[min(layers)]
            yield Fact("transport", name, case.log.device_lines[host], "devices that NCCL uses")
    for network, line in case.log.networks.items():
        for word, name in _NETWORKS.items():
            if word in network.lower():
                yield Fact("transport", name, line, "network that NCCL uses")


def system_of(case: Case) -> System | None:
    """Return the cluster that the files describe, or None if they do not say enough.

    Needed are the GPU and the number of servers; what else they do not say is that of the usual server of the GPU.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    facts = facts_of(case)
    if not {"gpu", "servers", "gpus"} <= set(facts):
        return None
    least = ("gpu", "servers", "gpus")
    most = least if facts["servers"].value == 1 else (*least, "nics", "rate", "transport")
    for names in (most, least):
        try:
            return system(**{name: facts[name].value for name in names if name in facts})
        except (ValueError, TypeError, KeyError):
            continue
    return None


def system_from_logs(*files: str | os.PathLike[str], **given: Any) -> System:
    """Return the cluster that logs describe, for `fabriclab.estimate`, `fabriclab.simulate` and its bill.

    Each part is read from the first of these that says it: ranks of nccl-tests, NCCL's log, states of ports, the
    matrix of nvidia-smi topo -m, NCCL's topology. That a run used sockets is not taken for the cluster: it may be the
    fault. What no file says is that of the usual server of the GPU. The network between servers is never in a log, so
    it is assumed to be rail-optimised. ``origins`` of the result says of each part where it comes from, and
    ``print(result.draw())`` shows it.

    Parameters
    ----------
    *files : path or str
        Files, or texts with line ends, as for `fabriclab.doctor`.
    **given
        Arguments of `fabriclab.system` that you know better, such as ``servers=32`` or ``fabric="leaf_spine"``.

    Returns
    -------
    System
        The cluster.

    Raises
    ------
    ValueError
        If no file is given, or the parts do not fit together; the message says where each comes from.
    FileFormat
        If a file does not exist, or the files name no GPU, or no number of servers.

    Examples
    --------
    >>> bench = '''#  Rank  0 Group  0 Pid 71 on node1 device  0 [0x1b] NVIDIA H100 80GB HBM3
    ... #  Rank  1 Group  0 Pid 72 on node2 device  0 [0x1b] NVIDIA H100 80GB HBM3
    ... # size count type redop root time algbw busbw #wrong
    ... 1048576 262144 float sum -1 100.0 10.49 10.49 0'''
    >>> cluster = system_from_logs(bench, nics=1)
    >>> cluster
    <System: 2 servers x 1 H100 (2 ranks), 1 NICs of 400 Gb/s each, InfiniBand, rail_optimised;
     assumed: rate, transport, fabric>
    >>> cluster.origins["servers"]
    'hosts of the ranks of the test, text:1: #  Rank  0 Group  0 Pid 71 on node1 device  0 [0x1b] NVIDIA H100 80GB HBM3'
    """
    if not files:
        raise ValueError(
            'system_from_logs needs at least one file or text, such as fabriclab.system_from_logs("nccl.log")'
        )
    facts = facts_of(read_case(files))
    for name, value in given.items():
        facts[name] = Fact(name, value, None, "given")
    missing = [words for name, words in _SOURCES.items() if name not in facts]
    if missing:
        raise FileFormat(
            f"the files must say more about the cluster: they lack {' and '.join(missing)}; add such a file, "
            'or give it, such as system_from_logs(..., gpu="H100", servers=32)'
        )
    try:
        made = system(**{name: fact.value for name, fact in facts.items()})
    except (ValueError, TypeError, KeyError) as error:
        known = "; ".join(f"{name}={fact.value!r} ({fact})" for name, fact in facts.items())
        message = error.args[0] if error.args else error
        raise ValueError(f"the parts do not make a system: {message}. They are {known}") from None
    origins = {name: str(fact) for name, fact in facts.items()}
    assumed = ["gpus", "nics", "rate", "transport"] if made.nics else ["gpus"]
    for name in assumed:
        origins.setdefault(name, f"assumed: that of the usual server with {made.gpu}")
    if made.nics:
        origins.setdefault("fabric", "assumed: no log says how servers are connected")
    return replace(made, origins=ReadOnly(origins))
