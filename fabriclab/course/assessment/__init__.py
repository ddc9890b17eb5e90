"""The assessment: a drawn test, interview questions, an audit, pages of reasons, and what comes out of them.

Examples
--------
>>> from fabriclab.course import assessment
>>> [question] = assessment.draw(1, topics="collectives", levels="apply", n=1)
>>> question.judge(question.key).right
True
"""

from fabriclab.course.assessment.bank import LEVELS, TOPICS, Item, items
from fabriclab.course.assessment.drawing import Drawn, draw
from fabriclab.course.assessment.halls import Hall, audit
from fabriclab.course.assessment.ladder import Standing, standing
from fabriclab.course.assessment.results import calibration, strengths
from fabriclab.course.assessment.sitting import exam, sheet
from fabriclab.course.assessment.written import interview, rate, rubric

__all__ = [
    "LEVELS",
    "TOPICS",
    "Drawn",
    "Hall",
    "Item",
    "Standing",
    "audit",
    "calibration",
    "draw",
    "exam",
    "interview",
    "items",
    "rate",
    "rubric",
    "sheet",
    "standing",
    "strengths",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
