"""InfiniBand: credits from hop to hop, adaptive routing, a window."""

from __future__ import annotations

from typing import Any

from fabriclab.registry import register


@register("transport", "infiniband")
def infiniband(adaptive: bool = True) -> dict[str, Any]:
    """Return InfiniBand: no packet leaves without room for it, so none is lost, and no control loop limits a sender.

    With adaptive routing, packets may come in any order and are placed by their address. Leaves out: congestion control
    by notices (FECN and BECN), which most fabrics leave off, and credits counted in blocks of 64 B.

    Parameters
    ----------
    adaptive : bool
        Whether switches choose a path for each packet; without, packets come in order, and a missing one makes the
        sender go back.

    References
    ----------
    .. [1] InfiniBand Trade Association, InfiniBand Architecture Specification, volume 1, section 7.9 (flow control).
    """
    settings: dict[str, Any] = {
        "lossless": "credits",
        "control": "window",
        "cut_through": True,
        "header": 30,  # LRH 8, BTH 12, both checks 4 + 2, and 4 for the RETH of the first packet of a message
        "gap": 0,
    }
    if adaptive:
        return settings | {"balance": "adaptive", "recovery": "selective"}
    return settings | {"balance": "pinned", "recovery": "go_back_n"}
