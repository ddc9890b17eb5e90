"""Exercise 2: designs that differ get full marks whatever the key, and flawed ones are refused for their own reason."""

import copy
import functools
import re
from dataclasses import replace

import numpy as np
import pytest

from fabriclab import check, designs
from fabriclab.course import judges
from fabriclab.course.grading.graders import Own, grade_cells
from fabriclab.course.grading.limits import Limits
from fabriclab.course.grading.sandbox import Sandbox
from fabriclab.course.judges import PRACTICE, Unanswered, draw, find
from fabriclab.course.judges.exercise2 import choices, plans, sums
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.questions import asides, misconception
from student_files import student_version
from support import exercise2_answers as answers
from support.budgets import budget
from support.exercise2_answers import RIGHT, SETUP, SOLVED, WRONG
from support.exercise_books import (
    book_of,
    check_hints_of_functions,
    check_students_file_earns_nothing,
    run_in_text_mode,
)
from support.processor import processor_time
from support.sampling import sampled

GOOD = [(id, name) for id, all_of in RIGHT.items() for name in all_of]
BAD = [(id, name) for id, all_of in WRONG.items() for name in all_of]
KEYS = range(1, 11)
# Cells that stand above a question and that it needs, as the grader runs them if a name is missing.
ABOVE = {"ex2-a": [], "ex2-b": [], "ex2-c": [SOLVED["ex2-b"]], "ex2-d": [SOLVED["ex2-b"]]}


def functions(*codes):
    names = {}
    for code in (SETUP, *codes):
        exec(code, names)
    return names


@functools.cache
def planned(code):
    """Return the nights of a design, as somebody plans them who has the library."""
    nights = designs.plan_drains(designs.read(functions(code)["design"]()))

    def drains():
        return nights

    return drains


@functools.cache
def summed(code):
    """Return the sums for the first switch of a design with NICs, as the judge knows them."""
    design = designs.read(functions(code)["design"]())
    switch = int(design.network.port_switch.min())
    true = sums.of_switch(design, switch)
    found = {key: float(getattr(true, key)) for key in sums.KEYS} | {"switch": design.title(switch)}
    return lambda: dict(found)


def verdict(id, code, key=PRACTICE):
    question, names = find(id), functions(*ABOVE[id], code)
    if id == "ex2-b" and "sums" not in names:
        names["sums"] = lambda: summed(code)()
        names["sums"].__name__ = "sums"
    if id == "ex2-d" and "drains" not in names:
        names["drains"] = planned(code)
    ask = asker(question.functions, [names[name] for name in question.functions if name in names])
    return question.judge(ask, draw(str(key), id))


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))


@pytest.fixture(scope="module")
def box():
    with Sandbox() as box:
        yield box


@pytest.fixture(scope="module")
def brief():
    with Sandbox(Limits(cpu_s=1)) as box:  # for code that uses up all of it
        yield box


# Right and wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "name"), sampled(GOOD, 5))
def test_a_right_answer_gets_full_marks_with_any_key(id, name):
    for key in (PRACTICE, 1):
        found = verdict(id, RIGHT[id][name], key)
        assert (found.part, found.mistake, found.said) == (1, "", ()), (key, found)


@pytest.mark.parametrize(("id", "name"), sampled(BAD, 4))
def test_a_wrong_answer_loses_points_and_its_mistake_is_named(id, name):
    found = verdict(id, WRONG[id][name])
    assert found.part < 1 and found.mistake == name.partition("/")[0], found
    assert misconception(id, found.mistake) in found.said and len(found.said) >= 2
    assert not any(re.search(r"\{[a-z_.]+(:[^}]*)?\}", sentence) for sentence in found.said)


@pytest.mark.slow
@pytest.mark.parametrize(("id", "name"), [*GOOD, *BAD])
def test_no_key_changes_a_verdict(id, name):
    named = "" if name in RIGHT[id] else name.partition("/")[0]
    found = {key: verdict(id, (RIGHT[id] | WRONG[id])[name], key) for key in KEYS}
    assert {
        key: v for key, v in found.items() if (v.part == 1, v.mistake) != (not named, named)
    } == {}


def test_a_wrong_tier_is_seen_among_all_three():
    found = verdict("ex2-a", WRONG["ex2-a"]["a ring that leaves its only unit"])
    told = next(part for part in found.parts if part.name == "tiers")
    rate = r"[\d.]+ \wB/s"
    assert re.fullmatch(f"server {rate}, pod {rate}, cluster {rate}", told.wanted)
    assert told.got != told.wanted


def test_there_are_enough_of_both():
    assert len(RIGHT["ex2-b"]) >= 8 and RIGHT["ex2-b"].keys() == RIGHT["ex2-d"].keys()
    flawed = {name.partition("/")[0] for id in ("ex2-b", "ex2-c", "ex2-d") for name in WRONG[id]}
    assert len(flawed) >= 20
    assert flawed >= {
        "the same rate everywhere",
        "uplinks cost no ports",
        "redundancy is a second spine",
    }


def test_right_designs_are_different_networks():
    """Rails that are built in another way count once."""
    seen = set()
    for code in RIGHT["ex2-b"].values():
        design = designs.read(functions(code)["design"]())
        figures = designs.figures(design)
        seen.add((len(design.switches), figures["cables"], round(figures["cost"])))
    assert len(seen) >= 8


@pytest.mark.parametrize("place", sampled(range(12), 6))
def test_each_approach_of_the_library_gets_full_marks(place):
    sheets = [*designs.examples().values()]
    assert len(sheets) == 12
    code = answers.literal(sheets[place])
    for id, key in (("ex2-b", PRACTICE), ("ex2-d", 1)):
        found = verdict(id, code, key)
        assert (found.part, found.mistake, found.said) == (1, "", ()), (id, key, found)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(12))
def test_each_approach_gets_full_marks_with_the_other_key(place):
    code = answers.literal([*designs.examples().values()][place])
    for id, key in (("ex2-b", 1), ("ex2-d", PRACTICE)):
        found = verdict(id, code, key)
        assert (found.part, found.mistake, found.said) == (1, "", ()), (id, key, found)


def test_a_design_without_room_is_refused_for_the_prices_alone():
    found = [verdict("ex2-b", answers.NO_ROOM, key) for key in range(12)]
    refused = [one for one in found if one.part < 1]
    assert 0 < len(refused) < len(found)
    for one in refused:
        assert one.part == pytest.approx(0.8) and one.mistake == "prices taken as fixed"


def test_a_small_or_thin_network_earns_nothing_for_being_cheap():
    two_racks = answers.literal(judges.example("ex2-b"))
    assert verdict("ex2-b", two_racks).part == 0
    thin = verdict("ex2-b", answers.WRONG_B["bought for another workload/a thin torus"])
    assert thin.part == pytest.approx(0.6)


def test_a_thin_network_earns_nothing_for_what_a_failure_leaves_of_it():
    thin = verdict("ex2-d", answers.WRONG_B["bought for another workload"])
    assert thin.part == 0 and "demand" in thin.said[0] and "needs" in thin.said[0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"switch": "leaf 0"},
        {"switch": "spine 0", "experts": 1.0, "tenants": 1.0, "cables": 1.0},
        {"switch": "leaf 99", "experts": 1.0, "tenants": 1.0, "cables": 1.0},
        {"switch": 3, "experts": 1.0, "tenants": 1.0, "cables": 1.0},
        {"switch": "leaf 0", "experts": "many", "tenants": 1.0, "cables": 1.0},
        {"switch": "leaf 0", "experts": float("nan"), "tenants": -1.0, "cables": 10**400},
    ],
)
def test_sums_that_are_none_lose_their_points_and_nothing_else(value):
    code = SOLVED["ex2-b"] + f"\n\ndef sums():\n    return {value!r}\n".replace("nan", "np.nan")
    found = verdict("ex2-b", code)
    assert found.part == pytest.approx(0.8) and found.mistake == "" and found.said


def test_a_design_is_judged_before_its_sum_is_written():
    found = verdict("ex2-b", SOLVED["ex2-b"] + "\n\ndef sums():\n    raise NotImplementedError\n")
    assert found.part == pytest.approx(0.8) and "sums" in found.said[0]


@pytest.mark.parametrize("place", range(12))
def test_the_sum_is_that_of_the_links(place):
    """Where no other switch's traffic passes, the sum is what the links of the switch carry."""
    design = designs.read([*designs.examples().values()][place])
    switch = int(design.network.port_switch.min())
    true = sums.of_switch(design, switch)
    *_, experts, tenants = designs.workloads()
    (need,) = designs.demand(tenants)
    node = design.network.switch[switch]
    fabric = design.fabric
    up = (fabric.source == node) & ~np.isin(fabric.target, fabric.endpoint)
    carried = designs.loads(design, tenants).link[up].sum() / need.window
    exchanged = designs.loads(design, replace(experts, parameters=0.0)).link[up].sum()
    window = next(n.window for n in designs.demand(experts) if n.axis == "EP")
    if design.name in ("torus of leaves", "direct groups"):
        assert true.tenants < 0.95 * carried  # leaves there pass on traffic of others
    else:
        assert true.experts == pytest.approx(exchanged / window)
        assert true.tenants == pytest.approx(carried)
    assert true.cables == pytest.approx(fabric.capacity[up].sum())


@pytest.mark.parametrize(
    ("id", "code", "part"),
    [
        ("ex2-a", answers.WRONG_A["half of a layer"], 0.9),
        ("ex2-a", answers.WRONG_A["passing through counted twice"], 0.7),
        ("ex2-c", answers.WRONG_C["a dominated choice"], 0.7),
        ("ex2-c", answers.WRONG_C["figure in another unit"], 0.8),
        ("ex2-c", answers.WRONG_C["comparison the wrong way round"], 0.8),
        ("ex2-d", answers.WRONG_D["a switch left out"], 0.6),
    ],
)
def test_parts_of_a_question_count_as_the_text_states(id, code, part):
    assert verdict(id, code).part == pytest.approx(part)


def test_the_shares_are_those_of_the_text(root):
    text = "\n".join(cell.source for cell in book_of(root, 2).cells if cell.cell_type == "markdown")
    for id, shares in (("ex2-b", plans.BUILT), ("ex2-d", plans.KEPT)):
        rows = re.findall(r"\| (\d+) \|$", text, re.MULTILINE)
        for share in shares.values():
            assert f"{share * find(id).points:g}" in rows
        rest = plans.SUMS if id == "ex2-b" else 0
        assert sum(shares.values()) + rest == pytest.approx(1)
    assert sum(choices.SHARES.values()) == pytest.approx(1)


@pytest.mark.parametrize("id", ["ex2-b", "ex2-c", "ex2-d"])
def test_answers_of_nothing_earn_nothing(id):
    question = find(id)
    junk = (None, 0, "x/1", [1], {"a": 1}, True, "5 s", [[], None], {"switches": 3}, [["leaf 0"]])
    more = ({"family": "rail_optimised", "arguments": {"servers": 10**9}}, {"family": []}, [{}] * 3)
    for value in (*junk, *more):
        found = question.judge(lambda *call, value=value: copy.deepcopy(value), draw("junk", id))
        assert found.part == 0 and found.said, (id, value)


def test_the_same_key_gives_the_same_verdict():
    for id in WRONG:
        wrong = next(iter(WRONG[id].values()))
        assert verdict(id, wrong, "7") == verdict(id, wrong, "7")


# A choice is free, and true ------------------------------------------------------------------------------------------


def chosen(name):
    """Return the answer to (c) of somebody who has built one of the right designs, and compares it with others."""
    own = functions(RIGHT["ex2-b"][name])["design"]() | {"name": "mine"}
    mine = designs.figures(designs.read(own))
    others = {}
    for other, code in RIGHT["ex2-b"].items():
        sheet = functions(code)["design"]() | {"name": other}
        held = designs.figures(designs.read(sheet))
        if other != name and not (held["cost"] <= mine["cost"] and held["time"] <= mine["time"]):
            others[other] = (sheet, held)
        if len(others) == 2:
            break
    first, second = others
    points = [[others[o][1][axis] for axis in ("cost", "time")] for o in others]
    best = first if designs.front(np.array(points))[0] else second
    answer = {
        "name": "mine",
        "reasons": {"power": mine["power"], "left": mine["left"]},
        "next": best,
        "difference": {"time": mine["time"] - others[best][1]["time"]},
    }
    sheets = [own, others[first][0], others[second][0]]
    return (
        f"def design():\n    return {own!r}\n\n\ndef candidates():\n    return {sheets!r}\n\n\n"
        f"def choice():\n    return {answer!r}\n"
    )


@pytest.mark.parametrize("name", sampled(RIGHT["ex2-b"], 6))
def test_each_right_design_may_be_chosen(name):
    found = verdict("ex2-c", chosen(name))
    assert (found.part, found.mistake, found.said) == (1, "", ()), found


# In the walls of the grader ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", RIGHT)
def test_the_solution_gets_full_marks_behind_the_walls_and_without_them(id, box):
    for where in (box, Own()):
        cells = [SETUP, *ABOVE[id], SOLVED[id]]
        record, _ = grade_cells(where, "another", find(id), cells, "")
        assert (record["points"], record["said"]) == (find(id).points, []), record


def test_a_question_that_needs_the_design_is_graded_again_with_the_cells_above(box):
    for id in ("ex2-c", "ex2-d"):
        record, again = grade_cells(box, "another", find(id), [SETUP, SOLVED[id]], "")
        assert again and record["points"] < find(id).points


@pytest.mark.alone
@pytest.mark.parametrize("n_wrong", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("id", ["ex2-b", "ex2-c", "ex2-d"])
def test_judging_takes_less_than_the_limit(id, n_wrong):
    for code in (SOLVED[id], *list(WRONG[id].values())[:n_wrong]):
        begin = processor_time()
        verdict(id, code, "another")
        assert processor_time() - begin < budget(5)


@pytest.mark.parametrize(
    "line",
    [
        "while True: pass",
        "import os; os._exit(3)",
        "return {'family': 'rail_optimised', 'arguments': {'servers': 10**12}}",
        "return [design]",
        "return {'family': 'leaf_spine', 'arguments': {'hosts': 64}, 'servers': 1, 'plug': 'by rail'}",
        "return {'servers': 128, 'gpus': 8, 'switches': [{}] * 10**5, 'cables': []}",
        "import fabriclab",
    ],
)
def test_bad_designs_end_with_a_sentence(line, brief):
    code = f"def design():\n    {line}\n"
    record, _ = grade_cells(brief, PRACTICE, find("ex2-b"), [SETUP, code], "")
    assert record["points"] == 0 and record["said"] and record["trouble"] != "judge", record


# In a notebook -------------------------------------------------------------------------------------------------------


def test_a_check_names_the_mistake_the_measure_and_the_picture():
    names = functions(answers.WRONG_D["redundancy is a second spine"])
    shown = check("ex2-d", [names["drains"], names["design"]])
    assert shown.data["named"] == "redundancy is a second spine"
    assert (
        "leaf" in str(shown)
        and "32" in str(shown)
        and 'fl.live.design(design(), "attached")' in str(shown)
    )


def test_a_stub_is_told_apart(root):
    empty = student_version(book_of(root, 2))
    for q in judges.exercise(2):
        code = next("".join(cell["source"]) for cell in empty["cells"] if cell["id"] == q.id)
        with pytest.raises(Unanswered) as caught:
            verdict(q.id, code)
        assert caught.value.problem == "stub"


def test_a_case_that_is_named_can_be_run():
    for code in answers.WRONG_A.values():
        for name, i in verdict("ex2-a", code).failed:
            case = judges.practice("ex2-a")[name][i]
            assert functions(code)[name](*case) is not None


def test_every_question_has_three_hints_for_each_of_its_functions():
    check_hints_of_functions(judges.exercise(2))


def test_an_example_can_be_tried():
    assert len(functions(SOLVED["ex2-a"])["tiers"](judges.example("ex2-a"))) == 3
    assert designs.read(judges.example("ex2-b")).servers == 8
    assert list(designs.front(np.array(judges.example("ex2-c")))) == [True, True, False]


# Asked on the way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", asides())
def test_a_question_on_the_way_is_judged_and_not_graded(id, root):
    question = asides()[id]
    assert len(question.words.hints) == 3 and len(question.wrong) == 3 and question.row
    for letter, (_, mistake) in question.options({}).items():
        found = check(id, letter)
        assert found.data["right"] is (not mistake)
        assert misconception(id, mistake) in str(found)
    assert id not in judges.questions()
    asking = [c.id for c in book_of(root, 2).cells if f'fl.check("{id}")' in c.source]
    assert len(asking) == 1


def test_an_unknown_question_of_an_exercise_lists_those_on_the_way():
    with pytest.raises(ValueError, match="ex2-taper"):
        check("ex2-none")


# The notebook --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book(root):
    return book_of(root, 2)


def test_a_students_file_earns_nothing(book, box):
    check_students_file_earns_nothing(book, judges.exercise(2), SETUP, box)


def test_the_minutes_are_at_most_three_hours(book):
    first = book.cells[0].source
    assert "three hours" in first
    minutes = [int(n) for n in re.findall(r"\b(\d+)(?=,| and \d+ minutes| minutes)", first)]
    told = [int(n) for c in book.cells[1:] for n in re.findall(r"\*About (\d+) minutes", c.source)]
    assert told and set(told) <= set(minutes) and sum(told) + 10 <= 180


@pytest.mark.slow
@pytest.mark.alone
def test_the_notebook_runs(book, tmp_path, monkeypatch, root):
    monkeypatch.setenv("FABRICLAB_REVEAL", "1")  # what waits for a guess is shown without one
    done = run_in_text_mode(book, tmp_path, monkeypatch, root)
    shown = {cell.id: str(cell.outputs) for cell in done.cells if cell.cell_type == "code"}
    sheet = (root / "exercises" / "teacher" / "exercise_2.md").read_text()
    for said in ("32", "87.5", "2.91", "3.97"):
        assert f"**{said}" in sheet and said in shown["ex2-break-show"]
    assert "0.25" in shown["ex2-a-try"] and "dominated" in shown["ex2-c-try"]


def test_a_change_of_the_solution_that_is_not_there_is_an_error():
    with pytest.raises(AssertionError, match="does not hold"):
        answers.but("ex2-a", ("no such line", ""))
