"""A binary heap of events: the earliest first, and of events at the same time the one with the lowest code."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.state import EVENTS


@kernel()
def push(heap: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    place = whole[EVENTS]
    whole[EVENTS] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
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
    """Take the earliest event out; its time and code are to be read before, at place 0."""
    n = whole[EVENTS] - 1
    whole[EVENTS] = n
    if n == 0:
        return
    time = heap[n].time
    code = heap[n].code
    place = 0
    child = 1
    while child < n:
        other = child + 1
        if other < n:
            ahead = heap[other].time < heap[child].time
            if ahead or (
                heap[other].time == heap[child].time and heap[other].code < heap[child].code
            ):
                child = other
        if heap[child].time > time or (heap[child].time == time and heap[child].code >= code):
            break
        heap[place].time = heap[child].time
        heap[place].code = heap[child].code
        place = child
        child = 2 * place + 1
    heap[place].time = time
    heap[place].code = code
