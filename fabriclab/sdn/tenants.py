"""Tenants of one fabric: who may reach whom (partition keys, VRFs), and what share of a link each gets.

A partition or a VRF says who may talk to whom. It says nothing about rates: two tenants that cannot reach each other
still share cables. Weights, classes and cables of their own divide the rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import (
    Fabric,
    Flags,
    Floats,
    Flows,
    Ints,
    ReadOnly,
    Routes,
    as_html,
    as_text,
    rows_of,
)
from fabriclab.engines.flow import max_min_rates

__all__ = [
    "DEFAULT_PARTITION",
    "Leak",
    "Tenant",
    "Tenants",
    "Vrf",
    "floors",
    "keys_match",
    "partition_key",
    "rates",
    "weighted",
]

# source: InfiniBand Architecture Specification, volume 1, section 10.9: the P_Key has 16 bits, the highest of which
# says full (1) or limited (0) member; the other 15 name the partition, 0 is invalid and 0x7FFF the default partition.
_FULL = 0x8000
_BASE = 0x7FFF
DEFAULT_PARTITION = 0x7FFF


def partition_key(partition: int, *, full: bool = True) -> int:
    """Return the P_Key of a partition of InfiniBand: 15 bits that name it, and above them 1 for a full member.

    Parameters
    ----------
    partition : int
        Number of the partition. 1..0x7FFF
    full : bool
        Whether the member is a full one, which may talk to all; a limited one talks to full ones only.

    Examples
    --------
    >>> hex(partition_key(1)), hex(partition_key(1, full=False))
    ('0x8001', '0x1')
    """
    number = units.count(partition, "partition", 1, _BASE)
    return number | _FULL if units.flag(full, "full") else number


def keys_match(one: ArrayLike, other: ArrayLike) -> NDArray[np.bool_]:
    """Return whether packets pass between ports with these P_Keys: one partition, and a full member among the two.

    Parameters
    ----------
    one, other : array_like of int
        P_Keys, broadcast together. 0..0xFFFF

    Examples
    --------
    >>> keys_match([0x8001, 0x0001, 0x8001], [0x0001, 0x0001, 0x8002]).tolist()
    [True, False, False]
    """
    a, b = (np.asarray(keys) for keys in (one, other))
    for keys in (a, b):
        if keys.dtype.kind not in "iu" or np.any((keys < 0) | (keys > 0xFFFF)):
            raise ValueError(
                f"a P_Key has 16 bits, 0..0xFFFF, got {keys!r:.60}; make it by partition_key(1)"
            )
    same = (a & _BASE) == (b & _BASE)
    valid = (a & _BASE) > 0
    return np.asarray(same & valid & (((a | b) & _FULL) > 0))


@dataclass(frozen=True)
class Vrf:
    """A routing table of its own for some ranks, as switches of Ethernet have it (virtual routing and forwarding).

    Parameters
    ----------
    name : str
        Name of the table.
    imports : tuple of str
        Other tables whose routes are leaked into this one, so that its ranks can send there.
    """

    name: str
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tenant:
    """An owner of jobs: its ranks, whom they may reach, and how it shares links.

    Parameters
    ----------
    name : str
        Name of the tenant.
    ranks : tuple of int
        Its ranks.
    keys : tuple of int
        P_Keys of each of its ports; empty for none (Ethernet).
    vrf : Vrf, optional
        Its routing table; without one and without keys it reaches everybody who has neither.
    weight : float
        Its part where links are shared by weight. > 0
    priority : int
        Class of its traffic: 0 goes first. >= 0
    limit : float or str
        Highest rate of each of its flows; inf for none. [B/s]
    """

    name: str
    ranks: tuple[int, ...]
    keys: tuple[int, ...] = ()
    vrf: Vrf | None = None
    weight: float = 1.0
    priority: int = 0
    limit: units.Quantity = np.inf

    def __post_init__(self) -> None:
        """Check ranges and sort the ranks."""
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name of a tenant must be a text, got {self.name!r}")
        ranks = tuple(sorted(units.count(int(r), "rank", 0) for r in self.ranks))
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(
                f"ranks of tenant {self.name} must be one or more, each once, got {ranks!r:.60}"
            )
        object.__setattr__(self, "ranks", ranks)
        for key in self.keys:
            if not 0 < (units.count(key, "key", 0, 0xFFFF) & _BASE):
                raise ValueError(
                    f"key {key:#x} of tenant {self.name} names partition 0, which is invalid; take 1..0x7FFF"
                )
        if not (units.is_number(self.weight) and 0 < self.weight < np.inf):
            raise ValueError(
                f"weight of tenant {self.name} must be a number > 0, got {self.weight!r}"
            )
        units.count(self.priority, "priority", 0, 7)
        if isinstance(self.limit, str) or self.limit != np.inf:
            object.__setattr__(self, "limit", units.rate(self.limit, "limit"))


class Leak(NamedTuple):
    """Two tenants that reach each other, with a rank of each."""

    ranks: tuple[int, int]
    message: str


@dataclass(frozen=True)
class Tenants:
    """All tenants of a fabric.

    Parameters
    ----------
    members : tuple of Tenant
        The tenants; no rank belongs to two.
    friends : tuple of (str, str)
        Pairs of tenants that are meant to reach each other.
    """

    members: tuple[Tenant, ...]
    friends: tuple[tuple[str, str], ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse two tenants of one name, or one rank of two tenants."""
        names = [t.name for t in self.members]
        if len(set(names)) != len(names):
            raise ValueError(f"tenants must have different names, got {names}")
        owner: dict[int, str] = {}
        for tenant in self.members:
            for rank in tenant.ranks:
                if rank in owner:
                    raise ValueError(
                        f"rank {rank} belongs to {owner[rank]} and to {tenant.name}; give it to one of them"
                    )
                owner[rank] = tenant.name
        for pair in self.friends:
            for name in pair:
                units.choice(name, "friend", names, exact=True)
        tables = sorted({t.vrf.name for t in self.members if t.vrf is not None})
        for tenant in self.members:
            for name in tenant.vrf.imports if tenant.vrf is not None else ():
                units.choice(name, f"VRF that {tenant.name} imports", tables, exact=True)

    def __getitem__(self, name: str) -> Tenant:
        """Return a tenant by its name."""
        known = units.choice(name, "tenant", [t.name for t in self.members], exact=True)
        return next(t for t in self.members if t.name == known)

    def with_(self, name: str, **changes: Any) -> Tenants:
        """Return the same tenants, with one of them changed."""
        self[name]
        members = tuple(replace(t, **changes) if t.name == name else t for t in self.members)
        return replace(self, members=members)

    def may_send(self, one: Tenant, other: Tenant) -> bool:
        """Return whether packets of one tenant come to ranks of another one."""
        if one.keys or other.keys:
            keys = np.array(one.keys, dtype=np.int64)[:, None]
            if (
                not one.keys
                or not other.keys
                or not keys_match(keys, np.array(other.keys)[None, :]).any()
            ):
                return False
        if one.vrf is None and other.vrf is None:
            return True
        if one.vrf is None or other.vrf is None:
            return False
        return one.vrf.name == other.vrf.name or other.vrf.name in one.vrf.imports

    def reach(self) -> Flags:
        """Return whether tenant i can send to tenant j, (T, T)."""
        return np.array(
            [[self.may_send(a, b) for b in self.members] for a in self.members], dtype=np.bool_
        )

    def owner_of(self, fabric: Fabric, nodes: NDArray[np.integer], verb: str) -> Ints:
        """Return the number of the tenant that each node belongs to, (F,); a node of nobody is refused.

        ``verb`` says in that error what flow k does with its node: "comes from" or "goes to".
        """
        owner = np.full(fabric.n_ranks, -1)
        for number, tenant in enumerate(self.members):
            if tenant.ranks[-1] >= fabric.n_ranks:
                raise ValueError(
                    f"tenant {tenant.name} has rank {tenant.ranks[-1]}, and the fabric has {fabric.n_ranks} ranks"
                )
            owner[list(tenant.ranks)] = number
        rank = fabric.rank_of[nodes]
        found = np.where(rank >= 0, owner[rank], -1)
        nobody = np.flatnonzero(found < 0)
        if nobody.size:
            name = fabric.name(int(nodes[nobody[0]]))
            raise ValueError(f"flow {nobody[0]} {verb} {name}, which belongs to no tenant")
        return found

    def passes(self, fabric: Fabric, flows: Flows) -> Flags:
        """Return whether keys and routing tables let each flow through to its target, (F,)."""
        sender = self.owner_of(fabric, flows.source, "comes from")
        receiver = self.owner_of(fabric, flows.target, "goes to")
        return np.asarray(self.reach()[sender, receiver])

    def leaks(self) -> list[Leak]:
        """Return pairs of tenants of which one reaches the other although they are no friends."""
        reach = self.reach()
        found = []
        meant = {frozenset(pair) for pair in self.friends}
        for i, j in np.argwhere(reach).tolist():
            one, other = self.members[i], self.members[j]
            if i != j and frozenset((one.name, other.name)) not in meant:
                ranks = (one.ranks[0], other.ranks[0])
                found.append(
                    Leak(
                        ranks,
                        f"tenant {one.name} (rank {ranks[0]}) reaches tenant {other.name} (rank {ranks[1]})",
                    )
                )
        return found

    def rows(self) -> list[list[str]]:
        """Return a table of texts: a row for each tenant, with whom it reaches."""
        reach = self.reach()
        table = [["tenant", "ranks", "keys", "VRF", "weight", "class", "reaches"]]
        for i, tenant in enumerate(self.members):
            others = [t.name for j, t in enumerate(self.members) if reach[i, j] and i != j]
            keys = ", ".join(f"{key:#06x}" for key in tenant.keys)
            vrf = tenant.vrf.name if tenant.vrf else ""
            table.append(
                [
                    tenant.name,
                    str(len(tenant.ranks)),
                    keys,
                    vrf,
                    f"{tenant.weight:g}",
                    str(tenant.priority),
                    ", ".join(others) or "itself",
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "tenants")


# How much more the next class counts where classes are shown as weights: the rest is below a ten-thousandth.
_CLASS_FACTOR = 1e6


def weighted(fabric: Fabric, flows: Flows, tenants: Tenants, *, by_class: bool = False) -> Flows:
    """Return flows with the weights of their tenants, divided by the number of flows of each tenant, and its limit.

    So a tenant gets its part of a link however many flows it opens: fairness for tenants, not for flows.

    Parameters
    ----------
    fabric, flows : Fabric, Flows
        The network, and flows whose source is a rank of a tenant; the label of each becomes its tenant.
    tenants : Tenants
        The tenants.
    by_class : bool
        Whether a lower class of a tenant goes first: its weight is a million times that of the next one, which is
        strict priority but for a millionth.
    """
    label = tenants.owner_of(fabric, flows.source, "comes from")
    count = np.bincount(label, minlength=len(tenants.members))
    each = []
    for tenant in tenants.members:
        factor = _CLASS_FACTOR**-tenant.priority if by_class else 1.0
        each.append(tenant.weight * factor)
    weight = np.array(each)[label] / count[label]
    limit = np.minimum(flows.limit, np.array([float(t.limit) for t in tenants.members])[label])
    names = tuple(t.name for t in tenants.members)
    return replace(flows, weight=weight, limit=limit, label=label.astype(np.int32), labels=names)


def rates(fabric: Fabric, routes: Routes, flows: Flows) -> Mapping[str, float]:
    """Return the rate of each label's flows together while all of them send, max-min fair by weight. [B/s].

    Examples
    --------
    >>> from fabriclab import routing, topologies
    >>> from fabriclab.core import Flows
    >>> hosts = topologies.build("crossbar", hosts=3)
    >>> many = Flows.make([0] * 8 + [1], 2, 1.0, label=[0] * 8 + [1], labels=("A", "B"))
    >>> got = rates(hosts, routing.route(hosts, many), many)
    >>> round(got["A"] / sum(got.values()), 4)
    0.8889
    """
    each = max_min_rates(
        routes.ptr,
        routes.link,
        fabric.capacity,
        use=routes.use,
        weight=flows.weight[routes.flow],
        limit=flows.limit[routes.flow],
    )
    of_label = np.bincount(flows.label[routes.flow], each, len(flows.labels))
    return ReadOnly(dict(zip(flows.labels, of_label.tolist(), strict=True)))


def floors(fabric: Fabric, routes: Routes, flows: Flows, total_weight: float) -> Floats:
    """Return a rate that each flow gets whatever the others send, (F,). [B/s].

    A flow of weight w gets at least w / W of each link on its route, where W is the sum of the weights of all tenants,
    so the least of these is its floor (unless its own limit is lower). It holds for routes of one row a flow.

    Parameters
    ----------
    fabric, routes, flows : Fabric, Routes, Flows
        Flows with weights by `weighted`, whose sum over the flows of a tenant is the tenant's weight.
    total_weight : float
        Sum of the weights of all tenants, W. > 0
    """
    row = rows_of(routes.ptr)
    least = np.full(flows.n_flows, np.inf)
    np.minimum.at(least, routes.flow[row], fabric.capacity[routes.link])
    return np.minimum(least * flows.weight / total_weight, flows.limit)
