"""TIMELY: the sender follows the gradient of its round-trip time."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, WINDOW
from fabriclab.registry import register

# What the loop keeps of a connection, from OWN on.
LAST = OWN  # round trip at the last update [ps], -1 for none
DIFFERENCE = OWN + 1  # smoothed change of the round trip [ps]
STAGE = OWN + 2  # increases in a row
TURN = OWN + 3  # when the rate changed last [ps]

LOW, HIGH, BETA, WEIGHT, SHORTEST, STEP, BIG_STEP, LEAST, FIRST = range(
    9
)  # places of the parameters
_UNIT = 10e9 / 8  # port for which the steps are given [B/s]
MBIT = 1e6 / 8  # bytes per second in a megabit per second


@register("control", "timely")
def timely(
    place: Place,
    *,
    low: units.Quantity = 50e-6,
    high: units.Quantity = 500e-6,
    beta: float = 0.8,  # source: [2], class default
    weight: float = 0.875,
    shortest: units.Quantity = 20e-6,
    first: float = 1.0,
) -> Control:
    """Return TIMELY [1]_, with the parameters of the HPCC authors' simulator [2]_.

    Once per round trip: below ``low`` the rate grows by a step, above ``high`` it is cut towards ``high``, and between
    them it grows while the round trip falls and is cut in proportion to the gradient while it rises. After five
    increases in a row the step is five times as large. Its fixed points are many: flows may stay at any split [3]_.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network; the steps, 10 and 50 Mb/s at 10 Gb/s, grow with the rate.
    low, high : float or str
        Round trips between which the gradient rules. [s]
    beta : float
        Cut per gradient, and per relative excess above ``high``. 0..1
    weight : float
        Weight of a new difference of round trips. 0..1
    shortest : float or str
        Round trip by which differences are divided. [s], > 0
    first : float
        Rate at the start, as a share of the port. 0..1

    References
    ----------
    .. [1] R. Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015.
    .. [2] alibaba-edu/High-Precision-Congestion-Control at 9f4be2a, run.py and rdma-hw.cc.
    .. [3] Y. Zhu et al., ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY, CoNEXT 2016.
    """
    scale = place.rate / _UNIT
    if not 0 < first <= 1:
        raise ValueError(f"first must be a share of the port within 0..1, without 0, got {first!r}")
    return Control(
        (
            units.time(low, "low") * 1e12,
            units.time(high, "high") * 1e12,
            float(beta),
            float(weight),
            units.time(shortest, "shortest") * 1e12,
            10 * MBIT * scale,
            50 * MBIT * scale,
            100 * MBIT,
            float(first),
        ),
        start,
        feed_back,
        do_nothing,
    )


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Send at the first rate, without a window."""
    own[i + WINDOW] = 1.0e18
    own[i + RATE] = parameters[FIRST] * own[i + LINE]
    own[i + LAST] = -1.0
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
    """Change the rate once per round trip, by the round trip and its gradient."""
    if trip <= 0 or now - trip < own[i + TURN]:
        return
    own[i + TURN] = float(now)
    if own[i + LAST] < 0.0:
        own[i + LAST] = float(trip)
        return
    weight = parameters[WEIGHT]
    own[i + DIFFERENCE] = (1.0 - weight) * own[i + DIFFERENCE] + weight * (trip - own[i + LAST])
    own[i + LAST] = float(trip)
    gradient = own[i + DIFFERENCE] / parameters[SHORTEST]
    keep = 1.0
    if trip > parameters[HIGH]:
        keep = 1.0 - parameters[BETA] * (1.0 - parameters[HIGH] / trip)
    elif trip >= parameters[LOW] and gradient > 0.0:
        keep = max(0.0, 1.0 - parameters[BETA] * gradient)
    if keep < 1.0:
        own[i + RATE] = max(parameters[LEAST], own[i + RATE] * keep)
        own[i + STAGE] = 0.0
        return
    step = parameters[STEP]
    if own[i + STAGE] >= 5.0:
        step = parameters[BIG_STEP]
    own[i + RATE] = min(own[i + LINE], own[i + RATE] + step)
    own[i + STAGE] += 1.0
