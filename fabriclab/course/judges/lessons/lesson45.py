"""Lesson 45: whether an order of updates keeps all packets out of loops and black holes."""

from collections.abc import Callable
from typing import Any

from fabriclab import sdn
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, called, explained, name_of
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

# Order of updates, old rules and new rules -> whether no packet from "s" is lost at any moment.
IsSafe = Callable[[list[str], dict[str, str], dict[str, str]], Any]


@register("check", "45-write-safe")
def safety_of_an_order(answer: IsSafe) -> Verdict:
    """Run ``answer(order, old, new)`` on all orders of several updates."""

    def ask(order: list[str], old: dict[str, str], new: dict[str, str]) -> bool:
        found = called(answer, list(order), dict(old), dict(new))
        if found is None or not isinstance(found, bool | int):
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


# Mistakes that have a misconception of their own; others show the case alone.
_NAMED = (
    "two right routes mix well",
    "nothing is safe",
    "black holes forgotten",
    "loops forgotten",
    "loops off the way",
    "first moment only",
    "source first",
)


def _shown(case: str, name: str) -> TriedCase:
    """Return the case that was answered wrong: ``is_safe([...], {...}, {...}) must be True``."""
    call, _, wanted = case.rpartition(" must be ")
    got = "False" if wanted == "True" else "True"
    call = call.replace("is_safe(", f"{name}(", 1)
    return TriedCase(call, False, call, got, wanted)
