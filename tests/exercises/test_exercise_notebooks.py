"""What holds for the notebook of every exercise: its marks, its language and its outputs."""

import nbformat
import pytest

from fabriclab.course import judges
from fabriclab.texts import text
from support import lesson_gates as gates
from support.exercise_books import book_of, errors_of_a_run
from support.sampling import sampled

COLUMNS = {1: 75, 2: 80, 3: 80, 4: 80}  # of code in each exercise: a narrow window shows them whole


def test_every_exercise_is_here(root):
    assert {f"exercise{number}.ipynb" for number in COLUMNS} == {
        path.name for path in (root / "solutions").glob("*.ipynb")
    }


@pytest.mark.parametrize("number", COLUMNS)
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


@pytest.mark.parametrize("number", COLUMNS)
def test_the_text_is_plain_and_code_is_shown_whole(root, number):
    book = book_of(root, number)
    assert list(gates.gate_prose(book, "")) == []
    lines = [
        line for cell in book.cells if cell.cell_type == "code" for line in cell.source.split("\n")
    ]
    assert max(map(len, lines)) <= COLUMNS[number] and not any(
        cell.get("outputs") for cell in book.cells
    )


# Cells below a question wait for its answer with fl.exercises.written(...).
@pytest.mark.parametrize(
    "number",
    sampled([4, 3, 2, 1], 4),
)
def test_a_blank_exercise_runs_from_top_to_bottom(root, number, tmp_path, monkeypatch):
    book = nbformat.read(root / "exercises" / f"exercise{number}.ipynb", 4)
    assert errors_of_a_run(book, tmp_path, monkeypatch, root) == []
    shown = "".join(str(cell.get("outputs", "")) for cell in book.cells)
    first = judges.exercise(number)[0].functions[0]
    assert text("ex.stub", name=first) in shown
