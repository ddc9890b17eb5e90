"""Events by time, and those of one time by their code, in a calendar whose work does not grow with their number.

The calendar [1]_ is a ring of days that begins behind today. To add an event means to write a note and to hang it on
its day, before those that hang there. When its day has come, its notes are sorted and given out one by one. What comes
up today for today waits in a small heap, and events behind the last day of the ring in another one until their day has
come.

Hosts that do the same at the same time, as those of a collective, have hundreds of events at one time, and these are
added nearly in the order in which they are due. So a day is sorted by merging the runs that are in order already: a day
in order costs one look at each of its events, any other one as many as the logarithm of its number of runs. A heap
would cost the logarithm of the number of events, in order or not.

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
    FAR,
    FAR_EVENTS,
    FIRST_DAY,
    FREE_NOTE,
    HANDLED,
    IN_DAYS,
    MOST_DAYS,
    NEW_NOTE,
    RUNS,
    TODAY,
    TODAYS_NOTE,
    TUNE_AT,
    TUNED_AFTER,
    TUNED_AT,
    URGENT,
    URGENT_EVENTS,
)

LEAST_DAYS = 16
NEVER = 1 << 60  # behind all days
TUNE_EVERY = 1024  # events, at least
FIRST = 3  # place of the first event of a heap, counted from where the heap begins


@kernel()
def push(events: Any, whole: Any, time: int, code: int) -> None:
    """Add an event."""
    whole[EVENTS] += 1
    day = time >> whole[DAY_BITS]
    days_ahead = day - whole[TODAY]
    if days_ahead <= 0:
        rise(events, whole, URGENT, URGENT_EVENTS, time, code)
    elif days_ahead < whole[DAYS]:
        write_down(events, whole, FIRST_DAY + (day & (whole[DAYS] - 1)), time, code)
    else:
        rise(events, whole, FAR, FAR_EVENTS, time, code)


@kernel()
def write_down(events: Any, whole: Any, day: int, time: int, code: int) -> None:
    """Hang an event on a day of the ring; ``day`` is its place in ``whole``."""
    note = whole[FREE_NOTE]
    if note >= 0:
        whole[FREE_NOTE] = events[note].next
    else:
        note = whole[NEW_NOTE]
        whole[NEW_NOTE] = note + 1
    events[note].time = time
    events[note].code = code
    events[note].next = whole[day]
    whole[day] = note
    whole[IN_DAYS] += 1


@kernel()
def next_place(events: Any, whole: Any) -> int:
    """Return the place of the earliest event; there must be one."""
    while whole[URGENT_EVENTS] == 0 and whole[TODAYS_NOTE] < 0:
        due = far_day(events, whole)
        if whole[IN_DAYS] > 0:
            today = whole[TODAY] + 1
            mask = whole[DAYS] - 1
            while today < due and whole[FIRST_DAY + (today & mask)] < 0:
                today += 1
            whole[TODAY] = today
            day = FIRST_DAY + (today & mask)
            whole[TODAYS_NOTE] = in_order(events, whole, whole[day])
            whole[day] = -1
        else:
            whole[TODAY] = due
        take_due(events, whole)
    note = whole[TODAYS_NOTE]
    urgent = whole[URGENT] + FIRST
    if note >= 0 and (whole[URGENT_EVENTS] == 0 or is_before(events, note, urgent)):
        return note
    return urgent


@kernel()
def remove_first(events: Any, whole: Any, place: int) -> None:
    """Take the earliest event out, whose place `next_place` has returned."""
    whole[EVENTS] -= 1
    if place == whole[TODAYS_NOTE]:
        whole[TODAYS_NOTE] = events[place].next
        give_back(events, whole, place)
    else:
        sink(events, whole, URGENT, URGENT_EVENTS)


@kernel()
def give_back(events: Any, whole: Any, note: int) -> None:
    """Give back a note that hangs on no day any more."""
    events[note].next = whole[FREE_NOTE]
    whole[FREE_NOTE] = note


@kernel()
def far_day(events: Any, whole: Any) -> int:
    """Return the day of the first event behind the last day of the ring."""
    if whole[FAR_EVENTS] == 0:
        return NEVER
    return events[whole[FAR] + FIRST].time >> whole[DAY_BITS]


@kernel()
def take_due(events: Any, whole: Any) -> None:
    """Move what has waited behind the last day, and is due today, into the heap of what is urgent."""
    top = whole[FAR] + FIRST
    while far_day(events, whole) <= whole[TODAY]:
        rise(events, whole, URGENT, URGENT_EVENTS, events[top].time, events[top].code)
        sink(events, whole, FAR, FAR_EVENTS)


@kernel()
def in_order(events: Any, whole: Any, note: int) -> int:
    """Sort the notes from one on, the last ones first, and return the first of the sorted ones.

    Where ``whole[RUNS + i]`` has notes, they are those of 2^i runs, merged.
    """
    most = 0
    while note >= 0:
        run = note
        note = events[note].next
        events[run].next = -1
        whole[IN_DAYS] -= 1
        while note >= 0 and is_before(events, note, run):
            following = events[note].next
            events[note].next = run
            run = note
            note = following
            whole[IN_DAYS] -= 1
        if most == 0 and note < 0:
            return run
        i = 0
        while i < most and whole[RUNS + i] >= 0:
            run = merged(events, whole[RUNS + i], run)
            whole[RUNS + i] = -1
            i += 1
        whole[RUNS + i] = run
        most = max(most, i + 1)
    run = -1
    for i in range(most):
        if whole[RUNS + i] >= 0:
            run = merged(events, whole[RUNS + i], run)
            whole[RUNS + i] = -1
    return run


@kernel()
def merged(events: Any, one: int, other: int) -> int:
    """Return the first of the notes of two sorted runs, merged; the second run may be empty."""
    if other < 0:
        return one
    if is_before(events, other, one):
        one, other = other, one
    first = one
    while other >= 0:
        # All of the one run that comes before the first of the other one stays as it is.
        last = one
        one = events[one].next
        while one >= 0 and is_before(events, one, other):
            last = one
            one = events[one].next
        events[last].next = other
        one, other = other, one
    return first


@kernel()
def tune(events: Any, whole: Any, now: int) -> None:
    """Set the length of a day to the time in which about two events come, and let the ring hold most of them.

    It looks at as many events as wait twice over: where thousands come at one time, fewer would say that nothing or
    everything lies between two of them. It changes nothing unless it must by a factor of more than two.
    """
    passed = now - whole[TUNED_AT]
    handled = whole[HANDLED] - whole[TUNED_AFTER]
    if passed == 0:
        whole[TUNE_AT] = whole[HANDLED] + TUNE_EVERY
        return
    whole[TUNED_AT] = now
    whole[TUNED_AFTER] = whole[HANDLED]
    whole[TUNE_AT] = whole[HANDLED] + max(TUNE_EVERY, 2 * whole[EVENTS])
    bits = 0
    while (handled << (bits + 1)) <= 3 * passed:
        bits += 1
    days = LEAST_DAYS
    while days < 2 * whole[EVENTS] and days < MOST_DAYS:
        days *= 2
    is_length_good = whole[DAY_BITS] - 1 <= bits and bits <= whole[DAY_BITS] + 1
    if is_length_good and whole[DAYS] <= 2 * days and days <= 2 * whole[DAYS]:
        return

    # All events leave their places, and are added anew.
    loose = whole[TODAYS_NOTE]
    whole[TODAYS_NOTE] = -1
    for day in range(FIRST_DAY, FIRST_DAY + whole[DAYS]):
        while whole[day] >= 0:
            note = whole[day]
            whole[day] = events[note].next
            events[note].next = loose
            loose = note
            whole[IN_DAYS] -= 1
    for day in range(FIRST_DAY, FIRST_DAY + days):
        whole[day] = -1
    while whole[URGENT_EVENTS] > 0:
        last = whole[URGENT] + FIRST + whole[URGENT_EVENTS] - 1
        rise(events, whole, FAR, FAR_EVENTS, events[last].time, events[last].code)
        whole[URGENT_EVENTS] -= 1
    whole[DAYS] = days
    whole[DAY_BITS] = bits
    whole[TODAY] = now >> bits
    while loose >= 0:
        note = loose
        loose = events[note].next
        give_back(events, whole, note)
        whole[EVENTS] -= 1
        push(events, whole, events[note].time, events[note].code)
    take_due(events, whole)


# A heap ---------------------------------------------------------------------------------------------------------------

# There are two, of what is urgent and of what is far: ``heap`` and ``count`` are the places in ``whole`` of where a
# heap begins and of how many events it has. Each place has four children, so a heap of 10,000 events is seven places
# deep where one of two children is thirteen. Counted from where the heap begins, the first event lies at `FIRST`, the
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
