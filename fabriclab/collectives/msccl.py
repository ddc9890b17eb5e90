"""A Schedule as MSCCL XML: what each thread block of each GPU sends, receives, adds and waits for."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import definition
from fabriclab.core import Ints, Schedule, StepGroup, check_memory

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
_MOVE_BYTES = 10_000  # measured peak per block that is moved, rounded up; a test holds it


def msccl_xml(schedule: Schedule) -> str:
    """Return a schedule in the XML that RCCL reads for MSCCL [1]_: one channel, the protocol Simple, all sizes.

    A GPU has a thread block for each peer to which it sends and for each from which it receives. Chunks are the blocks
    of the schedule; segments of a block follow each other. A collective over one array runs in place: in the input (i),
    or where no rank begins with all of it, in the output (o). The others copy what a rank keeps from i to o and hold
    in scratch (s) what they relay. A step waits (depid, deps) for those on its GPU that wrote its chunks, and if it
    writes, for those that read them; if for several, then nops before it wait for the rest. Steps count with nops.
    Leaves out fused steps (rcs, rrcs) and the limits of MSCCL's runtime, such as 256 steps per thread block.

    Raises
    ------
    ValueError
        If switches take part, blocks differ in size, or RCCL has no such collective.
    TooLarge
        If the text needs more memory than there is.

    References
    ----------
    .. [1] ROCm/rccl, src/misc/msccl/msccl_parser.cc; M. Cowan et al., MSCCLang, ASPLOS 2023.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> print(msccl_xml(collectives.build("broadcast", "binomial_tree", 2))[:77])
    <algo name="broadcast binomial_tree" proto="Simple" nchannels="1" ngpus="2" c
    """
    n, m, parts, about = (
        schedule.n_ranks,
        schedule.n_blocks,
        schedule.segments,
        definition(schedule.collective),
    )
    if schedule.n_switches or (schedule.parts is not None and schedule.parts.size > 1):
        raise ValueError(
            f"MSCCL knows GPUs and chunks of one size, {schedule!r} has switches or blocks of several"
        )
    units.choice(schedule.collective, "collective", _KNOWN)
    moved = sum(int(g.count.sum()) * g.repeat for g in schedule.groups)
    check_memory(moved * _MOVE_BYTES, f"the XML of {schedule!r}", "take fewer ranks or segments")
    before, after = (
        np.repeat(f(n, m, schedule.root), parts, axis=1) for f in (about.before, about.after)
    )
    one, chunks, kept = about.arrays(n) == 1, m * parts, (before, after, ~(before | after))
    buffer, number = (
        np.where(before, 0, np.where(after, 1, 2)),
        [x.cumsum(axis=1) - 1 for x in kept],
    )
    if one:
        buffer[:], number = 0 if before[schedule.root].all() else 1, [np.arange(chunks)] * 3
    # Where each chunk is on each GPU. Those of different buffers never follow each other.
    place = 2 * chunks * buffer + np.choose(buffer, number)
    gpus = [_Gpu(2 * chunks) for _ in range(n)]
    for r, c in np.argwhere(before & after & (not one)).tolist():
        gpus[r].add((-1, -1), "cpy", place[r, c], 2 * chunks + number[1][r, c], [c])
    for step in schedule.steps():
        moves = list(_moves(schedule, step, place))
        for a, b, _, *what in moves:  # all are read before one is written
            gpus[a].add((b, -1), "s", *what)
        for a, b, kind, *what in moves:
            gpus[b].add((-1, a), kind, *what)
    text = [
        _tag(
            "algo",
            name=f"{schedule.collective} {schedule.algorithm}",
            proto="Simple",
            nchannels=1,
            ngpus=n,
            coll=schedule.collective.replace("_", ""),
            inplace=int(one),
            outofplace=int(not one),
            minBytes=0,
            maxBytes=0,
            nchunksperloop=max(int(x.sum(axis=1).max()) for x in (before, after)),
        )
    ]
    for r, gpu in enumerate(gpus):
        i, o, s = (chunks, chunks, 0) if one else (int(x[r].sum()) for x in kept)
        text.append(_tag("gpu", id=r, i_chunks=i, o_chunks=o, s_chunks=s))
        for tb, ((send, recv), steps) in enumerate(gpu.blocks.items()):
            inner = [_tag("step", s=at, **facts)[:-1] + "/>" for at, facts in enumerate(steps)]
            text += [_tag("tb", id=tb, send=send, recv=recv, chan=0), *inner, "</tb>"]
        text.append("</gpu>")
    return "\n".join([*text, "</algo>\n"])


def _moves(schedule: Schedule, step: StepGroup, place: Ints) -> Iterator[tuple[Any, ...]]:
    """Yield ends, kind, both places and chunks of each part of a transfer whose chunks follow each other at both."""
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
    return f"<{tag}" + "".join(f' {k}="{v}"' for k, v in facts.items()) + ">"


class _Gpu:
    """Thread blocks of a GPU, each a list of steps, and which of them wrote and read a chunk last.

    They go by their peers: to whom they send and from whom they receive, -1 for nobody.
    """

    def __init__(self, width: int) -> None:
        self.width = width  # numbers of places per buffer
        self.blocks: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.wrote, self.read = (
            defaultdict[int, dict[tuple[int, int], int]](dict) for _ in range(2)
        )

    def add(
        self, peers: tuple[int, int], kind: str, source: int, target: int, span: list[int]
    ) -> None:
        """Add a step that takes chunks from one place to another, after those that it waits for."""
        steps, tables = (
            self.blocks.setdefault(peers, []),
            (self.wrote,) if kind == "s" else (self.wrote, self.read),
        )
        # Of each thread block the last step; its own are done in order.
        waits = dict(
            sorted(x for table in tables for c in span for x in table[c].items() if x[0] != peers)
        )
        facts = {
            "type": "nop",
            "srcbuf": "ios"[source // self.width],
            "srcoff": source % self.width,
            "dstbuf": "ios"[target // self.width],
            "dstoff": target % self.width,
            "cnt": len(span),
        }
        for block, last in waits.items():
            self.blocks[block][last]["hasdep"] = 1
        wanted = [(list(self.blocks).index(block), last) for block, last in waits.items()] or [
            (-1, -1)
        ]
        steps += [{**facts, "depid": block, "deps": last, "hasdep": 0} for block, last in wanted]
        steps[-1]["type"] = kind
        for c in span:
            if kind != "s":
                self.wrote[c], self.read[c] = {}, {}
            (self.read if kind == "s" else self.wrote)[c][peers] = len(steps) - 1
