"""Optical switches: light passes in nanoseconds, but the path must be set up first; when a circuit pays off.

Set-up times are in the catalog: ``catalog.value("emerging", "ocs-mems", "setup")``; the others are ocs-piezo,
ocs-thermo-optic, ocs-silicon-mems and ocs-wavelength. `duty`, `bytes_for` and `break_even` are arithmetic, not models,
so they must agree with published figures, and they do. NegotiaToR's guards of 10 ns leave 95.63 % of 3.66 us (error
0.0 %); RotorNet (20 us in a slot of 200 us, 0.9) and Mordia (11.5 us in 95 us, 0.88) agree within 1 %, both recalled,
not confirmed by a source. Leaves out the schedule, the receiver's clock recovery if the set-up time does not include
it, and traffic that waits.

Examples
--------
>>> bytes_for(0.9, 10e-3, "400 Gb/s") / 1e9  # doctest: +NUMBER
4.5
"""

import math

from fabriclab import units
from fabriclab.units import Quantity


def duty(hold: Quantity, reconfiguration: Quantity) -> float:
    """Return the share of time in which a circuit carries bytes, ``hold`` [s] after each ``reconfiguration`` [s]."""
    carried = units.time(hold, "hold")
    return carried and carried / (carried + units.time(reconfiguration, "reconfiguration"))


def bytes_for(share: float, reconfiguration: Quantity, rate: Quantity) -> float:
    """Return the bytes that a circuit must carry between two set-ups to be in use for ``share`` of the time."""
    if not 0 <= units.parse(share, "count", "share") < 1:
        raise ValueError(
            f"share must be within 0..1 without 1, got {share!r}; no circuit is used all of the time"
        )
    return units.rate(rate) * units.time(reconfiguration, "reconfiguration") * share / (1 - share)


def break_even(
    circuit: Quantity, reconfiguration: Quantity, packets: Quantity, latency: Quantity
) -> float:
    """Return the least number of bytes for which a circuit finishes first.

    The result is inf if packets are at least as fast, and 0 if the circuit is not slower and is set up within
    ``latency``.

    Parameters
    ----------
    circuit, packets : float or str
        Rate of the circuit, and of the packet-switched path under its load. [B/s]
    reconfiguration, latency : float or str
        Time to set up the circuit, and latency that the packet switches add. [s]
    """
    fast = units.rate(circuit, "circuit")
    slow = units.rate(packets, "packets")
    late = units.time(reconfiguration, "reconfiguration") - units.time(latency, "latency")
    if late <= 0 and fast >= slow:
        return 0.0
    if fast <= slow:
        return math.inf
    return late * slow / (fast - slow) * fast
