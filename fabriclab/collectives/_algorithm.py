"""Register an algorithm: its steps make a Schedule, its costs a closed form."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives._definition import definition
from fabriclab.core import Floats, Schedule, StepGroup, check_memory
from fabriclab.registry import register

ClosedForm = Callable[..., Floats]
Costs = tuple[Any, Any, Any]
Cost = Callable[..., Costs]
Steps = tuple[StepGroup, ...]
Built = tuple[int, Steps] | tuple[int, Steps, Any]
Recipe = Callable[..., Built]


def algorithm(
    name: str, cost: Cost, *, alone: Cost | None = None, machine: str = "hosts", per_pair: float = 0.0
) -> Callable[[Recipe], Recipe]:
    """Register a function (n_ranks, root, *, options) -> (number of blocks, steps) as one algorithm of a collective.

    Participants from n_ranks on are switches. An algorithm that skews adds the parts of a `Schedule`.

    Parameters
    ----------
    name : str
        Collective and algorithm, such as ``"all_reduce.ring"``.
    cost : callable
        From the number of ranks (a float array), and the options by name, to the steps, and to the parts of the
        size that pass the busiest port and that the busiest rank adds, summed over the steps.
    alone : callable, optional
        The same where transfers never share a port, if that differs.
    machine : str
        Machine that it needs, as in `bounds`.
    per_pair : float
        Peak of memory of one with a transfer per pair of ranks, measured and rounded up; a test holds it. [B]
    """
    collective, how = name.split(".", 1)

    def keep(steps: Recipe) -> Recipe:
        declared = {k: p.default for k, p in signature(steps).parameters.items() if p.kind is p.KEYWORD_ONLY}

        def chosen(given: dict[str, Any]) -> dict[str, Any]:
            if wrong := [option for option in given if option not in declared]:
                takes = ", ".join(declared) or "none"
                raise TypeError(f"{collective} {how} has no option {wrong[0]!r}; its options: {takes}")
            return declared | given

        @wraps(steps)
        def build(n_ranks: int, root: int = 0, **given: Any) -> Schedule:
            n = units.count(n_ranks, "n_ranks")
            check_memory(per_pair * n * n, f"{collective} {how} over {n} ranks", "take fewer ranks")
            blocks, groups, *parts = steps(n, units.count(root, "root", 0, n - 1), **chosen(given))
            kept = groups if n > 1 else ()
            people = max((1 + int(max(g.source.max(), g.target.max())) for g in kept), default=n)
            arrays = definition(collective).arrays(n)
            even = None if arrays == 1 else np.array([arrays / blocks])
            return Schedule(collective, how, n, blocks, kept, 1, max(0, people - n), root, parts[0] if parts else even)

        def form(cost: Cost) -> Callable[..., ClosedForm]:
            return lambda **given: _closed(partial(cost, **chosen(given)))

        about = {"closed_form": form(cost), "no_contention": form(alone or cost), "machine": machine}
        register("collective", name, per_pair=per_pair, **about)(build)
        return steps

    return keep


def each(cost: Cost) -> Cost:
    """Return a cost over an array of one that takes a single whole number of ranks."""
    return lambda n, **options: np.vectorize(lambda k: cost(int(k), **options), otypes=[float] * 3)(n)


def server_size(n: int, per_server: int | None, instead: str) -> int:
    """Return the ranks of a server: the most up to 8 that divide n unless given; refuse what does not divide."""
    size = max(g for g in range(1, 9) if n % g == 0) if per_server is None else units.count(per_server, "per_server")
    if n % size:
        raise ValueError(f"n_ranks must be a multiple of per_server, got {n} and {size}; {instead} takes any number")
    return size


def _closed(cost: Cost) -> ClosedForm:
    def time(n_bytes: Any, n_ranks: Any, alpha: Any, beta: Any, gamma: Any = 0.0) -> Floats:
        """Return steps * alpha + bytes / beta + additions * gamma [s], in the shape of the arguments.

        Leaves out link delays and the uneven blocks of sizes that do not divide. ``n_bytes`` [B] as nccl-tests
        counts it, ``alpha`` [s] per step, ``beta`` [B/s] of a port one way, ``gamma`` [s/B] to add a byte.
        """
        n = number(n_ranks, "n_ranks")
        if np.any(n != np.rint(n)):
            raise ValueError(f"n_ranks must be whole numbers, got {n_ranks!r}")
        steps, moved, added = cost(n)
        transfer = number(n_bytes, "n_bytes") * (moved / number(beta, "beta") + added * number(gamma, "gamma"))
        out: Floats = steps * number(alpha, "alpha") + transfer
        return out

    return time


# Quantity, range and unit of each number, so that 400 for 400 Gb/s or 5 for 5 us does not pass as SI.
_RANGES = {
    "n_ranks": ("", 1.0, 2.0**31, "ranks"), "n_bytes": ("size", 0.0, 1e21, "B"), "alpha": ("time", 0.0, 10.0, "s"),
    "beta": ("rate", 1e6, 1e14, "B/s"), "gamma": ("", 0.0, 1e-6, "s/B (1 / rate of adding)"),
}  # fmt: skip


def number(value: ArrayLike, name: str) -> Floats:
    """Return one of the numbers of a closed form as floats in SI units, or refuse it by name."""
    quantity, low, high, unit = _RANGES[name]
    given = units.parse(value, quantity, name) if isinstance(value, str) and quantity else value
    try:
        array: Floats = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not np.all((array >= low) & (array <= high)):
        raise ValueError(f"{name} must be within {low:g}..{high:g} {unit}, got {value!r}")
    return array


def floor_log2(n: Any) -> Any:
    """Return log2 n, rounded down, as a float array."""
    return np.frexp(n)[1] - 1.0


def ceil_log2(n: Any) -> Any:
    """Return log2 n, rounded up: rounds after which a message can have reached n ranks."""
    return np.frexp(n - 1.0)[1] * 1.0
