"""Every row of the coverage list is taught where the list says: by a cell of its lesson or exercise, or by a page.

``data/coverage.csv`` holds what the five texts of the errata page treat, in their order. ``lesson`` is where a row
belongs: a lesson, a page or an exercise. If that does not exist yet, the row is planned; if it exists, a cell claims
the row in its metadata ``covers`` (``lesson_gates.unfounded`` says which claims hold), or a row of a table of a page
``notebooks/*.md`` begins with an anchor of its id, says what holds, and leads to an entry, as in
``| <a id="c029"></a>Rate of HDR | It has 4 lanes of 50 Gb/s. | see [E12](#e12) |``. ``missing`` says why nothing claims
a row although its place exists.
"""

import re

import nbformat
import pytest

from fabriclab.texts import text
from support.coverage_pages import from_pages
from support.lesson_gates import CLAIMS, NEED_ANSWER, NEED_PROOF, ROWS, gate_covers, unfounded
from support.lesson_runs import FILES, ROOT, load
from support.sampling import sampled

EXERCISES = {path.stem: path for path in sorted((ROOT / "exercises").glob("exercise*.ipynb"))}
PAGES = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.md"))}
BOOKS = [*FILES, *EXERCISES]
PLACE = re.compile(r"\d\d[a-z]?_\w+|glossary|errata|exercise[1-4]")


def book(name):
    """Return a lesson or an exercise as learners get it."""
    return load(name) if name in FILES else nbformat.read(EXERCISES[name], nbformat.NO_CONVERT)


def from_cells(books):
    """Return id -> lessons and exercises with a claim on it that holds."""
    found = {}
    for name, nb in books.items():
        wrong = {(cell.id, id) for cell, id, _ in unfounded(nb)}
        for cell in nb.cells:
            for id in cell.metadata.get("covers", ()):
                if (cell.id, id) not in wrong:
                    found.setdefault(id, set()).add(name)
    return found


def due(places):
    """Return the ids whose lesson, page or exercise exists, but those that are said to be missing."""
    return {id for id, row in ROWS.items() if row["lesson"] in places and not row["missing"]}


@pytest.fixture(scope="module")
def covered():
    """Return all ids that something covers today."""
    pages = [path.read_text(encoding="utf-8") for path in PAGES.values()]
    return from_cells({name: book(name) for name in BOOKS}).keys() | from_pages(pages)


def test_the_list_is_whole_and_well_formed():
    assert list(ROWS) == [f"C{n:03}" for n in range(1, 304)]
    kinds = {"topic", *NEED_PROOF, *NEED_ANSWER}
    for id, row in ROWS.items():
        assert row["item"] and row["where"] and row["kind"] in kinds, id
        assert PLACE.fullmatch(row["lesson"]), id
        assert not row["lesson"][0].isdigit() or text(f"lesson.{row['lesson']}"), id


def test_the_rows_of_the_exercises_belong_to_exercises():
    held = {id for id, row in ROWS.items() if row["lesson"].startswith("exercise")}
    assert held == {f"C{n:03}" for n in range(43, 62)}
    assert all(ROWS[id]["kind"] == "exercise" for id in held)


def test_every_row_of_an_existing_place_is_covered(covered):
    left = sorted(due({*BOOKS, *PAGES}) - covered)
    assert left == [], "\n".join(f"{id} {ROWS[id]['lesson']}: {ROWS[id]['item']}" for id in left)


def test_only_rows_that_nothing_claims_are_said_to_be_missing(covered):
    missing = {id for id, row in ROWS.items() if row["missing"]}
    assert missing & covered == set(), "cleared: empty their field 'missing'"
    assert {ROWS[id]["lesson"] for id in missing} <= {*BOOKS, *PAGES}, "planned, not missing"
    assert len(missing) <= 2, "the list of what is missing becomes shorter"


def test_a_row_is_due_when_its_own_place_exists():
    assert {"C205", "C128"} <= due({"00_start_here"}) and due(set()) == set()
    assert "C016" not in due({"00_start_here"}) and "C016" in due({"31_all_reduce"})
    assert "C142" not in due({"00_start_here", "31_all_reduce"})
    assert "C142" in due({"72_a_training_step"}) and "C047" in due({"exercise2"})
    assert "C053" not in due({"exercise2"}) and {"C052", "C053"} <= due({"exercise3"})


@pytest.mark.parametrize("name", EXERCISES)
def test_the_claims_of_an_exercise_hold_and_are_those_of_its_source(name):
    nb, source = book(name), nbformat.read(ROOT / "solutions" / f"{name}.ipynb", 4)
    assert list(gate_covers(nb, name)) == []
    claims = [
        {cell.id: cell.metadata.get("covers") for cell in each.cells} for each in (nb, source)
    ]
    assert claims[0] == claims[1]


@pytest.mark.parametrize("name", BOOKS)
def test_all_claims_of_a_lesson_in_one_cell_fail(name):
    """Wherever they go; a lesson with one claim may keep it where it is."""
    nb = book(name)
    claims, homes = {}, set()
    for number, cell in enumerate(nb.cells):
        if held := cell.metadata.pop("covers", {}):
            claims |= held
            homes.add(number)
    if not claims:  # a short lesson may go beyond the list of what must be covered
        assert nb.metadata["fabriclab"]["form"] == "short"
        return
    for number, cell in enumerate(nb.cells):
        cell.metadata["covers"] = claims
        assert list(gate_covers(nb, name)) or homes == {number}
        del cell.metadata["covers"]


@pytest.mark.parametrize("name", sampled(BOOKS, 5))
def test_a_claim_in_another_cell_fails(name):
    nb = book(name)
    claimed = [
        (cell, *claim) for cell in nb.cells for claim in cell.metadata.pop("covers", {}).items()
    ]
    for home, id, said in claimed:
        for cell in nb.cells:
            cell.metadata["covers"] = {id: said}
            assert bool(list(unfounded(nb))) is (cell is not home), (cell.id, id)
            del cell.metadata["covers"]


# Controls


def cell(kind, source, claims):
    new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    made = new(source)
    made.metadata["covers"] = claims
    return made


RATES = "| what | rate |\n|---|---|\n| NIC | 50 GB/s |\n| port | 400 Gb/s |"


@pytest.mark.parametrize(
    ("made", "held"),
    [
        (cell("code", "case", {"C001": "case", "C007": "case"}), {"C001", "C007"}),
        (cell("code", "case", {"C001": "the case"}), set()),
        (cell("code", "case", ["C001"]), set()),
        (cell("code", "case", {"C999": "case"}), set()),
        (cell("markdown", "Many GPUs add gradients.", {"C001": "gradients"}), set()),
        (cell("markdown", RATES, {"C001": "NIC", "C002": "port"}), {"C001", "C002"}),
        (cell("markdown", RATES, {"C001": "NIC", "C002": "50 GB/s"}), set()),
        (cell("markdown", RATES, {"C001": "b/s"}), {"C001"}),
        (cell("markdown", RATES, {"C001": "/s"}), set()),
        (cell("markdown", RATES, {"C007": "NIC"}), set()),
        (cell("markdown", RATES, {"C128": "NIC"}), set()),
        (cell("code", "print(1)", {"C001": "print(1)", "C007": "print"}), set()),
        (cell("code", "a = 1\nprint(a)", {"C001": "print"}), set()),
        (cell("code", "a = case.rate", {"C001": "case.rate"}), set()),
        (cell("code", "a = case.rate\nprint(a)", {"C001": "case.rate"}), {"C001"}),
        (cell("code", 'fl.check("00-fabric")', {"C128": "00-fabric"}), {"C128"}),
        (cell("code", 'fl.check("00-fabric")', {"C128": "fl.check"}), set()),
        (cell("code", "fl.live.mix(rails)", {"C270": "fl.live.mix"}), {"C270"}),
        (cell("code", "fl.live.mix(rails)", {"C128": "fl.live.mix"}), set()),
    ],
)
def test_only_what_a_reader_finds_counts(made, held):
    assert set(from_cells({"00_start_here": nbformat.v4.new_notebook(cells=[made])})) == held


def test_a_cell_claims_four_rows_at_most_and_a_table_one_for_each_row():
    ids = [id for id, row in ROWS.items() if row["kind"] == "topic"][: CLAIMS + 1]
    few = cell("code", "show(case)", dict.fromkeys(ids[:CLAIMS], "case"))
    many = cell("code", "show(case)", dict.fromkeys(ids, "case"))
    lines = "\n".join(f"| row {id} | 1 |" for id in ids)
    table = cell("markdown", f"| a | b |\n|---|---|\n{lines}", {id: f"row {id}" for id in ids})
    for made, held in ((few, ids[:CLAIMS]), (many, []), (table, ids)):
        assert [*from_cells({"00_start_here": nbformat.v4.new_notebook(cells=[made])})] == held


@pytest.mark.parametrize(
    ("kind", "source", "away", "holds"),
    [
        ("code", 'fl.check("00-fabric")', 2, True),
        ("code", 'fl.check("00-fabric")', 3, False),
        ("code", "fl.case()", 1, True),
        ("code", "print(1)", 1, False),
        ("markdown", "The truth: [E12](errata.md#e12).", 1, True),
        ("markdown", "The truth: [E01](errata.md#e01).", 1, False),
        ("code", 'x = fl.errata("E12")', 1, True),
    ],
)
def test_a_fact_in_a_table_needs_a_question_an_output_or_its_erratum_nearby(
    kind, source, away, holds
):
    between = [nbformat.v4.new_markdown_cell("and") for _ in range(away - 1)]
    told, proof = cell("markdown", RATES, {"C029": "port"}), cell(kind, source, {})
    for cells in ([told, *between, proof], [proof, *between, told]):
        found = from_cells({"00_start_here": nbformat.v4.new_notebook(cells=cells)})
        assert ("C029" in found) is holds


def test_words_that_stand_in_two_cells_name_none():
    twice = [cell("code", "fl.case()", {"C001": "fl.case()"}), cell("code", "fl.case()", {})]
    assert from_cells({"00_start_here": nbformat.v4.new_notebook(cells=twice)}) == {}


def test_a_page_covers_by_rows_of_tables_that_say_what_holds_and_lead_to_an_entry():
    def row(id, matter="Rate of HDR", holds="It has 4 lanes.", more="see [E12](#e12)"):
        return f'| <a id="{id}"></a>{matter} | {holds} | {more} |'

    shown = [
        '<a id="e12"></a>E12',
        '<a id="c001"></a>in prose: It has 4 lanes. See [E12](#e12)',
        row("c002"),
        row("c003", more="see E12"),
        row("c004", more="see [E13](#e13)"),
        row("c007", holds=" "),
        row("c016", matter=" "),
        row("c025", holds="the rate of a port"),
        row("c026", more="see [itself](#c026)"),
        row("c128"),  # a skill, which needs an answer
        row("c999"),  # no row of the list
        "| C029 | matter: [E12](#e12) |",
        row("c024", holds="HDR carries 200 Gb/s, and NDR 400 Gb/s."),
    ]
    assert from_pages(["\n".join(shown)]) == {"C002", "C024"}
