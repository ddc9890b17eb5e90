"""Collectives over shared memory between processes, with the standard library and numpy alone."""

import threading
import time
from multiprocessing import resource_tracker, shared_memory

import numpy as np
from numpy.typing import NDArray


def slices(n: int, size: int) -> list[slice]:
    """Return the slice of ``n`` items that each rank owns: equal blocks, the last ones shorter or empty."""
    block = -(-n // size)
    return [slice(min(r * block, n), min((r + 1) * block, n)) for r in range(size)]


class SharedMemoryRanks:
    """One rank of `_rounds.Communicator`; all map one segment: send and receive buffers, flags, rows of numbers."""

    about = "shared memory (built in)"

    def __init__(self, rank: int, size: int, items: int, numbers: int, name: str) -> None:
        # they unlink it under the others
        resource_tracker.register = resource_tracker.unregister = lambda *_: None
        self.rank, self.size, self._epoch, self._fence = rank, size, 0, threading.Lock()
        room = 8 * size * items
        while not hasattr(self, "_memory"):
            try:
                self._memory = shared_memory.SharedMemory(
                    name, rank == 0, room + 8 * size * (8 + numbers)
                )
            except (FileNotFoundError, ValueError):  # not there yet, or still empty
                time.sleep(0.002)
        self._sends, self._recvs = np.ndarray((2, size, items), np.float32, self._memory.buf)
        self.send, self.recv = self._sends[rank], self._recvs[rank]
        table = np.ndarray((size, 8 + numbers), np.float64, self._memory.buf, room)
        self._flags, self._rows = table.data, table[:, 8:]  # each flag has a cache line
        self.barrier()
        if rank == 0:  # all have it: from here on nothing is left behind, however the processes end
            self._memory.unlink()

    def barrier(self) -> None:
        self._epoch += 1
        with (
            self._fence
        ):  # a lock is a memory fence: what was written before is seen before the flag
            pass
        with self._fence:
            self._flags[self.rank, 0] = self._epoch
        for other in range(self.size):
            while self._flags[other, 0] < self._epoch:
                time.sleep(0)
        with self._fence:
            pass

    def _add(self, part: slice, out: NDArray[np.float32]) -> None:
        np.add(self._sends[0, part], self._sends[1, part] if self.size > 1 else 0, out=out)
        for send in self._sends[2:]:
            out += send[part]

    def reduce_scatter(self, n: int) -> None:
        self.barrier()
        self._add(mine := slices(n, self.size)[self.rank], self.recv[: mine.stop - mine.start])

    def all_gather(self, n: int) -> None:
        self.barrier()
        for send, part in zip(self._sends, slices(n, self.size), strict=True):
            self.recv[part] = send[: part.stop - part.start]

    def all_reduce(self, n: int) -> None:
        self.barrier()
        parts = slices(n, self.size)
        self._add(parts[self.rank], self.recv[parts[self.rank]])
        self.barrier()
        for other in set(range(self.size)) - {self.rank}:
            self.recv[parts[other]] = self._recvs[other, parts[other]]

    def broadcast(self, n: int) -> None:
        self.barrier()
        if self.rank:
            self.recv[:n] = self._sends[0, :n]

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        self.barrier()  # all have read the rows of the call before
        self._rows[self.rank] = numbers
        self.barrier()
        return self._rows.copy()
