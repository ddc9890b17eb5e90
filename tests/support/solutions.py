"""Cells of the solutions of exercises, and answers that differ from them in one thing."""

import json

from support import ROOT


def solved(number):
    """Return the code cells of the solution of an exercise, by id."""
    path = ROOT / "solutions" / f"exercise{number}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


def changed(code, *changes):
    """Return a code with some texts replaced, each of which must be there."""
    for old, new in changes:
        assert old in code, f"{code:.60} does not hold {old!r}"
        code = code.replace(old, new)
    return code
