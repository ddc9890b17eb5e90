"""The processor time of a process and its descendants, measured from outside.

The process itself is not asked, because it runs a learner's code, which could give any answer. Wall-clock time would
not be fair, because it goes on while other programs use the same cores.
"""

import contextlib
import os
import time
from dataclasses import dataclass

_MOST_APART = 0.5  # longest wall-clock time between two looks, however many processes there are [s]
_APART = 0.05  # shortest wall-clock time between two looks for descendants [s]; a look costs 13 us for every process


@dataclass(slots=True)
class Spent:
    """The time that a part of a question has used so far.

    Parameters
    ----------
    processor : float
        Processor time of all its threads and processes together. [s]
    wall : float
        Wall-clock time spent waiting for its answers, without the time in which other programs had the cores. [s]
    """

    processor: float = 0.0
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class _Process:
    """The facts about a process that are used here, from ``/proc/<pid>/stat``."""

    pid: int
    parent: int
    started: int  # start in ticks since the machine started; with the pid it identifies a process uniquely
    reaped: float  # processor time of children that it has waited for, and of theirs [s]


class ProcessorClock:
    """A clock for the processor time of a process, and of its descendants if it may have any.

    The time of each process is read from its clock in the kernel. That clock counts all threads in nanoseconds and
    costs 0.5 us to read, while ``/proc/<pid>/stat`` counts in steps of 10 ms. Descendants are found in ``/proc`` as all
    processes below the parent of this process, so that orphans are found where the kernel has put them.

    Leaves out what a descendant uses between the last look and its death, if no process waits for it.

    Parameters
    ----------
    pid : int
        Number of the process in this process's namespace.
    family : bool
        Whether it can have descendants. If not, a reading costs 1 us.
    """

    def __init__(self, pid: int, *, family: bool) -> None:
        """Begin with the time that the process has used so far."""
        self._pid = pid
        self._own = 0.0
        self._others = 0.0
        self._used = 0.0
        self._seen = dict[tuple[int, int], float]()  # last known time of each descendant
        self._above = 0
        if family:
            # If /proc hides the process, its descendants are not counted.
            with contextlib.suppress(OSError):
                self._above = _process(pid).parent
        self._next_look = time.monotonic()

    def read(self) -> float:
        """Return the processor time [s]; it never decreases, and keeps its value when all processes are dead."""
        try:
            self._own = _time_of(self._pid)
        except OSError:  # it is dead
            pass
        if self._above and time.monotonic() >= self._next_look:
            begin = time.thread_time()
            self._look()
            cost = time.thread_time() - begin
            # On a machine with thousands of processes a look costs more, so looks are less frequent.
            self._next_look = time.monotonic() + min(max(_APART, 10 * cost), _MOST_APART)
        self._used = max(self._used, self._own + self._others)
        return self._used

    def _look(self) -> None:
        """Find all descendants, and add up their times.

        Processes that have died are still counted, either in the times that their parents have reaped or, if no
        process has waited for them, by their last known times. The larger of these two sums counts, because most dead
        processes are in both. Reaped times are read before the times of living processes, so that a child that is
        reaped meanwhile is not counted twice.
        """
        processes = _below(self._above)
        reaped = sum(process.reaped for process in processes)

        alive = dict[tuple[int, int], float]()
        for process in processes:
            if process.pid != self._pid:
                with contextlib.suppress(OSError):
                    alive[process.pid, process.started] = _time_of(process.pid)

        self._seen |= alive
        unreaped = sum(used for key, used in self._seen.items() if key not in alive)
        self._others = sum(alive.values()) + max(reaped, unreaped)


def starved(task: int | str) -> float:
    """Return how long a task could have run while other programs had the cores [s]; 0 if this kernel does not tell.

    The task is the main thread of a process, by the number of the process, or ``thread-self``. Source: the kernel's
    documentation of scheduler statistics, second field of ``/proc/<pid>/schedstat``, in ns.
    """
    try:
        with open(f"/proc/{task}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _time_of(pid: int) -> float:
    """Return the processor time [s] of all threads of a process; raise OSError if there is no such process."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid computes it
    return time.clock_gettime(clock)


def _process(pid: int) -> _Process:
    """Return the facts in /proc about a process; raise OSError if there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        line = file.read()
    # The name, in brackets, may contain any character; the fields behind it begin with the state.
    _, _, behind = line.rpartition(b")")
    fields = behind.split()
    reaped_ticks = int(fields[13]) + int(fields[14])
    return _Process(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        reaped=reaped_ticks / os.sysconf("SC_CLK_TCK"),
    )


def _below(above: int) -> list[_Process]:
    """Return all descendants of a process."""
    children = dict[int, list[_Process]]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                process = _process(int(name))
                children.setdefault(process.parent, []).append(process)

    found = list[_Process]()
    new = children.get(above, [])
    while new:
        found += new
        new = [child for parent in new for child in children.get(parent.pid, [])]
    return found
