"""Where a topic is taught: names and addresses of lessons and exercises, seen from where the notebooks are."""

from pathlib import Path

from fabriclab.course.checks.courses import numbered
from fabriclab.texts import text

__all__ = ["address", "lesson_name"]


def lesson_name(lesson: str) -> str:
    """Return number and title of a lesson, or the name of an exercise."""
    if lesson.startswith("exercise"):
        return text("report.exercise", number=int(lesson.removeprefix("exercise")))
    return numbered(lesson)


def address(lesson: str) -> str:
    """Return the relative address of a lesson or an exercise; empty if there is no such file here."""
    here = Path.cwd()
    for folder in ("", "notebooks", "../notebooks", "exercises", "../exercises"):
        file = Path(folder) / f"{lesson}.ipynb"
        if (here / file).is_file():
            return file.as_posix()
    return ""
