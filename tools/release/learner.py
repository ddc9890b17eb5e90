"""A learner of any version: runs a lesson, with a guess and some answers after each question, and saves it.

``python learner.py LESSON.ipynb --into FILE.ipynb`` is started with the version under ``PYTHONPATH``. Only calls that
all versions know are used: ``fl.predict(id, value, unit)``, ``fl.check(id, answer)``. Of an answer in the wrong form
nothing is stored, so the learner tries forms until some have counted.
"""

import argparse
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

_ASKED = re.compile(r'fl\.(check|predict)\("([\w-]+)"')
_CELL_PATIENCE = 300  # [s]
# How a learner who does not know tries: a letter, then numbers, in the units that lessons ask for.
TYPED = """
def _tried(call, forms, once=False):
    for form in forms:
        try:
            call(*form)
        except (ValueError, TypeError, KeyError):
            continue
        if once:
            break

_LETTERS = [("a",), ("c",), ("b",), ("d",)]
_NUMBERS = [("2 s",), ("3 GB/s",), ("7 MB",), ("0.5",), (12,)]
_GUESSES = [(5, unit) for unit in (None, "x", "%", "ms", "s", "GB/s", "us", "MB")]
"""


def main() -> None:
    """Run the lesson and save it with its answers and outputs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lesson", type=Path)
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args()
    book = nbformat.read(given.lesson, 4)
    book.cells = answered(book.cells)
    # A cell that a learner has not written yet may fail; the lesson goes on, as it does for a reader.
    NotebookClient(
        book,
        kernel_name="python3",
        timeout=_CELL_PATIENCE,
        allow_errors=True,
        resources={"metadata": {"path": str(given.lesson.parent)}},
    ).execute()
    nbformat.write(book, given.into)
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    errors = [output["ename"] for output in outputs if output["output_type"] == "error"]
    print(f"{given.lesson.name}: {len(book.cells)} cells, {len(outputs)} outputs, errors {errors}")


def answered(cells: list) -> list:
    """Return the cells with one behind each that asks, in which the learner answers."""
    found = [nbformat.v4.new_code_cell(TYPED)]
    for cell in cells:
        found.append(cell)
        if cell.cell_type == "code":
            lines = [line_for(kind, id) for kind, id in dict.fromkeys(_ASKED.findall(cell.source))]
            if lines:
                found.append(nbformat.v4.new_code_cell("\n".join(lines)))
    return found


def line_for(kind: str, id: str) -> str:
    """Return the line that answers a question or makes a guess."""
    if kind == "predict":
        return f'_tried(lambda *form: fl.predict("{id}", *form), _GUESSES, once=True)'
    return f'_tried(lambda *form: fl.check("{id}", *form), _LETTERS + _NUMBERS)'


if __name__ == "__main__":
    main()
