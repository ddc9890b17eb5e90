"""Points and remarks for free texts: a table that an instructor fills in, checked before any of it counts."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

from .notebooks import exercise
from .results import Entry, as_csv, unformula

_COLUMNS = ("student", "text", "points", "of", "remark", "version", "words")
_NEEDED = _COLUMNS[:5]
_MOST = 1000.0  # illustrative: points of one text, far above what anybody means
_SHOWN = 8  # names in an error


class Mark(NamedTuple):
    """A row of the table: points for a free text, None if they are not given yet."""

    student: str
    name: str
    points: float | None
    of: float
    remark: str
    version: str  # of the text that was read; empty in a row that was added by hand


def new(path: Path, entries: Sequence[Entry], of: float) -> int:
    """Write a table with a row for each free text that a student has written; return how many there are.

    Parameters
    ----------
    path : Path
        The table; an existing file is never changed.
    entries : sequence of dict
        Results of all students.
    of : float
        The most possible points of each text.

    Raises
    ------
    InputRefused
        If the file is there already, there is no text, or ``of`` is no number above 0.
    """
    refuse_if(not 0 < of <= _MOST, "grade.marks.most", points=f"{of:g}", most=f"{_MOST:g}")
    refuse_if(path.exists(), "grade.marks.exists", path=path)
    rows = list[tuple[Any, ...]]()
    for entry in entries:
        asked = {exercise(q["question"]) for q in entry["questions"]}
        for name, words in entry["texts"].items():
            # Other names are of cells that a student has made.
            if words.strip() and exercise(name) in asked:
                version = _version(words)
                rows.append((entry["student"], name, "", f"{of:g}", "", version, words))
    refuse_if(not rows, "grade.marks.none")
    rows.sort(key=lambda row: (row[1], row[0]))  # all texts on one question in turn
    path.write_bytes(as_csv([_COLUMNS, *rows]))
    return len(rows)


def merge(path: Path, entries: Mapping[str, Entry]) -> list[str]:
    """Set the ``marks`` of all entries from a table; return a sentence on each row that does not count.

    A text counts for everybody as soon as the table has a row of it. A student who has written none gets 0 points.

    Parameters
    ----------
    path : Path
        The table.
    entries : mapping
        Student -> results; changed only if the whole table can be read.

    Raises
    ------
    InputRefused
        If a name, a number or a column is not as expected; the message says what was given and how to correct it.
    """
    marks = _read(path, entries)
    of = dict[str, float]()
    for mark in marks:
        known = of.setdefault(mark.name, mark.of)
        if known != mark.of:
            words = {"name": mark.name, "one": f"{known:g}", "other": f"{mark.of:g}"}
            raise InputRefused(text("grade.marks.of_differs", path=path, **words))
    given = {(mark.student, mark.name): mark for mark in marks}
    refuse_if(len(given) < len(marks), "grade.marks.twice", path=path, names=_doubled(marks))

    changed = list[str]()
    for student, entry in entries.items():
        entry["marks"] = {}
        for name, most in of.items():
            found = given.get((student, name))
            fits = found is not None and _fits(found, entry["texts"].get(name, ""))
            if found is not None and found.points is not None and not fits:
                changed.append(text("grade.marks.changed", student=student, name=name, path=path))
            read = found is not None and found.points is not None and fits
            points = found.points if found is not None and read else 0.0
            remark = found.remark if found is not None and fits else ""
            entry["marks"][name] = {"points": points, "of": most, "remark": remark, "read": read}
    return changed


def level(entries: Sequence[Entry]) -> None:
    """Let every text that counts for somebody count for all, also for those who were graded later."""
    of = {name: mark["of"] for entry in entries for name, mark in entry["marks"].items()}
    for entry in entries:
        missing = {"points": 0.0, "remark": "", "read": False}
        marks = entry["marks"]
        entry["marks"] = {
            name: marks.get(name, missing | {"of": most}) for name, most in of.items()
        }


def _version(words: str) -> str:
    """Return a name for a text, which no spreadsheet takes for a number."""
    return "t" + sha256("".join(words.split()).encode()).hexdigest()[:8]


def _fits(mark: Mark, words: str) -> bool:
    """Return whether a row is about this text, and not about an earlier one of the same student."""
    return mark.version in ("", _version(words))


def _doubled(marks: Sequence[Mark]) -> str:
    """Return the student and the text of rows that occur twice."""
    seen = set[tuple[str, str]]()
    double = list[str]()
    for mark in marks:
        if mark[:2] in seen:
            double.append(f"{mark.student} {mark.name}")
        seen.add(mark[:2])
    return _few(double)


def _few(names: Sequence[str]) -> str:
    """Return the first of some names in a line."""
    return ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)


# Reading ---------------------------------------------------------------------------------------------------------


def _read(path: Path, entries: Mapping[str, Entry]) -> list[Mark]:
    """Return the rows of a table, whatever separator a spreadsheet has written."""
    refuse_if(not path.is_file(), "grade.marks.missing", path=path)
    try:
        words = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputRefused(text("grade.marks.encoding", path=path)) from None
    first = words.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    reader = csv.DictReader(io.StringIO(words, newline=""), delimiter=separator)
    lacking = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    known = ", ".join(_COLUMNS)
    refuse_if(lacking, "grade.marks.columns", path=path, lacks=", ".join(lacking), known=known)
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputRefused(text("grade.marks.broken", path=path, error=error)) from None

    # The table holds names with an apostrophe where a spreadsheet could see a formula.
    students = {unformula(name): name for name in entries} | {name: name for name in entries}
    texts = sorted({name for entry in entries.values() for name in entry["texts"]})
    marks = list[Mark]()
    for line, row in rows:
        cells = {name: (row.get(name) or "").strip() for name in _COLUMNS}
        if any(cells[name] for name in _NEEDED):
            marks.append(_mark(f"{path}:{line}", cells, students, texts))
    return marks


def _mark(
    place: str, cells: Mapping[str, str], students: Mapping[str, str], texts: Sequence[str]
) -> Mark:
    """Return a row; raise InputRefused if anything in it is wrong."""
    student, name = cells["student"], cells["text"]
    if student not in students:
        known = _few([*dict.fromkeys(students.values())])
        raise InputRefused(text("grade.marks.student", place=place, given=student, known=known))
    if name not in texts:
        raise InputRefused(text("grade.marks.text", place=place, given=name, known=_few(texts)))
    of = _number(place, "of", cells["of"])
    about = {"place": place, "student": students[student], "name": name}
    points = None
    if cells["points"]:
        points = _number(place, "points", cells["points"])
        if points > of:
            given = {"points": f"{points:g}", "of": f"{of:g}"}
            raise InputRefused(text("grade.marks.many", **about, **given))
    return Mark(students[student], name, points, of, cells["remark"], cells["version"])


def _number(place: str, column: str, given: str) -> float:
    """Return a number of points; a comma may stand for the point."""
    try:
        number = float(given.replace(",", "."))
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MOST or (column == "of" and number == 0):
        words = {"place": place, "column": column, "given": given, "most": f"{_MOST:g}"}
        raise InputRefused(text("grade.marks.number", **words))
    return number
