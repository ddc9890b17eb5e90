"""What holds for the notebook of every exercise: its marks, its length and its words."""

import os

import lesson_gates as gates
import nbclient
import nbformat
import pytest

from fabriclab.course import judges

# Of each exercise: words at most, and columns of code at most.
MOST = {1: (1300, 75), 3: (1600, 80), 4: (1600, 80)}


def book_of(root, number):
    """Return the source of an exercise."""
    return nbformat.read(root / "solutions" / f"exercise{number}.ipynb", 4)


def run_in_text_mode(book, folder, monkeypatch, root):
    """Return the notebook after a run in which each answer is right at the first try."""
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = nbformat.from_dict(book)
    nbclient.NotebookClient(
        done, timeout=120, resources={"metadata": {"path": str(folder)}}
    ).execute()
    tests = [cell for cell in done.cells if cell.id.endswith("-test")]
    assert tests and all("Right, at the first try" in str(cell.outputs) for cell in tests)
    return done


def test_every_exercise_is_here(root):
    assert {f"exercise{number}.ipynb" for number in MOST} == {
        path.name for path in (root / "solutions").glob("*.ipynb")
    }


@pytest.mark.parametrize("number", MOST)
def test_the_notebook_asks_every_question_and_marks_it(root, number):
    book, asked = book_of(root, number), judges.exercise(number)
    nbformat.validate(book)
    marks = {cell.id: cell.metadata.nbgrader for cell in book.cells if "nbgrader" in cell.metadata}
    for q in asked:
        test = next(cell for cell in book.cells if cell.id == f"{q.id}-test")
        mark = marks[test.id]
        assert (
            marks[q.id].solution
            and not marks[q.id].grade
            and mark.points == q.points
            and mark.locked
        )
        hand = q.functions[0] if len(q.functions) == 1 else f"[{', '.join(q.functions)}]"
        assert test.source.endswith(f'fl.check("{q.id}", {hand})') and "assert" in test.source
    assert all(
        mark.grade_id == id and mark.schema_version == 3 and mark.task is False
        for id, mark in marks.items()
    )
    assert [q.id for q in asked] == [f"ex{number}-{letter}" for letter in "abcdef"[: len(asked)]]
    assert (
        sum(mark.get("points", 0) for mark in marks.values()) == 100 == sum(q.points for q in asked)
    )


@pytest.mark.parametrize("number", MOST)
def test_the_text_is_short_and_plain(root, number):
    (words, columns), book = MOST[number], book_of(root, number)
    read = [
        cell
        for cell in book.cells
        if cell.cell_type == "markdown" and "SOLUTION" not in cell.source
    ]
    assert sum(len(gates.words(cell.source)) for cell in read) <= words
    assert list(gates.gate_prose(book, "")) == []
    lines = [
        line for cell in book.cells if cell.cell_type == "code" for line in cell.source.split("\n")
    ]
    assert max(map(len, lines)) <= columns and not any(cell.get("outputs") for cell in book.cells)
