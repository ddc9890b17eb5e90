"""Functions of learners on updates of rules: each is tried on many orders, and its mistake gets a name.

A mistake is a rule that answers as the learner's function does on every order, such as one that looks for loops only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fabriclab.sdn.updates import (
    BLACK_HOLE,
    LOOP,
    Fault,
    Node,
    Rules,
    destination_of,
    faults,
    is_safe,
    mixed,
    moving,
    play,
    rules,
    source_of,
)

__all__ = ["RuleCheck", "check_is_safe", "check_next_switch"]


class RuleCheck(NamedTuple):
    """Whether a function of a learner is right; if not, the name of its mistake, a sentence on it, and a case."""

    is_right: bool
    mistake: str
    message: str
    case: str


# Updates on which functions of learners are tried: the plan's own, one with a new node, and some that need care.
CASES = (
    ("s-a-b-c-d", "s-c-b-a-d"),
    ("s-a-d", "s-b-d"),
    ("s-a-b-d", "s-b-a-d"),
    ("s-a-b-c-d", "s-b-a-c-d"),
    ("s-a-b-c-d", "s-a-c-b-d"),
    ("s-a-c-d", "s-c-b-a-d"),
)


def check_is_safe(
    function: Callable[..., Any], cases: Sequence[tuple[str, str]] = CASES
) -> RuleCheck:
    """Try a function ``is_safe(order, old, new)`` on all orders of small updates, and name its mistake.

    ``old`` and ``new`` map each node to its next node, such as ``{"s": "a", "a": "d"}``; packets come from ``"s"`` and
    go to ``"d"``. Right is True if at no moment a packet from ``"s"`` meets a loop or a black hole.
    """
    answers: list[bool] = []
    asked = []
    for one, other in cases:
        old, new = rules(one), rules(other)
        for order in itertools.permutations(moving(old, new)):
            asked.append((order, old, new))
            given = function(list(order), _plain(old), _plain(new))
            case = f"is_safe({list(order)}, {_plain(old)}, {_plain(new)})"
            if not isinstance(given, bool):
                return RuleCheck(
                    False,
                    "no answer",
                    f"is_safe must return True or False, got {given!r:.60}",
                    case,
                )
            answers.append(given)
    right = [is_safe(*case) for case in asked]
    if answers == right:
        return RuleCheck(True, "", f"right for all {len(right)} orders of {len(cases)} updates", "")
    wrong = next(i for i, (a, b) in enumerate(zip(answers, right, strict=True)) if a != b)
    order, old, new = asked[wrong]
    case = f"is_safe({list(order)}, {_plain(old)}, {_plain(new)}) must be {right[wrong]}"
    for mistake in _MISTAKES:
        if answers == [mistake.rule(*each) for each in asked]:
            return RuleCheck(False, mistake.name, mistake.message, case)
    if answers[wrong]:
        return RuleCheck(
            False, "unsafe order accepted", "Some packet does not arrive at some moment.", case
        )
    return RuleCheck(
        False, "safe order refused", "Every packet arrives at every moment of this order.", case
    )


def _plain(table: Rules) -> dict[Node, Node]:
    """Return rules with one next node each, as learners read them."""
    return {node: ahead[0] for node, ahead in table.items()}


# Rules that answer as a mistake does, all called as ``rule(order, old, new)``.


def _always(order: Any, old: Rules, new: Rules) -> bool:
    """Call every order safe."""
    return True


def _never(order: Any, old: Rules, new: Rules) -> bool:
    """Call no order safe."""
    return False


def _no_loop_met(order: Any, old: Rules, new: Rules) -> bool:
    """Look for loops alone."""
    return not _met(order, old, new, LOOP)


def _no_hole_met(order: Any, old: Rules, new: Rules) -> bool:
    """Look for black holes alone."""
    return not _met(order, old, new, BLACK_HOLE)


def _no_loop_anywhere(order: Any, old: Rules, new: Rules) -> bool:
    """Refuse loops that no packet reaches, too."""
    has_loop = any(f.kind == LOOP for moment in play(order, old, new) for f in moment.faults)
    return not has_loop and _no_hole_met(order, old, new)


def _first_moment(order: Any, old: Rules, new: Rules) -> bool:
    """Look at the moment after the first update alone."""
    return not any(f.is_met for f in play(order, old, new)[1].faults)


def _along_new_route(order: Any, old: Rules, new: Rules) -> bool:
    """Call the order of the new route safe, from its source on, and no other."""
    return list(order) == list(moving(old, new))


def _met(order: Any, old: Rules, new: Rules, kind: str) -> bool:
    """Return whether packets meet a fault of a kind at some moment."""
    moments = play(order, old, new)
    return any(f.is_met and f.kind == kind for moment in moments for f in moment.faults)


class _Mistake(NamedTuple):
    """A mistake: its name, what to tell the learner, and the rule that makes it."""

    name: str
    message: str
    rule: Callable[[Any, Rules, Rules], bool]


_MISTAKES = (
    _Mistake(
        "two right routes mix well",
        "Old and new rules are right by themselves, but packets meet a mix of both. Look at each moment.",
        _always,
    ),
    _Mistake(
        "nothing is safe",
        "Some orders are safe: follow a packet from s after each update.",
        _never,
    ),
    _Mistake(
        "black holes forgotten",
        "A packet at a node without a rule is lost, although it is in no loop.",
        _no_loop_met,
    ),
    _Mistake(
        "loops forgotten",
        "A packet that comes to a node for the second time is in a loop.",
        _no_hole_met,
    ),
    _Mistake(
        "loops off the way",
        "A loop that no packet from s reaches harms nobody; begin at s.",
        _no_loop_anywhere,
    ),
    _Mistake(
        "first moment only",
        "The moment after the first update is not the only one; look after each of them.",
        _first_moment,
    ),
    _Mistake(
        "source first",
        "Along the new route from s, each node sends packets to nodes that still have old rules.",
        _along_new_route,
    ),
)


def check_next_switch(
    function: Callable[..., Any], cases: Sequence[tuple[str, str]] = CASES
) -> RuleCheck:
    """Try a function ``next_switch(updated, old, new)``, which names the node to update next, and name its mistake.

    It is called until all nodes are updated, with the set of nodes that are. Right is every order in which no packet
    from ``"s"`` meets a loop or a black hole at any moment.
    """
    for one, other in cases:
        old, new = rules(one), rules(other)
        wanted = moving(old, new)
        order: list[Node] = []
        while len(order) < len(wanted):
            given = function(set(order), _plain(old), _plain(new))
            case = f"next_switch({set(order) or '{}'}, {_plain(old)}, {_plain(new)})"
            if given in order:
                return RuleCheck(
                    False, "updated twice", f"{given!r} has its new rule already.", case
                )
            if given not in wanted:
                names = ", ".join(map(str, wanted))
                return RuleCheck(
                    False, "no such node", f"Name one of {names}, got {given!r:.60}.", case
                )
            order.append(given)
            table = mixed(old, new, order)
            bad = [
                f for f in faults(table, source_of(old, new), destination_of(old, new)) if f.is_met
            ]
            if bad:
                nodes = "-".join(map(str, bad[0].nodes))
                message = f"After {given!r} packets meet a {bad[0].kind} at {nodes}."
                return RuleCheck(False, _name_of(order, old, new, bad[0]), message, case)
    return RuleCheck(True, "", f"safe on all {len(cases)} updates", "")


def _name_of(order: list[Node], old: Rules, new: Rules, fault: Fault) -> str:
    """Return the name of the mistake that an order shows."""
    along_new = list(moving(old, new))
    along_old = [node for node in old if node in along_new]
    if order == along_new[: len(order)]:
        return "source first"
    if order == along_old[: len(order)] or order == along_old[::-1][: len(order)]:
        return "order of the old route"
    return f"{fault.kind} on the way"
