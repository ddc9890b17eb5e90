"""Submissions are read whatever they hold, and students' files are what their sources say, without a solution."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab.course.grading import notebooks
from fabriclab.course.grading.notebooks import as_bytes, read
from fabriclab.texts import text
from student_files import student_version
from support.nbgrader_rules import faults
from support.prose import sentence


def marks(id, **about):
    return {
        "schema_version": 3,
        "grade": False,
        "locked": False,
        "solution": False,
        "grade_id": id,
    } | about


def cell(source, id="", kind="code", **about):
    made = {
        "cell_type": kind,
        "id": id or "plain",
        "metadata": {"nbgrader": marks(id, **about)} if id else {},
    }
    return (
        made
        | {"source": source}
        | ({"outputs": ["x"], "execution_count": 3} if kind == "code" else {})
    )


def book(*cells, **metadata):
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


SOURCE = book(
    cell("import numpy as np", "ex9-setup", locked=True),
    cell("Twice a number.", kind="markdown"),
    cell(
        'def double(x):\n    """Return 2x."""\n    ### BEGIN SOLUTION\n    y = x + x\n    return y\n'
        "    ### END SOLUTION\nprint(double(2))",
        "ex9-a",
        solution=True,
    ),
    cell(
        "check(double)\n### BEGIN HIDDEN TESTS\nassert double(3) == 6\n### END HIDDEN TESTS",
        "ex9-a-test",
        grade=True,
        locked=True,
        points=10,
    ),
    cell("Because 1 + 1 = 2.", "ex9-why", "markdown", grade=True, solution=True, points=0),
    cell("def all_mine(): return 1", "ex9-b", solution=True),
)


@pytest.fixture
def given_file(tmp_path):
    """Return what `read` says of a file with some content."""

    def made(content):
        path = tmp_path / "it.ipynb"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return read(path)

    return made


# By hand


def test_a_student_version_by_hand():
    made = student_version(SOURCE)
    sources = ["".join(cell["source"]) for cell in made["cells"]]
    assert sources == [
        "import numpy as np",
        "Twice a number.",
        'def double(x):\n    """Return 2x."""\n    # YOUR CODE HERE\n    raise NotImplementedError()\nprint(double(2))',
        "check(double)",
        "YOUR ANSWER HERE",
        "# YOUR CODE HERE\nraise NotImplementedError()",
    ]
    assert all(
        cell.get("outputs", []) == [] and cell.get("execution_count") is None
        for cell in made["cells"]
    )
    assert [cell["metadata"].get("editable", True) for cell in made["cells"]] == [
        False,
        True,
        True,
        False,
        True,
        True,
    ]
    assert SOURCE["cells"][0]["outputs"] == ["x"] and "### BEGIN" not in json.dumps(made)


def test_the_bytes_are_those_of_nbformat():
    nbformat = pytest.importorskip("nbformat")
    made = student_version(SOURCE)
    node = nbformat.from_dict(made)
    nbformat.validate(node)
    assert as_bytes(made).decode() == nbformat.writes(node) + "\n" and as_bytes(made) == as_bytes(
        student_version(SOURCE)
    )


def test_cells_are_found_by_their_name(given_file):
    held = given_file(book(*reversed(SOURCE["cells"])))
    assert next(held.variants("ex9-a")) == ["import numpy as np", SOURCE["cells"][2]["source"]]
    assert held.place("ex9-z") is None and [*held.variants("ex9-z")] == []
    assert given_file(SOURCE).written() == {"ex9-why": "Because 1 + 1 = 2."}
    assert given_file(student_version(SOURCE)).written() == {"ex9-why": ""}


def test_a_notebook_is_run_in_three_ways(given_file):
    held = given_file(
        book(
            cell("k = 2\n%time 1"),
            cell("a = 1", "ex9-setup"),
            cell("%matplotlib inline\nb = (5\n  % k)", "ex9-a"),
        )
    )
    own, bare, whole = held.variants("ex9-a")
    assert own == ["a = 1", "%matplotlib inline\nb = (5\n  % k)"] and bare[1].startswith(
        "pass\nb = (5"
    )
    assert whole == ["k = 2\npass", "a = 1", bare[1]]
    assert [
        *given_file(book(cell("a = 1", "ex9-setup"), cell("b", "ex9-a"))).variants("ex9-a")
    ] == [["a = 1", "b"]]


@pytest.mark.parametrize(
    ("sources", "chosen"),
    [
        (["def f(): raise NotImplementedError()", "def f(): return 1"], 1),
        (["def f(): return 1", "def f(): return 2"], 0),
        (["", "def f(): return 2"], 1),
        (["def helper(): return 1", "f = lambda: helper()"], 1),  # a cell that was split
        (["f(1)", "x = 1"], 0),
        (["raise NotImplementedError()", ""], 0),
    ],
)
def test_of_cells_with_one_name_the_first_that_answers_counts(given_file, sources, chosen):
    held = given_file(book(*(cell(source, "ex9-a") for source in sources)))
    assert held.place("ex9-a", ("f",)) == chosen and len(held.places("ex9-a")) == len(sources)


# What breaks a file


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"", "broken"),
        (b"{", "broken"),
        (b"\xff\xfe\x00", "encoding"),
        (b'{"cells": "\xe4"}', "encoding"),
        (b"[" * 100_000, "broken"),
        (b"[]", "format"),
        (b"null", "format"),
        ({"cells": 1}, "format"),
        ({"worksheets": [], "nbformat": 3}, "format"),
        (b"PK\x03\x04", "broken"),
        (b"1" * 5000, "broken"),
    ],
)
def test_a_broken_file_is_told(given_file, content, key):
    held = given_file(content)
    assert (held.cells, held.problem) == ((), text(f"grade.file.{key}")) and len(held.digest) == 64


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch, given_file):
    monkeypatch.setattr(notebooks, "MOST", 100)
    assert sentence("grade.file.huge").fullmatch(given_file(SOURCE).problem)
    monkeypatch.undo()
    monkeypatch.setattr(notebooks, "MOST_CODE", 100)
    assert given_file(SOURCE).problem == text("grade.file.long", most="100")
    monkeypatch.undo()
    assert read(tmp_path).problem == text("grade.file.format")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere")


def test_a_notebook_of_very_many_cells_is_refused_in_no_time(given_file):
    assert given_file(book(*[cell("1")] * 5000)).problem == ""
    begin = time.process_time()
    held = given_file(b'{"nbformat": 4, "cells": [' + b"{}, " * 2_000_000 + b"{}]}")
    assert held.cells == () and held.problem == text("grade.file.cells", most="5,000")
    assert time.process_time() - begin < 10


def test_signs_that_no_file_can_hold_are_replaced(given_file):
    assert given_file(b'{"cells": [{"source": "a = \'\\ud800\'"}]}').cells[0].source == "a = '?'"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "it.ipynb")
    assert read(tmp_path / "it.ipynb").problem == text("grade.file.format")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_other_forms_of_unicode_are_read(given_file, encoding):
    assert given_file(json.dumps(SOURCE).encode(encoding)).place("ex9-a") == 2


def test_what_is_missing_in_a_notebook_is_left_out(given_file):
    odd = [{"source": ["a", 1], "metadata": []}, {"metadata": {"nbgrader": {"grade_id": 3}}}]
    numbers = {"cell_type": "code", "source": 5, "metadata": {"nbgrader": {"grade_id": "ex9-a"}}}
    held = given_file({"cells": [None, 1, {}, *odd, numbers]})
    assert (
        held.problem == ""
        and [c.source for c in held.cells] == ["", "a", "", ""]
        and held.student == ""
    )
    assert [*held.variants("ex9-a")] == [[""]]


def test_the_token_of_a_student_is_read_only_if_it_is_one(given_file):
    assert given_file(book(fabriclab={"student": "0123456789abcdef"})).student == "0123456789abcdef"
    for other in ("../../key", "0123456789ABCDEF", ["a"], 5, None):
        assert given_file(book(fabriclab={"student": other})).student == ""


names = [
    "cells",
    "source",
    "metadata",
    "nbgrader",
    "grade_id",
    "cell_type",
    "solution",
    "fabriclab",
    "student",
]
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["code", "ex9-a", "def f(): 1", *names])
)
json_values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(names), inner),
    max_leaves=20,
)


@given(json_values)
def test_nothing_that_json_can_hold_raises(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "any.ipynb"
    path.write_text(json.dumps({"cells": [value, value], "metadata": value}), encoding="utf-8")
    held = read(path)
    held.written()
    for cells in held.variants("ex9-a", ("f",)):
        assert all(isinstance(source, str) for source in cells)
    path.write_text(json.dumps(value), encoding="utf-8")
    assert read(path).digest


# Sources


@pytest.mark.parametrize(
    ("source", "about", "said"),
    [
        ("### BEGIN SOLUTION\nx = 1", {"solution": True}, "needs its END"),
        ("### END SOLUTION", {"solution": True}, "needs its END"),
        (
            "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION",
            {"solution": True},
            "needs its END",
        ),
        ("### BEGIN SOLUTION\n### END SOLUTION", {}, "metadata does not say so"),
        (
            "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS",
            {"locked": True},
            "metadata does not say so",
        ),
    ],
)
def test_a_source_with_wrong_marks_is_refused(source, about, said):
    with pytest.raises(ValueError, match=said):
        student_version(book(cell(source, "ex9-a", **about)))


BAD = [
    ({"schema_version": 2}, "schema_version must be 3"),
    ({"grade_id": "ex 9"}, "letters, digits"),
    ({"grade_id": ""}, "letters, digits"),
    ({"grade": True}, "needs points"),
    ({"points": True}, "points may not"),
    ({"grade": True, "points": -1}, "needs points"),
    ({"extra": 1}, "extra may"),
    ({"solution": "yes"}, "solution may"),
    ({"task": True}, "must be a text"),
]


@pytest.mark.parametrize(("about", "said"), BAD)
def test_wrong_metadata_is_named(about, said):
    made = book(cell("", "ex9-a", **about))
    assert any(said in fault for fault in faults(made))
    assert faults(book(cell("", "ex9-a"))) == [] == faults(SOURCE)


def test_texts_and_names_twice_are_named():
    assert "used twice" in faults(book(cell("", "ex9-a"), cell("", "ex9-a")))[0]
    assert "neither" in faults(book(cell("", "ex9-a", "markdown", solution=True)))[0]
    lacking = book(cell("", "ex9-a"))
    del lacking["cells"][0]["metadata"]["nbgrader"]["locked"]
    (fault,) = faults(lacking)
    assert "'ex9-a'" in fault and "locked" in fault


# The exercises of the course


def exercises_of(root):
    return sorted((root / "solutions").glob("*.ipynb"))


def test_students_files_are_in_step_with_their_sources(root):
    for path in exercises_of(root):
        made = as_bytes(student_version(json.loads(path.read_bytes())))
        assert (root / "exercises" / path.name).read_bytes() == made, (
            f"{path.name}: run make exercises"
        )
    assert {p.name for p in exercises_of(root)} == {
        p.name for p in (root / "exercises").glob("*.ipynb")
    }


def test_no_line_of_a_solution_is_in_a_students_file(root):
    for path in exercises_of(root):
        # within the marks, and outside them, where everybody may read
        lines = {True: [], False: []}
        for one in json.loads(path.read_bytes())["cells"]:
            inside = False
            for line in "".join(one["source"]).split("\n"):
                inside = "### BEGIN " in line or (inside and "### END " not in line)
                lines[inside].append(line.strip())
        public = "\n".join(lines[False])
        hidden = {
            line
            for line in lines[True]
            if len(line) > 11 and "### " not in line and line not in public
        }
        given_out = (root / "exercises" / path.name).read_text(encoding="utf-8")
        assert len(hidden) > 10, f"{path.name} has no solution"
        assert [
            line for line in hidden if json.dumps(line, ensure_ascii=False)[1:-1] in given_out
        ] == []
        assert "### " not in given_out
        assert faults(json.loads(path.read_bytes())) == faults(json.loads(given_out)) == []


def test_the_command_of_make_writes_the_files(root, tmp_path):
    (tmp_path / "in").mkdir(), (tmp_path / "out").mkdir()
    (tmp_path / "in" / "exercise9.ipynb").write_bytes(as_bytes(SOURCE))
    command = [
        sys.executable,
        root / "tools" / "student_files.py",
        tmp_path / "in",
        tmp_path / "out",
    ]
    done = subprocess.run(
        command, cwd=root, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert (tmp_path / "out" / "exercise9.ipynb").read_bytes() == as_bytes(
        student_version(SOURCE)
    ), done.stdout


def test_the_sheet_of_exercise_1_says_what_its_solution_prints(root, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    space = {"display": print}
    for one in json.loads((root / "solutions" / "exercise1.ipynb").read_bytes())["cells"]:
        if one["cell_type"] == "code" and "five" not in space:
            exec("".join(one["source"]), space)
    said = re.search(
        r"\*\*([\d, ]+) or (\d+) µs\*\*", (root / "exercises/teacher/exercise_1.md").read_text()
    )
    printed = sorted(round(1e6 * float(value)) for value in space["five"].values())
    assert [int(number) for number in (said[1] + ", " + said[2]).split(", ")] == printed
