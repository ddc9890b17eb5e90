"""The gates that every lesson passes: what a notebook under ``notebooks/`` states, and what is checked.

The gates are functions in ``support/lesson_gates.py``; each returns sentences, one per fault. A small notebook
made in this file passes all of them, and each gate refuses a copy of it with one thing broken.

Notebook metadata (beside ``kernelspec`` with name ``python3``)::

    "fabriclab": {
      "title": "Add the gradients of 1,024 GPUs",   the first line of the first cell is "# " + title
      "minutes": {"read": 12, "do": 15},            both numbers stand in some cell, best in the last one;
                                                    at most 240 words for each minute to read, folds included
      "needs": ["00_start_here"],                   lessons by file name; [] for none
      "form": "lesson",                             lesson (if left out), short (one idea, 2 to 4 sections; its name
                                                    has a letter, 21b) or note (tables to look up)
      "objectives": [                               three (short: one to three; note: as many as it likes); each text
                                                    stands in the first cell word for word
        {"text": "Count the bytes that a ring sends", "check": "31-ring-bytes"}, ...],
      "version": "0.1", "facts": "2026-11-21",      both stand in some cell, best in the last one; facts: the latest
                                                    day on which a fact
                                                    that the lesson reads was looked up ("seen" in the catalog)
      "shape": "build",                             measurement, puzzle, detective, design, duel or build;
                                                    no two neighbours in file order have the same; short
                                                    lessons and notes need none
      "given": ["400 Gb/s", "128 servers"],         numbers that prose may use before anything prints them
      "unlinked": ["latency"],                      ids of the glossary that get no link in this lesson
      "senses": {"channel": "optical-channel"}      what a name with several meanings means in this lesson, by its
                                                    id in the glossary; no such name is a link without it
    }

``check`` names a question of ``fabriclab/course/questions/*.toml`` or a drill (``"drill:units"``), and a
code cell of the lesson asks it. Every question that the table gives to a lesson is asked in it.

Cell metadata::

    "duty": "experiment"        predict, experiment, compare, break, check (or a list of them). All five
                                occur in a lesson, experiment and check in a short one. On a code cell; compare and
                                break may stand on several
    "learner": true             a code cell that the learner changes, writes or answers by hand: one in three.
                                Only such a cell may hold a ``def`` (the learner's answer); no cell a class
    "covers": {"C001": "31-ring-bytes", "C002": "busiest link"}
                                rows of the coverage list that this cell teaches, each with words that no other
                                cell holds: a piece of code, or the id of a question (rows of kind skill, question
                                and exercise name one that the cell asks; a demo may name a view, fl.live.mix).
                                At most four, on code that asks or shows something computed. In a Markdown cell
                                each row of a table is claimed by itself: the words stand in it, and a fact or a
                                figure has a question, an output or a link to its erratum within two cells
    "section": "core-end"       on the one Markdown cell that closes the core; if code follows, it says "you have
                                the core"
    "cites": {"365.6 GB/s": "published/..., 8 GPUs, 8 GiB, ring"}
                                numbers of this Markdown cell that come from a source, with the source

Gates without a run
    nbformat 4.5; unique ids; no outputs, no execution counts. First cell as above. One cell ends the core. Lines
    of code have at most 72 characters, which a narrow window shows whole. The first experiment stands in the first
    third of the core's code cells. Headings are not names of duties ("Predict", "Explore", "Break it" ...). None of
    simply, just, obviously, easy, of course. At most two predictions (``predict("id", ...)``), each before its
    ``reveal("id", ...)``; a reveal without a prediction opens an envelope, so an earlier lesson predicts that id.

Gates on the executed notebook (run once, by nbval or in a folder of its own, with a fresh progress file)
    A prediction is a form, which no run can fill in, so the file holds "no idea" for each prediction that is revealed.
    No error; again with ``FABRICLAB_TEXT=1``, then without pictures and scripts, each output with plain text.
    That second run has no prediction, and no cell with a ``reveal`` prints what came out (measured ones exempt).
    No question is answered right: that is left to the learner (``check("id")`` asks, and an answer cell holds a
    placeholder that runs). Every number with a unit in Markdown (``0.70 s``, ``50 GB/s``, ``13 %``, ``128 times``;
    code spans are not read) is printed by some cell to the digits that the prose gives, in any prefix or as a
    bare number in a table, or is in ``given`` or ``cites``.
    The truth of a prediction (as ``reveal`` recorded it; measured ones are exempt, they differ by machine) is
    in no source, prose or output before the cell that predicts, and for an envelope before the one that reveals,
    within 2 %, unless ``given`` lists it. Pictures have alternative text of six words or more that does not begin
    with figure or plot. At most 15 s for a lesson, 4 s for the median lesson. Lesson 00 holds at most 700 MB.
"""

import ast
import itertools
import os
import shutil
import statistics
from pathlib import Path

import pytest

from fabriclab.course.checks import report
from fabriclab.course.checks.predictions import predictions
from support import lesson_findings as findings
from support import lesson_gates as gates
from support.lesson_runs import FILES, committed, earlier, folder, run, timed_run
from support.makes import make
from support.sampling import sampled

__all__ = ["folder"]
LONGEST, TYPICAL, MEMORY = 15.0, 4.0, 700e6


def hold(seconds, limit):
    """Hold a time to its limit; over it on a machine where programs wait for a core, nothing is concluded."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if seconds > limit and load > os.cpu_count():
        pytest.skip(
            f"not conclusive: {seconds:.1f} s, limit {limit:g} s, at load {load:.1f} on {os.cpu_count()} cores"
        )
    assert seconds <= limit


# The copies in which a learner works -------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_copies_lessons_and_loses_nothing_of_a_learner(root, tmp_path):
    shutil.copy(root / "Makefile", tmp_path)
    (tmp_path / "notebooks" / "img").mkdir(parents=True)
    for name in ("00_a.ipynb", "31_b.ipynb", "glossary.md", "img/c.svg"):
        (tmp_path / "notebooks" / name).write_text("first")
    (tmp_path / "docs" / "img").mkdir(parents=True)
    (tmp_path / "docs" / "img" / "d.png").write_text("first")

    work = tmp_path / "work" / "notebooks"
    progress = [folder / "fabriclab-progress.json" for folder in (tmp_path / "notebooks", work)]
    progress[0].write_text("begun beside the lessons")

    def copies():
        done = make("copies", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        files = sorted(path for path in work.iterdir() if path.suffix == ".ipynb")
        return done.stdout, {path.name: path.read_text() for path in files}

    assert copies() == ("", {"00_a.ipynb": "first", "31_b.ipynb": "first"})
    assert (work / "img" / "c.svg").read_text() == (work / "glossary.md").read_text() == "first"
    # The list of lessons shows this picture by the same relative address as in the checkout.
    assert (work / "../docs/img/d.png").read_text() == "first"
    assert (tmp_path / "work" / ".gitignore").read_text() == "*\n"
    assert progress[1].read_text() == "begun beside the lessons"
    progress[1].write_text("went on")
    (work / "00_a.ipynb").write_text("mine")
    # the lesson is as it was, so the learner's copy stays
    assert copies()[1]["00_a.ipynb"] == "mine"
    for name in ("00_a.ipynb", "31_b.ipynb"):
        (tmp_path / "notebooks" / name).write_text("second")
    said, files = copies()
    kept = next(name for name in files if "mine" in name)
    assert files == {"00_a.ipynb": "second", "31_b.ipynb": "second", kept: "mine"} and kept in said
    assert copies() == ("", files)
    (work / "31_b.ipynb").unlink()
    assert progress[1].read_text() == "went on"
    assert copies() == ("", files)  # who deletes a copy gets a fresh one


# The lessons ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", gates.STATIC, ids=lambda gate: gate.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_lesson_passes_the_gate(name, gate):
    faults = list(gate(committed(name), name))
    assert not faults, "\n".join(faults)


def test_no_lesson_has_facts_that_are_newer_than_those_of_the_report():
    newest = report().data["made_with"]["facts"]
    assert all(gates.about(committed(name))["facts"] <= newest for name in FILES)


@pytest.mark.parametrize("name", FILES)
def test_predictions_come_before_their_reveal(name):
    assert list(gates.gate_predictions(committed(name), name, earlier(name))) == []


def test_the_lessons_ask_the_predictions_of_the_table():
    asked = {}
    for name in FILES:
        calls = (
            node
            for cell in gates.cells(committed(name), "code")
            for node in ast.walk(gates.tree(cell))
        )
        for call in (
            node
            for node in calls
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "fl.predict"
        ):
            asked[ast.literal_eval(*call.args)] = (
                name  # nothing but the id: the form asks for the rest
            )
    assert asked == {id: known.lesson for id, known in predictions().items()}


def test_neighbours_have_different_shapes():
    lessons = [name for name in FILES if gates.form(committed(name)) == "lesson"]
    shapes = [(name, gates.about(committed(name)).get("shape")) for name in lessons]
    assert [(a, b) for a, b in itertools.pairwise(shapes) if a[1] == b[1]] == []


@pytest.mark.parametrize("name", FILES)
def test_a_lesson_runs_and_shows_what_it_says(name, folder):
    nb = committed(name)
    done = run(name, nb, folder, earlier(name))
    assert done.error == ""
    assert list(findings.gate_numbers(done.nb)) == []
    guesses = done.progress.get("predictions", {})
    # Whoever predicts the same before, as an envelope does, may not say it either.
    others = {
        other: run(other, book, folder, earlier(other)).nb
        for other, book in earlier(name).items()
        if guesses.keys() & gates.where(book, "predict").keys()
    }
    assert list(findings.gate_secrets(done.nb, guesses, others)) == []
    assert list(findings.gate_answers(done.progress)) == []
    assert list(findings.gate_pictures(done.nb)) == []


# Each push runs some lessons as text, and make test-all the others.
@pytest.mark.parametrize("name", sampled(FILES, 20))
def test_a_lesson_shows_what_it_says_as_text_too(name, folder):
    nb = committed(name)
    guesses = run(name, nb, folder, earlier(name)).progress.get("predictions", {})
    plain = run(name, nb, folder, earlier(name), text=True)
    assert plain.error == ""
    assert list(findings.gate_text_mode(plain.nb)) == []
    assert list(findings.gate_patience(plain.nb, guesses)) == []


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", FILES)
def test_a_lesson_is_quick(name, folder):
    both = [
        timed_run(name, committed(name), folder, earlier(name), text=text).seconds
        for text in (False, True)
    ]
    hold(min(both), LONGEST)


@pytest.mark.slow
@pytest.mark.alone
def test_the_typical_lesson_is_quick(folder):
    best = {
        name: min(
            timed_run(name, committed(name), folder, earlier(name), text=text).seconds
            for text in (False, True)
        )
        for name in FILES
    }
    hold(statistics.median(best.values()) if best else 0.0, TYPICAL)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif("00_start_here" not in FILES, reason="the first lesson is not there")
@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(),
    reason="this system does not tell shared pages apart",
)
def test_the_first_lesson_needs_little_memory(folder):
    peak = timed_run("00_start_here", committed("00_start_here"), folder, {}).peak
    assert 30e6 < peak < MEMORY
