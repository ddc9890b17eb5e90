"""Mutation of the solutions: wrong variants are refused by the judges, and each one that is accepted is explained.

A mutant is a solution with one thing changed (`support.mutation`). Each is judged with several keys. One that gets full
marks with any of them stands in a table, with a word for what it is:

- same: it returns what the solution returns, which is tested here;
- right: another right answer, or inside what the exercise tolerates; no key refuses it;
- unseen: it is wrong, and the judge does not see it.
"""

import ast
import functools
import tomllib
from typing import NamedTuple

import pytest

from fabriclab.course.judges import PRACTICE, exercise
from support import DATA
from support import exercise1_answers as answers1
from support import exercise2_answers as answers2
from support import exercise3_answers as answers3
from support import exercise4_answers as answers4
from support.mutant_runs import outputs, parts_of
from support.mutation import mutants_of, sample_of
from support.solutions import changed, solved

EXERCISES = (1, 2, 3, 4)
QUESTIONS = [question.id for number in EXERCISES for question in exercise(number)]
MOST = 24  # mutants of a question
KEYS = (PRACTICE, "1", "2")
FEWER_KEYS = {
    "ex3-e": KEYS[:2]
}  # where programs wait for each other until they have lost, a mutant takes 5 s a key
SAME_KEYS = [PRACTICE, *map(str, range(1, 6))]


class Accepted(NamedTuple):
    """A row of the table: a mutant that gets full marks, and why."""

    question: str
    function: str
    before: str
    after: str
    kind: str
    why: str

    @property
    def change(self):
        return self.function, self.before, self.after


def accepted():
    rows = tomllib.loads((DATA / "mutants.toml").read_text(encoding="utf-8"))["accepted"]
    return [Accepted(**row) for row in rows]


@functools.cache
def mutants(question):
    return sample_of(mutants_of(solved(int(question[2]))[question]), MOST)


def rows_of(question):
    return {row.change: row for row in accepted() if row.question == question}


def judged(question, chosen):
    """Return the change of each mutant with the parts of the points that it gets, one for each key."""
    keys = FEWER_KEYS.get(question, KEYS)
    found = parts_of(question, [mutant.code for mutant in chosen], keys)
    return {mutant.change: parts or (0.0,) for mutant, parts in zip(chosen, found, strict=True)}


# The mutator ---------------------------------------------------------------------------------------------------------

LOOP = '''
def longest(sizes, rate):
    """Return the longest time."""
    slowest = 0.0
    for size in sizes[1:]:
        time = size / rate
        if time > slowest:
            slowest = time
    return slowest


def twice(node):
    qp = node.qps["server"]
    while not node.ready:
        yield
    qp.post_send(1)
    qp.post_send(2)
'''


def test_mutants_differ_from_the_code_in_one_statement():
    found = mutants_of(LOOP)
    assert len({mutant.code for mutant in found}) == len(found)
    lines = ast.unparse(ast.parse(LOOP)).splitlines()
    for mutant in found:
        differ = set(mutant.code.splitlines()) ^ set(lines)
        assert mutant.operator == "order of two" or differ, mutant
        assert len(mutant.code.splitlines()) <= len(lines), mutant


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("comparison off by one", "if time > slowest:", "if time >= slowest:"),
        ("comparison turned round", "if time > slowest:", "if time <= slowest:"),
        ("other operation", "time = size / rate", "time = size * rate"),
        ("sides exchanged", "time = size / rate", "time = rate / size"),
        ("bits for bytes", "time = size / rate", "time = size / rate * 8"),
        ("number off by one", "for size in sizes[1:]:", "for size in sizes[2:]:"),
        ("another variable returned", "return slowest", "return size"),
        ("statement left out", "slowest = time", "pass"),
        ("condition negated", "while not node.ready:", "while node.ready:"),
        ("wait left out", "yield", "pass"),
        (
            "order of two",
            "qp.post_send(1); qp.post_send(2)",
            "qp.post_send(2); qp.post_send(1)",
        ),
    ],
)
def test_a_known_change_is_among_the_mutants(operator, before, after):
    found = {(mutant.operator, mutant.before, mutant.after) for mutant in mutants_of(LOOP)}
    assert (operator, before, after) in found


def test_what_changes_nothing_is_no_mutant():
    assert not mutants_of(
        'def f(x):\n    """Say what."""\n    import math\n    raise ValueError(x)'
    )
    assigned = mutants_of("def f(x):\n    a = x\n    b = x")
    assert not [mutant for mutant in assigned if mutant.operator == "order of two"]


def test_a_sample_has_each_operator_before_any_twice_and_all_that_wait_less():
    found = mutants_of(LOOP)
    kinds = {(mutant.function, mutant.operator) for mutant in found}
    chosen = sample_of(found, len(kinds))
    waits = [mutant for mutant in found if mutant.operator == "wait left out"]
    assert len(waits) == 2 and set(waits) <= set(chosen)
    assert len({(mutant.function, mutant.operator) for mutant in chosen}) >= len(kinds) - 1


# Under the judges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["ex1-b", "ex2-a", "ex3-a", "ex4-a"])
def test_a_few_mutants_are_refused(question):
    """What a push tests of the mutants: two of each exercise."""
    explained = rows_of(question)
    wrong = [mutant for mutant in mutants(question) if mutant.change not in explained]
    for change, parts in judged(question, wrong[:2]).items():
        assert max(parts) < 1, change


@pytest.mark.parametrize(
    ("question", "before", "after"),
    [
        ("ex1-b", "e[1] <= a", "e[1] < a"),
        ("ex4-e", "2 * (delay + wire / rate)", "2 * (delay - wire / rate)"),
        ("ex4-e", "(last - 1) * wire / rate + trip", "(last - 1) * wire / 8 / rate + trip"),
    ],
)
def test_a_mutant_that_was_accepted_once_is_refused(question, before, after):
    code = changed(solved(int(question[2]))[question], (before, after))
    (parts,) = parts_of(question, [code], KEYS)
    assert max(parts) < 1, parts


def test_an_endless_loop_costs_itself_only(monkeypatch):
    monkeypatch.setattr("fabriclab.course.judges.shared.calls._PATIENCE", 0.3)
    endless = "def algbw(size, time):\n    while True:\n        size += 1"
    right = solved(1)["ex1-b"]
    without = tuple(
        round(part, 6) for part in next(parts_of("ex1-b", [f"{right}\n{endless}"], KEYS[:1]))
    )
    assert without == (0.4,)  # of utilisation: busbw calls algbw


@pytest.mark.release
@pytest.mark.parametrize("question", QUESTIONS)
def test_each_mutant_is_refused_or_explained(question):
    explained = rows_of(question)
    found = judged(question, mutants(question))
    unexplained = {change for change, parts in found.items() if max(parts) == 1} - set(explained)
    assert unexplained == set()
    for change, row in explained.items():
        assert max(found[change]) == 1, ("no longer accepted", row)
        if row.kind != "unseen":
            assert min(found[change]) == 1, ("right, and refused with a key", row)


@pytest.mark.release
@pytest.mark.parametrize(
    "question", sorted({row.question for row in accepted() if row.kind == "same"})
)
def test_what_is_called_the_same_returns_the_same(question):
    codes = {mutant.change: mutant.code for mutant in mutants(question)}
    right = [outputs(question, solved(int(question[2]))[question], key) for key in SAME_KEYS]
    for change, row in rows_of(question).items():
        if row.kind == "same":
            assert [outputs(question, codes[change], key) for key in SAME_KEYS] == right, row


@pytest.mark.release
def test_nearly_all_wrong_mutants_are_refused():
    """Counted by the table, which the tests above hold against the judges."""
    rows = accepted()
    drawn = {question: {mutant.change for mutant in mutants(question)} for question in QUESTIONS}
    assert all(row.change in drawn[row.question] for row in rows)
    assert all(row.kind in ("same", "right", "unseen") and row.why.endswith(".") for row in rows)
    all_of_them = sum(map(len, drawn.values()))
    wrong = all_of_them - sum(row.kind != "unseen" for row in rows)
    unseen = sum(row.kind == "unseen" for row in rows)
    assert wrong >= 150 and unseen <= 0.05 * wrong, (wrong, unseen)
    for number in EXERCISES:
        assert sum(len(drawn[question.id]) for question in exercise(number)) >= 40


@pytest.mark.parametrize("answers", [answers1, answers2, answers3, answers4])
def test_there_are_eight_right_answers_to_each_exercise(answers):
    """Each of them gets full marks, whatever the key, in the tests of its exercise."""
    assert len({code for all_of in answers.RIGHT.values() for code in all_of.values()}) >= 8
