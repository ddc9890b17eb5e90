"""No choice: each row of a flow is a connection of its own, as queue pairs under ECMP are."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.balance import Balance
from fabriclab.registry import register


@register("balance", "pinned")
def pinned() -> Balance:
    """Return a balancer that leaves each row to its own connection."""
    return Balance(choose, splits=True)


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
    """Return the first row."""
    return first
