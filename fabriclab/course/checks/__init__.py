"""The functions that a learner calls in lessons: predictions, checked answers, drills, progress and reports.

Nothing here prints. Each function returns a value that a notebook shows when it ends a cell.
"""

from fabriclab.course.checks.courses import choose_path, hello, lessons, paths, ruler
from fabriclab.course.checks.feedback import check, drill
from fabriclab.course.checks.predictions import after_guess, ledger, predict, remember, reveal
from fabriclab.course.checks.reports import progress, report
from fabriclab.course.checks.statements import errata
from fabriclab.course.progress.store import export_progress, forget, import_progress
from fabriclab.course.shown import InputRefused, NewerFile, Shown, Together, parse_answer

__all__ = [
    "InputRefused",
    "NewerFile",
    "Shown",
    "Together",
    "after_guess",
    "check",
    "choose_path",
    "drill",
    "errata",
    "export_progress",
    "forget",
    "hello",
    "import_progress",
    "ledger",
    "lessons",
    "parse_answer",
    "paths",
    "predict",
    "progress",
    "remember",
    "report",
    "reveal",
    "ruler",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
