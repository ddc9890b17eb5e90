"""Where a learner starts: what works on this machine, which lessons exist, and the path that was chosen."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import fabriclab
from fabriclab import units
from fabriclab.checks import store
from fabriclab.checks.questions import questions
from fabriclab.checks.shown import Shown, refuse_if
from fabriclab.core import available_memory
from fabriclab.exercises.parts import rows_of
from fabriclab.texts import keys, text


def hello() -> Shown:
    """Say in one line which version runs, on what, what works here and where progress is kept."""
    memory, mpi, gpu = available_memory(), fabriclab.measure.has_mpi(), shutil.which("nvidia-smi")
    line = text(
        "hello", version=fabriclab.__version__, cores=fabriclab.measure.cores(), path=store.path(),
        memory=units.format_size(memory) if memory < math.inf else text("word.unknown"),
        mpi=text("word.yes" if mpi else "word.no"), gpu=text("word.yes" if gpu else "word.no_gpu"),
    )  # fmt: skip
    return Shown((line,), "good")


def paths() -> Shown:
    """List the ways through the course, with the time each takes."""
    rows = [tuple(row.values()) for row in rows_of("paths.csv", __file__)]
    return Shown([text("paths.title")], head=text("paths.head").split("|"), rows=rows)


def choose_path(path: str | None = None) -> Shown:
    """Store the path that the learner wants to take, and list its lessons; without a name, list the paths."""
    if path is None:
        return paths()
    listed = lessons(path)
    store.put("chosen", "path", {"name": path})
    return replace(listed, lines=(text("paths.chosen", path=path), *listed.lines), state="good")


def lessons(path: str | None = None) -> Shown:
    """List the lessons of a path that `paths` names, or all: links to those that exist, the others as planned."""
    names = [key.removeprefix("lesson.") for key in keys("lesson.")]
    if path is not None:
        known = {row["path"]: row["lessons"].split() for row in rows_of("paths.csv", __file__)}
        refuse_if(path not in known, "paths.unknown", path=path, known=", ".join(f'"{name}"' for name in known))
        if known[path] != ["all"]:
            names = [name for number in known[path] for name in names if name.startswith(number)]
    here = _here()
    rows = [(name, *here.get(name, (text(f"lesson.{name}"), "", text("state.planned")))) for name in names]
    title = text("lessons.title", n=len(rows), here=sum(name in here for name in names))
    return Shown((title,), head=text("lessons.head").split("|"), rows=rows, data={"lessons": names})


def _here() -> dict[str, tuple[Any, ...]]:
    """Return file name -> title with address, minutes and state of the lessons that are here."""
    here = Path.cwd()
    places = (here, here / "notebooks", here.parent / "notebooks")
    files = next(filter(None, (sorted(place.glob("[0-9]*.ipynb")) for place in places)), [])
    found = {}
    for file in files:
        header = json.loads(file.read_text(encoding="utf-8"))["metadata"].get("fabriclab", {})
        title = (header.get("title", file.stem), Path(os.path.relpath(file)).as_posix())
        minutes = text("lessons.minutes", **{"read": 0, "do": 0} | header.get("minutes", {}))
        found[file.stem] = (title, minutes, text(f"state.{state(file.stem)}"))
    return found


def answered(lesson: str) -> dict[str, bool]:
    """Return id -> whether it is answered right, for each check of a lesson, those of its drills included."""
    tried = answers()
    return {q.id: tried.get(q.id, {}).get("right", False) for q in questions().values() if q.lesson == lesson}


def answers() -> dict[str, dict[str, Any]]:
    """Return id -> what is kept of each check that was tried, those of drills included."""
    held = store.held()
    return {id: entry for id, entry in (held["checks"] | held["drills"]).items() if id in questions()}


def state(lesson: str) -> str:
    """Return done (all its checks are right), review (and one is due today), begun (something is stored) or new."""
    right, tried = answered(lesson), answers()
    if right and all(right.values()):
        return "review" if any(store.due(tried[id]) for id in right) else "done"
    stored = [*tried, *store.held()["predictions"]]
    return "begun" if any(id.startswith(f"{lesson.split('_')[0]}-") for id in stored) else "new"
