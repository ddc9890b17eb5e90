"""What the questions of lesson 01 call right and wrong is so in the practice cases and in the library."""

from collections import Counter

import pytest

import fabriclab as fl
from fabriclab.core import bus_factor
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson01
from fabriclab.course.questions import find
from support.nccl_output import table


def files_of(name):
    return fl.diagnosis.practice(name).files


def digest_of(name):
    return fl.diagnosis.digest(files_of(name)[0])


# The function -----------------------------------------------------------------------------------------


def by_sets(pairs, limit):
    slow = [{a, b} for a, b, rate in pairs if rate < limit]
    if not slow:
        return ""
    left = set.intersection(*slow)
    for a, b, rate in pairs:
        if rate >= limit:
            left -= {a, b}
    return left.pop() if len(left) == 1 else ""


def by_counting(pairs, limit):
    in_slow = Counter(n for a, b, rate in pairs if rate < limit for n in (a, b))
    in_all = Counter(n for a, b, _ in pairs for n in (a, b))
    slow = sum(rate < limit for *_, rate in pairs)
    named = [n for n in in_all if slow and in_slow[n] == in_all[n] == slow]
    return named[0] if len(named) == 1 else ""


def by_each_node(pairs, limit):
    names = {n for a, b, _ in pairs for n in (a, b)}
    guilty = []
    for name in sorted(names):
        agrees = [(name in (a, b)) == (rate < limit) for a, b, rate in pairs]
        if all(agrees) and any(rate < limit for *_, rate in pairs):
            guilty.append(name)
    return guilty[0] if len(guilty) == 1 else ""


@pytest.mark.parametrize("rule", [by_sets, by_counting, by_each_node, lesson01.slow_node])
def test_a_right_function_is_right_however_it_is_written(rule):
    assert check("01-write-slow-node", rule).data["right"]


def test_the_cases_are_what_their_names_say():
    right = [lesson01.slow_node(case.pairs, case.limit) for case in lesson01.cases()]
    assert right == ["pod2-n06", "", "n3", "", "", "", "n4", ""]
    assert [len(case.pairs) for case in lesson01.cases()] == [28, 21, 6, 15, 15, 3, 6, 0]


def test_a_function_that_changes_its_list_changes_no_other_case():
    def emptied(pairs, limit):
        found = by_sets(pairs, limit)
        pairs.clear()
        return found

    assert check("01-write-slow-node", emptied).data["right"]


def test_a_set_in_place_of_a_name_is_not_counted():
    shown = check("01-write-slow-node", lambda pairs, limit: {"pod2-n06"})
    assert not shown.data["counted"] and "must return a text" in str(shown)


def test_any_limit_in_the_gap_names_the_same_node():
    real = lesson01.cases()[0].pairs
    slow = max(rate for *_, rate in real if rate < 60)
    fast = min(rate for *_, rate in real if rate > 60)
    assert slow == pytest.approx(49.27) and fast == pytest.approx(86.42)
    names = {lesson01.slow_node(real, limit) for limit in (slow + 0.01, 60, 80, fast)}
    assert names == {"pod2-n06"} and lesson01.slow_node(real, 88) == ""


# The sections -----------------------------------------------------------------------------------------


def test_the_first_case_is_a_setting_and_its_channels_are_witnesses():
    log, table = files_of("c48")
    found = digest_of("c48")
    assert [said.words for said in found.of("told")] == [find("01-line").right]
    assert found.of("warned") == () and len(found.lines) in (168, 169)
    ways = {said.words.partition(" via ")[2]: said.times for said in found.of("channels")}
    assert ways["SHM/direct/direct"] == 32
    others = [wrong.option for wrong in find("01-line").wrong]
    said = " ".join(each.words for each in found.said)
    assert all(option in said for option in others)
    seen = fl.doctor(log, table)
    assert seen.suspects[0].cause_id == "p2p_disabled"
    assert seen.comparisons[0].gain == pytest.approx(14.1, abs=0.3)


@pytest.mark.parametrize("words", [["set by"], ["set by", "via SHM"]])
def test_without_its_best_lines_the_doctor_goes_by_what_is_left(words):
    log, table = files_of("c48")
    kept = [line for line in log.read_text().splitlines() if not any(w in line for w in words)]
    whole, left = fl.doctor(log, table), fl.doctor(table, log="\n".join(kept) + "\n")
    assert left.suspects[0].cause_id == "p2p_disabled"
    assert left.suspects[0].sure <= whole.suspects[0].sure
    if "via SHM" in words:
        assert left.suspects[0].sure < whole.suspects[0].sure


def test_the_second_case_warns_and_is_as_fast_as_its_nics():
    log, table = files_of("c17")
    assert [said.times for said in digest_of("c17").of("warned")] == [2]
    found = fl.doctor(log, table)
    assert found.suspects[0].cause_id == "none_healthy"
    each = found.comparisons[0].table.peak / 8 * 8  # eight NICs, eight bits
    assert each == pytest.approx(359, abs=1) and 0.89 < each / 400 < 0.91
    key = find("01-nic-rate").key({"busbw": 184e9, "nics": 4})
    assert key * 8 / 1e9 == pytest.approx(368)


def test_the_doctor_is_not_sure_where_it_has_figures_alone():
    found = fl.doctor(*files_of("c04"))
    assert found.suspects[0].sure < 0.65
    assert found.suspects[0].gain == pytest.approx(53, abs=1)
    assert len(found.suspects) > 1 and not found.case.log.messages


def test_bus_bandwidth_is_computed_as_nccl_tests_does():
    key = find("01-busbw").key({"size": 8e9, "n": 16, "t": 0.1})
    assert key == pytest.approx(bus_factor("all_reduce", 16) * 8e9 / 0.1) == pytest.approx(150e9)


def test_the_five_runs_lie_where_the_question_says():
    estimate = fl.estimate(fl.system(gpu="A100", servers=1), "all_reduce", "4 GiB")
    sent = estimate.busbw * estimate.time / 1e9
    low, high = sent / estimate.high, sent / estimate.low
    assert (round(low), round(high)) == (194, 237)
    assert 150 < 0.85 * low < 180 < low < 200 < estimate.busbw / 1e9 < high < 240
    assert "four in five" in estimate.note or "four in five" in str(estimate)


@pytest.mark.parametrize(
    ("rate", "healthy"), [(16, False), (150, False), (180, None), (200, True), (240, True)]
)
def test_the_doctor_calls_slow_what_the_question_does(rate, healthy):
    page = table(rate, "NVIDIA A100-SXM4-80GB", ["node-a"], 8)
    found = fl.doctor(bench=page, system=fl.system(gpu="A100", servers=1))
    assert found.comparisons[0].healthy is healthy
    assert (str(rate) in find("01-slow").right.split(" and ")) == (healthy is False)


def test_a_script_that_counts_twice_is_noticed_when_the_ranks_are_told():
    bench = next(file for file in files_of("c15") if file.name == "bench.csv").read_text()
    told = fl.doctor(bench="# ranks: 2\n" + bench)
    assert told.suspects[0].cause_id == "misread_busbw"
    assert 536870912 / 46.714e-3 / 1e9 == pytest.approx(11.49, abs=0.01)


@pytest.mark.parametrize("name", ["c23", "c01", "c18", "c28", "c47"])
def test_the_cases_to_practise_on_have_a_log_first(name):
    assert len(digest_of(name).said) > 4
    case = fl.diagnosis.practice(name)
    assert fl.doctor(*case.files).suspects[0].cause_id == case.cause_id
