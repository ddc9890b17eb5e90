"""Tables of bandwidth: of nccl-tests and rccl-tests, of scripts of one's own, of pairs of nodes, and of perftest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from fabriclab.core import bus_factor
from fabriclab.importers.lines import Line, Scan, Source, Unread, unprefixed
from fabriclab.importers.nccl_tests import scan_nccl_tests

__all__ = [
    "BandwidthTable",
    "NodeFigure",
    "Pair",
    "PerftestRow",
    "headings_without_rows",
    "rate_in",
    "read_bandwidths",
    "read_nodes",
    "read_pairs",
    "read_perftest",
]

_TEST = re.compile(
    r"(?<![a-z])(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|send_?recv)"
    r"(?:_perf|_bench|_test)?(?:\b|(?=_\d))"
)
_CANONICAL = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
_RANKS = re.compile(
    r"^#?\s*(?:Ranks|n?ranks|world_size)\s*[:=]\s*(\d{1,6})\s*$|\bover (\d{1,6}) ranks\b"
)
# A number, and the unit that may stand behind it.
_FIGURE = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z][A-Za-z/_]*)?")
_SPLIT = re.compile(r"[\s,;|]+")
_UNITS = {"b": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_UNITS |= {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZE_HEAD = re.compile(
    r"^(?:size|bytes|payload|message_?size|msg_?size)(?:[_(\[]?(\w+?)[)\]]?)?$", re.I
)
_BUS_HEAD = re.compile(r"^bus_?(?:bw|bandwidth)(.*)$", re.I)
_ALG_HEAD = re.compile(r"^alg_?(?:bw|bandwidth)(.*)$", re.I)
# Units behind the name of such a column, or behind its figures, in GB/s: a small b is a bit.
_RATE_UNIT = re.compile(r"([KMGT]?)(b|B)(?:it|its|yte|ytes)?(?:/s|ps|_s|/sec)", re.IGNORECASE)
_RATE_PREFIX = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
_BIT = 0.125  # bytes
_TELLS = 3  # ranks; with two, the ratio of an all-reduce is that of a broadcast
_ROUNDED = 0.01
_BEFORE_ROWS = 1_000  # lines without a row of a list, after which a text is taken for another one
_MISSING = -1  # a column that is not there
_NODE = re.compile(r"^[A-Za-z][\w.\-]*\d[\w.\-]*$")
_PERFTEST_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$")
_PERFTEST_MTU = re.compile(
    r"\bMtu\s*:\s*(\d{1,6})\[B\]|\bib_\w+_(?:bw|lat)\b.*\s(?:-m|--mtu[ =])\s*(\d{1,6})\b"
)
_PERFTEST_FLOWS = re.compile(r"Number of qps\s*:\s*(\d{1,6})")
_PERFTEST_DEVICE = re.compile(r"Device\s*:\s*(\S+)")

_Found = TypeVar("_Found")


@dataclass
class BandwidthTable:
    """A table of bandwidth by size.

    Parameters
    ----------
    name : str
        File, or text, that it stands in.
    line : Line
        Its last row.
    sizes, busbw, algbw : list of float
        Size [B] and bandwidths [GB/s] of each row, as printed. NaN where a column is missing.
    collective : str
        Collective, if the text names it.
    ranks : int
        Number of ranks, 0 if unknown.
    hosts : list of str
        Host of each rank, if printed.
    gpu : str
        GPU as printed.
    wrong : int
        Rows whose results were wrong.
    """

    name: str
    line: Line
    sizes: list[float] = field(default_factory=list)
    algbw: list[float] = field(default_factory=list)
    busbw: list[float] = field(default_factory=list)
    collective: str = ""
    ranks: int = 0
    hosts: list[str] = field(default_factory=list)
    gpu: str = ""
    wrong: int = 0

    def add(self, line: Line, size: float, algbw: float, busbw: float) -> None:
        """Add a row."""
        self.sizes.append(size)
        self.algbw.append(algbw)
        self.busbw.append(busbw)
        self.line = line

    @property
    def peak(self) -> float:
        """Largest bus bandwidth of the last three sizes [GB/s]; 0 where there is none."""
        last = [value for value in self.busbw[-3:] if value == value]
        return max(last, default=0.0)

    @property
    def is_baseline(self) -> bool:
        """Whether its name says that it is what the run is held against."""
        words = {"baseline", "reference", "healthy", "good", "expected", "before"}
        return not words.isdisjoint(re.split(r"[^a-z]+", self.name.lower()))

    @property
    def misread_by(self) -> float:
        """How far the ratio of the two bandwidths is from the collective's factor; 1 if it is right or unknown."""
        pairs = [
            (bus, alg)
            for bus, alg in zip(self.busbw, self.algbw, strict=True)
            if alg == alg and bus == bus and alg > 1
        ]
        if not pairs or self.ranks < 2 or not self.collective:
            return 1.0
        bus, alg = pairs[-1]
        try:
            factor = bus_factor(self.collective, self.ranks)
        except ValueError:
            return 1.0
        return bus / alg / factor


class Pair(NamedTuple):
    """A measured pair of nodes, with its bandwidth in the unit of its table, or in GB/s if its row names a unit."""

    a: str
    b: str
    rate: float
    line: Line


class PerftestRow(NamedTuple):
    """A row of perftest: device (empty if not printed), average rate [Gb/s], line, MTU [B] (0: not printed), flows."""

    device: str
    rate: float
    line: Line
    mtu: int = 0
    flows: int = 1


def read_bandwidths(source: Source) -> Scan[BandwidthTable]:
    """Return the tables of bandwidth in a text, and the rows of nccl-tests that are cut off or hold no figures.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    of_tests = _of_tests(source)
    tables = [*of_tests.rows, *_of_columns(source)]
    facts = _Facts()
    for line in source.lines if tables else ():
        facts.take(unprefixed(line.text))
    for table in tables:
        table.ranks = table.ranks or facts.ranks
        known = table.collective or facts.collective or _collective(source.name)
        table.collective = known or _by_ratio(table)
    return Scan(tuple(tables), of_tests.unread)


def _of_tests(source: Source) -> Scan[BandwidthTable]:
    """Return the out-of-place figures of nccl-tests and rccl-tests; a table ends where sizes fall."""
    tables: list[BandwidthTable] = []
    unread: list[Unread] = []
    if not source.holds("algbw"):
        return Scan(())
    for printed in scan_nccl_tests(source):
        hosts = [printed.devices[rank].host for rank in sorted(printed.devices)]
        gpus = [device.gpu for device in printed.devices.values()]
        table: BandwidthTable | None = None
        for row in printed.rows:
            figures = printed.figures(row)
            if figures is None:
                unread.append(
                    Unread(
                        row.line,
                        f"time and bandwidths are cut or no numbers, got {row.line.text!r:.80}",
                    )
                )
                continue
            if table is None or (table.sizes and row.size < table.sizes[-1]):
                table = BandwidthTable(
                    source.name,
                    row.line,
                    collective=_collective(f"{printed.test}_perf"),
                    ranks=printed.ranks,
                    hosts=hosts,
                    gpu=gpus[0] if gpus else "",
                )
                tables.append(table)
            table.add(row.line, row.size, figures.algbw, figures.busbw)
            table.wrong += figures.wrong > 0
    return Scan(tuple(tables), tuple(unread))


def headings_without_rows(source: Source) -> list[Line]:
    """Return the headings of tables of nccl-tests that nothing follows, neither a row nor a message of a failure.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    if not source.holds("algbw") or source.holds("test failure", "test nccl failure"):
        return []
    return [table.line for table in scan_nccl_tests(source) if not table.rows]


def _of_columns(source: Source) -> list[BandwidthTable]:
    """Return the tables whose headings name a size and a bandwidth."""
    tables: list[BandwidthTable] = []
    columns: _Columns | None = None
    table: BandwidthTable | None = None
    headed = any(
        _columns_of(unprefixed(line.text)) for line in source.lines_with("bw", "bandwidth")
    )
    for line in source.lines if headed else ():
        text = unprefixed(line.text)
        if _is_of_tests(text):
            columns = None
            continue
        head = _columns_of(text)
        if head:
            columns = head
            table = None
            continue
        row = columns.row(text) if columns else None
        if row is None:
            continue
        if table is None or (table.sizes and row.size < table.sizes[-1]):
            table = BandwidthTable(source.name, line)
            tables.append(table)
        table.add(line, row.size, row.algbw, row.busbw)
    return tables


class _Row(NamedTuple):
    size: float
    algbw: float
    busbw: float


@dataclass
class _Facts:
    """What is printed around tables."""

    collective: str = ""
    ranks: int = 0

    def take(self, text: str) -> None:
        """Take the facts of a line, if it has any."""
        if not self.collective:
            self.collective = _collective(text)
        ranks = _RANKS.search(text)
        if ranks:
            self.ranks = max(self.ranks, int(ranks[1] or ranks[2]))


def _collective(text: str) -> str:
    """Return the collective that a text names, or an empty text."""
    found = _TEST.search(text.lower())
    if not found:
        return ""
    return _CANONICAL.get(found[1].replace("_", ""), found[1])


def _by_ratio(table: BandwidthTable) -> str:
    """Return all_reduce if the two bandwidths of a table stand in the ratio that only it has, or an empty text."""
    if table.ranks < _TELLS or not table.busbw or not table.algbw[-1] > 1:
        return ""
    ratio = table.busbw[-1] / table.algbw[-1]
    if abs(ratio / bus_factor("all_reduce", table.ranks) - 1) < _ROUNDED:
        return "all_reduce"
    return ""


@dataclass
class _Columns:
    """Columns of a table with names for size and bandwidth; the units are those of cells that name none."""

    size: int
    unit: float  # bytes of one
    algbw: int  # -1 if missing
    busbw: int
    scale: float  # GB/s of one

    def row(self, text: str) -> _Row | None:
        """Return a row, or None if the line is none."""
        cells = _cells(text)
        least = max(self.size, self.algbw, self.busbw)
        if len(cells) <= least:
            return None
        size = _size_in(cells[self.size], self.unit)
        algbw, busbw = (
            float("nan") if column < 0 else rate_in(cells[column], self.scale)
            for column in (self.algbw, self.busbw)
        )
        if size is None or algbw is None or busbw is None:
            return None
        return _Row(size, algbw, busbw)


def _cells(text: str) -> list[str]:
    """Return the cells of a row: between the bars of a Markdown table, else between spaces, commas and the like."""
    text = text.strip()
    if text.startswith("|"):
        return [cell.replace(" ", "") for cell in text[1:].removesuffix("|").split("|")]
    return [cell for cell in _SPLIT.split(text) if cell]


def _size_in(cell: str, unit: float) -> float | None:
    """Return a size [B], in the unit that the cell names or else in ``unit`` [B]; None if the cell is no size."""
    found = _FIGURE.fullmatch(cell)
    if not found:
        return None
    each = _UNITS.get(found[2].lower()) if found[2] else unit
    return None if each is None else float(found[1]) * each


def rate_in(cell: str, unit: float = 1.0) -> float | None:
    """Return a rate such as 380.85 or 380.85GBps.

    Parameters
    ----------
    cell : str
        A cell of a table.
    unit : float
        What one is if the cell names no unit; a rate that has a unit is returned in GB/s.

    Returns
    -------
    float or None
        None if the cell is no rate.
    """
    found = _FIGURE.fullmatch(cell)
    if not found or (found[2] and not _RATE_UNIT.fullmatch(found[2])):
        return None
    return float(found[1]) * (_rate_unit(found[2]) if found[2] else unit)


def _is_of_tests(text: str) -> bool:
    """Return whether a line is the heading of a table of nccl-tests, which has a reader of its own."""
    return "algbw" in text and "type" in text and "size" in text


def _columns_of(text: str) -> _Columns | None:
    """Return the columns that a header names, or None if the line is no header."""
    lowered = text.lower()
    if "bw" not in lowered and "bandwidth" not in lowered:
        return None
    names = _cells(text.strip().lstrip("#"))
    size = -1
    unit = 1.0
    algbw = _MISSING
    busbw = _MISSING
    scale = 1.0
    for i, name in enumerate(names):
        sized = _SIZE_HEAD.match(name)
        if sized and size < 0:
            size = i
            unit = _UNITS.get((sized[1] or "b").lower(), 1.0)
        elif of_bus := _BUS_HEAD.match(name):
            busbw = i
            scale = _rate_unit(of_bus[1])
        elif of_alg := _ALG_HEAD.match(name):
            algbw = i
            scale = _rate_unit(of_alg[1])
    if size < 0 or (algbw < 0 and busbw < 0):
        return None
    return _Columns(size, unit, algbw, busbw, scale)


def _rate_unit(text: str) -> float:
    """Return how many GB/s one of the unit in the heading of a column is; 1 where it names none."""
    found = _RATE_UNIT.search(text)
    if not found:
        return 1.0
    bits = found[2] == "b" and "byte" not in text.lower()
    return _RATE_PREFIX[found[1].upper()] * (_BIT if bits else 1.0)


def _rows_of(source: Source, read: Callable[[Line], _Found | None]) -> list[_Found]:
    """Return the rows that a reader finds in the lines of a list, or nothing if none of the first lines is one."""
    found: list[_Found] = []
    for place, line in enumerate(source.lines):
        if place > _BEFORE_ROWS and not found:
            break
        row = read(line)
        if row is not None:
            found.append(row)
    return found


def read_pairs(source: Source) -> list[Pair]:
    """Return the rows of a table of pairs of nodes with a bandwidth.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    found = _rows_of(source, _pair)
    return found if len(found) > 2 else []  # two rows are no table


def _pair(line: Line) -> Pair | None:
    """Return the pair of a line, or None if it is none."""
    text = unprefixed(line.text)
    if text.lstrip().startswith("#"):
        return None
    cells = [cell for cell in re.split(r"[\s,;|]+|<?->", text.strip()) if cell]
    if len(cells) < 3 or not (_NODE.match(cells[0]) and _NODE.match(cells[1])):
        return None
    rate = rate_in(cells[2])
    if rate is None or cells[0] == cells[1]:
        return None
    return Pair(cells[0], cells[1], rate, line)


class NodeFigure(NamedTuple):
    """A node with a figure of its own, such as the bandwidth of a test on it alone, and its line."""

    name: str
    value: float
    line: Line


_NODE_FIGURE = re.compile(
    r"^\s*([A-Za-z][\w.\-]*\d[\w.\-]*)\s*[:,;|\s]\s*(?:(?:avg|peak|busbw|bus_?bw|bw)\s*[:=]?\s*)?"
    r"(\d+(?:\.\d+)?)\s*(?:GB/s|GBps|Gb/s|Gbps|Gbit/s)?\s*$",
    re.IGNORECASE,
)
_LEAST_NODES = 4  # fewer do not say which of them is the usual one


def read_nodes(source: Source) -> list[NodeFigure]:
    """Return the rows of a list of nodes, each with one figure.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    found = _rows_of(source, _node_figure)
    names = {row.name for row in found}
    if len(names) < _LEAST_NODES:
        return []
    # A list has a node in most of its lines, and none twice.
    filled = [line for line in source.lines if line.text.strip()]
    is_list = len(names) == len(found) and 2 * len(found) > len(filled)
    return found if is_list else []


def _node_figure(line: Line) -> NodeFigure | None:
    """Return the node and the figure of a line, or None if it has no such two."""
    row = _NODE_FIGURE.match(unprefixed(line.text))
    return NodeFigure(row[1], float(row[2]), line) if row else None


def read_perftest(source: Source) -> list[PerftestRow]:
    """Return the rates that ``ib_write_bw`` and its relatives printed with ``--report_gbits``.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    rows: list[PerftestRow] = []
    if not source.holds("bw average"):
        return rows
    device = ""
    gbits = False
    mtu = 0
    flows = 1
    for line in source.lines:
        several = _PERFTEST_FLOWS.search(line.text)
        if several:
            flows = int(several[1])
        printed = _PERFTEST_MTU.search(line.text)
        if printed:
            mtu = int(printed[1] or printed[2])
        named = _PERFTEST_DEVICE.search(line.text)
        if named:
            device = named[1]
        if "BW average" in line.text:
            gbits = "Gb/sec" in line.text
            continue
        found = _PERFTEST_ROW.match(line.text)
        if found and gbits:
            rows.append(PerftestRow(device, float(found[4]), line, mtu, flows))
    return rows
