"""Matchings of a traffic matrix: who is joined to whom, in turn, until every byte has been sent.

A matching joins each host to at most one other as a sender and to at most one as a receiver, which is what an optical
switch can do at a time. A matrix whose rows and columns all have the same sum is a sum of matchings with weights
(Birkhoff, von Neumann) [1]_, and so is every matrix once it is padded. Each step of `decompose` chooses one perfect
matching among the entries that have bytes left and holds it until the smallest of them is empty. An entry empties in
each step, and no more than n^2 - 2n + 2 steps are needed [2]_.

References
----------
.. [1] G. Birkhoff, Tres observaciones sobre el algebra lineal, Universidad Nacional de Tucuman, Revista A 5, 1946.
.. [2] M. Marcus, R. Ree, Diagonals of doubly stochastic matrices, Quarterly Journal of Mathematics 10(1), 1959.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.circuits.plans import CircuitPlan, plan
from fabriclab.circuits.switches import square
from fabriclab.core import Flags, Floats, Ints, Value, freeze

Step = Callable[[Floats], Any]

_EXACT = 2**53  # whole numbers up to here are exact as floats
_UNITS = 2**52  # parts of the largest sum, for matrices that are not whole numbers
_DUST = 1e-10  # of the largest sum: what rounding leaves of such a matrix


class WrongMatching(ValueError):
    """A step returned no matching of the entries that have bytes left; ``mistake`` names what is wrong."""

    def __init__(self, mistake: str, message: str) -> None:
        super().__init__(message)
        self.mistake = mistake


class Mistake(NamedTuple):
    """What is wrong with a matching: a name, and a sentence with the entry and the way out."""

    name: str
    message: str


@dataclass(frozen=True, eq=False)
class Decomposition(Value):
    """Matchings whose weighted sum is a padded traffic matrix.

    Parameters
    ----------
    matrix, padded : (N, N) float64
        The traffic, and what it was padded to: all rows and columns have the same sum. [B]
    matchings : (M, N) int64
        Receiver of each sender; the sender itself where it is dark.
    weight : (M,) float64
        What each circuit of a matching carries. [B]
    """

    matrix: Floats
    padded: Floats
    matchings: Ints
    weight: Floats

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self, dict.fromkeys(("matrix", "padded", "weight"), np.float64))
        freeze(self, {"matchings": np.int64})

    @property
    def n_matchings(self) -> int:
        """Number of matchings, M."""
        return int(self.weight.size)

    @property
    def most(self) -> int:
        """Number of matchings that suffice for any matrix of this size: n^2 - 2n + 2."""
        n = len(self.matrix)
        return n * n - 2 * n + 2

    def reconstruct(self) -> Floats:
        """Return the sum of all matchings, each times its weight, (N, N); it equals ``padded``. [B]."""
        n = len(self.matrix)
        place = np.arange(n) * n + self.matchings  # (M, N)
        total = np.bincount(place.ravel(), np.repeat(self.weight, n), n * n)
        return np.asarray(total.reshape(n, n))

    def seconds(self, rate: units.Quantity, setup: units.Quantity) -> float:
        """Return the length of the schedule: largest row or column sum / rate + matchings x set-up. [s]."""
        busy = float(self.weight.sum()) / units.rate(rate)
        return busy + self.n_matchings * units.time(setup, "setup")

    def plan(self, rate: units.Quantity, setup: units.Quantity) -> CircuitPlan:
        """Return the plan that holds each matching until its circuits have carried their weight."""
        one = units.rate(rate)
        return plan(self.matchings, self.weight / one, rate=one, setup=setup)

    def __repr__(self) -> str:
        """Show the number of matchings and of bytes."""
        total = units.format_size(float(self.matrix.sum()))
        return f"<Decomposition: {self.n_matchings} matchings of {len(self.matrix)} hosts, {total}>"


def pad(matrix: ArrayLike) -> Floats:
    """Return a matrix padded so that all rows and columns have the largest of their sums, (N, N).

    What is added stands for circuits that are lit with nothing to send; on the diagonal, for ports that stay dark.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.pad([[0, 5], [3, 0]])
    array([[0., 5.],
           [5., 0.]])
    """
    traffic = square(matrix, "matrix")
    return traffic + _missing(traffic)


def _missing(traffic: Floats) -> Floats:
    """Return what `pad` adds: the shortfall of rows and columns, filled in from the first to the last."""
    rows = traffic.sum(axis=1)
    columns = traffic.sum(axis=0)
    largest = max(rows.max(), columns.max())
    row_gap = largest - rows
    column_gap = largest - columns
    added = np.zeros_like(traffic)
    i = 0
    j = 0
    n = len(traffic)
    while i < n and j < n:
        amount = min(row_gap[i], column_gap[j])
        added[i, j] += amount
        row_gap[i] -= amount
        column_gap[j] -= amount
        if row_gap[i] <= column_gap[j]:
            i += 1
        else:
            j += 1
    return added


def bottleneck(left: Floats) -> Ints:
    """Return the perfect matching whose smallest entry is largest, (N,): few matchings, each held long."""
    from scipy.optimize import linear_sum_assignment

    values = np.unique(left[left > 0])
    low = 0  # the matching exists among entries >= values[low]
    high = values.size
    best = weight(left)
    while high - low > 1:
        middle = (low + high) // 2
        too_small = left < values[middle]  # (N, N)
        columns = linear_sum_assignment(too_small)[1]
        if too_small[np.arange(len(left)), columns].any():
            high = middle
        else:
            low = middle
            best = np.asarray(columns, dtype=np.int64)
    return best


def weight(left: Floats) -> Ints:
    """Return the perfect matching with the most bytes, (N,), among entries that have some."""
    from scipy.optimize import linear_sum_assignment

    forbidden = -len(left) * float(left.max()) - 1
    value = np.where(left > 0, left, forbidden)
    return np.asarray(linear_sum_assignment(value, maximize=True)[1], dtype=np.int64)


def any_perfect(left: Floats) -> Ints:
    """Return some perfect matching of the entries that have bytes, (N,), whatever their number."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(left > 0, maximize=True)[1], dtype=np.int64)


_STEPS: dict[str, Step] = {"bottleneck": bottleneck, "weight": weight, "any": any_perfect}


def mistake_in(left: ArrayLike, columns: object) -> Mistake | None:
    """Return what is wrong with a matching of the entries that have bytes left, or None.

    Parameters
    ----------
    left : (N, N) float
        Bytes that are left; rows and columns have the same sum. [B]
    columns : object
        What a step returned; right is a row of N different whole numbers, the receiver of each sender.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.mistake_in([[0, 1], [1, 0]], [1, 1]).name
    'two senders for one receiver'
    """
    table = np.asarray(left, dtype=np.float64)
    n = len(table)
    if columns is None:
        return Mistake("nothing returned", f"the step returned None; return {n} receivers")
    try:
        row = np.asarray(columns)
    except ValueError:
        row = np.zeros(0)
    if row.shape != (n,) or row.dtype.kind not in "iuf" or np.any(row != np.floor(row)):
        return Mistake(
            "no row of receivers",
            f"the step must return {n} whole numbers, the receiver of each sender, got {columns!r:.80}",
        )

    receiver = row.astype(np.int64)
    outside = np.flatnonzero((receiver < 0) | (receiver >= n))
    if outside.size:
        i = int(outside[0])
        return Mistake(
            "a receiver that does not exist",
            f"sender {i} got receiver {receiver[i]}; receivers are 0..{n - 1}",
        )
    count = np.bincount(receiver, minlength=n)
    if np.any(count > 1):
        j = int(np.argmax(count))
        both = np.flatnonzero(receiver == j)[:2].tolist()
        return Mistake(
            "two senders for one receiver",
            f"senders {both[0]} and {both[1]} both got receiver {j}, and in a matching each receiver "
            "has one sender; give one of them another",
        )
    empty = np.flatnonzero(table[np.arange(n), receiver] <= 0)
    if empty.size:
        i = int(empty[0])
        return Mistake(
            "an entry without traffic",
            f"sender {i} got receiver {receiver[i]}, for which it has nothing left; "
            "use only entries that are greater than 0",
        )
    return None


def decompose(matrix: ArrayLike, step: str | Step = "bottleneck") -> Decomposition:
    """Write a traffic matrix as a sum of matchings with weights.

    The matrix is padded first. Amounts are counted in whole units (bytes if all entries are whole numbers), so that
    nothing is lost to rounding on the way.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other; its diagonal is 0. [B]
    step : str or function
        ``"bottleneck"`` holds each matching as long as possible, ``"weight"`` sends the most bytes at a time, and
        ``"any"`` takes whichever it finds. A function gets the bytes that are left, (N, N), all rows and columns
        with the same sum, and returns the receiver of each sender, (N,): all different, and none with 0 bytes left.

    Returns
    -------
    Decomposition
        Matchings and weights. Weights of less than 1e-10 of the largest sum are left out if the entries are not whole
        numbers.

    Raises
    ------
    WrongMatching
        If a function returned no matching; ``mistake`` names what is wrong.
    ValueError
        If the matrix is empty, or is not one of bytes between hosts.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.decompose([[0, 3, 1], [1, 0, 3], [3, 1, 0]]).weight
    array([3., 1.])
    """
    traffic = square(matrix, "matrix")
    choose = _step(step)
    whole = bool(np.all(traffic == np.floor(traffic)))
    largest = max(traffic.sum(axis=1).max(), traffic.sum(axis=0).max())
    if largest == 0:
        raise ValueError("matrix must have traffic, got zeros only")
    unit = 1.0
    if not whole or largest > _EXACT:
        unit = float(largest) / _UNITS
    counted = np.rint(traffic / unit)
    padded = (counted + _missing(counted)).astype(np.int64)
    if not whole:
        dust = _DUST * float(largest)
    else:
        dust = 0.0

    left = padded.copy()
    sender = np.arange(len(left))
    matchings = []
    amounts = []
    while left.any():
        receiver = _checked(choose, np.asarray(left * unit, dtype=np.float64))
        amount = int(left[sender, receiver].min())
        left[sender, receiver] -= amount
        if amount * unit > dust:
            matchings.append(receiver)
            amounts.append(amount * unit)
    return Decomposition(
        matrix=traffic,
        padded=np.asarray(padded * unit, dtype=np.float64),
        matchings=np.array(matchings, dtype=np.int64),
        weight=np.array(amounts),
    )


def fewest_turns(matrix: ArrayLike, *, rate: units.Quantity, setup: units.Quantity) -> CircuitPlan:
    """Return a plan with as few matchings as any can have, each held until its largest entry is empty.

    There are as many matchings as the busiest host has partners (Koenig), where `decompose` may need many more. The
    price is that a port stays dark once its entry is empty, until the mirrors turn. So it pays where a set-up is long.
    Large entries are put together as far as that goes, one matching after another; the shortest plan may be shorter.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other; its diagonal is 0. [B]
    rate : float or str
        Rate of a circuit. [B/s]
    setup : float or str
        Set-up time of each matching. [s]

    Raises
    ------
    ValueError
        If the matrix is empty, or is not one of bytes between hosts.

    References
    ----------
    .. [1] B. Towles, W. J. Dally, Guaranteed scheduling for switches with configuration overhead, IEEE/ACM
       Transactions on Networking 11(5), 2003.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> mixed = [[0, 9e6, 1e6], [1e6, 0, 8e6], [5e6, 1e6, 0]]
    >>> circuits.fewest_turns(mixed, rate="1 GB/s", setup="1 ms").receivers_at([0.002, 0.011]).tolist()
    [[1, 2, 0], [2, 0, 1]]
    """
    traffic = square(matrix, "matrix")
    if not traffic.any():
        raise ValueError("matrix must have traffic, got zeros only")
    one = units.rate(rate)
    left = traffic.copy()
    sender = np.arange(len(left))
    matchings = []
    holds = []
    while left.any():
        receiver = _of_the_busiest(left)
        carried = left[sender, receiver]
        matchings.append(np.where(carried > 0, receiver, -1))
        holds.append(float(carried.max()) / one)
        left[sender, receiver] = 0.0
    return plan(np.array(matchings, dtype=np.int64), np.array(holds), rate=one, setup=setup)


def _of_the_busiest(left: Floats) -> Ints:
    """Return a matching, (N,), that serves each host with the most partners left, and the most bytes beyond that."""
    from scipy.optimize import linear_sum_assignment

    has_bytes = left > 0
    to = has_bytes.sum(axis=1)
    by = has_bytes.sum(axis=0)
    most = max(to.max(), by.max())
    busiest = (to == most)[:, None].astype(np.float64) + (by == most)[None, :]  # 0, 1 or 2
    beyond = len(left) * float(left.max()) + 1
    value = np.where(has_bytes, left + beyond * busiest, 0.0)
    return np.asarray(linear_sum_assignment(value, maximize=True)[1], dtype=np.int64)


def _step(step: str | Step) -> Step:
    """Return the function of a step, which may be given by name."""
    if isinstance(step, str):
        return _STEPS[units.choice(step, "step", tuple(_STEPS))]
    if not callable(step):
        raise TypeError(
            f"step must be one of {', '.join(_STEPS)}, or a function of the bytes left, got {step!r:.80}"
        )
    return step


def _checked(choose: Step, left: Floats) -> Ints:
    """Return what a step chooses, or raise what is wrong with it."""
    handed = left.copy()
    columns = choose(handed)
    found = mistake_in(left, columns)
    if found is None and not np.array_equal(handed, left):
        found = Mistake(
            "matrix changed",
            "the step changed the matrix that it was given; choose only, decompose takes the bytes off",
        )
    if found is not None:
        raise WrongMatching(found.name, found.message)
    return np.asarray(columns).astype(np.int64)


class StepTrial(NamedTuple):
    """How a step did on several matrices: the mistake that it made, or how many matchings it took for each."""

    mistake: str  # empty if there is none
    message: str
    matchings: tuple[int, ...]  # of each matrix that it finished
    fewest: tuple[int, ...]  # that `bottleneck` took for the same


def try_step(step: Step, *, seed: int = 0, sizes: tuple[int, ...] = (3, 4, 6, 8)) -> StepTrial:
    """Try a step on traffic of several kinds: a ring, all to all, skewed, sparse.

    Parameters
    ----------
    step : function
        As in `decompose`.
    seed : int
        Seed of the matrices.
    sizes : tuple of int
        Numbers of hosts.

    Returns
    -------
    StepTrial
        The first mistake, or none.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.try_step(lambda left: left.argmax(axis=1)).mistake
    'two senders for one receiver'
    """
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    taken: list[int] = []
    fewest: list[int] = []
    for n in sizes:
        for matrix in _samples(rng, n):
            try:
                result = decompose(matrix, step)
            except WrongMatching as error:
                return StepTrial(error.mistake, str(error), tuple(taken), tuple(fewest))
            taken.append(result.n_matchings)
            fewest.append(decompose(matrix).n_matchings)
    return StepTrial("", "", tuple(taken), tuple(fewest))


def _samples(rng: np.random.Generator, n: int) -> list[Floats]:
    """Return matrices of n hosts: a shuffled ring, all to all, skewed, and one with few entries."""
    off_diagonal: Flags = ~np.eye(n, dtype=bool)
    order = rng.permutation(n)
    ring = np.zeros((n, n))
    ring[order, np.roll(order, -1)] = 8
    skewed = np.ceil(rng.pareto(1.2, (n, n))) * off_diagonal
    few = rng.integers(1, 9, (n, n)) * off_diagonal * (rng.random((n, n)) < 0.4)
    few[order, np.roll(order, -1)] += 1
    return [ring, off_diagonal * 2.0, skewed, few.astype(np.float64)]
