"""Sizes of real clusters: what a learner waits for and what it holds in memory.

Processor time, so that other programs on the machine decide nothing, in units of what numpy takes to sort a million
numbers there, so that a slow machine decides nothing either: 0.1 s or so. Nothing here runs in parallel.
"""

import json
import subprocess
import sys

import pytest

from support.budgets import budget
from support.sampling import sampled

pytestmark = pytest.mark.alone
SORT = """
import time
import numpy as np

def sort():
    numbers = np.random.default_rng(0).permutation(2**20)
    seconds = []
    for _ in range(10):
        t0 = time.process_time()
        np.argsort(numbers, kind="stable")
        seconds.append(time.process_time() - t0)
    return min(seconds)
"""
PROGRAM = """
import json, resource, time
from fabriclab import collectives, engines, routing, topologies
from fabriclab.lower import lower

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
builds, cold, warm = [], [], []
for _ in range(3):
    t0 = time.process_time()
    fabric = topologies.build("rail_optimised", servers=8192)
    builds.append(time.process_time() - t0)
    added = peak() - before if len(builds) == 1 else added
    for seconds in (cold, warm):
        t0 = time.process_time()
        flows = lower(collectives.build("all_reduce", "ring", fabric.n_ranks), fabric, "1 GiB")
        timeline = engines.run(fabric, routing.route(fabric, flows), flows)
        seconds.append(time.process_time() - t0)
hall = topologies.build("rail_optimised", servers=1024)
leaf, spine = hall.nodes("leaf")[0], hall.nodes("spine")[0]
hall = hall.with_capacity([*hall.links_between(leaf, spine), *hall.links_between(spine, leaf)], 0.0)
flows = lower(collectives.build("all_reduce", "ring", hall.n_ranks), hall, "1 GiB")
t0 = time.process_time()
routing.route(hall, flows)
hurt = time.process_time() - t0
unit = sort()
print(json.dumps({"ranks": fabric.n_ranks, "build": min(builds) / unit, "added": added, "cold": min(cold) / unit,
                  "warm": min(warm) / unit, "hurt": hurt / unit, "end": timeline.end}))
"""


@pytest.fixture(scope="module")
def seen():
    done = subprocess.run(
        [sys.executable, "-c", SORT + PROGRAM], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_65536_gpus_with_servers_expanded_are_built_in_time_and_1_gib(seen):
    assert seen["ranks"] == 65536
    assert seen["build"] <= budget(20)
    assert seen["added"] <= 2**30


def test_a_ring_over_65536_ranks_is_lowered_routed_and_solved_in_time(seen):
    assert seen["warm"] <= budget(3)
    assert seen["cold"] <= budget(6)  # the first run also reads the ways off the tiers


def test_its_time_is_that_of_the_closed_form_with_collisions_on_the_way(seen):
    """7 of 8 hops stay on NVLink; the eighth crosses from rail 7 to rail 0, where hashed flows meet."""
    alone = 2 * 65535 / 65536 * 2**30 / 50e9
    assert alone < seen["end"] < 16 * alone


def test_a_ring_over_8192_ranks_finds_its_way_round_failed_cables_in_time(seen):
    assert seen["hurt"] <= budget(30)


BUILD = """
import json, resource, sys, time
from fabriclab import topologies
topologies.build("dgx_h100")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before, seconds = peak(), []
for _ in range(3):
    t0 = time.process_time()
    fabric = eval(sys.argv[1])
    seconds.append(time.process_time() - t0)
    added = peak() - before if len(seconds) == 1 else added
print(json.dumps([fabric.n_ranks, fabric.n_nodes, min(seconds) / sort(), added]))
"""
RAILS = "topologies.build('rail_optimised', servers=8192, expand=False)"


@pytest.mark.parametrize(
    ("call", "nodes", "most", "memory"),
    sampled(
        [
            ("topologies.build('fat_tree', k=64)", 70656, 3, 2**28),
            ("topologies.build('xgft', m=(32, 32, 64), w=(1, 32, 32))", 70656, 3, 2**28),
            ("topologies.build('leaf_spine', hosts=65536, radix=512)", 65920, 3, 2**28),
            (RAILS, 70656, 3, 2**28),
            *(
                (f"topologies.build('{name}', servers=8192, expand=False)", 70656, 3, 2**28)
                for name in ("rail_only", "multi_plane", "dual_tor")
            ),
            (f"topologies.compose(topologies.build('dgx_h100'), {RAILS}, 8192)", 250880, 20, 2**30),
        ],
        4,
    ),
)
def test_65536_endpoints_of_any_clos_and_with_their_servers(call, nodes, most, memory):
    done = subprocess.run(
        [sys.executable, "-c", SORT + BUILD, call], capture_output=True, text=True, check=True
    )
    ranks, seen, sorts, added = json.loads(done.stdout)
    assert (ranks, seen) == (65536, nodes)
    assert sorts <= budget(most)
    assert added <= memory


COLLECTIVES = """
import json, sys, time
import numpy as np
from fabriclab import simulate, topologies
fabric = topologies.build("fat_tree", k=64)
simulate("all_reduce", "halving_doubling", fabric, "1 GiB", placement=range(64))
algorithm, n, order = sys.argv[1], int(sys.argv[2]), np.arange(fabric.n_ranks)
if sys.argv[3] == "shuffled":
    order = np.random.default_rng(0).permutation(order)
seconds = []
for _ in range(10):
    t0 = time.process_time()
    run = simulate("all_reduce", algorithm, fabric, "1 GiB", placement=order[:n])
    seconds.append(time.process_time() - t0)
print(json.dumps([min(seconds) / sort(), run.time]))
"""


@pytest.mark.parametrize(
    ("algorithm", "n", "order", "most", "end"),
    sampled(
        [
            ("ring", 65536, "in order", 1.5, 0.349),
            ("ring", 65536, "shuffled", 3, 0.650),
            ("halving_doubling", 16384, "in order", 7, 0.301),
            ("halving_doubling", 16384, "shuffled", 10, 0.189),
        ],
        4,
    ),
)
def test_a_collective_with_contention_is_built_lowered_routed_and_solved_in_time(
    algorithm, n, order, most, end
):
    """What a learner waits for after the first run on a fabric.

    On 23 November 2026 the best of ten were 0.8 to 1.0, 1.8 to 2.0, 3.7 to 4.8 and 4.9 to 7.0 sorts of 0.11 to 0.13 s
    each, in three runs.
    """
    done = subprocess.run(
        [sys.executable, "-c", SORT + COLLECTIVES, algorithm, str(n), order],
        capture_output=True,
        text=True,
    )
    sorts, seen = json.loads(done.stdout)
    assert seen == pytest.approx(end, rel=0.01)
    assert sorts <= budget(most)


LARGEST = """
import json, resource, time
import fabriclab as fl

seconds = {}

def timed(what, action):
    t0 = time.process_time()
    found = action()
    seconds[what] = time.process_time() - t0
    return found

def describe():
    hall = fl.system(gpu="H100", servers=16384, radix=128)
    return hall, fl.estimate(hall, "all_reduce", "1 GiB")

fl.views.fabric(fl.system(gpu="H100", servers=2).fabric)  # loads what draws
hall, expected = timed("described and estimated", describe)
timed("drawn", lambda: fl.views.fabric(hall.fabric))
two_levels = timed(
    "two levels",
    lambda: fl.simulate("all_reduce", "hierarchical", hall, "1 GiB", options={"per_server": 8}),
)
chosen = timed("chosen", lambda: fl.simulate("all_reduce", "nccl", hall, "1 GiB"))
try:
    refused = repr(fl.simulate("all_to_all", "nccl", hall, "1 GiB"))
except fl.errors.TooLarge as error:
    refused = str(error)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
unit = sort()
print(json.dumps([hall.ranks, {k: v / unit for k, v in seconds.items()}, peak, expected.time,
                  chosen.time, two_levels.time, refused]))
"""


def test_131072_gpus_are_described_drawn_and_run():
    """What a learner waits for.

    On 23 November 2026: 0.15 s until the estimate, 0.9 s until the drawing, 1 s for two levels and 4 s for the
    library's choice, at a sort of 0.11 s.
    """
    done = subprocess.run(
        [sys.executable, "-c", SORT + LARGEST], capture_output=True, text=True, check=True
    )
    ranks, sorts, peak, expected, chosen, two_levels, refused = json.loads(done.stdout)
    assert ranks == 131_072
    assert sorts["described and estimated"] <= budget(5)
    assert sorts["drawn"] <= budget(10)
    assert sorts["two levels"] <= budget(30)
    assert sorts["chosen"] <= budget(80)
    assert peak <= 4 * 2**30
    assert expected < chosen < 1.2 * expected < two_levels
    assert "take fewer ranks" in refused
