"""Aggregation trees over a Fabric, as SHARP has them: who adds, who has room, and how long it takes.

Each rank sends its array once, switches add what comes from below, and copy the sum on its way down. A manager builds
the trees and shares the switches out among jobs.

References
----------
.. [1] R. L. Graham et al., Scalable Hierarchical Aggregation Protocol (SHArP), COMHPC 2016, pp. 1-10.
.. [2] R. L. Graham et al., SHARP Streaming-Aggregation Hardware Design and Evaluation, ISC High Performance 2020.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, engines, units
from fabriclab.core import (
    TREE,
    Fabric,
    Flags,
    Flows,
    Ints,
    Routes,
    Schedule,
    StepGroup,
    Timeline,
    Value,
    pointer,
)
from fabriclab.economics.floor import of_kind, switches
from fabriclab.errors import NoPath, OutOfSlots
from fabriclab.routing.shortest import FAR, ShortestPathSearch

_fact = partial(catalog.value, "switches")


@dataclass(frozen=True)
class Mode:
    """How hosts and switches work on an array: in operations, so many at once.

    Parameters
    ----------
    payload, header : float
        Of one operation on a link. [B]
    window : float
        Operations of a job under way; inf where the network alone limits them.
    seconds : float
        Time of a switch for one operation, before it takes the next. [s]
    again, timer : float
        Probability that a host has to send an operation again, and the time after which it does, doubled each time [s].
    ranks : int
        Hosts whose packets an operation needs.
    part : float
        Of the rate of the links that it reaches. 0 < part <= 1
    host : float
        Rate at which a host prepares and restores the array. [B/s]
    """

    payload: float
    header: float = 0.0
    window: float = np.inf
    seconds: float = 0.0
    again: float = 0.0
    timer: float = 0.0
    ranks: int = 1
    part: float = 1.0
    host: float = np.inf

    @classmethod
    def sharp(cls, streaming: bool, part: float = 1.0) -> "Mode":
        """Return SHARP's streaming mode, or its low-latency mode with a ``part`` of the operations of a switch."""
        if streaming:
            return cls(_fact("sharp2", "operation_payload"), part=_fact("sharp2", "streaming_part"))
        window = min(
            _fact("sharp3", "operations_per_group"),
            max(part * _fact("sharp3", "operations_per_switch"), 1.0),
        )
        return cls(
            _fact("sharp3", "operation_payload"),
            0.0,
            window // 1,
            _fact("sharp1", "operation_time"),
        )

    def wait(self, operations: float = 1) -> float:
        """Return the mean time that the slowest of some operations loses to retransmissions [s]."""
        some = (1 - (1 - self.again**k) ** (self.ranks * operations) for k in range(1, 64))
        return self.timer * float(sum(2.0**k * p for k, p in enumerate(some)))


@dataclass(frozen=True, eq=False)
class Tree(Value):
    """An aggregation tree of some ranks of a fabric.

    Parameters
    ----------
    fabric : Fabric
        Where.
    ranks : (n,) int
        Ranks of the fabric.
    switches : (k,) int
        Nodes that add, the root last; others on the way pass on.
    parent : (n + k - 1,) int
        Participant to which each but the root sends: n + i is switch i.
    path : (n, hops) int
        Links from each rank up to the root, -1 after the last.
    mode : Mode
        How it is used.
    """

    fabric: Fabric
    ranks: Ints
    switches: Ints
    parent: Ints
    path: Ints
    mode: Mode

    def __repr__(self) -> str:
        """Show how many take part, and where the root is."""
        root = self.fabric.name(int(self.switches[-1]))
        return f"<Tree of {self.ranks.size} ranks, {self.switches.size} switches that add, root {root}>"

    @property
    def links(self) -> Ints:
        """All links of the tree towards the root, each once; back it uses the reverse of each."""
        return np.unique(self.path[self.path >= 0])

    @property
    def schedule(self) -> Schedule:
        """The all-reduce step by step, without overlap; placement and switches are those of the tree."""
        n, child, height = (
            self.ranks.size,
            np.arange(self.parent.size),
            np.zeros(self.parent.size + 1, np.int64),
        )
        for c, p in zip(
            child.tolist(), self.parent.tolist(), strict=True
        ):  # children stand before their parents
            height[p] = max(height[p], height[c] + 1)
        levels = [height[child] == h for h in range(height.max())]
        up = [StepGroup.make(child[at], self.parent[at], reduce=True) for at in levels]
        down = [StepGroup.make(self.parent[at], child[at], reduce=False) for at in reversed(levels)]
        return Schedule(
            "all_reduce", "aggregation_tree", n, 1, (*up, *down), n_switches=self.switches.size
        )

    def round_trip(self, size: float) -> float:
        """Return the time from an operation's first byte sent to its last byte back, each switch adding all of it [s].

        Latency grows with the depth of the tree, where a ring takes 2 (n - 1) messages one after the other.
        """
        f, at, on = self.fabric, np.stack([self.path, self.path ^ 1]), self.path >= 0
        up, down = np.where(on, f.delay[at] + size / f.capacity[at], 0.0).sum(axis=-1)
        adds = (np.isin(f.target[self.path], self.switches) & on).sum(axis=1)
        return float((up + self.mode.seconds * adds).max() + down.max())

    def limit(self) -> float:
        """Return the rate at which the mode and the slowest link let a host send [B/s]."""
        m, rate = self.mode, float(self.fabric.capacity[[self.links, self.links ^ 1]].min())
        wire = m.payload + m.header
        trip = wire * m.window / (self.round_trip(wire) + m.wait())
        return min(
            trip,
            wire / m.seconds if m.seconds else np.inf,
            m.part * rate,
            m.host * wire / m.payload,
        )


def adders(fabric: Fabric) -> Flags:
    """Tell which nodes can add and keep the sum: switches that stand in no server, and no NVSwitch, (N,)."""
    names, able = fabric.coord_names, switches(fabric) & ~of_kind(fabric, "nvswitch")
    return able & (fabric.coord[:, names.index("server")] < 0) if "server" in names else able


def grow(
    fabric: Fabric, ranks: ArrayLike, mode: Mode, *, load: ArrayLike = 0, radix: int | None = None
) -> Tree:
    """Return the flattest tree over some ranks: of the roots with the shortest way to all, the one with the least load.

    Leaves out trees with more than one way up at a time, and several rails of one job: take a tree for each.

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are avoided.
    ranks : array_like
        Two or more ranks of the fabric.
    mode : Mode
        How it is used.
    load : array_like, shape (L,) or ()
        Trees on each link; of parallel cables the one with fewest is taken.
    radix : int, optional
        Children that a switch adds; 80 unless given, as in one published cluster.

    Raises
    ------
    NoPath
        If no switch reaches all of them.
    ValueError
        If a node where branches meet does not add, or has too many children.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> tree = grow(topologies.build("leaf_spine", hosts=32, radix=8), range(32), Mode.sharp(True))
    >>> tree
    <Tree of 32 ranks, 9 switches that add, root spine 0>
    >>> float(run([tree], "1 GiB").link_bytes.max())
    1073741824.0
    """
    from networkx import DiGraph, single_source_shortest_path

    rank, able = np.asarray(ranks), adders(fabric)
    if rank.ndim != 1 or rank.size < 2 or np.unique(rank).size < rank.size:
        raise ValueError(f"ranks must be two or more different ones in a row, got {ranks!r:.80}")
    ends, both = (
        fabric.endpoint[rank].astype(np.int64),
        np.repeat(fabric.capacity.reshape(-1, 2).min(axis=1) > 0, 2),
    )
    search = ShortestPathSearch(fabric.without(links=np.flatnonzero(~both)))
    far = np.where(
        able,
        np.max([search.table(goals).max(axis=1) for goals in search.blocks(ends)], axis=0),
        FAR,
    )
    busy = np.broadcast_to(load, fabric.n_links)
    root = int(np.lexsort((np.bincount(fabric.target, busy, fabric.n_nodes), far))[0])
    if far[root] >= FAR:
        raise NoPath(
            f"no switch that adds reaches all {rank.size} ranks; restore links, or add on the hosts"
        )
    live = np.flatnonzero(both & fabric.transit[fabric.source])[::-1]
    live = live[np.argsort(-busy[live ^ 1], kind="stable")]  # of parallel links the last stays
    pairs = zip(fabric.source[live].tolist(), fabric.target[live].tolist(), strict=True)
    down = dict(zip(pairs, live.tolist(), strict=True))
    way = single_source_shortest_path(DiGraph([*down]), root)  # the nodes from the root to each
    paths = [[*pairwise(way[end])] for end in ends.tolist()]
    children = Counter(above for above, _ in {edge for path in paths for edge in path})
    joints = sorted(
        {root} | {node for node, n in children.items() if n > 1},
        key=lambda node: (-len(way[node]), node),
    )
    most = int(_fact("sharp3", "tree_radix")) if radix is None else units.count(radix, "radix", 2)
    for node in joints:
        if not able[node] or children[node] > most:
            why = f"adds {most} at most" if able[node] else "does not add"
            raise ValueError(
                f"{children[node]} branches meet at {fabric.name(node)}, which {why}; take fewer ranks"
            )
    number = {node: rank.size + i for i, node in enumerate(joints)}
    senders = [*ends.tolist(), *joints[:-1]]
    parent = [next(number[x] for x in reversed(way[node][:-1]) if x in number) for node in senders]
    up = [
        [down[edge] ^ 1 for edge in reversed(path)] + [-1] * (far[root] - len(path))
        for path in paths
    ]
    return Tree(fabric, rank, np.array(joints), np.array(parent), np.array(up), mode)


def shared(trees: Sequence[Tree]) -> list[Tree]:
    """Return the trees as they are when all are used at once: a switch adds for each in turn, so all wait longer.

    A tree takes the time of its busiest switch. Left out: that it may have more turns while others have nothing to add.
    """
    own = np.repeat([t.mode.seconds for t in trees], [t.switches.size for t in trees])
    turn = np.bincount(np.concatenate([t.switches for t in trees]), own)
    return [replace(t, mode=replace(t.mode, seconds=float(turn[t.switches].max()))) for t in trees]


def run(trees: Sequence[Tree], size: units.Quantity, *, lag: units.Quantity = 0.0) -> Timeline:
    """Return when the all-reduce of each tree ends if all begin at once, and the bytes of each link.

    All links of a tree carry the array at one rate, as operations follow each other: the flow engine shares links among
    trees, and `shared` their switches. The first operation's way comes on top, and what the slowest of a window loses
    to retransmissions.

    Parameters
    ----------
    trees : sequence of Tree
        On one fabric.
    size : float or str
        Of the array of each. [B], >= 0
    lag : float or str
        Software time of a host. [s]
    """
    if not trees:
        raise ValueError(
            "trees must be one or more, got none; `grow` makes one, and a Manager one for each job"
        )
    total, fabric, trees = units.size(size), trees[0].fabric, shared(trees)
    sent = [total * (1 + t.mode.header / t.mode.payload) for t in trees]
    rows = [np.concatenate([t.links, t.links ^ 1]) for t in trees]
    first = [min(s, t.mode.payload + t.mode.header) for s, t in zip(sent, trees, strict=True)]
    delay = [
        t.round_trip(p)
        - p / fabric.capacity[r].min()
        + t.mode.wait(min(s // p, t.mode.window) if p else 0)
        for t, p, r, s in zip(trees, first, rows, sent, strict=True)
    ]
    source, target = np.transpose([(fabric.endpoint[t.ranks[0]], t.switches[-1]) for t in trees])
    flows = Flows.make(source, target, sent, lag=lag, limit=[t.limit() for t in trees])
    link, n = np.concatenate(rows), len(trees)
    routes = Routes(
        pointer([r.size for r in rows]),
        link,
        np.ones(link.size),
        np.arange(n, dtype=np.int32),
        np.ones(n),
        np.maximum(delay, 0.0),
        np.full(n, TREE, np.int8),
        np.zeros(n, bool),
    )
    return engines.run(fabric, routes, flows)


class Manager:
    """Shares the switches of a fabric out among jobs, as an aggregation manager does.

    A job gets a part of the operations of every switch that adds for it, until there are none left; a link carries one
    streaming job. Left out: that jobs may wait for each other in a switch.

    Parameters
    ----------
    fabric : Fabric
        What is there.
    trees, streams : int, optional
        Jobs that a switch adds for, and streaming ones of them; any number unless given. In SHARP 2 a streaming tree
        is locked by one job.
    radix : int, optional
        As in `grow`.

    Attributes
    ----------
    jobs : dict of str to Tree
        Who runs.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        trees: float = np.inf,
        streams: float = np.inf,
        radix: int | None = None,
    ) -> None:
        """Begin without jobs."""
        self.fabric, self.jobs, self.parts = fabric, dict[str, Tree](), dict[str, float]()
        self.trees, self.streams, self.radix = trees, streams, radix

    def start(
        self, job: str, ranks: ArrayLike, *, streaming: bool = False, part: float | None = None
    ) -> Tree:
        """Return a tree for a job, or refuse it.

        Parameters
        ----------
        job : str
            A name of its own.
        ranks : array_like
            As in `grow`.
        streaming : bool
            In the mode for large arrays.
        part : float, optional
            Of a switch's operations; the default of the mode unless given. 0 < part <= 1

        Raises
        ------
        OutOfSlots
            If a switch that it needs has no room, with the jobs that hold it.
        """
        mine = (
            _fact("sharp3", f"quota_{'streaming' if streaming else 'low_latency'}")
            if part is None
            else part
        )
        if job in self.jobs or not 0 < mine <= 1:
            raise ValueError(
                f"job must have a name of its own and 0 < part <= 1, got {job!r} and {mine!r}"
            )
        held, streams = (
            self.holders(),
            [name for name, t in self.jobs.items() if streaming and t.mode.window == np.inf],
        )
        full = [
            node
            for node, names in held.items()
            if sum(self.parts[name] for name in names) + mine > 1 + 1e-9
            or len(names) >= self.trees
            or (streaming and sum(name in streams for name in names) >= self.streams)
        ]
        taken = [link // 2 for name in streams for link in self.jobs[name].links]
        load = np.bincount(
            [link for tree in self.jobs.values() for link in tree.links],
            minlength=self.fabric.n_links,
        )
        try:
            free, mode = self.fabric.without(nodes=full, cables=taken), Mode.sharp(streaming, mine)
            tree = grow(free, ranks, mode, load=load, radix=self.radix)
        except NoPath:
            who = [f"{self.fabric.name(node)} by {', '.join(held[node])}" for node in full]
            if not who and not taken:
                raise
            msg = f"job {job!r} finds no room, held are {'; '.join(who) or 'links by ' + ', '.join(streams)}; "
            raise OutOfSlots(
                msg + "end a job, ask for a smaller part, or add on the hosts"
            ) from None
        self.jobs[job], self.parts[job] = replace(tree, fabric=self.fabric), mine
        return self.jobs[job]

    def holders(self) -> dict[int, list[str]]:
        """Return the jobs that each switch adds for."""
        out: dict[int, list[str]] = {}
        for job, tree in self.jobs.items():
            for node in tree.switches.tolist():
                out.setdefault(node, []).append(job)
        return out

    def end(self, job: str) -> tuple[Tree, float]:
        """Give back what a job holds; return its tree and its part."""
        if job not in self.jobs:
            raise ValueError(
                f"job must be one that runs, got {job!r}; give one of {[*self.jobs]}, or start it first"
            )
        return self.jobs.pop(job), self.parts.pop(job)

    def fail(self, node: int) -> Mapping[str, Tree | None]:
        """Take a switch away; return a new tree for each job that used it, or None: it goes on without the network.

        `recovery` has the time that this takes.
        """
        self.fabric, out = self.fabric.without(nodes=[node]), dict[str, Tree | None]()
        hit = [job for job, tree in self.jobs.items() if node in self.fabric.target[tree.links]]
        for job, (tree, part) in {job: self.end(job) for job in hit}.items():
            try:
                out[job] = self.start(
                    job, tree.ranks, streaming=tree.mode.window == np.inf, part=part
                )
            except (NoPath, OutOfSlots):
                out[job] = None
        self.jobs = {job: replace(tree, fabric=self.fabric) for job, tree in self.jobs.items()}
        return out


def recovery() -> dict[str, float]:
    """Return the parts of the time from the death of a switch to a new tree [s].

    The hosts notice that nothing is answered and give up; meanwhile the manager reads the new state of the fabric, and
    then plans anew. Left out: the job's own restart, for a job that has lost a switch is stopped.
    """
    found = {
        part: _fact("sharp3", part) for part in ("hosts_give_up", "manager_sees", "manager_plans")
    }
    return {
        **found,
        "all": max(found["hosts_give_up"], found["manager_sees"]) + found["manager_plans"],
    }
