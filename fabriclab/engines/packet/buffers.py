"""Buffers of a switch: what comes in is admitted, counted and, where that is promised, never lost.

Three regimes, one for each ingress (a link and a class). *Lossy*: a packet is dropped or trimmed if its queue would
hold more than a share of the free buffer. *Pausing* (PFC, IEEE 802.1Qbb): an ingress that holds more than its threshold
tells its sender to stop, and what comes until that works goes into its headroom; the threshold is fixed, or a share of
the free buffer. *Credits* (InfiniBand): a sender sends no more than what its receiver has room for.
"""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.heap import push
from fabriclab.engines.packet.state import (
    CLASSES,
    CREDIT,
    CREDITS,
    DROP_SHARE,
    GAP,
    KIND,
    LOSSY,
    PAUSE,
    PAUSE_SHARE,
    PAUSE_SIZE,
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
def fits(
    queues: Any, nodes: Any, whole: Any, real: Any, node: int, ingress: int, queue: int, size: int
) -> bool:
    """Return whether a switch has room for a packet that came over ``ingress`` and waits for ``queue``."""
    mode = queues[ingress].mode
    if mode == CREDITS:
        return True
    free = nodes[node].buffer - nodes[node].used
    if mode == LOSSY:
        return size <= free and queues[queue].bytes + size <= int(real[DROP_SHARE] * free)
    beyond = queues[ingress].stored + size - whole[RESERVE]
    if beyond <= 0:
        return True
    if queues[ingress].spare + size <= queues[ingress].headroom:
        return True
    shared = queues[ingress].shared + size
    return size <= free and shared <= threshold(nodes, whole, real, node)


@kernel()
def store(
    heap: Any,
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
    """Count a packet that came over ``ingress``, and pause its sender if that is due."""
    mode = queues[ingress].mode
    queues[ingress].stored += size
    if mode == CREDITS:
        return
    if mode == LOSSY:
        nodes[node].used += size
        queues[ingress].shared += size
        return
    limit = threshold(nodes, whole, real, node)
    beyond = queues[ingress].stored - whole[RESERVE]
    if beyond > 0:
        part = min(size, beyond)
        in_headroom = queues[ingress].pausing == 1 or queues[ingress].shared + part > limit
        if in_headroom and queues[ingress].spare + size <= queues[ingress].headroom:
            queues[ingress].spare += size
        else:
            queues[ingress].shared += part
            nodes[node].used += part
    is_over = queues[ingress].spare > 0 or queues[ingress].shared >= limit
    if is_over and beyond > 0 and queues[ingress].pausing == 0:
        queues[ingress].pausing = 1
        tell(heap, links, whole, now, ingress, PAUSE)


@kernel()
def release(
    heap: Any,
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
        push(heap, whole, now + back, (CREDIT << KIND) | (ingress << SUBJECT) | size)
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
            tell(heap, links, whole, now, ingress, RESUME)


@kernel()
def tell(heap: Any, links: Any, whole: Any, now: int, ingress: int, kind: int) -> None:
    """Send a pause or the end of a pause back over the cable; it waits for the frame that is being sent there.

    A pause takes effect after the sender's response time; the end of a pause at once, when it arrives.
    """
    back = (ingress // whole[CLASSES]) ^ 1
    begin = max(now, links[back].busy)
    duration = ((whole[PAUSE_SIZE] + whole[GAP]) * links[back].cost) >> 16
    arrives = begin + duration + links[back].delay
    if kind == PAUSE:
        arrives += whole[RESPONSE]
    push(heap, whole, arrives, (kind << KIND) | (ingress << SUBJECT))
