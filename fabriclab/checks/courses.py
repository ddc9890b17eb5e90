"""The map of the course: which lessons exist, how long they take, and the path a learner chose."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fabriclab.checks import store
from fabriclab.checks.questions import questions
from fabriclab.checks.shown import Refused, Shown, keys, rows_of, text

__all__ = ["choose_path", "lessons", "paths", "state"]


def _headers() -> dict[str, dict[str, Any]]:
    """Return file name -> header (title, minutes, address) of the lessons that are here."""
    here = Path.cwd()
    places = (here, here / "notebooks", here.parent / "notebooks")
    folder = next((place for place in places if any(place.glob("[0-9]*.ipynb"))), here)
    found = {}
    for file in sorted(folder.glob("[0-9]*.ipynb")):
        header = json.loads(file.read_text(encoding="utf-8"))["metadata"].get("fabriclab", {})
        found[file.stem] = header | {"address": Path(os.path.relpath(file)).as_posix()}
    return found


def state(lesson: str) -> str:
    """Return done (all questions of the lesson are right), begun (something of it is stored) or new."""
    held = store.read()
    asked = [q for q in questions().values() if q.lesson == lesson]
    answers = held["checks"] | held["drills"]
    if asked and all(answers.get(q.id, {}).get("right") for q in asked):
        return "done"
    prefix = f"{lesson.split('_')[0]}-"
    return "begun" if any(k.startswith(prefix) for k in [*answers, *held["predictions"]]) else "new"


def lessons(path: str | None = None) -> Shown:
    """List the lessons of a path that `paths` names, or all: links to those that exist, the others as planned."""
    names = [key.removeprefix("lesson.") for key in keys("lesson.")]
    if path is not None:
        known = {row["path"]: row["lessons"].split() for row in rows_of("paths.csv")}
        if path not in known:
            raise Refused(text("paths.unknown", path=path, known=", ".join(f'"{name}"' for name in known)))
        if known[path] != ["all"]:
            names = [name for number in known[path] for name in names if name.startswith(number)]
    here = _headers()
    rows = tuple(_row(name, here.get(name)) for name in names)
    title = text("lessons.title", n=len(rows), here=sum(name in here for name in names))
    return Shown((title,), head=tuple(text("lessons.head").split("|")), rows=rows, data={"lessons": names})


def _row(name: str, header: Mapping[str, Any] | None) -> tuple[Any, ...]:
    if header is None:
        return (name, text(f"lesson.{name}"), "", text("state.planned"))
    minutes = text("lessons.minutes", n=sum(header.get("minutes", {}).values()))
    return (name, (header.get("title", name), header["address"]), minutes, text(f"state.{state(name)}"))


def paths() -> Shown:
    """List the ways through the course, with the time each takes."""
    rows = tuple(tuple(row.values()) for row in rows_of("paths.csv"))
    return Shown((text("paths.title"),), head=tuple(text("paths.head").split("|")), rows=rows)


def choose_path(path: str) -> Shown:
    """Store the path that the learner wants to take, and list its lessons; an unknown one is Refused with a list."""
    listed = lessons(path)
    store.put("chosen", "path", {"name": path, "when": store.now()})
    return Shown((text("paths.chosen", path=path), *listed.lines), "good", listed.head, listed.rows, data=listed.data)
