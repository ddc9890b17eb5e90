"""The files of questions: entries are whole, misconceptions and messages used, and one edit changes a question."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fabriclab
from fabriclab import check
from fabriclab.course import judges
from fabriclab.course.questions import (
    asides,
    files,
    find,
    misconception,
    predictions,
    questions,
)
from fabriclab.formulas import evaluate

LIBRARY = Path(fabriclab.__file__).parent
JUDGES = "".join(
    path.read_text(encoding="utf-8") for path in (LIBRARY / "course" / "judges").rglob("*.py")
)
LITERALS = {
    node.value
    for path in (LIBRARY / "course" / "judges").rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")


def clear():
    """Forget what was read."""
    for forget in files._caches:
        forget()
    for cached in (files._of_the_course, files._names_of_the_course, questions, predictions):
        cached.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a copy of the folder of questions, which is read instead of it."""
    copy = tmp_path / "questions"
    shutil.copytree(files.FOLDER, copy)
    monkeypatch.setattr(files, "FOLDER", copy)
    clear()
    yield copy
    clear()


def edit(folder, name, before, after):
    path = folder / f"{name}.toml"
    held = path.read_text(encoding="utf-8")
    assert before in held
    path.write_text(held.replace(before, after, 1), encoding="utf-8")


# One file ---------------------------------------------------------------------------------------------------------


def test_a_question_of_a_lesson_is_changed_by_one_edit(folder):
    edit(
        folder,
        "31",
        f'prompt = "{find("31-ring-bytes").words.prompt}"',
        'prompt = "Ring: {s}, {n}?"',
    )
    clear()
    edit(folder, "31", 'formula = "2 * (n - 1) / n * s"', 'formula = "3 * (n - 1) / n * s"')
    edit(folder, "31", f'"{find("31-ring-bytes").words.hints[0]}"', '"It cuts the buffer"')
    clear()
    assert str(check("31-ring-bytes")).startswith("Ring: 100 MB, 8?")
    wrong = check("31-ring-bytes", "175 MB")
    hint = fabriclab.texts.text("check.hint", level=1, hint="It cuts the buffer")
    assert not wrong.data["right"] and hint in str(wrong)
    assert check("31-ring-bytes", "262.5 MB").data["right"]


def test_a_question_of_an_exercise_is_changed_by_one_edit(folder):
    code = [lambda n, size, lanes, header: (2 * (n - 1) / n * size, size), lambda n: (n, n)]
    before = check("ex4-a", code)
    edit(folder, "exercise4", 'formulas = ["(n - 1) / n * size"]', 'formulas = ["size / 3"]')
    edit(folder, "exercise4", "points = 10", "points = 12")
    clear()
    assert "of 10 points" in str(before) and "of 12 points" in str(check("ex4-a", code))
    third = [lambda n, size, lanes, header: (size / 3, size), code[1]]
    assert check("ex4-a", third).data["named"] == "one phase only"


def test_a_misconception_is_changed_where_the_wrong_answer_stands(folder):
    edit(folder, "31", "That is recursive doubling:", "You doubled:")
    shown = check("31-ring-bytes", "300 MB")
    assert shown.data["named"] == "recursive doubling" and "You doubled:" in str(shown)


def test_another_language_may_translate_each_sentence(tmp_path, monkeypatch):
    sentences = dict(fabriclab.texts.table())
    sentences |= {
        "q.31-ring-bytes": "Combien d'octets par rang, pour {s} et {n} rangs ?",
        "31-ring-bytes.hint1": "Combien de blocs ?",
        "mis.recursive doubling": "C'est un doublement.",
        "ex4.number": "{call} donne {got}, et non {truth} ({percent} %).",
        "ex1-b.algbw.step": "{size:size} en {time:time}.",
    }
    file = tmp_path / "fr.json"
    file.write_text(fabriclab.texts.json.dumps(sentences), encoding="utf-8")
    monkeypatch.setenv("FABRICLAB_LANGUAGE", str(file))
    shown = str(check("31-ring-bytes", "300 MB"))
    for part in ("pour 100 MB et 8 rangs", "Combien de blocs ?", "C'est un doublement."):
        assert part in shown
    code = [lambda n, size, lanes, header: (1, 1), lambda n: (n, n)]
    check(
        "ex4-a", code
    )  # the right value comes with the second try, the worked step with the third
    assert " donne 1 B, et non " in str(check("ex4-a", code))
    rates = [lambda size, time: 1.0, lambda name, size, time, n: 1.0, lambda events, rate: (1, 1)]
    shown = [str(check("ex1-b", rates)) for _ in range(3)]
    assert "32 MiB en 39.0 ms." in shown[-1]
    assert "32 MiB en 39.0 ms." not in shown[0]


# What is wrong is said by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            'explanation = "Each of',
            'explaination = "Each of',
            "31.toml, [31-ring-bytes] lacks expl",
        ),
        ('row = "Q27"\n', 'rows = "Q27"\n', "31.toml, [31-ring-bytes]: each key must be one of"),
        ('kind = "pick"', 'kind = "pickk"', "31.toml, [31-first-sum]: kind must be one of"),
        (
            'mistake = "everything to',
            'slip = "everything to',
            "[31-ring-bytes], wrong lacks mistake",
        ),
        ('formula = "n * s"', 'formulas = "n * s"', "[31-ring-bytes], wrong lacks formula"),
        (
            "lowest = 0.001",
            "low = 0.001",
            "31.toml, [predictions.31-above-bound] lacks lowest",
        ),
        ('lesson = "31_all_reduce"', 'lesso = "31_all_reduce"', "31.toml, the head: each key must"),
        ("[31-ring-bytes]", "[31-ring-bytes", "31.toml is no TOML"),
        ('formula = "n * s"', 'formula = "n * x"', "31.toml, [31-ring-bytes]: formula 'n * x' may"),
        ('formula = "n * s"', 'option = "n"', "31.toml, [31-ring-bytes], wrong lacks formula"),
        ("tolerance = 0.01", 'tolerance = "0.01"', "31-ring-bytes]: tolerance must be a number"),
        ("Put n = {n} in.", "Put n = {nn} in.", "31-ring-bytes]: no quantity is called 'nn'"),
    ],
)
def test_a_slip_of_the_pen_is_told_with_its_place(folder, before, after, said):
    edit(folder, "31", before, after)
    with pytest.raises(ValueError, match=re.escape(said)):
        find("31-ring-bytes")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('formulas = ["size"]', 'formula = "size"', "[ex4-a.parts.wire], wrong lacks formulas"),
        ('formulas = ["size"]', 'formulas = "size"', "formulas must be a list, got 'size'"),
        ('unit = "B"', 'unit = "MB"', "[ex4-a.parts.wire], returns: unit must be one of"),
        ("share = 0.5", "shares = 0.5", "[ex4-a.parts.wire] lacks share"),
        (
            "within = 0.005",
            'within = "0.005"',
            "[ex4-a.parts.wire], returns: within must be a number",
        ),
        ("points = 10", 'points = "10"', "[ex4-a]: points must be a number without quotes"),
        ("whole = true", "hole = true", "[ex4-a.parts.wire], returns: each key must be one of"),
    ],
)
def test_a_slip_in_a_part_of_an_exercise_is_told_too(folder, before, after, said):
    edit(folder, "exercise4", before, after)
    with pytest.raises(ValueError, match=re.escape(said)):
        judges.questions()


def test_each_question_keeps_the_sentence_about_its_own_mistake(folder):
    for id in ("31-ring-bytes", "31-ring-time"):
        text = (folder / "31.toml").read_text(encoding="utf-8")
        more = f'[{id}.misconceptions]\n"same slip" = "Seen in {id}."\n\n[{id}.quantities]'
        (folder / "31.toml").write_text(text.replace(f"[{id}.quantities]", more), encoding="utf-8")
    for id in ("31-ring-bytes", "31-ring-time"):
        assert misconception(id, "same slip") == f"Seen in {id}."


def test_an_entry_of_an_exercise_that_is_missing_is_told(folder):
    edit(folder, "exercise4", "[ex4-b]", "[ex4-x]")
    with pytest.raises(ValueError, match=r"ex4-b has a judge and no entry in .*exercise4\.toml"):
        judges.find("ex4-a")


def test_an_entry_of_an_exercise_without_a_judge_is_told(folder):
    added = (folder / "exercise4.toml").read_text(encoding="utf-8").partition("[ex4-a]")[2]
    file = folder / "exercise4.toml"
    file.write_text(f"{file.read_text('utf-8')}\n[ex4-x]{added.partition('[ex4-')[0]}", "utf-8")
    with pytest.raises(ValueError, match="unknown question 'ex4-x'"):
        judges.find("ex4-a")


def test_a_question_is_found_without_the_judges_and_files_of_others():
    code = """
import sys
import fabriclab as fl
from fabriclab.course import judges
from fabriclab.course.questions import files
fl.check("31-ring-bytes")
print("files", files.load.cache_info().currsize)
judges.find("ex4-a")
print(*sorted(name for name in sys.modules if name.startswith("fabriclab.course.judges.exercise")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    read, loaded, _ = done.stdout.split("\n")
    assert int(read.split()[1]) < 10, read  # that of the lesson, and those of exercises
    assert {name.split(".")[3] for name in loaded.split()} == {"exercise4"}


# All of it is used ---------------------------------------------------------------------------------------------------


def test_every_wrong_answer_has_a_misconception_and_every_misconception_a_wrong_answer():
    asked = (*questions().values(), *asides().values())
    named = {(q.id, wrong.mistake) for q in asked for wrong in q.wrong}
    for name in files.names():
        for id, entry in files.entries(name).items():
            for part in entry.get("parts", {}).values():
                for returned in part["returns"]:
                    named |= {(id, wrong["mistake"]) for wrong in returned.get("wrong", ())}
    assert [pair for pair in named if not misconception(*pair)] == []
    mistakes = {mistake for _, mistake in named}
    for id, mistake in files.mistakes():
        by_code = mistake in LITERALS or any(one.startswith(f"{mistake}/") for one in LITERALS)
        assert (id, mistake) in named or by_code or (not id and mistake in mistakes), (id, mistake)


def test_a_misconception_of_several_questions_stands_once():
    shared = files.load(files.SHARED)["misconceptions"]
    own = [mistake for id, mistake in files.mistakes() if id]
    assert len(own) == len(set(own)) and shared.keys().isdisjoint(own)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_message_of_the_judges_is_used(number):
    made = (f'message({number}, "', f'message({number}, f"')
    assert all(start in JUDGES for start in made[:1])
    dynamic = ("kind.", "block.", "trace.", "fault.", "part.", "picture.")
    for key in files.load(f"exercise{number}")["messages"]:
        assert key.startswith(dynamic) or key in LITERALS, key


def formulas():
    for question in questions().values():
        if question.formula:
            for formula in (question.formula, *(wrong.formula for wrong in question.wrong)):
                yield question.fill({})[0], formula
    for number, parts in ((1, 2), (2, 1), (4, 3)):
        held = [e.get("parts", {}) for e in files.entries(f"exercise{number}").values()]
        assert sum(map(bool, held)) == parts
        for part in (part for those in held for part in those.values()):
            for returned in part["returns"]:
                wrong = [f for one in returned.get("wrong", ()) for f in one["formulas"]]
                for formula in (returned["formula"], *wrong, *part.get("quantities", {}).values()):
                    yield None, formula


def test_a_formula_has_no_term_that_is_nothing():
    for quantities, formula in formulas():
        for node in ast.walk(ast.parse(formula)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                assert 0 not in (getattr(node.left, "value", 1), getattr(node.right, "value", 1))
        assert quantities is None or evaluate(formula, quantities) > 0
