"""Lesson 52: a balancer that looks at the queues of a switch."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import Verdict, explained, name_of, played
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
        end = played(answer, partial(lab.play, balance=choose)).last_finish
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
    turns = range(len(_PROBES[0]))
    places = [[int(answer(list(queues), turn)) for turn in turns] for queues in _PROBES]
    longest = [queues.index(max(queues)) for queues in _PROBES]
    if all(set(chosen) == {place} for chosen, place in zip(places, longest, strict=True)):
        return "longest queue"
    if len({place for chosen in places for place in chosen}) == 1:
        return "always the same uplink"
    is_blind = all(chosen == places[0] for chosen in places)
    return "blind to queues" if is_blind else ""
