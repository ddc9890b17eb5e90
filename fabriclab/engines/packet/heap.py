"""A heap of events: the earliest first, and of events at the same time the one with the lowest code.

Each place has four children, so a heap of 10,000 events is seven places deep where one of two children is thirteen.
The first event lies at `FIRST`, the children of place p from 4 (p - 2) on: so the four of them, of 16 bytes each, are
one piece of memory that a processor fetches at once.

Most events make another one, so the first place stays empty when its event is taken out: the next event that is added
goes in there, which is less work than to fill the place and then to add an event at the end.
"""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.state import EVENTS, HOLE

FIRST = 3


@kernel()
def push(heap: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    last = FIRST + whole[EVENTS]
    whole[EVENTS] += 1
    if whole[HOLE] == 1:
        whole[HOLE] = 0
        sink(heap, last + 1, time, code)
        return
    place = last
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
def take_first(whole: Any) -> None:
    """Take the earliest event out; its time and code are to be read before, at place `FIRST`."""
    whole[EVENTS] -= 1
    whole[HOLE] = 1


@kernel()
def fill_hole(heap: Any, whole: Any) -> None:
    """Put the last event into the first place if that is empty, and let it sink."""
    if whole[HOLE] == 1:
        whole[HOLE] = 0
        last = FIRST + whole[EVENTS]
        sink(heap, last, heap[last].time, heap[last].code)


@kernel()
def earlier(heap: Any, one: int, other: int) -> int:
    """Return that of two places whose event comes first."""
    is_earlier = heap[other].time < heap[one].time
    is_same_time = heap[other].time == heap[one].time
    if is_earlier or (is_same_time and heap[other].code < heap[one].code):
        return other
    return one


@kernel()
def sink(heap: Any, last: int, time: int, code: int) -> None:
    """Put an event into the empty first place of a heap that ends before place ``last``, and let it sink."""
    place = FIRST
    child = 4
    while child + 3 < last:
        # The earliest of four children, found without jumps, since nobody could foretell them.
        best = child
        best_time = heap[child].time
        best_code = heap[child].code
        next_time = heap[child + 1].time
        next_code = heap[child + 1].code
        if (next_time < best_time) | ((next_time == best_time) & (next_code < best_code)):
            best = child + 1
            best_time = next_time
            best_code = next_code
        other = child + 2
        other_time = heap[child + 2].time
        other_code = heap[child + 2].code
        next_time = heap[child + 3].time
        next_code = heap[child + 3].code
        if (next_time < other_time) | ((next_time == other_time) & (next_code < other_code)):
            other = child + 3
            other_time = next_time
            other_code = next_code
        if (other_time < best_time) | ((other_time == best_time) & (other_code < best_code)):
            best = other
            best_time = other_time
            best_code = other_code
        if best_time > time or (best_time == time and best_code > code):
            child = last  # it stays here
        else:
            heap[place].time = best_time
            heap[place].code = best_code
            place = best
            child = 4 * (place - 2)
    if child < last:  # less than four children, which have none
        best = child
        for other in range(child + 1, last):
            best = earlier(heap, best, other)
        if heap[best].time < time or (heap[best].time == time and heap[best].code < code):
            heap[place].time = heap[best].time
            heap[place].code = heap[best].code
            place = best
    heap[place].time = time
    heap[place].code = code
