"""Every row of the coverage list whose lesson exists is covered by a cell, or by a table of a page.

A row is covered by an id in ``covers`` of a cell (``lesson_gates.gate_covers`` says which cells count), or by a
table row of a page ``notebooks/*.md`` that begins with the id, as in ``| C204 | ... |``. A row whose own lesson
does not exist yet is not due, wherever it may be taught in the end.
"""

import re

import nbformat
import pytest
from lesson_gates import NEED_ANSWER, ROWS, gate_covers
from lesson_runs import FILES, ROOT, load

PARTS = {"00-start", "3-communication-patterns"}


def from_cells(lessons):
    """Return id -> lessons that cover it, from cells that count."""
    found = {}
    for name, nb in lessons.items():
        for cell in nb.cells:
            for id in cell.metadata.get("covers", []):
                one = nbformat.v4.new_notebook(
                    cells=[
                        nbformat.from_dict({**cell, "metadata": {**cell.metadata, "covers": [id]}})
                    ]
                )
                if not list(gate_covers(one, name)):
                    found.setdefault(id, set()).add(name)
    return found


def from_pages(texts):
    """Return the ids that begin a row of a table and need no answer."""
    ids = {
        id
        for text in texts
        for id in re.findall(r"^\|\s*(C\d{3})\s*\|\s*[^|\s]", text, re.MULTILINE)
    }
    return {id for id in ids if id in ROWS and ROWS[id]["kind"] not in NEED_ANSWER}


def due(lessons):
    """Return the ids whose lesson exists."""
    return {id for id, row in ROWS.items() if row["lesson"] in lessons}


def test_the_list_is_well_formed():
    assert len(ROWS) >= 27 and list(ROWS) == sorted(ROWS)
    assert {row["where"] for row in ROWS.values()} >= PARTS
    for id, row in ROWS.items():
        assert (
            re.fullmatch(r"C\d{3}", id)
            and row["item"]
            and re.fullmatch(r"\d\d_\w+|glossary|errata|exercise[1-4]", row["lesson"])
        )
        assert row["kind"] in {"topic", "fact", "figure", "table", *NEED_ANSWER}


def test_every_row_of_an_existing_lesson_is_covered():
    pages = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.md")
    }
    covered = from_cells({name: load(name) for name in FILES}).keys() | from_pages(pages.values())
    left = {
        id: f"{ROWS[id]['lesson']}: {ROWS[id]['item']}"
        for id in sorted(due(FILES | pages) - covered)
    }
    assert left == {}, "\n".join(f"{id} {item}" for id, item in left.items())


def test_a_row_is_due_when_its_own_lesson_exists():
    assert {"C001", "C128"} <= due({"00_start_here"}) and due(set()) == set()
    assert "C016" not in due({"00_start_here"}) and "C016" in due({"31_all_reduce"})
    assert "C142" not in due({"00_start_here", "31_all_reduce"}) and "C142" in due(
        {"72_a_training_step"}
    )


# Controls


def cell(kind, source, *ids):
    made = (
        nbformat.v4.new_code_cell(source)
        if kind == "code"
        else nbformat.v4.new_markdown_cell(source)
    )
    made.metadata["covers"] = list(ids)
    return made


@pytest.mark.parametrize(
    ("made", "covered"),
    [
        (cell("code", "case", "C001", "C002"), {"C001", "C002"}),
        (cell("markdown", "Many GPUs add gradients.", "C001"), set()),
        (cell("markdown", "| what | rate |\n|---|---|\n| NIC | x |", "C001"), {"C001"}),
        (cell("markdown", "| skill |\n|---|\n| x |", "C128"), set()),
        (cell("code", "print(1)", "C128", "C282"), set()),
        (cell("code", 'fl.check("00-fabric")', "C128", "C001"), {"C128", "C001"}),
        (cell("code", "case", "C999"), set()),
    ],
)
def test_only_what_a_reader_finds_counts(made, covered):
    assert set(from_cells({"00_start_here": nbformat.v4.new_notebook(cells=[made])})) == covered


def test_a_page_covers_by_its_tables():
    rows = [
        "C001 in prose",
        "| C002 | matter |",
        "| C128 | a skill |",
        "| C007 |  |",
        "| x | C016 |",
        "|C024|matter|",
    ]
    assert from_pages(["\n".join([*rows, "| C999 | no row |"])]) == {"C002", "C024"}
