"""Judging runs of a program: each run may have faults, and only sets of runs without any fault count."""

from collections.abc import Sequence
from typing import NamedTuple

from fabriclab.course.judges import Unanswered, Verdict
from fabriclab.course.questions import misconception

Fault = tuple[str, str]  # name of the mistake, or "", and a sentence


class RunsPart(NamedTuple):
    """A part of a question: its share of the points, the faults of each run, and the number of sets of runs."""

    share: float
    faults: Sequence[Sequence[Fault]]
    sets: int = 1

    def right(self) -> float:
        """Return the fraction of the sets in which no run has a fault; run i is in set i % sets."""
        spoiled = {run % self.sets for run, found in enumerate(self.faults) if found}
        return 1 - len(spoiled) / self.sets


def verdict(question: str, parts: Sequence[RunsPart], stopped: Sequence[Unanswered]) -> Verdict:
    """Return the verdict on parts of a question, with the first fault of at most two runs.

    Parameters
    ----------
    question : str
        Id of the question.
    parts : sequence of RunsPart
        The parts of the question.
    stopped : sequence of Unanswered
        Reasons why runs have stopped; the first is raised if no points were earned.
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
