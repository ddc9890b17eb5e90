"""`check` and `drill`: feedback on an answer, with the mistake by name and one more hint each time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fabriclab.checks import store
from fabriclab.checks.judges import JUDGES
from fabriclab.checks.questions import Question, find, questions
from fabriclab.checks.shown import Refused, Shown
from fabriclab.texts import keys, text

_HINTS: Final = 3


def check(id: str, answer: Any = None, **given: Any) -> Shown:
    """Say whether an answer is right, and if not, what happened, with one more hint each time.

    Parameters
    ----------
    id : str
        Name of the question; the lesson gives it.
    answer : number, str or function, optional
        Such as ``"0.7 s"``, ``"b"``, or your function; without one, the question is asked.
    **given
        Other numbers for the question, such as ``n=32`` or ``s="4.4 GB"``.

    Raises
    ------
    Refused
        A ValueError: there is no such question or parameter.
    """
    question = find(id)
    return _turn(question, "choice" if question.kind == "pick" else question.kind, answer, given)


def drill(number: int | None = None, answer: str | None = None, *, name: str = "units") -> Shown:
    """Ask question ``number`` of a drill with four choices, or answer it with a letter; without one, list it."""
    rows = {q.drill: q for q in questions().values() if q.drill.startswith(f"{name}/")}
    if number is None:
        done = store.held()["drills"]
        state = {d: "right" if done.get(q.id, {}).get("right") else "open" for d, q in rows.items()}
        asked = [_ask(q, "choice", {}, text(f"drill.{state[d]}")) for d, q in rows.items()]
        return Shown([text("drill.list", name=name, n=len(rows))], parts=asked, data=state)
    if f"{name}/{number}" not in rows:
        raise Refused(text("drill.unknown", number=number, n=len(rows), name=name))
    return _turn(rows[f"{name}/{number}"], "choice", answer, {})


def _turn(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> Shown:
    """Ask, or count the try, store it, and say the verdict below the question, with the next hint or the answer."""
    asked = _ask(question, kind, given)
    if answer is None:
        return asked
    right, said, mistake = JUDGES[kind](question, answer, given)
    if right is None:
        after = [*said, text("check.uncounted"), *asked.after]
        return replace(asked, after=after, state="wait", data={"right": False, "counted": False})
    section = "drills" if question.drill else "checks"
    held = store.held()[section].get(question.id, {"tries": 0, "right": False, "named": []})
    solved = held["right"]
    if not solved:
        named = [*held["named"], mistake] if mistake else held["named"]
        held = {"tries": held["tries"] + 1, "right": right, "named": named}
        store.put(section, question.id, held)
    elif right:
        store.put(section, question.id, held)  # notes the day, so that a review is done
    data = {"right": right, "counted": not solved, "tries": held["tries"], "named": mistake}
    words = question.fill(given)[1]
    if right:
        tries = text("check.first" if held["tries"] == 1 else "check.tries", n=held["tries"])
        model = text("check.key", key=question.shown(question.key(given))) if question.formula else ""
        why = text(f"{question.id}.why", **words)
        return Shown(asked.lines, "good", after=[text("check.right", tries=tries), *said, why, model], data=data)
    if solved:
        return replace(asked, after=[text("check.solved"), *said, *asked.after], state="wait", data=data)
    level = min(held["tries"], _HINTS)
    hints = [text("check.hint", level=level, hint=text(k, **words)) for k in keys(f"{question.id}.hint{level}")]
    return replace(asked, after=[text("check.wrong"), *said, *hints, *asked.after], state="wait", data=data)


def _ask(question: Question, kind: str, given: Mapping[str, Any], state: str = "") -> Shown:
    """Return the question, its options, and the line to type as an answer."""
    asked = text(f"q.{question.id}", **question.fill(given)[1])
    if question.drill:
        name, _, number = question.drill.partition("/")
        n = sum(q.drill.startswith(f"{name}/") for q in questions().values())
        asked = text("drill.ask", number=number, n=n, state=state, asked=asked)
    answer = {"choice": '"?"', "function": "your_function"}.get(kind, f'"? {question.unit}"')
    call = question.call(answer, *(f"{name}={value!r}" for name, value in given.items()))
    if kind == "choice":
        options = {letter: option for letter, (option, _) in question.options(given).items()}
        plain = Shown([asked], rows=[*options.items()], after=[text("check.choice", call=call)])

        def live() -> Any:
            from fabriclab.checks import forms

            return forms.choice(question.call(), plain, options, lambda letter: _turn(question, kind, letter, given))

        return replace(plain, live=live)
    if kind != "number":
        return Shown([asked], after=[text(f"check.{kind}", call=call)])
    form = text("check.factor" if question.unit == "times" else "check.unit", unit=question.unit)
    within = text("check.within" if question.tolerance else "check.exact", percent=f"{100 * question.tolerance:g}")
    return Shown([asked], after=[text("check.number", form=form, within=within, call=call)])
