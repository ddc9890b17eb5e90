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
from fabriclab.checks.courses import state
from fabriclab.checks.predictions import label
from fabriclab.checks.questions import questions
from fabriclab.checks.shown import Shown, keys, text


def report(name: str | None = None) -> Shown:
    """Show on one screen what was predicted, measured and modelled, the checks, and three take-aways.

    Parameters
    ----------
    name : str, optional
        Written at the top; there is no name unless one is given.
    """
    held = store.progress()
    answers = held["checks"] | held["drills"]
    checks = ((id, text("word.yes" if e["right"] else "word.not_yet"), str(e["tries"])) for id, e in answers.items())
    again = ", ".join(id for id, e in answers.items() if not e["right"] or e["tries"] > 1)
    findings = [f"- {line}" for line in itertools.islice(_takeaways(held), 3)]
    head = text("report.head", version=fabriclab.__version__, day=date.today(), name=f", {name}" if name else "")
    after = [text("report.takeaways") if findings else "", *findings, text("report.review", ids=again) if again else ""]
    return Shown(
        [head, _counts(held)], parts=[*_part("numbers", _numbers(held)), *_part("checks", checks)], extra=_download,
        after=[*after, text("report.file", path=store.path())],
        data=held | {"name": name, "made_with": fabriclab.__version__},
    )  # fmt: skip


def _part(key: str, rows: Iterable[tuple[str, ...]]) -> list[Shown]:
    table = Shown((text(f"report.{key}"),), head=text(f"report.{key}_columns").split("|"), rows=[*rows])
    return [table] if table.rows else []


def _counts(held: dict[str, Any]) -> str:
    states = [state(key.removeprefix("lesson.")) for key in keys("lesson.")]
    return text(
        "report.counts", done=states.count("done"), begun=states.count("begun"), lessons=len(states),
        predictions=len(held["predictions"]), right=sum(e["right"] for e in held["drills"].values()),
        drills=sum(bool(q.drill) for q in questions().values()),
    )  # fmt: skip


def _numbers(held: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row per prediction, then one per measurement: said, modelled, came out, factors."""
    for id, e in held["predictions"].items():
        said, model, found = e["value"], e.get("model"), e.get("truth")
        words = ["" if number is None else shown(number, e["unit"]) for number in (said, model, found)]
        off = ["" if found is None or number is None else digits(number / found) for number in (said, model)]
        yield id, words[0] or text("report.no_idea"), words[1], words[2] or text("report.sealed"), *off
    for name, e in held["measurements"].items():
        yield label(name), "", "", f"{units.format_rate(e['busbw'])}, {units.format_time(e['time'])}", "", ""


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
