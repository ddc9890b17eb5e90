"""`report` and `progress`: all that a learner predicted, measured and answered, and what to review."""

import base64
import html
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import fabriclab
from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats
from fabriclab.course import judges
from fabriclab.course.checks.courses import answered, answers, state
from fabriclab.course.checks.predictions import guessed, label, ledger, named
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions, questions
from fabriclab.course.shown import Shown, digits, shown, times
from fabriclab.texts import keys, text

_MOST = 10  # rows of a table, so that a report stays on one screen


def report(name: str | None = None) -> Shown:
    """Show on one screen the state of each lesson, predictions, measurements, checks, and three take-aways.

    Parameters
    ----------
    name : str, optional
        Name to write at the top; by default there is none.
    """
    kept = store.held()
    states = {}  # file name of a lesson -> its state
    for key in keys("lesson."):
        lesson = key.removeprefix("lesson.")
        states[lesson] = state(lesson)
    begun = [lesson for lesson, how in states.items() if how != "new"]

    made = {"version": fabriclab.__version__, "facts": _facts(), "day": str(store.now().date())}
    head = text("report.head", **made, name=f", {name}" if name else "")

    checks = list(_checks(begun))
    to_look_at = [check for check in checks if check.call]
    to_look_at.sort(key=lambda check: check.tries == "0")  # checks that were tried come first
    lessons = list(_lessons(begun, kept))
    numbers = list(_numbers(kept))
    parts = _part("lessons", lessons[-_MOST:])
    parts += _part("numbers", numbers[-_MOST:])
    parts += _part("checks", to_look_at[:_MOST])

    after = []
    if len(to_look_at) > _MOST:
        after.append(text("report.more", n=len(to_look_at) - _MOST))
    after += _answered_right(checks)
    takeaways = [f"- {sentence}" for sentence in itertools.islice(_takeaways(kept), 3)]
    if takeaways:
        after.append(text("report.takeaways"))
        after += takeaways
    after.append(text("report.file", path=store.path()))

    data = kept | {"name": name, "made_with": made}
    return Shown([head, _counts(states)], parts=parts, extra=_download, after=after, data=data)


def _counts(states: Mapping[str, str]) -> str:
    """Return in words how many lessons are done, how many exist, and how many are planned."""
    done = sum(how in ("done", "review") for how in states.values())
    here = len({question.lesson for question in questions().values()})
    return text("report.counts", done=done, here=here, planned=len(states))


def _answered_right(rows: Iterable["CheckRow"]) -> list[str]:
    """Return a sentence with the last ten checks that are right and not due for review, if there are any."""
    right = [f"{row.name} {row.tries}" for row in rows if not row.call]
    if not right:
        return []
    listed = right[-_MOST:]
    if len(right) > _MOST:
        listed.append(text("report.over", n=len(right) - _MOST))
    return [text("report.right", list=", ".join(listed))]


def progress() -> Shown:
    """Show how good your predictions were, your lessons by strength, your ledger, and what to review today.

    ``progress().data`` contains everything that is stored.
    """
    kept = store.held()
    due = []
    for id, entry in answers().items():
        if store.due(entry):
            question = questions()[id]
            due.append((question.words.name(), f"`{question.call()}`"))
    parts = [*_calibration(kept), *_part("topics", _topics()), ledger(), *_part("review", due)]
    after = [] if due else [text("progress.resting")]
    title = text("progress.title", day=store.now().date())
    return Shown([title], parts=parts, after=after, data=kept)


def _opened(kept: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the predictions that had a guess and whose truth was revealed."""
    return {id: e for id, e in kept["predictions"].items() if "truth" in e and e["value"]}


def _calibration(kept: dict[str, Any]) -> list[Shown]:
    """Return a table of guesses compared with the truth, which HTML shows as a picture."""
    opened = _opened(kept)
    finding = " ".join(_calibrated(kept)) or text("progress.unopened")

    def drawn() -> Any:
        names = [named(id) for id in opened]
        ratios = [_ratios(opened.values(), field) for field in ("value", "low", "high")]
        return fabriclab.views.calibration(names, *ratios, finding=finding)

    rows = _part("numbers", _numbers({"predictions": opened, "measurements": {}}))
    if not rows:
        return [Shown([finding])]
    return [replace(part, lines=[finding], picture=drawn) for part in rows]


def _ratios(entries: Iterable[Mapping[str, Any]], field: str) -> Floats:
    """Return guesses, or ends of their ranges, each divided by the truth; NaN where none was given."""
    ratios = [(entry[field] or math.nan) / entry["truth"] for entry in entries]
    return np.asarray(np.clip(ratios, 1e-12, 1e12))  # anything beyond is drawn at the edge


def _topics() -> Iterator[tuple[str, ...]]:
    """Yield a row for each lesson of which a check was tried, the strongest first."""
    hits_of = defaultdict(list)  # lesson -> whether the first answer was right, for each check
    for id, entry in answers().items():
        hits_of[questions()[id].lesson].append(entry["right"] and entry["tries"] == 1)
    for lesson, hits in sorted(hits_of.items(), key=lambda pair: -statistics.mean(pair[1])):
        count = text("report.of", n=sum(hits), total=len(hits))
        yield lesson, count, f"{statistics.mean(hits):.0%}"


def _facts() -> str:
    """Return the latest day on which a fact of the catalog was looked up; a lesson's header has that of its own."""
    days = (row["date"] for name in catalog.tables() for row in data_rows(name))
    return max(day for day in days if day.startswith("seen ")).removeprefix("seen ")


def _part(key: str, rows: Iterable[tuple[str, ...]]) -> list[Shown]:
    """Return a table without its empty columns, in a list that is empty if there are no rows."""
    cells = [*rows]
    if not cells:
        return []
    used = [any(column) for column in zip(*cells, strict=True)]
    columns = text(f"report.{key}_columns").split("|")
    head, *body = (tuple(itertools.compress(row, used)) for row in (columns, *cells))
    return [Shown((text(f"report.{key}"),), head=head, rows=body)]


def _lessons(begun: Iterable[str], kept: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each lesson or exercise begun: its state, predictions made, and checks answered right."""
    for lesson in begun:
        made = [
            id in kept["predictions"]
            for id, prediction in predictions().items()
            if prediction.lesson == lesson
        ]
        right = answered(lesson).values()
        yield (
            lesson,
            text(f"state.{state(lesson)}"),
            text("report.of", n=sum(made), total=len(made)),
            text("report.of", n=sum(right), total=len(right)),
        )

    checks = kept["checks"]
    # The ids of questions give the number of their exercise, such as 4 for ex4-a.
    numbers = {int(id[2:].partition("-")[0]) for id in checks if id in judges.questions()}
    for number in sorted(numbers):
        solved = [checks.get(q.id, {}).get("right", False) for q in judges.exercise(number)]
        how = text("state.done" if all(solved) else "state.begun")
        count = text("report.of", n=sum(solved), total=len(solved))
        yield f"exercise{number}", how, "", count


class CheckRow(NamedTuple):
    """A check as a row of a report."""

    name: str
    answer: str  # whether it is right, in words
    tries: str
    call: str  # the line to type if it needs another look; else empty


def _checks(begun: Iterable[str]) -> Iterator[CheckRow]:
    """Yield a row for each check of the lessons begun; checks that need another look have the line to type."""
    tried = answers()
    for lesson in begun:
        for id, right in answered(lesson).items():
            tries = tried.get(id, {}).get("tries", 0)
            if right:
                answer = text("word.yes")
            else:
                answer = text("word.not_yet" if tries else "word.not_tried")
            question = questions()[id]
            call = ""
            if not right or store.due(tried[id]):
                call = f"`{question.call()}`"
            yield CheckRow(question.words.name(), answer, str(tries), call)


def _numbers(kept: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each prediction, with guess, model, truth and ratios, then a row for each measurement."""
    for id, entry in kept["predictions"].items():
        model = entry.get("model")
        found = entry.get("truth")
        yield (
            text("report.predicted", title=named(id)),
            guessed(entry),
            "" if model is None else shown(model, entry["unit"]),
            text("report.sealed") if found is None else shown(found, entry["unit"]),
            _ratio(entry["value"], found),
            _ratio(model, found),
        )
    for name, entry in kept["measurements"].items():
        result = f"{units.format_rate(entry['busbw'])}, {units.format_time(entry['time'])}"
        how = text(f"how.{entry.get('obtained', 'measured')}")
        yield text("report.measured", how=how, title=label(name)), "", "", result, "", ""


def _ratio(number: float | None, found: float | None) -> str:
    """Write a number divided by the truth; empty if one of them is unknown."""
    if number is None or found is None:
        return ""
    return digits(number / found)


def _takeaways(kept: dict[str, Any]) -> Iterator[str]:
    """Yield findings from the learner's own numbers, the most certain first."""
    nic = catalog.case()["nic_rate"]
    rate = {name: entry["busbw"] for name, entry in kept["measurements"].items()}
    words = {name: units.format_rate(value) for name, value in rate.items()}
    if "copy" in rate:
        key = "take.faster" if nic >= rate["copy"] else "take.slower"
        yield text(key, factor=times(nic, rate["copy"]), nic=units.format_rate(nic), **words)
    if {"copy", "sockets"} <= rate.keys():
        yield text("take.sockets", factor=times(rate["copy"], rate["sockets"]), **words)
    yield from _calibrated(kept)
    first = [entry["right"] and entry["tries"] == 1 for entry in answers().values()]
    if first:
        yield text("take.first", right=sum(first), n=len(first))


def _calibrated(kept: dict[str, Any]) -> Iterator[str]:
    """Yield sentences on how often the learner's ranges contained the truth, and the median factor of the guesses."""
    opened = _opened(kept).values()
    with_range = [e for e in opened if e["low"] and e["high"]]
    if with_range:
        hits = sum(e["low"] <= e["truth"] <= e["high"] for e in with_range)
        yield text("take.ranges", held=hits, n=len(with_range))
    if opened:
        factors = [max(e["value"] / e["truth"], e["truth"] / e["value"]) for e in opened]
        yield text("take.factor", factor=statistics.median(factors), n=len(opened))


def _download() -> str:
    """Return an HTML link that downloads the progress file, because hubs such as Binder do not keep it."""
    file = store.path()
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    words = html.escape(text("report.download"))
    return f'<a download="{html.escape(file.name)}" href="data:application/json;base64,{data}">{words}</a>'
