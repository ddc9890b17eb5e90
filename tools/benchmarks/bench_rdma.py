"""RDMA WRITE and READ between two processes: 8 B beside a pickle over a pipe, 16 MiB beside numpy's copy.

Both sides of a pair run in this process, against the same other process. The pipe's round trip is a number there and
8 B back. A fresh request is one that the queue pair has not seen before; all checks are on in both.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable
from time import perf_counter

import numpy as np

from fabriclab import rdma
from fabriclab.measure._host import _other, _Side
from fabriclab.rdma import enums as e
from pairs import interleaved

SMALL, LARGE, CALLS = 8, 1 << 24, 2000
WANTED, AIM, PART = 20, 40, 0.85


def mean(do: Callable[[], object], calls: int) -> float:
    """Return the mean time of a call [s]."""
    start = perf_counter()
    for _ in range(calls):
        do()
    return (perf_counter() - start) / calls


def fresh(mine: _Side, requests: Iterable[rdma.SendWR]) -> float:
    """Return the mean time from post to completion of requests that were not posted before [s]."""
    post, poll, some = mine.qp.post_send, mine.cq.poll, list(itertools.islice(requests, CALLS))
    start = perf_counter()
    for wr in some:
        post(wr)
        while not (found := poll()[1]):
            pass
        if found[0].status:
            raise SystemExit(f"a WRITE ended in {found[0]!r}")
    return (perf_counter() - start) / CALLS


def main() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        rdma.Process(_other, server.getsockname()[1], LARGE) as other,
    ):
        mine = _Side(LARGE, other)

        def piped() -> None:
            other.send(SMALL)
            other.recv()

        def writes() -> Iterable[rdma.SendWR]:
            for number in itertools.count():
                piece = rdma.SGE(mine.mr.buf, SMALL, mine.mr.lkey)
                wr = rdma.SendWR(wr_id=number, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[piece])
                wr.set_wr_rdma(*mine.memory)
                yield wr

        requests, put = writes(), mine.runs(e.IBV_WR_RDMA_WRITE, mine.mr, SMALL)
        pipe = lambda: mean(piped, CALLS // 10)  # noqa: E731
        small = {"fresh": lambda: fresh(mine, requests), "repeated": lambda: mean(put, CALLS)}
        for name, ours in small.items():
            print(
                interleaved(ours, pipe, 15).line(f"WRITE of 8 B, {name} (aim {AIM})", WANTED),
                flush=True,
            )
        source, target = (np.frombuffer(mr.memory, np.uint8) for mr in (mine.mr, mine.copy))
        copy = lambda: mean(lambda: np.copyto(target, source), 5)  # noqa: E731
        for name, opcode, mr in (
            ("WRITE", e.IBV_WR_RDMA_WRITE, mine.mr),
            ("READ", e.IBV_WR_RDMA_READ, mine.copy),
        ):
            large = mine.runs(opcode, mr, LARGE)
            large()  # touches the pages
            print(
                interleaved(lambda do=large: mean(do, 5), copy, 15).line(f"{name} of 16 MiB", PART),
                flush=True,
            )
        other.send(None)


if __name__ == "__main__":
    main()
