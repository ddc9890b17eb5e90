"""A learner's number is read kindly, and what was read is said."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab.course.checks import InputRefused, parse_answer
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.questions import misconception, questions
from fabriclab.course.shown import digits, is_rounded, named_factor, quantity, shown, unit_in
from fabriclab.formulas import evaluate

# By hand


@pytest.mark.parametrize(
    ("answer", "unit", "value"),
    [
        ("0.7 s", "s", 0.7),
        ("700 ms", "s", 0.7),
        ("0.7s", "s", 0.7),
        (" 7e-1 s ", "s", 0.7),
        ("50 GB/s", "GB/s", 5e10),
        ("400 Gb/s", "GB/s", 5e10),
        ("64 MiB", "MB", 67108864.0),
        (1.6, "times", 1.6),
        ("1.6", "times", 1.6),
        ("160 %", "times", 1.6),
        ("13%", "1", 0.13),
        ("16 times", "1", 16.0),
        ("16x", "times", 16.0),
        (np.float32(0.5), "1", 0.5),
        (np.int64(7), "1", 7.0),
        (np.array([3.0]), "1", 3.0),
        ([4], "1", 4.0),
        ((2.5,), "times", 2.5),
        (np.array("0.7 s"), "s", 0.7),
        (["0.7 s"], "s", 0.7),
        ("-3 s", "s", -3.0),
        ("1/7", "1", 1 / 7),
        ("-3 / 4 s", "s", -0.75),
        ("100/3 GB/s", "GB/s", 1e11 / 3),
        ("22/1e3", "1", 0.022),
        ("88 dB", "dB", 88.0),
        (88, "dB", 88.0),
    ],
)
def test_what_is_understood(answer, unit, value):
    read = parse_answer(answer, unit)
    assert (read.problem, read.note) == ("", "")
    assert read.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("answer", "value", "word"),
    [
        ("0,7 s", 0.7, "decimal"),
        ("0,700 s", 0.7, "decimal"),
        ("1,5 s", 1.5, "decimal"),
        ("12,34 s", 12.34, "decimal"),
        ("7,5/1 s", 7.5, "decimal"),
        ("1,024 s", 1024.0, "thousands"),
        ("1,024,000 s", 1024000.0, "thousands"),
        ("1,024.5 s", 1024.5, "thousands"),
    ],
)
def test_a_comma_is_read_with_a_note(answer, value, word):
    read = parse_answer(answer, "s")
    assert read.value == value and word in read.note and f"{value:g}" in read.note


def test_a_missing_unit_is_asked_for():
    for answer in (0.7, "0.7", np.float64(0.7), [0.7]):
        read = parse_answer(answer, "s")
        assert (
            math.isnan(read.value)
            and read.problem.startswith("Which unit?")
            and '"0.7 s"' in read.problem
        )


def test_factors_that_people_are_off_by():
    truth = 0.7
    known = {
        2: "direction",
        8: "bits",
        1.024: "binary",
        1.048576: "binary",
        1.073741824: "binary",
        1000: "prefix",
        1e9: "prefix",
    }
    for factor, name in known.items():
        assert (
            named_factor(truth * factor, truth, "size")
            == named_factor(truth / factor, truth, "rate")
            == name
        )
        for kind, of in {"": [], "time": ["prefix"]}.items():
            assert named_factor(truth * factor, truth, kind) == (name if name in of else None)
    for value in (truth * 1.5, -truth * 2, 0.0, truth * 2 * 1.0051):
        assert named_factor(value, truth, "rate") is None
    assert named_factor(truth * 2 * 1.0049, truth, "rate") == "direction"


def test_a_number_with_two_digits_is_a_rounded_one():
    seventh = (
        (0.14, True),
        (14, False),
        (0.15, False),
        (0.16, False),
        (0.138, False),
        (0.1, False),
        (-0.14, False),
    )
    for value, rounded in seventh:
        assert is_rounded(value, 1 / 7) is rounded
    for value, truth, rounded in (
        (7, 7.1, True),
        (6.8, 7.1, False),
        (7.2, 7.15, True),
        (10, 9.96, True),
        (-20, -20.9, True),
        (0.28, 0.29, False),
    ):
        assert is_rounded(value, truth) is rounded


# Laws


@given(st.floats(1e-9, 1e9), st.sampled_from(["s", "GB/s", "MiB", "m", "GHz", "times"]))
def test_a_number_survives_its_unit(value, unit):
    kind, factor = quantity(unit)
    assert parse_answer(f"{value!r} {unit}", unit).value == pytest.approx(value * factor, rel=1e-12)
    assert parse_answer(f"{value!r}".replace(".", ",") + f" {unit}", unit).value > 0
    assert unit_in(f"{value!r} {unit}") == unit and (kind == "") == (unit == "times")


@given(st.floats(1e-12, 1e12))
def test_three_digits_are_within_half_a_percent(value):
    assert float(digits(value).replace(",", "")) == pytest.approx(value, rel=5.01e-3)


@given(
    st.text(max_size=12)
    | st.none()
    | st.booleans()
    | st.lists(st.integers(), max_size=3)
    | st.complex_numbers()
)
def test_nothing_a_learner_types_raises(answer):
    read = parse_answer(answer, "GB/s")
    assert math.isnan(read.value) == bool(read.problem)


# Refusals


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("fast", ["one finite number", "'fast'"]),
        ("", ["one finite number"]),
        (True, ["one finite number"]),
        (None, ["one finite number"]),
        ([1, 2], ["one finite number"]),
        (1j, ["one finite number"]),
        ("50 Gbps", ["Gb/s", "GB/s"]),
        ("50 lumps", ["not known", "write"]),
        ("50 GB", ["something else", "GB/s"]),
        ("5.5.5 GB/s", ["finite"]),
        ("1/0 GB/s", ["finite"]),
        ("1/7/2 GB/s", ["got '1/7/2 GB/s'"]),
        ("12/7/2", ["one finite number"]),
        ("1/0 lumps", ["finite"]),
        ("1/8 GBs", ["'GBs' is not known here. Write the number with its unit, like \"0.7 GB/s\""]),
        ("1/8 gb/s", ["0.125 Gb/s"]),
        ("nan GB/s", ["one finite number"]),
        ("1e305 GB/s", ["finite"]),
        ("1e999 GB/s", ["finite"]),
        (float("nan"), ["one finite number"]),
        ("50 gb/s", ["did you mean"]),
    ],
)
def test_what_is_missing_is_said(answer, words):
    problem = parse_answer(answer, "GB/s").problem
    assert problem and any(word in problem for word in words), problem


@pytest.mark.parametrize(
    ("answer", "unit", "value", "word"),
    [
        ("28.3 percent", "1", 0.283, ""),
        ("28.3 per cent", "%", 0.283, ""),
        ("4 million", "1", 4e6, ""),
        ("4k", "1", 4e3, ""),
        ("1.5 billion B", "GB", 1.5e9, ""),
        ("3 x 10^6", "1", 3e6, ""),
        ("1 GByte", "MB", 1e9, ""),
        ("400 Gbit/s", "GB/s", 5e10, ""),
        ("56 832 W", "W", 56832.0, "space"),
        ("13 min 37 s", "s", 817.0, "added"),
        ("1 h 5 min", "min", 3900.0, "added"),
    ],
)
def test_what_people_write_in_words_or_in_parts_is_read(answer, unit, value, word):
    read = parse_answer(answer, unit)
    assert read.problem == "" and read.value == pytest.approx(value, rel=1e-12)
    assert word in read.note and bool(word) == bool(read.note)


@pytest.mark.parametrize(
    ("answer", "unit"),
    [
        ("28.3 lumps", "1"),
        ("4 zillion", "1"),
        ("13 min 37 GB", "s"),
        ("37 s 13 min", "s"),
        ("56 83 W", "W"),
        ("1 GOctet", "MB"),
        ("1 1/2 s", "s"),
        ("1/7/2 GB/s", "GB/s"),
    ],
)
def test_no_example_drops_or_changes_what_was_typed(answer, unit):
    """An example with the first number alone made a wrong answer of a right one."""
    problem = parse_answer(answer, unit).problem
    example = "0.7" if unit == "1" else f"0.7 {unit}"
    assert f'like "{example}"' in problem


def test_a_number_in_groups_gets_the_unit_beside_its_field():
    assert unit_in("56 832") == unit_in("4 million") == ""
    assert (unit_in("56 832 W"), unit_in("4 million B")) == ("W", "B")


def test_decibels_are_no_count():
    assert "measures something else" in parse_answer("60 dB", "1").problem


def test_an_unknown_unit_is_refused():
    with pytest.raises(InputRefused, match=r"Gb/s.*GB/s"):
        quantity("Gbps")
    with pytest.raises(InputRefused, match="lumps"):
        quantity("lumps")


# Display


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.69986, "0.700"),
        (128, "128"),
        (12345, "12,345"),
        (0, "0"),
        (999.4, "999"),
        (999.6, "1,000"),
        (9.996, "10.0"),
        (45.26, "45.3"),
        (0.0004, "0.0004"),
        (2e12, "2e+12"),
        (-0.5, "-0.500"),
    ],
)
def test_digits(value, text):
    assert digits(value) == text


def test_shown():
    assert (shown(0.7, "s"), shown(128, None), shown(1.134, "times"), shown(3, "1")) == (
        "0.700 s",
        "128",
        "1.13 times",
        "3.00",
    )


def test_a_unit_in_words_is_answered_with_the_learners_own_number():
    assert 'did you mean "7.5 s"?' in parse_answer("7.5 seconds", "s").problem


# In a question


def with_gaps():
    """Return the wrong answers to numbers whose misconception names a quantity of the question."""
    return [
        (question, wrong)
        for question in questions().values()
        for wrong in question.wrong
        if question.kind == "number" and "{" in misconception(question.id, wrong.mistake)
    ]


@pytest.mark.parametrize(
    ("question", "wrong"), with_gaps(), ids=lambda each: getattr(each, "id", "")
)
def test_quantities_of_a_misconception_are_filled_in(question, wrong):
    unit = question.unit
    value = evaluate(wrong.formula, question.fill({})[0]) / quantity(unit)[1]
    verdict = JUDGES["number"](question, f"{value!r} {unit}".removesuffix(" 1"), {})
    assert verdict.right is False
    assert verdict.mistake
    assert not any("{" in said for said in verdict.said)
