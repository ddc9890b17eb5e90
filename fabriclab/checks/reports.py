"""`report` and `progress`: everything a learner predicted, measured and answered, on one screen."""

from __future__ import annotations

import base64
import html
import itertools
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import fabriclab
from fabriclab import catalog, units
from fabriclab.checks import store
from fabriclab.checks.answers import digits, shown
from fabriclab.checks.courses import state
from fabriclab.checks.predictions import label
from fabriclab.checks.questions import questions
from fabriclab.checks.shown import Shown, keys, text

__all__ = ["progress", "report"]

Held = Mapping[str, Any]


def progress() -> dict[str, Any]:
    """Return everything in the progress file, a dict per section."""
    return store.read()


def report(name: str | None = None) -> Shown:
    """Show on one screen what was predicted, measured and modelled, the checks, and three take-aways.

    Parameters
    ----------
    name : str, optional
        Written at the top; there is no name unless one is given.

    Returns
    -------
    Shown
        Text and HTML, and by its methods Markdown and JSON.
    """
    held = store.read()
    head = text("report.head", version=fabriclab.__version__, day=store.now()[:10], name=f", {name}" if name else "")
    takeaways = [f"- {line}" for line in itertools.islice(_takeaways(held), 3)]
    parts = [_part("numbers", _numbers(held)), _part("checks", _checks(held))]
    after = [text("report.takeaways"), *takeaways] if takeaways else []
    again = [id for id, e in (held["checks"] | held["drills"]).items() if not e["right"] or e["tries"] > 1]
    review = [text("report.review", ids=", ".join(again))] if again else []
    return Shown(
        (head, _counts(held)), parts=tuple(p for p in parts if p.rows), extra=_download,
        after=(*after, *review, text("report.file", path=store.path())),
        data=held | {"name": name, "made_with": fabriclab.__version__},
    )  # fmt: skip


def _part(key: str, rows: Iterator[tuple[str, ...]]) -> Shown:
    return Shown((text(f"report.{key}"),), head=tuple(text(f"report.{key}_columns").split("|")), rows=tuple(rows))


def _counts(held: Held) -> str:
    states = [state(key.removeprefix("lesson.")) for key in keys("lesson.")]
    return text(
        "report.counts", done=states.count("done"), begun=states.count("begun"), lessons=len(states),
        predictions=len(held["predictions"]), right=sum(e["right"] for e in held["drills"].values()),
        drills=sum(bool(q.drill) for q in questions().values()),
    )  # fmt: skip


def _numbers(held: Held) -> Iterator[tuple[str, ...]]:
    """Yield a row per prediction, then one per measurement: said, modelled, came out, factors."""
    for id, e in held["predictions"].items():
        said, model, found = e["value"], e.get("model"), e.get("truth")
        off = ["" if found is None or number is None else digits(number / found) for number in (said, model)]
        guess = text("report.no_idea") if said is None else shown(said, e["unit"])
        came = text("report.sealed") if found is None else shown(found, e["unit"])
        yield id, guess, "" if model is None else shown(model, e["unit"]), came, *off
    for name, e in held["measurements"].items():
        came = f"{units.format_rate(e['busbw'])}, {units.format_time(e['time'])}"
        yield label(name), "", "", came, "", ""


def _checks(held: Held) -> Iterator[tuple[str, ...]]:
    for id, e in (held["checks"] | held["drills"]).items():
        yield id, text("word.yes" if e["right"] else "word.not_yet"), str(e["tries"])


def _takeaways(held: Held) -> Iterator[str]:
    """Yield findings in the learner's own numbers, the surest first."""
    nic = catalog.case()["nic_rate"]
    rate = {name: e["busbw"] for name, e in held["measurements"].items()}
    if "copy" in rate:
        ratio, words = nic / rate["copy"], {"nic": units.format_rate(nic), "copy": units.format_rate(rate["copy"])}
        yield text("take.faster" if ratio >= 1 else "take.slower", factor=f"{max(ratio, 1 / ratio):.1f}", **words)
    if {"copy", "sockets"} <= rate.keys():
        ratio = rate["copy"] / rate["sockets"]
        yield text("take.sockets", factor=f"{ratio:.1f}", sockets=units.format_rate(rate["sockets"]))
    opened = [e for e in held["predictions"].values() if "truth" in e and e["value"]]
    if ranges := [e["low"] <= e["truth"] <= e["high"] for e in opened if e["low"]]:
        yield text("take.ranges", held=sum(ranges), n=len(ranges))
    if factors := [max(e["factor"], 1 / e["factor"]) for e in opened]:
        yield text("take.factor", factor=f"{statistics.median(factors):.1f}", n=len(factors))


def _download() -> str:
    """Return a link that hands over the file itself: hubs such as Binder forget it."""
    file = store.path()
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    words = html.escape(text("report.download"))
    return f'<a download="{html.escape(file.name)}" href="data:application/json;base64,{data}">{words}</a>'
