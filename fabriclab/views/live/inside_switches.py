"""A live view of one switch: single packets on its cables and in its queues, and what it does when a queue grows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import units
from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.layout import along_curve
from fabriclab.views.live.crossings import (
    ANSWERS,
    LETTERS,
    LIMITS,
    N_SENDERS,
    PACKETS,
    PORT_NAMES,
    PORTS,
    SENDERS,
    STORED,
    VICTIM,
    Crossing,
    Journeys,
    crossed,
)
from fabriclab.views.live.queues import view_of
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
    tick_texts,
)

_FORWARDINGS = ("store", "cut")
_LONGEST = 9000  # illustrative: longer than any run here [ns]
_STEP = 40  # illustrative: half a packet [ns]
_BEAT = 160.0  # illustrative: slow enough to follow a packet by eye [ms]
_NANO = 1e9  # nanoseconds in a second
_SEEN_LOST = 400e-9  # illustrative: how long a lost packet stays in the picture [s]

# The picture in px.
_WIDTH = 880.0
_HEIGHT = 390.0
_HOST = (14.0, 78.0)  # left and right
_LANE = 84.0  # left end of the cables from the senders
_PER_PACKET = 62.0  # length of a packet on a cable
_BOX = 20.0  # height of a packet
_SENDER_ROWS = (58.0, 124.0, 190.0)
_PORT_ROWS = (84.0, 170.0)
_QUEUE = (330.0, 566.0)  # between the store of the inputs and the port
_CELL = 16.0  # longest packet inside the switch
_HEADER_WIDTH = 6.0  # of a packet that was cut: wider than its scale
_HEADER_GAP = 2.5  # beside such a packet on a cable
_CORNER = (3.0, 8.0)  # least and greatest, cut off a marked packet
_CORNER_PART = 0.35  # of the width of the packet
_LETTER = 13.0  # least width of a packet in which its letter fits
_ROOMY = 16.0  # and of a part of one on a cable, where it has room on both sides
_BAR_GAP = 3.0  # between the bars of a pause
_RECEIVER = 74.0  # width
_SWITCH = (28.0, 224.0)  # top and foot
_CHART = (262.0, 314.0)  # top and foot of the queue's curve
_BANDS = (328.0, 342.0, 356.0)  # middles, one for each sender, so far apart that their names are
_BAND = 6.0  # height
_CHART_SIDES = (84.0, 706.0)


def inside_switch(
    *,
    moment: int = 1600,  # illustrative: when a queue has grown [ns]
    answer: str = "pause",
    forwarding: str = "store",
    shown: Sequence[str] = ("moment", "answer", "forwarding"),
) -> Live:
    """Show single packets on their way through one switch, whose port X is asked for more than it can send.

    The switch has little memory and a short delay, so that what it does about that happens within microseconds.

    Hosts 1 and 2 send flows A and B to port X, host 3 sends C to port X and D to port Y, which nobody else uses. Each
    flow has 20 packets, and all begin at once at the rate of a NIC of the running case. The packet engine plays it; a
    moment can be chosen to 40 ns. Cables and packets on them are drawn to one scale.

    Parameters
    ----------
    moment : int
        Time since the flows began, 0..9000 [ns].
    answer : str
        What the switch does when the queue of a port grows: "mark" (ECN, senders with DCTCP), "pause" (PFC), "credit"
        (as InfiniBand does it: a sender sends what the buffer behind its cable has room for), "drop" (senders go back
        to the first missing packet) or "trim" (the header of a packet goes on, ahead of all others, and asks for the
        packet again).
    forwarding : str
        "store": the switch takes a packet in before it sends it on; "cut": it begins as soon as it has the header.
    shown : sequence of str
        Which of the first three arguments a reader can set.
    """
    arguments = {
        "moment": moment,
        "answer": answer,
        "forwarding": forwarding,
        "shown": tuple(shown),
    }
    return view_of("inside_switch", arguments, switch_scene, _controls(), shown)


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    return {
        "moment": Slider(0, _LONGEST, _STEP, unit="ns", play=True, beat=_BEAT),
        "answer": Choice(
            tuple(ANSWERS), names=tuple(text(f"live.inside_switch.{name}") for name in ANSWERS)
        ),
        "forwarding": Choice(
            _FORWARDINGS,
            names=tuple(text(f"live.inside_switch.{name}") for name in _FORWARDINGS),
        ),
    }


# The picture ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where single packets are drawn: boxes (J,), of no width where there is nothing to see. [px]."""

    x: Floats
    y: Floats
    w: Floats


class Lanes(NamedTuple):
    """Ends of the lanes in px."""

    cable_end: float  # of the cables from the senders, where the switch begins
    in_end: float  # where a packet has passed the switch's forwarding
    out: float  # left end of the cables to the receivers
    out_end: float
    per_second: float  # length that a bit travels [px/s]


def lanes_of(run: Crossing) -> Lanes:
    """Return the ends of the lanes, on which cables, forwarding and packets have one scale."""
    per_second = _PER_PACKET / run.packet
    cable_end = _LANE + run.cable * per_second
    in_end = cable_end + run.forwarding * per_second
    out = _QUEUE[1] + _CELL + 12
    return Lanes(cable_end, in_end, out, out + run.cable * per_second, per_second)


def switch_scene(moment: int, answer: str, forwarding: str) -> Scene:
    """Return the packets at a moment, the queue of port X before and after it, and who was stopped."""
    run = crossed(answer, forwarding)
    longest = int(np.ceil(run.end * _NANO / _STEP)) * _STEP
    now = min(moment, longest) / _NANO  # [s]
    lanes = lanes_of(run)
    said = switch_words(run, now, answer, forwarding)
    return Scene(
        said,
        packet_table(run, now),
        {
            **device_layers(run, lanes, now, answer),
            **packet_layers(run, lanes, now),
            **lost_layers(run, now),
            **chart_layers(run, now, answer),
        },
        _HEIGHT,
        alt=f"{said} {setting_words(answer, forwarding)}",
        hint=text(f"live.inside_switch.hint_{answer}"),
        width=_WIDTH,
        limits={"moment": min(longest, _LONGEST)},
    )


def switch_words(run: Crossing, now: float, answer: str, forwarding: str) -> str:
    """Return the finding: who waits at this moment and what happened so far; then what the answer costs flow D."""
    waiting = int(run.waiting_at(now)[0])
    stopped = run.stopped_at(now)
    happens = so_far_words(run, now, answer)
    if stopped:
        how = text(f"live.inside_switch.stopped_{answer}")
        happens = text("live.inside_switch.stand_still", hosts=hosts_words(stopped), how=how)
    return text(
        "live.inside_switch.said",
        time=now,
        x=packets_words(waiting),
        happens=happens,
        slow=float(run.finish[VICTIM] / run.alone[VICTIM]),
        victim=float(run.finish[VICTIM]),
        last=run.end,
    )


def setting_words(answer: str, forwarding: str) -> str:
    """Return what the switch does, for those who do not see the controls."""
    return text(
        "live.inside_switch.setting",
        answer=text(f"live.inside_switch.with_{answer}"),
        forwarding=text(f"live.inside_switch.with_{forwarding}"),
    )


def packets_words(n: int) -> str:
    """Return how many packets wait, such as "1 packet waits"."""
    if n == 0:
        return text("live.inside_switch.no_packet")
    if n == 1:
        return text("live.inside_switch.one_packet")
    return text("live.inside_switch.packets", n=n)


def hosts_words(senders: list[int]) -> str:
    """Return the names of senders, such as "hosts 1 and 3"."""
    if not senders:
        return ""
    numbers = [str(sender + 1) for sender in senders]
    if len(numbers) == 1:
        return text("live.inside_switch.host", n=numbers[0])
    first = ", ".join(numbers[:-1])
    return text("live.inside_switch.hosts", first=first, last=numbers[-1])


def so_far_words(run: Crossing, now: float, answer: str) -> str:
    """Return what the switch has done up to a time [s]: how many packets it has marked, lost or cut."""
    journeys = run.journeys
    if answer == "mark":
        n = int(np.count_nonzero(journeys.is_marked & (journeys.left <= now)))
    elif answer == "drop":
        n = int(np.count_nonzero(journeys.lost <= now))
    elif answer == "trim":
        n = int(np.count_nonzero(journeys.is_cut & (journeys.queued <= now)))
    else:
        n = 0
    return text(f"live.inside_switch.so_far_{answer}", n=n)


def places_in(run: Crossing, lanes: Lanes, now: float) -> Place:
    """Return where packets are on their way into the switch: on a cable, and in its forwarding."""
    journeys = run.journeys
    front = (now - journeys.sent) * lanes.per_second
    tail = front - _PER_PACKET
    lane = lanes.in_end - _LANE
    begins = np.clip(tail, 0, lane)
    ends = np.clip(front, 0, lane)
    is_gone = journeys.lost <= now
    x = _LANE + begins
    w = np.where(is_gone, 0.0, ends - begins)
    y = np.array(_SENDER_ROWS)[journeys.sender]
    return Place(x, y, w)


def places_out(run: Crossing, lanes: Lanes, now: float) -> Place:
    """Return where packets are on the cables to the receivers."""
    journeys = run.journeys
    front = np.nan_to_num((now - journeys.left) * lanes.per_second, nan=-1.0)
    tail, front = apart_from_headers(journeys, front)
    lane = lanes.out_end - lanes.out
    begins = np.clip(tail, 0, lane)
    ends = np.clip(front, 0, lane)
    y = np.array(_PORT_ROWS)[journeys.port]
    return Place(lanes.out + begins, y, ends - begins)


def apart_from_headers(journeys: Journeys, front: Floats) -> tuple[Floats, Floats]:
    """Return tail and front of each packet on its cable (J,), with a gap beside each header. [px].

    A header is drawn wider than its scale, so what follows it gives way.
    """
    front = front.copy()
    tail = front - np.where(journeys.is_cut, _HEADER_WIDTH, _PER_PACKET)
    for port in range(len(_PORT_ROWS)):
        ahead = None
        on_way = np.flatnonzero((journeys.port == port) & (front > 0))
        for j in on_way[np.argsort(-front[on_way], kind="stable")].tolist():
            if ahead is not None and (journeys.is_cut[j] or journeys.is_cut[ahead]):
                front[j] = min(front[j], tail[ahead] - _HEADER_GAP)
                tail[j] = min(tail[j], front[j])
                if journeys.is_cut[j]:
                    tail[j] = front[j] - _HEADER_WIDTH
            ahead = j
    return tail, front


def places_inside(run: Crossing, lanes: Lanes, now: float) -> Place:
    """Return where packets are inside the switch: taken in behind their input, in a queue, or on their way out.

    The part that has come in, or has not gone out yet, is drawn.
    """
    journeys = run.journeys
    reached = journeys.sent + run.cable + run.forwarding
    came_in = np.clip((now - reached) / run.packet, 0.0, 1.0)
    x = np.full(journeys.flow.size, lanes.in_end + 4)
    y = np.array(_SENDER_ROWS)[journeys.sender].astype(np.float64)
    w = _CELL * came_in

    for port, row in enumerate(_PORT_ROWS):
        waiting = queue_at(journeys, port, now)
        cell = cell_width(waiting.size)
        x[waiting] = _QUEUE[1] - cell * (1 + np.arange(waiting.size))
        y[waiting] = row
        w[waiting] = (cell - 1.5) * np.maximum(came_in[waiting], 0.2)

    has_left = journeys.left <= now
    time_out = np.where(journeys.is_cut, _HEADER_WIDTH / lanes.per_second, run.packet)
    went_out = np.clip((now - journeys.left) / time_out, 0.0, 1.0)
    x[has_left] = (_QUEUE[1] + 4 + _CELL * went_out)[has_left]
    y[has_left] = np.array(_PORT_ROWS)[journeys.port][has_left]
    w[has_left] = (_CELL * (1 - went_out))[has_left]
    w[journeys.lost <= now] = 0.0
    is_header = journeys.is_cut & (journeys.queued <= now)
    w[is_header] = np.minimum(w[is_header], _HEADER_WIDTH)
    return Place(x, y, w)


def queue_at(journeys: Journeys, port: int, now: float) -> Ints:
    """Return the packets that wait for a port at a time [s], the next one to leave first: headers go ahead."""
    is_there = (journeys.port == port) & (journeys.queued <= now) & ~(journeys.left <= now)
    found = np.flatnonzero(is_there)
    order = np.lexsort((journeys.queued[found], ~journeys.is_cut[found]))
    return np.asarray(found[order])


def cell_width(n: int) -> float:
    """Return the width of a packet in a queue of n packets. [px]."""
    return float(min(_CELL + 1.5, (_QUEUE[1] - _QUEUE[0]) / max(n, 1)))


# Layers -----------------------------------------------------------------------------------------


def device_layers(run: Crossing, lanes: Lanes, now: float, answer: str) -> dict[str, Layer]:
    """Return senders, switch and receivers with their cables, and what each still has to do."""
    senders = np.array(_SENDER_ROWS)
    ports = np.array(_PORT_ROWS)
    cables = [np.array([[_LANE, y], [lanes.in_end, y]]) for y in senders]
    cables += [np.array([[lanes.out, y], [lanes.out_end, y]]) for y in ports]
    receivers_at = lanes.out_end + 6
    switch_right = _QUEUE[1] + _CELL + 8
    top, foot = _SWITCH
    half = _BOX / 2 + 4
    return {
        "switch": boxes(
            lanes.cable_end,
            top,
            switch_right - lanes.cable_end,
            foot - top,
            colour=COLOUR["sunk"],
            edge=COLOUR["edge"],
            round=8.0,
        ),
        "cables": lines(cables, width=1.0, colour=COLOUR["hair"]),
        "crossing": lines(crossing_paths(lanes), width=0.8, colour=COLOUR["hair"]),
        "hosts": boxes(
            np.concatenate([np.full(N_SENDERS, _HOST[0]), np.full(ports.size, receivers_at)]),
            np.concatenate([senders, ports]) - half,
            np.concatenate(
                [np.full(N_SENDERS, _HOST[1] - _HOST[0]), np.full(ports.size, _RECEIVER)]
            ),
            2 * half,
            colour=COLOUR["host"],
            texts=host_names(),
            ink=COLOUR["paper"],
        ),
        "to send": texts(
            _HOST[0] + 2,
            senders + half + 10,
            to_send_words(run, now),
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "received": texts(
            receivers_at + 2,
            ports + half + 10,
            received_words(run, now),
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "queue names": texts(
            _QUEUE[1] + _CELL,
            ports - half - 8,
            queue_words(run, now),
            align=2.0,
            bold=1.0,
            colour=COLOUR["queue"],
        ),
        "switch name": texts(
            lanes.cable_end + 8, top + 12, [text("live.inside_switch.switch")], bold=1.0
        ),
        **stop_layers(run.stopped_at(now), answer),
    }


def crossing_paths(lanes: Lanes) -> list[Floats]:
    """Return a line from each input through each queue to which it sends, to the cable behind it."""
    start, end = lanes.in_end + _CELL + 6, _QUEUE[0]
    along = along_curve(17)
    eased = along * along * (3 - 2 * along)
    paths = []
    for sender, port in sorted(set(zip(SENDERS, PORTS, strict=True))):
        y0, y1 = _SENDER_ROWS[sender], _PORT_ROWS[port]
        bend = np.stack([start + (end - start) * along, y0 + (y1 - y0) * eased], axis=1)
        paths.append(np.concatenate([[[lanes.in_end, y0]], bend, [[lanes.out, y1]]]))
    return paths


def host_names() -> list[str]:
    """Return the names of senders and receivers."""
    names = [text("live.inside_switch.host", n=n + 1) for n in range(N_SENDERS)]
    names += [text("live.inside_switch.receiver", port=port) for port in PORT_NAMES]
    return names


def to_send_words(run: Crossing, now: float) -> list[str]:
    """Return for each sender how many packets it has not begun to send for the first time."""
    journeys = run.journeys
    words = []
    for sender in range(N_SENDERS):
        total = PACKETS * SENDERS.count(sender)
        is_sent = (journeys.sender == sender) & (journeys.sent <= now) & ~journeys.is_again
        words.append(text("live.inside_switch.to_send", n=total - int(np.count_nonzero(is_sent))))
    return words


def received_words(run: Crossing, now: float) -> list[str]:
    """Return for each receiver how many packets have come, by flow; headers and second copies do not count."""
    journeys = run.journeys
    has_come = (journeys.came <= now) & ~journeys.is_cut
    words: list[list[str]] = [[] for _ in PORT_NAMES]
    for flow, letter in enumerate(LETTERS):
        n = np.unique(journeys.number[has_come & (journeys.flow == flow)]).size
        words[PORTS[flow]].append(f"{letter} {n}")
    return [text("live.inside_switch.arrived", flows=", ".join(parts)) for parts in words]


def queue_words(run: Crossing, now: float) -> list[str]:
    """Return the name of each port and the number of packets that wait for it."""
    waiting = run.waiting_at(now).tolist()
    return [
        text("live.inside_switch.queue", port=port, packets=packets_words(n))
        for port, n in zip(PORT_NAMES, waiting, strict=True)
    ]


def stop_layers(stopped: list[int], answer: str) -> dict[str, Layer]:
    """Return the sign of a pause, an open square with two bars, above the cable of each sender that is stopped."""
    middle = np.array([_SENDER_ROWS[sender] for sender in stopped]) - _BOX / 2 - 13
    left = _LANE + 2
    side = 12.0
    bars = []
    for y in middle:
        for x in (left + 4, left + 8):
            bars.append(np.array([[x, y - 3], [x, y + 3]]))
    return {
        "stops": boxes(
            np.full(middle.size, left),
            middle - side / 2,
            side,
            side,
            colour=COLOUR["paper"],
            edge=COLOUR["paused"],
            round=1.0,
        ),
        "stop bars": lines(bars, width=1.6, colour=COLOUR["paused"]),
        "stop words": texts(
            left + side + 5,
            middle,
            [text(f"live.inside_switch.stopped_{answer}") for _ in stopped],
            bold=1.0,
            size=11.0,
            colour=COLOUR["paused"],
        ),
    }


def packet_layers(run: Crossing, lanes: Lanes, now: float) -> dict[str, Layer]:
    """Return each packet as a box with the letter of its flow, and the corner of a marked one cut off."""
    journeys = run.journeys
    every = np.array([LETTERS[flow] for flow in journeys.flow])
    is_header = journeys.is_cut & (journeys.queued <= now)
    high = np.where(is_header, _BOX / 2, _BOX)
    is_marked = journeys.is_marked & (journeys.left <= now)
    colour = np.where(is_marked, COLOUR["marked"], COLOUR["queue"])
    layers = {}
    parts = {
        "coming": places_in(run, lanes, now),
        "inside": places_inside(run, lanes, now),
        "leaving": places_out(run, lanes, now),
    }
    widest = np.max([place.w for place in parts.values()], axis=0)
    for name, place in parts.items():
        # The rest of a packet that is too narrow for its letter is left out if more of it is seen elsewhere.
        is_rest = (place.w < _LETTER) & (place.w < widest) & ~is_header
        place = parts[name] = place._replace(w=np.where(is_rest, 0.0, place.w))
        layers[name] = boxes(
            place.x,
            place.y - high / 2,
            place.w,
            high,
            colour=colour,
            edge=np.where(journeys.is_again & (place.w > 0), COLOUR["ink"], COLOUR["none"]),
            round=2.0,
            texts=np.where(place.w < (_LETTER if name == "inside" else _ROOMY), "", every).tolist(),
            ink=COLOUR["paper"],
            glide=True,
        )
    corners = []
    for part in ("inside", "leaving"):
        place = parts[part]
        right = place.x + place.w
        top = place.y - _BOX / 2
        cut = np.minimum(_CORNER_PART * place.w, _CORNER[1])  # above the letter
        for j in np.flatnonzero(is_marked & (cut >= _CORNER[0])):
            ends = [[right[j] - cut[j], top[j] - 1], [right[j] + 1, top[j] + cut[j]]]
            corners.append(np.array(ends))
    layers["corners"] = lines(corners, width=3.0, colour=COLOUR["paper"])
    layers["seen"] = seen_layer(run, parts, now)
    return layers


def seen_layer(run: Crossing, parts: Mapping[str, Place], now: float) -> Layer:
    """Return the packets that a reader can visit, each once, where most of it is seen."""
    found = under_way(run, now)
    widest = np.argmax([place.w[found] for place in parts.values()], axis=0)
    every = list(parts.values())
    x = [every[part].x[j] for part, j in zip(widest, found, strict=True)]
    y = [every[part].y[j] - _BOX / 2 for part, j in zip(widest, found, strict=True)]
    w = [every[part].w[j] for part, j in zip(widest, found, strict=True)]
    return boxes(
        np.array(x),
        np.array(y),
        np.maximum(w, 1.0),
        np.full(found.size, _BOX),
        colour=COLOUR["none"],
        names=[packet_name(run.journeys, j) for j in found],
        notes=[
            ", ".join(filter(None, [place_words(run, j, now), state_words(run, j, now)]))
            for j in found
        ],
    )


def under_way(run: Crossing, now: float) -> Ints:
    """Return the packets that are between their sender and their receiver at a time [s]."""
    journeys = run.journeys
    is_sent = journeys.sent < now
    is_over = (journeys.came <= now) | (journeys.lost <= now)
    return np.flatnonzero(is_sent & ~is_over)


def packet_name(journeys: Journeys, j: int) -> str:
    """Return the name of a packet, such as "A 5"."""
    return f"{LETTERS[journeys.flow[j]]} {journeys.number[j] + 1}"


def place_words(run: Crossing, j: int, now: float) -> str:
    """Return where a packet is."""
    journeys = run.journeys
    port = PORT_NAMES[journeys.port[j]]
    if journeys.left[j] <= now:
        return text("live.inside_switch.at_out", port=port)
    if journeys.queued[j] <= now:
        place = queue_at(journeys, int(journeys.port[j]), now).tolist().index(j)
        return text("live.inside_switch.at_queue", port=port, n=place + 1)
    if journeys.sent[j] + run.cable <= now:
        return text("live.inside_switch.at_input", n=journeys.sender[j] + 1)
    return text("live.inside_switch.at_cable", n=journeys.sender[j] + 1)


def state_words(run: Crossing, j: int, now: float) -> str:
    """Return what has happened to a packet: marked, cut to its header, sent again; empty if nothing."""
    journeys = run.journeys
    words = []
    if journeys.is_marked[j] and journeys.left[j] <= now:
        words.append(text("live.inside_switch.is_marked"))
    if journeys.is_cut[j] and journeys.queued[j] <= now:
        words.append(text("live.inside_switch.is_cut"))
    if journeys.is_again[j]:
        words.append(text("live.inside_switch.is_again"))
    return ", ".join(words)


def packet_table(run: Crossing, now: float) -> Table:
    """Return a row for each packet under way: where it is and what has happened to it."""
    found = under_way(run, now).tolist()
    if not found:
        return Table({"packet": ["-"], "where": [text("live.inside_switch.nowhere")]})
    return Table(
        {
            "packet": [packet_name(run.journeys, j) for j in found],
            "where": [place_words(run, j, now) for j in found],
            "state": [state_words(run, j, now) or "-" for j in found],
            "sent at [s]": run.journeys.sent[found],
        },
        apart=("sent at [s]",),
    )


def lost_layers(run: Crossing, now: float) -> dict[str, Layer]:
    """Return what was lost a moment ago: an empty dashed square with a cross, below the full queue."""
    journeys = run.journeys
    recent = np.flatnonzero((journeys.lost <= now) & (journeys.lost > now - _SEEN_LOST))
    squares = []
    x = np.zeros(recent.size)
    y = np.zeros(recent.size)
    half = _CELL / 2
    for place, j in enumerate(recent.tolist()):
        x[place] = _QUEUE[0] + (_CELL + 4) * place + half
        y[place] = _PORT_ROWS[journeys.port[j]] + _BOX / 2 + 14
        corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * half
        squares.append(corners + np.array([x[place], y[place]]))
    return {
        "lost squares": lines(squares, width=1.2, dash=4.0, colour=COLOUR["lost"]),
        "lost": Layer(
            "dots", {"x": x, "y": y, "size": 4.0, "shape": 2.0, "colour": COLOUR["lost"]}
        ),
        "lost letters": texts(
            x,
            y + half + 8,
            [LETTERS[flow] for flow in journeys.flow[recent]],
            align=1.0,
            size=11.0,
            colour=COLOUR["lost"],
        ),
    }


def chart_layers(run: Crossing, now: float, answer: str) -> dict[str, Layer]:
    """Return the queue of port X over the whole run with the moment, and below it what the switch did to whom."""
    _, end = common_ends("time", 0.0, run.end)
    limit = LIMITS.get(answer, 0) / STORED
    _, top = common_ends("packets", 0.0, 1.08 * max(float(run.waiting[:, 0].max()), limit))
    to_x = log_axis(0, end, *_CHART_SIDES)
    to_y = log_axis(0, top, _CHART[1], _CHART[0])
    steps = np.repeat(np.append(run.times, run.end), 2)[1:-1]
    levels = np.repeat(run.waiting[:, 0], 2)
    curve = np.stack([to_x(steps), to_y(levels)], axis=1)
    ticks = np.array(MaxNLocator(3, integer=True).tick_values(0, top))
    ticks = ticks[(ticks >= 0) & (ticks <= top)]
    grid = tick_layers(ticks, to_y, lambda n: f"{n:.0f}", _CHART_SIDES, False)
    places = np.array(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end))
    places = places[(places >= 0) & (places <= end)]
    x = float(to_x(now))
    foot = _BANDS[-1] + _BAND
    layers = {
        "chart title": heading(_CHART[0] - 14, text("live.inside_switch.chart")),
        "y grid": grid["y grid"],
        "y ticks": grid["y ticks"],
        "queue": lines([curve], width=1.8, colour=COLOUR["queue"], area=float(_CHART[1])),
        "x ticks": texts(
            to_x(places),
            foot + 11,
            tick_texts(places, units.format_time),
            align=1.0,
            colour=COLOUR["soft"],
        ),
        "moment": lines([np.array([[x, _CHART[0] - 4], [x, foot]])], width=1.4),
        "moment dot": Layer(
            "dots", {"x": np.array([x]), "y": to_y(run.waiting_at(now)[:1]), "size": 4.0}
        ),
        **band_layers(run, to_x, answer),
    }
    if limit:
        y = float(to_y(limit))
        across = np.array([[_CHART_SIDES[0], y], [_CHART_SIDES[1], y]])
        layers["limit"] = lines([across], width=1.2, dash=2.0, colour=COLOUR["soft"])
        layers["limit name"] = texts(
            _CHART_SIDES[1] + 8,
            y,
            [text(f"live.inside_switch.limit_{answer}", n=round(limit))],
            colour=COLOUR["soft"],
        )
    return layers


def band_layers(run: Crossing, to_x: Any, answer: str) -> dict[str, Layer]:
    """Return a row for each sender: when it was stopped, or when packets of it were marked, lost or cut."""
    role = {"mark": "marked", "drop": "lost", "trim": "soft"}.get(answer, "paused")
    strokes = []
    for sender, middle in enumerate(_BANDS):
        for x in event_places(run, sender, to_x, answer):
            strokes.append(np.array([[x, middle - _BAND / 2], [x, middle + _BAND / 2]]))
    feet = [np.array([[_CHART_SIDES[0], y], [_CHART_SIDES[1], y]]) for y in _BANDS]
    return {
        "band feet": lines(feet, width=0.8, colour=COLOUR["line"]),
        "bands": lines(strokes, width=1.4, colour=COLOUR[role]),
        "band names": texts(
            _CHART_SIDES[0] - 6,
            np.array(_BANDS),
            [text("live.inside_switch.host", n=n + 1) for n in range(N_SENDERS)],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "band role": texts(
            _CHART_SIDES[1] + 8,
            _BANDS[1],
            [text(f"live.inside_switch.band_{answer}")],
            bold=1.0,
            colour=COLOUR[role],
        ),
    }


def event_places(run: Crossing, sender: int, to_x: Any, answer: str) -> Floats:
    """Return where a row of a sender has strokes: several in each stop, one for each packet marked, lost or cut."""
    journeys = run.journeys
    is_mine = journeys.sender == sender
    if answer == "mark":
        return np.asarray(to_x(journeys.left[is_mine & journeys.is_marked]))
    if answer == "drop":
        return np.asarray(to_x(journeys.lost[is_mine & np.isfinite(journeys.lost)]))
    if answer == "trim":
        return np.asarray(to_x(journeys.queued[is_mine & journeys.is_cut]))
    places = [np.zeros(0)]
    for begin, end in run.stops[sender]:
        left, right = float(to_x(begin)), float(to_x(end))
        places.append(np.arange(left + 1, max(right, left + 2), _BAR_GAP))
    return np.concatenate(places)
