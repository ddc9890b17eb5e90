"""Logs of nccl-tests and rccl-tests, in all their versions since 2016."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.catalog.published import identifier
from fabriclab.core import Flags, Floats, Result, bus_factor
from fabriclab.errors import FileFormat
from fabriclab.importers.lines import Line, Source, open_whole

__all__ = ["PrintedRow", "PrintedTable", "read_nccl_tests", "scan_nccl_tests"]

_HEADER = re.compile(r"\b(size|bytes)\s+(?:count|N)\s+type\s+(.*?)\s*((?:cpu)?time\s.*)")
_ROW = re.compile(
    r"(?:^|[\s:>\]|#])(\d+)\s+(\d+)\s+(u?int\d*|u?char|half|double|b?float\w*|f8\w*|fp8\w*)\s+(.*)"
)
_UNIT = re.compile(r"\(B\).*?\((us|ms)\)")
_RANK = re.compile(r"Rank\s+(\d+)\s+(?:Group|Pid|on|uses)\b")
_GPUS = re.compile(r"nThreads?:?\s+(\d+)\s+nGpus:?\s+(\d+)")
_TEST = re.compile(
    r"(?<![a-z])(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|send_?recv|gather|scatter)"
    r"_(?:perf|test|output)"
)
_DEVICE = re.compile(r"\s+on\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.*\S)")
_FIGURES = ["time", "algbw", "busbw"]
_CLEAR = 1.0  # [GB/s] above it bandwidths, which are printed with two decimals, are exact to 1 %
_ALL = 1e30


class Device(NamedTuple):
    """What a test says of a rank: its host and its GPU."""

    host: str
    gpu: str


class Figures(NamedTuple):
    """The figures of a row as printed: time in the unit of its table, bandwidths [GB/s], and wrong results."""

    time: float
    algbw: float
    busbw: float
    wrong: float  # 0 where the table does not count them


@dataclass(frozen=True)
class PrintedRow:
    """A row of a table.

    Parameters
    ----------
    line : Line
        Where it stands.
    size : float
        Size of the whole array. [B]
    dtype, redop : str
        Data type and operation as printed; no operation where there is none.
    root : int
        Root, -1 where there is none.
    cells : list of str
        What follows: time, bandwidths and checks.
    cut : bool
        Whether cells are missing at its end.
    """

    line: Line
    size: float
    dtype: str
    redop: str
    root: int
    cells: list[str]
    cut: bool

    def number(self, column: int, name: str) -> tuple[float, float]:
        """Return a cell as a number with its largest rounding error, half of its last digit; N/A is 0 with `_ALL`."""
        text = self.cells[column].rstrip("*")
        if text.upper() in ("N/A", "-"):
            return 0.0, _ALL
        try:
            return float(text), 0.5 * 10.0 ** int(Decimal(text).as_tuple().exponent)
        except (ValueError, ArithmeticError):  # inf and nan have no last digit
            raise FileFormat.at(
                self.line.number, f"{name} must be a number or N/A, got {self.cells[column]!r}"
            ) from None


@dataclass
class PrintedTable:
    """A table, or one sweep of it.

    Parameters
    ----------
    line : Line
        Its header.
    head, tail : list of str
        Names of the columns after the type, and from the first time on.
    scale : float
        Factor from its times to seconds.
    test : str
        Test that the log names before it, in any spelling; empty if none.
    ranks, per_process : int
        Number of ranks that the log lists before it, and of GPUs of a process; 0 if unknown.
    devices : mapping of int to Device
        Host and GPU of each rank, as far as they are listed.
    rows : list of PrintedRow
        Its rows, those that are cut included.
    note : str
        Which part of a table it is.
    """

    line: Line
    head: list[str]
    tail: list[str]
    scale: float
    test: str
    ranks: int
    per_process: int
    devices: Mapping[int, Device]
    rows: list[PrintedRow] = field(default_factory=list)
    note: str = ""
    short: int = 0  # rows that are cut, and were taken out

    @property
    def sizes(self) -> Floats:
        """Sizes of the rows [B]."""
        return np.array([r.size for r in self.rows])

    @property
    def starts(self) -> list[int]:
        """Columns of ``tail`` at which time, algbw and busbw begin, out of place and in place."""
        return [i for i in range(len(self.tail)) if self.tail[i : i + 3] == _FIGURES]

    def take(self, line: Line, found: re.Match[str]) -> None:
        """Add a row."""
        cells = found[4].split()
        redop = ""
        root = -1
        if {"redop", "op"} & set(self.head) and cells and cells[0].isalpha():
            redop = cells.pop(0).replace("none", "")
        if "root" in self.head and cells and re.fullmatch(r"-?\d+", cells[0]):
            root = int(cells.pop(0))
        cut = len(cells) < len(self.tail)
        self.rows.append(PrintedRow(line, float(found[1]), found[3], redop, root, cells, cut))

    def without_cut_rows(self) -> PrintedTable:
        """Return this table without the rows that are cut off, because their last figures may lack digits."""
        whole = [row for row in self.rows if not row.cut]
        return replace(self, rows=whole, short=len(self.rows) - len(whole))

    def figures(self, row: PrintedRow) -> Figures | None:
        """Return the out-of-place figures of a row; None if they are cut, missing, or no numbers."""
        if not self.starts:
            return None
        at = self.starts[0]
        if len(row.cells) <= at + 2 or (row.cut and len(row.cells) == at + 3):
            return None
        try:
            time, algbw, busbw = (row.number(at + i, name) for i, name in enumerate(_FIGURES))
            counted = self.tail[at + 3 : at + 4] == ["#wrong"] and len(row.cells) > at + 3
            wrong = row.number(at + 3, "#wrong")[0] if counted else 0.0
        except FileFormat:
            return None
        if _ALL in (algbw[1], busbw[1]):
            return None
        return Figures(time[0], algbw[0], busbw[0], wrong)


def scan_nccl_tests(source: Source) -> list[PrintedTable]:
    """Return the tables in a log, each with what the log said before it; what is no part of a table is left out.

    Nothing is checked: rows may be cut, and their figures may contradict each other.

    Parameters
    ----------
    source : Source
        A text, which may hold other things as well.
    """
    tables: list[PrintedTable] = []
    test = ""
    ranks = 0
    per_process = 0
    devices: dict[int, Device] = {}
    for line in source.lines:
        content = line.text
        named = _TEST.search(content) if "_" in content else None
        if named:
            test = named[1]
        gpus = _GPUS.search(content) if "nGpus" in content else None
        if gpus:
            per_process = int(gpus[1]) * int(gpus[2])
            ranks = 0
            devices = {}
        rank = _RANK.search(content) if "Rank" in content else None
        if rank:
            ranks = max(ranks, int(rank[1]) + 1)
            device = _DEVICE.search(content)
            if device:
                devices[int(rank[1])] = Device(device[1], device[2])

        header = _HEADER.search(content) if "time" in content else None
        if header:
            table = PrintedTable(
                line=line,
                head=header[2].split(),
                tail=header[3].split(),
                # the first versions wrote "bytes" in the header, and milliseconds
                scale=1e-3 if header[1] == "bytes" else 1e-6,
                test=test,
                ranks=ranks,
                per_process=per_process,
                devices=devices,
            )
            tables.append(table)
            test = ""
            continue
        if not tables:
            continue
        unit = _UNIT.search(content) if "(B)" in content else None
        if unit:
            tables[-1].scale = 1e-3 if unit[1] == "ms" else 1e-6
            continue
        row = _ROW.search(content)
        if row:
            tables[-1].take(line, row)
    return tables


def read_nccl_tests(
    source: str | os.PathLike[str],
    *,
    collective: str | None = None,
    n_ranks: int | None = None,
    in_place: bool = False,
) -> tuple[Result, ...]:
    """Return the sweeps of an nccl-tests or rccl-tests log, one Result for each sweep over sizes.

    A table is a single sweep, or has one for each data type, operation, root and cycle; if all its rows
    have the same size, each row is a cycle.

    Prefixes of launchers, messages of NCCL and text around the tables are skipped. Times are taken as
    printed; bandwidths are computed from them again, so that old and new tables agree.

    Parameters
    ----------
    source : path or str
        The log: a file, or its text.
    collective : str, optional
        The collective that ran, in any spelling; needed if the log does not say.
    n_ranks : int, optional
        Number of ranks; needed if the log has no device lines.
    in_place : bool
        Take the in-place columns instead of the out-of-place ones.

    Returns
    -------
    tuple of Result
        The ``notes`` say what was guessed, skipped or wrong.

    Raises
    ------
    FileFormat
        If there is no table, a line of one is broken, or several programs printed into each other; the message
        names the line.
    ValueError
        If the collective or the number of ranks is neither given nor in the log, or does not fit its figures.
    """
    opened = open_whole(source)
    name = opened.name
    in_place = units.flag(in_place, "in_place")
    tables = [table.without_cut_rows() for table in scan_nccl_tests(opened)]
    full = [table for table in tables if table.rows]
    if not full:
        where = "no line with size, count, type and time"
        if tables:
            where = f"line {tables[0].line.number}: no whole row"
        raise FileFormat(
            f"{name} is no nccl-tests log, {where}; give the text that the test prints"
        )
    results = []
    try:
        for table in full:
            for sweep in _sweeps(table):
                results.append(_result(sweep, name, collective, n_ranks, in_place))
        return tuple(results)
    except (FileFormat, ValueError) as error:
        raise type(error)(f"{name}, {error}") from None


def _sweeps(t: PrintedTable) -> list[PrintedTable]:
    """Return one table for each data type, operation, root and cycle; the sizes in each of them rise."""
    sweeps: dict[tuple[str, str, int], list[list[PrintedRow]]] = {}
    # If -b and -e are equal, no size rises, and every repetition is a cycle.
    fixed = len({row.size for row in t.rows}) == 1
    for row in t.rows:
        cycles = sweeps.setdefault((row.dtype, row.redop, row.root), [[]])
        last = cycles[-1][-1].size if cycles[-1] else -1.0
        # Sizes are rounded to a multiple that all ranks can share, so 0 may repeat; in the log of an MPI program other
        # sizes may, too.
        again = row.size == last and row.size > 0 and t.ranks in (0, t.per_process)
        if (fixed and cycles[-1]) or (row.size < last and row.size == cycles[0][0].size):
            cycles.append([])
        elif row.size < last or again:
            why = "the line is broken, or several programs printed into each other (was nccl-tests built with MPI?)"
            pair = f"{units.format_size(row.size)} follows {units.format_size(last)}"
            raise FileFormat.at(
                row.line.number, f"{pair}, but sizes rise: {why}; give the log of each alone"
            )
        cycles[-1].append(row)

    found = []
    for cycles in sweeps.values():
        for i, rows in enumerate(cycles, start=1):
            note = f"cycle {i} of {len(cycles)} of its table" if len(cycles) > 1 else ""
            found.append(replace(t, rows=rows, note=note))
    return found


def _result(
    t: PrintedTable, name: str, collective: str | None, n_ranks: int | None, in_place: bool
) -> Result:
    """Return one sweep as a Result, after checking its figures against each other."""
    if "cputime" in t.tail:
        raise FileFormat.at(
            t.line.number,
            "this table has cputime, the time of the calls alone; run the test without -C 1",
        )
    starts = t.starts
    place = 1 if in_place else 0
    if len(starts) <= place:
        lacks = "in-place" if in_place else "time, algbw and busbw"
        raise FileFormat.at(t.line.number, f"this table has no {lacks} columns")
    at = starts[place]

    notes = []
    if t.note:
        notes.append(t.note)
    if t.short:
        notes.append(f"{t.short} lines cut short, skipped")
    ranks = _ranks(t, n_ranks, notes)

    cells = []
    for row in t.rows:
        cells.append([row.number(at + i, name_of) for i, name_of in enumerate(_FIGURES)])
    figures = np.array(cells).T  # (number or half of its last digit, column, row)
    keep = figures[0, 0] > 0  # rows with a time
    if not keep.all():
        notes.append(f"{np.sum(~keep)} rows without a time, skipped")
    if not keep.any():
        raise FileFormat.at(t.line.number, "no row of this table has a time")
    t.rows = [row for row, kept in zip(t.rows, keep, strict=True) if kept]
    figures = figures[..., keep]
    time, algbw, busbw = figures[0]

    best = int(np.argmax(algbw))
    ratio = float(busbw[best] / algbw[best]) if algbw[best] >= _CLEAR else None
    what = str(collective or t.test)
    if not what:
        named = _TEST.search(name.lower().replace(".", "_perf."))
        what = named[1] if named else _guess(t, ratio, starts, notes)
    what = identifier(what)
    _check(t, figures, what, ranks, notes)
    if t.tail[at + 3 : at + 4] == ["#wrong"]:
        wrong = sum(row.number(at + 3, "#wrong")[0] > 0 for row in t.rows)
        if wrong:
            notes.append(f"{wrong} rows whose result was wrong (#wrong)")

    first = t.rows[0]
    return Result(
        what,
        "stored",
        t.sizes,
        time * t.scale,
        ranks,
        asked={
            "dtype": first.dtype,
            "redop": first.redop,
            "root": first.root,
            "in_place": in_place,
            "line": t.line.number,
        },
        how=f"text of nccl-tests or rccl-tests, {'in' if in_place else 'out of'} place, mean of its rounds",
        source=f"{name}, line {t.line.number}",
        notes=tuple(notes),
    )


def _ranks(t: PrintedTable, given: int | None, notes: list[str]) -> int:
    """Return the number of ranks: as given, as printed, or by nThread x nGpus with a note."""
    if given is not None:
        return units.count(given, "n_ranks")
    if not (t.ranks or t.per_process):
        raise ValueError(
            f"line {t.line.number}: no device lines before this table; give the number of ranks, n_ranks=..."
        )
    if not t.ranks:
        notes.append("number of ranks from nThread x nGpus, which is right for one process")
    return t.ranks or t.per_process


def _guess(t: PrintedTable, ratio: float | None, starts: list[int], notes: list[str]) -> str:
    """Return the collective that fits operation, root, bus factor and check column, if exactly one does."""
    redop = any(row.redop for row in t.rows)
    root = any(row.root >= 0 for row in t.rows)
    # Whether every row of a check column says N/A, for out of place and for in place.
    unchecked = [
        all(r.cells[i + 3] == "N/A" for r in t.rows) for i in starts if i + 3 < len(t.tail)
    ]
    what = "reduce" if redop and root else ""
    if ratio and not what:  # a single rank has a bus bandwidth of 0, which says nothing
        if redop:
            what = "all_reduce" if ratio > 0.99 else "reduce_scatter"
        elif root:
            what = "broadcast" if ratio > 0.99 else ""
        elif ratio < 0.99 and unchecked[:1] == [False]:  # an all-to-all is not checked in place
            what = "all_to_all" if unchecked[1:] == [True] else "all_gather"
    if not what:
        hint = " (one rank: was nccl-tests built with MPI?)" if ratio == 0 else ""
        raise ValueError(
            f"line {t.line.number}: this table does not tell its collective{hint}; give it, collective=..."
        )
    notes.append(f"collective guessed from the columns: {what}")
    return what


def _check(t: PrintedTable, figures: Floats, what: str, ranks: int, notes: list[str]) -> None:
    """Raise an error if the figures contradict each other: shifted columns, another collective or number of ranks."""
    (time, algbw, busbw), (_, algbw_rounded, busbw_rounded) = figures
    factor = bus_factor(what, ranks)
    computed = t.sizes / (time * t.scale) / 1e9  # (K,) [GB/s]
    # Milliseconds are printed with three decimals, which adds their rounding error.
    slack = 0.02 + (0.0006 / time if t.scale == 1e-3 else 0.0)

    def misfit(part: float, factor: float) -> Flags:
        """Return where algbw is not ``part`` of size / time and where busbw is not ``factor`` x algbw, (2, K)."""
        far = np.abs([algbw - part * computed, busbw - factor * algbw])
        bound = [
            1.2 * algbw_rounded + slack * part * computed,
            1.001 * (busbw_rounded + factor * algbw_rounded),
        ]
        return np.greater(far, bound)

    off = misfit(1.0, factor)
    if off.any() and what == "all_gather" and not misfit(factor, 1.0).any():
        notes.append(
            "old all-gather table: its algbw counts (P-1)/P of the size; computed again from size and time"
        )
        return
    if not off.any():
        return
    which, i = np.argwhere(off)[0]
    line = t.rows[i].line.number
    got = f"algbw {algbw[i]} GB/s"
    if which == 0:
        raise FileFormat.at(
            line, f"{got} does not follow from size and time ({computed[i]:.4g} GB/s)"
        )
    misfits = f"busbw {busbw[i]} GB/s is not {factor:.3f} x {got}, the factor of {what} on {ranks} ranks; "
    if off[1, np.argmax(algbw)]:
        raise ValueError(f"line {line}: {misfits}give collective=... or n_ranks=... as it ran")
    raise FileFormat.at(
        line, f"{misfits}the fastest line of the table fits, so this line is broken"
    )


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
