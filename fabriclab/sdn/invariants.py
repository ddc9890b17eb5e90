"""What has to hold of the rules of a fabric at every moment: no black hole, no loop, no deadlock, and tenants apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Flags, Ints, as_html, as_text, expand, parts_of
from fabriclab.sdn.forwarding import Forwarding
from fabriclab.sdn.tenants import Tenants
from fabriclab.sdn.traffic import find_loop

__all__ = ["Check", "Violation", "check"]

BLACK_HOLE = "black hole"
LOOP = "loop"
DEADLOCK = "deadlock"
ISOLATION = "isolation"


class Violation(NamedTuple):
    """An invariant that does not hold: which, where, and a sentence."""

    kind: str
    nodes: tuple[int, ...]
    message: str

    @property
    def parts(self) -> set[tuple[str, tuple[int, ...]]]:
        """What it consists of, so that one that shrinks is not a new one: a black hole has a part for each goal."""
        if self.kind == BLACK_HOLE:
            return {(self.kind, (self.nodes[0], goal)) for goal in self.nodes[1:]}
        return {(self.kind, self.nodes)}


@dataclass(frozen=True)
class Check:
    """All violations found at one moment; none means that the rules are right."""

    violations: tuple[Violation, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether all invariants hold."""
        return not self.violations

    def new_since(self, before: Check) -> list[Violation]:
        """Return the violations that an earlier check did not have, or not so large."""
        known = {part for v in before.violations for part in v.parts}
        return [v for v in self.violations if v.parts - known]

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each invariant."""
        table = [["invariant", "violations", "first"]]
        for kind in (BLACK_HOLE, LOOP, DEADLOCK, ISOLATION):
            mine = [v for v in self.violations if v.kind == kind]
            table.append(
                [
                    f"no {kind}" if kind != ISOLATION else kind,
                    str(len(mine)),
                    mine[0].message if mine else "",
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show what is wrong, or that nothing is."""
        if self.ok:
            return "<Check: no black hole, no loop, no deadlock, tenants apart>"
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "invariants")


class Bundles(NamedTuple):
    """Links between switches, bundled by their two nodes, and pairs of bundles of which one leads to the other."""

    source: Ints  # (B,)
    target: Ints  # (B,)
    of_link: Ints  # (L,) -1 for links of ranks
    before: Ints  # (W,) bundle that ends where ...
    after: Ints  # (W,) ... this one begins


def bundles_of(fabric: Fabric) -> Bundles:
    """Return the bundles of a fabric, whatever their capacity."""
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    key = fabric.source[inner].astype(np.int64) * fabric.n_nodes + fabric.target[inner]
    pairs, number = np.unique(key, return_inverse=True)
    of_link = np.full(fabric.n_links, -1)
    of_link[inner] = number
    source, target = np.divmod(pairs, fabric.n_nodes)
    first: Ints = np.asarray(np.searchsorted(source, target, side="left"))
    stop: Ints = np.asarray(np.searchsorted(source, target, side="right"))
    count = stop - first
    before = np.repeat(np.arange(pairs.size), count)
    return Bundles(source, target, of_link, before, after=expand(first, count))


def check(
    fabric: Fabric,
    forwarding: Forwarding,
    *,
    before: Forwarding | None = None,
    versions: bool = False,
    tenants: Tenants | None = None,
    bundles: Bundles | None = None,
) -> Check:
    """Check the rules of a fabric for all goals and from all ranks.

    Parameters
    ----------
    fabric : Fabric
        The network as it is: a rule that leads to a link of capacity 0 loses packets.
    forwarding : Forwarding
        The rules.
    before : Forwarding, optional
        Rules until a moment ago: packets that followed them may still wait in buffers, so they count for deadlock.
    versions : bool
        Whether packets that began by the rules ``before`` follow them to the end, as in an update in two phases.
    tenants : Tenants, optional
        Who may reach whom, and who does.
    bundles : Bundles, optional
        Those of `bundles_of`, which need not be found anew for each check.

    Returns
    -------
    Check
        Violations: black holes and loops that packets of ranks meet (`fabriclab.sdn.faults` also finds loops off their
        way); a circle of buffers that wait for each other; tenants that reach each other and should not.

    Notes
    -----
    A rank without a working cable is no fault of rules, and neither is a goal whose ranks have all lost theirs. A rank
    that no rule leads to from some switch is a black hole there.
    """
    found: list[Violation] = []
    uses = forwarding.uses
    active = _goals_in_use(fabric, forwarding)
    reached = _reached(fabric, forwarding, uses, active)
    found += _black_holes(fabric, forwarding, uses, reached)
    found += _loops(fabric, forwarding, uses, reached)
    known = bundles_of(fabric) if bundles is None else bundles
    now = uses & reached[:, fabric.source]  # rules that packets follow, (D, L)
    waits = [(now, now)]
    if before is not None and before is not forwarding:
        earlier = before.uses
        then = earlier & _reached(fabric, before, earlier, active)[:, fabric.source]
        waits.append((then, then))
        if not versions:  # a packet that came by an old rule goes on by a new one
            waits.append((then, now))
    found += _deadlocks(fabric, waits, known)
    if tenants is not None:
        for pair in tenants.leaks():
            found.append(Violation(ISOLATION, pair.ranks, pair.message))
    return Check(tuple(found))


def _goals_in_use(fabric: Fabric, forwarding: Forwarding) -> Flags:
    """Return which goals have a rank that can be reached at all, (D,)."""
    hangs = forwarding.last >= 0
    live = np.where(hangs, fabric.capacity[forwarding.last] > 0, True)
    has_link = np.zeros(fabric.n_nodes, dtype=np.bool_)
    has_link[fabric.target[fabric.capacity > 0]] = True
    active = np.zeros(forwarding.goal.size, dtype=np.bool_)
    active[forwarding.of_rank[live]] = True
    return active & has_link[forwarding.goal]


def _reached(fabric: Fabric, forwarding: Forwarding, uses: Flags, active: Flags) -> Flags:
    """Return which nodes packets of ranks pass on their way to each goal, (D, N)."""
    goals = forwarding.goal.size
    number = np.arange(goals)
    reached = np.zeros((goals, fabric.n_nodes), dtype=np.bool_)
    sends = np.zeros(fabric.n_nodes, dtype=np.bool_)
    sends[fabric.source[fabric.capacity > 0]] = True  # a rank without a cable sends nothing
    reached[:, fabric.endpoint] = sends[fabric.endpoint]
    reached &= active[:, None]
    goal, link = np.nonzero(uses & (fabric.capacity > 0))
    source = fabric.source[link]
    target = fabric.target[link]
    reached[number, forwarding.goal] = False
    while True:
        moves = reached[goal, source] & ~reached[goal, target] & (target != forwarding.goal[goal])
        if not moves.any():
            return reached
        reached[goal[moves], target[moves]] = True


def _black_holes(
    fabric: Fabric, forwarding: Forwarding, uses: Flags, reached: Flags
) -> list[Violation]:
    """Return nodes that packets reach and that have no rule, or one that leads to a dead link; one for each node."""
    goal, link = np.nonzero(uses)
    has_rule = np.zeros(reached.shape, dtype=np.bool_)
    has_rule[goal, fabric.source[link]] = True
    dead = np.zeros(reached.shape, dtype=np.bool_)
    is_dead = fabric.capacity[link] == 0
    dead[goal[is_dead], fabric.source[link[is_dead]]] = True
    found = []
    for kind, table in (
        ("has no rule", ~has_rule & reached),
        ("sends into a dead link", dead & reached),
    ):
        for node in np.flatnonzero(table.any(axis=0)).tolist():
            goals = np.flatnonzero(table[:, node])
            first = fabric.name(int(forwarding.goal[goals[0]]))
            more = f" and {goals.size - 1} more goals" if goals.size > 1 else ""
            message = f"{fabric.name(node)} {kind} for {first}{more}"
            nodes = (node, *forwarding.goal[goals].tolist())
            found.append(Violation(BLACK_HOLE, nodes, message))
    return found


def _loops(fabric: Fabric, forwarding: Forwarding, uses: Flags, reached: Flags) -> list[Violation]:
    """Return loops that packets meet, one for each goal."""
    goal, link = np.nonzero(uses & (fabric.capacity > 0))
    source = fabric.source[link]
    target = fabric.target[link]
    # A node is done if all that it sends comes to nodes that are done; goals and nodes without rules are done.
    left = np.zeros(reached.shape, dtype=np.int64)
    np.add.at(left, (goal, source), 1)
    while goal.size:
        is_done = (left[goal, target] == 0) | (target == forwarding.goal[goal])
        if not is_done.any():
            break
        np.subtract.at(left, (goal[is_done], source[is_done]), 1)
        goal, source, target = goal[~is_done], source[~is_done], target[~is_done]
    found = []
    for d in np.unique(goal).tolist():
        mine = goal == d
        arcs = find_loop(
            source[mine], target[mine], np.ones(np.count_nonzero(mine), dtype=np.bool_)
        )
        if not arcs.size:
            continue
        nodes = source[mine][arcs].tolist()
        if not reached[d, nodes].any():
            continue
        names = " -> ".join(fabric.name(int(node)) for node in [*nodes, nodes[0]])
        end = fabric.name(int(forwarding.goal[d]))
        found.append(
            Violation(
                LOOP,
                (*sorted(nodes), int(forwarding.goal[d])),
                f"packets for {end} go round {names}",
            )
        )
    return found


def _deadlocks(
    fabric: Fabric, waits: list[tuple[Flags, Flags]], bundles: Bundles
) -> list[Violation]:
    """Return a circle of buffers between switches that wait for each other, if there is one.

    As in `fabriclab.routing.deadlock`, with one buffer for each bundle of cables and without lanes. ``waits`` has pairs
    of link uses, (D, L) each: a packet that came by a link of the first may go on by one of the second.
    """
    is_wait = np.zeros(bundles.before.size, dtype=np.bool_)
    for first, second in waits:
        came = _by_bundle(first, bundles)[:, bundles.before]
        goes = _by_bundle(second, bundles)[:, bundles.after]
        is_wait |= (came & goes).any(axis=0)
    before = bundles.before[is_wait]
    after = bundles.after[is_wait]
    part = parts_of(bundles.source.size, before, after, both_ways=True)
    sizes = np.bincount(part, minlength=1)
    if sizes.max() < 2:
        return []
    inside = part == np.argmax(sizes)
    edges = inside[before] & inside[after]
    circle = find_loop(
        before[edges], after[edges], np.ones(np.count_nonzero(edges), dtype=np.bool_)
    )
    bundle = before[edges][circle]
    nodes = bundles.source[bundle].tolist()
    names = " -> ".join(fabric.name(int(node)) for node in [*nodes, nodes[0]])
    return [
        Violation(DEADLOCK, tuple(sorted(nodes)), f"buffers on {names} may wait for each other")
    ]


def _by_bundle(uses: Flags, bundles: Bundles) -> Flags:
    """Return whether a bundle of links is used for a goal, (D, B)."""
    used = np.zeros((uses.shape[0], bundles.source.size), dtype=np.bool_)
    goal, link = np.nonzero(uses)
    bundle = bundles.of_link[link]
    inner = bundle >= 0
    used[goal[inner], bundle[inner]] = True
    return used
