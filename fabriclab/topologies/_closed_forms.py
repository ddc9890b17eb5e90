"""Bisection of the folded Clos families as a formula."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from fabriclab import catalog
from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.topologies._clos import down_ports

__all__ = ["bisection", "networks"]

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
