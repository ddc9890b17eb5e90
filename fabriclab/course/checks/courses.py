"""Where a learner starts: what works on this machine, its rates compared with real links, and the lessons."""

import functools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fabriclab
from fabriclab import catalog, units
from fabriclab.catalog.tables import rows_of
from fabriclab.core import Result, available_memory
from fabriclab.course.checks.predictions import label, remember
from fabriclab.course.progress import store
from fabriclab.course.questions import questions
from fabriclab.course.shown import Shown, refuse_if, times
from fabriclab.texts import keys, text

_SHORTEST_PATH = "one evening"


def hello() -> Shown:
    """Show in one line the version, the machine, what works here, and where progress is kept."""
    memory = available_memory()
    mpi = fabriclab.measure.has_mpi()
    gpu = shutil.which("nvidia-smi")
    line = text(
        "hello",
        version=fabriclab.__version__,
        cores=fabriclab.measure.cores(),
        path=store.path(),
        memory=units.format_size(memory) if memory < math.inf else text("word.unknown"),
        mpi=text("word.yes" if mpi else "word.no"),
        gpu=text("word.yes" if gpu else "word.no_gpu"),
    )
    return Shown((line,), "good")


def paths() -> Shown:
    """List the learning paths of the course: their time, their lessons, and how many of these exist here."""
    here = _here()
    rows = []
    for row in rows_of("paths.csv", __file__):
        listed = _lessons_of_path(row["path"], _lesson_names())
        count = sum(name in here for name in listed)
        there = text("paths.here", here=count, n=len(listed))
        time = row["time"]
        if time and count < len(listed):
            time = text("paths.later", time=time)
        numbers = row["lessons"]
        if numbers != "all":
            numbers = _planned_in_brackets(listed, here)
        rows.append((row["path"], time, numbers, there, row["besides"]))
    has_gaps = any("(" in numbers for _, _, numbers, _, _ in rows)
    after = [text("paths.brackets")] if has_gaps else []
    head = text("paths.head").split("|")
    return Shown([text("paths.title")], head=head, rows=rows, after=after)


def _planned_in_brackets(names: Sequence[str], here: Mapping[str, Any]) -> str:
    """Return the numbers of lessons, with those that do not exist here in brackets."""
    numbers = []
    for name in names:
        number = name.split("_")[0]
        numbers.append(number if name in here else f"({number})")
    return " ".join(numbers)


def choose_path(path: str) -> Shown:
    """Store which path the learner wants to take, and list its lessons; `paths` lists the names of paths."""
    listed = lessons(path)
    store.put("chosen", "path", {"name": path})
    return replace(listed, lines=(text("paths.chosen", path=path), *listed.lines), state="good")


def lessons(path: str | None = None) -> Shown:
    """List the lessons of a path, or all lessons: those that exist with a link, the others as planned.

    `paths` lists the names of paths.
    """
    names = _lesson_names()
    if path is not None:
        names = _lessons_of_path(path, names)
    here = _here()
    rows: list[tuple[Any, ...]] = []
    for name in names:
        planned = (text(f"lesson.{name}"), "", text("state.planned"))
        rows.append((name, *here.get(name, planned)))
    title = text("lessons.title", n=len(rows), here=sum(name in here for name in names))
    return Shown((title,), head=text("lessons.head").split("|"), rows=rows, data={"lessons": names})


def _lesson_names() -> list[str]:
    """Return the file names of all lessons of the plan, in the order of their numbers."""
    return [key.removeprefix("lesson.") for key in keys("lesson.")]


def next_lesson(lesson: str) -> tuple[str, str] | None:
    """Return title and address of the next lesson to take, on the path that was chosen; the address may be empty.

    Without a choice, a lesson of the shortest path leads to the next one of that path, and any other to the next in the
    order of numbers. Lessons that do not exist yet or are done are left out. If no lesson is left, return None.
    """
    names = _lesson_names()
    chosen = store.held()["chosen"].get("path", {}).get("name")
    if chosen is not None:
        return _first_to_take(lesson, _lessons_of_path(chosen, names))
    shortest = _lessons_of_path(_SHORTEST_PATH, names)
    on_it = _first_to_take(lesson, shortest) if lesson in shortest else None
    return on_it or _first_to_take(lesson, names)


def path_ending(lesson: str) -> tuple[str, list[str], str] | None:
    """Return the path that has ``lesson`` as its last one: its name, lessons, and what goes with it; or else None.

    That is the path that was chosen; without a choice it is the shortest one.
    """
    chosen = store.held()["chosen"].get("path", {}).get("name", _SHORTEST_PATH)
    listed = _lessons_of_path(chosen, _lesson_names())
    besides = {row["path"]: row["besides"] for row in rows_of("paths.csv", __file__)}
    return (chosen, listed, besides[chosen]) if lesson == listed[-1] else None


def _first_to_take(lesson: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return title and address of the first of the lessons after ``lesson`` that exists and is not done."""
    exist = {question.lesson for question in questions().values()}
    kept = store.held()
    for name in names:
        if name > lesson and name in exist and state(name, kept) not in ("done", "review"):
            file = _notebooks_here().get(name)
            return title_of(name), _address(file) if file else ""
    return None


def title_of(lesson: str) -> str:
    """Return the title of a lesson, which is its file name in words if its notebook is not here."""
    file = _notebooks_here().get(lesson)
    return _title(file) if file else lesson.replace("_", " ")


def minutes_of(lesson: str) -> str:
    """Return the minutes that a lesson says it takes, in words; empty if its notebook is not here."""
    file = _notebooks_here().get(lesson)
    return _minutes(file) if file else ""


def numbered(lesson: str) -> str:
    """Return number and title of a lesson, for lists."""
    number, *_ = lesson.split("_")
    title = title_of(lesson)
    return title if title.startswith(number) else f"{number} {title}"


def _lessons_of_path(path: str, names: Sequence[str]) -> list[str]:
    """Return the lessons among ``names`` that belong to a path, in the order of the path."""
    numbers = {row["path"]: row["lessons"].split() for row in rows_of("paths.csv", __file__)}
    listed = ", ".join(f'"{known}"' for known in numbers)
    refuse_if(path not in numbers, "paths.unknown", path=path, known=listed)
    if numbers[path] == ["all"]:
        return list(names)
    found = []
    for number in numbers[path]:
        found += [name for name in names if name.split("_")[0] == number]
    return found


def _here() -> dict[str, tuple[Any, ...]]:
    """Return file name -> (title and address, minutes, state) for each lesson that exists here."""
    kept = store.held()
    found = {}
    for name, file in _notebooks_here().items():
        title = (_title(file), _address(file))
        found[name] = (title, _minutes(file), text(f"state.{state(name, kept)}"))
    return found


def _notebooks_here() -> dict[str, Path]:
    """Return lesson -> notebook in the current folder or, if there are none, in ``notebooks`` in or beside it."""
    here = Path.cwd()
    for place in (here, here / "notebooks", here.parent / "notebooks"):
        files = sorted(place.glob("[0-9]*.ipynb"))
        if files:
            return {file.stem: file for file in files}
    return {}


def _title(file: Path) -> str:
    """Return the title of a notebook, which is its file name if it has none."""
    return str(_header(file, file.stat().st_mtime_ns).get("title", file.stem))


def _minutes(file: Path) -> str:
    """Return the minutes that a notebook says it takes, in words."""
    minutes = _header(file, file.stat().st_mtime_ns).get("minutes", {})
    return text("lessons.minutes", **{"read": 0, "do": 0} | minutes)


def _address(file: Path) -> str:
    """Return where a notebook lies, seen from the current folder."""
    return Path(os.path.relpath(file)).as_posix()


@functools.lru_cache(maxsize=512)
def _header(file: Path, changed: int) -> dict[str, Any]:
    """Return what a notebook says of itself; it is read anew once the file has ``changed`` (time in ns)."""
    metadata = json.loads(file.read_text(encoding="utf-8"))["metadata"]
    header: dict[str, Any] = metadata.get("fabriclab", {})
    return header


def answered(lesson: str, kept: Mapping[str, Any] | None = None) -> dict[str, bool]:
    """Return id -> whether it has been answered right, for each check of a lesson, including its drills.

    Who asks for many lessons reads the progress file once and gives what it holds as ``kept``.
    """
    tried = answers(kept)
    asked = [question.id for question in questions().values() if question.lesson == lesson]
    return {id: tried.get(id, {}).get("right", False) for id in asked}


def answers(kept: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return id -> the stored entry of each check that has been tried, including drills."""
    if kept is None:
        kept = store.held()
    tried = kept["checks"] | kept["drills"]
    return {id: entry for id, entry in tried.items() if id in questions()}


def state(lesson: str, kept: Mapping[str, Any] | None = None) -> str:
    """Return the state of a lesson: done, review, core, begun or new.

    A lesson is done when all its checks are right, and in review when one of these is due again today. Its core is
    done when the checks before "go further" are right. It is begun when a prediction or an answer is stored.
    """
    if kept is None:
        kept = store.held()
    right = answered(lesson, kept)
    tried = answers(kept)
    if right and all(right.values()):
        return "review" if any(store.due(tried[id]) for id in right) else "done"
    of_core = [is_right for id, is_right in right.items() if questions()[id].core]
    if of_core and all(of_core):
        return "core"
    number, *_ = lesson.split("_")
    stored = [*tried, *kept["predictions"]]
    return "begun" if any(id.startswith(f"{number}-") for id in stored) else "new"


def ruler(*results: Result) -> Shown:
    """Show rates on one logarithmic scale: those measured on this machine, and those of links in the catalog.

    Parameters
    ----------
    *results : Result
        Results of `fabriclab.measure`. They are stored in the progress file, and all stored rates are on the ruler.

    Returns
    -------
    Shown
        A row for each rate, the fastest first; ``data`` maps name -> rate. [B/s, one direction]

    Raises
    ------
    InputRefused
        A ValueError: an argument is no Result.
    """
    for result in results:
        refuse_if(not isinstance(result, Result), "ruler.kind", got=f"{result!r:.60}")
        remember(result)
    kept = store.held()["measurements"]
    mine: dict[str, float] = {}
    measured_here: dict[str, float] = {}  # without stored runs, which stand in for a measurement
    for kind, entry in kept.items():
        name = _mine(kind, entry.get("obtained"))
        mine[name] = float(entry["busbw"])
        if entry.get("obtained") != "stored":
            measured_here[name] = mine[name]
    links = _links()
    rates = dict(sorted((mine | links).items(), key=lambda pair: -pair[1]))
    after = _findings(measured_here or mine, links)
    # A result has its rounds and its source, which the progress file does not store.
    own: dict[str, float | Result] = {**mine}
    for result in results:
        name = _mine(result.what, result.obtained)
        if result.busbw[-1] == mine.get(name):
            own[name] = result
    return Shown(
        [text("ruler.title")],
        head=text("ruler.head").split("|"),
        rows=_dotted(rates),
        after=after,
        data=rates,
        picture=functools.partial(_picture, own, links, after),
        live=lambda: fabriclab.live.ruler(own, links),
    )


def _dotted(rates: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Return a row for each rate, with a line of dots as the ruler: a rate ten times higher has ten dots more."""
    slowest = min(rates.values())
    rows = []
    for name, rate in rates.items():
        n_dots = 1 + round(10 * math.log10(rate / slowest))
        rows.append((name, units.format_rate(rate), "." * n_dots))
    return rows


@functools.cache
def _links() -> dict[str, float]:
    """Return name -> rate [B/s] of the links on the ruler, read from the catalog."""
    rates = {}
    for row in rows_of("ruler.csv", __file__):
        where = {"name": row["row_name"]} if row["row_name"] else {}
        rates[row["name"]] = catalog.value(row["table"], row["part"], row["attribute"], **where)
    return rates


def _mine(name: str, obtained: str | None) -> str:
    """Return the name of a learner's measurement on the ruler, or of a stored run that stands in for one."""
    return text("ruler.stored" if obtained == "stored" else "ruler.mine", name=label(name))


def _picture(
    own: Mapping[str, float | Result], links: Mapping[str, float], findings: list[str]
) -> Any:
    """Return the ruler as a picture; the first finding is its headline if the learner has measured something."""
    headline = findings[0] if own else None
    below = findings[1:] if own else findings
    results = [result for result in own.values() if isinstance(result, Result)]
    has_rounds = any(result.samples is not None for result in results)
    rounds = [text("ruler.rounds")] if has_rounds else []
    caption = " ".join([*below, text("ruler.source"), *rounds])
    return fabriclab.views.ruler(own, links, finding=headline, caption=caption)


_AS_FAST = 1.05  # rates closer than this are told as equal


def _findings(mine: Mapping[str, float], links: Mapping[str, float]) -> list[str]:
    """Return a sentence for each link that compares it with the fastest measurement."""
    if not mine:
        return [text("ruler.nothing")]
    best = max(mine, key=lambda name: mine[name])
    sentences = []
    for name, rate in links.items():
        key = "ruler.faster" if rate >= mine[best] else "ruler.slower"
        if max(rate / mine[best], mine[best] / rate) < _AS_FAST:
            key = "ruler.equal"
        sentences.append(text(key, name=name, mine=best, factor=times(rate, mine[best])))
    return sentences
