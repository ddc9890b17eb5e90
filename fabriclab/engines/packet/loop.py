"""The events of the packet engine: packets are sent, arrive, wait, are marked or lost, and are acknowledged."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.buffers import fits, is_void, refuse, release, store
from fabriclab.engines.packet.chance import ONE, draw
from fabriclab.engines.packet.events import next_place, push, remove_first, tune
from fabriclab.engines.packet.state import (
    ACK_EVERY,
    ACKED,
    ACTIVE,
    ARRIVE,
    CHANGE,
    CLASSES,
    CREDIT,
    CREDITS,
    DELIVERED,
    DONE,
    DRAIN,
    END,
    EVENT_ROOM,
    EVENTS,
    FAILED,
    FAIR,
    FEEDBACK,
    FIRST_WINDOW,
    FLYING,
    FREE,
    FREE_SLOT,
    FREE_SLOTS,
    GAP,
    GO_BACK_N,
    GRANT,
    HANDLED,
    HEADER,
    HOPS,
    IDLE,
    IN_SWITCH,
    KIND,
    LATER,
    LINE,
    LOG_ROOM,
    LOGGED,
    LOST,
    MARK_GAP,
    MARK_MAX,
    MARKED,
    NACK,
    NEW_SLOT,
    NOW,
    OPEN_FLOWS,
    PAUSE,
    PAUSED,
    PAYLOAD,
    QUANTUM,
    RATE,
    RECEIVER,
    RECOVERY,
    REORDER,
    RESUME,
    RETRIES,
    RETRY,
    ROOM,
    ROUND_TRIP,
    SAMPLE_GAP,
    SAMPLE_ROOM,
    SAMPLES,
    SEND,
    SENT,
    SIZE_MASK,
    START,
    SUBJECT,
    SUBJECT_MASK,
    TELEMETRY,
    TIMEOUT,
    TRIM,
    TRIM_SIZE,
    TRIMMED,
    TUNE_AT,
    UNTIL,
    WATCH,
    WATCHDOG,
    WIDTH,
    WINDOW,
)

MARGIN = 64  # slots that one event may need
CONTROL_CLASS = 0  # class in which trimmed packets go on
LOOK = 50_000_000  # a paced connection looks at least so often whether its rate has risen [ps]

# What the log of single packets calls its lines.
LOG_SENT = 0
LOG_QUEUED = 1
LOG_CAME = 2
LOG_DROPPED = 3
LOG_TRIMMED = 4
LOG_PAUSE = 5
LOG_RESUME = 6


# Small parts ----------------------------------------------------------------------------------------------------------


@kernel()
def duration(links: Any, whole: Any, link: int, size: int) -> int:
    """Return the time to send ``size`` bytes and the gap behind them. [ps]."""
    return ((size + whole[GAP]) * links[link].cost) >> 16


@kernel()
def take_slot(slots: Any, whole: Any) -> int:
    """Return a free slot: the one that was given back last, or else one that was never used."""
    slot = whole[FREE_SLOT]
    if slot >= 0:
        whole[FREE_SLOT] = slots[slot].next
    else:
        slot = whole[NEW_SLOT]
        whole[NEW_SLOT] = slot + 1
    whole[FREE_SLOTS] -= 1
    return slot


@kernel()
def free_slot(slots: Any, whole: Any, slot: int) -> None:
    """Give a slot back."""
    slots[slot].next = whole[FREE_SLOT]
    whole[FREE_SLOT] = slot
    whole[FREE_SLOTS] += 1


@kernel()
def note(log: Any, slots: Any, whole: Any, now: int, kind: int, slot: int, link: int) -> None:
    """Write a line of the log of single packets, if there is room."""
    n = whole[LOGGED]
    if n < whole[LOG_ROOM]:
        log[n].time = now
        log[n].kind = kind
        log[n].slot = slot
        log[n].link = link
        if slot >= 0:
            log[n].conn = slots[slot].conn
            log[n].seq = slots[slot].seq
        whole[LOGGED] = n + 1


@kernel()
def payload_of(conns: Any, whole: Any, c: int, seq: int) -> int:
    """Return the payload of a packet. [B]."""
    if seq == conns[c].packets - 1:
        return conns[c].last_size
    return whole[PAYLOAD]


@kernel()
def on_the_way(conns: Any, whole: Any, c: int) -> int:
    """Return the payload that a connection has on its way. [B]."""
    if whole[RECOVERY] == GO_BACK_N:
        sent = conns[c].next * whole[PAYLOAD]
        if conns[c].next == conns[c].packets:
            sent += conns[c].last_size - whole[PAYLOAD]
        return sent - conns[c].acked * whole[PAYLOAD]
    return conns[c].flying


@kernel()
def has_more(conns: Any, whole: Any, c: int) -> bool:
    """Return whether a connection has a packet to send, a new one or a lost one."""
    has_lost = whole[RECOVERY] != GO_BACK_N and conns[c].lost > 0
    return has_lost or conns[c].next < conns[c].packets


# Queues ---------------------------------------------------------------------------------------------------------------


@kernel()
def put(queues: Any, entries: Any, slots: Any, whole: Any, queue: int, slot: int) -> None:
    """Put a packet at the end of a queue, or of its route entry's own part of a fair queue."""
    slots[slot].next = -1
    queues[queue].bytes += slots[slot].size
    if queues[queue].bytes > queues[queue].peak:
        queues[queue].peak = queues[queue].bytes
    if whole[FAIR] == 0:
        if queues[queue].first < 0:
            queues[queue].first = slot
        else:
            slots[queues[queue].last].next = slot
        queues[queue].last = slot
        return
    entry = slots[slot].entry
    if entries[entry].fair_first >= 0:
        slots[entries[entry].fair_last].next = slot
        entries[entry].fair_last = slot
        return
    entries[entry].fair_first = slot
    entries[entry].fair_last = slot
    join_turns(queues, entries, queue, entry)


@kernel()
def join_turns(queues: Any, entries: Any, queue: int, entry: int) -> None:
    """Let a route entry wait for its turn in a fair queue."""
    entries[entry].fair_next = -1
    if queues[queue].fair_first < 0:
        queues[queue].fair_first = entry
    else:
        entries[queues[queue].fair_last].fair_next = entry
    queues[queue].fair_last = entry


@kernel()
def first_of(queues: Any, entries: Any, whole: Any, queue: int) -> int:
    """Return the slot of the packet that a queue would send next, or -1."""
    if whole[FAIR] == 0:
        return queues[queue].first
    entry = queues[queue].fair_first
    if entry < 0:
        return -1
    return entries[entry].fair_first


@kernel()
def take(queues: Any, entries: Any, slots: Any, whole: Any, queue: int) -> int:
    """Take that packet out of the queue, and return its slot."""
    if whole[FAIR] == 0:
        slot = queues[queue].first
        queues[queue].first = slots[slot].next
    else:
        entry = queues[queue].fair_first
        slot = entries[entry].fair_first
        queues[queue].fair_first = entries[entry].fair_next
        entries[entry].fair_first = slots[slot].next
        if entries[entry].fair_first >= 0:
            join_turns(queues, entries, queue, entry)
    queues[queue].bytes -= slots[slot].size
    return slot


@kernel()
def line_up(conns: Any, queues: Any, whole: Any, c: int) -> None:
    """Let a connection wait for its turn at its port."""
    queue = conns[c].port * whole[CLASSES] + conns[c].cls
    conns[c].queued = 1
    conns[c].ring_next = -1
    if queues[queue].ring_first < 0:
        queues[queue].ring_first = c
    else:
        conns[queues[queue].ring_last].ring_next = c
    queues[queue].ring_last = c


# Sending --------------------------------------------------------------------------------------------------------------


@kernel()
def call_later(st: Any, link: int, now: int) -> None:
    """Let a link look for something to send, as soon as it is free."""
    links = st.links
    if links[link].wakes == 0 and links[link].cost > 0:
        links[link].wakes = 1
        at = max(now, links[link].busy)
        push(st.events, st.whole, at, (FREE << KIND) | (link << SUBJECT))


@kernel()
def serve(st: Any, functions: Any, link: int, now: int) -> None:
    """Send one packet over a free link: the lowest class first, and in it what passes through before what is new."""
    queues = st.queues
    whole = st.whole
    n_classes = whole[CLASSES]
    slot = -1
    queue = -1
    waiting = 0
    sender = -1  # the connection whose new packet it is
    for cls in range(n_classes):
        queue = link * n_classes + cls
        if queues[queue].paused == 1:
            continue
        slot = first_of(queues, st.entries, whole, queue)
        if slot >= 0:
            size = st.slots[slot].size
            if queues[queue].mode == CREDITS and queues[queue].credit < size:
                slot = -1
                continue
            waiting = queues[queue].bytes
            slot = take(queues, st.entries, st.slots, whole, queue)
            break
        sender, slot = next_sender(st, functions, queue, now)
        if slot >= 0:
            break
    if slot < 0:
        return
    send(st, link, queue, slot, now, waiting)
    if sender >= 0:
        line_up_again(st, sender, link, now)
    wake_again(st, link, now)


@kernel()
def next_sender(st: Any, functions: Any, queue: int, now: int) -> tuple[int, int]:
    """Return the connection whose turn it is at a queue, and the slot of its new packet; -1 twice if there is none."""
    queues = st.queues
    while queues[queue].ring_first >= 0:
        c = queues[queue].ring_first
        full = st.whole[PAYLOAD] + st.whole[HEADER]
        if queues[queue].mode == CREDITS and queues[queue].credit < full:
            return -1, -1
        queues[queue].ring_first = st.conns[c].ring_next
        st.conns[c].queued = 0
        slot = new_packet(st, functions, c, now)
        if slot >= 0:
            return c, slot
    return -1, -1


@kernel()
def wake_again(st: Any, link: int, now: int) -> None:
    """Come back when the link is free, if anything waits for it."""
    if st.links[link].wakes == 1:
        return
    n_classes = st.whole[CLASSES]
    for cls in range(n_classes):
        queue = link * n_classes + cls
        waits = first_of(st.queues, st.entries, st.whole, queue) >= 0
        if waits or st.queues[queue].ring_first >= 0:
            call_later(st, link, now)
            return


@kernel()
def send(st: Any, link: int, queue: int, slot: int, now: int, waiting: int) -> None:
    """Put a packet on a free link; ``waiting`` are the bytes that the queue held with it."""
    links = st.links
    queues = st.queues
    slots = st.slots
    whole = st.whole
    size = slots[slot].size
    entry = slots[slot].entry

    # A switch marks by the length of the queue that the packet leaves (RED); a host does not mark.
    ingress = slots[slot].ingress
    may_mark = waiting > 0 and ingress >= 0 and st.real[MARK_MAX] >= 0.0
    if may_mark and queues[queue].mark_all >= 0:
        if is_marked(queues, whole, st.real, queue, waiting):
            slots[slot].flags |= MARKED
            queues[queue].marks += 1

    if ingress >= 0:
        node = links[ingress // whole[CLASSES]].target
        release(st.events, links, queues, st.nodes, whole, st.real, now, node, ingress, size)
    if queues[queue].mode == CREDITS:
        queues[queue].credit -= size

    time = duration(links, whole, link, size)
    links[link].began = now
    links[link].busy = now + time
    links[link].sent += size
    whole[HOPS] += 1

    if whole[TELEMETRY] > 0:
        hop = entry - st.rows[slots[slot].row].first
        if hop < whole[TELEMETRY]:
            place = slot * whole[TELEMETRY] + hop
            st.reports[place].queue = queues[queue].bytes
            st.reports[place].sent = links[link].sent
            st.reports[place].time = now

    arrival = now + time + links[link].delay
    slots[slot].end = arrival
    if st.entries[entry].through == 1:
        # Cut-through: as soon as the header is there, but never so early that the next link runs out of bytes.
        header = duration(links, whole, link, min(whole[TRIM_SIZE], size))
        next_time = duration(links, whole, st.entries[entry + 1].link, size)
        arrival = max(now + header + links[link].delay, arrival - next_time)
    slots[slot].time = arrival
    slots[slot].next = -1
    if links[link].first < 0:
        links[link].first = slot
        push(st.events, whole, arrival, (ARRIVE << KIND) | (link << SUBJECT))
    else:
        slots[links[link].last].next = slot
    links[link].last = slot
    note(st.log, slots, whole, now, LOG_SENT, slot, link)


@kernel()
def is_marked(queues: Any, whole: Any, real: Any, queue: int, waiting: int) -> bool:
    """Return whether a packet is marked that leaves a queue of ``waiting`` bytes (random early detection)."""
    low = queues[queue].mark_from
    high = queues[queue].mark_all
    if waiting <= low:
        return False
    if waiting > high:
        return True
    chance = real[MARK_MAX] * (waiting - low) / (high - low)
    return draw(whole) < chance * ONE


@kernel()
def new_packet(st: Any, functions: Any, c: int, now: int) -> int:
    """Make the next packet of a connection, if it may send one, and return its slot; else -1.

    A connection that must wait for its pace gets a timer. One whose window is full, or that waits for a grant, is woken
    by the next acknowledgement or grant.
    """
    conns = st.conns
    whole = st.whole
    packets = st.packets
    if conns[c].state != ACTIVE:
        return -1
    seq = -1
    if whole[RECOVERY] != GO_BACK_N and conns[c].lost > 0:
        seq = conns[c].scan
        while packets[conns[c].base + seq].status != LOST:
            seq += 1
        conns[c].scan = seq
    elif conns[c].next < conns[c].packets:
        seq = conns[c].next
    if seq < 0:
        return -1

    own = c * WIDTH
    size = payload_of(conns, whole, c, seq)
    functions.on_send(st.control, st.own, own, now, size)
    flying = on_the_way(conns, whole, c)
    if flying > 0 and flying + size > st.own[own + WINDOW]:
        return -1
    if conns[c].next_time > now:
        # The rate may have changed since the packet before, from which on the pace counts.
        conns[c].next_time = conns[c].sent_last + pace(st, c, conns[c].sent_size)
        if conns[c].next_time > now:
            set_timer(st, c, now)
            return -1
    is_new = seq == conns[c].sent_to
    if whole[RECEIVER] == 1 and is_new:  # a packet needs one grant, however often it is sent
        if conns[c].granted < size:
            return -1
        conns[c].granted -= size

    slots = st.slots
    slot = take_slot(slots, whole)
    slots[slot].conn = c
    slots[slot].cls = conns[c].cls
    slots[slot].seq = seq
    slots[slot].size = size + whole[HEADER]
    slots[slot].sent = now
    slots[slot].ingress = -1
    slots[slot].flags = 0

    if is_new:
        conns[c].sent_to = seq + 1
    else:
        conns[c].resent += 1
    if seq == conns[c].next:
        conns[c].next = seq + 1
    if whole[RECOVERY] != GO_BACK_N:
        place = conns[c].base + seq
        if packets[place].status == LOST:
            conns[c].lost -= 1
        packets[place].status = FLYING
        packets[place].sent = now
        conns[c].flying += size
    st.own[own + SENT] += size

    row = conns[c].row_from
    if conns[c].row_to - row > 1:
        row = chosen(st, functions, now, conns[c].sent_last, conns[c].row, row, conns[c].row_to, 0)
    conns[c].row = row
    conns[c].sent_last = now
    slots[slot].row = row
    slots[slot].entry = st.rows[row].first

    conns[c].sent_size = size + whole[HEADER] + whole[GAP]
    conns[c].next_time = now + pace(st, c, conns[c].sent_size)
    if conns[c].retry == 0 and whole[TIMEOUT] > 0:
        conns[c].deadline = now + whole[TIMEOUT]
        look_at_deadline(st, c)
    return slot


@kernel()
def look_at_deadline(st: Any, c: int) -> None:
    """Let a connection look at its deadline whether it waits for an acknowledgement."""
    st.conns[c].retry = 1
    push(st.events, st.whole, st.conns[c].deadline, (RETRY << KIND) | (c << SUBJECT))


@kernel()
def chosen(
    st: Any, functions: Any, now: int, last: int, row: int, first: int, end: int, hop: int
) -> int:
    """Return the row that the balancer chooses among ``first..end - 1``; see `fabriclab.engines.packet.balance`."""
    row = functions.choose(
        now,
        last,
        row,
        first,
        end,
        hop,
        st.rows,
        st.entries,
        st.links,
        st.queues,
        st.whole,
        st.balance,
    )
    return row


@kernel()
def line_up_again(st: Any, c: int, link: int, now: int) -> None:
    """Let a connection that has sent stand at the end of the ring, at once or when its pace allows the next packet."""
    conns = st.conns
    if not has_more(conns, st.whole, c):
        return
    if conns[c].next_time <= st.links[link].busy:
        line_up(conns, st.queues, st.whole, c)
    else:
        set_timer(st, c, now)


@kernel()
def pace(st: Any, c: int, size: int) -> int:
    """Return how long a connection waits after ``size`` bytes on the wire; 0 at the rate of its port. [ps].

    The line rate of a connection whose flow has a limit is that limit, and it is paced even at this rate.
    """
    line = st.own[c * WIDTH + LINE]
    rate = min(st.own[c * WIDTH + RATE], line)
    if rate >= line and st.conns[c].paced == 0:
        return 0
    return int(size * 1.0e12 / rate)


@kernel()
def set_timer(st: Any, c: int, now: int) -> None:
    """Wake a paced connection when it may send, or after a while in which its rate may have risen."""
    if st.conns[c].timer == 0:
        st.conns[c].timer = 1  # illustrative: a flag
        at = min(st.conns[c].next_time, now + LOOK)
        push(st.events, st.whole, at, (SEND << KIND) | (c << SUBJECT))


@kernel()
def wake(st: Any, c: int) -> int:
    """Line a connection up if it has something to send and waits for nothing; return its port, or -1."""
    conns = st.conns
    if conns[c].state != ACTIVE or conns[c].queued == 1 or conns[c].timer == 1:
        return -1
    if not has_more(conns, st.whole, c):
        return -1
    line_up(conns, st.queues, st.whole, c)
    return conns[c].port


# Arriving -------------------------------------------------------------------------------------------------------------


@kernel()
def arrive(st: Any, functions: Any, link: int, now: int) -> int:
    """Take the next packet off a link: it is lost, stored for its next link, or delivered; return that link, or -1."""
    links = st.links
    slots = st.slots
    whole = st.whole
    slot = links[link].first
    links[link].first = slots[slot].next
    if links[link].first >= 0:
        push(st.events, whole, slots[links[link].first].time, (ARRIVE << KIND) | (link << SUBJECT))

    cls = slots[slot].cls
    ingress = link * whole[CLASSES] + cls
    size = slots[slot].size
    is_lost = links[link].cost == 0
    if not is_lost and links[link].loss > 0:
        is_lost = draw(whole) < links[link].loss
    if is_lost:
        st.queues[ingress].lost += 1
        if st.queues[ingress].mode == CREDITS:
            # The receiver counts what never came, and gives the room back.
            st.queues[ingress].stored += size
            release(st.events, links, st.queues, st.nodes, whole, st.real, now, 0, ingress, size)
        drop(st, slot, now, link)
        return -1

    if st.entries[slots[slot].entry].is_last == 1:
        receive(st, link, ingress, slot, now)
        return -1

    entry = slots[slot].entry + 1
    row = slots[slot].row
    if whole[IN_SWITCH] == 1 and st.entries[entry].same_to - st.entries[entry].same_from > 1:
        hop = entry - st.rows[row].first
        first = st.entries[entry].same_from
        end = st.entries[entry].same_to
        row = chosen(st, functions, now, now, row, first, end, hop)
        slots[slot].row = row
        entry = st.rows[row].first + hop

    node = links[link].target
    next_link = st.entries[entry].link
    queue = next_link * whole[CLASSES] + cls
    if not fits(st.queues, st.nodes, whole, st.real, node, ingress, queue, size):
        st.queues[queue].drops += 1
        refuse(st.events, links, st.queues, whole, now, ingress)
        if whole[TRIM] == 0 or slots[slot].flags & TRIMMED != 0:
            drop(st, slot, now, next_link)
            return -1
        slots[slot].flags |= TRIMMED
        note(st.log, slots, whole, now, LOG_TRIMMED, slot, next_link)
        size = whole[TRIM_SIZE]
        slots[slot].size = size
        slots[slot].cls = CONTROL_CLASS
        ingress = link * whole[CLASSES] + CONTROL_CLASS
        queue = next_link * whole[CLASSES] + CONTROL_CLASS
    slots[slot].entry = entry
    slots[slot].ingress = ingress
    end = slots[slot].end
    store(st.events, links, st.queues, st.nodes, whole, st.real, now, node, ingress, size, end)
    put(st.queues, st.entries, slots, whole, queue, slot)
    note(st.log, slots, whole, now, LOG_QUEUED, slot, next_link)
    return next_link


@kernel()
def drop(st: Any, slot: int, now: int, link: int) -> None:
    """Lose a packet."""
    st.conns[st.slots[slot].conn].dropped += 1
    note(st.log, st.slots, st.whole, now, LOG_DROPPED, slot, link)
    free_slot(st.slots, st.whole, slot)


@kernel()
def receive(st: Any, link: int, ingress: int, slot: int, now: int) -> None:
    """Take a packet in at its target, through the buffer of a slow receiver if it is one, and acknowledge it."""
    slots = st.slots
    whole = st.whole
    queues = st.queues
    nodes = st.nodes
    size = slots[slot].size
    node = st.links[link].target
    if nodes[node].drain > 0:
        if not fits(queues, nodes, whole, st.real, node, ingress, ingress, size):
            queues[ingress].drops += 1
            refuse(st.events, st.links, queues, whole, now, ingress)
            drop(st, slot, now, link)
            return
        store(st.events, st.links, queues, nodes, whole, st.real, now, node, ingress, size, now)
        begin = max(now, nodes[node].drained)
        nodes[node].drained = begin + ((size * nodes[node].drain) >> 16)
        code = (DRAIN << KIND) | (ingress << SUBJECT) | size
        push(st.events, whole, nodes[node].drained, code)
    elif queues[ingress].mode == CREDITS:
        queues[ingress].stored += size
        release(st.events, st.links, queues, nodes, whole, st.real, now, node, ingress, size)
    note(st.log, slots, whole, now, LOG_CAME, slot, link)
    take_in(st, node, slot, now)


@kernel()
def take_in(st: Any, node: int, slot: int, now: int) -> None:
    """Count what came, and send an acknowledgement back if one is due."""
    conns = st.conns
    slots = st.slots
    packets = st.packets
    whole = st.whole
    c = slots[slot].conn
    seq = slots[slot].seq
    flags = slots[slot].flags
    answers = False

    if flags & TRIMMED != 0:
        slots[slot].flags = flags | NACK
        answers = True
    elif whole[RECOVERY] == GO_BACK_N:
        if seq == conns[c].expected:
            conns[c].expected = seq + 1
            conns[c].received += 1
            conns[c].complained = 0
            whole[DELIVERED] += payload_of(conns, whole, c, seq)
            is_last = seq + 1 == conns[c].packets
            answers = is_last or (seq + 1) % whole[ACK_EVERY] == 0
        elif seq > conns[c].expected:
            if conns[c].complained == 0:
                conns[c].complained = 1
                slots[slot].flags |= NACK
                answers = True
        else:
            answers = True
    else:
        answers = True
        if packets[conns[c].base + seq].came == 0:
            packets[conns[c].base + seq].came = 1
            conns[c].received += 1
            whole[DELIVERED] += payload_of(conns, whole, c, seq)
            ahead = conns[c].expected
            while ahead < conns[c].packets and packets[conns[c].base + ahead].came == 1:
                ahead += 1
            conns[c].expected = ahead

    if flags & MARKED != 0:
        conns[c].marked += 1
        conns[c].owes_mark = 1
        slots[slot].flags &= ~MARKED
    # A mark within the gap behind the one before is not forgotten: it is passed on when the gap has ended.
    if conns[c].owes_mark == 1 and now - conns[c].marked_at >= whole[MARK_GAP]:
        conns[c].owes_mark = 0
        conns[c].marked_at = now
        slots[slot].flags |= MARKED
        answers = True
    if whole[RECEIVER] == 1:
        ask_for_grant(st, c, node, now)

    if conns[c].received == conns[c].packets and conns[c].state == ACTIVE:
        finish_connection(st, c, now)
    if answers:
        slots[slot].ack = conns[c].expected
        back = st.rows[slots[slot].row].back
        push(st.events, whole, now + back, (FEEDBACK << KIND) | (slot << SUBJECT))
    else:
        free_slot(slots, whole, slot)


@kernel()
def finish_connection(st: Any, c: int, now: int) -> None:
    """End a connection, whose last packet has come, and its flow if no other connection of it is open."""
    conns = st.conns
    conns[c].state = DONE
    f = conns[c].flow
    st.flows[f].open -= 1
    if st.flows[f].open == 0:
        finish_flow(st, f, now)


@kernel()
def finish_flow(st: Any, f: int, now: int) -> None:
    """End a flow, and start those that waited for it alone."""
    flows = st.flows
    flows[f].finish = now
    st.whole[OPEN_FLOWS] -= 1
    for i in range(flows[f].user_from, flows[f].user_to):
        user = st.users[i]
        flows[user].ready = max(flows[user].ready, now)
        flows[user].waits -= 1
        if flows[user].waits == 0:
            begin = max(flows[user].start, flows[user].ready + flows[user].lag)
            push(st.events, st.whole, begin, (START << KIND) | (user << SUBJECT))


@kernel()
def start_flow(st: Any, functions: Any, f: int, now: int) -> None:
    """Start a flow with all its connections."""
    flows = st.flows
    flows[f].began = now
    if flows[f].conn_from == flows[f].conn_to:
        push(st.events, st.whole, now, (END << KIND) | (f << SUBJECT))
        return
    for c in range(flows[f].conn_from, flows[f].conn_to):
        st.conns[c].state = ACTIVE
        own = c * WIDTH
        functions.on_start(st.control, st.own, own, now)
        if st.whole[RECEIVER] == 1:
            first = st.whole[FIRST_WINDOW]
            if first < 0:  # what fills the path
                first = int(st.own[own + LINE] * st.own[own + ROUND_TRIP] / 1.0e12)
            first = min(first, st.conns[c].to_grant)
            st.conns[c].granted = first
            st.conns[c].to_grant -= first
            row = st.conns[c].row_from
            node = st.links[st.entries[st.rows[row].end - 1].link].target
            ask_for_grant(st, c, node, now + st.rows[row].back)
        port = wake(st, c)
        if port >= 0:
            if st.links[port].cost == 0 and st.whole[TIMEOUT] > 0:
                # A sender counts its tries also when its own port is down.
                st.conns[c].deadline = now + st.whole[TIMEOUT]
                look_at_deadline(st, c)
            call_later(st, port, now)


# Acknowledgements -----------------------------------------------------------------------------------------------------


@kernel()
def feed_back(st: Any, functions: Any, slot: int, now: int) -> int:
    """Take an acknowledgement in at the sender; return the port where it may send now, or -1."""
    conns = st.conns
    slots = st.slots
    packets = st.packets
    whole = st.whole
    c = slots[slot].conn
    flags = slots[slot].flags
    seq = slots[slot].seq
    trip = now - slots[slot].sent
    base = conns[c].base
    is_nack = flags & NACK != 0
    acked = 0
    is_lost = 0

    if whole[RECOVERY] == GO_BACK_N:
        if slots[slot].ack > conns[c].acked:
            before = on_the_way(conns, whole, c)
            conns[c].acked = slots[slot].ack
            conns[c].next = max(conns[c].next, conns[c].acked)
            acked = before - on_the_way(conns, whole, c)
        if is_nack:
            conns[c].next = conns[c].acked
    else:
        place = base + seq
        size = payload_of(conns, whole, c, seq)
        if is_nack:
            if packets[place].status == FLYING:
                lose(conns, packets, whole, c, seq)
        else:
            if packets[place].status == FLYING:
                conns[c].flying -= size
                acked = size
            elif packets[place].status == LOST:
                conns[c].lost -= 1
                acked = size
            packets[place].status = ACKED
            ahead = conns[c].acked
            while ahead < conns[c].packets and packets[base + ahead].status == ACKED:
                ahead += 1
            conns[c].acked = ahead
            if whole[REORDER] >= 0:
                before = conns[c].lost
                lose_overtaken(conns, packets, whole, c, slots[slot].sent)
                if conns[c].lost > before:
                    is_lost = 1
    if acked > 0:
        conns[c].retries = 0
        conns[c].deadline = now + whole[TIMEOUT]

    load = -1.0
    if whole[TELEMETRY] > 0 and not is_nack:
        load = read_telemetry(st, slot, c)
    is_marked_ack = 0
    if flags & MARKED != 0:
        is_marked_ack = 1
    if is_nack:
        is_lost = 1
    functions.on_feedback(
        st.control, st.own, c * WIDTH, now, trip, acked, is_marked_ack, is_lost, load
    )
    free_slot(slots, whole, slot)
    return wake(st, c)


@kernel()
def lose(conns: Any, packets: Any, whole: Any, c: int, seq: int) -> None:
    """Count a packet as lost, so that it is sent again."""
    packets[conns[c].base + seq].status = LOST
    conns[c].lost += 1
    conns[c].flying -= payload_of(conns, whole, c, seq)
    conns[c].scan = min(conns[c].scan, seq)


@kernel()
def lose_overtaken(conns: Any, packets: Any, whole: Any, c: int, sent: int) -> None:
    """Count as lost what was sent so long before a packet, sent at ``sent``, that it should have come before it."""
    base = conns[c].base
    seq = conns[c].acked
    looked_at = 0
    while seq < conns[c].next and looked_at < 64:
        status = packets[base + seq].status
        if status == FLYING:
            if packets[base + seq].sent + whole[REORDER] >= sent:
                return
            lose(conns, packets, whole, c, seq)
        seq += 1
        looked_at += 1


@kernel()
def read_telemetry(st: Any, slot: int, c: int) -> float:
    """Return the highest load of a link on the path: queue / (rate x T) + sent / (rate x time), as HPCC computes it.

    The queue is the smaller one of this acknowledgement and the one before. The first acknowledgement has no time to
    compare with, and gives -1. The gaps between packets count, so that a load of 1 is a link that never rests.

    Where packets of a flow take several paths, only hops over the same link as before are compared. (The paper's sender
    drops all that it knows when the path changes; a network that deals packets changes it with nearly every one.)
    """
    reports = st.reports
    full = st.whole[PAYLOAD] + st.whole[HEADER]
    with_gap = (full + st.whole[GAP]) / (65536.0 * full)
    known = st.known
    room = st.whole[TELEMETRY]
    row = st.slots[slot].row
    first = st.rows[row].first
    hops = min(st.rows[row].end - first, room)
    worst = -1.0
    for hop in range(hops):
        now = slot * room + hop
        before = c * room + hop
        link = st.entries[first + hop].link
        gap = reports[now].time - known[before].time
        if known[before].link == link and gap > 0:
            cost = st.links[link].cost * with_gap
            queue = min(reports[now].queue, known[before].queue)
            sent = reports[now].sent - known[before].sent
            load = queue * cost / st.own[c * WIDTH + ROUND_TRIP] + sent * cost / gap
            worst = max(worst, load)
        known[before].link = link
        known[before].time = reports[now].time
        known[before].queue = reports[now].queue
        known[before].sent = reports[now].sent
    return worst


@kernel()
def try_again(st: Any, functions: Any, c: int, now: int) -> int:
    """Send again what was not acknowledged in time; a connection that tried too often fails. Return its port, or -1."""
    conns = st.conns
    whole = st.whole
    packets = st.packets
    conns[c].retry = 0
    if conns[c].state != ACTIVE:
        return -1
    is_dead = st.links[conns[c].port].cost == 0
    if on_the_way(conns, whole, c) <= 0 and conns[c].lost == 0 and not is_dead:
        return -1  # the next packet starts the timer again
    if now < conns[c].deadline:
        look_at_deadline(st, c)
        return -1
    conns[c].retries += 1
    if conns[c].retries > whole[RETRIES]:
        conns[c].state = FAILED
        return -1
    if whole[RECOVERY] == GO_BACK_N:
        conns[c].next = conns[c].acked
        conns[c].complained = 0
    else:
        for seq in range(conns[c].acked, conns[c].next):
            is_flying = packets[conns[c].base + seq].status == FLYING
            if is_flying and packets[conns[c].base + seq].sent + whole[TIMEOUT] <= now:
                lose(conns, packets, whole, c, seq)
    functions.on_feedback(st.control, st.own, c * WIDTH, now, 0, 0, 0, 2, -1.0)
    conns[c].deadline = now + whole[TIMEOUT]
    look_at_deadline(st, c)
    return wake(st, c)


# Grants of a receiver -------------------------------------------------------------------------------------------------


@kernel()
def ask_for_grant(st: Any, c: int, node: int, now: int) -> None:
    """Let a connection wait for the next grant of its receiver, if bytes are left to grant."""
    conns = st.conns
    nodes = st.nodes
    if conns[c].wanting == 1 or conns[c].to_grant <= 0:
        return
    wait_for_grant(conns, nodes, c, node)
    if nodes[node].grants == 0:
        nodes[node].grants = 1
        push(st.events, st.whole, now, (GRANT << KIND) | (node << SUBJECT))


@kernel()
def wait_for_grant(conns: Any, nodes: Any, c: int, node: int) -> None:
    """Let a connection stand at the end of the ring of its receiver."""
    conns[c].wanting = 1
    conns[c].grant_next = -1
    if nodes[node].grant_first < 0:
        nodes[node].grant_first = c
    else:
        conns[nodes[node].grant_last].grant_next = c
    nodes[node].grant_last = c


@kernel()
def grant(st: Any, node: int, now: int) -> None:
    """Grant the next bytes to the sender whose turn it is, and come back when they would have passed the port."""
    conns = st.conns
    nodes = st.nodes
    whole = st.whole
    c = nodes[node].grant_first
    if c < 0:
        nodes[node].grants = 0
        return
    nodes[node].grant_first = conns[c].grant_next
    conns[c].wanting = 0
    size = min(whole[QUANTUM], conns[c].to_grant)
    conns[c].to_grant -= size
    back = st.rows[conns[c].row_from].back
    # A grant is a FEEDBACK event with a connection instead of a slot: the size tells them apart.
    push(st.events, whole, now + back, (FEEDBACK << KIND) | (c << SUBJECT) | min(size, SIZE_MASK))
    if conns[c].to_grant > 0:
        wait_for_grant(conns, nodes, c, node)
    pause = (size * nodes[node].grant_cost) >> 16
    push(st.events, whole, now + pause, (GRANT << KIND) | (node << SUBJECT))


# Pauses, changes, records ---------------------------------------------------------------------------------------------


@kernel()
def stop(st: Any, queue: int, number: int, now: int) -> None:
    """Pause a queue, unless a newer notice than number ``number`` has come."""
    queues = st.queues
    whole = st.whole
    if is_void(queues, queue, number):
        return
    if queues[queue].paused == 0:
        queues[queue].pauses += 1
        queues[queue].paused = 1
        queues[queue].paused_since = now
        note(st.log, st.slots, whole, now, LOG_PAUSE, -1, queue // whole[CLASSES])
        if whole[WATCHDOG] > 0:
            push(st.events, whole, now + whole[WATCHDOG], (WATCH << KIND) | (queue << SUBJECT))


@kernel()
def go_on(st: Any, queue: int, now: int) -> int:
    """End the pause of a queue, and return its link."""
    queues = st.queues
    link = queue // st.whole[CLASSES]
    if queues[queue].paused == 1:
        queues[queue].paused = 0
        queues[queue].paused_time += now - queues[queue].paused_since
        note(st.log, st.slots, st.whole, now, LOG_RESUME, -1, link)
    return link


@kernel()
def watch(st: Any, queue: int, now: int) -> int:
    """Throw away what waits in a queue that has been paused too long, and let it go on; return its link, or -1."""
    queues = st.queues
    whole = st.whole
    is_stuck = queues[queue].paused == 1
    if not is_stuck or now - queues[queue].paused_since < whole[WATCHDOG]:
        return -1
    while first_of(queues, st.entries, whole, queue) >= 0:
        slot = take(queues, st.entries, st.slots, whole, queue)
        ingress = st.slots[slot].ingress
        if ingress >= 0:
            node = st.links[ingress // whole[CLASSES]].target
            size = st.slots[slot].size
            release(st.events, st.links, queues, st.nodes, whole, st.real, now, node, ingress, size)
        drop(st, slot, now, queue // whole[CLASSES])
    return go_on(st, queue, now)


@kernel()
def record(st: Any, time: int) -> None:
    """Write down the watched queues and connections as they are at a time."""
    whole = st.whole
    sample = whole[SAMPLES]
    if sample >= whole[SAMPLE_ROOM]:
        return
    n = len(st.watched_queues)
    for i in range(n):
        queue = st.watched_queues[i]
        row = st.queue_samples[sample * n + i]
        row.bytes = st.queues[queue].bytes
        row.paused = st.queues[queue].paused
        row.sent = st.links[queue // whole[CLASSES]].sent
        row.marks = st.queues[queue].marks
        row.drops = st.queues[queue].drops
        row.paused_time = st.queues[queue].paused_time
        if st.queues[queue].paused == 1:
            row.paused_time += time - st.queues[queue].paused_since
    n = len(st.watched_conns)
    for i in range(n):
        c = st.watched_conns[i]
        row = st.conn_samples[sample * n + i]
        row.received = st.conns[c].received
        row.rate = min(st.own[c * WIDTH + RATE], st.own[c * WIDTH + LINE])
        row.window = st.own[c * WIDTH + WINDOW]
    whole[SAMPLES] = sample + 1


# The loop -------------------------------------------------------------------------------------------------------------


@kernel(signatures.loop)
def loop(st: Any, on_start: Any, on_send: Any, on_feedback: Any, choose: Any, n_events: int) -> int:
    """Handle events until none is left, ``n_events`` are done, slots run out, or time is up; return which of these."""
    functions = signatures.Functions(on_start, on_send, on_feedback, choose)
    links = st.links
    queues = st.queues
    conns = st.conns
    events = st.events
    whole = st.whole
    for _ in range(n_events):
        if whole[EVENTS] == 0 or whole[OPEN_FLOWS] == 0:
            return IDLE
        # Each slot may become an event, and each flow may start: other events (credits, pauses) must leave them room.
        room = whole[EVENT_ROOM] - whole[EVENTS]
        if whole[FREE_SLOTS] < MARGIN or room < len(st.slots) + whole[OPEN_FLOWS] + MARGIN:
            return ROOM
        place = next_place(events, whole)
        now = events[place].time
        code = events[place].code
        if whole[SAMPLE_GAP] > 0:
            until = min(now, whole[UNTIL])
            while (
                whole[SAMPLES] * whole[SAMPLE_GAP] <= until and whole[SAMPLES] < whole[SAMPLE_ROOM]
            ):
                record(st, whole[SAMPLES] * whole[SAMPLE_GAP])
        if now > whole[UNTIL]:
            return LATER
        remove_first(events, whole, place)
        whole[NOW] = now
        whole[HANDLED] += 1
        if whole[HANDLED] >= whole[TUNE_AT]:
            tune(events, whole, now)
        kind = code >> KIND
        subject = (code >> SUBJECT) & SUBJECT_MASK
        size = code & SIZE_MASK
        link = -1  # which may send something now
        if kind == ARRIVE:
            link = arrive(st, functions, subject, now)
        elif kind == FREE:
            links[subject].wakes = 0
            link = subject
        elif kind == FEEDBACK:
            if size > 0:
                conns[subject].granted += size
                link = wake(st, subject)
            else:
                link = feed_back(st, functions, subject, now)
        elif kind == SEND:
            conns[subject].timer = 0
            link = wake(st, subject)
        elif kind == CREDIT:
            queues[subject].credit += size
            link = subject // whole[CLASSES]
        elif kind == PAUSE:
            stop(st, subject, size, now)
        elif kind == RESUME:
            if not is_void(queues, subject, size):
                link = go_on(st, subject, now)
        elif kind == START:
            start_flow(st, functions, subject, now)
        elif kind == END:
            finish_flow(st, subject, now)
        elif kind == RETRY:
            link = try_again(st, functions, subject, now)
        elif kind == DRAIN:
            node = links[subject // whole[CLASSES]].target
            release(events, links, queues, st.nodes, whole, st.real, now, node, subject, size)
        elif kind == WATCH:
            link = watch(st, subject, now)
        elif kind == GRANT:
            grant(st, subject, now)
        elif kind == CHANGE:
            link = st.changes[subject].link
            links[link].cost = st.changes[subject].cost

        if link >= 0 and links[link].wakes == 0 and links[link].cost > 0:
            if links[link].busy <= now:
                serve(st, functions, link, now)
            else:
                call_later(st, link, now)
    return PAUSED
