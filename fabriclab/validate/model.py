"""Our model of a collective's time, as a function of a published sweep and a size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabriclab import tuner, units

__all__ = ["predict"]


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
    tuner.check(sweep)
    try:
        return 1e6 * tuner.estimate(sweep, size=size, calibrated=calibrated, without=without).time
    except (KeyError, ValueError, ZeroDivisionError):
        return None
