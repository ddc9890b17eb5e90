"""How much processor time a process and all that descends from it have used, read from outside.

The process is asked nothing: it runs a learner's code, which could answer what it likes. And no clock on the wall is
read: other programs on the same cores would make it run faster than the code.
"""

import contextlib
import os
import time
from dataclasses import dataclass

_MOST_APART = 0.5  # s on the wall between two looks, however many processes there are
_APART = 0.05  # s on the wall between two looks for descendants; each costs 13 us for every process


@dataclass(slots=True)
class Spent:
    """What a part of a question has used until now.

    Parameters
    ----------
    processor : float
        Time that processor cores have run it, all its threads and processes together. [s]
    wall : float
        Time that went by while its answers were waited for. [s]
    """

    processor: float = 0.0
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class _Process:
    """What ``/proc/<pid>/stat`` says of a process that is needed here."""

    pid: int
    parent: int
    started: int  # in ticks since the machine started; with the number it is a name that is not used twice
    reaped: float  # processor time of the children that it has waited for, and of theirs [s]


class ProcessorClock:
    """The processor time of a process, and of its descendants if it may have any.

    The time of each process is read from its clock in the kernel, which counts all threads in nanoseconds and costs
    0.5 us to read, where ``/proc/<pid>/stat`` counts in steps of 10 ms. Descendants are looked for in ``/proc``:
    whatever lives below the process that started this one, so an orphan is found where the kernel has put it.

    Leaves out what a descendant does between the last look and its death, if nobody waits for it.

    Parameters
    ----------
    pid : int
        The process, as its number is here.
    family : bool
        Whether it can have descendants. Without them a reading costs 1 us.
    """

    def __init__(self, pid: int, *, family: bool) -> None:
        """Begin with the time that the process has used so far."""
        self._pid = pid
        self._own = 0.0
        self._others = 0.0
        self._used = 0.0
        self._seen = dict[tuple[int, int], float]()  # the last known time of each descendant
        self._above = 0
        if family:
            # Where /proc hides it, only the process itself is counted.
            with contextlib.suppress(OSError):
                self._above = _process(pid).parent
        self._next_look = time.monotonic()

    def read(self) -> float:
        """Return the processor time [s]; it never goes down, and stays where it is when all are dead."""
        try:
            self._own = _time_of(self._pid)
        except OSError:  # it is dead
            pass
        if self._above and time.monotonic() >= self._next_look:
            begin = time.thread_time()
            self._look()
            cost = time.thread_time() - begin
            # On a machine with thousands of processes a look costs more, and is taken less often.
            self._next_look = time.monotonic() + min(max(_APART, 10 * cost), _MOST_APART)
        self._used = max(self._used, self._own + self._others)
        return self._used

    def _look(self) -> None:
        """Find all descendants, and add up their times.

        A process that has died is still counted: in the time that its parent has reaped, or, if nobody has waited for
        it, as it was last seen. Of these two the larger counts, since most of the dead are in both. What was reaped is
        read before the times of the living, so a child that is reaped meanwhile is not counted twice.
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


def _time_of(pid: int) -> float:
    """Return the processor time [s] of a process, all its threads together; OSError if there is no such process."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid makes it
    return time.clock_gettime(clock)


def _process(pid: int) -> _Process:
    """Return what /proc says of a process; OSError if there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        line = file.read()
    # The name, in brackets, may hold anything; what stands behind it begins with the state.
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
    """Return all processes that descend from one."""
    children = dict[int, list[_Process]]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended since
                process = _process(int(name))
                children.setdefault(process.parent, []).append(process)

    found = list[_Process]()
    new = children.get(above, [])
    while new:
        found += new
        new = [child for parent in new for child in children.get(parent.pid, [])]
    return found
