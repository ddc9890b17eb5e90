"""Swift: the sender compares the time of each round trip with a target, and needs nothing from the switches."""

from math import sqrt
from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, N_HOPS, OWN, RATE, ROUND_TRIP, WINDOW
from fabriclab.registry import register

TURN = OWN  # when the window may be cut again [ps]

STEP, BETA, MOST, BASE, PER_HOP, RANGE, A, B, PACKET = range(9)  # places of the parameters


@register("control", "swift")
def swift(
    place: Place,
    *,
    base_target: units.Quantity = 20e-6,
    per_hop: units.Quantity | None = None,
    step: float = 1.0,
    beta: float = 0.8,  # source: csg-htsim, swift.cpp
    most: float = 0.5,
    smallest: float = 0.1,
    largest: float = 100.0,
) -> Control:
    """Return Swift [1]_, which holds the round trip at a target.

    The target is a base, plus an allowance for each hop, plus one that grows as windows get smaller, so that many flows
    share a link fairly. Below the target the window grows by ``step`` packets per round trip. Above it, the window is
    cut in proportion to the excess, at most once per round trip. A window below one packet becomes a pause between
    packets. Leaves out the delay inside a host, which Swift controls apart.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    base_target : float or str
        Target of a path without hops. 20 us in the simulator csg-htsim [2]_. [s]
    per_hop : float or str, optional
        What each hop adds; the base divided by 6.55 unless given, as in [2]_, whose author calls it a guess. [s]
    step : float
        Packets by which the window grows in a round trip. > 0
    beta, most : float
        Cut per relative excess, and the largest cut. 0..1
    smallest, largest : float
        Windows between which the third part of the target falls from five bases to 0. [packets], > 0

    References
    ----------
    .. [1] G. Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020.
    .. [2] Broadcom/csg-htsim at 841d9e7, swift.cpp.
    """
    base = units.time(base_target, "base_target") * 1e12
    widest = 5.0 * base
    a = widest / (1.0 / sqrt(smallest) - 1.0 / sqrt(largest))
    b = -a / sqrt(largest)
    hop = base / 6.55 if per_hop is None else units.time(per_hop, "per_hop") * 1e12
    values = (step, beta, most, base, hop, widest, a, b, float(place.payload))
    return Control(values, start, feed_back, do_nothing)


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open a window that fills the path."""
    full = own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    own[i + WINDOW] = max(parameters[PACKET], full)
    own[i + RATE] = own[i + LINE]


@kernel(signatures.on_feedback)
def feed_back(
    parameters: Any,
    own: Any,
    i: int,
    now: int,
    trip: int,
    acked: int,
    marked: int,
    lost: int,
    load: float,
) -> None:
    """Grow below the target, and cut above it once per round trip."""
    packet = parameters[PACKET]
    window = own[i + WINDOW] / packet
    extra = parameters[A] / sqrt(window) + parameters[B]
    extra = min(max(extra, 0.0), parameters[RANGE])
    target = parameters[BASE] + own[i + N_HOPS] * parameters[PER_HOP] + extra
    if lost > 0:
        if now >= own[i + TURN]:
            window *= 1.0 - parameters[MOST]
            own[i + TURN] = now + own[i + ROUND_TRIP]
    elif trip < target:
        if window >= 1.0:
            window += parameters[STEP] * acked / packet / window
        else:
            window += parameters[STEP] * acked / packet
    elif now >= own[i + TURN]:
        keep = 1.0 - parameters[BETA] * (trip - target) / trip
        window *= max(keep, 1.0 - parameters[MOST])
        own[i + TURN] = now + trip
    window = min(max(window, 0.001), own[i + LINE] * 1.0e-3 / packet)
    own[i + WINDOW] = window * packet
    if window < 1.0 and trip > 0:
        own[i + RATE] = window * packet / trip * 1e12
    else:
        own[i + RATE] = own[i + LINE]
