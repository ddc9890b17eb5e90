"""The framework of judges on a question made for it: what sets, shares, mistakes and sentences come to."""

import pytest

from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.shared import parts
from fabriclab.course.judges.shared.numbers import Misread, brief, number
from fabriclab.course.judges.shared.parts import Call, JudgedCase, NumberPart, QuestionPart, judge
from support.prose import remark


class Doubled(QuestionPart):
    """Twice the argument; half of it and the argument itself are known mistakes."""

    def read(self, case, value):
        return number(value, "")

    def is_right(self, case, answer):
        return answer == 2 * self.calls[case].arguments[0]

    def mistakes(self, case, answer):
        (x,) = self.calls[case].arguments
        # The likeliest first: where both fit (0), the second is what all wrong cases share.
        return [name for name, value in (("halved", x / 2), ("kept", x)) if answer == value]

    def off(self, case, answer):
        return f"{self.written(case)} is not {answer:g}"

    def remark(self, case, answer):
        return "well done"


def doubled(numbers, **more):
    calls = [Call("double", (x,)) for x in numbers]
    return Doubled("ex4-a", "doubled", more.pop("share", 1.0), calls, **more)


def answers(function):
    """Return what asks a function, with a list of all calls."""
    made = []

    def ask(name, *arguments):
        made.append((name, *arguments))
        return function(*arguments)

    ask.made = made
    return ask


def test_all_right_is_everything_and_has_its_remark():
    found = judge(answers(lambda x: 2 * x), doubled([1, 2, 3]))
    assert (found.part, found.said, found.mistake, found.failed) == (1, ("well done",), "", ())


def test_a_set_counts_when_all_of_it_is_right():
    found = judge(answers(lambda x: 2 * x if x != 3 else 0), doubled([1, 2, 3, 4], sets=2))
    assert found.part == 0.5 and found.failed == (("double", 2),)
    assert found.said == ("double(3) is not 0",)


def test_a_part_that_comes_after_counts_only_where_the_one_before_was_right():
    first = doubled([1, 2], sets=2, share=0.5)
    second = doubled([1, 2], sets=2, share=0.5, after=True)
    turns = iter([2, 0, 2, 4])  # the second answer is wrong in the first part only
    assert judge(lambda *call: next(turns), first, second).part == 0.5


def test_the_mistake_is_one_that_explains_all_wrong_cases():
    found = judge(answers(lambda x: x), doubled([0, 5, 7]))
    assert found.mistake == "kept"
    some = judge(answers(lambda x: x / 2 if x == 4 else x), doubled([4, 6]))
    assert some.mistake == "halved"  # none explains both, so it is that of the first


def test_what_cannot_be_read_or_answered_costs_its_own_case():
    def function(x):
        if x == 1:
            raise Unanswered("raised", "it stopped")
        return "nonsense" if x == 2 else 2 * x

    found = judge(answers(function), doubled([3, 1], share=0.6), doubled([2, 4], share=0.4, sets=2))
    assert found.part == 0.2 and found.failed == (("double", 1), ("double", 0))
    assert "it stopped" in found.said and any("double(2): " in line for line in found.said)


def test_nothing_answered_is_no_try():
    def function(x):
        raise Unanswered("missing", "there is none")

    with pytest.raises(Unanswered, match="there is none"):
        judge(answers(function), doubled([1, 2]))


def test_parts_that_share_their_arguments_share_the_call():
    first = doubled([1, 2])
    second = Doubled("ex4-a", "again", 0.0, first.calls)
    ask = answers(lambda x: 2 * x)
    judge(ask, first, second)
    assert ask.made == [("double", 1), ("double", 2)]


# Numbers of the files ------------------------------------------------------------------------------------------------


def pool(rate=12.5e9, delay=2e-6):
    design = {"lanes": 32, "header": 12, "slots": 64}
    return NumberPart(
        "ex4-e", "pool", [JudgedCase((rate, delay), {**design, "rate": rate, "delay": delay})]
    )


def test_a_number_may_be_off_by_what_the_file_allows():
    part = pool()
    (true,) = part.true(0)
    (returned,) = part.returns
    small = part.returns[0]._replace(within=0.0)
    quantities = part.quantities[0]
    assert returned.apart == 2 and part.is_right(0, [true * 1.04])
    assert small.is_near(true + 2, quantities) and not small.is_near(true + 2.1, quantities)


def test_an_approximation_and_all_between_it_and_the_exact_number_are_right():
    returned = parts.Returned("10 * x", "1", within=0.01, also="12 * x")
    right = [9.95, 10, 10.7, 11.4, 12, 12.1]
    assert all(returned.is_near(got, {"x": 1.0}) for got in right)
    assert not any(returned.is_near(got, {"x": 1.0}) for got in (9.8, 12.2, -11, float("nan")))


def test_the_sentence_says_which_of_several_numbers_is_wrong():
    case = JudgedCase((1e6, 8, 32, 46), {"n": 8, "size": 1e6, "lanes": 32, "header": 46})
    part = NumberPart("ex4-a", "wire", [case])
    ring, switch = part.true(0)
    assert "wire(1e+06, 8, 32, 46)[0] gives" in judge(lambda *call: [1.0, switch], part).said[0]
    found = judge(lambda *call: [ring, 1.0], part)
    assert "[1] gives" in found.said[0] and found.parts[0].call.endswith("[1]")


def test_the_sentence_says_the_call_both_numbers_and_what_would_pass():
    found = judge(lambda *call: 1.0, pool())
    assert remark(4, "number", call="pool(1.25e+10, 2e-06)", got=1, percent=5).match(found.said[0])
    memory = {"memory": 4096 * 1000, "lanes": 32, "places": 2, "need": 50}
    exact = NumberPart("ex4-f", "tenants", [JudgedCase(tuple(memory.values()), memory)])
    assert "would pass" not in judge(lambda *call: 1.0, exact).said[0]


def test_a_mistake_has_the_sentence_of_its_own_question(monkeypatch):
    told = {("ex4-a", "kept"): "of a", ("ex4-b", "kept"): "of b"}
    monkeypatch.setattr(parts, "misconception", lambda *pair: told[pair])
    assert "of a" in judge(answers(lambda x: x), doubled([5])).said


@pytest.mark.parametrize(
    "value",
    [10**5000, [10**5000], {"a": 10**5000}, object(), None, "x"],
    ids=["long", "list", "dict", "object", "none", "text"],
)
def test_a_value_that_cannot_be_read_is_told_in_few_words(value):
    with pytest.raises(Misread) as told:
        number(value, "time")
    assert len(str(told.value)) < 250


def test_a_value_that_cannot_be_written_goes_by_its_type():
    class Odd:
        def __repr__(self):
            raise RuntimeError

    assert brief(Odd()) == "<Odd>" and brief([10**5000]) == "<list>" and len(brief("x" * 99)) == 60
