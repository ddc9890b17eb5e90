"""DCQCN: the sender of a marked flow cuts its rate, and recovers step by step while no further mark comes."""

from math import expm1, log1p
from typing import Any, NamedTuple

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Marking, Place
from fabriclab.engines.packet.state import LINE, OWN, RATE, SENT, WINDOW
from fabriclab.registry import register

MBIT = 1e6 / 8  # bytes per second in a megabit per second

# What the loop keeps of a connection, from OWN on.
ALPHA = OWN  # how much of the traffic was marked lately
TARGET = OWN + 1  # rate to return to [B/s]
ALPHA_TIME = OWN + 2  # when alpha was brought up to date [ps]
RISE_TIME = OWN + 3  # when the timer of increases began [ps]
RISES = OWN + 4  # increases by the timer since the last cut
BYTES = OWN + 5  # sent when the counter of increases began [B]
BYTE_RISES = OWN + 6  # increases by the counter since the last cut
CUT_TIME = OWN + 7  # when the rate was cut last, or by a clock could have been cut last [ps]
IS_CUT = OWN + 8  # 1 after the first mark
IS_MARKED = OWN + 9  # 1 after a mark that alpha has not seen yet
WILL_CUT = OWN + 10  # 1 after a mark that the rate has not seen yet

# Places of the parameters; times in picoseconds.
G, ALPHA_PERIOD, CUT_GAP, TIMER, COUNTER, STAGES, STEP, BIG_STEP, LEAST, CLOCKED, LIMIT = range(11)
NEVER = 1.0e30

# Of each set: g, alpha period, gap between cuts, timer of increases, byte counter (0: none), stages of fast recovery,
# step and big step [B/s], least rate [B/s], gap between marks that a receiver passes on, marking.
_SETS = {
    # Y. Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, for ports of 40 Gb/s.
    "paper": (1 / 256, 55e-6, 50e-6, 55e-6, 10e6, 5, 40 * MBIT, 200 * MBIT, 10 * MBIT, 50e-6),
    # NVIDIA DOCA 3.4, page "DCQCN CC Parameters": dce_tcp_g 1019, dce_tcp_rtt 1, rate_reduce_monitor_period 4.
    "nvidia": (5 / 1024, 1e-6, 4e-6, 300e-6, 0.0, 1, 5 * MBIT, 50 * MBIT, 1 * MBIT, 4e-6),
    # Simulator of the HPCC authors (alibaba-edu/High-Precision-Congestion-Control at 9f4be2a, run.py), per 25 Gb/s.
    "hpcc_simulator": (1 / 256, 1e-6, 4e-6, 300e-6, 0.0, 1, 5 * MBIT, 50 * MBIT, 1000 * MBIT, 0.0),
}
_SCALED = (
    "hpcc_simulator",
)  # whose steps and marking grow with the rate of the port, from 25 Gb/s
_CLOCKED = (
    "nvidia",
    "hpcc_simulator",
)  # whose cuts and changes of alpha follow clocks of their own
_UNIT = 25e9 / 8  # source: run.py, steps "bw/25" [B/s]
_MARKING = {
    "paper": Marking(5e3, 200e3, 0.01),
    # Cumulus Linux, page on RoCE: 150 KB and 1,500 KB.
    "nvidia": Marking(150e3, 1500e3, 1.0),
    "hpcc_simulator": Marking(100e3, 400e3, 0.2),
}


@register("control", "dcqcn")
def dcqcn(
    place: Place,
    parameters: str = "hpcc_simulator",
    *,
    g: float | None = None,
    timer: units.Quantity | None = None,
    step: units.Quantity | None = None,
    window: units.Quantity | None = None,
) -> Control:
    """Return DCQCN [1]_ with one of three published sets of parameters.

    A receiver that sees marks sends a notice at once, and at most one in a gap. The sender then remembers its rate as
    the target, cuts the rate by alpha / 2 and raises alpha, which decays while no notice comes. Between notices a timer
    (and a byte counter, in the paper's set) brings the rate half of the way back to the target; after some stages the
    target rises by a step, later by a big step. It starts at the rate of its port. The cards' sets cut and change alpha
    by clocks of their own, as the simulator of the HPCC authors does; the paper's set does so with each notice.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    parameters : str
        ``"paper"``, ``"nvidia"`` (as shipped) or ``"hpcc_simulator"``; they differ by factors of 50.
    g : float, optional
        Weight of a new observation in alpha. 0..1
    timer : float or str, optional
        Time between two increases. [s]
    step : float or str, optional
        Additive increase. [B/s]
    window : float or str, optional
        Bytes that may be on their way; none unless given, as DCQCN limits rates only. [B]

    References
    ----------
    .. [1] Y. Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015.
    """
    name = units.choice(parameters, "parameters", _SETS)
    values = list(_SETS[name])
    mark_gap = values.pop()
    marking = _MARKING[name]
    if name in _SCALED:
        scale = place.rate / _UNIT
        values[STEP] *= scale
        values[BIG_STEP] *= scale
        marking = Marking(marking.low * scale, marking.high * scale, marking.most)
    if g is not None:
        values[G] = g
    if timer is not None:
        values[TIMER] = units.time(timer, "timer")
    if step is not None:
        values[STEP] = units.rate(step, "step")
    limit = 1e18 if window is None else units.size(window, "window", may_be_zero=False)
    for place_of_time in (ALPHA_PERIOD, CUT_GAP, TIMER):
        values[place_of_time] *= 1e12
    clocked = 1.0 if name in _CLOCKED else 0.0
    return Control(
        (*values, clocked, limit),
        start,
        feed_back,
        let_time_pass,
        marking=marking,
        mark_gap=mark_gap,
    )


class FixedPoint(NamedTuple):
    """Where DCQCN settles."""

    marked: float  # share of the packets that are marked
    queue: float  # of the bottleneck [B]


def fixed_point(
    flows: int, rate: units.Quantity, *, payload: float = 1000.0, marking: Marking | None = None
) -> FixedPoint:
    """Return where equal DCQCN flows settle on one link, with the parameters of the paper.

    It is the fixed point of the fluid model [1]_, in which every flow sends at its share of the link, marks are
    independent, and cuts and increases of the rate balance. The share of marks depends on the share of the link alone;
    the queue follows from the marking. Leaves out the big step and all fluctuation: packets keep the queue within
    10 % of it only while their fluctuation stays clear of an empty queue and of Kmax.

    Parameters
    ----------
    flows : int
        Number of flows. >= 1
    rate : float or str
        Rate of the link. [B/s]
    payload : float
        Bytes of a packet. [B], > 0
    marking : Marking, optional
        As in the paper unless given.

    Returns
    -------
    FixedPoint
        The queue is inf if the marks that are needed are beyond Kmax.

    References
    ----------
    .. [1] Y. Zhu et al., ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY, CoNEXT 2016, section 3.
    """
    name = "paper"
    _, alpha_period, gap, timer, counter, stages, step, *_ = _SETS[name]
    packets = units.rate(rate, "rate") / units.count(flows, "flows", 1) / payload  # of a flow [1/s]

    def excess(p: float) -> float:
        """Return the pull down minus the pull up at a share of marks."""
        none = log1p(-p)  # logarithm of the chance that a packet is not marked
        cuts = -expm1(gap * packets * none)
        alpha = -expm1(alpha_period * packets * none)
        in_counter = counter / payload
        in_timer = timer * packets
        pull = [0.0, 0.0]
        for between in (in_counter, in_timer):
            after_none = -between * none
            if after_none > 600.0:  # never so many without a mark
                continue
            rises = p / expm1(after_none)
            pull[0] += rises
            pull[1] += rises * (1.0 - p) ** (stages * between)
        return cuts**2 * alpha - gap**2 * (step / payload) * packets * pull[0] * pull[1]

    low, high = 1e-9, 0.999
    for _ in range(200):
        middle = (low * high) ** 0.5
        if excess(middle) > 0:
            high = middle
        else:
            low = middle
    rule = _MARKING[name] if marking is None else marking
    queue = rule.low + low / rule.most * (rule.high - rule.low)
    return FixedPoint(low, queue if low <= rule.most else float("inf"))


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Send at the rate of the port."""
    own[i + WINDOW] = parameters[LIMIT]
    own[i + RATE] = own[i + LINE]
    own[i + TARGET] = own[i + LINE]
    own[i + ALPHA] = 1.0
    own[i + CUT_TIME] = -NEVER


@kernel()
def rise(parameters: Any, own: Any, i: int) -> None:
    """Bring the rate half of the way back to the target, and after some stages raise the target first."""
    most = max(own[i + RISES], own[i + BYTE_RISES])
    least = min(own[i + RISES], own[i + BYTE_RISES])
    if parameters[COUNTER] == 0.0:
        least = own[i + RISES] - 1.0  # the timer alone: one step, then big steps
    line = own[i + LINE]
    if least > parameters[STAGES]:
        own[i + TARGET] = min(line, own[i + TARGET] + parameters[BIG_STEP])
    elif most > parameters[STAGES]:
        own[i + TARGET] = min(line, own[i + TARGET] + parameters[STEP])
    own[i + RATE] = 0.5 * (own[i + RATE] + own[i + TARGET])


@kernel()
def cut(parameters: Any, own: Any, i: int, time: float) -> None:
    """Cut the rate by half of alpha, and begin to count increases anew."""
    has_risen = own[i + RISES] + own[i + BYTE_RISES] > 0.0
    if has_risen or parameters[CLOCKED] == 0.0:
        own[i + TARGET] = own[i + RATE]
    own[i + RATE] = max(parameters[LEAST], own[i + RATE] * (1.0 - own[i + ALPHA] / 2.0))
    own[i + CUT_TIME] = time
    own[i + RISE_TIME] = time
    own[i + RISES] = 0.0
    own[i + BYTES] = own[i + SENT]
    own[i + BYTE_RISES] = 0.0


@kernel(signatures.on_send)
def let_time_pass(parameters: Any, own: Any, i: int, now: int, size: int) -> None:
    """Let alpha change and the rate rise (or, by a clock, fall) as often as it was due since the last packet."""
    if own[i + IS_CUT] == 0.0:
        return
    g = parameters[G]
    while own[i + WILL_CUT] == 1.0:
        # By a clock: the marks of a period count when it ends. Whatever is due first happens first.
        tick = own[i + ALPHA_TIME] + parameters[ALPHA_PERIOD]
        look = own[i + CUT_TIME] + parameters[CUT_GAP]
        timer = own[i + RISE_TIME] + parameters[TIMER]
        if tick <= now and tick <= look and tick <= timer:
            own[i + ALPHA] = (1.0 - g) * own[i + ALPHA] + g * own[i + IS_MARKED]
            own[i + IS_MARKED] = 0.0
            own[i + ALPHA_TIME] = tick
        elif look <= now and look <= timer:
            own[i + WILL_CUT] = 0.0
            cut(parameters, own, i, look)
        elif timer <= now:
            own[i + RISES] += 1.0
            own[i + RISE_TIME] = timer
            rise(parameters, own, i)
        else:
            return

    period = parameters[ALPHA_PERIOD]
    while own[i + ALPHA_TIME] + period <= now:
        own[i + ALPHA] = (1.0 - g) * own[i + ALPHA] + g * own[i + IS_MARKED]
        own[i + IS_MARKED] = 0.0
        own[i + ALPHA_TIME] += period
        if own[i + ALPHA] < 1.0e-9:
            own[i + ALPHA_TIME] += period * ((now - own[i + ALPHA_TIME]) // period)
    if parameters[CLOCKED] == 1.0:
        gap = parameters[CUT_GAP]
        own[i + CUT_TIME] += gap * ((now - own[i + CUT_TIME]) // gap)
    while own[i + RISE_TIME] + parameters[TIMER] <= now:
        own[i + RISES] += 1.0
        own[i + RISE_TIME] += parameters[TIMER]
        rise(parameters, own, i)
        if own[i + TARGET] >= own[i + LINE] and own[i + RATE] > 0.999999 * own[i + LINE]:
            own[i + RATE] = own[i + LINE]
            timer = parameters[TIMER]
            own[i + RISE_TIME] += timer * ((now - own[i + RISE_TIME]) // timer)
    if parameters[COUNTER] > 0.0:
        while own[i + SENT] - own[i + BYTES] >= parameters[COUNTER]:
            own[i + BYTES] += parameters[COUNTER]
            own[i + BYTE_RISES] += 1.0
            rise(parameters, own, i)


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
    """Take a mark in: cut the rate now, but not twice within the gap, or by a clock when the period ends."""
    if marked == 0:
        return
    let_time_pass(parameters, own, i, now, 0)
    is_first = own[i + IS_CUT] == 0.0
    own[i + IS_CUT] = 1.0
    if parameters[CLOCKED] == 1.0:
        own[i + WILL_CUT] = 1.0
        own[i + IS_MARKED] = 1.0
        if is_first:
            own[i + IS_MARKED] = 0.0
            own[i + ALPHA_TIME] = float(now)
            own[i + CUT_TIME] = now + 1000.0  # a nanosecond behind the clock of alpha
            own[i + RISE_TIME] = NEVER
        return
    if now - own[i + CUT_TIME] < parameters[CUT_GAP]:
        return
    cut(parameters, own, i, float(now))
    own[i + ALPHA] = (1.0 - parameters[G]) * own[i + ALPHA] + parameters[G]
    own[i + ALPHA_TIME] = float(now)
