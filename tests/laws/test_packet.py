"""Laws of the packet engine: nothing is lost where that is promised, nothing is counted twice, nothing is too early."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import compiled, engines, registry
from fabriclab.core import PATH
from fabriclab.engines.packet import LOG_KINDS, Trace, play, state
from support import packet_runs as runs

SEEDS = st.integers(0, 2**32 - 1)
FAST = pytest.mark.skipif(
    not compiled.ready(),
    reason="kernels are not compiled: python -m fabriclab.compiled does it",
)


# Buffers --------------------------------------------------------------------------------------------------------------


def look_at_buffers(lists, settings):
    """Check all that buffers promise, between two events."""
    classes = lists.whole[state.CLASSES]
    shared = [0] * len(lists.nodes)
    stored = [0] * len(lists.nodes)
    waiting = [0] * len(lists.nodes)
    slow = [node.drain > 0 for node in lists.nodes]
    source = {}
    for number, queue in enumerate(lists.queues):
        link = lists.links[number // classes]
        back = lists.links[(number // classes) ^ 1]
        source[number // classes] = back.target
        shared[link.target] += queue.shared
        stored[link.target] += queue.stored
        waiting[back.target] += queue.bytes
        assert queue.bytes >= 0
        assert queue.stored >= 0
        if queue.mode == state.PAUSING:
            assert 0 <= queue.spare <= queue.headroom
            beyond = queue.stored - queue.spare - lists.whole[state.RESERVE]
            assert queue.shared == max(0, beyond)
        if queue.mode == state.CREDITS:
            assert queue.credit >= 0
    for number, node in enumerate(lists.nodes):
        assert node.used == shared[number]
        assert 0 <= node.used <= node.buffer
        if not slow[number]:
            assert waiting[number] == stored[number]


@given(SEEDS)
def test_buffers_keep_their_bounds_and_every_byte_arrives_once(seed):
    """Sent = delivered + lost + still under way, and each byte counts once, whatever is sent again."""
    scenario = runs.random_scenario(seed)
    end = runs.walk(scenario, look_at_buffers, every=101)
    conns = end.conns
    assert all(conn.state == state.DONE for conn in conns)
    assert end.whole[state.DELIVERED] == int(scenario.flows.size.sum())
    assert all(conn.received == conn.packets for conn in conns)


@given(SEEDS)
def test_packets_sent_are_those_that_came_were_lost_or_are_under_way(seed):
    scenario = runs.random_scenario(seed, grants=False)
    config = {**scenario.config, "log": 100_000}
    trace = play(*scenario[:3], None, config, np.random.default_rng(1), plain=runs.PLAIN)
    kinds = {name: trace.log[:, 1] == i for i, name in enumerate(LOG_KINDS)}
    first = [scenario.routes.row(r)[0] for r in range(scenario.routes.n_rows)]
    sent = int(np.sum(kinds["sent"] & np.isin(trace.log[:, 5], first)))
    came = int(kinds["came"].sum())
    assert sent == trace.packets.sum() + trace.resent.sum()
    assert sent == came + trace.dropped.sum() + runs.under_way(scenario)
    assert trace.dropped.sum() == kinds["dropped"].sum()
    numbers = trace.log[kinds["came"]][:, 3:5]
    assert len(np.unique(numbers, axis=0)) == trace.packets.sum()


@pytest.mark.parametrize("seed", range(50))
def test_headroom_by_the_formula_loses_nothing(seed):
    check_nothing_is_lost(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_headroom_by_the_formula_loses_nothing_in_a_thousand_runs(hundred):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check_nothing_is_lost(seed)


def check_nothing_is_lost(seed):
    scenario = runs.pausing_scenario(seed)
    trace = play(*scenario[:3], None, scenario.config, plain=runs.PLAIN)
    assert trace.drops.sum() == 0
    assert trace.resent.sum() == 0
    assert np.all(np.isfinite(trace.finish))


def test_random_runs_would_lose_with_half_of_the_headroom():
    """The scenarios of the law do fill headrooms: with half of it, several lose packets."""
    losing = 0
    for seed in range(16):
        scenario = runs.pausing_scenario(seed)
        needed = runs.headroom_needed(
            scenario.fabric.capacity,
            scenario.fabric.capacity,
            scenario.fabric.delay,
            scenario.fabric.delay,
            runs.Settings.of(scenario.config),
        )
        frame = scenario.config["payload"] + runs.HEADER
        config = scenario.config | {"headroom": max(frame, needed.min() / 2)}
        trace = play(*scenario[:3], None, config, plain=runs.PLAIN)
        losing += int(trace.drops.sum() > 0)
    assert losing >= 2


# Order and time -------------------------------------------------------------------------------------------------------


@given(SEEDS)
def test_one_path_keeps_the_order(seed):
    """On one path the packets that come are, in the same order, among those that were sent."""
    scenario = runs.random_scenario(
        seed, balance="pinned", recovery="go_back_n", grants=False, log=4_000
    )
    trace = play(*scenario[:3], None, scenario.config, np.random.default_rng(1), plain=runs.PLAIN)
    sent = trace.log[trace.log[:, 1] == LOG_KINDS.index("sent")]
    came = trace.log[trace.log[:, 1] == LOG_KINDS.index("came")]
    first = [scenario.routes.row(r)[0] for r in range(scenario.routes.n_rows)]
    for conn in range(trace.flow.size):
        order = iter(sent[(sent[:, 3] == conn) & np.isin(sent[:, 5], first)][:, 4].tolist())
        assert all(number in order for number in came[came[:, 3] == conn][:, 4].tolist())
    if scenario.config["loss"] == 0 and trace.dropped.sum() == 0 and trace.resent.sum() == 0:
        for conn in range(trace.flow.size):
            assert np.all(np.diff(came[came[:, 3] == conn][:, 4]) == 1)


@given(SEEDS)
def test_no_flow_ends_before_its_ideal(seed):
    scenario = runs.random_scenario(seed, balance="pinned", jitter=0.0)
    trace = play(*scenario[:3], None, scenario.config, np.random.default_rng(1), plain=runs.PLAIN)
    ideal = engines.run(scenario.fabric, scenario.routes, scenario.flows, "ideal")
    rounding = 1e-11 + 1.0 / scenario.fabric.capacity.min()  # shares of a flow are whole bytes
    assert np.all(trace.finish >= ideal.finish - rounding)


@st.composite
def lines(draw):
    """Draw a line of links, sizes of packets, and whether switches cut through."""
    hops = draw(st.integers(1, 5))
    rate = draw(st.lists(st.sampled_from([12.5e9, 25e9, 50e9]), min_size=hops, max_size=hops))
    delay = draw(st.lists(st.integers(0, 5000), min_size=hops, max_size=hops))  # [ns]
    payload = draw(st.sampled_from([256, 1500, 4096]))
    size = draw(st.integers(1, 30 * payload))
    return rate, [d * 1e-9 for d in delay], payload, size, draw(st.booleans())


@given(lines())
def test_one_flow_alone_passes_a_line_of_switches_as_a_pipeline(drawn):
    """A packet leaves a switch when it is there and the packet before it has left: an oracle of a few lines."""
    rate, delay, payload, size, cut_through = drawn
    hops = len(rate)
    nodes = [0, *range(2, hops + 1), 1]
    fabric = runs.network(list(pairwise(nodes)), 2, hops - 1, rate=rate, delay=delay)
    path = list(range(0, 2 * hops, 2))
    trace = runs.run(
        fabric,
        [path],
        size,
        payload=payload,
        cut_through=cut_through,
        control_options={"window": "10 MB"},
        buffer="1 GB",
        timeout=1.0,
    )
    n = -(-size // payload)
    sizes = np.full(n, payload + runs.HEADER)
    sizes[-1] = size - (n - 1) * payload + runs.HEADER
    there = np.zeros(n)  # when a packet may leave
    left = np.zeros(n)
    for hop in range(hops):
        time = (sizes + runs.GAP) / rate[hop]
        free = 0.0
        begin = np.zeros(n)
        for k in range(n):
            begin[k] = max(there[k], free)
            free = begin[k] + time[k]
        left = begin + time + delay[hop]
        there = left
        if cut_through and hop + 1 < hops:
            head = (np.minimum(64, sizes) + runs.GAP) / rate[hop]
            following = (sizes + runs.GAP) / rate[hop + 1]
            there = np.maximum(begin + head + delay[hop], left - following)
    assert trace.finish[0] == pytest.approx(left[-1], abs=1e-11 * (n + hops))

    # The flow engine knows no packets: what it leaves out are headers, and one packet on each hop.
    fluid = engines.run(
        fabric,
        runs.along(path),
        runs.between(fabric, runs.along(path), size),
        "flow",
    ).finish[0]
    fluid += sum(delay) if fluid < size / min(rate) + 0.5 * sum(delay) else 0.0
    headers = n * (runs.HEADER + runs.GAP) / min(rate)
    one_each = sum((payload + runs.HEADER + runs.GAP) / r for r in rate)
    assert fluid - 1e-10 <= trace.finish[0] <= fluid + headers + one_each


@given(st.integers(2, 6), st.integers(64, 4096), st.booleans())
def test_each_switch_costs_a_packet_or_a_header(hops, payload, cut_through):
    """Store-and-forward: hops x (packet + delay). Cut-through: packet + hops x delay + a header for each switch."""
    delay = 100e-9
    nodes = [0, *range(2, hops + 1), 1]
    fabric = runs.network(list(pairwise(nodes)), 2, hops - 1, delay=delay)
    path = list(range(0, 2 * hops, 2))
    trace = runs.run(fabric, [path], payload, payload=payload, cut_through=cut_through)
    packet = (payload + runs.HEADER + runs.GAP) / runs.RATE
    header = (64 + runs.GAP) / runs.RATE
    expected = hops * (packet + delay)
    if cut_through:
        expected = packet + hops * delay + (hops - 1) * header
    assert trace.finish[0] == pytest.approx(expected, abs=1e-11)


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_lower_class_goes_first(first, second):
    """Of two flows to one port, the one in class 0 takes as long as alone, but for one packet that is being sent."""
    fabric = runs.star(3, delay=50e-9)
    size = [first * 4096, second * 4096]
    both = runs.run(
        fabric,
        [[0, 5], [2, 5]],
        size,
        columns={"label": [0, 1], "labels": ("urgent", "bulk")},
        classes={"urgent": 0, "bulk": 1},
        control_options={"window": "10 MB"},
    )
    alone = runs.run(fabric, [[0, 5]], size[:1], control_options={"window": "10 MB"})
    packet = (4096 + runs.HEADER + runs.GAP) / runs.RATE
    assert alone.finish[0] <= both.finish[0] <= alone.finish[0] + packet
    work = (first + second + 1) * packet + 100e-9
    assert both.finish[1] == pytest.approx(work, abs=packet + 1e-12)


# The same numbers -----------------------------------------------------------------------------------------------------


def same_traces(one, other):
    """Return the names of the fields in which two traces differ."""
    different = []
    for field in fields(Trace):
        if field.name != "compiled" and not np.array_equal(
            getattr(one, field.name), getattr(other, field.name)
        ):
            different.append(field.name)
    return different


WATCH = {
    "log": 5000,
    "sample": "20 us",
    "until": "20 ms",
    "watch_links": (0, 1, 5),
    "watch_flows": (0,),
}


@given(SEEDS)
def test_one_seed_gives_one_run(seed):
    scenario = runs.random_scenario(seed, **WATCH)
    once, again = (
        play(*scenario[:3], None, scenario.config, np.random.default_rng(5), plain=runs.PLAIN)
        for _ in range(2)
    )
    assert not same_traces(once, again)


@FAST
@pytest.mark.parametrize("balance", registry.names("balance"))
@pytest.mark.parametrize("control", registry.names("control"))
def test_compiled_kernels_give_the_same_bits(control, balance):
    for seed in range(2):
        scenario = runs.random_scenario(seed, control=control, balance=balance, **WATCH)
        plain, fast = (
            play(*scenario[:3], None, scenario.config, np.random.default_rng(5), plain=is_plain)
            for is_plain in (True, False)
        )
        assert fast.compiled
        assert not plain.compiled
        assert not same_traces(plain, fast)


@FAST
@given(SEEDS)
def test_compiled_kernels_give_the_same_bits_for_pauses(seed):
    scenario = runs.pausing_scenario(seed)
    plain, fast = (
        play(*scenario[:3], None, scenario.config | WATCH, plain=is_plain)
        for is_plain in (True, False)
    )
    assert not same_traces(plain, fast)


def test_routes_of_these_runs_are_paths():
    scenario = runs.random_scenario(1)
    assert np.all(scenario.routes.kind == PATH)
