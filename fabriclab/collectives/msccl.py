"""Write a schedule as MSCCL XML: what each thread block of each GPU sends, receives, adds and waits for."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import definition
from fabriclab.core import Flags, Ints, Schedule, StepGroup, check_memory

_KNOWN = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
_BUFFERS = "ios"  # input, output, scratch
_INPUT = 0
_OUTPUT = 1
_SCRATCH = 2
_MOVE_BYTES = 10_000  # measured peak per block that is moved, rounded up; a test checks it


def msccl_xml(schedule: Schedule) -> str:
    """Return a schedule as the XML that RCCL reads for MSCCL [1]_, with one channel, protocol Simple, for all sizes.

    A GPU has one thread block for each peer to which it sends and one for each peer from which it receives. Chunks are
    the blocks of the schedule; the segments of a block are consecutive chunks. A collective over one array runs in
    place: in the input (i), or in the output (o) if no rank begins with the whole array. Other collectives copy what a
    rank keeps from i to o, and store what they relay in scratch (s). A step waits (depid, deps) for the steps on its
    GPU that wrote its chunks and, if it writes, for the steps that read them. If it has to wait for several steps, nops
    before it wait for the others; nops count as steps. Leaves out fused steps (rcs, rrcs) and the limits of MSCCL's
    runtime, such as 256 steps per thread block.

    Raises
    ------
    ValueError
        If switches take part, blocks differ in size, or RCCL has no such collective.
    TooLarge
        If the text needs more memory than this machine has.

    References
    ----------
    .. [1] ROCm/rccl, src/misc/msccl/msccl_parser.cc; M. Cowan et al., MSCCLang, ASPLOS 2023.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> print(msccl_xml(collectives.build("broadcast", "binomial_tree", 2))[:77])
    <algo name="broadcast binomial_tree" proto="Simple" nchannels="1" ngpus="2" c
    """
    n = schedule.n_ranks
    if schedule.n_switches or (schedule.parts is not None and schedule.parts.size > 1):
        raise ValueError(
            f"MSCCL knows GPUs and chunks of one size, {schedule!r} has switches or blocks of several"
        )
    units.choice(schedule.collective, "collective", _KNOWN)
    moved = sum(int(group.count.sum()) * group.repeat for group in schedule.groups)
    check_memory(moved * _MOVE_BYTES, f"the XML of {schedule!r}", "take fewer ranks or segments")

    places = _places(schedule)
    gpus = [_Gpu(2 * places.chunks) for _ in range(n)]
    if not places.in_place:
        for rank, chunk in np.argwhere(places.before & places.after).tolist():
            output = 2 * places.chunks + places.number_after[rank, chunk]
            gpus[rank].add((-1, -1), "cpy", places.place[rank, chunk], output, [chunk])
    for step in schedule.steps():
        moves = list(_moves(schedule, step, places.place))
        for a, b, _, *what in moves:  # all are read before any is written
            gpus[a].add((b, -1), "s", *what)
        for a, b, kind, *what in moves:
            gpus[b].add((-1, a), kind, *what)

    chunks = [int(has.sum(axis=1).max()) for has in (places.before, places.after)]
    text = [
        _tag(
            "algo",
            name=f"{schedule.collective} {schedule.algorithm}",
            proto="Simple",
            nchannels=1,
            ngpus=n,
            coll=schedule.collective.replace("_", ""),
            inplace=int(places.in_place),
            outofplace=int(not places.in_place),
            minBytes=0,
            maxBytes=0,
            nchunksperloop=max(chunks),  # of the fullest input or output
        )
    ]
    for rank, gpu in enumerate(gpus):
        text += _gpu_lines(rank, gpu, places)
    text.append("</algo>\n")
    return "\n".join(text)


class _Places(NamedTuple):
    """The place of each chunk on each GPU; arrays have the shape (ranks, chunks)."""

    in_place: bool
    chunks: int
    before: Flags  # in the input
    after: Flags  # in the output
    number_after: Ints  # in the output, if not in place
    place: Ints  # number of the buffer times 2 * chunks, and the chunk's number there


def _places(schedule: Schedule) -> _Places:
    """Return where the chunks of a schedule are: in the input, otherwise in the output, otherwise in scratch."""
    about = definition(schedule.collective)
    n = schedule.n_ranks
    blocks = schedule.n_blocks
    before = np.repeat(about.before(n, blocks, schedule.root), schedule.segments, axis=1)
    after = np.repeat(about.after(n, blocks, schedule.root), schedule.segments, axis=1)
    in_place = about.arrays(n) == 1
    chunks = blocks * schedule.segments

    buffer: Ints
    if in_place:
        begins_with_all = before[schedule.root].all()
        buffer = np.full(before.shape, _INPUT if begins_with_all else _OUTPUT)
        number_after = np.broadcast_to(np.arange(chunks), before.shape)
        number = number_after
    else:
        buffer = np.where(before, _INPUT, np.where(after, _OUTPUT, _SCRATCH))
        number_after = after.cumsum(axis=1) - 1
        number_in = [
            before.cumsum(axis=1) - 1,
            number_after,
            (~(before | after)).cumsum(axis=1) - 1,
        ]
        number = np.choose(buffer, number_in)
    # Chunks of different buffers are never consecutive.
    place = 2 * chunks * buffer + number
    return _Places(in_place, chunks, before, after, number_after, place)


def _gpu_lines(rank: int, gpu: "_Gpu", places: _Places) -> list[str]:
    """Return the lines of one GPU, with its thread blocks and their steps."""
    sizes = [places.chunks, places.chunks, 0]
    if not places.in_place:
        before = places.before[rank]
        after = places.after[rank]
        sizes = [int(has.sum()) for has in (before, after, ~(before | after))]
    text = [_tag("gpu", id=rank, i_chunks=sizes[0], o_chunks=sizes[1], s_chunks=sizes[2])]
    for number, ((send, recv), steps) in enumerate(gpu.blocks.items()):
        text.append(_tag("tb", id=number, send=send, recv=recv, chan=0))
        for at, facts in enumerate(steps):
            text.append(_tag("step", s=at, **facts)[:-1] + "/>")
        text.append("</tb>")
    text.append("</gpu>")
    return text


def _moves(schedule: Schedule, step: StepGroup, place: Ints) -> Iterator[tuple[Any, ...]]:
    """Yield ends, kind, both places and chunks of each part of a transfer whose chunks are consecutive at both ends."""
    columns = (step.source, step.target, step.first, step.count, step.segment, step.reduce)
    for a, b, first, count, segment, reduce in zip(*(x.tolist() for x in columns), strict=True):
        chunk = (first + np.arange(count)) % schedule.n_blocks * schedule.segments + segment
        breaks = np.any(np.diff(place[[[a], [b]], chunk]) != 1, axis=0)
        for span in np.split(chunk, np.flatnonzero(breaks) + 1):
            yield (
                a,
                b,
                "rrc" if reduce else "r",
                place[a, span[0]],
                place[b, span[0]],
                span.tolist(),
            )


def _tag(tag: str, **facts: Any) -> str:
    """Return an opening tag with its attributes."""
    attributes = [f' {name}="{value}"' for name, value in facts.items()]
    return f"<{tag}{''.join(attributes)}>"


class _Gpu:
    """Thread blocks of a GPU, each a list of steps, and the last steps that wrote and read each chunk.

    The key of a thread block are its peers: to whom it sends and from whom it receives, -1 for nobody.
    """

    def __init__(self, width: int) -> None:
        self.width = width  # numbers of places per buffer
        self.blocks: dict[tuple[int, int], list[dict[str, Any]]] = {}
        # by chunk: of each thread block the last step that wrote it, and the last that read it
        self.wrote = defaultdict[int, dict[tuple[int, int], int]](dict)
        self.read = defaultdict[int, dict[tuple[int, int], int]](dict)

    def add(
        self, peers: tuple[int, int], kind: str, source: int, target: int, span: list[int]
    ) -> None:
        """Add a step that moves chunks from one place to another, after the steps that it waits for."""
        waits = self._waits(peers, kind, span)
        for block, last in waits.items():
            self.blocks[block][last]["hasdep"] = 1
        steps = self.blocks.setdefault(peers, [])
        number = list(self.blocks).index
        wanted = [(number(block), last) for block, last in waits.items()]
        if not wanted:
            wanted = [(-1, -1)]

        facts = {
            "type": "nop",
            "srcbuf": _BUFFERS[source // self.width],
            "srcoff": source % self.width,
            "dstbuf": _BUFFERS[target // self.width],
            "dstoff": target % self.width,
            "cnt": len(span),
        }
        for block_number, last in wanted:
            steps.append({**facts, "depid": block_number, "deps": last, "hasdep": 0})
        steps[-1]["type"] = kind  # the steps before it only wait

        own = len(steps) - 1
        for chunk in span:
            if kind == "s":
                self.read[chunk][peers] = own
            else:
                self.wrote[chunk] = {peers: own}
                self.read[chunk] = {}

    def _waits(
        self, peers: tuple[int, int], kind: str, span: list[int]
    ) -> dict[tuple[int, int], int]:
        """Return the last step of each other thread block for which a step on some chunks has to wait."""
        found = []
        for table in (self.wrote,) if kind == "s" else (self.wrote, self.read):
            for chunk in span:
                for block, last in table[chunk].items():
                    if block != peers:  # its own steps are done in order
                        found.append((block, last))
        return dict(sorted(found))
