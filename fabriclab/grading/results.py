"""The file of results: a line for each student, appended when it is ready, so that a killed run loses nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

import fabriclab
from fabriclab.checks import Refused
from fabriclab.core.save import write_atomic
from fabriclab.grading.sandbox import Limits
from fabriclab.texts import text

__all__ = ["Entry", "Results", "cores", "heading", "load", "noted", "totals"]

Entry = dict[str, Any]
COLUMNS: Final = ("student", "question", "points", "of", "mistake", "sentence", "note", "seconds")
_END: Final = b"\n]}\n"
_SAME: Final = ("format", "fabriclab", "key", "limits")  # of the head: what a verdict depends on


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def heading(key: str, limits: Limits, active: tuple[str, ...]) -> dict[str, Any]:
    """Return what stands above all results: how they were made, and where."""
    versions = {"fabriclab": fabriclab.__version__, "python": platform.python_version(), "numpy": np.__version__}
    made = {"date": time.strftime("%Y-%m-%d"), "cores": cores(), "active": list(active)}
    return {"format": "fabriclab-grades-1", **versions, "key": key, "limits": asdict(limits), **made}


def load(path: Path) -> tuple[dict[str, Any], list[Entry]]:
    """Return the head and the entries of a file of results; a last line that was cut is left out.

    Raises
    ------
    Refused
        If it is no such file.
    """
    first, *lines = path.read_bytes().split(b"\n")
    try:
        head: dict[str, Any] = json.loads(first + b"]}")["head"]
        if head["format"] != "fabriclab-grades-1":
            raise KeyError
    except (ValueError, LookupError, TypeError):
        raise Refused(text("grade.results.foreign", path=path)) from None
    entries = []
    for line in lines:
        try:
            entries.append(json.loads(line.removesuffix(b",")))
        except ValueError:  # the end, or what a killed run had begun
            continue
    return head, entries


class Results:
    """The results beside a CSV file: the same entries as JSON and as rows.

    Parameters
    ----------
    table : Path
        The CSV file; the JSON file has its name.
    head : Mapping
        Of this run: results of another key, version or time limit are not mixed with it.

    Raises
    ------
    Refused
        If the file that is there was made in another way.
    """

    def __init__(self, table: Path, head: Mapping[str, Any]) -> None:
        """Read what an earlier run has left, and write it anew without what was cut."""
        self.table, self.file = table, table.with_suffix(".json")
        self.entries: dict[str, Entry] = {}
        self.head = dict(head)
        if self.file.exists():
            self.head, entries = load(self.file)
            if any(self.head[name] != head[name] for name in _SAME):
                raise Refused(text("grade.results.other", path=self.file))
            self.entries = {entry["student"]: entry for entry in entries}
        self.write()

    def write(self) -> None:
        """Write both files anew, sorted by student."""
        self.entries = dict(sorted(self.entries.items()))
        lines = b",\n".join(map(_line, self.entries.values()))
        first = b'{"head": ' + _line(self.head) + b', "results": [' + (b"\n" if lines else b"")
        write_atomic(self.file, first + lines + _END)
        write_atomic(self.table, _rows([COLUMNS, *(row for e in self.entries.values() for row in rows(e))]))

    def add(self, entry: Entry) -> None:
        """Append what one student got to both files."""
        again = entry["student"] in self.entries
        start = b",\n" if self.entries else b"\n"
        self.entries[entry["student"]] = entry
        if again:
            return self.write()
        with self.file.open("r+b") as file:
            file.seek(-len(_END), os.SEEK_END)
            file.write(start + _line(entry) + _END)
            os.fsync(file.fileno())
        with self.table.open("ab") as file:
            file.write(_rows(rows(entry)))


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def rows(entry: Entry) -> list[tuple[Any, ...]]:
    """Return the rows of a student in the CSV file: one for each question, and the total."""
    asked = [
        (
            entry["student"],
            q["question"],
            q["points"],
            q["of"],
            q["mistake"],
            " ".join(q["said"]),
            "",
            q["seconds"] or "",
        )
        for q in entry["questions"]
    ]
    return [*asked, (entry["student"], "total", *totals(entry), "", "", " ".join(noted(entry)), "")]


def noted(entry: Entry) -> list[str]:
    """Return what a teacher may want to look at."""
    return [*entry.get("notes", ()), *entry.get("remarks", ())]


def totals(entry: Entry) -> tuple[str, str]:
    """Return a student's points, and how many there are."""
    points, of = (sum(q[name] for q in entry["questions"]) for name in ("points", "of"))
    return f"{points:g}", f"{of:g}"


def _rows(rows: list[tuple[Any, ...]]) -> bytes:
    """Return rows of CSV; no cell of them is a formula for a spreadsheet."""
    out = io.StringIO()
    safe = [[f"'{c}" if isinstance(c, str) and c[:1] in tuple("=+-@\t\r") else c for c in row] for row in rows]
    csv.writer(out, lineterminator="\n").writerows(safe)
    return out.getvalue().encode(errors="backslashreplace")
