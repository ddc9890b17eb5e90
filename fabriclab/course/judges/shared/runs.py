"""Judging runs: where an answer is a program, each of its runs has faults, and sets of runs without any count."""

from collections.abc import Sequence
from typing import NamedTuple

from fabriclab.course.judges import Unanswered, Verdict
from fabriclab.course.questions import misconception

Fault = tuple[str, str]  # the name of a mistake, or "", and a sentence


class RunsPart(NamedTuple):
    """A part of a question: what it is worth, the faults of each run, and in how many sets the runs are."""

    share: float
    faults: Sequence[Sequence[Fault]]
    sets: int = 1

    def right(self) -> float:
        """Return the part of the sets in which no run has a fault; run i is in set i % sets."""
        spoiled = {run % self.sets for run, found in enumerate(self.faults) if found}
        return 1 - len(spoiled) / self.sets


def verdict(question: str, parts: Sequence[RunsPart], stopped: Sequence[Unanswered]) -> Verdict:
    """Return what the parts are worth, and the first fault of two runs at most.

    Parameters
    ----------
    question : str
        Its id.
    parts : sequence of RunsPart
        What was asked.
    stopped : sequence of Unanswered
        What has stopped a run; the first is raised if nothing was earned.
    """
    earned = sum(part.share * part.right() for part in parts)
    if stopped and not earned:
        raise stopped[0]
    first = [fault for part in parts for found in part.faults for fault in found[:1]][:2]
    said = list[str]()
    for mistake, sentence in first:
        said += [sentence, misconception(question, mistake) if mistake else ""]
    named = [mistake for mistake, _ in first if mistake]
    return Verdict(
        part=round(earned, 9),
        said=tuple(filter(None, dict.fromkeys(said))),
        mistake=named[0] if named else "",
    )
