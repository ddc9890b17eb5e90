"""Aggregation trees over a fabric, as in SHARP: which switches add, which have room, and how long an all-reduce takes.

Each rank sends its array once; switches add what comes from below, and copy the sum on its way down. A manager builds
the trees and divides the switches among jobs.

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        of_switch = max(part * _fact("sharp3", "operations_per_switch"), 1.0)
        window = min(_fact("sharp3", "operations_per_group"), of_switch)
        return cls(
            _fact("sharp3", "operation_payload"),
            window=window // 1,  # whole operations
            seconds=_fact("sharp1", "operation_time"),
        )

    def wait(self, operations: float = 1) -> float:
        """Return the mean time that the slowest of some operations loses to retransmissions [s]."""
        # Whoever sends an operation for the (k + 1)-th time again has waited 2^k timers for that. So the mean is
        # timer * sum over k of 2^k * (probability that a host sends one of them k + 1 times again).
        waits = 0.0  # in timers
        for k in range(63):
            nobody = (1 - self.again ** (k + 1)) ** (self.ranks * operations)
            waits += 2.0**k * (1 - nobody)
        return self.timer * float(waits)


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
        child = np.arange(self.parent.size)
        height = np.zeros(self.parent.size + 1, np.int64)
        for node, parent in enumerate(self.parent.tolist()):  # children stand before their parents
            height[parent] = max(height[parent], height[node] + 1)

        up = []
        down = []
        for level in range(height.max()):
            senders = height[child] == level
            up.append(StepGroup.make(child[senders], self.parent[senders], reduce=True))
            down.append(StepGroup.make(self.parent[senders], child[senders], reduce=False))
        return Schedule(
            "all_reduce",
            "aggregation_tree",
            self.ranks.size,
            1,
            (*up, *reversed(down)),
            n_switches=self.switches.size,
        )

    def round_trip(self, size: float) -> float:
        """Return the time from an operation's first byte sent to its last byte back, each switch adding all of it [s].

        Latency grows with the depth of the tree, where a ring takes 2 (n - 1) messages one after the other.
        """
        fabric = self.fabric
        is_link = self.path >= 0  # (n, hops)
        both = np.stack([self.path, self.path ^ 1])  # (2, n, hops), up and down
        hop = fabric.delay[both] + size / fabric.capacity[both]  # [s]
        up, down = np.where(is_link, hop, 0.0).sum(axis=-1)  # (n,) each [s]
        is_adder = np.isin(fabric.target[self.path], self.switches) & is_link
        adding = self.mode.seconds * is_adder.sum(axis=1)  # (n,) [s]
        return float((up + adding).max() + down.max())

    def limit(self) -> float:
        """Return the rate at which the mode and the slowest link let a host send [B/s]."""
        mode = self.mode
        wire = mode.payload + mode.header  # [B]
        by_window = wire * mode.window / (self.round_trip(wire) + mode.wait())
        by_switch = wire / mode.seconds if mode.seconds else np.inf
        slowest = float(self.fabric.capacity[[self.links, self.links ^ 1]].min())
        by_link = mode.part * slowest
        by_host = mode.host * wire / mode.payload
        return min(by_window, by_switch, by_link, by_host)


def adders(fabric: Fabric) -> Flags:
    """Tell which nodes can add and keep the sum: switches that stand in no server, and no NVSwitch, (N,)."""
    able = switches(fabric) & ~of_kind(fabric, "nvswitch")
    if "server" in fabric.coord_names:
        server = fabric.coord[:, fabric.coord_names.index("server")]  # (N,), -1 in none
        able = able & (server < 0)
    return able


def grow(
    fabric: Fabric, ranks: ArrayLike, mode: Mode, *, load: ArrayLike = 0, radix: int | None = None
) -> Tree:
    """Build the flattest aggregation tree over some ranks.

    Of the switches with the shortest path to the farthest rank the least loaded one becomes the root. Leaves out trees
    with more than one path up at a time; for a job on several rails build one tree per rail.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    ranks : array_like
        Two or more ranks of the fabric.
    mode : Mode
        How hosts and switches use the tree.
    load : array_like, shape (L,) or ()
        Number of trees on each link; of parallel cables the one with the fewest is taken.
    radix : int, optional
        Most children that a switch can add; 80 unless given, as in one published cluster.

    Raises
    ------
    NoPath
        If no switch reaches all ranks.
    ValueError
        If a node where branches meet cannot add, or has too many children.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> tree = grow(topologies.build("leaf_spine", hosts=32, radix=8), range(32), Mode.sharp(True))
    >>> tree
    <Tree of 32 ranks, 9 switches that add, root spine 0>
    >>> float(run([tree], "1 GiB").link_bytes.max())
    1073741824.0
    """
    rank = np.asarray(ranks)
    if rank.ndim != 1 or rank.size < 2 or np.unique(rank).size < rank.size:
        raise ValueError(f"ranks must be two or more different ones in a row, got {ranks!r:.80}")
    able = adders(fabric)
    ends = fabric.endpoint[rank].astype(np.int64)
    busy = np.broadcast_to(load, fabric.n_links)
    cables = fabric.capacity.reshape(-1, 2).min(axis=1) > 0  # with both directions
    usable = np.repeat(cables, 2)  # (L,)

    root, depth = find_root(fabric, ends, able, usable, busy)
    down = parallel_free_links(fabric, usable, busy)
    route = _routes_from(root, down)
    branches = joints(root, route, ends)
    _check_joints(fabric, branches, able, radix)

    order = list(branches)
    return Tree(
        fabric=fabric,
        ranks=rank,
        switches=np.array(order),
        parent=np.array(number(order, route, ends)),
        path=np.array([_path_up(route[end], down, depth) for end in ends.tolist()]),
        mode=mode,
    )


def find_root(
    fabric: Fabric, ends: Ints, able: Flags, usable: Flags, busy: NDArray[Any]
) -> tuple[int, int]:
    """Return the switch that is nearest to the farthest end, and its hops to it; of several, the one with least load.

    Parameters
    ----------
    ends : (n,) int
        Nodes that the tree joins.
    able : (N,) bool
        Nodes that add.
    usable : (L,) bool
        Links that the tree may take.
    busy : (L,) int
        Trees on each link.
    """
    search = ShortestPathSearch(fabric.without(links=np.flatnonzero(~usable)))
    farthest = [search.table(goals).max(axis=1) for goals in search.blocks(ends)]  # (N,) each
    hops = np.where(able, np.max(farthest, axis=0), FAR)
    load = np.bincount(fabric.target, busy, fabric.n_nodes)  # (N,), of the links that end there
    root = int(np.lexsort((load, hops))[0])
    if hops[root] >= FAR:
        raise NoPath(
            f"no switch that adds reaches all {ends.size} ranks; restore links, or add on the hosts"
        )
    return root, int(hops[root])


def parallel_free_links(
    fabric: Fabric, usable: Flags, busy: NDArray[Any]
) -> dict[tuple[int, int], int]:
    """Return one link for each pair of nodes: of parallel cables the one with the fewest trees on its way up.

    Nodes that pass nothing on send no sum down, so their links are left out.
    """
    links = np.flatnonzero(usable & fabric.transit[fabric.source])[::-1]
    # Of parallel links the last one stays in the dict.
    links = links[np.argsort(-busy[links ^ 1], kind="stable")]
    pairs = zip(fabric.source[links].tolist(), fabric.target[links].tolist(), strict=True)
    return dict(zip(pairs, links.tolist(), strict=True))


def _routes_from(root: int, down: Mapping[tuple[int, int], int]) -> dict[int, list[int]]:
    """Return the nodes of a shortest path from the root to each node, both ends included."""
    from networkx import DiGraph, single_source_shortest_path

    routes: dict[int, list[int]] = single_source_shortest_path(DiGraph([*down]), root)
    return routes


def joints(root: int, route: Mapping[int, list[int]], ends: Ints) -> dict[int, int]:
    """Return the nodes where branches meet, each with their number: the farthest from the root first, the root last."""
    edges: set[tuple[int, int]] = set()
    for end in ends.tolist():
        edges.update(pairwise(route[end]))
    children = Counter(above for above, _ in edges)

    found = {node for node, branches in children.items() if branches > 1}
    found.add(root)
    order = sorted(found, key=lambda node: (-len(route[node]), node))
    return {node: children[node] for node in order}


def _check_joints(
    fabric: Fabric, branches: Mapping[int, int], able: Flags, radix: int | None
) -> None:
    """Refuse a node where branches meet if it cannot add, or if there are too many of them."""
    if radix is None:
        most = int(_fact("sharp3", "tree_radix"))
    else:
        most = units.count(radix, "radix", 2)
    for node, count in branches.items():
        if not able[node]:
            why = "does not add"
        elif count > most:
            why = f"adds {most} at most"
        else:
            continue
        raise ValueError(
            f"{count} branches meet at {fabric.name(node)}, which {why}; take fewer ranks"
        )


def number(order: Sequence[int], route: Mapping[int, list[int]], ends: Ints) -> list[int]:
    """Return the participant to which each sends, the ranks first and then the switches in ``order``, but the root."""
    participant = {node: ends.size + i for i, node in enumerate(order)}
    parents = []
    for node in [*ends.tolist(), *order[:-1]]:
        above = reversed(route[node][:-1])
        parents.append(next(participant[node] for node in above if node in participant))
    return parents


def _path_up(route: Sequence[int], down: Mapping[tuple[int, int], int], depth: int) -> list[int]:
    """Return the links from the end of a route up to the root, and -1 after them up to ``depth`` links."""
    links = [down[edge] ^ 1 for edge in pairwise(route)]
    links.reverse()
    return links + [-1] * (depth - len(links))


def shared(trees: Sequence[Tree]) -> list[Tree]:
    """Return the trees with their times when all are used at once: a switch adds for each in turn, so all wait longer.

    A tree takes the time of its busiest switch. Leaves out that it may get more turns while others have nothing to add.
    """
    own = np.repeat([tree.mode.seconds for tree in trees], [tree.switches.size for tree in trees])
    nodes = np.concatenate([tree.switches for tree in trees])
    turn = np.bincount(nodes, own)  # (N,) time in which each node adds once for all its trees [s]
    slowed = []
    for tree in trees:
        busiest = float(turn[tree.switches].max())
        slowed.append(replace(tree, mode=replace(tree.mode, seconds=busiest)))
    return slowed


def run(trees: Sequence[Tree], size: units.Quantity, *, lag: units.Quantity = 0.0) -> Timeline:
    """Run the all-reduce of several trees at the same time; return when each ends, and the bytes on each link.

    All links of a tree carry the array at the same rate, because its operations follow each other: the flow engine
    shares links among trees, and `shared` divides their switches. Added to this are the trip of the first operation,
    and the time that the slowest operation of a window loses to retransmissions.

    Parameters
    ----------
    trees : sequence of Tree
        Trees on one fabric.
    size : float or str
        Size of the array of each tree. [B], >= 0
    lag : float or str
        Software time of a host. [s]
    """
    if not trees:
        raise ValueError(
            "trees must be one or more, got none; `grow` makes one, and a Manager one for each job"
        )
    total = units.size(size)
    fabric = trees[0].fabric
    trees = shared(trees)

    sizes = []  # with headers [B]
    sources = []
    targets = []
    links = []
    delays = []
    for tree in trees:
        sent = total * (1 + tree.mode.header / tree.mode.payload)
        both_directions = np.concatenate([tree.links, tree.links ^ 1])
        slowest = float(fabric.capacity[both_directions].min())  # [B/s]
        sizes.append(sent)
        sources.append(fabric.endpoint[tree.ranks[0]])
        targets.append(tree.switches[-1])
        links.append(both_directions)
        delays.append(_first_delay(tree, sent, slowest))
    limits = [tree.limit() for tree in trees]
    flows = Flows.make(np.array(sources), np.array(targets), sizes, lag=lag, limit=limits)

    n = len(trees)
    link = np.concatenate(links)
    routes = Routes(
        ptr=pointer([row.size for row in links]),
        link=link,
        use=np.ones(link.size),
        flow=np.arange(n, dtype=np.int32),
        share=np.ones(n),
        delay=np.maximum(delays, 0.0),
        kind=np.full(n, TREE, np.int8),
        adaptive=np.zeros(n, bool),
    )
    return engines.run(fabric, routes, flows)


def _first_delay(tree: Tree, sent: float, rate: float) -> float:
    """Return how much later a tree ends than the slowest link, of this ``rate``, would need for all bytes [s].

    The first operation goes up and down, and the slowest of a window waits for retransmissions.
    """
    first = min(sent, tree.mode.payload + tree.mode.header)  # [B]
    window = min(sent // first, tree.mode.window) if first else 0
    return tree.round_trip(first) - first / rate + tree.mode.wait(window)


class Manager:
    """Divide the switches of a fabric among jobs, as an aggregation manager does.

    A job gets a part of the operations of every switch that adds for it, until none are left; a link carries one
    streaming job. Leaves out that jobs may wait for each other in a switch.

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
        self.fabric = fabric
        self.jobs: dict[str, Tree] = {}
        self.parts: dict[str, float] = {}
        self.trees = trees
        self.streams = streams
        self.radix = radix

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
        if part is None:
            quota = "quota_streaming" if streaming else "quota_low_latency"
            part = _fact("sharp3", quota)
        if job in self.jobs or not 0 < part <= 1:
            raise ValueError(
                f"job must have a name of its own and 0 < part <= 1, got {job!r} and {part!r}"
            )

        holders = self.holders()
        streams: list[str] = []  # jobs beside which no other streaming one may use a link
        if streaming:
            streams = [name for name, tree in self.jobs.items() if tree.mode.window == np.inf]
        full = [
            node
            for node, names in holders.items()
            if not self._has_room(names, part, streams, streaming)
        ]
        taken: list[int] = []  # cables of the streaming jobs
        for name in streams:
            taken += (self.jobs[name].links // 2).tolist()
        load = np.zeros(self.fabric.n_links, np.int64)  # trees on each link
        for tree in self.jobs.values():
            load[tree.links] += 1

        try:
            free = self.fabric.without(nodes=full, cables=taken)
            tree = grow(free, ranks, Mode.sharp(streaming, part), load=load, radix=self.radix)
        except NoPath:
            busy = [f"{self.fabric.name(node)} by {', '.join(holders[node])}" for node in full]
            if taken and not busy:
                busy = [f"links by {', '.join(streams)}"]
            if not busy:
                raise
            raise OutOfSlots(
                f"job {job!r} finds no room, held are {'; '.join(busy)}; "
                "end a job, ask for a smaller part, or add on the hosts"
            ) from None
        self.jobs[job] = replace(tree, fabric=self.fabric)
        self.parts[job] = part
        return self.jobs[job]

    def _has_room(
        self, names: Sequence[str], part: float, streams: Sequence[str], streaming: bool
    ) -> bool:
        """Return whether a switch that adds for the jobs ``names`` has room for one more, which takes ``part`` of it.

        ``streams`` are all streaming jobs of the fabric, and ``streaming`` tells whether the new job is one.
        """
        used = sum(self.parts[name] for name in names)
        if used + part > 1 + 1e-9 or len(names) >= self.trees:
            return False
        streaming_jobs = [name for name in names if name in streams]
        return not (streaming and len(streaming_jobs) >= self.streams)

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
        self.fabric = self.fabric.without(nodes=[node])
        target = self.fabric.target
        affected = [job for job, tree in self.jobs.items() if node in target[tree.links]]
        # All of them end before the first starts again.
        ended = {job: self.end(job) for job in affected}

        out: dict[str, Tree | None] = {}
        for job, (tree, part) in ended.items():
            streaming = tree.mode.window == np.inf
            try:
                out[job] = self.start(job, tree.ranks, streaming=streaming, part=part)
            except (NoPath, OutOfSlots):
                out[job] = None
        self.jobs = {job: replace(tree, fabric=self.fabric) for job, tree in self.jobs.items()}
        return out


def recovery() -> dict[str, float]:
    """Return the parts of the time from the failure of a switch to a new tree [s].

    The hosts notice that nothing answers and give up; meanwhile the manager reads the new state of the fabric and then
    plans again. Leaves out the restart of the job, because a job that has lost a switch is stopped.
    """
    give_up = _fact("sharp3", "hosts_give_up")
    sees = _fact("sharp3", "manager_sees")
    plans = _fact("sharp3", "manager_plans")
    return {
        "hosts_give_up": give_up,
        "manager_sees": sees,
        "manager_plans": plans,
        "all": max(give_up, sees) + plans,
    }
