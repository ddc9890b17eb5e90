"""Measurements of a single machine: copies within its memory, and transfers between two of its processes."""

import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from timeit import timeit
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fabriclab as fl
from fabriclab import units
from fabriclab.core import Result, check_memory
from fabriclab.errors import FabricError
from fabriclab.measure import _launch
from fabriclab.measure._launch import Load, NotMeasured, load_note
from fabriclab.measure._rounds import Sizes, WrongAnswer, nearest, sizes_of, summed_up
from fabriclab.measure._turns import turn
from fabriclab.texts import text

_WAYS = ("write", "read", "shared_copy", "tcp", "pickle")  # of `one_sided`


def copy(size: Sizes = "64 MiB", repeats: int = 5) -> Result:
    """Time a memory copy by one thread (NumPy), and check it.

    The rate is bytes copied per second; the memory moves twice as many, because each byte is read and written.
    A size that fits into a cache shows the rate of the cache.

    Parameters
    ----------
    size : float, str or sequence of them
        Size of the copy; twice as much memory is needed. [B], >= 1
    repeats : int
        Timed copies of each size, after one that touches all pages. >= 1

    Returns
    -------
    Result
        Median, minimum and 99th percentile [s]; for copies below 1 ms a sample is the mean of several.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If two buffers of the size do not fit into memory.
    """
    sizes = sizes_of(size, 1, 1)
    repeats = units.count(repeats, "repeats")
    check_memory(2 * max(sizes), "a memory copy", "ask for a smaller size")
    with turn("copy") as notes:
        load = Load()
        times = [_copies(n, repeats) for n in sizes]
        notes.append(load_note(load.figures()))
    how = text("measure.copy", repeats=repeats)
    return summed_up("copy", sizes, times, {"repeats": repeats}, how, notes)


def _copies(n: int, repeats: int) -> Any:
    """Return the times of copies of ``n`` bytes [s], (repeats,)."""
    source = _pattern(n)
    target = np.empty(n, np.uint8)
    target[:] = 255  # touches all pages, and does not occur in the pattern
    (times,) = _in_turns([partial(np.copyto, target, source)], repeats)
    if not np.array_equal(target, source):
        raise WrongAnswer(f"a copy of {n} B differs from what was copied: do not use its time")
    return times


def sockets(size: Sizes = "64 MiB", repeats: int = 5) -> Result:
    """Time a transfer from another process through a TCP socket of this machine, and check the bytes.

    If no process can be started or no socket opened, a stored measurement is returned, and a note says so.

    Parameters
    ----------
    size : float, str or sequence of them
        Bytes that arrive. [B], >= 1
    repeats : int
        Timed transfers of each size, after one that does not count. >= 1

    Returns
    -------
    Result
        Median, minimum and 99th percentile [s], each from the request to the last byte.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If the buffers at both ends do not fit into memory.
    """
    sizes = sizes_of(size, 1, 1)
    repeats = units.count(repeats, "repeats")
    check_memory(3 * max(sizes), "a transfer through a socket", "ask for a smaller size")
    try:
        with (
            turn("sockets") as notes,
            socket.create_server(("127.0.0.1", 0)) as server,
            tempfile.TemporaryFile() as log,
        ):
            load = Load()
            # Is there a loopback at all?
            patience = 1  # illustrative: of this program [s]
            socket.create_connection(server.getsockname(), timeout=patience).close()
            server.accept()[0].close()
            ask = {"transport": "tcp", "port": server.getsockname()[1], "name": "", "scratch": ""}
            with _launch.started([_launch.worker(ask)], _launch.environment(ask), log):
                times = _transfers(server, sizes, repeats)
            notes.append(load_note(load.figures()))
    except (NotMeasured, OSError) as error:
        return nearest("sockets", sizes, f"no bytes from another process ({error})")
    how = text("measure.sockets", repeats=repeats)
    return summed_up("sockets", sizes, times, {"repeats": repeats}, how, notes)


def _transfers(server: socket.socket, sizes: Sequence[int], repeats: int) -> NDArray[np.float64]:
    """Return the times [s] (sizes, repeats) of transfers from the first process that connects."""
    server.settimeout(_launch.START_LIMIT)
    link, _ = server.accept()
    times = np.zeros((len(sizes), repeats + 1))  # [s], the first of each size does not count
    buffer = np.zeros(max(sizes), np.uint8)
    right = _pattern(max(sizes))
    with link:
        link.settimeout(_launch.SILENCE_LIMIT)
        for i, j in np.ndindex(times.shape):
            n = sizes[i]
            buffer[:n] = 255  # so that bytes of the transfer before cannot pass for this one's
            times[i, j] = _receive(link, buffer.data[:n])
            if not np.array_equal(buffer[:n], right[:n]):
                raise WrongAnswer(
                    f"of {n} B through a socket not all are what was sent: do not use their time"
                )
    return times[:, 1:]


def _receive(link: socket.socket, room: memoryview) -> float:
    """Request as many bytes as fit into ``room``, and return the time until the last one has arrived [s]."""
    got = 0
    start = perf_counter()
    link.sendall(len(room).to_bytes(8, "big"))
    while got < len(room):
        more = link.recv_into(room[got:])
        if not more:
            raise NotMeasured(f"the connection ended after {got} of {len(room)} B")
        got += more
    return perf_counter() - start


def answer(port: int) -> None:
    """Serve as the other end: answer each request of 8 bytes with as many bytes as it asks for, until there is none."""
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rb") as requests:
        data = _pattern(0)
        while request := requests.read(8):
            n = int.from_bytes(request, "big")
            if data.size < n:
                data = _pattern(n)
            link.sendall(data[:n].data)


def _pattern(n: int) -> NDArray[np.uint8]:
    """Return ``n`` bytes that count from 0 to 250, again and again."""
    return np.tile(np.arange(251, dtype=np.uint8), n // 251 + 1)[:n]


def one_sided(
    size: Sizes = (8, 512, "8 KiB", "128 KiB", "2 MiB", "16 MiB"), repeats: int = 5
) -> dict[str, Result]:
    """Time RDMA WRITE and READ between two processes, and three other transfers, all in turns in a single run.

    If no process can be started, stored measurements are returned, and a note says so. A script must call this function
    under ``if __name__ == "__main__":``, because the process is started afresh.

    Parameters
    ----------
    size : float, str or sequence of them
        Bytes that arrive. [B], >= 1
    repeats : int
        Samples of each transfer and size; below 1 ms each is the mean of several transfers. >= 1

    Returns
    -------
    dict of str to Result
        ``write``, ``read``, ``shared_copy`` (NumPy, between shared buffers of one process), ``tcp`` and ``pickle`` (a
        request to the other process, and the bytes back): median, minimum and 99th percentile [s].

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If seven buffers of the size do not fit into memory.
    WrongAnswer
        If bytes differ from what was sent.
    """
    sizes = sizes_of(size, 1, 1)
    repeats = units.count(repeats, "repeats")
    check_memory(7 * max(sizes), "transfers between two processes", "ask for a smaller size")
    try:
        with turn("one_sided") as notes:
            load = Load()
            times = _between_two(sizes, repeats)
            notes.append(load_note(load.figures()))
    except WrongAnswer:
        raise
    # The system may lack something that the verbs need.
    except (FabricError, OSError, EOFError, ImportError) as error:
        why = f"no bytes from another process ({str(error) or 'it ended'})"
        return {way: nearest(way, sizes, why) for way in _WAYS}
    how = "two processes; the ways in turn, each request as the one before; the bytes were checked once"
    return {
        way: summed_up(way, sizes, times[:, i], {"repeats": repeats}, how, notes)
        for i, way in enumerate(_WAYS)
    }


def _between_two(sizes: Sequence[int], repeats: int) -> NDArray[np.float64]:
    """Return the times [s] (sizes, kinds of transfer, repeats) of transfers from and to a process started here."""
    most = max(sizes)
    with (
        socket.create_server(("127.0.0.1", 0)) as s,
        fl.rdma.Process(_other, s.getsockname()[1], most) as other,
    ):
        s.settimeout(_launch.START_LIMIT)
        mine = _Side(most, other)
        with s.accept()[0] as link:
            times = [_in_turns(_ways(mine, other, link, n), repeats) for n in sizes]
        other.send(None)
    return np.array(times)


def once(transfer: Callable[[], tuple[float, Any]], size: units.Quantity = 8) -> tuple[Result, Any]:
    """Run a transfer that times itself, once; where this machine has no device for it, take a stored WRITE.

    Parameters
    ----------
    transfer : callable
        Returns the seconds that it took, and anything that it has seen.
    size : float or str
        Bytes that it moves. [B], >= 1

    Returns
    -------
    tuple
        The time as a measured Result, and what ``transfer`` has seen; a stored time and None if the system lacks what
        the verbs need. A note of the Result then says why.
    """
    n = sizes_of(size, 1, 1)[0]
    try:
        with turn("once") as notes:
            took, seen = transfer()
    except (FabricError, OSError, EOFError, ImportError) as error:
        return nearest("write", [n], str(error) or "the other process ended"), None
    size_and_time = np.array([n], float), np.array([took])
    return Result("write", "measured", *size_and_time, notes=tuple(notes)), seen


class _Side:
    """One process's part of one-sided operations: two memory regions, and a queue pair connected over ``link``."""

    def __init__(self, size: int, link: Any) -> None:
        ctx = fl.rdma.Context()
        pd = fl.rdma.PD(ctx)
        access = 15  # a peer may read, write and add
        self.cq = fl.rdma.CQ(ctx, 8)
        self.mr = fl.rdma.MR(pd, size, access)
        self.copy = fl.rdma.MR(pd, size, access)
        self.qp = fl.rdma.QP(
            pd, fl.rdma.QPInitAttr(qp_type=fl.rdma.enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq)
        )
        self.memory = fl.rdma.connect(self.qp, self.mr, link)

    def runs(self, opcode: int, mr: Any, n: int) -> Callable[[], None]:
        """Return a function that posts a request for the first ``n`` bytes of both regions and waits for its end."""
        wr = fl.rdma.SendWR(opcode=opcode, num_sge=1, sg=[fl.rdma.SGE(mr.buf, n, mr.lkey)])
        wr.set_wr_rdma(*self.memory)

        def run() -> None:
            self.qp.post_send(wr)
            while not (found := self.cq.poll()[1]):
                pass
            if found[0].status:
                raise WrongAnswer(f"a request between two processes ended in {found[0]!r}")

        return run


def _ways(mine: _Side, other: Any, link: socket.socket, n: int) -> list[Callable[[], object]]:
    """Return one function for each kind of transfer of ``n`` bytes; each kind is checked once."""
    source = np.frombuffer(mine.mr.memory, np.uint8)[:n]
    target = np.frombuffer(mine.copy.memory, np.uint8)[:n]
    # Both differ from zeros and from what the buffers contained before.
    sent = _pattern(n)
    source[:] = sent[::-1] ^ 255
    put = mine.runs(fl.rdma.enums.IBV_WR_RDMA_WRITE, mine.mr, n)
    get = mine.runs(fl.rdma.enums.IBV_WR_RDMA_READ, mine.copy, n)
    tcp = partial(_receive, link, target.data)

    def pipe() -> Any:
        other.send(n)
        return other.recv()

    put()
    get()
    arrived = np.array_equal(target, source) and pipe() == sent.tobytes()
    tcp()
    if not (arrived and np.array_equal(target, sent)):
        raise WrongAnswer(
            f"of {n} B between two processes not all are what was sent: do not use their time"
        )
    return [put, get, partial(np.copyto, target, source), tcp, pipe]


def _in_turns(ways: Sequence[Callable[[], object]], repeats: int) -> NDArray[np.float64]:
    """Return the times [s] (kinds of transfer, repeats) of one transfer; a sample takes at least a millisecond."""
    calls = [1 + int(1e-3 / timeit(transfer, number=1)) for transfer in ways]
    times = np.zeros((len(ways), repeats))
    for repeat in range(repeats):
        for way, (transfer, number) in enumerate(zip(ways, calls, strict=True)):
            times[way, repeat] = timeit(transfer, number=number) / number
    return times


def _other(link: Any, port: int, size: int) -> None:
    """Serve as the other process: register memory, and send the bytes asked for through a socket and the pipe."""
    _memory = _Side(size, link)
    data = _pattern(size).tobytes()
    threading.Thread(target=answer, args=(port,), daemon=True).start()
    while (n := link.recv()) is not None:
        link.send(data[:n])
