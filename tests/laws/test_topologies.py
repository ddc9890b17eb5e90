"""Topologies: by hand, shape, laws against closed forms and networkx, refusals, display."""

import subprocess
import sys
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fabriclab import catalog, registry, topologies
from fabriclab.catalog.clos import even
from fabriclab.core import _memory
from fabriclab.errors import TooLarge
from support.breadth_first import hops_from
from support.budgets import budget
from support.oracles.builds import estimate_holds, refused

SMALL = [(name, registry.info("topology", name)["small"]) for name in topologies.names()]
OVER = st.sampled_from([1, 2, 3, 1.5, 4 / 3])


@st.composite
def leaf_spines(draw):
    """Draw arguments of a leaf-spine that has spines, and the ports of a leaf that face down."""
    radix, over = draw(st.integers(4, 48)), draw(OVER)
    up = int(radix / (1 + over) + 1e-9)
    down = int(up * over + 1e-9)
    assume(up and radix * down > radix)
    return {
        "hosts": draw(st.integers(radix + 1, radix * down)),
        "radix": radix,
        "oversubscription": over,
    }, down


@st.composite
def rail_fabrics(draw):
    """Draw arguments of a rail-optimised fabric of at most 4,000 GPUs, in two or three tiers."""
    radix, rails = draw(st.sampled_from([4, 6, 8, 9, 16, 64])), draw(st.integers(1, 4))
    gpus, tiers = rails * draw(st.integers(1, 2)), draw(st.sampled_from([None, 2, 3]))
    over = draw(OVER)
    up = int(radix / (1 + over) + 1e-9)
    per_leaf = int(up * over + 1e-9) // (gpus // rails)
    most = per_leaf * (radix // rails if tiers == 2 else radix // 2 // rails * radix)
    assume(most >= 1)
    return {
        "servers": draw(st.integers(1, min(most, 4000 // gpus))),
        "gpus": gpus,
        "rails": rails,
        "radix": radix,
        "oversubscription": over,
        "tiers": tiers,
    }


def between(fabric, low, high):
    """Return the number of cables between each node of one kind and each of another."""
    a, b = fabric.nodes(low), fabric.nodes(high)
    up = np.isin(fabric.source, a) & np.isin(fabric.target, b)
    table = np.zeros((a.size, b.size), dtype=int)
    np.add.at(
        table, (np.searchsorted(a, fabric.source[up]), np.searchsorted(b, fabric.target[up])), 1
    )
    return table


def simple(fabric):
    """Return a graph in which an edge has the number of its parallel cables as capacity."""
    g = nx.DiGraph()
    for a, b in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        g.add_edge(a, b, capacity=g.edges[a, b]["capacity"] + 1 if g.has_edge(a, b) else 1)
    return g


def flow_between_halves(fabric):
    """Return the most links' worth of traffic from the first half of the ranks to the second."""
    g, half = simple(fabric), fabric.n_ranks // 2
    g.add_edges_from(("from", int(e)) for e in fabric.endpoint[:half])
    g.add_edges_from((int(e), "to") for e in fabric.endpoint[half:])
    return nx.maximum_flow_value(g, "from", "to")


# by hand ------------------------------------------------------------------------------------------
def test_one_switch_is_enough_for_few():
    f = topologies.build("leaf_spine", hosts=4, radix=4)
    assert f.summary() == {"host": 4, "leaf": 1, "cables": 4, "ranks": 4, "servers": 4}
    assert topologies.build("leaf_spine", hosts=5, radix=4).summary()["spine"] == 2


def test_leaf_spine_by_hand():
    f = topologies.build("leaf_spine", hosts=7, radix=4)
    assert f.summary() == {"host": 7, "leaf": 4, "spine": 2, "cables": 15, "ranks": 7, "servers": 7}
    assert between(f, "host", "leaf").argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert between(f, "leaf", "spine").tolist() == [[1, 1]] * 4


def test_parallel_cables_are_cables_of_their_own():
    f = topologies.build("leaf_spine", hosts=8, radix=6, oversubscription=1)
    assert between(f, "leaf", "spine").tolist() == [[1, 1, 1]] * 3
    g = topologies.build("leaf_spine", hosts=16, radix=12)
    assert between(g, "leaf", "spine").tolist() == [[3, 3]] * 3
    leaf, spine = g.nodes("leaf")[0], g.nodes("spine")[0]
    assert g.links_between(leaf, spine).size == 3


def test_oversubscription_by_hand():
    f = topologies.build("leaf_spine", hosts=12, radix=8, oversubscription=3)
    assert f.summary()["leaf"] == 2
    assert between(f, "leaf", "spine").tolist() == [[2], [2]]


def test_core_c_serves_spine_c_over_half_k_of_every_pod():
    f = topologies.build("fat_tree", k=4)
    spine, core = f.nodes("spine"), f.nodes("core")
    for c in range(4):
        met = spine[between(f, "spine", "core")[:, c] == 1]
        assert [f.name(s) for s in met] == [f"spine {pod}.{c // 2}" for pod in range(4)]
        assert f.name(core[c]) == f"core {c}"
    leaf = f.nodes("leaf")
    assert [f.name(x) for x in leaf[between(f, "host", "leaf")[5] == 1]] == ["leaf 1.0"]
    assert between(f, "leaf", "spine")[:2].tolist() == [[1, 1] + [0] * 6] * 2


def test_rails_by_hand():
    """Two servers of two GPUs, one leaf per rail."""
    f = topologies.build("rail_optimised", servers=2, gpus=2, rails=2, radix=4)
    assert f.rail.tolist() == [0, 1, 0, 1]
    assert f.server.tolist() == [0, 0, 1, 1]
    nic, leaf = f.nodes("nic"), f.nodes("leaf")
    met = {
        f.name(n): f.name(leaf[row.argmax()])
        for n, row in zip(nic, between(f, "nic", "leaf"), strict=True)
    }
    assert met == {
        "nic 0.0": "leaf 0.0",
        "nic 0.1": "leaf 1.0",
        "nic 1.0": "leaf 0.0",
        "nic 1.1": "leaf 1.0",
    }
    gpu = int(f.endpoint[2])
    assert sorted(f.name(int(f.target[x])) for x in np.flatnonzero(f.source == gpu)) == [
        "nvlink 1",
        "pcie 1.0",
    ]
    assert f.summary() == {
        "gpu": 4,
        "nvlink": 2,
        "pcie": 4,
        "nic": 4,
        "leaf": 2,
        "spine": 1,
        "cables": 20,
        "ranks": 4,
        "servers": 2,
    }


def test_the_running_case_is_the_default():
    """48 switches, 1,024 cables to servers, 1,024 between switches, two from each leaf to each spine."""
    f, case = topologies.build("rail_optimised"), catalog.case()
    count = f.summary()
    assert (
        (count["gpu"], count["nic"], count["nvlink"])
        == (1024, 1024, 128)
        == (case.gpus, case.gpus, case.servers)
    )
    assert (count["leaf"], count["spine"]) == (32, 16) == (case.leaves, case.spines)
    assert count["leaf"] + count["spine"] == 48 == case.switches
    assert between(f, "nic", "leaf").sum() == 1024 == case.cables_host
    assert between(f, "leaf", "spine").sum() == 1024 == case.cables_spine
    assert np.all(between(f, "leaf", "spine") == 2)
    assert np.all(f.ports_used[f.nodes("leaf")] == 64) and np.all(
        f.ports_used[f.nodes("spine")] == 64
    )
    assert np.all(between(f, "nic", "leaf").sum(axis=0) == 32)
    at = np.flatnonzero(np.isin(f.source, f.nodes("gpu")) & np.isin(f.target, f.nodes("nvlink")))
    assert set(f.capacity[at]) == {case.nvlink_per_gpu} and set(f.ports[at]) == {18}
    assert set(f.capacity[np.isin(f.target, f.nodes("leaf"))]) == {case.nic_rate}


def test_leaf_i_of_a_rail_has_32_servers():
    f = topologies.build("rail_optimised")
    leaf, nic = f.nodes("leaf"), f.nodes("nic")
    table = between(f, "nic", "leaf")
    for number in (0, 5, 31):
        rail, index = (int(c) for c in f.name(leaf[number]).split()[1].split("."))
        below = [f.name(n) for n in nic[table[:, number] == 1]]
        assert below == [f"nic {s}.{rail}" for s in range(32 * index, 32 * index + 32)]


@pytest.mark.parametrize(
    ("servers", "counts"),
    [(256, (64, 32, 0)), (257, (96, 96, 64)), (2048, (512, 512, 256)), (8192, (2048, 2048, 1024))],
)
def test_larger_halls(servers, counts):
    """The campus of 16,384 GPUs has 1,280 switches, and 65,536 GPUs fill three tiers: 5 N / 64 switches.

    257 servers begin a third pod: the three spines of one number have 96 uplinks, and that is two cores.
    """
    f = topologies.build("rail_optimised", servers=servers, expand=False)
    assert tuple(f.summary().get(k, 0) for k in ("leaf", "spine", "core")) == counts
    if servers in (2048, 8192):
        assert sum(counts) == 5 * f.n_ranks // 64
        assert set(f.ports_used[f.nodes("leaf")]) == set(f.ports_used[f.nodes("core")]) == {64}
        pod = f.coord[f.nodes("leaf")][:, f.coord_names.index("pod")][between_first(f)]
        assert np.array_equal(pod, f.server // 128)


def between_first(f):
    """Return the number of the leaf of each rank whose NIC is the endpoint."""
    up = np.flatnonzero(np.isin(f.source, f.endpoint))
    order = np.argsort(f.source[up], kind="stable")
    return f.target[up][order] - f.nodes("leaf")[0]


def test_delays_are_propagation_and_the_switch_ahead():
    f = topologies.build("leaf_spine", hosts=8, radix=4, host_length="20 m", switch_length="100 m")
    metre = catalog.value("media", "fibre", "propagation")
    box = catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi")
    first = f.links_between(0, f.nodes("leaf")[0])[0]
    up = f.links_between(f.nodes("leaf")[0], f.nodes("spine")[0])[0]
    assert f.delay[[first, first ^ 1, up, up ^ 1]] == pytest.approx(
        [20 * metre + box, 20 * metre, 100 * metre + box, 100 * metre + box]
    )
    assert f.length[[first, up]].tolist() == [20, 100]
    g = topologies.build(
        "leaf_spine", hosts=8, radix=4, switch_delay="1 us", rate="200 Gb/s", host_length=0
    )
    assert g.delay[first] == 1e-6 and g.delay[first ^ 1] == 0
    assert set(g.capacity) == {25e9}


def test_rates_inside_the_server_can_be_given():
    f = topologies.build(
        "rail_optimised",
        servers=1,
        gpus=2,
        rails=1,
        nvlink="900 GB/s",
        pcie="32 GB/s",
        rate="10 GB/s",
    )
    assert {f.media[m]: c for m, c in zip(f.medium, f.capacity, strict=True)} == {
        "nvlink": 9e11,
        "pcie": 3.2e10,
        "fibre": 1e10,
    }


def test_crossbar_by_hand():
    f = topologies.build("crossbar", hosts=3, rate="8 Gb/s", delay="1 us")
    assert f.summary() == {"host": 3, "switch": 1, "cables": 3, "ranks": 3, "servers": 3}
    assert (set(f.capacity), set(f.delay)) == ({1e9}, {1e-6})


# shape --------------------------------------------------------------------------------------------
def test_tiers_and_transit():
    f = topologies.build("rail_optimised", servers=4, gpus=2, rails=2, radix=4, tiers=3)
    tier = {k: set(f.tier[f.nodes(k)]) for k in f.kinds}
    assert tier == {
        "gpu": {0},
        "nvlink": {1},
        "pcie": {1},
        "nic": {2},
        "leaf": {3},
        "spine": {4},
        "core": {5},
    }
    assert np.array_equal(f.transit, f.kind != f.kinds.index("gpu"))
    g = topologies.build(
        "rail_optimised", servers=4, gpus=2, rails=2, radix=4, tiers=3, expand=False
    )
    assert {k: set(g.tier[g.nodes(k)]) for k in g.kinds} == {
        "nic": {0},
        "leaf": {1},
        "spine": {2},
        "core": {3},
    }
    assert np.array_equal(g.transit, g.kind != g.kinds.index("nic"))


# Tiers one above the other; others may have none.
CLOS = (
    "crossbar",
    "dual_tor",
    "fat_tree",
    "leaf_spine",
    "multi_plane",
    "rail_only",
    "rail_optimised",
    "xgft",
)


# laws over the registry ---------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "small"), SMALL)
def test_every_family(name, small):
    f = topologies.build(name, **small)
    again = eval(repr(f), {"topologies": topologies})
    for x in (
        "kind",
        "coord",
        "source",
        "target",
        "capacity",
        "delay",
        "ports",
        "medium",
        "endpoint",
        "rail",
    ):
        assert np.array_equal(getattr(f, x), getattr(again, x)), x
    assert (again.asked, again.family, again.kinds) == (small, name, f.kinds)
    if name in CLOS:
        assert np.all(np.abs(f.tier[f.source] - f.tier[f.target]) == 1)
    # Hosts and GPUs let no other traffic pass; where all nodes are chips, they do.
    assert f.n_ranks == f.n_nodes or not np.any(f.transit[f.endpoint])
    assert np.all(f.transit[np.setdiff1d(np.arange(f.n_nodes), f.endpoint)])
    assert np.all(f.tier[f.endpoint] == 0) and f.n_ranks >= 2
    assert f"{f.n_ranks}" in f._repr_html_()


@pytest.mark.parametrize(("name", "small"), SMALL)
def test_every_family_connects_all_ranks_without_crossing_one(name, small):
    f = topologies.build(name, **small)
    hops, _ = hops_from(f, int(f.endpoint[0]))
    g = simple(f)
    for e in f.endpoint[1:].tolist():
        inner = g.subgraph([n for n in g if f.transit[n] or n in (e, int(f.endpoint[0]))])
        if nx.has_path(inner, int(f.endpoint[0]), e):
            assert nx.shortest_path_length(inner, int(f.endpoint[0]), e) == hops[e]
        else:
            assert hops[e] < 0
    assert np.all(hops[f.endpoint] >= 0) == registry.info("topology", name).get("connected", True)


def assert_names_are_unique(f):
    names = [f.name(i) for i in range(f.n_nodes)]
    assert len(set(names)) == f.n_nodes


# laws of the families -----------------------------------------------------------------------------
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 20), st.integers(0, 20))
def test_evenly_spread_with_the_fewest(lower, up, spare_ports, spare_room):
    """Against every pair of counts that would do."""
    ports, room = lower + spare_ports, up + spare_room
    fit = [
        (upper, per)
        for upper in range(1, up + 1)
        for per in range(1, ports // lower + 1)
        if up <= upper * per <= room
    ]
    assert even(lower, up, ports, room) == min(fit)


@given(leaf_spines())
def test_leaf_spine_of_any_size(drawn):
    asked, down = drawn
    f = topologies.build("leaf_spine", **asked)
    up, below = between(f, "leaf", "spine"), between(f, "host", "leaf")
    assert f.summary()["leaf"] == -(-asked["hosts"] // down)
    assert below.argmax(axis=1).tolist() == [h // down for h in range(asked["hosts"])]
    assert np.all(below.sum(axis=1) == 1)
    assert np.all(up == up[0, 0]) and up[0, 0] >= 1
    assert down <= asked["oversubscription"] * up[0].sum() + 1e-9
    assert np.all(f.ports_used[f.nodes("leaf")] <= asked["radix"])
    assert np.all(f.ports_used[f.nodes("spine")] <= asked["radix"])
    assert f.n_cables == asked["hosts"] + up.sum()
    assert np.all(f.radix[f.tier > 0] == asked["radix"])


@given(st.integers(1, 8).map(lambda half: 2 * half), st.sampled_from([2, 3]))
def test_fat_tree_of_any_size(k, tiers):
    f = topologies.build("fat_tree", k=k, tiers=tiers)
    hosts = k**tiers // 4 if tiers == 3 else k * k // 2
    assert f.n_ranks == hosts
    assert f.n_nodes - hosts == (5 * k * k // 4 if tiers == 3 else 3 * k // 2)
    assert f.n_cables == tiers * hosts
    assert np.all(f.ports_used[f.tier > 0] == k)
    assert max(between(f, "leaf", "spine").max(), 1) == 1
    assert_names_are_unique(f)


@given(rail_fabrics())
def test_rails_of_any_size(asked):
    f = topologies.build("rail_optimised", expand=False, **asked)
    rails, gpus, per_rail = asked["rails"], asked["gpus"], asked["gpus"] // asked["rails"]
    leaf = f.nodes("leaf")[between_first(f)]
    coord = dict(zip(f.coord_names, f.coord[leaf].T, strict=True))
    assert np.array_equal(coord["rail"], np.arange(f.n_ranks) % gpus % rails)
    assert np.array_equal(coord["rail"], f.rail) and np.array_equal(
        f.server, np.arange(f.n_ranks) // gpus
    )
    down, up = between(f, "nic", "leaf").sum(axis=0), between(f, "leaf", "spine")
    assert down.max() <= asked["oversubscription"] * up[0].sum() + 1e-9
    # leaves of a rail in a pod
    of_rail = f.coord[f.nodes("leaf"), f.coord_names.index("index")].max() + 1
    up_ports = int(asked["radix"] / (1 + asked["oversubscription"]) + 1e-9)
    per_leaf = min(int(up_ports * asked["oversubscription"] + 1e-9) // per_rail, asked["servers"])
    place = np.maximum(coord["pod"], 0) * of_rail + coord["index"]
    assert np.array_equal(place, f.server // per_leaf)
    assert np.all(f.radix[f.tier > 0] == asked["radix"])
    needed = -(-asked["servers"] // per_leaf)
    assert of_rail == (min(asked["radix"] // 2 // rails, needed) if "core" in f.kinds else needed)
    assert np.unique(up[up > 0]).size == 1
    assert np.all(f.ports_used[f.tier > 0] <= asked["radix"])
    if "core" in f.kinds:
        pods = np.maximum(f.coord[f.nodes("spine")][:, 0], 0).max() + 1
        leaf_pod, spine_pod = f.coord[f.nodes("leaf")][:, 0], f.coord[f.nodes("spine")][:, 0]
        assert np.array_equal(up > 0, leaf_pod[:, None] == spine_pod[None])
        top = between(f, "spine", "core")
        assert np.all(top.sum(axis=1) >= up.sum(axis=0)) and np.unique(top[top > 0]).size == 1
        assert np.all((top > 0).sum(axis=0) == pods)
    else:
        assert np.all(up > 0)
    assert_names_are_unique(f)


@given(rail_fabrics())
def test_an_expanded_server_hangs_on_the_same_switches(asked):
    asked["servers"] = min(asked["servers"], 40)
    f = topologies.build("rail_optimised", **asked)
    g = topologies.build("rail_optimised", expand=False, **asked)
    assert np.array_equal(between(f, "nic", "leaf"), between(g, "nic", "leaf"))
    assert np.array_equal(between(f, "leaf", "spine"), between(g, "leaf", "spine"))
    assert np.array_equal(between(f, "gpu", "pcie"), np.eye(f.n_ranks))
    assert np.array_equal(between(f, "pcie", "nic"), np.eye(f.n_ranks))
    assert np.array_equal(between(f, "gpu", "nvlink").argmax(axis=1), f.server)
    assert np.array_equal(f.rail, g.rail) and np.array_equal(f.server, g.server)
    assert f.n_cables - g.n_cables == 3 * f.n_ranks
    assert_names_are_unique(f)


# oracle: networkx ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "asked", "diameter", "bisection"),
    [
        ("crossbar", {"hosts": 6}, 2, 3),
        ("leaf_spine", {"hosts": 6, "radix": 6}, 2, 3),
        ("leaf_spine", {"hosts": 18, "radix": 6}, 4, 9),
        ("leaf_spine", {"hosts": 24, "radix": 8, "oversubscription": 3}, 4, 4),
        ("leaf_spine", {"hosts": 32, "radix": 12, "oversubscription": 2}, 4, 8),
        ("fat_tree", {"k": 4}, 6, 8),
        ("fat_tree", {"k": 8}, 6, 64),
        ("fat_tree", {"k": 6, "tiers": 2}, 4, 9),
        (
            "rail_optimised",
            {"servers": 8, "gpus": 2, "rails": 2, "radix": 8, "expand": False},
            4,
            8,
        ),
        (
            "rail_optimised",
            {"servers": 8, "gpus": 2, "rails": 2, "radix": 4, "expand": False},
            6,
            8,
        ),
        ("rail_optimised", {"servers": 8, "gpus": 2, "rails": 2, "radix": 4}, 10, 8),
    ],
)
def test_diameter_and_bisection(name, asked, diameter, bisection):
    """Between ranks, in links; bisection from the first half of the ranks to the second, in links each way."""
    f = topologies.build(name, **asked)
    hops = np.array([hops_from(f, int(e))[0][f.endpoint] for e in f.endpoint])
    assert hops.max() == diameter
    assert flow_between_halves(f) == bisection


# scale and memory ---------------------------------------------------------------------------------
BUILD = """
import resource, sys, time
from fabriclab import topologies
topologies.build("rail_optimised", servers=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
f = topologies.build("rail_optimised", servers=8192)
took = time.process_time() - start
unit = 1 if sys.platform == "darwin" else 1024
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, before * unit, f.n_ranks, f.n_nodes)
"""


@pytest.mark.alone
@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not tell the peak of a process this way"
)
def test_65536_gpus_with_their_servers():
    out = subprocess.run(
        [sys.executable, "-c", BUILD], capture_output=True, text=True, check=True
    ).stdout.split()
    took, peak, before = (float(x) for x in out[:3])
    assert out[3:] == ["65536", "209920"]
    assert took < budget(2)
    assert peak < 2**30
    assert peak - before < 256 * 2**20


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("rail_optimised", {"servers": 1024}),
        ("rail_optimised", {"servers": 2048, "expand": False}),
        ("fat_tree", {"k": 32}),
        ("crossbar", {"hosts": 20000}),
        ("leaf_spine", {"hosts": 8000, "radix": 128}),
    ],
)
def test_the_estimate_of_memory_is_near_and_not_below(name, asked):
    estimate_holds(lambda: topologies.build(name, **asked))


@pytest.mark.parametrize(
    ("name", "asked", "text"),
    [
        (
            "rail_optimised",
            {"servers": 8192},
            r"a fabric of 8192 servers with 8 GPUs each needs about 147 MB of memory and "
            r"64 MiB can be had; build a smaller one.*expand=False",
        ),
        (
            "leaf_spine",
            {"hosts": 10**12, "radix": 2 * 10**6},
            r"a fabric of 1000000000000 hosts needs about",
        ),
        ("fat_tree", {"k": 10**4}, r"a fabric of 250000000000 hosts needs about .* TB"),
        ("crossbar", {"hosts": 10**12}, r"a crossbar of 1000000000000 hosts needs about"),
    ],
)
def test_a_fabric_too_large_is_refused_before_it_is_made(name, asked, text, monkeypatch):
    monkeypatch.setenv("FABRICLAB_MEMORY", "64 MiB")
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=text):
            topologies.build(name, **asked)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_memory_at_hand(monkeypatch, tmp_path):
    monkeypatch.delenv("FABRICLAB_MEMORY", raising=False)
    there = _memory.available_memory()
    assert 2**26 < there
    monkeypatch.setenv("FABRICLAB_MEMORY", "1 MiB")
    assert _memory.available_memory() == 2**20
    _memory.check_memory(2**20, "this", "do that")
    with pytest.raises(TooLarge, match=r"needs about .*1 MiB can be had; do that"):
        _memory.check_memory(2**20 + 1, "this", "do that")
    _memory.check_memory(2**20 + 1, "this", "do that", available=2**21)
    monkeypatch.setenv("FABRICLAB_MEMORY", "much")
    with pytest.raises(ValueError, match="FABRICLAB_MEMORY must be a number with a unit"):
        _memory.available_memory()
    assert _memory._container(tmp_path) == np.inf
    (tmp_path / "memory.stat").write_text("anon 1000\nfile 900\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert _memory._container(tmp_path) == np.inf
    (tmp_path / "memory.max").write_text("5000\n")
    assert _memory._container(tmp_path) == 4000


# refusals -----------------------------------------------------------------------------------------
test_what_cannot_be_built_is_refused = refused(
    [
        (
            "no_such",
            {},
            f"unknown topology 'no_such'; choose one of {', '.join(topologies.names())}",
        ),
        ("fat_tree", {"k": 5}, r"k must be even .* got 5; take 4 or 6"),
        ("fat_tree", {"k": 7}, "k must be even"),
        ("fat_tree", {"k": 0}, "k must be >= 2, got 0"),
        ("fat_tree", {"k": 4, "tiers": 4}, r"tiers must be within 2\.\.3, got 4"),
        ("leaf_spine", {"hosts": 0}, "hosts must be >= 1, got 0"),
        ("leaf_spine", {"hosts": 4, "radix": 1}, "radix must be >= 2, got 1"),
        (
            "leaf_spine",
            {"hosts": 9, "radix": 4},
            r"hosts must be within 1\.\.8 for two tiers of 4-port .* got 9; take a",
        ),
        (
            "leaf_spine",
            {"hosts": 4, "oversubscription": 0.5},
            r"oversubscription must be within 1\.\.63 .* got 0\.5",
        ),
        (
            "leaf_spine",
            {"hosts": 4, "radix": 4, "oversubscription": 4},
            r"oversubscription must be within 1\.\.3",
        ),
        (
            "leaf_spine",
            {"hosts": 4, "oversubscription": float("nan")},
            r"oversubscription must be within 1\.\.63",
        ),
        ("leaf_spine", {"hosts": 4, "rate": "400"}, "rate needs its unit, got '400'"),
        ("leaf_spine", {"hosts": 4, "rate": 400}, r"rate must be within .* got 400"),
        ("leaf_spine", {"hosts": 4, "rate": "400 Gbps"}, "read in two ways"),
        ("leaf_spine", {"hosts": 4, "host_length": -1}, "host_length must be within"),
        ("leaf_spine", {"hosts": 4, "switch_length": "3 s"}, "switch_length must be a length"),
        ("leaf_spine", {"hosts": 4, "switch_delay": "-1 ns"}, "switch_delay must be within"),
        ("crossbar", {"hosts": -1}, "hosts must be >= 1, got -1"),
        ("crossbar", {"hosts": 2, "delay": "1 m"}, "delay must be a time"),
        ("rail_optimised", {"rails": 3}, r"rails must divide gpus \(8\), got 3"),
        ("rail_optimised", {"gpus": 4}, r"rails must divide gpus \(4\), got 8"),
        ("rail_optimised", {"servers": 0}, "servers must be >= 1, got 0"),
        (
            "rail_optimised",
            {"servers": 8193},
            r"servers must be within 1\.\.8192 for 3 tiers .* got 8193; take a larger",
        ),
        (
            "rail_optimised",
            {"servers": 257, "tiers": 2},
            r"servers must be within 1\.\.256 for 2 tiers .* tiers=3",
        ),
        ("rail_optimised", {"tiers": 1}, r"tiers must be within 2\.\.3, got 1"),
        (
            "rail_optimised",
            {"gpus": 8, "rails": 1, "radix": 8},
            r"gpus must be within 1\.\.4 \(1 rails, 4 ports down of a leaf\), got 8; add rails",
        ),
        (
            "rail_optimised",
            {"servers": 1, "gpus": 16},
            r"gpus must be within 1\.\.14 .*256 NVLink ports, a GPU takes 18",
        ),
        (
            "rail_optimised",
            {"gpus": 80},
            r"gpus must be within 1\.\.14 .* got 80; take more servers, .* expand=False",
        ),
        (
            "rail_optimised",
            {"gpus": 264, "expand": False},
            r"gpus must be within 1\.\.256 \(8 rails.* got 264; add",
        ),
        (
            "rail_optimised",
            {"gpus": 80, "rails": 80, "expand": False},
            r"rails must be within 1\.\.32 for 3 tiers",
        ),
        (
            "rail_optimised",
            {"gpus": 80, "rails": 80, "expand": False, "tiers": 2},
            r"rails must be within 1\.\.64 for 2",
        ),
        ("rail_optimised", {"nvlink": "900"}, "nvlink needs its unit"),
        ("rail_optimised", {"pcie": "64 GBps"}, "pcie has the unknown unit"),
    ]
)


test_wrong_types_are_refused = refused(
    [
        (
            "leaf_spine",
            {},
            r"leaf_spine: missing the size, got neither hosts nor servers; give hosts=256 .* gpus=8",
        ),
        ("leaf_spine", {"hots": 4, "hosts": 4}, "leaf_spine: .*hots.*; its arguments are hosts"),
        ("leaf_spine", {"hosts": 4.0}, r"hosts must be a whole number, got 4\.0"),
        ("leaf_spine", {"hosts": "4"}, "hosts must be a whole number"),
        (
            "leaf_spine",
            {"hosts": 4, "oversubscription": "2"},
            "oversubscription must be one number such as 2",
        ),
        (
            "leaf_spine",
            {"hosts": 4, "oversubscription": np.array([1, 2])},
            r"must be one number .* got array\(\[1, 2\]\)",
        ),
        (
            "rail_optimised",
            {"servers": 2, "expand": "no"},
            "expand must be True or False, got 'no'",
        ),
        ("rail_optimised", {"servers": 2, "expand": 0}, "expand must be True or False, got 0"),
        ("fat_tree", {"k": True}, "k must be a whole number, got True"),
    ],
    TypeError,
)


# display ------------------------------------------------------------------------------------------
def test_a_fabric_shows_the_call_that_builds_it():
    f = topologies.build("leaf_spine", hosts=np.int64(8), radix=np.array(4), rate="200 Gb/s")
    assert repr(f) == "topologies.build('leaf_spine', hosts=8, radix=4, rate='200 Gb/s')"


def test_names_are_short():
    f = topologies.build("rail_optimised")
    assert [f.name(int(f.nodes(k)[-1])) for k in f.kinds] == [
        "gpu 127.7",
        "nvlink 127",
        "pcie 127.7",
        "nic 127.7",
        "leaf 7.3",
        "spine 15",
    ]
    g = topologies.build("rail_optimised", servers=2048, expand=False)
    assert [g.name(int(g.nodes(k)[-1])) for k in g.kinds] == [
        "nic 2047.7",
        "leaf 15.7.3",
        "spine 15.31",
        "core 255",
    ]
