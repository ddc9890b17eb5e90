"""UEC's sender-based control (NSCC): marks and delay together say whether to grow or to shrink."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Marking, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, ROUND_TRIP, SENT, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
MEAN = OWN  # smoothed delay in queues [ps]
ACHIEVED = OWN + 1  # bytes acknowledged since the last look of quick adapt
LOOK = OWN + 2  # when quick adapt looks next [ps], 0 before its first look
TO_IGNORE = OWN + 3  # bytes that were on their way when quick adapt acted
IGNORED = OWN + 4  # how many of them have been answered
IS_LOST = OWN + 5  # 1 if a packet was trimmed since quick adapt acted
GROWTH = OWN + 6  # increase that waits to be added, times the window
RECEIVED = OWN + 7  # bytes acknowledged since it was added
ADDED = OWN + 8  # when the constant increase was added last [ps]
CUT = OWN + 9  # when the window was cut last [ps]
QUIET = OWN + 10  # bytes acknowledged without delay, one after another
IS_FAST = OWN + 11  # 1 during the fast increase
GONE = OWN + 12  # bytes that are not on their way any more

# Places of the parameters.
TARGET, ALPHA, FAIR, ETA, GAMMA, FAST, WEIGHT, PACKET, GATE, NETWORK, FIRST = range(11)

_REFERENCE_TIME = 12e-6  # [s]
_REFERENCE_BYTES = 150e3  # 100 Gb/s times 12 us [B]
_NO_DELAY = 1e6  # source: uec.cpp, fast_increase; below, a packet has waited nowhere [ps]


@register("control", "nscc")
def nscc(
    place: Place,
    *,
    trimming: bool = True,
    target: units.Quantity | None = None,
    gamma: float = 0.8,
    gate: int = 3,
    first: float = 1.5,
) -> Control:
    """Return the Network Signal-based Congestion Control of Ultra Ethernet, as its reference simulator runs it [1]_.

    Each acknowledgement carries two signals: was the packet marked, and how long did it wait in queues? Not marked and
    short: grow in proportion to what is missing from the target (and fast, if nothing waits at all). Not marked and
    long: grow by a constant, which makes flows equal. Marked and short: do nothing. Marked and long: cut, once per
    round trip. After a trimmed packet, or a delay of four targets, *quick adapt* sets the window to what came through
    in the last round trip. Everything scales from a reference of 150 kB. Leaves out path choice by marks, the
    receiver's own control and the penalty it may ask for.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    trimming : bool
        Whether switches trim: the target is then 3/4 of a round trip, else a whole one.
    target : float or str, optional
        Delay in queues to aim at, instead. [s], > 0
    gamma : float
        Cut per relative excess of the delay. 0..1
    gate : int
        Quick adapt acts if less came through than the largest window over 2 to this power. >= 0
    first : float
        First window, in windows that fill the path; the largest one is 1.5. > 0

    References
    ----------
    .. [1] ultraethernet/uet-htsim at 40ccb05, uec.cpp. The design is explained in T. Bonato et al., SMaRTT,
       arXiv 2404.01630.
    """
    fills = place.rate * place.round_trip  # [B]
    if target is not None:
        aim = units.time(target, "target")
    elif trimming:
        aim = 0.75 * place.round_trip
    else:
        aim = place.round_trip
    a = fills / _REFERENCE_BYTES
    b = aim / _REFERENCE_TIME
    packet = float(place.payload)
    values = (
        aim * 1e12,
        4.0 * packet * a * b / (aim * 1e12),
        5.0 * packet * a,
        0.15 * packet * a,
        float(gamma),
        0.25 * a,
        0.0125,
        packet,
        float(2 ** units.count(gate, "gate", 0, 30)),
        place.round_trip * 1e12,
        float(first),
    )
    # main_uec.cpp: from 0.2 to 0.8 of the bytes that fill a path.
    return Control(values, start, feed_back, do_nothing, marking=Marking(0.2 * fills, 0.8 * fills))


@kernel()
def largest(own: Any, i: int) -> float:
    """Return the largest window: one and a half that fill the path. [B]."""
    return float(1.5 * own[i + LINE] * own[i + ROUND_TRIP] / 1e12)


@kernel()
def keep_within(parameters: Any, own: Any, i: int) -> None:
    """Hold the window between a packet and the largest one."""
    own[i + WINDOW] = max(parameters[PACKET], min(own[i + WINDOW], largest(own, i)))


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open the first window."""
    own[i + WINDOW] = parameters[FIRST] * own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    keep_within(parameters, own, i)
    own[i + RATE] = own[i + LINE]
    own[i + ADDED] = float(now)


@kernel()
def smooth(parameters: Any, own: Any, i: int, delay: float, is_marked: bool) -> None:
    """Bring the mean delay up to date; a long delay without a mark counts as a quarter of a round trip."""
    weight = parameters[WEIGHT]
    sample = delay
    if not is_marked and delay > parameters[TARGET]:
        sample = 0.25 * own[i + ROUND_TRIP]
    own[i + MEAN] = weight * sample + (1.0 - weight) * own[i + MEAN]


@kernel()
def quick_adapt(
    parameters: Any, own: Any, i: int, now: int, delay: float, is_marked: bool, is_lost: bool
) -> bool:
    """Set the window to what came through, if that is little; return whether the acknowledgement is used up."""
    if own[i + IGNORED] < own[i + TO_IGNORE] and is_marked:
        own[i + GROWTH] = 0.0
        own[i + RECEIVED] = 0.0
        return True
    if now <= own[i + LOOK]:
        return False
    is_bad = is_lost or own[i + IS_LOST] == 1.0 or delay > 4.0 * parameters[TARGET]
    is_little = own[i + ACHIEVED] < largest(own, i) / parameters[GATE]
    acts = own[i + LOOK] > 0.0 and is_bad and is_little
    if acts:
        own[i + WINDOW] = max(own[i + ACHIEVED], parameters[PACKET])
        own[i + TO_IGNORE] = own[i + SENT] - own[i + GONE]
        own[i + IGNORED] = 0.0
        own[i + IS_LOST] = 0.0
        own[i + GROWTH] = 0.0
        own[i + RECEIVED] = 0.0
    own[i + ACHIEVED] = 0.0
    own[i + LOOK] = now + own[i + ROUND_TRIP] + parameters[TARGET]
    return acts


@kernel()
def grow(parameters: Any, own: Any, i: int, acked: int, delay: float) -> None:
    """Grow fast while nothing waits, else in proportion to what is missing from the target."""
    if delay < _NO_DELAY:
        own[i + QUIET] += acked
        if own[i + QUIET] > own[i + WINDOW] or own[i + IS_FAST] == 1.0:
            own[i + WINDOW] += parameters[FAST] * acked
            own[i + IS_FAST] = 1.0
            return
    else:
        own[i + QUIET] = 0.0
    own[i + IS_FAST] = 0.0
    own[i + GROWTH] += parameters[ALPHA] * acked * (parameters[TARGET] - delay)


@kernel()
def shrink(parameters: Any, own: Any, i: int, now: int) -> None:
    """Cut the window by the excess of the mean delay, once per round trip."""
    own[i + IS_FAST] = 0.0
    own[i + QUIET] = 0.0
    excess = own[i + MEAN] - parameters[TARGET]
    if excess > 0.0 and now - own[i + CUT] > own[i + ROUND_TRIP]:
        own[i + WINDOW] *= max(0.5, 1.0 - parameters[GAMMA] * excess / own[i + MEAN])
        own[i + CUT] = float(now)


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
    """Answer an acknowledgement, a trimmed packet or a timeout."""
    packet = parameters[PACKET]
    if lost == 2:
        own[i + GONE] = own[i + SENT]
        own[i + WINDOW] = max(packet, own[i + WINDOW] - packet)
        return
    if lost == 1:
        own[i + IGNORED] += packet
        smooth(parameters, own, i, parameters[NETWORK], True)
        own[i + IS_LOST] = 1.0
        if not quick_adapt(parameters, own, i, now, 0.0, True, True):
            own[i + WINDOW] -= packet
            keep_within(parameters, own, i)
        own[i + GONE] += packet
        return
    delay = max(0.0, trip - own[i + ROUND_TRIP])
    is_marked = marked == 1
    own[i + ACHIEVED] += acked
    own[i + RECEIVED] += acked
    own[i + IGNORED] += acked
    own[i + GONE] += acked
    smooth(parameters, own, i, delay, is_marked)
    if quick_adapt(parameters, own, i, now, delay, is_marked, False):
        return
    is_long = delay >= parameters[TARGET]
    if is_marked:
        if is_long:
            shrink(parameters, own, i, now)
    elif is_long:
        own[i + GROWTH] += parameters[FAIR] * acked
    else:
        grow(parameters, own, i, acked, delay)
    keep_within(parameters, own, i)
    is_due = now - own[i + ADDED] > parameters[NETWORK]
    if own[i + RECEIVED] > 8.0 * packet or is_due:
        own[i + WINDOW] += own[i + GROWTH] / own[i + WINDOW]
        if is_due:
            own[i + WINDOW] += parameters[ETA]
            own[i + ADDED] = float(now)
        own[i + GROWTH] = 0.0
        own[i + RECEIVED] = 0.0
    keep_within(parameters, own, i)
