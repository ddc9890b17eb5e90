"""The packet engine beside laws: queueing theory, max-min sharing, and the fixed points of control loops.

The bands here are what was reached; docs/packet_checks.md has the table.
"""

import numpy as np
import pytest

from fabriclab import engines, routing
from fabriclab.core import Flows
from fabriclab.engines.packet import play
from fabriclab.engines.packet.control import Marking
from fabriclab.engines.packet.control.dcqcn import fixed_point
from support.dcqcn_model import DELAY, GAP, model, without_packets
from support.packet_stars import (
    GBIT,
    goodput,
    kernels,  # noqa: F401
    last_link,
    many_to_one,
    needs_compiled,
    star,
    two_tier,
)

pytestmark = pytest.mark.usefixtures("kernels")


# A queue with Poisson arrivals and packets of one size ------------------------------------------------------------

SERVICE = 1082 / (100 * GBIT)  # 1,000 B, header 62 and gap 20 at 100 Gb/s [s]


def poisson(load, n, seed):
    """Return times of arrivals at a link of the given load."""
    return np.cumsum(np.random.default_rng(seed).exponential(SERVICE / load, n))


def waits_by_recursion(arrival):
    """Return how long each packet waits (Lindley): the work ahead is what has come less what has been served."""
    work = SERVICE * np.arange(arrival.size) - arrival
    return work - np.minimum.accumulate(work)


def waits_in_engine(arrival, plain=False):
    """Return how long flows of one packet wait for a port of 100 Gb/s, sent over links 640 times as fast."""
    hosts = 16
    fabric = star(hosts + 1, rate=[64_000 * GBIT] * hosts + [100 * GBIT])
    source = np.random.default_rng(0).integers(0, hosts, arrival.size)
    flows = Flows.make(source, fabric.endpoint[-1], 1000, start=arrival)
    settings = {"payload": 1000, "lossless": "none", "buffer": 1e9, "timeout": 0.0}
    trace = play(fabric, routing.route(fabric, flows), flows, config=settings, plain=plain)
    return trace.duration - trace.duration.min()


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_packets_wait_as_the_recursion_says(load):
    arrival = poisson(load, 1_500, seed=1)
    expected = waits_by_recursion(arrival)
    waits = waits_in_engine(arrival, plain=True)
    assert waits.mean() == pytest.approx(expected.mean(), rel=0.02)
    # One packet may be on each of the fast links, which takes 1/640 of a service.
    assert np.abs(waits - expected).max() < 0.1 * SERVICE


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_recursion_gives_the_law_of_pollaczek_and_khinchine(load):
    waits = waits_by_recursion(poisson(load, 4_000_000, seed=2))
    assert waits.mean() == pytest.approx(load / (2 * (1 - load)) * SERVICE, rel=0.02)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_the_engine_gives_the_law_itself(load):
    waits = waits_in_engine(poisson(load, 200_000, seed=3))
    assert waits.mean() == pytest.approx(load / (2 * (1 - load)) * SERVICE, rel=0.02)


# Fair queues ------------------------------------------------------------------------------------------------------


def random_case(seed):
    """Return a small random network with two speeds, and flows between random hosts."""
    rng = np.random.default_rng(seed)
    per_leaf = int(rng.integers(3, 6))
    leaves = int(rng.integers(2, 4))
    fabric = two_tier(
        leaves,
        per_leaf,
        int(rng.integers(1, 3)),
        rate=float(rng.choice([50, 100])) * GBIT,
        up_rate=float(rng.choice([40, 100])) * GBIT,
        delay=0.2e-6,
    )
    hosts = leaves * per_leaf
    n = int(rng.integers(4, 12))
    source = rng.integers(0, hosts, n)
    target = (source + rng.integers(1, hosts, n)) % hosts
    flows = Flows.make(source, target, np.round(rng.uniform(16e6, 32e6, n)))
    return fabric, routing.route(fabric, flows, "ecmp", seed=seed), flows


# A window that fills the path twice, in queues that serve their flows in turn. What it stores at a bottleneck is 50 kB,
# 0.3 % of a flow and less, and moves the ends of others by as much.
FAIR = {
    "payload": 1000,
    "header": 0,
    "gap": 0,
    "fair": True,
    "control_options": {"window": 5e4},
    "lossless": "none",
    "buffer": 1e9,
    "timeout": 1.0,
}


def fair_error(seed):
    """Return the largest relative error of the ends of all flows against engine "flow"."""
    fabric, routes, flows = random_case(seed)
    expected = engines.run(fabric, routes, flows, "flow").finish
    found = play(fabric, routes, flows, config=FAIR).finish
    return np.abs(found / expected - 1).max()


@needs_compiled
@pytest.mark.parametrize("seed", range(5))
def test_fair_queues_share_as_the_flow_engine_does(seed):
    assert fair_error(seed) < 0.01


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize("seed", range(5, 40))
def test_fair_queues_share_as_the_flow_engine_does_on_more_networks(seed):
    assert fair_error(seed) < 0.01


@needs_compiled
def test_without_fair_queues_they_do_not():
    fabric, routes, flows = random_case(2)
    expected = engines.run(fabric, routes, flows, "flow").finish
    found = play(fabric, routes, flows, config=FAIR | {"fair": False}).finish
    assert np.abs(found / expected - 1).max() > 0.02


# HPCC -------------------------------------------------------------------------------------------------------------


def hpcc_shares(n, payload=1000, time=6e-3, flows=None):
    """Return the rates on the wire of n flows into one port, over eta times their fair share, and the queue [B]."""
    fabric = star(n + 1, delay=3e-6)
    routes, traffic = many_to_one(fabric, n, 12.5e9 * time)
    settings = {
        "control": "hpcc",
        "control_options": {"flows": flows or 20 * n},  # a step so small that it counts for nothing
        "payload": payload,
        "until": time,
        "sample": 2e-6,
        "watch_links": (last_link(fabric),),
        "watch_flows": tuple(range(n)),
        "jitter": 12e-6,
    }
    trace = play(fabric, routes, traffic, config=settings)
    on_wire = (payload + 82) / payload
    rates = goodput(trace, 0.5, 1, payload) * on_wire
    queue = trace.queue[len(trace.queue) // 2 :, 0]
    return rates / (0.95 * 12.5e9 / n), queue


@needs_compiled
@pytest.mark.parametrize("n", [2, 4, 8, 16, 32, 64])
def test_hpcc_uses_a_share_eta_of_the_link_and_has_no_queue(n):
    shares, queue = hpcc_shares(n)
    assert shares.mean() == pytest.approx(1, rel=0.02)
    assert queue.mean() < 5e3  # of 150 kB that fill the path


@needs_compiled
@pytest.mark.parametrize("flows", [4, 6, 10])
def test_the_step_of_hpcc_takes_what_it_should(flows):
    """A window W of two rests where W = W eta / U + step, with U = 2 W / full and step = full (1 - eta) / flows."""
    shares, _ = hpcc_shares(2, flows=flows)
    assert shares.mean() == pytest.approx(1 + 2 / flows * 0.05 / 0.95, abs=0.004)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize("n", [2, 8])
def test_hpcc_is_fair_flow_by_flow(n):
    shares, _ = hpcc_shares(n, time=40e-3, flows=4 * n)
    assert shares == pytest.approx(shares.mean(), rel=0.05)


# DCQCN ------------------------------------------------------------------------------------------------------------

# Solved by another program for the notes of this course: rate [Gb/s], flows -> share of marks, queue [kB].
FLUID = {
    (40, 2): (0.00077699, 20.2),
    (40, 4): (0.0018877, 41.8),
    (40, 10): (0.006032, 122.6),
    (40, 16): (0.010873, np.inf),
    (40, 32): (0.025618, np.inf),
    (40, 64): (0.059054, np.inf),
    (100, 2): (0.00023872, 9.7),
    (100, 4): (0.00058311, 16.4),
    (100, 8): (0.0014195, 32.7),
    (100, 10): (0.0018877, 41.8),
    (100, 64): (0.019478, np.inf),
}


@pytest.mark.parametrize(("case", "expected"), FLUID.items())
def test_the_solver_finds_the_fixed_points_of_the_fluid_model(case, expected):
    rate, n = case
    point = fixed_point(n, rate * GBIT)
    assert point.marked == pytest.approx(expected[0], rel=1e-4)
    assert point.queue == pytest.approx(expected[1] * 1e3, rel=0.006)


def test_the_fixed_point_depends_on_the_share_of_the_link_alone():
    assert fixed_point(4, "40 Gb/s").marked == pytest.approx(fixed_point(10, "100 Gb/s").marked)


AS_PUBLISHED = (5e3, 200e3, 0.01)  # Kmin [B], Kmax [B], Pmax
FURTHER = (5e3, 5e3 + 4 * 195e3, 0.04)  # the same line of marking, four times as long


def dcqcn_settles(rate, n, marking=AS_PUBLISHED, time=0.15):
    """Return the share of packets that the switch marks, and the mean queue [B], in the second half of a run."""
    fabric = star(n + 1, rate=rate * GBIT)
    routes, flows = many_to_one(fabric, n, rate * GBIT * time)
    settings = {
        "control": "dcqcn",
        "control_options": {"parameters": "paper"},
        "payload": 1000,
        "header": 0,
        "gap": 0,
        "marking": marking,
        "lossless": "none",
        "buffer": 1e8,
        "until": time,
        "sample": 5e-6,
        "watch_links": (last_link(fabric),),
        "watch_flows": tuple(range(n)),
        "jitter": 1e-4,
        "timeout": 1.0,
    }
    trace = play(fabric, routes, flows, config=settings)
    half = len(trace.queue) // 2
    marked = trace.queue_marks[-1, 0] - trace.queue_marks[half, 0]
    sent = (trace.queue_sent[-1, 0] - trace.queue_sent[half, 0]) / 1000
    return marked / sent, trace.queue[half:, 0].mean()


def dcqcn_errors(rate, n, marking=AS_PUBLISHED, time=0.15):
    """Return relative errors of the share of marks and of the queue against the fixed point."""
    marked, queue = dcqcn_settles(rate, n, marking, time)
    point = fixed_point(n, rate * GBIT, marking=Marking(*marking))
    return marked / point.marked - 1, queue / point.queue - 1


@needs_compiled
@pytest.mark.parametrize(("rate", "n"), [(40, 4), (100, 10)])
def test_dcqcn_settles_where_the_fluid_model_does(rate, n):
    assert dcqcn_errors(rate, n) == pytest.approx((0, 0), abs=0.1)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("rate", "n"), [(100, 8), (100, 16)])
def test_dcqcn_settles_there_with_other_numbers_of_flows(rate, n):
    assert dcqcn_errors(rate, n, time=0.3) == pytest.approx((0, 0), abs=0.1)


@pytest.mark.slow
@needs_compiled
def test_dcqcn_settles_beside_kmax_if_the_line_of_marking_goes_on():
    """Ten flows at 40 Gb/s come so close to Kmax that they fall over its edge; four times as long, it is no edge."""
    assert dcqcn_errors(40, 10, FURTHER, time=0.4) == pytest.approx((0, 0), abs=0.1)
    assert dcqcn_errors(40, 10)[0] > 0.5


FEW = [(40, 2), (100, 2), (100, 4)]
MANY = [(40, 8), (40, 10), (100, 20), (100, 24)]
ENOUGH = [(40, 4), (40, 6), (100, 8), (100, 10), (100, 16)]


@pytest.mark.parametrize(("rate", "n"), FEW + ENOUGH + MANY)
def test_the_fixed_point_of_the_fluid_model_is_stable(rate, n):
    """No flow count misses its fixed point because the model itself would swing about it."""
    near = model(rate * GBIT, n, AS_PUBLISHED)
    assert near.roots().real.max() < 0
    assert 8 < near.phase_margin() < 25
    # The model leaves out that a notice may wait for a gap to end. Where all of them did, it would hardly be stable.
    assert -9 < near.phase_margin(DELAY + GAP) < 8


def test_a_root_of_the_model_crosses_over_where_its_phase_margin_ends():
    near = model(40 * GBIT, 4, AS_PUBLISHED)
    delays = np.linspace(50e-6, 90e-6, 9)
    stable = [near.roots(delay).real.max() < 0 for delay in delays]
    assert stable == [near.phase_margin(delay) > 0 for delay in delays]
    assert stable[0] and not stable[-1]


def test_stability_is_not_monotonic_in_the_number_of_flows():
    """As the abstract of the paper says; a line of marking without an end gives many flows a fixed point, too."""
    line = (5e3, 5e3 + 10 * 195e3, 0.1)
    margins = [model(40 * GBIT, n, line).phase_margin(85e-6) for n in (2, 4, 8, 16, 32, 64)]
    assert [margin > 0 for margin in margins] == [True, False, False, False, True, True]


def test_chance_moves_the_queue_of_few_flows_as_far_as_kmin():
    """Where one standard deviation reaches Kmin, packets miss the fixed point: an empty queue makes up for no long one.

    Below Kmax it is no such measure. The deviation there is 1.5 times that of the model, and all packets are marked.
    """
    room = {case: model(case[0] * GBIT, case[1], AS_PUBLISHED).room() for case in FEW + ENOUGH}
    assert max(room[case] for case in FEW) < 1 < min(room[case] for case in ENOUGH)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("rate", "n"), FEW)
def test_few_dcqcn_flows_stay_below_their_fixed_point(rate, n):
    marks, queue = dcqcn_errors(rate, n, time=0.8)
    assert -0.15 < marks < 0
    assert -0.35 < queue < -0.1


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("rate", "n"), MANY)
def test_many_dcqcn_flows_fall_over_the_edge_of_kmax(rate, n):
    marks, queue = dcqcn_errors(rate, n, time=0.8)
    assert marks > 0.1
    assert queue < -0.05


def check_rules(rate, n, marking, time, seeds):
    """Compare packets with the rules of DCQCN where there are none."""
    found = dcqcn_settles(rate, n, marking, time)
    rules = [without_packets(rate * GBIT, n, marking, time, seed=1 + seed) for seed in range(seeds)]
    marked, queue = np.mean(rules, axis=0)
    assert found[0] == pytest.approx(marked, rel=0.12)
    assert found[1] == pytest.approx(queue, rel=0.08)


@needs_compiled
@pytest.mark.parametrize(("rate", "n"), [(40, 2), (100, 4)])
def test_dcqcn_settles_where_its_rules_do_without_packets(rate, n):
    check_rules(rate, n, AS_PUBLISHED, 0.3, seeds=1)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("rate", "n"), FEW + ENOUGH + MANY)
def test_dcqcn_settles_there_wherever_it_does(rate, n):
    check_rules(rate, n, AS_PUBLISHED, 1.2 if rate == 40 else 0.8, seeds=3)
