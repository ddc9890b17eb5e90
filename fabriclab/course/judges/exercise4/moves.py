"""Exercise 4: what the search for the shortest trace is made of: states, moves, and how a run ends."""

from typing import Any, NamedTuple

# what happens, to which worker, and with which of its packets or timers
Move = tuple[str, int, int]


class State(NamedTuple):
    """All that decides what can happen next; packets, histories and snapshots go by numbers."""

    registers: int
    workers: tuple[int, ...]
    up: tuple[tuple[int, ...], ...]
    down: tuple[tuple[int, ...], ...]
    timers: tuple[tuple[int, ...], ...]  # the packets that they are for
    faults: int  # that may still come


class Broken(NamedTuple):
    """How it ends: which worker, and its total; or what it, or the switch, cannot do."""

    kind: str  # wrong, stopped, outside or hangs
    worker: int
    total: Any
    again: bool = False  # whether somebody sent again before all hung


class Numbers(list[Any]):
    """Things by number; equal ones have the same."""

    def __init__(self) -> None:
        self._places = dict[Any, int]()

    def of(self, thing: Any) -> int:
        """Return the number of a thing."""
        found = self._places.setdefault(thing, len(self))
        if found == len(self):
            self.append(thing)
        return found


def is_fault(move: Move) -> bool:
    """Return whether a move is none of a network that loses nothing and keeps the order."""
    kind, _, i = move
    return " " in kind or kind in ("timeout", "stranger") or i > 0


def put(parts: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """Return a tuple with one part changed."""
    return (*parts[:at], value, *parts[at + 1 :])


def without(parts: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """Return a tuple without one part."""
    return parts[:at] + parts[at + 1 :]
