"""A control loop for packets on many paths: it follows the mean delay of all of them, and a lost packet is no alarm."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, ROUND_TRIP, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
MEAN = OWN  # smoothed round trip over all paths [ps]
TURN = OWN + 1  # when the window was cut last [ps]

TARGET, WEIGHT, GAIN, PACKET = range(4)  # places of the parameters


@register("control", "srd")
def srd(place: Place, *, target: float = 1.5, weight: float = 1 / 16, gain: float = 1.0) -> Control:
    """Return a loop in the manner of AWS's Scalable Reliable Datagram [1]_, whose law is not published.

    What is published is the aim: keep queues short by the round trips and the rate of acknowledgements, over all paths
    together, and react to congestion only if most paths show it. Here: the mean of the round trips is compared with
    ``target`` times the empty one; below it the window grows by ``gain`` packets in a round trip, above it the window
    shrinks in proportion to the excess, at most to a half and once in a round trip. A lost packet takes its own bytes
    out of the window; only a timeout halves it. All numbers are our choice.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    target : float
        Mean round trip to hold, over the empty one. > 1
    weight : float
        Weight of a new round trip in the mean. 0..1
    gain : float
        Packets by which the window grows in a round trip. > 0

    References
    ----------
    .. [1] L. Shalev et al., A Cloud-Optimized Transport Protocol for Elastic and Scalable HPC, IEEE Micro 40(6), 2020.
    """
    if not target > 1:
        raise ValueError(f"target must be > 1 round trip of the empty path, got {target!r}")
    values = (float(target), float(weight), float(gain), float(place.payload))
    return Control(values, start, feed_back, do_nothing)


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open a window that fills the path."""
    full = own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    own[i + WINDOW] = max(parameters[PACKET], full)
    own[i + RATE] = own[i + LINE]
    own[i + MEAN] = own[i + ROUND_TRIP]
    own[i + TURN] = -1.0


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
    """Grow while the mean round trip is short, shrink while it is long."""
    packet = parameters[PACKET]
    if lost == 2:
        own[i + WINDOW] = max(packet, 0.5 * own[i + WINDOW])
        return
    weight = parameters[WEIGHT]
    own[i + MEAN] = (1.0 - weight) * own[i + MEAN] + weight * trip
    if lost > 0:
        own[i + WINDOW] = max(packet, own[i + WINDOW] - packet)
        return
    excess = own[i + MEAN] - parameters[TARGET] * own[i + ROUND_TRIP]
    if excess < 0.0:
        most = 8.0 * own[i + LINE] * own[i + ROUND_TRIP] / 1e12 + packet
        own[i + WINDOW] = min(
            most, own[i + WINDOW] + parameters[GAIN] * packet * acked / own[i + WINDOW]
        )
    elif now - trip >= own[i + TURN]:
        keep = max(0.5, 1.0 - excess / own[i + MEAN])
        own[i + WINDOW] = max(packet, keep * own[i + WINDOW])
        own[i + TURN] = float(now)
