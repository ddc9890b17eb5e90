"""LogGP: the time of a schedule where each message costs its ends time, not only the step that it is in."""

import numpy as np

from fabriclab import units
from fabriclab.core import Schedule, distinct_pairs

__all__ = ["loggp"]


def loggp(
    schedule: Schedule, n_bytes: units.Quantity, *, latency: units.Quantity, overhead: units.Quantity,
    gap: units.Quantity, rate: units.Quantity,
) -> float:  # fmt: skip
    """Return the time of a schedule in the LogGP model, step after step [s].

    m messages of k bytes that one rank sends, or takes in, in a step need 2 o + L + m (k - 1) G + (m - 1) max(g, o)
    [1]_; the busiest decides. All that a rank sends to another in a step is one message. With one message each this is
    alpha + k / beta, where alpha = 2 o + L - G and beta = 1 / G. Leaves out the network between the ports, the time of
    adding and what switches do.

    Parameters
    ----------
    schedule : Schedule
        As `build` returns it.
    n_bytes : float or str
        Size of the array, as nccl-tests counts it. [B], >= 0
    latency, overhead, gap : float or str
        L: from port to port; o: a rank's time to send or take in a message; g: least time between two messages of one
        rank. [s], >= 0
    rate : float or str
        1 / G: rate of the bytes of a long message. [B/s], > 0

    References
    ----------
    .. [1] A. Alexandrov, M. F. Ionescu, K. E. Schauser, C. Scheiman, LogGP, SPAA 1995, pp. 95-105.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> root = collectives.build("broadcast", "one_root", 9)
    >>> round(1e6 * loggp(root, 1, latency="2 us", overhead="1 us", gap="3 us", rate="50 GB/s"), 6)
    25.0
    """
    size, per_byte = units.size(n_bytes, "n_bytes"), 1 / units.rate(rate, "rate")
    wait, own, least = (
        units.latency(t, name) for t, name in ((latency, "latency"), (overhead, "overhead"), (gap, "gap"))
    )
    total, people = 0.0, schedule.n_participants
    for group in schedule.groups:
        ends = np.append(group.source, group.target + people)  # a port each way
        busy = np.tile(np.arange(people) < schedule.n_ranks, 2)
        source, target = distinct_pairs(*(x.astype(np.int64) for x in (group.source, group.target)))
        messages = np.bincount(np.append(source, target + people), minlength=busy.size)[busy]
        moved = np.bincount(ends, np.tile(size * schedule.moved(group), 2), busy.size)[busy]
        port = np.maximum(moved - messages, 0) * per_byte + np.maximum(messages - 1, 0) * max(least, own)
        total += group.repeat * (2 * own + wait + float(port.max()))
    return total
