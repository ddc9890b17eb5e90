"""Hops and bisection of the folded Clos families as formulas, and switches of two tiers against three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, units
from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.topologies._clos import down_ports

__all__ = ["bisection", "climb", "compare_tiers", "hops", "networks"]


def networks(
    servers: int, gpus: int, rails: int, radix: int, oversubscription: float, tiers: int | None, planes: int = 1,
    dual_plane: bool = True, apart: bool = False,
) -> tuple[Plan, int, int, int]:  # fmt: skip
    """Return the plan of each network, servers of a leaf and of a pod, and the ports of a NIC in one network.

    A NIC has ``planes`` ports, each in a network of its own if ``dual_plane``; rails ``apart`` are networks too.
    """
    ports, room = 1 if dual_plane else planes, down_ports(radix, oversubscription)
    joined = 1 if apart else rails * ports if planes > 1 else None
    return *rail_plan(servers, gpus, rails, radix, room, oversubscription, tiers, joined), ports


def climb(*levels: tuple[int, int]) -> tuple[int, float] | None:
    """Return diameter and mean hops from (hops, ordered pairs at most so far apart), nearest first."""
    links, within = np.array(levels).T
    pairs = np.diff(within, prepend=0)
    return (int(links[pairs > 0].max()), float(links @ pairs / within[-1])) if within[-1] else None


def _within(n: int, size: int) -> int:
    """Return the ordered pairs that share a group, n in groups of ``size`` filled in order."""
    full, rest = divmod(n, size)
    return full * size * (size - 1) + rest * (rest - 1)


def hops(
    servers: int = 128, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, planes: int = 1, dual_plane: bool = True, apart: bool = False,
    **others: Any,
) -> tuple[int, float] | None:  # fmt: skip
    """Return diameter and mean hops of servers on one network, or on equal planes."""
    _, per_leaf, per_pod, _ = networks(
        servers, gpus, rails, _radix(radix) * planes, oversubscription, tiers, planes, dual_plane, apart
    )
    n, nics = servers * gpus, gpus // rails
    leaf, pod, every = rails * _within(servers * nics, per_leaf * nics), _within(n, per_pod * gpus), n * (n - 1)
    if not expand:
        return climb((2, leaf), (4, pod), (6, every))
    server, both = _within(n, gpus), servers * rails * nics * (nics - 1)  # pairs on one server, and on one leaf too
    return climb((2, server), (6, leaf + server - both), (8, pod), (10, every))


def bisection(
    servers: int = 128, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, planes: int = 1, dual_plane: bool = True, apart: bool = False,
    rate: units.Quantity | None = None, pcie: units.Quantity | None = None, **others: Any,
) -> int | None:  # fmt: skip
    """Return the cables of the narrowest cut into halves, or None where the formula does not settle it.

    From below: every rank of one half sends to another of the other half through its own NIC at the part of the
    rate that a leaf passes on, spread evenly. From above: half of the ranks, or the uplinks of half of the leaves.
    """
    plan, per_leaf, _, _ = networks(
        servers, gpus, rails, _radix(radix) * planes, oversubscription, tiers, planes, dual_plane, apart
    )
    up, (full, rest) = plan.spines * plan.per_spine, divmod(servers, per_leaf)
    if expand and (servers % 2 or rate is not None or pcie is not None):  # a cut may pass a server, or its PCIe
        return None
    if apart and rails > 1:
        return None if expand or rails % 2 else 0
    if not plan.spines or up >= per_leaf * (gpus // rails):
        return planes * (servers * gpus // 2)
    return None if rest or (full if expand else full * rails) % 2 else planes * full * rails * up // 2


def _radix(radix: int | None) -> int:
    return int(catalog.value("switches", "quantum2", "ports")) if radix is None else radix


def compare_tiers(hosts: Sequence[int], radix: int = 64, oversubscription: float = 1) -> dict[str, NDArray[np.float64]]:
    """Return the switches and cables that two and three tiers need for each number of hosts; NaN where too few.

    Examples
    --------
    >>> compare_tiers([1024, 65536])["switches, 3 tiers"].tolist()
    [80.0, 5120.0]
    """
    room = down_ports(units.count(radix, "radix", 2), oversubscription)
    out = {"hosts": np.array([units.count(n, "hosts") for n in hosts], dtype=float)}
    for tiers, most in ((2, radix * room), (3, radix // 2 * radix * room)):
        counts = np.full((len(hosts), 2), np.nan)
        for row, n in zip(counts, hosts, strict=True):
            if n <= most:
                plan = rail_plan(n, 1, 1, radix, room, oversubscription, tiers)[0]
                row[:] = sum(plan.switches), plan.cables + n
        out |= {f"switches, {tiers} tiers": counts[:, 0], f"cables, {tiers} tiers": counts[:, 1]}
    return out
