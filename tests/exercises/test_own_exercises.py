"""Own exercises of an instructor: from the command to a graded class, and what a check of one finds."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

from fabriclab import __main__, registry
from fabriclab.course import judges
from fabriclab.course.checks import check, report
from fabriclab.course.grading import check_exercise
from fabriclab.course.judges.shared.function_parts import FunctionPart, slip
from fabriclab.course.judges.shared.parts import judge
from fabriclab.course.questions import files, find, misconception, own
from fabriclab.course.shown import InputRefused
from fabriclab.texts import text
from student_files import student_version
from support import lesson_gates as gates
from support.exercise_books import errors_of_a_run
from support.nbgrader_rules import faults
from support.prose import sentence

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="learners' code is run on Linux only"
)
STUB = "# YOUR CODE HERE\n    raise NotImplementedError()"
RIGHT = "return queued / (leaving - arriving)"
SLIPPED = "return queued / leaving"


def run(*command):
    return __main__.main([str(part) for part in command])


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return an empty course folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    yield tmp_path
    for name in ("queues", "exotic", "incast"):
        own.unload(name)


@pytest.fixture
def queues(course):
    """Return the folder of a new exercise."""
    assert run("new-exercise", "queues") == 0
    return course / "exercises" / "queues"


def edit(path, before, after, count=1):
    held = path.read_text(encoding="utf-8")
    assert before in held, f"{path.name} does not hold {before!r}"
    path.write_text(held.replace(before, after, count), encoding="utf-8")


def book_of(path):
    return json.loads(path.read_bytes())


def answered(path, to, line):
    """Write a notebook in which a line stands in place of each stub."""
    book = book_of(path)
    for cell in book["cells"]:
        cell["source"] = "".join(cell["source"]).replace(STUB, line)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(book), encoding="utf-8")


# From the command to a graded class -------------------------------------------------------------------------------


@linux
def test_a_new_exercise_is_released_solved_and_graded_with_no_other_edit(queues, course, capsys):
    assert run("check-exercise", "queues") == 0
    assert sentence("own.check.ready", name="queues", points=10).search(capsys.readouterr().out)
    assert run("release", "--new-key", "class.key") == 0
    assert run("release", "queues", "--key", "class.key", "--out", "handout") == 0
    handed_out = sorted(
        path.relative_to("handout").as_posix()
        for path in Path("handout").rglob("*")
        if path.is_file()
    )
    assert handed_out == ["queues.ipynb", "queues/judge.py", "queues/questions.toml"]
    given = Path("handout/queues.ipynb")
    assert "SOLUTION" not in given.read_text() and "shrinking" not in given.read_text()

    answered(given, Path("collected/ann/queues.ipynb"), RIGHT)
    answered(given, Path("collected/bob/queues.ipynb"), SLIPPED)
    answered(given, Path("collected/cyd/queues.ipynb"), STUB)
    graded = ("grade", "collected", "--key", "class.key", "--reference", "exercises")
    assert run(*graded, "--out", "grades.csv") == 0
    with Path("grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file) if row["question"] != "total"}
    assert [float(rows[name]["points"]) for name in ("ann", "bob", "cyd")] == [10, 0, 0]
    assert rows["bob"]["mistake"] == "arrivals forgotten"
    assert misconception("queues-a", "arrivals forgotten") in rows["bob"]["sentence"]
    assert rows["cyd"]["sentence"] == text("grade.open")
    page = Path("grades.html").read_text()
    assert "When is the queue empty?" in page and "arrivals forgotten (1)" in page
    assert run("replay", "grades.json", "queues-a", "--student", "bob", "--key", "class.key") == 0
    assert run(*graded, "--out", "again.csv", "--exercise", "queues") == 0
    # A page that hides the truth says the misconception all the same.
    assert run(*graded, "--out", "hidden.csv", "--hide-truth") == 0
    assert "new bytes still arrive" in Path("hidden/bob.html").read_text()


@linux
def test_each_student_may_have_cases_of_their_own(queues, course):
    Path("list").write_text("ann\nbob\n")
    assert run("release", "--new-key", "class.key") == 0
    command = ("release", "queues", "--key", "class.key", "--per-student", "list")
    assert run(*command, "--out", "handout") == 0
    assert own.is_exercise(Path("handout/bob/queues"))
    answered(Path("handout/ann/queues.ipynb"), Path("collected/ann/queues.ipynb"), RIGHT)
    assert run("grade", "collected", "--key", "class.key", "--out", "grades.csv") == 0
    assert '"ann","10","10"' in Path("grades-matrix.csv").read_text()


@linux
def test_answers_cannot_read_the_judge_while_they_are_graded(queues, course):
    stolen = f"return len(open({str(queues / 'judge.py')!r}).read())"
    answered(queues / "queues.ipynb", course / "collected" / "ann.ipynb", RIGHT)
    book = student_version(book_of(queues / "queues.ipynb"))
    (course / "blank.ipynb").write_text(json.dumps(book))
    answered(course / "blank.ipynb", course / "collected" / "bob.ipynb", stolen)
    assert run("grade", "collected", "--out", "grades.csv") == 0
    said = Path("grades.csv").read_text()
    assert '"ann","10","10"' in Path("grades-matrix.csv").read_text()
    assert "FileNotFoundError" in said or "PermissionError" in said


def test_a_judge_may_draw_numbers_for_the_students_file(queues, course):
    with (queues / "judge.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef release(key, student):\n    return {'ports': 48}\n")
    assert run("release", "--new-key", "class.key") == 0
    assert run("release", "queues", "--key", "class.key", "--out", "handout") == 0
    assert "ports = 48" in Path("handout/queues.ipynb").read_text()


def test_feedback_works_beside_the_notebook_that_was_handed_out(queues, course, monkeypatch):
    assert run("release", "--new-key", "class.key") == 0
    assert run("release", "queues", "--key", "class.key", "--out", "handout") == 0
    own.unload("queues")
    monkeypatch.chdir(course / "handout")
    assert judges.example("queues-a")  # before any fl.check
    assert check("queues-a", lambda queued, arriving, leaving: None).data["right"] is False
    wrong = check("queues-a", lambda queued, arriving, leaving: queued / leaving)
    assert wrong.data["named"] == "arrivals forgotten"
    assert misconception("queues-a", "arrivals forgotten") in str(wrong)
    assert check("queues-a", lambda queued, arriving, leaving: queued / (leaving - arriving)).data[
        "right"
    ]
    question = find("queues-rates")
    letters = {option: letter for letter, (option, _) in question.options({}).items()}
    assert check("queues-rates", letters["half as long"]).data["right"]
    assert check("queues-rates", letters["twice as long"]).data["right"] is False
    assert "When is the queue empty?" in str(report())


def test_the_new_notebook_runs_from_top_to_bottom_before_anything_is_written(
    queues, monkeypatch, root
):
    book = nbformat.reads(json.dumps(student_version(book_of(queues / "queues.ipynb"))), 4)
    nbformat.validate(book)
    assert list(gates.gate_prose(book, "")) == [] and faults(book) == []
    assert errors_of_a_run(book, queues, monkeypatch, root) == []
    shown = "".join(str(cell.get("outputs", "")) for cell in book.cells)
    assert "half as long" in shown and text("ex.stub", name="drain") in shown


def test_the_new_files_keep_to_the_rules_of_the_course(queues, root):
    assert run("new-exercise", "queues", "--question", "b") == 0
    judge_file = str(queues / "judge.py")
    options = ["--no-cache", "--config", str(root / "pyproject.toml"), judge_file]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_graded_question_is_added_and_counts(queues, capsys):
    assert run("new-exercise", "queues", "--question", "b") == 0
    assert check_exercise.findings(queues) == []
    assert [q.id for q in judges.exercise("queues")] == ["queues-a", "queues-b"]
    ids = [cell["id"] for cell in book_of(queues / "queues.ipynb")["cells"]]
    assert ids[-1] == "queues-end" and "queues-b-test" in ids and len(ids) == len(set(ids))
    for letter, key in (("a", "has_question"), ("b", "has_question"), ("bb", "letter")):
        before = {path: path.read_bytes() for path in queues.iterdir()}
        assert run("new-exercise", "queues", "--question", letter) == 2
        assert sentence(f"own.{key}").search(capsys.readouterr().err)
        assert before == {path: path.read_bytes() for path in queues.iterdir()}


# Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["5", "ex5", "exercise5", "Queues", "que ues", "que-ues", "../x", "", "é", "fabriclab"]
)
def test_a_name_that_could_not_be_told_apart_is_refused(course, name, capsys):
    for command in ("new-exercise", "check-exercise"):
        assert run(command, name) == 2
        assert text("own.name", name=name) in capsys.readouterr().err
    assert [*course.iterdir()] == []


def test_nothing_is_overwritten(queues, capsys):
    (queues / "judge.py").write_text("mine")
    assert run("new-exercise", "queues") == 2
    assert sentence("own.exists").search(capsys.readouterr().err)
    assert (queues / "judge.py").read_text() == "mine"


@linux
def test_a_name_that_begins_like_a_number_of_the_course_keeps_its_letters(course, capsys):
    assert run("new-exercise", "exotic") == 0
    folder = course / "exercises" / "exotic"
    answered(folder / "exotic.ipynb", course / "collected" / "ann" / "x.ipynb", STUB)
    assert run("grade", "collected", "--out", "grades.csv") == 0
    assert '"ann","10","10"' in Path("grades-matrix.csv").read_text()
    assert run("grade", "collected", "--out", "grades.csv", "--exercise", "1") == 2
    assert "--exercise exotic" in capsys.readouterr().err


def test_an_exercise_that_is_not_here_is_told_without_an_error(course):
    shown = check("queues-a", len)
    assert str(shown) == text("own.not_here", id="queues-a", name="queues")
    assert "queues-a" not in judges.questions()
    with pytest.raises(InputRefused):
        check("ex1-z", len)


# What a check finds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "before", "after", "key", "fields"),
    [
        ("questions.toml", 'title = "Time to', '# title = "', "text", {"key": "title"}),
        ("questions.toml", 'title = "When', '# title = "', "no_title", {"default": "queues"}),
        ("questions.toml", 'explanation = "A queue', '# "', "text", {"key": "explanation"}),
        ("questions.toml", 'prompt = "Write', '# "', "text", {"key": "prompt"}),
        ("questions.toml", '  "Divide the', '#  "', "hints", {"n": "2"}),
        (
            "judge.py",
            '"""Bytes that arrive do not help the queue to drain: take their rate off the rate of the port."""',
            "",
            "slip",
            {"mistake": "rates added"},
        ),
        ("questions.toml", 'misconception = "More', '# "', "slip", {"id": "queues-rates"}),
    ],
)
@linux
def test_a_missing_text_is_named_and_costs_no_points(
    queues, course, file, before, after, key, fields
):
    edit(queues / file, before, after)
    (found,) = check_exercise.findings(queues)
    assert sentence(f"own.check.{key}", **fields).fullmatch(found.said) and not found.blocks
    assert run("check-exercise", "queues") == 1
    assert run("release", "--new-key", "class.key") == 0
    assert run("release", "queues", "--key", "class.key", "--out", "handout") == 0
    answered(Path("handout/queues.ipynb"), Path("collected/ann/queues.ipynb"), RIGHT)
    answered(
        Path("handout/queues.ipynb"),
        Path("collected/bob/queues.ipynb"),
        "return 8 * queued / (leaving - arriving)",
    )
    assert run("grade", "collected", "--key", "class.key", "--out", "grades.csv") == 0
    matrix = Path("grades-matrix.csv").read_text()
    assert '"ann","10","10"' in matrix and '"bob","0","0"' in matrix
    assert "bytes taken for bits" in Path("grades.csv").read_text()
    wrong = check("queues-a", lambda queued, arriving, leaving: 8 * queued / (leaving - arriving))
    assert wrong.data["named"] == "bytes taken for bits" and str(wrong)


# A number on the way whose only wrong answer is right in one of its two cases.
NUMBER = """[queues-number]
kind = "number"
title = "x"
prompt = "{n}?"
explanation = "x"
hints = ["x", "x", "x"]
formula = "n * n"
unit = "B"
quantities.n = ["4", "1"]
wrong = [{ formula = "n", mistake = "m", misconception = "x" }]

#"""

BLOCKING = [
    ("questions.toml", "points = 10", "", "key", {"id": "queues-a", "key": "points"}),
    ("questions.toml", "points = 10", "points = 12", "points", {"cell": "10", "file": "12"}),
    ("questions.toml", 'functions = ["drain"]', "", "key", {"key": "functions"}),
    ("questions.toml", "points = 10", 'points = 10\nhint = "x"', "unused", {"key": "hint"}),
    (
        "questions.toml",
        "points = 10",
        'points = 10\nmisconceptions = { "arivals" = "x" }',
        "unused",
        {"key": "misconceptions.arivals"},
    ),
    (
        "questions.toml",
        "points = 10",
        'points = 10\nhints_of = { dry = ["x"] }',
        "unused",
        {"key": "hints_of.dry"},
    ),
    ("questions.toml", 'kind = "choice"', 'kind = "chioce"', "kind", {"kind": "chioce"}),
    ("questions.toml", 'title = "When', "title = When", "toml", {}),
    (
        "questions.toml",
        '[[queues-rates.wrong]]\noption = "as long as before"',
        '[queues-rates.other]\noption = "x"',
        "options",
        {"n": "2"},
    ),
    (
        "questions.toml",
        'functions = ["drain"]',
        'functions = ["drain", "dry"]',
        "not_called",
        {"function": "dry"},
    ),
    ("judge.py", '    function = "drain"', '    function = "dry"', "not_listed", {}),
    ("judge.py", "Drain(rng)", "Drain(rng, 0.5)", "share", {"share": "0.5"}),
    (
        "judge.py",
        "return queued / (leaving - arriving)",
        "return queued / (leaving - 2 * arriving)",
        "reference",
        {"id": "queues-a"},
    ),
    ("judge.py", "8 * queued", "1.001 * queued", "earns", {"mistake": "bytes taken for bits"}),
    ("judge.py", "    within = 0.01", "    within = 10", "earns", {"mistake": "rates added"}),
    ("judge.py", "(leaving + arriving)", "leaving", "named", {"mistake": "rates added"}),
    ("judge.py", "    n_sets = 2", "    n_sets = 4", "earns", {"mistake": "constant"}),
    ("judge.py", "return queued / (leaving - arriving)", "return 1 / 0", "judge", {}),
    ("queues.ipynb", '"outputs": []', '"outputs": [{}]', "outputs", {}),
    ("queues.ipynb", "### BEGIN SOLUTION", "pass", "notebook", {}),
    ("queues.ipynb", '"grade_id": "queues-a"', '"grade_id": "queues-b"', "no_cell", {}),
    ("queues.ipynb", '"grade_id": "queues-a"', '"grade_id": "queues-b"', "stray", {}),
    ("queues.ipynb", '"grade_id": "queues-a"', '"grade_id": "queues-setup"', "twice", {}),
    ("queues.ipynb", '"grade_id": "queues-setup"', '"grade_id": ""', "no_setup", {}),
    ("queues.ipynb", ", drain)", ", dry)", "not_passed", {"function": "drain"}),
    ("queues.ipynb", "queues-rates\\", "queues-x\\", "asks_unknown", {"id": "queues-x"}),
    ("questions.toml", "points = 10", "points = 0", "no_points", {"points": "0"}),
    ("questions.toml", "points = 10", "points = -1", "no_points", {"points": "-1"}),
    (
        "questions.toml",
        'option = "twice as long"',
        'option = "half as long"',
        "right",
        {"mistake": "only arrivals counted"},
    ),
    ("questions.toml", "# Question a", NUMBER, "right", {"setting": "n = 1"}),
    ("questions.toml", "# Question a", NUMBER.replace('"B"', '"bites"'), "aside", {}),
    ("judge.py", 'question = "queues-a"', 'question = "queues-b"', "other", {"name": "Drain"}),
    ("judge.py", "return queued / (leaving + arriving)", "return 1 / 0", "no_number", {}),
    ("judge.py", "        return queued / (leaving + arriving)", "", "judge", {}),
    ("judge.py", "rng.integers(1, 100)", "__import__('random').random() * 100", "redrawn", {}),
    ("queues.ipynb", '"grade_id": "queues-a-test"', '"grade_id": ""', "no_test", {}),
    ("queues.ipynb", "queues-rates\\", "queues-x\\", "not_asked", {"id": "queues-rates"}),
    (
        "queues.ipynb",
        "import fabriclab as fl  # to check your answers",
        "shrinking = leaving - arriving  # [B/s]",
        "told",
        {"id": "queues-a"},
    ),
    ("queues.ipynb", '"cells"', '"cell"', "notebook", {}),
    ("queues.ipynb", '"cells"', "cells", "json", {}),
]


@pytest.mark.parametrize(("file", "before", "after", "key", "fields"), BLOCKING)
def test_what_would_cost_points_is_named_and_stops_the_release(
    queues, course, monkeypatch, file, before, after, key, fields
):
    if "n_sets" in before:
        edit(queues / file, '    unit = "s"', '    n_sets = 2\n    unit = "s"')
    edit(queues / file, before, after)
    found = check_exercise.findings(queues)
    blocking = [finding.said for finding in found if finding.blocks]
    expected = sentence(f"own.check.{key}", **fields)
    assert any(expected.fullmatch(said) for said in blocking), blocking
    # Both commands act on what was found.
    monkeypatch.setattr(check_exercise, "findings", lambda folder: found)
    assert run("check-exercise", "queues") == 1
    assert run("release", "--new-key", "class.key") == 0
    assert run("release", "queues", "--key", "class.key", "--out", "handout") == 2
    assert not Path("handout").exists()


def test_a_file_that_is_missing_is_named(queues, capsys):
    (queues / "questions.toml").unlink()
    assert run("check-exercise", "queues") == 1
    assert sentence("own.check.file", file="questions.toml").search(capsys.readouterr().out)
    assert run("check-exercise", "other") == 2
    assert sentence("own.unknown", name="other").search(capsys.readouterr().err)


# Loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("judge.py", "class Drain(", "class Drain[", r"judge\.py, line \d+: .*SyntaxError"),
        ("judge.py", "    within = 0.01", "    within = one", r"judge\.py, line \d+: .*NameError"),
        (
            "judge.py",
            "    within = 0.01",
            '    within = "1 %"',
            r"line \d+: .*within must be a number",
        ),
        ("judge.py", 'unit = "s"', 'unit = "sec"', r"line \d+: Drain: unit must be one of s, B"),
        ("judge.py", '@slip("rates added")', "@slip", r"line \d+: a slip needs a short name"),
        ("judge.py", '"rates added"', '"arrivals forgotten"', "two slips have the name"),
        (
            "questions.toml",
            "# Question a",
            NUMBER.replace("n * n", "n x n"),
            "'n x n' cannot be read",
        ),
        ("judge.py", '"queues-a", example', '"drain-a", example', "do not begin with queues-"),
        ("judge.py", '"queues-a", example', '"queues-b", example', "write .queues-b. into"),
        ("questions.toml", "# Question a", "[queues-c]\nfunctions = []\npoints = 1\n#", "no judge"),
        ("questions.toml", "explanation", "explaination", "explaination"),
        ("questions.toml", "after how many", "after {how} many", "no quantity is called 'how'"),
    ],
)
def test_an_exercise_that_cannot_be_read_is_refused_whole(
    queues, course, capsys, file, before, after, said
):
    edit(queues / file, before, after)
    Path("collected").mkdir()
    answered(queues / "queues.ipynb", course / "collected" / "ann.ipynb", RIGHT)
    for command in (
        ("grade", "collected", "--out", "grades.csv"),
        ("release", "queues", "--key", "k", "--out", "handout"),
    ):
        assert run(*command) == 2
        assert re.search(said, capsys.readouterr().err)
    assert not any(id.startswith(("queues", "drain")) for id in registry.names("question"))
    assert "queues" not in files.names() and "ex1-a" in judges.questions()


def test_a_change_is_read_in_the_same_kernel(queues, course, monkeypatch):
    monkeypatch.chdir(queues)
    answer = lambda queued, arriving, leaving: queued / (leaving - arriving)  # noqa: E731
    assert check("queues-a", answer).data["right"]
    edit(queues / "judge.py", "leaving - arriving", "2 * leaving - arriving")
    edit(queues / "judge.py", "class Drain(", "class Emptied(")
    edit(queues / "judge.py", "Drain.example", "Emptied.example")
    edit(queues / "judge.py", "judge(ask, Drain", "judge(ask, Emptied")
    edit(queues / "questions.toml", "points = 10", "points = 20")
    os.utime(queues / "judge.py", ns=(1, 1))
    assert check("queues-a", answer).data["right"] is False
    assert judges.find("queues-a").points == 20


def test_two_folders_with_the_same_ids_are_refused(queues, course, capsys):
    run("new-exercise", "exotic")
    for name in ("judge.py", "questions.toml"):
        (course / "exercises" / "exotic" / name).write_bytes((queues / name).read_bytes())
    assert run("grade", "collected", "--out", "grades.csv") == 2
    assert "exotic" in capsys.readouterr().err


# The base class ---------------------------------------------------------------------------------------------------


class Square(FunctionPart):
    """The square of a whole number."""

    question = "square-a"
    function = "square"
    within = 0

    def true(self, x):
        return x * x

    @slip("doubled")
    def double(self, x):
        """The square of x is x times x,
        and not two times x."""
        return 2 * x

    @slip("divided")
    def divide(self, x):
        return x / (x - 2)

    def draw(self, rng):
        return (int(rng.integers(0, 4)),)  # in 0 and 2 the double is the square


def verdict(function, seed=0):
    return judge(lambda name, x: function(x), Square(np.random.default_rng(seed)))


def test_no_known_mistake_and_no_constant_earns_points_with_any_key():
    for seed in range(200):
        assert verdict(lambda x: x * x, seed).part == 1
        assert verdict(lambda x: 2 * x, seed).part == 0
        for constant in (0, 1, 4, 9):
            assert verdict(lambda x, c=constant: c, seed).part == 0


def test_a_mistake_is_named_with_its_sentence_in_one_line():
    found = verdict(lambda x: 2 * x)
    assert found.mistake == "doubled"
    assert "The square of x is x times x, and not two times x." in found.said
    assert any(sentence("ex.off_exact").fullmatch(said) for said in found.said)
    assert any(sentence("ex.low").fullmatch(said) for said in found.seen)
    larger = verdict(lambda x: x * x + 1)
    assert any(sentence("ex.high").fullmatch(said) for said in larger.seen)
    files.remove("square")
    assert misconception("square-a", "doubled") == ""


def test_an_exact_answer_is_never_shown_as_if_it_were_right():
    off = verdict(lambda x: x * x + 0.001)
    (seen,) = off.seen
    assert ".001" in seen


def test_a_question_whose_cells_are_gone_is_one_finding_that_says_what_to_do(queues):
    assert run("new-exercise", "queues", "--question", "b") == 0
    book = book_of(queues / "queues.ipynb")
    book["cells"] = [cell for cell in book["cells"] if not cell["id"].startswith("queues-b")]
    (queues / "queues.ipynb").write_text(json.dumps(book), encoding="utf-8")
    found = [finding.said for finding in check_exercise.findings(queues)]
    assert found == [text("own.check.no_cells", id="queues-b")]


def test_a_solution_without_marks_would_take_the_def_line_from_students(queues):
    book = book_of(queues / "queues.ipynb")
    for cell in book["cells"]:
        lines = "".join(cell["source"]).splitlines(keepends=True)
        cell["source"] = [line for line in lines if "SOLUTION" not in line]
    (queues / "queues.ipynb").write_text(json.dumps(book), encoding="utf-8")
    found = [finding.said for finding in check_exercise.findings(queues)]
    assert found == [text("own.check.no_marks", id="queues-a")]


def test_files_that_an_editor_on_windows_wrote_are_read(queues):
    for name in ("judge.py", "questions.toml"):
        held = (queues / name).read_bytes().replace(b"\n", b"\r\n")
        (queues / name).write_bytes(b"\xef\xbb\xbf" + held)
    assert check_exercise.findings(queues) == []


def test_a_mistake_that_leads_to_no_number_is_none():
    part = Square(np.random.default_rng(0))
    assert part.slipped("divided", (2,)) is None and part.slipped("divided", (3,)) == 3


# The page that shows how --------------------------------------------------------------------------------------------


def test_the_example_of_the_page_works_as_it_is_written(course, root):
    page = (root / "docs" / "write_an_exercise.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    commands = re.findall(r"^python -m fabriclab (\S.*?)(?:\s+#.*)?$", page, flags=re.MULTILINE)
    assert run(*commands[0].split()) == 0 == run(*commands[1].split())

    folder = course / "exercises" / "incast"
    judge_file = folder / "judge.py"
    held = judge_file.read_text(encoding="utf-8")
    start, end = held.index("class Drain"), held.index("\n\n@register")
    replaced = held[:start] + written + held[end:].replace("Drain", "Waiting")
    judge_file.write_text(replaced, encoding="utf-8")
    edit(folder / "questions.toml", 'functions = ["drain"]', 'functions = ["waiting"]')
    notebook = folder / "incast.ipynb"
    edit(notebook, "def drain(queued, arriving", "def waiting(senders, burst, sending")
    edit(notebook, "shrinking = leaving - arriving  # [B/s]", "left = leaving * burst / sending")
    edit(notebook, "return queued / shrinking", "return senders * burst - left")
    edit(notebook, ", drain)", ", waiting)")
    assert [finding.said for finding in check_exercise.findings(folder)] == []

    for command in commands[2:4]:
        assert run(*command.split()) == 0
    answered(
        Path("handout/incast.ipynb"),
        Path("collected/ann/incast.ipynb"),
        "return (senders - 1) * burst",
    )
    assert run(*commands[4].split()) == 0
    assert "one burst leaves" in Path("grades.csv").read_text()
