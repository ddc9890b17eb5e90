"""Predict before you look: store a guess, reveal the truth in a later cell, and keep how far apart they are."""

import functools
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabriclab import units
from fabriclab.catalog.tables import near
from fabriclab.core import MACHINE_SHARED, Result
from fabriclab.course import cards
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions
from fabriclab.course.shown import (
    SI,
    InputRefused,
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
from fabriclab.texts import localised, switched_on, table, text

_NO_IDEA = {"value": None, "low": 0.1, "high": 1000.0}
_OBTAINED = ("computed", "measured", "published", "stored")
_SPOT_ON = 1.15
_ENDS = (0.001, 1000.0)  # ends of a ruler, unless a lesson gives others
_SHARE = "%"  # unit of a guess whose ruler goes from 0 to 100, unless a lesson gives other ends
_ENDS_OF_SHARE = (0.0, 100.0)
_SPOT_ON_POINTS = 2.0  # percentage points between a share and the truth that say nothing
_FORM = "form"  # means that the learner sets the value in a form
_asked_here: dict[str, str] = {}  # id -> unit of each prediction whose form was shown
_told_in: dict[str, int] = {}  # id -> cell in which `reveal` has asked for the guess


def named(id: str) -> str:
    """Return the name of a prediction in lists, which is its id if no lesson asks for it."""
    return predictions()[id].name() if id in predictions() else id


def _asked(id: str) -> str:
    """Return the unit in which a lesson asks for a prediction; empty if no lesson does."""
    return predictions()[id].unit if id in predictions() else ""


def _fits(id: str, unit: str | None) -> bool:
    """Return whether a unit measures the quantity that the lesson asks for; an unknown unit raises InputRefused."""
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
    """Store what you expect, before a cell shows it: ``predict("00-copy", 10, "GB/s", low=3, high=30)``.

    Parameters
    ----------
    id : str
        Name of the prediction, which the lesson gives.
    value : float or str, optional
        Your best guess: a number in ``unit``, or a string with its unit. None means "I have no idea", which is welcome:
        it stores the range 0.1 to 1000. If you leave it out, you get a form to fill in. [> 0; a share may be 0 %]
    unit : str, optional
        Unit, such as ``"GB/s"``, ``"s"`` or ``"times"``.
    low, high : float or str, optional
        The range that you would bet on, written like ``value``. [0 < low <= value <= high]
    opens : str, optional
        The lesson that reveals the truth, if that is a later one.

    Raises
    ------
    InputRefused
        A ValueError: a number, unit or range is wrong, or the unit measures another quantity than the lesson asks for;
        the text says how to write it.
    """
    refuse_if(not isinstance(id, str) or not id, "predict.id", got=repr(id))
    earlier = store.held()["predictions"].get(id, {})
    if "truth" in earlier:
        return Shown((text("predict.kept", said=guessed(earlier)),), "wait", data=earlier)
    if value == _FORM:
        return _form(id, unit, opens)

    refuse_if(not _fits(id, unit or unit_in(value)), "predict.kind", got=unit or value, **_call(id))
    if value is None:
        entry = _NO_IDEA | {"unit": unit or _asked(id) or None}
    else:
        entry = _guess(id, value, unit, low, high)
    store.put("predictions", id, entry | {"opens": opens})

    if opens:
        key = "predict.envelope"
    else:
        key = "predict.no_idea" if entry["value"] is None else "predict.stored"
    lesson = (opens or "").split("_")[0]  # its number
    return Shown((text(key, said=guessed(entry), lesson=lesson),), "good", data=entry)


def _form(id: str, unit: str | None, opens: str | None) -> Shown:
    """Return the form for a prediction; as text it shows the question and the line to type."""
    asked = unit or _asked(id)
    refuse_if(not asked, "predict.unit", **_call(id, "GB/s"))
    _asked_here[id] = asked
    form = GuessForm(id, asked, opens)
    return Shown(form.words(), "wait", card=form.still, live=form.live)


@dataclass(frozen=True)
class GuessForm:
    """The form for a prediction: best guess, low and high on a logarithmic ruler, and a button for "no idea"."""

    id: str
    unit: str
    opens: str | None = None  # the lesson that reveals the truth, if that is a later one

    def words(self) -> list[str]:
        """Return what the text mode shows: the question, and the line to type."""
        return [_question(self.id), text("predict.form", **_call(self.id, self.unit))]

    def still(self) -> str:
        """Return the card for pages without a kernel."""
        _, line = self.words()
        body = self._body(self._stored(), still=True, below=cards.sentences([line]))
        return cards.card(body, title=text("form.title", name=named(self.id)))

    def live(self) -> Any:
        """Return the form that a learner fills in."""
        from fabriclab.views.live.form import Form

        title = text("form.title", name=named(self.id))
        first = self._body(self._stored(), still=False)
        return Form(title, first, "\n".join(self.words()).replace("`", ""), self.press, self.read)

    def read(self, name: str, fields: Mapping[str, str]) -> Any:
        """Return the number that was typed in a field, in the unit of the form, or why it cannot be read."""
        from fabriclab.views.live.form import Turn

        answer = parse_answer(fields[name], self.unit, self.unit)
        if answer.problem:
            return Turn(problem=answer.problem)
        number = answer.value / quantity(self.unit)[1]
        _refuse_unless_positive(number, _is_share(self.id, self.unit))
        return Turn(read=(name, number), said=answer.note)

    def press(self, name: str, fields: Mapping[str, str]) -> Any:
        """Store the guess in the fields, or that there is no idea."""
        from fabriclab.views.live.form import Turn

        if name == "pass":
            stored = predict(self.id, None, self.unit, opens=self.opens)
        else:
            typed = {field: fields[field].strip() or None for field in ("value", "low", "high")}
            refuse_if(typed["value"] is None, "form.move")
            stored = predict(self.id, unit=self.unit, opens=self.opens, **typed)
        said = " ".join(stored.lines)
        kept = cards.verdict_box(cards.Verdict("other", said))
        return Turn(self._body(self._stored(), still=False, below=kept), said)

    def _stored(self) -> cards.Guess:
        """Return the guess that is stored already, in the unit of the form; without one, nothing is set."""
        entry = _comparable_guess(self.id)
        if entry is None or entry["value"] is None:
            return cards.Guess()
        factor = quantity(entry["unit"])[1] / quantity(self.unit)[1]
        values = {}
        for name in cards.Guess._fields:
            number = entry[name]
            values[name] = None if number is None else float(f"{number * factor:.6g}")
        return cards.Guess(**values)

    def _body(self, guess: cards.Guess, *, still: bool, below: str = "") -> str:
        """Return the body of the card."""
        inner = cards.ruler(ruler_ends(self.id, self.unit), self.unit, guess, still=still)
        if not still:
            typed = {}
            for name, number in guess._asdict().items():
                typed[name] = "" if number is None else f"{number:.6g}"
            inner += cards.fields(typed)
        small = text("card.guess"), text("card.stored_where", file=store.path().name)
        return cards.asked_guess(*small, _question(self.id), inner + below)


def _question(id: str) -> str:
    """Return the question of a prediction; that of a learner's own is its name."""
    return predictions()[id].asked() if id in predictions() else id


def _is_share(id: str, unit: str | None) -> bool:
    """Return whether a guess is a share in percent, for which no lesson gives other ends: differences count."""
    return unit == _SHARE and id not in predictions()


def ruler_ends(id: str, unit: str, *values: float) -> tuple[float, float]:
    """Return the ends of the ruler of a prediction in a unit, further apart where ``values`` lie beyond them.

    A ruler that begins at 0 is linear, as that of a share is.
    """
    lowest, highest = _ENDS_OF_SHARE if _is_share(id, unit) else _ENDS
    if id in predictions():
        asked = predictions()[id]
        factor = quantity(asked.unit)[1] / quantity(unit)[1]
        lowest = float(asked.lowest) * factor
        highest = float(asked.highest) * factor
    for value in values:
        if value < lowest:
            lowest = 10.0 ** math.floor(math.log10(value))
        if value > highest:
            highest = 10.0 ** math.ceil(math.log10(value))
    return lowest, highest


def _call(id: str, unit: str = "") -> dict[str, str]:
    """Return the fields of a sentence: the unit that a lesson asks for, and the line to type."""
    unit = _asked(id) or unit
    return {"unit": unit, "call": f'fl.predict("{id}", ..., "{unit}")'}


def _guess(
    id: str, value: float | str | None, unit: str | None, *ends: float | str | None
) -> dict[str, Any]:
    """Return the entry to store for a guess with its range, all in the unit that was asked for or written.

    Raises
    ------
    InputRefused
        If a number cannot be read, only one end of the range is given, or they are not in order.
    """
    asked = unit or unit_in(value)
    refuse_if(not asked, "predict.unit", **_call(id, "GB/s"))
    answers = [
        parse_answer(number, asked, asked) for number in (value, *ends) if number is not None
    ]
    for answer in answers:
        if answer.problem:
            raise InputRefused(answer.problem)
    refuse_if(len(answers) == 2, "predict.both")

    _, factor = quantity(asked)
    best, *span = (answer.value / factor for answer in answers)
    is_share = _is_share(id, asked)
    _refuse_unless_positive(best, is_share)
    if not span:
        return {"value": best, "unit": asked, "low": None, "high": None}
    low, high = span
    if not low <= best <= high or low < 0 or (low == 0 and not is_share):
        key = "predict.order_share" if is_share else "predict.order"
        raise InputRefused(text(key, low=low, best=best, high=high))
    return {"value": best, "unit": asked, "low": low, "high": high}


def _refuse_unless_positive(number: float, is_share: bool) -> None:
    """Raise InputRefused for a guess below 0, or at 0; a share may be 0, if somebody expects that nothing is left."""
    if is_share:
        refuse_if(number < 0, "predict.share", got=number)
    else:
        refuse_if(number <= 0, "predict.positive", got=number)


def _has_range(entry: Mapping[str, Any]) -> bool:
    """Return whether a stored guess has both ends of a range."""
    return entry["low"] is not None and entry["high"] is not None


def guessed(entry: Mapping[str, Any]) -> str:
    """Write a stored prediction in words, with its range."""
    if entry.get("skipped"):
        return text("predict.skipped")
    if entry["value"] is None:
        return text("predict.nothing")
    guess = localised(_typed(entry["value"], entry["unit"]))
    if _has_range(entry):
        guess += text("predict.span", low=_plain(entry["low"]), high=_plain(entry["high"]))
    return guess


def _typed(number: float, unit: str | None) -> str:
    """Write a number with its unit, as a learner would type it."""
    return _plain(number) if unit in (None, "1") else f"{_plain(number)} {unit}"


def _plain(number: float) -> str:
    """Write a number with up to six digits, as people type it: 0.000063 and not 6.3e-05."""
    if not 1e-6 <= abs(number) < 1e9:
        return f"{number:g}"
    return f"{float(f'{number:.6g}'):.11f}".rstrip("0").rstrip(".")


def reveal(
    id: str,
    truth: float | str | Result,
    unit: str | None = None,
    *,
    model: float | None = None,
    anyway: bool = False,
    obtained: str = "computed",
) -> Shown:
    """Compare a stored prediction with the truth, and store both.

    Parameters
    ----------
    id : str
        Name of the prediction.
    truth : float, str or Result
        A number in ``unit``, or in SI if no unit is given, or a string with its unit. Of a Result it is the bus
        bandwidth or the time at the largest size, whichever was predicted.
    unit : str, optional
        Unit of ``truth`` and ``model``.
    model : float, optional
        What a model predicts, in the same unit.
    anyway : bool
        Show the truth without a prediction, which is recorded. ``FABRICLAB_REVEAL=1`` does so for all predictions,
        without a record.
    obtained : str
        How the truth was obtained, if it is not a Result: computed, measured, published or stored.

    Raises
    ------
    InputRefused
        A ValueError: the unit is unknown or measures another quantity, or the truth is not finite and > 0.
    """
    guess = _comparable_guess(id)
    asked = _asked(id) or unit or unit_in(truth) or ("GB/s" if isinstance(truth, Result) else "1")
    if guess is None and not anyway and not switched_on("FABRICLAB_REVEAL"):
        _told_in[id] = _running_cell()
        return Shown((text("reveal.first", **_call(id, asked)),), "wait")

    entry = guess or {"value": None, "low": None, "high": None, "unit": None, "skipped": True}
    asked = entry["unit"] or asked
    found = _in(asked, truth, unit)
    by_model = None if model is None else _in(asked, model, unit)
    if isinstance(truth, Result):
        how = truth.obtained
    else:
        how = units.choice(obtained, "obtained", _OBTAINED)
    entry |= {
        "unit": asked,
        "truth": found,
        "factor": None if entry["value"] is None else entry["value"] / found,
        "model": by_model,
        "how": how,
    }
    if guess is not None or anyway:
        store.put("predictions", id, entry)
    if isinstance(truth, Result):
        remember(truth)
    busy = ""
    if isinstance(truth, Result) and any(MACHINE_SHARED in note for note in truth.notes):
        busy = text("reveal.busy")
    lines = [*_compared(entry, _is_share(id, asked)), *filter(None, [busy])]
    return Shown(lines, "good", data=entry, card=functools.partial(_revealed, id, entry, busy))


def _comparable_guess(id: str) -> dict[str, Any] | None:
    """Return the stored entry of a prediction, if any, unless an older file has it for another quantity."""
    entry: dict[str, Any] | None = store.held()["predictions"].get(id)
    if entry is not None and not _fits(id, entry["unit"]):
        return None
    return entry


def after_guess(id: str, *things: Any) -> Together:
    """Show things only once the guess has been made; until then, show one sentence that asks for it.

    After a `reveal` in the same cell of a notebook, which has asked for it already, nothing is shown.

    Parameters
    ----------
    id : str
        Name of the prediction, as in `predict`. The guess counts as made if it is stored (also as "I have no idea"), if
        the truth was revealed without it (``reveal(..., anyway=True)``), or with ``FABRICLAB_REVEAL=1``.
    *things
        What explains the answer: tables, pictures, live views, checks or text. At least one.

    Returns
    -------
    Together
        Its ``things`` are what is shown now: a notebook shows one below the other, and ``print`` their words.

    Raises
    ------
    InputRefused
        A ValueError: there is nothing to show, or nobody has asked for a prediction of that name and none is stored;
        the text suggests the nearest name.

    Examples
    --------
    A lesson ends a cell with ``fl.after_guess("21-by-rack", fl.views.times(times), fl.check("21-dice"))``.
    """
    refuse_if(not isinstance(id, str) or not id, "predict.id", got=repr(id))
    refuse_if(not things, "after_guess.nothing", call=f'fl.after_guess("{id}", table)')
    if _comparable_guess(id) is not None or switched_on("FABRICLAB_REVEAL"):
        return Together(tuple(_shown_thing(thing) for thing in things))
    if id not in predictions() and id not in _asked_here:
        nearest = near(id, predictions(), text("after_guess.table"))
        if not nearest.endswith("?"):
            nearest += "."
        raise InputRefused(text("after_guess.own", near=nearest, call=_call(id, "s")["call"]))
    if 0 < _running_cell() == _told_in.get(id):
        return Together(())
    ask = text("after_guess.first", **_call(id, _asked_here.get(id, "")))
    return Together((Shown((ask,), "wait"),))


def _running_cell() -> int:
    """Return the number of the cell that IPython runs; 0 where none runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell.execution_count if shell else 0


def _shown_thing(thing: Any) -> Any:
    """Return a thing as a notebook should show it; text becomes a `Shown`, so that it appears without quotes."""
    return Shown((thing,)) if isinstance(thing, str) else thing


def _in(asked: str, truth: Any, unit: str | None = None) -> float:
    """Convert a number, a string or a Result to a number in the unit that was asked for."""
    kind, factor = quantity(asked)
    if isinstance(truth, Result):
        values = truth.time if kind == "time" else truth.busbw
        truth = float(values[-1])  # at the largest size
        unit = None
    number = parse_answer(truth, asked, unit or SI[kind]).value / factor
    given = f"{truth} {unit or ''}".strip()
    refuse_if(not 0 < number < math.inf, "reveal.truth", got=given, unit=asked)
    return number


def _compared(entry: dict[str, Any], share: bool = False) -> list[str]:
    """Return sentences that compare the guess, its range and the model with the truth."""
    unit = entry["unit"]
    found = entry["truth"]
    guess = entry["value"]
    model = entry["model"]
    how = table().get(f"how.{entry['how']}", entry["how"])
    words = {"how": how, "truth": shown(found, unit)}
    if guess is not None:
        verdict = how_far(guess, found, share)
        lines = [text("reveal.compared", said=_typed(guess, unit), verdict=verdict, **words)]
    elif entry.get("skipped"):
        lines = [text("reveal.skipped", **words)]
    else:
        lines = [text("reveal.no_idea", **words)]

    # A range is not judged where the guess itself is right.
    if guess is not None and _has_range(entry) and not _is_spot_on(guess, found, share):
        key = "reveal.held" if entry["low"] <= found <= entry["high"] else "reveal.missed"
        lines.append(text(key, low=_plain(entry["low"]), high=_typed(entry["high"], unit)))
    if model:
        verdict = how_far(model, found, share)
        lines.append(text("reveal.model", model=shown(model, unit), verdict=verdict))
    return lines


def how_far(number: float, truth: float, share: bool = False) -> str:
    """Return in words whether a number is close to the truth, or by which factor it is too high or too low.

    Of a share in percent it is the difference that counts, in percentage points.
    """
    if _is_spot_on(number, truth, share):
        return text("reveal.spot_on")
    is_high = number > truth
    if share:
        key = "reveal.points_high" if is_high else "reveal.points_low"
        return text(key, points=f"{abs(number - truth):.3g}")
    return text("reveal.high" if is_high else "reveal.low", factor=times(number, truth))


def _is_spot_on(number: float, truth: float, share: bool = False) -> bool:
    """Return whether a number is so close to the truth that nothing more is said about how far it is off."""
    if share:
        return abs(number - truth) <= _SPOT_ON_POINTS
    return max(number / truth, truth / number) <= _SPOT_ON


def headline(id: str, entry: Mapping[str, Any]) -> str:
    """Return what came out, in a sentence: the number with the claim of the lesson, else with the name."""
    truth = localised(shown(entry["truth"], entry["unit"]))
    claim = predictions()[id].claimed() if id in predictions() else ""
    if claim:
        return f"{truth} {claim}".rstrip(".") + "."
    name = named(id)
    return text("card.named", name=name[:1].upper() + name[1:], truth=truth)


def judged_guess(entry: Mapping[str, Any], share: bool = False) -> str:
    """Return in a sentence how good a revealed guess and its range were."""
    guess = entry["value"]
    found = entry["truth"]
    if guess is None:
        return text("card.skipped" if entry.get("skipped") else "card.no_idea")
    if _is_spot_on(guess, found, share):
        return text("card.spot_on")
    verdict = how_far(guess, found, share)
    if not _has_range(entry):
        return text("card.off", verdict=verdict)
    held = entry["low"] <= found <= entry["high"]
    return text("card.held" if held else "card.missed", verdict=verdict)


def _revealed(id: str, entry: Mapping[str, Any], busy: str = "") -> str:
    """Return the card of a revealed prediction: guess, range and truth on the ruler of the form, and why.

    ``busy`` is the sentence about a machine that did other work during the measurement.
    """
    guess = cards.Guess()
    span = ""
    if entry["value"] is not None:
        guess = cards.Guess(entry["low"], entry["value"], entry["high"])
        if _has_range(entry):
            span = text(
                "card.your_range",
                low=_plain(entry["low"]),
                high=_typed(entry["high"], entry["unit"]),
            )
    marks = [number for number in guess if number is not None]
    ends = ruler_ends(id, entry["unit"] or "1", entry["truth"], *marks)
    inner = cards.ruler(ends, entry["unit"] or "1", guess, truth=entry["truth"])
    why = predictions()[id].explained() if id in predictions() else ""
    if why:
        inner += cards.verdict_box(cards.Verdict("right", text("card.why"), [why]))
    how = table().get(f"how.{entry['how']}", entry["how"])
    below = [text("card.how", how=how)]
    if entry["model"]:
        by_model = shown(entry["model"], entry["unit"])
        verdict = how_far(entry["model"], entry["truth"], _is_share(id, entry["unit"]))
        below.append(text("reveal.model", model=by_model, verdict=verdict))
    if busy:
        below.append(busy)
    judged = judged_guess(entry, _is_share(id, entry["unit"]))
    finding = f"{headline(id, entry)} {judged}".strip()
    small = text("card.guessed_first" if guess.value is not None else "card.came_out")
    body = cards.asked_guess(small, span, finding, inner + cards.sentences([" ".join(below)]))
    return cards.card(body, title=named(id))  # the finding stands in the card and is read once


def remember(result: Result, name: str | None = None) -> None:
    """Store a measured rate in the progress file, for `ruler` and `report`; results without one are not stored."""
    if result.obtained in ("measured", "stored") and result.busbw[-1] > 0:
        entry = {
            "size": float(result.size[-1]),
            "time": float(result.time[-1]),
            "busbw": float(result.busbw[-1]),
            "obtained": result.obtained,
            "n_ranks": result.n_ranks,
            "notes": list(result.notes),
        }
        store.put("measurements", name or result.what, entry)


def ledger(
    change: str | None = None,
    step: float | str | None = None,
    lesson: str = "",
    *,
    after: str = "",
) -> Shown:
    """Record a change of the case, with the step time that it leads to, and show the ledger of all changes.

    Parameters
    ----------
    change : str, optional
        The change in a few words. Without one, the ledger is only shown.
    step : float or str, optional
        Time of a step after the change. [s]
    lesson : str
        File name or number of the lesson in which it was found.
    after : str
        Name of a prediction that the change would give away. Before a guess is stored, nothing is recorded.
    """
    waits = after and _comparable_guess(after) is None and not switched_on("FABRICLAB_REVEAL")
    if change is not None and not waits:
        store.put("ledger", change, {"step": _in("s", step), "lesson": lesson})
    entries = store.held()["ledger"]
    rows = tuple((name, digits(e["step"]), _noted_in(e["lesson"])) for name, e in entries.items())
    title = text("ledger.title", n=len(rows))
    return Shown([title], head=text("ledger.head").split("|"), rows=rows, data=entries)


def _noted_in(lesson: str) -> str:
    """Return the number of a lesson in words, from its file name or number; empty if there is none."""
    number, *_ = str(lesson).split("_")
    return text("ledger.lesson", number=number) if number else ""


def label(name: str) -> str:
    """Return the name of a stored measurement as people read it."""
    return table().get(f"measured.{name}", name.replace("_", " "))
