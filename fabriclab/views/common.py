"""Axes that pictures beside each other have in common: each is drawn over the range that all of them need."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ENDS: ContextVar[dict[str, tuple[float, float]] | None] = ContextVar("ends", default=None)


def common_ends(axis: str, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis that has to show ``low`` to ``high``.

    Within `common_axes` these are the least and the highest that any picture has asked for so far under the name
    ``axis``, which belongs to this axis alone among those of its picture.
    """
    ends = _ENDS.get()
    if ends is None:
        return low, high
    known = ends.get(axis, (low, high))
    ends[axis] = min(low, known[0]), max(high, known[1])
    return ends[axis]


@contextmanager
def common_axes() -> Iterator[dict[str, tuple[float, float]]]:
    """Let all pictures that are made within have the same axes, and yield the ends of each axis so far.

    Pictures that are made a second time have the ends of all: the first time each only adds its own.
    """
    ends: dict[str, tuple[float, float]] = {}
    token = _ENDS.set(ends)
    try:
        yield ends
    finally:
        _ENDS.reset(token)
