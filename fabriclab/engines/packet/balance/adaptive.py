"""Per-packet adaptive routing: each switch sends a packet to the shortest of the queues that lead to its target."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.balance import Balance
from fabriclab.engines.packet.state import CLASSES
from fabriclab.registry import register


@register("balance", "adaptive")
def adaptive() -> Balance:
    """Return a balancer that looks at the queues of the switch where a packet is, and at no other."""
    return Balance(choose, in_switch=True)


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
    """Return the row whose next link has the shortest queue; of equal ones the next after the row taken last."""
    best = row
    least = -1
    n_classes = whole[CLASSES]
    for step in range(end - first):
        candidate = row + 1 + step
        if candidate >= end:
            candidate -= end - first
        following = entries[rows[candidate].first + hop].link
        if links[following].cost == 0:
            continue
        waiting = 0
        for cls in range(n_classes):
            waiting += queues[following * n_classes + cls].bytes
        if least < 0 or waiting < least:
            least = waiting
            best = candidate
    return best
