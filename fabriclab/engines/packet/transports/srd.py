"""Datagrams on many paths, as AWS's SRD sends them: Ethernet that may lose packets, spraying, selective repeat."""

from __future__ import annotations

from typing import Any

from fabriclab import units
from fabriclab.registry import register


@register("transport", "srd")
def srd(
    reorder: units.Quantity = "200 us",  # illustrative: longer than paths differ in delay
) -> dict[str, Any]:
    """Return a transport in the manner of AWS's Scalable Reliable Datagram.

    Packets of a flow take the paths of its rows in turn, and the layer above takes them in any order; real cards use up
    to 64 paths, so give routing ``method="paths"`` as many subflows. Its control law is not published; see the control
    loop ``"srd"``. Leaves out that the real one avoids paths that it finds slow, and its own limits of packets per
    second.

    Parameters
    ----------
    reorder : float or str
        How much later than a packet another must have been sent to tell of its loss. [s]

    References
    ----------
    .. [1] L. Shalev et al., A Cloud-Optimized Transport Protocol for Elastic and Scalable HPC, IEEE Micro 40(6), 2020.
    """
    return {
        "lossless": "none",
        "recovery": "selective",
        "reorder": reorder,
        "balance": "spray",
        "control": "srd",
    }
