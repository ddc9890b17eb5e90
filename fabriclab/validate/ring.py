"""The textbook: a ring with the rates of the datasheets, the baseline that a model has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabriclab import catalog, units
from fabriclab.catalog import published
from fabriclab.core.result import bus_factor
from fabriclab.tuner import check

__all__ = ["textbook"]


def textbook(sweep: Mapping[str, Any], size_bytes: units.Quantity) -> float | None:
    """Return the textbook time of a collective: steps x latency + factor x size / rate.

    A ring on the links of the datasheet: rate per direction of the GPU's own links inside a server,
    and all NICs of a server between servers. Latency per step is the constant of NCCL's cost model for
    its low-latency protocol. Nothing is fitted; left out are protocols, trees, in-network reduction,
    software start-up and the difference between line rate and payload.

    Parameters
    ----------
    sweep : mapping
        A row of `catalog.published.systems`; a number that nobody knows is ``""``.
    size_bytes : float or str
        Message size in the sense of nccl-tests. [B], > 0

    Returns
    -------
    float or None
        Time in microseconds; None where the row does not say enough, names what the catalog does not have, or
        the size is 0.

    Raises
    ------
    ValueError, TypeError
        If ``sweep`` is no such row, or ``size_bytes`` no size.
    """
    size_bytes = units.size(size_bytes, "size_bytes")
    check(sweep)
    try:
        what = published.identifier(sweep["collective"])
        ranks, own = units.count(sweep["ranks"], "ranks"), _own_rate(sweep)
        outside = ranks - min(ranks, sweep["scale_up_domain_gpus"] or sweep["gpus_per_node"])
        alpha, rate, factor = _alpha(sweep, bool(outside)), own, bus_factor(what, ranks)
        if outside:
            rate, factor = _network(what, sweep, own, factor, outside)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    steps = {"all_reduce": 2 * (ranks - 1), "send_recv": 1}.get(what, ranks - 1)
    return 1e6 * (steps * alpha + factor * size_bytes / rate) if size_bytes > 0 else None


def _own_rate(sweep: Mapping[str, Any]) -> float:
    """Return the rate of a GPU's links inside its server, one way [B/s]."""
    family = sweep["scale_up"].split("-")[0]
    if family == "xgmi":
        names = [p for p in catalog.links if p.startswith("xgmi") and sweep["accelerator"] in catalog.links[p].name]
        return catalog.value("links", names[0] if names else family, "bandwidth_per_gpu_all_links")
    return catalog.value("links", family, "bandwidth_per_gpu" if "nvlink" in family else "bandwidth_after_encoding")


def _alpha(sweep: Mapping[str, Any], outside: bool) -> float:
    """Return the latency of a ring step [s]: that of the slowest link on the ring."""
    link = "NET" if outside else "PCI" if sweep["transport"] == "shm" else "NVLINK"
    return catalog.value("nccl_model", "hw", "latency_LL", name=f"hwLat {link} Ring")


def _network(what: str, sweep: Mapping[str, Any], own: float, factor: float, outside: int) -> tuple[float, float]:
    """Return rate [B/s] and factor where NICs take part: the slower of the two levels."""
    per_node = sweep["gpus_per_node"]
    nic = units.rate(f"{sweep['nic_gbps']} Gb/s", "nic_gbps")
    node = nic * sweep["nics_per_node"]
    if what == "all_to_all":  # every GPU sends its blocks for other servers through its share of the NICs
        across = outside / sweep["ranks"]
        return (node / per_node, across) if across * per_node / node > factor / own else (own, factor)
    if what == "send_recv":  # one GPU of a server talks to the next server
        return min(own, nic * max(1, sweep["nics_per_node"] // per_node)), factor
    return min(own, node), factor
