"""Logs of nccl-tests and rccl-tests, in all their versions since 2016."""

import os
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from fabriclab import units
from fabriclab.catalog.published import identifier
from fabriclab.core import Flags, Floats, Result, bus_factor
from fabriclab.errors import FileFormat
from fabriclab.importers.lines import open_text

__all__ = ["read_nccl_tests"]

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
_CLEAR = 1.0  # [GB/s] above it bandwidths, which are printed with two decimals, are exact to 1%
_ALL = 1e30


@dataclass(frozen=True)
class _Row:
    """A row of a table."""

    line: int
    size: float  # [B]
    dtype: str
    redop: str
    root: int  # -1 where there is none
    cells: list[str]

    def number(self, column: int, name: str) -> tuple[float, float]:
        """Return a cell as a number with its largest rounding error, half of its last digit; N/A is 0 with `_ALL`."""
        text = self.cells[column].rstrip("*")
        if text.upper() in ("N/A", "-"):
            return 0.0, _ALL
        try:
            return float(text), 0.5 * 10.0 ** int(Decimal(text).as_tuple().exponent)
        except (ValueError, ArithmeticError):  # inf and nan have no last digit
            raise FileFormat.at(
                self.line, f"{name} must be a number or N/A, got {self.cells[column]!r}"
            ) from None


@dataclass
class _Table:
    """A table, or one sweep of it: the line of its header, its columns, what the log said before it, and its rows."""

    line: int
    head: list[str]
    tail: list[str]
    scale: float  # factor from its times to seconds
    test: str
    ranks: int  # 0 if unknown
    per_process: int  # 0 if unknown
    rows: list[_Row] = field(default_factory=list)
    short: int = 0  # number of rows that are cut off
    note: str = ""

    @property
    def sizes(self) -> Floats:
        """Sizes of the rows [B]."""
        return np.array([r.size for r in self.rows])

    def take(self, line: int, found: re.Match[str]) -> None:
        """Add a row; a row that is cut off is only counted, because its last figure may lack digits."""
        cells = found[4].split()
        redop = ""
        root = -1
        if {"redop", "op"} & set(self.head) and cells and cells[0].isalpha():
            redop = cells.pop(0).replace("none", "")
        if "root" in self.head and cells and re.fullmatch(r"-?\d+", cells[0]):
            root = int(cells.pop(0))
        if len(cells) < len(self.tail):
            self.short += 1
        else:
            self.rows.append(_Row(line, float(found[1]), found[3], redop, root, cells))


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
    name, text, _ = open_text(source)
    in_place = units.flag(in_place, "in_place")
    tables = _scan(text)
    full = [table for table in tables if table.rows]
    if not full:
        where = "no line with size, count, type and time"
        if tables:
            where = f"line {tables[0].line}: no whole row"
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


def _scan(text: str) -> list[_Table]:
    """Return the tables of a log, each with what the log said before it."""
    tables: list[_Table] = []
    test = ""
    ranks = 0
    per_process = 0
    for line, content in enumerate(text.splitlines(), start=1):
        named = _TEST.search(content)
        if named:
            test = named[1]
        gpus = _GPUS.search(content)
        if gpus:
            per_process = int(gpus[1]) * int(gpus[2])
            ranks = 0
        rank = _RANK.search(content)
        if rank:
            ranks = max(ranks, int(rank[1]) + 1)

        header = _HEADER.search(content)
        if header:
            table = _Table(
                line=line,
                head=header[2].split(),
                tail=header[3].split(),
                # the first versions wrote "bytes" in the header, and milliseconds
                scale=1e-3 if header[1] == "bytes" else 1e-6,
                test=test,
                ranks=ranks,
                per_process=per_process,
            )
            tables.append(table)
            test = ""
            continue
        if not tables:
            continue
        unit = _UNIT.search(content)
        if unit:
            tables[-1].scale = 1e-3 if unit[1] == "ms" else 1e-6
            continue
        row = _ROW.search(content)
        if row:
            tables[-1].take(line, row)
    return tables


def _sweeps(t: _Table) -> list[_Table]:
    """Return one table for each data type, operation, root and cycle; the sizes in each of them rise."""
    sweeps: dict[tuple[str, str, int], list[list[_Row]]] = {}
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
                row.line, f"{pair}, but sizes rise: {why}; give the log of each alone"
            )
        cycles[-1].append(row)

    found = []
    for cycles in sweeps.values():
        for i, rows in enumerate(cycles, start=1):
            note = f"cycle {i} of {len(cycles)} of its table" if len(cycles) > 1 else ""
            found.append(replace(t, rows=rows, note=note))
    return found


def _result(
    t: _Table, name: str, collective: str | None, n_ranks: int | None, in_place: bool
) -> Result:
    """Return one sweep as a Result, after checking its figures against each other."""
    if "cputime" in t.tail:
        raise FileFormat.at(
            t.line, "this table has cputime, the time of the calls alone; run the test without -C 1"
        )
    columns = ["time", "algbw", "busbw"]
    starts = [i for i in range(len(t.tail)) if t.tail[i : i + 3] == columns]
    place = 1 if in_place else 0
    if len(starts) <= place:
        lacks = "in-place" if in_place else "time, algbw and busbw"
        raise FileFormat.at(t.line, f"this table has no {lacks} columns")
    at = starts[place]

    notes = []
    if t.note:
        notes.append(t.note)
    if t.short:
        notes.append(f"{t.short} lines cut short, skipped")
    ranks = _ranks(t, n_ranks, notes)

    cells = []
    for row in t.rows:
        cells.append([row.number(at + i, name_of) for i, name_of in enumerate(columns)])
    figures = np.array(cells).T  # (number or half of its last digit, column, row)
    keep = figures[0, 0] > 0  # rows with a time
    if not keep.all():
        notes.append(f"{np.sum(~keep)} rows without a time, skipped")
    if not keep.any():
        raise FileFormat.at(t.line, "no row of this table has a time")
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
            "line": t.line,
        },
        how=f"text of nccl-tests or rccl-tests, {'in' if in_place else 'out of'} place, mean of its rounds",
        source=f"{name}, line {t.line}",
        notes=tuple(notes),
    )


def _ranks(t: _Table, given: int | None, notes: list[str]) -> int:
    """Return the number of ranks: as given, as printed, or by nThread x nGpus with a note."""
    if given is not None:
        return units.count(given, "n_ranks")
    if not (t.ranks or t.per_process):
        raise ValueError(
            f"line {t.line}: no device lines before this table; give the number of ranks, n_ranks=..."
        )
    if not t.ranks:
        notes.append("number of ranks from nThread x nGpus, which is right for one process")
    return t.ranks or t.per_process


def _guess(t: _Table, ratio: float | None, starts: list[int], notes: list[str]) -> str:
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
            f"line {t.line}: this table does not tell its collective{hint}; give it, collective=..."
        )
    notes.append(f"collective guessed from the columns: {what}")
    return what


def _check(t: _Table, figures: Floats, what: str, ranks: int, notes: list[str]) -> None:
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
    line = t.rows[i].line
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
