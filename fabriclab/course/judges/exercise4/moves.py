"""Exercise 4: the parts of the search for the shortest trace: states, moves, and ends of runs."""

from typing import Any, NamedTuple

# what happens, to which worker, and with which of its packets or timers
Move = tuple[str, int, int]


class State(NamedTuple):
    """Everything that decides what can happen next; packets, histories and snapshots are given by numbers."""

    registers: int
    workers: tuple[int, ...]
    up: tuple[tuple[int, ...], ...]
    down: tuple[tuple[int, ...], ...]
    timers: tuple[tuple[int, ...], ...]  # the packets that they are for
    faults: int  # that may still come


class Broken(NamedTuple):
    """The end of a faulty run: the worker and its wrong total, or what it or the switch cannot do."""

    kind: str  # wrong, stopped, outside or hangs
    worker: int
    total: Any
    again: bool = False  # whether somebody sent again before all hung


class Numbers(list[Any]):
    """A table of things by number, in which equal things have the same number."""

    def __init__(self) -> None:
        self._places = dict[Any, int]()

    def of(self, thing: Any) -> int:
        """Return the number of a thing."""
        found = self._places.setdefault(thing, len(self))
        if found == len(self):
            self.append(thing)
        return found


def is_fault(move: Move) -> bool:
    """Return whether a move is a fault: it cannot happen on a network that loses nothing and keeps the order."""
    kind, _, i = move
    return " " in kind or kind in ("timeout", "stranger") or i > 0


def put(parts: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """Return a copy of a tuple with one part changed."""
    return (*parts[:at], value, *parts[at + 1 :])


def without(parts: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """Return a copy of a tuple without one part."""
    return parts[:at] + parts[at + 1 :]
