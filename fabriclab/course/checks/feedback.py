"""`check` and `drill`: feedback on an answer, which names the mistake and gives one more hint each time."""

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
    """Judge an answer: say whether it is right and, if it is not, what went wrong, with one more hint each time.

    Parameters
    ----------
    id : str
        Name of the question, which the lesson gives.
    answer : number, str, function or list of functions, optional
        The answer, such as ``"0.7 s"``, ``"b"``, or your function. Without one, the question is shown.
    *more : function, optional
        Further functions, if the question asks for several.
    **given
        Other values for the quantities of the question, such as ``n=32`` or ``s="4.4 GB"``.

    Raises
    ------
    InputRefused
        A ValueError: there is no such question, or it has no such quantity.
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
    """Ask question ``number`` of the drill on units, which has four choices, or answer it with a letter."""
    rows = {q.drill: q for q in questions().values() if q.drill}
    refuse_if(f"units/{number}" not in rows, "drill.unknown", number=number, n=len(rows))
    return _turn(rows[f"units/{number}"], "choice", answer, {})


def _turn(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> Shown:
    """Ask a question, or judge and store an answer to it and show the verdict with a hint or an explanation."""
    asked = _ask(question, kind, given)
    if answer is None:
        return asked
    right, sentences, mistake = JUDGES[kind](question, answer, given)
    if right is None:
        return _uncounted(asked, sentences)

    data = _kept("drills" if question.drill else "checks", question.id, right, mistake)
    _, quantities = question.fill(given)
    if right:
        sentences = [*sentences, question.words.explained(quantities)]
        if question.formula:
            exact = question.shown(question.key(given))
            sentences.append(text("check.key", key=exact))
        else:
            sentences.append("")
    hints = _hints(question.words, data["tries"], quantities)
    return _with_verdict(asked, data, sentences, hints)


def _with_verdict(
    asked: Shown, data: Mapping[str, Any], sentences: Sequence[str], hints: Sequence[str]
) -> Shown:
    """Return the question with the verdict below it; a wrong answer gets hints if it counts as a try."""
    if data["right"]:
        tries = text("check.first" if data["tries"] == 1 else "check.tries", n=data["tries"])
        after = [text("check.right", tries=tries), *sentences]
        return Shown(asked.lines, "good", after=after, data=data)
    if data["counted"]:
        verdict = [text("check.wrong"), *sentences, *hints]
    else:
        verdict = [text("check.solved"), *sentences]
    return replace(asked, after=[*verdict, *asked.after], state="wait", data=data)


def _uncounted(asked: Shown, sentences: Sequence[str], **more: Any) -> Shown:
    """Return the question with the reason why an answer cannot be judged; it does not count as a try."""
    after = [*sentences, text("check.uncounted"), *asked.after]
    data = {"right": False, "counted": False, **more}
    return replace(asked, after=after, state="wait", data=data)


def _kept(section: str, id: str, right: bool, mistake: str) -> dict[str, Any]:
    """Count and store a try, unless the question was solved before; return what the learner gets as ``data``."""
    entry = store.held()[section].get(id, {"tries": 0, "right": False, "named": []})
    solved = bool(entry["right"])
    if not solved:
        named = [*entry["named"], mistake] if mistake else entry["named"]
        entry = {"tries": entry["tries"] + 1, "right": right, "named": named}
    if right or not solved:
        # If a solved question is answered right again, the day is noted, which completes a review.
        store.put(section, id, entry)
    return {"right": right, "counted": not solved, "tries": entry["tries"], "named": mistake}


def _hints(
    words: Words, tries: int, quantities: Mapping[str, str], function: str = ""
) -> list[str]:
    """Return the hint for a number of tries, in a list that is empty if there is none."""
    level = min(tries, _HINTS)
    hint = words.hint(level, quantities, function)
    return [text("check.hint", level=level, hint=hint)] if hint else []


def _graded(question: judges.JudgedQuestion, answer: Any) -> Shown:
    """Judge the functions of an exercise in this process, on the practice cases, which everybody may see."""
    names = ", ".join(question.functions)
    if len(question.functions) > 1:
        names = f"[{names}]"
    call = f'fl.check("{question.id}", {names})'
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
        return _with_verdict(asked, data, [*verdict.said, question.words.explained({})], [])

    worth = text("ex.worth", points=verdict.part * question.points, of=question.points)
    function = next((name for name, _ in verdict.failed), "")
    hints = _hints(question.words, data["tries"], {}, function)
    if data["tries"] >= _HINTS:
        hints.append(text("ex.solution", file=f"solutions/exercise{question.id[2]}.ipynb"))
    sentences = [worth, *verdict.said]
    if verdict.failed:
        calls = [_practice_call(question.id, name, place) for name, place in verdict.failed]
        sentences.append(text("ex.practice", calls=", ".join(calls)))
    return _with_verdict(asked, data, sentences, hints)


def _practice_call(id: str, function: str, place: int) -> str:
    """Return the line that runs a learner's function on a practice case, for the learner to type."""
    return f'`{function}(*fl.exercises.practice("{id}")["{function}"][{place}])`'


def _ask(question: Question, kind: str, given: Mapping[str, Any]) -> Shown:
    """Return the question with its options and the line to type as an answer."""
    asked = question.words.asked(question.fill(given)[1])
    if question.drill:
        n = sum(bool(q.drill) for q in questions().values())
        asked = text("drill.ask", number=question.drill.removeprefix("units/"), n=n, asked=asked)
    call = question.call(
        _placeholder(question, kind), *(f"{name}={value!r}" for name, value in given.items())
    )
    if kind == "choice":
        return _ask_to_choose(question, asked, call, given)
    if kind != "number":
        return Shown([asked], after=[text(f"check.{kind}", call=call)])

    form_key = {"times": "check.factor", "1": "check.plain"}.get(question.unit, "check.unit")
    form = text(form_key, unit=question.unit)
    within_key = "check.within" if question.tolerance else "check.exact"
    within = text(within_key, percent=100 * question.tolerance)
    return Shown([asked], after=[text("check.number", form=form, within=within, call=call)])


def _placeholder(question: Question, kind: str) -> str:
    """Return the placeholder for the answer in the line to type."""
    if kind == "choice":
        return '"?"'
    if kind == "function":
        return "your_function"
    return f'"? {question.unit}"'.replace(' 1"', '"')


def _ask_to_choose(question: Question, asked: str, call: str, given: Mapping[str, Any]) -> Shown:
    """Return a question with its options, which a notebook shows as buttons."""
    options = {letter: option for letter, (option, _) in question.options(given).items()}
    plain = Shown([asked], rows=[*options.items()], after=[text("check.choice", call=call)])
    answered = functools.partial(_turn, question, "choice", given=given)
    live = functools.partial(_choosing, question.call(), plain, options, answered)
    return replace(plain, live=live)


def _choosing(
    call: str, asked: Shown, options: Mapping[str, str], answer: Callable[[str], Shown]
) -> Any:
    """Return a form with a button for each option; ``answer`` judges the letter of the option."""
    from fabriclab.views.live import Live, Scene

    def pressed(letter: str, view: Live) -> Scene:
        shown = answer(letter)
        above = "\n".join([*asked.lines, f"{letter}: {options[letter]}"])
        more = [line for line in shown.after if line and line not in asked.after]
        return Scene(
            "\n".join([above, *more]),
            wrong=shown.state != "good",
            verdict=above.count("\n") + 1,
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
        card="form",
    )
