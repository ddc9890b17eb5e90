"""Register an algorithm: its steps make a Schedule, its costs a closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Schedule, StepGroup
from fabriclab.registry import register

__all__ = ["ClosedForm", "Steps", "algorithm", "ceil_log2", "floor_log2", "number"]

Floats = NDArray[np.float64]
ClosedForm = Callable[..., Floats]
Cost = Callable[[Any], tuple[Any, Any, Any]]
Steps = tuple[StepGroup, ...]
Recipe = Callable[[int, int], tuple[int, Steps]]


def algorithm(name: str, cost: Cost, *, alone: Cost | None = None) -> Callable[[Recipe], Recipe]:
    """Register a function (n_ranks, root) -> (number of blocks, steps) as one algorithm of a collective.

    Parameters
    ----------
    name : str
        Collective and algorithm, such as ``"all_reduce.ring"``.
    cost : callable
        From the number of ranks (a float array) to the steps, and to the parts of the whole array that pass
        the busiest port and that the busiest rank adds, summed over the steps.
    alone : callable, optional
        The same where transfers never share a port, if that differs.
    """
    collective, how = name.split(".", 1)

    def keep(steps: Recipe) -> Recipe:
        @wraps(steps)
        def build(n_ranks: int, root: int = 0) -> Schedule:
            n = units.count(n_ranks, "n_ranks")
            blocks, groups = steps(n, units.count(root, "root", 0, n - 1))
            return Schedule(collective, how, n, blocks, groups if n > 1 else (), root=root)

        register("collective", name, closed_form=_closed(cost), no_contention=_closed(alone or cost))(build)
        return steps

    return keep


def _closed(cost: Cost) -> ClosedForm:
    def time(n_bytes: Any, n_ranks: Any, alpha: Any, beta: Any, gamma: Any = 0.0) -> Floats:
        """Return steps * alpha + bytes / beta + additions * gamma [s], in the shape of the arguments.

        Leaves out link delays and the uneven blocks of sizes that do not divide. ``n_bytes`` [B] as nccl-tests
        counts it, ``alpha`` [s] per step, ``beta`` [B/s] of a port one way, ``gamma`` [s/B] to add a byte.
        """
        n = number(n_ranks, "n_ranks")
        if np.any(n != np.rint(n)):
            msg = f"n_ranks must be whole numbers, got {n_ranks!r}"
            raise ValueError(msg)
        steps, moved, added = cost(n)
        transfer = number(n_bytes, "n_bytes") * (moved / number(beta, "beta") + added * number(gamma, "gamma"))
        out: Floats = steps * number(alpha, "alpha") + transfer
        return out

    return time


# Quantity and range of each number, so that 400 for 400 Gb/s or 5 for 5 us does not pass as SI.
_RANGES: Final = {
    "n_ranks": ("", 1.0, 2.0**31), "n_bytes": ("size", 0.0, 1e21), "alpha": ("time", 0.0, 10.0),
    "beta": ("rate", 1e6, 1e14), "gamma": ("", 0.0, 1e-6),
}  # fmt: skip
_UNIT: Final = {"n_ranks": "ranks", "n_bytes": "B", "alpha": "s", "beta": "B/s", "gamma": "s/B (1 / rate of adding)"}


def number(value: ArrayLike, name: str) -> Floats:
    """Return one of the numbers of a closed form as floats in SI units, or refuse it by name."""
    quantity, low, high = _RANGES[name]
    given = units.parse(value, quantity, name) if isinstance(value, str) and quantity else value
    try:
        array: Floats = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not np.all((array >= low) & (array <= high)):
        msg = f"{name} must be within {low:g}..{high:g} {_UNIT[name]}, got {value!r}"
        raise ValueError(msg)
    return array


def floor_log2(n: Any) -> Any:
    """Return log2 n, rounded down, as a float array."""
    return np.frexp(n)[1] - 1.0


def ceil_log2(n: Any) -> Any:
    """Return log2 n, rounded up: rounds after which a message can have reached n ranks."""
    return np.frexp(n - 1.0)[1] * 1.0
