"""Live view of parallelism: what a layout of the running case sends on each tier, keeps, and waits for.

Bytes and times are those of `fabriclab.training.of_case`: rates without start-up, and collectives as rings that stay on
their rails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fabriclab.catalog import Case, case
from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.training import Step
from fabriclab.training.step import of_case
from fabriclab.views.common import common_ends
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Control, Live, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    log_axis,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.workload import models
from fabriclab.workload.layouts import Layout
from fabriclab.workload.memory import Memory, memory
from fabriclab.workload.volumes import Collective, Ledger, volumes

__all__ = ["layout_of", "parallelism", "state_of"]

KINDS = ("tp", "pp", "dp")
_PURPOSES = {"tp": ("tensor",), "pp": ("pipeline",), "dp": ("parameters", "gradients")}
_PARTS = {
    "compute": ("compute", "optimiser"),
    "tp": ("tensor",),
    "pp": ("pipeline", "bubble"),
    "dp": ("parameters", "gradients"),
}
_REST = ("logits", "gathered")
_KEPT = ("weights", "gradients", "optimiser", "activations", "rest")
_TENSOR = (2, 4, 8, 16)
_STAGES = (1, 2, 4, 8)
_SHARDING = ("DDP", "ZeRO-1", "FSDP")
_MICRO = (1, 2, 4)
_ORDERS = ("in order", "dealt out")
_DASH = {
    "tp": 0.0,
    "pp": 1.0,
    "dp": 0.0,
}  # of `DASHES`; tensor parallelism is drawn as a double line

# The picture [px]: the cluster on the left, with a row for each tier; bytes on the right; memory and time below.
_WIDTH = 560.0
_ROWS = {"spine": 34.0, "leaf": 92.0, "server": 150.0}  # upper edge of the row of each tier
_HALL_LEFT, _HALL_RIGHT = 96.0, 268.0
_BAR_LEFT, _BAR_RIGHT = 318.0, 500.0
_BAR_PITCH = 15.0
_BAR_HEIGHT = 10.0
_CELL = 5.0  # a server
_MEMORY_TOP = 232.0
_STEP_TOP = 284.0
_LANE = 18.0
_NIC_TOP = _STEP_TOP + _LANE + 6
_LANES_LEFT, _LANES_RIGHT = 96.0, 500.0
_HEIGHT = 362.0
_PANEL = 320.0
_LIT = 8  # lines that are lit between two tiers, for each kind of traffic


@dataclass(frozen=True, slots=True)
class State:
    """A layout of the running case: its step, and what each GPU keeps and sends."""

    job: Case
    layout: Layout
    placement: Ints  # (ranks,) GPU of each rank
    step: Step
    kept: Memory

    @property
    def room(self) -> float:
        """Memory of a GPU [B]."""
        return float(self.job.hbm_capacity)

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU has room."""
        return self.kept.most <= self.room

    @property
    def sent(self) -> Floats:
        """Bytes that a GPU sends in a step on average: a row for each of `KINDS`, a column for each tier (3, 3) [B].

        The tiers are: inside a server, through a NIC up to a leaf and no farther, and over a spine.
        """
        ledger = volumes(models.of_case(self.job), self.layout)
        return sent_by_tier(self.job, ledger, self.placement)

    @property
    def parts(self) -> dict[str, float]:
        """What the step is spent on: computing, and waiting for each of `KINDS` [s]."""
        return {name: sum(self.step.parts[part] for part in of) for name, of in _PARTS.items()}

    @property
    def memory_parts(self) -> dict[str, float]:
        """What the fullest GPU keeps, by the names of `_KEPT` [B]."""
        stage = int(self.kept.total.argmax())
        found = {name: float(getattr(self.kept, name)[stage]) for name in _KEPT[:-1]}
        found["rest"] = float(self.kept.logits[stage] + self.kept.gathered[stage])
        return found

    @property
    def binds(self) -> str:
        """Kind of traffic, or ``"pp"`` for waiting in a pipeline, that the step waits for longest."""
        waits = {name: time for name, time in self.parts.items() if name != "compute"}
        return max(waits, key=waits.__getitem__)


def layout_of(job: Case, tp: int, pp: int, sharding: str, microbatch: int = 1) -> Layout:
    """Return the layout of all GPUs of a job with the batch of a step of the case; replicas use what is left."""
    gpus = int(job.gpus)
    sequences = int(job.tokens_per_step / job.sequence)
    replicas = gpus // (tp * pp)
    if sequences % (replicas * microbatch):
        raise ValueError(
            f"{replicas} replicas with micro-batches of {microbatch} need at least "
            f"{replicas * microbatch} sequences, and a step has {sequences}; take more tensor or pipeline "
            "parallelism, or a smaller micro-batch"
        )
    return Layout(
        tp=tp,
        pp=pp,
        dp=replicas,
        microbatch=microbatch,
        microbatches=sequences // (replicas * microbatch),
        sequence=int(job.sequence),
        sharding=sharding.replace("-", "").lower(),
        sequence_parallel=tp > 1,
        gradient_bytes=float(job.gradient_bytes),
    )


def placement_of(job: Case, order: str) -> Ints:
    """Return the GPU of each rank, (ranks,): in order, or dealt out to the servers like cards."""
    rank = np.arange(int(job.gpus))
    if order == "in order":
        return rank
    servers = int(job.servers)
    return np.asarray(rank % servers * int(job.gpus_per_server) + rank // servers)


@lru_cache(maxsize=512)
def state_of(
    job: Case, tp: int, pp: int, sharding: str, microbatch: int = 1, order: str = "in order"
) -> State:
    """Return a layout of a job with its step, memory and traffic.

    Parameters
    ----------
    job : Case
        The running case.
    tp, pp : int
        GPUs that share a layer, and stages of the pipeline.
    sharding : str
        What replicas share: DDP, ZeRO-1 or FSDP (ZeRO-3).
    microbatch : int
        Sequences of a micro-batch.
    order : str
        "in order", so that eight ranks in a row share a server, or "dealt out".
    """
    layout = layout_of(job, tp, pp, sharding, microbatch)
    placement = placement_of(job, order)
    model = models.of_case(job)
    return State(
        job=job,
        layout=layout,
        placement=placement,
        step=of_case(job, layout=layout, placement=placement),
        kept=memory(model, layout, activations="rule"),
    )


def sent_by_tier(job: Case, ledger: Ledger, placement: Ints) -> Floats:
    """Return the bytes that a GPU sends in a step on average, by kind and tier (3, 3) [B].

    Collectives run as rings that pass the servers of a group in order and stay on their rails, as NCCL lays them. With
    several GPUs of a group in each server there are as many rings, and each passes all of them.
    """
    sent = np.zeros((len(KINDS), 3))
    known: dict[tuple[str, str, int], Floats] = {}
    for row, kind in enumerate(KINDS):
        for line in ledger.only(*_PURPOSES[kind]):
            key = (line.group, line.moment if line.operation == "send" else "", line.stage)
            if key not in known:
                known[key] = tier_shares(job, ledger, line, placement)
            sent[row] += line.sent * known[key] / ledger.layout.pp
    return sent


def tier_shares(job: Case, ledger: Ledger, line: Collective, placement: Ints) -> Floats:
    """Return the shares of a line's bytes that stay in servers, reach a leaf, and cross a spine, (3,)."""
    gpus = placement[ledger.groups(line)]  # (groups, size)
    server = np.sort(gpus // int(job.gpus_per_server), axis=1)
    below = int(job.switch_ports) // 2  # servers that plug into a leaf of a rail
    if line.operation != "send":
        # Around the ring: a hop that leaves a server goes to the next server of the group.
        following = np.roll(server, -1, axis=1)
        leaves = server != following
        crosses = leaves & (server // below != following // below)
    else:
        leaves = server[:, 0] != server[:, 1]
        home = gpus // int(job.gpus_per_server) // below
        rail = gpus % int(job.gpus_per_server)
        crosses = leaves & ((home[:, 0] != home[:, 1]) | (rail[:, 0] != rail[:, 1]))
    out, up = float(np.mean(leaves)), float(np.mean(crosses))
    return np.array([1 - out, out - up, up])


def parallelism(
    tp: int = 8,
    pp: int = 1,
    sharding: str = "ZeRO-1",
    *,
    microbatch: int = 1,
    order: str = "in order",
) -> Live:
    """Show what a layout of the running case sends on each tier of the cluster, and whether it fits into memory.

    All 1,024 GPUs are used and a step has 512 sequences, so replicas and micro-batches follow. Times are those of the
    case: bytes over rates, with a ring on each NIC of a group, and no start-up of messages. Activations are counted
    with 34 bytes for each token, layer and hidden size, divided by tp.

    Parameters
    ----------
    tp, pp : int
        GPUs that share each layer, 2..16, and stages of the pipeline, 1..8.
    sharding : str
        What replicas share instead of keeping copies: "DDP" nothing, "ZeRO-1" the state of the optimiser, "FSDP",
        also called ZeRO-3, gradients and parameters, too.
    microbatch : int
        Sequences of a micro-batch: 1, 2 or 4.
    order : str
        "in order", so that eight ranks in a row share a server, or "dealt out" to the servers one by one, like cards.
    """
    arguments = {
        "tp": tp,
        "pp": pp,
        "sharding": sharding,
        "microbatch": microbatch,
        "order": order,
    }
    controls: dict[str, Control] = {
        "tp": Choice(_TENSOR),
        "pp": Choice(_STAGES),
        "sharding": Choice(_SHARDING),
        "microbatch": Choice(_MICRO),
        "order": Choice(_ORDERS),
    }
    job = case()
    for mode in _SHARDING:  # once, so that no later move of a control waits for it
        all_states(job, mode, microbatch, order)
    return live_view("parallelism", arguments, partial(parallelism_scene, job), controls)


def all_states(job: Case, sharding: str, microbatch: int, order: str) -> list[State]:
    """Return all layouts with one sharding, but for those with too many replicas for the batch."""
    states = []
    for tp in _TENSOR:
        for pp in _STAGES:
            try:
                states.append(state_of(job, tp, pp, sharding, microbatch, order))
            except ValueError:
                continue
    return states


def parallelism_scene(
    job: Case, tp: int, pp: int, sharding: str, microbatch: int, order: str
) -> Scene:
    """Return a picture of the traffic of a layout, of memory and time, and of its place among all others."""
    state = state_of(job, tp, pp, sharding, microbatch, order)
    sent = state.sent
    nic = np.asarray(sent[:, 1:].sum(axis=1) / job.nic_rate)  # (3,) [s]
    said = sentence(state, float(nic.sum()), order)
    layers = {
        **hall_layers(state, sent),
        **byte_layers(sent),
        **memory_layers(state),
        **step_layers(state),
        **nic_layers(state, nic),
    }
    columns: dict[str, Any] = {
        "traffic": [text(f"live.parallelism.{kind}") for kind in KINDS],
        "inside a server [GB]": sent[:, 0] / 1e9,
        "leaf [GB]": sent[:, 1] / 1e9,
        "over a spine [GB]": sent[:, 2] / 1e9,
        "NIC [s]": nic,
        "waits [s]": [state.parts[kind] for kind in KINDS],
    }
    side = map_panel(state, all_states(job, sharding, microbatch, order), sharding)
    # Else nothing in the picture says why the same layout is slower.
    hints = [text("live.parallelism.dealt")] if order == "dealt out" else []
    hints.append(narrow_words(layers["memory"], layers["memory parts"]))
    return Scene(
        said,
        Table(columns),
        layers,
        _HEIGHT,
        alt=said,
        width=_WIDTH,
        side=side,
        hint=" ".join(filter(None, hints)),
    )


def sentence(state: State, nic: float, order: str) -> str:
    """Return in words whether a layout fits, what its step takes, and what it waits for longest."""
    verdict = "fits" if state.fits else "too_large"
    layout = state.layout
    return text(
        f"live.parallelism.said_{verdict}",
        layout=text(
            "live.parallelism.dealt_layout" if order == "dealt out" else "live.parallelism.layout"
        ),
        memory=state.kept.most / 1e9,
        room=state.room / 1e9,
        step=state.step.time,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        m=counted(layout.microbatches, "microbatch"),
        wait=text(f"live.parallelism.wait_{state.binds}"),
        time=state.parts[state.binds],
        nic=nic,
    )


# The cluster --------------------------------------------------------------------------------------


def hall_layers(state: State, sent: Floats) -> dict[str, Layer]:
    """Return the cluster with a row for each tier, and a few lit links for each kind of traffic that uses a tier."""
    job = state.job
    spines, leaves, servers = int(job.spines), int(job.leaves), int(job.servers)
    room = _HALL_RIGHT - _HALL_LEFT
    spine_x = _HALL_LEFT + room * (np.arange(spines) + 0.5) / spines
    leaf_x = _HALL_LEFT + room * (np.arange(leaves) + 0.5) / leaves
    rows = int(job.switch_ports) // 2
    columns = rows
    server_x = _HALL_LEFT + room * (np.arange(columns) + 0.5) / columns
    spine_y, leaf_y, server_y = (_ROWS[tier] + 10 for tier in ("spine", "leaf", "server"))

    # Each line of the texture stands for many cables.
    up = [np.array([[x, leaf_y], [spine_x[i // 2], spine_y + 8]]) for i, x in enumerate(leaf_x)]
    down = [np.array([[x, server_y - 2], [x, leaf_y + 8]]) for x in server_x]
    used = sent[:, 0] > 0
    layers = {
        "idle links": lines([*up, *down], width=0.7, colour=COLOUR["hair"]),
    }
    for row, kind in enumerate(KINDS):
        for tier, paths in ((1, down), (2, up)):
            size = float(sent[row, tier:].sum())  # what goes over a spine passes a leaf first
            if size > 0:
                layers[f"{kind} links {tier}"] = lit_links(state, row, kind, paths, size)
    number = np.arange(servers)
    layers |= {
        "spines": boxes(spine_x - 3.5, spine_y, 7.0, 8.0, round=1.5, colour=COLOUR["node"]),
        "leaves": boxes(leaf_x - 2.0, leaf_y, 4.0, 8.0, round=1.0, colour=COLOUR["node"]),
        "servers": boxes(
            server_x[number % columns] - _CELL / 2,
            server_y + 11.0 * (number // columns),
            _CELL,
            9.0,
            round=1.0,
            colour=COLOUR["sunk"],
            edge=COLOUR["edge"],
        ),
        "in servers": server_marks(server_x, server_y, columns, servers, used),
        "tiers": texts_at(
            (12.0, spine_y + 4, text("live.parallelism.spines", n=spines), 0),
            (12.0, leaf_y + 4, text("live.parallelism.leaves", n=leaves), 0),
            (12.0, server_y + 14, text("live.parallelism.servers", n=servers), 0),
            (12.0, server_y + 30, text("live.parallelism.of_eight"), 0),
        ),
    }
    return layers


def lit_links(state: State, row: int, kind: str, paths: list[Floats], size: float) -> Layer:
    """Return a few links in the hue of a kind of traffic; packets are as dense as its NICs are busy."""
    every = max(1, len(paths) // _LIT)
    chosen = paths[row % every :: every]
    busy = min(1.0, size / state.job.nic_rate / state.step.time)
    drawn = list(chosen)
    width = 1.6
    if kind == "tp":  # a double line
        drawn = [path + np.array([shift, 0.0]) for path in chosen for shift in (-1.4, 1.4)]
        width = 1.1
    return lines(
        drawn,
        width=width,
        dash=_DASH[kind],
        colour=COLOUR[kind],
        flow=np.full(len(drawn), busy),
        names=[f"{text(f'live.parallelism.{kind}')}, {i + 1}" for i in range(len(drawn))],
        notes=[text("live.parallelism.link", size=size / 1e9)] * len(drawn),
    )


def server_marks(x: Floats, top: float, columns: int, servers: int, used: Any) -> Layer:
    """Return a mark in each server for the kinds of traffic that stay inside, from top to bottom."""
    number = np.arange(servers)
    kinds = [kind for kind, is_used in zip(KINDS, used, strict=True) if is_used] or ["none"]
    left, upper, colour = [], [], []
    high = 7.0 / len(kinds)
    for place, kind in enumerate(kinds):
        left.append(x[number % columns] - _CELL / 2 + 1)
        upper.append(top + 11.0 * (number // columns) + 1 + high * place)
        colour.append(np.full(servers, COLOUR[kind] if kind != "none" else COLOUR["sunk"]))
    return boxes(
        np.concatenate(left),
        np.concatenate(upper),
        _CELL - 2,
        high,
        round=0.0,
        colour=np.concatenate(colour),
    )


# Bars ---------------------------------------------------------------------------------------------


def gigabytes(size: float) -> str:
    """Return a size in GB, in which the course counts what a step sends."""
    return text("live.parallelism.gb", size=size / 1e9)


def seconds(time: float) -> str:
    """Return a time as the case writes its own, with two places."""
    return text("live.parallelism.s", time=time)


def byte_layers(sent: Floats) -> dict[str, Layer]:
    """Return a bar for each kind of traffic beside each tier: what a GPU sends there in a step."""
    by_row = sent[:, ::-1].T  # (3 tiers from spine to server, 3 kinds)
    _, most = common_ends("bytes", 0.0, float(by_row.max()))
    to_width = (_BAR_RIGHT - _BAR_LEFT) / max(most, 1.0)
    top = np.array([_ROWS[tier] for tier in _ROWS])[:, None] + _BAR_PITCH * np.arange(3)  # (3, 3)
    width = np.where(by_row > 0, np.maximum(to_width * by_row, 1.0), 0.0)
    names = []
    words = []
    for tier in ("spine", "leaf", "server"):
        for kind in KINDS:
            name = text(f"live.parallelism.{kind}")
            names.append(f"{text(f'live.parallelism.{tier}')}, {name}")
    for size in by_row.ravel().tolist():
        words.append(gigabytes(size) if size else text("live.parallelism.nothing"))
    hues = np.tile([COLOUR[kind] for kind in KINDS], 3)
    middle = (top + _BAR_HEIGHT / 2).ravel()
    return {
        "bytes title": heading(16.0, text("live.parallelism.bytes"), _BAR_LEFT - 24),
        "sent": boxes(
            _BAR_LEFT,
            top.ravel(),
            width.ravel(),
            _BAR_HEIGHT,
            round=1.0,
            colour=hues,
            names=names,
            notes=words,
            glide=True,
            ghost=True,
        ),
        "kinds": texts(
            _BAR_LEFT - 6,
            middle,
            [kind.upper() for kind in KINDS] * 3,
            align=2.0,
            colour=hues,
            bold=1.0,
        ),
        "sizes": texts(
            _BAR_LEFT + width.ravel() + 5,
            middle,
            words,
            halo=1.0,
            colour=np.where(by_row.ravel() > 0, COLOUR["ink"], COLOUR["soft"]),
        ),
    }


def memory_layers(state: State) -> dict[str, Layer]:
    """Return what the fullest GPU keeps as one bar, with the end of its memory."""
    parts = state.memory_parts
    sizes = np.array(list(parts.values()))
    kept = float(sizes.sum())
    _, most = common_ends("memory", 0.0, max(1.25 * state.room, kept))
    to_x = log_axis(0, most, _LANES_LEFT, _LANES_RIGHT)
    ends = np.cumsum(sizes)
    left = np.asarray(to_x(ends - sizes))
    right = np.asarray(to_x(ends))

    hues = np.array([COLOUR[name] for name in ("soft", "edge", "soft", "hair", "edge")])
    names = [text(f"live.parallelism.{name}") for name in list(parts)[:-1]] + [rest_name(state)]
    notes = [gigabytes(size) for size in parts.values()]
    middle = _MEMORY_TOP + _LANE / 2
    return {
        "memory lane": texts(_LANES_LEFT - 8, middle, [text("live.parallelism.memory")], align=2.0),
        "memory": boxes(
            left,
            _MEMORY_TOP,
            np.where(sizes > 0, np.maximum(right - left, 0.5), 0.0),
            _LANE,
            round=1.0,
            colour=hues,
            edge=COLOUR["paper"],
            names=names,
            notes=notes,
            glide=True,
        ),
        "memory parts": part_words(names, left, right, middle, hues),
        **limit_layers(state.room, float(to_x(state.room))),
        "memory total": texts(
            min(float(right[-1]) + 6, _LANES_RIGHT + 4),
            middle,
            [gigabytes(kept) if state.fits else f"✕ {gigabytes(kept)}"],
            bold=1.0,
            halo=1.0,
            colour=COLOUR["ink"] if state.fits else COLOUR["wrong"],
        ),
    }


def rest_name(state: State) -> str:
    """Return what the fullest GPU keeps besides state and activations: logits, gathered layers or both."""
    stage = int(state.kept.total.argmax())
    kept = [name for name in _REST if getattr(state.kept, name)[stage] > 0]
    return text("word.and").join(text(f"live.parallelism.{name}") for name in kept)


def narrow_words(bar: Layer, words: Layer) -> str:
    """Return which parts of the bar of memory have no room for their names, with their sizes; empty if none."""
    rows = zip(
        bar.fields["names"],
        bar.fields["notes"],
        words.fields["texts"],
        bar.fields["w"],
        strict=True,
    )
    narrow = [f"{name} {size}" for name, size, word, wide in rows if wide > 0 and not word]
    if not narrow:
        return ""
    return text("live.parallelism.narrow", parts=", ".join(narrow))


def limit_layers(room: float, x: float) -> dict[str, Layer]:
    """Return the end of a GPU's memory of ``room`` bytes, as a mark across the bar with its size above it."""
    mark = np.array([[x, _MEMORY_TOP - 5], [x, _MEMORY_TOP + _LANE + 5]])
    words = [text("live.parallelism.room", size=room / 1e9)]
    words_x = min(max(x, 140.0), _LANES_RIGHT - 40)
    return {
        # With a gap in the bar behind it, some of whose parts are as dark as the mark.
        "limit": lines(
            [mark, mark],
            width=np.array([5.0, 2.0]),
            colour=np.array([COLOUR["paper"], COLOUR["ink"]]),
        ),
        "limit name": texts(words_x, _MEMORY_TOP - 12, words, align=1.0, halo=1.0),
    }


def part_words(words: list[str], left: Floats, right: Floats, middle: float, hues: Floats) -> Layer:
    """Return the names of the parts of a bar, in those parts that have room for them."""
    has_room = np.array([len(word) for word in words]) * 6.6 + 8 < right - left
    shown = [word if fits else "" for word, fits in zip(words, has_room, strict=True)]
    return texts((left + right) / 2, middle, shown, align=1.0, colour=ink_on(hues))


def step_axis(state: State) -> tuple[float, Callable[[Any], Any]]:
    """Return the longest time of the axis of a step [s], and the map from times to places [px]."""
    _, longest = common_ends("step", 0.0, 1.05 * state.step.time)
    return longest, log_axis(0, longest, _LANES_LEFT, _LANES_RIGHT)


def step_layers(state: State) -> dict[str, Layer]:
    """Return the step as a bar of what it is spent on, above an axis of time."""
    times = np.array(list(state.parts.values()))  # (4,) [s]: computing, then the kinds
    longest, to_x = step_axis(state)
    ends = np.cumsum(times)
    left = np.asarray(to_x(ends - times))
    right = np.asarray(to_x(ends))
    width = np.where(times > 0, np.maximum(right - left, 0.7), 0.0)
    middle = _STEP_TOP + _LANE / 2

    hues = np.array([COLOUR["hair"], *(COLOUR[kind] for kind in KINDS)])
    names = [text("live.parallelism.compute")]
    names += [text(f"live.parallelism.wait_{kind}") for kind in KINDS]
    notes = [seconds(time) for time in times.tolist()]
    written = [names[0]]
    written += [
        f"{kind.upper()} {time}" if time_of else ""
        for kind, time, time_of in zip(KINDS, notes[1:], times[1:], strict=True)
    ]
    grid = (_STEP_TOP - 4, _NIC_TOP + _LANE - 2)
    return {
        **tick_layers(tick_places(longest), to_x, lambda value: f"{value:g} s", grid, True),
        "step lane": texts(_LANES_LEFT - 8, middle, [text("live.parallelism.step")], align=2.0),
        "step": boxes(
            left,
            _STEP_TOP,
            width,
            _LANE,
            round=1.0,
            colour=hues,
            names=names,
            notes=notes,
            glide=True,
            ghost=True,
        ),
        "step name": part_words(written, left, right, middle, hues),
        "step total": texts(
            float(right[-1]) + 6, middle, [seconds(state.step.time)], bold=1.0, halo=1.0
        ),
    }


def nic_layers(state: State, nic: Floats) -> dict[str, Layer]:
    """Return how long a NIC sends for each kind of traffic, below the bar of the step."""
    _, to_x = step_axis(state)
    ends = np.cumsum(nic)
    left = np.asarray(to_x(ends - nic))
    right = np.asarray(to_x(ends))
    width = np.where(nic > 0, np.maximum(right - left, 0.7), 0.0)
    high = _LANE - 6
    middle = _NIC_TOP + high / 2
    return {
        "NIC lane": texts(_LANES_LEFT - 8, middle, [text("live.parallelism.nic")], align=2.0),
        "nic": boxes(
            left,
            _NIC_TOP,
            width,
            high,
            round=1.0,
            colour=np.array([COLOUR[kind] for kind in KINDS]),
            names=[text(f"live.parallelism.{kind}") for kind in KINDS],
            notes=[seconds(time) for time in nic.tolist()],
            glide=True,
        ),
        "nic total": texts(float(right[-1]) + 6, middle, [seconds(float(nic.sum()))], halo=1.0),
    }


def tick_places(longest: float) -> Floats:
    """Return the ticks of the axis of time [s]."""
    apart = 1.0 if longest <= 8 else 2.0
    return np.arange(0.0, longest, apart)


# All layouts --------------------------------------------------------------------------------------


# Edges of the map of all layouts [px].
_MAP_LEFT, _MAP_RIGHT = 58.0, _PANEL - 24.0
_NAME_LETTER = 7.0  # width of a letter of a layout's name
_NAME_ROOM = 8.0  # from such a name to a dot that is enough
_NAME_NEAR = 12.0  # from such a name to its own dot; from further off a line leads to it
_MAP_TOP, _MAP_BOTTOM = 56.0, _HEIGHT - 48.0


@dataclass(frozen=True, slots=True)
class LayoutMap:
    """All layouts with one sharding, one entry per layout, and the axes on which they stand."""

    names: list[str]
    kept: Floats  # (S,) memory of the fullest GPU [B]
    times: Floats  # (S,) [s]
    here: int  # which of them the view shows
    memory_axis: Axis
    time_axis: Axis

    @property
    def x(self) -> Floats:
        """Place of each layout from left to right, (S,) [px]."""
        return np.asarray(self.memory_axis.place(self.kept))

    @property
    def y(self) -> Floats:
        """Place of each layout from top to bottom, (S,) [px]."""
        return np.asarray(self.time_axis.place(self.times))


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis of the map, with its ticks."""

    place: Callable[[Any], Any]  # from a value to its place [px]
    ticks: Floats

    @classmethod
    def over(cls, low: float, high: float, start: float, end: float, ticks: Floats) -> Axis:
        """Return an axis from ``start`` to ``end`` [px] over given values, with those of the ticks that lie on it."""
        is_on = (ticks > low) & (ticks < high)
        return cls(log_axis(low, high, start, end), ticks[is_on])


def map_panel(state: State, others: list[State], sharding: str) -> Scene:
    """Return all layouts with one sharding by memory and step, the current one in ink."""
    shown = layout_map(state, others)
    limit = float(shown.memory_axis.place(state.room))
    layers = {
        "title": heading(16.0, text("live.parallelism.map", sharding=sharding)),
        **map_axis_layers(shown),
        **map_limit_layers(limit),
        "others": layout_layer(shown),
        **layout_name_layers(shown, limit),
    }
    return Scene("", layers=layers, height=_HEIGHT, width=_PANEL)


def layout_map(state: State, others: list[State]) -> LayoutMap:
    """Return all layouts as the map shows them; its axes are the same for all of them."""
    kept = np.array([other.kept.most for other in others])
    times = np.array([other.step.time for other in others])
    least = min(kept.min(), state.room / 8)
    most = max(kept.max(), 2.5 * state.room)
    low, high = common_ends("map memory", least, most)
    first, last = common_ends("map step", min(3.5, times.min()), times.max())
    x_ticks = state.room * np.exp2(np.arange(-3.0, 5.0))  # halves and doubles of what a GPU has
    y_ticks = np.array([3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0])
    return LayoutMap(
        names=[f"TP {other.layout.tp}, PP {other.layout.pp}" for other in others],
        kept=kept,
        times=times,
        here=[other.layout for other in others].index(state.layout),
        memory_axis=Axis.over(low / 1.15, high * 1.15, _MAP_LEFT, _MAP_RIGHT, x_ticks),
        time_axis=Axis.over(first / 1.05, last * 1.05, _MAP_BOTTOM, _MAP_TOP, y_ticks),
    )


def map_axis_layers(shown: LayoutMap) -> dict[str, Layer]:
    """Return the ticks of both axes, and what the lower one counts."""
    memory_axis = shown.memory_axis
    time_axis = shown.time_axis
    words = [text("live.parallelism.map_x")]
    return {
        **tick_layers(
            memory_axis.ticks, memory_axis.place, gigabytes, (_MAP_TOP, _MAP_BOTTOM), True
        ),
        **tick_layers(
            time_axis.ticks,
            time_axis.place,
            lambda value: f"{value:g} s",
            (_MAP_LEFT, _MAP_RIGHT),
            False,
        ),
        "axis": texts(_MAP_RIGHT, _HEIGHT - 14.0, words, align=2.0, colour=COLOUR["soft"]),
    }


def map_limit_layers(x: float) -> dict[str, Layer]:
    """Return the memory of a GPU as a line down the map, with words for its two sides."""
    line = np.array([[x, _MAP_TOP - 6], [x, _MAP_BOTTOM]])
    return {
        "limit": lines([line], width=2.0, colour=COLOUR["ink"]),
        "limit words": texts_at(
            (x - 5, _MAP_TOP - 12, text("live.parallelism.fit_here"), 2),
            (x + 5, _MAP_TOP - 12, text("live.parallelism.no_fit_here"), 0),
        ),
    }


def layout_layer(shown: LayoutMap) -> Layer:
    """Return a dot for each layout, a larger one in ink for the current one."""
    n = len(shown.names)
    is_here = np.arange(n) == shown.here
    notes = [
        text("live.parallelism.other", memory=kept / 1e9, step=time)
        for kept, time in zip(shown.kept.tolist(), shown.times.tolist(), strict=True)
    ]
    columns = {
        "x": shown.x,
        "y": shown.y,
        "size": np.where(is_here, 6.0, 4.0),
        "colour": np.where(is_here, COLOUR["ink"], COLOUR["edge"]),
        "shape": np.zeros(n),
        "names": shown.names,
        "notes": notes,
    }
    return Layer("dots", columns)


def layout_name_layers(shown: LayoutMap, limit: float) -> dict[str, Layer]:
    """Return the name of the current layout, near its dot where it covers no other dot, and a line if it is not near.

    It stands on the same side of the memory of a GPU, at ``limit`` [px], as its dot, if there is room.
    """
    x = float(shown.x[shown.here])
    y = float(shown.y[shown.here])
    name = shown.names[shown.here]
    wide = _NAME_LETTER * len(name)
    others = np.arange(len(shown.names)) != shown.here
    # Worth, where the name begins and its middle, how far it is from its dot, and which of its edges is next to it.
    best = (-np.inf, 0.0, 0.0, 0.0, 0)
    for down in (-12.0, 12.0, 0.0, -24.0, 24.0):
        for align, left in ((0, x + 10), (2, x - 10 - wide), (1, x - wide / 2)):
            if left < _MAP_LEFT or left + wide > _PANEL - 6:
                continue
            across = np.maximum(np.maximum(left - shown.x, shown.x - left - wide), 0.0)
            away = np.hypot(across, np.maximum(np.abs(shown.y - y - down) - 7.0, 0.0))
            room = min(float(away[others].min(initial=np.inf)), _NAME_ROOM)
            if min(left, x) - 3 < limit < max(left + wide, x) + 3:
                room = -0.5
            aside = max(left - x, x - left - wide, 0.0)
            own = float(np.hypot(aside, max(abs(down) - 7.0, 0.0)))
            worth = room - max(own - _NAME_NEAR, 0.0) / 2
            if worth > best[0]:
                best = (worth, left, y + down, own, align)
    _, left, middle, own, align = best
    anchor = left + wide * align / 2
    layers = {"spot": texts(anchor, [middle], [name], align=float(align), bold=1.0, halo=1.0)}
    if own > _NAME_NEAR:
        corner = [min(max(x, left), left + wide), middle - 7.0 * np.sign(middle - y)]
        leader = lines([np.array([[x, y], corner])], width=1.0, colour=COLOUR["edge"])
        return {"spot leader": leader, **layers}
    return layers
