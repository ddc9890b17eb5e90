"""Dragonfly: the shortest way between groups, a detour over any other group (Valiant), and the choice between both.

A way is at most one local link, one global link, one local link, as in the papers: a path over two global links
that happens to be as short is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import SPRAY, Fabric, Flows, Routes
from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.core._memory import check_memory
from fabriclab.errors import NoPath
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Rows, Seed, Ways

Floats = NDArray[np.float64]
Entries = tuple[Ints, Ints, Floats]  # row, link, use


def lanes(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry (E,): the global links that lie before it on the way.

    So on each lane local links lead to global ones only, and those to the next lane: no circle can close.
    """
    group = fabric.coord[:, fabric.coord_names.index("group")].astype(np.int64)
    here, ahead = group[fabric.source[routes.link]], group[fabric.target[routes.link]]
    row = rows_of(routes.ptr)
    first, last = group[flows.source[routes.flow]][row], group[flows.target[routes.flow]][row]
    direct = np.bincount(row, (here == first) & (ahead == last), routes.n_rows)[row] > 0
    return np.where(here == first, 0, np.where((here == last) & ~direct, 2, 1))


@register("routing", "minimal", lanes=lanes)
def minimal(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return the direct way of each pair: to a switch with a cable to the target's group, across, to the target.

    If the own switch has such a cable it is taken. Several share alike, so the row is a spray; ``seed`` has no effect.
    """
    return _Map.of(fabric).rows(source, target, [False] * subflows)


@register("routing", "valiant", lanes=lanes)
def valiant(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return the detour of each pair over all groups but its own two, in equal parts, as packets that draw one each.

    Within a group, and where there are two groups only, the way is the direct one. ``seed`` has no effect.

    References
    ----------
    .. [1] L. G. Valiant, A scheme for fast parallel communication, SIAM Journal on Computing 11(2), 1982.
    """
    return _Map.of(fabric).rows(source, target, [True] * subflows)


@register("routing", "ugal_l", lanes=lanes, cost="local")
def ugal_l(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return both ways of each pair as candidates; the choice sees the first link between switches only."""
    return _Map.of(fabric).rows(source, target, [False, True] * subflows)


@register("routing", "ugal_g", lanes=lanes, cost="global")
def ugal_g(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return both ways of each pair as candidates; the choice sees all links of both."""
    return _Map.of(fabric).rows(source, target, [False, True] * subflows)


@dataclass(frozen=True)
class _Front:
    """Traffic on its way: part of a row at a switch."""

    row: Ints
    at: Ints
    part: Floats


def _sorted(links: Ints, key: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(key, kind="stable")
    return links[order], key[order]


class _Map:
    """Local and global links of a dragonfly, by group."""

    def __init__(self, fabric: Fabric, group: Ints) -> None:
        self.fabric, self.group = fabric, group
        self.n = int(group.max()) + 1
        inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target] & (fabric.capacity > 0))
        a, b = group[fabric.source[inner]], group[fabric.target[inner]]
        across = inner[a != b]
        # All cables between two groups, and those of one switch: sorted by key, which is group or switch and group.
        goal = group[fabric.target[across]]
        self.across = [
            _sorted(across, at * self.n + goal) for at in (group[fabric.source[across]], fabric.source[across])
        ]
        local = inner[a == b]
        self.local, self.pair = _sorted(
            local, fabric.source[local].astype(np.int64) * fabric.n_nodes + fabric.target[local]
        )

    @classmethod
    def of(cls, fabric: Fabric) -> _Map:
        """Return the map of a fabric, or refuse one that has no groups."""
        if "group" not in fabric.coord_names or "router" not in fabric.coord_names:
            msg = f"this routing needs groups of routers, as the family dragonfly has; got {fabric.family!r}; use ecmp"
            raise ValueError(msg)
        found: _Map | None = fabric.__dict__.get("_dragonfly")
        if found is None:
            found = cls(fabric, fabric.coord[:, fabric.coord_names.index("group")].astype(np.int64))
            fabric.__dict__["_dragonfly"] = found  # freed with the fabric
        return found

    def rows(self, source: Ints, target: Ints, detours: list[bool]) -> Rows:
        """Return for each pair one row per entry of ``detours``."""
        each = len(detours)
        pair = np.repeat(np.arange(source.size), each)
        ends = source[pair], target[pair]
        detour = np.tile(np.array(detours), source.size) & (self.n > 2) & (self.group[ends[0]] != self.group[ends[1]])
        what = f"routes of {source.size} pairs over {self.n} groups"
        check_memory(200 * (pair.size + int(detour.sum()) * self.n), what, "route fewer flows")
        entries: list[Entries] = []
        front = self._enter(_Front(np.arange(pair.size), ends[0], np.ones(pair.size)), entries)
        goal, out = self._switch_of(ends[1])
        away = detour[front.row]
        over = self._spread(_Front(front.row[away], front.at[away], front.part[away]), goal, entries)
        front = _Front(*(np.append(getattr(front, k)[~away], getattr(over, k)) for k in ("row", "at", "part")))
        front = self._cross(front, self.group[goal[front.row]], entries)
        self._walk(front, goal[front.row], entries)
        last = out >= 0
        entries.append((np.flatnonzero(last), out[last], np.ones(int(last.sum()))))
        row, link, use = (np.concatenate(column) for column in zip(*entries, strict=True))
        key, inverse = np.unique(row * self.fabric.n_links + link, return_inverse=True)
        row, link = np.divmod(key, self.fabric.n_links)
        return Rows(
            pointer(np.bincount(row, minlength=pair.size)), link, np.bincount(inverse, use).astype(np.float64), SPRAY
        )

    def _switch_of(self, end: Ints) -> tuple[Ints, Ints]:
        """Return the switch of each end and the link from it, -1 where the end is a switch itself."""
        fabric = self.fabric
        ptr, order = fabric.out
        up = order[np.minimum(ptr[end], order.size - 1)]
        host = ~fabric.transit[end]
        return np.where(host, fabric.target[up], end).astype(np.int64), np.where(host, up ^ 1, -1)

    def _enter(self, front: _Front, entries: list[Entries]) -> _Front:
        at, link = self._switch_of(front.at)
        on = link >= 0
        entries.append((front.row[on], link[on] ^ 1, front.part[on]))
        return _Front(front.row, at, front.part)

    def _spread(self, front: _Front, goal: Ints, entries: list[Entries]) -> _Front:
        """Send each part to all groups but that of its switch and that of its goal, in equal parts."""
        other = np.arange(self.n)
        own, last = self.group[front.at][:, None], self.group[goal[front.row]][:, None]
        which, group = np.nonzero((other != own) & (other != last))
        return self._cross(_Front(front.row[which], front.at[which], front.part[which] / (self.n - 2)), group, entries)

    def _cross(self, front: _Front, group: Ints, entries: list[Entries]) -> _Front:
        """Take all parts to their next group; those that are there stay.

        A switch uses its own cables to that group, in equal parts, or if it has none those of all others. So no part
        takes two local links in a group that it passes.
        """
        fabric, here = self.fabric, self.group[front.at]
        goes = np.flatnonzero(here != group)
        first, count, link = np.zeros(goes.size, np.int64), np.zeros(goes.size, np.int64), np.zeros(0, np.int64)
        for (links, key), at in zip(self.across, (here, front.at), strict=True):
            low, high = (np.searchsorted(key, at[goes] * self.n + group[goes], side) for side in ("left", "right"))
            some = high > low
            first[some], count[some] = link.size + low[some], (high - low)[some]
            link = np.append(link, links)
        if np.any(count == 0):
            i = int(goes[np.argmin(count)])
            msg = (f"groups {here[i]} and {group[i]} have no working cable between them; route by ecmp, which takes "
                   "a way over others, or restore one")  # fmt: skip
            raise ValueError(msg)
        link, which = link[expand(first, count)], np.repeat(goes, count)
        part = front.part[which] / np.repeat(count, count)
        gate = _Front(front.row[which], front.at[which], part)
        self._walk(gate, fabric.source[link].astype(np.int64), entries)
        entries.append((gate.row, link, part))
        stays = here == group
        return _Front(np.append(front.row[stays], gate.row), np.append(front.at[stays], fabric.target[link]),
                      np.append(front.part[stays], part))  # fmt: skip

    def _walk(self, front: _Front, to: Ints, entries: list[Entries]) -> None:
        """Take all parts within their group to another switch, by the link between the two."""
        on = np.flatnonzero(front.at != to)
        key = front.at[on] * self.fabric.n_nodes + to[on]
        low = np.searchsorted(self.pair, key)
        found = (low < self.pair.size) & (self.pair[np.minimum(low, self.pair.size - 1)] == key)
        if not found.all():
            i = on[int(np.argmin(found))]
            a, b = self.fabric.name(int(front.at[i])), self.fabric.name(int(to[i]))
            msg = (
                f"no path from {a} to {b} by this routing: within a group it takes the cable between the two, "
                "and none works; restore one, or route by ecmp"
            )
            raise NoPath(msg)  # fmt: skip
        entries.append((front.row[on], self.local[low], front.part[on]))
