"""DCQCN beside its packets: how the fluid model of its paper reacts to disturbances, and its rules without packets.

The model is that of Zhu et al., ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY, CoNEXT 2016, for equal
flows: rate R and target rate T of a flow [packets/s], alpha, and the queue q [packets]. What reaches the sender, marks
and the counters that run with its rate, is late by a delay; the authors' own program of the model
(jitupadhye-zz/rdma at 06f786f, ``fluidmodel/dcqcn/fluid2_test.m``) says which terms these are.

Parameters are the paper's; packets have 1,000 B.
"""

from typing import NamedTuple

import numpy as np

from fabriclab.engines.packet.control import Marking
from fabriclab.engines.packet.control.dcqcn import fixed_point

PACKET = 1000  # [B]
G = 1 / 256
ALPHA_PERIOD = 55e-6  # [s]
GAP = 50e-6  # between two notices [s]
TIMER = 55e-6  # between two increases [s]
COUNTER = 10e6 / PACKET  # between two increases [packets]
STAGES = 5
STEP = 40e6 / 8 / PACKET  # additive increase [packets/s]
BIG_STEP = 200e6 / 8 / PACKET
DELAY = 4.5e-6  # from a switch to a sender and back, in the stars of the tests [s]


def rates_of(p, rate):
    """Return the chance of a notice in a gap, and how many increases of each kind come with a packet of a flow.

    An increase is due to the counter or to the timer; one of each kind in some adds to the target.
    """
    none = np.log1p(-p)
    notice = -np.expm1(GAP * rate * none)
    increases = []
    for between in (COUNTER, TIMER * rate):
        every = p * np.exp(between * none) / -np.expm1(between * none)
        increases.append((every, every * np.exp(STAGES * between * none)))
    (counted, counted_add), (timed, timed_add) = increases
    return notice, counted + timed, counted_add + timed_add


def change(now, before, flows, link, slope, low):
    """Return how (R, T, alpha, q) change, if they are ``now`` and were ``before`` a delay ago."""
    rate, target, alpha, _ = now
    late_rate, _, _, late_queue = before
    p = slope * (late_queue - low)
    notice, rise, add = rates_of(p, late_rate)
    return np.array(
        [
            -rate * alpha * notice / (2 * GAP) + (target - rate) / 2 * late_rate * rise,
            -(target - rate) * notice / GAP + STEP * late_rate * add,
            G / ALPHA_PERIOD * (-np.expm1(ALPHA_PERIOD * late_rate * np.log1p(-p)) - alpha),
            flows * rate - link,
        ]
    )


class Model(NamedTuple):
    """The model near its fixed point: x' = now x + late x(t - delay) + what chance adds."""

    point: np.ndarray  # (R, T, alpha, q)
    now: np.ndarray  # (4, 4)
    late: np.ndarray  # (4, 4)
    noise: np.ndarray  # (4, 4), of the mean of the flows, per second
    low: float  # Kmin and Kmax [packets]
    high: float

    def roots(self, delay=DELAY, points=24):
        """Return the rightmost solutions of det(s - now - late exp(-s delay)) = 0, by collocation. [1/s]."""
        n = len(self.point)
        angle = np.pi * np.arange(points + 1) / points
        x = np.cos(angle)  # from 1, which is now, to -1, which is a delay ago
        weight = np.where(np.arange(points + 1) % points == 0, 2.0, 1.0) * (-1.0) ** np.arange(
            points + 1
        )
        slope = np.outer(weight, 1 / weight) / (x[:, None] - x + np.eye(points + 1))
        slope -= np.diag(slope.sum(axis=1))
        generator = np.kron(slope * 2 / delay, np.eye(n))
        generator[:n] = 0
        generator[:n, :n] = self.now
        generator[:n, -n:] = self.late
        found = np.linalg.eigvals(generator)
        return found[np.argsort(-found.real)][:4]

    def phase_margin(self, delay=DELAY):
        """Return the smallest phase margin of the loop that is opened where the queue makes marks. [degrees].

        It is taken where the gain around the loop falls through 1.
        """
        frequency = np.geomspace(10, 1e6, 8_000)  # [rad/s]
        turn = np.exp(-1j * frequency * delay)[:, None]
        inner = self.late.copy()
        inner[:, 3] = 0
        marks = self.late[:, 3] * turn
        gain = -np.linalg.solve(self._rest(frequency, delay, inner), marks[..., None])[:, 3, 0]
        phase = np.degrees(np.unwrap(np.angle(gain)))
        falls = (np.abs(gain[:-1]) >= 1) & (np.abs(gain[1:]) < 1)
        return float((phase[:-1][falls] + 180).min())

    def deviation(self, delay=DELAY):
        """Return the standard deviation of the queue if cuts and increases come at random times. [packets]."""
        frequency = np.linspace(1.0, 4e4, 20_000)
        answer = np.linalg.inv(self._rest(frequency, delay, self.late))[:, 3]
        power = np.einsum("wi,ij,wj->w", answer, self.noise, answer.conj()).real
        return float(np.sqrt(np.sum(power) * (frequency[1] - frequency[0]) / np.pi))

    def _rest(self, frequency, delay, late):
        """Return s - now - late exp(-s delay) for s = i frequency, (W, 4, 4)."""
        s = 1j * frequency[:, None, None]
        return s * np.eye(4) - self.now - late * np.exp(-s * delay)

    def room(self, delay=DELAY):
        """Return how many standard deviations lie between the fixed point and the nearer end of the line of marking."""
        queue = self.point[3]
        return float(min(queue - self.low, self.high - queue) / self.deviation(delay))


def model(rate, flows, marking):
    """Return the model of flows on a link [B/s], at its fixed point."""
    low, high, most = marking
    link = rate / PACKET
    settled = fixed_point(flows, rate, payload=PACKET, marking=Marking(*marking))
    share = link / flows
    p = settled.marked
    notice, rise, add = rates_of(p, share)
    alpha = -np.expm1(ALPHA_PERIOD * share * np.log1p(-p))
    target = share + GAP * STEP * share * add / notice
    point = np.array([share, target, alpha, settled.queue / PACKET])
    line = most / (high - low) * PACKET, low / PACKET  # slope [1/packet], Kmin

    matrices = np.zeros((2, 4, 4))
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6 * point[j]
        for matrix, one, other in ((0, step, 0 * step), (1, 0 * step, step)):
            up = change(point + one, point + other, flows, link, *line)
            down = change(point - one, point - other, flows, link, *line)
            matrices[matrix][:, j] = (up - down) / (2 * step[j])

    noise = np.zeros((4, 4))
    of_alpha = G * np.sqrt(alpha * (1 - alpha))
    for often, jump in (  # events of one flow per second, and what each does
        (notice / GAP, [-alpha * share / 2, share - target, 0, 0]),
        (share * rise, [(target - share) / 2, 0, 0, 0]),
        (share * add, [0, STEP, 0, 0]),
        (1 / ALPHA_PERIOD, [0, 0, of_alpha, 0]),
    ):
        noise += often * np.outer(jump, jump) / flows
    return Model(point, *matrices, noise, low / PACKET, high / PACKET)


# The rules without packets --------------------------------------------------------------------------------------------


def without_packets(rate, flows, marking, time, seed=1, tick=0.5e-6):
    """Return the mean share of marks and the mean queue [B] of the second half of a run.

    The queue is a number that grows with the sum of the rates. In each tick a flow is marked with the chance that one
    of the packets is that it would have sent. Everything else, notices, cuts, alpha, timer and counter, follows the
    rules of the paper (SIGCOMM 2015) one by one; none of the engine's code is used.
    """
    import numba

    low, high, most = marking
    line = low / PACKET, high / PACKET, most
    rng = np.random.default_rng(seed)
    marked, queue = numba.njit(_rules)(rate / PACKET, flows, *line, time, rng, tick)
    return marked, queue * PACKET


def _rules(link, flows, low, high, most, time, rng, tick):
    late = round(DELAY / tick)
    rate, target, alpha = np.full(flows, link), np.full(flows, link), np.ones(flows)
    notices = np.zeros((late, flows), np.bool_)  # on their way
    owes, was_cut = np.zeros(flows, np.bool_), np.zeros(flows, np.bool_)
    noticed, cut = np.full(flows, -1.0), np.full(flows, -1.0)
    decayed, risen, sent = np.zeros(flows), np.zeros(flows), np.zeros(flows)
    by_timer, by_counter = np.zeros(flows), np.zeros(flows)
    queue = all_marked = all_queue = 0.0
    ticks = int(time / tick)
    for k in range(ticks):
        now = k * tick
        total = rate.sum()
        queue = max(0.0, queue + (total - link) * tick)
        p = 0.0
        if queue > high:
            p = 1.0
        elif queue > low:
            p = most * (queue - low) / (high - low)
        if 2 * k >= ticks:
            all_marked += p
            all_queue += queue
        for i in range(flows):
            if notices[k % late, i] and now - cut[i] > 0.99 * GAP:
                target[i] = rate[i]
                rate[i] *= 1 - alpha[i] / 2
                alpha[i] = (1 - G) * alpha[i] + G
                cut[i] = decayed[i] = risen[i] = now
                by_timer[i] = by_counter[i] = sent[i] = 0
                was_cut[i] = True
            notices[k % late, i] = False
            passing = rate[i] * tick * (min(1.0, link / total) if queue > 0 else 1.0)
            if p > 0 and rng.random() < 1 - (1 - p) ** passing:
                owes[i] = True
            if owes[i] and now - noticed[i] >= GAP:
                owes[i] = False
                noticed[i] = now
                notices[k % late, i] = True
            if not was_cut[i]:
                continue
            if now - decayed[i] >= ALPHA_PERIOD:
                decayed[i] += ALPHA_PERIOD
                alpha[i] *= 1 - G
            rises = 0
            if now - risen[i] >= TIMER:
                risen[i] += TIMER
                by_timer[i] += 1
                rises += 1
            sent[i] += rate[i] * tick
            if sent[i] >= COUNTER:
                sent[i] -= COUNTER
                by_counter[i] += 1
                rises += 1
            for _ in range(rises):
                if min(by_timer[i], by_counter[i]) > STAGES:
                    target[i] += BIG_STEP
                elif max(by_timer[i], by_counter[i]) > STAGES:
                    target[i] += STEP
                target[i] = min(target[i], link)
                rate[i] = (rate[i] + target[i]) / 2
    return all_marked / (ticks - ticks // 2), all_queue / (ticks - ticks // 2)
