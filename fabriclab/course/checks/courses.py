"""Where a learner starts: what works on this machine, how fast it is beside links of the catalog, and the lessons."""

import functools
import json
import math
import os
import shutil
from collections.abc import Mapping
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


def hello() -> Shown:
    """Say in one line which version runs, on what, what works here and where progress is kept."""
    memory, mpi, gpu = available_memory(), fabriclab.measure.has_mpi(), shutil.which("nvidia-smi")
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
    """List the ways through the course, with the time each takes."""
    rows = [tuple(row.values()) for row in rows_of("paths.csv", __file__)]
    return Shown([text("paths.title")], head=text("paths.head").split("|"), rows=rows)


def choose_path(path: str) -> Shown:
    """Store the path that the learner wants to take, one of those that `paths` names, and list its lessons."""
    listed = lessons(path)
    store.put("chosen", "path", {"name": path})
    return replace(listed, lines=(text("paths.chosen", path=path), *listed.lines), state="good")


def lessons(path: str | None = None) -> Shown:
    """List the lessons of a path that `paths` names, or all: links to those that exist, the others as planned."""
    names = [key.removeprefix("lesson.") for key in keys("lesson.")]
    if path is not None:
        known = {row["path"]: row["lessons"].split() for row in rows_of("paths.csv", __file__)}
        refuse_if(
            path not in known,
            "paths.unknown",
            path=path,
            known=", ".join(f'"{name}"' for name in known),
        )
        if known[path] != ["all"]:
            names = [name for number in known[path] for name in names if name.startswith(number)]
    here = _here()
    rows = [
        (name, *here.get(name, (text(f"lesson.{name}"), "", text("state.planned"))))
        for name in names
    ]
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
    return {
        q.id: tried.get(q.id, {}).get("right", False)
        for q in questions().values()
        if q.lesson == lesson
    }


def answers() -> dict[str, dict[str, Any]]:
    """Return id -> what is kept of each check that was tried, those of drills included."""
    held = store.held()
    return {
        id: entry for id, entry in (held["checks"] | held["drills"]).items() if id in questions()
    }


def state(lesson: str) -> str:
    """Return done (all its checks are right), review (and one is due today), begun (something is stored) or new."""
    right, tried = answered(lesson), answers()
    if right and all(right.values()):
        return "review" if any(store.due(tried[id]) for id in right) else "done"
    stored = [*tried, *store.held()["predictions"]]
    return "begun" if any(id.startswith(f"{lesson.split('_')[0]}-") for id in stored) else "new"


def ruler(*results: Result) -> Shown:
    """Place rates on one logarithmic scale: what this machine measured, and links of the catalog.

    Parameters
    ----------
    *results : Result
        Of `fabriclab.measure`; they are kept in the progress file, and what is kept there is always on the ruler.

    Returns
    -------
    Shown
        A row per rate, fastest first; ``data`` has name -> rate. [B/s, one direction]

    Raises
    ------
    Refused
        A ValueError: something is no result.
    """
    for result in results:
        refuse_if(not isinstance(result, Result), "ruler.kind", got=f"{result!r:.60}")
        remember(result)
    mine = {_mine(name): float(e["busbw"]) for name, e in store.held()["measurements"].items()}
    links = _links()
    rates = dict(sorted((mine | links).items(), key=lambda pair: -pair[1]))
    # In text the dots are the ruler: ten of them for ten times the rate, from the slowest on.
    dots = {
        name: 1 + round(10 * math.log10(rate / min(rates.values()))) for name, rate in rates.items()
    }
    rows = [(name, units.format_rate(rate), "." * dots[name]) for name, rate in rates.items()]
    head, after = text("ruler.head").split("|"), _findings(mine, links)
    # A result has its rounds and its source with it, which the progress file has not.
    own = {**mine} | {_mine(r.what): r for r in results if r.busbw[-1] == mine.get(_mine(r.what))}
    drawn, live = (
        functools.partial(_picture, own, links, after),
        lambda: fabriclab.live.ruler(own, links),
    )
    return Shown(
        [text("ruler.title")],
        head=head,
        rows=rows,
        after=after,
        data=rates,
        picture=drawn,
        live=live,
    )


@functools.cache
def _links() -> dict[str, float]:
    """Return name -> rate [B/s] of the links that a ruler knows, read from the catalog."""
    rates = {}
    for row in rows_of("ruler.csv", __file__):
        where = {"name": row["row_name"]} if row["row_name"] else {}
        rates[row["name"]] = catalog.value(row["table"], row["part"], row["attribute"], **where)
    return rates


def _mine(name: str) -> str:
    return text("ruler.mine", name=label(name))


def _picture(own: Mapping[str, float | Result], links: Mapping[str, float], said: list[str]) -> Any:
    first, *rest = [said[0].rstrip("."), *said[1:]] if own else [None, *said]
    return fabriclab.views.ruler(
        own, links, finding=first, caption=" ".join([*rest, text("ruler.source")])
    )


def _findings(mine: Mapping[str, float], links: Mapping[str, float]) -> list[str]:
    """Return a sentence per link: how it compares with the fastest own measurement."""
    if not mine:
        return [text("ruler.nothing")]
    best = max(mine, key=lambda name: mine[name])
    key = {
        name: "ruler.faster" if rate >= mine[best] else "ruler.slower"
        for name, rate in links.items()
    }
    return [
        text(key[name], name=name, mine=best, factor=times(rate, mine[best]))
        for name, rate in links.items()
    ]
