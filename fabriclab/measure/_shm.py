"""Collectives over shared memory between processes, with only the standard library and NumPy."""

import threading
import time
from multiprocessing import resource_tracker, shared_memory

import numpy as np
from numpy.typing import NDArray

_FLAG = 8  # numbers in front of a row; the first is a flag, the rest give each flag a cache line of its own


def slices(n: int, size: int) -> list[slice]:
    """Return the slice of ``n`` items that each rank owns: equal blocks, of which the last may be shorter or empty."""
    block = -(-n // size)
    return [slice(min(r * block, n), min((r + 1) * block, n)) for r in range(size)]


class SharedMemoryRanks:
    """One rank of `_rounds.Communicator` over shared memory.

    All ranks map the same segment, with send and receive buffers, flags, and rows of numbers.
    """

    about = "shared memory (built in)"

    def __init__(self, rank: int, size: int, items: int, numbers: int, name: str) -> None:
        # Python's resource trackers would unlink the segment while other ranks still use it.
        resource_tracker.register = lambda *_: None
        resource_tracker.unregister = lambda *_: None
        self.rank = rank
        self.size = size
        self._epoch = 0  # barriers so far
        self._fence = threading.Lock()

        room = 8 * size * items  # [B] of the send and receive buffers
        columns = _FLAG + numbers
        while not hasattr(self, "_memory"):
            try:
                self._memory = shared_memory.SharedMemory(
                    name, create=rank == 0, size=room + 8 * size * columns
                )
            except (FileNotFoundError, ValueError):  # not there yet, or still empty
                time.sleep(0.002)
        self._sends, self._recvs = np.ndarray((2, size, items), np.float32, self._memory.buf)
        self.send = self._sends[rank]
        self.recv = self._recvs[rank]
        table = np.ndarray((size, columns), np.float64, self._memory.buf, room)
        self._flags = table.data  # column 0: barriers that each rank has reached
        self._rows = table[:, _FLAG:]
        self.barrier()
        # All ranks have mapped it, so it can be unlinked: nothing is left behind, however the processes end.
        if rank == 0:
            self._memory.unlink()

    def barrier(self) -> None:
        """Wait until every rank has reached this barrier."""
        self._epoch += 1
        # A lock is a memory fence: other ranks see everything written before it before they see the flag.
        with self._fence:
            pass
        with self._fence:
            self._flags[self.rank, 0] = self._epoch
        for other in range(self.size):
            while self._flags[other, 0] < self._epoch:
                time.sleep(0)
        with self._fence:
            pass

    def _add(self, part: slice, out: NDArray[np.float32]) -> None:
        """Put the sum of all ranks over a part of the items into ``out``."""
        second = self._sends[1, part] if self.size > 1 else 0
        np.add(self._sends[0, part], second, out=out)
        for send in self._sends[2:]:
            out += send[part]

    def reduce_scatter(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks, and leave this rank's slice at the start of ``recv``."""
        self.barrier()
        mine = slices(n, self.size)[self.rank]
        self._add(mine, self.recv[: mine.stop - mine.start])

    def all_gather(self, n: int) -> None:
        """Collect the blocks of all ranks as the first ``n`` numbers of ``recv``."""
        self.barrier()
        for send, part in zip(self._sends, slices(n, self.size), strict=True):
            self.recv[part] = send[: part.stop - part.start]

    def all_reduce(self, n: int) -> None:
        """Reduce the first ``n`` numbers of all ranks into ``recv`` on each rank."""
        self.barrier()
        parts = slices(n, self.size)
        self._add(parts[self.rank], self.recv[parts[self.rank]])
        self.barrier()
        for other in set(range(self.size)) - {self.rank}:
            self.recv[parts[other]] = self._recvs[other, parts[other]]

    def broadcast(self, n: int) -> None:
        """Send the first ``n`` numbers of rank 0's ``send`` to ``recv`` on all other ranks."""
        self.barrier()
        if self.rank:
            self.recv[:n] = self._sends[0, :n]

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of all ranks on every rank, (ranks, numbers)."""
        self.barrier()  # all ranks have read the rows of the previous call
        self._rows[self.rank] = numbers
        self.barrier()
        return self._rows.copy()
