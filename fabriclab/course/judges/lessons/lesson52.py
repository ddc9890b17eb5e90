"""Lesson 52: a balancer that looks at the queues of a switch."""

from collections.abc import Callable
from typing import Any

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, explained, name_of
from fabriclab.registry import register
from fabriclab.scenarios import ecmp_collision
from fabriclab.texts import text

# Bytes in front of each uplink [B], and the place of the one whose turn it is -> a place.
Choice = Callable[[list[int], int], Any]

# The fabric of the lesson with half of its bytes, since the learner's function runs as plain Python.
_FLOWS, _SIZE = 16, "500 kB"  # illustrative: the fabric of the lesson
# Adaptive routing of the library ends 16 flows after 11.9 us on the healthy fabric and 12.7 us with one slow spine.
# Dealing packets out in turn takes 13.1 and 21.6 us, a hash 32.2 and 42.5 us.
_LATEST = 16e-6  # illustrative: end of the last flow that counts as fast [s]
# illustrative: queues that tell rules apart [B]
_PROBES = ((2000, 8000, 6000, 4000), (6000, 4000, 2000, 8000), (8000, 6000, 4000, 2000))


@register("check", "52-write-choice")
def choice_of_uplink(answer: Choice) -> Verdict:
    """Play sixteen flows with ``answer(queues, turn)`` in the leaf, on a healthy fabric and with one slow spine."""

    def choose(queues: list[int], turn: int) -> Any:
        return answer(queues, turn)

    choose.__name__ = name_of(answer)
    names = {
        1.0: text("trace.choice_even"),
        0.5: text("trace.choice_end", paths=_FLOWS),  # illustrative: half of the rate
    }
    tried = []
    for share, name in names.items():
        lab = ecmp_collision(_FLOWS, _SIZE, slow_path=share, recovery="selective")
        try:
            end = lab.play(balance=choose).last_finish
        except Exception as error:
            said = text(
                "function.raised",
                call=f"{name_of(answer)}(...)",
                error=type(error).__name__,
                words=str(error),
            )
            raise Unanswered("raised", said) from None
        wanted = text("trace.at_most", most=units.format_time(_LATEST))
        tried.append(TriedCase(name, end <= _LATEST, "", units.format_time(end), wanted))
    for each in tried:
        if not each.right:
            line = text("function.loop", name=each.name, got=each.got, wanted=each.wanted)
            mistake = _mistake(answer)
            shown = Trace(tuple(tried))
            return False, [line, *explained("52-write-choice", mistake)], mistake, shown
    return True, [], ""


def _mistake(answer: Choice) -> str:
    """Return what explains the places that a wrong function chooses."""
    cases = [(list(queues), turn) for queues in _PROBES for turn in range(len(queues))]
    places = [int(answer(list(queues), turn)) for queues, turn in cases]
    if all(queues[place] == max(queues) for (queues, _), place in zip(cases, places, strict=True)):
        return "longest queue"
    if len(set(places)) == 1:
        return "always the same uplink"
    return "blind to queues"
