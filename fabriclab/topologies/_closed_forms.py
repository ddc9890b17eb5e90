"""Bisection of the folded Clos families as a formula, and switches of two tiers against three."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.topologies._clos import down_ports

__all__ = ["bisection", "compare_tiers", "networks"]

# Arguments of the families of servers on rails, for those that are not given.
_DEFAULT: Final = {
    "servers": 128, "gpus": 8, "rails": 8, "radix": None, "oversubscription": 1, "tiers": None, "expand": True,
    "planes": 1, "dual_plane": True, "apart": False, "rate": None, "pcie": None,
}  # fmt: skip


def networks(**asked: Any) -> tuple[SimpleNamespace, Plan, int, int]:
    """Return all arguments, the plan of each network, and the servers of a leaf and of a pod.

    A NIC has ``planes`` ports, each in a network of its own if ``dual_plane``, else all in one: ``ports`` are those
    in one network, and ``joined`` the rails that meet at its spines, times those. Rails ``apart`` are networks too.
    """
    a = SimpleNamespace(**_DEFAULT | asked)
    radix = a.planes * (int(catalog.value("switches", "quantum2", "ports")) if a.radix is None else a.radix)
    a.ports, room = 1 if a.dual_plane else a.planes, down_ports(radix, a.oversubscription)
    a.joined = 1 if a.apart else a.rails * a.ports
    joined = a.joined if a.apart or a.planes > 1 else None
    return a, *rail_plan(a.servers, a.gpus, a.rails, radix, room, a.oversubscription, a.tiers, joined)


def bisection(**asked: Any) -> int | None:
    """Return the cables of the narrowest cut into halves, or None where the formula does not settle it.

    From below: every rank of one half sends to another of the other half through its own NIC at the part of the
    rate that a leaf passes on, spread evenly. From above: half of the ranks, or the uplinks of half of the leaves.
    """
    a, plan, per_leaf, _ = networks(**asked)
    up, (full, rest) = plan.spines * plan.per_spine, divmod(a.servers, per_leaf)
    if a.expand and (a.servers % 2 or a.rate is not None or a.pcie is not None):  # a cut may pass a server or its PCIe
        return None
    if a.apart and a.rails > 1:
        return None if a.expand or a.rails % 2 else 0
    if not plan.spines or up >= per_leaf * (a.gpus // a.rails):
        return int(a.planes * (a.servers * a.gpus // 2))
    return None if rest or (full if a.expand else full * a.rails) % 2 else int(a.planes * full * a.rails * up // 2)


def compare_tiers(hosts: int | Sequence[int], radix: int = 64, oversubscription: float = 1) -> dict[str, list[float]]:
    """Return the switches and cables of two and of three tiers for each number of hosts; NaN where tiers are too few.

    One switch, as in ``leaf_spine``, where it has ports for all hosts.

    Examples
    --------
    >>> compare_tiers([2048, 65536])["switches, 3 tiers"]
    [160, 5120]
    """
    room = down_ports(units.count(radix, "radix", 2), oversubscription)
    sizes = [units.count(n, "hosts") for n in (hosts if np.iterable(hosts) else [hosts])]
    out: dict[str, list[float]] = {"hosts": [*sizes]}
    for tiers, most in ((2, radix * room), (3, radix // 2 * radix * room)):
        plans = {
            n: rail_plan(n, 1, 1, radix, room, oversubscription, tiers if n > radix else None, joined=1)[0]
            for n in sizes if n <= most
        }  # fmt: skip
        out[f"switches, {tiers} tiers"] = [sum(plans[n].switches) if n in plans else nan for n in sizes]
        out[f"cables, {tiers} tiers"] = [plans[n].cables + n if n in plans else nan for n in sizes]
    return out
