"""Number of switches and cables in a folded Clos network, used by both the running case and the topologies."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from fabriclab import units


@dataclass(frozen=True)
class ClosPlan:
    """Counts of a folded Clos: pods of leaves and spines, and cores above them.

    Spine i of every pod connects to the same cores.
    """

    pods: int
    leaves: int  # per pod
    spines: int = 0  # per pod
    per_spine: int = 0  # cables between a leaf and each spine of its pod
    cores: int = 0  # per spine
    per_core: int = 0  # cables between a spine and each of its cores

    @property
    def switches(self) -> tuple[int, int, int]:
        """Number of leaves, spines and cores in the whole network."""
        return self.pods * self.leaves, self.pods * self.spines, self.spines * self.cores

    @property
    def cables(self) -> int:
        """Number of cables between switches."""
        return self.pods * self.spines * (self.leaves * self.per_spine + self.cores * self.per_core)


class RailPlan(NamedTuple):
    """Plan of a network of servers on rails, with the number of servers that fill a leaf and a pod."""

    clos: ClosPlan
    servers_per_leaf: int
    servers_per_pod: int


def even(lower: int, need: float, ports: int, room: int) -> tuple[int, int]:
    """Return the fewest upper switches, and the cables per pair, that connect all lower to all upper switches equally.

    Each of the ``lower`` switches needs ``need`` uplinks. It has ``room`` ports for uplinks, so it may get more than it
    needs if that makes all pairs equal. An upper switch has ``ports`` ports that face down, at least one for each lower
    switch.
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
    """Return the plan of the topology ``rail_optimised``, with the number of servers per leaf and per pod.

    ``gpus`` is the number of GPUs per server, ``radix`` the number of ports of a switch; ``room`` of a leaf's ports
    face down. ``tiers`` is 2 or 3; by default it is 2 where a spine has enough ports, else 3.

    ``joined`` is the number of rails that meet at the spines. By default all of them do; it is 2 ``rails`` if each NIC
    has two ports there. With 1 the plan is for each rail on its own, and it is a single switch where that has ports for
    all NICs of the rail.
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
    uplinks = down / oversubscription  # needed by a full leaf
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
    """Return the most leaves a rail can have when ``joined`` rails meet at the spines; raise an error if there is none.

    In two tiers a spine needs a port for every leaf. In three tiers half of its ports face the leaves of its pod,
    and a core needs a port for every pod.
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
