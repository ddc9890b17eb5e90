"""HPCC: switches write their queue and the bytes that they sent into packets, and the sender computes its window."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, ROUND_TRIP, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
REFERENCE = OWN  # window once per round trip
LOAD = OWN + 1  # smoothed load of the fullest link
STAGE = OWN + 2  # increases since the last cut
TURN = OWN + 3  # when the reference may change again [ps]
BEFORE = OWN + 4  # time of the acknowledgement before [ps]

ETA, STEP, STAGES, FAST = range(4)  # places of the parameters


@register("control", "hpcc")
def hpcc(
    place: Place,
    *,
    eta: float = 0.95,
    flows: int = 10,
    stages: int = 5,
) -> Control:
    """Return HPCC [1]_, which aims at a link that is busy for a share ``eta`` of the time, without a queue.

    The load of a link is its queue over the bytes that fill the path, plus the rate at which it sends over its
    capacity. The window is the reference divided by load / eta, plus a small step that makes flows equal.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    eta : float
        Load to aim at. The authors used 0.95, later 0.99. 0..1
    flows : int
        Flows that are expected at once: the step is the free part of a full window, divided among them. >= 1
    stages : int
        Additive increases before the window follows the load again. 5 in the paper; the authors' page says that their
        simulations used 0. >= 0

    References
    ----------
    .. [1] Y. Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019.
    """
    target = float(eta)
    if not 0 < target < 1:
        raise ValueError(f"eta must be within 0..1, ends excluded, got {eta!r}")
    n = units.count(flows, "flows", 1)
    step = place.rate * place.round_trip * (1.0 - target) / n
    return Control(
        (target, step, float(units.count(stages, "stages", 0)), 1.0),
        start,
        feed_back,
        do_nothing,
        telemetry=True,
    )


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open a window that fills the path, and send at the rate of the port."""
    full = own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    own[i + WINDOW] = full
    own[i + REFERENCE] = full
    own[i + RATE] = own[i + LINE]
    own[i + LOAD] = 1.0
    own[i + BEFORE] = float(now)
    own[i + TURN] = float(now)


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
    """Compute the window from the load of the fullest link on the path."""
    if load < 0.0:
        own[i + BEFORE] = float(now)
        return
    base = own[i + ROUND_TRIP]
    gap = min(now - own[i + BEFORE], base)
    own[i + BEFORE] = float(now)
    weight = gap / base
    own[i + LOAD] = (1.0 - weight) * own[i + LOAD] + weight * load

    is_turn = now >= own[i + TURN]  # the reference changes once per round trip
    ratio = own[i + LOAD] / parameters[ETA]
    if ratio >= 1.0 or own[i + STAGE] >= parameters[STAGES]:
        window = own[i + REFERENCE] / ratio + parameters[STEP]
        if is_turn:
            own[i + STAGE] = 0.0
            own[i + REFERENCE] = window
            own[i + TURN] = now + base
    else:
        window = own[i + REFERENCE] + parameters[STEP]
        if is_turn:
            own[i + STAGE] += 1.0
            own[i + REFERENCE] = window
            own[i + TURN] = now + base
    full = own[i + LINE] * base / 1e12
    window = min(window, full)
    own[i + REFERENCE] = min(own[i + REFERENCE], full)
    own[i + WINDOW] = window
    own[i + RATE] = window / base * 1e12
