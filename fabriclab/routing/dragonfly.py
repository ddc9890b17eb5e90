"""Dragonfly routing: minimal routes, non-minimal (Valiant) routes through a third group, and UGAL, which chooses.

The code calls a minimal route a direct path and a Valiant route a detour. A direct path has at most one local link, one
global link and one local link, as in the papers; a path over two global links that happens to be as short is not used.
Where two switches of a group have no working cable between them (a failure, or the leaves of a dragonfly+), the path
goes over switches that have a cable to both. If no direct path is left, the detour is taken, over the groups that still
lead on; pairs that would need an even longer path are refused.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import (
    SPRAY,
    Fabric,
    Flags,
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
from fabriclab.routing.shortest import LinkParts, PairRoutes, Paths, Seed, cached, check_paths


def lanes(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry, (E,): the number of global links before it on the path.

    So on each lane local links lead to global links only, and these lead to the next lane: packets cannot deadlock as
    long as no path takes two local links in a group. If one does, check with `fabriclab.routing.deadlock`.
    """
    group = fabric.coordinate("group")
    here = group[fabric.source[routes.link]]  # (E,) group where each link begins
    ahead = group[fabric.target[routes.link]]  # and where it ends
    row = rows_of(routes.ptr)
    first = group[flows.source[routes.flow]][row]  # (E,) group of the source of each row
    last = group[flows.target[routes.flow]][row]

    # A row is a direct path if one of its links leads from its first group to its last group.
    is_direct = np.bincount(row, (here == first) & (ahead == last), routes.n_rows)[row] > 0
    lane = np.ones(row.size, dtype=np.int64)
    lane[(here == last) & ~is_direct] = 2
    lane[here == first] = 0
    return lane


def direct_share(fabric: Fabric, flows: Flows, routes: Routes) -> float:
    """Return the share of the bytes between groups that takes minimal routes, not detours over a third group.

    Parameters
    ----------
    fabric : Fabric
        A network with groups, such as a dragonfly.
    flows : Flows
        The traffic. Flows within a group do not count.
    routes : Routes
        Its routes, such as ``settled(fabric, flows, "ugal_g").routes``.

    Returns
    -------
    float
        Share of the bytes, 0..1.

    Raises
    ------
    ValueError
        If no flow has bytes for another group.

    Examples
    --------
    >>> from fabriclab import metrics, routing, topologies
    >>> small = topologies.build("dragonfly", p=2, a=4, h=2)
    >>> flows = metrics.shift(small, 8)
    >>> round(direct_share(small, flows, routing.route(small, flows, "ugal_g")), 3)
    0.245
    """
    group = fabric.coordinate("group")
    first = group[flows.source[routes.flow]]  # (rows,) group of the source of each row
    last = group[flows.target[routes.flow]]
    row = rows_of(routes.ptr)  # (E,) row of each entry
    crosses = group[fabric.source[routes.link]] == first[row]
    crosses &= group[fabric.target[routes.link]] == last[row]
    is_direct = np.bincount(row, crosses, routes.n_rows) > 0

    between = first != last
    size = flows.size[routes.flow] * routes.share
    total = float(size[between].sum())
    if total <= 0:
        raise ValueError("flows must send bytes between groups, such as metrics.shift(fabric, 8)")
    return float(size[between & is_direct].sum()) / total


@register("routing", "minimal", lanes=lanes)
def minimal(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Take the minimal route: to a switch with a cable to the target's group, over that cable, and to the target.

    If the source's own switch has such a cable, that one is taken. Several cables share the traffic equally, so the row
    is a spray; ``seed`` has no effect.
    """
    return _GroupLinks.of(fabric).rows(source, target, detours=[False] * subflows)


@register("routing", "valiant", lanes=lanes)
def valiant(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Take non-minimal (Valiant) routes: over all third groups in equal parts, as if each packet drew one at random.

    Within a group, and if there are only two groups, the route is the minimal one. ``seed`` has no effect.

    References
    ----------
    .. [1] L. G. Valiant, A scheme for fast parallel communication, SIAM Journal on Computing 11(2), 1982.
    """
    return _GroupLinks.of(fabric).rows(source, target, [True] * subflows)


@register("routing", "ugal_l", lanes=lanes, cost="local")
@register("routing", "ugal_g", lanes=lanes, cost="global")
def ugal(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Choose by load between the minimal route and the Valiant route of each pair (UGAL).

    "ugal_l" sees only the load of the first link between switches, "ugal_g" the load of all links of both candidates.
    """
    return _GroupLinks.of(fabric).rows(source, target, [False, True] * subflows)


class _Front(NamedTuple):
    """Traffic in transit: one entry per row and switch, with the part of the row that is at that switch."""

    row: Ints
    at: Ints
    part: Floats  # 0..1


class _Gateways(NamedTuple):
    """Cables out of a group: one entry for each wanted crossing and each cable that serves it."""

    crossing: Ints
    link: Ints


class _Sorted(NamedTuple):
    """Links sorted by a key, so that all links with one key can be found by bisection."""

    link: Ints
    key: Ints

    @classmethod
    def by(cls, links: Ints, key: Ints) -> Self:
        """Return the links sorted by their keys."""
        order = np.argsort(key, kind="stable")
        return cls(links[order], key[order])

    def find(self, wanted: Ints) -> tuple[Ints, Ints]:
        """Return where the links with each wanted key begin, and how many there are."""
        begin = np.searchsorted(self.key, wanted, "left")
        return begin, np.searchsorted(self.key, wanted, "right") - begin


class _GroupLinks:
    """Local and global links of a dragonfly, by group."""

    def __init__(self, fabric: Fabric) -> None:
        group = fabric.coordinate("group")
        transit = fabric.transit
        self.fabric = fabric
        self.group = group  # (N,)
        self.n_groups = int(group.max()) + 1  # groups

        between_switches = transit[fabric.source] & transit[fabric.target]
        inner = np.flatnonzero(between_switches & (fabric.capacity > 0))
        is_local = group[fabric.source[inner]] == group[fabric.target[inner]]

        # Global links, by key = switch * groups + target group, and by key = source group * groups + target group.
        across = inner[~is_local]
        switch = fabric.source[across].astype(np.int64)
        goal = group[fabric.target[across]]
        self.of_switch = _Sorted.by(across, switch * self.n_groups + goal)
        self.of_group = _Sorted.by(across, group[switch] * self.n_groups + goal)
        # (groups, groups) whether a group has a working link to another
        self.joined = np.zeros((self.n_groups, self.n_groups), dtype=np.bool_)
        self.joined[group[switch], goal] = True

        # Local links, by key = source * nodes + target; and by source alone, in the same order.
        local = inner[is_local]
        start = fabric.source[local].astype(np.int64)
        self.local = _Sorted.by(local, start * fabric.n_nodes + fabric.target[local])
        self.local_from = _Sorted(self.local.link, self.local.key // fabric.n_nodes)

        self.place, most = self._places()
        check_memory(
            9 * self.n_groups * most**2,
            f"ways within {self.n_groups} groups of {most} switches",
            "take smaller groups",
        )
        # (groups, places, places) 1 where two switches of a group are the same or joined by a working link.
        joined = np.tile(np.eye(most, dtype=np.float32), (self.n_groups, 1, 1))
        joined[group[start], self.place[start], self.place[fabric.target[local]]] = 1
        # Whether two switches of a group are at most two working links apart: where the matrix squared is above 0.
        self.near = joined @ joined > 0

    def _places(self) -> tuple[Ints, int]:
        """Return the place of each switch in its group, (N,), 0 for other nodes; and the size of the largest group."""
        switch = np.flatnonzero(self.fabric.transit)
        switch = switch[
            np.argsort(self.group[switch], kind="stable")
        ]  # those of group 0, of group 1, ...
        first = pointer(np.bincount(self.group[switch], minlength=self.n_groups))
        place = np.zeros(self.fabric.n_nodes, dtype=np.int64)
        place[switch] = np.arange(switch.size) - first[self.group[switch]]
        return place, int(np.diff(first).max())

    @classmethod
    def of(cls, fabric: Fabric) -> Self:
        """Return the local and global links of a fabric, or refuse a fabric that has no groups."""
        if "group" not in fabric.coord_names or "router" not in fabric.coord_names:
            raise ValueError(
                f"this routing needs groups of routers (dragonfly), got {fabric.family!r}; use ecmp"
            )
        return cached(fabric, "_dragonfly", cls)

    def rows(self, source: Ints, target: Ints, detours: list[bool]) -> PairRoutes:
        """Return for each pair one row per entry of ``detours``: a detour where True, else the direct path.

        The route between two switches is the same for all their hosts, so it is computed once per pair of switches.
        """
        n_pairs = source.size
        first_switch, up = self._access_switch(source)
        last_switch, down = self._access_switch(target)
        down = np.where(down >= 0, down ^ 1, -1)  # towards the target
        up_works = (up < 0) | (self.fabric.capacity[up] > 0)
        down_works = (down < 0) | (self.fabric.capacity[down] > 0)
        check_paths(self.fabric, ~(up_works & down_works), source, target)

        n_nodes = self.fabric.n_nodes
        key, same = np.unique(first_switch * n_nodes + last_switch, return_inverse=True)
        core = self._between_switches(key // n_nodes, key % n_nodes, detours)
        n_kinds = len(detours)
        pair = np.repeat(np.arange(n_pairs), n_kinds)  # (rows,)
        core_row = (same[:, None] * n_kinds + np.arange(n_kinds)).ravel()  # (rows,)

        # A row consists of a host's link up, a row between switches, and a link down. They are taken from a list that
        # has the links of all rows between switches, then the links up of all pairs, then the links down.
        all_links = np.concatenate([core.link, up, down])
        all_uses = np.append(core.use, np.ones(2 * n_pairs))
        ups = core.link.size  # where the links up begin
        downs = ups + n_pairs
        first = np.stack([ups + pair, core.ptr[core_row], downs + pair], axis=1)  # (rows, 3)
        length = np.stack([up[pair] >= 0, np.diff(core.ptr)[core_row], down[pair] >= 0], axis=1)
        ptr = pointer(length.sum(axis=1))
        check_memory(
            60 * int(ptr[-1]),
            f"routes of {n_pairs} pairs over {self.n_groups} groups",
            "route fewer flows",
        )
        entries = expand(first.ravel(), length.ravel())
        return PairRoutes(ptr, all_links[entries], all_uses[entries], SPRAY)

    def _access_switch(self, end: Ints) -> tuple[Ints, Ints]:
        """Return the switch of each end, and the link from the end to its switch; -1 if the end is a switch itself."""
        fabric = self.fabric
        ptr, order = fabric.out
        first_link = order[np.minimum(ptr[end], order.size - 1)]
        link = np.where(fabric.transit[end], -1, first_link)
        switch = np.where(link < 0, end, fabric.target[link])
        return switch.astype(np.int64), link

    def _between_switches(self, start: Ints, goal: Ints, detours: list[bool]) -> PairRoutes:
        """Return the rows between pairs of switches, each of which occurs once."""
        n_pairs = start.size
        pair = np.repeat(np.arange(n_pairs), len(detours))  # (rows,)
        start = start[pair]
        goal = goal[pair]
        own = self.group[start]  # (rows,) group
        last = self.group[goal]

        # Groups through which a detour may go: joined to the row's first group and to its last. (rows, groups)
        is_direct = self._has_direct_path(start, goal)
        is_detour = np.tile(np.array(detours), n_pairs) | ~is_direct
        wants_detour = is_detour & (own != last)
        over = self.joined[own] & self.joined[:, last].T & wants_detour[:, None]
        check_memory(
            450 * (pair.size + int(over.sum())),
            f"routes of {n_pairs} pairs of switches over {self.n_groups} groups",
            "route fewer flows",
        )
        row, group = np.nonzero(over)  # one entry per crossing into a group of a detour
        gateways = self._gateways(start[row], goal[row], group)
        used = np.bincount(
            row[distinct(gateways.crossing)], minlength=pair.size
        )  # (rows,) number of groups that lead on
        more = ", or has more links than this routing takes (then route by ecmp)"
        check_paths(self.fabric, ~is_direct & (used == 0), start, goal, more)

        # Detours cross into their groups in equal parts; the other rows stay at their first switch for now.
        loads: list[LinkParts] = []
        equal_part = 1 / np.maximum(used, 1)[row]
        far = self._cross(_Front(row, start[row], equal_part), gateways, loads)
        stay = np.flatnonzero(used == 0)
        front = _Front(
            row=np.append(stay, far.row),
            at=np.append(start[stay], far.at),
            part=np.append(np.ones(stay.size), far.part),
        )

        # All parts cross into the last group, unless they are there already, and go on to the last switch.
        arrived = self.group[front.at] == last[front.row]
        gateways = self._gateways(front.at, goal[front.row], last[front.row])
        crossed = self._cross(front, gateways, loads)
        front = _Front(
            row=np.append(front.row[arrived], crossed.row),
            at=np.append(front.at[arrived], crossed.at),
            part=np.append(front.part[arrived], crossed.part),
        )
        self._walk(front, goal[front.row], loads)
        return self._merged(loads, pair.size)

    def _merged(self, loads: list[LinkParts], n_rows: int) -> PairRoutes:
        """Combine all loads into rows; parts of a row on the same link are added."""
        parts = LinkParts.join(loads)
        key, same = np.unique(parts.row * self.fabric.n_links + parts.link, return_inverse=True)
        row, link = np.divmod(key, self.fabric.n_links)
        use = np.bincount(same, parts.part, key.size).astype(np.float64)
        return PairRoutes(pointer(np.bincount(row, minlength=n_rows)), link, use, SPRAY)

    def _has_direct_path(self, at: Ints, to: Ints) -> Flags:
        """Return whether a direct path leads from each switch ``at`` to its switch ``to``."""
        key, back = np.unique(at * self.fabric.n_nodes + to, return_inverse=True)
        at, to = np.divmod(key, self.fabric.n_nodes)
        same_group = self.group[at] == self.group[to]
        leads = same_group & self._near(at, to)
        away = np.flatnonzero(~same_group)
        if away.size:
            gateways = self._gateways(at[away], to[away], self.group[to[away]])
            leads[away[gateways.crossing]] = True
        return np.asarray(leads[back])

    def _near(self, at: NDArray[np.integer], to: NDArray[np.integer]) -> Flags:
        """Return whether two switches of the same group are at most two working links apart."""
        return np.asarray(self.near[self.group[at], self.place[at], self.place[to]])

    def _gateways(self, at: Ints, to: Ints, group: Ints) -> _Gateways:
        """Return the cables from the group of ``at`` to another group from which a direct path leads on to ``to``.

        Only if the switch ``at`` itself has no suitable cable do cables of other switches in its group count. So no
        part takes two local links in a group that it only passes through. There are none if ``at`` is in the group
        already.
        """
        found = []
        rest = np.flatnonzero(self.group[at] != group)  # crossings without a cable so far
        for links, start in ((self.of_switch, at), (self.of_group, self.group[at])):
            begin, count = links.find(start[rest] * self.n_groups + group[rest])
            link = links.link[expand(begin, count)]
            crossing = np.repeat(rest, count)

            # The switch must be near the cable, and a direct path must lead on from the far end.
            serves = self._near(at[crossing], self.fabric.source[link])
            far_end = self.fabric.target[link[serves]].astype(np.int64)
            serves[serves] = self._has_direct_path(far_end, to[crossing[serves]])
            found.append(_Gateways(crossing[serves], link[serves]))
            is_served = np.bincount(crossing[serves], minlength=at.size)[rest] > 0
            rest = rest[~is_served]

        crossing = np.concatenate([gateways.crossing for gateways in found])
        link = np.concatenate([gateways.link for gateways in found])
        return _Gateways(crossing, link)

    def _cross(self, front: _Front, gateways: _Gateways, loads: list[LinkParts]) -> _Front:
        """Move all parts that have gateways to the far ends of these, in equal parts, and add the loads."""
        crossing = gateways.crossing  # entry of the front
        gateways_each = np.bincount(crossing)[crossing]
        leaving = _Front(
            front.row[crossing], front.at[crossing], front.part[crossing] / gateways_each
        )
        self._walk(leaving, self.fabric.source[gateways.link].astype(np.int64), loads)
        loads.append(LinkParts(leaving.row, gateways.link, leaving.part))
        far_end = self.fabric.target[gateways.link].astype(np.int64)
        return _Front(leaving.row, far_end, leaving.part)

    def _walk(self, front: _Front, to: Ints, loads: list[LinkParts]) -> None:
        """Add the loads of all parts that go to another switch of their group, directly or over third switches."""
        n = self.fabric.n_nodes
        moving = np.flatnonzero(front.at != to)

        # Take the first cable between the two switches, if there is one.
        begin, count = self.local.find(front.at[moving] * n + to[moving])
        has_cable = count > 0
        direct = moving[has_cable]
        loads.append(
            LinkParts(front.row[direct], self.local.link[begin[has_cable]], front.part[direct])
        )

        # Otherwise go in equal parts over all switches that have a cable to both.
        far = moving[~has_cable]
        begin, count = self.local_from.find(front.at[far])
        first_link = self.local.link[expand(begin, count)]
        owner = np.repeat(np.arange(far.size), count)
        third = self.fabric.target[first_link].astype(np.int64)
        begin, count = self.local.find(third * n + to[far[owner]])
        joins_both = np.flatnonzero(count > 0)
        owner = owner[joins_both]
        n_paths = np.bincount(owner, minlength=far.size)
        row = front.row[far[owner]]
        part = (front.part[far] / n_paths)[owner]
        loads.append(LinkParts(row, first_link[joins_both], part))
        loads.append(LinkParts(row, self.local.link[begin[joins_both]], part))
