"""Floats as 32-bit integers with a common scale, so that a switch without floating point can add them.

References
----------
.. [1] A. Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021; its exponent
   quantiser at github.com/p4lang/p4app-switchML.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.innetwork.aggregation import LARGEST, Words

MOST = 255  # workers; see `block_scale`
_ROUNDING = 1 + 2.0**-20  # factor for the rounding to float64, see `error_bound`


def _single(values: ArrayLike) -> NDArray[np.float32]:
    """Return values in single precision; refuse the first that is not finite there."""
    given = np.asarray(values)
    with np.errstate(over="ignore"):
        out = given.astype(np.float32)
    wrong = ~np.isfinite(out)
    if wrong.any():
        raise ValueError(
            f"values must be finite in float32, got {given[wrong][0]}: a switch adds integers only; "
            "clip or replace it, or add on the hosts"
        )
    return out


def _checked_scale(scale: ArrayLike) -> Floats:
    """Return a scale as an array; refuse one that is not positive and finite."""
    checked = np.asarray(scale, np.float64)
    if not (np.isfinite(checked) & (checked > 0)).all():
        raise ValueError(
            f"scale must be positive and finite, got {scale!r:.80}; `block_scale` gives one"
        )
    return checked


def block_scale(values: ArrayLike) -> Floats:
    """Return the scale on which n workers agree for each block: (2^31 - 1) / (n 2^e), where 2^e is above all values.

    No sum overflows: a float32 below 2^e is at most 2^e (1 - 2^-24), so a worker sends at most
    (2^31 - 1) (1 - 2^-24) / n + 1/2, and n of them make less than 2^31 - 128 + n/2.

    Parameters
    ----------
    values : array_like of float32, shape (n, blocks, lanes)
        Of all workers; each worker would send its exponent e only. n is 1..255.

    Returns
    -------
    array of float, shape (blocks,)

    Raises
    ------
    ValueError
        If a value is not finite in float32, or there are more workers.
    """
    largest = np.abs(_single(values)).max(axis=(0, 2))  # (blocks,)
    _, exponent = np.frexp(largest)
    workers = units.count(np.shape(values)[0], "workers", high=MOST)
    return np.asarray(np.ldexp(LARGEST / workers, -exponent), np.float64)


def quantise(values: ArrayLike, scale: ArrayLike, *, wrap: bool = False) -> Words:
    """Convert floats to the integers that a worker sends: values times scale, rounded to 32-bit integers.

    Parameters
    ----------
    values : array_like of float32, shape (..., blocks, lanes)
        Finite. Numbers of more digits are rounded to float32 first, which `error_bound` does not count.
    scale : array_like, shape (blocks,), or a number
        By `block_scale`, or known in advance. > 0
    wrap : bool
        What becomes of a number beyond 32 bits: its lowest 32 bits, or (False) the largest or smallest integer.
    """
    number = np.rint(_single(values) * _checked_scale(scale)[..., None])
    if wrap:
        in_range = (number + 2.0**31) % 2.0**32 - 2.0**31
    else:
        in_range = np.clip(number, -LARGEST - 1, LARGEST)
    return in_range.astype(np.int32)


def dequantise(total: ArrayLike, scale: ArrayLike) -> Floats:
    """Convert an integer of `quantise`, or a sum of such integers, back to float64."""
    return np.asarray(total, np.float64) / np.asarray(scale, np.float64)[..., None]


def overflows(largest: float, workers: int, scale: ArrayLike) -> Any:
    """Return whether the sum of n workers with values up to ``largest``, n round(largest scale), can exceed 32 bits."""
    if not 0 <= largest < np.inf:
        raise ValueError(
            f"largest must be the largest of the absolute values, 0 or more and finite, got {largest!r}"
        )
    n = units.count(workers, "workers")
    from_each = np.rint(largest * _checked_scale(scale))  # the largest integer that a worker sends
    return n * from_each > LARGEST


def error_bound(workers: int, scale: ArrayLike) -> Any:
    """Return the largest error of each element of a sum of float32 that did not overflow: n / (2 scale).

    Each worker rounds once, by 1/2 at most. By `block_scale` this is n^2 2^e / (2 (2^31 - 1)): an element much smaller
    than the largest of its block is lost. The products before and the quotient after are rounded to float64, which
    together is below 2^-20 of that.
    """
    return _ROUNDING * workers / (2 * np.asarray(scale, np.float64))
