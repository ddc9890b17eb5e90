"""All that the files of a run say, read once, for every suspect to look at."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from fabriclab.diagnosis import host_tools, structured
from fabriclab.diagnosis.connections import (
    Completion,
    QueuePair,
    TcpFailure,
    completions,
    queue_pairs,
    tcp_failures,
)
from fabriclab.diagnosis.messages import messages, without_messages
from fabriclab.diagnosis.nccl_log import NcclLog, bare_versions, read_nccl_log
from fabriclab.diagnosis.tables import (
    BandwidthTable,
    NodeFigure,
    Pair,
    PerftestRow,
    headings_without_rows,
    read_bandwidths,
    read_nodes,
    read_pairs,
    read_perftest,
)
from fabriclab.diagnosis.trials import Trial, read_trials
from fabriclab.gpudirect.rdma_ports import scan_ibv_devinfo, scan_rdma_link
from fabriclab.gpudirect.tools import Topology, scan_topo
from fabriclab.importers.lines import Line, Scan, Source, Unread, open_source
from fabriclab.operations.subnet_files import PrintedPort, scan_ibnetdiscover

__all__ = ["Case", "Understood", "read_case"]


# What a library prints as it gives up; other warnings are printed by runs that go on.
_FAILED = re.compile(
    r"completion (?:from peer \S+ )?with (?:error|status)|timed? ?out|closed by remote|connection (?:reset|refused)"
    r"|unhandled|internal check|connecting to address|failed with|cuda failure|aborted",
    re.IGNORECASE,
)


_ENDED_WELL = re.compile(
    r"training (?:finished|complete|done)|application startup complete|(?:run|job|test) (?:finished|complete)",
    re.IGNORECASE,
)
# What vLLM prints while its workers wait for a collective.
_WAITS = ("no available shared memory broadcast block", "no available block found in")
# What programs print as they get on: steps with a loss, requests, an end.
_PROGRESS = re.compile(
    r"\b(?:step|iter(?:ation)?|epoch)\b.{0,60}\b(?:loss|time|lr|s/it|it/s)\b|training (?:finished|complete)"
    r"|application startup complete|throughput: [1-9]|saving checkpoint",
    re.IGNORECASE,
)


# What the library and the tests print at their end. “complete” alone would be no sign: it is also in “Init COMPLETE”.
_LAST_WORDS = (
    "destroy complete",
    "abort complete",
    "avg bus bandwidth",
    "test concluded",
    "elapsed time",
)
# A machine whose GPU shares the memory of the processor, by the name of its GPU or of the machine.
_UNIFIED = ("nvidia gb10", "dgx spark")
# Source: NVIDIA, playbook Connect Multiple DGX Spark through a Switch: each physical port has two interfaces.
_SPARK_DEVICES = ("rocep1s0f", "roceP2p1s0f")


class Understood(NamedTuple):
    """What was understood of a file, in words; ``nothing`` if that is all."""

    file: str
    lines: int
    words: str


@dataclass
class Case:
    """What the files of one run say. `read_case` makes one.

    Parameters
    ----------
    sources : sequence of Source
        Cleaned texts.
    """

    sources: Sequence[Source]
    log: NcclLog = field(default_factory=NcclLog)
    tables: list[BandwidthTable] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    nodes: list[NodeFigure] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    perftest: list[PerftestRow] = field(default_factory=list)
    gids: dict[str, list[host_tools.Gid]] = field(default_factory=dict)  # by file
    interfaces: dict[str, list[host_tools.Interface]] = field(default_factory=dict)  # by file
    mounts: list[host_tools.Mount] = field(default_factory=list)
    modules: list[host_tools.Module] = field(default_factory=list)
    pcie: list[host_tools.PcieDevice] = field(default_factory=list)
    ports: dict[str, list[host_tools.PortState]] = field(default_factory=dict)  # by file
    nic_rates: list[host_tools.NicRate] = field(default_factory=list)
    answers: list[host_tools.RailAnswer] = field(default_factory=list)
    variables: list[host_tools.HostVariable] = field(default_factory=list)
    timeouts: list[host_tools.Timeout] = field(default_factory=list)
    topologies: dict[str, Topology] = field(default_factory=dict)  # by file
    cut_topologies: list[str] = field(default_factory=list)  # files with the upper rows only
    pings: list[host_tools.Ping] = field(default_factory=list)
    switch_ports: list[host_tools.PortMtu] = field(default_factory=list)
    host_mtus: list[host_tools.PortMtu] = field(default_factory=list)
    kernel: list[host_tools.KernelFact] = field(default_factory=list)
    no_rows: list[Line] = field(default_factory=list)  # headings of tables that got no row
    rank_times: list[host_tools.RankTime] = field(default_factory=list)
    ended_ranks: list[host_tools.EndedRank] = field(default_factory=list)
    services: list[host_tools.Service] = field(default_factory=list)
    clocks: list[host_tools.Clock] = field(default_factory=list)
    bindings: list[host_tools.Bound] = field(default_factory=list)
    packages: list[host_tools.Packaged] = field(default_factory=list)
    launched: list[host_tools.Launched] = field(default_factory=list)
    providers: list[host_tools.Provider] = field(default_factory=list)
    xml: list[structured.TopologyXml] = field(default_factory=list)
    security_groups: list[structured.SecurityGroup] = field(default_factory=list)
    links: list[PrintedPort] = field(default_factory=list)
    leaves: dict[str, str] = field(default_factory=dict)  # node -> leaf switch
    understood: list[Understood] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # files of which no reader understood a line
    headless: list[str] = field(default_factory=list)  # with messages of NCCL that lack who speaks

    @cached_property
    def measured(self) -> list[BandwidthTable]:
        """Tables of the run itself, without those that it is held against."""
        return [table for table in self.tables if not table.is_baseline]

    @cached_property
    def baselines(self) -> list[BandwidthTable]:
        """Tables that the run is held against."""
        return [table for table in self.tables if table.is_baseline]

    @cached_property
    def failure(self) -> Line | None:
        """The first message that says that the run failed, or None."""
        for message in self.log.warnings:
            if _FAILED.search(message.text):
                return message.line
        return None

    @cached_property
    def progress(self) -> bool:
        """Whether a program prints that it gets on, so that it did not stop at its first collective."""
        for word in ("loss", "finished", "complete", "throughput", "checkpoint", "it/s", "time"):
            for line in self.kinds_of_lines_with(word):
                if "CCL" not in line.text and _PROGRESS.search(line.text):
                    return True
        return False

    @cached_property
    def waits(self) -> list[Line]:
        """Lines of a run that has started and waits: headings that no row follows, and what programs print of it."""
        return [*self.no_rows, *(line for words in _WAITS for line in self.lines_with(words))]

    @cached_property
    def ended_well(self) -> bool:
        """Whether a program says that it got to its end, or that it serves."""
        for word in ("finished", "complete", "done"):
            if any(_ENDED_WELL.search(line.text) for line in self.kinds_of_lines_with(word)):
                return True
        return False

    @cached_property
    def end_unknown(self) -> bool:
        """Whether a run has begun by its log, and no line shows that it came to its end, got on or measured a rate."""
        if self.measured or self.ended_well or self.progress:
            return False
        if self.waits:
            return True
        ends = [calls[-1].number for group in self.log.calls_of_ranks for calls in group.values()]
        if len(set(ends)) > 1:
            return True
        return bool(self.log.messages) and not any(
            next(self.lines_with(word), None) for word in _LAST_WORDS
        )

    @cached_property
    def completions(self) -> list[Completion]:
        """RDMA completions with an error."""
        return completions(self.sources)

    @cached_property
    def queue_pairs(self) -> list[QueuePair]:
        """Queue pairs that could not be set up."""
        return queue_pairs(self.sources)

    @cached_property
    def tcp_failures(self) -> list[TcpFailure]:
        """TCP connections that could not be opened."""
        return tcp_failures(self.sources)

    @cached_property
    def several_servers(self) -> bool:
        """Whether more than one server takes part, as far as the files tell."""
        hosts = {host for table in self.tables for host in table.hosts}
        if self.log.nodes:
            return self.log.several_servers
        return len(hosts) > 1 or self.log.several_servers

    @cached_property
    def one_server(self) -> bool:
        """Whether the files say that one server alone takes part, so that no network is needed."""
        if self.log.nodes:
            return self.log.nodes == 1
        hosts = {host for table in self.tables for host in table.hosts}
        if hosts:
            return len(hosts) == 1
        ranks = {
            rank
            for members in self.log.members.values()
            for most, rank in members
            if most == self.log.ranks
        }
        return 1 < self.log.ranks == len(ranks) and len(self.log.hosts) == 1

    @cached_property
    def unified_memory(self) -> Line | None:
        """The line that shows that GPUs share the memory of their processor (GB10), where GPUDirect RDMA does not work.

        Source: NVIDIA, DGX Spark Porting Guide, CUDA, GPUDirect RDMA.
        """
        for word in _UNIFIED:
            line = next(self.lines_with(word), None)
            if line:
                return line
        for host, of_host in self.log.devices.items():
            names = [device.name for device in of_host.values()]
            if all(any(name.startswith(start) for name in names) for start in _SPARK_DEVICES):
                return self.log.device_lines[host]
        return None

    def ports_of_job(self, ports: Sequence[host_tools.PortState]) -> list[host_tools.PortState]:
        """Return the ports that the job may use: those that its ``NCCL_IB_HCA`` allows, of the link type of most.

        Parameters
        ----------
        ports : sequence of PortState
            Ports of a host.
        """
        kept = self.allowed_ports(ports)
        layers = Counter(port.layer for port in kept if port.layer)
        if len(layers) < 2:
            return kept
        usual = max(layers, key=lambda layer: (layers[layer], layer == "InfiniBand"))
        return [port for port in kept if port.layer in ("", usual)]

    def allowed_ports(self, ports: Sequence[host_tools.PortState]) -> list[host_tools.PortState]:
        """Return the ports that ``NCCL_IB_HCA`` allows, all without it.

        Parameters
        ----------
        ports : sequence of PortState
            Ports of a host.
        """
        named = self.setting("NCCL_IB_HCA")
        return [port for port in ports if named is None or _allowed(port.device, named[0])]

    def lines_with(self, word: str) -> Iterator[Line]:
        """Yield the lines that hold a word, which is given in lower case."""
        for source in self.sources:
            yield from source.lines_with(word)

    def kinds_of_lines_with(self, word: str) -> Iterator[Line]:
        """Yield lines that hold a word; of lines that differ in figures only, the first."""
        for source in self.sources:
            yield from source.unlike.lines_with(word)

    def set_variables(self) -> Iterator[tuple[str, Line]]:
        """Yield the names of variables that the log or an environment has, with their lines."""
        for setting in self.log.settings:
            yield setting.name, setting.line
        for variable in self.variables:
            yield variable.name, variable.line

    def setting(self, *names: str) -> tuple[str, Line] | None:
        """Return the value of the first of some variables that the log or an environment has, and its line."""
        in_log = self.log.setting(*names)
        if in_log:
            return in_log.value, in_log.line
        for variable in self.variables:
            if variable.name in names:
                return variable.value, variable.line
        return None


def _allowed(device: str, value: str) -> bool:
    """Return whether a value of ``NCCL_IB_HCA`` allows a device: ^ excludes, = asks for the whole name."""
    excludes = value.startswith("^")
    exact = value.lstrip("^").startswith("=")
    names = [name.split(":")[0].strip() for name in value.lstrip("^=").split(",")]
    named = any(device == n if exact else device.startswith(n) for n in names if n)
    return named != excludes or not any(names)


def read_case(files: Sequence[str | os.PathLike[str]], **texts: Any) -> Case:
    """Read files and texts; a file that nothing is understood of is named in ``skipped``.

    Parameters
    ----------
    files : sequence of path or str
        Files, or texts with line ends.
    **texts
        Further files or texts by name.

    Raises
    ------
    FileFormat
        If a file does not exist.
    """
    with _without_collector():
        return _read(files, texts)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from searching for reference cycles: lines have none, and on a long log it takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(files: Sequence[str | os.PathLike[str]], texts: Mapping[str, Any]) -> Case:
    """Return what files and texts say."""
    sources = [open_source(given) for given in files]
    sources += [open_source(given, name) for name, given in texts.items() if given is not None]
    sources = _told_apart(sources)
    case = Case(sources)
    spoken = []
    bare: list[tuple[str, str, Line]] = []
    for source in sources:
        said = messages(source)
        spoken += said
        bare += bare_versions(source, said)
        words = _take(case, without_messages(source))
        if said:
            words.insert(0, f"{len(said):,} messages of NCCL")
        case.understood.append(
            Understood(source.name, len(source.lines), ", ".join(words) or "nothing")
        )
        if source.left_out:
            case.skipped.append(f"{source.name}: {source.left_out}")
        if not words:
            case.unread.append(source.name)
        if not said and source.holds("ccl info ", "ccl warn "):
            case.headless.append(source.name)
    case.log = read_nccl_log(spoken)
    for host, version, line in bare:
        case.log.versions.setdefault(host, {}).setdefault(version, line)
    return case


def _told_apart(sources: Sequence[Source]) -> list[Source]:
    """Return sources of which no two have a name: what hosts wrote into files of one name must not be mixed."""
    taken = set[str]()
    found = []
    for source in sources:
        name = source.name
        n = 1
        while name in taken:
            n += 1
            name = f"{source.name} ({n})"
        taken.add(name)
        lines = source.lines
        if name != source.name:
            lines = [line._replace(file=name) for line in lines]
        found.append(replace(source, name=name, lines=lines))
    return found


class _Reader(NamedTuple):
    """A reader of one format: the list of a case that it fills, what that holds, in words, and the reader."""

    field: str
    words: str
    read: Callable[[Source], Iterable[Any]]


# Every text is shown to every reader; one that finds nothing says nothing.
_READERS = (
    _Reader("perftest", "rates of perftest", read_perftest),
    _Reader("mounts", "file systems", host_tools.mounts),
    _Reader("pings", "results of ping", host_tools.pings),
    _Reader("switch_ports", "ports of a switch", host_tools.switch_ports),
    _Reader("host_mtus", "MTUs of interfaces", host_tools.sysfs_mtus),
    _Reader("kernel", "messages of the kernel about the IOMMU", host_tools.kernel_facts),
    _Reader("modules", "kernel modules", host_tools.modules),
    _Reader("pcie", "PCIe devices", host_tools.pcie_devices),
    _Reader("pcie", "PCIe links of GPUs", host_tools.smi_links),
    _Reader("nic_rates", "rates of NICs", host_tools.nic_rates),
    _Reader("variables", "variables", host_tools.variables),
    _Reader("rank_times", "times of ranks", host_tools.rank_times),
    _Reader("ended_ranks", "ranks that ended", host_tools.ended_ranks),
    _Reader("services", "services", host_tools.services),
    _Reader("bindings", "processes with their cores", host_tools.bindings),
    _Reader("packages", "versions in lists of packages", host_tools.packages),
    _Reader("launched", "ranks apart from the others", host_tools.launched),
    _Reader("clocks", "clocks of GPUs", host_tools.clocks),
    _Reader("providers", "providers of libfabric", host_tools.providers),
    _Reader("security_groups", "security groups", structured.read_security_groups),
)
# These are kept by file, since files may be of different hosts.
_READERS_BY_FILE = (
    _Reader("gids", "GIDs", host_tools.gids),
    _Reader("interfaces", "interfaces", host_tools.interfaces),
)


def _take(case: Case, source: Source) -> list[str]:
    """Show a source to every reader, and return what was found, in words."""
    counts = _take_tables(case, source)
    for field_of_case, words, read in _READERS:
        rows = list(read(source))
        getattr(case, field_of_case).extend(rows)
        counts[words] = len(rows)
    for field_of_case, words, read in _READERS_BY_FILE:
        rows = list(read(source))
        if rows:
            getattr(case, field_of_case)[source.name] = rows
        counts[words] = len(rows)
    counts |= _take_ports(case, source)
    counts |= _take_structures(case, source)
    return [
        f"{number} {words}" if number else words
        for words, number in counts.items()
        if number is None or number
    ]


def _take_tables(case: Case, source: Source) -> dict[str, int | None]:
    """Take tables of bandwidth; without one, pairs of nodes, or headings that nothing follows."""
    bandwidths = read_bandwidths(source)
    case.tables += bandwidths.rows
    _note_unread(case, bandwidths, "rows of bandwidth")
    if bandwidths.rows:
        return {"rows of bandwidth": sum(len(table.sizes) for table in bandwidths.rows)}
    pairs = read_pairs(source)
    nodes = [] if pairs else read_nodes(source)
    trials = [] if pairs or nodes else read_trials(source)
    headings = headings_without_rows(source)
    case.pairs += pairs
    case.nodes += nodes
    case.trials += trials
    case.no_rows += headings
    return {
        "pairs of nodes": len(pairs),
        "nodes with a figure": len(nodes),
        "trials of groups of hosts": len(trials),
        "tables of bandwidth without a row": len(headings),
    }


def _take_ports(case: Case, source: Source) -> dict[str, int | None]:
    """Take the ports that any tool printed; without one, a list that says of rails whether they answer."""
    ports = _ports(case, source)
    answers = [] if ports else list(host_tools.rail_answers(source))
    if ports:
        case.ports[source.name] = ports
    case.answers += answers
    return {"ports": len(ports), "rails": len(answers)}


def _take_structures(case: Case, source: Source) -> dict[str, int | None]:
    """Take what has a structure of its own: flight recorders, topologies, maps of a fabric."""
    timeouts = [*host_tools.timeouts(source), *structured.flight_entries(source)]
    case.timeouts += timeouts
    xml = structured.read_topology_xml(source) if source.holds("<gpu", "<net") else None
    if xml:
        case.xml.append(xml)
    leaves = structured.read_slurm_switches(source)
    case.leaves |= leaves
    counts: dict[str, int | None] = {
        "collectives that timed out": len(timeouts),
        "PCIe links of a topology": len(xml.devices) if xml else 0,
        "cables": len(_cables(case, source)),
        "nodes of leaf switches": len(leaves),
    }
    if _topology(case, source):
        counts["a matrix of nvidia-smi topo -m"] = None
    elif source.name in case.cut_topologies:
        counts["the upper rows of a matrix of nvidia-smi topo -m"] = None
    return counts


def _is_upper_part(unread: Unread) -> bool:
    """Return whether what a matrix lacks are its lower rows, so that somebody printed its head only."""
    names = unread.line.text.split("CPU")[0].split()
    missing = unread.why.partition("the rows of ")[2].partition(" are missing")[0].split(", ")
    return len(missing) < len(names) and names[-len(missing) :] == missing


def _ports(case: Case, source: Source) -> list[host_tools.PortState]:
    """Return the ports that any tool printed, and note what cannot be read of them."""
    ports = list(host_tools.netdev_ports(source))
    if source.holds("hca_id"):
        scan = scan_ibv_devinfo(source)
        ports += host_tools.rdma_ports(scan)
        _note_unread(case, scan, "ports of ibv_devinfo")
    if source.holds(" physical_state ", "link "):
        scan = scan_rdma_link(source)
        ports += host_tools.rdma_ports(scan)
        _note_unread(case, scan, "ports of rdma link")
    ports += host_tools.infiniband_ports(source)
    return ports


def _cables(case: Case, source: Source) -> tuple[PrintedPort, ...]:
    """Take the ports of ibnetdiscover, if the source has any; those of switches name each cable once or twice."""
    if not source.holds('"s-', '"h-'):
        return ()
    found = scan_ibnetdiscover(source)
    if not found.nodes:
        return ()
    case.links += found.ports.rows
    _note_unread(case, found.ports, "ports of ibnetdiscover")
    return found.ports.rows


def _note_unread(case: Case, scan: Scan[Any], what: str) -> None:
    """Note how many lines of a format could not be read, with the first of them."""
    if scan.unread:
        first = scan.unread[0]
        case.skipped.append(
            f"{first.line.file}: {what} that cannot be read: {len(scan.unread)}; "
            f"line {first.line.number}: {first.why:.200}"
        )


def _topology(case: Case, source: Source) -> bool:
    """Take the matrix of ``nvidia-smi topo -m``, if the source has one."""
    if not any("GPU1" in line.text for line in source.lines_with("gpu0")):
        return False
    scan = scan_topo(source)
    if not scan.rows and len(scan.unread) == 1 and _is_upper_part(scan.unread[0]):
        # The matrix was cut on purpose (head, grep): that is no file that cannot be read.
        case.cut_topologies.append(source.name)
        return False
    _note_unread(case, scan, "rows of nvidia-smi topo -m")
    for topology in scan.rows:
        case.topologies[source.name] = topology
    return bool(scan.rows)
