"""`report`: everything a learner predicted, measured and answered, on one screen."""

import base64
import html
import itertools
import statistics
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

import fabriclab
from fabriclab import catalog, units
from fabriclab.checks import store
from fabriclab.checks.answers import digits, shown, times
from fabriclab.checks.courses import answered, state
from fabriclab.checks.predictions import label, predictions
from fabriclab.checks.questions import questions
from fabriclab.checks.shown import Shown
from fabriclab.texts import keys, table, text


def report(name: str | None = None) -> Shown:
    """Show on one screen how far each lesson is, what was predicted and measured, the checks, and three take-aways.

    Parameters
    ----------
    name : str, optional
        Written at the top; there is no name unless one is given.
    """
    held = store.progress()
    findings = [f"- {line}" for line in itertools.islice(_takeaways(held), 3)]
    lessons = {key.removeprefix("lesson."): state(key.removeprefix("lesson.")) for key in keys("lesson.")}
    begun = [lesson for lesson, how in lessons.items() if how != "new"]
    here = len({q.lesson for q in questions().values()})
    counts = text("report.counts", done=[*lessons.values()].count("done"), here=here, planned=len(lessons))
    where = text("report.file", path=store.path())
    head = text("report.head", version=fabriclab.__version__, day=date.today(), name=f", {name}" if name else "")
    parts = {"lessons": _lessons(begun, held), "numbers": _numbers(held), "checks": _checks(begun, held)}
    return Shown(
        [head, counts], parts=[part for key, rows in parts.items() for part in _part(key, rows)], extra=_download,
        after=[text("report.takeaways") if findings else "", *findings, where],
        data=held | {"name": name, "made_with": fabriclab.__version__},
    )  # fmt: skip


def _part(key: str, rows: Iterable[tuple[str, ...]]) -> list[Shown]:
    """Return a table, or nothing without rows; a column without a word is left out."""
    told = [*rows]
    used = [any(column) for column in zip(*told, strict=True)]
    columns = text(f"report.{key}_columns").split("|")
    head, *cells = (tuple(itertools.compress(row, used)) for row in (columns, *told))
    return [Shown((text(f"report.{key}"),), head=head, rows=cells)] if told else []


def _lessons(begun: Iterable[str], held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per lesson that was begun: its state, and how many of its predictions and checks are there."""
    for lesson in begun:
        made = [id in held["predictions"] for id, row in predictions().items() if row["lesson"] == lesson]
        counts = (text("report.of", n=sum(have), total=len(have)) for have in (made, answered(lesson).values()))
        yield lesson, text(f"state.{state(lesson)}"), *counts


def _checks(begun: Iterable[str], held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per check of the lessons that were begun; those to look at again come with the line to type."""
    answers = held["checks"] | held["drills"]
    for id, right in itertools.chain.from_iterable(answered(lesson).items() for lesson in begun):
        tries = answers.get(id, {}).get("tries", 0)
        state = text("word.yes" if right else "word.not_yet" if tries else "word.not_tried")
        call = questions()[id].call()
        yield text(f"title.{id}"), state, str(tries), "" if right else f"`{call}`"


def _numbers(held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per prediction, then one per measurement: said, by formula, came out, factors."""
    for id, e in held["predictions"].items():
        said, model, found = e["value"], e.get("model"), e.get("truth")
        words = ["" if number is None else shown(number, e["unit"]) for number in (said, model, found)]
        off = ["" if found is None or number is None else digits(number / found) for number in (said, model)]
        what = text("report.predicted", title=table().get(f"guess.{id}", id))
        yield what, words[0] or text("report.no_idea"), words[1], words[2] or text("report.sealed"), *off
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
    opened = [e for e in held["predictions"].values() if "truth" in e and e["value"]]
    if ranges := [e["low"] <= e["truth"] <= e["high"] for e in opened if e["low"] and e["high"]]:
        yield text("take.ranges", held=sum(ranges), n=len(ranges))
    if opened:
        factor = statistics.median(max(e["value"] / e["truth"], e["truth"] / e["value"]) for e in opened)
        yield text("take.factor", factor=f"{factor:.1f}", n=len(opened))


def _download() -> str:
    """Return a link that hands over the file itself: hubs such as Binder forget it."""
    file = store.path()
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    words = html.escape(text("report.download"))
    return f'<a download="{html.escape(file.name)}" href="data:application/json;base64,{data}">{words}</a>'
