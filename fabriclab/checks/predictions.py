"""Predict before you look: a number is stored, the cell after it opens, and the factor stays."""

from __future__ import annotations

import math
import os
from typing import Any

from fabriclab.checks import store
from fabriclab.checks.answers import digits, parse_answer, quantity, shown, unit_in
from fabriclab.checks.shown import Refused, Shown, keys, text
from fabriclab.core.result import Result

__all__ = ["envelope", "label", "ledger", "predict", "remember", "reveal"]

_NO_IDEA = {"value": None, "low": 0.1, "high": 1000.0}
_SPOT_ON = 1.15


def predict(
    id: str, value: float | str | None = None, unit: str | None = None, low: float | None = None,
    high: float | None = None, *, no_idea: bool = False, opens: str | None = None,
) -> Shown:  # fmt: skip
    """Store what you expect, before the cell that shows it: ``predict("00-copy", 10, "GB/s", low=3, high=30)``.

    Parameters
    ----------
    id : str
        Name of the prediction; the lesson gives it.
    value : float or str, optional
        Your best guess: a number in ``unit``, or a string with its unit. None is "I have no idea". [> 0]
    unit : str, optional
        Such as ``"GB/s"``, ``"s"`` or ``"times"``.
    low, high : float, optional
        The range in ``unit`` that you would bet on. [0 < low <= value <= high]
    no_idea : bool
        Store the range 0.1 to 1000 instead; it is welcome.
    opens : str, optional
        The lesson that reveals it, if it is a later one.

    Raises
    ------
    Refused
        A ValueError: a number, unit or range is wrong; the text says how to write it.
    """
    if not isinstance(id, str) or not id:
        raise Refused(text("predict.id", got=repr(id)))
    held = store.read()["predictions"].get(id, {})
    if "truth" in held:
        return Shown((text("predict.kept", said=_said(held)),), "wait", data=held)
    if unit is not None:
        quantity(unit)
    blank = no_idea or value is None
    entry = _NO_IDEA | {"unit": unit} if blank or value is None else _guess(value, unit, low, high)
    store.put("predictions", id, entry | {"opens": opens, "when": store.now()})
    key = "predict.envelope" if opens else "predict.no_idea" if blank else "predict.stored"
    return Shown((text(key, said=_said(entry), lesson=opens),), "good", data=entry)


def _guess(value: float | str, unit: str | None, low: float | None, high: float | None) -> dict[str, Any]:
    written = value if isinstance(value, str) else repr(_number(value, "value"))
    unit = unit or unit_in(written)
    if not unit:
        raise Refused(text("predict.unit", got=value))
    read = parse_answer(written if unit_in(written) else f"{written} {unit}", unit)
    if read.problem:
        raise Refused(read.problem)
    best = read.value / quantity(unit)[1]
    if best <= 0:
        raise Refused(text("predict.positive", got=f"{best:g}"))
    if low is None or high is None:
        if low is not high:
            raise Refused(text("predict.both"))
        return {"value": best, "unit": unit, "low": None, "high": None}
    if not 0 < _number(low, "low") <= best <= _number(high, "high"):
        raise Refused(text("predict.order", low=low, best=f"{best:g}", high=high))
    return {"value": best, "unit": unit, "low": float(low), "high": float(high)}


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or not math.isfinite(value):
        raise Refused(text("predict.number", name=name, got=repr(value)))
    return float(value)


def _typed(number: float, unit: str | None) -> str:
    return f"{number:g}" if unit in (None, "1") else f"{number:g} {unit}"


def _said(entry: dict[str, Any]) -> str:
    if entry.get("skipped"):
        return text("predict.skipped")
    low, high = (f"{entry[end]:g}" if entry[end] else "" for end in ("low", "high"))
    if entry["value"] is None:
        return text("predict.nothing", low=low, high=high, unit=entry["unit"] or "").rstrip()
    return _typed(entry["value"], entry["unit"]) + (text("predict.span", low=low, high=high) if low else "")


def reveal(
    id: str, truth: float | str | Result, unit: str | None = None, *, model: float | None = None, anyway: bool = False
) -> Shown:
    """Compare a stored prediction with what came out, and keep both.

    Parameters
    ----------
    id : str
        Name of the prediction.
    truth : float, str or Result
        A number in ``unit``, an SI number where no unit is given, a string with its unit, or a Result: its
        bus bandwidth or its time at the largest size, whichever was predicted.
    unit : str, optional
        Unit of ``truth`` and ``model``.
    model : float, optional
        What a model says, in the same unit.
    anyway : bool
        Show it without a prediction; that is recorded. ``FABRICLAB_REVEAL=1`` does so for all, unrecorded.

    Raises
    ------
    Refused
        A ValueError: the unit is unknown or of another quantity, or the truth is not finite and > 0.
    """
    held = store.read()["predictions"].get(id)
    if held is None and not anyway and os.environ.get("FABRICLAB_REVEAL", "") in ("", "0"):
        return Shown((text("reveal.first", id=id), text("reveal.anyway")), "wait")
    entry = held or {"value": None, "unit": None, "low": None, "high": None, "skipped": True}
    written = unit_in(truth) if isinstance(truth, str) else ""
    asked = entry["unit"] or unit or written or ("GB/s" if isinstance(truth, Result) else "1")
    found = _in(truth, unit, asked)
    entry |= {
        "unit": asked, "truth": found, "factor": entry["value"] and entry["value"] / found,
        "model": None if model is None else _in(model, unit, asked), "revealed": store.now(),
        "how": truth.obtained if isinstance(truth, Result) else "computed",
    }  # fmt: skip
    if held is not None or anyway:
        store.put("predictions", id, entry)
    if isinstance(truth, Result):
        remember(truth)
    return Shown(_compared(entry), "good", data=entry)


def _in(truth: float | str | Result, unit: str | None, asked: str) -> float:
    """Return the truth as a number in the unit that was asked."""
    kind, factor = quantity(asked)
    if isinstance(truth, Result):
        number = float((truth.time if kind == "time" else truth.busbw)[-1])
    elif isinstance(truth, str):
        number = parse_answer(truth, asked).value
    else:
        number = _number(truth, "truth") * (quantity(unit)[1] if unit else 1.0)
    if (unit and quantity(unit)[0] != kind) or not 0 < number < math.inf:
        raise Refused(text("reveal.truth", got=repr(truth), unit=asked))
    return number / factor


def _verdict(number: float, truth: float) -> str:
    off = max(number / truth, truth / number)
    key = "reveal.spot_on" if off <= _SPOT_ON else "reveal.high" if number > truth else "reveal.low"
    return text(key, factor=f"{off:.1f}" if off < 9.95 else f"{off:,.0f}")


def _compared(entry: dict[str, Any]) -> tuple[str, ...]:
    unit, found, said = entry["unit"], entry["truth"], entry["value"]
    words = {"how": text(f"how.{entry['how']}"), "truth": shown(found, unit)}
    if said is None:
        lines = [text("reveal.skipped" if entry.get("skipped") else "reveal.no_idea", **words)]
    else:
        lines = [text("reveal.compared", said=_typed(said, unit), verdict=_verdict(said, found), **words)]
    if said and entry["low"]:
        key = "reveal.held" if entry["low"] <= found <= entry["high"] else "reveal.missed"
        lines.append(text(key, low=f"{entry['low']:g}", high=_typed(entry["high"], unit)))
    if entry["model"]:
        lines.append(text("reveal.model", model=shown(entry["model"], unit), verdict=_verdict(entry["model"], found)))
    return tuple(lines)


def envelope(id: str) -> Shown:
    """Show a stored prediction: sealed until its lesson opens it, or opened, with what came out."""
    held = store.read()["predictions"].get(id)
    if held is None:
        return Shown((text("envelope.none", id=id),), "wait")
    if "truth" in held:
        return Shown(_compared(held), "good", data=held)
    lesson = text("envelope.lesson", lesson=held["opens"]) if held.get("opens") else text("envelope.next")
    return Shown((text("envelope.sealed", said=_said(held), lesson=lesson),), data=held)


def remember(result: Result, name: str | None = None) -> None:
    """Keep a measured result in the progress file, for `ruler` and `report`; others are left alone."""
    if result.obtained in ("measured", "stored"):
        kept = {key: result.rows()[-1][key] for key in ("size", "time", "busbw")}
        about = {"obtained": result.obtained, "n_ranks": result.n_ranks, "notes": list(result.notes)}
        store.put("measurements", name or result.what, kept | about | {"when": store.now()})


def label(name: str) -> str:
    """Return a kept measurement's name for people."""
    return text(f"measured.{name}") if f"measured.{name}" in keys("measured.") else name.replace("_", " ")


def ledger(change: str | None = None, step: float | None = None, lesson: str = "") -> Shown:
    """Write a change of the case and the step time [s] it leads to into the ledger, or show the ledger."""
    if change is not None:
        store.put("ledger", change, {"step": _number(step, "step"), "lesson": lesson})
    kept = store.read()["ledger"]
    rows = tuple((name, digits(e["step"]), e["lesson"]) for name, e in kept.items())
    head = tuple(text("ledger.head").split("|"))
    return Shown((text("ledger.title", n=len(rows)),), head=head, rows=rows, data=kept)
