"""Events by time, and those of one time by their code, in a calendar whose work does not grow with their number.

The calendar [1]_ is a ring of days that begins behind today. To add an event means to write it down on its day, in any
order. When its day has come, it goes into a heap of today's events, which is small, and gives them out in order. Events
behind the last day of the ring wait in another heap until their day has come.

Now and then the length of a day is set anew, such that about two events fall on each. How days are set does not change
the order of the events.

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
    FREE_NOTE,
    IN_DAYS,
    LATER,
    LATER_EVENTS,
    MOST_DAYS,
    NEW_NOTE,
    TODAY,
    TODAYS,
    TODAYS_EVENTS,
    TUNED_AT,
)

LEAST_DAYS = 16
NEVER = 1 << 60  # time of a day without events, and behind all others
TUNE_EVERY = 1024  # events
FIRST = 3  # place of the first event of a heap, counted from where the heap begins


@kernel()
def push(events: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    whole[EVENTS] += 1
    day = time >> whole[DAY_BITS]
    days_ahead = day - whole[TODAY]
    if days_ahead <= 0:
        rise(events, whole, TODAYS, TODAYS_EVENTS, time, code)
    elif days_ahead < whole[DAYS]:
        write_down(events, whole, day & (whole[DAYS] - 1), time, code)
    else:
        rise(events, whole, LATER, LATER_EVENTS, time, code)


@kernel()
def write_down(events: Any, whole: Any, day: int, time: int, code: int) -> None:
    """Write an event down on a day of the ring: on the row of the day, or else on a note that hangs on it."""
    whole[IN_DAYS] += 1
    if events[day].time == NEVER:
        events[day].time = time
        events[day].code = code
        return
    note = whole[FREE_NOTE]
    if note >= 0:
        whole[FREE_NOTE] = events[note].next
    else:
        note = whole[NEW_NOTE]
        whole[NEW_NOTE] = note + 1
    events[note].time = time
    events[note].code = code
    events[note].next = events[day].next
    events[day].next = note


@kernel()
def next_place(events: Any, whole: Any) -> int:
    """Return the place of the earliest event; there must be one."""
    while whole[TODAYS_EVENTS] == 0:
        due = later_day(events, whole)
        if whole[IN_DAYS] > 0:
            today = whole[TODAY] + 1
            mask = whole[DAYS] - 1
            while today < due and events[today & mask].time == NEVER:
                today += 1
            whole[TODAY] = today
            empty_day(events, whole, today & mask, TODAYS, TODAYS_EVENTS)
        else:
            whole[TODAY] = due
        take_due(events, whole)
    return whole[TODAYS] + FIRST


@kernel()
def later_day(events: Any, whole: Any) -> int:
    """Return the day of the first event behind the last day of the ring."""
    if whole[LATER_EVENTS] == 0:
        return NEVER
    return events[whole[LATER] + FIRST].time >> whole[DAY_BITS]


@kernel()
def take_due(events: Any, whole: Any) -> None:
    """Move what has waited behind the last day, and is due today, into the heap of today's events."""
    top = whole[LATER] + FIRST
    while later_day(events, whole) <= whole[TODAY]:
        rise(events, whole, TODAYS, TODAYS_EVENTS, events[top].time, events[top].code)
        sink(events, whole, LATER, LATER_EVENTS)


@kernel()
def empty_day(events: Any, whole: Any, day: int, heap: int, count: int) -> None:
    """Move the events of a day into a heap."""
    if events[day].time == NEVER:
        return
    rise(events, whole, heap, count, events[day].time, events[day].code)
    whole[IN_DAYS] -= 1
    events[day].time = NEVER
    note = events[day].next
    events[day].next = -1
    while note >= 0:
        rise(events, whole, heap, count, events[note].time, events[note].code)
        whole[IN_DAYS] -= 1
        following = events[note].next
        events[note].next = whole[FREE_NOTE]
        whole[FREE_NOTE] = note
        note = following


@kernel()
def remove_first(events: Any, whole: Any) -> None:
    """Take the earliest event out, whose place `next_place` has returned."""
    whole[EVENTS] -= 1
    sink(events, whole, TODAYS, TODAYS_EVENTS)


@kernel()
def tune(events: Any, whole: Any, now: int) -> None:
    """Set the length of a day to the time in which about two events come, and let the ring hold most of them.

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
    is_length_good = whole[DAY_BITS] - 1 <= bits and bits <= whole[DAY_BITS] + 1
    if is_length_good and whole[DAYS] <= 2 * days and days <= 2 * whole[DAYS]:
        return

    for day in range(whole[DAYS]):
        empty_day(events, whole, day, LATER, LATER_EVENTS)
    while whole[TODAYS_EVENTS] > 0:
        last = whole[TODAYS] + FIRST + whole[TODAYS_EVENTS] - 1
        rise(events, whole, LATER, LATER_EVENTS, events[last].time, events[last].code)
        whole[TODAYS_EVENTS] -= 1
    for day in range(days):
        events[day].time = NEVER
        events[day].next = -1
    whole[DAYS] = days
    whole[DAY_BITS] = bits
    whole[TODAY] = now >> bits
    take_due(events, whole)


# A heap ---------------------------------------------------------------------------------------------------------------

# There are two, of today's events and of later ones: ``heap`` and ``count`` are the places in ``whole`` of where a heap
# begins and of how many events it has. Each place has four children, so a heap of 10,000 events is seven places deep
# where one of two children is thirteen. Counted from where the heap begins, the first event lies at `FIRST`, the
# children of place p from 4 (p - 2) on.


@kernel()
def rise(events: Any, whole: Any, heap: int, count: int, time: int, code: int) -> None:
    """Put an event at the end of a heap, and let it rise."""
    begin = whole[heap]
    place = FIRST + whole[count]
    whole[count] += 1
    while place > FIRST:
        parent = (place >> 2) + 2
        at = events[begin + parent].time
        if at < time or (at == time and events[begin + parent].code <= code):
            break
        events[begin + place].time = at
        events[begin + place].code = events[begin + parent].code
        place = parent
    events[begin + place].time = time
    events[begin + place].code = code


@kernel()
def sink(events: Any, whole: Any, heap: int, count: int) -> None:
    """Take the first event out of a heap: the last one goes into its place, and sinks."""
    begin = whole[heap]
    whole[count] -= 1
    last = FIRST + whole[count]
    place = FIRST
    child = 4
    while child < last:
        best = begin + child
        if child + 3 < last:
            best = earliest(events, best)
        else:
            for other in range(begin + child + 1, begin + last):
                if is_before(events, other, best):
                    best = other
        if not is_before(events, best, begin + last):
            break
        events[begin + place].time = events[best].time
        events[begin + place].code = events[best].code
        place = best - begin
        child = 4 * (place - 2)
    events[begin + place].time = events[begin + last].time
    events[begin + place].code = events[begin + last].code


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
