"""Live views of RDMA: the states of a queue pair, a request from post to completion, and copies in a server."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabriclab import gpudirect, topologies, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Floats, Flows, Ints, Timeline
from fabriclab.rdma import PyverbsRDMAError, QPAttr, enums
from fabriclab.rdma.records import check_step, needs
from fabriclab.texts import text
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import spoken_names
from fabriclab.views.live.widget import Choice, Control, Live, Slider, live_view
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, ink_on, lines, texts, texts_at
from fabriclab.views.timelines import timeline_scene

_MECHANISMS = ("peer", "pinned", "pageable")

# Queue pair: states side by side, and below them the attributes that a transition needs. [px]
_STATES = ("RESET", "INIT", "RTR", "RTS", "ERR")
_STATE_LEFT = 12 + 136.0 * np.arange(len(_STATES))
_STATE_TOP = 22.0
_STATE_WIDTH = 122.0
_STATE_HEIGHT = 32.0
_ATTRIBUTES_TOP = 106.0

# Request: lanes for program, kernel and NIC of A, then for NIC, kernel and program of B; a row for each step. [px]
_COUNTERS = ("calls", "copies", "doorbells", "transfers", "completions")
_LANES = 30.0 + 54.0 * np.arange(6, dtype=np.float64)
_NIC_OF_B = 5  # despite its name, the lane of B's program; `part_name` mirrors the lanes
_STEPS_TOP = 62.0
_STEP_HEIGHT = 26

# Copies: a line for each copy, and a description below the picture. [px]
_COPY_COLOURS = np.array([COLOUR[name] for name in ("dp", "tp", "cp", "pp")])
_COPY_ROW = 18
_COPY_TALL = 306.0  # greatest height of the picture above the words [px]
_COPIES_APART = 9.0


# Bars of spans ----------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A span of time in a lane; ``lane`` and ``label`` are indices into lists of names."""

    lane: int
    label: int
    start: float  # [s]
    finish: float  # [s]


def stacked(
    bars: Sequence[Bar], lanes: list[str], labels: list[str], said: str, table: Table | None = None
) -> Scene:
    """Return a picture of spans of time as bars, with a sentence and a table; by default a table of the spans."""
    lane, label, start, finish = np.array(bars).T
    flows = Flows.make(lane, len(lanes), 0.0, label=label, labels=tuple(labels))
    timeline = Timeline(
        start=start,
        finish=finish,
        link_bytes=np.zeros(1),
        group_start=np.zeros(1),
        period=np.max(finish, keepdims=True),
        repeat=np.ones(1, np.int64),
        engine="model",
    )
    drawn = timeline_scene(timeline, flows, lanes.__getitem__)
    if table is None:
        names = [lanes[int(i)] for i in lane]
        table = Table({"lane": names, "start [s]": start, "finish [s]": finish})
    return replace(drawn, said=said, alt=said, table=table)


# Queue pair -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition of a queue pair between two states, and the answer of the device."""

    kind: str
    now: str
    to: str
    attributes: list[str]  # attributes that the transition needs; none if the device refuses it
    refusal: str  # why the device refuses it; empty if it is accepted

    @property
    def colour(self) -> float:
        """Colour of the transition and its target."""
        return COLOUR["failed"] if self.refusal else COLOUR["predicted"]


def queue_pair(kind: str = "RC", now: str = "INIT", to: str = "RTR") -> Live:
    """Show which attributes a transition of a queue pair needs, whether it is accepted, and what the new state allows.

    Parameters
    ----------
    kind : str
        Type of the queue pair: RC, UC or UD.
    now, to : str
        Present state and target state: RESET, INIT, RTR, RTS or ERR.
    """
    arguments = {"kind": kind, "now": now, "to": to}
    states = Choice(_STATES)
    controls: dict[str, Control] = {"kind": Choice(("RC", "UC", "UD")), "now": states, "to": states}
    return live_view("queue_pair", arguments, queue_pair_scene, controls)


def queue_pair_scene(kind: str, now: str, to: str) -> Scene:
    """Return a picture of the states of a queue pair, a transition between two of them, and what it needs."""
    change = state_change(kind, now, to)
    attributes = change.attributes
    rows = _ATTRIBUTES_TOP + 26.0 * np.arange(len(attributes))
    meanings = [text(f"live.queue_pair.{name}") for name in attributes]
    path = change_path(change)
    layers = {
        "states": states_layer(change),
        "step": lines(
            [path],
            width=2.5,
            colour=change.colour,
            dash=1.0 if change.refusal else 0.0,
        ),
        "end": arrow_head(path, change.colour),
        "attributes": texts(24, rows, attributes, bold=1.0),
        "meanings": texts(220, rows, meanings),
    }
    caption = change_caption(change)
    return Scene(
        said=caption,
        table=Table({"attribute": attributes or [text("live.queue_pair.none")]}),
        layers=layers,
        height=96.0 + 26 * max(1, len(attributes)),
        alt=f"{caption} {', '.join(attributes)}",
    )


def state_change(kind: str, now: str, to: str) -> StateChange:
    """Return a transition with the attributes that it needs, or with the reason why the device refuses it."""
    qp_type = enums.ibv_qp_type[f"IBV_QPT_{kind}"]
    before = enums.ibv_qp_state[f"IBV_QPS_{now}"]
    after = enums.ibv_qp_state[f"IBV_QPS_{to}"]
    mask = needs(after, qp_type)
    try:
        check_step(qp_type, before, QPAttr(after), mask | enums.IBV_QP_STATE)
    except PyverbsRDMAError as error:
        refusal, _, _ = str(error).partition(". Errno")
        return StateChange(kind, now, to, attributes=[], refusal=refusal)

    needed = [flag for flag in enums.ibv_qp_attr_mask if flag & mask]
    attributes = [flag.name.removeprefix("IBV_QP_") for flag in needed]
    return StateChange(kind, now, to, attributes, refusal="")


def change_caption(change: StateChange) -> str:
    """Return a sentence on whether the device accepts a transition, and what the state after it allows."""
    answer = "refused" if change.refusal else "taken"
    state = change.now if change.refusal else change.to
    caption = text(
        f"live.queue_pair.{answer}",
        kind=change.kind,
        now=change.now,
        to=change.to,
        n=len(change.attributes),
        why=change.refusal,
    )
    return caption + " " + text(f"live.queue_pair.in.{state}")


def states_layer(change: StateChange) -> Layer:
    """Return a box for each state: the target is filled, and the present state is framed in ink."""
    fill = np.full(len(_STATES), COLOUR["none"])
    ink = np.full(len(_STATES), COLOUR["ink"])
    edge = np.full(len(_STATES), COLOUR["grey"])
    edge[_STATES.index(change.now)] = COLOUR["none"]

    target = _STATES.index(change.to)
    fill[target] = change.colour
    ink[target] = ink_on(change.colour)[0]
    edge[target] = change.colour
    return boxes(
        _STATE_LEFT,
        _STATE_TOP,
        _STATE_WIDTH,
        _STATE_HEIGHT,
        colour=fill,
        edge=edge,
        texts=_STATES,
        names=_STATES,
        ink=ink,
    )


def change_path(change: StateChange) -> Floats:
    """Return the points (4, 2) of the line below the boxes from the present state to the target. [px]."""
    start = _STATE_LEFT[_STATES.index(change.now)] + 56
    end = _STATE_LEFT[_STATES.index(change.to)] + 66
    bottom = _STATE_TOP + _STATE_HEIGHT
    below = bottom + 16
    return np.array([[start, bottom], [start, below], [end, below], [end, bottom + 2]])


def arrow_head(path: Floats, colour: float) -> Layer:
    """Return an arrow head that points upwards at the end of a path."""
    x, y = path[-1]
    fields = {
        "x": np.array([x]),
        "y": np.array([y + 5]),
        "shape": 4.0,
        "size": 6.0,
        "colour": colour,
    }
    return Layer("dots", fields)


# Request ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One step of a message between two machines."""

    source: int  # lane of the part that acts
    target: int  # lane of the part it acts on
    name: str  # name of its sentence in the language table
    counter: str  # the counter it adds to, one of `_COUNTERS`, or ""
    count: int

    @property
    def actor(self) -> str:
        """The part and the machine that act, in words."""
        machine = "AB"[self.source // 3]
        return f"{part_name(self.source)} {machine}"

    @property
    def action(self) -> str:
        """A sentence on what the part does."""
        return text(f"live.request.{self.name}")


def part_name(lane: int) -> str:
    """Return the name of the part in a lane; the lanes of machine B mirror those of machine A."""
    return text(f"live.request.part{min(lane, 5 - lane)}")


def read_requests() -> dict[str, list[RequestStep]]:
    """Return the steps of each kind of message from ``requests.csv``."""
    requests: dict[str, list[RequestStep]] = {}
    for row in read_rows(Path(__file__).with_name("requests.csv")):
        counter, _, count = row["counts"].partition("=")
        step = RequestStep(
            source=int(row["source"]),
            target=int(row["target"]),
            name=row["step"],
            counter=counter,
            count=int(count or 0),
        )
        requests.setdefault(row["way"], []).append(step)
    return requests


_REQUESTS = read_requests()


def request(way: str = "WRITE", step: int = 4) -> Live:
    """Step through a message between two machines: which part acts, what it does, and counts of such actions so far.

    Parameters
    ----------
    way : str
        Kind of message: WRITE, READ, SEND, WRITE with immediate, TCP socket, or set-up.
    step : int
        Number of steps that are done, 0..13. Messages with fewer steps stop changing after their last one.
    """
    arguments = {"way": way, "step": step}
    controls: dict[str, Control] = {
        "way": Choice(tuple(_REQUESTS)),
        "step": Slider(0, 13, play=True),
    }
    return live_view("request", arguments, request_scene, controls)


def request_scene(way: str, step: int) -> Scene:
    """Return a picture of the first ``step`` steps of a message as arrows between lanes."""
    every = _REQUESTS[way]
    done = every[:step]
    bottom = _STEPS_TOP + _STEP_HEIGHT * len(every)
    layers = {
        **lane_layers(bottom),
        **step_layers(done),
    }
    totals = counter_totals(done)
    caption = request_caption(way, len(every), done, totals)
    listed = " ".join(f"{i}. {step.actor}: {step.action}." for i, step in enumerate(done, 1))
    return Scene(
        said=caption,
        table=request_table(done, totals) if done else None,
        layers=layers,
        height=bottom + 8,
        alt=f"{caption} {listed}",
        moves=bool(done),
    )


def counter_totals(done: Sequence[RequestStep]) -> Ints:
    """Return the value of each counter after each step, (steps, counters)."""
    added = np.zeros((len(done), len(_COUNTERS)), dtype=np.int64)
    for row, step in enumerate(done):
        if step.counter:
            added[row, _COUNTERS.index(step.counter)] = step.count
    return np.cumsum(added, axis=0)


def request_caption(way: str, steps: int, done: Sequence[RequestStep], totals: Ints) -> str:
    """Return a sentence on how far a message is, with all counters and how often the program on B has acted."""
    reached = totals[-1] if done else np.zeros(len(_COUNTERS), dtype=np.int64)
    counters = zip(_COUNTERS, reached, strict=True)
    return text(
        "live.request.said",
        way=way,
        step=len(done),
        steps=steps,
        list=", ".join(text(f"live.request.{counter}", n=n) for counter, n in counters),
        b=sum(step.source == _NIC_OF_B for step in done),
    )


def request_table(done: Sequence[RequestStep], totals: Ints) -> Table:
    """Return a table of who did what in each step, and all counters after it except the completions."""
    columns = {
        "step": np.arange(1, len(done) + 1),
        "who": [step.actor for step in done],
        "what": [step.action for step in done],
    }
    for place, counter in enumerate(_COUNTERS[:4]):
        columns[counter] = totals[:, place]
    return Table(columns)


def lane_layers(bottom: float) -> dict[str, Layer]:
    """Return the lanes down to ``bottom`` [px], with the machines and parts named above them."""
    machines = [text("live.request.machine", name=name) for name in "AB"]
    parts = [part_name(lane) for lane in range(len(_LANES))]
    paths = [np.array([[x, 40], [x, bottom]]) for x in _LANES]
    return {
        "machines": texts(_LANES[[1, 4]], 10.0, machines, align=1.0),
        "lanes": lines(paths, colour=COLOUR["grey"]),
        "parts": texts(_LANES, 30.0, parts, align=1.0, size=11.0),
    }


def step_layers(done: Sequence[RequestStep]) -> dict[str, Layer]:
    """Return the arrows, numbers and sentences of steps; the last step stands out and moves."""
    source = _LANES[[step.source for step in done]]  # (T,) [px]
    target = _LANES[[step.target for step in done]]  # (T,) [px]
    y = _STEPS_TOP + _STEP_HEIGHT * np.arange(len(done), dtype=np.float64)
    is_last = np.arange(len(done)) == len(done) - 1
    colour = np.where(is_last, COLOUR["predicted"], COLOUR["grey"])
    actions = [step.action for step in done]

    ends = np.stack([source, y, target, y], axis=1).reshape(-1, 2, 2)  # (T, 2 ends, x and y)
    paths = list(ends)
    return {
        "arrows": lines(paths, width=2.0, colour=colour),
        "ends": Layer("dots", {"x": target, "y": y, "colour": colour}),
        "actors": actor_layer(done, source, y, colour),
        "what": texts(328.0, y, actions, bold=is_last * 1.0),
        "movers": request_mover(paths),
    }


def actor_layer(done: Sequence[RequestStep], x: Floats, y: Floats, colour: Floats) -> Layer:
    """Return the number of each step, in the lane of the part that acts."""
    numbers = [str(i + 1) for i in range(len(done))]
    actors = [step.actor for step in done]
    actions = [step.action for step in done]
    return boxes(
        x - 10,
        y - 9,
        20.0,
        18.0,
        colour=colour,
        ink=ink_on(colour) if done else 0.0,
        texts=numbers,
        names=actors,
        notes=actions,
    )


def request_mover(paths: list[Floats]) -> Layer:
    """Return the mark that moves along the arrow of the last step, if that step leaves its lane."""
    moving = [path for path in paths[-1:] if np.ptp(path[:, 0])]
    fields = {"w": 11.0, "h": 11.0, "colour": COLOUR["predicted"]}
    return Layer("movers", {**lines(moving).fields, **fields})


# Copies inside a server -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerSources:
    """A server, and the NICs at the sources that can send to its GPU 0."""

    fabric: Fabric
    numbers: dict[str, str]  # class in `nvidia-smi topo -m` -> number of a NIC of that class


@functools.cache
def server_sources(server: str, source: str) -> ServerSources:
    """Return a server with one NIC for each class of relation to GPU 0; the ``source`` is this NIC or beside it."""
    fabric = topologies.build(server)
    matrix = gpudirect.topo(fabric)
    numbers = {}
    for name in matrix.names:
        if name.startswith("NIC"):
            numbers[matrix.relation("GPU0", name)] = name.removeprefix("NIC")
    if source == "gpu":  # GPU 0 cannot send to itself
        numbers = {relation: number for relation, number in numbers.items() if number != "0"}
    return ServerSources(fabric, numbers)


def copies(
    mechanism: str = "pinned",
    relation: str = "PIX",
    iommu: str = "off",
    *,
    source: str = "nic",
    server: str = "dgx_h100",
    size: units.Quantity = "64 MiB",
) -> Live:
    """Show each copy that a transfer to GPU 0 makes on a picture of the server, with its rate and time.

    Parameters
    ----------
    mechanism : str
        How the transfer is copied: peer, pinned or pageable; see `fabriclab.gpudirect.path`.
    relation : str
        Relation between GPU 0 and the NIC at the source, as `nvidia-smi topo -m` prints it, such as PIX.
    iommu : str
        Whether the IOMMU is off or on.
    source : str
        Source of the transfer: the NIC itself, "nic", or the drive or GPU with its number, "nvme" or "gpu".
    server : str
        Name of a topology that is one server.
    size : float or str
        Size of the transfer. [B]
    """
    arguments = {
        "mechanism": mechanism,
        "relation": relation,
        "iommu": iommu,
        "source": source,
        "server": server,
        "size": size,
    }
    sources = server_sources(server, source)
    controls: dict[str, Control] = {
        "mechanism": Choice(_MECHANISMS),
        "relation": Choice(tuple(sources.numbers)),
        "iommu": Choice(("off", "on")),
    }
    scene = functools.partial(copies_scene, sources, source, size)
    return live_view("copies", arguments, scene, controls)


def copies_scene(
    sources: ServerSources,
    source: str,
    size: units.Quantity,
    mechanism: str,
    relation: str,
    iommu: str,
) -> Scene:
    """Return a picture of a server with the copies of a transfer to GPU 0 as numbered lines."""
    start = f"{source} {sources.numbers[relation]}"
    path = gpudirect.path(sources.fabric, start, "gpu 0", mechanism, iommu=iommu)
    drawn = scene_of(sources.fabric, tall=_COPY_TALL)
    total = units.size(size)

    over = [" – ".join(part_names(sources.fabric, move)) for move in path.moves]
    times = [move.issue + move.latency + total / move.rate for move in path.moves]
    words = []
    for move, parts, time in zip(path.moves, over, times, strict=True):
        words.append(text("live.copies.copy", by=move.by, over=parts, rate=move.rate, time=time))
    caption = text(
        "live.copies.said",
        a=drawn_name(sources.fabric, start),
        b=drawn_name(sources.fabric, "gpu 0"),
        n=path.copies,
        links=path.hops,
        host=path.host_traffic,
        time=path.time(total),
        size=total,
    )
    if path.flush:
        caption += " " + text("live.copies.flush", time=path.flush)
    columns = {
        "copy": np.arange(1, path.copies + 1),
        "by": [move.by for move in path.moves],
        "over": over,
        "rate [B/s]": [move.rate for move in path.moves],
        "time [s]": times,
    }
    return replace(
        drawn,
        said=caption,
        alt=f"{caption} {'; '.join(words)}",
        table=Table(columns),
        layers=copy_layers(sources.fabric, drawn, path.moves, words),
        height=drawn.height + _COPY_ROW * path.copies + 8,
    )


@dataclass(frozen=True, slots=True)
class ServerMap:
    """Places of the parts of a server in its picture, and the cables between them. [px]."""

    spots: dict[str, Floats]  # name of a part -> its middle (2,)
    cables: dict[tuple[str, str], Floats]  # (start, end) -> points (P, 2) from start to end
    drives: dict[str, Floats]  # name of a drive -> its place (2,); the picture has no box for it

    def leg(self, start: str, end: str) -> Floats:
        """Return the line (P, 2) from one part to the next: their cable or, without one, a straight line."""
        if (start, end) in self.cables:
            return self.cables[start, end]
        return np.array([self.spots[start], self.spots[end]])

    def legs(self, start: str, end: str) -> list[Floats]:
        """Return the lines from one part to the next, through a port if there is one between them.

        A copy's path does not name the port of a GPU, but the picture shows it.
        """
        if (start, end) not in self.cables:
            for port in self.spots:
                if (start, port) in self.cables and (port, end) in self.cables:
                    return [self.leg(start, port), self.leg(port, end)]
        return [self.leg(start, end)]


def server_map(fabric: Fabric, drawn: Scene, moves: Sequence[gpudirect.Move]) -> ServerMap:
    """Return the places of the parts of a server in its picture; drives are placed below their neighbours."""
    box = drawn.layers["nodes"].fields
    middle = np.stack([box["x"] + box["w"] / 2, box["y"] + box["h"] / 2], axis=1)  # (B, 2)
    spots = dict(zip(box["names"], middle, strict=True))

    cable = drawn.layers["cables"].fields
    points = np.stack([cable["x"], cable["y"]], axis=1)
    paths = np.split(points, cable["ptr"][1:-1].astype(int))
    cables = {}
    for name, path in zip(cable["names"], paths, strict=True):
        one, other = name.split(" – ")
        cables[one, other] = path
    cables |= {(other, one): path[::-1] for (one, other), path in cables.items()}

    drives = {}
    for move in moves:
        first, neighbour = part_names(fabric, move)[:2]
        if first not in spots:
            spots[first] = spots[neighbour] + np.array([25.0, 34.0])
            drives[first] = spots[first]
    return ServerMap(spots, cables, drives)


def part_names(fabric: Fabric, move: gpudirect.Move) -> list[str]:
    """Return the parts on a copy's path under the names that they have in the picture."""
    return [drawn_name(fabric, part) for part in move.over]


def drawn_name(fabric: Fabric, part: str) -> str:
    """Return the name of a part in the picture; the picture has no box for a drive, which is called as it is."""
    if part.split()[0] not in fabric.kinds:
        return part.replace("nvme", text("live.copies.drive"))
    return spoken_names(fabric)[fabric.node(part)]


def copy_paths(fabric: Fabric, places: ServerMap, moves: Sequence[gpudirect.Move]) -> list[Floats]:
    """Return the line of each copy (P, 2), shifted sideways so that none hides another. [px]."""
    paths = []
    for number, move in enumerate(moves):
        names = part_names(fabric, move)
        aside = _COPIES_APART * (number - (len(moves) - 1) / 2)
        legs = []
        if len(set(names)) == 1:  # a copy within host memory: drawn beside its processor
            aside = 90 + 2.5 * aside
            for start, end in itertools.pairwise(names):
                legs.append(places.leg(start, end))
        else:
            for start, end in itertools.pairwise(names):
                legs += places.legs(start, end)
        paths.append(np.concatenate(legs) + np.array([aside, 0.0]))
    return paths


def copy_layers(
    fabric: Fabric, drawn: Scene, moves: Sequence[gpudirect.Move], words: list[str]
) -> dict[str, Layer]:
    """Return the layers of a picture with copies as numbered lines, and below it each copy in words."""
    places = server_map(fabric, drawn, moves)
    paths = copy_paths(fabric, places, moves)
    colours = _COPY_COLOURS[np.arange(len(moves)) % len(_COPY_COLOURS)]
    rows = drawn.height + 12 + _COPY_ROW * np.arange(len(moves), dtype=np.float64)  # (C,) [px]
    cables = drawn.layers["cables"]
    return {
        "servers": drawn.layers["servers"],
        "places": drawn.layers["places"],
        "margins": drawn.layers["margins"],
        "cables": replace(cables, fields={**cables.fields, "colour": COLOUR["hair"]}),
        "copies": lines(paths, width=4.0, colour=colours, names=words, flow=0.4),
        "nodes": drawn.layers["nodes"],
        "numbers": number_layer(paths, rows, colours),
        "words": copy_words(places, rows, words),
    }


def number_layer(paths: Sequence[Floats], rows: Floats, colours: Floats) -> Layer:
    """Return the number of each copy twice: near the end of its line, and in front of its words."""
    on_lines = [path[-2:].mean(axis=0) for path in paths]
    before_words = np.stack([np.full(rows.size, 18.0), rows], axis=1)
    x, y = np.concatenate([on_lines, before_words]).T - 9
    both = np.tile(colours, 2)
    return boxes(
        x,
        y,
        18.0,
        18.0,
        colour=both,
        ink=ink_on(both),
        round=9.0,
        texts=[str(number) for number in range(1, len(paths) + 1)] * 2,
    )


def copy_words(places: ServerMap, rows: Floats, words: list[str]) -> Layer:
    """Return the names of drives beside them, and a line of text for each copy below the picture."""
    lines_of_text = []
    for drive, spot in places.drives.items():
        x, y = spot + 4.0
        lines_of_text.append((x, y, drive, 0))
    for row, word in zip(rows, words, strict=True):
        lines_of_text.append((34.0, float(row), word, 0))
    return texts_at(*lines_of_text)


# Savings ----------------------------------------------------------------------------------------


def savings(
    size: float = 1000.0, source: str = "nic", relation: str = "PIX", *, server: str = "dgx_h100"
) -> Live:
    """Compare transfers to GPU 0 by each mechanism: the time of each copy, bytes moved in host memory, and CPU cores.

    Parameters
    ----------
    size : float
        Size of the transfer, which is copied in one piece. [kB]
    source, relation, server : str
        As in `copies`.
    """
    arguments = {"size": size, "source": source, "relation": relation, "server": server}
    sources = server_sources(server, source)
    controls: dict[str, Control] = {
        "size": Slider(1, 1e6, unit="kB", log=True),
        "source": Choice(("nic", "nvme")),
        "relation": Choice(tuple(sources.numbers)),
    }
    scene = functools.partial(savings_scene, sources)
    return live_view("savings", arguments, scene, controls)


def savings_scene(sources: ServerSources, size: float, source: str, relation: str) -> Scene:
    """Return the copies of ``size`` kB by each mechanism as bars, with the cost of each mechanism in a table."""
    total = size * 1e3  # [B]
    start = f"{source} {sources.numbers[relation]}"
    paths = {
        mechanism: gpudirect.path(sources.fabric, start, "gpu 0", mechanism)
        for mechanism in _MECHANISMS
    }
    bars: list[Bar] = []
    for lane, path in enumerate(paths.values()):
        bars += copies_in_a_row(lane, path, total)
    most = max(path.copies for path in paths.values())
    labels = [text("live.savings.copy", n=number) for number in range(1, most + 1)]

    times = {mechanism: path.time(total) for mechanism, path in paths.items()}
    columns = {
        "mechanism": list(_MECHANISMS),
        "copies": [path.copies for path in paths.values()],
        "time [s]": list(times.values()),
        "host memory [B]": [path.host_traffic * total for path in paths.values()],
        "cores at 400 Gb/s": [path.cores(total) for path in paths.values()],  # source: nics, cx7
    }
    caption = text(
        "live.savings.said",
        size=total,
        **times,
        saved=times["pinned"] - times["peer"],
        part=100 * (1 - times["peer"] / times["pinned"]),
        host=paths["pinned"].host_traffic * total,
    )
    return stacked(bars, list(_MECHANISMS), labels, caption, Table(columns))


def copies_in_a_row(lane: int, path: gpudirect.Path, size: float) -> list[Bar]:
    """Return a bar for each copy of a transfer in one piece; the last bar includes the flush."""
    durations = [move.issue + move.latency + size / move.rate for move in path.moves]
    ends = np.cumsum([0.0, *durations])
    ends[-1] += path.flush
    spans = itertools.pairwise(ends)
    return [Bar(lane, copy, start, finish) for copy, (start, finish) in enumerate(spans)]


# Chunks -----------------------------------------------------------------------------------------


def chunks(
    chunk: float = 1024.0,
    mechanism: str = "pinned",
    *,
    server: str = "dgx_h100",
    size: units.Quantity = "8 MiB",
) -> Live:
    """Show how the chunks of a transfer from GPU 0 to GPU 1 pass through its copies in a pipeline.

    Parameters
    ----------
    chunk : float
        Size of a chunk. [KiB]
    mechanism : str
        How the transfer is copied: pinned or pageable.
    server : str
        As in `copies`.
    size : float or str
        Size of the transfer. [B]
    """
    arguments = {"chunk": chunk, "mechanism": mechanism, "server": server, "size": size}
    fabric = topologies.build(server)
    total = units.size(size)
    controls: dict[str, Control] = {
        "chunk": Slider(32, 8192, unit="KiB", log=True),
        "mechanism": Choice(_MECHANISMS[1:]),
    }
    scene = functools.partial(chunks_scene, fabric, total)
    return live_view("chunks", arguments, scene, controls)


def chunks_scene(fabric: Fabric, total: float, chunk: float, mechanism: str) -> Scene:
    """Return the chunks of a transfer of ``total`` bytes as bars, with a lane for each copy."""
    path = gpudirect.path(fabric, "gpu 0", "gpu 1", mechanism)
    pieces = max(1, math.ceil(total / (chunk * 1024)))
    duration = np.array([move.issue + total / pieces / move.rate for move in path.moves])  # (C,)
    finish = chunk_finish(path, duration, pieces)  # (C, pieces) [s]

    bars = []
    for lane, times in enumerate(finish):
        for time in times:
            bars.append(Bar(lane, 0, time - duration[lane], time))
    lanes = [f"{number} {move.by} {move.over[-1]}" for number, move in enumerate(path.moves, 1)]

    # illustrative: chunks from 32 KiB to 8 MiB, the ends of the slider
    sizes = [1024.0 * 2**power for power in range(5, 14)]  # [B]
    best_time, best_size = min((path.time(total, size), size) for size in sizes)
    caption = text(
        "live.chunks.said",
        size=total,
        n=pieces,
        each=total / pieces,
        at=best_size,
        time=finish.max(),
        whole=path.time(total),
        best=best_time,
    )
    return stacked(bars, lanes, [text("live.chunks.chunk")], caption)


def chunk_finish(path: gpudirect.Path, duration: Floats, pieces: int) -> Floats:
    """Return the time at which each chunk has passed each copy, (C, pieces). [s].

    The first chunk has passed copy c after all durations and latencies of the copies up to c. Each further chunk
    follows after the longest of these durations, because the slowest copy so far sets the pace.
    """
    latency = np.array([move.latency for move in path.moves])  # (C,)
    first = np.cumsum(duration) + np.cumsum(latency)  # (C,)
    pace = np.maximum.accumulate(duration)  # (C,)
    return np.asarray(first[:, None] + pace[:, None] * np.arange(pieces))
