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
TURN = OWN + 3  # when the reference changed last [ps]
BEFORE = OWN + 4  # time of the acknowledgement before [ps]

ETA, STEP, STAGES, BASE = range(4)  # places of the parameters


@register("control", "hpcc")
def hpcc(
    place: Place,
    *,
    eta: float = 0.95,
    flows: int = 10,
    stages: int = 5,
    step: units.Quantity | None = None,
    round_trip: units.Quantity | None = None,
) -> Control:
    """Return HPCC [1]_, which aims at a link that is busy for a share ``eta`` of the time, without a queue.

    The load of a link is its queue over the bytes that fill the path, plus the rate at which it sends over its
    capacity. The window is the reference divided by load / eta, plus a small step that makes flows equal. Each
    acknowledgement changes the window; the reference changes only with the first acknowledgement of a packet that was
    sent after the last change, so that no load is answered twice. Leaves out the bytes that the reports take in the
    packets (42 for five hops) and their coarse units.

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
    step : float or str, optional
        Additive increase in each round trip, instead of the one that follows from ``flows``. [B]
    round_trip : float or str, optional
        Round trip by which windows and rates are scaled; the longest one of the network unless given, for all flows
        alike, as in the authors' simulations. [s]

    References
    ----------
    .. [1] Y. Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019. Rules compared with the authors'
       simulator, alibaba-edu/High-Precision-Congestion-Control at 9f4be2a, rdma-hw.cc.
    """
    target = float(eta)
    if not 0 < target < 1:
        raise ValueError(f"eta must be within 0..1, ends excluded, got {eta!r}")
    n = units.count(flows, "flows", 1)
    base = place.round_trip if round_trip is None else units.time(round_trip, "round_trip")
    if step is None:
        increase = place.rate * base * (1.0 - target) / n
    else:
        increase = units.size(step, "step")
    least = float(units.count(stages, "stages", 0))
    return Control(
        (target, increase, least, base * 1e12), start, feed_back, do_nothing, telemetry=True
    )


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open a window that fills the path, and send at the rate of the port."""
    own[i + ROUND_TRIP] = parameters[BASE]  # by which the engine weighs queues, too
    full = own[i + LINE] * own[i + ROUND_TRIP] / 1e12
    own[i + WINDOW] = full
    own[i + REFERENCE] = full
    own[i + RATE] = own[i + LINE]
    own[i + LOAD] = 1.0
    own[i + BEFORE] = float(now)
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
    """Compute the window from the load of the fullest link on the path."""
    if load < 0.0:
        own[i + BEFORE] = float(now)
        if own[i + TURN] < 0.0:
            own[i + TURN] = float(now)
        return
    base = own[i + ROUND_TRIP]
    gap = min(now - own[i + BEFORE], base)
    own[i + BEFORE] = float(now)
    weight = gap / base
    own[i + LOAD] = (1.0 - weight) * own[i + LOAD] + weight * load

    full = own[i + LINE] * base / 1e12
    ratio = own[i + LOAD] / parameters[ETA]
    stage = own[i + STAGE] + 1.0
    window = own[i + REFERENCE] + parameters[STEP]
    if ratio >= 1.0 or own[i + STAGE] >= parameters[STAGES]:
        stage = 0.0
        window = own[i + REFERENCE] / ratio + parameters[STEP]
    window = min(window, full)
    if now - trip >= own[i + TURN]:  # the packet was sent after the last change
        own[i + STAGE] = stage
        own[i + REFERENCE] = window
        own[i + TURN] = float(now)
    own[i + WINDOW] = window
    own[i + RATE] = window / base * 1e12
