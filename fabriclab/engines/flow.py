"""Flows as fluids: weighted max-min fair rates, computed again whenever a flow starts or ends."""

import heapq
from collections.abc import Mapping
from time import thread_time
from typing import Any

import numpy as np

from fabriclab import compiled
from fabriclab.core import (
    Changes,
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    distinct,
    expand,
    pointer,
    rows_of,
)
from fabriclab.engines import _levels
from fabriclab.engines._rows import SharedLinks, max_min_rates, never_ends
from fabriclab.registry import register

__all__ = ["Events", "flow", "max_min_rates", "moved"]

_TIE = 1e-13  # relative: times closer than this are one event
# links of the fabric per entry of the routes, from which on only the links in use are kept
_FEW = 4
_CLOSE = 1e-9  # relative: levels closer than this are computed again together
# Seconds of NumPy in this process from which on it pays to load what is compiled: that takes half a second of a core,
# and keeps 30 MiB of a process and 95 MiB that all processes share. A lesson with a few simulations does without.
_WORTH = 3.0  # illustrative: what loading takes on a machine that a class shares [s]


class _Plain:
    """What sharing with NumPy has taken in this process."""

    seconds = 0.0


class Events:
    """The state between two events; rates change only at events, so the end of each row is known until the next one."""

    def __init__(
        self, fabric: Fabric, routes: Routes, flows: Flows, changes: Changes | None
    ) -> None:
        self.fabric = fabric
        self.flows = flows
        n = flows.n_flows
        self.start = np.full(n, np.inf)
        self.finish = np.zeros(n)
        self.ready = np.zeros(n)  # end of the last dependency so far

        # Number of dependencies of each flow that have not ended; and the flows that depend on flow f:
        # users[user_ptr[f] : user_ptr[f + 1]].
        self.waiting = np.diff(flows.after_ptr)
        self.users = rows_of(flows.after_ptr)[np.argsort(flows.after, kind="stable")]
        self.user_ptr = pointer(np.bincount(flows.after, minlength=n))

        self.queue: list[tuple[float, int, Ints]] = []  # time, serial number, flows to start
        self.serial = 0
        self.active = np.zeros(0, dtype=np.int64)  # rows that move bytes

        # Links are numbered by their index in `used`: all links of the fabric, or only those that some route takes.
        self.used = np.arange(fabric.n_links)
        link = routes.link.astype(np.int64)
        if _FEW * link.size < fabric.n_links:  # a small step must not cost the whole fabric
            self.used, link = np.unique(link, return_inverse=True)
        self._take_rows(routes, link)

        self.changes: list[
            tuple[float, int, float]
        ] = []  # time, place in `used`, capacity; the next is the last
        if changes is not None:
            seen = np.isin(changes.link, self.used)
            place = np.searchsorted(self.used, changes.link[seen])
            in_order = zip(changes.time[seen], place, changes.capacity[seen], strict=True)
            self.changes = list(in_order)[::-1]

    def _take_rows(self, routes: Routes, link: Ints) -> None:
        """Keep the rows that take time, sorted by flow; the others end after their delay."""
        flows = self.flows
        n = flows.n_flows
        self.owner = routes.flow.astype(np.int64)
        self.left = flows.size[self.owner] * routes.share  # bytes left at time `since`
        self.delay = routes.delay
        self.weight = flows.weight[self.owner]
        capacity = self.fabric.capacity[self.used]
        self.rows = SharedLinks(
            routes.ptr, link, capacity, routes.use, self.weight, flows.limit, self.owner
        )

        slow = (self.left > 0) & (np.diff(self.rows.ptr) > 0)  # rows that take time
        at_once = np.flatnonzero(~slow & (routes.share > 0))
        self.quick = np.zeros(n)
        np.maximum.at(self.quick, self.owner[at_once], self.delay[at_once])

        # Slow rows of flow f: of_flow[row_ptr[f] : row_ptr[f + 1]]; open: number of them that have not ended.
        order = np.argsort(self.owner, kind="stable")
        self.of_flow = order[slow[order]]
        self.open = np.bincount(self.owner[slow], minlength=n)
        self.row_ptr = pointer(self.open)

        self.since = np.zeros(slow.size)
        self.rate = np.zeros(slow.size)
        self.level = np.zeros(slow.size)
        self.ends = np.full(slow.size, np.inf)
        self.kernel = compiled.loaded(_levels.share)
        self.may_load = self.kernel is None

    def go(self, until: float = np.inf) -> None:
        """Run until the last flow has ended, or until the last event before a time [s]."""
        self._schedule(np.flatnonzero(self.waiting == 0))
        while self.active.size or self.queue:
            now = float(self.ends[self.active].min(initial=np.inf))
            now = min(
                now,
                self.queue[0][0] if self.queue else np.inf,
                self.changes[-1][0] if self.changes else np.inf,
            )
            if now > until:
                return
            if now == np.inf:
                at, _ = self.rows.entries(self.active[:1])
                dead = self.rows.link[at[self.rows.capacity[self.rows.link[at]] == 0]]
                raise never_ends(
                    self.fabric, int(self.owner[self.active[0]]), int(self.used[dead[0]])
                )
            horizon = now * (1 + _TIE)
            floor = self._end_rows(horizon)
            self._share(now, 0.0 if self._start_flows(horizon) | self._change(horizon) else floor)
        if not np.isfinite(self.start).all():
            self.flows.order()  # raises Deadlock with the cycle

    def _schedule(self, flows: Ints) -> None:
        """Queue flows whose dependencies have ended; flows that start at the same time form one entry."""
        begin = np.maximum(self.flows.start[flows], self.ready[flows] + self.flows.lag[flows])
        self.start[flows] = begin
        order = np.argsort(begin, kind="stable")
        for part in np.split(flows[order], np.flatnonzero(np.diff(begin[order])) + 1):
            if part.size:
                self.serial += 1
                heapq.heappush(self.queue, (float(self.start[part[0]]), self.serial, part))

    def _release(self, done: Ints) -> None:
        """Update the flows that wait for the flows ``done``, and queue those that can start."""
        counts = self.user_ptr[done + 1] - self.user_ptr[done]
        if counts.any():
            users = self.users[expand(self.user_ptr[done], counts)]
            np.maximum.at(self.ready, users, np.repeat(self.finish[done], counts))
            np.subtract.at(self.waiting, users, 1)
            self._schedule(distinct(users[self.waiting[users] == 0]))

    def _end_rows(self, horizon: float) -> float:
        """End the rows whose time has come; return the lowest level among them, inf if there are none."""
        over = self.ends[self.active] <= horizon
        gone = self.active[over]
        if gone.size:
            self.active = self.active[~over]
            owner = self.owner[gone]
            np.maximum.at(self.finish, owner, self.ends[gone] + self.delay[gone])
            np.subtract.at(self.open, owner, 1)
            if self.users.size:
                self._release(distinct(owner[self.open[owner] == 0]))
        return float(self.level[gone].min(initial=np.inf))

    def _start_flows(self, horizon: float) -> bool:
        """Start the flows whose time has come; return whether any of them moves bytes."""
        before = self.active.size
        while self.queue and self.queue[0][0] <= horizon:
            _, _, flows = heapq.heappop(self.queue)
            self.finish[flows] = self.start[flows] + self.quick[flows]
            counts = self.open[flows]
            self._release(flows[counts == 0])
            rows = self.of_flow[expand(self.row_ptr[flows], counts)]
            self.since[rows] = np.repeat(self.start[flows], counts)
            self.active = np.concatenate([self.active, rows])
        return self.active.size > before

    def _change(self, horizon: float) -> bool:
        """Apply the changes of capacity whose time has come; return whether there are any."""
        before = len(self.changes)
        while self.changes and self.changes[-1][0] <= horizon:
            _, link, capacity = self.changes.pop()
            self.rows.capacity[link] = capacity
        return len(self.changes) < before

    def _share(self, now: float, floor: float) -> None:
        """Compute the rates again of all rows at level ``floor`` and above, and find when they end.

        A row that ends makes room only for rows of its own level and above: lower rows are frozen before the water
        reaches that level.
        """
        if self.kernel is not None:
            shared = self.rows
            own = shared.scratch()
            entries = (own.starts, own.stops, own.link, own.coef, shared.capacity)
            state = (self.weight, self.level, self.rate, self.left, self.since, self.ends)
            lists = (own.links, own.mark, own.changed, own.left, own.gone, own.rows)
            active = self.active.view(np.uint64)
            self.kernel(now, floor * (1 - _CLOSE), active, *entries, *state, *lists)
            return
        begun = thread_time()
        self._share_plain(now, floor)
        _Plain.seconds += thread_time() - begun
        if self.may_load and _Plain.seconds >= _WORTH:
            self._load()

    def _load(self) -> None:
        """Go on with the compiled form, whose numbers are the same to the bit, if there is one."""
        self.may_load = False
        if compiled.ready():
            kernel = compiled.fast(_levels.share)
            if kernel is not _levels.share:
                self.kernel = kernel

    def _share_plain(self, now: float, floor: float) -> None:
        """Do the work of `_share` with NumPy."""
        above = self.level[self.active] >= floor * (1 - _CLOSE)
        rows, fixed = self.active[above], self.active[~above]
        if rows.size:
            self.level[rows] = self.rows.levels(
                rows, self.rows.capacity - self.rows.load(fixed, self.level[fixed])
            )
            since = self.since[rows]
            left = self.left[rows] - self.rate[rows] * (now - since)
            self.left[rows] = left = np.maximum(left, 0.0)
            self.since[rows] = since = np.maximum(since, now)
            self.rate[rows] = rate = self.level[rows] * self.weight[rows]
            self.ends[rows] = since + np.divide(
                left, rate, out=np.full(rows.size, np.inf), where=rate > 0
            )


def moved(
    fabric: Fabric, routes: Routes, flows: Flows, until: float, changes: Changes | None = None
) -> Floats:
    """Return the bytes that each row of the routes has sent by a time, (R,). [B].

    Parameters
    ----------
    fabric, routes, flows, changes
        As in `fabriclab.engines.run`; the flows are one graph.
    until : float
        The time. [s], >= 0
    """
    events = Events(fabric, routes, flows, changes)
    events.go(until)
    whole = flows.size[routes.flow] * routes.share
    begun = events.start[routes.flow] <= until
    left = np.where(begun, events.left, whole)
    # Rows that are under way go on at their rate since their last event; all others have ended or not begun.
    under_way = np.zeros(left.size, dtype=bool)
    under_way[events.active] = True
    since = np.where(under_way, events.since, until)
    now = left - events.rate * np.maximum(until - since, 0.0)
    over = begun & ~under_way & (events.ends <= until)
    return np.where(over, whole, whole - np.clip(now, 0.0, whole))


@register("engine", "flow")
def flow(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    changes: Changes | None,
    config: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> tuple[Floats, Floats]:
    """Return start and finish of each flow of a graph [s], (F,); see `fabriclab.engines.run`."""
    events = Events(fabric, routes, flows, changes)
    events.go()
    return events.start, events.finish
