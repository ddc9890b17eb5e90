"""A controller: it knows the whole fabric, takes orders in words of its users, and changes rules step by step.

Users say what they want (drain a spine, serve these demands, give that tenant more), `Controller.plan` says in words
what would change, and `Controller.apply` changes one node at a time. Before and after each step all invariants are
checked; a step after which something new is wrong is taken back, and the plan stops.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flags, Flows, Ints, Routes, as_html, as_text
from fabriclab.errors import FabricError, NoPath
from fabriclab.sdn.forwarding import Forwarding, goals_of, loads, routes, shortest, utilisation
from fabriclab.sdn.invariants import Check, bundles_of, check
from fabriclab.sdn.tenants import Tenants, weighted
from fabriclab.sdn.traffic import engineer
from fabriclab.sdn.updates import Rules, dependencies, sorted_by

__all__ = [
    "Controller",
    "GraphChange",
    "InvariantBroken",
    "Plan",
    "Record",
    "Step",
    "graph_change",
]

_METHODS = ("spread", "engineered")


class InvariantBroken(FabricError):
    """A step would break an invariant; it was taken back, and the plan stopped before it."""


class GraphChange(NamedTuple):
    """Links that carried light and do no more, and links that do now, (K,) each."""

    gone: Ints
    new: Ints


def graph_change(before: Fabric, after: Fabric) -> GraphChange:
    """Return how the graph of a fabric has changed: faults take links, only circuit switches (or people) add some."""
    was = before.capacity > 0
    now = after.capacity > 0
    return GraphChange(np.flatnonzero(was & ~now), np.flatnonzero(now & ~was))


@dataclass(frozen=True)
class Step:
    """One change: in words, which nodes get their new rules, and whether tenants or links change.

    Parameters
    ----------
    words : str
        What changes.
    nodes : tuple of int
        Nodes that get the rules of the plan in this step.
    kind : str
        ``"rules"``, ``"version"`` (of an update in two phases) or ``"tenants"``.
    """

    words: str
    nodes: tuple[int, ...] = ()
    kind: str = "rules"


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps from the rules of today to those that are wanted.

    Parameters
    ----------
    steps : tuple of Step
        In the order in which they are to be applied.
    target : Forwarding
        Rules after the last step.
    tenants : Tenants or None
        Tenants after the last step.
    why : str
        What was asked for, and how the order was found.
    method : str
        ``"destination first"`` or ``"two-phase"``.
    """

    steps: tuple[Step, ...]
    target: Forwarding
    tenants: Tenants | None
    why: str
    method: str

    def in_order(self, order: Sequence[int]) -> Plan:
        """Return the same steps in another order, given by their numbers from 0, to see what goes wrong."""
        numbers = [units.count(int(i), "step", 0, len(self.steps) - 1) for i in order]
        if sorted(numbers) != list(range(len(self.steps))):
            raise ValueError(
                f"order must name each of {len(self.steps)} steps once, got {list(order)!r:.60}"
            )
        return replace(self, steps=tuple(self.steps[i] for i in numbers), method="as given")

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        return [
            ["step", "what changes"],
            *([str(i + 1), s.words] for i, s in enumerate(self.steps)),
        ]

    def __repr__(self) -> str:
        """Show the reason and the steps."""
        return f"{self.why}\n{as_text(self.rows())}"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), self.why)


@dataclass(frozen=True, eq=False)
class Record:
    """A step that was applied: checks before and after, rules after, and the time that it took here [s]."""

    step: Step
    before: Check
    after: Check
    forwarding: Forwarding
    seconds: float

    def __repr__(self) -> str:
        """Show the step and what the checks said."""
        state = "ok" if self.after.ok else f"{len(self.after.violations)} violations"
        return f"<Record: {self.step.words}; after it {state}>"


class _Ordered(NamedTuple):
    """Steps in a safe order, and how the order was found."""

    steps: list[Step]
    method: str


@dataclass(frozen=True)
class _State:
    """What a rollback restores beside the rules."""

    drained: frozenset[int]
    tenants: Tenants | None
    demands: Flows | None
    intents: tuple[str, ...]


class Controller:
    """A controller of all rules of a fabric.

    It changes rules, tenants and their shares of links; it cannot lay a cable. Its northbound interface is `drain`,
    `undrain`, `demand`, `set_tenants`, `limit`, `weigh`, `prioritise`, then `plan`, `apply` and `rollback`; `observe`
    tells it what has happened to links.

    Parameters
    ----------
    fabric : Fabric
        The network.
    tenants : Tenants, optional
        Who owns which ranks.
    method : str
        ``"spread"``: traffic is divided among all shortest paths by capacity. ``"engineered"``: by the linear program
        for the demands that were given.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> small = Controller(topologies.build("leaf_spine", hosts=8, radix=4))
    >>> small.drain("spine 1")
    >>> records = small.apply(small.plan())
    >>> all(record.after.ok for record in records)
    True
    """

    def __init__(
        self, fabric: Fabric, tenants: Tenants | None = None, *, method: str = "spread"
    ) -> None:
        self.fabric = fabric
        self.method = units.choice(method, "method", _METHODS)
        self.goals = goals_of(fabric)
        self.bundles = bundles_of(fabric)
        self.tenants = tenants
        self.drained: frozenset[int] = frozenset()  # links
        self.demands: Flows | None = None
        self.intents: tuple[str, ...] = ()
        self.forwarding = self._wanted()
        self.history: list[Record] = []
        self._wanted_tenants = tenants
        self._before: _State | None = None  # that of before the changes that a rollback takes back
        self._is_applied = False  # whether the plan for these changes is through
        self._done: list[tuple[Step, Forwarding, Tenants | None]] = []

    # What users ask for.

    def drain(self, *parts: ArrayLike) -> None:
        """Ask to take traffic off switches or cables, as for a repair; parts are named as for `Fabric.without`."""
        links = self._links_of(parts)
        self._keep()
        self.drained |= links
        self._intend(f"drain {_named(parts)}")

    def undrain(self, *parts: ArrayLike) -> None:
        """Ask to use drained switches or cables again."""
        links = self._links_of(parts)
        if not links & self.drained:
            raise ValueError(
                f"{_named(parts)} is not drained; drained are {len(self.drained)} links"
            )
        self._keep()
        self.drained -= links
        self._intend(f"use {_named(parts)} again")

    def demand(self, flows: Flows) -> None:
        """Give the demands to serve: flows between ranks whose sizes are rates [B/s], with weights and labels."""
        self._keep()
        self.demands = flows
        self._intend(f"serve {flows.n_flows} demands")

    def set_tenants(self, tenants: Tenants) -> None:
        """Ask for other tenants, partitions or weights."""
        self._keep()
        self._wanted_tenants = tenants
        self._intend(f"tenants {', '.join(t.name for t in tenants.members)}")

    def limit(self, tenant: str, rate: units.Quantity) -> None:
        """Ask that no flow of a tenant is faster than a rate [B/s]."""
        self._change_tenant(
            tenant, f"{tenant}: at most {rate} a flow", limit=units.rate(rate, "rate")
        )

    def weigh(self, tenant: str, weight: float) -> None:
        """Ask for a part of shared links for a tenant."""
        self._change_tenant(tenant, f"{tenant}: weight {weight:g}", weight=weight)

    def prioritise(self, tenant: str, priority: int) -> None:
        """Ask for a class for a tenant's traffic; 0 goes first."""
        self._change_tenant(tenant, f"{tenant}: class {priority}", priority=priority)

    def _change_tenant(self, name: str, words: str, **changes: Any) -> None:
        """Ask for a change of one tenant."""
        if self._wanted_tenants is None:
            raise ValueError(
                f"there are no tenants, got {name!r}; give them with set_tenants first"
            )
        changed = self._wanted_tenants.with_(name, **changes)
        self._keep()
        self._wanted_tenants = changed
        self._intend(words)

    def _intend(self, words: str) -> None:
        """Write down what was asked for."""
        self.intents = (*self.intents, words)

    def _keep(self) -> None:
        """Keep the state before the first change since the last plan, for a rollback."""
        if self._before is None or self._is_applied:
            self._before = _State(self.drained, self.tenants, self.demands, self.intents)
            self._done = []
            self._is_applied = False

    def _links_of(self, parts: tuple[ArrayLike, ...]) -> frozenset[int]:
        """Return the links of parts that are named as for `Fabric.without`."""
        whole = self.fabric.shown_as("", capacity=np.ones(self.fabric.n_links))
        return frozenset(np.flatnonzero(whole.without(*parts).capacity == 0).tolist())

    # What happens to links.

    def observe(self, fabric: Fabric) -> GraphChange:
        """Take note of links that have failed, or that a circuit switch has lit, and return which these are.

        Rules stay as they are, so packets are lost until a plan is applied.
        """
        for name in ("source", "target", "endpoint"):
            if not np.array_equal(getattr(self.fabric, name), getattr(fabric, name)):
                raise ValueError(
                    "fabric must have the nodes and links of the one before; make it by without(...)"
                )
        change = graph_change(self.fabric, fabric)
        self.fabric = fabric
        return change

    # Plans.

    @property
    def usable(self) -> Fabric:
        """The fabric without what is drained."""
        if not self.drained:
            return self.fabric
        return self.fabric.without(links=sorted(self.drained))

    def _wanted(self) -> Forwarding:
        """Return the rules for what is asked for now."""
        if self.method == "engineered" and self.demands is not None:
            return engineer(self.usable, self.demands).forwarding
        return shortest(self.usable, goals=self.goals)

    def check(self) -> Check:
        """Check all invariants of the rules of now."""
        return check(self.fabric, self.forwarding, tenants=self.tenants, bundles=self.bundles)

    def plan(self) -> Plan:
        """Return the steps to what is asked for; nothing changes yet.

        Each node comes after those that its packets pass by new rules (destination first), and one that loses its
        rules after all that used it. If these demands contradict each other, all nodes change in two phases.

        Raises
        ------
        NoPath
            If ranks would be cut off.
        """
        self._check_cut_off()
        target = self._wanted()
        wrong = check(self.usable, target, bundles=self.bundles).new_since(self.check())
        if wrong:
            asked = "; ".join(self.intents) or "the fabric"
            raise NoPath(f"{asked}: {wrong[0].message}; move its traffic first, or drain less")
        differs = self.forwarding.differs(target, self.fabric)
        steps, method = self._ordered(target, differs)
        if self._wanted_tenants is not self.tenants:
            steps = [*_tenant_steps(self.tenants, self._wanted_tenants), *steps]
        why = f"{'; '.join(self.intents) or 'as it is'}: {len(steps)} steps, {method}"
        return Plan(tuple(steps), target, self._wanted_tenants, why, method)

    def _check_cut_off(self) -> None:
        """Refuse drains that take the last working cable of a rank."""
        n = self.fabric.n_nodes
        ends = self.fabric.endpoint
        now = np.bincount(self.fabric.source, self.fabric.capacity > 0, n)[ends]
        then = np.bincount(self.fabric.source, self.usable.capacity > 0, n)[ends]
        lost = np.flatnonzero((now > 0) & (then == 0))
        if lost.size:
            name = self.fabric.name(int(ends[lost[0]]))
            raise NoPath(
                f"{'; '.join(self.intents)}: {lost.size} ranks lose their last cable, {name} first; "
                "move their jobs first, or drain less"
            )

    def _ordered(self, target: Forwarding, differs: Flags) -> _Ordered:
        """Return steps for all nodes whose rules change, in a safe order."""
        nodes = np.flatnonzero(differs.any(axis=0))
        before: dict[Any, set[Any]] = {int(node): set() for node in nodes}
        for goal in np.flatnonzero(differs.any(axis=1)).tolist():
            old = self._table(self.forwarding, goal)
            new = self._table(target, goal)
            for node, others in dependencies(old, new).items():
                before[node] |= others
        order: tuple[Any, ...] | None = sorted_by({node: before[node] for node in sorted(before)})
        if order is not None:
            steps = [self._step(node, target, differs) for node in order]
            return _Ordered(steps, "destination first")
        steps = [
            Step(
                f"{nodes.size} nodes get the new rules as version 2 beside the old ones",
                kind="version",
            ),
            Step("ranks send with version 2", kind="version"),
            Step(
                "packets of version 1 have arrived, and their rules go",
                tuple(nodes.tolist()),
                "version",
            ),
        ]
        return _Ordered(steps, "two-phase")

    def _table(self, forwarding: Forwarding, goal: int) -> Rules:
        """Return the rules of nodes that pass on traffic for one goal: next nodes by node."""
        links = np.flatnonzero(forwarding.part[goal] > 0)
        key = (
            self.fabric.source[links].astype(np.int64) * self.fabric.n_nodes
            + self.fabric.target[links]
        )
        source, ahead = np.divmod(np.unique(key), self.fabric.n_nodes)
        table: dict[Any, tuple[Any, ...]] = {}
        for node, other in zip(source.tolist(), ahead.tolist(), strict=True):
            table[node] = (*table.get(node, ()), other)
        return table

    def _step(self, node: int, target: Forwarding, differs: Flags) -> Step:
        """Return the step in which a node gets its new rules, in words."""
        goals = np.flatnonzero(differs[:, node])
        mine = np.flatnonzero(self.fabric.source == node)
        old = self.forwarding.part[goals][:, mine] > 0
        new = target.part[goals][:, mine] > 0
        name = self.fabric.name(node)
        for_goals = f"for {goals.size} goal{'s' if goals.size != 1 else ''}"
        if not new.any():
            return Step(f"{name} drops its rules {for_goals}; nobody sends there any more", (node,))
        if not old.any():
            return Step(f"{name} gets rules {for_goals}; nobody sends there yet", (node,))
        words = []
        for verb, links in (("stops using", old & ~new), ("uses", new & ~old)):
            ahead = np.unique(self.fabric.target[mine[links.any(axis=0)]])
            if ahead.size:
                words.append(f"{verb} {_listed([self.fabric.name(int(n)) for n in ahead])}")
        if not words:
            words = ["divides its traffic in other parts"]
        return Step(f"{name} {' and '.join(words)} {for_goals}", (node,))

    # Steps.

    def steps(self, plan: Plan, *, careful: bool = True) -> Iterator[Record]:
        """Apply a plan step by step: each step is done when its record is asked for; see `apply`."""
        self._keep()
        for step in plan.steps:
            yield self._do(step, plan.target, plan.tenants, careful)
        self.forwarding = plan.target
        self.tenants = plan.tenants
        self._wanted_tenants = plan.tenants
        self._is_applied = True

    def apply(self, plan: Plan, *, careful: bool = True) -> list[Record]:
        """Apply all steps of a plan and return their records.

        Parameters
        ----------
        plan : Plan
            What `plan` returned.
        careful : bool
            Whether a step that breaks an invariant is taken back and ends the plan. Without it all steps are done, as
            a script would do them, and the records say what packets meet meanwhile.

        Raises
        ------
        InvariantBroken
            If a step would break an invariant that holds before it. The step is taken back; `rollback` takes back
            those before it.
        """
        return list(self.steps(plan, careful=careful))

    def _do(self, step: Step, target: Forwarding, tenants: Tenants | None, careful: bool) -> Record:
        """Do one step between two checks."""
        begin = time.perf_counter()
        old = self.forwarding
        old_tenants = self.tenants
        before = self.check()
        new = old
        if step.nodes:
            new = old.with_nodes_of(target, np.array(step.nodes), self.fabric)
        self.tenants = tenants if step.kind == "tenants" else self.tenants
        is_version = step.kind == "version"
        other = old
        if is_version and not step.nodes:  # packets of both versions are under way
            other = target
        after = check(
            self.fabric,
            new,
            before=other,
            versions=is_version,
            tenants=self.tenants,
            bundles=self.bundles,
        )
        wrong = after.new_since(before)
        if wrong and careful:
            self.tenants = old_tenants
            raise InvariantBroken(
                f"{step.words}: {wrong[0].message}; the step was taken back, and the plan stops here"
            )
        self._done.append((step, old, old_tenants))
        self.forwarding = new
        record = Record(step, before, after, new, time.perf_counter() - begin)
        self.history.append(record)
        return record

    def rollback(self) -> list[Record]:
        """Take back the steps of the last plan, the last one first, and what was asked for with it.

        Each step is checked as on the way there.
        """
        if self._before is None:
            raise ValueError(
                "nothing to take back: no plan was applied; ask for something, plan and apply first"
            )
        records = []
        for step, forwarding, tenants in reversed(self._done):
            back = Step(f"take back: {step.words}", step.nodes, step.kind)
            records.append(self._undo(back, forwarding, tenants))
        state = self._before
        self.drained = state.drained
        self.demands = state.demands
        self.intents = state.intents
        self._wanted_tenants = self.tenants = state.tenants
        self._before = None
        self._is_applied = False
        self._done = []
        return records

    def _undo(self, step: Step, forwarding: Forwarding, tenants: Tenants | None) -> Record:
        """Go back to earlier rules between two checks."""
        begin = time.perf_counter()
        before = self.check()
        self.tenants = tenants
        after = check(
            self.fabric,
            forwarding,
            before=self.forwarding,
            versions=step.kind == "version",
            tenants=tenants,
            bundles=self.bundles,
        )
        self.forwarding = forwarding
        record = Record(step, before, after, forwarding, time.perf_counter() - begin)
        self.history.append(record)
        return record

    # What the engines need.

    def routes(self, flows: Flows) -> Routes:
        """Return the routes of flows by the rules of now."""
        return routes(self.fabric, self.forwarding, flows)

    def flows(self, flows: Flows, *, by_class: bool = False) -> Flows:
        """Return flows with weights and limits of their tenants, as `fabriclab.sdn.weighted` does."""
        if self.tenants is None:
            raise ValueError("there are no tenants; give them with set_tenants, plan and apply")
        return weighted(self.fabric, flows, self.tenants, by_class=by_class)

    def classes(self) -> Mapping[str, int]:
        """Return the class of each tenant, for ``config={"classes": ...}`` of the packet engine."""
        if self.tenants is None:
            return {}
        return {tenant.name: tenant.priority for tenant in self.tenants.members}

    def utilisation(self, flows: Flows) -> float:
        """Return the load of the fullest link for flows whose sizes are rates, as a fraction of its capacity."""
        return utilisation(self.fabric, loads(self.fabric, self.forwarding, flows))

    def __repr__(self) -> str:
        """Show the method, what was asked for, and the rules."""
        asked = "; ".join(self.intents) or "nothing asked for"
        return f"<Controller, {self.method}: {asked}; {self.forwarding!r}>"


def _tenant_steps(old: Tenants | None, new: Tenants | None) -> list[Step]:
    """Return the step that changes tenants, in words."""
    names = [] if new is None else [t.name for t in new.members]
    known = {} if old is None else {t.name: t for t in old.members}
    words = []
    for name in names:
        assert new is not None
        if name not in known:
            words.append(f"{name} is a tenant with {len(new[name].ranks)} ranks")
            continue
        for fact in ("ranks", "keys", "vrf", "weight", "priority", "limit"):
            value = getattr(new[name], fact)
            if value != getattr(known[name], fact):
                shown = f"{len(value)} of them" if fact == "ranks" else value
                words.append(f"{name} has {fact} {shown}")
    words += [f"{name} is no tenant any more" for name in known if name not in names]
    return [Step("; ".join(words) or "friends of tenants change", kind="tenants")]


def _named(parts: tuple[ArrayLike, ...]) -> str:
    """Return parts as a list in words."""
    return ", ".join(str(part) for part in parts)


def _listed(names: list[str]) -> str:
    """Return names as a list that is cut after three."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"
