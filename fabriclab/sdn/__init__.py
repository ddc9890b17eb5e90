"""Software-defined fabrics: rules that a controller computes, proves, checks and changes step by step.

A controller changes where packets go, not which cables there are. `engineer` finds the rules that keep the fullest
link as empty as possible and proves it by duality; `all_orders` and `safe_order` tell how rules can change without
loops and black holes; `Controller` does so on a whole fabric and checks every step; `Tenants` says who may reach whom
and who gets how much.

Examples
--------
>>> from fabriclab import sdn
>>> sdn.all_orders(sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d")).loop_met
18
"""

from fabriclab.sdn.adapting import Adapting, adapt, changing_traffic
from fabriclab.sdn.controller import (
    Controller,
    GraphChange,
    InvariantBroken,
    Plan,
    Record,
    Step,
    graph_change,
)
from fabriclab.sdn.forwarding import Forwarding, loads, routes, shortest, utilisation
from fabriclab.sdn.invariants import Check, Violation, check
from fabriclab.sdn.neighbours import Predictability, predictability
from fabriclab.sdn.oblivious import Oblivious, oblivious
from fabriclab.sdn.outages import Outage, outage
from fabriclab.sdn.policies import Policy, read_policy
from fabriclab.sdn.tenants import (
    Leak,
    Tenant,
    Tenants,
    Vrf,
    floors,
    keys_match,
    partition_key,
    rates,
    weighted,
)
from fabriclab.sdn.traffic import Comparison, Engineered, NotProven, compare, engineer, lower_bound
from fabriclab.sdn.trials import RuleCheck, check_is_safe, check_next_switch
from fabriclab.sdn.updates import (
    Fault,
    NoSafeOrder,
    Orders,
    Packet,
    Update,
    all_orders,
    faults,
    is_safe,
    mixed,
    moving,
    plan_update,
    play,
    rules,
    safe_order,
    trace,
    two_phase,
)

__all__ = [
    "Adapting",
    "Check",
    "Comparison",
    "Controller",
    "Engineered",
    "Fault",
    "Forwarding",
    "GraphChange",
    "InvariantBroken",
    "Leak",
    "NoSafeOrder",
    "NotProven",
    "Oblivious",
    "Orders",
    "Outage",
    "Packet",
    "Plan",
    "Policy",
    "Predictability",
    "Record",
    "RuleCheck",
    "Step",
    "Tenant",
    "Tenants",
    "Update",
    "Violation",
    "Vrf",
    "adapt",
    "all_orders",
    "changing_traffic",
    "check",
    "check_is_safe",
    "check_next_switch",
    "compare",
    "engineer",
    "faults",
    "floors",
    "graph_change",
    "is_safe",
    "keys_match",
    "loads",
    "lower_bound",
    "mixed",
    "moving",
    "oblivious",
    "outage",
    "partition_key",
    "plan_update",
    "play",
    "predictability",
    "rates",
    "read_policy",
    "routes",
    "rules",
    "safe_order",
    "shortest",
    "trace",
    "two_phase",
    "utilisation",
    "weighted",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
