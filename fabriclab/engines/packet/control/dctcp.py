"""DCTCP: the sender cuts its window in proportion to the share of its packets that came marked."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Marking, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, ROUND_TRIP, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
ALPHA = OWN  # share of marked bytes, smoothed
TURN = OWN + 1  # when the observed round trip began [ps]
ACKED = OWN + 2  # bytes acknowledged in it
MARKED = OWN + 3  # how many of them came marked
CUT = OWN + 4  # when the window was cut last [ps]

G, PACKET, GAIN = range(3)  # places of the parameters
_PORT = 10e9 / 8  # port for which the marking threshold is given [B/s]


@register("control", "dctcp")
def dctcp(
    place: Place,
    *,
    g: float = 1 / 16,
    threshold: units.Quantity | None = None,
    step: float = 1.0,
) -> Control:
    """Return DCTCP [1]_ as a network card would run it: with a full window from the start, and exact marks.

    Switches mark every packet that leaves a queue above a threshold. Once per round trip the sender learns which share
    of its bytes came marked. The first mark in a round trip cuts the window by half of the smoothed share; round trips
    without a cut add a packet. Leaves out slow start and delayed acknowledgements, as the simulator of the HPCC authors
    does [2]_.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    g : float
        Weight of a new observation. 1/16 in the paper. 0..1
    threshold : float or str, optional
        Queue from which on switches mark; 30 kB for each 10 Gb/s of the port unless given, as in [2]_. [B]
    step : float
        Packets by which the window grows in a round trip. > 0

    References
    ----------
    .. [1] M. Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010.
    .. [2] alibaba-edu/High-Precision-Congestion-Control at 9f4be2a, run.py and rdma-hw.cc.
    """
    if threshold is None:
        at = 30e3 * place.rate / _PORT
    else:
        at = units.size(threshold, "threshold")
    return Control(
        (float(g), float(place.payload), float(step)),
        start,
        feed_back,
        do_nothing,
        marking=Marking(at, at),
    )


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open a window that fills the path."""
    full = own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    own[i + WINDOW] = max(parameters[PACKET], full)
    own[i + RATE] = own[i + LINE]
    own[i + ALPHA] = 1.0
    own[i + TURN] = float(now)
    own[i + CUT] = -1.0


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
    """Cut the window at the first mark of a round trip; learn the share of marks, and grow, at its end."""
    packet = parameters[PACKET]
    own[i + ACKED] += acked
    if marked > 0:
        own[i + MARKED] += acked
    sent = now - trip
    if (marked > 0 or lost > 0) and sent >= own[i + CUT]:
        cut = own[i + ALPHA] / 2.0
        if lost > 0:
            cut = 0.5
        own[i + WINDOW] = max(packet, own[i + WINDOW] * (1.0 - cut))
        own[i + CUT] = float(now)
    if sent < own[i + TURN] or own[i + ACKED] <= 0.0:
        return
    share = own[i + MARKED] / own[i + ACKED]
    own[i + ALPHA] = (1.0 - parameters[G]) * own[i + ALPHA] + parameters[G] * share
    if own[i + CUT] < own[i + TURN]:
        most = own[i + LINE] * 1.0e-3
        own[i + WINDOW] = min(most, own[i + WINDOW] + parameters[GAIN] * packet)
    own[i + TURN] = float(now)
    own[i + ACKED] = 0.0
    own[i + MARKED] = 0.0
