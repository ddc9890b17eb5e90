"""Switches and cables of the folded Clos families: one count for the running case and for the topologies."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from fabriclab import units


@dataclass(frozen=True)
class ClosPlan:
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


class RailPlan(NamedTuple):
    """The plan of a network of servers on rails, and how many servers fill a leaf and a pod."""

    clos: ClosPlan
    servers_per_leaf: int
    servers_per_pod: int


def even(lower: int, need: float, ports: int, room: int) -> tuple[int, int]:
    """Return the fewest upper switches, and the cables of each pair, that join all pairs alike.

    Each of the ``lower`` switches needs ``need`` uplinks and has ``room`` for more, so that they spread
    evenly; an upper switch has ``ports`` that face down, at least one for each lower switch.
    """
    uplinks = math.ceil(need - 1e-9)
    most_per_pair = ports // lower
    fewest = -(-uplinks // most_per_pair)

    for upper in range(fewest, uplinks + 1):
        per_pair = -(-uplinks // upper)
        if upper * per_pair <= room:
            return upper, per_pair
    raise ValueError(f"room must be >= {uplinks} (uplinks that a switch needs), got {room}")


def rail_plan(
    servers: int,
    gpus: int,
    rails: int,
    radix: int,
    room: int,
    oversubscription: float = 1,
    tiers: int | None = None,
    joined: int | None = None,
) -> RailPlan:
    """Return the plan of the topology ``rail_optimised``, and the servers of a leaf and of a pod.

    ``gpus`` are those of a server, ``radix`` the ports of a switch, of which ``room`` face down on a leaf. As
    many rails as are ``joined`` meet at the spines: all unless given; 2 ``rails``, if each NIC has two ports there.
    1 is a plan for each rail alone, and it is one switch where that has ports for all.
    """
    if gpus % rails:
        msg = f"rails must divide gpus ({gpus}), got {rails}; each rail takes the same number of GPUs of a server"
        raise ValueError(msg)
    nics_per_rail = gpus // rails  # of one server
    if joined == 1 and tiers is None and servers * nics_per_rail <= radix:
        one_switch = ClosPlan(pods=1, leaves=1)
        return RailPlan(one_switch, servers, servers)

    joined = joined or rails
    servers_per_leaf = min(servers, room // nics_per_rail)
    if servers_per_leaf < 1:
        msg = f"gpus must be within 1..{room * rails} ({rails} rails, {room} ports down of a leaf), got {gpus}; "
        raise ValueError(msg + "add rails")
    leaves_per_rail = -(-servers // servers_per_leaf)
    if tiers is not None:
        tiers = units.count(tiers, "tiers", 2, 3)
    elif joined * leaves_per_rail <= radix:
        tiers = 2
    else:
        tiers = 3
    most_leaves = _most_leaves_per_rail(tiers, rails, radix, joined)
    if leaves_per_rail > most_leaves:
        ways_out = ["a larger radix"]
        if tiers == 2:
            ways_out.append("tiers=3")
        if joined > 1:
            ways_out.append("fewer rails")
        most = most_leaves * servers_per_leaf
        limit = f"1..{most} for {tiers} tiers of {radix}-port switches on {rails} rails"
        raise ValueError(
            f"servers must be within {limit}, got {servers}; take {' or '.join(ways_out)}"
        )

    down = servers_per_leaf * nics_per_rail
    uplinks = down / oversubscription  # that a full leaf needs
    free = radix - down
    if tiers == 2:
        leaves = joined * leaves_per_rail
        spines, per_spine = even(leaves, uplinks, radix, free)
        return RailPlan(ClosPlan(1, leaves, spines, per_spine), servers_per_leaf, servers)

    half = radix // 2  # ports of a spine that face down
    leaves_in_pod = min(half // joined, leaves_per_rail)  # of one rail
    pods = -(-leaves_per_rail // leaves_in_pod)
    leaves = joined * leaves_in_pod
    spines, per_spine = even(leaves, uplinks, half, free)
    spine_down = leaves * per_spine
    cores, per_core = even(pods, spine_down, radix, radix - spine_down)
    return RailPlan(
        ClosPlan(pods, leaves, spines, per_spine, cores, per_core),
        servers_per_leaf,
        servers_per_pod=leaves_in_pod * servers_per_leaf,
    )


def _most_leaves_per_rail(tiers: int, rails: int, radix: int, joined: int) -> int:
    """Return how many leaves a rail can have where ``joined`` rails meet at the spines, or refuse the rails.

    In two tiers a spine has a port for every leaf. In three, half of its ports face the leaves of its pod,
    and a core has a port for every pod.
    """
    half = radix // 2
    if tiers == 2:
        ports = radix
        most = radix // joined
    else:
        ports = half
        most = half // joined * radix
    if not most:
        raise ValueError(
            f"rails must be within 1..{ports * rails // joined} for {tiers} tiers of {radix}-port switches, "
            f"got {rails}"
        )
    return most
