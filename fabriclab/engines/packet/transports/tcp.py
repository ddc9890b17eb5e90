"""TCP in a data centre: one path per connection, loss as the only signal."""

from __future__ import annotations

from typing import Any

from fabriclab import units
from fabriclab.registry import register


@register("transport", "tcp")
def tcp(
    reorder: units.Quantity = "50 us",  # illustrative: a few round trips
    timeout: units.Quantity = "200 ms",  # source: Linux, TCP_RTO_MIN
) -> dict[str, Any]:
    """Return a TCP that fills buffers until they overflow: slow start, additive increase, a cut at each loss.

    Leaves out the kernel, whose time per packet (see lesson 41) costs a TCP more than its control loop does, and
    larger segments made by the card. Three duplicate acknowledgements are replaced by a time.

    Parameters
    ----------
    reorder : float or str
        How much later than a packet another must have been sent to tell of its loss (RFC 8985). [s]
    timeout : float or str
        Least time before a packet is sent again unasked; Linux takes 200 ms. [s]

    References
    ----------
    .. [1] L. Xu et al., CUBIC for Fast and Long-Distance Networks, RFC 9438, 2023.
    .. [2] Y. Cheng et al., The RACK-TLP Loss Detection Algorithm for TCP, RFC 8985, 2021.
    """
    return {
        "lossless": "none",
        "recovery": "selective",
        "reorder": reorder,
        "timeout": timeout,
        "retries": 15,
        "balance": "pinned",
        "control": "aimd",
        "payload": 1448,
        "header": 70,  # Ethernet 14 + 4, IPv4 20, TCP 20, time stamps 12
    }
