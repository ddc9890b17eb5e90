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

__all__ = ["Bill", "Item", "Violation", "bill", "floor_plan", "legality", "price_list"]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
