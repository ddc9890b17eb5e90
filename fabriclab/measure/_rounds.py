"""Rounds of a collective over MPI, Gloo or shared memory: timed, checked, and summed up as a Result."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Result
from fabriclab.errors import FabricError
from fabriclab.measure._shm import SharedMemoryRanks, slices

Sizes: TypeAlias = "float | str | Sequence[float | str] | NDArray[Any]"
YIELDS = "OMPI_MCA_mpi_yield_when_idle"
# One rank among ``size``. Its collectives work on the first n float32 of ``send`` and ``recv``: `reduce_scatter` leaves
# its slice at the start of ``recv``, `all_gather` takes its block from the start of ``send``, and `broadcast` takes the
# ``send`` of rank 0. `gather` returns the rows of all ranks.
Communicator: TypeAlias = "MpiRanks | GlooRanks | SharedMemoryRanks"
_STEP = 2**18  # numbers made at a time, so that a check needs no second buffer
_UNTOUCHED = -1.0  # no sum of the test pattern is negative


class WrongAnswer(FabricError):
    """A collective left a wrong number in a receive buffer."""


class _Buffers:
    """Send and receive buffers of a rank, each with a whole block for every rank."""

    def __init__(self, items: int, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        block = -(-items // size)
        self.send, self.recv = np.zeros((2, block * size), np.float32)


class MpiRanks(_Buffers):
    """One rank of MPI's world communicator; the library is imported when the first one is made."""

    def __init__(self, items: int) -> None:
        from mpi4py import MPI

        self.comm = MPI.COMM_WORLD
        self.about = MPI.Get_library_version().split(",")[0].split("\n")[0].strip()
        if os.environ.get(YIELDS) == "1":
            self.about += " (a waiting rank yields its core)"
        super().__init__(items, self.comm.Get_rank(), self.comm.Get_size())

    def _counts(self, n: int) -> list[int]:
        return [part.stop - part.start for part in slices(n, self.size)]

    def barrier(self) -> None:
        """Wait until every rank has reached this barrier."""
        self.comm.Barrier()

    def all_reduce(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks into ``recv`` on each rank."""
        self.comm.Allreduce(self.send[:n], self.recv[:n])

    def reduce_scatter(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks, and leave this rank's slice at the start of ``recv``."""
        counts = self._counts(n)
        self.comm.Reduce_scatter(self.send[:n], self.recv[: counts[self.rank]], counts)

    def all_gather(self, n: int) -> None:
        """Collect the blocks of all ranks as the first ``n`` numbers of ``recv``."""
        counts = self._counts(n)
        self.comm.Allgatherv(self.send[: counts[self.rank]], [self.recv[:n], counts])

    def broadcast(self, n: int) -> None:
        """Send the first ``n`` numbers of rank 0's ``send`` to ``recv`` on all other ranks."""
        buffer = self.recv if self.rank else self.send
        self.comm.Bcast(buffer[:n])

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of all ranks on every rank, (ranks, numbers)."""
        table = np.empty((self.size, numbers.size))
        self.comm.Allgather(numbers, table)
        return table


class GlooRanks(_Buffers):
    """One rank of torch's Gloo; by default the ranks meet as the environment variables of torchrun say."""

    def __init__(self, items: int, rank: int = -1, size: int = -1, meet: str = "env://") -> None:
        import torch
        import torch.distributed as dist

        self.dist: Any = dist
        self._tensor = torch.from_numpy
        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
        self.group = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        self.about = f"Gloo of torch {torch.__version__.split('+')[0]}"
        # Newer releases of torch have other names for these two.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        super().__init__(items, dist.get_rank(), dist.get_world_size())

    def barrier(self) -> None:
        """Wait until every rank has reached this barrier."""
        self.dist.barrier(self.group)

    def all_reduce(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks into ``recv`` on each rank."""
        self.recv[:n] = self.send[:n]  # Gloo adds in place
        self.dist.all_reduce(self._tensor(self.recv[:n]), group=self.group)

    def reduce_scatter(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks, and leave this rank's slice at the start of ``recv``."""
        block = -(-n // self.size)  # Gloo takes equal blocks only, so the last one is padded
        self._scatter(
            self._tensor(self.recv[:block]),
            self._tensor(self.send[: block * self.size]),
            group=self.group,
        )

    def all_gather(self, n: int) -> None:
        """Collect the blocks of all ranks as the first ``n`` numbers of ``recv``."""
        block = -(-n // self.size)
        self._gather(
            self._tensor(self.recv[: block * self.size]),
            self._tensor(self.send[:block]),
            group=self.group,
        )

    def broadcast(self, n: int) -> None:
        """Send the first ``n`` numbers of rank 0's ``send`` to ``recv`` on all other ranks."""
        buffer = self.recv if self.rank else self.send
        self.dist.broadcast(self._tensor(buffer[:n]), 0, group=self.group)

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of all ranks on every rank, (ranks, numbers)."""
        table = np.empty((self.size, numbers.size))
        self._gather(self._tensor(table.reshape(-1)), self._tensor(numbers), group=self.group)
        return table


def timed(
    comm: Communicator,
    what: str,
    counts: Sequence[int],
    rounds: int,
    warmup: int,
    report: Callable[[int], None],
) -> Iterator[NDArray[np.float64]]:
    """Yield the time of every round [s] (rounds,), the maximum over ranks, for each number of float32 in ``counts``.

    Raises
    ------
    WrongAnswer
        On all ranks, if the last round left a wrong number on any of them.
    """
    run = getattr(comm, what)
    times = np.zeros(rounds + 1)  # [s]; the last entry carries the count of wrong numbers
    for k, n in enumerate(counts):
        _fill(comm, what, n)
        for _ in range(warmup):
            comm.barrier()
            run(n)
        comm.barrier()  # from here on no rank reads this receive buffer
        comm.recv[:n] = _UNTOUCHED
        for i in range(rounds):
            comm.barrier()
            start = perf_counter()
            run(n)
            times[i] = perf_counter() - start
            report(k * rounds + i + 1)
        times[rounds] = _wrong(comm, what, n)
        table = comm.gather(times)
        bad = int(table[:, rounds].sum())
        if bad:
            size = units.format_size(4 * n)
            raise WrongAnswer(
                f"{what} of {size} on {comm.size} ranks over {comm.about} left {bad} wrong numbers"
            )
        yield table[:, :rounds].max(axis=0)


def _pattern(rank: int, start: int, stop: int) -> NDArray[np.float32]:
    """Return the numbers that ``rank`` puts into items start..stop: small whole ones, so that every sum is exact."""
    return ((np.arange(start, stop) * (rank + 1)) % 251).astype(np.float32)


def _steps(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the parts of a range, each at most `_STEP` long."""
    for low in range(start, stop, _STEP):
        yield low, min(low + _STEP, stop)


def _fill(comm: Communicator, what: str, n: int) -> None:
    """Fill the send buffer with the pattern: for an all-gather only the items of this rank's block, else all."""
    mine = slices(n, comm.size)[comm.rank] if what == "all_gather" else slice(0, n)
    for low, high in _steps(mine.start, mine.stop):
        comm.send[low - mine.start : high - mine.start] = _pattern(comm.rank, low, high)


def _wrong(comm: Communicator, what: str, n: int) -> int:
    """Return how many numbers of the receive buffer differ from what the collective must leave there."""
    bad = 0
    for block in _expected(comm, what, n):
        for low, high in _steps(block.items.start, block.items.stop):
            right = sum(_pattern(rank, low, high) for rank in block.ranks)
            at = block.place + low - block.items.start
            bad += int(np.count_nonzero(comm.recv[at : at + high - low] != right))
    return bad


class _Block(NamedTuple):
    """A part of the receive buffer as a collective must leave it."""

    place: int  # index where it begins
    items: slice  # items that it contains
    ranks: Sequence[int]  # ranks whose items are added


def _expected(comm: Communicator, what: str, n: int) -> list[_Block]:
    """Return the parts of the receive buffer that a collective must fill."""
    whole = slice(0, n)
    parts = slices(n, comm.size)
    everyone = range(comm.size)
    if what == "all_reduce":
        return [_Block(0, whole, everyone)]
    if what == "reduce_scatter":
        return [_Block(0, parts[comm.rank], everyone)]
    if what == "all_gather":
        return [_Block(part.start, part, [rank]) for rank, part in enumerate(parts)]
    if comm.rank == 0:  # the root of a broadcast receives nothing
        return []
    return [_Block(0, whole, [0])]


def sizes_of(size: Sizes, step: int, low: int) -> list[int]:
    """Return one or more sizes as whole numbers of bytes, each a multiple of ``step`` and at least ``low``."""
    # Numbers and arrays of NumPy, and other arrays, become plain Python values.
    plain: Any = size.tolist() if hasattr(size, "tolist") else size
    out = []
    many = isinstance(plain, Sequence) and not isinstance(plain, str | bytes)
    for one in plain if many else [plain]:
        n = units.size(one)
        if n < low or n % step:
            near = units.format_size(max(low, round(n / step) * step))
            msg = f'size must be >= {low} B and a multiple of {step} B, got {one!r}; the nearest is "{near}"'
            raise ValueError(msg)
        out.append(int(n))
    if not out:
        raise ValueError('size must hold at least one size, got an empty sequence; write "4 MiB"')
    return out


def summed_up(
    what: str,
    sizes: Sequence[int],
    times: ArrayLike,
    asked: Mapping[str, Any],
    how: str,
    notes: Sequence[str],
    n: int = 1,
) -> Result:
    """Return rounds (sizes, rounds) [s] of ``n`` ranks as a Result with median, minimum and 99th percentile."""
    t = np.asarray(times, dtype=float)
    return Result(
        what,
        "measured",
        np.array(sizes),
        np.median(t, axis=1),
        n,
        low=t.min(axis=1),
        high=np.percentile(t, 99, axis=1),
        samples=t,
        asked=asked,
        how=how,
        notes=tuple(notes),
    )


def stored(what: str) -> Result:
    """Return the stored measurement named ``what``, such as ``copy``, ``sockets`` or a collective, over all its sizes.

    Collectives were measured on two ranks.

    Raises
    ------
    ValueError
        If nothing is stored under that name.
    """
    file: dict[str, Any] = json.loads(
        (files(__package__) / "stored.json").read_text(encoding="utf-8")
    )
    if not isinstance(what, str) or what not in file["results"]:
        raise ValueError(
            f"nothing is stored for {what!r}; choose one of {', '.join(file['results'])}"
        )
    return Result(
        what, "stored", **file["results"][what], source=f"{file['machine']}, {file['date']}"
    )


def nearest(what: str, sizes: Iterable[float], why: str) -> Result:
    """Return the stored times for the sizes nearest to ``sizes`` [B]; the first note says why nothing was measured."""
    full = stored(what)
    near = []
    for size in sizes:
        distance = np.abs(np.log2(full.size + 1) - np.log2(size + 1))  # (K,) in powers of two
        near.append(int(np.argmin(distance)))
    shown = ", ".join(units.format_size(full.size[i]) for i in near)
    note = f"not measured here: {why}; shown is what a {full.source} took for {shown}"
    columns: dict[str, Any] = {
        name: getattr(full, name)[near] for name in ("size", "time", "low", "high")
    }
    return replace(full, **columns, notes=(note, *full.notes))
