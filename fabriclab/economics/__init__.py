"""What a fabric costs and what it is worth: bill, power, floor plan, cost of a GPU-hour, and which one to buy.

Examples
--------
>>> from fabriclab import economics, topologies
>>> hall = topologies.build("rail_optimised", expand=False)
>>> economics.bill(hall).capital
4349440.0
>>> economics.legality(hall, may_lose=32)
()
>>> economics.gpu_hour()
<GpuHour: USD 1.54 for an hour of training, USD 1.06 for 1e18 useful FLOP, 3.32 W for each useful TFLOP/s>
"""

from fabriclab.economics.bill import Bill, Item, bill, price_list
from fabriclab.economics.breakeven import (
    Claim,
    Offer,
    claim,
    half_for_nothing,
    offer,
    worth,
    worth_growth,
)
from fabriclab.economics.decision import Decision, Turn, decide
from fabriclab.economics.floor import Violation, floor_plan, legality
from fabriclab.economics.hours import GpuHour, gpu_hour, hour_draws, hour_swings
from fabriclab.economics.prices import price_ranges
from fabriclab.economics.published import PublishedCost, published_costs
from fabriclab.economics.ranges import Draws, Range, Swing, draw, one_at_a_time
from fabriclab.economics.skills import LEVELS, ScoreCard, Skill, needed_skills, score, team
from fabriclab.economics.tiers import (
    Assignment,
    RightSize,
    Workload,
    assign,
    network_waits,
    nic_rates,
    smallest_rate,
    workloads,
)
from fabriclab.economics.tree import Branch, Edge, Tree
from fabriclab.economics.words import in_words

__all__ = [
    "LEVELS",
    "Assignment",
    "Bill",
    "Branch",
    "Claim",
    "Decision",
    "Draws",
    "Edge",
    "GpuHour",
    "Item",
    "Offer",
    "PublishedCost",
    "Range",
    "RightSize",
    "ScoreCard",
    "Skill",
    "Swing",
    "Tree",
    "Turn",
    "Violation",
    "Workload",
    "assign",
    "bill",
    "claim",
    "decide",
    "draw",
    "floor_plan",
    "gpu_hour",
    "half_for_nothing",
    "hour_draws",
    "hour_swings",
    "in_words",
    "legality",
    "needed_skills",
    "network_waits",
    "nic_rates",
    "offer",
    "one_at_a_time",
    "price_list",
    "price_ranges",
    "published_costs",
    "score",
    "smallest_rate",
    "team",
    "workloads",
    "worth",
    "worth_growth",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
