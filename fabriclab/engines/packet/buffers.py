"""Buffers of a switch: what comes in is admitted, counted and, where that is promised, never lost.

Three regimes, one for each ingress (a link and a class). *Lossy*: a packet is dropped or trimmed if its queue would
hold more than a share of the free buffer. *Pausing* (PFC, IEEE 802.1Qbb): an ingress that holds more than its threshold
tells its sender to stop, and what comes until that works goes into its headroom. *Credits* (InfiniBand): a sender sends
no more than what its receiver has room for.

The memory of a pausing ingress has three parts, filled in this order: its reserve, a share of the buffer up to the
threshold (fixed, or a share of what is free), and its headroom; it is emptied the other way round. The order, the
threshold and the conditions to pause and to resume are those of the simulator of the HPCC authors [1]_. That one counts
a packet when it has come in full, and puts all of it into one part. Here bytes count when they come, as the cells of a
real memory do: the first byte beyond the threshold pauses the sender, and only what lies beyond goes into the headroom.
A pause holds until it is taken back, as if it were renewed before its time is up.

References
----------
.. [1] Y. Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019; simulator at
   github.com/alibaba-edu/High-Precision-Congestion-Control, ``switch-mmu.cc``.
"""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.events import push
from fabriclab.engines.packet.state import (
    CLASSES,
    CREDIT,
    CREDITS,
    DROP_SHARE,
    GAP,
    KIND,
    LOSSY,
    NOTICES,
    PAUSE,
    PAUSE_SHARE,
    PAUSE_SIZE,
    PAUSING,
    RESERVE,
    RESPONSE,
    RESUME,
    SUBJECT,
    XOFF,
    XON_GAP,
)


@kernel()
def threshold(nodes: Any, whole: Any, real: Any, node: int) -> int:
    """Return how many shared bytes an ingress of a switch may hold before it pauses its sender. [B]."""
    if whole[XOFF] >= 0:
        return whole[XOFF]
    free = nodes[node].buffer - nodes[node].used
    return int(real[PAUSE_SHARE] * free)


@kernel()
def shared_room(queues: Any, nodes: Any, whole: Any, real: Any, node: int, ingress: int) -> int:
    """Return how many more shared bytes an ingress may take until it reaches its threshold. [B].

    Each byte that it takes lowers a threshold that is a share of the free buffer: x more bytes reach it when
    shared + x = share (free - x).
    """
    free = nodes[node].buffer - nodes[node].used
    shared = queues[ingress].shared
    if whole[XOFF] >= 0:
        room = whole[XOFF] - shared
    else:
        share = real[PAUSE_SHARE]
        room = int((share * free - shared) / (1.0 + share))
    return max(0, min(room, free))


@kernel()
def beyond_reserve(queues: Any, whole: Any, ingress: int, size: int) -> int:
    """Return how many of ``size`` bytes do not fit into the reserve of an ingress. [B]."""
    own = queues[ingress].stored - queues[ingress].spare
    left = max(0, whole[RESERVE] - own)
    return max(0, size - left)


@kernel()
def fits(
    queues: Any, nodes: Any, whole: Any, real: Any, node: int, ingress: int, queue: int, size: int
) -> bool:
    """Return whether a switch has room for a packet that came over ``ingress`` and waits for ``queue``."""
    mode = queues[ingress].mode
    if mode == CREDITS:
        return True
    if mode == LOSSY:
        free = nodes[node].buffer - nodes[node].used
        return size <= free and queues[queue].bytes + size <= int(real[DROP_SHARE] * free)
    beyond = beyond_reserve(queues, whole, ingress, size)
    into_headroom = beyond - shared_room(queues, nodes, whole, real, node, ingress)
    return into_headroom <= 0 or into_headroom <= queues[ingress].headroom - queues[ingress].spare


@kernel()
def store(
    events: Any,
    links: Any,
    queues: Any,
    nodes: Any,
    whole: Any,
    real: Any,
    now: int,
    node: int,
    ingress: int,
    size: int,
    end: int,
) -> None:
    """Count a packet that came over ``ingress`` (its last byte at ``end``), and pause its sender if that is due."""
    mode = queues[ingress].mode
    if mode == LOSSY:
        nodes[node].used += size
        queues[ingress].shared += size
    if mode != PAUSING:
        queues[ingress].stored += size
        return
    beyond = beyond_reserve(queues, whole, ingress, size)
    room = shared_room(queues, nodes, whole, real, node, ingress)
    queues[ingress].stored += size
    in_shared = min(beyond, room)
    queues[ingress].shared += in_shared
    nodes[node].used += in_shared
    queues[ingress].spare += beyond - in_shared
    if beyond > 0 and beyond >= room and queues[ingress].pausing == 0:
        queues[ingress].pausing = 1
        link = ingress // whole[CLASSES]
        after = ((beyond - in_shared + whole[GAP]) * links[link].cost) >> 16
        tell(events, links, queues, whole, now, end - after, ingress, PAUSE)


@kernel()
def refuse(events: Any, links: Any, queues: Any, whole: Any, now: int, ingress: int) -> None:
    """Pause the sender of a packet for which there was no room, unless it has stopped already or nothing waits here.

    A sender whose watchdog has ended its pause is paused anew, as the next renewal of the pause would do it.
    """
    if queues[ingress].mode != PAUSING or queues[ingress].stored == 0:
        return
    if queues[ingress].paused == 0:
        queues[ingress].pausing = 1
        tell(events, links, queues, whole, now, now, ingress, PAUSE)


@kernel()
def release(
    events: Any,
    links: Any,
    queues: Any,
    nodes: Any,
    whole: Any,
    real: Any,
    now: int,
    node: int,
    ingress: int,
    size: int,
) -> None:
    """Take a packet out of the buffer: headroom first, then what is shared; let the sender go on if there is room."""
    mode = queues[ingress].mode
    queues[ingress].stored -= size
    if mode == CREDITS:
        back = links[(ingress // whole[CLASSES]) ^ 1].delay
        push(events, whole, now + back, (CREDIT << KIND) | (ingress << SUBJECT) | size)
        return
    if mode == LOSSY:
        queues[ingress].shared -= size
        nodes[node].used -= size
        return
    from_spare = min(size, queues[ingress].spare)
    queues[ingress].spare -= from_spare
    from_shared = min(size - from_spare, queues[ingress].shared)
    queues[ingress].shared -= from_shared
    nodes[node].used -= from_shared
    if queues[ingress].pausing == 1 and queues[ingress].spare == 0:
        limit = threshold(nodes, whole, real, node)
        shared = queues[ingress].shared
        if shared == 0 or shared + whole[XON_GAP] <= limit:
            queues[ingress].pausing = 0
            tell(events, links, queues, whole, now, now, ingress, RESUME)


@kernel()
def tell(
    events: Any,
    links: Any,
    queues: Any,
    whole: Any,
    now: int,
    due: int,
    ingress: int,
    kind: int,
) -> None:
    """Send a pause or the end of a pause back over the cable; it waits for the frame that is being sent there.

    A pause is ``due`` when the byte came that reached the threshold, which may be up to a packet before ``now``; a
    frame that began after that would have waited for the pause. A pause takes effect after the sender's response time,
    its end at once. Notices are numbered, so that an older one never undoes a newer one.
    """
    back = (ingress // whole[CLASSES]) ^ 1
    begin = due
    if links[back].began > due:
        begin = links[back].began
    elif links[back].busy > due:
        begin = links[back].busy
    duration = ((whole[PAUSE_SIZE] + whole[GAP]) * links[back].cost) >> 16
    arrives = begin + duration + links[back].delay
    if kind == PAUSE:
        arrives += whole[RESPONSE]
    number = queues[ingress].told % NOTICES + 1
    queues[ingress].told = number
    push(events, whole, max(now, arrives), (kind << KIND) | (ingress << SUBJECT) | number)


@kernel()
def is_void(queues: Any, queue: int, number: int) -> bool:
    """Return whether a notice is older than the last one that the sender obeyed, and remember it if not."""
    if number == 0:
        return False
    behind = (queues[queue].heard - number) % NOTICES
    if queues[queue].heard > 0 and 0 < behind < NOTICES // 2:
        return True
    queues[queue].heard = number
    return False
