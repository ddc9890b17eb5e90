"""Lesson 45: whether an order of updates keeps all packets out of loops and black holes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from fabriclab import sdn
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, called, explained, name_of
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

# Order of updates, old rules and new rules -> whether no packet from "s" is lost at any moment.
IsSafe = Callable[[list[str], dict[str, str], dict[str, str]], Any]


# illustrative: lines of code after which a call counts as endless; a right one needs some hundred
_MOST_LINES = 20_000


@register("check", "45-write-safe")
def safety_of_an_order(answer: IsSafe) -> Verdict:
    """Run ``answer(order, old, new)`` on all orders of several updates."""

    def ask(order: list[str], old: dict[str, str], new: dict[str, str]) -> bool:
        given = list(order), dict(old), dict(new)
        with _ends(name_of(answer)):
            found = called(answer, *given)
        if given != (list(order), old, new):
            raise Unanswered("kind", text("function.is_safe_changed", name=name_of(answer)))
        if not isinstance(found, bool | int | np.bool_):
            said = text("function.is_safe_kind", name=name_of(answer), got=brief(found))
            raise Unanswered("kind", said)
        return bool(found)

    found = sdn.check_is_safe(ask)
    if found.is_right:
        return True, [], ""
    shown = _shown(found.case, name_of(answer))
    line = text("function.is_safe", case=shown.name, got=shown.got, right=shown.wanted)
    said = explained("45-write-safe", found.mistake) if found.mistake in _NAMED else []
    mistake = found.mistake if found.mistake in _NAMED else ""
    return False, [line, *said], mistake, Trace((shown,))


class _Endless(BaseException):
    """A call of the learner's function follows a packet round a loop for ever."""


@contextmanager
def _ends(name: str) -> Iterator[None]:
    """Stop the code that runs within after so many lines, and say that its packet goes round."""
    left = _MOST_LINES

    def count(frame: FrameType, event: str, value: object) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                raise _Endless
        return count

    trace = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    except _Endless:
        raise Unanswered("slow", text("function.is_safe_endless", name=name)) from None
    finally:
        sys.settrace(trace)


# Mistakes that have a misconception of their own; others show the case alone.
_NAMED = (
    "two right routes mix well",
    "nothing is safe",
    "black holes forgotten",
    "loops forgotten",
    "loops off the way",
    "first moment only",
    "source first",
    "destination first only",
    "old rules kept",
)


def _shown(case: str, name: str) -> TriedCase:
    """Return the case that was answered wrong: ``is_safe([...], {...}, {...}) must be True``."""
    call, _, wanted = case.rpartition(" must be ")
    got = "False" if wanted == "True" else "True"
    call = call.replace("is_safe(", f"{name}(", 1)
    return TriedCase(call, False, "", got, wanted)
