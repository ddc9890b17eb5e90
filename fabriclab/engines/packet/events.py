"""Events by time, and those of one time by their code: a calendar for those that are due soon, a heap for the others.

The calendar [1]_ is a ring of days, beginning today. A day has places for four events, which are one piece of memory
that a processor fetches at once. To add an event means to write it down on its day, and the next one is the earliest of
the first day that has any: the work does not grow with the number of events. Events behind the last day, and those for
whose day there is no place left, wait in the heap.

Now and then the length of a day is set anew, such that one to three events fall on each. What is set how does not
change the order of the events.

References
----------
.. [1] R. Brown, Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem,
   Communications of the ACM 31(10), 1988, pp. 1220-1227.
"""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.state import (
    DAY_BITS,
    DAYS,
    EVENTS,
    HEAP,
    IN_CALENDAR,
    MOST_DAYS,
    TODAY,
    TUNED_AT,
)

PLACES = 4  # of a day
LEAST_DAYS = 16
NEVER = 1 << 60  # time of a free place, behind all others
TUNE_EVERY = 1024  # events
FIRST = 3  # place of the first event of the heap, counted from `HEAP` on


@kernel()
def push(events: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    whole[EVENTS] += 1
    day = time >> whole[DAY_BITS]
    if whole[TODAY] <= day and day < whole[TODAY] + whole[DAYS]:
        free = free_place(events, PLACES * (day & (whole[DAYS] - 1)))
        if events[free].time == NEVER:
            events[free].time = time
            events[free].code = code
            whole[IN_CALENDAR] += 1
            return
    rise(events, whole[HEAP], whole[EVENTS] - whole[IN_CALENDAR] - 1, time, code)


@kernel()
def free_place(events: Any, place: int) -> int:
    """Return the first free place of the day that begins at a place, or its last one if none is free."""
    free = place + 3
    if events[place + 2].time == NEVER:
        free = place + 2
    if events[place + 1].time == NEVER:
        free = place + 1
    if events[place].time == NEVER:
        free = place
    return free


@kernel()
def earliest(events: Any, place: int) -> int:
    """Return the place of the earliest of four events, found without jumps, since nobody could foretell them."""
    best = place
    best_time = events[place].time
    best_code = events[place].code
    time = events[place + 1].time
    code = events[place + 1].code
    if (time < best_time) | ((time == best_time) & (code < best_code)):
        best = place + 1
        best_time = time
        best_code = code
    other = place + 2
    other_time = events[place + 2].time
    other_code = events[place + 2].code
    time = events[place + 3].time
    code = events[place + 3].code
    if (time < other_time) | ((time == other_time) & (code < other_code)):
        other = place + 3
        other_time = time
        other_code = code
    if (other_time < best_time) | ((other_time == best_time) & (other_code < best_code)):
        best = other
    return best


@kernel()
def is_before(events: Any, one: int, other: int) -> bool:
    """Return whether the event at one place comes before that at another."""
    if events[one].time == events[other].time:
        return events[one].code < events[other].code
    return events[one].time < events[other].time


@kernel()
def next_place(events: Any, whole: Any) -> int:
    """Return the place of the earliest event; there must be one."""
    top = whole[HEAP] + FIRST
    bits = whole[DAY_BITS]
    if whole[IN_CALENDAR] == 0:
        whole[TODAY] = events[top].time >> bits
        return top
    last = NEVER
    if whole[EVENTS] > whole[IN_CALENDAR]:
        last = events[top].time >> bits
    today = whole[TODAY]
    mask = whole[DAYS] - 1
    while today <= last:
        place = earliest(events, PLACES * (today & mask))
        if events[place].time != NEVER:
            whole[TODAY] = today
            if today == last and is_before(events, top, place):
                return top
            return place
        today += 1
    whole[TODAY] = last
    return top


@kernel()
def remove(events: Any, whole: Any, place: int) -> None:
    """Take the earliest event out, which is at a place that `next_place` has returned."""
    whole[EVENTS] -= 1
    if place < whole[HEAP]:
        events[place].time = NEVER
        whole[IN_CALENDAR] -= 1
    else:
        sink(events, whole[HEAP], whole[EVENTS] - whole[IN_CALENDAR])


@kernel()
def tune(events: Any, whole: Any, now: int) -> None:
    """Set the length of a day to the time in which one to three events come, and their number to that of the events.

    It is called after each `TUNE_EVERY` events, and changes nothing unless it must by a factor of more than two.
    """
    passed = now - whole[TUNED_AT]
    whole[TUNED_AT] = now
    bits = 0
    while (TUNE_EVERY << (bits + 1)) <= 3 * passed:
        bits += 1
    days = LEAST_DAYS
    while days < 2 * whole[EVENTS] and days < whole[MOST_DAYS]:
        days *= 2
    is_good = whole[DAY_BITS] - 1 <= bits and bits <= whole[DAY_BITS] + 1
    if is_good and whole[DAYS] <= 2 * days and days <= 2 * whole[DAYS]:
        return

    for place in range(PLACES * whole[DAYS]):
        if events[place].time != NEVER:
            in_heap = whole[EVENTS] - whole[IN_CALENDAR]
            rise(events, whole[HEAP], in_heap, events[place].time, events[place].code)
            whole[IN_CALENDAR] -= 1
    for place in range(PLACES * days):
        events[place].time = NEVER
    whole[DAYS] = days
    whole[DAY_BITS] = bits
    whole[TODAY] = now >> bits


# The heap -------------------------------------------------------------------------------------------------------------

# Each place has four children, so a heap of 10,000 events is seven places deep where one of two children is thirteen.
# Counted from `HEAP` on, the first event lies at `FIRST`, and the children of place p from 4 (p - 2) on.


@kernel()
def rise(events: Any, heap: int, n: int, time: int, code: int) -> None:
    """Put an event behind the ``n`` of a heap, and let it rise."""
    place = FIRST + n
    while place > FIRST:
        parent = (place >> 2) + 2
        at = events[heap + parent].time
        if at < time or (at == time and events[heap + parent].code <= code):
            break
        events[heap + place].time = at
        events[heap + place].code = events[heap + parent].code
        place = parent
    events[heap + place].time = time
    events[heap + place].code = code


@kernel()
def sink(events: Any, heap: int, n: int) -> None:
    """Put the last event of a heap, of which ``n`` are left, into its first place, and let it sink."""
    last = FIRST + n
    time = events[heap + last].time
    code = events[heap + last].code
    place = FIRST
    child = 4
    while child < last:
        best = heap + child
        if child + 3 < last:
            best = earliest(events, best)
        else:
            for other in range(heap + child + 1, heap + last):
                if is_before(events, other, best):
                    best = other
        if not is_before(events, best, heap + last):
            break
        events[heap + place].time = events[best].time
        events[heap + place].code = events[best].code
        place = best - heap
        child = 4 * (place - 2)
    events[heap + place].time = time
    events[heap + place].code = code
