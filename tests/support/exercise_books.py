"""The notebooks of exercises: their sources, runs of them as text, and what holds for each of them."""

import json
import os

import nbclient
import nbformat

from fabriclab.course.grading.graders import grade_cells
from fabriclab.course.judges import PRACTICE
from fabriclab.texts import text
from student_files import student_version


def book_of(root, number):
    """Return the source of an exercise."""
    return nbformat.read(root / "solutions" / f"exercise{number}.ipynb", 4)


def run_blank(book, folder, monkeypatch, root, *, without=()):
    """Return the file that students get after a run of its cells, none of which raised an error.

    ``without`` names cells that take long and use no answer.
    """
    blank = nbformat.reads(json.dumps(student_version(book)), 4)  # which joins the lines of cells
    blank.cells = [cell for cell in blank.cells if cell.id not in without]
    return _run(blank, folder, monkeypatch, root)


def _run(book, folder, monkeypatch, root):
    """Return a notebook after a run as text."""
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = nbformat.from_dict(book)
    nbclient.NotebookClient(
        done, timeout=120, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return done


def run_in_text_mode(book, folder, monkeypatch, root):
    """Return the notebook after a run in which each answer is right at the first try."""
    done = _run(book, folder, monkeypatch, root)
    tests = [cell for cell in done.cells if cell.id.endswith("-test")]
    right = text("check.right", tries=text("check.first"))
    assert tests and all(right in str(cell.outputs) for cell in tests)
    return done


def errors_of_a_run(book, folder, monkeypatch, root):
    """Run a notebook as text from top to bottom and return its errors: id of the cell, and kind of error."""
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(folder / "progress.json"))
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, timeout=120, allow_errors=True, resources=resources).execute()
    return [
        (cell.id, output.ename)
        for cell in book.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]


def check_students_file_earns_nothing(book, questions, setup, box):
    """Fail unless each question of the file that students get is open, and earns no points."""
    cells = student_version(book)["cells"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in cells}
    for question in questions:
        record, _ = grade_cells(box, PRACTICE, question, [setup, sources[question.id]], "")
        assert record["points"] == 0, question.id
        assert record["trouble"] == "open", question.id
        assert record["said"] == [text("grade.open")], question.id


def check_hints_of_functions(questions):
    """Fail unless each function has three hints, or a single one of its own."""
    for question in questions:
        for function in question.functions:
            hints = [question.words.hint(level, {}, function) for level in (1, 2, 3)]
            assert all(hints) or len(question.words.hints_of[function]) == 1, (
                question.id,
                function,
            )
