"""`check` and `drill`: feedback on an answer, with the mistake by name and one more hint each time."""

from collections.abc import Mapping
from typing import Any, Final

from fabriclab.checks import store
from fabriclab.checks.judges import JUDGES
from fabriclab.checks.questions import Question, find, questions
from fabriclab.checks.shown import Refused, Shown, keys, text

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
    return _turn(question, question.kind, answer, given)


def drill(number: int | None = None, answer: str | None = None, *, name: str = "units") -> Shown:
    """Ask question ``number`` of a drill with four choices, or answer it with a letter; without one, list it."""
    rows = {q.drill: q for q in questions().values() if q.drill.startswith(f"{name}/")}
    if number is None:
        done = store.progress()["drills"]
        state = {d: "right" if done.get(q.id, {}).get("right") else "open" for d, q in rows.items()}
        asked = [_ask(q, "choice", {}, text(f"drill.{state[d]}", number=d.split("/")[1])) for d, q in rows.items()]
        return Shown([text("drill.list", name=name, n=len(rows))], parts=asked, data=state)
    if f"{name}/{number}" not in rows:
        raise Refused(text("drill.unknown", number=number, n=len(rows), name=name))
    return _turn(rows[f"{name}/{number}"], "choice", answer, {})


def _turn(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> Shown:
    """Ask, or count the try, store it, and say the verdict with the next hint or the model's answer."""
    if answer is None:
        return _ask(question, kind, given)
    right, said, mistake = JUDGES[kind](question, answer, given)
    if right is None:
        return Shown([*said, text("check.uncounted")], "wait", data={"right": False, "counted": False})
    section = "drills" if question.drill else "checks"
    held = store.progress()[section].get(question.id, {"tries": 0, "right": False, "named": []})
    if not held["right"]:
        named = [*held["named"], mistake] if mistake else held["named"]
        held = {"tries": held["tries"] + 1, "right": right, "named": named}
        store.put(section, question.id, held)
    data = {"right": right, "counted": True, "tries": held["tries"], "named": mistake}
    if right:
        tries = text("check.first" if held["tries"] == 1 else "check.tries", n=held["tries"])
        model = text("check.key", key=question.shown(question.key(given))) if question.kind == "number" else ""
        return Shown([text("check.right", tries=tries), *said, model], "good", data=data)
    level, words = min(held["tries"], _HINTS), question.fill(given)[1]
    hints = [text("check.hint", level=level, hint=text(k, **words)) for k in keys(f"{question.id}.hint{level}")]
    return Shown([text("check.wrong"), *said, *hints], "wait", data=data)


def _ask(question: Question, kind: str, given: Mapping[str, Any], start: str = "") -> Shown:
    asked = start + text(f"q.{question.id}", **question.fill(given)[1])
    if kind == "choice":
        rows = [(letter, option) for letter, (option, _) in question.options(given).items()]
        return Shown([asked], rows=rows, after=[] if start else [text("check.letter")])
    if kind == "function":
        return Shown([asked])
    tolerance = "check.tolerance" if question.tolerance else "check.exact"
    return Shown([asked, text(tolerance, unit=question.unit, percent=f"{100 * question.tolerance:g}")])
