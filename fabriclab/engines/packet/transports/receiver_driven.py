"""Receivers grant what their port can take."""

from __future__ import annotations

from typing import Any

from fabriclab import units
from fabriclab.registry import register


@register("transport", "receiver_driven")
def receiver_driven(
    first_window: units.Quantity = 65536, lossless: str = "pause"
) -> dict[str, Any]:
    """Return a transport whose receivers admit their senders: no grant, no packet, apart from a first window.

    A receiver grants each of its senders some bytes in turn, at the rate of its port, so an incast makes no queue but
    that of the first windows. Congestion inside the network it does not see. Meta replaced DCQCN by such an admission
    in its library (a receiver sends clear-to-send when it has room) [1]_; Homa and NDP are others. Leaves out: an
    order of grants by remaining size, and more than one grant in flight for each sender beyond its path.

    Parameters
    ----------
    first_window : float or str
        Bytes that a sender may send unasked. [B]
    lossless : str
        As in `Settings`.

    References
    ----------
    .. [1] A. Gangidi et al., RDMA over Ethernet for Distributed AI Training at Meta Scale, SIGCOMM 2024.
    .. [2] B. Montazeri et al., Homa: A Receiver-Driven Low-Latency Transport Protocol, SIGCOMM 2018.
    """
    recovery = "selective" if lossless == "none" else "go_back_n"
    return {
        "lossless": lossless,
        "recovery": recovery,
        "balance": "pinned",
        "control": "window",
        "grants": True,
        "first_window": first_window,
    }
