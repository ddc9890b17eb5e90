"""Dragonfly: the shortest way between groups, a detour over any other group (Valiant), and the choice between both.

A direct way is at most one local link, one global link, one local link, as in the papers: a path over two global
links that happens to be as short is not used. Where two switches of a group have no working cable between them (a
failure, or the leaves of a dragonfly+), the way goes over those that both have one to. Where no direct way is left it
takes the detour, over the groups that still lead on; a way of more links than these is refused.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import (
    SPRAY,
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    check_memory,
    distinct,
    expand,
    pointer,
    rows_of,
)
from fabriclab.registry import register
from fabriclab.routing.shortest import Rows, Seed, Ways, check_paths, kept

Entries = tuple[Ints, Ints, Floats]  # row, link, use


def lanes(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry (E,): the global links that lie before it on the way.

    So on each lane local links lead to global ones only, and those to the next lane: no circle can close while no
    way takes two local links in a group. Where it does, ask `fabriclab.routing.deadlock`.
    """
    group = fabric.coordinate("group")
    here, ahead = group[fabric.source[routes.link]], group[fabric.target[routes.link]]
    row = rows_of(routes.ptr)
    first, last = group[flows.source[routes.flow]][row], group[flows.target[routes.flow]][row]
    direct = np.bincount(row, (here == first) & (ahead == last), routes.n_rows)[row] > 0
    return np.where(here == first, 0, np.where((here == last) & ~direct, 2, 1))


@register("routing", "minimal", lanes=lanes)
def minimal(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return the direct way of each pair: to a switch with a cable to the target's group, across, to the target.

    If the own switch has such a cable it is taken. Several share alike, so the row is a spray; ``seed`` has no effect.
    """
    return _Map.of(fabric).rows(source, target, [False] * subflows)


@register("routing", "valiant", lanes=lanes)
def valiant(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return the detour of each pair over all groups but its own two, in equal parts, as packets that draw one each.

    Within a group, and where there are two groups only, the way is the direct one. ``seed`` has no effect.

    References
    ----------
    .. [1] L. G. Valiant, A scheme for fast parallel communication, SIAM Journal on Computing 11(2), 1982.
    """
    return _Map.of(fabric).rows(source, target, [True] * subflows)


@register("routing", "ugal_l", lanes=lanes, cost="local")
@register("routing", "ugal_g", lanes=lanes, cost="global")
def ugal(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return both ways of each pair as candidates.

    The choice of "ugal_l" sees the first link between switches only, that of "ugal_g" all links of both.
    """
    return _Map.of(fabric).rows(source, target, [False, True] * subflows)


class _Front(NamedTuple):
    """Traffic on its way: part of a row at a switch."""

    row: Ints
    at: Ints
    part: Floats


def _sorted(links: Ints, key: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(key, kind="stable")
    return links[order], key[order]


def _span(key: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Return where each wanted key begins and ends among sorted ones."""
    return np.searchsorted(key, wanted, "left"), np.searchsorted(key, wanted, "right")


class _Map:
    """Local and global links of a dragonfly, by group."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.group = group = fabric.coordinate("group")
        self.n = int(group.max()) + 1
        inner = np.flatnonzero(
            fabric.transit[fabric.source] & fabric.transit[fabric.target] & (fabric.capacity > 0)
        )
        a, b = group[fabric.source[inner]], group[fabric.target[inner]]
        across = inner[a != b]
        # Cables of one switch to a group, then all of its group: sorted by key, which is switch or group and group.
        goal = group[fabric.target[across]]
        starts = (fabric.source[across].astype(np.int64), group[fabric.source[across]])
        self.across = [_sorted(across, at * self.n + goal) for at in starts]
        # whether a group has a working link to another
        self.joined = np.zeros((self.n, self.n), dtype=np.bool_)
        self.joined[group[fabric.source[across]], goal] = True
        local = inner[a == b]
        pair = fabric.source[local].astype(np.int64) * fabric.n_nodes + fabric.target[local]
        self.local, self.pair = _sorted(local, pair)
        switch = np.flatnonzero(fabric.transit)
        switch = switch[np.argsort(group[switch], kind="stable")]
        ptr = pointer(np.bincount(group[switch], minlength=self.n))
        self.place = np.zeros(fabric.n_nodes, dtype=np.int64)  # of a switch in its group
        self.place[switch] = np.arange(switch.size) - ptr[group[switch]]
        wide = int(np.diff(ptr).max())
        check_memory(
            9 * self.n * wide**2,
            f"ways within {self.n} groups of {wide} switches",
            "take smaller groups",
        )
        one = np.tile(np.eye(wide, dtype=np.float32), (self.n, 1, 1))
        one[
            group[fabric.source[local]],
            self.place[fabric.source[local]],
            self.place[fabric.target[local]],
        ] = 1
        # whether two switches of a group are at most two working links apart
        self.near = one @ one > 0

    @classmethod
    def of(cls, fabric: Fabric) -> Self:
        """Return the map of a fabric, or refuse one that has no groups."""
        if "group" not in fabric.coord_names or "router" not in fabric.coord_names:
            raise ValueError(
                f"this routing needs groups of routers (dragonfly), got {fabric.family!r}; use ecmp"
            )
        return kept(fabric, "_dragonfly", cls)

    def rows(self, source: Ints, target: Ints, detours: list[bool]) -> Rows:
        """Return for each pair one row per entry of ``detours``: between its switches as for all their hosts."""
        each, n = len(detours), self.fabric.n_nodes
        (start, up), (goal, down) = self._door(source), self._door(target)
        down = np.where(down >= 0, down ^ 1, -1)
        working = [(link < 0) | (self.fabric.capacity[link] > 0) for link in (up, down)]
        check_paths(self.fabric, ~(working[0] & working[1]), source, target)
        switches, same = np.unique(start * n + goal, return_inverse=True)
        core = self._core(switches // n, switches % n, detours)
        which = (same[:, None] * each + np.arange(each)).ravel()
        # A row: the link of a host up, the row between switches, the link down; each stands in the links below.
        pair, after = np.repeat(np.arange(source.size), each), core.link.size
        first = np.stack([after + pair, core.ptr[which], after + source.size + pair], axis=1)
        length = np.stack([up[pair] >= 0, np.diff(core.ptr)[which], down[pair] >= 0], axis=1)
        ptr = pointer(length.sum(axis=1))
        check_memory(
            60 * int(ptr[-1]),
            f"routes of {source.size} pairs over {self.n} groups",
            "route fewer flows",
        )
        entries = expand(first.ravel(), length.ravel())
        link, use = (
            np.concatenate([core.link, up, down]),
            np.append(core.use, np.ones(2 * source.size)),
        )
        return Rows(ptr, link[entries], use[entries], SPRAY)

    def _door(self, end: Ints) -> tuple[Ints, Ints]:
        """Return the switch of each end, and the link from the end to it, -1 where the end is a switch itself."""
        fabric, (ptr, order) = self.fabric, self.fabric.out
        link = np.where(fabric.transit[end], -1, order[np.minimum(ptr[end], order.size - 1)])
        return np.where(link < 0, end, fabric.target[link]).astype(np.int64), link

    def _core(self, start: Ints, goal: Ints, detours: list[bool]) -> Rows:
        """Return the rows between switches, each pair once."""
        pair = np.repeat(np.arange(start.size), len(detours))
        at, to = start[pair], goal[pair]
        own, last = self.group[at], self.group[to]
        direct = self._leads(at, to)
        detour = np.tile(np.array(detours), start.size) | ~direct
        over = self.joined[own] & self.joined[:, last].T & (detour & (own != last))[:, None]
        what = f"routes of {start.size} pairs of switches over {self.n} groups"
        check_memory(450 * (pair.size + int(over.sum())), what, "route fewer flows")
        entries: list[Entries] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        row, group = np.nonzero(over)
        which, link = self._gates(at[row], to[row], group)
        used = np.bincount(row[distinct(which)], minlength=pair.size)  # groups that lead on
        more = ", or has more links than this routing takes (then route by ecmp)"
        check_paths(self.fabric, ~direct & (used == 0), at, to, more)
        far = self._cross(_Front(row, at[row], 1 / np.maximum(used, 1)[row]), which, link, entries)
        near = np.flatnonzero(used == 0)
        front = _Front(
            np.append(near, far.row),
            np.append(at[near], far.at),
            np.append(np.ones(near.size), far.part),
        )
        stays = self.group[front.at] == last[front.row]
        gone = self._cross(front, *self._gates(front.at, to[front.row], last[front.row]), entries)
        front = _Front(
            *(np.append(getattr(front, k)[stays], getattr(gone, k)) for k in ("row", "at", "part"))
        )
        self._walk(front, to[front.row], entries)
        row, link, use = (np.concatenate(column) for column in zip(*entries, strict=True))
        key, inverse = np.unique(row * self.fabric.n_links + link, return_inverse=True)
        row, link = np.divmod(key, self.fabric.n_links)
        ptr, part = (
            pointer(np.bincount(row, minlength=pair.size)),
            np.bincount(inverse, use, key.size),
        )
        return Rows(ptr, link, part.astype(np.float64), SPRAY)

    def _leads(self, at: Ints, to: Ints) -> NDArray[np.bool_]:
        """Return whether a direct way leads from each switch to another."""
        key, back = np.unique(at * self.fabric.n_nodes + to, return_inverse=True)
        at, to = np.divmod(key, self.fabric.n_nodes)
        leads = (self.group[at] == self.group[to]) & self._near(at, to)
        if (away := np.flatnonzero(self.group[at] != self.group[to])).size:
            leads[away[self._gates(at[away], to[away], self.group[to[away]])[0]]] = True
        return np.asarray(leads[back])

    def _near(self, at: NDArray[np.integer], to: NDArray[np.integer]) -> NDArray[np.bool_]:
        return np.asarray(self.near[self.group[at], self.place[at], self.place[to]])

    def _gates(self, at: Ints, to: Ints, group: Ints) -> tuple[Ints, Ints]:
        """Return the cables to another group from which a direct way leads on to ``to``: which switch's, and the link.

        They are a switch's own, or if none of those will do, those of others in its group. So no part takes two
        local links in a group that it passes.
        """
        found, rest = [], np.flatnonzero(self.group[at] != group)
        for (links, key), mine in zip(self.across, (at, self.group[at]), strict=True):
            low, high = _span(key, mine[rest] * self.n + group[rest])
            link, which = links[expand(low, high - low)], np.repeat(rest, high - low)
            ok = self._near(at[which], self.fabric.source[link])
            ok[ok] = self._leads(self.fabric.target[link[ok]].astype(np.int64), to[which[ok]])
            found.append((which[ok], link[ok]))
            rest = rest[np.bincount(which[ok], minlength=at.size)[rest] == 0]
        which, link = (np.concatenate(column) for column in zip(*found, strict=True))
        return which, link

    def _cross(self, front: _Front, which: Ints, link: Ints, entries: list[Entries]) -> _Front:
        """Take the parts that have gates over them, in equal parts."""
        gate = _Front(
            front.row[which], front.at[which], front.part[which] / np.bincount(which)[which]
        )
        self._walk(gate, self.fabric.source[link].astype(np.int64), entries)
        entries.append((gate.row, link, gate.part))
        return _Front(gate.row, self.fabric.target[link].astype(np.int64), gate.part)

    def _walk(self, front: _Front, to: Ints, entries: list[Entries]) -> None:
        """Take all parts within their group to another switch: by the cable between the two, or over third ones."""
        n, on = self.fabric.n_nodes, np.flatnonzero(front.at != to)
        low, high = _span(self.pair, front.at[on] * n + to[on])
        there = high > low
        entries.append((front.row[on[there]], self.local[low[there]], front.part[on[there]]))
        far = on[~there]
        low, high = _span(self.pair // n, front.at[far])
        out = self.local[expand(low, high - low)]
        which = np.repeat(np.arange(far.size), high - low)
        low, high = _span(self.pair, self.fabric.target[out].astype(np.int64) * n + to[far[which]])
        both = np.flatnonzero(high > low)
        ways = np.bincount(which[both], minlength=far.size)
        part = (front.part[far] / ways)[which[both]]
        for links in (out[both], self.local[low[both]]):
            entries.append((front.row[far[which[both]]], links, part))
