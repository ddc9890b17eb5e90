"""One's own notebook, run in this process without any wall: for systems that have none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fabriclab.checks.exercises import handed, plain
from fabriclab.grading.sandbox import Outcome

__all__ = ["Own"]


class Own:
    """What grading asks of a `Sandbox`, without one."""

    active: tuple[str, ...] = ()

    def session(self, cells: Sequence[str]) -> OwnSession:
        """Run the cells in a namespace of their own."""
        return OwnSession(cells)

    def close(self) -> None:
        """Do nothing: there is no process."""


class OwnSession:
    """A namespace in which the cells have run; ``cells`` is the first problem that they had."""

    ended_by = ""

    def __init__(self, cells: Sequence[str]) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        found = [_attempt(exec, code, self._names) for code in cells]
        self.cells = next((outcome for outcome in found if not outcome.ok), Outcome())

    def close(self) -> None:
        """Do nothing: the namespace goes with the session."""

    def call(self, name: str, /, *args: Any) -> Outcome:
        """Call a function by its name."""
        deed = self._names.get(name)
        if not callable(deed):
            return Outcome(None, "missing", name, name=name) if self.cells.ok else self.cells
        return replace(_attempt(deed, *map(handed, args)), name=name)


def _attempt(deed: Callable[..., Any], *args: Any) -> Outcome:
    begin = time.perf_counter()
    try:
        value, problem, said = plain(deed(*args)), "", ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        problem = "syntax" if isinstance(error, SyntaxError) else "raised"
        value, said = None, f"{type(error).__name__}: {error}"
    return Outcome(value, problem, said, "", time.perf_counter() - begin)
