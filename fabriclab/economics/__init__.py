"""Price, power, floor plan and feasibility of a fabric.

Examples
--------
>>> from fabriclab import economics, topologies
>>> hall = topologies.build("rail_optimised", expand=False)
>>> economics.bill(hall).capital
4349440.0
>>> economics.legality(hall, may_lose=32)
()
"""

from fabriclab.economics.bill import Bill, Item, bill, price_list
from fabriclab.economics.floor import Violation, floor_plan, legality
from fabriclab.economics.hours import GpuHour, gpu_hour, hour_draws, hour_swings
from fabriclab.economics.prices import price_ranges
from fabriclab.economics.ranges import Draws, Range, Swing, draw, one_at_a_time

__all__ = [
    "Bill",
    "Draws",
    "GpuHour",
    "Item",
    "Range",
    "Swing",
    "Violation",
    "bill",
    "draw",
    "floor_plan",
    "gpu_hour",
    "hour_draws",
    "hour_swings",
    "legality",
    "one_at_a_time",
    "price_list",
    "price_ranges",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
