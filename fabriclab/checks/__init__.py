"""What a learner types in lessons: predictions, checked answers, drills, progress and reports.

Nothing here prints: each function returns a value that shows itself when it ends a cell.
"""

from fabriclab.checks.courses import choose_path, hello, lessons, paths, ruler
from fabriclab.checks.exercises import check, drill
from fabriclab.checks.predictions import ledger, predict, remember, reveal
from fabriclab.checks.reports import progress, report
from fabriclab.checks.shown import NewerFile, Refused, Shown, parse_answer
from fabriclab.checks.statements import errata
from fabriclab.checks.store import export_progress, forget, import_progress

__all__ = [
    "NewerFile",
    "Refused",
    "Shown",
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
