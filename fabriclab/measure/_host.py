"""What one machine does by itself: copy its memory, and talk to itself through a socket."""

from __future__ import annotations

import math
import socket
import tempfile
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Result, check_memory
from fabriclab.measure import _launch
from fabriclab.measure._launch import NotMeasured
from fabriclab.measure._machine import Load, load_note
from fabriclab.measure._rounds import Sizes, WrongAnswer, nearest, sizes_of, summed_up
from fabriclab.texts import text


def copy(size: Sizes = "64 MiB", repeats: int = 5) -> Result:
    """Time a copy of memory by one thread (numpy), and check it.

    The rate is bytes copied per second; the memory moves twice as many, as each is read and written.
    A size that fits into a cache shows the cache.

    Parameters
    ----------
    size : float, str or sequence of them
        Size of the copy; twice as much is held. [B], >= 1
    repeats : int
        Timed copies of each size, after one that touches all pages. >= 1

    Returns
    -------
    Result
        Median, minimum and 99th percentile [s]; below 1 ms a sample is the mean of several copies.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If two buffers of the size do not fit into the memory.
    """
    sizes, load = sizes_of(size, 1, 1), Load()
    repeats = units.count(repeats, "repeats")
    check_memory(2 * max(sizes), "a memory copy", "ask for a smaller size")
    times = [_copies(n, repeats) for n in sizes]
    how, note = text("measure.copy", repeats=repeats), load_note(load.figures())
    return summed_up("copy", sizes, times, {"repeats": repeats}, how, [note])


def _copies(n: int, repeats: int) -> list[float]:
    source, target = _pattern(n), np.zeros(n, np.uint8)

    def timed(calls: int) -> float:
        start = perf_counter()
        for _ in range(calls):
            np.copyto(target, source)
        return (perf_counter() - start) / calls

    timed(1)
    calls = math.ceil(1e-3 / timed(1))  # a clock cannot time one copy of a few bytes
    target[:] = 0
    times = [timed(calls) for _ in range(repeats)]
    if not np.array_equal(target, source):
        raise WrongAnswer(f"a copy of {n} B differs from what was copied: do not use its time")
    return times


def sockets(size: Sizes = "64 MiB", repeats: int = 5) -> Result:
    """Time bytes through a TCP socket of this machine, from another process, and check them.

    Where no process can be started or no socket opened, a stored measurement is returned; a note says so.

    Parameters
    ----------
    size : float, str or sequence of them
        Bytes that arrive. [B], >= 1
    repeats : int
        Timed transfers of each size, after one that is not counted. >= 1

    Returns
    -------
    Result
        Median, minimum and 99th percentile [s], each from the request to the last byte.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If a buffer of the size at each end does not fit into the memory.
    """
    sizes, load = sizes_of(size, 1, 1), Load()
    repeats = units.count(repeats, "repeats")
    check_memory(3 * max(sizes), "a transfer through a socket", "ask for a smaller size")
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as log:
            socket.create_connection(server.getsockname(), timeout=1).close()  # is there a loopback at all?
            server.accept()[0].close()
            ask = {"transport": "tcp", "port": server.getsockname()[1], "name": "", "scratch": ""}
            with _launch.started([_launch.worker(ask)], _launch.environment(ask), log):
                times = _transfers(server, sizes, repeats)
    except (NotMeasured, OSError) as error:
        return nearest("sockets", sizes, f"no bytes from another process ({error})")
    how, note = text("measure.sockets", repeats=repeats), load_note(load.figures())
    return summed_up("sockets", sizes, times, {"repeats": repeats}, how, [note])


def _transfers(server: socket.socket, sizes: Sequence[int], repeats: int) -> NDArray[np.float64]:
    """Return the times [s] (sizes, repeats) of what the first to connect sends."""
    server.settimeout(_launch.START_LIMIT)
    link, _ = server.accept()
    times, buffer, right = np.zeros((len(sizes), repeats + 1)), np.zeros(max(sizes), np.uint8), _pattern(max(sizes))
    with link:
        link.settimeout(_launch.SILENCE_LIMIT)
        for i, j in np.ndindex(times.shape):
            n = sizes[i]
            buffer[:n] = 255  # what the last transfer left must not pass for this one
            times[i, j] = _receive(link, buffer.data[:n])
            if not np.array_equal(buffer[:n], right[:n]):
                raise WrongAnswer(f"of {n} B through a socket not all are what was sent: do not use their time")
    return times[:, 1:]


def _receive(link: socket.socket, room: memoryview) -> float:
    start, got = perf_counter(), 0
    link.sendall(len(room).to_bytes(8, "big"))
    while got < len(room):
        more = link.recv_into(room[got:])
        if not more:
            raise NotMeasured(f"the connection ended after {got} of {len(room)} B")
        got += more
    return perf_counter() - start


def answer(port: int) -> None:
    """Be the other end: send as many bytes as each request of 8 bytes asks for, until there is none."""
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rb") as requests:
        data = _pattern(0)
        while request := requests.read(8):
            n = int.from_bytes(request, "big")
            data = data if data.size >= n else _pattern(n)
            link.sendall(data[:n].data)


def _pattern(n: int) -> NDArray[np.uint8]:
    return np.tile(np.arange(251, dtype=np.uint8), n // 251 + 1)[:n]
