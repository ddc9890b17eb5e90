"""Results as pages: one for each student, and one for the class. Everything that a student wrote is escaped."""

from __future__ import annotations

import hashlib
import html
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fabriclab.core.save import write_atomic
from fabriclab.grading.notebooks import exercise
from fabriclab.grading.results import Entry, noted, totals
from fabriclab.texts import table, text

__all__ = ["made", "page_of", "write_page", "write_summary", "write_texts"]
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}th,td{border:1px solid;padding:.3rem .6rem;text-align:left;vertical-align:top}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.6rem}"
)


def page_of(student: str) -> str:
    """Return the file name of a student's page."""
    return f"{student if len(student.encode()) < 200 else hashlib.sha256(student.encode()).hexdigest()}.html"


def made(head: Mapping[str, Any], active: Sequence[str] | None = None) -> list[str]:
    """Return how the results were made: protections, key, version, date and machine."""
    walls = [text(f"sandbox.has.{name}") for name in (head["active"] if active is None else active)]
    key = text("grade.made.practice") if head["key"] == "practice" else text("grade.made.key", key=head["key"])
    limits = text("grade.made.limits", wall=f"{head['limits']['wall_s']:g}", memory=head["limits"]["memory"] >> 20)
    return [
        text("grade.made.walls", walls=", ".join(walls)) if walls else text("grade.made.none"),
        key, versions(head), limits, text("grade.made.times"),
    ]  # fmt: skip


def versions(head: Mapping[str, Any]) -> str:
    """Return what the results were made with, and when."""
    return text("grade.made.with", **{name: head[name] for name in ("fabriclab", "python", "numpy", "date", "cores")})


def _title(id: str) -> str:
    return table().get(f"grade.title.{id}", id)


def _titles(asked: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(_title(exercise(id)) for id in asked))


def write_page(folder: Path, head: Mapping[str, Any], entry: Entry) -> None:
    """Write the page of one student."""
    asked = entry["questions"]
    columns = [*map(text, ("grade.page.question", "grade.page.points", "grade.page.mistake", "grade.page.seconds"))]
    points, of = totals(entry)
    cells = [
        (_title(q["question"]), f"{q['points']:g} / {q['of']:g}", q["mistake"] or "-",
         f"{q['seconds']:.1f}" if q["seconds"] >= 0.05 else "-")
        for q in asked
    ]  # fmt: skip
    total = text("grade.page.total", points=points, of=of)
    body = [
        _tag("p", f"{_titles(q['question'] for q in asked)}. {total}"),
        *(_tag("p", note) for note in entry["notes"]),
        _table(text("grade.page.each"), columns, cells),
    ]
    for q in asked:
        body += [_tag("h2", _title(q["question"]))] if q["said"] else []
        body += [*(_tag("p", sentence) for sentence in q["said"])]
    for name, words in ((name, words) for name, words in entry["texts"].items() if words):
        body += [_tag("h2", text("grade.page.text", id=name)), _tag("p", text("grade.page.unscored"))]
        body += [_tag("pre", words)]
    how = [_tag("h2", text("grade.page.how")), *(_tag("p", line) for line in made(head, entry["active"]))]
    key = "" if head["key"] == "practice" else " --key KEY_FILE"
    replay = _tag("p", text("grade.page.replay", student=shlex.quote(entry["student"]), key=key))
    _write(folder / page_of(entry["student"]), entry["student"], [*body, *how, replay])


def write_summary(path: Path, head: Mapping[str, Any], entries: Sequence[Entry], failed: Sequence[str]) -> None:
    """Write the page of the class: how many had each question right, what went wrong most often, and who got what."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        for q in entry["questions"]:
            asked.setdefault(q["question"], []).append(q)
    rows = []
    for name, all_of in asked.items():
        right = sum(q["points"] >= q["of"] for q in all_of) / len(all_of)
        mean = sum(q["points"] for q in all_of) / len(all_of)
        mistakes = Counter(q["mistake"] for q in all_of if q["mistake"]).most_common(3)
        often = "; ".join(f"{mistake} ({n})" for mistake, n in mistakes) or "-"
        kinds = Counter(q["trouble"] for q in all_of if q["trouble"]).most_common()
        trouble = "; ".join(f"{text(f'grade.trouble.{kind}')} ({n})" for kind, n in kinds) or "-"
        rows.append((_title(name), f"{right:.0%}", f"{mean:.1f} / {all_of[0]['of']:g}", often, trouble))
    about = ("grade.page.question", "grade.page.right", "grade.page.mean", "grade.page.often", "grade.page.trouble")
    columns = [*map(text, about)]
    body = [_tag("p", line) for line in made(head)]
    body += [_tag("p", text("grade.page.failed", students=", ".join(failed)))] if failed else []
    body += [_tag("h2", text("grade.page.questions")), _table(text("grade.page.share", n=len(entries)), columns, rows)]
    students = []
    for entry in entries:
        link = _tag("a", entry["student"], f' href="{quote(f"{path.stem}/" + page_of(entry["student"]))}"')
        students.append(
            f"<li>{link}: {' / '.join(totals(entry))}{''.join(_tag('p', note) for note in noted(entry))}</li>"
        )
    texts = _tag("a", text("grade.page.texts"), f' href="{quote(f"{path.stem}-texts.html")}"')
    body += [f"<p>{texts}</p>"]
    body += [_tag("h2", text("grade.page.students")), f"<ul>{''.join(students)}</ul>"]
    _write(path, text("grade.page.class", exercises=_titles(asked)), body)


def write_texts(path: Path, entries: Sequence[Entry]) -> None:
    """Write one page with the free texts of all students, question by question."""
    body = list[str]()
    for name in sorted({name for entry in entries for name in entry["texts"]}):
        body += [_tag("h2", name)]
        for entry in entries:
            words = entry["texts"].get(name)
            body += [_tag("h3", entry["student"]), _tag("pre", words) if words else _tag("p", text("grade.page.empty"))]
    _write(path, text("grade.page.texts"), body)


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(_tag("th", name, " scope=col") for name in columns)
    body = "".join(f"<tr>{_tag('th', r[0], ' scope=row')}{''.join(_tag('td', c) for c in r[1:])}</tr>" for r in rows)
    return f"<table>{_tag('caption', caption)}<tr>{head}</tr>{body}</table>"


def _tag(name: str, words: str, about: str = "") -> str:
    return f"<{name}{about}>{html.escape(words)}</{name}>"


def _write(path: Path, title: str, body: Sequence[str]) -> None:
    view = '<meta name="viewport" content="width=device-width">'
    start = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{view}{_tag("title", title)}'
    page = [f"{start}<style>{_STYLE}</style></head><body><main>", _tag("h1", title), *body, "</main></body></html>\n"]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "\n".join(page).encode(errors="backslashreplace"))
