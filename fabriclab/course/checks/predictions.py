"""Predict before you look: a number is stored, the cell after it opens, and the factor stays."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fabriclab import units
from fabriclab.catalog.tables import near
from fabriclab.core import Result
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions
from fabriclab.course.shown import (
    SI,
    Refused,
    Shown,
    Together,
    digits,
    parse_answer,
    quantity,
    refuse_if,
    shown,
    times,
    unit_in,
)
from fabriclab.texts import switched_on, table, text

_NO_IDEA = {"value": None, "low": 0.1, "high": 1000.0}
_OBTAINED = ("computed", "measured", "published", "stored")
_SPOT_ON = 1.15
_ENDS = (0.001, 1000.0)  # of the sliders, where no lesson says more
_FORM = "form"  # stands for a value that the learner sets by hand


def named(id: str) -> str:
    """Return what lists call a prediction; one that no lesson asks for goes by its id."""
    return predictions()[id].name() if id in predictions() else id


def _asked(id: str) -> str:
    """Return the unit in which a lesson asks for a prediction, or an empty text."""
    return predictions()[id].unit if id in predictions() else ""


def _fits(id: str, unit: str | None) -> bool:
    """Return whether a unit measures what the lesson asks for; Refused if nobody knows the unit."""
    kind = quantity(unit)[0] if unit else None
    return kind is None or not _asked(id) or kind == quantity(_asked(id))[0]


def predict(
    id: str,
    value: float | str | None = _FORM,
    unit: str | None = None,
    low: float | str | None = None,
    high: float | str | None = None,
    *,
    opens: str | None = None,
) -> Shown:
    """Store what you expect, before the cell that shows it: ``predict("00-copy", 10, "GB/s", low=3, high=30)``.

    Parameters
    ----------
    id : str
        Name of the prediction; the lesson gives it.
    value : float or str, optional
        Your best guess: a number in ``unit``, or a string with its unit. None is "I have no idea", which is welcome:
        it stores the range 0.1 to 1000. Without it, a form asks. [> 0]
    unit : str, optional
        Such as ``"GB/s"``, ``"s"`` or ``"times"``.
    low, high : float or str, optional
        The range that you would bet on, written in the same way. [0 < low <= value <= high]
    opens : str, optional
        The lesson that reveals it, if it is a later one.

    Raises
    ------
    Refused
        A ValueError: a number, unit or range is wrong, or the unit measures something else than the lesson
        asks for; the text says how to write it.
    """
    refuse_if(not isinstance(id, str) or not id, "predict.id", got=repr(id))
    held = store.held()["predictions"].get(id, {})
    if "truth" in held:
        return Shown((text("predict.kept", said=guessed(held)),), "wait", data=held)
    if value == _FORM:
        return _form(id, unit, opens)
    refuse_if(not _fits(id, unit or unit_in(value)), "predict.kind", got=unit or value, **_call(id))
    none = _NO_IDEA | {"unit": unit or _asked(id) or None}
    entry = none if value is None else _guess(id, value, unit, low, high)
    store.put("predictions", id, entry | {"opens": opens})
    key = "predict.envelope" if opens else "predict.stored" if entry["value"] else "predict.no_idea"
    return Shown((text(key, said=guessed(entry), lesson=opens),), "good", data=entry)


def _form(id: str, unit: str | None, opens: str | None) -> Shown:
    """Return the form for a prediction; as text it is the line to type."""
    asked = unit or _asked(id)
    refuse_if(not asked, "predict.unit", **_call(id, "GB/s"))
    put = functools.partial(predict, id, unit=asked, opens=opens)
    known = predictions().get(id)
    ends = (float(known.lowest), float(known.highest)) if known else _ENDS
    live = functools.partial(_asking, id, asked, ends, put, opens)
    return Shown((text("predict.form", **_call(id, asked)),), "wait", live=live)


def _asking(
    id: str, unit: str, ends: tuple[float, float], put: Callable[..., Shown], opens: str | None
) -> Any:
    """Return a form for a prediction: low, best and high on a logarithmic ruler, and a button for "no idea".

    ``put`` takes value, low and high, and says what it has stored.
    """
    from fabriclab.views.live import Live, Scene, Slider
    from fabriclab.views.live.runs import range_scene

    # the middle third of the ruler
    wide, middle = ((ends[1] / ends[0]) ** (1 / 6), (ends[0] * ends[1]) ** 0.5)
    first = {"low": 1 / min(wide, 10), "value": 1.0, "high": min(wide, 10)}
    names = {
        name: min(max(float(f"{middle * x:.1g}"), ends[0]), ends[1]) for name, x in first.items()
    }
    controls = {
        name: Slider(*ends, label=text(f"form.{name}"), unit=unit, log=True) for name in names
    }

    def scene(low: float, value: float, high: float) -> Scene:
        order = "" if low <= value <= high else "\n" + text("form.order")
        said = text("form.said", low=low, best=value, high=high, unit=unit) + order
        return replace(range_scene(ends, (low, value, high), unit, said), wrong=bool(order))

    def told(shown: Shown, view: Live) -> Scene:
        return replace(scene(**view.values), said="\n".join(shown.lines), wrong=False)

    def commit(view: Live) -> Scene:
        # What the form begins with is nobody's guess.
        refuse_if(view.values == names and not view.moved, "form.move")
        return told(put(**view.values), view)

    buttons = {
        text("form.commit"): commit,
        text("form.no_idea"): lambda view: told(put(value=None), view),
    }
    call = f"fl.predict({id!r}, unit={unit!r}" + (f", opens={opens!r}" if opens else "")
    return Live(call, scene, controls, names, text("form.title", id=id), buttons=buttons)


def _call(id: str, unit: str = "") -> dict[str, str]:
    """Return the unit that a lesson asks for and the line to type, for a sentence."""
    unit = _asked(id) or unit
    return {"unit": unit, "call": f'fl.predict("{id}", ..., "{unit}")'}


def _guess(
    id: str, value: float | str | None, unit: str | None, *ends: float | str | None
) -> dict[str, Any]:
    asked = unit or unit_in(value)
    refuse_if(not asked, "predict.unit", **_call(id, "GB/s"))
    read = [parse_answer(number, asked, asked) for number in (value, *ends) if number is not None]
    if problem := next((answer.problem for answer in read if answer.problem), ""):
        raise Refused(problem)
    refuse_if(len(read) == 2, "predict.both")
    best, *span = (answer.value / quantity(asked)[1] for answer in read)
    refuse_if(best <= 0, "predict.positive", got=best)
    if span and not 0 < span[0] <= best <= span[1]:
        raise Refused(text("predict.order", low=span[0], best=best, high=span[1]))
    low, high = span or (None, None)
    return {"value": best, "unit": asked, "low": low, "high": high}


def guessed(entry: dict[str, Any]) -> str:
    """Return a stored prediction in words, with its range."""
    if entry.get("skipped"):
        return text("predict.skipped")
    low, high = (f"{entry[end]:g}" if entry[end] else "" for end in ("low", "high"))
    if entry["value"] is None:
        return text("predict.nothing", low=low, high=high, unit=entry["unit"] or "").rstrip()
    return _typed(entry["value"], entry["unit"]) + (
        text("predict.span", low=low, high=high) if low else ""
    )


def _typed(number: float, unit: str | None) -> str:
    return f"{number:g}" if unit in (None, "1") else f"{number:g} {unit}"


def reveal(
    id: str,
    truth: float | str | Result,
    unit: str | None = None,
    *,
    model: float | None = None,
    anyway: bool = False,
    obtained: str = "computed",
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
    obtained : str
        How the truth came about, if it is no Result: computed, measured, published or stored.

    Raises
    ------
    Refused
        A ValueError: the unit is unknown or of another quantity, or the truth is not finite and > 0.
    """
    held = store.held()["predictions"].get(id)
    if held is not None and not _fits(id, held["unit"]):
        held = None  # of an older file: it cannot be compared
    asked = _asked(id) or unit or unit_in(truth) or ("GB/s" if isinstance(truth, Result) else "1")
    if held is None and not anyway and not switched_on("FABRICLAB_REVEAL"):
        return Shown((text("reveal.first", **_call(id, asked)),), "wait")
    entry = held or {"value": None, "low": None, "high": None, "unit": None, "skipped": True}
    asked = entry["unit"] or asked
    found = _in(asked, truth, unit)
    entry |= {
        "unit": asked,
        "truth": found,
        "factor": entry["value"] and entry["value"] / found,
        "model": None if model is None else _in(asked, model, unit),
        "how": truth.obtained
        if isinstance(truth, Result)
        else units.choice(obtained, "obtained", _OBTAINED),
    }
    if held is not None or anyway:
        store.put("predictions", id, entry)
    if isinstance(truth, Result):
        remember(truth)
    return Shown(_compared(entry), "good", data=entry)


def after_guess(id: str, *things: Any) -> Together:
    """Show something only once the guess is in; until then, one sentence that asks for it.

    Parameters
    ----------
    id : str
        Name of the prediction, as in `predict`. It counts if it was stored, "I have no idea" included, or revealed
        without a guess (``reveal(..., anyway=True)``), or with ``FABRICLAB_REVEAL=1``.
    *things
        What explains the answer: tables, pictures, live views, checks, text. At least one.

    Returns
    -------
    Together
        Its ``things`` are those that are shown now: a notebook shows one below the other, ``print`` their words.

    Raises
    ------
    Refused
        A ValueError: there is nothing to show, or no prediction of that name, neither in the lessons nor stored; the
        text names the nearest.

    Examples
    --------
    A lesson ends a cell with ``fl.after_guess("21-by-rack", fl.views.times(times), fl.check("21-dice"))``.
    """
    refuse_if(not isinstance(id, str) or not id, "predict.id", got=repr(id))
    refuse_if(not things, "after_guess.nothing", call=f'fl.after_guess("{id}", table)')
    stored = store.held()["predictions"].get(id)
    if stored is not None and not _fits(id, stored["unit"]):
        stored = None  # of an older file, as in `reveal`
    if stored is not None or switched_on("FABRICLAB_REVEAL"):
        return Together(tuple(_shown_thing(thing) for thing in things))
    if id not in predictions():
        nearest = near(id, predictions(), text("after_guess.table"))
        nearest += "" if nearest.endswith("?") else "."
        raise Refused(text("after_guess.own", near=nearest, call=_call(id, "s")["call"]))
    ask = text("after_guess.first", **_call(id))
    return Together((Shown((ask,), "wait"),))


def _shown_thing(thing: Any) -> Any:
    """Return something that shows itself; text becomes a sentence, which a notebook would show with its quotes."""
    return Shown((thing,)) if isinstance(thing, str) else thing


def _in(asked: str, truth: Any, unit: str | None = None) -> float:
    """Return a number, a string or a Result as a number in the unit that was asked."""
    kind, factor = quantity(asked)
    if isinstance(truth, Result):
        truth, unit = float((truth.time if kind == "time" else truth.busbw)[-1]), None
    number = parse_answer(truth, asked, unit or SI[kind]).value / factor
    refuse_if(
        not 0 < number < math.inf, "reveal.truth", got=f"{truth} {unit or ''}".strip(), unit=asked
    )
    return number


def _compared(entry: dict[str, Any]) -> list[str]:
    unit, found, said, model = entry["unit"], entry["truth"], entry["value"], entry["model"]
    words = {"how": table().get(f"how.{entry['how']}", entry["how"]), "truth": shown(found, unit)}
    if said is None:
        lines = [text("reveal.skipped" if entry.get("skipped") else "reveal.no_idea", **words)]
    else:
        lines = [
            text("reveal.compared", said=_typed(said, unit), verdict=_verdict(said, found), **words)
        ]
    if said and entry["low"] and entry["high"]:
        key = "reveal.held" if entry["low"] <= found <= entry["high"] else "reveal.missed"
        lines.append(text(key, low=entry["low"], high=_typed(entry["high"], unit)))
    if model:
        lines.append(text("reveal.model", model=shown(model, unit), verdict=_verdict(model, found)))
    return lines


def _verdict(number: float, truth: float) -> str:
    near = max(number / truth, truth / number) <= _SPOT_ON
    key = "reveal.spot_on" if near else "reveal.high" if number > truth else "reveal.low"
    return text(key, factor=times(number, truth))


def remember(result: Result, name: str | None = None) -> None:
    """Keep a measured rate in the progress file, for `ruler` and `report`; other results are left alone."""
    if result.obtained in ("measured", "stored") and result.busbw[-1] > 0:
        kept = {key: float(getattr(result, key)[-1]) for key in ("size", "time", "busbw")}
        about = {
            "obtained": result.obtained,
            "n_ranks": result.n_ranks,
            "notes": list(result.notes),
        }
        store.put("measurements", name or result.what, kept | about)


def ledger(change: str | None = None, step: float | str | None = None, lesson: str = "") -> Shown:
    """Write a change of the case and the step time [s] it leads to into the ledger, or show the ledger."""
    if change is not None:
        store.put("ledger", change, {"step": _in("s", step), "lesson": lesson})
    kept = store.held()["ledger"]
    rows = tuple((name, digits(e["step"]), e["lesson"]) for name, e in kept.items())
    return Shown(
        [text("ledger.title", n=len(rows))],
        head=text("ledger.head").split("|"),
        rows=rows,
        data=kept,
    )


def label(name: str) -> str:
    """Return a kept measurement's name for people."""
    return table().get(f"measured.{name}", name.replace("_", " "))
