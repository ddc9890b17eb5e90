"""Lesson 41: the loop that waits for a completion, and when a sender may write into a buffer again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    first_wrong,
    mistake_of,
    name_of,
    told,
    truth_of,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.rdma import WC, enums
from fabriclab.registry import register
from fabriclab.texts import text

Wait = Callable[[Any], Any]  # completion queue -> completion
Reuse = Callable[[int, bool, list[int]], Any]  # number, inline, polled -> whether

_MOST_POLLS = 1000  # illustrative: of a queue that stays empty
_FAILED = int(enums.IBV_WC_REM_ACCESS_ERR)


class Queue:
    """A completion queue whose completions come after some polls that find nothing."""

    def __init__(self, empty: int, *statuses: int) -> None:
        self.empty = empty
        self.made = [WC(wr_id=i, status=status) for i, status in enumerate(statuses)]
        self.left = list(self.made)
        self.polls = 0
        self.endless = False

    def __repr__(self) -> str:
        """Show the name that a learner has for it."""
        return "cq"

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """Return the number of completions found, and the completions, as `CQ.poll` does."""
        self.polls += 1
        if self.polls > _MOST_POLLS:
            self.endless = True
            raise RuntimeError(text("trace.wait_endless"))
        if self.polls <= self.empty:
            return 0, []
        found = self.left[:num_entries]
        del self.left[:num_entries]
        return len(found), found


# Words for a queue, the polls that find nothing, and the status of each completion.
_QUEUES: Sequence[tuple[str, int, tuple[int, ...]]] = (
    ("trace.wait_ready", 0, (0,)),
    ("trace.wait_late", 3, (0,)),
    ("trace.wait_two", 1, (0, 0)),
    ("trace.wait_failed", 2, (_FAILED, 0)),
)


def wait(cq: Any) -> Any:
    """Return the next completion of a queue."""
    while True:
        _, found = cq.poll()
        if found:
            return found[0]


def _polled_once(cq: Any) -> Any:
    _, found = cq.poll()
    return found[0] if found else None


def _list(cq: Any) -> Any:
    found: list[Any] = []
    while not found:
        _, found = cq.poll()
    return found


def _whole(cq: Any) -> Any:
    return cq.poll()


def _count(cq: Any) -> Any:
    number = 0
    while not number:
        number, _ = cq.poll()
    return number


def _status(cq: Any) -> Any:
    return wait(cq).status


def _several(cq: Any) -> Any:
    found: list[Any] = []
    while not found:
        _, found = cq.poll(16)  # illustrative: more than a queue of the cases has
    return found[0]


def _successes(cq: Any) -> Any:
    while True:
        found = wait(cq)
        if found.status == 0:
            return found


# What somebody with a mistake writes, by its name.
WAIT_MISTAKES: Mapping[str, Wait] = {
    "polled once": _polled_once,
    "list for a completion": _list,
    "whole poll for a completion": _whole,
    "count for a completion": _count,
    "status for a completion": _status,
    "more taken than returned": _several,
    "failures thrown away": _successes,
}

# A mistake that shows in the type of what came back, whatever the loop was.
_WHOLE = {"list": "list for a completion", "tuple": "whole poll for a completion"}


@register("check", "41-write-wait")
def next_completion(answer: Wait) -> Verdict:
    """Run ``answer(cq)`` on queues that have completions at once, late, several of them, and a failed one."""
    outcomes = _outcomes(answer)
    tried = []
    for (key, _, _), got, wanted in zip(_QUEUES, outcomes, _outcomes(wait), strict=True):
        tried.append(TriedCase(text(key), got == wanted, "", _said(got), _said(wanted)))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    mistake = _WHOLE.get(outcomes[place][0], "")
    for name, rule in WAIT_MISTAKES.items():
        if outcomes == _outcomes(rule):
            mistake = name
    return wrong("41-write-wait", told(answer, tried[place]), mistake, Trace(tuple(tried)))


def _outcomes(answer: Wait) -> list[tuple[str, int]]:
    """Return the outcome for each queue."""
    return [_outcome(answer, empty, statuses) for _, empty, statuses in _QUEUES]


def _outcome(answer: Wait, empty: int, statuses: tuple[int, ...]) -> tuple[str, int]:
    """Return what came back, in words, and how many completions the queue still has."""
    cq = Queue(empty, *statuses)
    try:
        found = called(answer, cq)
    except Unanswered:
        if not cq.endless:
            raise
        return text("trace.wait_endless"), len(cq.left)
    if not cq.polls:
        call = f"{name_of(answer)}(cq)"
        raise Unanswered("kind", text("function.wait_kind", call=call, got=brief(found)))
    for number, completion in enumerate(cq.made, 1):
        if found is completion:
            return text("trace.wait_completion", number=number), len(cq.left)
    return brief(found) if isinstance(found, int) else type(found).__name__, len(cq.left)


def _said(outcome: tuple[str, int]) -> str:
    what, left = outcome
    return text("trace.wait_got", what=what, left=left)


# Buffers --------------------------------------------------------------------------------------------------------------

# Number of a request in the order of posting, whether its payload is inline, and the numbers whose completions have
# been polled. illustrative: every fourth request has a completion, as in the lesson
BUFFERS: Sequence[tuple[int, bool, list[int]]] = (
    (0, False, []),
    (0, True, []),
    (0, False, [3]),
    (2, False, [3]),
    (3, False, [3]),
    (4, False, [3]),
    (6, True, [3]),
    (1, False, [3, 7]),
    (7, False, [3, 7]),
    (9, False, [3, 7]),
)


def may_reuse(number: int, inline: bool, polled: list[int]) -> bool:
    """Return whether the buffer of a request may be written again."""
    return inline or any(done >= number for done in polled)


def _posted(number: int, inline: bool, polled: list[int]) -> bool:
    return True


def _waits_inline(number: int, inline: bool, polled: list[int]) -> bool:
    return any(done >= number for done in polled)


def _own(number: int, inline: bool, polled: list[int]) -> bool:
    return inline or number in polled


def _counted(number: int, inline: bool, polled: list[int]) -> bool:
    return inline or len(polled) > number


def _any_completion(number: int, inline: bool, polled: list[int]) -> bool:
    return inline or bool(polled)


def _earlier(number: int, inline: bool, polled: list[int]) -> bool:
    return inline or any(done <= number for done in polled)


def _inline_alone(number: int, inline: bool, polled: list[int]) -> bool:
    return inline


def _later_only(number: int, inline: bool, polled: list[int]) -> bool:
    return inline or any(done > number for done in polled)


def _turned(number: int, inline: bool, polled: list[int]) -> bool:
    return not may_reuse(number, inline, polled)


# What somebody with a mistake returns, by its name.
REUSE_MISTAKES: Mapping[str, Callable[[int, bool, list[int]], bool]] = {
    "posted taken for done": _posted,
    "inline waits for nothing": _waits_inline,
    "only its own completion": _own,
    "completions counted": _counted,
    "any completion will do": _any_completion,
    "earlier speaks for later": _earlier,
    "inline alone": _inline_alone,
    "its own completion left out": _later_only,
    "true for not yet": _turned,
}


@register("check", "41-write-reuse")
def free_buffers(answer: Reuse) -> Verdict:
    """Run ``answer(number, inline, polled)``, whether a buffer may be written again, on requests of one queue pair."""
    returned = [
        truth_of(answer, number, inline, list(polled)) for number, inline, polled in BUFFERS
    ]
    tried = []
    for case, got in zip(BUFFERS, returned, strict=True):
        right = may_reuse(*case)
        tried.append(TriedCase(_named(*case), got == right, "", str(got), str(right)))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    mistake = mistake_of(returned, REUSE_MISTAKES, BUFFERS)
    return wrong("41-write-reuse", told(answer, tried[place]), mistake, Trace(tuple(tried)))


def _named(number: int, inline: bool, polled: list[int]) -> str:
    key = "trace.reuse_inline" if inline else "trace.reuse"
    numbers = ", ".join(map(str, polled)) or text("trace.reuse_none")
    return text(key, number=number, polled=numbers)
