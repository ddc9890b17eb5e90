"""Students' files from their sources: ``make exercises`` writes those of ``solutions/`` into ``exercises/``."""

import copy
import json
import sys
from pathlib import Path

from fabriclab.core import write_atomic
from fabriclab.course.grading.notebooks import CODE_STUB, TEXT_STUB, as_bytes


def student_version(source):
    """Return a source notebook without solutions, hidden tests and outputs.

    Raises
    ------
    ValueError
        If a mark is not closed, or the metadata of its cell does not know of it.
    """
    book = copy.deepcopy(source)
    for cell in book["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        stub = CODE_STUB if cell["cell_type"] == "code" else (TEXT_STUB,)
        before, after = "".join(cell["source"]).split("\n"), []
        try:
            lines = _without(before, "SOLUTION", stub)
            if marks.get("solution") and lines == before:
                lines = [*stub]
            after = _without(lines, "HIDDEN TESTS", ())
        except LookupError as error:
            msg = f"cell {cell.get('id')!r}: {error}; each BEGIN needs its END, and one may not be within another"
            raise ValueError(msg) from None
        if (lines != before and not marks.get("solution")) or (
            after != lines and not marks.get("grade")
        ):
            msg = f"cell {cell.get('id')!r} holds a solution or hidden tests, but its metadata does not say so"
            raise ValueError(msg)
        cell["source"] = "\n".join(after).splitlines(keepends=True)
        if marks.get("grade") or marks.get("solution") or marks.get("locked"):
            # JupyterLab then keeps the cell, and what is not to be answered.
            cell["metadata"] |= {"deletable": False} | (
                {} if marks.get("solution") else {"editable": False}
            )
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return book


def _without(lines, mark, stub):
    """Return the lines with each marked part replaced by the stub, at the indentation of its first mark."""
    kept, inside = [], False
    for line in lines:
        if f"BEGIN {mark}" in line or f"END {mark}" in line:
            if inside == (f"BEGIN {mark}" in line):
                raise LookupError(line.strip())
            indent = line[: len(line) - len(line.lstrip())]
            kept += [] if inside else [indent + part for part in stub]
            inside = not inside
        elif not inside:
            kept.append(line)
    if inside:
        raise LookupError(mark)
    return kept


def build(sources, out):
    """Write the student's file of every source."""
    for path in sorted(Path(sources).glob("*.ipynb")):
        write_atomic(Path(out, path.name), as_bytes(student_version(json.loads(path.read_bytes()))))
        sys.stdout.write(f"written: {Path(out, path.name).as_posix()}\n")


if __name__ == "__main__":
    build(*sys.argv[1:])
