"""What the questions of lessons 63 and 63b call right and wrong is so in the library."""

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import economics
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.judges.lessons import lesson63
from fabriclab.course.questions import find, misconception, questions

CASE = fl.case()
HOUR = 3600.0


# lesson 63 ----------------------------------------------------------------------------------------
def right_hour(price, hours, watts, tariff, used, goodput):
    energy = 1e-3 * watts * hours * tariff  # of the whole life
    return (price + energy) / (hours * used * goodput)


MISTAKES = {
    "idle hours for nothing": lambda p, h, w, t, u, g: p / h + w / 1000 * t,
    "multiplied by the shares": lambda p, h, w, t, u, g: (p / h + w / 1000 * t) * u * g,
    "watts for kilowatts": lambda p, h, w, t, u, g: (p / h + w * t) / (u * g),
    "electricity forgotten": lambda p, h, w, t, u, g: p / h / (u * g),
    "electricity for useful hours alone": lambda p, h, w, t, u, g: p / h / u / g + w / 1000 * t,
    "no electricity when idle": lambda p, h, w, t, u, g: (p / h + w / 1000 * t * u) / (u * g),
    "shares not multiplied": lambda p, h, w, t, u, g: (p / h + w / 1000 * t) / (u + g),
}


def test_an_hour_of_training_is_right_however_it_is_written():
    assert lesson63.cost_of_an_hour(right_hour) == (True, [], "")
    assert lesson63.cost_of_an_hour(lambda *a: np.float64(right_hour(*a))) == (True, [], "")
    assert lesson63.cost_of_an_hour(lambda *a: np.array(right_hour(*a))) == (True, [], "")


def test_an_hour_in_whole_cents_is_right_and_one_in_tenths_of_a_dollar_is_not():
    assert lesson63.cost_of_an_hour(lambda *a: round(right_hour(*a), 2)) == (True, [], "")
    assert lesson63.cost_of_an_hour(lambda *a: round(right_hour(*a), 1))[0] is False


def test_the_function_of_the_lesson_is_that_of_the_library():
    hour = economics.gpu_hour(CASE, used=0.7, goodput=0.9)
    prices = economics.price_ranges(CASE)
    watts = sum(hour.watts.values()) * prices["pue"].middle
    found = right_hour(
        CASE.price_total / CASE.gpus,
        CASE.lifetime / HOUR,
        watts,
        prices["electricity"].middle,
        0.7,
        0.9,
    )
    assert found == pytest.approx(hour.training)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_has_its_name(mistake):
    is_right, said, found, trace = lesson63.cost_of_an_hour(MISTAKES[mistake])
    assert (is_right, found) == (False, mistake)
    assert len(said) == 2 and len(trace.cases) == len(lesson63.cases())


def test_one_share_alone_and_other_sums_of_shares_have_the_name_too():
    for answer, mistake in (
        (lambda p, h, w, t, u, g: (p / h + w / 1000 * t) / u, "idle hours for nothing"),
        (lambda p, h, w, t, u, g: (p / h + w / 1000 * t) / g, "idle hours for nothing"),
        (lambda p, h, w, t, u, g: (p / h + w / 1000 * t) / ((u + g) / 2), "shares not multiplied"),
        (lambda p, h, w, t, u, g: (p / h + w / 1000 * t) / (u + g - 1), "shares not multiplied"),
    ):
        assert lesson63.cost_of_an_hour(answer)[2] == mistake


def test_a_mistake_without_a_name_is_wrong_and_nothing_is_no_answer():
    is_right, said, mistake, _ = lesson63.cost_of_an_hour(lambda *a: 2 * right_hour(*a))
    assert (is_right, mistake, len(said)) == (False, "", 1)
    for answer in (lambda *a: None, lambda *a: True, lambda *a: float("nan")):
        with pytest.raises(Unanswered):
            lesson63.cost_of_an_hour(answer)


def test_mistakes_of_the_file_and_of_the_judge_have_the_same_names():
    named = {wrong.mistake for wrong in questions()["63-write-hour"].wrong}
    assert named == {name for name, _ in lesson63.HOUR_MISTAKES}


def test_the_fabric_of_the_questions_is_that_of_the_case():
    asked = find("63-optics").key({"n": 48, "s": 36e3, "h": 128, "c": 20480})
    assert asked == pytest.approx(CASE.price_cables / CASE.price_fabric)
    watts = find("63-watts").key({"n": 48, "w": 747, "m": 1536, "o": 17, "g": 1024})
    hour = economics.gpu_hour(CASE)
    # The modules of NICs are in the case's power of optics, and those of the question are the switches' alone.
    assert watts == pytest.approx(hour.watts["switches"] + 1536 * 17 / 1024)


def test_a_free_fabric_breaks_even_where_the_library_says():
    share = CASE.price_fabric / CASE.price_total
    offer = economics.half_for_nothing(CASE)
    assert find("63-free").key({"f": share}) == pytest.approx(offer.breaks_even)
    assert not offer.pays
    assert offer.cost_after / offer.cost_before == pytest.approx(0.914 * 1.146, rel=1e-3)


def test_a_switch_moves_an_hour_less_than_what_the_wrong_answers_name():
    apart = {swing.name: swing.width for swing in economics.hour_swings(CASE)}
    assert [*apart][:3] == ["lifetime", "used", "server"]
    for other in ("server", "used", "electricity"):  # the wrong answers
        assert apart["switch"] < 0.25 * apart[other]
    reach = economics.price_ranges(CASE)
    width = {
        name: reach[name].high / reach[name].low for name in ("switch", "server", "electricity")
    }
    assert width["switch"] == pytest.approx(4.4, abs=0.05)
    assert width["server"] == pytest.approx(1.5, abs=0.05)
    assert width["electricity"] == pytest.approx(4.5)


def test_the_gain_that_repays_a_premium_leaves_the_cost_of_work_as_it_is():
    premium = 0.08
    needed = find("63-mfu").key({"p": premium, "m": 0.40})
    before = CASE.price_total / 0.40
    assert CASE.price_total * (1 + premium) / needed == pytest.approx(before)
    dearer = CASE.price_fabric + premium * CASE.price_total
    assert economics.worth(CASE, needed / 0.40) == pytest.approx(dearer)


def test_the_claim_is_true_where_the_lesson_says():
    claim = economics.claim(CASE)
    slow = CASE.replace(nic_rate=claim.slow_rate)
    assert slow.t_step / CASE.t_step == pytest.approx(90 / 40)
    assert slow.mfu * 90 / 40 == pytest.approx(CASE.mfu)
    rented = CASE.replace(nic_rate=400e9 / 8 / 8)  # AWS p4d: 400 Gb/s for eight GPUs
    assert rented.t_step / CASE.t_step == pytest.approx(2.06, abs=0.005)


def test_a_number_alone_is_per_cent_or_a_part_where_per_cent_are_asked():
    judge = JUDGES["number"]
    for id, percent, part in (("63-mfu", "43.2", "0.432"), ("63-free", 9.4, 0.094)):
        question = find(id)
        for answer in (percent, f"{percent} %", part):
            assert judge(question, answer, {}).right
        assert judge(question, 8.6 if id == "63-free" else "43.5", {}).right is False
    assert judge(find("63b-team"), "0.548", {}).right
    assert judge(find("63-mfu"), "43.5", {}).mistake == "premium inverted"


def test_no_misconception_has_a_gap():
    for id, question in questions().items():
        if id.startswith("63"):
            for wrong in question.wrong:
                assert "{" not in misconception(id, wrong.mistake), (id, wrong.mistake)


# lesson 63b ---------------------------------------------------------------------------------------
def test_the_needed_rate_is_that_of_the_table():
    first = economics.workloads(CASE)[0]
    assert find("63b-need").key({"b": first.size, "t": first.time}) == pytest.approx(first.need)


def test_the_slide_is_wrong_about_two_kinds_of_work_and_right_about_three():
    needs = {row.workload.name: row.need for row in economics.assign(economics.workloads(CASE))}
    above = [name for name, need in needs.items() if need > 12.5e9]
    assert len(above) == 3  # pre-training is right on the slide
    assert any("all weights" in name for name in above) and any("experts" in name for name in above)


def test_the_answer_is_nearly_equal_and_a_price_that_sources_print_turns_it():
    found = economics.decide(CASE)
    assert (found.answer, found.runner_up) == ("infiniband", "lossless")
    more = found.costs["lossless"] / found.costs["infiniband"] - 1
    assert more == pytest.approx(0.011, abs=5e-4)
    (turn,) = found.turns("price_infiniband")
    assert turn.within and turn.value == pytest.approx(1.07, abs=5e-3)
    assert found.ranges["price_infiniband"].high == pytest.approx(1.15, abs=1e-2)
    (crossing,) = economics.decide(CASE, tolerance=0).turns("price_infiniband")
    assert crossing.within and crossing.value == pytest.approx(1.13, abs=5e-3)
    assert found.costs["tcp"] / found.costs["infiniband"] > 2


def test_lost_hours_are_those_of_the_decision():
    lost = find("63b-team").key({"k": 6, "h": 8})
    team = economics.team("Ethernet")
    assert economics.score(team, "infiniband").lacking == 6
    with_team = economics.decide(CASE, team, hours_per_level=8)
    ratio = economics.decide(CASE).costs["infiniband"] / with_team.costs["infiniband"]
    assert 1 - ratio == pytest.approx(lost)


def test_systems_without_infiniband_are_named():
    found = economics.decide(CASE).counter_examples
    assert {"Alibaba HPN", "TPU v4", "Frontier"} <= {other.system for other in found}
