"""What the packet engine keeps between two events: a table of links, one of queues, and so on.

Each table is a structured array when compiled, and objects by their number in plain Python; ``links[3].busy`` reads
both.

Times are whole picoseconds, sizes whole bytes. A *class* is a priority of Ethernet or a virtual lane of InfiniBand;
class 0 goes first. Link l has a *queue* for each of the V classes, number ``l * V + class``: its packets wait at the
source of the link. The same number counts what came over that link in that class and is stored at its target (the
*ingress*).
A *connection* is what has windows and numbered packets: a row of a flow, or the flow with all its rows if a balancer
chooses among them. A *slot* holds a packet while it travels, and then its acknowledgement.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np

# A whole number below 2^31. It takes half of the memory, so that more of a table fits the caches of a processor: what
# a packet-hop costs in a large network is mostly waiting for memory.
Small = Annotated[int, np.int32]
Tiny = Annotated[int, np.int16]  # a flag or a mode

# Kinds of events. The code of an event is kind << 52, plus subject << 20, plus a size for those that have one. [B]
PAUSE = 0  # a queue must stop: first of all, so that nothing begins at the time at which it works
ARRIVE = 1  # the next packet on a link reaches the other end
FREE = 2  # a link has sent its packet, and others wait
FEEDBACK = 3  # an acknowledgement reaches the sender
SEND = 4  # a paced connection may send
START = 5  # a flow starts
END = 6  # a flow without packets ends
RETRY = 7  # a connection may have waited too long for an acknowledgement
RESUME = 8  # a queue may go on
CREDIT = 9  # room for some bytes has come back to a queue
DRAIN = 10  # a slow receiver has taken some bytes out of its buffer
WATCH = 11  # a watchdog looks whether a queue is still paused
CHANGE = 12  # a link gets another rate
GRANT = 13  # a receiver allows one of its senders to go on

KIND = 52
SUBJECT = 20
SIZE_MASK = (1 << SUBJECT) - 1
SUBJECT_MASK = (1 << (KIND - SUBJECT)) - 1

# Notices of a queue are numbered 1..NOTICES and from 1 again; an event of number 0 is no notice, and always obeyed.
NOTICES = SIZE_MASK

# Flags of a packet.
MARKED = 1  # a switch has set the congestion bit
TRIMMED = 2  # a switch has cut the payload off
NACK = 4  # on an acknowledgement: something is missing

# States of a packet at its sender; 0 until it is sent.
FLYING = 1
ACKED = 2
LOST = 3

# States of a connection.
WAITING = 0
ACTIVE = 1
DONE = 2
FAILED = 3

# How what comes over a link is kept from overflowing the buffer behind it.
LOSSY = 0
PAUSING = 1
CREDITS = 2

# Kinds of recovery.
GO_BACK_N = 0
SELECTIVE = 1

# Why the loop returned.
IDLE = 0  # no event is left
ROOM = 1  # more slots are needed
LATER = 2  # the next event is beyond the time limit
PAUSED = 3  # the number of events is reached


# The fields of a table lie in memory in the order of its class. A processor fetches 64 bytes at once, and what a
# packet-hop costs in a large network is mostly waiting for that: what is needed together stands together, and the
# comments below say where 64 bytes end.


@dataclass(slots=True)
class Link:
    """A directed link, and what travels on it."""

    cost: int  # picoseconds per byte, times 2^16; 0 while the link is down
    delay: int
    began: int  # when the link began to send its last packet
    busy: int  # until when the link sends
    loss: int  # chance that a packet is lost, times 2^32
    sent: int  # bytes sent so far
    target: Small
    wakes: Small  # 1 while a FREE event is on its way
    first: Small  # slot of the packet that arrives next, -1 for none
    last: Small


@dataclass(slots=True)
class Queue:
    """A queue, and what came over its link in its class and is stored behind it."""

    # What each packet needs that comes or goes.
    bytes: int  # that wait before the link
    peak: int
    stored: int  # bytes that came over the link and are stored behind it
    shared: int  # how many of them count against the shared buffer
    spare: int  # how many of them lie in the headroom
    first: Small  # slot, -1 for none
    last: Small
    ring_first: Small  # connections that want to send here, -1 for none
    ring_last: Small
    mode: Tiny  # LOSSY, PAUSING or CREDITS
    paused: Tiny  # 1 while the queue must stop
    pausing: Tiny  # 1 if the sender of what is stored was told to stop; 64 bytes

    # What marks, credits and headrooms need.
    mark_from: int  # Kmin
    mark_all: int  # Kmax, -1 if the queue does not mark
    credit: int  # bytes that the buffer behind the link has room for, if the mode is CREDITS
    headroom: int  # size of the headroom
    paused_since: int
    paused_time: int
    marks: Small
    drops: Small  # packets refused by this queue or by the buffer before it
    lost: Small  # packets lost on the link
    pauses: Small  # how often it was told to stop; 64 bytes

    told: Small  # number of the last notice to the sender, 1..NOTICES
    heard: Small  # number of the last notice that the sender obeyed
    fair_first: Small  # route entries with packets before the link, served in turn, -1 for none
    fair_last: Small


@dataclass(slots=True)
class Node:
    """A node."""

    buffer: int  # bytes that its packets may share
    used: int
    drain: int  # cost at which a receiver takes bytes in, times 2^16; 0 if at once
    drained: int  # when it will have taken all
    grant_first: int  # connections that wait for a grant, -1 for none
    grant_last: int
    grants: int  # 1 while a GRANT event is on its way
    grant_cost: int  # picoseconds per granted byte, times 2^16


@dataclass(slots=True)
class Row:
    """A path: the entries ``first..end - 1``."""

    first: Small
    end: Small
    back: int  # time of an acknowledgement on its way back


@dataclass(slots=True)
class Entry:
    """A link of a path."""

    link: Small
    is_last: Small  # 1 for the last link of its path
    through: (
        Small  # 1 if a packet is forwarded behind the link before its end has come (cut-through)
    )
    same_from: Small  # rows that share the links before this one: same_from..same_to - 1
    same_to: Small
    fair_first: Small  # packets of this entry that wait, in a queue that serves entries in turn
    fair_last: Small
    fair_next: Small


@dataclass(slots=True)
class Flow:
    """A flow."""

    start: int  # earliest
    lag: int
    waits: int  # dependencies that have not ended
    ready: int  # when the last of them ended
    began: int
    finish: int  # -1 until then
    open: int  # connections that have not ended
    conn_from: int  # its connections: conn_from..conn_to - 1
    conn_to: int
    user_from: int  # the flows that wait for it: users[user_from..user_to - 1]
    user_to: int


@dataclass(slots=True)
class Connection:
    """A connection."""

    # What its sender needs for each packet.
    next_time: int  # pacing: not before
    sent_last: int  # time of the packet before, -1 for none
    flying: int  # payload bytes on their way (selective recovery)
    state: Small
    packets: Small
    last_size: Small  # of the last packet, payload
    next: Small  # packet that is sent next, unless one is to be sent again
    sent_to: Small  # all packets below have been sent
    acked: Small  # all packets below are acknowledged
    lost: Small  # packets to send again
    paced: Small  # 1 if its flow has a limit below the rate of its port
    sent_size: Small  # bytes on the wire of the packet before
    timer: Small  # 1 while a SEND event is on its way; 64 bytes

    # Its port, its path and its time-out.
    deadline: int
    base: int  # number of its first packet among all
    port: Small  # first link
    cls: Small
    queued: Small  # 1 while it stands in the ring of its port
    ring_next: Small
    row_from: Small
    row_to: Small
    row: Small  # taken last
    scan: Small  # no packet below is to be sent again
    retry: Small  # 1 while a RETRY event is on its way
    retries: Small
    resent: Small
    flow: Small  # 64 bytes

    # What its receiver needs.
    marked_at: int  # when it last passed a mark on
    granted: int  # bytes that the receiver still allows
    to_grant: int  # bytes that are not granted yet
    expected: Small  # all packets below have come
    received: Small  # packets that have come
    complained: Small  # 1 after a NACK until the missing packet comes
    owes_mark: Small  # 1 if a mark has come since
    marked: Small  # packets that came with a mark
    wanting: Small  # 1 while it stands in the ring of its receiver
    grant_next: Small
    dropped: Small


@dataclass(slots=True)
class Packet:
    """A packet of a connection, whether it has been sent or not; go-back-N needs none of these."""

    status: Small
    came: Small
    sent: int  # when it was sent last


@dataclass(slots=True)
class Slot:
    """A packet or an acknowledgement on its way."""

    next: Small
    conn: Small
    seq: Small
    entry: Small  # where in the routes
    row: Small
    size: Small  # on the wire
    flags: Small
    cls: Small
    time: int  # when it arrives
    end: int  # when its last byte has arrived
    sent: int
    ingress: Small  # the queue over which it came, -1 at its source
    ack: Small  # of an acknowledgement: all packets below have come


@dataclass(slots=True)
class Report:
    """What a switch writes into a packet (slot and hop)."""

    queue: int
    sent: int
    time: int


@dataclass(slots=True)
class Heard:
    """What came back last (connection and hop)."""

    link: int  # that the report is about; -1 for none
    queue: int
    sent: int
    time: int


@dataclass(slots=True)
class Event:
    """An event to come; see `fabriclab.engines.packet.events`."""

    time: int
    code: int
    next: int  # another one on the same day, -1 for none


@dataclass(slots=True)
class Change:
    """A change of the rate of a link."""

    link: int
    cost: int


@dataclass(slots=True)
class QueueSample:
    """A watched queue at one time."""

    bytes: int
    paused: int
    sent: int
    marks: int  # packets marked so far
    drops: int  # packets refused so far
    paused_time: int  # time that the queue was paused so far


@dataclass(slots=True)
class ConnectionSample:
    """A watched connection at one time."""

    received: int
    rate: float
    window: float


@dataclass(slots=True)
class Line:
    """A line of the log of single packets."""

    time: int
    kind: int
    slot: int
    conn: int
    seq: int
    link: int


_LINE = 64  # bytes that a processor fetches at once


def dtype_of(kind: Any) -> np.dtype[Any]:
    """Return the type of a structured array whose rows are of one of the classes above.

    The fields lie in the order of the class, as in a structure of C. No row crosses a boundary of what a processor
    fetches at once unless it must.
    """
    types: dict[Any, Any] = {int: np.int64, float: np.float64, Small: np.int32, Tiny: np.int16}
    columns = [(field.name, types[field.type]) for field in fields(kind)]
    packed = np.dtype(columns, align=True)
    assert packed.names is not None and packed.fields is not None
    step = 8
    while step < min(packed.itemsize, _LINE):
        step *= 2
    return np.dtype(
        {
            "names": list(packed.names),
            "formats": [packed.fields[name][0] for name in packed.names],
            "offsets": [packed.fields[name][1] for name in packed.names],
            "itemsize": -(-packed.itemsize // step) * step,
        }
    )


def table(kind: Any, n: int, **columns: Any) -> np.ndarray[Any, Any]:
    """Return a table of ``n`` rows; columns that are not given are 0."""
    rows = _zeros(dtype_of(kind), n)
    for name, values in columns.items():
        rows[name] = values
    return rows


def joined(before: np.ndarray[Any, Any], more: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a table with the rows of two; NumPy's concatenate would lay out its fields anew."""
    rows = _zeros(before.dtype, before.size + more.size)
    rows[: before.size] = before
    rows[before.size :] = more
    return rows


def _zeros(dtype: np.dtype[Any], n: int) -> np.ndarray[Any, Any]:
    """Return ``n`` rows of zeros, the first of which begins where a processor fetches."""
    room = np.zeros(n * dtype.itemsize + _LINE, dtype=np.uint8)
    first = -room.ctypes.data % _LINE
    return room[first : first + n * dtype.itemsize].view(dtype)


# Places in the array of whole numbers.
EVENTS = 0  # events to come
FREE_SLOT = 1  # first of the slots that were given back, -1 for none
FREE_SLOTS = 2  # how many there are, those that were never used included
RANDOM = 3
CLASSES = 4
PAYLOAD = 5  # of a full packet
HEADER = 6  # stored and sent with each packet
GAP = 7  # sent with each packet, not stored
RECOVERY = 8
ACK_EVERY = 9
MARK_GAP = 10  # a receiver passes a mark on at most once in this time; 0: every mark
TIMEOUT = 11  # illustrative: a place, not a time
RETRIES = 12
REORDER = 13  # a packet counts as lost if one sent so much later has come; -1: never
TRIM = 14  # 1: a packet that does not fit is cut
RESERVE = 15  # bytes of each ingress that never count as shared
XOFF = 16  # fixed, or -1: a share of the free buffer
XON_GAP = 17
RESPONSE = 18  # time of a sender to obey a pause
PAUSE_SIZE = 19
WATCHDOG = 20  # 0: none
FAIR = 21  # 1: a queue serves its route entries in turn
IN_SWITCH = 22  # 1: switches choose paths
TELEMETRY = 23  # hops that fit, 0: none
RECEIVER = 24  # 1: receivers grant
QUANTUM = 25  # bytes of a grant
UNTIL = 26
OPEN_FLOWS = 27
NOW = 28
HOPS = 29  # packets sent on links
DELIVERED = 30
SAMPLE_GAP = 31  # 0: nothing is recorded
SAMPLES = 32  # taken
SAMPLE_ROOM = 33
LOGGED = 34
LOG_ROOM = 35
FIRST_WINDOW = 36  # bytes that may be sent before the first grant
HANDLED = 37  # events so far
TRIM_SIZE = 38
NEW_SLOT = 39  # first of the slots that were never used
TODAY = 40  # of the calendar of events: number of the day that has begun
DAY_BITS = 41  # a day is 2^DAY_BITS picoseconds long
DAYS = 42  # of the ring: a power of two, or 0 at the beginning
IN_DAYS = 43  # events on the days of the ring
TODAYS_NOTE = 44  # first of today's notes, in order, -1 for none
FREE_NOTE = 45  # first of the notes that were given back, -1 for none
NEW_NOTE = 46  # first of the notes that were never used
URGENT = 47  # where the heap of the events begins that came up today for today
URGENT_EVENTS = 48
FAR = 49  # where the heap of the events behind the last day begins
FAR_EVENTS = 50
EVENT_ROOM = 51  # for how many events there is room
TUNED_AT = 52  # when the length of a day was looked at last
TUNED_AFTER = 53  # how many events had been handled then
TUNE_AT = 54  # after how many events it is looked at again
RUNS = 55  # of a day that is being sorted: first notes, for each power of two of runs, -1 for none
FIRST_DAY = (
    RUNS + 32
)  # first note of each day of the ring, -1 for none; a day has less than 2^32 events
MOST_DAYS = 16384  # illustrative: 128 KiB, of which the caches of a processor hold what is used
N_WHOLE = FIRST_DAY + MOST_DAYS

# Places in the array of real numbers.
MARK_MAX = 0  # Pmax, -1 where no queue marks
PAUSE_SHARE = 1  # alpha of the dynamic threshold of an ingress
DROP_SHARE = 2  # alpha of the dynamic threshold of a queue
N_REAL = 3

# What a control loop keeps of each connection. It writes the first two, which the engine reads; the engine writes the
# next ones; the others are its own.
WINDOW = 0  # bytes that may be on their way
# illustrative: a place, not a rate
RATE = 1  # bytes per second at which packets leave
LINE = 2  # rate of the port [B/s]
ROUND_TRIP = 3  # of an empty path [ps]
N_HOPS = 4
SENT = 5  # payload sent so far, repeated packets included [B]
OWN = 6  # from here on, its own
WIDTH = 24
