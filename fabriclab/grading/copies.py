"""What a teacher may want to look at: files and answers that occur twice. It costs nobody any points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fabriclab.grading.notebooks import CODE_STUB
from fabriclab.grading.release import token
from fabriclab.grading.results import Entry
from fabriclab.texts import text

__all__ = ["bare", "remark"]


def bare(source: str) -> str:
    """Return code without comments and white space, or nothing if it is still the stub."""
    code = re.sub(r"#.*|\s+", "", source)
    return "" if re.sub(r"\s+", "", CODE_STUB[1]) in code else code


def remark(entries: Sequence[Entry], key: str, names: Iterable[str], published: Mapping[str, str]) -> None:
    """Set ``remarks`` of each entry: the file of somebody else, the published solution, the same code as others.

    ``names`` is the list of the class, and ``published`` has the bare code of the solutions by question.
    """
    owners = {token(key, name): name for name in (*(entry["student"] for entry in entries), *names)}
    having: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for mark in sorted({mark for q in entry["questions"] for mark in _marks(q)}):
            having.setdefault(mark, []).append(entry["student"])
    for entry in entries:
        student, remarks = entry["student"], list[str]()
        for one in sorted({q["token"] for q in entry["questions"]} - {""}):
            owner = owners.get(one) or student
            if owner.casefold() not in student.casefold():  # platforms put numbers behind a name
                remarks.append(text("grade.note.owner", owner=owner))
            if others := _others(having["", one], student):
                remarks.append(text("grade.note.token", others=others))
        solved, alike = list[str](), dict[str, list[str]]()
        for q in entry["questions"]:
            for mark in [mark for mark in _marks(q) if mark[0]]:
                if published.get(q["question"]) == mark[1] or "### BEGIN SOLUTION" in q["cells"][-1]:
                    solved.append(q["question"])
                elif others := _others(having[mark], student):
                    alike.setdefault(others, []).append(q["question"])
        remarks += [text("grade.note.published", questions=", ".join(solved))] if solved else []
        remarks += [text("grade.note.code", others=who, questions=", ".join(some)) for who, some in alike.items()]
        entry["remarks"] = remarks


def _marks(q: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what may be the same in two hand-ins: the token of a file, and the code of an answer."""
    code = bare(q["cells"][-1]) if q["cells"] else ""
    return [("", q["token"])] * bool(q["token"]) + [(q["question"], code)] * bool(code)


def _others(students: Sequence[str], but: str) -> str:
    others = [student for student in students if student != but]
    return ", ".join(others[:5]) + ", ..." * (len(others) > 5)
