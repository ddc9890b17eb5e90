"""`hello`: one line that says what works on this machine."""

from __future__ import annotations

import fabriclab
from fabriclab import units
from fabriclab.checks import store
from fabriclab.checks.shown import Shown, text

__all__ = ["hello"]


def hello() -> Shown:
    """Say in one line which version runs, on what, what works here and where progress is kept."""
    from fabriclab.measure import machine

    here = machine()
    line = text(
        "hello", version=fabriclab.__version__, cores=here.cores, path=store.path(),
        memory=units.format_size(here.memory) if here.memory else text("word.unknown"),
        mpi=text("word.yes" if here.mpi else "word.no"), gpu=text("word.yes" if here.gpu else "word.no_gpu"),
    )  # fmt: skip
    return Shown((line,), "good")
