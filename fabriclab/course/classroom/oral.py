"""Questions for a talk with a student, built from the numbers that the student guessed, measured and answered."""

import math
from collections.abc import Iterator

from fabriclab import catalog, units
from fabriclab.course.checks.predictions import guessed, how_far, label
from fabriclab.course.classroom.collected import Student
from fabriclab.course.questions import predictions, questions
from fabriclab.course.questions.files import sentence_of
from fabriclab.course.shown import shown, times
from fabriclab.texts import text

_MOST = 6  # questions, as many as fit into ten minutes
_FAR = 2.0  # a guess that was off by this factor or more is worth a question


def oral_questions(student: Student) -> list[str]:
    """Return at most six questions: on the largest surprises, on mistakes that were overcome, on own measurements."""
    kinds = [_surprises(student), _mistakes(student), _measured(student)]
    asked: list[str] = []
    while kinds and len(asked) < _MOST:  # one of each kind in turn
        for kind in [*kinds]:
            question = next(kind, None)
            if question is None:
                kinds.remove(kind)
            elif len(asked) < _MOST:
                asked.append(question)
    return asked


def _surprises(student: Student) -> Iterator[str]:
    """Yield a question for each guess that was far off, the farthest first."""
    known = predictions()
    found = []
    for id, entry in student.kept["predictions"].items():
        if id in known and "truth" in entry and entry["value"]:
            off = abs(math.log(entry["value"] / entry["truth"]))
            if off >= math.log(_FAR):
                found.append((off, id, entry))
    for _, id, entry in sorted(found, key=lambda one: -one[0]):
        yield text(
            "class.oral.guess",
            name=known[id].asked(),
            guess=guessed(entry),
            truth=shown(entry["truth"], entry["unit"]),
            verdict=how_far(entry["value"], entry["truth"]),
        )


def _mistakes(student: Student) -> Iterator[str]:
    """Yield a question for each mistake that the student made, those of questions with the most tries first."""
    tried = student.kept["checks"] | student.kept["drills"]
    known = questions()
    made = [(id, entry) for id, entry in tried.items() if id in known and entry["named"]]
    for id, entry in sorted(made, key=lambda one: -one[1]["tries"]):
        mistake = entry["named"][0]
        sentence = sentence_of(id, mistake)
        if sentence:
            key = "class.oral.mistake" if entry["right"] else "class.oral.open"
            yield text(key, name=known[id].words.name(), mistake=sentence, n=entry["tries"])


def _measured(student: Student) -> Iterator[str]:
    """Yield questions on the rates that the student measured, compared with a NIC of the running case."""
    nic = catalog.case()["nic_rate"]
    for name, entry in student.kept["measurements"].items():
        if entry.get("obtained") != "stored":
            yield text(
                "class.oral.measured",
                name=label(name),
                rate=units.format_rate(entry["busbw"]),
                time=units.format_time(entry["time"]),
                nic=units.format_rate(nic),
                factor=times(nic, entry["busbw"]),
            )
