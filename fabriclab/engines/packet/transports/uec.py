"""Ultra Ethernet: spraying, trimming, and a sender that listens to marks and delay."""

from __future__ import annotations

from typing import Any

from fabriclab import units
from fabriclab.registry import register

# So much that no queue takes a share worth mentioning; the queue's own limit rules. [B]
_MEMORY = 1e9


@register("transport", "uec")
def uec(
    rate: units.Quantity = "400 Gb/s",  # illustrative: the example of the simulator's parameters
    round_trip: units.Quantity = "12 us",  # source: uec.cpp, reference round trip
) -> dict[str, Any]:
    """Return Ultra Ethernet's reliable unordered delivery with sender-based control (NSCC).

    A queue holds what fills a path; a packet beyond it is cut to its header, which tells the sender at once. Packets
    of a flow take the paths of its rows in turn. Leaves out: the choice of paths by marks, probes, receiver credit
    (RCCC) and the headers' own bytes of UEC; IPv4 and UDP headers stand for them.

    Parameters
    ----------
    rate : float or str
        Rate of a port, and
    round_trip : float or str
        longest round trip of an empty path: their product is the length at which a queue is full. [B/s], [s]

    References
    ----------
    .. [1] ultraethernet/uet-htsim at 40ccb05, main_uec.cpp: queues of one bandwidth-delay product with trimming.
    .. [2] Ultra Ethernet Consortium, Ultra Ethernet Specification 1.0, 2025 (not read; the simulator was).
    """
    full = units.rate(rate, "rate") * units.time(round_trip, "round_trip")
    return {
        "lossless": "none",
        "trim": True,
        "recovery": "selective",
        "balance": "spray",
        "control": "nscc",
        "buffer": _MEMORY,
        "drop_share": full / _MEMORY,
    }
