"""Traffic engineering: the rules that keep the fullest link as empty as possible, with a proof that none do better.

The least largest utilisation of all links for given demands is a linear program. Its dual gives each link a price:
whatever the routes are, demands times the lengths of their cheapest paths, over prices times capacities, is a lower
bound (weak duality). `engineer` returns rules, the utilisation that they reach, and that bound, which is computed from
the prices alone, by a search of cheapest paths.

Demands whose ends hang on the same two switches are one, as they share all links but the first and the last; so the
cluster of 1,024 GPUs has 992 demands between 32 leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import routing
from fabriclab.core import (
    Fabric,
    Flags,
    Floats,
    Flows,
    Ints,
    Routes,
    as_html,
    as_text,
    check_memory,
)
from fabriclab.errors import FabricError, NoPath
from fabriclab.sdn.forwarding import (
    Forwarding,
    ends_of,
    goals_of,
    loads,
    normalised,
    routes,
    shortest,
    utilisation,
)

__all__ = ["Comparison", "Engineered", "NotProven", "compare", "engineer", "lower_bound"]

# Relative distance of utilisation and bound at which the optimum counts as proven.
PROVEN = 1e-6
_CLOSE = 1e-9  # relative: the program ends when its value is so close to the bound
_MOST_ROUNDS = 200  # illustrative: of new paths; the fabrics of the tests need at most 30
_FIRST_PATHS = 4  # illustrative: paths of each demand to begin with
_TURNS = 16  # illustrative: groups of demands that choose a first path one after the other
_STEEP = 6.0  # illustrative: the fullest link costs e^6 = 400 times as much as an empty one
_METHOD = "highs-ds"  # dual simplex: its prices are a corner, which new paths leave quickly
_LEAST = 1e-11  # parts of a demand that are rounding


class NotProven(FabricError):
    """The solver stopped before its answer and the bound by duality met."""


@dataclass(frozen=True, eq=False)
class Engineered:
    """Rules with the least largest utilisation for given demands, and the proof.

    Parameters
    ----------
    fabric, flows : Fabric, Flows
        The network, and the demands: sizes are rates.
    forwarding : Forwarding
        Rules for all nodes, with the part of each link.
    utilisation : float
        Load of the fullest link by these rules, as a fraction of its capacity; above 1 the demands do not fit.
    price : (L,) float64
        Price of each link, such that prices times capacities sum to 1. [1/(B/s)]
    bound : float
        No routes at all have a smaller largest utilisation, by `lower_bound` of the prices.
    rounds : int
        How often new paths were added.
    """

    fabric: Fabric
    flows: Flows
    forwarding: Forwarding
    utilisation: float
    price: Floats
    bound: float
    rounds: int

    @property
    def gap(self) -> float:
        """How far the utilisation is above the bound, as a fraction of it."""
        return (self.utilisation - self.bound) / self.bound if self.bound > 0 else 0.0

    @property
    def is_proven(self) -> bool:
        """Whether utilisation and bound agree within a millionth, so that no routes are better."""
        return abs(self.gap) <= PROVEN

    @property
    def part(self) -> float:
        """The fraction of all demands that fits at the same time, as `fabriclab.metrics.throughput` gives it."""
        return 1.0 / self.utilisation

    @property
    def routes(self) -> Routes:
        """Routes of the flows by these rules, for `fabriclab.run`."""
        return routes(self.fabric, self.forwarding, self.flows)

    def load(self) -> Floats:
        """Return the load of each link, (L,). [B/s]."""
        return loads(self.fabric, self.forwarding, self.flows)

    def bottlenecks(self) -> list[str]:
        """Return the names of links with a price, the most expensive first; they are full at the optimum."""
        spent = self.price * self.fabric.capacity
        order = np.argsort(-spent, kind="stable")
        return [self.fabric.link_name(int(link)) for link in order if spent[link] > _CLOSE]

    def __repr__(self) -> str:
        """Show utilisation and bound."""
        proof = "proven by duality" if self.is_proven else "not proven"
        return (
            f"<Engineered: fullest link at {100 * self.utilisation:.4g} %, "
            f"bound {100 * self.bound:.4g} %, {proof}>"
        )


class Graph(NamedTuple):
    """A graph for cheapest paths: arcs sorted by their target."""

    n_nodes: int
    source: Ints  # (A,)
    target: Ints  # (A,) rising
    into: Ints  # (T,) targets that occur, each once
    first: Ints  # (T,) first arc of each of them
    transit: Flags  # (N,)
    order: Ints  # (A,) number of each arc as it was given

    @classmethod
    def of(cls, n_nodes: int, source: Ints, target: Ints, transit: Flags) -> Graph:
        """Return the graph of arcs in any order."""
        order = np.argsort(target, kind="stable")
        into, first = np.unique(target[order], return_index=True)
        return cls(n_nodes, source[order], target[order], into, first, transit, order)

    def distances(self, cost: Floats, starts: Ints) -> Floats:
        """Return the cost of the cheapest paths from each start to all nodes, (S, N), by Bellman and Ford.

        ``cost`` (A,) or (S, A) is in the order in which the arcs were given. Only starts and nodes that allow transit
        are passed.
        """
        each = np.broadcast_to(cost, (starts.size, self.source.size))[:, self.order]
        number = np.arange(starts.size)
        found = np.full((starts.size, self.n_nodes), np.inf)
        found[number, starts] = 0.0
        for _ in range(self.n_nodes):
            best = np.minimum.reduceat(self._ahead(found, each, starts), self.first, axis=1)
            before = found[:, self.into]
            now = np.minimum(before, best)
            if np.array_equal(now, before):
                break
            found[:, self.into] = now
        return found

    def _ahead(self, found: Floats, each: Floats, starts: Ints) -> Floats:
        """Return the cost of each start's path to the target of each arc that ends with this arc, (S, A)."""
        passes = np.where(self.transit, found, np.inf)
        passes[np.arange(starts.size), starts] = 0.0
        return np.asarray(passes[:, self.source] + each)

    def trees(self, cost: Floats, starts: Ints) -> Ints:
        """Return the last arc of the cheapest path from each start to each node, -1 if there is none, (S, N).

        Costs have to be > 0, so that no path goes round in a loop.
        """
        found = self.distances(cost, starts)
        each = np.broadcast_to(cost, (starts.size, self.source.size))[:, self.order]
        ahead = self._ahead(found, each, starts)
        is_last = np.isfinite(ahead) & (ahead <= found[:, self.target])
        last = np.full(found.shape, -1)
        start, arc = np.nonzero(is_last)
        last[start, self.target[arc]] = self.order[arc]
        last[np.arange(starts.size), starts] = -1
        return last


def lower_bound(fabric: Fabric, flows: Flows, price: Floats) -> float:
    """Return a utilisation that no routes can go below, from any prices of links.

    Each demand costs at least its rate times its cheapest path, and all links together sell capacity times price; if
    the fullest link had a lower utilisation, the demands would pay more than is sold (weak duality).

    Parameters
    ----------
    fabric, flows : Fabric, Flows
        The network, and demands whose sizes are rates [B/s].
    price : (L,) float
        Price of each link. >= 0

    Raises
    ------
    ValueError
        If there is not one price for each link, one is negative, or no link with capacity has one.
    """
    price = np.asarray(price, dtype=np.float64)
    if price.shape != (fabric.n_links,):
        raise ValueError(
            f"price must have one number for each of {fabric.n_links} links, got shape {price.shape}; "
            "take those of engineer(...).price"
        )
    live = np.flatnonzero(fabric.capacity > 0)
    graph = Graph.of(
        fabric.n_nodes,
        fabric.source[live].astype(np.int64),
        fabric.target[live].astype(np.int64),
        fabric.transit,
    )
    rate = flows.size * flows.repeat[flows.group]
    counts = np.flatnonzero((flows.source != flows.target) & (rate > 0))
    sold = float(price @ fabric.capacity)
    if not sold > 0 or np.any(price < 0):
        raise ValueError(f"price must be >= 0, and > 0 for a link with capacity, got {price!r:.60}")
    paid = 0.0
    starts, of_flow = np.unique(flows.source[counts], return_inverse=True)
    step = max(1, 2**23 // max(1, live.size))
    for low in range(0, starts.size, step):
        some = starts[low : low + step].astype(np.int64)
        found = graph.distances(price[live], some)
        mine = (of_flow >= low) & (of_flow < low + step)
        length = found[of_flow[mine] - low, flows.target[counts[mine]]]
        paid += float(rate[counts[mine]] @ length)
    return paid / sold


class _Program(NamedTuple):
    """Demands between goals on bundles of links: cables of the same two nodes are one arc."""

    fabric: Fabric
    graph: Graph
    capacity: Floats  # (A,) of each arc [B/s]
    arc_of_link: Ints  # (L,) -1 for links that are no part of it
    start: Ints  # (P,) node
    goal: Ints  # (P,) number of the goal
    rate: Floats  # (P,) [B/s]
    ends: float  # utilisation of the fullest first or last link
    end_link: int  # that link, or -1


def engineer(fabric: Fabric, flows: Flows) -> Engineered:
    """Find rules by which the fullest link is as empty as possible, and prove that none are better.

    A linear program over paths (columns are added until no cheaper path is left [1]_), solved by HiGHS. The program
    knows rates only: no delay, no packets, and any split of a demand is possible. Of equal optima one is returned.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    flows : Flows
        Demands between ranks; sizes are rates [B/s], as for `fabriclab.metrics.throughput`.

    Returns
    -------
    Engineered
        Rules, utilisation, prices and bound.

    Raises
    ------
    NoPath
        If two ends have no path.
    NotProven
        If the solver stops early.
    ValueError
        If no demand is left.

    References
    ----------
    .. [1] L. R. Ford, D. R. Fulkerson, A suggested computation for maximal multi-commodity network flows,
       Management Science 5(1), 1958.

    Examples
    --------
    >>> from fabriclab import metrics, topologies
    >>> mesh = topologies.build("full_mesh", switches=4, hosts=2)
    >>> best = engineer(mesh, metrics.shift(mesh, 2))
    >>> best.is_proven
    True
    """
    program = _program(fabric, flows)
    goals = goals_of(fabric)
    usual = shortest(fabric, goals=goals)
    price = np.zeros(fabric.n_links)
    rounds = 0
    forwarding = usual
    spent = 0.0  # prices times capacities of all arcs
    try:
        spread = utilisation(fabric, loads(fabric, usual, flows))
    except NoPath as error:
        raise NoPath(f"a demand has no path ({error}); restore a link, or leave it out") from None
    if spread > program.ends * (
        1 + _CLOSE
    ):  # else the usual rules are as good as the first links allow
        solved = _solve(program, goals.node)
        rounds = solved.rounds
        of_arc = _without_loops(program, goals.node, solved.load)
        forwarding = _rules(fabric, program, usual, of_arc)
        inner = program.arc_of_link >= 0
        price[inner] = solved.price[program.arc_of_link[inner]]
        spent = float(solved.price @ program.capacity)
    if program.end_link >= 0 and spent < 1.0:
        price[program.end_link] = (1.0 - spent) / fabric.capacity[program.end_link]
    reached = utilisation(fabric, loads(fabric, forwarding, flows))
    bound = lower_bound(fabric, flows, price)
    return Engineered(fabric, flows, forwarding, reached, price, bound, rounds)


def _program(fabric: Fabric, flows: Flows) -> _Program:
    """Return the demands between goals, and the arcs between them."""
    goals = goals_of(fabric)
    ends = ends_of(fabric, goals, flows)
    counts = (flows.source != flows.target) & (ends.rate > 0)
    if not counts.any():
        raise ValueError(f"flows must have a rate between two nodes, got {flows!r}")

    # First and last links of ranks that hang on a switch: their load is given.
    load = np.zeros(fabric.n_links)
    for link in (ends.first, ends.last):
        mine = counts & (link >= 0)
        load += np.bincount(link[mine], ends.rate[mine], fabric.n_links)
    dead = np.flatnonzero((load > 0) & (fabric.capacity == 0))
    if dead.size:
        raise NoPath(
            f"{fabric.link_name(int(dead[0]))} has no capacity, and no other link leads there"
        )
    each = np.divide(load, fabric.capacity, out=np.zeros_like(load), where=load > 0)
    end_link = int(np.argmax(each)) if each.any() else -1

    key = ends.start[counts] * goals.node.size + ends.goal[counts]
    pairs, of_flow = np.unique(key, return_inverse=True)
    rate = np.bincount(of_flow, ends.rate[counts], pairs.size).astype(np.float64)
    start, goal = np.divmod(pairs, goals.node.size)
    apart = start != goals.node[goal]

    # Arcs: working links, except those of ranks that hang on a switch, bundled by their ends.
    is_end = np.zeros(fabric.n_links, dtype=np.bool_)
    hangs = goals.last[goals.last >= 0]
    is_end[hangs] = True
    is_end[hangs ^ 1] = True
    live = np.flatnonzero((fabric.capacity > 0) & ~is_end)
    stays = np.zeros(fabric.n_nodes, dtype=np.bool_)
    stays[goals.node] = True
    stays |= ~fabric.transit
    same = twins(fabric, live, stays)
    ends_key = same[fabric.source[live]] * fabric.n_nodes + same[fabric.target[live]]
    arcs, arc = np.unique(ends_key, return_inverse=True)
    arc_of_link = np.full(fabric.n_links, -1)
    arc_of_link[live] = arc
    source, target = np.divmod(arcs, fabric.n_nodes)
    return _Program(
        fabric=fabric,
        graph=Graph.of(fabric.n_nodes, source, target, fabric.transit),
        capacity=np.bincount(arc, fabric.capacity[live], arcs.size).astype(np.float64),
        arc_of_link=arc_of_link,
        start=start[apart],
        goal=goal[apart],
        rate=rate[apart],
        ends=float(each.max(initial=0.0)),
        end_link=end_link,
    )


def twins(fabric: Fabric, live: Ints, stays: Flags) -> Ints:
    """Return for each node the first node with the same capacity from and to every other node, (N,).

    Twins, such as the spines of a healthy cluster, may count as one node with the capacity of all: by symmetry each
    of them carries an equal part. Nodes that ``stay`` have no twins. As twins become one, their neighbours may become
    twins too.
    """
    same = np.arange(fabric.n_nodes)
    while True:
        key = same[fabric.source[live]] * fabric.n_nodes + same[fabric.target[live]]
        arcs, arc = np.unique(key, return_inverse=True)
        capacity = np.bincount(arc, fabric.capacity[live], arcs.size)
        source, target = np.divmod(arcs, fabric.n_nodes)
        neighbours: dict[int, list[tuple[int, int, float]]] = {}
        for one, other, rate in zip(
            source.tolist(), target.tolist(), capacity.tolist(), strict=True
        ):
            neighbours.setdefault(one, []).append((0, other, rate))
            neighbours.setdefault(other, []).append((1, one, rate))
        first: dict[tuple[tuple[int, int, float], ...], int] = {}
        joined = np.arange(fabric.n_nodes)
        for node, facts in neighbours.items():
            if not stays[node]:
                joined[node] = first.setdefault(tuple(sorted(facts)), node)
        if np.array_equal(joined[same], same):
            return same
        same = joined[same]


class _Solved(NamedTuple):
    """Load of each goal's traffic on each arc (D, A) [B/s], price of each arc (A,), and rounds."""

    load: Floats
    price: Floats
    rounds: int


class _Columns:
    """Paths of the program, each once: the demand of each, and its arcs as compressed rows."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()
        self.pair: list[int] = []
        self.arcs: list[tuple[int, ...]] = []

    def add(self, pair: Ints, paths: Sequence[tuple[int, ...]]) -> int:
        """Add paths that are new, and return how many."""
        before = len(self.pair)
        for number, path in zip(pair.tolist(), paths, strict=True):
            key = (number, *path)
            if key not in self.seen:
                self.seen.add(key)
                self.pair.append(number)
                self.arcs.append(path)
        return len(self.pair) - before


def _solve(program: _Program, goal_node: Ints) -> _Solved:
    """Solve the program by adding cheapest paths until the value of the program meets the bound."""
    n_arcs = program.capacity.size
    check_memory(
        64 * program.start.size * _FIRST_PATHS * 8,
        f"routes of {program.start.size} demands",
        "take fewer demands, or a fabric without the inside of its servers (expand=False)",
    )
    scale = float(program.capacity.max())
    capacity = program.capacity / scale
    rate = program.rate / scale
    target = goal_node[program.goal]
    starts, of_pair = np.unique(program.start, return_inverse=True)
    columns = _Columns()
    everyone = np.arange(program.start.size)

    def cheapest(cost: Floats) -> list[tuple[int, ...]]:
        """Return the cheapest path of each demand; costs are > 0."""
        return _paths(program, program.graph.trees(cost, starts), of_pair, target)

    for some, paths in _first_paths(program, starts, of_pair, target, capacity, rate):
        columns.add(some, paths)

    best_price = np.zeros(n_arcs)
    best_bound = 0.0
    for done in range(1, _MOST_ROUNDS + 1):
        answer = _master(columns, capacity, rate, program.ends)
        price = answer.price
        spent = float(price @ capacity)
        length = program.graph.distances(price, starts)[of_pair, target]
        bound = float(rate @ length) + program.ends * max(0.0, 1.0 - spent)
        if bound > best_bound or done == 1:
            best_bound = bound
            best_price = price
        if answer.value - best_bound <= _CLOSE * answer.value:
            break
        # Of equally cheap paths the one with fewest links.
        shown = price + 1e-7 * max(float(price.max()), 1e-12)
        if not columns.add(everyone, cheapest(shown)):
            break
    if answer.value - best_bound > PROVEN * answer.value:
        raise NotProven(
            f"after {done} rounds the fullest link is at {answer.value:.9g} and the bound at {best_bound:.9g}; "
            "take fewer demands"
        )
    load = np.zeros((goal_node.size, n_arcs))
    for column, amount in enumerate(answer.amount.tolist()):
        pair = columns.pair[column]
        if amount > _LEAST * rate[pair]:
            load[program.goal[pair], list(columns.arcs[column])] += amount * scale
    return _Solved(load, best_price / scale, done)


def _first_paths(
    program: _Program, starts: Ints, of_pair: Ints, target: Ints, capacity: Floats, rate: Floats
) -> list[tuple[Ints, list[tuple[int, ...]]]]:
    """Return some demands at a time, each with a path that avoids what those before it have filled.

    Each demand is divided into a few equal pieces; costs of arcs rise steeply with their load.
    """
    rng = np.random.default_rng(0)
    load = np.zeros(capacity.size)
    found = []
    for _ in range(_FIRST_PATHS):
        for some in np.array_split(rng.permutation(rate.size), _TURNS):
            if not some.size:
                continue
            full = load / capacity
            cost = np.exp(_STEEP * full / max(float(full.max()), 1e-300)) / capacity
            last = program.graph.trees(cost, starts)
            paths = _paths(
                program._replace(start=program.start[some]), last, of_pair[some], target[some]
            )
            lengths = np.array([len(path) for path in paths])
            arcs = np.fromiter((a for path in paths for a in path), np.int64, int(lengths.sum()))
            load += np.bincount(arcs, np.repeat(rate[some], lengths) / _FIRST_PATHS, capacity.size)
            found.append((some, paths))
    return found


def _paths(program: _Program, last: Ints, of_pair: Ints, target: Ints) -> list[tuple[int, ...]]:
    """Return the arcs of each demand's path, backwards along a tree of last arcs, (S, N)."""
    source = np.empty(program.graph.source.size, dtype=np.int64)
    source[program.graph.order] = program.graph.source  # (A,) of each arc as it was given
    node = target.copy()
    steps = []
    while True:
        arc = last[of_pair, node]
        if not np.any(arc >= 0):
            break
        steps.append(arc)
        node = np.where(arc >= 0, source[arc], node)
    lost = np.flatnonzero(node != program.start)
    if lost.size:
        one = program.fabric.name(int(program.start[lost[0]]))
        other = program.fabric.name(int(target[lost[0]]))
        raise NoPath(
            f"no path leads from {one} to {other}; restore a link, or leave out the demand"
        )
    table = np.array(steps[::-1]).T.tolist()
    return [tuple(arc for arc in row if arc >= 0) for row in table]


class _Answer(NamedTuple):
    """Value of the program, rate of each path (C,), and price of each arc (A,)."""

    value: float
    amount: Floats
    price: Floats


def _master(columns: _Columns, capacity: Floats, rate: Floats, least: float) -> _Answer:
    """Solve the program over the paths found so far: least u with load <= u capacity, and u >= ``least``."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n = len(columns.pair)
    n_arcs = capacity.size
    lengths = np.array([len(path) for path in columns.arcs])
    arc = np.fromiter((a for path in columns.arcs for a in path), np.int64, int(lengths.sum()))
    column = np.repeat(np.arange(n), lengths)
    ones = np.ones(arc.size)

    # Load of an arc less u times its capacity, <= 0; and the paths of each demand sum to its rate.
    value = np.concatenate([ones, -capacity])
    row = np.concatenate([arc, np.arange(n_arcs)])
    place = np.concatenate([column, np.full(n_arcs, n)])
    room = csr_array((value, (row, place)), shape=(n_arcs, n + 1))
    served = csr_array(
        (np.ones(n), (np.array(columns.pair), np.arange(n))), shape=(rate.size, n + 1)
    )
    goal = np.zeros(n + 1)
    goal[n] = 1.0
    low = np.zeros(n + 1)
    low[n] = least
    bounds = np.column_stack([low, np.full(n + 1, np.inf)])
    found = linprog(goal, room, np.zeros(n_arcs), served, rate, bounds, method=_METHOD)
    if found.status != 0:
        raise NotProven(f"HiGHS stopped: {found.message}")
    price = np.maximum(-found.ineqlin.marginals, 0.0)
    spent = float(price @ capacity)
    if spent > 1.0:
        price = price / spent
    return _Answer(float(found.x[n]), np.asarray(found.x[:n]), price)


def _without_loops(program: _Program, goal_node: Ints, load: Floats) -> Floats:
    """Return the loads of goals on arcs, (D, A), without what goes round in loops, which only fills links."""
    source = np.empty(program.graph.source.size, dtype=np.int64)
    source[program.graph.order] = program.graph.source
    target = np.empty(source.size, dtype=np.int64)
    target[program.graph.order] = program.graph.target
    clean = load.copy()
    for d in range(goal_node.size):
        circle = find_loop(source, target, clean[d] > 0)
        while circle.size:
            clean[d, circle] -= clean[d, circle].min()
            clean[d] = np.where(clean[d] < _LEAST * clean[d].max(initial=0.0), 0.0, clean[d])
            circle = find_loop(source, target, clean[d] > 0)
    return clean


def find_loop(source: Ints, target: Ints, used: NDArray[np.bool_]) -> Ints:
    """Return the numbers of used arcs that form a loop, or none."""
    arcs = np.flatnonzero(used)
    # Arcs that end where no arc begins are in no loop; leave them out until nothing changes.
    while arcs.size:
        inner = np.isin(target[arcs], source[arcs]) & np.isin(source[arcs], target[arcs])
        if inner.all():
            break
        arcs = arcs[inner]
    if not arcs.size:
        return arcs
    following = dict(zip(source[arcs].tolist(), arcs.tolist(), strict=True))
    path: list[int] = []
    place: dict[int, int] = {}
    node = int(source[arcs[0]])
    while node not in place:
        place[node] = len(path)
        path.append(following[node])
        node = int(target[path[-1]])
    return np.array(path[place[node] :])


def _rules(fabric: Fabric, program: _Program, usual: Forwarding, load: Floats) -> Forwarding:
    """Return rules that put these loads on arcs; nodes without traffic for a goal keep their usual rules."""
    inner = np.flatnonzero(program.arc_of_link >= 0)
    arc = program.arc_of_link[inner]
    share = np.zeros(usual.part.shape)
    share[:, inner] = load[:, arc] * fabric.capacity[inner] / program.capacity[arc]
    part = normalised(fabric, share)
    has_rule = np.zeros((usual.goal.size, fabric.n_nodes), dtype=np.bool_)
    goal, link = np.nonzero(part)
    has_rule[goal, fabric.source[link]] = True
    part = np.where(has_rule[:, fabric.source], part, usual.part)
    return usual.cut(part=part)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Utilisation of the fullest link for one traffic under several rules, (M,) by name; nan where not computed."""

    names: tuple[str, ...]
    utilisation: Floats
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> float:
        """Return the utilisation under one name."""
        if name not in self.names:
            raise KeyError(f"no {name!r}; there are {', '.join(self.names)}")
        return float(self.utilisation[self.names.index(name)])

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        table = [["rules", "fullest link [%]", "demands that fit [%]", "note"]]
        for name, load, note in zip(self.names, self.utilisation, self.notes, strict=True):
            if np.isnan(load):
                table.append([name, "-", "-", note])
            else:
                table.append([name, f"{100 * load:.1f}", f"{100 / load:.1f}", note])
        return table

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "fullest link")


def compare(
    fabric: Fabric, flows: Flows, *, seeds: int = 8, entropy: NDArray[np.integer] | None = None
) -> Comparison:
    """Compare the optimum for one traffic with equal splits, with hashes, and with a split for any traffic.

    Parameters
    ----------
    fabric, flows : Fabric, Flows
        The network, and demands whose sizes are rates [B/s].
    seeds : int
        How many hashes are tried. >= 1
    entropy : (F,) int, optional
        As in `fabriclab.routing.route`.

    Returns
    -------
    Comparison
        ``"optimum"``, ``"bound"`` (by duality), ``"equal split"`` (over all shortest paths, with equal parts at each
        node), ``"hash, best"``, ``"hash, median"``, ``"hash, worst"`` (one shortest path for each flow), and
        ``"any traffic"`` (the oblivious bound: the best fixed split in its worst case; nan where `oblivious` cannot say
        it, with the reason as note).
    """
    from fabriclab.errors import TooLarge
    from fabriclab.sdn.oblivious import oblivious

    best = engineer(fabric, flows)
    rows = [
        ("optimum", best.utilisation, f"linear program, gap {best.gap:.0e}"),
        ("bound", best.bound, "cheapest paths under the prices"),
    ]
    equal = shortest(fabric, equal=True)
    rows.append(
        ("equal split", utilisation(fabric, loads(fabric, equal, flows)), "ECMP without its hash")
    )
    hashed = []
    for seed in range(seeds):
        found = routing.route(fabric, flows, "ecmp", seed=seed, entropy=entropy)
        hashed.append(utilisation(fabric, found.link_bytes(flows, fabric.n_links)))
    for name, value in (
        ("hash, best", min(hashed)),
        ("hash, median", float(np.median(hashed))),
        ("hash, worst", max(hashed)),
    ):
        rows.append((name, value, f"of {seeds} seeds"))
    try:
        fixed = oblivious(fabric)
        rows.append(
            ("any traffic", fixed.ratio, f"one split for all traffic, worst case; {fixed.method}")
        )
    except (TooLarge, ValueError) as error:
        reason = str(error).partition(";")[0]
        rows.append(("any traffic", np.nan, f"not computed: {reason}"))
    names, values, notes = zip(*rows, strict=True)
    return Comparison(names, np.array(values), notes)
