"""`report` and `progress`: everything a learner predicted, measured and answered, and what to look at again."""

import base64
import html
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import fabriclab
from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows
from fabriclab.course import judges
from fabriclab.course.checks.courses import answered, answers, state
from fabriclab.course.checks.predictions import guessed, label, ledger, named
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions, questions
from fabriclab.course.shown import Shown, digits, shown, times
from fabriclab.texts import keys, text

_MOST = 10  # rows of a table, so that a report stays on one screen


def report(name: str | None = None) -> Shown:
    """Show on one screen how far each lesson is, what was predicted and measured, the checks, and three take-aways.

    Parameters
    ----------
    name : str, optional
        Written at the top; there is no name unless one is given.
    """
    held = store.held()
    findings = [f"- {line}" for line in itertools.islice(_takeaways(held), 3)]
    lessons = {
        key.removeprefix("lesson."): state(key.removeprefix("lesson.")) for key in keys("lesson.")
    }
    begun = [lesson for lesson, how in lessons.items() if how != "new"]
    here = len({q.lesson for q in questions().values()})
    done = sum(how in ("done", "review") for how in lessons.values())
    counts = text("report.counts", done=done, here=here, planned=len(lessons))
    made = {"version": fabriclab.__version__, "facts": _facts(), "day": str(store.now().date())}
    head = text("report.head", **made, name=f", {name}" if name else "")
    every = [*_checks(begun)]
    # what was tried comes first
    checks = sorted((row for row in every if row[3]), key=lambda row: row[2] == "0")
    right = [f"{row[0]} {row[2]}" for row in every if not row[3]]
    over = [text("report.over", n=len(right) - _MOST)] * (len(right) > _MOST)
    told = {
        "lessons": [*_lessons(begun, held)][-_MOST:],
        "numbers": [*_numbers(held)][-_MOST:],
        "checks": checks[:_MOST],
    }
    parts = [part for key, rows in told.items() for part in _part(key, rows)]
    after = [text("report.more", n=len(checks) - _MOST)] * (len(checks) > _MOST)
    after += [text("report.right", list=", ".join([*right[-_MOST:], *over]))] * bool(right)
    after += [text("report.takeaways")] * bool(findings) + [
        *findings,
        text("report.file", path=store.path()),
    ]
    data = held | {"name": name, "made_with": made}
    return Shown([head, counts], parts=parts, extra=_download, after=after, data=data)


def progress() -> Shown:
    """Show how well your predictions hold, your lessons by strength, your ledger, and what to review today.

    ``progress().data`` holds everything that is kept.
    """
    held = store.held()
    due = [
        (questions()[id].words.name(), f"`{questions()[id].call()}`")
        for id, e in answers().items()
        if store.due(e)
    ]
    parts = [*_calibration(held), *_part("topics", _topics()), ledger(), *_part("review", due)]
    after = [] if due else [text("progress.resting")]
    return Shown(
        [text("progress.title", day=store.now().date())], parts=parts, after=after, data=held
    )


def _opened(held: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the predictions with a guess that were revealed."""
    return {id: e for id, e in held["predictions"].items() if "truth" in e and e["value"]}


def _calibration(held: dict[str, Any]) -> list[Shown]:
    """Return the table of guesses against truth; where HTML is shown it is a picture."""
    opened = _opened(held)
    finding = " ".join(_calibrated(held)) or text("progress.unopened")

    def drawn() -> Any:
        names, ends = [named(id) for id in opened], ("value", "low", "high")
        told = [[(e[end] or math.nan) / e["truth"] for e in opened.values()] for end in ends]
        ratios = np.clip(told, 1e-12, 1e12)  # what is further off stands at the edge
        return fabriclab.views.calibration(names, *ratios, finding=finding)

    rows = _part("numbers", _numbers({"predictions": opened, "measurements": {}}))
    return [replace(part, lines=[finding], picture=drawn) for part in rows] or [Shown([finding])]


def _topics() -> Iterator[tuple[str, ...]]:
    """Yield a row per lesson with a check that was tried, the strongest first."""
    first = defaultdict(list)
    for id, e in answers().items():
        first[questions()[id].lesson].append(e["right"] and e["tries"] == 1)
    for lesson, hits in sorted(first.items(), key=lambda pair: -statistics.mean(pair[1])):
        yield (
            lesson,
            text("report.of", n=sum(hits), total=len(hits)),
            f"{statistics.mean(hits):.0%}",
        )


def _facts() -> str:
    """Return the day on which facts of the catalog were last looked up."""
    days = (row["date"] for name in catalog.tables() for row in data_rows(name))
    return max(day for day in days if day.startswith("seen ")).removeprefix("seen ")


def _part(key: str, rows: Iterable[tuple[str, ...]]) -> list[Shown]:
    """Return a table, or nothing without rows; a column without a word is left out."""
    told = [*rows]
    used = [any(column) for column in zip(*told, strict=True)]
    columns = text(f"report.{key}_columns").split("|")
    head, *cells = (tuple(itertools.compress(row, used)) for row in (columns, *told))
    return [Shown((text(f"report.{key}"),), head=head, rows=cells)] if told else []


def _lessons(begun: Iterable[str], held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per lesson or exercise begun: its state, and how many of its predictions and checks are there."""
    for lesson in begun:
        made = [
            id in held["predictions"]
            for id, asked in predictions().items()
            if asked.lesson == lesson
        ]
        counts = (
            text("report.of", n=sum(have), total=len(have))
            for have in (made, answered(lesson).values())
        )
        yield lesson, text(f"state.{state(lesson)}"), *counts
    kept = held["checks"]
    for number in sorted(
        {int(id[2:].partition("-")[0]) for id in kept if id in judges.questions()}
    ):
        right = [kept.get(q.id, {}).get("right", False) for q in judges.exercise(number)]
        how = text("state.done" if all(right) else "state.begun")
        yield f"exercise{number}", how, "", text("report.of", n=sum(right), total=len(right))


def _checks(begun: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row per check of the lessons that were begun; those to look at come with the line to type."""
    tried = answers()
    for id, right in itertools.chain.from_iterable(answered(lesson).items() for lesson in begun):
        tries = tried.get(id, {}).get("tries", 0)
        state = text("word.yes" if right else "word.not_yet" if tries else "word.not_tried")
        again = not right or store.due(tried[id])
        question = questions()[id]
        yield question.words.name(), state, str(tries), f"`{question.call()}`" if again else ""


def _numbers(held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per prediction, then one per measurement: said, by formula, came out, factors."""
    for id, e in held["predictions"].items():
        said, model, found = e["value"], e.get("model"), e.get("truth")
        words = ["" if number is None else shown(number, e["unit"]) for number in (model, found)]
        off = [
            "" if found is None or number is None else digits(number / found)
            for number in (said, model)
        ]
        what = text("report.predicted", title=named(id))
        yield what, guessed(e), words[0], words[1] or text("report.sealed"), *off
    for name, e in held["measurements"].items():
        came = f"{units.format_rate(e['busbw'])}, {units.format_time(e['time'])}"
        how = text(f"how.{e.get('obtained', 'measured')}")
        yield text("report.measured", how=how, title=label(name)), "", "", came, "", ""


def _takeaways(held: dict[str, Any]) -> Iterator[str]:
    """Yield findings in the learner's own numbers, the surest first."""
    nic = catalog.case()["nic_rate"]
    rate = {name: e["busbw"] for name, e in held["measurements"].items()}
    words = {name: units.format_rate(r) for name, r in rate.items()}
    if "copy" in rate:
        key = "take.faster" if nic >= rate["copy"] else "take.slower"
        yield text(key, factor=times(nic, rate["copy"]), nic=units.format_rate(nic), **words)
    if {"copy", "sockets"} <= rate.keys():
        yield text("take.sockets", factor=times(rate["copy"], rate["sockets"]), **words)
    yield from _calibrated(held)
    if first := [e["right"] and e["tries"] == 1 for e in answers().values()]:
        yield text("take.first", right=sum(first), n=len(first))


def _calibrated(held: dict[str, Any]) -> Iterator[str]:
    """Yield how often own ranges held the truth, and how far off the typical guess is."""
    opened = _opened(held).values()
    if ranges := [e["low"] <= e["truth"] <= e["high"] for e in opened if e["low"] and e["high"]]:
        yield text("take.ranges", held=sum(ranges), n=len(ranges))
    if opened:
        factor = statistics.median(
            max(e["value"] / e["truth"], e["truth"] / e["value"]) for e in opened
        )
        yield text("take.factor", factor=factor, n=len(opened))


def _download() -> str:
    """Return a link that hands over the file itself: hubs such as Binder forget it."""
    file = store.path()
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    words = html.escape(text("report.download"))
    return f'<a download="{html.escape(file.name)}" href="data:application/json;base64,{data}">{words}</a>'
