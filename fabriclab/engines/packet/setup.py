"""Lay out the state of the packet engine: from a fabric, routes, flows and settings to arrays of whole numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import (
    Changes,
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    check_memory,
    pointer,
    rows_of,
)
from fabriclab.engines.packet import signatures, state
from fabriclab.engines.packet.balance import Balance
from fabriclab.engines.packet.chance import ONE
from fabriclab.engines.packet.checks import check_memory_of_switches, check_run, variant
from fabriclab.engines.packet.control import Control, Marking, Place
from fabriclab.engines.packet.events import FIRST, TUNE_EVERY
from fabriclab.engines.packet.lossless import PAUSE_FRAME, headroom_needed
from fabriclab.engines.packet.own import balance_of, control_of
from fabriclab.engines.packet.settings import Settings
from fabriclab.engines.packet.state import table

Table = np.ndarray[Any, Any]  # a structured array of `fabriclab.engines.packet.state`
PICO = 1e12  # picoseconds in a second
ACK_SIZE = 84  # a short frame with preamble and gap [B]
TRIM_SIZE = 64  # shortest Ethernet frame [B]
INSIDE = ("nvlink", "pcie", "c2c", "xgmi", "socket", "mini SAS HD")  # media inside a server
CARD_BUFFER = 131072.0  # illustrative: what a slow receiver stores [B]
MOST_SAMPLES = 20_000  # illustrative: of a run without a time limit
INFINITE = 1 << 58
SPARE_SLOTS = 1024  # illustrative: for packets that are sent again
MOST_SLOTS = 1 << 17  # illustrative: of a run that begins; a run that needs more gets more


class Layout(NamedTuple):
    """The engine's state before the first event, and what belongs to it."""

    state: signatures.State
    functions: tuple[Any, ...]
    settings: Settings


def lay_out(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    changes: Changes | None,
    settings: Settings,
    rng: np.random.Generator | None,
) -> Layout:
    """Return the state before the first event.

    Raises
    ------
    ValueError
        If a row is no path, or the rows of a flow leave by different ports although a balancer is to choose.
    TooLarge
        If the state needs more memory than the machine has.
    """
    check_run(fabric, routes, flows, changes, settings)
    balance = _balance(settings)
    n_classes = 1 + max([*settings.classes.values(), 1 if settings.trim else 0], default=0)
    seed = int(rng.integers(1, 2**32 - 1)) if rng is not None else 2463534242

    rows = _sorted_rows(routes, flows)
    cost = cost_of(fabric.capacity)
    conns, first_rows = _connections(rows, flows, settings, balance.splits, n_classes)
    back, one_way = _times(fabric, rows, cost, settings)
    port_rate = port_rates(fabric, rows, first_rows)
    place = _place(port_rate, one_way + back, settings)
    control = _control(settings, place)

    n_conns = conns["flow"].size
    own = np.zeros(n_conns * state.WIDTH)
    hops = np.diff(rows.ptr)
    limit = _limits(flows, conns)
    conns["paced"] = (limit < port_rate).astype(np.int64)
    own[state.LINE :: state.WIDTH] = np.minimum(port_rate, limit)
    own[state.ROUND_TRIP :: state.WIDTH] = (one_way + back)[first_rows]
    own[state.N_HOPS :: state.WIDTH] = hops[first_rows]

    total_packets = int(conns["packets"].sum())
    n_slots = min(total_packets + SPARE_SLOTS, MOST_SLOTS)
    n_packets = total_packets if settings.recovery == "selective" else 0
    size_of = {
        kind: state.dtype_of(kind).itemsize for kind in (state.Packet, state.Slot, state.Event)
    }
    per_slot = (
        size_of[state.Slot] + 9 * size_of[state.Event]
    )  # three events, for each of which there are three places
    check_memory(
        n_packets * size_of[state.Packet] + n_slots * per_slot,
        f"{total_packets} packets",
        "send less, make packets larger, or give a time with until=",
    )
    queues = _queues(fabric, settings, control, n_classes)
    flow_table, users, events = _flows(flows, conns, settings, rng)
    change_table, change_events = _changes(changes)
    events += change_events + _storms(settings, n_classes)

    n_hops = int(hops.max(initial=0)) if control.telemetry else 0
    n_samples = _n_samples(settings)
    row_table, entry_table = _paths(fabric, rows, back, balance.splits, settings)
    queue_numbers, conn_numbers = _watched(settings, conns, n_classes)
    whole, real = _numbers(settings, control, balance, n_classes, n_slots, seed, n_hops)
    whole[state.SAMPLE_ROOM] = n_samples
    whole[state.OPEN_FLOWS] = flows.n_flows
    room = event_room(fabric, flows, n_conns, n_slots, n_classes) + len(events)
    everything = signatures.State(
        links=_links(fabric, cost, settings),
        queues=queues,
        nodes=_nodes(fabric, queues, settings, n_classes),
        rows=row_table,
        entries=entry_table,
        flows=flow_table,
        users=users,
        conns=table(state.Connection, n_conns, **conns),
        packets=table(state.Packet, max(1, n_packets)),
        slots=table(state.Slot, n_slots),
        reports=table(state.Report, max(1, n_slots * n_hops)),
        known=table(state.Heard, max(1, n_conns * n_hops), link=-1),
        events=calendar(whole, room, events),
        changes=change_table,
        watched_queues=queue_numbers,
        watched_conns=conn_numbers,
        queue_samples=table(state.QueueSample, max(1, queue_numbers.size * n_samples)),
        conn_samples=table(state.ConnectionSample, max(1, conn_numbers.size * n_samples)),
        log=table(state.Line, max(1, settings.log)),
        whole=whole,
        real=real,
        control=np.array(control.parameters or (0.0,), dtype=np.float64),
        own=own,
        balance=np.array(balance.parameters or (0,), dtype=np.int64),
    )
    functions = (control.on_start, control.on_send, control.on_feedback, balance.choose)
    return Layout(everything, functions, settings)


def _storms(settings: Settings, n_classes: int) -> list[tuple[int, int]]:
    """Return the events of network cards that pause their switch for no reason."""
    events = []
    for link, begin, end in settings.storms:
        for cls in range(n_classes):
            queue = int(link) * n_classes + cls
            for when, kind in ((begin, state.PAUSE), (end, state.RESUME)):
                at = _picoseconds(units.time(when, "storms"))
                events.append((at, (kind << state.KIND) | (queue << state.SUBJECT)))
    return events


def _sorted_rows(routes: Routes, flows: Flows) -> Routes:
    """Return the rows that move bytes, each path of a flow once, sorted by flow and then by links."""
    has_links = np.diff(routes.ptr) > 0
    moves = (flows.size[routes.flow] > 0) & has_links & (routes.share > 0)
    kept = routes.of_rows(np.flatnonzero(moves))
    columns = np.column_stack([kept.flow, kept.padded()])
    order = np.lexsort(columns.T[::-1])  # its last column counts first
    return kept.of_rows(order)


def cost_of(capacity: Any) -> Ints:
    """Return picoseconds per byte, times 2^16; 0 for a link that is down."""
    with np.errstate(divide="ignore"):
        cost = np.where(capacity > 0, 65536 * PICO / capacity, 0.0)
    return np.round(cost).astype(np.int64)


def _connections(
    rows: Routes, flows: Flows, settings: Settings, splits: bool, n_classes: int
) -> tuple[dict[str, Ints], Ints]:
    """Return the columns of the connections, and the first row of each."""
    n_rows = rows.n_rows
    if splits:
        first = np.arange(n_rows)
        end = first + 1
        share = rows.share
    else:
        first = np.flatnonzero(_is_first(rows.flow))
        end = np.append(first[1:], n_rows)
        share = np.add.reduceat(rows.share, first) if n_rows else np.zeros(0)
    flow = rows.flow[first].astype(np.int64)
    port = rows.link[rows.ptr[first]].astype(np.int64)
    row_port = rows.link[rows.ptr[:-1]]
    if np.any(row_port != np.repeat(port, end - first)):
        raise ValueError(
            "the rows of a flow leave its source by different ports, and a balancer chooses behind one port only; "
            "give each port a flow of its own, or balance='pinned'"
        )
    size = _parts(flows.size, flow, share)
    packets = -(-size // settings.payload)
    last_size = size - (packets - 1) * settings.payload
    usual = 1 if settings.trim else 0  # cut packets go ahead of all others, in class 0
    label_class = np.array([settings.classes.get(name, usual) for name in flows.labels], np.int64)
    n = first.size
    none = np.full(n, -1, dtype=np.int64)
    conns = {
        "flow": flow,
        "row_from": first.astype(np.int64),
        "row_to": end.astype(np.int64),
        "row": first.astype(np.int64),
        "packets": packets,
        "last_size": last_size,
        "base": pointer(packets)[:-1].astype(np.int64),
        "port": port,
        "cls": label_class[flows.label[flow]],
        "marked_at": none - INFINITE,
        "ring_next": none,
        "grant_next": none,
        "to_grant": size,
        "sent_last": none,
    }
    return conns, first


def _is_first(flow: Any) -> Any:
    """Return whether each entry of sorted numbers of flows is the first of its flow."""
    is_first = np.ones(flow.size, dtype=bool)
    is_first[1:] = flow[1:] != flow[:-1]
    return is_first


def _parts(size: Floats, flow: Ints, share: Floats) -> Ints:
    """Return the whole bytes of each connection, at least one; those of a flow add up to its bytes."""
    total = np.maximum(1, np.round(size)).astype(np.int64)
    up_to = np.cumsum(share)
    is_first = _is_first(flow)
    first = np.maximum.accumulate(np.where(is_first, np.arange(flow.size), 0))
    before = up_to[first] - share[first]  # shares of the flows before
    end = np.round((up_to - before) * total[flow]).astype(np.int64)
    begin = np.where(is_first, 0, np.append(0, end[:-1]))
    return np.maximum(1, end - begin)


def _limits(flows: Flows, conns: dict[str, Ints]) -> Floats:
    """Return the limit of each connection: that of its flow, divided in equal parts among its connections. [B/s]."""
    flow = conns["flow"]
    connections = np.bincount(flow, minlength=flows.n_flows)
    return np.asarray(flows.limit[flow] / np.maximum(1, connections[flow]))


def _times(fabric: Fabric, rows: Routes, cost: Ints, settings: Settings) -> tuple[Ints, Ints]:
    """Return of each row the time of an acknowledgement back, and of a full packet there. [ps], (R,)."""
    delay = np.round(fabric.delay * PICO).astype(np.int64)
    reverse = rows.link.astype(np.int64) ^ 1
    reverse_cost = np.where(cost[reverse] > 0, cost[reverse], cost[rows.link])
    ack = delay[reverse] + ((ACK_SIZE * reverse_cost) >> 16)
    there = delay[rows.link] + ((settings.on_wire * cost[rows.link]) >> 16)
    row = rows_of(rows.ptr)
    back = np.bincount(row, ack, rows.n_rows).astype(np.int64)
    one_way = np.bincount(row, there, rows.n_rows).astype(np.int64)
    return back, one_way


def port_rates(fabric: Fabric, rows: Routes, first_rows: Ints) -> Floats:
    """Return of each connection the rate of the slowest link up to the first switch outside of its server. [B/s]."""
    if not first_rows.size:
        return np.zeros(0)
    paths = rows.of_rows(first_rows)
    is_outside = ~_inside(fabric)[paths.link]
    so_far = (
        np.cumsum(is_outside) - is_outside
    )  # links outside of a server before each one, of all paths
    begin = paths.ptr[:-1]
    is_first = so_far == so_far[begin][rows_of(paths.ptr)]
    rates = np.where(is_first, fabric.capacity[paths.link], np.inf)
    return np.minimum.reduceat(rates, begin)


def _inside(fabric: Fabric) -> Any:
    """Return whether each link is inside of a server, (L,)."""
    is_inside = np.array([medium in INSIDE for medium in fabric.media] or [False])
    return is_inside[fabric.medium]


def _place(port_rate: Floats, round_trip: Ints, settings: Settings) -> Place:
    """Return what control loops may scale their parameters by: the fastest port [B/s], the longest round trip [ps]."""
    if not port_rate.size:
        return Place(1e9, 1e-6, settings.payload)  # no connection will ask for it
    return Place(float(port_rate.max()), float(round_trip.max()) / PICO, settings.payload)


def _links(fabric: Fabric, cost: Ints, settings: Settings) -> Table:
    n = fabric.n_links
    loss = np.zeros(n)
    if isinstance(settings.loss, (int, float)):
        loss[:] = settings.loss
    else:
        for link, chance in settings.loss.items():
            loss[int(link)] = chance
    wrong = loss[~((loss >= 0) & (loss < 1))]
    if wrong.size:
        raise ValueError(
            f"loss must be within 0..1, without 1, got {wrong[0]:g}; with 1 no packet would ever arrive"
        )
    return table(
        state.Link,
        n,
        target=fabric.target,
        cost=cost,
        delay=np.round(fabric.delay * PICO),
        loss=np.round(loss * ONE),
        first=-1,
        last=-1,
    )


def _queues(fabric: Fabric, settings: Settings, control: Control, n_classes: int) -> Table:
    n = fabric.n_links * n_classes
    link = np.repeat(np.arange(fabric.n_links), n_classes)
    inside = _inside(fabric)[link]
    names = {"pause": state.PAUSING, "credits": state.CREDITS, "none": state.LOSSY}
    mode = np.where(inside, state.CREDITS, names[settings.lossless])
    ends_at_host = ~fabric.transit[fabric.target[link]]
    if not settings.receivers:
        mode = np.where(ends_at_host & ~inside, state.LOSSY, mode)

    rate = fabric.capacity[link]
    delay = fabric.delay[link]
    back = fabric.delay[link ^ 1]
    if settings.headroom is None:
        back_rate = fabric.capacity[link ^ 1]
        headroom = headroom_needed(rate, back_rate, delay, back, settings)
    else:
        headroom = np.full(n, float(settings.headroom))
    frame = settings.frame
    if settings.credit is None:
        credit = np.ceil(2 * rate * (delay + back)) + 2 * frame + settings.gap
    else:
        credit = np.full(n, float(settings.credit))
        if settings.lossless == "credits" and float(settings.credit) < frame:
            raise ValueError(
                f"credit must hold a packet of {frame} B, or none is ever sent, got {settings.credit:g} B"
            )
    low, high = _marking(fabric, settings, control, link)
    in_switch = fabric.transit[fabric.source[link]]
    return table(
        state.Queue,
        n,
        **dict.fromkeys(
            ("first", "last", "ring_first", "ring_last", "fair_first", "fair_last"), -1
        ),
        credit=np.where(mode == state.CREDITS, credit, INFINITE),
        mode=mode,
        headroom=headroom,
        mark_from=np.where(in_switch & ~inside, low, -1),
        mark_all=np.where(in_switch & ~inside, high, -1),
    )


def _control(settings: Settings, place: Place) -> Control:
    """Return the control loop of a name, or one that asks a function."""
    if callable(settings.control):
        return control_of(settings.control)
    control: Control = variant("control", settings.control, (place,), settings.control_options)
    return control


def _balance(settings: Settings) -> Balance:
    """Return the balancer of a name, or one that asks a function."""
    if callable(settings.balance):
        return balance_of(settings.balance)
    balance: Balance = variant("balance", settings.balance, (), settings.balance_options)
    return balance


def _marking_of(settings: Settings, control: Control) -> Marking | None:
    """Return when switches mark, or None; a rule that is a function decides for every packet that waited."""
    if settings.marking is None:
        return control.marking
    if callable(settings.marking):
        return Marking(0.0, 0.0)
    return Marking(*settings.marking) if settings.marking else None


def _marking(fabric: Fabric, settings: Settings, control: Control, link: Ints) -> tuple[Any, Any]:
    """Return Kmin and Kmax of each queue; a port of another rate than the slowest host port scales a control's own."""
    marking = _marking_of(settings, control)
    if marking is None:
        return np.full(link.size, -1.0), np.full(link.size, -1.0)
    if settings.marking is not None:
        return np.full(link.size, marking.low), np.full(link.size, marking.high)
    host_ports = ~fabric.transit[fabric.source] & (fabric.capacity > 0)
    slowest = fabric.capacity[host_ports].min() if host_ports.any() else fabric.capacity.max()
    scale = np.maximum(1.0, fabric.capacity[link] / slowest)
    return marking.low * scale, marking.high * scale


def _nodes(fabric: Fabric, queues: Table, settings: Settings, n_classes: int) -> Table:
    n = fabric.n_nodes
    is_network = fabric.transit & (fabric.tier > 0)
    buffer = np.where(is_network, float(settings.buffer), float(INFINITE))
    # Headroom and reserve are taken out of the memory of a switch, as a real one does.
    link = np.repeat(np.arange(fabric.n_links), n_classes)
    kept = np.where(
        queues["mode"] == state.PAUSING, queues["headroom"] + float(settings.reserve), 0.0
    )
    taken = np.bincount(fabric.target[link], kept, n)
    shared = buffer - taken
    worst = int(np.argmin(np.where(is_network, shared, np.inf))) if is_network.any() else 0
    if is_network.any() and shared[worst] <= 0:
        raise ValueError(
            f"buffer of {settings.buffer:g} B is too small: headroom and reserve of the links into "
            f"{fabric.name(worst)} take {taken[worst]:g} B; give more buffer, or less headroom"
        )
    check_memory_of_switches(fabric, queues, shared, settings, n_classes)
    drain = np.zeros(n, dtype=np.int64)
    for rank, rate in settings.receivers.items():
        node = int(fabric.endpoint[int(rank)])
        drain[node] = round(65536 * PICO / units.rate(rate, "receivers"))
        shared[node] = CARD_BUFFER
    into = np.zeros(n)
    np.maximum.at(into, fabric.target, fabric.capacity)
    with np.errstate(divide="ignore"):
        grant_cost = np.where(into > 0, 65536 * PICO / into, 0.0)
    # A grant stands for payload; headers and gaps pass the port with it.
    grant_cost = grant_cost * settings.on_wire / settings.payload
    return table(
        state.Node,
        n,
        buffer=shared,
        drain=drain,
        grant_first=-1,
        grant_last=-1,
        grant_cost=np.round(grant_cost),
    )


def _paths(
    fabric: Fabric, rows: Routes, back: Ints, splits: bool, settings: Settings
) -> tuple[Table, Table]:
    """Return the rows, and for each entry which rows share the links before it."""
    n_rows = rows.n_rows
    n_entries = rows.link.size
    row = rows_of(rows.ptr)
    same_from = row.astype(np.int64)
    same_to = same_from + 1
    if not splits and n_rows:
        links = rows.padded()
        hop = np.arange(n_entries) - rows.ptr[row]
        # The first row of a group that shares all links so far.
        is_new = _is_first(rows.flow)
        for h in range(links.shape[1]):
            starts = np.flatnonzero(is_new)
            ends = np.append(starts[1:], n_rows)
            group = np.cumsum(is_new) - 1
            here = np.flatnonzero(hop == h)
            same_from[here] = starts[group[row[here]]]
            same_to[here] = ends[group[row[here]]]
            is_new[1:] |= links[1:, h] != links[:-1, h]
    is_last = np.zeros(n_entries, dtype=bool)
    is_last[rows.ptr[1:] - 1] = True
    is_switch = fabric.transit & (fabric.tier > 0)
    goes_through = is_switch[fabric.target[rows.link]] & ~is_last & settings.cut_through
    row_table = table(state.Row, n_rows, first=rows.ptr[:-1], end=rows.ptr[1:], back=back)
    entry_table = table(
        state.Entry,
        n_entries,
        link=rows.link,
        is_last=is_last,
        through=goes_through,
        same_from=same_from,
        same_to=same_to,
        fair_first=-1,
        fair_last=-1,
        fair_next=-1,
    )
    return row_table, entry_table


def _flows(
    flows: Flows,
    conns: dict[str, Ints],
    settings: Settings,
    rng: np.random.Generator | None,
) -> tuple[Table, Ints, list[tuple[int, int]]]:
    """Return the flows, those that wait for others, and the events that start those that wait for nothing."""
    n = flows.n_flows
    count = np.bincount(conns["flow"], minlength=n)
    user = rows_of(flows.after_ptr)[np.argsort(flows.after, kind="stable")].astype(np.int64)
    start = np.round(flows.start * PICO).astype(np.int64)
    if settings.jitter:
        generator = rng if rng is not None else np.random.default_rng(0)
        late = generator.uniform(0.0, float(settings.jitter) * PICO, n)
        start = start + late.astype(np.int64)
    lag = np.round(flows.lag * PICO).astype(np.int64)
    waits = np.diff(flows.after_ptr).astype(np.int64)
    conn_ptr = pointer(count)
    user_ptr = pointer(np.bincount(flows.after, minlength=n))
    rows = table(
        state.Flow,
        n,
        start=start,
        lag=lag,
        waits=waits,
        began=-1,
        finish=-1,
        open=count,
        conn_from=conn_ptr[:-1],
        conn_to=conn_ptr[1:],
        user_from=user_ptr[:-1],
        user_to=user_ptr[1:],
    )
    first = np.flatnonzero(waits == 0)
    begin = np.maximum(start[first], lag[first])
    events = [
        (int(at), (state.START << state.KIND) | (int(f) << state.SUBJECT))
        for at, f in zip(begin, first, strict=True)
    ]
    return rows, np.append(user, 0), events


def _changes(changes: Changes | None) -> tuple[Table, list[tuple[int, int]]]:
    """Return the changes of rates, and their events."""
    if changes is None or not changes.time.size:
        return table(state.Change, 1), []
    events = [
        (_picoseconds(at), (state.CHANGE << state.KIND) | (i << state.SUBJECT))
        for i, at in enumerate(changes.time)
    ]
    return table(
        state.Change, changes.time.size, link=changes.link, cost=cost_of(changes.capacity)
    ), events


def _numbers(
    settings: Settings,
    control: Control,
    balance: Any,
    n_classes: int,
    n_slots: int,
    seed: int,
    telemetry_hops: int,
) -> tuple[Ints, Any]:
    """Return the single whole and real numbers of the engine."""
    whole = np.zeros(state.N_WHOLE, dtype=np.int64)
    whole[state.FREE_SLOT] = -1
    whole[state.FREE_SLOTS] = n_slots
    whole[state.RANDOM] = seed
    whole[state.CLASSES] = n_classes
    whole[state.IN_SWITCH] = int(balance.in_switch)
    whole[state.TELEMETRY] = telemetry_hops

    # Packets.
    whole[state.PAYLOAD] = settings.payload
    whole[state.HEADER] = settings.header
    whole[state.GAP] = settings.gap
    whole[state.TRIM] = int(settings.trim)
    whole[state.TRIM_SIZE] = TRIM_SIZE

    # Acknowledgements and what is missing.
    is_go_back_n = settings.recovery == "go_back_n"
    whole[state.RECOVERY] = state.GO_BACK_N if is_go_back_n else state.SELECTIVE
    whole[state.ACK_EVERY] = settings.ack_every
    whole[state.MARK_GAP] = _picoseconds(control.mark_gap)
    whole[state.TIMEOUT] = _picoseconds(settings.timeout)
    whole[state.RETRIES] = settings.retries
    whole[state.REORDER] = _picoseconds(settings.reorder, unless=-1)

    # Buffers and pauses.
    whole[state.FAIR] = int(settings.fair)
    whole[state.RESERVE] = _bytes(settings.reserve)
    whole[state.XOFF] = _bytes(settings.xoff, unless=-1)
    whole[state.XON_GAP] = _bytes(settings.xon_gap)
    whole[state.PAUSE_SIZE] = PAUSE_FRAME
    whole[state.RESPONSE] = _picoseconds(settings.response)
    whole[state.WATCHDOG] = _picoseconds(settings.watchdog, unless=0)

    # Grants.
    whole[state.RECEIVER] = int(settings.grants)
    whole[state.QUANTUM] = _bytes(settings.quantum)
    whole[state.FIRST_WINDOW] = _bytes(settings.first_window, unless=-1)

    # The end, samples and the log.
    whole[state.UNTIL] = _picoseconds(settings.until, unless=INFINITE)
    whole[state.SAMPLE_GAP] = _picoseconds(settings.sample, unless=0)
    whole[state.LOG_ROOM] = settings.log

    real = np.zeros(state.N_REAL)
    real[state.PAUSE_SHARE] = settings.pause_share
    real[state.DROP_SHARE] = settings.drop_share
    marking = _marking_of(settings, control)
    real[state.MARK_MAX] = marking.most if marking else -1.0
    return whole, real


def _picoseconds(time: Any, unless: int = 0) -> int:
    """Return a time [s] in whole picoseconds, or ``unless`` for None."""
    return unless if time is None else round(float(time) * PICO)


def _bytes(size: Any, unless: int = 0) -> int:
    """Return a size in whole bytes, or ``unless`` for None."""
    return unless if size is None else round(float(size))


def event_room(fabric: Fabric, flows: Flows, n_conns: int, n_slots: int, n_classes: int) -> int:
    """Return for how many events there is room."""
    per_link = 2 + 6 * n_classes
    return (
        2 * flows.n_flows + 4 * n_conns + per_link * fabric.n_links + 3 * n_slots + fabric.n_nodes
    )


def calendar(whole: Ints, room: int, events: list[tuple[int, int]]) -> Table:
    """Return the table of events, with all of them in the heap of the far ones: a sorted list is a heap."""
    whole[state.DAYS] = 0
    whole[state.IN_DAYS] = 0
    whole[state.TODAYS_NOTE] = -1
    whole[state.FREE_NOTE] = -1
    whole[state.NEW_NOTE] = 0
    whole[state.URGENT] = room
    whole[state.URGENT_EVENTS] = 0
    whole[state.FAR] = room + FIRST + room
    whole[state.FAR_EVENTS] = len(events)
    whole[state.EVENTS] = len(events)
    whole[state.EVENT_ROOM] = room
    whole[state.TUNE_AT] = whole[state.HANDLED] + TUNE_EVERY

    first = int(whole[state.FAR]) + FIRST
    rows = table(state.Event, first + room)
    if events:
        times, codes = zip(*sorted(events), strict=True)
        rows["time"][first : first + len(events)] = times
        rows["code"][first : first + len(events)] = codes
    return rows


def pending(events: Table, whole: Ints) -> list[tuple[int, int]]:
    """Return time and code of all events that are still to come."""
    days = whole[state.FIRST_DAY : state.FIRST_DAY + whole[state.DAYS]]
    places = []
    for note in [int(whole[state.TODAYS_NOTE]), *days.tolist()]:
        while note >= 0:
            places.append(note)
            note = int(events["next"][note])
    for heap, n in (
        (whole[state.URGENT], whole[state.URGENT_EVENTS]),
        (whole[state.FAR], whole[state.FAR_EVENTS]),
    ):
        places += range(heap + FIRST, heap + FIRST + n)
    return [(int(events["time"][place]), int(events["code"][place])) for place in places]


def _n_samples(settings: Settings) -> int:
    """Return how many samples are kept."""
    if settings.sample is None:
        return 0
    if settings.until is None:
        return MOST_SAMPLES
    return int(float(settings.until) / float(settings.sample)) + 1


def _watched(settings: Settings, conns: dict[str, Ints], n_classes: int) -> tuple[Ints, Ints]:
    """Return the numbers of the watched queues and connections."""
    links = np.array(settings.watch_links, dtype=np.int64)
    queues = (links[:, None] * n_classes + np.arange(n_classes)).ravel()
    flows = np.array(settings.watch_flows, dtype=np.int64)
    return queues, np.flatnonzero(np.isin(conns["flow"], flows))
