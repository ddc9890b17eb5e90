"""The assessment: questions that can be told apart, keys by the library, a level that two tests agree on, a class."""

import html
import json
import math
import random
import re
import time

import numpy as np
import pytest

import fabriclab
from fabriclab.__main__ import main
from fabriclab.course.assessment import (
    bank,
    classes,
    drawing,
    halls,
    ladder,
    results,
    sitting,
    written,
)
from fabriclab.course.classroom.collected import collect
from fabriclab.course.progress import store
from fabriclab.course.questions import files
from fabriclab.course.shown import InputRefused, parse_answer, with_prefix
from fabriclab.operations import find_drift
from fabriclab.physics import media
from fabriclab.texts import text
from support.assessment_keys import KEYS
from support.lesson_runs import FILES, ROOT

SEEDS = range(200)
NUMBERS = [item for item in bank.items().values() if item.question.kind == "number"]


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.chdir(tmp_path)


# The bank ----------------------------------------------------------------------------------------


def test_the_bank_has_all_questions_of_the_list_with_four_levels_and_a_place_each():
    assert sorted(bank.items()) == sorted(f"Q{n:02}" for n in range(1, 165))
    for item in bank.items().values():
        assert item.level in bank.LEVELS and item.topic in bank.TOPICS
        lesson = item.question.lesson
        assert lesson in FILES or lesson == "91_assessment" or lesson.startswith("exercise"), (
            item.id
        )
        assert len(item.question.wrong) == 3
        mistakes = {wrong.mistake for wrong in item.question.wrong}
        assert len(mistakes) == 3, item.id
        assert all(item.because(mistake) for mistake in mistakes)


# What stands beside a question in its lesson, and not in a test.
BESIDE = re.compile(
    r"\b(?:the|this|our) (?:table|picture|cell|row|slider|control|drawing|view)s?\b|\byour run\b|\bas you have seen\b"
    r"|\b(?:look at the|the manifest|watch)\b",
    re.IGNORECASE,
)


def test_every_mistake_has_a_sentence_that_stands_by_itself_and_says_more_than_its_name():
    told = set()
    for item in bank.items().values():
        for wrong in item.question.wrong:
            sentence = item.because(wrong.mistake)
            told.add(sentence)
            assert sentence != text("exam.mistake", mistake=wrong.mistake), (item.id, sentence)
            assert sentence.endswith((".", "?", ")")) and "{" not in sentence
            assert not BESIDE.search(sentence), (item.id, wrong.mistake, sentence)
        assert item.own.keys() <= {wrong.mistake for wrong in item.question.wrong}
    assert set(bank.mistakes().values()) <= told, "a sentence that nobody reads"


def test_a_factor_of_eight_in_bytes_has_the_name_of_its_direction():
    names = {8.0: "bits for bytes", 1 / 8: "bytes taken for bits"}
    seen = set()
    for item in NUMBERS:
        if item.question.unit in ("kB", "MB", "GB", "GB/s", "TB/s", "%"):
            truth, *others = item.answers(item.settings()[0])
            for wrong, value in zip(item.question.wrong, others, strict=True):
                if wrong.mistake in names.values():
                    assert names[round(value / truth, 9)] == wrong.mistake, item.id
                    seen.add(wrong.mistake)
    assert seen == set(names.values())


def test_the_sentences_name_only_quantities_of_their_question():
    for item in bank.items().values():
        files._check_fields(item.id, item.question.words.prompt, item.question.params)


@pytest.mark.parametrize("item", NUMBERS, ids=lambda item: item.id)
def test_every_number_draws_for_200_seeds_and_no_two_answers_are_alike(item):
    seen = set()
    for seed in SEEDS:
        drawn = drawing._set(item, seed)
        answers = item.answers(drawn.given)
        assert all(map(math.isfinite, answers)) and answers[0] > 0
        truth, *wrong = answers
        for value in wrong:
            assert not math.isclose(value, truth, rel_tol=max(2 * item.question.tolerance, 0.01))
        assert drawn.judge(drawn.key).right, (drawn.asked, drawn.key)
        assert "{" not in drawn.asked
        seen.add(tuple(drawn.given.values()))
    assert len(seen) >= 4, "a second test has other numbers"


def test_keys_are_written_as_people_write_numbers():
    for item in NUMBERS:
        for given in item.settings():
            key = drawing.Drawn(item, given=given).key
            assert "e+" not in key and "e-" not in key, key
    draws = bank.items()["Q64"]
    assert drawing.Drawn(draws, given=draws.settings()[-1]).key.endswith(" kW")


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (56832.0, "W", "56.83 kW"),
        (4e6, "1", "4,000,000"),
        (0.283, "%", "28.3 %"),
        (1.8e-7, "%", "0.000018 %"),
        (1.004e6, "USD", "1,004,000 USD"),
        (817.0, "min", "13.62 min"),
        (2.5e10, "GB/s", "25 GB/s"),
        (0.0, "s", "0 s"),
    ],
)
def test_a_key_has_four_digits_and_the_prefix_that_fits(value, unit, written):
    assert with_prefix(value, unit) == written


SHARES = "Q144 Q148 Q61 Q74 Q82 Q95 Q115 Q116 Q119 Q128 Q159 Q160".split()


@pytest.mark.parametrize("id", SHARES)
def test_a_share_is_right_in_per_cent_as_a_part_and_with_the_sign_in_words(id):
    item = bank.items()[id]
    for given in item.settings():
        drawn = drawing.Drawn(item, given=given)
        share = drawn.truth
        for answer in (100 * share, share, f"{100 * share} %", f"{100 * share} percent"):
            assert drawn.judge(answer).right, (drawn.asked, answer)
        assert drawn.key.endswith(" %")


def test_bits_are_answered_in_bits():
    item = bank.items()["Q152"]
    given = {"r": "400", "q": "100000"}
    assert drawing.Drawn(item, given=given).judge("4 Mb").right
    assert drawing.Drawn(item, given=given).judge("4000 kb").right


@pytest.mark.parametrize("item", NUMBERS, ids=lambda item: item.id)
def test_known_wrong_numbers_are_named(item):
    for given in item.settings()[:: max(1, len(item.settings()) // 5)]:
        drawn = drawing.Drawn(item, given=given)
        for wrong, value in zip(item.question.wrong, item.answers(given)[1:], strict=True):
            number = value / fabriclab.course.shown.quantity(item.question.unit)[1]
            unit = "" if item.question.unit == "1" else f" {item.question.unit}"
            verdict = drawn.judge(f"{number!r}{unit}")
            assert verdict.right is False and verdict.mistake == wrong.mistake


def test_every_choice_draws_for_200_seeds_with_the_right_option_at_every_letter():
    for item in bank.items().values():
        if item.question.kind == "number":
            continue
        letters = set()
        for seed in SEEDS:
            drawn = drawing._set(item, seed)
            assert len({option for option, _ in drawn.options.values()}) == 4
            letters.add(drawn.truth)
            assert drawn.judge(drawn.key).right
        assert letters == set("abcd"), item.id


@pytest.mark.parametrize("id", KEYS)
def test_the_library_gives_the_keys(id):
    item = bank.items()[id]
    settings = item.settings()
    for given in {0: settings[0], 1: settings[len(settings) // 2], 2: settings[-1]}.values():
        numbers, _ = item.question.fill(given)
        tolerance = max(item.question.tolerance / 2, 1e-9)
        assert KEYS[id](**numbers) == pytest.approx(item.question.key(given), rel=tolerance)


def test_a_route_is_changed_without_a_loop_in_the_order_that_the_key_says():
    item = bank.items()["Q120"]
    old = fabriclab.sdn.rules("s-a-b-c-d")
    new = fabriclab.sdn.rules("s-c-b-a-d")
    orders = fabriclab.sdn.all_orders(old, new)
    assert orders.loop_met == 18  # what Q122 says
    assert "18 of 24" in bank.items()["Q122"].question.words.prompt
    free = {item.question.right: True, **{wrong.option: False for wrong in item.question.wrong}}
    for option, without_loop in free.items():
        assert _has_no_loop(option.split(" > ")) == without_loop, option


def _has_no_loop(order):
    """Return whether packets from s arrive after each update of an order."""
    now = {"s": "a", "a": "b", "b": "c", "c": "d"}
    then = {"s": "c", "c": "b", "b": "a", "a": "d"}
    for switch in order:
        now[switch] = then[switch]
        at = "s"
        passed = []
        while at != "d":
            if at in passed:
                return False
            passed.append(at)
            at = now[at]
    return True


# Drawing -----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_questions_and_another_seed_others():
    first, again = (drawing.draw(5, n=20) for _ in range(2))
    assert [repr(one) for one in first] == [repr(one) for one in again]
    other = drawing.draw(6, n=20)
    assert {repr(one) for one in first} != {repr(one) for one in other}


def test_topics_take_turns_and_what_was_seen_comes_last():
    drawn = drawing.draw(1, n=22)
    count = {topic: sum(one.item.topic == topic for one in drawn) for topic in bank.TOPICS}
    assert set(count.values()) == {2}
    seen = [one.item.id for one in drawing.draw(1, levels="recall", n=10)]
    fresh = [one.item.id for one in drawing.draw(2, levels="recall", n=10, seen=seen)]
    assert not set(seen) & set(fresh)


def test_questions_that_give_each_other_away_never_stand_in_one_test_or_sheet():
    pairs = {(id, other) for id, item in bank.items().items() for other in item.not_with}
    assert ("Q21", "Q105") in pairs
    assert all((other, id) in pairs and other in bank.items() for id, other in pairs)
    for seed in range(20):
        ids = {one.item.id for one in drawing.draw(seed, n=len(bank.items()))}
        assert len(ids & {"Q21", "Q105"}) == 1
        assert "Q105" not in {one.item.id for one in drawing.draw(seed, n=200, beside=["Q21"])}
        on_paper = set(sitting.sheet(seed, 160).data["questions"])
        assert len(on_paper & {"Q21", "Q105"}) == 1
    store.put("tests", "7", {"answers": [{"id": "Q21", "right": True}], "seen": []})
    answer_all(7, lambda drawn: True)
    assert "Q105" not in {answer.item.id for answer in sitting.tests()["7"]}
    for level in bank.LEVELS:
        assert len(bank.chosen(levels=[level])) > ladder.MOST, "one may be left out"


def test_text_mode_and_paper_say_how_exact_a_number_must_be():
    sheet = sitting.sheet("exact", 60)
    drawn = [bank.items()[id] for id in sheet.data["questions"]]
    for item, part in zip(drawn, sheet.parts, strict=True):
        number = item.question.kind == "number"
        assert number == ("within" in str(part.after) or "exactly" in str(part.after))
    for number in range(100):
        if not sitting._Test(str(number)).next().options:
            assert "How exact: " in str(fabriclab.exam(number))
            break


@pytest.mark.parametrize(
    ("given", "said"),
    [({"topics": "fabrics"}, "topics are start"), ({"levels": ["easy"]}, "levels are recall")],
)
def test_unknown_topics_and_levels_are_refused_with_the_known_ones(given, said):
    with pytest.raises(InputRefused, match=said):
        drawing.draw(1, **given)


# Levels ------------------------------------------------------------------------------------------


def take(shares, rng, number, seen=()):
    """Take a test as a reader who is right in a share of the questions of each level; return what was answered."""
    answers = []
    asked = set()
    drawn = {}
    for level in bank.LEVELS:
        drawn[level] = drawing.draw(number, levels=[level], n=ladder.MOST, seen=seen)
    while level := ladder.standing(answers).next:
        question = next(one for one in drawn[level] if one.item.id not in asked)
        asked.add(question.item.id)
        answers.append((level, rng.random() < shares[level]))
    return ladder.standing(answers), len(answers), asked


@pytest.mark.parametrize("rungs", range(5))
def test_two_tests_of_one_reader_give_the_same_level_in_nine_of_ten_cases(rungs):
    """A reader holds so many levels: right in nine of ten questions there, and in three or four of ten above."""
    shares = {level: 0.9 if place < rungs else 0.35 for place, level in enumerate(bank.LEVELS)}
    rng = random.Random(rungs)
    same = 0
    for number in range(100):
        first, _, seen = take(shares, rng, f"a{number}")
        second, n, _ = take(shares, rng, f"b{number}", seen)
        same += first.level == second.level
        assert first.done and n <= 80
    assert same >= 90


def test_what_the_rule_says_of_itself_is_so():
    """By the exact chances: agreement of ladder readers, and about half at a border."""
    for high, low, least in ((0.9, 0.35, 0.94), (0.9, 0.4, 0.94), (0.85, 0.35, 0.93)):
        for rungs in range(5):
            chances = []
            alive = 1.0
            for place in range(4):
                holds = ladder.hold_chance(high if place < rungs else low)
                chances.append(alive * (1 - holds))
                alive *= holds
            chances.append(alive)
            assert sum(chance**2 for chance in chances) >= least
    at_border = ladder.hold_chance(0.65)
    assert at_border**2 + (1 - at_border) ** 2 < 0.6


def test_hold_chance_is_what_simulated_answers_give():
    rng = np.random.default_rng(0)
    for share in (0.5, 0.65, 0.8):
        held = 0
        for _ in range(2000):
            answers = [("recall", bool(right)) for right in rng.random(ladder.MOST) < share]
            held += ladder.standing(answers).level == "recall"
        assert held / 2000 == pytest.approx(ladder.hold_chance(share), abs=0.03)


def test_a_level_that_does_not_hold_ends_the_test():
    answers = [("recall", True)] * 8 + [("apply", False)] * 8
    found = ladder.standing(answers)
    assert (found.level, found.done, found.next) == ("recall", True, "")
    assert 0.8 < found.same <= 1
    assert ladder.standing(answers[:9]).next == "apply"
    assert ladder.standing([]).next == "recall" and not ladder.standing([]).done


# The test as a card ------------------------------------------------------------------------------


def answer_all(number, right):
    """Answer a test to its end, right where ``right`` says so; return the number of questions."""
    for count in range(100):
        drawn = sitting._Test(str(number)).next()
        if drawn is None:
            return count
        wrong = "a" if drawn.truth != "a" else "b"
        if not drawn.options:
            wrong = f"1e12 {drawn.item.question.unit}".removesuffix(" 1")
        fabriclab.exam(number, drawn.key if right(drawn) else wrong)
    raise AssertionError("the test does not end")


def test_a_test_is_answered_stored_and_ends_with_a_level():
    shown = fabriclab.exam(3)
    assert "question 1" in str(shown) and shown.state == "wait"
    n = answer_all(3, lambda drawn: drawn.item.level in ("recall", "apply"))
    end = fabriclab.exam(3)
    assert end.data["level"] == "apply" and end.data["asked"] == n == 24
    assert "chance" in str(end)
    again = fabriclab.exam(3, "a")
    assert again.data["asked"] == n, "a test that is over takes no more answers"


def test_the_end_of_a_test_names_the_topics_that_a_level_hides():
    """Who knows eight of eleven topics wholly reaches the last level, which says nothing of the other three."""
    missing = ("circuits", "rdma", "emerging")
    answer_all(5, lambda drawn: drawn.item.topic not in missing)
    end = str(fabriclab.exam(5))
    told = end.partition("right in: ")[2].partition(". ")[0]
    asked = {answer.item.topic for answer in sitting.tests()["5"]}
    for topic in asked:
        assert (bank.topic_name(topic) in told) == (topic in missing), told
    assert "fl.strengths()" in end and "gaps" in end


def test_near_a_border_the_end_says_between_which_levels():
    near = [("recall", True)] * 8 + [
        ("apply", place % 3 != 2 and place != 18) for place in range(20)
    ]
    near += [("analyse", False)] * 8
    assert ladder.standing(near).between == ("recall", "apply")
    clear = [("recall", True)] * 8 + [("apply", False)] * 8
    assert ladder.standing(clear).between == ()
    fails = [("recall", place < 12) for place in range(20)]
    fails = fails[::2] + fails[1::2]
    assert ladder.standing(fails).between == ("", "recall")


def test_a_second_test_asks_other_questions():
    answer_all(1, lambda drawn: True)
    first = {answer.item.id for answer in sitting.tests()["1"]}
    answer_all(2, lambda drawn: True)
    second = {answer.item.id for answer in sitting.tests()["2"]}
    assert len(first) == len(second) == 32 and not first & second
    assert fabriclab.exam(1).data["level"] == fabriclab.exam(2).data["level"] == "judge"


def test_an_answer_without_its_unit_is_not_counted():
    number = next(seed for seed in range(100) if sitting._drawn(str(seed), "recall", ())[0].options)
    shown = fabriclab.exam(number, "z")
    assert shown.data["asked"] == 0 and "not counted" in str(shown)


def test_the_card_goes_on_after_a_press(monkeypatch):
    monkeypatch.delenv("FABRICLAB_TEXT")
    form = sitting._ExamForm(sitting._Test("9"))
    asked = form.drawn
    turn = form.press("check" if not asked.options else str(asked.truth), {"answer": asked.key})
    assert 'data-press="next"' in turn.html and turn.said.startswith("Right")
    turn = form.press("next", {})
    assert form.drawn.item.id != asked.item.id and form.drawn.item.id in bank.items()
    assert form.live() is not None and "fl.exam" in form.still()


def test_an_edited_progress_file_does_not_stop_a_test(tmp_path):
    store.put("tests", "1", {"answers": [{"id": "Q999"}, "x", {"id": "Q01", "right": True}]})
    assert len(sitting.tests()["1"]) == 1
    assert "question" in str(fabriclab.exam(1))


def test_forty_questions_on_paper_have_a_key_that_is_right():
    """As an examiner would: each answer of the key is handed to the judge, and a number is computed by the library."""
    shown = sitting.sheet("forty", 40, key=True)
    assert len(shown.data["questions"]) == len(set(shown.data["questions"])) == 40
    for level in bank.LEVELS:
        drawn = drawing.draw("sheet forty", levels=[level], n=10)
        for one in drawn:
            assert one.key in shown.data["key"] and one.judge(one.key).right
            if one.item.id in KEYS:
                numbers, _ = one.item.question.fill(one.given)
                found = parse_answer(one.key, one.item.question.unit).value
                assert KEYS[one.item.id](**numbers) == pytest.approx(found, rel=5e-3)


# Words -------------------------------------------------------------------------------------------


def test_the_six_interview_questions_belong_to_the_bank_and_need_an_answer_first():
    assert list(written.interviews()) == [
        "nvswitch",
        "gpudirect",
        "rails",
        "srd",
        "placement",
        "hpcc",
    ]
    for name, asked in written.interviews().items():
        assert asked.row in bank.items() and asked.lesson in FILES
        assert asked.points[0] not in str(fabriclab.interview(name))
        shown = fabriclab.interview(name, "word " * 12)
        assert all(point in str(shown) for point in asked.points)
        kept = fabriclab.interview(name, "word " * 12, has="ac")
        assert kept.data["marks"][:3] == [1, 0, 1]
    with pytest.raises(InputRefused, match="points are abcd"):
        fabriclab.interview("hpcc", "word " * 12, has="z")


def test_two_example_answers_differ_by_three_points_and_their_numbers_are_those_of_the_case():
    first, second = written.examples()
    assert sum(first.marks) - sum(second.marks) == 3
    for example in (first, second):
        assert len(example.marks) == len(example.why) == len(written.criteria()) and all(
            example.why
        )
    case = fabriclab.case()
    half = case.replace(nic_rate=case.nic_rate / 2)
    for number in (
        f"{half.t_step:.2f} s",
        f"{case.t_step:.2f} s",
        f"{100 * (half.t_step / case.t_step - 1):.1f} %",
        f"{100 * case.price_fabric / case.price_total:.1f} %",
        f"{case.dp_gradients / 1e9:.1f} GB",
        f"{case.t_dp:.2f} s",
        f"{case.window:.2f} s",
        f"{half.t_dp:.2f} s",
        f"{half.t_step - case.t_step:.2f} s",
        f"{case.sustained_bf16 / 1e12:.0f} TFLOP/s",
        f"{100 * fabriclab.economics.worth_growth(case.price_fabric / case.price_total):.1f} %",
    ):
        assert number in " ".join(first.text.split()), number


def test_ratings_of_two_people_stand_side_by_side():
    page = "word " * 12
    assert fabriclab.rate("growth", "too short").state == "wait"
    fabriclab.rate("growth", page, [2, 2, 1, 1, 1])
    both = fabriclab.rate("growth", page, [2, 0, 1, 1, 1], by="B")
    assert list(both.data["ratings"].values()) == [[2, 2, 1, 1, 1], [2, 0, 1, 1, 1]]
    assert written.criteria()[1].asks in both.after[0]
    for marks in ([2, 2], [2, 2, 1, 1, 3]):
        with pytest.raises(InputRefused, match="5 marks"):
            fabriclab.rate("growth", page, marks)


# The audit ---------------------------------------------------------------------------------------


def faults_by_rule(hall):
    """Find the faults of a hall from what an auditor gets."""
    rails = hall.rail_of_leaf()
    found = {}
    for cable in hall.cables:
        if rails[cable["leaf"]] != int(cable["NIC"].split(".")[1]):
            found["rail"] = cable["NIC"]
        reach = media.choose(1.0, "400 Gb/s", media=["copper"]).reach
        if cable["medium"] == "copper" and cable["length [m]"] > reach:
            found["reach"] = cable["NIC"]
    for row in hall.ports:
        if row["up"] < 8:
            found["uplinks"] = row["leaf"]
    for row in hall.measured:
        if row["rate [B/s]"] < 0.9 * hall.rate:
            found["slow"] = row["NIC"]
    for name, row in hall.table_of_settings().values.items():
        needed = fabriclab.engines.packet.headroom(hall.rate, hall.longest, frame=hall.frame)
        if float(row["pfc_headroom"]) < needed:
            found["headroom"] = name
        if int(row["ecn_kmin"]) >= int(row["pfc_xoff"]):
            found["marks"] = name
    for change in find_drift(hall.table_of_settings()).deviations:
        if change.setting == "mtu":
            found["mtu"] = change.switch
        if change.setting == "dscp_map":
            found["class"] = change.switch
    return found


def test_each_hall_has_three_faults_that_its_tables_show_and_no_other():
    kinds = set()
    for seed in range(60):
        hall = halls.audit(seed)
        assert faults_by_rule(hall) == hall.planted
        assert len(hall.planted) == 3
        kinds |= set(hall.planted)
    assert kinds == set(halls.FAULTS)


def test_the_judge_names_misses_and_false_alarms():
    hall = halls.audit(1)
    (first, place), *others = hall.planted.items()
    absent = next(name for name in halls.FAULTS if name not in hall.planted)
    found = hall.judge({first: place.upper(), others[0][0]: "spine 99", absent: "leaf 0.0"})
    assert found.data == {"right": 1, "missed": 2, "false": 2}
    assert others[0][1] not in str(found)
    assert others[0][1] in str(hall.judge({}, tell=True))
    assert hall.judge(hall.planted).data["missed"] == 0
    with pytest.raises(InputRefused, match="faults are"):
        hall.judge({"colour": "blue"})


# What comes out ----------------------------------------------------------------------------------


def test_strengths_have_links_a_page_and_a_card(tmp_path):
    with pytest.raises(InputRefused, match=r"fl\.exam\(1\)"):
        fabriclab.strengths()
    answer_all(1, lambda drawn: drawn.item.topic != "topology")
    shown = fabriclab.strengths("Ada", file=tmp_path / "mine.html")
    assert shown.rows[-1][0] == bank.topic_name("topology")
    page = (tmp_path / "mine.html").read_text(encoding="utf-8")
    assert "Ada" in page and "@media print" in page and "http" not in page.replace("http-equiv", "")
    card = fabriclab.strengths(share=True)
    data = (tmp_path / card.data["file"]).read_bytes()
    assert data[:4] == b"\x89PNG" and b"Ada" not in data
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (1200, 630)


def test_the_page_of_strengths_leads_back_to_lessons(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT / "notebooks")
    answer_all(1, lambda drawn: False)
    fabriclab.strengths(file=tmp_path / "mine.html")
    page = (tmp_path / "mine.html").read_text(encoding="utf-8")
    assert any(f'href="{name}.ipynb"' in page for name in FILES)


def test_calibration_counts_ranges_that_held_the_truth_by_halves():
    assert fabriclab.calibration().state == "wait"
    guesses = [(5, 1, 10), (5, 4, 6), (5, 4, 6), (1, 0.5, 30), (8, 6, 25), (30, 25, 60)]
    for place, (value, low, high) in enumerate(guesses):
        fabriclab.predict(f"mine-{place}", value, "s", low, high)
        fabriclab.reveal(f"mine-{place}", 20.0 if place else 9.0, "s")
    fabriclab.predict("mine-open", 5, "s", 1, 10)
    shown = fabriclab.calibration()
    held = {row[0]: row[2] for row in shown.rows}
    assert held == {"first half": 1, "second half": 2, "all": 3}
    assert shown.data == {"ranges": 6, "held": 3}
    assert shown.picture().table is not None


# A class -----------------------------------------------------------------------------------------


def made_class(folder, weak, n=30):
    """Write the progress files of a made class, which is worse in three topics."""
    rng = random.Random(0)
    for student in range(n):
        ability = rng.uniform(0.55, 0.95)
        answers = []
        asked = set()
        pairs = []
        while level := ladder.standing(pairs).next:
            drawn = drawing.draw(f"class {student}", levels=[level], n=ladder.MOST)
            one = next(one for one in drawn if one.item.id not in asked)
            asked.add(one.item.id)
            share = ability - (0.35 if one.item.topic in weak else 0.0)
            right = rng.random() < share
            mistake = "" if right else one.item.question.wrong[0].mistake
            answers.append({"id": one.item.id, "right": right, "mistake": mistake})
            pairs.append((level, right))
        entry = {"answers": answers, "seen": [], "when": "2026-11-30T10:00:00.000+00:00"}
        whole = {"format": store.FORMAT, "version": store.VERSION}
        whole |= {name: {} for name in store.SECTIONS} | {"tests": {"1": entry}}
        (folder / f"{student:02}.json").write_text(json.dumps(whole), encoding="utf-8")


@pytest.mark.parametrize(
    "weak",
    [("congestion", "operations", "rdma"), ("topology", "workloads", "collectives")],
)
def test_the_three_weakest_topics_of_a_class_of_thirty_stand_first(tmp_path, weak):
    folder = tmp_path / "class"
    folder.mkdir()
    made_class(folder, weak)
    (folder / "notes.json").write_text("[]", encoding="utf-8")
    begun = time.perf_counter()
    assert main(["class", str(folder), "--out", str(tmp_path / "class.html")]) == 0
    assert time.perf_counter() - begun < 30  # two minutes are for the person
    students = collect(folder).students
    found = classes.compare([classes.latest_answers(student.kept) for student in students])
    assert {one.topic for one in found[:3]} == set(weak)
    page = (tmp_path / "class.html").read_text(encoding="utf-8")
    named = ", ".join(bank.topic_name(one.topic) for one in found[:3])
    assert text("class.exam.weak", topics=named) in html.unescape(page)
    levels = classes.count_levels([classes.latest_answers(one.kept) for one in students])
    assert sum(levels.values()) == len(students) == 30


def test_results_order_topics_by_the_middle_of_their_interval():
    items = {item.topic: item for item in bank.items().values()}
    one = [sitting.Answered(items["links"], True, "")]
    many = [sitting.Answered(items["rdma"], place < 9, "") for place in range(10)]
    assert [strength.topic for strength in results.topics_of([*one, *many])] == ["rdma", "links"]
