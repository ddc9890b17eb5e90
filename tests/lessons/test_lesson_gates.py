"""Controls: a small lesson passes every gate, and each gate refuses it with one thing broken."""

import copy

import nbformat
import pytest

from support import lesson_findings as findings
from support import lesson_gates as gates
from support.lesson_runs import execute, folder, run

__all__ = ["folder"]

NAME = "98_control"
HEADER = """# Add two numbers

5 minutes to read, 7 to do. Needs 00_start_here. Version 0.1, facts of 2026-11-21.

- Count the bytes of a buffer
- Say what a fabric is
- Time a sum
"""


def code(source, **metadata):
    cell = nbformat.v4.new_code_cell(source)
    cell.metadata.update(metadata)
    return cell


def said(source, **metadata):
    cell = nbformat.v4.new_markdown_cell(source)
    cell.metadata.update(metadata)
    return cell


def control():
    """Return a lesson that passes all gates."""
    goals = [
        ("Count the bytes of a buffer", "00-buffer"),
        ("Say what a fabric is", "00-fabric"),
        ("Time a sum", "00-typical"),
    ]
    nb = nbformat.v4.new_notebook()
    nb.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nb.metadata.fabriclab = {
        "title": "Add two numbers",
        "minutes": {"read": 5, "do": 7},
        "needs": ["00_start_here"],
        "version": "0.1",
        "facts": "2026-11-21",
        "shape": "duel",
        "given": ["400 Gb/s"],
        "objectives": [{"text": text, "check": check} for text, check in goals],
    }
    nb.cells = [
        said(HEADER),
        said(
            "## How long does a sum take?\n\nA NIC runs at 400 Gb/s. It moves 12 GB of data.",
            cites={"12 GB": "a source"},
        ),
        code(
            'import fabriclab as fl\nfl.checks.predict("98-sum", 0.5, "s")',
            duty="predict",
            learner=True,
        ),
        code(
            't = 0.7\nprint(f"took {t:.2f} s")\nfl.checks.reveal("98-sum", t, "s")',
            duty=["experiment", "compare"],
        ),
        said("The sum took 0.70 s, as measured."),
        code(
            'from IPython.display import HTML\nHTML(\'<img alt="The sum takes 0.70 s on any day" src="data:,">\')',
            duty="break",
        ),
        code(
            'fl.checks.check("00-buffer")', duty="check", learner=True, covers={"C128": "00-buffer"}
        ),
        said("Now you have the core.", section="core-end"),
        code('fl.checks.check("00-fabric")\nfl.checks.check("00-typical")', learner=True),
    ]
    return nb


def set_source(number, source):
    return lambda nb: nb.cells[number].__setitem__("source", source)


def add(number, cell):
    return lambda nb: nb.cells.insert(number, cell)


def tag(number, **metadata):
    return lambda nb: nb.cells[number].metadata.update(metadata)


def head(**changes):
    return lambda nb: nb.metadata.fabriclab.update(changes)


def table(**claims):
    """Return a reference table that claims a row of the coverage list for one of its rows."""
    return said("| part | rate |\n|---|---|\n| NIC | 50 GB/s |", covers=claims)


def lone(nb):
    """Put a table with a fact behind the last cell, and two of prose between."""
    nb.cells += [said("And."), said("So."), table(C029="NIC")]


BROKEN = {
    "old format": (gates.gate_format, lambda nb: nb.update(nbformat_minor=4), "4.4"),
    "other kernel": (
        gates.gate_format,
        lambda nb: nb.metadata.kernelspec.update(name="ir"),
        "python3",
    ),
    "same id": (gates.gate_format, lambda nb: nb.cells[1].update(id=nb.cells[2].id), "unique"),
    "an output": (gates.gate_format, lambda nb: nb.cells[2].update(execution_count=1), "output"),
    "no date": (gates.gate_header, head(facts="November"), "no date"),
    "two objectives": (
        gates.gate_header,
        lambda nb: nb.metadata.fabriclab.objectives.pop(),
        "three",
    ),
    "other title": (gates.gate_header, head(title="Add numbers"), "does not show"),
    "unseen minutes": (gates.gate_header, head(minutes={"read": 33, "do": 7}), "33"),
    "too few minutes": (gates.gate_header, add(4, said("word " * 1300)), "for each minute"),
    "later need": (gates.gate_header, head(needs=["99_later"]), "99_later"),
    "no shape": (gates.gate_header, head(shape="round"), "round"),
    "no break": (gates.gate_duties, tag(5, duty="check"), "break"),
    "late experiment": (gates.gate_duties, add(2, code("1")), "[3] of 5"),
    "unknown duty": (gates.gate_duties, tag(2, duty=["predict", "play"]), "play"),
    "no end": (gates.gate_core, tag(7, section=""), "core"),
    "code behind the close": (gates.gate_core, set_source(7, "That is all."), "you have the core"),
    "unknown form": (gates.gate_header, head(form="poster"), "poster"),
    "four objectives of a short lesson": (
        gates.gate_header,
        lambda nb: nb.metadata.fabriclab.update(
            form="short", objectives=[*nb.metadata.fabriclab.objectives] * 2
        ),
        "not 1 to 3",
    ),
    "short lesson that asks nothing": (
        gates.gate_duties,
        lambda nb: (head(form="short")(nb), tag(6, duty="compare")(nb)),
        "['check']",
    ),
    "73 characters": (gates.gate_core, set_source(3, f"1  # {'x' * 68}"), "73 characters"),
    "few learner cells": (
        gates.gate_learner,
        lambda nb: [tag(i, learner=False)(nb) for i in (6, 8)],
        "1 of 5",
    ),
    "a card that nobody sees": (
        gates.gate_seen,
        set_source(3, "fl.check('00-buffer')\nprint(1)"),
        "shows nothing",
    ),
    "a class": (gates.gate_learner, set_source(2, "class Model:\n    pass"), "class"),
    "a function": (gates.gate_learner, set_source(3, "def model(n):\n    return n"), "function"),
    "a banned word": (gates.gate_prose, add(4, said("It is just a sum.")), "just"),
    "a banned comment": (gates.gate_prose, set_source(3, "1  # obviously"), "obviously"),
    "a stale heading": (gates.gate_prose, add(4, said("### Break it!")), "Break it"),
    "unknown question": (
        gates.gate_questions,
        set_source(3, 'fl.check("98-nothing")'),
        "98-nothing",
    ),
    "unproved goal": (gates.gate_questions, lambda nb: nb.cells.pop(8), "00-fabric"),
    "unknown row": (gates.gate_covers, tag(3, covers={"C999": "took"}), "C999"),
    "no words": (gates.gate_covers, tag(3, covers=["C001"]), "no words"),
    "words of another cell": (gates.gate_covers, tag(3, covers={"C001": "alt="}), "does not hold"),
    "words of two cells": (gates.gate_covers, tag(3, covers={"C001": "98-sum"}), "2 cells"),
    "five rows": (
        gates.gate_covers,
        tag(3, covers=dict.fromkeys(("C001", "C002", "C003", "C004", "C005"), "took")),
        "one of 5 rows",
    ),
    "prose covers": (gates.gate_covers, tag(4, covers={"C001": "0.70 s"}), "prose alone"),
    "skill without check": (gates.gate_covers, tag(3, covers={"C128": "took"}), "skill"),
    "skill in a table": (gates.gate_covers, add(4, table(C128="NIC")), "needs a question"),
    "one row twice": (gates.gate_covers, add(4, table(C001="NIC", C002="50")), "same row"),
    "no such row": (gates.gate_covers, add(4, table(C001="GPU")), "0 rows"),
    "a constant": (
        gates.gate_covers,
        add(4, code("print(1)", covers={"C001": "print(1)"})),
        "shows nothing",
    ),
    "a fact far from a proof": (gates.gate_covers, lone, "within 2 cells"),
}


@pytest.mark.parametrize("gate", gates.STATIC, ids=lambda gate: gate.__name__)
def test_the_control_passes(gate):
    assert list(gate(control(), NAME)) == []


@pytest.mark.parametrize("case", BROKEN)
def test_a_gate_refuses_a_broken_control(case):
    gate, breaks, word = BROKEN[case]
    nb = control()
    breaks(nb)
    assert word in " ".join(gate(nb, NAME))


def test_every_static_gate_has_a_control():
    assert {gate for gate, _, _ in BROKEN.values()} == set(gates.STATIC)


def test_the_table_of_questions_is_used_up():
    faults = list(gates.gate_questions(control(), "00_start_here"))
    assert "00-nic-rate" in faults[0] and "no cell asks" in faults[0]
    with_drill = control()
    with_drill.cells.append(code("[fl.drill(1), fl.drill(2), fl.drill(3), fl.drill(4)]"))
    assert not any(
        "00-nic-rate" in fault for fault in gates.gate_questions(with_drill, "00_start_here")
    )
    with_drill.cells[-1].source = "fl.drill(1)"
    assert any(
        "00-both-ways" in fault for fault in gates.gate_questions(with_drill, "00_start_here")
    )


def test_order_of_predictions():
    assert list(gates.gate_predictions(control(), NAME, {})) == []
    late = control()
    late.cells.insert(2, late.cells.pop(3))
    assert "after its reveal" in " ".join(gates.gate_predictions(late, NAME, {}))
    same = control()
    same.cells[2].source += '\nfl.checks.reveal("98-sum", 1, "s")'
    assert "same cell" in " ".join(gates.gate_predictions(same, NAME, {}))
    sealed = control()
    sealed.cells[2].source = "1"
    faults = list(gates.gate_predictions(sealed, NAME, {}))
    assert len(faults) == 2 and "neither" in faults[0] and "predicts nothing" in faults[1]
    assert len(list(gates.gate_predictions(sealed, NAME, {"97_before": control()}))) == 1
    many = control()
    many.cells[2].source = "\n".join(f'fl.predict("98-{i}", 1, "s")' for i in range(3))
    assert "more than two" in " ".join(gates.gate_predictions(many, NAME, {}))


@pytest.fixture(scope="session")
def done(folder):
    return run("control", control(), folder, {})


def test_the_control_runs(done):
    assert done.error == "" and 0 < done.seconds < 15 and done.peak > 30e6
    assert done.progress["predictions"]["98-sum"]["truth"] == pytest.approx(0.7)
    assert list(findings.gate_numbers(done.nb)) == list(findings.gate_answers(done.progress)) == []
    assert list(findings.gate_pictures(done.nb)) == []
    assert list(findings.gate_secrets(done.nb, done.progress["predictions"], {})) == []
    assert "draws" in " ".join(findings.gate_text_mode(done.nb))


def test_the_control_runs_as_text(folder):
    text = run("control", control(), folder, {}, text=True).nb
    assert list(text.cells[2].outputs[0].data) == ["text/plain"]


def test_a_failing_cell_is_an_error(folder, tmp_path):
    nb = control()
    nb.cells = [code('import fabriclab as fl\nfl.checks.check("98-nothing", 1)')]
    assert "no question" in execute(nb, tmp_path).error


@pytest.mark.parametrize(
    "number", ["0.71 s", "13 GB", "0.700 ms", "3 times", "17 %", "USD 5 M", "2 days"]
)
def test_a_number_that_nothing_prints_is_found(done, number):
    nb = copy.deepcopy(done.nb)
    nb.cells.append(said(f"It took {number} in all."))
    assert number in " ".join(findings.gate_numbers(nb))


@pytest.mark.parametrize("number", ["0.7 s", "700 ms", "50 GB/s", "`3 GB`", "0.70 s"])
def test_a_number_that_is_printed_or_given_is_not(done, number):
    nb = copy.deepcopy(done.nb)
    nb.cells.append(said(f"It took {number} in all."))
    assert list(findings.gate_numbers(nb)) == []


def test_a_cited_number_needs_its_source(done):
    nb = copy.deepcopy(done.nb)
    nb.cells[1].metadata["cites"] = {"12 GB": " "}
    assert "12 GB" in " ".join(findings.gate_numbers(nb))


@pytest.mark.parametrize(
    "place",
    [
        "It takes 0.70 s.",
        "About 690 ms.",
        "| sum |\n|---|\n| 0.702 s |",
        "| t [ms] |\n|---|\n| 702 |",
    ],
)
def test_an_answer_before_its_prediction_is_found(done, place):
    nb = copy.deepcopy(done.nb)
    nb.cells.insert(1, said(place))
    predictions = done.progress["predictions"]
    assert "98-sum" in " ".join(findings.gate_secrets(nb, predictions, {}))
    nb.metadata.fabriclab["given"] += ["0.70 s", "690 ms", "0.702 s", "702"]
    assert list(findings.gate_secrets(nb, predictions, {})) == []
    measured = {"98-sum": {**predictions["98-sum"], "how": "measured"}}
    nb.metadata.fabriclab["given"] = []
    assert list(findings.gate_secrets(nb, measured, {})) == []


def test_a_reveal_without_a_prediction_says_nothing(done, tmp_path):
    predictions = done.progress["predictions"]
    nb = copy.deepcopy(done.nb)
    # its cell prints the time beside the reveal
    assert "0.70 s" in " ".join(findings.gate_patience(nb, predictions))
    nb.cells[3].outputs = []
    assert list(findings.gate_patience(nb, predictions)) == []


def test_a_bare_number_of_another_unit_is_no_answer(done):
    nb = copy.deepcopy(done.nb)
    nb.cells.insert(1, said("| t [ms] | n |\n|---|---|\n| 7 | 0.7 |\n\nIt takes 0.70 of it."))
    assert list(findings.gate_secrets(nb, done.progress["predictions"], {})) == []


def test_an_envelope_is_sealed_in_the_earlier_lesson(done):
    nb = copy.deepcopy(done.nb)
    nb.cells[2].source = "1"
    faults = list(findings.gate_secrets(nb, done.progress["predictions"], {"97_before": done.nb}))
    assert faults and all("of 97_before" in fault for fault in faults)


def test_an_answered_question_is_found():
    held = {"checks": {"00-fabric": {"right": True}}, "drills": {"00-buffer": {"right": False}}}
    assert [fault.split()[6].rstrip(";") for fault in findings.gate_answers(held)] == ["00-fabric"]


@pytest.mark.parametrize(
    "alt", [None, "too short", "Figure of a sum that takes 0.70 s", "Plot: a sum that takes 0.70 s"]
)
def test_a_picture_without_a_finding_is_found(done, alt):
    nb = copy.deepcopy(done.nb)
    page = "<img>" if alt is None else f'<svg role="img" aria-label="{alt}">'
    nb.cells[5].outputs[0].data["text/html"] = page
    assert len(list(findings.gate_pictures(nb))) == 1
    nb.cells[5].outputs[0].data = {"image/png": "", "text/plain": "x"}
    assert len(list(findings.gate_pictures(nb))) == 1
