"""Functions that learners write: a judge names each mistake it knows, and counts no call that gives no answer."""

import numpy as np
import pytest

from fabriclab import check
from fabriclab.course.judges.lessons import (
    lesson00,
    lesson01,
    lesson11,
    lesson11b,
    lesson11c,
    lesson12,
    lesson12c,
    lesson13,
    lesson13b,
    lesson21,
    lesson22,
    lesson23,
    lesson23b,
    lesson24,
    lesson24b,
    lesson24c,
    lesson25,
    lesson25b,
    lesson31,
    lesson32,
    lesson32b,
    lesson33,
    lesson33b,
    lesson34,
    lesson34b,
    lesson35,
    lesson35b,
    lesson41,
    lesson42,
    lesson42b,
    lesson43,
    lesson43b,
    lesson71,
    lesson72,
    lesson73,
    lesson81,
    lesson81c,
    lesson81d,
)
from fabriclab.course.questions import find, misconception

# What somebody with a mistake returns, by the question and the name of the mistake.
MISTAKES = {
    "00-write-rate": lesson00.RATE_MISTAKES,
    "01-write-slow-node": lesson01.SLOW_MISTAKES,
    "11-write-carried": lesson11.CARRIED_MISTAKES,
    "11b-write-moved": lesson11b.MOVED_MISTAKES,
    "11c-write-lost": lesson11c.LOST_MISTAKES,
    "12-write-watts": lesson12.WATTS_MISTAKES,
    "12c-write-share": lesson12c.SHARE_MISTAKES,
    "13-write-rate": lesson13.RATE_MISTAKES,
    "13b-write-heard": lesson13b.HEARD_MISTAKES,
    "21-write-switches": lesson21.COUNT_MISTAKES,
    "22-write-detours": lesson22.SHARE_MISTAKES,
    "23-write-cut": lesson23.CUT_MISTAKES,
    "23-write-next": lesson23.NEXT_MISTAKES,
    "23b-write-rack": lesson23b.RACK_MISTAKES,
    "24-write-reached": lesson24.REACHED_MISTAKES,
    "24b-write-port": lesson24b.PORT_MISTAKES,
    "24c-write-path": lesson24c.PATH_MISTAKES,
    "25-write-circuits": lesson25.PLACE_MISTAKES,
    "25-write-relay": lesson25.RELAY_MISTAKES,
    "25b-write-shared": lesson25b.RING_MISTAKES,
    "31-write-time": lesson31.TIME_MISTAKES,
    "32-write-crossover": lesson32.CROSSOVER_MISTAKES,
    "32b-write-wire": lesson32b.WIRE_MISTAKES,
    "33-write-bubble": lesson33.BUBBLE_MISTAKES,
    "33-write-pieces": lesson33.PIECES_MISTAKES,
    "33b-write-step": lesson33b.STEP_MISTAKES,
    "34-write-dropped": lesson34.DROPPED_MISTAKES,
    "34-write-fullest": lesson34.FULLEST_MISTAKES,
    "34b-write-sending": lesson34b.SENDING_MISTAKES,
    "35-write-exposed": lesson35.EXPOSED_MISTAKES,
    "35b-write-tokens": lesson35b.TOKENS_MISTAKES,
    "41-write-reuse": lesson41.REUSE_MISTAKES,
    "41-write-wait": lesson41.WAIT_MISTAKES,
    "42-write-host": lesson42.CROSSINGS_MISTAKES,
    "42b-write-time": lesson42b.TIME_MISTAKES,
    "43-write-arrays": lesson43.ARRAYS_MISTAKES,
    "43-write-free": lesson43.FREE_MISTAKES,
    "43b-write-scale": lesson43b.SCALE_MISTAKES,
    "71-write-bytes": lesson71.TENSOR_MISTAKES,
    "72-write-step": lesson72.STEP_MISTAKES,
    "73-write-token": lesson73.TOKEN_MISTAKES,
    "81-write-circuit": lesson81.CIRCUIT_MISTAKES,
    "81c-write-bits": lesson81c.BITS_MISTAKES,
    "81d-write-levels": lesson81d.LEVELS_MISTAKES,
}
# Mistakes that a judge sees in one answer, without a rule: the tests of the lesson have an answer for each.
SEEN = {
    "25-write-circuits": {"other end forgotten", "pair twice", "circuit to itself"},
    "33-write-pieces": {lesson33.LESS_THAN_ONE},
}


def pairs_of(rules):
    """Return the names and the rules of a question; a list of pairs may have two rules for a name."""
    return list(rules.items()) if hasattr(rules, "items") else list(rules)


@pytest.mark.parametrize(
    ("question", "name", "rule"),
    [(id, name, rule) for id, rules in MISTAKES.items() for name, rule in pairs_of(rules)],
)
def test_a_known_mistake_of_a_function_is_named(question, name, rule):
    shown = check(question, rule)
    assert not shown.data["right"] and shown.data["named"] == name
    assert misconception(question, name) in str(shown)


@pytest.mark.parametrize("question", MISTAKES)
def test_each_stated_mistake_has_a_rule(question):
    named = {name for name, _ in pairs_of(MISTAKES[question])} | SEEN.get(question, set())
    assert {wrong.mistake for wrong in find(question).wrong} == named


def nothing(*_):
    return None


def in_a_list(*_):
    return ["50 GB/s"]


def no_arguments():
    return 1


def stops(*_):
    return 1 / 0


@pytest.mark.parametrize("question", MISTAKES)
@pytest.mark.parametrize("rule", [nothing, in_a_list, no_arguments, stops])
def test_what_is_no_answer_is_not_counted(question, rule):
    assert not check(question, rule).data["counted"]


# What a person may write for the number that a question asks for; 01 and 24c ask for words and have none.
IN_WORDS = {
    "00": "9 GB/s",
    "11": "50 GB/s",
    "12": "17.5 W",
    "13": "41 Gb/s",
    "21": "48",
    "22": "50 %",
    "23": "123",
    "24": "50 GB/s",
    "25": "0-1",
    "31": "12 ms",
    "32": "8 KiB",
    "33": "8 pieces",
    "34": "2 times",
    "35": "2 s",
    "41": "yes",
    "42": "twice",
    "43": "8 arrays",
    "71": "1 GB",
    "72": "1 s",
    "73": "20 ms",
}


@pytest.mark.parametrize(
    "question", sorted(MISTAKES.keys() - {"01-write-slow-node", "24c-write-path"})
)
def test_what_is_no_number_is_not_counted(question):
    assert not check(question, lambda *_: IN_WORDS[question[:2]]).data["counted"]


def one(*_):
    return 1.0


# Answers that depend on what is given, as a learner's do, or where 1.0 is of another kind or a known mistake.
UNKNOWN = {
    "00-write-rate": lambda size, times: 2 * size / np.median(times),
    "01-write-slow-node": lambda pairs, limit: "somebody",
    "13b-write-heard": lambda side, angle: 0.3,
    "21-write-switches": lambda gpus, radix: gpus,
    "23-write-next": lambda here, goal, sides: here,
    "24c-write-path": lambda switches, cpus: "FAR",
    "25-write-circuits": lambda traffic, fibres: [(0, 1)],
    "41-write-reuse": lambda number, inline, polled: number % 2 == 0,
    "41-write-wait": lambda cq: cq.poll() and 7.5,
    "43-write-arrays": lambda algorithm, n: 3.0,
    "43-write-free": lambda newest: sum(newest) + 10,
    "71-write-bytes": lambda tp, layers, m, tokens, hidden: 7.0 * tp,
}


@pytest.mark.parametrize("question", MISTAKES)
def test_an_unknown_mistake_is_wrong_without_a_name(question):
    shown = check(question, UNKNOWN.get(question, one))
    assert not shown.data["right"] and shown.data["named"] == ""
