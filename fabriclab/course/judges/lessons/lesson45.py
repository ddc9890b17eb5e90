"""Lesson 45: whether an order of updates keeps all packets out of loops and black holes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab import sdn
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, explained, name_of, stopped
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.sdn import trials
from fabriclab.texts import text

# Order of updates, old rules and new rules -> whether no packet from "s" is lost at any moment.
IsSafe = Callable[[list[str], dict[str, str], dict[str, str]], Any]


@register("check", "45-write-safe")
def safety_of_an_order(answer: IsSafe) -> Verdict:
    """Run ``answer(order, old, new)`` on all orders of several updates."""

    def ask(order: list[str], old: dict[str, str], new: dict[str, str]) -> bool:
        try:
            found = answer(order, old, new)
        except (KeyError, RecursionError):
            raise  # the check says which rule is missing, or that a packet goes round for ever
        except (Exception, SystemExit) as error:
            raise stopped(f"{name_of(answer)}({order}, {old}, {new})", error) from None
        if not isinstance(found, bool | int | np.bool_):
            said = text("function.is_safe_kind", name=name_of(answer), got=brief(found))
            raise Unanswered("kind", said)
        return bool(found)

    try:
        found = sdn.check_is_safe(ask)
    except KeyError as error:  # of a dictionary of the learner's own
        raise stopped(f"{name_of(answer)}(...)", error) from None
    if found.is_right:
        return True, [], ""
    if found.mistake in _NOT_JUDGED:
        problem, key = _NOT_JUDGED[found.mistake]
        raise Unanswered(problem, text(key, name=name_of(answer)))
    shown = _shown(found.case, name_of(answer))
    line = text("function.is_safe", case=shown.name, got=shown.got, right=shown.wanted)
    mistake = found.mistake if found.mistake in _NAMED else ""
    said = explained("45-write-safe", mistake)
    if found.mistake in _SAID:
        said = [text(_SAID[found.mistake])]
    return False, [line, *said], mistake, Trace((shown,))


# What keeps a function from being judged: the kind of problem, and the sentence.
_NOT_JUDGED = {
    trials.NEVER_ENDS: ("slow", "function.is_safe_endless"),
    trials.CHANGES_ARGUMENTS: ("kind", "function.is_safe_changed"),
    trials.MISSING_RULE: ("raised", "function.is_safe_no_rule"),
}

# Mistakes that get a sentence, and no misconception.
_SAID = {
    "answers turned round": "function.is_safe_turned",
    "too few hops": "function.is_safe_hops",
    "source last only": "function.is_safe_last",
}

# Mistakes that have a misconception of their own; those that have no sentence either show the case alone.
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
