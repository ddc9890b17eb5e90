"""The timed rounds of a collective, the same for every communicator, with a check of the answer."""

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.errors import FabricError

_STEP = 2**18  # numbers made at a time: a check needs no second buffer
_UNTOUCHED = -1.0  # no sum of the test pattern is negative


class WrongAnswer(FabricError):
    """A collective left a wrong number in a receive buffer."""


class Communicator(Protocol):
    """One rank among ``size``; collectives work on the first n float32 of ``send`` and ``recv``.

    `reduce_scatter` leaves its slice at the start of ``recv``, `all_gather` takes its block from the
    start of ``send``, `broadcast` takes ``send`` of rank 0. `gather` returns the rows of all ranks.
    """

    rank: int
    size: int
    about: str
    send: NDArray[np.float32]
    recv: NDArray[np.float32]

    def barrier(self) -> None: ...
    def all_reduce(self, n: int) -> None: ...
    def reduce_scatter(self, n: int) -> None: ...
    def all_gather(self, n: int) -> None: ...
    def broadcast(self, n: int) -> None: ...
    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]: ...


def slices(n: int, size: int) -> list[slice]:
    """Return the slice of ``n`` items that each rank owns: equal blocks, the last ones shorter or empty."""
    block = -(-n // size)
    return [slice(min(r * block, n), min((r + 1) * block, n)) for r in range(size)]


def timed(
    comm: Communicator, what: str, counts: Sequence[int], rounds: int, warmup: int, report: Callable[[int], None]
) -> Iterator[NDArray[np.float64]]:
    """Yield the time of every round [s] (rounds,), maximum over ranks, for each number of float32 in ``counts``.

    Raises
    ------
    WrongAnswer
        On all ranks, if the last round left a wrong number on any of them.
    """
    run, times = getattr(comm, what), np.zeros(rounds + 1)
    for k, n in enumerate(counts):
        _fill(comm, what, n)
        for _ in range(warmup):
            comm.barrier()
            run(n)
        comm.barrier()  # nobody reads this receive buffer any more
        comm.recv[:n] = _UNTOUCHED
        for i in range(rounds):
            comm.barrier()
            start = perf_counter()
            run(n)
            times[i] = perf_counter() - start
            report(k * rounds + i + 1)
        times[rounds] = _wrong(comm, what, n)
        table = comm.gather(times)
        if bad := int(table[:, rounds].sum()):
            size = units.format_size(4 * n)
            raise WrongAnswer(f"{what} of {size} on {comm.size} ranks over {comm.about} left {bad} wrong numbers")
        yield table[:, :rounds].max(axis=0)


def _pattern(rank: int, start: int, stop: int) -> NDArray[np.float32]:
    """Return what ``rank`` puts into items start..stop; small whole numbers, so that every sum is exact."""
    return ((np.arange(start, stop) * (rank + 1)) % 251).astype(np.float32)


def _steps(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for low in range(start, stop, _STEP):
        yield low, min(low + _STEP, stop)


def _fill(comm: Communicator, what: str, n: int) -> None:
    mine = slices(n, comm.size)[comm.rank] if what == "all_gather" else slice(0, n)
    for low, high in _steps(mine.start, mine.stop):
        comm.send[low - mine.start : high - mine.start] = _pattern(comm.rank, low, high)


def _wrong(comm: Communicator, what: str, n: int) -> int:
    """Return how many numbers of the receive buffer differ from the definition of the collective."""
    parts, everyone = slices(n, comm.size), range(comm.size)
    mine = parts[comm.rank]
    owed: dict[str, list[tuple[int, slice, Sequence[int]]]] = {  # place in recv, items, ranks whose items are added
        "all_reduce": [(0, slice(0, n), everyone)],
        "reduce_scatter": [(0, mine, everyone)],
        "all_gather": [(part.start, part, [r]) for r, part in enumerate(parts)],
        "broadcast": [(0, slice(0, n), [0])] if comm.rank else [],
    }
    bad = 0
    for place, items, ranks in owed[what]:
        for low, high in _steps(items.start, items.stop):
            right = sum(_pattern(r, low, high) for r in ranks)
            at = place + low - items.start
            bad += int(np.count_nonzero(comm.recv[at : at + high - low] != right))
    return bad
