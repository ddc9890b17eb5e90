"""What the questions of lessons 61, 61b and 61c call right and wrong is so in the library."""

from collections import Counter

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import operations, topologies
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.lessons import lesson61


def as_the_hints_say(samples, limit):
    total = 0
    for number, sample in enumerate(samples, start=1):
        total = max(0, total + sample - 0.5)
        if total > limit:
            return number
    return 0


def from_the_lowest_point(samples, limit):
    walk = np.concatenate([[0.0], np.cumsum(np.array(samples) - 0.5)])
    over = walk - np.minimum.accumulate(walk) > limit + 1e-12
    return np.argmax(over) if over.any() else 0


def never_again(samples, limit):
    total = 0
    for number, sample in enumerate(samples, start=1):
        total += sample - 0.5
        if total > limit:
            return number
    return 0


def whole_samples(samples, limit):
    total = 0
    for number, sample in enumerate(samples, start=1):
        total = max(0, total + sample)
        if total > limit:
            return number
    return 0


def one_by_one(samples, limit):
    for number, sample in enumerate(samples, start=1):
        if sample > limit:
            return number
    return 0


def whole_shift(samples, limit):
    total = 0
    for number, sample in enumerate(samples, start=1):
        total = max(0, total + sample - 1)
        if total > limit:
            return number
    return 0


def last_one(samples, limit):
    total, found = 0, 0
    for number, sample in enumerate(samples, start=1):
        total = max(0, total + sample - 0.5)
        if total > limit:
            found = number
    return found


MISTAKES = {
    "never begins again": never_again,
    "nothing taken off": whole_samples,
    "forgets the sum": one_by_one,
    "counted from 0": lambda samples, limit: max(0, as_the_hints_say(samples, limit) - 1),
    "goes on after the alarm": last_one,
    "healthy NICs raise an alarm": lambda s, limit: as_the_hints_say(s, limit) or len(s),
    "half of the deviation forgotten": whole_shift,
}


@pytest.mark.parametrize("answer", [as_the_hints_say, from_the_lowest_point])
def test_alarms_that_remember_are_right(answer):
    assert lesson61.alarm(answer) == (True, [], "")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_has_its_name_and_its_explanation(mistake):
    is_right, said, found, trace = lesson61.alarm(MISTAKES[mistake])
    assert not is_right and found == mistake
    assert len(said) == 2 and not all(case.right for case in trace.cases)


def test_an_unknown_mistake_shows_its_case_alone():
    is_right, said, found, _ = lesson61.alarm(lambda samples, limit: 3)
    assert (is_right, found, len(said)) == (False, "", 1)


def changes_its_list(samples, limit):
    samples.pop()
    return 0


@pytest.mark.parametrize(
    "nothing",
    [lambda s, limit: None, lambda s, limit: 2.5, lambda s, limit: 1 / 0, changes_its_list],
)
def test_no_answer_costs_no_try(nothing):
    with pytest.raises(Unanswered):
        lesson61.alarm(nothing)


def test_the_alarm_of_the_lesson_is_that_of_the_library():
    drawn = np.random.default_rng(3).normal(0.6, 1.0, (300, 20))
    cusum = operations.Cusum(shift=1, limit=6)
    for nic in range(20):
        assert as_the_hints_say(drawn[:, nic].tolist(), 6) == cusum.alarms(drawn)[nic]


@pytest.mark.parametrize(
    ("samples", "limit", "alarm"), [((1, -1, 2, 0, 2, 1), 2.2, 5), ((1, 1, -2, 2, 2), 1.4, 4)]
)
def test_the_worked_examples_come_out_as_the_lesson_says(samples, limit, alarm):
    assert as_the_hints_say(samples, limit) == alarm


def test_one_slow_nic_costs_what_the_lesson_says_on_paper():
    case = fl.case()
    slow = case.replace(nic_rate=case.nic_rate / 4)
    assert slow.t_step - case.t_step == pytest.approx(4 * case.t_dp - case.window, abs=1e-3)
    assert slow.t_step / case.t_step == pytest.approx(1.45, abs=0.005)


def test_single_samples_take_weeks_and_the_sum_minutes():
    step = fl.case().t_step
    week = operations.watch(0.01, 0.01, links=1024, step=step)
    assert week.threshold_delay * step / 86400 == pytest.approx(32.6, abs=0.5)
    assert week.delay * step == pytest.approx(154, abs=1)
    assert week.cusum.limit / (week.cusum.shift / 2) == pytest.approx(33, abs=1)


@pytest.mark.parametrize("server", range(0, 128, 9))
def test_the_server_is_named_in_seven_rounds_and_the_rail_by_a_slow_group(server):
    found = operations.find_slow_nic(operations.TimedServers(slow={(server, 5): 0.25}))
    assert (found.server, found.rail, len(found.rounds)) == (server, 5, 7)


def test_a_spare_on_another_leaf_adds_two_hops_in_each_ring():
    cluster = topologies.build("rail_optimised", expand=False)
    job = np.array(fl.collectives.rail_groups(cluster))[:, :120]
    elsewhere = operations.rerank(cluster, job, 77, spare=120)
    beside = operations.rerank(cluster, job, 100, spare=120)
    assert elsewhere.crossings_after - elsewhere.crossings_before == 2 * 8
    assert beside.crossings_after == beside.crossings_before == 4 * 8


# 61b -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_corrected_bits_tell_first_that_a_module_goes_bad(seed):
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    cause = operations.Cause("bad module", "leaf 0 -> spine 1", start=1800)
    seen = operations.observe(hall, [cause], samples=600, seed=seed)
    first = operations.alerts(seen).earliest
    assert first.rule.counter == "bit_errors" and first.rule.baseline
    assert first.links.tolist() == seen.bad().tolist()


def test_a_typical_link_is_found_by_its_own_baseline_before_any_common_limit():
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    cause = operations.Cause("bad module", "leaf 2 -> spine 0", start=1800)
    seen = operations.observe(hall, [cause], samples=660)
    link = int(seen.bad()[0])
    errors = seen.values["bit_errors"]
    own = operations.alerts(seen).earliest.first
    highest_healthy = np.delete(errors, link, axis=1).max()
    common = seen.time[operations.first_alarm(errors, highest_healthy, hold=3)[link]]
    lost = seen.time[np.flatnonzero(seen.values["symbol_errors"][:, link])[0]]
    assert own < common < lost
    assert (lost - own) / 3600 == pytest.approx(3.4, abs=0.05)
    assert seen.values["temperature"][:, link].max() < 60


def test_the_rule_of_one_day_loses_on_others():
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    slow = operations.Cause("slow NIC", "host 5", start=7200)
    days = [operations.observe(hall, [slow], samples=480, seed=seed) for seed in range(21)]

    def scores(hold, limit, days):
        rule = operations.AlertRule("pauses", limit, hold=hold)
        return [operations.tradeoff(day, rule, [limit]).scores[0] for day in days]

    (first,) = scores(6, 60, days[:1])
    assert first.false == 0 and first.delay == 150
    held, single = scores(6, 60, days[1:]), scores(1, 800, days[1:])
    assert sum(score.false for score in held) == 4
    assert np.mean([score.delay for score in held]) == pytest.approx(606, abs=1)
    assert not any(score.false or score.missed for score in single)
    assert np.mean([score.delay for score in single]) == pytest.approx(128, abs=1)


def test_the_rule_that_20_days_have_chosen_holds_on_20_others():
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    slow = operations.Cause("slow NIC", "host 5", start=7200)
    rule = operations.AlertRule("pauses", 800, hold=1)
    scores = []
    for seed in range(21, 41):
        day = operations.observe(hall, [slow], samples=480, seed=seed)
        scores.append(operations.tradeoff(day, rule, [800]).scores[0])
    assert all(score.found and score.false == 0 for score in scores)
    assert np.mean([score.delay for score in scores]) == pytest.approx(70.5, abs=0.05)


@pytest.mark.parametrize(
    ("lasts", "changes", "fails", "quiet", "worse"), [(10, 9, 7, 0, 1), (2, 18, 18, 0, 3)]
)
def test_routes_that_follow_counters_fail_when_partners_change(lasts, changes, fails, quiet, worse):
    small = topologies.build("dragonfly", p=1, a=3, h=1)
    traffic = fl.sdn.changing_traffic(small, 36, lasts=lasts)
    static = fl.sdn.shortest(small, equal=True)
    full = np.zeros((35, 2))
    new = np.zeros(35, dtype=bool)
    for step in range(1, 36):
        seen = fl.sdn.engineer(small, traffic[step - 1])
        for column, rules in enumerate([static, seen.forwarding]):
            load = fl.sdn.loads(small, rules, traffic[step])
            full[step - 1, column] = round(100 * fl.sdn.utilisation(small, load))
        new[step - 1] = np.any(traffic[step].target != traffic[step - 1].target)
    never, follow = full.T
    assert new.sum() == changes
    assert (follow > 100)[new].sum() == fails and (follow > 100)[~new].sum() == quiet
    assert (follow > never).sum() == worse


def test_a_threshold_for_marks_that_is_too_high_shows_as_pauses_of_one_switch():
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    cause = operations.incident()
    assert cause.kind == "ECN threshold too high"
    found = operations.alerts(operations.observe(hall, [cause], samples=200)).raised
    assert [alert.rule.counter for alert in found] == ["pauses"]
    assert found[0].links.size == 8


# 61c -----------------------------------------------------------------------------------------------


def test_each_switch_has_an_entry_for_each_host_and_not_for_each_switch():
    found = operations.sweep(topologies.build("fat_tree", k=4))
    tables = operations.forwarding_tables(found, engine="updn")
    there = tables.ports != 255
    hosts = found.lid[found.fabric.endpoint]
    assert np.count_nonzero(there[:, hosts]) == 16 * 20
    assert np.count_nonzero(there[:, 1:]) == 644 == 36 * 20 - 76


def test_what_is_missing_lies_between_spines_and_cores():
    found = operations.sweep(topologies.build("fat_tree", k=4))
    tables = operations.forwarding_tables(found, engine="updn")
    level = [found.fabric.name(int(node)).split()[0] for node in tables.switch]
    lid = found.lid[tables.switch]
    missing = Counter()
    for row, source in enumerate(level):
        for column, target in zip(lid, level, strict=True):
            missing[source, target] += int(tables.ports[row, column] == 255)
    assert +missing == {
        ("core", "core"): 12,
        ("spine", "spine"): 32,
        ("core", "spine"): 16,
        ("spine", "core"): 16,
    }


def test_without_which_place_a_manifest_lacks_something():
    whole = operations.example_manifest()
    network = "    k8s.v1.cni.cncf.io/networks: rail-0\n"
    broken = whole.replace(network, "").replace('add: ["IPC_LOCK"]', "add: []")
    assert len(operations.check_manifests(broken).findings) == 2


@pytest.mark.parametrize(
    ("name", "worst"),
    [
        ("telemetry", "silent"),
        ("parallel file system", "running"),
        ("scheduler", "new"),
        ("names and addresses", "new"),
    ],
)
def test_what_stops_without_a_service(name, worst):
    assert operations.fails_with(name).worst == worst


def test_two_against_two_is_undecided():
    lines = ["switch,role,mtu", "a,leaf,4096", "b,leaf,4096", "c,leaf,1500", "d,leaf,1500"]
    drift = operations.find_drift(operations.read_settings("\n".join(lines) + "\n"))
    assert not drift.deviations and len(drift.undecided) == 1
