"""Packets that overtake each other: how many a receiver holds that came before an earlier one."""

from __future__ import annotations

import numpy as np

from fabriclab import units
from fabriclab.engines.packet import LOG_KINDS, Trace

__all__ = ["reorder_depth"]


def reorder_depth(trace: Trace) -> int:
    """Return the most packets of one connection that had come while an earlier one had not.

    So many packets a receiver has to hold back if it hands them on in order. The run needs a log that holds all of its
    lines (``play(log=...)``), and ``recovery="selective"``: with go-back-N a receiver throws such packets away.

    Raises
    ------
    ValueError
        If the log holds no packet that came, or not all of them.

    Examples
    --------
    >>> from fabriclab import scenarios
    >>> lab = scenarios.ecmp_collision(2, "40 kB", recovery="selective")
    >>> scenarios.reorder_depth(lab.play(log=1000))  # one path for each flow
    0
    """
    came = trace.log[trace.log[:, 1] == LOG_KINDS.index("came")]
    if len(came) < trace.packets.sum():
        raise ValueError(
            f"the log holds {len(came)} of the {trace.packets.sum()} packets that came; give play a longer log, "
            f"such as log={units.count(6 * int(trace.hops + trace.packets.sum()), 'log')}"
        )
    deepest = 0
    for connection in np.unique(came[:, 3]):
        held: set[int] = set()
        following = 0  # the packet that is due
        for packet in came[came[:, 3] == connection, 4].tolist():
            if packet >= following:
                held.add(packet)
            while following in held:
                held.remove(following)
                following += 1
            deepest = max(deepest, len(held))
    return deepest
