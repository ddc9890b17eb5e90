"""Additive increase, multiplicative decrease: TCP's answer to loss, with slow start."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
LIMIT = OWN  # window up to which it doubles [B]
CUT = OWN + 1  # when the window was cut last [ps]

KEEP, GAIN, PACKET, FIRST = range(4)  # places of the parameters


@register("control", "aimd")
def aimd(
    place: Place,
    *,
    keep: float = 0.7,
    gain: float | None = None,
    initial: int = 10,
) -> Control:
    """Return the window of a TCP that reacts to loss alone.

    It doubles in each round trip until the first loss (slow start), then it grows by ``gain`` packets in each round
    trip, and a loss cuts it to a share ``keep``, once per round trip. After a timeout it starts again with one packet.
    The defaults are those of CUBIC [1]_ in its Reno-friendly region, in which CUBIC stays on the short round trips of a
    data centre; ``keep=0.5`` is Reno [2]_. Leaves out CUBIC's cubic growth, pacing and the operating system.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    keep : float
        Share of the window that a loss leaves. 0.7 in CUBIC, 0.5 in Reno. 0..1
    gain : float, optional
        Packets by which the window grows in a round trip; 3 (1 - keep) / (1 + keep) unless given, with which every
        ``keep`` reaches the same mean rate, and which is 1 for Reno. > 0
    initial : int
        Packets of the first window. 10 in RFC 6928. >= 1

    References
    ----------
    .. [1] L. Xu et al., CUBIC for Fast and Long-Distance Networks, RFC 9438, 2023, section 4.3.
    .. [2] M. Allman et al., TCP Congestion Control, RFC 5681, 2009.
    """
    left = float(keep)
    if not 0 < left < 1:
        raise ValueError(f"keep must be within 0..1, ends excluded, got {keep!r}")
    growth = 3.0 * (1.0 - left) / (1.0 + left) if gain is None else float(gain)
    if not growth > 0:
        raise ValueError(f"gain must be > 0 packets, got {gain!r}")
    first = float(units.count(initial, "initial", 1))
    return Control((left, growth, float(place.payload), first), start, feed_back, do_nothing)


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open the first window."""
    own[i + WINDOW] = parameters[FIRST] * parameters[PACKET]
    own[i + RATE] = own[i + LINE]
    own[i + LIMIT] = 1.0e18
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
    """Grow with what is acknowledged, and cut at a loss, once per round trip."""
    packet = parameters[PACKET]
    if lost == 2:
        own[i + LIMIT] = max(2.0 * packet, parameters[KEEP] * own[i + WINDOW])
        own[i + WINDOW] = packet
        own[i + CUT] = float(now)
        return
    if lost > 0:
        if now - trip >= own[i + CUT]:  # what is missing was sent after the last cut
            own[i + WINDOW] = max(2.0 * packet, parameters[KEEP] * own[i + WINDOW])
            own[i + LIMIT] = own[i + WINDOW]
            own[i + CUT] = float(now)
        return
    if own[i + WINDOW] < own[i + LIMIT]:
        own[i + WINDOW] += acked
    else:
        own[i + WINDOW] += parameters[GAIN] * packet * acked / own[i + WINDOW]
    own[i + WINDOW] = min(own[i + WINDOW], own[i + LINE] * 1.0)
