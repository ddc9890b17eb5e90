"""How much memory a link needs behind it so that pauses lose nothing."""

from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.engines.packet.settings import Settings

__all__ = ["PAUSE_FRAME", "headroom", "headroom_needed"]

PAUSE_FRAME = 64  # a pause is the shortest frame of Ethernet (IEEE 802.3) [B]
QUANTUM = 64  # IEEE 802.3, annex 31B: times of pauses count quanta of 512 bits [B]
GAP = 20  # IEEE 802.3: preamble 8 B, gap between frames 12 B
DELAY_PER_METRE = 5e-9  # light in glass and signals in copper, at 2/3 of the speed of light [s/m]


def headroom(
    rate: units.Quantity,
    length: units.Quantity,
    *,
    frame: int = 9216,
    gap: int = GAP,
    quanta: int = 60,
    switch_delay: units.Quantity = 0.0,
) -> float:
    """Return the memory that a paused link needs behind it so that nothing is lost (IEEE 802.1Qbb). [B].

    The switch at the end of a cable decides to pause the sender. Data goes on arriving until that works: for the way of
    the pause back over the cable and the way of the last data forth, for the time in which the sender obeys, for the
    pause itself, and for two frames in the worst alignment. The pause waits for the longest frame that the switch may
    be sending towards the sender, and the sender has begun another one when it stops.

    The sum adds cases that random traffic hardly ever aligns. Leaves out the delay of the interfaces on both sides,
    which IEEE 802.3 bounds apart; give it as ``switch_delay`` to have the standard's worst case.

    Parameters
    ----------
    rate : float or str
        Rate of the link, in both directions. [B/s], > 0
    length : float or str
        Length of the cable, at 5 ns for each metre. [m], >= 0
    frame : int
        Longest frame, with headers and checksum. [B], >= 64
    gap : int
        Preamble and gap of each of the two frames: 20 counts the frames as they are on the wire; 0 as a buffer stores
        them, which is 40 B less in all and still loses nothing, because the gaps are never stored. [B], >= 0
    quanta : int
        Time in which the sender obeys, in quanta of 512 bits: 60 is a vendor's rule of thumb. IEEE 802.3 allows 60 at
        10 Gb/s, 80 at 25, 118 at 40, 394 at 100 and 905 at 400 Gb/s. >= 0
    switch_delay : float or str
        Time that the devices at both ends take in each direction, the same in both. [s], >= 0

    Returns
    -------
    float
        Bytes, rounded up; real memories round up to their cells.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    At 400 Gb/s and 100 m, 50,000 B are under way in both directions together, and the frames and the reaction do the
    rest:

    >>> from fabriclab.engines.packet import headroom
    >>> headroom("400 Gb/s", "100 m")
    72396.0
    >>> headroom("400 Gb/s", "100 m", gap=0)
    72356.0

    Each metre costs 500 B. At 3 m frames and reaction decide, and the longest reaction that the standard allows costs
    more than the cable:

    >>> headroom("400 Gb/s", "3 m")
    23896.0
    >>> headroom("400 Gb/s", "3 m", quanta=905)
    77976.0
    >>> headroom("100 Gb/s", "10 km", quanta=394)
    1293772.0

    References
    ----------
    .. [1] IEEE Std 802.1Qbb-2011, Priority-based Flow Control.
    .. [2] IEEE Std 802.3, annex 31B (pauses).
    """
    per_second = units.rate(rate, "rate")
    metres = units.length(length, "length")
    units.count(frame, "frame", PAUSE_FRAME)
    units.count(gap, "gap", 0)
    units.count(quanta, "quanta", 0)
    one_way = metres * DELAY_PER_METRE + units.latency(switch_delay, "switch_delay")
    on_wire = frame + gap
    pause = PAUSE_FRAME + GAP
    under_way = 2 * per_second * one_way
    return float(_rounded_up(under_way + quanta * QUANTUM + pause + 2 * on_wire))


def headroom_needed(
    rate: Any, back_rate: Any, delay: Any, back_delay: Any, settings: Settings
) -> Any:
    """Return the headroom that loses nothing, by the formula of `headroom`, for links of a fabric. [B].

    Parameters
    ----------
    rate, back_rate : float or array
        Rate of the link and of its reverse. [B/s]
    delay, back_delay : float or array
        Delay of the link and of its reverse, propagation and forwarding. [s]
    settings : Settings
        Sizes and the response time.
    """
    on_wire = settings.on_wire
    pause = PAUSE_FRAME + settings.gap
    under_way = rate * (delay + back_delay + settings.response)
    # A slower way back makes the pause, and the frame before it, last longer.
    slower = np.where(back_rate > 0, rate / np.maximum(back_rate, 1.0), 1.0)
    return _rounded_up(under_way + (pause + on_wire) * slower + on_wire)


def _rounded_up(size: Any) -> Any:
    """Return whole bytes, without another one for an error of rounding."""
    return np.ceil(size - 1e-6) + 0.0
