"""RoCE v2: Ethernet that pauses, go-back-N, and DCQCN."""

from __future__ import annotations

from typing import Any

from fabriclab.registry import register


@register("transport", "roce")
def roce(parameters: str = "nvidia") -> dict[str, Any]:
    """Return RoCE v2 as network cards of the years 2015 to 2020 run it: PFC, go-back-N, one path per queue pair.

    Leaves out: the priority for the notices of congestion (here they never wait), and the buffers of a card, which
    keep a message only until it is acknowledged.

    Parameters
    ----------
    parameters : str
        Set of parameters of DCQCN: ``"paper"``, ``"nvidia"`` or ``"hpcc_simulator"``.

    References
    ----------
    .. [1] Y. Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015.
    .. [2] C. Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016: go-back-N instead of go-back-0.
    """
    return {
        "lossless": "pause",
        "recovery": "go_back_n",
        "balance": "pinned",
        "control": "dcqcn",
        "control_options": {"parameters": parameters},
    }
