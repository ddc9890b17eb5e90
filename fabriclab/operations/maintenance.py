"""Take a part out of service without stopping what runs: cordon, move the jobs, drain, work, and use it again.

Switches and cables are drained by the controller of `fabriclab.sdn`, which changes one node at a time and checks all
invariants between. A server has no other way out of the network than its NICs, so before it is drained its jobs move: a
spare takes its place in every ring, or the ranks close up.

Examples
--------
>>> from fabriclab import sdn, topologies
>>> controller = sdn.Controller(topologies.build("leaf_spine", hosts=16, radix=8))
>>> done = take_out(controller, "spine 1")
>>> done.is_idle, [stage.kind for stage in done.stages][-1]
(True, 'ready')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Ints, as_html, as_text, whole
from fabriclab.errors import NoPath
from fabriclab.metrics.hops import access_switches
from fabriclab.sdn import Check, Controller

__all__ = ["Maintenance", "Reranked", "Stage", "put_back", "rerank", "switch_crossings", "take_out"]

METHODS = ("spare", "close up")


class Stage(NamedTuple):
    """One step of maintenance.

    Parameters
    ----------
    kind : str
        ``"cordon"``, ``"move"``, ``"rules"``, ``"ready"`` or ``"back"``.
    words : str
        What is done.
    check : Check or None
        Invariants of the rules after it; None where no rule changes.
    """

    kind: str
    words: str
    check: Check | None = None


@dataclass(frozen=True, eq=False)
class Reranked:
    """Groups of a job without a bad server.

    Parameters
    ----------
    groups : (G, n) int64
        Rank of each member of each group, such as the rings of a gradient all-reduce.
    replaced : (K, 2) int64
        Ranks that left and those that took their places; the second is -1 where the others closed up.
    crossings_before, crossings_after : int
        Hops of the rings between different switches, of all groups together.
    """

    groups: Ints
    replaced: Ints
    crossings_before: int
    crossings_after: int

    def __repr__(self) -> str:
        """Show how many ranks moved, and what it does to the rings."""
        return (
            f"<Reranked: {self.groups.shape[0]} groups of {self.groups.shape[1]}, {len(self.replaced)} ranks replaced, "
            f"hops between switches {self.crossings_before:,} -> {self.crossings_after:,}>"
        )


def switch_crossings(fabric: Fabric, groups: ArrayLike) -> int:
    """Return how many hops of the rings of all groups, (G, n) ranks, lead from one access switch to another."""
    ranks = _groups(fabric, groups)
    switch = access_switches(fabric).node[ranks]
    return int(np.count_nonzero(switch != np.roll(switch, -1, axis=1)))


def _groups(fabric: Fabric, groups: ArrayLike) -> Ints:
    """Return groups as a table of ranks, or refuse them."""
    table = np.atleast_2d(np.asarray(groups))
    if table.ndim != 2 or table.dtype.kind not in "iu" or not table.size:
        raise ValueError(
            f"groups must be whole numbers of shape (groups, members), got shape {table.shape}"
        )
    if table.min() < 0 or table.max() >= fabric.n_ranks:
        raise ValueError(
            f"groups must name ranks 0..{fabric.n_ranks - 1}, got {table.min()}..{table.max()}"
        )
    return whole(table, "groups", table.shape, "groups, members").astype(np.int64)


def rerank(
    fabric: Fabric, groups: ArrayLike, bad: int, spare: int | None = None, *, method: str = "spare"
) -> Reranked:
    """Return the groups of a job without a bad server.

    Parameters
    ----------
    fabric : Fabric
        The network, with the server of each rank.
    groups : (G, n) int
        Rank of each member of each group.
    bad : int
        Server that leaves.
    spare : int, optional
        Server that takes its place, with the same rail for each rank; needed for ``"spare"``.
    method : str
        ``"spare"``: the spare takes the place of the bad server in every group, and all others stay. ``"close up"``:
        the others close up, and every group that had members there is smaller by as many; the job loses a replica.
    """
    way = units.choice(method, "method", METHODS)
    table = _groups(fabric, groups)
    server = fabric.server.astype(np.int64)
    leaving = np.flatnonzero(server == units.count(bad, "bad", 0, int(server.max())))
    used = np.isin(table, leaving)
    before = switch_crossings(fabric, table)
    gone = np.unique(table[used])
    if not gone.size:
        raise ValueError(
            f"no group has a rank on server {bad}; the job does not use it, so nothing has to move"
        )
    if way == "close up":
        return _closed_up(fabric, table, used, gone, before)
    if spare is None:
        raise ValueError(
            'method "spare" needs a spare server, got none; give spare=..., or method="close up"'
        )
    arriving = np.flatnonzero(server == units.count(spare, "spare", 0, int(server.max())))
    if np.isin(table, arriving).any():
        raise ValueError(f"server {spare} is in the job already; a spare is idle")
    new = dict(zip(leaving.tolist(), arriving.tolist(), strict=True))
    if len(new) != leaving.size:
        raise ValueError(
            f"server {spare} has {arriving.size} ranks, server {bad} has {leaving.size}; take one alike"
        )
    moved = table.copy()
    moved[used] = [new[rank] for rank in table[used].tolist()]
    pairs = np.array([(rank, new[rank]) for rank in gone.tolist()], dtype=np.int64)
    return Reranked(moved, pairs, before, switch_crossings(fabric, moved))


def _closed_up(fabric: Fabric, table: Ints, used: np.ndarray, gone: Ints, before: int) -> Reranked:
    """Return groups whose members have closed up."""
    lost = used.sum(axis=1)
    if np.unique(lost).size > 1:
        raise ValueError(
            f"groups would lose {lost.min()} to {lost.max()} members and then differ in size; take a spare instead"
        )
    left = table[~used].reshape(table.shape[0], -1)
    if left.shape[1] < 1:
        raise ValueError("no member would be left in some group; take a spare instead")
    pairs = np.column_stack([gone, np.full(gone.size, -1)])
    return Reranked(left, pairs, before, switch_crossings(fabric, left))


@dataclass(frozen=True, eq=False)
class Maintenance:
    """A part on its way out of service: the stages, the jobs after they moved, and whether nothing uses it any more.

    Parameters
    ----------
    part : str
        What is taken out.
    stages : tuple of Stage
        What was done, in this order.
    jobs : mapping of str to Reranked
        Jobs that had to move.
    is_idle : bool
        Whether no rule leads to the part any more, so that people may pull it.
    """

    part: str
    stages: tuple[Stage, ...]
    jobs: Mapping[str, Reranked]
    is_idle: bool

    @property
    def ok(self) -> bool:
        """Whether all invariants held after every stage."""
        return all(stage.check is None or stage.check.ok for stage in self.stages)

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each stage."""
        table = [["stage", "kind", "what is done", "invariants after it"]]
        for number, stage in enumerate(self.stages, start=1):
            state = "-"
            if stage.check is not None:
                state = "hold" if stage.check.ok else f"{len(stage.check.violations)} broken"
            table.append([str(number), stage.kind, stage.words, state])
        return table

    def __repr__(self) -> str:
        """Show the table."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.part} is taken out of service")


def take_out(
    controller: Controller,
    part: str,
    *,
    jobs: Mapping[str, ArrayLike] | None = None,
    spares: Sequence[int] = (),
) -> Maintenance:
    """Take a part out of service: cordon what hangs on it alone, move its jobs to spares, then drain it step by step.

    Parameters
    ----------
    controller : Controller
        Controller of the fabric; its rules change.
    part : str
        A switch, cable or node as for `Fabric.without`, such as ``"leaf 3"``.
    jobs : mapping of str to (G, n) int, optional
        Jobs that run, each with the ranks of its groups.
    spares : sequence of int
        Idle servers, which are used in this order.

    Raises
    ------
    NoPath
        If a job has to move and no spare is left.
    InvariantBroken
        If a step of the drain would break an invariant; the controller has taken it back.
    """
    fabric = controller.fabric
    without = fabric.without(part)
    lost = _cut_off(fabric, without)
    servers = np.unique(fabric.server[lost])
    stages = []
    moved: dict[str, Reranked] = {}
    if lost.size:
        names = _listed([f"server {s}" for s in servers.tolist()])
        words = f"no new jobs on {names}: {lost.size} ranks have no other cable than through {part}"
        stages.append(Stage("cordon", words))
        moved, more = _move_jobs(fabric, jobs or {}, servers.tolist(), list(spares), lost)
        stages += more
        controller.observe(fabric.without(nodes=fabric.endpoint[lost]))
        stages.append(
            Stage(
                "cordon",
                f"{lost.size} NICs are shut, so that nothing is sent to them",
                controller.check(),
            )
        )

    used = _uses(controller, fabric, without)
    if used:
        controller.drain(part)
        for record in controller.steps(controller.plan()):
            stages.append(Stage("rules", record.step.words, record.after))
    is_idle = not _uses(controller, fabric, without)
    if is_idle:
        stages.append(
            Stage(
                "ready", f"no rule leads to {part} any more: it can be pulled", controller.check()
            )
        )
    return Maintenance(part, tuple(stages), moved, is_idle)


def put_back(
    controller: Controller, part: str, repaired: Fabric | None = None
) -> tuple[Stage, ...]:
    """Use a repaired part again: light its cables, then change rules step by step.

    Parameters
    ----------
    controller : Controller
        Controller from which `take_out` took the part.
    part : str
        As it was named then.
    repaired : Fabric, optional
        The fabric with the part's cables; the controller's own unless given.
    """
    stages = []
    if repaired is not None:
        change = controller.observe(repaired)
        stages.append(
            Stage("back", f"{change.new.size} links carry light again", controller.check())
        )
    links = np.flatnonzero(controller.fabric.without(part).capacity == 0)
    if controller.drained.intersection(links.tolist()):
        controller.undrain(part)
    for record in controller.steps(controller.plan()):
        stages.append(Stage("rules", record.step.words, record.after))
    stages.append(Stage("back", f"{part} is in use again", controller.check()))
    return tuple(stages)


def _cut_off(fabric: Fabric, without: Fabric) -> Ints:
    """Return ranks that lose their last cable."""
    ends = fabric.endpoint
    before = np.bincount(fabric.source, fabric.capacity > 0, fabric.n_nodes)[ends]
    after = np.bincount(fabric.source, without.capacity > 0, fabric.n_nodes)[ends]
    return np.flatnonzero((before > 0) & (after == 0))


def _uses(controller: Controller, fabric: Fabric, without: Fabric) -> bool:
    """Return whether a rule of the controller leads into links that a part takes with it."""
    links = np.flatnonzero((fabric.capacity > 0) & (without.capacity == 0))
    return bool((controller.forwarding.part[:, links] > 0).any())


def _move_jobs(
    fabric: Fabric, jobs: Mapping[str, ArrayLike], servers: list[int], spares: list[int], lost: Ints
) -> tuple[dict[str, Reranked], list[Stage]]:
    """Move jobs off servers, each server to the next spare that no job uses."""
    moved: dict[str, Reranked] = {}
    stages = []
    left = [spare for spare in spares if spare not in servers]
    for name, groups in jobs.items():
        table = _groups(fabric, groups)
        for server in servers:
            if not np.isin(table, np.flatnonzero(fabric.server == server)).any():
                continue
            if not left:
                raise NoPath(
                    f"job {name} runs on server {server}, which loses {lost.size} NICs, and no spare is left; "
                    "give more spares=..., or end the job first"
                )
            spare = left.pop(0)
            change = rerank(fabric, table, server, spare)
            first = moved.get(name)
            replaced = (
                change.replaced if first is None else np.vstack([first.replaced, change.replaced])
            )
            before = change.crossings_before if first is None else first.crossings_before
            moved[name] = Reranked(change.groups, replaced, before, change.crossings_after)
            table = change.groups
            words = f"job {name}: server {spare} takes the place of server {server} in {len(table)} groups"
            stages.append(Stage("move", f"{words}, from the last checkpoint"))
    return moved, stages


def _listed(names: list[str]) -> str:
    """Return names as a list that is cut after three."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"
