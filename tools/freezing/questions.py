"""Checks, drills, predictions and tables: what is asked, and what is said to each answer.

``data/tries.csv`` lists the answers to try, as a learner types them: the right one, each known
mistake, just within and just outside the tolerance, off by factors that have a name, and what
cannot be read. It was made once from the table of questions, so that this module needs nothing
of the library but `check`. A row ``sequence`` is a list of tries, one after another, by which
the hints and the counting show.
"""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fabriclab as fl
from freezing import homes
from freezing.homes import library_file
from freezing.values import attempt, error_line, fresh_progress, hashed, plain, scrubbed

TRIES = Path(__file__).parent / "data" / "tries.csv"
TABLES = {
    "errata.csv": "id",
    "glossary.csv": "id",
    "paths.csv": "path",
    "predictions.csv": "id",
    "questions.csv": "id",
    "ruler.csv": "name",
}
STATEMENTS = range(1, 100)  # numbers of errata
# Functions of learners, by question: right ones, known mistakes, and what is no answer.
RULES: dict[str, dict[str, Any]] = {
    "00-write-rate": {
        "right": lambda size, times: size / np.median(times),
        "right, sorted": lambda size, times: size / sorted(times)[len(times) // 2],
        "right, lower middle": lambda size, times: size / sorted(times)[(len(times) - 1) // 2],
        "mean": lambda size, times: size / np.mean(times),
        "fastest": lambda size, times: size / min(times),
        "last": lambda size, times: size / times[-1],
        "not sorted": lambda size, times: size / times[len(times) // 2],
        "time": lambda size, times: np.median(times),
        "gigabytes": lambda size, times: size / np.median(times) / 1e9,
        "twice": lambda size, times: 2 * size / np.median(times),
        "raises": lambda size, times: size / times,
        "takes one": lambda times: 1.0,
        "returns None": lambda size, times: None,
        "returns an array": lambda size, times: size / times[:1],
        "no function": 9e9,
    },
    "31-write-ring": {
        "right": lambda r, s, n: (r - s) % n,
        "right, one later": lambda r, s, n: (r - s + 1) % n,
        "right, of the library": lambda r, s, n: (r - s - 1) % n,
        "own block": lambda r, s, n: r,
        "against the ring": lambda r, s, n: (r + s) % n,
        "same block": lambda r, s, n: s % n,
        "negative": lambda r, s, n: r - s,
        "too large": lambda r, s, n: (r - s) % (n + 1),
        "raises": lambda r, s, n: 1 / 0,
        "takes two": lambda r, s: r,
        "exits": lambda r, s, n: exit(),
        "returns None": lambda r, s, n: None,
        "returns a float": lambda r, s, n: 0.0,
        "returns True": lambda r, s, n: True,
        "first half only": lambda r, s, n: (r - s) % n if s < n else 0,
        "small rings only": lambda r, s, n: (r - s) % n if n < 9 else r,
        "no function": 3,
    },
    "34-write-order": {
        "right": lambda r, s, n: (r + s) % n,
        "right, backwards": lambda r, s, n: (s - r) % n,
        "right, pairs": lambda r, s, n: r ^ s,
        "all to one": lambda r, s, n: s,
        "always the same": lambda r, s, n: (r + 1) % n,
        "wraps too early": lambda r, s, n: (r + s) % (n - 1),
        "twice as far": lambda r, s, n: (r + 2 * s) % n,
        "raises": lambda r, s, n: [][r],
        "returns None": lambda r, s, n: None,
        "no function": "r + s",
    },
}
# Predictions: what is typed for each id; {unit} is what the lesson asks for.
GUESSES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "form": ((), {}),
    "number and unit": ((3, "{unit}"), {}),
    "one text": (("3 {unit}",), {}),
    "range": ((3, "{unit}"), {"low": 1, "high": 30}),
    "no idea": ((None,), {}),
    "opened later": ((3, "{unit}"), {"opens": "31_all_reduce"}),
    "upside down": ((3, "{unit}"), {"low": 30, "high": 1}),
    "one end only": ((3, "{unit}"), {"low": 1}),
    "zero": ((0, "{unit}"), {}),
    "no unit": ((3,), {}),
    "strange unit": ((3, "bananas"), {}),
    "other quantity": ((3, "K"), {}),
}
TRUTHS: dict[str, dict[str, Any]] = {
    "as said": {"truth": 3.0},
    "higher": {"truth": 24.0, "model": 20.0},
    "lower": {"truth": 0.5, "model": 0.45, "obtained": "measured"},
    "published": {"truth": 3.1, "obtained": "published"},
    "zero": {"truth": 0.0},
    "strange": {"truth": 3.0, "obtained": "dreamt"},
}


def frozen() -> dict[str, Any]:
    """Return everything by part, as if all was answered at one moment."""
    with homes.one_moment():
        return answered_questions()


def answered_questions() -> dict[str, Any]:
    """Return everything by part."""
    tried = tries()
    ids = [row["id"] for row in rows_of("questions.csv")]
    return {
        "number": {
            "of questions": len(ids),
            "of those with tries": len(tried.keys() | RULES.keys()),
        },
        "without tries": {"ids": sorted(set(ids) - tried.keys() - RULES.keys())},
        "checks": {id: of_question(id, tried.get(id, [])) for id in [*tried, *RULES]},
        "drills": drills(tried),
        "refusals": refusals(),
        "predictions": predictions(),
        "errata": {f"E{n:02}": shown_of(lambda n=n: fl.errata(f"E{n:02}")) for n in STATEMENTS},
        "course": course(),
        "tables": tables(),
        "texts": {
            **json.loads(library_file("texts_en.json").read_text(encoding="utf-8")),
            **homes.question_sentences(),
        },
    }


def rows_of(file: str) -> list[dict[str, str]]:
    """Return the rows of a table of the course; those of questions may stand in files by lesson."""
    made = {"questions.csv": homes.question_rows, "predictions.csv": homes.prediction_rows}
    if file in made and homes.question_files():
        return made[file]()
    with library_file(file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def tries() -> dict[str, list[dict[str, str]]]:
    """Return the answers to try by question, in the order of the table."""
    found: dict[str, list[dict[str, str]]] = {}
    with TRIES.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["question"], []).append(row)
    return found


# What is shown ----------------------------------------------------------------------------------


def shown_of(make: Callable[[], Any], *, whole: bool = False) -> dict[str, Any]:
    """Return text, state and data of what a learner sees; of the ``whole`` also its live form."""
    try:
        shown = make()
    except (Exception, SystemExit) as error:
        return error_line(error)
    found = {
        "text": scrubbed(str(shown)),
        "state": shown.state,
        "data": plain(shown.data),
        "html": hashed(scrubbed(shown._repr_html_() or "").encode()),
    }
    if whole:
        found["markdown"] = scrubbed(shown.markdown())
        found["form"] = attempt(lambda: form_of(shown))
    return found


def form_of(shown: Any) -> Any:
    """Return controls, buttons and the first sentence of the live form, if there is one."""
    if shown.live is None:
        return None
    view = shown.live()
    spec = {
        name: part for name, part in view.widget.spec.items() if name not in ("words", "palette")
    }
    return {"spec": spec, "code": view.code, "said": view.scene.said, "alt": view.scene.alt}


# Questions --------------------------------------------------------------------------------------


def of_question(id: str, rows: list[dict[str, str]]) -> dict[str, Any]:
    """Return what is asked, and what is said to each answer if it is the first."""
    fresh_progress()
    found: dict[str, Any] = {"asked": shown_of(lambda: fl.check(id), whole=True)}
    for row in rows:
        given = json.loads(row["given"]) if row["given"] else {}
        label = ", ".join([row["try"], *(f"{name}={value}" for name, value in given.items())])
        if row["try"].startswith("drill "):
            continue
        if given and row["try"] == "right":
            found[f"asked, {label.partition(', ')[2]}"] = shown_of(
                lambda given=given: fl.check(id, **given)
            )
        fresh_progress()
        if row["try"] == "sequence":
            answers = row["answer"].split(" | ")
            found[label] = {
                f"try {n}": {
                    "answer": answer,
                    **shown_of(lambda answer=answer: fl.check(id, answer)),
                }
                for n, answer in enumerate(answers, 1)
            }
            continue
        said = shown_of(lambda row=row, given=given: fl.check(id, row["answer"], **given))
        found[label] = {"answer": row["answer"], **said}
    for label, rule in RULES.get(id, {}).items():
        fresh_progress()
        found[label] = shown_of(lambda rule=rule: fl.check(id, rule))
    if id in RULES:
        fresh_progress()
        mistake, right = list(RULES[id].values())[3], RULES[id]["right"]
        found["sequence"] = {
            f"try {n}": shown_of(lambda rule=rule: fl.check(id, rule))
            for n, rule in enumerate([mistake, mistake, mistake, right, mistake, right], 1)
        }
    return found


def drills(tried: dict[str, list[dict[str, str]]]) -> dict[str, Any]:
    """Return each question of the drill with its letters, and one that is not there."""
    numbered = [
        id for id, rows in tried.items() if any(row["try"].startswith("drill ") for row in rows)
    ]
    found: dict[str, Any] = {}
    for number in range(1, len(numbered) + 2):
        fresh_progress()
        found[f"{number} asked"] = shown_of(lambda number=number: fl.drill(number), whole=True)
        for letter in "abcde":
            fresh_progress()
            said = shown_of(lambda number=number, letter=letter: fl.drill(number, letter))
            found[f"{number} {letter}"] = said
    fresh_progress()
    for place, letter in enumerate("abcdab", 1):
        found[f"1 again {place}: {letter}"] = shown_of(lambda letter=letter: fl.drill(1, letter))
    return found


def refusals() -> dict[str, Any]:
    """Return what is said to names that no question has; the first of them lists all."""
    return {
        name: attempt(lambda name=name: fl.check(name, 3))
        for name in ("nothing", "31-ring-tim", "ex1-z", "")
    }


# Predictions and the course ---------------------------------------------------------------------


def predictions() -> dict[str, Any]:
    """Return each prediction: its form, what is said to guesses, and how they compare."""
    found: dict[str, Any] = {}
    for row in rows_of("predictions.csv"):
        found[row["id"]] = of_prediction(row["id"], row["unit"])
    found["a name that no lesson has"] = of_prediction("99-nothing", "GB/s")
    return found


def of_prediction(id: str, unit: str) -> dict[str, Any]:
    """Return what is said to each guess and, after it, to each truth."""
    found: dict[str, Any] = {}
    for label, (values, more) in GUESSES.items():
        fresh_progress()
        typed = [value.format(unit=unit) if isinstance(value, str) else value for value in values]
        said = shown_of(
            lambda typed=typed, more=more: fl.predict(id, *typed, **more), whole=label == "form"
        )
        found[label] = said
    for guess in ("none", "number and unit", "range", "no idea"):
        for label, truth in TRUTHS.items():
            fresh_progress()
            if guess != "none":
                values, more = GUESSES[guess]
                typed = [
                    value.format(unit=unit) if isinstance(value, str) else value for value in values
                ]
                fl.predict(id, *typed, **more)
            said = shown_of(lambda truth=truth: fl.reveal(id, **{"unit": unit, **truth}))
            found[f"revealed after {guess}, {label}"] = said
    fresh_progress()
    found["revealed anyway"] = shown_of(lambda: fl.reveal(id, 3.0, unit, anyway=True))
    return found


def course() -> dict[str, Any]:
    """Return the lists of the course, and what is told to one who has answered a few things."""
    fresh_progress()
    found = {
        "lessons": shown_of(fl.lessons, whole=True),
        "paths": shown_of(fl.paths, whole=True),
        "ruler": shown_of(fl.ruler),
        "progress, empty": shown_of(fl.progress, whole=True),
        "report, empty": shown_of(fl.report, whole=True),
        "ledger, empty": shown_of(fl.ledger, whole=True),
        "no such path": shown_of(lambda: fl.lessons("nowhere")),
        "no such erratum": shown_of(lambda: fl.errata("E999")),
    }
    for row in rows_of("paths.csv"):
        fresh_progress()
        path = row["path"]
        found[f"lessons of {path}"] = shown_of(lambda path=path: fl.lessons(path))
        found[f"path {path}"] = shown_of(lambda path=path: fl.choose_path(path))
    fresh_progress()
    answered()
    found["lessons, begun"] = shown_of(fl.lessons)
    found["progress"] = shown_of(fl.progress, whole=True)
    found["report"] = shown_of(lambda: fl.report("Ada"), whole=True)
    found["ledger"] = shown_of(fl.ledger, whole=True)
    found["ruler, measured"] = shown_of(fl.ruler)
    found["exported"] = shown_of(lambda: fl.export_progress("copy.json"))
    found["forgotten, unknown"] = shown_of(lambda: fl.forget("nothing"))
    found["forgotten"] = shown_of(lambda: fl.forget("predictions"))
    found["imported"] = shown_of(lambda: fl.import_progress("copy.json"))
    found["progress again"] = shown_of(fl.progress)
    found["everything forgotten"] = shown_of(lambda: fl.forget("everything"))
    return found


def answered() -> None:
    """Answer a few questions, right and wrong, as a learner would."""
    for id, rows in list(tries().items())[:60:5]:
        for row in rows[1:4]:
            attempt(lambda id=id, row=row: fl.check(id, row["answer"]))
    rows = sorted(rows_of("predictions.csv"), key=lambda row: row["id"])
    for row, truth in zip(rows, (1.0, 3.0, 9.0, 100.0), strict=False):
        fl.predict(row["id"], 3, row["unit"], low=1, high=30)
        fl.reveal(row["id"], truth, row["unit"], model=2.0)
    fl.ledger("one change", "17 s", "31_all_reduce")
    fl.ledger("another change", 16.5)
    result = fl.core.Result(
        "copy", "measured", [2**20, 2**24], [1e-3, 2e-3], n_ranks=1, source="a table"
    )
    fl.remember(result)


def tables() -> dict[str, Any]:
    """Return the tables of the course by row."""
    found: dict[str, Any] = {}
    for file, key in TABLES.items():
        try:
            rows = rows_of(file)
        except FileNotFoundError:
            continue
        found[file] = {row[key]: with_values(row) for row in rows}
    return found


def with_values(row: dict[str, str]) -> dict[str, Any]:
    """Return a row with the values of its formulas, so that it does not matter how they are written."""
    if "misformulas" not in row:
        return {**row, **{end: float(row[end]) for end in ("from", "to") if end in row}}
    wrong = [pair.partition("#") for pair in row["misformulas"].split(";")]
    return {
        **row,
        "formula": value_of(row["formula"]),
        "tolerance": float(row["tolerance"] or 0),
        "misformulas": [(value_of(formula), mistake.strip()) for formula, _, mistake in wrong],
    }


def value_of(formula: str) -> str:
    """Return the value of a formula for fixed values of the quantities that it names."""
    if not formula.strip():
        return ""
    quantities = {
        name: 1.5 + 0.37 * place for place, name in enumerate("abcdefghijklmnopqrstuvwxyz")
    }
    functions = {"ceil": math.ceil, "log2": math.log2, "log10": math.log10, "pi": math.pi}
    return f"{eval(formula, {}, quantities | functions):.7g}"
