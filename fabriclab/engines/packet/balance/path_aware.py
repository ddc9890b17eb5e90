"""Path-aware spraying: the sender deals its packets out over its paths in turn, without those with a long queue."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.balance import Balance
from fabriclab.engines.packet.state import CLASSES
from fabriclab.registry import register


@register("balance", "path_aware")
def path_aware(
    mark: units.Quantity = 65536,  # illustrative: 16 packets, about a path of some microseconds
) -> Balance:
    """Return a balancer that sends over the paths of a flow in turn, without those on which a queue is long.

    It stands for NICs that keep off a path after bad news of it. In Ultra Ethernet and MRC a packet carries an entropy
    value, which decides its path; the receiver returns the value with a congestion mark, and the sender uses others
    [1]_ [2]_. Those NICs hear of a queue a round trip after it has grown, this balancer at once, so what it reaches is
    the best case of this rule. If all paths have a long queue, as where many send to one receiver, it takes the next
    one. Leaves out: how many values a NIC remembers, and probes of paths that were given up.

    Parameters
    ----------
    mark : float or str
        Bytes waiting for a link from which on the paths over it are left out. [B], > 0

    References
    ----------
    .. [1] T. Hoefler et al., Ultra Ethernet's Design Principles and Architectural Innovations, arXiv:2508.08906, 2025.
    .. [2] A. Kabbani et al., Resilient AI Supercomputer Networking using MRC and SRv6, arXiv:2605.04333, 2026.
    """
    return Balance(choose, (round(units.size(mark, "mark", may_be_zero=False)),))


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
    """Return the next row on which no queue is long, or the next one if all have such a queue."""
    following = row + 1
    if following >= end:
        following = first
    n_classes = whole[CLASSES]
    for step in range(end - first):
        candidate = following + step
        if candidate >= end:
            candidate -= end - first
        is_clear = True
        for place in range(rows[candidate].first + hop, rows[candidate].end):
            link = entries[place].link
            waiting = 0
            for cls in range(n_classes):
                waiting += queues[link * n_classes + cls].bytes
            if waiting >= parameters[0]:
                is_clear = False
        if is_clear:
            return candidate
    return following
