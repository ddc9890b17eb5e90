"""Lesson 61: an alarm that adds up what samples say, and finds a loss that is as small as the noise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    explained,
    mistake_of,
    name_of,
    stopped,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

# Samples in standard deviations and the limit of the sum -> number of the first sample above it, from 1; 0 if none.
Alarm = Callable[[list[float], float], Any]

_HALF = 0.5  # half of the shift that is to be found


class Case(NamedTuple):
    """Samples with a name, and the limit of their sum."""

    name: str
    samples: tuple[float, ...]
    limit: float


def first_alarm(
    samples: list[float], limit: float, *, off: float = _HALF, floor: float = 0.0
) -> int:
    """Return the number of the first sample after which the sum is above a limit, from 1; 0 if there is none."""
    total = 0.0
    for number, sample in enumerate(samples, start=1):
        total = max(floor, total + sample - off)
        if total > limit:
            return number
    return 0


def cases() -> tuple[Case, ...]:
    """Return the samples on which an alarm is tried: by hand, then drawn with and without a loss."""
    rng = np.random.default_rng(61)
    found = [
        Case(text("trace.alarm_paper"), (1.0, -1.0, 2.0, 0.0, 2.0, 1.0), 2.2),
        Case(
            text("trace.alarm_healthy"), (0.9, -0.6, 0.4, -1.2, 0.8, 0.3, -0.2, 0.7, 0.1, 0.6), 2.2
        ),
        Case(text("trace.alarm_debt"), (*[-1.0] * 20, *[1.5] * 6), 3.2),
        Case(text("trace.alarm_late"), (*[0.2] * 10, *[1.25] * 12), 4.1),
        Case(text("trace.alarm_once"), (0.0, 3.9, -3.0, 0.0, 0.0), 3.1),
        Case(text("trace.alarm_equal"), (1.5, 1.5, 1.5, 1.5), 2.0),
        Case(text("trace.alarm_slow"), tuple([0.55] * 200), 8.88),
        Case(text("trace.alarm_twos"), (2.0, 2.0, 2.0, 2.0, 2.0), 3.2),
    ]
    healthy = rng.normal(0.0, 1.0, 400)
    found.append(Case(text("trace.alarm_long"), tuple(np.round(healthy, 2).tolist()), 9.123))
    lost = np.concatenate([rng.normal(0.0, 1.0, 60), rng.normal(1.0, 1.0, 60)])
    found.append(Case(text("trace.alarm_lost"), tuple(np.round(lost, 2).tolist()), 9.123))
    return tuple(found)


def _goes_on(samples: list[float], limit: float) -> int:
    """Return the last sample after which the sum is above the limit."""
    total, last = 0.0, 0
    for number, sample in enumerate(samples, start=1):
        total = max(0.0, total + sample - _HALF)
        if total > limit:
            last = number
    return last


def _by_itself(samples: list[float], limit: float) -> int:
    """Return the first sample that is above the limit by itself."""
    over = [number for number, sample in enumerate(samples, start=1) if sample > limit]
    return over[0] if over else 0


def _always(samples: list[float], limit: float) -> int:
    """Return the first alarm, or the last sample if there is none."""
    return first_alarm(samples, limit) or len(samples)


def _never(samples: list[float], limit: float) -> int:
    """Return 0 for all samples."""
    return 0


def _from_zero(samples: list[float], limit: float) -> int:
    """Return the first alarm counted from 0, and 0 if there is none."""
    return max(0, first_alarm(samples, limit) - 1)


def _from_zero_or_none(samples: list[float], limit: float) -> int:
    """Return the first alarm counted from 0, and -1 if there is none."""
    return first_alarm(samples, limit) - 1


def _no_floor(samples: list[float], limit: float) -> int:
    """Return the first alarm of a sum that may fall below 0."""
    return first_alarm(samples, limit, floor=-np.inf)


def _nothing_off(samples: list[float], limit: float) -> int:
    """Return the first alarm of a sum of whole samples."""
    return first_alarm(samples, limit, off=0.0)


def _nothing_off_no_floor(samples: list[float], limit: float) -> int:
    """Return the first alarm of a sum of whole samples that may fall below 0."""
    return first_alarm(samples, limit, off=0.0, floor=-np.inf)


def _whole_shift(samples: list[float], limit: float) -> int:
    """Return the first alarm of a sum from which the whole shift is taken."""
    return first_alarm(samples, limit, off=2 * _HALF)


# What somebody with a mistake would return, by its name; one mistake may be made in several ways.
_RULES: tuple[tuple[str, Alarm], ...] = (
    ("never begins again", _no_floor),
    ("nothing taken off", _nothing_off),
    ("nothing taken off", _nothing_off_no_floor),
    ("forgets the sum", _by_itself),
    ("counted from 0", _from_zero),
    ("counted from 0", _from_zero_or_none),
    ("goes on after the alarm", _goes_on),
    ("healthy NICs raise an alarm", _always),
    ("never raises an alarm", _never),
    ("half of the deviation forgotten", _whole_shift),
)


@register("check", "61-write-alarm")
def alarm(answer: Alarm) -> Verdict:
    """Call ``answer(samples, limit)`` on samples of healthy NICs, and of some with a loss."""
    returned = []
    tried = []
    for case in cases():
        found = _number(answer, case)
        right = first_alarm(list(case.samples), case.limit)
        returned.append(found)
        tried.append(TriedCase(case.name, found == right, "", str(found), str(right)))
    if all(each.right for each in tried):
        return True, [], ""
    mistake = ""
    for name, rule in _RULES:
        arguments = [(list(case.samples), case.limit) for case in cases()]
        if not mistake:
            mistake = mistake_of(returned, {name: rule}, arguments)
    first = next(each for each in tried if not each.right)
    line = text("function.alarm", case=first.name, got=first.got, right=first.wanted)
    return False, [line, *explained("61-write-alarm", mistake)], mistake, Trace(tuple(tried))


def _number(answer: Alarm, case: Case) -> int:
    """Return what the learner's function returns; raise Unanswered if it is no whole number."""
    samples = list(case.samples)
    try:
        found = answer(samples, case.limit)
    except (Exception, SystemExit) as error:
        raise stopped(f"{name_of(answer)}(samples, {case.limit:g})", error) from None
    if samples != list(case.samples):
        raise Unanswered("kind", text("function.alarm_changed", name=name_of(answer)))
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        said = text("function.alarm_kind", name=name_of(answer), got=brief(found), case=case.name)
        raise Unanswered("kind", said)
    return int(found.__index__())
