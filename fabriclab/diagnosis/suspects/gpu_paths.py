"""Paths between GPUs, and between GPUs and NICs: GPUDirect, peer access, access control."""

import re
from collections.abc import Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.nccl_log import Channel
from fabriclab.diagnosis.suspects.addresses import REFUSED
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.gpudirect.tools import CLASSES
from fabriclab.importers.lines import Line
from fabriclab.registry import register

_BOARD = re.compile(r"SXM|HGX|MI2\d\d|MI3\d\d|NVL|B200|B300|GB200|GH200", re.IGNORECASE)
_FAR = ("SYS", "NODE")
_BY_HOST = ("SHM", "direct shared memory")  # the latter up to 2.8


@register("suspect", "GPUDirect of each NIC")
def gpudirect_of_each_nic(case: Case) -> Iterator[Suspicion]:
    """Suspect that GPUDirect RDMA is off if it is disabled for all NICs, or no channel uses it.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    states = case.log.gdr_of_nic
    outside = [channel for channel in case.log.outside_channels if channel.network != "Socket"]
    used = any(channel.gdr for channel in outside)
    peermem = [module for module in case.modules if "peermem" in module.name]
    if states and not any(on for on, _, _ in states) and not used:
        why = "it is off for every NIC"
        if peermem and not any("ib_core" in module.users for module in case.modules):
            why += ", though nvidia_peermem is loaded"
        yield Suspicion("gdr_off", 0.92, states[0][2], why)
    elif outside and not used and not case.log.distances and not states:
        why = "no channel between servers has GDRDMA"
        listed = _modules_without_peer_memory(case)
        if listed:
            why += f", and {listed.file} lists the kernel's modules without one for peer memory"
        yield Suspicion("gdr_off", 0.8 if listed else 0.45, outside[0].line, why)


def _modules_without_peer_memory(case: Case) -> Line | None:
    """Return a line of a list of modules that has the GPU's and none for peer memory; None if none is such a list."""
    if any("peer" in module.name for module in case.modules):
        return None
    if any("grep" in line.text and "peer" not in line.text for line in case.lines_with("lsmod")):
        return None  # it was not asked for
    if next(case.lines_with("dma-buf is available"), None):
        return None  # it is not needed
    return next((module.line for module in case.modules if module.name == "nvidia"), None)


@register("suspect", "distance of GPU and NIC")
def distance_of_gpu_and_nic(case: Case) -> Iterator[Suspicion]:
    """Suspect the limit of distance for GPUs whose channels do without GPUDirect because of it.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    refused = [pair for pair in case.log.distances if not pair.enabled]
    outside = case.log.outside_channels
    if not refused:
        return
    without = [channel for channel in outside if not channel.gdr]
    if outside and not without:
        return  # the pairs that are used have it
    some = any(pair.enabled for pair in case.log.distances) or any(c.gdr for c in outside)
    pair = refused[0]
    why = f"distance {pair.distance} is over the limit of {pair.limit}"
    yield Suspicion("gdr_distance", 0.9 if some or without else 0.75, pair.line, why)


@register("suspect", "nearest NIC")
def nearest_nic(case: Case) -> Iterator[Suspicion]:
    """Suspect the place of a NIC if the one nearest to a GPU is farther than that of other GPUs, or behind a socket.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for file, topology in case.topologies.items():
        nearest = {}
        for name in topology.names:
            if name.startswith("GPU") and topology.nearest(name):
                kind = topology.relation(name, topology.nearest(name)[0])
                nearest[name] = kind.rstrip("0123456789")
        far = [name for name, kind in nearest.items() if kind in _FAR]
        near = [name for name, kind in nearest.items() if kind not in _FAR]
        if not far:
            continue
        row = next(
            (
                line
                for source in case.sources
                if source.name == file
                for line in source.lines
                if line.text.split()[:1] == [far[0]] and not _is_heading(line)
            ),
            None,
        )
        worst = max(nearest.values(), key=CLASSES.index)
        sure = 0.8 if near else 0.5
        yield Suspicion("nic_far", sure, row, f"{', '.join(far)}: nearest NIC is {worst}")


def _is_heading(line: Line) -> bool:
    """Return whether a line that begins with a GPU is the heading of a matrix: it holds no class of a path."""
    words = line.text.split()[1:]
    return not any(word.rstrip("0123456789") in CLASSES for word in words)


@register("suspect", "peer memory that is refused")
def peer_memory_that_is_refused(case: Case) -> Iterator[Suspicion]:
    """Suspect access control if the NIC is refused the GPU's memory, while memory of the host passes.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    uses = any(channel.gdr for channel in case.log.outside_channels)
    for each in case.completions:
        if each.status in REFUSED:
            host_passes = any(row.rate > 0 for row in case.perftest)
            sure = 0.88 if host_passes else 0.72
            why = "the NIC was refused memory of a GPU"
            if not uses:
                sure, why = 0.4, "a NIC was refused memory"
            yield Suspicion("acs", sure, each.line, why)
            yield Suspicion("iommu", min(0.5, sure), each.line)
            return


@register("suspect", "results that are wrong")
def results_that_are_wrong(case: Case) -> Iterator[Suspicion]:
    """Suspect what stands between GPUs if a test ran to its end with wrong results.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for table in case.measured:
        if table.wrong and not case.several_servers:
            why = f"{table.wrong} rows have wrong results"
            yield Suspicion("iommu", 0.5, table.line, why)
            yield Suspicion("acs", 0.48, table.line, why)
            return


@register("suspect", "GPUDirect of each host")
def gpudirect_of_each_host(case: Case) -> Iterator[Suspicion]:
    """Suspect that GPUDirect RDMA is off on a host none of whose channels has it, while those of another have.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    hosts: dict[str, list[Channel]] = {}
    for channel in case.log.outside_channels:
        if channel.network != "Socket":
            hosts.setdefault(channel.host, []).append(channel)
    with_it = [host for host, channels in hosts.items() if any(c.gdr for c in channels)]
    far = any(not pair.enabled for pair in case.log.distances)
    for host, channels in hosts.items():
        if with_it and host not in with_it and not far:
            why = f"no channel of {host} has GDRDMA, those of {with_it[0]} have"
            yield Suspicion("gdr_off", 0.88, channels[0].line, why)
            return


@register("suspect", "channels through shared memory")
def channels_through_shared_memory(case: Case) -> Iterator[Suspicion]:
    """Suspect that peer access is off if all channels of a board with direct links go through shared memory.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    inside = case.log.inside_channels
    if not inside or not all(channel.via.startswith(_BY_HOST) for channel in inside):
        return
    gpus = " ".join(table.gpu for table in case.tables)
    linked = any("NV" in cell for t in case.topologies.values() for row in t.cells for cell in row)
    if _BOARD.search(gpus) or linked:
        yield Suspicion("p2p_disabled", 0.85, inside[0].line, "these GPUs have links of their own")
    else:
        yield Suspicion("p2p_disabled", 0.3, inside[0].line, "normal for cards without peer access")


@register("suspect", "a run that hangs with the IOMMU")
def a_run_that_hangs_with_the_iommu(case: Case) -> Iterator[Suspicion]:
    """Suspect the IOMMU more if RCCL warns of it and nothing was measured.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    line = next((line for line in case.lines_with("iommu=pt") if "issing" in line.text), None)
    if line and not case.tables and not case.progress:
        yield Suspicion("iommu", 0.6, line, "and the run prints no result")


@register("suspect", "a table without a row")
def a_table_without_a_row(case: Case) -> Iterator[Suspicion]:
    """Suspect the IOMMU if a test starts and never prints a row, and its GPUs write into each other's memory.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    direct = [channel for channel in case.log.inside_channels if channel.via.startswith("P2P")]
    measured = {table.name for table in case.measured}
    waits = [line for line in case.waits if line.file not in measured]
    if not waits or case.failure or not direct:
        return
    hangs = "the run starts and prints no result, with channels from GPU to GPU"
    line = next((fact.line for fact in case.kernel if fact.kind == "command line"), None)
    passes = line is not None and re.search(r"iommu=(?:pt|off)|iommu\.passthrough=1", line.text)
    translated = [fact for fact in case.kernel if fact.kind == "translated"]
    if translated and not passes:
        why = f"the IOMMU translates, and {hangs}"
        yield Suspicion("iommu", 0.75, translated[0].line, why)
    elif not passes and any(fact.kind == "on" for fact in case.kernel):
        where = next(fact.line for fact in case.kernel if fact.kind == "on")
        yield Suspicion("iommu", 0.6, where, f"the IOMMU is on, and {hangs}")
    elif not passes and not any(fact.kind == "passthrough" for fact in case.kernel):
        yield Suspicion("iommu", 0.42, waits[0], hangs)
    yield Suspicion("acs", 0.3, waits[0], hangs)
