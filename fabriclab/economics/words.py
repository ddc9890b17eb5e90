"""Names of inputs and fabrics as one says them, for tables that people read."""

from __future__ import annotations

from fabriclab.catalog.tables import near
from fabriclab.economics import fabrics

__all__ = ["in_words"]

_FABRICS = {
    fabrics.NONE: "no network",
    fabrics.TCP: "kernel TCP",
    fabrics.MULTIPATH: "lossy Ethernet, many paths",
    fabrics.GO_BACK_N: "lossy Ethernet, go-back-N",
    fabrics.LOSSLESS: "lossless Ethernet",
    fabrics.INFINIBAND: "InfiniBand",
    fabrics.PCIE: "PCIe fabric",
}
_INPUTS = {
    "server": "price of a server",
    "switch": "price of a switch",
    "cables": "price of cables and modules",
    "facility": "price of the hall",
    "lifetime": "life",
    "resale": "resale of the servers",
    "used": "part of the hours that is used",
    "goodput": "goodput",
    "mfu": "MFU",
    "server_power": "power of a server",
    "switch_power": "power of a switch",
    "pue": "what the hall adds to the power",
    "electricity": "price of electricity",
    "gpus": "GPUs of the job",
    "sent": "bytes that a GPU sends",
    "window": "time that hides them",
    "busy": "rest of the step",
    "buckets": "parts in which the bytes are sent",
    "nic_rate": "line rate of a NIC",
    "loss": "part of packets that is lost",
    "round_trip": "round trip",
    "rest": "price of all but the network",
    "fabric": "price of the network",
    "tolerance": "difference that counts as none",
    "hours_per_level": "hours lost for each lacking level",
    "pcie_rate": "rate of a PCIe fabric",
    "pcie_limit": "GPUs of the largest PCIe fabric",
}
# Inputs of a single fabric: "price_infiniband".
_OF_FABRICS = {
    "efficiency": "part of line rate, {}",
    "price": "price, {}",
    "lacking": "lacking levels of skill, {}",
}


def in_words(name: str) -> str:
    """Return the name of an input or a fabric as one says it.

    Parameters
    ----------
    name : str
        A fabric of `fabriclab.economics.fabrics.options`, or an input of `gpu_hour` or `decide`.

    Examples
    --------
    >>> in_words("pue"), in_words("price_infiniband"), in_words("go_back_n")
    ('what the hall adds to the power', 'price, InfiniBand', 'lossy Ethernet, go-back-N')
    """
    known = {**_FABRICS, **_INPUTS}
    if name in known:
        return known[name]
    kind, _, fabric = name.partition("_")
    if kind in _OF_FABRICS and fabric in _FABRICS:
        return _OF_FABRICS[kind].format(_FABRICS[fabric])
    raise ValueError(near(name, known, "the list of inputs and fabrics"))
