"""Updates of forwarding rules, one node at a time: what packets meet on the way from old rules to new ones.

Rules lead to one destination: a mapping from each node to its next node, or to several of them. While an update runs,
some nodes have new rules and others still have old ones, and a packet meets the mix. So a packet may go round a loop or
end in a black hole although both sets of rules are right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fabriclab.core import ReadOnly, as_html, as_text
from fabriclab.errors import FabricError

__all__ = [
    "Fault",
    "NoSafeOrder",
    "Orders",
    "Packet",
    "Update",
    "all_orders",
    "faults",
    "is_safe",
    "mixed",
    "moving",
    "plan_update",
    "play",
    "rules",
    "safe_order",
    "trace",
    "two_phase",
]

Node = Hashable
Rules = Mapping[Node, tuple[Node, ...]]

# Orders of more nodes are not counted one by one: 8! = 40,320.
MOST_COUNTED = 8
# A search over sets of updated nodes has 2^n of them.
MOST_SEARCHED = 14

ARRIVES = "arrives"
LOOP = "loop"
BLACK_HOLE = "black hole"


class NoSafeOrder(FabricError):
    """No order of single updates keeps all packets out of loops and black holes."""


def rules(route: str | Sequence[Node] | Mapping[Node, Any]) -> Rules:
    """Return rules from a route, or from a mapping of each node to its next node or nodes.

    Parameters
    ----------
    route : str, sequence or mapping
        ``"s-a-b-c-d"`` or ``["s", "a", "b", "c", "d"]``: each node leads to the one behind it, and the last one is the
        destination. ``{"s": ("a", "b"), "a": "d", "b": "d"}``: s divides its packets.

    Examples
    --------
    >>> rules("s-a-d")
    {'s': ('a',), 'a': ('d',)}
    """
    if isinstance(route, Mapping):
        table = {}
        for node, ahead in route.items():
            several = isinstance(ahead, (tuple, list, set, frozenset))
            table[node] = tuple(ahead) if several else (ahead,)
            if not table[node] or any(n is None or n == "" for n in table[node]):
                raise ValueError(
                    f"rules must name a next node for {node!r}, got {ahead!r:.60}; leave out a node without a rule"
                )
        if not table:
            raise ValueError(
                "rules must have a node with a next node, such as {'s': 'a', 'a': 'd'}, got {}"
            )
        return ReadOnly(table)
    if isinstance(route, str):
        nodes: list[Any] = [part.strip() for part in route.split("-")]
    elif isinstance(route, Iterable):
        nodes = list(route)
    else:
        raise TypeError(
            f"route must be a text such as 's-a-d', a list of nodes, or a mapping, got {route!r:.60}"
        )
    if len(nodes) < 2 or any(node == "" for node in nodes):
        raise ValueError(f"route must name two nodes or more, such as 's-a-d', got {route!r:.80}")
    twice = [node for node in nodes if nodes.count(node) > 1]
    if twice:
        raise ValueError(f"route passes {twice[0]!r} twice, so it is a loop; name each node once")
    return ReadOnly({node: (ahead,) for node, ahead in itertools.pairwise(nodes)})


class Packet(NamedTuple):
    """Where a packet went: the nodes in order, and how it ended: it arrives, or meets a loop or a black hole."""

    nodes: tuple[Node, ...]
    end: str


def trace(table: Rules, source: Node, destination: Node) -> list[Packet]:
    """Follow a packet from a source by all its possible ways, and return each with its end.

    In a loop the last node is the one that is met again.
    """
    found = []
    open_ways: list[tuple[Node, ...]] = [(source,)]
    while open_ways:
        way = open_ways.pop()
        here = way[-1]
        if here == destination:
            found.append(Packet(way, ARRIVES))
        elif here in way[:-1]:
            found.append(Packet(way, LOOP))
        elif not table.get(here, ()):
            found.append(Packet(way, BLACK_HOLE))
        else:
            for ahead in reversed(table[here]):
                open_ways.append((*way, ahead))
    return found


class Fault(NamedTuple):
    """A loop or a black hole: its nodes, and whether packets of a source meet it."""

    kind: str
    nodes: tuple[Node, ...]
    is_met: bool


def faults(table: Rules, sources: Node | Iterable[Node], destination: Node) -> list[Fault]:
    """Return loops and black holes, those that packets of the sources meet and loops off their way.

    A node without a rule that no packet can reach is no black hole.
    """
    found: dict[tuple[str, frozenset[Node]], Fault] = {}
    for source in _several(sources):
        for packet in trace(table, source, destination):
            if packet.end != ARRIVES:
                fault = _fault_of(packet, is_met=True)
                found.setdefault((fault.kind, frozenset(fault.nodes)), fault)
    for node in table:
        for packet in trace(table, node, destination):
            if packet.end == LOOP:
                fault = _fault_of(packet, is_met=False)
                found.setdefault((fault.kind, frozenset(fault.nodes)), fault)
    return list(found.values())


def _fault_of(packet: Packet, is_met: bool) -> Fault:
    """Return the fault at the end of a packet's way."""
    if packet.end == BLACK_HOLE:
        return Fault(BLACK_HOLE, packet.nodes[-1:], is_met)
    begin = packet.nodes.index(packet.nodes[-1])
    return Fault(LOOP, packet.nodes[begin:-1], is_met)


def _several(sources: Any) -> list[Node]:
    """Return sources as a list; a text is one of them."""
    if isinstance(sources, (list, tuple, set, frozenset)):
        return list(sources)
    return [sources]


def moving(old: Rules, new: Rules) -> tuple[Node, ...]:
    """Return the nodes whose rules change, in the order in which the new rules name them."""
    nodes = [*new, *(node for node in old if node not in new)]
    return tuple(n for n in nodes if set(old.get(n, ())) != set(new.get(n, ())))


def mixed(old: Rules, new: Rules, updated: Iterable[Node]) -> Rules:
    """Return the rules while some nodes are updated: theirs are the new ones, all others are old."""
    have_new = set(updated)
    table = {}
    for node in dict.fromkeys([*old, *new]):
        ahead = new.get(node, ()) if node in have_new else old.get(node, ())
        if ahead:
            table[node] = ahead
    return ReadOnly(table)


def destination_of(old: Rules, new: Rules) -> Node:
    """Return the one node to which the rules lead and which has no rule itself."""
    ends = {n for ahead in (*old.values(), *new.values()) for n in ahead}
    without = [n for n in ends if not old.get(n) and not new.get(n)]
    if len(without) != 1:
        raise ValueError(
            f"rules must lead to one destination, got {sorted(map(str, without))}; name it with destination=..."
        )
    return without[0]


def source_of(old: Rules, new: Rules) -> tuple[Node, ...]:
    """Return the nodes to which no rule leads, where packets come from; all nodes if there are none."""
    reached = {n for ahead in (*old.values(), *new.values()) for n in ahead}
    nodes = tuple(dict.fromkeys([*old, *new]))
    return tuple(n for n in nodes if n not in reached) or nodes


class _Ends(NamedTuple):
    """Sources and destination of an update."""

    sources: tuple[Node, ...]
    destination: Node


def _ends(old: Rules, new: Rules, sources: Any, destination: Any) -> _Ends:
    """Return sources and destination, those of the rules unless given, and refuse rules that are wrong at rest."""
    for table in (old, new):
        for node, ahead in table.items():
            if not isinstance(ahead, tuple):
                raise TypeError(
                    f"rules must map each node to a tuple of next nodes, got {node!r}: {ahead!r:.60}; "
                    "make them by rules({...}), which takes names as well"
                )
    goal = destination_of(old, new) if destination is None else destination
    starts = source_of(old, new) if sources is None else tuple(_several(sources))
    for name, table in (("old", old), ("new", new)):
        wrong = [f for f in faults(table, starts, goal) if f.is_met]
        if wrong:
            raise ValueError(
                f"{name} rules have a {wrong[0].kind} at {'-'.join(map(str, wrong[0].nodes))} before anything changes; "
                "give rules on which each packet arrives"
            )
    return _Ends(starts, goal)


class Moment(NamedTuple):
    """Rules between two updates: the node that was updated last (None at first), the mix, and its faults."""

    node: Node | None
    table: Rules
    faults: tuple[Fault, ...]


def play(
    order: Iterable[Node],
    old: Rules,
    new: Rules,
    *,
    sources: Any = None,
    destination: Any = None,
) -> list[Moment]:
    """Update nodes in an order and return each moment, the first before anything changes.

    Parameters
    ----------
    order : iterable
        Nodes whose rules change, each once.
    old, new : Rules
        Rules before and after.
    sources, destination : optional
        Where packets begin and end; the nodes to which no rule leads, and the node without a rule, unless given.
    """
    ends = _ends(old, new, sources, destination)
    steps = _checked(order, old, new)
    moments = []
    for k in range(len(steps) + 1):
        table = mixed(old, new, steps[:k])
        node = steps[k - 1] if k else None
        moments.append(Moment(node, table, tuple(faults(table, ends.sources, ends.destination))))
    return moments


def _checked(order: Iterable[Node], old: Rules, new: Rules) -> list[Node]:
    """Return an order as a list, or refuse one that does not name each changing node once."""
    steps = list(order)
    wanted = moving(old, new)
    if sorted(map(str, steps)) != sorted(map(str, wanted)):
        raise ValueError(
            f"order must name each of {', '.join(map(str, wanted))} once, got {steps!r:.80}"
        )
    return steps


def is_safe(
    order: Iterable[Node], old: Rules, new: Rules, *, sources: Any = None, destination: Any = None
) -> bool:
    """Return whether no packet of the sources meets a loop or a black hole at any moment of an order."""
    moments = play(order, old, new, sources=sources, destination=destination)
    return not any(fault.is_met for moment in moments for fault in moment.faults)


@dataclass(frozen=True)
class Orders:
    """All orders of a small update, counted by what happens on the way.

    Parameters
    ----------
    total : int
        Number of orders.
    loop_met, black_hole : int
        Orders in which packets of the sources meet a loop, or a black hole, at some moment.
    loop_anywhere : int
        Orders in which there is a loop at some moment, also off the way of the packets.
    safe : tuple
        The orders in which no packet meets either.
    """

    total: int
    loop_met: int
    loop_anywhere: int
    black_hole: int
    safe: tuple[tuple[Node, ...], ...]

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        return [
            ["orders", "number"],
            ["in all", str(self.total)],
            ["with a loop that packets meet", str(self.loop_met)],
            ["with a loop anywhere", str(self.loop_anywhere)],
            ["with a black hole that packets meet", str(self.black_hole)],
            ["safe", str(len(self.safe))],
        ]

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "orders of an update")


def all_orders(old: Rules, new: Rules, *, sources: Any = None, destination: Any = None) -> Orders:
    """Try all orders of an update of at most 8 nodes, and count what packets meet.

    Examples
    --------
    >>> counted = all_orders(rules("s-a-b-c-d"), rules("s-c-b-a-d"))
    >>> counted.total, counted.loop_met, counted.loop_anywhere
    (24, 18, 20)
    """
    ends = _ends(old, new, sources, destination)
    nodes = moving(old, new)
    if len(nodes) > MOST_COUNTED:
        raise ValueError(
            f"{len(nodes)} nodes have {math.factorial(len(nodes)):,} orders; count those of at most {MOST_COUNTED}, "
            "or ask safe_order for one"
        )
    # What happens depends on the set of updated nodes alone, so each set is looked at once.
    known: dict[frozenset[Node], list[Fault]] = {}
    for k in range(len(nodes) + 1):
        for some in itertools.combinations(nodes, k):
            table = mixed(old, new, some)
            known[frozenset(some)] = faults(table, ends.sources, ends.destination)

    loop_met = 0
    loop_anywhere = 0
    black_hole = 0
    safe = []
    for order in itertools.permutations(nodes):
        seen = [f for k in range(len(order) + 1) for f in known[frozenset(order[:k])]]
        met = {f.kind for f in seen if f.is_met}
        loop_met += LOOP in met
        black_hole += BLACK_HOLE in met
        loop_anywhere += any(f.kind == LOOP for f in seen)
        if not met:
            safe.append(order)
    return Orders(math.factorial(len(nodes)), loop_met, loop_anywhere, black_hole, tuple(safe))


def dependencies(old: Rules, new: Rules) -> dict[Node, set[Node]]:
    """Return for each changing node the nodes that have to be updated before it, so that every order of them is safe.

    A node may send by its new rule once all that its packets then pass have new rules (destination first). A node that
    loses its rule waits for all that used it.
    """
    changes = set(moving(old, new))
    before: dict[Node, set[Node]] = {node: set() for node in changes}
    for node in changes:
        if new.get(node):
            before[node] |= _changing_ahead(node, new, changes)
        else:
            before[node] |= {user for user in changes if node in old.get(user, ())}
    return before


def _changing_ahead(node: Node, new: Rules, changes: set[Node]) -> set[Node]:
    """Return the changing nodes that packets of a node pass by new rules."""
    ahead: set[Node] = set()
    open_nodes = list(new.get(node, ()))
    while open_nodes:
        other = open_nodes.pop()
        if other not in ahead:
            ahead.add(other)
            open_nodes += new.get(other, ())
    return ahead & changes


def safe_order(
    old: Rules | Mapping[Node, Rules],
    new: Rules | Mapping[Node, Rules],
    *,
    sources: Any = None,
    destination: Any = None,
) -> tuple[Node, ...]:
    """Return an order of updates in which no packet meets a loop or a black hole.

    Rules of one destination always have such an order: the node next to the destination first. If nodes change their
    rules for several destinations at a time, the orders of two of them may contradict each other; then sets of updated
    nodes are searched, if there are at most 14 nodes.

    Parameters
    ----------
    old, new : Rules, or mapping of destination to Rules
        Rules before and after, of one destination or of several, all of which a node changes at the same moment.
    sources, destination : optional
        As in `play`, for one destination.

    Raises
    ------
    NoSafeOrder
        If there is none, or none was found; `two_phase` always works.

    Examples
    --------
    >>> safe_order(rules("s-a-b-c-d"), rules("s-c-b-a-d"))
    ('a', 'b', 'c', 's')
    """
    return plan_update(old, new, sources=sources, destination=destination, tags=False).order


@dataclass(frozen=True)
class Update:
    """How to go from old rules to new ones.

    Parameters
    ----------
    order : tuple
        Nodes in the order of their updates; empty for an update in two phases.
    method : str
        ``"destination first"``, ``"search"`` or ``"two-phase"``.
    why : str
        A sentence on the choice.
    """

    order: tuple[Node, ...]
    method: str
    why: str


def plan_update(
    old: Any, new: Any, *, sources: Any = None, destination: Any = None, tags: bool = True
) -> Update:
    """Return a safe order of updates, or, if there is none and ``tags`` are allowed, an update in two phases.

    Parameters are those of `safe_order`.
    """
    several = all(isinstance(table, Mapping) for table in [*old.values(), *new.values()])
    by_goal = (old, new) if several else None
    if by_goal is None:
        ends = _ends(old, new, sources, destination)
        old, new = {ends.destination: old}, {ends.destination: new}
        starts = {ends.destination: ends.sources}
    else:
        starts = {}
        for goal in dict.fromkeys([*old, *new]):
            starts[goal] = _ends(old.get(goal, {}), new.get(goal, {}), sources, goal).sources
    goals = list(dict.fromkeys([*old, *new]))
    before: dict[Node, set[Node]] = {}
    for goal in goals:
        for node, others in dependencies(old.get(goal, {}), new.get(goal, {})).items():
            before.setdefault(node, set()).update(others)
    order = sorted_by(before)
    if order is not None:
        return Update(
            order, "destination first", "each node follows those that its packets pass then"
        )

    nodes = tuple(before)
    if len(nodes) > MOST_SEARCHED:
        problem = (
            f"the order of {len(nodes)} nodes contradicts itself, and so many are not searched"
        )
    else:
        order = _search(nodes, goals, old, new, starts)
        if order is not None:
            return Update(
                order, "search", "rules of several destinations allow this order only by luck"
            )
        problem = f"none of the orders of {len(nodes)} nodes is safe"
    if not tags:
        raise NoSafeOrder(
            f"{problem}; change the rules in two phases with version tags: two_phase(old, new)"
        )
    return Update(
        (), "two-phase", f"{problem}, so packets carry the version of the rules they began with"
    )


def sorted_by(before: Mapping[Node, set[Node]]) -> tuple[Node, ...] | None:
    """Return an order in which each node comes after those that must be before it, or None if they contradict."""
    from graphlib import CycleError, TopologicalSorter

    try:
        return tuple(TopologicalSorter(before).static_order())
    except CycleError:
        return None


def _search(
    nodes: tuple[Node, ...], goals: list[Node], old: Any, new: Any, starts: Mapping[Node, Any]
) -> tuple[Node, ...] | None:
    """Return a safe order by a search over sets of updated nodes, or None."""
    known: dict[frozenset[Node], bool] = {}

    def is_right(updated: frozenset[Node]) -> bool:
        if updated not in known:
            known[updated] = True
            for goal in goals:
                table = mixed(old.get(goal, {}), new.get(goal, {}), updated)
                if any(f.is_met for f in faults(table, starts[goal], goal)):
                    known[updated] = False
        return known[updated]

    came_from: dict[frozenset[Node], tuple[frozenset[Node], Node] | None] = {frozenset(): None}
    open_sets = [frozenset[Node]()]
    everything = frozenset(nodes)
    while open_sets and everything not in came_from:
        here = open_sets.pop()
        for node in nodes:
            there = here | {node}
            if node not in here and there not in came_from and is_right(there):
                came_from[there] = (here, node)
                open_sets.append(there)
    if everything not in came_from:
        return None
    order: list[Node] = []
    place = came_from[everything]
    while place is not None:
        order.append(place[1])
        place = came_from[place[0]]
    return tuple(reversed(order))


class TwoPhase(NamedTuple):
    """A step of an update with version tags, and what packets of each source meet after it.

    ``rules`` has the rules of each version, ``tags`` the version that each source gives its packets.
    """

    what: str
    rules: Mapping[int, Rules]
    tags: Mapping[Node, int]
    faults: tuple[Fault, ...]


def two_phase(
    old: Rules, new: Rules, *, sources: Any = None, destination: Any = None
) -> list[TwoPhase]:
    """Return the steps of an update in two phases [1]_: each packet follows one version of the rules from end to end.

    First all nodes get the new rules beside the old ones, then source after source gives its packets the new version,
    and when the last packets of the old version have left, the old rules go. Meanwhile nodes keep both versions, so
    they need room for twice as many rules. Packets of both versions fill buffers, so a check for deadlock needs both.

    References
    ----------
    .. [1] M. Reitblatt, N. Foster, J. Rexford, C. Schlesinger, D. Walker, Abstractions for network update,
       SIGCOMM 2012.
    """
    ends = _ends(old, new, sources, destination)
    steps = []
    tags = dict.fromkeys(ends.sources, 1)

    def add(what: str, versions: Mapping[int, Rules]) -> None:
        found = []
        for source in ends.sources:
            table = versions.get(tags[source], {})
            found += [f for f in faults(table, source, ends.destination) if f.is_met]
        steps.append(TwoPhase(what, ReadOnly(versions), ReadOnly(tags), tuple(found)))

    add("all packets follow version 1", {1: old})
    inner: dict[Node, tuple[Node, ...]] = {}
    for node, ahead in new.items():
        inner[node] = ahead
        add(
            f"{node} gets its rule of version 2 beside that of version 1",
            {1: old, 2: ReadOnly(inner)},
        )
    for source in ends.sources:
        tags[source] = 2
        add(f"{source} gives its packets version 2", {1: old, 2: new})
    add("the last packets of version 1 have arrived, and its rules go", {2: new})
    return steps
