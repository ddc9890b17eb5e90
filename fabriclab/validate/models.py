"""Two models of a collective's time on a published system: ours, and the textbook ring that it has to beat."""

from collections.abc import Mapping
from typing import Any

from fabriclab import catalog, units
from fabriclab.core import bus_factor
from fabriclab.tuner import calibration, check, estimate
from fabriclab.tuner.system import read


def predict(
    sweep: Mapping[str, Any], size_bytes: units.Quantity, *, calibrated: bool = True, without: str = ""
) -> float | None:
    """Return the time that `fabriclab.estimate` gives a collective, in microseconds.

    Parameters
    ----------
    sweep : mapping
        A row of `catalog.published.systems`; a number that nobody knows is ``""``. Names (sweep, system, source)
        are not looked at.
    size_bytes : float or str
        Message size in the sense of nccl-tests. [B], > 0
    calibrated, without
        As in `fabriclab.estimate`.

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
    size = units.size(size_bytes, "size_bytes")
    check(sweep)
    calibration(without if units.flag(calibrated, "calibrated") else "")  # refuses a wrong name
    try:
        return 1e6 * estimate(sweep, size=size, calibrated=calibrated, without=without).time
    except (KeyError, ValueError, ZeroDivisionError):
        return None


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
        s = read(sweep)
    except (KeyError, ValueError):
        return None
    rate, factor, gpus = s.peak, bus_factor(s.what, s.ranks), sweep["gpus_per_node"] or 1
    link = "NET" if s.servers > 1 else "PCI" if s.kind == "shm" else "NVLINK"
    if s.servers > 1 and s.what == "all_to_all":  # a GPU sends its blocks for other servers through its share of NICs
        across = ((s.ranks - s.local) / s.ranks, s.wire * sweep["nics_per_node"] / gpus)
        factor, rate = max((factor, rate), across, key=lambda way: way[0] / way[1])
    elif s.servers > 1:  # one GPU of a server talks to the next server, or all do
        rate = min(rate, s.wire * (max(1, s.nics // gpus) if s.what == "send_recv" else s.nics))
    steps = {"all_reduce": 2 * (s.ranks - 1), "send_recv": 1}.get(s.what, s.ranks - 1)
    alpha = catalog.value("nccl_model", "hw", "latency_LL", name=f"hwLat {link} Ring")
    return 1e6 * (steps * alpha + factor * size_bytes / rate) if size_bytes > 0 else None
