"""A live view of headroom: what is still under way when a switch pauses its sender, and what a smaller memory loses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab.core import PATH, FabricBuilder, Floats, Flows, Ints, Routes, pointer
from fabriclab.engines import packet
from fabriclab.engines.packet.lossless import DELAY_PER_METRE, GAP, PAUSE_FRAME, QUANTUM
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.live.controls import natural
from fabriclab.views.live.queues import bytes_words, view_of
from fabriclab.views.live.waits import part_names
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
)

_GENERATIONS = (100, 200, 400, 800)  # source: rates of Ethernet ports, IEEE 802.3 [Gb/s]
_BITS = 1e9 / 8  # bytes per second in a gigabit per second
_HEADER = packet.Settings().header  # [B]
_BEFORE = 3  # frames that come before the one that reaches the threshold
_BUFFER = 64e6  # illustrative: more than any headroom here [B]
_WINDOW = 1e9  # illustrative: the sender never waits for an acknowledgement [B]
_STORM = 1.0  # illustrative: longer than any run here [s]

# The picture in px.
_WIDTH = 880.0
_SENDER = (20.0, 108.0)
_SWITCH = (772.0, 860.0)
_CABLE = (_SENDER[1] + 6, _SWITCH[0] - 6)
_BOXES = (44.0, 128.0)  # top and foot of both devices
_FORTH = (54.0, 76.0)  # lane of the data
_BACK = (96.0, 118.0)  # lane of the pause
_SCALE = 136.0
_LEFT, _RIGHT = 110.0, 720.0
_SUM = (266.0, 296.0)  # bar of the parts
_OWN = (318.0, 348.0)  # bar of the headroom
_HEIGHT = 384.0
_NARROW = 3.0  # frames of fewer px are drawn as one band
_MOST_CROSSES = 40


@dataclass(frozen=True)
class Cable:
    """A link with pauses: what its headroom depends on."""

    rate: float  # [B/s]
    length: float  # [m]
    frame: int  # longest frame, with headers [B]
    quanta: int  # time in which the sender obeys, in quanta of 512 bits

    @property
    def delay(self) -> float:
        """Time of a bit from one end to the other [s]."""
        return self.length * DELAY_PER_METRE

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the headroom by name [B]: their sum is `fabriclab.engines.packet.headroom`."""
        on_wire = float(self.frame + GAP)
        return {
            "cable": 2 * self.rate * self.delay,
            "response": float(self.quanta * QUANTUM),
            "own": on_wire,
            "peer": on_wire,
            "pause": float(PAUSE_FRAME + GAP),
        }

    @property
    def needed(self) -> float:
        """Headroom that loses nothing [B]."""
        return packet.headroom(self.rate, self.length, frame=self.frame, quanta=self.quanta)

    def frames_after(self, offset: Any) -> Any:
        """Return how many whole frames follow if so many bytes of a frame lie beyond the threshold. [B]."""
        on_wire = self.frame + GAP
        window = self.needed - on_wire  # bytes in which the sender can still begin a frame
        return np.ceil((window - offset - GAP) / on_wire - 1e-9).astype(int)

    @property
    def worst_offset(self) -> int:
        """How many bytes of a frame lie beyond the threshold in the alignment that fills a headroom most [B].

        Whole frames follow the one that reaches the threshold, as long as they begin before the sender stops.
        """
        offset = np.arange(self.frame)
        return int(np.argmax(offset + self.frames_after(offset) * self.frame))

    @property
    def following(self) -> int:
        """How many frames follow in the worst alignment."""
        return int(self.frames_after(np.array(self.worst_offset)))


@dataclass(frozen=True)
class Outcome:
    """What the packet engine says of a headroom in the worst alignment."""

    stored: float  # bytes beyond the threshold that were stored
    lost: int  # frames


def headroom(
    *,
    rate: int = 400,  # source: the NIC of the running case [Gb/s]
    length: float = 100.0,  # illustrative: a cable across a hall [m]
    frame: int = 9216,
    response: int = 60,
    headroom: float = 60.0,
    shown: Sequence[str] = ("rate", "length", "headroom"),
) -> Live:
    """Show what is under way on a cable when a switch pauses the sender, and which headroom stores it all.

    The parts of the sum are those of `fabriclab.engines.packet.headroom`. What is stored and what is lost is played by
    the packet engine: the threshold is reached at the byte of a frame that is worst, at the moment when a longest frame
    has just begun in the other direction. The output of the switch stands still, so nothing leaves. Leaves out the
    delay of the devices at both ends.

    Parameters
    ----------
    rate : int
        Rate of the link: 100, 200, 400 or 800 [Gb/s].
    length : float
        Length of the cable, 1..2000 [m].
    frame : int
        Longest frame, with headers, 512..9216 [B].
    response : int
        Time in which the sender obeys a pause, 0..905 [quanta of 512 bits]: 60 is a vendor's rule of thumb, 905 is what
        IEEE 802.3 allows at 400 Gb/s.
    headroom : float
        Memory that the learner sets aside, 5..2000 [kB].
    shown : sequence of str
        Which of these a reader can set: at most three.

    Examples
    --------
    In a lesson on frames and reaction, at a fixed rate:

    >>> from fabriclab import live
    >>> view = live.headroom(length=10, shown=("frame", "response", "headroom"))
    >>> list(view.controls)
    ['frame', 'response', 'headroom']
    """
    arguments = {
        "rate": rate,
        "length": length,
        "frame": frame,
        "response": response,
        "headroom": headroom,
        "shown": tuple(shown),
    }
    controls: dict[str, Control] = {
        "rate": Choice(_GENERATIONS, names=tuple(str(each) for each in _GENERATIONS)),
        "length": Slider(1.0, 2000.0, unit="m", log=True),
        "frame": Slider(512, 9216, 64),
        "response": Slider(0, 905, unit="quanta"),
        "headroom": Slider(5.0, 2000.0, unit="kB", log=True),
    }
    return view_of("headroom", arguments, headroom_scene, controls, shown)


@lru_cache(maxsize=512)
def outcome(cable: Cable, memory: float) -> Outcome:
    """Play the worst alignment with a headroom [B], and return what is stored and lost.

    Host 0 sends frames back to back to host 1, whose port stands still. Host 2 sends one frame to host 0 that begins
    when the pause is due.
    """
    builder = FabricBuilder(("host", "switch"), ("index",))
    hosts = builder.add_nodes("host", 3, tier=0, transit=False, index=np.arange(3), radix=1)
    switch = builder.add_nodes("switch", 1, tier=1, transit=True, index=np.arange(1), radix=3)
    delays = np.array([cable.delay, 0.0, 0.0])
    builder.add_cables(
        hosts, np.repeat(switch, 3), capacity=np.full(3, cable.rate), delay=delays, medium="fibre"
    )
    fabric = builder.build("headroom", {}, endpoint=hosts, rail=np.zeros(3), server=np.arange(3))

    def link(source: int, target: int) -> int:
        found = np.flatnonzero((fabric.source == source) & (fabric.target == target))
        return int(found[0])

    hub = int(switch[0])
    stalled = link(hub, int(hosts[1]))
    paths = [
        [link(int(hosts[0]), hub), stalled],
        [link(int(hosts[2]), hub), link(hub, int(hosts[0]))],
    ]
    lengths = np.array([len(path) for path in paths])
    routes = Routes(
        ptr=pointer(lengths),
        link=np.concatenate(paths),
        use=np.ones(4),
        flow=np.arange(2, dtype=np.int32),
        share=np.ones(2),
        delay=np.zeros(2),
        kind=np.full(2, PATH, dtype=np.int8),
        adaptive=np.zeros(2, dtype=bool),
    )
    payload = cable.frame - _HEADER
    per_frame = (cable.frame + GAP) / cable.rate  # [s]
    offset = cable.worst_offset
    threshold = (_BEFORE + 1) * cable.frame - offset
    due = (_BEFORE + 1) * per_frame + cable.delay - (offset + GAP) / cable.rate  # [s]
    frames = _BEFORE + 6 + int(np.ceil(max(memory, cable.needed) / cable.frame))
    flows = Flows.make(
        hosts[[0, 2]],
        hosts[[1, 0]],
        [float(frames * payload), float(payload)],
        start=[0.0, max(0.0, due - per_frame)],
    )
    until = due + 4 * (cable.needed / cable.rate + per_frame)
    trace = packet.play(
        fabric,
        routes,
        flows,
        None,
        {
            "payload": payload,
            "header": _HEADER,
            "gap": GAP,
            "xoff": threshold,
            "reserve": 0,
            "headroom": memory,
            "response": cable.quanta * QUANTUM / cable.rate,
            "buffer": _BUFFER,
            "storms": ((stalled, 0.0, _STORM),),
            "control_options": {"window": _WINDOW},
            "timeout": _STORM,
            "until": until,
            "sample": until,
            "watch_links": (stalled,),
        },
    )
    stored = max(0.0, float(trace.queue[-1, 0]) - threshold)
    return Outcome(stored, int(trace.drops.sum()))


def headroom_scene(rate: int, length: float, frame: int, response: int, headroom: float) -> Scene:
    """Return the cable when the pause leaves the switch, the sum of its parts, and the headroom below."""
    cable = Cable(rate * _BITS, float(length), int(frame), int(response))
    memory = headroom * 1e3
    found = outcome(cable, memory)
    worst = outcome(cable, float(np.ceil(cable.needed)))
    said = headroom_words(cable, memory, found, worst)
    return Scene(
        said,
        headroom_table(cable, memory, found, worst),
        {**cable_layers(cable, memory), **sum_layers(cable, memory, found, worst)},
        _HEIGHT,
        alt=said,
        hint=text("live.headroom.hint"),
        width=_WIDTH,
    )


def headroom_words(cable: Cable, memory: float, found: Outcome, worst: Outcome) -> str:
    """Return the finding: how many frames are lost, or what the worst alignment stores."""
    key = "lost" if found.lost else "enough"
    lost = (
        text("live.headroom.one_frame")
        if found.lost == 1
        else text("live.headroom.frames", n=found.lost)
    )
    first = text(
        f"live.headroom.{key}",
        memory=bytes_words(memory),
        lost=lost,
        stored=bytes_words(found.stored),
    )
    rest = text(
        "live.headroom.rest",
        needed=bytes_words(cable.needed),
        cable=bytes_words(cable.parts["cable"]),
        rate=cable.rate * 8 / 1e9,
        length=natural(float(f"{cable.length:.3g}"), "m"),
        frame=cable.frame,
        quanta=cable.quanta,
        worst=bytes_words(worst.stored),
    )
    return f"{first} {rest}"


def headroom_table(cable: Cable, memory: float, found: Outcome, worst: Outcome) -> Table:
    """Return the parts of the sum, the sum, what the engine stored, and the headroom with what it lost."""
    names = [text(f"live.headroom.part_{name}") for name in cable.parts]
    names += [text(f"live.headroom.{name}") for name in ("sum", "engine", "yours", "missing")]
    lost = float(found.lost * cable.frame)
    sizes = [*cable.parts.values(), cable.needed, worst.stored, memory, lost]
    return Table(
        {"what is under way": names, "kilobytes [kB]": np.array(sizes) / 1e3},
        bold=(len(cable.parts),),
    )


# Layers -----------------------------------------------------------------------------------------


class OnCable(NamedTuple):
    """The frames of data on the cable, as the pause leaves the switch."""

    number: Ints  # 0 is the frame that reached the threshold, 1 the one behind it
    left: Floats  # [px]
    right: Floats
    stored: Ints  # headroom that is filled when the frame has come [B]


def cable_layers(cable: Cable, memory: float) -> dict[str, Layer]:
    """Return the cable to scale as the pause leaves the switch: data that come, the pause that goes."""
    lanes = [np.array([[_CABLE[0], y], [_CABLE[1], y]]) for lane in (_FORTH, _BACK) for y in lane]
    frames = frames_on(cable)
    more = cable.following - int(frames.number.max(initial=0))
    return {
        "title": heading(14.0, text("live.headroom.title_cable")),
        "devices": device_boxes(),
        "more": texts(
            sum(_SENDER) / 2,
            _BOXES[0] - 10,
            [
                text(
                    f"live.headroom.{('none_more', 'one_more', 'more')[min(max(more, 0), 2)]}",
                    n=more,
                )
            ],
            align=1.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "lanes": lines(lanes, width=0.8, colour=COLOUR["hair"]),
        **data_layers(cable, frames, memory),
        **pause_layers(cable),
        **metre_layers(cable.length),
    }


def frames_on(cable: Cable) -> OnCable:
    """Return the frames of data that are on the cable when the pause leaves the switch."""
    per_byte = (_CABLE[1] - _CABLE[0]) / (cable.rate * cable.delay)  # [px/B]
    on_wire = cable.frame + GAP
    # Since the pause was due, the frame in its way and the pause itself have passed: so much has come meanwhile.
    gone = on_wire + PAUSE_FRAME + GAP
    ahead = cable.worst_offset - gone  # of the frame that reached the threshold, still to come
    heads = ahead - cable.frame + on_wire * np.arange(0, 2 + int(gone / on_wire) + _fitting(cable))
    ends = heads + cable.frame
    number = np.flatnonzero((ends > 0) & (heads < cable.rate * cable.delay))
    return OnCable(
        number=number,
        left=np.clip(_CABLE[1] - ends[number] * per_byte, *_CABLE),
        right=np.clip(_CABLE[1] - heads[number] * per_byte, *_CABLE),
        stored=cable.worst_offset + cable.frame * number,
    )


def device_boxes() -> Layer:
    """Return the sender and the switch at the ends of the cable."""
    return boxes(
        np.array([_SENDER[0], _SWITCH[0]]),
        _BOXES[0],
        _SENDER[1] - _SENDER[0],
        _BOXES[1] - _BOXES[0],
        colour=np.array([COLOUR["gpu"], COLOUR["node"]]),
        texts=[text("live.headroom.sender"), text("live.headroom.switch")],
        ink=COLOUR["node_ink"],
        round=8.0,
    )


def data_layers(cable: Cable, frames: OnCable, memory: float) -> dict[str, Layer]:
    """Return the frames of data; a frame is lost if the bytes stored with it would be more than the headroom."""
    lost = frames.stored > memory
    wide = frames.right - frames.left
    edge = COLOUR["paper"]
    is_narrow = cable.frame * (_CABLE[1] - _CABLE[0]) < _NARROW * cable.rate * cable.delay
    if is_narrow:
        wide = np.maximum(wide, 0.5)
        edge = COLOUR["queue"]
    names, notes = [], []
    for number, size, is_lost in zip(frames.number, frames.stored, lost, strict=True):
        is_first = number == 0
        names.append(
            text("live.headroom.zero") if is_first else text("live.headroom.number", n=int(number))
        )
        fate = "lost" if is_lost else "stored"
        notes.append(text(f"live.headroom.will_be_{fate}", size=bytes_words(float(size))))
    crosses = np.flatnonzero(lost & (wide > 8))[:_MOST_CROSSES]
    middle = (frames.left + frames.right) / 2
    return {
        "frames": boxes(
            frames.left,
            _FORTH[0] + 2,
            wide,
            _FORTH[1] - _FORTH[0] - 4,
            colour=np.where(lost, COLOUR["paper"], COLOUR["queue"]),
            edge=np.where(lost, COLOUR["lost"], edge),
            round=2.0,
            names=names,
            notes=notes,
        ),
        "crosses": loss_crosses(middle[crosses], sum(_FORTH) / 2),
        "data name": texts(
            _CABLE[0],
            _FORTH[0] - 10,
            [text("live.headroom.data_name")],
            bold=1.0,
            size=11.0,
            colour=COLOUR["queue"],
        ),
    }


def loss_crosses(x: Floats, y: float) -> Layer:
    """Return a cross at each place where a frame is lost."""
    fields = {"size": 4.0, "shape": 2.0, "colour": COLOUR["lost"]}
    return Layer("dots", {"x": x, "y": np.full(x.size, y), **fields})


def pause_layers(cable: Cable) -> dict[str, Layer]:
    """Return the pause on its way back, and before it the frame that it had to wait for."""
    per_byte = (_CABLE[1] - _CABLE[0]) / (cable.rate * cable.delay)  # [px/B]
    pause_left = _CABLE[1] - (PAUSE_FRAME + GAP) * per_byte
    pause_left = max(_CABLE[0], min(pause_left, _CABLE[1] - 6))
    peer_left = max(_CABLE[0], pause_left - cable.frame * per_byte)
    bars = [
        np.array([[x, _BACK[0] + 6], [x, _BACK[1] - 6]]) for x in (pause_left + 2, _CABLE[1] - 2)
    ]
    return {
        "peer": boxes(
            np.array([peer_left]),
            _BACK[0] + 2,
            max(pause_left - peer_left, 1.0),
            _BACK[1] - _BACK[0] - 4,
            colour=COLOUR["hair"],
            edge=COLOUR["edge"],
            round=2.0,
            names=[text("live.headroom.part_own")],
            notes=[text("live.headroom.own_note")],
        ),
        "pause": boxes(
            np.array([pause_left]),
            _BACK[0] + 2,
            np.array([_CABLE[1] - pause_left]),
            _BACK[1] - _BACK[0] - 4,
            colour=COLOUR["paper"],
            edge=COLOUR["paused"],
            round=1.0,
            names=[text("live.headroom.part_pause")],
            notes=[text("live.headroom.pause_note")],
        ),
        "pause bars": lines(bars, width=1.6, colour=COLOUR["paused"]),
        "pause name": texts(
            _CABLE[1],
            _BACK[1] + 9,
            [text("live.headroom.pause_name")],
            align=2.0,
            bold=1.0,
            size=11.0,
            colour=COLOUR["paused"],
        ),
    }


def metre_layers(length: float) -> dict[str, Layer]:
    """Return the scale below the cable [m]."""
    ticks = np.array(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, length))
    ticks = ticks[(ticks >= 0) & (ticks <= length)]
    x = log_axis(0, length, *_CABLE)(ticks)
    axis = np.array([[_CABLE[0], _SCALE + 4], [_CABLE[1], _SCALE + 4]])
    strokes = [np.array([[at, _SCALE + 1], [at, _SCALE + 7]]) for at in x]
    return {
        "metres": texts(
            x, _SCALE + 16, [f"{tick:g} m" for tick in ticks], align=1.0, colour=COLOUR["soft"]
        ),
        "scale": lines([axis, *strokes], width=1.0, colour=COLOUR["edge"]),
    }


def _fitting(cable: Cable) -> int:
    """Return how many frames fit on the cable, rounded up."""
    return int(np.ceil(cable.rate * cable.delay / (cable.frame + GAP)))


def sum_layers(cable: Cable, memory: float, found: Outcome, worst: Outcome) -> dict[str, Layer]:
    """Return the bar of the parts, and below it the headroom, filled as far as the engine filled it."""
    lost = float(found.lost * cable.frame)
    filled = min(found.stored, memory)
    _, most = common_ends("bytes", 0.0, 1.04 * max(cable.needed, memory, filled + lost))
    to_x = log_axis(0, most, _LEFT, _RIGHT)
    ticks = np.array(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(0, most))
    ticks = ticks[(ticks >= 0) & (ticks <= most)]
    own_words = bytes_words(memory)
    if found.lost:
        own_words = text("live.headroom.own_total", size=own_words, lost=found.lost)
    return {
        "sum title": heading(_SCALE + 38, text("live.headroom.title_sum")),
        **tick_layers(ticks, to_x, bytes_words, (_SUM[0] - 4, _OWN[1] + 6), True),
        **part_layers(cable, to_x),
        **own_layers(memory, filled, lost, found, to_x),
        "lanes names": texts(
            _LEFT - 10,
            np.array([sum(_SUM) / 2, sum(_OWN) / 2]),
            [text("live.headroom.sum"), text("live.headroom.yours")],
            align=2.0,
            bold=np.array([0.0, 1.0]),
        ),
        "totals": texts(
            np.array([float(to_x(cable.needed)) + 8, float(to_x(max(memory, filled + lost))) + 8]),
            np.array([sum(_SUM) / 2, sum(_OWN) / 2]),
            [bytes_words(cable.needed), own_words],
            bold=1.0,
            halo=1.0,
        ),
    }


def part_layers(cable: Cable, to_x: Callable[..., Floats]) -> dict[str, Layer]:
    """Return the parts of the sum side by side, the largest in ink, and their names."""
    sizes = np.array(list(cable.parts.values()))  # (5,) [B]
    ends = np.cumsum(sizes)
    start = to_x(ends - sizes)
    wide = np.maximum(to_x(ends) - start, 1.0)
    top = np.full(sizes.size, _SUM[0])
    is_most = sizes == sizes.max()
    in_turn = np.where(np.arange(sizes.size) % 2, COLOUR["edge"], COLOUR["hair"])
    words = [
        f"{text(f'live.headroom.part_{name}')} {bytes_words(size)}"
        for name, size in cable.parts.items()
    ]
    bar = boxes(
        start,
        top,
        wide,
        _SUM[1] - _SUM[0],
        colour=np.where(is_most, COLOUR["ink"], in_turn),
        round=0.0,
        names=words,
        notes=[text(f"live.headroom.{name}_note") for name in cable.parts],
        glide=True,
    )
    one_line = np.zeros(sizes.size, dtype=np.int64)
    return {"sizes": bar, **part_names(words, start + wide / 2, top, one_line, is_most)}


def own_layers(
    memory: float, filled: float, lost: float, found: Outcome, to_x: Callable[..., Floats]
) -> dict[str, Layer]:
    """Return the headroom that the reader set, what it stores, and behind it what is lost. [B]."""
    top, foot = _OWN
    height = foot - top
    lost_from = float(to_x(filled))
    lost_wide = float(to_x(filled + lost)) - lost_from
    stored_wide = max(lost_from - _LEFT, 0.5)
    own_wide = float(to_x(memory)) - _LEFT
    crosses = np.linspace(0, 1, 2 * min(found.lost, _MOST_CROSSES) + 1)[1::2]
    return {
        "stored": boxes(
            np.array([_LEFT]),
            top + 4,
            np.array([stored_wide]),
            height - 8,
            colour=COLOUR["queue"],
            round=0.0,
            names=[text("live.headroom.stored", size=bytes_words(found.stored))],
            glide=True,
        ),
        "lost": boxes(
            np.array([lost_from]),
            top + 4,
            np.array([lost_wide]),
            height - 8,
            colour=COLOUR["paper" if lost else "none"],
            edge=COLOUR["lost" if lost else "none"],
            round=0.0,
            names=[text("live.headroom.frames", n=found.lost)],
        ),
        "lost crosses": loss_crosses(lost_from + lost_wide * crosses, top + height / 2),
        "yours": boxes(
            np.array([_LEFT]),
            top,
            np.array([own_wide]),
            height,
            colour=-1.0,
            edge=COLOUR["ink"],
            round=0.0,
            glide=True,
            ghost=True,
        ),
    }
