"""RoCE v2 without pauses: lost packets are sent again one by one."""

from __future__ import annotations

from typing import Any

from fabriclab import units
from fabriclab.registry import register


@register("transport", "roce_selective")
def roce_selective(
    parameters: str = "nvidia",
    reorder: units.Quantity = "50 us",  # illustrative: a few round trips
) -> dict[str, Any]:
    """Return RoCE v2 on Ethernet that may lose packets: selective repeat and DCQCN, one path per queue pair.

    A packet counts as lost once one that was sent ``reorder`` later has come. Leaves out the bitmaps of a card, which
    are as long as its window, and the limit of outstanding requests.

    Parameters
    ----------
    parameters : str
        Set of parameters of DCQCN.
    reorder : float or str
        How much later than a packet another must have been sent to tell of its loss. [s]

    References
    ----------
    .. [1] R. Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018: selective repeat makes PFC unnecessary.
    """
    return {
        "lossless": "none",
        "recovery": "selective",
        "reorder": reorder,
        "balance": "pinned",
        "control": "dcqcn",
        "control_options": {"parameters": parameters},
    }
