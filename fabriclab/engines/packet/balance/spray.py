"""Host spraying: each packet takes the next path of the flow, the first packet the second one."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.balance import Balance
from fabriclab.registry import register


@register("balance", "spray")
def spray() -> Balance:
    """Return a balancer that sends the packets of a flow over all its paths in turn."""
    return Balance(choose)


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
    """Return the row after the one taken last."""
    following = row + 1
    if following >= end:
        following = first
    return following
