"""Results as pages: one for each student and two for the class, with remarks for the teacher.

All text from students is escaped.
"""

import hashlib
import html
import re
import shlex
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from fabriclab.core import as_html, write_atomic
from fabriclab.course.questions.files import heading
from fabriclab.texts import table, text

from .notebooks import CODE_STUB, exercise, token
from .results import Entry, Record, Results, noted, totals
from .works import Work

_MARK = "### BEGIN SOLUTION"


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
    return [_tag("p", line) for line in lines]


def _title(id: str) -> str:
    return heading(id)


def _titles(asked: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(_title(exercise(id)) for id in asked))


def _page_of(student: str) -> str:
    """Return the name of a student's page; a name that is too long for a file stands as its hash."""
    encoded = student.encode()
    if len(encoded) < 200:
        return f"{student}.html"
    return f"{hashlib.sha256(encoded).hexdigest()}.html"


def write(results: Results, failed: Mapping[str, str]) -> None:
    """Write the pages of all students and of the class; ``failed`` gives the reason for each missing grade."""
    for entry in results.entries.values():
        _write_student(results.table.with_suffix(""), results.head, entry)
    _write_class(results, failed)
    texts = results.table.with_name(f"{results.table.stem}-texts.html")
    _write_texts(texts, [*results.entries.values()])


def _write_student(folder: Path, head: Mapping[str, Any], entry: Entry) -> None:
    """Write the page of one student."""
    points, of = totals(entry)
    titles = _titles(q["question"] for q in entry["questions"])
    total = text("grade.page.total", points=points, of=of)
    body = [_tag("p", f"{titles}. {total}")]
    body += [_tag("p", note) for note in entry["notes"]]

    columns = text("grade.page.columns").split("|")
    rows = [_row_of_student(q) for q in entry["questions"]]
    body.append(as_html([columns, *rows], text("grade.page.each")))
    for q in entry["questions"]:
        if q["said"]:
            body.append(_tag("h2", _title(q["question"])))
        body += [_tag("p", sentence) for sentence in q["said"]]
    for name, words in entry["texts"].items():
        if words:
            body.append(_tag("h2", text("grade.page.text", id=name)))
            body.append(_tag("p", text("grade.page.unscored")))
            body.append(_tag("pre", words))

    key = "" if head["key"] == "practice" else " --key KEY_FILE"
    replay = text("grade.page.replay", student=shlex.quote(entry["student"]), key=key)
    body.append(_tag("h2", text("grade.page.how")))
    body += _made(head, entry["active"])
    body.append(_tag("p", replay))
    _write(folder / _page_of(entry["student"]), entry["student"], body)


def _row_of_student(q: Record) -> tuple[str, str, str, str]:
    """Return a question of a student as a row: title, points, mistake and seconds."""
    points = f"{q['points']:g} / {q['of']:g}"
    seconds = f"{q['seconds']:.1f}" if q["seconds"] >= 0.05 else "-"
    return _title(q["question"]), points, q["mistake"] or "-", seconds


def _write_class(results: Results, failed: Mapping[str, str]) -> None:
    """Write the page of the class: how many had each question right, what went wrong most often, and who got what."""
    path = results.table.with_suffix(".html")
    entries = list(results.entries.values())
    records = dict[str, list[Record]]()  # by question
    for entry in entries:
        for q in entry["questions"]:
            records.setdefault(q["question"], []).append(q)

    body = _made(results.head, results.head["active"])
    for student, said in failed.items():
        body.append(_tag("p", text("grade.failed", student=student, said=said)))

    columns = text("grade.page.shares").split("|")
    rows = [_row_of_class(name, of_question) for name, of_question in records.items()]
    body.append(_tag("h2", text("grade.page.questions")))
    body.append(as_html([columns, *rows], text("grade.page.share", n=len(entries))))

    students = [_item_of_student(entry, path.stem) for entry in entries]
    body.append(f"<p>{_link(text('grade.page.texts'), f'{path.stem}-texts.html')}</p>")
    body.append(_tag("h2", text("grade.page.students")))
    body.append(f"<ul>{''.join(students)}</ul>")
    _write(path, text("grade.page.class", exercises=_titles(records)), body)


def _row_of_class(name: str, records: Sequence[Record]) -> tuple[str, str, str, str, str]:
    """Return a question as a row: title, who had it right, mean points, what went wrong, and what else happened."""
    right = sum(q["points"] >= q["of"] for q in records) / len(records)
    mean = sum(q["points"] for q in records) / len(records)
    mistakes = Counter(q["mistake"] for q in records if q["mistake"]).most_common(3)
    often = "; ".join(f"{mistake} ({n})" for mistake, n in mistakes)
    kinds = Counter(q["trouble"] for q in records if q["trouble"]).most_common()
    trouble = "; ".join(f"{table().get(f'grade.trouble.{kind}', kind)} ({n})" for kind, n in kinds)
    points = f"{mean:.1f} / {records[0]['of']:g}"
    return _title(name), f"{right:.0%}", points, often or "-", trouble or "-"


def _item_of_student(entry: Entry, folder: str) -> str:
    """Return the line of a student in the list of the class: a link to the page, points, and notes."""
    notes = "".join(_tag("p", note) for note in noted(entry))
    link = _link(entry["student"], f"{folder}/{_page_of(entry['student'])}")
    return f"<li>{link}: {' / '.join(totals(entry))}{notes}</li>"


def _write_texts(path: Path, entries: Sequence[Entry]) -> None:
    """Write one page with the free texts of all students, question by question."""
    body = list[str]()
    for name in sorted({name for entry in entries for name in entry["texts"]}):
        body += [_tag("h2", name)]
        for entry in entries:
            words = entry["texts"].get(name)
            body.append(_tag("h3", entry["student"]))
            body.append(_tag("pre", words) if words else _tag("p", text("grade.page.empty")))
    _write(path, text("grade.page.texts"), body)


def _tag(name: str, words: str, about: str = "") -> str:
    return f"<{name}{about}>{html.escape(words)}</{name}>"


def _link(words: str, to: str) -> str:
    return _tag("a", words, f' href="{quote(to)}"')


def _write(path: Path, title: str, body: Sequence[str]) -> None:
    page = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    whole = page.substitute(title=html.escape(title), body="\n".join(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, whole.encode(errors="backslashreplace"))


def remark(
    entries: Sequence[Entry], key: str, names: Iterable[str], solved: Work, room: Container[str]
) -> None:
    """Set the ``remarks`` of each entry: results of an earlier run, somebody else's file, published or equal code.

    ``names`` is the list of the class, ``solved`` has the published solutions, and ``room`` has everybody who hands in
    now. Remarks cost no points.
    """
    owners = {token(key, name): name for name in (*(entry["student"] for entry in entries), *names)}
    answers = {q.id: next(book.variants(q.id, q.functions), [""])[-1] for q, book in solved.due}
    published = {id: _bare(source.replace(_MARK, "#")) for id, source in answers.items()}
    marks = {entry["student"]: _marks(entry) for entry in entries}
    for entry in entries:
        student, alike = entry["student"], dict[str, list[str]]()
        remarks = [] if student in room else [text("grade.note.earlier")]
        for id, what in marks[student]:
            others = [
                other
                for other, theirs in marks.items()
                if other != student and (id, what) in theirs
            ]
            shown = ", ".join(others[:5]) + ", ..." * (len(others) > 5)
            owner = owners.get(what) or student
            if (
                not id and owner.casefold() not in student.casefold()
            ):  # since platforms append numbers to names
                remarks.append(text("grade.note.owner", owner=owner))
            if not id and others:
                remarks.append(text("grade.note.token", others=shown))
            if id and what in (published.get(id), _MARK):
                alike.setdefault("", []).append(id)
            elif id and others:
                alike.setdefault(shown, []).append(id)
        for who, ids in sorted(alike.items()):
            name = "grade.note.code" if who else "grade.note.published"
            remarks.append(text(name, others=who, questions=", ".join(ids)))
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
