"""Live views of in-network reduction: packets in a switch, its pool, integer sums, trees of jobs, when it pays."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import topologies, units
from fabriclab.core import Fabric, Floats, Result
from fabriclab.errors import OutOfSlots
from fabriclab.innetwork import MULTICAST, REPLY, Switch, trees
from fabriclab.innetwork.aggregation import LARGEST, Aggregator, Worker
from fabriclab.innetwork.compare import HOSTS, Way, compare, program
from fabriclab.innetwork.quantisation import block_scale, dequantise, error_bound, quantise
from fabriclab.texts import text
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import counted, number_in, spoken_names
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    boxes,
    ink_on,
    lines,
    texts,
    texts_at,
)
from fabriclab.views.sweeps import binary_size, curve, sweep_scene

# Packets by worker and chunk; "-": lost on the way to the switch, "/A": the answer to A is lost.
_STORIES = {
    "all well": "A0 B0 A1 B1 A2 B2 A3 B3",
    "a packet is lost": "A0- B0 B0 A0 A1 B1 A2 B2",
    "a result is lost": "A0 B0/A B1 A0 A1 A2 B2 A3",
    "a packet comes twice": "A0 A0 B0 A1 B1 A2 B2 A3",
    "a copy comes late": "A0 B0 A1 B1 A0 B2 A2 B3",
}
_PACKETS = 8  # of each story
_WORKERS = "AB"
_PARTS = ("seen", "left", "sums")  # parts of a slot, with two cells each

# The picture of packets, in px: a worker on each side of the switch, whose registers are rows of two cells.
_WIDTH, _HEIGHT = 590.0, 300.0
_WORKER = (92.0, 64.0)  # width and height
_WORKER_LEFT = (10.0, _WIDTH - 102.0)
_MIDDLE = _HEIGHT / 2
_SWITCH = (180.0, 22.0, 230.0, 256.0)  # left, top, width, height
_REGISTER_TOP = 90.0
_REGISTER_STEP = 73.0
_CELL_LEFT = np.array([216.0, 300.0])
_CELL_WIDTH = 74.0
_CELL_HEIGHT = 28.0
_PACKET = (34.0, 18.0)  # width and height
_LANE = 18.0  # packets go above the middle of a link, answers below it
_STORY_WIDTH = 326.0
_STORY_TOP = 44.0
_STORY_STEP = 29.0

_LINK = 12.5e9  # illustrative: a link of 100 Gb/s
_HOSTS = 16
_MOST_SLOTS = 1024  # illustrative: end of the slider of a pool
_VALUES = 256  # values of a block
_SMALLEST = -LARGEST - 1  # the smallest integer of 32 bits


# Packets in a switch ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """A packet that a worker sends to the switch, and what the network does to it."""

    worker: int  # index in `_WORKERS`
    chunk: int
    is_lost: bool  # lost before it reaches the switch
    answer_is_lost: bool  # whether the switch's answer to one worker is lost

    @property
    def name(self) -> str:
        """The worker and the chunk in words, such as "A 0"."""
        return f"{_WORKERS[self.worker]} {self.chunk}"

    @property
    def right_sum(self) -> int:
        """Correct sum of this chunk over both workers: A adds 1, 2, 3 and 4, and B ten times as much."""
        return 11 * (self.chunk + 1)


@dataclass(frozen=True, slots=True)
class PacketStep:
    """A packet of a story, with what the switch did and the contents of its slot before and after."""

    event: StoryEvent
    before: list[str]  # contents of the slot's cells
    after: list[str]
    action: str  # what the switch did, in words
    kind: str  # lost, added, nothing, sum (to both), or again (to the sender)
    result: int  # the sum in the answer; 0: no answer
    is_wrong: bool  # whether the switch gave out a wrong sum
    is_double: bool  # whether the switch added it although it had added the same packet before

    @property
    def is_bad(self) -> bool:
        """Whether the switch made a mistake with this packet."""
        return self.is_wrong or self.is_double


@dataclass(frozen=True, slots=True)
class PlayedStory:
    """The packets of a story up to the present step."""

    steps: list[PacketStep]
    stages: dict[str, int]  # register -> its stage in the pipeline
    start: list[str]  # contents of the slot's cells before the first packet

    @property
    def names(self) -> list[str]:
        """The worker and the chunk of each packet, in words."""
        return [step.event.name for step in self.steps]

    @property
    def actions(self) -> list[str]:
        """What the switch did with each packet."""
        return [step.action for step in self.steps]


def packets(
    recognise: Any = None, *, keeps: str = "last chunks", story: str = "all well", step: int = 0
) -> Live:
    """Step through the packets of two workers: what each of them changes in the registers of a switch's slot.

    Worker A adds 1, 2, 3 and 4 in its chunks, and B adds 10, 20, 30 and 40. Even chunks use version 0 of the slot, odd
    ones version 1. The story fixes the order of the packets, whatever the switch answers.

    Parameters
    ----------
    recognise : callable, optional
        The learner's own version of ``recognise`` of `fabriclab.innetwork.aggregation.Aggregator`, shown as "yours".
    keeps : str
        What the switch remembers about who has sent: "last chunks", "bitmaps" as published, or "yours".
    story : str
        What the network does: all well, a packet is lost, a result is lost, a packet comes twice, or a copy comes late.
    step : int
        Number of packets that have been sent, 0..8.
    """
    arguments = {"recognise": recognise, "keeps": keeps, "story": story, "step": step}
    kinds = ["last chunks", "bitmaps"]
    if recognise is not None:
        kinds.insert(0, "yours")
    controls: dict[str, Control] = {
        "keeps": Choice(tuple(kinds)),
        "story": Choice(tuple(_STORIES)),
        "step": Slider(0, _PACKETS, play=True),
    }
    scene = partial(packets_scene, recognise)
    return live_view("packets", arguments, scene, controls, held=("recognise",), room=1)


def packets_scene(recognise: Any, keeps: str, story: str, step: int) -> Scene:
    """Return a picture of a story after ``step`` packets: workers, switch and registers, and beside it all packets."""
    aggregator = Aggregator(2, 1, lanes=1, published=keeps == "bitmaps")
    if keeps == "yours":
        aggregator.recognise = recognise  # type: ignore[method-assign]
    events = story_events(story)
    played = play(aggregator, events[:step])
    steps = played.steps

    errors = sum(one.is_wrong for one in steps)
    which = "several" if errors > 1 else ("none", "one")[errors]
    if not errors and any(one.is_bad for one in steps):  # a packet is in a sum twice
        which = "none_yet"
    wrong = text(f"live.packets.{which}", n=errors)
    caption = text("live.packets.said", step=step, all=_PACKETS, wrong=wrong)
    if steps:
        last = steps[-1]
        caption += " " + text("live.packets.last", who=last.event.name, what=last.action)
    layers = {
        **machine_layers(played, keeps),
        "lanes": lane_layer(played),
        **cell_layers(played),
        **sign_layers(played),
        "movers": packet_movers(played),
    }
    setting = text("live.packets.setting", keeps=keeps, story=story)
    return Scene(
        said=caption,
        table=packets_table(played) if steps else None,
        layers=layers,
        height=_HEIGHT,
        width=_WIDTH,
        alt=f"{setting} {caption} {'; '.join(played.actions)}",
        moves=len(steps) > 0,
        side=story_panel(events, played),
    )


def story_events(story: str) -> list[StoryEvent]:
    """Return the packets of a story in their order."""
    events = []
    for code in _STORIES[story].split():
        event = StoryEvent(
            worker=_WORKERS.index(code[0]),
            chunk=int(code[1]),
            is_lost=code[2:] == "-",
            answer_is_lost="/" in code,
        )
        events.append(event)
    return events


def play(aggregator: Aggregator, events: list[StoryEvent]) -> PlayedStory:
    """Return what a switch does with the packets of two workers that reach it one after the other."""
    switch = Switch(aggregator)
    # Worker A adds 1, 2, 3 and 4 in its chunks, B adds 10, 20, 30 and 40.
    numbers = np.arange(1, 5)[:, None]
    workers = [Worker(place, 10**place * numbers, 1) for place in range(len(_WORKERS))]

    steps = []
    arrived: set[str] = set()  # packets that have reached the switch
    start = slot_cells(switch)
    after = start
    for event in events:
        before = after
        packet = workers[event.worker].packet(event.chunk)
        outcome = None if event.is_lost else switch.one(*packet)
        after = slot_cells(switch)

        result = 0  # the sum in the answer; 0: the switch gives out no sum
        if outcome and outcome.action in (MULTICAST, REPLY):
            result = int(outcome.payload[0])
            kind = "sum" if outcome.action == MULTICAST else "again"
        elif outcome is None:
            kind = "lost"
        elif after != before:
            kind = "added"
        else:
            kind = "nothing"

        is_wrong = result not in (0, event.right_sum)
        is_double = kind == "added" and event.name in arrived
        if outcome is not None:
            arrived.add(event.name)
        action = text(f"live.packets.{kind}", value=result)
        if is_wrong:
            action += text("live.packets.wrong", right=event.right_sum)
        if is_double:
            action += text("live.packets.twice")
        if event.answer_is_lost:
            action += text("live.packets.missed")
        steps.append(PacketStep(event, before, after, action, kind, result, is_wrong, is_double))
    stages = {register.name: register.stage for register in switch.accessed}
    return PlayedStory(steps, stages, start)


def slot_cells(switch: Switch) -> list[str]:
    """Return the contents of slot 0: two cells on who has sent, two on how many are still missing, and two sums."""
    state = switch.state
    apart = state["left_a"].size // 2  # distance between versions, and between workers
    if "seen_b" in state:
        seen = [workers_in(state[f"seen_{version}"][0]) for version in "ab"]
    elif "seen_a" in state:
        seen = [last_chunk(value) for value in state["seen_a"][: 2 * apart : apart].tolist()]
    else:
        seen = [text("live.packets.not_kept")] * 2
    left = [str(number) for number in state["left_a"][::apart].tolist()]
    sums = [str(number) for number in state["sums_a"][::apart, 0].tolist()]
    return [*seen, *left, *sums]


def workers_in(bitmap: int) -> str:
    """Return the names of the workers whose bits are set, such as "AB"."""
    return "".join(worker for bit, worker in enumerate(_WORKERS) if bitmap >> bit & 1)


def last_chunk(value: int) -> str:
    """Return the number of the last chunk from the value of a register, which is one more, or 0 for no chunk yet."""
    return str(value - 1) if value else ""


def machine_layers(played: PlayedStory, keeps: str) -> dict[str, Layer]:
    """Return both workers, the links, the switch, and the names of its registers and of their cells."""
    width, height = _WORKER
    left, top, wide, tall = _SWITCH
    ends = [(_WORKER_LEFT[0] + width, left), (left + wide, _WORKER_LEFT[1])]
    links = []
    for start, end in ends:
        for lane in (-_LANE, _LANE):
            links.append(np.array([[start, _MIDDLE + lane], [end, _MIDDLE + lane]]))
    y = _REGISTER_TOP + _REGISTER_STEP * np.arange(3)
    heads = []
    for part in _PARTS:
        stage = played.stages.get(part)
        kind = part if stage is not None else f"{part}_plain"
        heads.append(text(f"live.packets.{kind}", stage=stage))
    versions = [text("live.packets.version", v=v) for v in range(2)]
    workers = [text("live.packets.worker", w=worker) for worker in _WORKERS]
    below = [*(versions if keeps == "bitmaps" else workers), *versions, *versions]
    middle = np.tile(_CELL_LEFT + _CELL_WIDTH / 2, 3)
    return {
        "links": lines(links, width=0.8, colour=COLOUR["hair"]),
        "workers": boxes(
            _WORKER_LEFT,
            _MIDDLE - height / 2,
            width,
            height,
            colour=COLOUR["paper"],
            edge=COLOUR["edge"],
            round=6.0,
            texts=workers,
            ink=COLOUR["ink"],
        ),
        "switch": boxes(
            left, top, wide, tall, colour=COLOUR["domain"], edge=COLOUR["switch"], round=8.0
        ),
        "switch name": texts(
            left + wide / 2, [top + 15.0], [text("live.packets.switch")], align=1.0, bold=1.0
        ),
        "heads": texts(left + wide / 2, y - 28, heads, align=1.0, bold=1.0, size=11.0),
        "versions": texts(
            middle, np.repeat(y + 14, 2) + 8, below, align=1.0, size=11.0, colour=COLOUR["soft"]
        ),
    }


def hue_of(step: PacketStep) -> float:
    """Return the colour of an answer: in ink, or the colour of wrong answers if the switch made a mistake."""
    return COLOUR["wrong"] if step.is_bad else COLOUR["ink"]


def packet_hue(step: PacketStep) -> float:
    """Return the colour of a packet on its way to the switch."""
    return COLOUR["wrong"] if step.is_double else COLOUR["queue"]


def lane_paths(step: PacketStep) -> tuple[list[Floats], list[Floats]]:
    """Return the way of a packet to the switch, and of the answers from there, each as lines of two points."""
    inner = (_SWITCH[0], _SWITCH[0] + _SWITCH[2])
    outer = (_WORKER_LEFT[0] + _WORKER[0], _WORKER_LEFT[1])
    who = step.event.worker
    arrives = inner[who]
    if step.kind == "lost":
        arrives = (inner[who] + outer[who]) / 2
    there = [np.array([[outer[who], _MIDDLE - _LANE], [arrives, _MIDDLE - _LANE]])]
    back = []
    for other in receivers_of(step):
        end = outer[other]
        if step.event.answer_is_lost and other == 0:  # the answer to worker A
            end = (inner[other] + outer[other]) / 2
        back.append(np.array([[inner[other], _MIDDLE + _LANE], [end, _MIDDLE + _LANE]]))
    return there, back


def receivers_of(step: PacketStep) -> list[int]:
    """Return to which workers the switch answers."""
    if step.kind == "sum":
        return [0, 1]
    return [step.event.worker] if step.kind == "again" else []


def lane_layer(played: PlayedStory) -> Layer:
    """Return the links that the last packet and its answers used."""
    if not played.steps:
        return lines([])
    step = played.steps[-1]
    there, back = lane_paths(step)
    colours = [packet_hue(step)] * len(there) + [hue_of(step)] * len(back)
    return lines(there + back, width=2.5, colour=np.array(colours), alpha=0.6)


def cell_layers(played: PlayedStory) -> dict[str, Layer]:
    """Return the registers of the slot; cells that the last packet changed have a frame in ink."""
    contents = played.steps[-1].after if played.steps else played.start
    before = played.steps[-1].before if played.steps else played.start
    changed = np.array([now != then for now, then in zip(contents, before, strict=True)])
    y = np.repeat(_REGISTER_TOP + _REGISTER_STEP * np.arange(3), 2) - 14
    names = []
    for part in _PARTS:
        names += [text(f"live.packets.{part}_plain")] * 2
    return {
        "cells": boxes(
            np.tile(_CELL_LEFT, 3),
            y,
            _CELL_WIDTH,
            _CELL_HEIGHT,
            colour=COLOUR["paper"],
            edge=np.where(changed, COLOUR["ink"], COLOUR["hair"]),
            texts=contents,
            ink=COLOUR["ink"],
            names=names,
            notes=contents,
            late=True,
        )
    }


def sign_layers(played: PlayedStory) -> dict[str, Layer]:
    """Return what the last packet and its answers carried, beside their links, with a cross where one is lost."""
    if not played.steps:
        return {"carried": texts_at(), "lost": Layer("dots", {"x": np.empty(0), "y": np.empty(0)})}
    step = played.steps[-1]
    there, back = lane_paths(step)
    labels = []
    lost = []
    for path in there:
        sign = "\u2715 " if step.is_double else ""
        name = f"{sign}{step.event.name}"
        labels.append((float(path[:, 0].mean()), _MIDDLE - _LANE - 14, name, 1))
        if step.kind == "lost":
            lost.append(path[-1])
    for path, receiver in zip(back, receivers_of(step), strict=True):
        sign = " \u2715" if step.is_wrong else ""  # before the number it would look like a factor
        labels.append((float(path[:, 0].mean()), _MIDDLE + _LANE + 14, f"{step.result}{sign}", 1))
        if step.event.answer_is_lost and receiver == 0:
            lost.append(path[-1])
    crosses = np.array(lost).reshape(-1, 2)
    first = COLOUR["wrong"] if step.is_double else COLOUR["ink"]
    colours = [first] * len(there) + [hue_of(step)] * len(back)
    carried = texts_at(*labels)
    return {
        "carried": Layer("texts", {**carried.fields, "bold": 1.0, "colour": np.array(colours)}),
        "lost": Layer(
            "dots",
            {
                "x": crosses[:, 0],
                "y": crosses[:, 1],
                "size": 6.0,
                "shape": 2.0,
                "colour": COLOUR["lost"],
            },
        ),
    }


def packet_movers(played: PlayedStory) -> Layer:
    """Return the last packet on its way to the registers, from where an answer goes on to one worker or to both."""
    if not played.steps:
        return Layer("movers", {**lines([]).fields, "w": _PACKET[0], "h": _PACKET[1]})
    step = played.steps[-1]
    there, back = lane_paths(step)
    inside = np.array([[_CELL_LEFT.mean() + _CELL_WIDTH / 2, _MIDDLE - _LANE]])
    inwards = there[0] if step.kind == "lost" else np.vstack([there[0], inside])
    outwards = inside + np.array([[0.0, 2 * _LANE]])
    paths = [np.vstack([inwards, outwards, path]) for path in back] or [inwards]
    fields = {
        "w": _PACKET[0],
        "h": _PACKET[1],
        "colour": hue_of(step) if step.result else packet_hue(step),
        "ink": COLOUR["paper"],
        "texts": [step.event.name] * len(paths),
        "gone": True,
    }
    return Layer("movers", {**lines(paths).fields, **fields})


def story_panel(events: list[StoryEvent], played: PlayedStory) -> Scene:
    """Return the list of all packets of a story with what the switch did; the last one stands out."""
    n = len(played.steps)
    y = _STORY_TOP + _STORY_STEP * np.arange(len(events))
    actions = [*played.actions, *[""] * (len(events) - n)]
    here = (np.arange(len(events)) == n - 1) * 1.0
    wrong = np.array([step.is_bad for step in played.steps] + [False] * (len(events) - n))
    ink = np.where(here > 0, COLOUR["ink"], COLOUR["soft"])
    colours = np.where(wrong, COLOUR["wrong"], ink)
    signed = [f"\u2715 {what}" if bad else what for what, bad in zip(actions, wrong, strict=True)]
    numbers = [str(number) for number in range(1, len(events) + 1)]
    at = y[here > 0]
    layers = {
        "title": texts(16.0, [16.0], [text("live.packets.all")], bold=1.0),
        "row": boxes(8.0, at - 12, _STORY_WIDTH - 16, 24.0, colour=COLOUR["wash"], round=6.0),
        "numbers": texts(26.0, y, numbers, align=2.0, bold=here, colour=ink),
        "names": texts(36.0, y, [event.name for event in events], bold=here, colour=ink),
        "what": texts(72.0, y, signed, bold=here, colour=colours),
    }
    return Scene("", layers=layers, height=_HEIGHT, width=_STORY_WIDTH)


def packets_table(played: PlayedStory) -> Table:
    """Return a table of the cells after each packet, pair by pair, and of what the switch did with it."""
    columns = {"who": played.names}
    for place, part in enumerate(_PARTS):
        first = 2 * place
        columns[part] = [" | ".join(step.after[first : first + 2]) for step in played.steps]
    columns["what"] = played.actions
    return Table(columns)


# Pool of slots ----------------------------------------------------------------------------------


# illustrative: a delay of 1 us, which the slider changes
def pool(slots: float = 16, delay: float = 1, jobs: int = 1) -> Live:
    """Show the rate that the slots of a programmable switch allow each of 16 workers on links of 100 Gb/s.

    Parameters
    ----------
    slots, delay, jobs : float, float, int
        Slots of the pool, 8..1024; delay of each link, 0.1..10 [us]; number of jobs that share the pool, each with its
        own workers, 1..8.
    """
    arguments = {"slots": slots, "delay": delay, "jobs": jobs}
    controls: dict[str, Control] = {
        "slots": Slider(8, _MOST_SLOTS),
        "delay": Slider(0.1, 10, unit="us", log=True),
        "jobs": Slider(1, 8),
    }
    return live_view("pool", arguments, pool_scene, controls)


def pool_scene(slots: float, delay: float, jobs: int) -> Scene:
    """Return the rate of a worker over the number of slots as a curve, with the rate of links and switch as bound."""
    star = topologies.build("crossbar", hosts=_HOSTS, rate=_LINK, delay=delay * 1e-6)
    tree = tree_with_slots(star, int(slots), jobs)
    packet = tree.mode.payload + tree.mode.header  # [B]
    trip = tree.round_trip(packet)  # [s]
    most = min(_LINK, packet / tree.mode.seconds)  # [B/s], of the link or of the switch
    need = int(np.ceil(most * trip / packet))  # slots of a job
    each = int(slots) // jobs
    limit = "link" if most == _LINK else "switch"

    drawn = np.append(np.round(2.0 ** np.arange(3, 10.1, 0.25)), need * jobs)  # with the bend
    sizes = np.append(np.unique(drawn[drawn <= _MOST_SLOTS]), slots)  # (K,); at last the slider's
    grown = [tree_with_slots(star, int(size), jobs) for size in sizes]
    rates = np.array([tree.limit() for tree in grown])  # (K,) [B/s]
    caption = text(
        "live.pool.said",
        slots=counted(each, "slot"),
        need=need,
        fill=text(f"live.pool.{limit}_enough" if each >= need else f"live.pool.{limit}"),
        rate=units.format_rate(rates[-1]),
        trip=units.format_time(trip),
        jobs=jobs,
    )
    knee = text("live.pool.knee" if jobs == 1 else "live.pool.knee_of_jobs", need=need, jobs=jobs)
    return curve(
        "live.pool",
        x="slots",
        y="rate",
        at=sizes,
        values=(rates, np.full(sizes.size, most)),
        said=caption,
        ends=(10.0 ** np.floor(np.log10(rates.min())), 1.5e10),  # whole decades: it seldom changes
        knee=(need * jobs, most, knee) if need * jobs <= _MOST_SLOTS else None,
    )


def tree_with_slots(star: Fabric, slots: int, jobs: int) -> trees.Tree:
    """Return the aggregation tree of one of ``jobs`` jobs that run at the same time and share a pool."""
    tree = trees.grow(star, range(_HOSTS), program(_HOSTS, _HOSTS, jobs, slots=slots))
    return trees.shared([tree] * jobs)[0]


# Quantisation -----------------------------------------------------------------------------------


def quantisation(bits: int = 20, largest: int = 3, workers: int = 8) -> Live:
    """Show the error of sums of floats that are added as integers, over the scale by which the floats are multiplied.

    Sums that would leave 32 bits stay at the largest or smallest integer.

    Parameters
    ----------
    bits, largest, workers : int
        The scale is two to the power of ``bits``, 4..36. One of the numbers is two to the power of ``largest``, 3..20,
        and all others are about 1. Number of workers, 2..32.
    """
    arguments = {"bits": bits, "largest": largest, "workers": workers}
    controls: dict[str, Control] = {
        "bits": Slider(4, 36),
        "largest": Slider(3, 20),
        "workers": Slider(2, 32),
    }
    return live_view("quantisation", arguments, quantisation_scene, controls)


def quantisation_scene(bits: int, largest: int, workers: int) -> Scene:
    """Return the largest error of a sum over the scale as a curve, with the bound on the rounding error."""
    values = np.random.default_rng(0).standard_normal((workers, 1, _VALUES)).astype(np.float32)
    values[0, 0, 0] = 2.0**largest
    exact = values.sum(axis=0, dtype=np.float64)

    powers = np.append(np.arange(4, 37), bits)  # (K,); the last is where the slider stands
    scales = 2.0**powers
    errors = []
    for scale in scales:
        total = dequantise(saturated_sum(values, scale), [scale])
        errors.append(float(np.abs(total - exact).max()))

    bounds = error_bound(workers, scales)  # (K,)
    agreed = float(block_scale(values)[0])  # the scale that the workers would agree on
    caption = text(
        "live.quantisation.said",
        bits=raised(bits),
        best=with_power(float(error_bound(workers, agreed))),
        error=with_power(errors[-1]),
        bound=with_power(float(bounds[-1])),
        agreed=raised(round(float(np.log2(agreed)), 1)),
    )
    return curve(
        "live.quantisation",
        x="scale",
        y="error",
        at=scales,
        values=(errors, bounds),
        said=caption,
        knee=overflow_of(scales[:-1], errors[:-1], bounds[:-1]),
    )


def overflow_of(
    scales: Floats, errors: list[float], bounds: Floats
) -> tuple[float, float, str] | None:
    """Return the first scale with which sums overflow, the error there, and a name; None if there is no such scale.

    Without an overflow no error is above its bound.
    """
    beyond = np.flatnonzero(np.array(errors) > bounds)
    if not beyond.size:
        return None
    first = int(beyond[0])
    words = text("live.quantisation.overflow", bits=raised(round(float(np.log2(scales[first])))))
    return float(scales[first]), errors[first], words


def raised(number: float) -> str:
    """Return a number as an exponent, such as "\u207b\u2075"; one that is not whole keeps its dot."""
    return f"{number:g}".translate(
        str.maketrans(
            "-.0123456789",
            "\u207b\u00b7\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079",
        )
    )


def with_power(value: float) -> str:
    """Return a number with two digits and, far from 1, a power of ten, such as "3.1\u00b710\u207b\u2075"."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{float(f'{value:.2g}'):,g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}\u00b710{raised(int(exponent))}"


def saturated_sum(values: NDArray[np.float32], scale: float) -> NDArray[np.int64]:
    """Return the sum over all workers of their values (W, 1, n) as integers, limited to 32 bits after each addition."""
    first, *others = quantise(values, [scale]).astype(np.int64)
    total: NDArray[np.int64] = first
    for integers in others:
        total = np.clip(total + integers, _SMALLEST, LARGEST)
    return total


# Tenants ----------------------------------------------------------------------------------------


def tenants(jobs: int = 4, mode: str = "streaming", quota: int = 1) -> Live:
    """Show the aggregation trees of jobs on a fat tree with 16 hosts, and which jobs get no tree.

    Parameters
    ----------
    jobs, quota : int
        Number of jobs, each on every fifth host, 1..5; number of trees that a switch has room for, 1 or 2.
    mode : str
        Mode of all trees: streaming or low latency.
    """
    arguments = {"jobs": jobs, "mode": mode, "quota": quota}
    controls: dict[str, Control] = {
        "jobs": Slider(1, 5),
        "mode": Choice(("streaming", "low latency")),
        "quota": Choice((1, 2)),
    }
    scene = partial(tenants_scene, topologies.build("fat_tree", k=4))
    return live_view("tenants", arguments, scene, controls)


def tenants_scene(fabric: Fabric, jobs: int, mode: str, quota: int) -> Scene:
    """Return a picture of a fabric with the trees of all jobs that get one."""
    manager = trees.Manager(fabric, trees=quota)
    refusals: dict[str, str] = {}  # job -> reason
    for first, job in enumerate("ABCDE"[:jobs]):
        try:
            manager.start(job, range(first, _HOSTS, 5), streaming=mode == "streaming")
        except OutOfSlots as refused:
            refusals[job] = str(refused)

    roots: list[str] = []
    spoken = spoken_names(fabric)
    for job, tree in manager.jobs.items():
        key = "live.tenants.a_root" if roots else "live.tenants.first_root"
        roots.append(text(key, job=job, root=spoken[tree.switches[-1]]))
    caption = text(
        "live.tenants.said",
        n=len(manager.jobs),
        jobs=jobs,
        roots=", ".join(roots),
        most=counted(int(trees_on_links(fabric, manager.jobs).max()), "tree"),
    )
    if refusals:
        why = next(iter(refusals.values()))
        caption += " " + text("live.tenants.refused", list=", ".join(refusals), why=why)
    return trees_scene(fabric, manager.jobs, "ABCDE"[:jobs], caption)


def trees_on_links(fabric: Fabric, jobs: Mapping[str, trees.Tree]) -> NDArray[np.int64]:
    """Return how many trees use each link, in either direction, (L,)."""
    used = np.zeros(fabric.n_links, dtype=np.int64)
    for tree in jobs.values():
        both_directions = np.concatenate([tree.links, tree.links ^ 1])
        used += np.bincount(both_directions, minlength=fabric.n_links) > 0
    return used


# Colour and dash of the lines of each job; its letter and its dash tell as much as its colour.
_TENANTS = {
    "A": (COLOUR["tenant_a"], 0),
    "B": (COLOUR["tenant_b"], 1),
    "C": (COLOUR["tenant_c"], 2),
    "D": (COLOUR["tenant_d"], 3),
    "E": (COLOUR["direct"], 4),
}
_SIDE_BY_SIDE = 6.0  # between the lines of two jobs on one link [px]
_LETTER_ROOM = 11.0  # in the middle of a box, which the pattern of a tenant leaves free [px]
_PATTERN_STEP = 4.5  # from stroke to stroke of a pattern [px]
_DOT = 1.1  # radius of a dot of a pattern [px]


def trees_scene(fabric: Fabric, jobs: Mapping[str, trees.Tree], asked: str, caption: str) -> Scene:
    """Return a fabric with the trees of jobs in the colours and dashes of their tenants.

    ``asked`` are the letters of all jobs, also of those without a tree. Lines of jobs that share a link are side by
    side.
    """
    drawn = scene_of(fabric, np.zeros(fabric.n_links), said=caption)
    cable = drawn.layers["cables"].fields
    points = np.stack([cable["x"], cable["y"]], axis=1)
    paths = dict(zip(cable["names"], np.split(points, cable["ptr"][1:-1].astype(int)), strict=True))
    spoken = spoken_names(fabric)
    on_line: dict[str, list[str]] = {name: [] for name in cable["names"]}
    for job, tree in jobs.items():
        for link in np.unique(tree.links // 2 * 2).tolist():
            ends = spoken[fabric.source[link]], spoken[fabric.target[link]]
            name = " – ".join(ends)
            on_line[name if name in on_line else " – ".join(ends[::-1])].append(job)

    ways, owner, names, notes = [], [], [], []
    for name, users in on_line.items():
        for place, job in enumerate(users):
            aside = _SIDE_BY_SIDE * (place - (len(users) - 1) / 2)
            ways.append(paths[name] + np.array([aside, 0.0]))
            owner.append(job)
            names.append(f"{name}, {text('live.tenants.tenant', job=job)}")
            notes.append(text("live.tenants.shared", jobs=", ".join(users)))
    tree_lines = lines(
        ways,
        width=2.6,
        colour=np.array([_TENANTS[job][0] for job in owner]),
        dash=np.array([float(_TENANTS[job][1]) for job in owner]),
        names=names,
        notes=notes,
    )
    nodes = tenant_boxes(drawn.layers["nodes"], jobs, asked)
    idle = {**cable, "colour": COLOUR["hair"], "width": 0.8}
    idle = {name: value for name, value in idle.items() if name not in ("names", "notes", "flow")}
    layers = {
        **drawn.layers,
        "cables": Layer("lines", idle),
        "trees": tree_lines,
        "nodes": nodes,
        "patterns": tenant_patterns(nodes, jobs),
        "pattern dots": tenant_dots(nodes, jobs),
        "roots": root_letters(
            drawn.layers["nodes"], {job: spoken[tree.switches[-1]] for job, tree in jobs.items()}
        ),
        **tenant_key(asked, float(drawn.layers["scale"].fields["y"][0])),
    }
    layers.pop("idle")
    layers["margins"] = layers.pop("margins")
    used = {name: users for name, users in on_line.items() if users}
    columns = {
        "from": [name.split(" – ")[0] for name in used],
        "to": [name.split(" – ")[1] for name in used],
        "trees": [", ".join(users) for users in used.values()],
    }
    said = "; ".join(
        f"{name}: {', '.join(users)}" for name, users in used.items() if len(users) > 1
    )
    alt = caption + (" " + text("live.tenants.meet", list=said) if said else "")
    return replace(drawn, layers=layers, table=Table(columns), alt=alt)


def tenant_boxes(nodes: Layer, jobs: Mapping[str, trees.Tree], asked: str) -> Layer:
    """Return the boxes of a fabric: a host has the colour and the letter of its job, hollow if that has no tree."""
    box = nodes.fields
    colours, edges, words, names = [], [], [], []
    for name, colour, word in zip(box["names"], box["colour"].tolist(), box["texts"], strict=True):
        number = int(number_in(name))
        is_host = name == f"{counted(1, 'host').split()[1]} {number}"
        job = asked[number % 5] if is_host and number % 5 < len(asked) else ""
        if not is_host:
            colours.append(colour)
        elif not job:
            colours.append(COLOUR["line"])
        else:
            colours.append(_TENANTS[job][0] if job in jobs else COLOUR["paper"])
        edges.append(_TENANTS[job][0] if job else COLOUR["none"])
        words.append(job or word)
        names.append(text("live.tenants.host", host=name, job=job) if job else name)
    look = {"colour": np.array(colours), "edge": np.array(edges), "ink": ink_on(np.array(colours))}
    return Layer("boxes", {**box, **look, "texts": words, "names": names})


def tenant_patterns(nodes: Layer, jobs: Mapping[str, trees.Tree]) -> Layer:
    """Return the strokes on both sides of the letter in the boxes of tenants B and D; C has dots, A has plain boxes."""
    strokes: list[Floats] = []
    for job, area in pattern_areas(nodes, jobs):
        strokes += pattern_strokes(job, *area)
    return lines(strokes, width=1.2, colour=COLOUR["paper"])


def tenant_dots(nodes: Layer, jobs: Mapping[str, trees.Tree]) -> Layer:
    """Return the dots on both sides of the letter in the boxes of tenant C: two columns, one half a step lower."""
    dots = [np.empty((0, 2))]
    for job, (x, y, w, h) in pattern_areas(nodes, jobs):
        if job != "C":
            continue
        for column in (0, 1):
            start = y + (0.5 + 0.5 * column) * _PATTERN_STEP
            levels = np.arange(start, y + h, _PATTERN_STEP)
            across = x + _DOT + column * (w - 2 * _DOT)
            dots.append(np.stack([np.full(levels.size, across), levels], axis=1))
    x, y = np.concatenate(dots).T
    return Layer("dots", {"x": x, "y": y, "size": _DOT, "plain": 1.0, "colour": COLOUR["paper"]})


def pattern_areas(
    nodes: Layer, jobs: Mapping[str, trees.Tree]
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield for each side of a letter in a box its job, and the area for a pattern: left, top, width, height [px]."""
    box = nodes.fields
    for i, job in enumerate(box["texts"]):
        if job not in jobs:
            continue
        x, y, w, h = (float(box[side][i]) for side in "xywh")
        margin = (w - _LETTER_ROOM) / 2
        for left in (x, x + w - margin):
            yield job, (left + 1, y + 2, margin - 2, h - 4)


def pattern_strokes(job: str, x: float, y: float, w: float, h: float) -> list[Floats]:
    """Return the strokes with which a tenant's pattern fills an area: level ones of D, slanted ones of B."""
    levels = np.arange(y + _PATTERN_STEP / 2, y + h, _PATTERN_STEP)
    if job == "D":
        return [np.array([[x, level], [x + w, level]]) for level in levels]
    if job == "B":
        feet = np.arange(y + w, y + h, _PATTERN_STEP)
        return [np.array([[x, foot], [x + w, foot - w]]) for foot in feet]
    return []


def root_letters(nodes: Layer, root_of: Mapping[str, str]) -> Layer:
    """Return the letter of each job on the switch that is the root of its tree."""
    box = nodes.fields
    x: list[float] = []
    y: list[float] = []
    colours = []
    names = []
    for job, root in root_of.items():
        i = box["names"].index(root)
        before = sum(other == root for other in list(root_of.values())[: len(x)])
        # The second stands at the other end, so that the number of the switch is apart from both.
        x.append(box["x"][i] + (box["w"][i] - 16 if before else 2))
        y.append(box["y"][i] + box["h"][i] / 2 - 7)
        colours.append(_TENANTS[job][0])
        names.append(text("live.tenants.root", job=job))
    return boxes(
        np.array(x),
        np.array(y),
        14.0,
        14.0,
        round=7.0,
        colour=np.array(colours),
        edge=COLOUR["paper"],
        ink=ink_on(np.array(colours)),
        texts=list(root_of),
        names=names,
    )


def tenant_key(asked: str, y: float) -> dict[str, Layer]:
    """Return a sample of the line of each job, with its name."""
    step = 96.0
    left = (WIDTH - step * len(asked)) / 2 + 30
    samples = [
        np.array([[left + step * i, y + 6], [left + step * i + 30, y + 6]])
        for i in range(len(asked))
    ]
    words = [
        (left + step * i + 38, y + 6, text("live.tenants.tenant", job=job), 0)
        for i, job in enumerate(asked)
    ]
    return {
        "scale name": texts_at(),
        "scale": lines(
            samples,
            width=2.6,
            colour=np.array([_TENANTS[job][0] for job in asked]),
            dash=np.array([float(_TENANTS[job][1]) for job in asked]),
        ),
        "ends": texts_at(*words),
    }


# Hosts or the network ---------------------------------------------------------------------------


def pays(jobs: int = 1, loss: float = 0.0, converts: str = "as fast as it sends") -> Live:
    """Compare the time of an all-reduce by the best algorithm on hosts with that of in-network reduction, over size.

    Parameters
    ----------
    jobs, loss : int, float
        Number of jobs that run at the same time on 16 hosts, 1, 2 or 4; probability that a link loses a packet.
    converts : str
        Rate at which a host converts floats to integers and back, for the programmable switch.
    """
    arguments = {"jobs": jobs, "loss": loss, "converts": converts}
    controls: dict[str, Control] = {
        "jobs": Choice((1, 2, 4)),
        "loss": Choice((0.0, 0.001, 0.01, 0.05)),
        # illustrative: fast and slow processors
        "converts": Choice(("as fast as it sends", "10 GB/s", "2 GB/s")),
    }
    sizes = 4.0 ** np.arange(1.5, 15.0)  # 8 B to 512 MiB [B]
    fabric = topologies.build("leaf_spine", hosts=_HOSTS, radix=8)
    costs = cache(partial(costs_over_sizes, fabric, sizes))  # so that going back takes no time
    scene = partial(pays_scene, sizes, costs)
    return live_view("pays", arguments, scene, controls)


# Name of an algorithm -> its cost.
Costs = dict[str, Way]


def costs_over_sizes(
    fabric: Fabric, sizes: Floats, jobs: int, loss: float, convert_rate: float
) -> list[Costs]:
    """Return for each size the cost of an all-reduce by each algorithm."""
    costs = []
    for size in sizes:
        costs.append(compare(fabric, size, jobs=jobs, loss=loss, host=convert_rate))
    return costs


def pays_scene(
    sizes: Floats,
    costs: Callable[[int, float, float], list[Costs]],
    jobs: int,
    loss: float,
    converts: str,
) -> Scene:
    """Return the times of an all-reduce over size, by each algorithm on hosts that is the best, and in the network.

    A line has the sizes whose time is known: that of streaming begins where its start-up no longer matters.

    ``costs`` is `costs_over_sizes` with a fabric and the sizes filled in.
    """
    convert_rate = np.inf
    if converts != "as fast as it sends":
        convert_rate = units.rate(converts)
    found = costs(jobs, loss, convert_rate)
    best = best_of_hosts(found)

    ranges = []
    drawn = {}
    for name in found[0]:
        seconds = np.array([cost[name].time for cost in found])  # (K,) [s]
        words = name.replace("_", " ")
        if name not in HOSTS:
            ranges.append(wins_in_words(words, sizes, best - seconds))
            drawn[text("live.pays.in_switch", way=words)] = seconds
        elif np.any(seconds == best):
            drawn[text(f"live.pays.{name}")] = seconds
    results = {}
    for name, seconds in drawn.items():
        is_known = np.isfinite(seconds)  # (K,)
        if not is_known.any():
            continue
        results[name] = Result(
            "all_reduce", "predicted", sizes[is_known], seconds[is_known], _HOSTS // jobs
        )
    return sweep_scene(results, said=text("live.pays.said", list=", ".join(ranges)))


def best_of_hosts(costs: list[Costs]) -> Floats:
    """Return the least time of any algorithm on hosts for each size, (K,) [s]."""
    return np.array([min(cost[name].time for name in HOSTS) for cost in costs])


def wins_in_words(name: str, sizes: Floats, ahead: Floats) -> str:
    """Return in words at which sizes [B] an algorithm in the network is faster than hosts.

    ``ahead`` is by how much it is at each size [s], NaN where its time is not known.
    """
    wins = ahead > 0
    first, last = 0, sizes.size - 1
    starts = np.flatnonzero(wins & ~np.insert(wins[:-1], 0, False)).tolist()
    stops = np.flatnonzero(wins & ~np.append(wins[1:], False)).tolist()
    ranges = []
    for start, stop in zip(starts, stops, strict=True):
        kind = "range"
        if start == first and stop == last:
            kind = "always"
        elif start == first:
            kind = "up_to"
        elif stop == last:
            kind = "beyond"
        low = _tie_in_words(sizes, ahead, start, start - 1) if start > first else ""
        high = _tie_in_words(sizes, ahead, stop, stop + 1) if stop < last else ""
        ranges.append(text(f"live.pays.{kind}", low=low, high=high))
    if not ranges:
        ranges.append(text("live.pays.never"))
    return text("live.pays.wins", way=name, ranges=text("word.and").join(ranges))


def _tie_in_words(sizes: Floats, ahead: Floats, inside: int, outside: int) -> str:
    """Return the size at which two algorithms take equally long, between two neighbours of ``sizes`` [B].

    Between these, times grow evenly with the size. If no time is known ``outside``, it is the size ``inside``.
    """
    if np.isnan(ahead[outside]):
        return units.format_size(sizes[inside])
    share = ahead[inside] / (ahead[inside] - ahead[outside])
    return binary_size(float(sizes[inside] + share * (sizes[outside] - sizes[inside])))
