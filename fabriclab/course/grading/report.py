"""Results as pages: one for each student and two for the class, with remarks for the teacher.

All text from students is escaped.
"""

import re
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fabriclab.core import as_html
from fabriclab.course.questions import misconception
from fabriclab.texts import table, text

from . import class_page, pages
from .class_page import names as names_of
from .notebooks import CODE_STUB, exercise, token
from .pages import tag
from .results import Entry, Record, Results, totals, unread
from .works import Work

_MARK = "### BEGIN SOLUTION"


def write(results: Results) -> None:
    """Write the pages of all students and of the class."""
    asked = dict[str, None]()
    for entry in results.entries.values():
        _write_student(results.table.with_suffix(""), results.head, entry)
        asked |= dict.fromkeys(q["question"] for q in entry["questions"])
    made = _made(results.head, results.head["active"])
    class_page.write(results, _titles(asked), made)


def _made(head: Mapping[str, Any], active: Sequence[str]) -> list[str]:
    """Return sentences on how the results were made: protections, key, version, date and machine."""
    walls = ", ".join(table().get(f"sandbox.has.{name}", name) for name in active)
    lines = [text("grade.made.walls", walls=walls) if walls else text("grade.made.none")]
    if head["weak"]:
        lines.append(text("grade.made.weak"))

    if head["key"] == "practice":
        lines.append(text("grade.made.practice"))
    else:
        lines.append(text("grade.made.key", key=head["key"]))
    lines.append(text("grade.made.with", **head))

    limits = head["limits"]
    cpu = f"{limits['cpu_s']:g}"
    wall = f"{limits['wall_s']:g}"
    lines.append(text("grade.made.limits", cpu=cpu, wall=wall, memory=limits["memory"] >> 20))
    lines.append(text("grade.made.times"))
    return [tag("p", line) for line in lines]


def _titles(asked: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(pages.title(exercise(id)) for id in asked))


# Students' pages -------------------------------------------------------------------------------------------------


def _write_student(folder: Path, head: Mapping[str, Any], entry: Entry) -> None:
    """Write the page of one student."""
    points, of = totals(entry)
    titles = _titles(q["question"] for q in entry["questions"])
    total = text("grade.page.total", points=points, of=of)
    body = [tag("p", f"{titles}. {total}")]
    body += [tag("p", note) for note in entry["notes"]]
    if head["hide_truth"]:
        body.append(tag("p", text("grade.page.hidden")))

    columns = text("grade.page.columns").split("|")
    rows = [_row_of_question(q) for q in entry["questions"]]
    rows += [_row_of_text(entry, name) for name in entry["marks"]]
    body.append(as_html([columns, *rows], text("grade.page.each")))
    for q in entry["questions"]:
        said = _without_truth(q) if head["hide_truth"] else q["said"]
        if said:
            body.append(tag("h2", pages.title(q["question"])))
        body += [tag("p", sentence) for sentence in said]
    body += _texts(entry)

    key = "" if head["key"] == "practice" else " --key KEY_FILE"
    replay = text("grade.page.replay", student=shlex.quote(entry["student"]), key=key)
    body.append(tag("h2", text("grade.page.how")))
    body += _made(head, entry["active"])
    body.append(tag("p", replay))
    pages.write(folder / pages.page_of(entry["student"]), entry["student"], body)


def _row_of_question(q: Record) -> tuple[str, str, str, str]:
    """Return a question of a student as a row: title, points, mistake and seconds."""
    points = f"{q['points']:g} / {q['of']:g}"
    seconds = f"{q['seconds']:.1f}" if q["seconds"] >= 0.05 else "-"
    return pages.title(q["question"]), points, q["mistake"] or "-", seconds


def _row_of_text(entry: Entry, name: str) -> tuple[str, str, str, str]:
    """Return a free text that counts as a row."""
    mark = entry["marks"][name]
    points = f"{mark['points']:g} / {mark['of']:g}"
    if name in unread(entry):
        points = text("grade.marks.unread")
    return text("grade.page.text", id=name), points, "-", "-"


def _texts(entry: Entry) -> list[str]:
    """Return a student's free texts, each with what the teacher has said about it."""
    body = list[str]()
    marks = entry["marks"]
    for name in {**entry["texts"], **marks}:
        words = entry["texts"].get(name, "")
        remark = marks[name]["remark"] if name in marks else ""
        if not words and not remark:
            continue
        body.append(tag("h2", text("grade.page.text", id=name)))
        if name not in marks:
            body.append(tag("p", text("grade.page.unscored")))
        if words:
            body.append(tag("pre", words))
        if remark:
            body.append(tag("p", text("grade.page.remark", remark=remark)))
    return body


def _without_truth(q: Record) -> list[str]:
    """Return what a question's verdict may say while its cases are still secret.

    That is what does not depend on a case: what is wrong with the file, the misconception, and how code failed.
    Sentences of judges and messages of errors may hold a case or its right answer, so none of them is repeated.
    """
    if not q["cells"]:  # nothing was run
        return list(q["said"])
    of_the_file = (
        text("grade.open"),
        text("grade.module"),
        text("grade.twice", id=q["question"]),
    )
    said = [misconception(q["question"], q["mistake"])] if q["mistake"] else []
    if q["trouble"] not in ("", "open"):
        said.append(text("grade.page.failed", trouble=class_page.trouble(q["trouble"])))
    said += [sentence for sentence in of_the_file if sentence in q["said"]]
    return [sentence for sentence in said if sentence]


# Remarks ---------------------------------------------------------------------------------------------------------


def remark(
    entries: Sequence[Entry], key: str, names: Iterable[str], solved: Work, room: Container[str]
) -> None:
    """Set the ``remarks`` of each entry: results of an earlier run, somebody else's file, published or equal code.

    ``names`` is the list of the class, ``solved`` has the published solutions, and ``room`` has everybody who hands in
    now. Remarks cost no points. All members of a group with equal code get the same remark.
    """
    owners = {token(key, name): name for name in (*(entry["student"] for entry in entries), *names)}
    answers = {q.id: next(book.variants(q.id, q.functions), [""])[-1] for q, book in solved.due}
    published = {id: _bare(source.replace(_MARK, "#")) for id, source in answers.items()}
    marks = {entry["student"]: _marks(entry) for entry in entries}
    holders = dict[tuple[str, str], list[str]]()  # what work may have in common -> who has it
    for student, own in marks.items():
        for mark in own:
            holders.setdefault(mark, []).append(student)
    for students in holders.values():
        students.sort()
    for entry in entries:
        student, alike = entry["student"], dict[tuple[str, ...], list[str]]()
        remarks = [] if student in room else [text("grade.note.earlier")]
        for id, what in marks[student]:
            same = tuple(holders[id, what])
            owner = owners.get(what) or student
            if (
                not id and owner.casefold() not in student.casefold()
            ):  # since platforms append numbers to names
                remarks.append(text("grade.note.owner", owner=owner))
            if not id and len(same) > 1:
                remarks.append(text("grade.note.token", n=len(same), students=names_of(same)))
            if id and what in (published.get(id), _MARK):
                alike.setdefault((), []).append(id)
            elif id and len(same) > 1:
                alike.setdefault(same, []).append(id)
        for who, ids in sorted(alike.items()):
            name = "grade.note.code" if who else "grade.note.published"
            about = {
                "n": len(who),
                "students": names_of(who),
                "questions": ", ".join(ids),
            }
            remarks.append(text(name, **about))
        entry["remarks"] = remarks


def _marks(entry: Entry) -> dict[tuple[str, str], None]:
    """Return what two students' work may have in common: tokens of files, and code of the answers by question."""
    tokens = sorted({q["token"] for q in entry["questions"]} - {""})
    codes = [(q["question"], _bare(q["cells"][-1])) for q in entry["questions"] if q["cells"]]
    marks = [("", token) for token in tokens]
    marks += [(question, code) for question, code in codes if code]
    return dict.fromkeys(marks)


def _bare(source: str) -> str:
    """Return code without comments and white space, or an empty text if it is still the stub."""
    code = re.sub(r"#.*|\s+", "", source)
    if _MARK in source:
        return _MARK
    stub = re.sub(r"\s+", "", CODE_STUB[1])
    return "" if stub in code else code
