"""Control loops, balancers and marking rules that somebody writes as functions."""

from dataclasses import replace

import numpy as np
import pytest

from fabriclab import scenarios
from fabriclab.core import Changes
from fabriclab.engines.packet import own

LIMITS = (20e3, 80e3, 0.2)


def few(**config):
    """Return four senders with 200 kB each, small enough for plain Python."""
    return scenarios.incast(4, "200 kB", sample="0.5 us", lossless="none", **config)


def red(queue):
    """Return the chance of the library's rule with `LIMITS`."""
    low, high, most = LIMITS
    if queue <= low:
        return 0.0
    if queue > high:
        return 1.0
    return most * (queue - low) / (high - low)


def cut_and_rise(rate, marked, line):
    return rate * (1 - marked / 2) if marked > 0 else rate + line / 100


def test_a_marking_function_marks_the_packets_that_the_library_marks():
    # The same rule draws the same numbers, so the runs are equal to the bit.
    written = few(marking=red).play(control="dctcp")
    library = few(marking=LIMITS).play(control="dctcp", plain=True)
    assert written.marks.sum() > 0
    np.testing.assert_array_equal(written.marks, library.marks)
    np.testing.assert_array_equal(written.finish, library.finish)
    assert not written.compiled


def test_a_rule_that_never_marks_is_no_rule():
    none = few(marking=lambda queue: 0.0).play(control=cut_and_rise)
    assert none.marks.sum() == 0
    assert none.last_finish == few(marking=()).play(**scenarios.LINE_RATE).last_finish


def test_a_control_function_shortens_the_queue_and_saves_no_time():
    free = few().play(**scenarios.LINE_RATE)
    tame = few(marking=LIMITS).play(control=cut_and_rise)
    assert tame.peak.max() < free.peak.max()
    assert tame.last_finish >= free.last_finish


def test_a_control_function_is_asked_once_in_a_round_trip():
    asked = []

    def listen(rate, line, marked, delay):
        asked.append((rate, line, marked, delay))
        return rate

    run = few(marking=LIMITS).play(control=listen)
    assert {line for _, line, _, _ in asked} == {50e9}
    assert all(0 <= marked <= 1 and delay >= 0 for _, _, marked, delay in asked)
    # 49 packets of each of the four senders; the queue makes round trips of up to 13 us.
    assert 4 <= len(asked) < run.packets.sum() / 4


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"control": lambda speed: speed}, "rate, line, marked, delay"),
        ({"control": lambda: 1.0}, "got none"),
        ({"control": lambda rate: None}, "returned None; it must return a number"),
        ({"control": lambda rate: rate, "marking": lambda queue: 2}, "within 0..1, got 2"),
        ({"control": lambda rate: rate, "marking": lambda queue: None}, "must return a number"),
    ],
)
def test_a_function_that_cannot_work_is_refused(config, said):
    with pytest.raises(ValueError, match=said):
        few().play(**config)


# Balancers ------------------------------------------------------------------------------------------------------------


def collision(**config):
    """Return four flows on four paths, the last of which has half of the rate; small enough for plain Python."""
    return scenarios.ecmp_collision(4, "200 kB", slow_path=0.5, recovery="selective", **config)


def shortest(queues, turn):
    """Return what the library's adaptive routing chooses: the shortest queue, ties from the one after `turn` on."""
    after = [(turn + 1 + step) % len(queues) for step in range(len(queues))]
    return min(after, key=lambda port: queues[port])


def test_a_balancing_function_that_is_adaptive_routing_gives_the_same_run():
    written = collision().play(balance=shortest)
    library = collision().play(balance="adaptive", plain=True)
    np.testing.assert_array_equal(written.finish, library.finish)
    np.testing.assert_array_equal(written.sent, library.sent)
    assert not written.compiled


def test_a_balancing_function_that_takes_turns_is_spraying():
    written = collision().play(balance=lambda turn: turn)
    library = collision().play(balance="spray", plain=True)
    np.testing.assert_array_equal(written.finish, library.finish)


def test_a_balancing_function_sees_the_bytes_in_front_of_each_port():
    seen = []

    def look(queues, turn):
        seen.append((list(queues), turn))
        return 0

    run = collision().play(balance=look)
    assert len(seen) == run.packets.sum()  # once for each packet, at the one switch with a choice
    assert all(len(queues) == 4 and 0 <= turn < 4 for queues, turn in seen)
    assert all(queues[1:] == [0, 0, 0] for queues, _ in seen)
    assert max(queues[0] for queues, _ in seen) == pytest.approx(run.peak.max(), abs=2 * 4158)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda queue: 0, "queues, turn, or one of them; got queue"),
        (lambda: 0, "got none"),
        (lambda queues: None, "returned None; it must return the place of a port, 0..3"),
        (lambda queues: 0.5, "returned 0.5"),
        (lambda queues: 4, "returned 4, and there are 4 ports"),
        (lambda queues: -1, "returned -1"),
    ],
)
def test_a_balancing_function_that_cannot_work_is_refused(function, said):
    with pytest.raises(ValueError, match=said):
        collision().play(balance=function)


def test_a_failed_port_is_not_offered():
    lab = collision(timeout="50 us")
    last_spine = int(np.flatnonzero(lab.fabric.tier == 2)[-1])
    uplink = int(np.flatnonzero(lab.fabric.target == last_spine)[0])
    cut = replace(lab, changes=Changes("2 us", [uplink], 0.0))
    offered = []
    cut.play(balance=lambda queues, turn: offered.append(len(queues)) or turn)
    assert offered[0] == 4
    assert offered[-1] == 3


def test_a_rate_stays_between_a_thousandth_and_the_line_rate():
    loop = own.control_of(lambda rate: -1.0)
    numbers = [0.0] * 20
    numbers[own.LINE], numbers[own.ROUND_TRIP] = 50e9, 1e6
    loop.on_start((), numbers, 0, 0)
    assert numbers[own.RATE] == 50e9
    loop.on_feedback((), numbers, 0, 2_000_000, 1_500_000, 4096, 0, 0, -1.0)
    assert numbers[own.RATE] == 50e6
