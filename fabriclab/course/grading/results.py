"""The file of results: a line for each student, appended as soon as it is ready, so that a killed run loses little."""

import contextlib
import csv
import io
import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import fabriclab
from fabriclab.core import write_atomic
from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

from .limits import Limits
from .notebooks import exercise, number_or_name

Entry = dict[str, Any]  # results of a student
Record = dict[str, Any]  # result of a question of a student
_COLUMNS = ("student", "question", "points", "of", "mistake", "sentence", "note", "seconds")
_FORMAT = "fabriclab-grades-1"
_END = b"\n]}\n"
_SAME = ("format", "fabriclab", "key", "limits", "weak")  # what a verdict depends on
# Where a spreadsheet may see a formula, at any sign that may separate its cells; full-width signs count, too.
_FORMULA = re.compile("((?:^|[;,|\t\r\n])[\\s\"']*)(?=[=+@\\-\uff1d\uff0b\uff20\uff0d])")
# An example of an entry: lists may have any number of items, and "" stands for any name.
_ENTRY = json.loads(Path(__file__).with_name("entry.json").read_bytes())
RECORD = _ENTRY["questions"][0]


def weak(active: Sequence[str]) -> bool:
    """Return whether learners' code could read files of this machine; one's own work does not count as weak."""
    return bool(active) and not {"root", "landlock"} & {*active}


def heading(key: str, limits: Limits, active: Sequence[str]) -> dict[str, Any]:
    """Return the head of a file of results: how and where they were made."""
    versions = {
        "fabriclab": fabriclab.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    made = {
        "date": time.strftime("%Y-%m-%d"),
        "cores": cores,
        "active": [*active],
        "weak": weak(active),
        "hide_truth": False,  # whether students' pages keep true values back
        "failed": {},  # student -> why there is no grade
    }
    return {"format": _FORMAT, **versions, "key": key, "limits": asdict(limits), **made}


def load(path: Path) -> tuple[dict[str, Any], list[Entry]]:
    """Return the head and the entries of a file of results, without an incomplete last line; raise if it is faulty."""
    first, *lines = path.read_bytes().split(b"\n")
    whole = _json(first + b"]}")
    if isinstance(whole, dict):
        entries = [
            _json(line.strip().removesuffix(b","))
            for line in lines
            if line.strip() not in (b"", _END.strip())
        ]
        # the last line is incomplete if the run was killed
        whole["results"] = entries[: -1 if entries and entries[-1] is None else None]
    _add_later_fields(whole)
    head = heading("", Limits(), [""]) | {"failed": {"": ""}}
    fault = _fault(whole, {"head": head, "results": [_ENTRY]})
    fault = fault or f"head.format must be {_FORMAT}" * (whole["head"]["format"] != _FORMAT)
    refuse_if(fault, "grade.results.foreign", path=path, fault=fault)
    return whole["head"], whole["results"]


def _add_later_fields(whole: Any) -> None:
    """Add to a file that an earlier version has written the fields that it did not know, so that it can be read."""
    if not isinstance(whole, dict):
        return
    head = whole.get("head")
    if isinstance(head, dict):
        head.setdefault("hide_truth", False)
        head.setdefault("failed", {})
    for entry in whole["results"] if isinstance(whole.get("results"), list) else ():
        if not isinstance(entry, dict):
            continue
        entry.setdefault("marks", {})
        questions = entry.get("questions")
        for question in questions if isinstance(questions, list) else ():
            if isinstance(question, dict):
                question.setdefault("tried", [])


def check_selection(table: Path, due: Sequence[str]) -> None:
    """Raise if an earlier run with the same table graded other exercises than those that are due now.

    A student's results are replaced as a whole, so the verdicts on the other exercises would be lost.

    Parameters
    ----------
    table : Path
        The CSV file to write; the file of results has the same name.
    due : sequence of str
        The exercises to grade, such as ``ex1``.

    Raises
    ------
    InputRefused
        If the file of results is faulty or holds other exercises; the message proposes another name.
    """
    file = table.with_suffix(".json")
    if not file.exists():
        return
    _, entries = load(file)
    asked = [q["question"] for entry in entries for q in entry["questions"]]
    held = sorted({exercise(question) for question in asked})
    stem = table.stem.removesuffix("-" + "-".join(held))
    other = table.with_name(f"{stem}-{'-'.join(due)}.csv")
    again = " ".join(f"--exercise {number_or_name(name)}" for name in held)
    refuse_if(
        bool(held) and {*held} != {*due},
        "grade.results.exercises",
        path=file,
        held=", ".join(held),
        due=", ".join(due),
        other=other,
        again=again,
    )


def _json(line: bytes) -> Any:
    """Return the content of a line of JSON, or None if it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line)


def _fault(value: Any, like: Any, at: str = "") -> str:
    """Return what is wrong with a value that should have the form of an example, or an empty text."""
    fits = like is not None and (
        type(value) is type(like) or (type(value) is int and type(like) is float)
    )
    if fits and isinstance(value, int | float):
        fits = 0 <= value < 1e15  # excludes NaN, too
    if fits and isinstance(value, str):
        fits = value.encode(errors="replace").decode() == value  # no lone surrogate
    if not fits:
        return f"{at[1:] or 'it'} must be {text(f'grade.kind.{type(like).__name__}')}"
    inside: list[tuple[Any, Any, str]] = []
    if isinstance(like, list):
        inside = [(item, like[0], f"{at}[{n}]") for n, item in enumerate(value)]
    if isinstance(like, dict):
        inside = [
            (value.get(name), like.get(name, like.get("")), f"{at}.{name}")
            for name in {**like, **value}
            if name
        ]
    return next(filter(None, (_fault(*one) for one in inside)), "")


class Results:
    """The results of a class in a JSON file, and in a CSV file of the same name.

    Results with another key, version, time limit or other protections are never mixed with those in the file.
    """

    def __init__(self, table: Path, head: Mapping[str, Any]) -> None:
        """Read the results of an earlier run, if any, and write them anew without an incomplete line."""
        self.table, self.file = table, table.with_suffix(".json")
        self.entries: dict[str, Entry] = {}
        self.head = dict(head)
        if self.file.exists():
            self.head, entries = load(self.file)
            if any(self.head[name] != head[name] for name in _SAME) or {*self.head["active"]} != {
                *head["active"]
            }:
                raise InputRefused(text("grade.results.other", path=self.file))
            self.entries = {entry["student"]: entry for entry in entries}
        self.write()

    def write(self) -> None:
        """Write both files anew, sorted by student."""
        self.entries = dict(sorted(self.entries.items()))
        lines = b",\n".join(map(_line, self.entries.values()))
        first = b'{"head": ' + _line(self.head) + b', "results": [' + (b"\n" if lines else b"")
        write_atomic(self.file, first + lines + _END)
        weak = [text("grade.made.weak")] * self.head["weak"]
        rows = [row for entry in self.entries.values() for row in _rows(entry, weak)]
        write_atomic(self.table, as_csv([_COLUMNS, *rows]))
        matrix = self.table.with_name(f"{self.table.stem}-matrix.csv")
        write_atomic(matrix, as_csv(_matrix([*self.entries.values()])))

    def add(self, entry: Entry) -> None:
        """Append the entry of a student to the JSON file; of two lines for a student, the last one counts."""
        start = b",\n" if self.entries else b"\n"
        earlier = self.entries.get(entry["student"], {"marks": {}, "texts": {}})
        entry["marks"] = {
            name: _kept(name, mark, earlier, entry) for name, mark in earlier["marks"].items()
        }
        self.entries[entry["student"]] = entry
        with self.file.open("r+b") as file:
            file.seek(-len(_END), os.SEEK_END)
            file.write(start + _line(entry) + _END)
            os.fsync(file.fileno())


def _line(value: Mapping[str, Any]) -> bytes:
    """Write a value as one line of JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def noted(entry: Entry) -> list[str]:
    """Return the notes and remarks that a teacher may want to look at."""
    return [*entry["notes"], *entry["remarks"]]


def scores(entry: Entry) -> list[tuple[str, float, float]]:
    """Return name, points and most possible points of all that counts: questions, then marked free texts."""
    asked = [(q["question"], q["points"], q["of"]) for q in entry["questions"]]
    return asked + [(name, mark["points"], mark["of"]) for name, mark in entry["marks"].items()]


def totals(entry: Entry) -> tuple[str, str]:
    """Return a student's points, and the most possible points, as texts."""
    points = sum(points for _, points, _ in scores(entry))
    of = sum(of for _, _, of in scores(entry))
    return f"{points:g}", f"{of:g}"


def unread(entry: Entry) -> list[str]:
    """Return the free texts that count, that the student has written, and that nobody has given points to."""
    marks = entry["marks"]
    return [name for name in marks if not marks[name]["read"] and entry["texts"].get(name)]


def _kept(name: str, mark: dict[str, Any], earlier: Entry, entry: Entry) -> dict[str, Any]:
    """Return the mark of a text after new work of its student: as before if the text is, else not marked yet."""
    if entry["texts"].get(name, "") == earlier["texts"].get(name, ""):
        return mark
    return {**mark, "points": 0, "remark": "", "read": False}


def _rows(entry: Entry, weak: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of a student in the CSV file: one for each question and marked text, and the total."""
    rows = list[tuple[Any, ...]]()
    for q in entry["questions"]:
        said = " ".join(q["said"])
        seconds = q["seconds"] or ""
        rows.append((q["question"], q["points"], q["of"], q["mistake"], said, "", seconds))
    for name, mark in entry["marks"].items():
        note = text("grade.marks.unread") if name in unread(entry) else ""
        rows.append((name, mark["points"], mark["of"], "", mark["remark"], note, ""))
    rows.append(("total", *totals(entry), "", "", " ".join(weak + noted(entry)), ""))
    return [(entry["student"], *row) for row in rows]


def columns(entries: Sequence[Entry]) -> dict[str, float]:
    """Return name -> most possible points of all that counts for any student, questions before free texts."""
    asked = {q["question"]: q["of"] for entry in entries for q in entry["questions"]}
    marked = {name: mark["of"] for entry in entries for name, mark in entry["marks"].items()}
    return asked | marked


def _matrix(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """Return a row for each student, with the points in each column and the total; the first row has the names."""
    names = columns(entries)
    most = f"{sum(names.values()):g}"
    rows = [("student", *(f"{name} /{of:g}" for name, of in names.items()), f"total /{most}")]
    for entry in entries:
        points = {name: points for name, points, _ in scores(entry)}
        found = [f"{points[name]:g}" if name in points else "" for name in names]
        rows.append((entry["student"], *found, totals(entry)[0]))
    return rows


def as_csv(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Write rows as CSV, such that a spreadsheet takes no part of a cell for a formula."""
    out = io.StringIO()
    safe = [[unformula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(safe)
    return out.getvalue().encode(errors="backslashreplace")


def unformula(cell: str) -> str:
    """Return the text of a cell with an apostrophe before all that a spreadsheet could take for a formula."""
    return _FORMULA.sub(r"\1'", cell)
