"""Plugin of pytest: nbval runs a lesson as its gates need it, and keeps what the cells showed.

``make notebooks`` names the folder in ``FABRICLAB_EXECUTED``; the gates of ``tests/lessons`` read a lesson from there
and start no kernel of their own, as long as the file of the lesson is the one that ran.
"""

import json
import os
from pathlib import Path

import nbformat
import pytest

from support import ROOT, lesson_runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Before a kernel starts, give a lesson a progress file of its own, and no kernel the folders of tests."""
    if getattr(item.parent, "kernel", None) is not None:
        return (yield)
    # The checkout itself comes before an installed package, which may be that of another checkout.
    changes = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "guard"), str(ROOT)])}
    if name := _lesson(item):
        store = lesson_runs.kept(name).with_suffix(".progress.json")
        store.parent.mkdir(parents=True, exist_ok=True)
        nb = lesson_runs.committed(name)
        sealed = lesson_runs.sealed_predictions(nb, lesson_runs.earlier(name))
        lesson_runs.begin_progress(store, sealed)
        changes["FABRICLAB_PROGRESS"] = str(store)
    reveal = () if name else ("FABRICLAB_REVEAL",)
    with lesson_runs.environment(*reveal, **changes):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Keep the outputs of each cell, and after the last one the whole lesson."""
    name = _lesson(item)
    if name:
        item.cell.outputs = item.test_outputs or []
        if nextitem is None or nextitem.parent is not item.parent:
            _keep(name, item)
    return (yield)


def _lesson(item) -> str:
    """Return the name of the lesson that a cell belongs to, or nothing."""
    if "FABRICLAB_EXECUTED" not in os.environ or type(item).__name__ != "IPyNbCell":
        return ""
    return item.path.stem if item.path == lesson_runs.FILES.get(item.path.stem) else ""


def _keep(name: str, item) -> None:
    """Write an executed lesson with its progress; one that stopped with an error is not kept."""
    file = lesson_runs.kept(name)
    file.unlink(missing_ok=True)
    store = file.with_suffix(".progress.json")
    if item.session.testsfailed == 0:
        made = {
            "source": lesson_runs.digest(name),
            "progress": json.loads(Path(store).read_text("utf-8")),
            "nb": nbformat.writes(item.parent.nb),
        }
        file.write_text(json.dumps(made), encoding="utf-8")
