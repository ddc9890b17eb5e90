"""Scenarios of the packet engine: all of them play, and show what they promise."""

import dataclasses

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import compiled, registry, scenarios
from fabriclab.engines.packet.trace import jain

LINE = scenarios.LINE_RATE


def small(name):
    return scenarios.build(name, **registry.info("scenario", name)["small"])


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_plays_to_its_end(name):
    scenario = small(name)
    assert scenario.name == name
    trace = scenario.play()
    assert np.isfinite(trace.finish).all()
    assert not trace.failed.any()
    moves = trace.size > 0
    assert (trace.slowdown[moves] >= 1 - 1e-9).all()
    assert (trace.goodput[moves] > 0).all()
    assert 0 < trace.fairness <= 1 + 1e-12
    for link in scenario.links.values():
        assert trace.queue_of(link).shape == trace.times.shape
        assert trace.paused_of(link).shape == trace.times.shape
    for flows in scenario.groups.values():
        assert max(flows) < scenario.flows.n_flows
    assert scenario.shows in scenario._repr_html_()
    assert "goodput" in trace._repr_html_()


@pytest.mark.skipif(not compiled.ready(), reason="no compiled kernels to compare with")
@pytest.mark.parametrize("name", ["fan_out", "victim", "mixed_tenants"])
def test_compiled_and_plain_agree_to_the_bit(name):
    scenario = small(name)
    fast, plain = scenario.play(), scenario.play(plain=True)
    assert fast.compiled
    assert not plain.compiled
    for field in dataclasses.fields(fast):
        if field.name != "compiled":
            np.testing.assert_array_equal(
                getattr(fast, field.name), getattr(plain, field.name), err_msg=field.name
            )


def test_a_buffer_lasts_as_long_as_arithmetic_says():
    # 1/8 of the published case: 8 MB last an eighth of 41.3 us, plus the first packet's way.
    expected = scenarios.time_to_fill(32, "400 Gb/s", "8 MB")
    assert expected == pytest.approx(41.29e-6 / 8, rel=1e-3)
    scenario = scenarios.incast(
        32, "400 kB", buffer="8 MB", lossless="none", drop_share=64, log=20_000, **LINE
    )
    trace = scenario.play(until=expected * 1.5)
    dropped = trace.log[trace.log[:, 1] == fl.engines.packet.LOG_KINDS.index("dropped")]
    first_packet = 4178 / 50e9 + scenario.fabric.delay[0]
    assert dropped[0, 0] * 1e-12 == pytest.approx(expected * 64 / 65 + first_packet, rel=0.02)


def test_a_flow_alone_takes_the_time_alone():
    for hosts, size in ((1, 1), (1, 4096), (1, 4097), (1, 100_000)):
        trace = scenarios.incast(hosts, size, **LINE).play()
        assert trace.slowdown[0] == pytest.approx(1, abs=1e-6), size
    for cut_through in (False, True):
        scenario = scenarios.ecmp_collision(1, "50 kB", paths=2, cut_through=cut_through)
        assert scenario.play().slowdown[0] == pytest.approx(1, abs=1e-3)


def test_a_pause_comes_before_marks_if_one_ingress_feeds_many_ports():
    many = scenarios.fan_out(8, "500 kB").play()
    assert many.pauses.sum() > 0
    assert many.marks.sum() == 0
    assert many.slowdown[0] > 5  # the victim's port is idle
    one = scenarios.fan_out(1, "500 kB").play()
    assert one.marks.sum() > 0
    without = scenarios.fan_out(8, "500 kB").play(lossless="none")
    assert without.slowdown[0] < many.slowdown[0] / 2


def test_a_victim_waits_only_where_cables_are_paused():
    scenario = scenarios.victim(4, "500 kB")
    paused = scenario.play()
    free = scenario.play(lossless="none", until="1 ms")
    assert paused.paused[scenario.links["cable"]].sum() > 0
    assert paused.slowdown[0] > 2.5
    assert free.slowdown[0] < 1.1
    paced = scenarios.paced(scenario).play()
    assert paced.pauses.sum() == 0
    assert paced.slowdown[0] < 1.1


def test_three_buffers_wait_for_each_other():
    with pytest.raises(fl.errors.Deadlock, match="circle"):
        scenarios.cyclic_dependency("200 kB").play()
    trace = scenarios.cyclic_dependency("200 kB").play(lossless="none")
    assert np.isfinite(trace.finish).all()


@pytest.mark.parametrize("metres", [10, 500, 1000])
def test_credits_last_as_long_as_the_loop(metres):
    scenario = scenarios.credit_loop(f"{metres} m", "2 MB")
    link = scenario.links["long cable"]
    delay = scenario.fabric.delay
    packet = 4178 / 50e9
    loop = delay[link] + delay[link ^ 1] + packet
    window = 128 * 1024 // 4158  # packets that the credit covers
    trace = scenario.play()
    before = int(trace.packets[0]) - 1  # packets before the last one
    by_credit = before // window * loop + before % window * packet
    last = 2 * packet + 2 * delay[link]  # over both cables
    expected = max(before * packet, by_credit) + last
    assert trace.duration[0] == pytest.approx(expected, rel=0.01)


def test_priority_keeps_small_collectives_short():
    alone = scenarios.mixed_tenants(4, 4, bulk=0).play().time_of("small")
    shared = scenarios.mixed_tenants(4, 4, bulk="4 MB", **LINE).play().time_of("small")
    first = scenarios.mixed_tenants(4, 4, bulk="4 MB", own_class=True, **LINE)
    assert shared > 3 * alone
    assert first.play().time_of("small") < 1.3 * alone


def test_a_neighbour_slows_a_small_collective_unless_it_goes_first_or_has_cables_of_its_own():
    times = {}
    for sharing in ("alone", "sharing", "priority", "own cables"):
        scenario = scenarios.neighbour(sharing, 4, "16 KiB", "500 kB", seed=1)
        begin = scenario.flows.start.min()
        times[sharing] = scenario.play().time_of("small") - begin
    assert times["alone"] <= times["priority"] < times["sharing"]
    assert times["own cables"] < times["sharing"]
    own = scenarios.neighbour("own cables", 4, seed=1)
    spine = int(np.flatnonzero(own.fabric.tier == 2)[0])
    for r in range(own.routes.n_rows):
        nodes = own.fabric.target[own.routes.row(r)]
        crosses = own.fabric.tier[nodes] == 2
        if crosses.any():
            is_small = own.routes.flow[r] in own.groups["small"]
            assert (nodes[crosses] == spine).all() == is_small


def test_go_back_n_and_spraying_over_unequal_paths_collapse():
    scenario = scenarios.ecmp_collision(4, "500 kB", slow_path=0.5)
    table = scenarios.matrix(
        scenario,
        {"go-back-N": {}, "selective": {"recovery": "selective"}},
        {"hash": {}, "spray": {"balance": "spray"}},
    )
    last = table.last_finish()
    assert last.shape == (2, 2)
    assert last[0, 1] > 2 * last[1, 1]
    assert table.traces[0][1].sent_again > 0.3
    assert "sent again" in repr(table)


def test_a_cable_behind_the_spine_is_seen_by_the_sender_and_not_by_the_leaf():
    last = {}
    for cables in ("all", "behind"):
        plan = scenarios.ecmp_collision(
            8, "500 kB", slow_path=0.25, slow_cables=cables, recovery="selective"
        )
        slow = plan.fabric.capacity < plan.fabric.capacity.max()
        assert slow.sum() == (4 if cables == "all" else 1)
        for rule in ("adaptive", "path_aware"):
            last[cables, rule] = plan.play(balance=rule).last_finish
    assert last["behind", "adaptive"] > 1.5 * last["all", "adaptive"]
    assert last["behind", "path_aware"] < last["behind", "adaptive"] / 1.5
    with pytest.raises(ValueError, match="slow_cables"):
        scenarios.ecmp_collision(4, "1 kB", slow_cables="before")


def test_a_path_aware_sender_goes_on_if_all_paths_have_long_queues():
    plan = scenarios.incast(4, "300 kB", **LINE, balance="path_aware")
    assert np.isfinite(plan.play().finish).all()
    with pytest.raises(ValueError, match="mark"):
        plan.play(balance_options={"mark": 0})


def test_a_comparison_lists_what_runs_did():
    scenario = scenarios.incast(8, "300 kB", buffer="4 MB")
    table = scenarios.compare(scenario, {"line rate": dict(LINE), "HPCC": {"control": "hpcc"}})
    queue = table.figure("peak queue [B]")
    assert queue[0] > 2 * queue[1]
    assert [row[1] for row in table.rows()[1:]] == ["none", "queues and rates (INT)"]
    assert table["HPCC"].drops.sum() == 0
    assert table.figure("mean queue [B]")[1] == pytest.approx(
        table["HPCC"].queue_of(scenario.links["port"]).mean()
    )
    with pytest.raises(KeyError, match="line rate, HPCC"):
        table["TCP"]


def test_a_limit_paces_a_flow():
    scenario = scenarios.incast(1, "400 kB", **LINE)
    slow = dataclasses.replace(scenario.flows, limit=np.array([5e9]))
    trace = dataclasses.replace(scenario, flows=slow).play()
    packets = -(-400_000 // 4096)
    assert trace.duration[0] == pytest.approx((packets - 1) * 4178 / 5e9, rel=0.02)


def test_a_new_control_loop_comes_without_old_options():
    scenario = scenarios.incast(2, "10 kB", **LINE)
    assert scenario.with_(control="hpcc").config.get("control_options") is None
    assert scenario.with_(buffer="1 MB").config["control_options"]["window"] == "1 TB"
    with pytest.raises(ValueError, match="windows"):
        scenario.with_(windows=3)
    with pytest.raises(TypeError, match="read-only"):
        scenario.config["buffer"] = 0


def test_fairness_of_known_shares():
    assert jain([2, 2, 2, 2]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([1, 3]) == pytest.approx(16 / 20)
    assert np.isnan(jain([]))


def test_series_that_were_not_watched_are_refused():
    trace = scenarios.incast(2, "10 kB").play()
    with pytest.raises(ValueError, match="watch_links"):
        trace.queue_of(0)
    with pytest.raises(ValueError, match="watch_flows"):
        trace.rate_of(7)
