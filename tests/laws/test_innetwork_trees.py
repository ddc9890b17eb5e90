"""Aggregation trees: they add everything once, carry S on each link, keep quotas, and re-root."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import catalog, collectives, engines, routing, topologies
from fabriclab.collectives import bounds, execute
from fabriclab.errors import NoPath, OutOfSlots
from fabriclab.innetwork.trees import Manager, Mode, adders, grow, recovery, run, shared
from fabriclab.lower import lower

PLAIN = Mode(1024.0)
FABRICS = {
    "leaf_spine": topologies.build("leaf_spine", hosts=32, radix=8),
    "fat_tree": topologies.build("fat_tree", k=4),
    "rails": topologies.build("rail_optimised", servers=16),
    "rail_nics": topologies.build("rail_optimised", servers=16, expand=False),
    "crossbar": topologies.build("crossbar", hosts=9),
    "dragonfly": topologies.build("dragonfly", p=2, a=4, h=2),
    "jellyfish": topologies.build("jellyfish", switches=12, degree=4, hosts=2, seed=1),
}


def star(n=8, rate="400 Gb/s", delay="1 us"):
    return topologies.build("crossbar", hosts=n, rate=rate, delay=delay)


# ------------------------------------------------------------------ laws


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FABRICS)), st.data())
def test_the_root_gets_the_sum_of_all_once_and_each_link_carries_the_array_once(name, data):
    fabric = FABRICS[name]
    one = np.flatnonzero(fabric.rail == 0) if name.startswith("rail") else np.arange(fabric.n_ranks)
    ranks = np.array(
        data.draw(st.lists(st.sampled_from(one.tolist()), min_size=2, max_size=12, unique=True))
    )
    tree = grow(fabric, ranks, PLAIN)
    rng = np.random.default_rng(0)
    given_ = [rng.integers(0, 1000, 5) for _ in ranks]
    out = execute(tree.schedule, given_)
    assert all(np.array_equal(o, sum(given_)) for o in out)
    size = 1e6
    found = run([tree], size)
    both = np.concatenate([tree.links, tree.links ^ 1])
    expected = np.zeros(fabric.n_links)
    expected[both] = size
    assert np.array_equal(found.link_bytes, expected)
    # A tree: one link up for each node but the root; branches meet in switches that add only.
    assert np.unique(fabric.source[tree.links]).size == tree.links.size
    assert adders(fabric)[tree.switches].all()
    members = np.unique(np.append(fabric.source[tree.links], tree.switches[-1]))
    assert members.size == tree.links.size + 1 and np.isin(fabric.endpoint[ranks], members).all()
    port = float(fabric.capacity[both].min())
    least = bounds("all_reduce", ranks.size, size, port_rate=port, machine="aggregation")[0].seconds
    assert found.end >= least and found.end == pytest.approx(
        least + tree.round_trip(1024) - 1024 / port
    )


@pytest.mark.parametrize("name", ["leaf_spine", "fat_tree", "crossbar"])
def test_the_fluid_tree_is_the_limit_of_its_pipelined_schedule(name):
    fabric, size = FABRICS[name], 1e8
    # a barrier after each step would add them up
    fabric = replace(fabric, delay=np.zeros(fabric.n_links))
    tree = grow(fabric, np.arange(8), Mode(size / 256))
    plan = tree.schedule.segmented(256, pipelined=True)
    flows = lower(plan, fabric, size, placement=tree.ranks, switches=tree.switches)
    stepped = engines.run(fabric, routing.route(fabric, flows, "ecmp"), flows)
    fluid = run([tree], size)
    assert fluid.end == pytest.approx(stepped.end, rel=1e-9)
    if name == "crossbar":  # else it may choose other parallel ways
        assert np.allclose(stepped.link_bytes, fluid.link_bytes)
    assert stepped.link_bytes.sum() == pytest.approx(fluid.link_bytes.sum())


def test_latency_grows_with_the_depth_and_that_of_a_ring_with_the_ranks():
    hop, times = 1e-6, {}
    for name, fabric in {
        "one tier": star(16),
        "two": topologies.build("leaf_spine", hosts=32, radix=8),
        "three": topologies.build("fat_tree", k=8),
    }.items():
        fabric = replace(fabric, delay=np.full(fabric.n_links, hop))
        times[name] = run(
            [grow(fabric, np.arange(0, fabric.n_ranks, fabric.n_ranks // 16), PLAIN)], 0
        ).end
    assert times == pytest.approx({"one tier": 2 * hop, "two": 4 * hop, "three": 6 * hop})


def test_two_trees_on_one_link_share_it_and_on_others_they_do_not():
    fabric = star(8)
    size, rate = 1e9, float(fabric.capacity[0])
    apart = run([grow(fabric, [0, 1, 2, 3], PLAIN), grow(fabric, [4, 5, 6, 7], PLAIN)], size)
    shared = run([grow(fabric, [0, 1, 2, 3], PLAIN), grow(fabric, [3, 4, 5, 6], PLAIN)], size)
    assert apart.end == pytest.approx(size / rate, rel=1e-3) and shared.end == pytest.approx(
        2 * size / rate, rel=1e-3
    )


# ------------------------------------------------------------------ modes


def test_low_latency_is_limited_by_its_window_and_by_the_adding_of_operations():
    fabric = star(8, delay="10 us")
    tree = grow(fabric, np.arange(8), Mode(1000.0, window=4))
    trip = 4 * 1e-5 / 2 + 2 * 1000 / 5e10
    assert tree.round_trip(1000) == pytest.approx(trip)
    assert tree.limit() == pytest.approx(4 * 1000 / trip)
    assert run([tree], 1e8).end == pytest.approx(1e8 * trip / 4000, rel=1e-2)
    slow = replace(tree, mode=Mode(1000.0, seconds=1e-6))
    assert slow.limit() == pytest.approx(1e9)
    assert replace(tree, mode=Mode(1000.0, part=0.5)).limit() == pytest.approx(2.5e10)
    assert replace(tree, mode=Mode(1000.0, header=250.0, host=1e9)).limit() == pytest.approx(1.25e9)
    down = replace(tree, fabric=fabric.with_capacity([1], 1e9), mode=Mode(1000.0, part=0.5))
    assert down.limit() == pytest.approx(5e8) and run([down], 1e8).end == pytest.approx(
        0.2, rel=1e-2
    )
    wrapped = run([replace(tree, mode=Mode(1000.0, header=250.0))], 1e8)
    assert wrapped.link_bytes.max() == pytest.approx(1.25e8)


def test_jobs_on_one_switch_share_its_operations():
    fabric, mode = star(8), Mode.sharp(False, 0.2)
    trees = [grow(fabric, [j, j + 4], mode) for j in range(4)]
    alone, all_ = run(trees[:1], "1 MiB").end, run(trees, "1 MiB").end
    assert all_ == pytest.approx(4 * alone, rel=1e-2)
    busy = [
        replace(trees[0], mode=Mode(1000.0, seconds=1e-6)),
        replace(trees[1], mode=Mode(500.0, seconds=2e-6)),
    ]
    assert [t.mode.seconds for t in shared(busy)] == pytest.approx([3e-6, 3e-6])
    two = topologies.build("leaf_spine", hosts=32, radix=8)
    apart = [grow(two, [j, j + 1], mode) for j in (0, 4)]  # under leaves of their own
    assert run(apart, "1 MiB").end == pytest.approx(run(apart[:1], "1 MiB").end)
    stream = [grow(fabric, [j, j + 4], Mode.sharp(True)) for j in range(4)]
    assert run(stream, "1 MiB").end == pytest.approx(run(stream[:1], "1 MiB").end)


def test_streaming_wins_for_large_arrays_and_loses_nothing_for_small_ones():
    fabric = FABRICS["leaf_spine"]
    low, stream = (grow(fabric, np.arange(32), Mode.sharp(s)) for s in (False, True))
    assert run([low], "1 GiB").end > 20 * run([stream], "1 GiB").end
    ring = collectives.closed_form("all_reduce", "ring")
    assert run([low], 8).end < 1e-5 < float(ring(8, 32, 1e-6, 5e10))
    # low latency, large messages
    assert run([low], "1 GiB").end > float(ring(2**30, 32, 1e-6, 5e10))


# ------------------------------------------------------------------ quotas


def test_jobs_share_switches_until_the_quota_refuses_and_says_who_holds_it():
    manager = Manager(star(8))
    for job in range(5):  # 20 % each
        manager.start(f"job {job}", np.arange(8))
    with pytest.raises(
        OutOfSlots,
        match=r"job 'late' .*switch by job 0, job 1, .*smaller part",
    ):
        manager.start("late", np.arange(8))
    manager.end("job 3")
    assert manager.start("late", np.arange(8)).switches.tolist() == [8]
    assert manager.holders() == {8: ["job 0", "job 1", "job 2", "job 4", "late"]}
    with pytest.raises(OutOfSlots):
        manager.start("small", np.arange(8), part=0.01)
    many = Manager(star(8))
    assert many.start("all", np.arange(8), part=1.0).mode.window == 8
    # 0.4 % of 767 operations
    assert Manager(star(8)).start("few", np.arange(8), part=0.004).mode.window == 3


def test_a_full_spine_is_avoided_while_there_is_another():
    fabric = topologies.build("leaf_spine", hosts=32, radix=8)
    manager, roots = Manager(fabric, trees=1), []
    for job in range(4):
        roots.append(manager.start(str(job), np.arange(job, 32, 4)).switches.tolist())
    assert len({node for root in roots for node in root}) == 4 and all(
        len(root) == 1 for root in roots
    )
    with pytest.raises(OutOfSlots, match=r"spine \d by 0; spine \d by"):
        manager.start("fifth", [0, 4])


def test_a_link_carries_one_streaming_job_and_a_switch_as_many_as_it_is_given():
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    manager = Manager(fabric)
    a, b = (manager.start(str(j), np.arange(j, 8, 2), streaming=True) for j in range(2))
    assert not np.intersect1d(a.links, b.links).size
    assert manager.start("low", np.arange(8)).ranks.size == 8  # low latency does not mind
    with pytest.raises(OutOfSlots, match="links by 0, 1; end a job"):
        manager.start("2", [0, 2], streaming=True)
    one = Manager(star(8), streams=1)
    one.start("0", [0, 1], streaming=True)
    with pytest.raises(OutOfSlots, match="switch by 0"):
        one.start("1", [2, 3], streaming=True)


def test_parallel_cables_are_shared_out():
    fabric = topologies.build("leaf_spine", hosts=64, radix=16)
    assert fabric.links_between(*(int(fabric.nodes(k)[0]) for k in ("leaf", "spine"))).size > 1
    manager = Manager(fabric)
    used = np.concatenate(
        [manager.start(str(j), np.arange(j, 64, 8), part=0.1).links for j in range(8)]
    )
    assert np.unique(used).size == used.size


# ------------------------------------------------------------------ faults


def test_a_dead_switch_is_replaced_or_the_job_goes_on_without():
    fabric = topologies.build("leaf_spine", hosts=32, radix=8)
    manager = Manager(fabric)
    tree = manager.start("a", np.arange(0, 32, 4))
    other = manager.start("b", np.arange(4))  # under one leaf
    root = int(tree.switches[-1])
    found = manager.fail(root)
    assert (
        set(found) == {"a"}
        and found["a"].switches[-1] != root
        and manager.jobs["b"].switches.tolist() == [*other.switches]
    )
    assert np.isfinite(run([*manager.jobs.values()], 1e6).end)
    leaf = int(other.switches[-1])
    assert manager.fail(leaf) == {"a": None, "b": None} and not manager.jobs


def test_the_time_of_recovery_is_told_by_its_parts():
    parts = recovery()
    assert parts["hosts_give_up"] == pytest.approx(8 * 4.096e-6 * 2**18, rel=1e-3)
    assert (
        parts["all"] == max(parts["hosts_give_up"], parts["manager_sees"]) + parts["manager_plans"]
    )
    assert all(catalog.switches["sharp3"][name].source for name in parts if name != "all")


# ------------------------------------------------------------------ refusals


def test_what_cannot_be_a_tree_is_refused():
    for wrong in ([0], [0, 0], [[0, 1]]):
        with pytest.raises(ValueError, match="ranks must be two or more"):
            grow(star(4), wrong, PLAIN)
    with pytest.raises(ValueError, match=r"100 branches .*adds 80 at most"):
        grow(star(100), np.arange(100), PLAIN)
    assert grow(star(100), np.arange(100), PLAIN, radix=100).parent.size == 100
    with pytest.raises(NoPath, match=r"no switch .*all 8 ranks"):
        grow(topologies.build("dgx_h100"), np.arange(8), PLAIN)
    with pytest.raises(NoPath, match="no switch that adds"):
        Manager(star(4).without(nodes=[4])).start("a", [0, 1])
    with pytest.raises(ValueError, match="0 < part <= 1, got 'a' and 2"):
        Manager(star(4)).start("a", [0, 1], part=2)
    manager = Manager(star(4))
    manager.start("a", [0, 1])
    with pytest.raises(ValueError, match=r"job must .*got 'x'; .*\['a'\]"):
        manager.end("x")
    with pytest.raises(ValueError, match=r"trees must be one or more, got none.*`grow`"):
        run([], 8)
    half = star(4).without(links=[0])  # one way of a cable only
    with pytest.raises(NoPath):
        grow(half, [0, 1], PLAIN)


def test_display():
    tree = grow(FABRICS["leaf_spine"], np.arange(32), PLAIN)
    assert repr(tree) == "<Tree of 32 ranks, 9 switches that add, root spine 0>"
