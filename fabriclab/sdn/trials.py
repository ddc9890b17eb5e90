"""Functions of learners on updates of rules: each is tried on many orders, and its mistake gets a name.

A mistake is a rule that answers as the learner's function does on every order, such as one that looks for loops only.
A function that does not come to an end is stopped, and one that changes its arguments or looks up a rule that is not
there is told so before anything is judged.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

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


# Names of what keeps a function from being judged at all.
NEVER_ENDS = "never ends"
CHANGES_ARGUMENTS = "changes its arguments"
MISSING_RULE = "looks up a missing rule"
NO_ANSWER = "no answer"

# illustrative: lines of code after which a call counts as endless; a right one needs some hundred
_MOST_LINES = 20_000
_MOST_HOPS = 20  # illustrative: more than any route of the updates below has

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
            case = f"is_safe({list(order)}, {_plain(old)}, {_plain(new)})"
            try:
                given = _answer_of(function, list(order), _plain(old), _plain(new))
            except _NotJudged as error:
                return RuleCheck(False, error.mistake, error.message, case)
            if not isinstance(given, bool | np.bool_):
                message = f"is_safe must return True or False, got {given!r:.60}"
                return RuleCheck(False, NO_ANSWER, message, case)
            answers.append(bool(given))
    right = [is_safe(*case) for case in asked]
    if answers == right:
        return RuleCheck(True, "", f"right for all {len(right)} orders of {len(cases)} updates", "")
    wrong = next(i for i, (a, b) in enumerate(zip(answers, right, strict=True)) if a != b)
    order, old, new = asked[wrong]
    case = f"is_safe({list(order)}, {_plain(old)}, {_plain(new)}) must be {right[wrong]}"
    for mistake in _MISTAKES:
        if any(answers == [rule(*each) for each in asked] for rule in mistake.rules):
            return RuleCheck(False, mistake.name, mistake.message, case)
    if answers[wrong]:
        return RuleCheck(
            False, "unsafe order accepted", "Some packet does not arrive at some moment.", case
        )
    return RuleCheck(
        False, "safe order refused", "Every packet arrives at every moment of this order.", case
    )


class _NotJudged(Exception):
    """A call of a learner's function that has no answer: the name of the mistake, and a sentence on it."""

    def __init__(self, mistake: str, message: str) -> None:
        """Store both."""
        super().__init__(mistake, message)
        self.mistake = mistake
        self.message = message


class _Endless(BaseException):
    """A call of a learner's function has run through more lines than any answer needs."""


def _answer_of(function: Callable[..., Any], updates: Any, old: Any, new: Any) -> Any:
    """Return what a learner's function returns.

    Raises
    ------
    _NotJudged
        If the call does not end, changes an argument, or asks a dictionary for a node that has no rule. Any other
        error of the function goes through.
    """
    kept = updates.copy(), dict(old), dict(new)
    try:
        answer = _within_lines(function, updates, old, new)
    except (_Endless, RecursionError):
        raise _NotJudged(
            NEVER_ENDS,
            "The call does not come to an end: it follows a packet round a loop for ever. Count the nodes that the "
            "packet has passed, or keep those that it has met.",
        ) from None
    except KeyError as error:
        node = error.args[0] if error.args else None
        if node not in {*kept[1], *kept[2]}:
            raise
        raise _NotJudged(
            MISSING_RULE,
            f"The call looks up a rule of {node!r} where there is none (KeyError). A node that is missing in new loses "
            "its rule, and a packet that comes to a node without a rule is lost; .get(node) returns None there.",
        ) from None
    changed = [name for name, a, b in _pairs_of(kept, (updates, old, new)) if a != b]
    if changed:
        raise _NotJudged(
            CHANGES_ARGUMENTS,
            f"The call changes its argument {' and '.join(changed)}, so whoever calls it again gets another answer. "
            "Work on a copy, such as dict(old).",
        )
    return answer


def _pairs_of(kept: tuple[Any, ...], now: tuple[Any, ...]) -> list[tuple[str, Any, Any]]:
    """Return the name of each argument with its value before and after a call."""
    first = "updated" if isinstance(kept[0], set) else "order"
    return list(zip((first, "old", "new"), kept, now, strict=True))


def _within_lines(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or raise _Endless after so many lines of its code.

    Lines are counted, not seconds, so the same function is stopped on every machine. Code in C, such as a sum over an
    endless iterator of the standard library, has no lines and is not stopped.
    """
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
        return function(*arguments)
    finally:
        sys.settrace(trace)


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


def _inverted(order: Any, old: Rules, new: Rules) -> bool:
    """Call safe orders unsafe and the others safe."""
    return not is_safe(order, old, new)


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


def _from_every_node(order: Any, old: Rules, new: Rules) -> bool:
    """Follow a packet from every node that has a rule, not from the source alone."""
    tables = [moment.table for moment in play(order, old, new)[1:]]
    return all(_arrives(table, node) for table in tables for node in table)


def _from_every_entry(order: Any, old: Rules, new: Rules) -> bool:
    """Follow a packet from every node that has, or has lost, a rule; one without a rule does not arrive."""
    for moment in play(order, old, new)[1:]:
        starts = {*old, *moment.table}
        if not all(_arrives(moment.table, node) for node in starts):
            return False
    return True


def _from_updated_entry(order: Any, old: Rules, new: Rules) -> bool:
    """Follow a packet from the node that was updated last, also where it has lost its rule."""
    return all(_arrives(m.table, m.node) for m in play(order, old, new)[1:] if m.node is not None)


def _from_updated_node(order: Any, old: Rules, new: Rules) -> bool:
    """Follow a packet from the node that was updated last, and from the source if that node has no rule."""
    for moment in play(order, old, new)[1:]:
        start = moment.node if moment.table.get(moment.node) else "s"
        if not _arrives(moment.table, start):
            return False
    return True


def _first_moment(order: Any, old: Rules, new: Rules) -> bool:
    """Look at the moment after the first update alone."""
    return not any(f.is_met for f in play(order, old, new)[1].faults)


def _as_many_hops_as_old_rules(order: Any, old: Rules, new: Rules) -> bool:
    """Give up a packet after as many hops as there are old rules."""
    return all(_arrives(m.table, "s", len(old)) for m in play(order, old, new)[1:])


def _as_many_hops_as_updates(order: Any, old: Rules, new: Rules) -> bool:
    """Give up a packet after as many hops as nodes are updated."""
    return all(_arrives(m.table, "s", len(order)) for m in play(order, old, new)[1:])


def _source_last(order: Any, old: Rules, new: Rules) -> bool:
    """Call every order safe that ends with the source, and no other."""
    return "s" not in order or order[-1] == "s"


def _source_at_end(order: Any, old: Rules, new: Rules) -> bool:
    """Look at the end of the order alone, also where the source keeps its rule."""
    return bool(order[-1] == "s")


def _along_new_route(order: Any, old: Rules, new: Rules) -> bool:
    """Call the order of the new route safe, from its source on, then nodes that lose their rule, and no other."""
    return list(order) == list(moving(old, new))


def _new_route_alone(order: Any, old: Rules, new: Rules) -> bool:
    """Compare with the nodes of the new route that are updated; those that lose their rule are forgotten."""
    return list(order) == _updated_on_route(order, new)


def _in_turn_along_new_route(order: Any, old: Rules, new: Rules) -> bool:
    """Want the nodes of the new route in its order, wherever those that lose their rule stand."""
    return [node for node in order if node in new] == _updated_on_route(order, new)


def _whole_new_route(order: Any, old: Rules, new: Rules) -> bool:
    """Compare with all nodes of the new route, also those that keep their rule and are not updated."""
    return list(order) == list(new)


def _in_turn_along_whole_route(order: Any, old: Rules, new: Rules) -> bool:
    """Do the same, and leave out of the order the nodes that lose their rule."""
    return [node for node in order if node in new] == list(new)


def _back_along_whole_route(order: Any, old: Rules, new: Rules) -> bool:
    """Compare with all nodes of the new route from its end on, also those that are not updated."""
    return list(order) == list(new)[::-1]


def _in_turn_back_along_whole_route(order: Any, old: Rules, new: Rules) -> bool:
    """Do the same, and leave out of the order the nodes that lose their rule."""
    return [node for node in order if node in new] == list(new)[::-1]


def _back_from_destination(order: Any, old: Rules, new: Rules) -> bool:
    """Call the order back along the new route safe, then nodes that lose their rule, and no other."""
    gain = _updated_on_route(order, new)
    lose = [node for node in order if node not in new]
    return list(order[: len(gain)]) == gain[::-1] and set(order[len(gain) :]) == set(lose)


def _back_on_route_alone(order: Any, old: Rules, new: Rules) -> bool:
    """Compare with the way back along the new route; nodes that lose their rule are forgotten."""
    return list(order) == _updated_on_route(order, new)[::-1]


def _in_turn_back(order: Any, old: Rules, new: Rules) -> bool:
    """Want the nodes of the new route from its end on, wherever those that lose their rule stand."""
    return [node for node in order if node in new] == _updated_on_route(order, new)[::-1]


def _old_rules_kept(order: Any, old: Rules, new: Rules) -> bool:
    """Let nodes that lose their rule keep it."""
    kept = {node: ahead for node, ahead in old.items() if node not in new}
    return is_safe([node for node in order if node in new], old, {**new, **kept})


def _met(order: Any, old: Rules, new: Rules, kind: str) -> bool:
    """Return whether packets meet a fault of a kind at some moment."""
    moments = play(order, old, new)
    return any(f.is_met and f.kind == kind for moment in moments for f in moment.faults)


def _arrives(table: Rules, start: Node, most: int = _MOST_HOPS) -> bool:
    """Return whether a packet from a node comes to d within some hops."""
    here = start
    for _ in range(most):
        if here == "d" or not table.get(here):
            break
        here = table[here][0]
    return here == "d"


def _updated_on_route(order: Any, new: Rules) -> list[Node]:
    """Return the nodes of an order that are on the new route, from the source on."""
    return [node for node in new if node in order]


class _Mistake(NamedTuple):
    """A mistake: its name, what to tell the learner, and the rules that make it."""

    name: str
    message: str
    rules: tuple[Callable[[Any, Rules, Rules], bool], ...]


_MISTAKES = (
    _Mistake(
        "two right routes mix well",
        "Old and new rules are right by themselves, but packets meet a mix of both. Look at each moment.",
        (_always,),
    ),
    _Mistake(
        "nothing is safe",
        "Some orders are safe: follow a packet from s after each update.",
        (_never,),
    ),
    _Mistake(
        "answers turned round",
        "Every answer is the opposite of the right one: True means that all packets arrive.",
        (_inverted,),
    ),
    _Mistake(
        "black holes forgotten",
        "A packet at a node without a rule is lost, although it is in no loop.",
        (_no_loop_met,),
    ),
    _Mistake(
        "loops forgotten",
        "A packet that comes to a node for the second time is in a loop.",
        (_no_hole_met,),
    ),
    _Mistake(
        "loops off the way",
        "A loop or a missing rule that no packet from s reaches harms nobody; begin at s.",
        (
            _no_loop_anywhere,
            _from_every_node,
            _from_every_entry,
            _from_updated_node,
            _from_updated_entry,
        ),
    ),
    _Mistake(
        "first moment only",
        "The moment after the first update is not the only one; look after each of them.",
        (_first_moment,),
    ),
    _Mistake(
        "too few hops",
        "A packet may pass more nodes than there are old rules or updates. Give it one hop for each rule of now.",
        (_as_many_hops_as_old_rules, _as_many_hops_as_updates),
    ),
    _Mistake(
        "source first",
        "Along the new route from s, each node sends packets to nodes that still have old rules.",
        (
            _along_new_route,
            _new_route_alone,
            _in_turn_along_new_route,
            _whole_new_route,
            _in_turn_along_whole_route,
        ),
    ),
    _Mistake(
        "source last only",
        "That s changes last is not enough, since the nodes behind it can send packets round among each other.",
        (_source_last, _source_at_end),
    ),
    _Mistake(
        "destination first only",
        "Back from the destination is safe, but it is not the only safe order; follow a packet.",
        (
            _back_from_destination,
            _back_on_route_alone,
            _in_turn_back,
            _back_along_whole_route,
            _in_turn_back_along_whole_route,
        ),
    ),
    _Mistake(
        "old rules kept",
        "A node that is missing in the new rules loses its rule when its turn comes.",
        (_old_rules_kept,),
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
            case = f"next_switch({set(order) or 'set()'}, {_plain(old)}, {_plain(new)})"
            try:
                given = _answer_of(function, set(order), _plain(old), _plain(new))
            except _NotJudged as error:
                return RuleCheck(False, error.mistake, error.message, case)
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
