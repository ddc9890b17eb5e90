"""`check` and `drill`: feedback on an answer, with the mistake by name and one more hint each time."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fabriclab.course import judges
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.progress import store
from fabriclab.course.questions import Question, Words, find, questions, unknown
from fabriclab.course.shown import Shown, refuse_if
from fabriclab.texts import text

_HINTS = 3


def check(id: str, answer: Any = None, *more: Any, **given: Any) -> Shown:
    """Say whether an answer is right, and if not, what happened, with one more hint each time.

    Parameters
    ----------
    id : str
        Name of the question; the lesson gives it.
    answer : number, str, function or list of functions, optional
        Such as ``"0.7 s"``, ``"b"``, or your function; without one, the question is asked.
    *more : function, optional
        Further functions, if the question asks for several.
    **given
        Other numbers for the question, such as ``n=32`` or ``s="4.4 GB"``.

    Raises
    ------
    Refused
        A ValueError: there is no such question or parameter.
    """
    if more:
        answer = [answer, *more]
    if id in judges.questions():
        return _graded(judges.find(id), answer)
    if str(id).startswith("ex"):
        raise unknown(id, judges.questions())
    question = find(id)
    return _turn(question, "choice" if question.kind == "pick" else question.kind, answer, given)


def drill(number: int, answer: str | None = None) -> Shown:
    """Ask question ``number`` of the drill on units with four choices, or answer it with a letter."""
    rows = {q.drill: q for q in questions().values() if q.drill}
    refuse_if(f"units/{number}" not in rows, "drill.unknown", number=number, n=len(rows))
    return _turn(rows[f"units/{number}"], "choice", answer, {})


def _turn(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> Shown:
    """Ask, or count the try, store it, and say the verdict below the question, with the next hint or the answer."""
    asked = _ask(question, kind, given)
    if answer is None:
        return asked
    right, said, mistake = JUDGES[kind](question, answer, given)
    if right is None:
        return _uncounted(asked, said)
    data = _kept("drills" if question.drill else "checks", question.id, right, mistake)
    quantities = question.fill(given)[1]
    model = text("check.key", key=question.shown(question.key(given))) if question.formula else ""
    why = [question.words.explained(quantities), model]
    hints = _hints(question.words, data["tries"], quantities)
    return _told(asked, data, [*said, *why] if right else said, hints)


def _told(
    asked: Shown, data: Mapping[str, Any], said: Sequence[str], hints: Sequence[str]
) -> Shown:
    """Return the verdict below the question; hints go with what is counted."""
    if data["right"]:
        tries = text("check.first" if data["tries"] == 1 else "check.tries", n=data["tries"])
        return Shown(
            asked.lines, "good", after=[text("check.right", tries=tries), *said], data=data
        )
    told = (
        [text("check.wrong"), *said, *hints] if data["counted"] else [text("check.solved"), *said]
    )
    return replace(asked, after=[*told, *asked.after], state="wait", data=data)


def _uncounted(asked: Shown, said: Sequence[str], **more: Any) -> Shown:
    after = [*said, text("check.uncounted"), *asked.after]
    return replace(
        asked, after=after, state="wait", data={"right": False, "counted": False, **more}
    )


def _kept(section: str, id: str, right: bool, mistake: str) -> dict[str, Any]:
    """Count and store a try, if the question was not solved before; return what is told of it."""
    held = store.held()[section].get(id, {"tries": 0, "right": False, "named": []})
    solved = bool(held["right"])
    if not solved:
        named = [*held["named"], mistake] if mistake else held["named"]
        held = {"tries": held["tries"] + 1, "right": right, "named": named}
    if right or not solved:
        # of one that is right again it notes the day, so that a review is done
        store.put(section, id, held)
    return {"right": right, "counted": not solved, "tries": held["tries"], "named": mistake}


def _hints(
    words: Words, tries: int, quantities: Mapping[str, str], function: str = ""
) -> list[str]:
    """Return the hint that is due after so many tries."""
    level = min(tries, _HINTS)
    hint = words.hint(level, quantities, function)
    return [text("check.hint", level=level, hint=hint)] if hint else []


def _graded(question: judges.JudgedQuestion, answer: Any) -> Shown:
    """Judge the functions of an exercise here, on the cases that everybody may see."""
    names = ", ".join(question.functions)
    call = f'fl.check("{question.id}", {names if len(question.functions) == 1 else f"[{names}]"})'
    asked = Shown([question.words.asked({})], after=[text("check.function", call=call)])
    if answer is None:
        return asked
    functions = list(answer) if isinstance(answer, list | tuple) else [answer]
    try:
        ask = asker(question.functions, functions)
        verdict = question.judge(ask, judges.draw(judges.PRACTICE, question.id))
    except judges.Unanswered as error:
        return _uncounted(asked, [error.said], part=0.0)
    data = _kept("checks", question.id, verdict.part == 1, verdict.mistake) | {"part": verdict.part}
    if data["right"]:
        return _told(asked, data, [*verdict.said, question.words.explained({})], [])
    worth = text("ex.worth", points=verdict.part * question.points, of=question.points)
    function = next((name for name, _ in verdict.failed), "")
    hints = _hints(question.words, data["tries"], {}, function)
    hints += [text("ex.solution", file=f"solutions/exercise{question.id[2]}.ipynb")] * (
        data["tries"] >= _HINTS
    )
    cases = (
        f'`{name}(*fl.exercises.practice("{question.id}")["{name}"][{i}])`'
        for name, i in verdict.failed
    )
    again = [text("ex.practice", calls=", ".join(cases))] if verdict.failed else []
    return _told(asked, data, [worth, *verdict.said, *again], hints)


def _ask(question: Question, kind: str, given: Mapping[str, Any]) -> Shown:
    """Return the question, its options, and the line to type as an answer."""
    asked = question.words.asked(question.fill(given)[1])
    if question.drill:
        n = sum(bool(q.drill) for q in questions().values())
        asked = text("drill.ask", number=question.drill.removeprefix("units/"), n=n, asked=asked)
    answer = {"choice": '"?"', "function": "your_function"}.get(
        kind, f'"? {question.unit}"'.replace(' 1"', '"')
    )
    call = question.call(answer, *(f"{name}={value!r}" for name, value in given.items()))
    if kind == "choice":
        options = {letter: option for letter, (option, _) in question.options(given).items()}
        plain = Shown([asked], rows=[*options.items()], after=[text("check.choice", call=call)])
        answered = functools.partial(_turn, question, kind, given=given)
        return replace(
            plain, live=functools.partial(_choosing, question.call(), plain, options, answered)
        )
    if kind != "number":
        return Shown([asked], after=[text(f"check.{kind}", call=call)])
    form = text(
        {"times": "check.factor", "1": "check.plain"}.get(question.unit, "check.unit"),
        unit=question.unit,
    )
    within = text(
        "check.within" if question.tolerance else "check.exact", percent=100 * question.tolerance
    )
    return Shown([asked], after=[text("check.number", form=form, within=within, call=call)])


def _choosing(
    call: str, asked: Shown, options: Mapping[str, str], answer: Callable[[str], Shown]
) -> Any:
    """Return a form with a button for each option; ``answer`` takes the letter."""
    from fabriclab.views.live import Live, Scene

    def pressed(letter: str, view: Live) -> Scene:
        shown, above = answer(letter), "\n".join([*asked.lines, f"{letter}: {options[letter]}"])
        more = [line for line in shown.after if line and line not in asked.after]
        return Scene(
            "\n".join([above, *more]), wrong=shown.state != "good", verdict=above.count("\n") + 1
        )

    buttons = {
        f"{letter}: {option}": functools.partial(pressed, letter)
        for letter, option in options.items()
    }
    return Live(
        call.removesuffix(")"),
        lambda: Scene("\n".join(asked.lines)),
        {},
        {},
        asked.lines[0],
        buttons=buttons,
    )
