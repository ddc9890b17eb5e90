"""Verdicts on known answers to the exercises: right ones of many kinds, and typical mistakes.

``data/exercise*.json`` holds the answers, copied once from the tests. Most are another answer
with a few lines changed and are stored so: ``like`` names that answer, and each change says
which of its lines (from, to) are replaced by what. The first entry is what runs before every
answer.

A call of a learner's function normally has two seconds. Here the clock stands still, so that no
verdict depends on how busy the machine is; an answer that never ends must not be in the data.
"""

import ast
import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import fabriclab as fl
from freezing import homes
from freezing.questions import shown_of
from freezing.values import attempt, fresh_progress

DATA = Path(__file__).parent / "data"
NUMBERS = (1, 3, 4)
KEYS = ("practice", "frozen")  # of the cases: those that everybody sees, and others
_SET_TIMER = getattr(signal, "setitimer", None)
# What is no answer, for every question.
NO_ANSWERS: dict[str, Callable[[str], Any]] = {
    "raises": lambda name: renamed(name, lambda *given: 1 / 0),
    "returns None": lambda name: renamed(name, lambda *given: None),
    "not written": lambda name: renamed(name, not_written),
    "returns text": lambda name: renamed(name, lambda *given: "nonsense"),
    "no function": lambda name: 3,
}


def frozen() -> dict[str, Any]:
    """Return the questions, their cases, and the verdicts."""
    module = fl.exercises
    found: dict[str, Any] = {"questions": {}, "verdicts": {}, "sequences": {}}
    with unhurried(), np.errstate(divide="ignore"):
        for id, question in module.questions().items():
            found["questions"][id] = of_question(id, question)
        for number in NUMBERS:
            for entry in answers(number):
                label = f"{entry['kind']}: {entry['name']}"
                verdicts = found["verdicts"].setdefault(entry["question"], {})
                verdicts[label] = of_answer(entry["question"], entry["setup"], entry["code"])
            found["sequences"] |= sequences(number)
    return found


# The clock --------------------------------------------------------------------------------------


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """Stop the clock by which a call of a learner's function is ended."""
    clocks = {"perf_counter": lambda: 0.0, "process_time": lambda: 0.0}
    with mock.patch.multiple(time, **clocks):
        if not hasattr(signal, "setitimer"):
            yield
            return
        with mock.patch.object(signal, "setitimer", without_alarm):
            yield


def without_alarm(which: int, seconds: float, interval: float | None = None) -> tuple[float, float]:
    """Stand for `signal.setitimer`: a repeated alarm, which ends calls, never goes off."""
    if interval is None:  # a worker that a judge kills at a set time
        return _SET_TIMER(which, seconds)
    return 0.0, 0.0


# What is no answer ------------------------------------------------------------------------------


def not_written(*given: Any) -> Any:
    """Stand for a function that a learner has not written yet."""
    raise NotImplementedError


def renamed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under another name, by which a judge finds it."""
    function.__name__ = name
    return function


# Answers ----------------------------------------------------------------------------------------


def answers(number: int) -> Iterator[dict[str, str]]:
    """Yield the known answers to one exercise, with their code in full."""
    first, *entries = json.loads((DATA / f"exercise{number}.json").read_text(encoding="utf-8"))
    setup = "\n".join(first["setup"])
    known: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if "lines" in entry:
            lines = list(entry["lines"])
        else:
            lines = list(known[entry["question"], entry["like"]])
            for start, stop, new in reversed(entry["changes"]):
                lines[start:stop] = new
        known[entry["question"], f"{entry['kind']}: {entry['name']}"] = lines
        about = {name: entry[name] for name in ("question", "kind", "name")}
        yield {**about, "setup": setup, "code": "\n".join(lines)}


def functions_of(question: Any, setup: str, code: str) -> list[Any]:
    """Return what an answer defines of the functions that a question asks for."""
    names: dict[str, Any] = {}
    exec(setup, names)
    exec(code, names)
    return [names[name] for name in question.functions if name in names]


# Verdicts ---------------------------------------------------------------------------------------


class _Sources(ast.NodeTransformer):
    """Replaces every string that is a program by its syntax tree, as text."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and "\n" in node.value:
            with contextlib.suppress(SyntaxError):
                return ast.Constant(syntax(node.value))
        return node


def syntax(source: str) -> str:
    """Return what a program says, however its lines are laid out, programs in its strings included."""
    return ast.dump(_Sources().visit(ast.parse(source)))


def of_question(id: str, question: Any) -> dict[str, Any]:
    """Return a question with its example and cases, and what is said to what is no answer."""
    module = fl.exercises
    fresh_progress()
    found = {
        "functions": list(question.functions),
        "points": question.points,
        "prelude": syntax(question.prelude),
        "asked": shown_of(lambda: fl.check(id), whole=True),
        "example": attempt(lambda: module.example(id)),
        "practice": attempt(lambda: module.practice(id)),
    }
    for label, make in NO_ANSWERS.items():
        functions = [make(name) for name in question.functions]
        fresh_progress()
        found[label] = shown_of(lambda functions=functions: fl.check(id, functions))
    return found


def of_answer(id: str, setup: str, code: str) -> dict[str, Any]:
    """Return what a learner is told, and the verdict of the judge on each set of cases."""
    question = fl.exercises.find(id)
    fresh_progress()
    found: dict[str, Any] = {
        "check": shown_of(lambda: fl.check(id, functions_of(question, setup, code)))
    }
    for key in KEYS:
        found[f"key {key}"] = attempt(lambda key=key: judged(question, setup, code, key))
    return found


def sequences(number: int) -> dict[str, Any]:
    """Return what is said to a mistake three times, to a right answer, and to the mistake again."""
    first: dict[str, dict[str, dict[str, str]]] = {}
    for entry in answers(number):
        first.setdefault(entry["question"], {}).setdefault(entry["kind"], entry)
    found: dict[str, Any] = {}
    for id, entries in first.items():
        fresh_progress()
        found[id] = {}
        for place, kind in enumerate(("wrong", "wrong", "wrong", "right", "wrong"), 1):
            entry = entries[kind]
            functions = functions_of(fl.exercises.find(id), entry["setup"], entry["code"])
            answer = partial(fl.check, id, functions)
            found[id][f"try {place}, {kind}"] = shown_of(answer)
    return found


def judged(question: Any, setup: str, code: str, key: str) -> Any:
    """Return the verdict of a judge on one set of cases."""
    asker = homes.asker()
    ask = asker(question.functions, functions_of(question, setup, code))
    return question.judge(ask, fl.exercises.draw(key, question.id))
