"""A heap of events: the earliest first, and of events at the same time the one with the lowest code.

Each place has four children, so a heap of 10,000 events is seven places deep where one of two children is thirteen.
The first event lies at `FIRST`, the children of place p from 4 (p - 2) on: so the four of them, of 16 bytes each, are
one piece of memory that a processor fetches at once.
"""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.state import EVENTS

FIRST = 3


@kernel()
def push(heap: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    place = FIRST + whole[EVENTS]
    whole[EVENTS] += 1
    while place > FIRST:
        parent = (place >> 2) + 2
        at = heap[parent].time
        if at < time or (at == time and heap[parent].code <= code):
            break
        heap[place].time = at
        heap[place].code = heap[parent].code
        place = parent
    heap[place].time = time
    heap[place].code = code


@kernel()
def drop_first(heap: Any, whole: Any) -> None:
    """Take the earliest event out; its time and code are to be read before, at place `FIRST`."""
    whole[EVENTS] -= 1
    last = FIRST + whole[EVENTS]
    time = heap[last].time
    code = heap[last].code
    place = FIRST
    child = 4
    while child < last:
        best = child
        for other in range(child + 1, min(child + 4, last)):
            is_earlier = heap[other].time < heap[best].time
            if is_earlier or (
                heap[other].time == heap[best].time and heap[other].code < heap[best].code
            ):
                best = other
        if heap[best].time > time or (heap[best].time == time and heap[best].code >= code):
            break
        heap[place].time = heap[best].time
        heap[place].code = heap[best].code
        place = best
        child = 4 * (place - 2)
    heap[place].time = time
    heap[place].code = code
