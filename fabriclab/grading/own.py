"""One's own notebook, run in this process without any wall: for systems that have none."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fabriclab.exercises import Proxy
from fabriclab.grading.sandbox import Outcome
from fabriclab.texts import text

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
        return replace(_attempt(deed, *map(_stand_in, args)), name=name)


def _attempt(deed: Callable[..., Any], *args: Any) -> Outcome:
    begin = time.perf_counter()
    try:
        value, problem, said = _plain(deed(*args)), "", ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        problem = "syntax" if isinstance(error, SyntaxError) else "raised"
        value, said = None, f"{type(error).__name__}: {error}"
    return Outcome(value, problem, said, "", time.perf_counter() - begin)


def _stand_in(value: Any) -> Any:
    """Return an object with the methods of a proxy and nothing else; other arguments as they are."""
    if not isinstance(value, Proxy):
        return value
    methods = {name: getattr(value.target, name) for name in value.methods}
    return types.SimpleNamespace(**methods, **value.values)


def _plain(value: Any) -> Any:
    """Return a value as what JSON has, like one that comes out of a sandbox."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(text("sandbox.refused", said=type(value).__name__))
