"""What tools print about a host: addresses, GIDs, shared memory, modules, PCIe devices, ports, variables, watchdogs.

Each reader returns what it finds in a text and nothing where it finds nothing, so every text is shown to every reader.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from fabriclab.gpudirect import RdmaPort
from fabriclab.importers.lines import Line, Scan, Source, unprefixed

__all__ = [
    "Bound",
    "Clock",
    "EndedRank",
    "Gid",
    "HostVariable",
    "Interface",
    "KernelFact",
    "Launched",
    "Module",
    "Mount",
    "NicRate",
    "Packaged",
    "PcieDevice",
    "Ping",
    "PortMtu",
    "PortState",
    "Provider",
    "RailAnswer",
    "Service",
    "Timeout",
]


class Gid(NamedTuple):
    """A row of ``show_gids``: device, GID index, GID, IPv4 address (empty if none) and version of RoCE."""

    device: str
    row: int
    gid: str
    ipv4: str
    version: str
    line: Line


class Interface(NamedTuple):
    """An interface of ``ip addr``: name, MTU (0 if not printed), IPv4 addresses, whether it is up, and its line."""

    name: str
    mtu: int
    addresses: tuple[str, ...]
    up: bool
    line: Line


class Mount(NamedTuple):
    """A row of ``df``: where, size [B], the fraction that is used, and its line."""

    where: str
    size: float
    used: float
    line: Line


class Module(NamedTuple):
    """A row of ``lsmod``: name, names of what uses it, number of users, and its line."""

    name: str
    users: tuple[str, ...]
    uses: int
    line: Line


class PcieDevice(NamedTuple):
    """A device of ``lspci -vv``: address, title, and speed [GT/s] and width of its link as it can be and as it is."""

    address: str
    title: str
    cap_speed: float
    cap_width: int
    speed: float
    width: int
    line: Line  # of what its link is


class PortState(NamedTuple):
    """A port, with the network interface, the state, the MTU and the rate as far as they are printed."""

    device: str
    netdev: str
    up: bool
    mtu: str
    line: Line
    rate: float = 0.0  # [Gb/s], 0 if not printed
    card: str = ""  # number of the chip, such as MT4123
    layer: str = ""  # InfiniBand or Ethernet, empty if not printed


class RailAnswer(NamedTuple):
    """Whether a rail or a device answers, as somebody wrote it down."""

    name: str
    answers: bool
    line: Line


class HostVariable(NamedTuple):
    """A variable of an environment, with its line."""

    name: str
    value: str
    line: Line


class Timeout(NamedTuple):
    """A collective that a watchdog stopped: rank, number of the call, kind, elements, and its line."""

    rank: int
    number: int
    kind: str
    elements: int
    line: Line


_GID = re.compile(
    r"^\s*([\w.\-]+)\s+(\d+)\s+(\d+)\s+([0-9a-fA-F:]{15,})\s+(?:(\d+\.\d+\.\d+\.\d+)\s+)?(v1|v2|RoCE\s*v?\d)"
)


def gids(source: Source) -> Iterator[Gid]:
    """Yield the rows of ``show_gids``."""
    for line in source.lines_with("v1", "v2", "roce"):
        found = _GID.match(line.text)
        if found:
            yield Gid(found[1], int(found[3]), found[4], found[5] or "", found[6], line)


_INTERFACE = re.compile(r"^\s*\d+: ([\w.\-]+)(?:@\S+)?: <([^>]*)> mtu (\d+)")
_INET = re.compile(r"^\s+inet (\d+\.\d+\.\d+\.\d+)")


_BRIEF = re.compile(r"^([A-Za-z][\w.\-]{0,30})(?:@\S+)?\s+(UP|DOWN|UNKNOWN)\b(.*)$")
_BRIEF_ADDRESS = re.compile(r"(?<![\w.:])(\d+\.\d+\.\d+\.\d+)/\d+")


def interfaces(source: Source) -> Iterator[Interface]:
    """Yield the interfaces of ``ip addr``, be it with ``-br`` or without."""
    read = -1  # place up to which lines have been read
    for line in source.lines_with("127.0.0.1/8"):
        if not _BRIEF.match(line.text):
            continue
        # A table without a heading: lo, which every host has, and the lines around it.
        at = bisect.bisect_left(source.lines, line.number, key=lambda each: each.number)
        if at <= read:
            continue
        for step in (-1, 1):
            place = at if step > 0 else at - 1
            while read < place < len(source.lines):
                row = _BRIEF.match(source.lines[place].text)
                if row is None:
                    break
                of_row = tuple(_BRIEF_ADDRESS.findall(row[3]))
                yield Interface(row[1], 0, of_row, row[2] != "DOWN", source.lines[place])
                place += step
        read = place - 1
    if not source.holds("> mtu "):
        return
    current: list[tuple[str, str, int, Line]] = []
    addresses: list[str] = []
    for line in source.lines:
        head = _INTERFACE.match(line.text)
        inet = _INET.match(line.text)
        if head:
            yield from _finished(current, addresses)
            current = [(head[1], head[2], int(head[3]), line)]
            addresses = []
        elif inet and current:
            addresses.append(inet[1])
    yield from _finished(current, addresses)


def _finished(
    current: list[tuple[str, str, int, Line]], addresses: list[str]
) -> Iterator[Interface]:
    """Yield the interface that has been read, if there is one."""
    for name, flags, mtu, line in current:
        yield Interface(name, mtu, tuple(addresses), "LOWER_UP" in flags, line)


_DF = re.compile(r"^\S+\s+([\d.]+)([KMGTP]?)i?\s+([\d.]+)([KMGTP]?)i?\s+\S+\s+(\d+)%\s+(/\S*)\s*$")
_PREFIX = {"": 2.0**10, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}


def mounts(source: Source) -> Iterator[Mount]:
    """Yield the rows of ``df``, with or without ``-h``."""
    for line in source.lines_with("% "):
        found = _DF.match(line.text.strip())
        if found:
            size = decimal(found[1]) * _PREFIX[found[2]]
            yield Mount(found[6], size, float(found[5]) / 100, line)


_MODULE = re.compile(r"^\s*([a-z][\w]+)\s+(\d+)\s+(\d+)\s*([\w,]*)\s*$")


def modules(source: Source) -> Iterator[Module]:
    """Yield the rows of ``lsmod``; only a text with its heading, or with the command that printed them, has any."""
    if not source.holds("used by", "lsmod"):
        return
    started = False
    for line in source.lines:
        if re.match(r"^\s*Module\s+Size\s+Used by|.*[$#] (?:sudo )?lsmod\b", line.text):
            started = True
            continue
        found = _MODULE.match(line.text) if started else None
        if found:
            users = tuple(name for name in found[4].split(",") if name)
            yield Module(found[1], users, int(found[3]), line)


_PCI = re.compile(r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.*)$")
_LINK = re.compile(r"Lnk(Cap|Sta):.*?Speed ([\d.]+)GT/s.*?Width x(\d+)")


def pcie_devices(source: Source) -> Iterator[PcieDevice]:
    """Yield the devices of ``lspci -vv`` whose links it prints."""
    if not source.holds("lnksta", "lnkcap"):
        return
    for block in _blocks(source):
        links: dict[str, tuple[float, int]] = {}
        status = block[0]
        for line in block:
            link = _LINK.search(line.text)
            if link:
                links[link[1]] = (decimal(link[2]), int(link[3]))
                if link[1] == "Sta":
                    status = line
        head = _PCI.match(block[0].text)
        if head and links:
            cap_speed, cap_width = links.get("Cap", (0.0, 0))
            speed, width = links.get("Sta", (0.0, 0))
            yield PcieDevice(head[1], head[2], cap_speed, cap_width, speed, width, status)


_BUS = re.compile(r"^(?:GPU )?((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])\s*$")
_Q_PART = re.compile(r"^\s*(PCIe Generation|Link Width)\s*$")
_Q_VALUE = re.compile(r"^\s*(Max|Current)\s*:\s*(\d{1,2})x?\s*$")


def smi_links(source: Source) -> Iterator[PcieDevice]:
    """Yield the widths of the PCIe links of GPUs that ``nvidia-smi -q`` prints; idle ones lower their speed."""
    gpu = ""
    part = ""
    most = 0
    for line in source.lines if source.holds("link width") else ():
        bus = _BUS.match(line.text)
        named = _Q_PART.match(line.text)
        value = _Q_VALUE.match(line.text)
        if bus:
            gpu, part = bus[1], ""
        elif named:
            part, most = named[1], 0
        elif value and part == "Link Width":
            if value[1] == "Max":
                most = int(value[2])
            elif most:
                yield PcieDevice(gpu, f"GPU {gpu}", 0.0, most, 0.0, int(value[2]), line)


def _blocks(source: Source) -> Iterator[list[Line]]:
    """Yield the lines of each device of ``lspci``."""
    block: list[Line] = []
    for line in source.lines:
        if _PCI.match(line.text):
            if block:
                yield block
            block = [line]
        elif block:
            block.append(line)
    if block:
        yield block


_NETDEV = re.compile(r"^\s*(\S+) port (\d+) ==> (\S+) \((\w+)\)")


def netdev_ports(source: Source) -> Iterator[PortState]:
    """Yield the ports of ``ibdev2netdev``."""
    for line in source.lines_with("==>"):
        found = _NETDEV.match(line.text)
        if found:
            yield PortState(found[1], found[3], found[4] == "Up", "", line)


def rdma_ports(scan: Scan[RdmaPort]) -> Iterator[PortState]:
    """Yield the ports of ``ibv_devinfo`` and ``rdma link``."""
    for port in scan.rows:
        mtu = port.facts.get("active_mtu", "").split(" ")[0]
        where = port.lines["active_mtu"] if mtu and port.active else port.lines["state"]
        rate = round(8e-9 * (port.rate or 0.0), 6)  # [Gb/s]
        layer = port.link_layer
        yield PortState(port.device, port.netdev, port.active, mtu, where, rate, layer=layer)


_IBSTAT = re.compile(r"^\s*CA '([\w.\-]+)'")
_IBSTATUS = re.compile(r"^\s*Infiniband device '([\w.\-]+)' port (\d+) status", re.IGNORECASE)
_CARD = re.compile(r"^\s*CA type:\s*(\w+)")
_IB_STATE = re.compile(r"^\s*[Ss]tate:\s*(?:\d: )?(\w+)")
_IB_RATE = re.compile(r"^\s*[Rr]ate:\s*([\d.]+)")
_IB_LAYER = re.compile(r"^\s*link[_ ]layer:\s*(\w+)", re.IGNORECASE)


def infiniband_ports(source: Source) -> Iterator[PortState]:
    """Yield the ports of ``ibstat`` and ``ibstatus``, with their rates."""
    if not source.holds("ca '", "infiniband device"):
        return
    device = ""
    card = ""
    up = False
    port: PortState | None = None
    for line in source.lines:
        chip = _CARD.match(line.text)
        if chip:
            card = chip[1]
        head = _IBSTAT.match(line.text) or _IBSTATUS.match(line.text)
        if head:
            if port:
                yield port
            device, port = head[1], None
            continue
        if not device:
            continue
        state = _IB_STATE.match(line.text)
        if state:
            up = state[1].lower() == "active"
        rate = _IB_RATE.match(line.text)
        if rate:
            if port:  # the other port of the device
                yield port
            port = PortState(device, "", up, "", line, decimal(rate[1]), card)
        layer = _IB_LAYER.match(line.text)
        if layer and port:
            port = port._replace(layer=layer[1])
    if port:
        yield port


class NicRate(NamedTuple):
    """A rate [Gb/s] of NICs whose device is not printed beside it, how many have it (0: not said), and its line."""

    nics: int
    rate: float
    line: Line


_SYSFS_RATE = re.compile(r"^\s*(?:\S*rate:)?\s*([\d.]+) Gb/sec \(\d+X \w+\)\s*$")
_PERFORMANCE = re.compile(r'"NetworkPerformance": ?"(?:(\d+)x )?(\d+) Gigabit"')


def nic_rates(source: Source) -> Iterator[NicRate]:
    """Yield the rates in the files ``rate`` of sysfs, and of ``aws ec2 describe-instance-types``."""
    for line in source.lines_with("gb/sec (", "networkperformance"):
        of_port = _SYSFS_RATE.match(line.text)
        of_instance = _PERFORMANCE.search(line.text)
        if of_port:
            yield NicRate(0, decimal(of_port[1]), line)
        elif of_instance and not source.json:
            yield NicRate(int(of_instance[1] or 1), float(of_instance[2]), line)
    for of_instance in _PERFORMANCE.finditer(source.json):
        yield NicRate(int(of_instance[1] or 1), float(of_instance[2]), source.lines[0])


def decimal(text: str) -> float:
    """Return a text as a number, 0 if it is none.

    Parameters
    ----------
    text : str
        What should be a number.
    """
    try:
        return float(text)
    except ValueError:
        return 0.0


_STEP_TIME = re.compile(
    r"\brank[\s=:\]\[]*(\d{1,6})\b.{0,80}?\b(?:step|iter(?:ation)?|forward|compute|batch)[\w\s()]{0,20}?"
    r"[=:]\s*([\d.]+)\s*(ms|s)\b",
    re.IGNORECASE,
)


class RankTime(NamedTuple):
    """What a rank says it took for a step, or for its computation [s]."""

    rank: int
    seconds: float
    line: Line


def rank_times(source: Source) -> Iterator[RankTime]:
    """Yield the times that ranks print of their own steps or computation."""
    if not any(_STEP_TIME.search(line.text) for line in source.unlike.lines_with("rank")):
        return
    for line in source.lines_with("rank"):
        found = _STEP_TIME.search(line.text)
        if found:
            scale = 1e-3 if found[3].lower() == "ms" else 1.0
            seconds = decimal(found[2]) * scale
            if 0 < seconds < 1e9:
                yield RankTime(int(found[1]), seconds, line)


_GOOD = re.compile(r"\b(?:ok|up|active|reachable|alive|pass(?:ed)?)\b", re.I)
_BAD = re.compile(
    r"\b(?:no reply|no answer|down|unreachable|timed? ?out|timeout|fail(?:ed)?|100% (?:packet )?loss|disabled"
    r"|polling)\b",
    re.I,
)
_RAIL = re.compile(r"\b((?:mlx\d_|bnxt_re|roce\w*|ib|rdma|rail|ionic_|efa_?)\s?\w*)\b")


def rail_answers(source: Source) -> Iterator[RailAnswer]:
    """Yield the rows of a short list that says of rails or devices whether they answer."""
    if len(source.lines) > 200:  # a log, not a list
        return
    for line in source.lines:
        text = line.text
        name = _RAIL.search(text)
        if not name or "CCL" in text or len(text) > 120:
            continue
        bad = _BAD.search(text)
        good = _GOOD.search(text)
        if bool(bad) != bool(good):
            yield RailAnswer(name[1], bool(good), line)


_VARIABLE_WORDS = ("ccl_", "fi_", "gloo_", "ucx_", "ompi_", "torch_", "cuda_", "hsa_", "ofi_")
_NAME = r"((?:[NRM]CCL|FI|GLOO|UCX|OMPI|TORCH|CUDA|HSA|OFI|RCCL)_[A-Z0-9_]+)"
_VARIABLE = re.compile(r"^\s*(?:export\s+|set\s+|-x\s+|ENV\s+)?" + _NAME + r"=(.*?)\s*$")
# Within a command: mpirun -x A=1 -x B=2, docker run -e A=1, A=1 B=2 program.
_IN_COMMAND = re.compile(r"(?:^|\s)" + _NAME + r"=(\"[^\"]*\"|'[^']*'|[^\s;\\]*)")
_BEFORE = re.compile(r"(?:(?:-x|-e|--env|-genv|export|env)[ =]+|^(?:[$>%]\s*)?(?:\w+=\S*\s+)*)$")
_YAML = re.compile(r"^\s*(?:-\s*)?[\"']?" + _NAME + r"[\"']?\s*:\s*[\"']?([^\s\"',#]+)[\"']?,?\s*$")
_YAML_NAME = re.compile(r"^\s*(?:-\s*)?name:\s*[\"']?" + _NAME + r"[\"']?\s*$")
_YAML_VALUE = re.compile(r"^\s*value:\s*[\"']?([^\s\"'#]+)[\"']?\s*$")


def variables(source: Source) -> Iterator[HostVariable]:
    """Yield the variables of an environment, as ``env``, a script, a command or a manifest of Kubernetes has them."""
    for line in source.lines_with(*_VARIABLE_WORDS):
        text = unprefixed(line.text)
        found = _VARIABLE.match(text)
        if found and len(_IN_COMMAND.findall(text)) < 2:
            # In a script a value may be followed by a comment, the next command, or a line end that does not count.
            value = re.split(r"\s+[#\\]|\s*;|\\$", found[2])[0].strip()
            if not value.startswith(("'", '"')):
                value = value.partition(" ")[0]  # what follows is the program
            yield HostVariable(found[1], value.strip("\"'"), line)
            continue
        if "CCL WARN" in text or text.lstrip().startswith("#"):
            continue  # what a library advises, or a comment, is not set
        given = _YAML.match(text)
        named = _YAML_NAME.match(text)
        if given:
            yield HostVariable(given[1], given[2], line)
        elif named and line.number < source.lines[-1].number:
            value_line = _next_line(source, line)
            value_found = _YAML_VALUE.match(value_line.text) if value_line else None
            if value_found:
                yield HostVariable(named[1], value_found[1], line)
        else:
            for each in _IN_COMMAND.finditer(text):
                if _BEFORE.search(text[: each.start(1)]):
                    yield HostVariable(each[1], each[2].strip("\"'"), line)


def _next_line(source: Source, line: Line) -> Line | None:
    """Return the line that follows another one; None at the end."""
    at = bisect.bisect_right(source.lines, line.number, key=lambda each: each.number)
    return source.lines[at] if at < len(source.lines) else None


# The number of the call, its shape or its elements are not printed by every version of PyTorch.
_TIMEOUT = re.compile(
    r"\bRank (\d{1,6})\].*?collective operation timeout: WorkNCCL\((?:SeqNum=(\d{1,15}), )?OpType=(\w+)"
    r"(?:, NumelIn=(\d{1,15})|, TensorShape=\[([\d, ]{0,200})\])?"
)


def timeouts(source: Source) -> Iterator[Timeout]:
    """Yield the collectives that PyTorch's watchdog stopped."""
    for line in source.lines_with("collective operation timeout"):
        found = _TIMEOUT.search(line.text)
        if found:
            elements = int(found[4] or 0)
            if found[5]:
                elements = math.prod(int(n) for n in found[5].split(",") if n.strip())
            yield Timeout(int(found[1]), int(found[2] or 0), found[3], elements, line)


class EndedRank(NamedTuple):
    """A rank that a launcher says ended first: its number, how, and its line."""

    rank: int
    how: str
    line: Line


_ROOT_CAUSE = re.compile(r"^\s*rank\s*:\s*(\d{1,6}) \(local_rank: \d+\)")
_EXIT = re.compile(r"^\s*exitcode\s*:\s*(-?\d{1,4})")
_MPI_EXIT = re.compile(
    r"process rank (\d{1,6}) with PID \d+ on node (\S+) exited on signal (\d{1,3})"
)


def ended_ranks(source: Source) -> Iterator[EndedRank]:
    """Yield the ranks that torchrun calls the first that failed, or that mpirun says were killed."""
    for heading in source.lines_with("first observed failure"):
        rank = None
        line: Line | None = heading
        for _ in range(8):  # lines of an entry
            line = _next_line(source, line) if line else None
            named = _ROOT_CAUSE.match(unprefixed(line.text)) if line else None
            ended = _EXIT.match(unprefixed(line.text)) if line else None
            if named:
                rank = int(named[1])
            if ended and rank is not None and line:
                yield EndedRank(rank, f"exit code {ended[1]}", line)
                break
    for line in source.lines_with("exited on signal"):
        killed = _MPI_EXIT.search(line.text)
        if killed:
            yield EndedRank(int(killed[1]), f"signal {killed[3]}", line)


class Service(NamedTuple):
    """A service of systemd: its name, whether it is active, and the line that says so."""

    name: str
    active: bool
    line: Line


_UNIT = re.compile(r"^\W*([\w@.\-]+)\.service\b(?: - |$)")
_ACTIVE = re.compile(r"^\s*Active:\s*(\w+)")
_NEAR = 8  # lines between the name of a service and its state


def services(source: Source) -> Iterator[Service]:
    """Yield the services that ``systemctl status`` prints."""
    for line in source.lines_with("active:"):
        state = _ACTIVE.match(unprefixed(line.text))
        if state is None:
            continue
        at = bisect.bisect_left(source.lines, line.number, key=lambda each: each.number)
        for before in reversed(source.lines[max(0, at - _NEAR) : at]):
            unit = _UNIT.match(unprefixed(before.text))
            if unit:
                yield Service(unit[1], state[1].lower() == "active", line)
                break


class Clock(NamedTuple):
    """A row of ``nvidia-smi --query-gpu`` with a clock: GPU, clock of its multiprocessors [MHz], line."""

    gpu: str
    clock: float
    line: Line


_CLOCK_HEAD = re.compile(r"clocks(?:\.current)?\.(?:sm|gr|graphics)", re.IGNORECASE)
_CLOCK = re.compile(r"^\s*(\d{1,5})\s*MHz\s*$")


def clocks(source: Source) -> Iterator[Clock]:
    """Yield the clocks of GPUs in a table with commas, as ``nvidia-smi --format=csv`` prints it."""
    column = -1
    for line in source.lines if source.holds("clocks.") else ():
        cells = unprefixed(line.text).split(",")
        heads = [i for i, cell in enumerate(cells) if _CLOCK_HEAD.search(cell)]
        if heads and len(cells) > 1:
            column = heads[0]
            continue
        found = _CLOCK.match(cells[column]) if 0 <= column < len(cells) else None
        if found:
            yield Clock(",".join(cells[:column]).strip(), float(found[1]), line)


class Bound(NamedTuple):
    """The cores that a launcher or the kernel says a process has: who, how many, which, and the line."""

    who: str
    cores: int
    which: str
    line: Line


_OPEN_MPI = re.compile(r"(?:MCW )?rank (\d{1,6}) bound to (.*?):? \[(.*)\]\s*$", re.IGNORECASE)
_SLURM = re.compile(
    r"cpu-bind[\w-]*=MASK - (\S+), task\s+(\d{1,6}).*?mask (0x[0-9A-Fa-f]{1,64}) set"
)
_ALLOWED = re.compile(
    r"^\s*(?:Cpus_allowed_list:|physcpubind:|pid (\d+)'s current affinity list:)\s*([\d,\- ]+?)\s*$"
)


def bindings(source: Source) -> Iterator[Bound]:
    """Yield what Open MPI, Slurm, ``taskset``, ``numactl`` and the kernel print of the cores of a process."""
    for line in source.lines_with(
        "bound to", "cpu-bind", "affinity list", "cpus_allowed_list", "physcpubind"
    ):
        by_mpi = _OPEN_MPI.search(line.text)
        by_slurm = _SLURM.search(line.text)
        allowed = _ALLOWED.match(unprefixed(line.text))
        if by_mpi:
            cores = len(re.findall(r"B+", by_mpi[3]))
            yield Bound(f"rank {by_mpi[1]}", cores, by_mpi[2], line)
        elif by_slurm:
            number = int(by_slurm[3], 16).bit_count()
            yield Bound(f"task {by_slurm[2]} of {by_slurm[1]}", number, by_slurm[3], line)
        elif allowed:
            number = 0
            for part in re.split(r"[,\s]+", allowed[2].strip()):
                first, _, last = part.partition("-")
                if first.isdecimal() and (not last or last.isdecimal()):
                    number += max(0, int(last or first) - int(first) + 1)
            yield Bound(f"process {allowed[1] or ''}".strip(), number, allowed[2], line)


class Packaged(NamedTuple):
    """A version of the library that a list of packages names, and its line."""

    version: str
    line: Line


_PACKAGE = re.compile(
    r"(?:nvidia-nccl-cu\d+\s*[=\s]+=?\s*|libnccl2(?::\w+)?\s+|nccl\.version\(\)\)?\W+)(\d+)[.,]\s?(\d+)[.,]\s?(\d+)"
)


def packages(source: Source) -> Iterator[Packaged]:
    """Yield the versions of NCCL in lists of pip and dpkg, and as PyTorch prints it."""
    for line in source.lines_with("nvidia-nccl-cu", "libnccl2", "nccl.version()"):
        found = _PACKAGE.search(line.text)
        if found:
            yield Packaged(".".join(found.groups()), line)


class Launched(NamedTuple):
    """A rank whose number of operations NCCL's RAS names, with the number that most ranks have, and its line."""

    rank: int
    operations: int
    others: int
    line: Line


_MANY_LAUNCHED = re.compile(r"(\d{1,7}) ranks have launched up to operation (\d{1,15})")
_ONE_LAUNCHED = re.compile(r"Rank (\d{1,7}) has launched up to operation (\d{1,15})")


def launched(source: Source) -> Iterator[Launched]:
    """Yield the ranks that NCCL's RAS reports apart from the others, as ``ncclras`` prints them."""
    most = 0
    for line in source.lines_with("launched up to operation"):
        many = _MANY_LAUNCHED.search(line.text)
        one = _ONE_LAUNCHED.search(line.text)
        if many:
            most = int(many[2])
        elif one and most:
            yield Launched(int(one[1]), int(one[2]), most, line)


class Provider(NamedTuple):
    """A provider that ``fi_info`` lists, and its line."""

    name: str
    line: Line


def providers(source: Source) -> Iterator[Provider]:
    """Yield the providers that ``fi_info`` lists."""
    for line in source.lines_with("provider:"):
        found = re.match(r"^\s*provider:\s*([\w;\-]+)\s*$", line.text)
        if found:
            yield Provider(found[1].lower(), line)


class Ping(NamedTuple):
    """What ``ping`` says: address, bytes of data of each packet, packets sent and received, and its line."""

    address: str
    size: int
    sent: int
    received: int
    line: Line


_PING = re.compile(r"^\s*PING (\S+).*?(\d{1,6})\(\d{1,6}\) bytes of data")
_PINGED = re.compile(r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received")


def pings(source: Source) -> Iterator[Ping]:
    """Yield what ``ping`` prints at its end, with the size that it printed at its start."""
    started: re.Match[str] | None = None
    for line in source.lines_with("bytes of data", "packets transmitted"):
        started = _PING.match(line.text) or started
        ended = _PINGED.search(line.text)
        if ended and started:
            yield Ping(started[1], int(started[2]), int(ended[1]), int(ended[2]), line)
            started = None


class PortMtu(NamedTuple):
    """A port of a switch, or an interface of a host: name, MTU [B], whether it is up, and its line."""

    name: str
    mtu: int
    up: bool
    line: Line


def switch_ports(source: Source) -> Iterator[PortMtu]:
    """Yield the rows of a table of ports with a column MTU, as switches print it."""
    column = -1
    found = False
    for line in source.lines if source.holds("mtu") else ():
        words = line.text.split()
        if not words and found:  # the end of the table
            column, found = -1, False
        lowered = [word.lower() for word in words]
        if "mtu" in lowered and lowered[0] in ("interface", "port"):
            column = lowered.index("mtu")
            continue
        if column < 0 or len(words) <= column:
            continue
        if not words[column].isdecimal() or len(words[column]) > _DIGITS:
            continue
        found = True
        up = "up" in lowered and "down" not in lowered
        yield PortMtu(words[0], int(words[column]), up, line)


_DIGITS = 6  # of an MTU
_SYSFS_MTU = re.compile(r"/sys/class/net/([^/\s]+)/mtu:\s*(\d{1,6})\s*$")


def sysfs_mtus(source: Source) -> Iterator[PortMtu]:
    """Yield the MTUs of interfaces that ``grep . /sys/class/net/*/mtu`` prints."""
    for line in source.lines_with("/mtu:"):
        found = _SYSFS_MTU.search(line.text)
        if found:
            yield PortMtu(found[1], int(found[2]), True, line)


class KernelFact(NamedTuple):
    """What the kernel says of the IOMMU: translated, passthrough, on, or the command line; the text, and its line."""

    kind: str
    text: str
    line: Line


_DOMAIN = re.compile(r"iommu: Default domain type: (\w+)", re.IGNORECASE)
_IOMMU_ON = re.compile(
    r"DMAR: IOMMU enabled|AMD-Vi: (?:Found IOMMU|Interrupt remapping|Lazy|Virtual)", re.I
)


def kernel_facts(source: Source) -> Iterator[KernelFact]:
    """Yield the lines of ``dmesg`` that tell the mode of the IOMMU, and the kernel's command line."""
    for line in source.lines_with("default domain type", "dmar: iommu", "amd-vi:", "boot_image="):
        domain = _DOMAIN.search(line.text)
        if domain:
            yield KernelFact(domain[1].lower(), domain[1], line)
        elif "BOOT_IMAGE=" in line.text:
            yield KernelFact("command line", line.text, line)
        elif _IOMMU_ON.search(line.text):
            yield KernelFact("on", line.text, line)
