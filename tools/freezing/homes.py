"""Where things live: only this file knows which modules of the library move.

Everything else is reached through the front door (``fl.check``, ``fl.live``, ``fl.registry``,
``fl.exercises``), so after a move only the table below may need another row.
"""

import contextlib
import importlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import fabriclab

# Where judges get their callers for functions in this process: newest place first.
ASKERS = (
    ("fabriclab.course.judging", "asker"),
    ("fabriclab.course.judges.shared", "asker"),
    ("fabriclab.course.checks", "asker"),
    ("fabriclab.course.checks", "_asker"),
    ("fabriclab.checks.exercises", "_asker"),
)
# Modules with ``now()``, by which answers get their day.
CLOCKS = ("fabriclab.course.progress", "fabriclab.checks.store")
EXERCISES = ("fabriclab.course.exercises", "fabriclab.exercises")


def home(*modules: str) -> ModuleType:
    """Return the first of some modules that can be imported.

    Raises
    ------
    ImportError
        If there is none; add the new place to the table of this file.
    """
    for module in modules:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            inside = error.name is not None and module.startswith(error.name)
            if not inside:
                raise
    raise ImportError(
        f"none of {', '.join(modules)} is there; add its new place to {Path(__file__).name}"
    )


def member(*places: tuple[str, str]) -> Any:
    """Return the first of some (module, name) pairs that is there.

    Raises
    ------
    ImportError
        If there is none; add the new place to the table of this file.
    """
    for module, name in places:
        try:
            return getattr(home(module), name)
        except (ImportError, AttributeError):
            continue
    listed = ", ".join(f"{module}.{name}" for module, name in places)
    raise ImportError(f"none of {listed} is there; add its new place to {Path(__file__).name}")


@contextlib.contextmanager
def one_moment() -> Iterator[None]:
    """Make every answer of the same moment, so that no day or time of the clock is frozen."""
    moment = datetime(2026, 1, 5, 12, tzinfo=UTC)
    with mock.patch.object(home(*CLOCKS), "now", lambda: moment):
        yield


def exercises() -> ModuleType:
    """Return the module with the questions of the exercises."""
    try:
        return fabriclab.exercises
    except AttributeError:
        return home(*EXERCISES)


def library_file(name: str) -> Path:
    """Return the one file of this name inside the library, wherever it stands.

    Raises
    ------
    FileNotFoundError
        If there is not exactly one.
    """
    root = Path(fabriclab.__file__).parent
    found = sorted(root.rglob(name))
    if len(found) != 1:
        raise FileNotFoundError(f"{name} must be in the library once, got {len(found)}")
    return found[0]
