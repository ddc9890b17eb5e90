"""Flowlets: a flow changes its path only after a pause so long that no packet can overtake another."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.balance import Balance
from fabriclab.engines.packet.chance import draw
from fabriclab.registry import register


@register("balance", "flowlet")
def flowlet(gap: units.Quantity = 50e-6) -> Balance:
    """Return a balancer that draws a path anew after each pause of a flow [1]_.

    Parameters
    ----------
    gap : float or str
        The shortest pause that counts; longer than paths differ in delay, queues included. [s], > 0

    References
    ----------
    .. [1] E. Vanini et al., Let It Flow: Resilient Asymmetric Load Balancing with Flowlet Switching, NSDI 2017.
    """
    return Balance(choose, (round(units.time(gap, "gap") * 1e12),))


@kernel(signatures.choose)
def choose(
    now: int,
    last: int,
    row: int,
    first: int,
    end: int,
    hop: int,
    rows: Any,
    entries: Any,
    links: Any,
    queues: Any,
    whole: Any,
    parameters: Any,
) -> int:
    """Return the row taken last, or a random one after a pause."""
    if last >= 0 and now - last < parameters[0]:
        return row
    return first + draw(whole) % (end - first)
