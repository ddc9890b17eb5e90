"""What the questions of lesson 91 call right is right by the library, and each known mistake is named."""

import json
import math

import numpy as np
import pytest

import fabriclab as fl
from fabriclab.course.assessment import halls, ladder
from fabriclab.course.judges.lessons import lesson91
from fabriclab.course.questions import find
from support.lesson_runs import FILES
from support.prose import states

LESSON = json.loads(FILES["91_assessment"].read_text("utf-8"))
CELLS = {cell["id"]: "".join(cell["source"]) for cell in LESSON["cells"]}


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")


def test_at_the_border_two_tests_agree_like_coins():
    agree = {}
    for share in (0.65, 0.8, 0.9):
        holds = ladder.hold_chance(share)
        agree[share] = 100 * (holds**2 + (1 - holds) ** 2)
    assert agree[0.65] == pytest.approx(52.0, abs=0.05)
    assert agree[0.8] == pytest.approx(93, abs=0.5) and agree[0.9] > 99
    states(CELLS["91-border-why"], "52 of 100", "93 of 100")


def test_the_taper_saves_little_and_costs_more_where_the_order_is_lost():
    case = fl.case()
    each = case.price_cables / (2 * case.gpus)
    bills = {}
    steps = {}
    for taper in (1, 3):
        fabric = fl.topologies.build(
            "rail_optimised", servers=128, radix=64, oversubscription=taper
        )
        cables, _ = fl.metrics.cables(fabric)["fibre"]
        other_parts = case.price_total - case.price_fabric
        switches = fl.metrics.switches(fabric)
        bills[taper] = other_parts + switches * case.price_switch + cables * each
        rings = fl.collectives.rail_groups(fabric)
        for order in (rings, fl.collectives.shuffled(rings, seed=1)):
            run = fl.simulate(
                "all_reduce", "ring", fabric, case.dp_gradients, placement=order, method="spray"
            )
            rate = case.nic_rate * case.t_dp / run.time
            steps.setdefault(taper, []).append((run.time, case.replace(nic_rate=rate).t_step))
    assert bills[1] == pytest.approx(case.price_total)  # the prices of the case
    assert steps[1][0] == pytest.approx(steps[3][0])
    saved = 1 - bills[3] / bills[1]
    dearer = bills[3] * steps[3][1][1] / (bills[1] * steps[1][0][1]) - 1
    told = CELLS["91-grow-ask"]
    states(told, f"{100 * saved:.2f} %", f"{100 * dearer:.1f} %", f"{steps[3][1][0]:.2f} s")
    states(told, f"{100 * case.price_fabric / case.price_total:.2f} %")


def judged(id, answer):
    """Return whether an answer is right, and the mistake that was named."""
    shown = fl.check(id, answer)
    return shown.data["right"], shown.data.get("named", "")


def test_collectives_are_told_apart_and_mistakes_named():
    right = lesson91.COLLECTIVES
    assert judged("91-match", lambda work: right[work].replace("_", "-"))[0]
    for change, mistake in (
        ({"experts": "all_reduce"}, "sums where nothing is added"),
        ({"gather": "reduce_scatter"}, "halves mixed up"),
        ({"stages": "broadcast"}, "a pair taken for a group"),
    ):
        answers = dict(right) | change
        assert lesson91.collective_of(answers.get)[2] == mistake
    assert fl.check("91-match", lambda work: None).data["counted"] is False


def test_the_collectives_are_those_that_the_library_knows():
    for collective in set(lesson91.COLLECTIVES.values()):
        assert fl.core.bus_factor(collective, 8) > 0


def test_calls_need_what_comes_before():
    answer = lambda calls, needs: lesson91.first_fault(calls)  # noqa: E731
    assert judged("91-write-first", answer)[0]
    for rule, mistake in (
        (lesson91._last_fault, "last fault"),
        (lesson91._from_one, "counted from 1"),
        (lesson91._out_of_order, "one order taken for the only one"),
    ):
        assert lesson91.first_call(lambda calls, needs, rule=rule: rule(calls))[2] == mistake


def test_the_needs_of_the_cell_are_those_of_the_judge():
    names = {}
    exec(CELLS["91-order"].split("def first_fault")[0], names)
    assert {call: tuple(needed) for call, needed in names["needs"].items()} == lesson91.NEEDS
    assert lesson91.first_fault(names["program"]) == names["program"].index("rtr")


def test_a_sweep_is_fitted_by_points_and_not_by_two_numbers():
    assert judged("91-write-fit", lesson91.between_points)[0]
    for mistake, rule in lesson91.FIT_MISTAKES.items():
        right, _, named, *_ = lesson91.fit_of_sweep(rule)
        assert (right, named) == (False, mistake)
    assert f"{lesson91.MOST_ERROR:.0%}".replace("%", " %") in find("91-write-fit").words.prompt
    short = fl.check("91-write-fit", lambda sizes, times, wanted: times[:1])
    assert short.data["counted"] is False


def test_the_plan_counts_the_switches_that_the_library_builds():
    assert judged("91-write-plan", lesson91.switches)[0]
    for gpus, radix in ((1000, 64), (1024, 64), (2048, 64), (128, 16)):
        fabric = fl.topologies.build("leaf_spine", hosts=gpus, radix=radix)
        assert fl.metrics.switches(fabric) == lesson91.switches(gpus, radix)
    for k in (4, 8, 16):
        fabric = fl.topologies.build("fat_tree", k=k)
        assert fl.metrics.switches(fabric) == lesson91.switches(k**3 // 4, k)
    with pytest.raises(ValueError):
        fl.topologies.build("leaf_spine", hosts=2049, radix=64)
    for rule, mistake in (
        (lesson91._two_tiers, "two tiers for ever"),
        (lesson91._all_down, "no port up"),
        (lesson91._without_middle, "third tier as large as the core"),
    ):
        assert lesson91.switches_of_plan(rule)[2] == mistake
    states(CELLS["91-end"], "2,048 GPUs", "2,049 GPUs")
    assert lesson91.switches(10240, 64) * 64 == 5 * 10240
    assert lesson91.switches(2048, 64) * 64 == 3 * 2048


def test_crossed_cables_are_found_in_every_hall():
    assert judged("91-write-crossed", lesson91.crossed)[0]
    for mistake, rule in lesson91._CROSSED_MISTAKES.items():
        assert lesson91.crossed_nics(rule)[2] == mistake
    assert fl.check("91-write-crossed", lambda cables, rails: 3).data["counted"] is False
    for seed in range(20):
        hall = halls.audit(seed)
        pairs = [(row["NIC"], row["leaf"]) for row in hall.cables]
        found = lesson91.crossed(pairs, hall.rail_of_leaf())
        assert found == [hall.planted["rail"]] if "rail" in hall.planted else found == []


def test_the_window_of_hpcc_is_that_of_its_formula():
    """W = W0 / (U / eta), with U = queue / (B T) + sent / B."""
    names = {"fl": _Silent(), "display": lambda *shown: None}
    exec(CELLS["91-hpcc"], names)
    assert names["after"] == pytest.approx(0.95 * 500e3 / 1.2)


class _Silent:
    """Stands in for the library where a cell shows something."""

    def __getattr__(self, name):
        return lambda *arguments, **named: None


def test_nine_of_twenty_are_no_accident():
    chance = sum(math.comb(20, k) * 0.8**k * 0.2 ** (20 - k) for k in range(10))
    assert chance < 1e-3  # what 91-wider says


def test_a_pair_on_a_mesh_has_a_seventh():
    server = fl.topologies.build("mi300x")
    links = (server.source == server.nodes("gpu")[0]) & np.isin(server.target, server.nodes("gpu"))
    assert links.sum() == 7
    switched = fl.topologies.build("dgx_h100")
    own = (switched.source == switched.nodes("gpu")[0]) & np.isin(
        switched.target, switched.nodes("nvswitch")
    )
    assert switched.capacity[own].sum() == pytest.approx(450e9)
