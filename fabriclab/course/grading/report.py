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
from .results import Entry, Results, noted, totals
from .works import Work

_MARK = "### BEGIN SOLUTION"


def _made(head: Mapping[str, Any], active: Sequence[str]) -> list[str]:
    """Return sentences on how the results were made: protections, key, version, date and machine."""
    walls = ", ".join(table().get(f"sandbox.has.{name}", name) for name in active)
    key = (
        text("grade.made.practice")
        if head["key"] == "practice"
        else text("grade.made.key", key=head["key"])
    )
    limits = text(
        "grade.made.limits",
        cpu=f"{head['limits']['cpu_s']:g}",
        wall=f"{head['limits']['wall_s']:g}",
        memory=head["limits"]["memory"] >> 20,
    )
    found = [text("grade.made.walls", walls=walls) if walls else text("grade.made.none")]
    found += [text("grade.made.weak")] * head["weak"] + [
        key,
        text("grade.made.with", **head),
        limits,
    ]
    return [_tag("p", line) for line in (*found, text("grade.made.times"))]


def _title(id: str) -> str:
    return heading(id)


def _titles(asked: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(_title(exercise(id)) for id in asked))


def _page_of(student: str) -> str:
    return f"{student if len(student.encode()) < 200 else hashlib.sha256(student.encode()).hexdigest()}.html"


def write(results: Results, failed: Mapping[str, str]) -> None:
    """Write the pages of all students and of the class; ``failed`` gives the reason for each missing grade."""
    for entry in results.entries.values():
        _write_student(results.table.with_suffix(""), results.head, entry)
    _write_class(results, failed)
    _write_texts(
        results.table.with_name(f"{results.table.stem}-texts.html"), [*results.entries.values()]
    )


def _write_student(folder: Path, head: Mapping[str, Any], entry: Entry) -> None:
    """Write the page of one student."""
    rows, told = [], list[str]()
    for q in entry["questions"]:
        title, seconds = (
            _title(q["question"]),
            f"{q['seconds']:.1f}" if q["seconds"] >= 0.05 else "-",
        )
        rows.append((title, f"{q['points']:g} / {q['of']:g}", q["mistake"] or "-", seconds))
        told += [_tag("h2", title)] * bool(q["said"]) + [
            _tag("p", sentence) for sentence in q["said"]
        ]
    points, of = totals(entry)
    total = text("grade.page.total", points=points, of=of)
    about = f"{_titles(q['question'] for q in entry['questions'])}. {total}"
    body = [_tag("p", line) for line in (about, *entry["notes"])]
    body += [
        as_html([text("grade.page.columns").split("|"), *rows], text("grade.page.each")),
        *told,
    ]
    for name, words in entry["texts"].items():
        if words:
            body += [
                _tag("h2", text("grade.page.text", id=name)),
                _tag("p", text("grade.page.unscored")),
            ]
            body += [_tag("pre", words)]
    key = "" if head["key"] == "practice" else " --key KEY_FILE"
    replay = _tag("p", text("grade.page.replay", student=shlex.quote(entry["student"]), key=key))
    body += [_tag("h2", text("grade.page.how")), *_made(head, entry["active"]), replay]
    _write(folder / _page_of(entry["student"]), entry["student"], body)


def _write_class(results: Results, failed: Mapping[str, str]) -> None:
    """Write the page of the class: right answers to each question, the commonest mistakes, and everybody's points."""
    path, entries = results.table.with_suffix(".html"), [*results.entries.values()]
    asked, rows = [q for entry in entries for q in entry["questions"]], []
    names = dict.fromkeys(q["question"] for q in asked)
    for name in names:
        all_of = [q for q in asked if q["question"] == name]
        right = sum(q["points"] >= q["of"] for q in all_of) / len(all_of)
        mean = sum(q["points"] for q in all_of) / len(all_of)
        mistakes = Counter(q["mistake"] for q in all_of if q["mistake"]).most_common(3)
        often = "; ".join(f"{mistake} ({n})" for mistake, n in mistakes) or "-"
        kinds = Counter(q["trouble"] for q in all_of if q["trouble"]).most_common()
        trouble = (
            "; ".join(f"{table().get(f'grade.trouble.{kind}', kind)} ({n})" for kind, n in kinds)
            or "-"
        )
        rows.append(
            (_title(name), f"{right:.0%}", f"{mean:.1f} / {all_of[0]['of']:g}", often, trouble)
        )
    body = _made(results.head, results.head["active"])
    body += [
        _tag("p", text("grade.failed", student=student, said=said))
        for student, said in failed.items()
    ]
    body += [_tag("h2", text("grade.page.questions"))]
    body += [
        as_html(
            [text("grade.page.shares").split("|"), *rows], text("grade.page.share", n=len(entries))
        )
    ]
    students = []
    for entry in entries:
        notes = "".join(_tag("p", note) for note in noted(entry))
        link = _link(entry["student"], f"{path.stem}/{_page_of(entry['student'])}")
        students.append(f"<li>{link}: {' / '.join(totals(entry))}{notes}</li>")
    body += [f"<p>{_link(text('grade.page.texts'), f'{path.stem}-texts.html')}</p>"]
    body += [_tag("h2", text("grade.page.students")), f"<ul>{''.join(students)}</ul>"]
    _write(path, text("grade.page.class", exercises=_titles(names)), body)


def _write_texts(path: Path, entries: Sequence[Entry]) -> None:
    """Write one page with the free texts of all students, question by question."""
    body = list[str]()
    for name in sorted({name for entry in entries for name in entry["texts"]}):
        body += [_tag("h2", name)]
        for entry in entries:
            words = entry["texts"].get(name)
            body += [
                _tag("h3", entry["student"]),
                _tag("pre", words) if words else _tag("p", text("grade.page.empty")),
            ]
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
    return dict.fromkeys([*(("", token) for token in tokens), *(mark for mark in codes if mark[1])])


def _bare(source: str) -> str:
    """Return code without comments and white space, or an empty text if it is still the stub."""
    code = re.sub(r"#.*|\s+", "", source)
    return _MARK if _MARK in source else "" if re.sub(r"\s+", "", CODE_STUB[1]) in code else code
