"""Switches and cables of the folded Clos families: one count for the running case and for the topologies."""

import math
from dataclasses import dataclass

from fabriclab import units


@dataclass(frozen=True)
class Plan:
    """Counts of a folded Clos: pods of leaves and spines, and cores; spine i of all pods shares its cores."""

    pods: int
    leaves: int  # of a pod
    spines: int = 0  # of a pod
    per_spine: int = 0  # cables between a leaf and each spine of its pod
    cores: int = 0  # that a spine reaches
    per_core: int = 0  # cables between a spine and each of them

    @property
    def switches(self) -> tuple[int, int, int]:
        """Leaves, spines and cores of the whole."""
        return self.pods * self.leaves, self.pods * self.spines, self.spines * self.cores

    @property
    def cables(self) -> int:
        """Cables between switches."""
        return self.pods * self.spines * (self.leaves * self.per_spine + self.cores * self.per_core)


def even(lower: int, need: float, ports: int, room: int) -> tuple[int, int]:
    """Return the fewest upper switches, and the cables of each pair, that join all pairs alike.

    Each of the ``lower`` switches needs ``need`` uplinks and has ``room`` for more, so that they spread
    evenly; an upper switch has ``ports`` that face down, at least one for each lower switch.
    """
    up = math.ceil(need - 1e-9)
    fewest = -(-up // (ports // lower))
    pairs = ((upper, -(-up // upper)) for upper in range(fewest, up + 1))
    return next((upper, per) for upper, per in pairs if upper * per <= room)


def rail_plan(
    servers: int,
    gpus: int,
    rails: int,
    radix: int,
    room: int,
    oversubscription: float = 1,
    tiers: int | None = None,
    joined: int | None = None,
) -> tuple[Plan, int, int]:
    """Return the plan of the topology ``rail_optimised``, and the servers of a leaf and of a pod.

    ``gpus`` are those of a server, ``radix`` the ports of a switch, of which ``room`` face down on a leaf. As
    many rails as are ``joined`` meet at the spines: all unless given; 2 ``rails``, if each NIC has two ports there.
    1 is a plan for each rail alone, and it is one switch where that has ports for all.
    """
    if gpus % rails:
        msg = f"rails must divide gpus ({gpus}), got {rails}; each rail takes the same number of GPUs of a server"
        raise ValueError(msg)
    if joined == 1 and tiers is None and servers * (gpus // rails) <= radix:
        return Plan(1, 1), servers, servers
    joined = joined or rails
    per_leaf = min(servers, room // (gpus // rails))
    if per_leaf < 1:
        msg = f"gpus must be within 1..{room * rails} ({rails} rails, {room} ports down of a leaf), got {gpus}; "
        msg += "add rails"
        raise ValueError(msg)
    per_rail, half = -(-servers // per_leaf), radix // 2
    wanted = (
        (2 if joined * per_rail <= radix else 3)
        if tiers is None
        else units.count(tiers, "tiers", 2, 3)
    )
    most = radix // joined if wanted == 2 else half // joined * radix
    if not most:
        high = (radix if wanted == 2 else half) * rails // joined
        raise ValueError(
            f"rails must be within 1..{high} for {wanted} tiers of {radix}-port switches, got {rails}"
        )
    if per_rail > most:
        ways_out = ["a larger radix", *["tiers=3"] * (wanted == 2), *["fewer rails"] * (joined > 1)]
        limit = f"1..{most * per_leaf} for {wanted} tiers of {radix}-port switches on {rails} rails"
        raise ValueError(
            f"servers must be within {limit}, got {servers}; take {' or '.join(ways_out)}"
        )
    down = per_leaf * (gpus // rails)
    need, free = down / oversubscription, radix - down
    if wanted == 2:
        return (
            Plan(1, joined * per_rail, *even(joined * per_rail, need, radix, free)),
            per_leaf,
            servers,
        )
    pod_rail = min(half // joined, per_rail)
    pods, leaves = -(-per_rail // pod_rail), joined * pod_rail
    spines, per_spine = even(leaves, need, half, free)
    above = leaves * per_spine
    plan = Plan(pods, leaves, spines, per_spine, *even(pods, above, radix, radix - above))
    return plan, per_leaf, pod_rail * per_leaf
