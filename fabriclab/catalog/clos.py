"""How many switches join the switches below them: one rule for the running case and for the topologies."""

from __future__ import annotations

import math

__all__ = ["even"]


def even(lower: int, need: float, ports: int, room: int) -> tuple[int, int]:
    """Return the fewest upper switches, and the cables of each pair, that join all pairs alike.

    Each of the ``lower`` switches needs ``need`` uplinks and has ``room`` for more, so that they spread
    evenly; an upper switch has ``ports`` that face down, at least one for each lower switch.
    """
    up = math.ceil(need - 1e-9)
    fewest = -(-up // (ports // lower))
    pairs = ((upper, -(-up // upper)) for upper in range(fewest, up + 1))
    return next((upper, per) for upper, per in pairs if upper * per <= room)
