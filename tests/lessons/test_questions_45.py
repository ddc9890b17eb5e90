"""What the questions of lessons 45, 45b and 45c call right and wrong is so in the library."""

import itertools

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import sdn
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.lessons import lesson45, lesson45b
from fabriclab.course.questions import find, questions
from fabriclab.formulas import evaluate

OLD, NEW = sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d")


def walks(order, old, new, look=lambda rules: True):
    """What the hints spell out: follow a packet from s after each change."""
    rules = dict(old)
    for switch in order:
        rules[switch] = new.get(switch)
        at = "s"
        for _ in range(len(rules)):
            at = rules.get(at) or at
        if at != "d":
            return False
    return True


def ends_in_a_loop(rules):
    at = "s"
    for _ in range(len(rules) + 1):
        if at == "d" or rules.get(at) is None:
            return False
        at = rules[at]
    return True


def forgets_black_holes(order, old, new):
    rules = dict(old)
    for switch in order:
        rules[switch] = new.get(switch)
        if ends_in_a_loop(rules):
            return False
    return True


def first_only(order, old, new):
    return walks(order[:1], old, new)


def keeps_old_rules(order, old, new):
    rules = {**old, **{switch: None for switch in new if switch not in old}}
    for switch in order:
        rules[switch] = new.get(switch, rules.get(switch))
        at = "s"
        for _ in range(len(rules)):
            at = rules.get(at) or at
        if at != "d":
            return False
    return True


def back_only(order, old, new):
    changes = [switch for switch in new if new[switch] != old.get(switch)]
    return list(order[: len(changes)]) == changes[::-1]


def walk_of(table):
    """Return the switches of a route from s on, also those that keep their rule."""
    found, at = [], "s"
    while at != "d":
        found.append(at)
        at = table[at]
    return found


def whole_route(order, old, new):
    return list(order) == walk_of(new)


def whole_route_back(order, old, new):
    return [switch for switch in order if switch in new] == walk_of(new)[::-1]


def ends_at_d(rules, at):
    for _ in range(len(rules)):
        at = rules.get(at) or at
    return at == "d"


def from_everywhere(order, old, new):
    rules = dict(old)
    for switch in order:
        rules[switch] = new.get(switch)
        if not all(ends_at_d(rules, at) for at in rules):
            return False
    return True


def from_the_changed_one(order, old, new):
    rules = dict(old)
    for switch in order:
        rules[switch] = new.get(switch)
        if not ends_at_d(rules, switch):
            return False
    return True


def calls_itself_for_ever(order, old, new):
    def arrives(rules, at):
        return at == "d" or arrives(rules, rules.get(at, "d"))

    return all(
        arrives({**old, **{x: new[x] for x in order[:k] if x in new}}, "s") for k in range(5)
    )


def spoils_its_arguments(order, old, new):
    right = walks(order, old, new)
    old.update(new)
    return right


def follows_for_ever(order, old, new):
    rules = dict(old)
    for switch in order:
        rules[switch] = new.get(switch, "d")
        at = "s"
        while at != "d":
            at = rules[at]
    return True


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (walks, ""),
        (lambda order, old, new: True, "two right routes mix well"),
        (lambda order, old, new: False, "nothing is safe"),
        (forgets_black_holes, "black holes forgotten"),
        (first_only, "first moment only"),
        (lambda *case: np.bool_(walks(*case)), ""),
        (keeps_old_rules, "old rules kept"),
        (back_only, "destination first only"),
        (whole_route, "source first"),
        (whole_route_back, "destination first only"),
        (from_everywhere, "loops off the way"),
        (from_the_changed_one, "loops off the way"),
    ],
)
def test_functions_on_orders_are_judged_and_mistakes_named(answer, mistake):
    is_right, _, found, *_ = lesson45.safety_of_an_order(answer)
    assert (is_right, found) == (not mistake, mistake)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *case: not walks(*case), "the opposite"),
        (lambda order, old, new: order[-1] == "s", "not enough that s changes last"),
    ],
)
def test_mistakes_without_a_misconception_get_a_sentence(answer, said):
    is_right, sentences, mistake, *_ = lesson45.safety_of_an_order(answer)
    assert (is_right, mistake) == (False, "")
    assert said in sentences[-1]


@pytest.mark.parametrize("answer", [lambda *_: None, lambda *_: "yes"])
def test_a_function_that_says_neither_true_nor_false_is_no_answer(answer):
    with pytest.raises(Unanswered, match="True or False"):
        lesson45.safety_of_an_order(answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (spoils_its_arguments, "Work on a copy"),
        (follows_for_ever, "goes round a loop"),
        (calls_itself_for_ever, "goes round a loop"),
        (lambda order, old, new: new[order[0]] == new[order[-1]], "KeyError"),
        (lambda order, old, new: {}[1], "stopped with KeyError: 1"),
        (lambda order, old, new: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_function_that_spoils_its_arguments_or_never_ends_is_told_so(answer, said):
    with pytest.raises(Unanswered, match=said):
        lesson45.safety_of_an_order(answer)


def test_the_orders_of_the_choice_are_right_and_wrong_by_the_library():
    question = questions()["45-order"]
    old, new = sdn.rules("s-a-b-c-d"), sdn.rules("s-c-a-b-d")
    assert sdn.is_safe(question.right.split(" > "), old, new)
    options = [wrong.option for wrong in question.wrong]
    assert len(options) == 3
    for option in options:
        assert not sdn.is_safe(option.split(" > "), old, new)


def test_a_packet_on_its_way_meets_a_loop_that_new_ones_miss():
    assert sdn.is_safe(["s", "b", "a", "c"], OLD, NEW)
    table = sdn.mixed(OLD, NEW, ["s", "b"])  # a packet that left s before is at a
    assert table["a"] == ("b",) and table["b"] == ("a",)
    for order in (["a", "b", "c", "s"], ["a", "s", "b", "c"]):
        for k in range(5):
            assert not sdn.faults(sdn.mixed(OLD, NEW, order[:k]), ["s"], "d")


def test_no_order_suits_two_destinations():
    safe = []
    for old, new in (("s-a-b-d", "s-b-a-d"), ("s-b-a-e", "s-a-b-e")):
        safe.append(set(sdn.all_orders(sdn.rules(old), sdn.rules(new)).safe))
    assert all(safe) and not safe[0] & safe[1]
    assert ("s", "b", "a") not in safe[0]


def test_the_key_of_what_a_dead_spine_costs_is_what_the_model_loses():
    fabric = fl.topologies.build("xgft", m=(4, 2), w=(1, 4), rate="50 GB/s")
    usual = sdn.shortest(fabric)
    flows = fl.core.Flows.make(fabric.endpoint, np.roll(fabric.endpoint, 4), 1e9)
    spine = fabric.nodes("spine")[0]
    healed = fabric.without(nodes=[spine])
    ends = np.flatnonzero((fabric.source == spine) | (fabric.target == spine))
    gone = sdn.outage(
        fabric,
        flows,
        sdn.routes(fabric, usual, flows),
        sdn.routes(healed, sdn.shortest(healed), flows),
        fl.core.Changes("1 ms", ends, 0),
        "3 ms",
    )
    assert gone.total == pytest.approx(8 * 50e9 / 4 * 2e-3)


def test_weights_are_judged_and_mistakes_named():
    assert lesson45b.weights_of_tenants(lesson45b.weights)[0]
    assert lesson45b.weights_of_tenants(
        lambda paid, flows: [6 * w for w in lesson45b.weights(paid, flows)]
    )[0]
    for name, rule in lesson45b.WEIGHT_MISTAKES.items():
        is_right, _, mistake, *_ = lesson45b.weights_of_tenants(rule)
        assert (is_right, mistake) == (False, name)


@pytest.mark.parametrize(
    "answer", [lambda *_: None, lambda paid, flows: [1.0], lambda paid, flows: [0] * len(paid)]
)
def test_weights_that_are_none_are_no_answer(answer):
    with pytest.raises(Unanswered, match=r"list of \d numbers|above 0"):
        lesson45b.weights_of_tenants(answer)


def test_a_tenant_with_eight_flows_gets_eight_ninths():
    for a, b in itertools.product((8, 16), (1, 2, 4)):
        part = lesson45b.shares([1.0, 1.0], [a, b])
        assert part[0] == pytest.approx(a / (a + b))


# lesson 45c ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("hosts", "radix", "k", "s"), [(32, 16, 4, 2), (64, 16, 2, 4)])
def test_the_fullest_cable_after_a_break_is_as_full_as_the_question_says(hosts, radix, k, s):
    fabric = fl.topologies.build("leaf_spine", hosts=hosts, radix=radix)
    partner = np.roll(fabric.endpoint, radix // 2)
    demands = fl.core.Flows.make(fabric.endpoint, partner, fabric.capacity.max())
    leaf, spine = fabric.nodes("leaf")[0], fabric.nodes("spine")[0]
    between = np.flatnonzero((fabric.source == leaf) & (fabric.target == spine))
    assert (between.size, fabric.nodes("spine").size) == (k, s)
    hurt = fabric.without(cables=[between[0] // 2])
    load = sdn.loads(hurt, sdn.shortest(hurt, equal=True), demands)
    question = find("45c-fullest")
    assert sdn.utilisation(hurt, load) == pytest.approx(
        evaluate(question.formula, {"k": k, "s": s})
    )
    best = sdn.engineer(hurt, demands).utilisation
    assert best == pytest.approx(evaluate(question.wrong[0].formula, {"k": k, "s": s}))


@pytest.mark.slow
def test_new_rules_every_2_steps_are_best_on_seven_other_draws():
    small = fl.topologies.build("dragonfly", p=1, a=3, h=1)
    less = []
    for seed in range(1, 8):
        traffic = sdn.changing_traffic(small, 40, lasts=10, seed=seed)
        found = sdn.adapt(small, traffic, cost=0.1)
        left = dict(zip(found.every, found.net, strict=True))
        assert found.best == 2 == max(left, key=left.__getitem__)
        less.append(100 * (left[2] - left[5]))
        assert sdn.adapt(small, traffic, cost=0.02).best == 1
    assert min(less) == pytest.approx(1.4, abs=0.05)
    assert max(less) == pytest.approx(9, abs=0.5)


@pytest.mark.parametrize(("a", "b", "c"), [(90, 1, 8), (80, 1, 18)])
def test_the_best_interval_of_the_question_is_the_best_of_all(a, b, c):
    left = {k: a - b * (k - 1) / 2 - c / k for k in range(1, 50)}
    best = max(left, key=left.__getitem__)
    assert best == evaluate(find("45c-often").formula, {"a": a, "b": b, "c": c})
    assert sorted(left.values())[-2] < left[best]
