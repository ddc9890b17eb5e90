"""What the questions of lessons 51, 51b and 51c call right and wrong is so in the library."""

import numpy as np
import pytest

from fabriclab import scenarios, topologies
from fabriclab.core import Flows
from fabriclab.course.judges.lessons import lesson51, lesson51b, lesson51c
from fabriclab.engines import packet, run
from fabriclab.engines.packet import state
from fabriclab.engines.packet.control import Place, hpcc
from fabriclab.routing import route

GBIT = 1e9 / 8  # bytes per second in a gigabit per second


def test_the_buffer_lasts_as_long_as_the_formula_says():
    senders, size = 16, 16e6
    assert scenarios.time_to_fill(senders, "400 Gb/s", size) == size / ((senders - 1) * 50e9)


def test_the_window_of_the_question_is_that_of_hpcc():
    # The first case of 51-window: 100 kB of queue, 50 kB sent in 1 us, a path of 4 us at 50 GB/s, a window of 200 kB.
    loop = hpcc.hpcc(Place(50e9, 4e-6, 4096))
    step = loop.parameters[1]
    own = np.zeros(state.WIDTH)
    own[state.LINE], own[state.ROUND_TRIP] = 50e9, 4e6
    loop.on_start(loop.parameters, own, 0, 0)
    load = 100e3 / (50e9 * 4e-6) + 50e3 / (50e9 * 1e-6)
    # An acknowledgement a round trip after the start counts in full.
    loop.on_feedback(loop.parameters, own, 0, 4_000_000, 4_000_000, 200_000, 0, 0, load)
    assert load == pytest.approx(1.5)
    assert own[state.WINDOW] - step == pytest.approx(200e3 * 0.95 / load)


def test_marks_are_judged_and_mistakes_named():
    assert lesson51.chance_of_mark(lesson51.chance)[0]
    for name, rule in lesson51.MARK_MISTAKES.items():
        is_right, _, mistake, *_ = lesson51.chance_of_mark(rule)
        assert (is_right, mistake) == (False, name)


@pytest.mark.parametrize(
    ("loop", "mistake"),
    [
        (lambda rate, marked, line: rate * (1 - marked / 2) if marked else rate + line / 100, ""),
        (lambda rate: rate, "deaf to marks"),
        (lambda rate, marked: rate * (1 - marked / 2), "never faster again"),
        (lambda line: line / 8, "never faster again"),  # a fixed rate that suits 8 senders only
    ],
)
def test_control_loops_are_judged_and_mistakes_named(loop, mistake):
    is_right, _, found, *_ = lesson51.control_loop(loop)
    assert (is_right, found) == (not mistake, mistake)


def test_headroom_is_that_of_the_library():
    frame, response = 9216 + 20, 60 * 64
    for rate, length in ((400, 100), (100, 30), (400, 3)):
        ours = lesson51b.headroom(rate * GBIT, length, frame, response)
        assert ours == packet.headroom(f"{rate} Gb/s", f"{length} m")
    assert lesson51b.headroom_of_link(lesson51b.headroom)[0]
    for name, rule in lesson51b.HEADROOM_MISTAKES.items():
        is_right, _, mistake, *_ = lesson51b.headroom_of_link(rule)
        assert (is_right, mistake) == (False, name)


@pytest.mark.parametrize(
    ("limits", "mistake"),
    [
        (lambda n, xoff: (0.4 * xoff / n, 0.8 * xoff / n), ""),
        (lambda n, xoff: (50e3, 100e3), "limits for one queue"),
        (lambda n, xoff: (0.05 * xoff / n, 0.1 * xoff / n), "marks too early"),
        (lambda n, xoff: (0.9 * xoff, xoff), "pause first"),
    ],
)
def test_limits_are_judged_on_drawn_networks(limits, mistake):
    is_right, _, found, *_ = lesson51b.marks_first(limits)
    assert (is_right, found) == (not mistake, mistake)


@pytest.mark.parametrize("seed", range(20))
def test_cycles_are_judged_from_any_buffer_on(seed):
    for waits in lesson51b.drawn_waits(np.random.default_rng(seed)):
        found = lesson51b.cycle(waits)
        assert all(waits[a] == b for a, b in zip(found, found[1:] + found[:1], strict=True))
    with_tail, chain, *_ = lesson51b.drawn_waits(np.random.default_rng(seed))
    assert lesson51b.cycle(with_tail)
    assert lesson51b.cycle(chain) == []


def test_cycles_from_another_start_are_right_and_mistakes_named():
    def turned(waits):
        found = lesson51b.cycle(waits)
        return found[1:] + found[:1]

    assert lesson51b.find_cycle(turned)[0]
    assert lesson51b.find_cycle(lambda waits: [])[2] == "cycle missed"
    assert lesson51b.find_cycle(lambda waits: list(waits))[2] == "tail kept"


def test_shares_are_those_of_the_flow_engine():
    fabric = topologies.build("crossbar", hosts=5, rate="400 Gb/s")
    limits = [30e9, 5e9, 11e9, 30e9]
    node = fabric.endpoint
    flows = Flows.make(node[:4], [node[4]] * 4, [1e9 * share for share in (17, 5, 11, 17)])
    flows = Flows.make(node[:4], [node[4]] * 4, flows.size, limit=limits)
    done = run(fabric, route(fabric, flows), flows)
    # Bytes in proportion to the shares end all at the same time, after a second.
    shares = lesson51c.fair_shares(limits, 50e9)
    assert shares == pytest.approx([17e9, 5e9, 11e9, 17e9])
    assert done.finish == pytest.approx(np.ones(4), rel=1e-5)


def test_shares_are_judged_and_mistakes_named():
    assert lesson51c.shares_of_port(lesson51c.fair_shares)[0]
    for name, rule in lesson51c.SHARE_MISTAKES.items():
        is_right, _, mistake, *_ = lesson51c.shares_of_port(rule)
        assert (is_right, mistake) == (False, name)
