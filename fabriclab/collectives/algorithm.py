"""Register collectives and their algorithms.

A collective is defined as in MPI: which rank has which blocks before and after, and the result, computed by numpy. The
steps of an algorithm make a schedule, and its costs make a closed form.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry, units
from fabriclab.core import (
    Flags,
    Floats,
    Ints,
    Schedule,
    StepGroup,
    available_memory,
    check_memory,
)

Array = NDArray[Any]
Holders = Callable[[int, int, int], Flags]


class Definition(NamedTuple):
    """Definition of a collective, which both the execution of schedules and its oracle read.

    Bounds and results also need the factor of its bus bandwidth, so its name must be in
    `fabriclab.core.result.BUS_FACTORS`, which lists the collectives of nccl-tests.

    Parameters
    ----------
    before, after : callable (n_ranks, n_blocks, root) -> (n_ranks, n_blocks) bool
        Which blocks each rank has at the start, and must have at the end.
    arrays : callable (n_ranks) -> number
        Size of all blocks of a schedule together, in units of the size that nccl-tests counts.
    result : callable (buffers, op, n_ranks, root) -> list of arrays
        What each rank must have at the end, computed independently of `execute`. For a collective whose blocks may
        differ in size it takes the parts of a schedule as well.
    """

    before: Holders
    after: Holders
    arrays: Callable[[int], int]
    result: Callable[..., list[Array]]


def _one(n: int) -> int:
    """Return 1, the number of arrays of most collectives."""
    return 1


def define(
    name: str, before: Holders, after: Holders, arrays: Callable[[int], int] = _one
) -> Callable[[Callable[..., list[Array]]], Any]:
    """Register a collective: its result, and which rank has what before and after."""
    return registry.register("definition", name, before=before, after=after, arrays=arrays)


def definition(collective: str) -> Definition:
    """Return the definition of a collective; the error for an unknown name lists all names."""
    collective = units.choice(collective, "collective", registry.names("definition"))
    about = registry.info("definition", collective)
    return Definition(**about, result=registry.get("definition", collective))


def everywhere(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block if every rank has the whole array, (n, blocks)."""
    return np.ones((n, blocks), dtype=np.bool_)


def own(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block if rank r has block r, (n, blocks)."""
    if blocks != n:
        raise ValueError(f"this collective must have one block per rank ({n}), got {blocks} blocks")
    return np.eye(n, dtype=np.bool_)


def _next(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block if rank r has the block of the rank before it, (n, blocks)."""
    return np.roll(own(n, blocks, root), -1, axis=1)


def _pairs(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block before an all-to-all, (n, blocks): rank s has all blocks s n + t."""
    if blocks != n * n:
        raise ValueError(
            f"this collective must have one block per pair of ranks ({n * n}), got {blocks} blocks"
        )
    return np.repeat(np.eye(n, dtype=np.bool_), n, axis=1)


def _columns(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block after an all-to-all, (n, blocks): rank t has all blocks s n + t."""
    return np.tile(np.eye(n, dtype=np.bool_), n)


def cuts(count: Any, blocks: int, parts: Any = None) -> Ints:
    """Return where each block of ``count`` elements begins, and the end, (..., blocks + 1).

    Lengths are in proportion to ``parts``. Without parts, or if all parts are equal, the cuts are those of
    `numpy.array_split`: lengths differ by at most one, and longer blocks come first.
    """
    if parts is not None and np.size(parts) > 1:
        ends = np.append(0.0, np.cumsum(parts))  # in parts
        return np.asarray(np.rint(ends * (count / np.sum(parts))), dtype=np.int64)

    size, longer = np.divmod(np.asarray(count, dtype=np.int64)[..., None], blocks)
    block = np.arange(blocks + 1)
    return np.asarray(block * size + np.minimum(block, longer))


def at_root(n: int, blocks: int, root: int) -> Flags:
    """Return which rank has which block if only the root has the whole array, (n, blocks)."""
    return np.repeat(np.arange(n) == root, blocks).reshape(n, blocks)


def _one_per_rank(n: int) -> int:
    """Return n, the number of arrays of a collective for which nccl-tests counts what each rank has."""
    return n


def _none(n: int) -> int:
    """Return 0, the number of arrays of a collective without data."""
    return 0


def _total(buffers: list[Array], op: np.ufunc) -> Array:
    return np.asarray(op.reduce(np.stack(buffers), axis=0), dtype=buffers[0].dtype)


def _keep(whole: Array, n: int, root: int) -> list[Array]:
    return [whole if r == root else whole[:0] for r in range(n)]


# Results by definition: from all buffers to what each rank must have.


@define("all_reduce", everywhere, everywhere)
def _all_reduce(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return [_total(buffers, op)] * n


@define("reduce_scatter", everywhere, own)
def _reduce_scatter(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return np.array_split(_total(buffers, op), n)


@define("all_gather", own, everywhere)
def _all_gather(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return [np.concatenate(buffers)] * n


@define("broadcast", at_root, everywhere)
def _broadcast(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return buffers * n


@define("reduce", everywhere, at_root)
def _reduce(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return _keep(_total(buffers, op), n, root)


@define("gather", own, at_root)
def _gather(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return _keep(np.concatenate(buffers), n, root)


@define("scatter", at_root, own)
def _scatter(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return np.array_split(buffers[0], n)


@define("all_to_all", _pairs, _columns, arrays=_one_per_rank)
def _all_to_all(
    buffers: list[Array], op: np.ufunc, n: int, root: int, parts: Any = None
) -> list[Array]:
    whole = np.concatenate(buffers)
    blocks = np.split(whole, cuts(whole.size, n * n, parts)[1:-1])
    return [np.concatenate(blocks[rank::n]) for rank in range(n)]


@define("send_recv", own, _next, arrays=_one_per_rank)
def _send_recv(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return buffers[-1:] + buffers[:-1]


@define("barrier", own, everywhere, arrays=_none)
def _barrier(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    """Return the blocks of all ranks for every rank: in a barrier each must hear of every other; blocks are empty."""
    return [np.concatenate(buffers)] * n


ClosedForm = Callable[..., Floats]
Costs = tuple[Any, Any, Any]
Cost = Callable[..., Costs]
Steps = tuple[StepGroup, ...]
Built = tuple[int, Steps] | tuple[int, Steps, Any]
Recipe = Callable[..., Built]


def _check_pairs(per_pair: float, n: int, title: str) -> None:
    """Refuse a schedule with ``per_pair`` bytes for each pair of ``n`` ranks if it does not fit into memory."""
    if not per_pair:
        return
    most = int(np.sqrt(min(available_memory() / per_pair, n * n)))
    check_memory(per_pair * n * n, title, f"take fewer ranks: {most:,} fit")


def algorithm(
    name: str, cost: Cost, *, machine: str = "hosts", per_pair: float = 0.0
) -> Callable[[Recipe], Recipe]:
    """Register a function (n_ranks, root, *, options) -> (number of blocks, steps) as an algorithm of a collective.

    Participants from number n_ranks on are switches. An algorithm with blocks of different sizes returns the parts of a
    `Schedule` as a third value.

    Parameters
    ----------
    name : str
        Collective and algorithm, such as ``"all_reduce.ring"``.
    cost : callable
        Takes the number of ranks (a float array) and the options by name. Returns the number of steps, and two
        fractions of the size, summed over the steps: what passes the busiest port, and what the busiest rank adds.
    machine : str
        Machine that it needs, as in `bounds`.
    per_pair : float
        Peak memory of an algorithm with one transfer per pair of ranks, measured and rounded up; a test checks it. [B]
    """
    collective, how = name.split(".", 1)

    def keep(steps: Recipe) -> Recipe:
        declared = _options(steps)

        def chosen(given: dict[str, Any]) -> dict[str, Any]:
            """Return all options, with defaults for those that are not given."""
            for option in given:
                if option not in declared:
                    takes = ", ".join(declared) or "none"
                    raise TypeError(
                        f"{collective} {how} has no option {option!r}; its options: {takes}"
                    )
            return declared | given

        @wraps(steps)
        def build(n_ranks: int, root: int = 0, **given: Any) -> Schedule:
            n = units.count(n_ranks, "n_ranks")
            _check_pairs(per_pair, n, f"{collective} {how} over {n} ranks")
            blocks, groups, *parts = steps(n, units.count(root, "root", 0, n - 1), **chosen(given))
            kept = groups if n > 1 else ()
            return Schedule(
                collective=collective,
                algorithm=how,
                n_ranks=n,
                n_blocks=blocks,
                groups=kept,
                segments=1,
                n_switches=max(0, _participants(kept, n) - n),
                root=root,
                parts=parts[0] if parts else _even_parts(collective, n, blocks),
            )

        def form(**given: Any) -> ClosedForm:
            return _closed(partial(cost, **chosen(given)))

        registry.register("collective", name, per_pair=per_pair, closed_form=form, machine=machine)(
            build
        )
        return steps

    return keep


def _options(steps: Recipe) -> dict[str, Any]:
    """Return the options of an algorithm, which are its keyword-only parameters, with their defaults."""
    parameters = signature(steps).parameters.items()
    return {name: it.default for name, it in parameters if it.kind is it.KEYWORD_ONLY}


def _participants(groups: Steps, n: int) -> int:
    """Return the number of ranks and switches that take part in the steps; n if there are no steps."""
    if not groups:
        return n
    return 1 + max(int(max(group.source.max(), group.target.max())) for group in groups)


def _even_parts(collective: str, n: int, blocks: int) -> Floats | None:
    """Return the parts of a schedule with equal blocks; None if these make up one array."""
    arrays = definition(collective).arrays(n)
    if arrays == 1:
        return None
    return np.array([arrays / blocks])


def each(cost: Cost) -> Cost:
    """Turn a cost of one number of ranks into a cost of an array of such numbers."""

    def over_array(n: Any, **options: Any) -> Costs:
        def of_one(ranks: float) -> Costs:
            return cost(int(ranks), **options)

        costs: Costs = np.vectorize(of_one, otypes=[float] * 3)(n)
        return costs

    return over_array


def server_size(n: int, per_server: int | None, instead: str) -> int:
    """Return the ranks per server, unless given the largest divisor of n up to 8; refuse one that does not divide n."""
    if per_server is None:
        size = max(g for g in range(1, 9) if n % g == 0)
    else:
        size = units.count(per_server, "per_server")
    if n % size:
        raise ValueError(
            f"n_ranks must be a multiple of per_server, got {n} and {size}; {instead} takes any number"
        )
    return size


def _closed(cost: Cost) -> ClosedForm:
    """Return the closed form that the costs of an algorithm give."""

    def time(n_bytes: Any, n_ranks: Any, alpha: Any, beta: Any, gamma: Any = 0.0) -> Floats:
        """Return steps * alpha + bytes / beta + additions * gamma [s], in the shape of the arguments.

        ``n_bytes`` [B] is the size as nccl-tests counts it, ``alpha`` [s] the time per step, ``beta`` [B/s] the rate of
        a port in one direction, ``gamma`` [s/B] the time to add a byte. Leaves out link delays, and uneven blocks of
        sizes that cannot be divided equally.
        """
        n = number(n_ranks, "n_ranks")
        if np.any(n != np.rint(n)):
            raise ValueError(f"n_ranks must be whole numbers, got {n_ranks!r}")
        steps, moved, added = cost(n)
        size = number(n_bytes, "n_bytes")
        per_byte = moved / number(beta, "beta") + added * number(gamma, "gamma")
        out: Floats = steps * number(alpha, "alpha") + size * per_byte
        return out

    return time


# Quantity, range and unit of each number, so that 400 for 400 Gb/s or 5 for 5 us is not accepted as an SI number.
# illustrative: limits of what is plausible, not of any hardware
_RANGES = {
    "n_ranks": ("", 1.0, 2.0**31, "ranks"),
    "n_bytes": ("size", 0.0, 1e21, "B"),
    "alpha": ("time", 0.0, 10.0, "s"),
    "beta": ("rate", 1e6, 1e14, "B/s"),
    "gamma": ("", 0.0, 1e-6, "s/B (1 / rate of adding)"),
}


def number(value: ArrayLike, name: str) -> Floats:
    """Return an argument of a closed form as floats in SI units, or refuse it by name."""
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
    """Return log2 n, rounded up, as a float array: the rounds after which a message can have reached n ranks."""
    return np.frexp(n - 1.0)[1] * 1.0
