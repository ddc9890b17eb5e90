"""RoCE with a path for each packet: switches choose the shortest queue, and cards place packets in any order."""

from __future__ import annotations

from typing import Any

from fabriclab.registry import register


@register("transport", "spectrum_x")
def spectrum_x(parameters: str = "nvidia") -> dict[str, Any]:
    """Return Ethernet in the manner of NVIDIA's Spectrum-X: PFC, adaptive routing per packet, placement in any order.

    Its congestion control is not published and goes by telemetry of the switches; here DCQCN stands for it. Leaves out
    also the weights by which switches learn of failures further away, and isolation of tenants.

    Parameters
    ----------
    parameters : str
        Set of parameters of DCQCN.

    References
    ----------
    .. [1] NVIDIA, Networking for the Era of AI: The Network Defines the Data Center, white paper, 2023.
    """
    return {
        "lossless": "pause",
        "recovery": "selective",
        "balance": "adaptive",
        "control": "dcqcn",
        "control_options": {"parameters": parameters},
    }
