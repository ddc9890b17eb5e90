"""Fabric and its builder: by hand, shape, laws, refusals, display."""

import copy
import dataclasses
import json
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import operations, registry, topologies
from fabriclab.core import FabricBuilder, load, save


def star(hosts=3, radix=0, capacity=1e9, **cable):
    """Return hosts around one switch; host i is server i on rail i mod 2."""
    b = FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", hosts, tier=0, transit=False, index=np.arange(hosts))
    switch = b.add_nodes(
        "switch", 1, tier=1, transit=True, radix=radix, forwarding=cable.pop("forwarding", 0.0)
    )
    b.add_cables(host, switch, capacity=capacity, **cable)
    return b.build(
        "star", {"hosts": hosts}, endpoint=host, rail=np.arange(hosts) % 2, server=np.arange(hosts)
    )


@st.composite
def graphs(draw):
    """Draw a graph of up to 8 nodes with parallel cables and any capacities."""
    n = draw(st.integers(2, 8))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    cables = draw(st.lists(pairs, min_size=1, max_size=20))
    b = FabricBuilder(("node",), ("index",))
    node = b.add_nodes(
        "node", n, tier=0, transit=True, index=np.arange(n), forwarding=np.arange(n) * 1e-9
    )
    a, c = np.array(cables).T
    rates = draw(st.lists(st.floats(1e6, 1e12), min_size=len(cables), max_size=len(cables)))
    b.add_cables(a, c, capacity=rates, delay=1e-6, ports=draw(st.integers(1, 18)))
    return b.build(
        "drawn", {}, endpoint=node[: n // 2], rail=[0] * (n // 2), server=np.arange(n // 2)
    )


# by hand ------------------------------------------------------------------------------------------
def test_star_by_hand():
    f = star()
    assert f.source.tolist() == [0, 3, 1, 3, 2, 3]
    assert f.target.tolist() == [3, 0, 3, 1, 3, 2]
    assert (f.n_nodes, f.n_links, f.n_cables, f.n_ranks) == (4, 6, 3, 3)
    assert f.ports_used.tolist() == [1, 1, 1, 3]
    assert f.endpoint.tolist() == [0, 1, 2]
    assert f.nodes("switch").tolist() == [3]
    assert f.transit.tolist() == [False, False, False, True]


def test_the_target_forwards():
    """A switch adds its time to what comes in, and nothing to what goes out."""
    f = star(hosts=1, delay=1e-6, forwarding=3e-7)
    assert f.delay.tolist() == pytest.approx([1.3e-6, 1e-6])


def test_eighteen_links_are_one_with_eighteen_ports():
    f = star(hosts=2, radix=36, ports=18)
    assert f.ports_used.tolist() == [18, 18, 36]


def test_a_failed_node_loses_its_links_both_ways():
    f = star()
    assert f.without(nodes=[1]).capacity.tolist() == [1e9, 1e9, 0, 0, 1e9, 1e9]
    assert f.without(cables=[1]).capacity.tolist() == [1e9, 1e9, 0, 0, 1e9, 1e9]
    assert f.without(links=[2]).capacity.tolist() == [1e9, 1e9, 0, 1e9, 1e9, 1e9]
    assert f.without(links=[0], cables=[2], nodes=[1]).capacity.tolist() == [0, 1e9, 0, 0, 0, 0]
    assert f.without().capacity.tolist() == [1e9] * 6


def test_a_slow_cable_may_be_given_with_its_unit():
    f = star().with_capacity([0, 1], "8 Gb/s")
    assert f.capacity.tolist() == [1e9, 1e9, 1e9, 1e9, 1e9, 1e9]
    assert star().with_capacity(0, 5e8).capacity.tolist() == [5e8, 1e9, 1e9, 1e9, 1e9, 1e9]
    assert star().with_capacity(0, "0 Gb/s").capacity[0] == 0


def test_a_cable_is_described_with_units():
    f = star(hosts=1, capacity="8 Gb/s", delay="1 us", length="3 m", forwarding="300 ns")
    assert (f.capacity.tolist(), f.length.tolist()) == ([1e9, 1e9], [3, 3])
    assert f.delay.tolist() == pytest.approx([1.3e-6, 1e-6])


def test_summary_counts_kinds_cables_ranks_and_servers():
    assert star().summary() == {"host": 3, "switch": 1, "cables": 3, "ranks": 3, "servers": 3}


# shape --------------------------------------------------------------------------------------------
def test_arrays_have_their_types_and_are_read_only():
    f = star()
    types = {
        "kind": "i1",
        "tier": "i1",
        "transit": "?",
        "radix": "i4",
        "coord": "i4",
        "source": "i4",
        "target": "i4",
        "capacity": "f8",
        "delay": "f8",
        "ports": "i2",
        "medium": "i1",
        "length": "f8",
        "endpoint": "i4",
        "rail": "i4",
        "server": "i4",
    }
    for name, code in types.items():
        array = getattr(f, name)
        assert array.dtype == np.dtype(code), name
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_fabric_without_cables_or_ranks_is_one():
    b = FabricBuilder(("switch",), ())
    b.add_nodes("switch", 2, tier=0, transit=True)
    f = b.build("empty", {}, endpoint=[], rail=[], server=[])
    assert (f.n_nodes, f.n_links, f.n_ranks) == (2, 0, 0)
    assert f.name(1) == "switch"


# laws ---------------------------------------------------------------------------------------------
@given(graphs())
def test_a_link_and_its_reverse_differ_in_the_last_bit(f):
    number = np.arange(f.n_links)
    assert np.array_equal(f.source[number ^ 1], f.target)
    assert np.array_equal(f.capacity[number ^ 1], f.capacity)
    assert np.allclose(f.delay, 1e-6 + f.target * 1e-9)


@given(graphs())
def test_networkx_sees_the_same_graph(f):
    g = f.to_networkx()
    assert (g.number_of_nodes(), g.number_of_edges()) == (f.n_nodes, f.n_links)
    for a, b, number, data in g.edges(keys=True, data=True):
        assert (f.source[number], f.target[number]) == (a, b)
        assert data["capacity"] == f.capacity[number]
    assert nx.is_weakly_connected(g) == nx.is_strongly_connected(g)


@given(graphs())
def test_a_bundled_graph_has_an_edge_for_each_pair_and_counts_its_cables(f):
    every, pairs = f.to_networkx(), f.to_networkx(bundled=True)
    assert dict(pairs.nodes(data=True)) == dict(every.nodes(data=True))
    assert set(pairs.edges) == {(a, b) for a, b, _ in every.edges}
    for a, b, data in pairs.edges(data=True):
        links = f.links_between(a, b)
        assert data["cables"] == links.size
        assert data["capacity"] == pytest.approx(f.capacity[links].sum())


@given(graphs())
def test_rows_of_out_links_hold_every_link_once(f):
    ptr, order = f.out
    assert sorted(order.tolist()) == list(range(f.n_links))
    for node in range(f.n_nodes):
        assert np.all(f.source[order[ptr[node] : ptr[node + 1]]] == node)
        between = [f.links_between(node, other) for other in range(f.n_nodes)]
        assert sum(x.size for x in between) == ptr[node + 1] - ptr[node]
        assert all(np.all(f.target[x] == other) for other, x in enumerate(between))


@given(graphs(), st.data())
def test_failing_keeps_numbers_and_the_original(f, data):
    cables = data.draw(st.lists(st.integers(0, f.n_cables - 1), max_size=4))
    before = f.capacity.copy()
    broken = f.without(cables=cables)
    assert np.array_equal(f.capacity, before)
    assert np.array_equal(broken.source, f.source)
    dead = np.isin(np.arange(f.n_links) // 2, cables)
    assert np.array_equal(broken.capacity, np.where(dead, 0, before))


@given(graphs())
def test_ports_are_counted_at_both_ends(f):
    assert f.ports_used.sum() == f.ports.sum()
    for node in range(f.n_nodes):
        assert f.ports_used[node] == sum(
            int(p) for s, p in zip(f.source, f.ports, strict=True) if s == node
        )


def test_a_fabric_does_not_change_with_the_arrays_it_was_made_of():
    rate = np.full(1, 1e9)
    f = star(hosts=1, capacity=rate)
    writable = f.capacity.copy()

    class Own:
        def __array__(self, dtype=None, copy=None):
            return writable

    shut = writable[:]
    shut.flags.writeable = False
    views = (
        writable,
        writable[:],
        np.broadcast_to(writable, writable.shape),
        np.asarray(writable),
        Own(),
        shut,
        np.frombuffer(memoryview(writable).toreadonly()),
    )
    for view in views:
        g = dataclasses.replace(f, capacity=view)
        writable[0] = 5.0
        assert g.capacity[0] == 1e9
        writable[0] = 1e9
    assert writable.flags.writeable
    rate[0] = 7.0
    assert f.capacity[0] == 1e9


def test_an_array_whose_owner_opens_it_again_is_copied_and_a_frozen_one_is_not():
    class Disguised(np.ndarray):
        base = b""

    f = star()
    for rate in (np.full(6, 1e9), Disguised(6)):
        rate[:] = 1e9
        rate.flags.writeable = False
        g = dataclasses.replace(f, capacity=rate)
        rate.flags.writeable = True
        rate[:] = 0
        assert g.capacity.tolist() == [1e9] * 6
    assert dataclasses.replace(g, rail=[0, 0, 0]).capacity is g.capacity
    for array in (g.capacity, g.ports_used, *g.out):
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f)), None]
)
def test_copies_are_as_frozen_and_say_the_same(again, tmp_path):
    f = topologies.build("leaf_spine", hosts=8, radix=4).without(cables=[1])
    save(f, tmp_path / "f.npz")
    g = again(f) if again else load(tmp_path / "f.npz")
    assert (g.capacity.tolist(), g.asked) == (f.capacity.tolist(), {"hosts": 8, "radix": 4})
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        g.capacity.flags.writeable = True
    with pytest.raises(TypeError, match="read-only"):
        g.asked["hosts"] = 9
    assert repr(g) == repr(f)


def test_what_was_asked_cannot_be_changed():
    given = {"x": 1}
    f = dataclasses.replace(star(), asked=given)
    given["x"] = 2
    assert f.asked == {"x": 1}
    ways = (
        lambda m: m.update(x=1),
        lambda m: m.pop("x"),
        lambda m: m.clear(),
        lambda m: m.setdefault("y", 1),
        lambda m: m.popitem(),
        lambda m: m.__ior__({}),
        lambda m: m.__delitem__("x"),
    )
    for change in ways:
        with pytest.raises(TypeError, match=r"read-only.*dict"):
            change(f.asked)
    assert f.asked | {"y": 1} == {**f.asked, "y": 1}
    assert json.loads(json.dumps(star().asked)) == {"hosts": 3}


# refusals -----------------------------------------------------------------------------------------
def change(**new):
    return dataclasses.replace(star(), **new)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"capacity": [1e9] * 5}, r"capacity must have shape \(6,\), got \(5,\)"),
        ({"tier": [0, 0, 0]}, r"tier must have shape \(4,\)"),
        ({"rail": [0]}, r"rail must have shape \(3,\)"),
        ({"coord": np.zeros((4, 2))}, r"coord must have shape \(4, 1\)"),
        ({"source": [0, 3, 1, 3, 3, 2]}, "links must come in pairs"),
        ({"target": [3, 0, 3, 1, 3, 1]}, "links must come in pairs"),
        (
            {"source": [0, 4, 1, 3, 2, 3], "target": [4, 0, 3, 1, 3, 2]},
            r"source must be within 0\.\.3, got 4",
        ),
        (
            {"source": [0, -1, 1, 3, 2, 3], "target": [-1, 0, 3, 1, 3, 2]},
            r"source must be within 0\.\.3, got -1",
        ),
        ({"endpoint": [0, 1, 4]}, r"endpoint must be within 0\.\.3, got 4"),
        ({"endpoint": [0, 1, 1]}, "endpoint must name each node once"),
        (
            {"capacity": [1e9, -1.0, 1e9, 1e9, 1e9, 1e9]},
            r"capacity must be finite and >= 0 B/s, got -1",
        ),
        (
            {"capacity": [1e9, np.nan, 1e9, 1e9, 1e9, 1e9]},
            r"capacity must be finite and >= 0 B/s, got nan",
        ),
        (
            {"capacity": [1e9, np.inf, 1e9, 1e9, 1e9, 1e9]},
            r"capacity must be finite and >= 0 B/s, got inf",
        ),
        ({"delay": [-1e-9] * 6}, r"delay must be finite and >= 0 s"),
        ({"length": [-1.0] * 6}, r"length must be finite and >= 0 m"),
        ({"ports": [-1] * 6}, r"ports must be finite and >= 0 ports"),
        ({"kind": [0, 0, 0, 2]}, r"kind must be within 0\.\.1, got 2"),
        ({"medium": [0, 0, 0, 0, 0, 1]}, r"medium must be within 0\.\.0, got 1"),
        ({"radix": [0, 0, 0, 2]}, r"switch needs 3 ports and has 2; take a switch with more ports"),
        ({"source": [0.5, 3, 1, 3, 2, 3]}, "whole numbers"),
        ({"endpoint": [0, 1, 2**40]}, "int32"),
        ({"tier": [0, 0, 0, 300]}, r"tier must be whole numbers \(int8\), got 300"),
        ({"transit": [0, 0, 0, 0.5]}, r"transit must be True or False, got 0\.5"),
        (
            {"source": [0, 3, 1, 1, 2, 3], "target": [3, 0, 1, 1, 3, 2]},
            "cable 1 joins host 1 to itself; name two",
        ),
    ],
)
def test_a_broken_fabric_is_refused(new, message):
    with pytest.raises(ValueError, match=message):
        change(**new)


def test_ports_may_fill_the_radix():
    assert star(hosts=4, radix=4).ports_used.max() == 4
    with pytest.raises(ValueError, match="switch needs 5 ports and has 4"):
        star(hosts=5, radix=4)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda f: f.without(nodes=[[0], [0, 1]]),
            "nodes must be one row of numbers, got rows of different lengths",
        ),
        (lambda f: f.without(links=[6]), r"links must be within 0\.\.5, got 6"),
        (lambda f: f.without(links=-1), r"links must be within 0\.\.5, got -1"),
        (lambda f: f.without(cables=[3]), r"cables must be within 0\.\.2, got 3"),
        (lambda f: f.without(nodes=[4]), r"nodes must be within 0\.\.3, got 4"),
        (
            lambda f: f.with_capacity([0], -1.0),
            r"capacity must be within 1e\+06\.\.1e\+14 B/s, got -1",
        ),
        (
            lambda f: f.with_capacity([0], 400),
            r"capacity must be within .* got 400; write \"400 Gb/s\"",
        ),
        (lambda f: f.links_between(0, 4), r"b must be within 0\.\.3, got 4"),
        (lambda f: f.links_between(-1, 0), r"a must be within 0\.\.3, got -1"),
        (lambda f: f.with_capacity([0], "400 Gbps"), "read in two ways"),
        (lambda f: f.nodes("spine"), "kind must be one of host, switch, got 'spine'"),
        (lambda f: f.name(4), r"node must be within 0\.\.3, got 4"),
        (lambda f: f.link_name(6), r"link must be within 0\.\.5, got 6"),
    ],
)
def test_a_wrong_question_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(star())


@pytest.mark.parametrize(
    "links", [[0.7], [True, False, True, False, False, False], [[0, 1], [2, 3]]]
)
def test_links_are_numbers_not_masks_or_fractions(links):
    with pytest.raises(
        TypeError,
        match=r"links must be whole numbers in one row, got \S+ of shape \(.*\); of a mask",
    ):
        star().without(links=links)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"kinds": "gpu"}, r"kinds must be a sequence of texts such as \['gpu'\], got 'gpu'"),
        (
            {"capacity": ["8 Gb/s"] * 6},
            "capacity must be plain numbers in SI units, got '8 Gb/s'; units.parse reads",
        ),
        ({"rail": [None] * 3}, r"rail must be whole numbers \(int32\), got None"),
        ({"ports": [True] * 6}, r"ports must be whole numbers \(int16\), got True"),
    ],
)
def test_text_in_place_of_numbers_is_refused(new, message):
    with pytest.raises(TypeError, match=message):
        change(**new)


def test_a_slow_cable_is_one_number():
    for wrong in (np.array([1e9, 2e9]), None, True):
        with pytest.raises(TypeError, match="capacity must be a number or a string with a unit"):
            star().with_capacity([0, 1], wrong)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda b: b.add_nodes("spine", 1, tier=0, transit=True),
            "kind must be one of host, got 'spine'; name it in",
        ),
        (
            lambda b: b.add_nodes("host", 1, tier=0, transit=True, x=0),
            "coordinate must be one of index, got 'x'",
        ),
        (
            lambda b: b.add_nodes("host", 1, tier=0, transit=True, index=0.5),
            r"index must be whole numbers .* got 0\.5",
        ),
        (lambda b: b.add_nodes("host", -1, tier=0, transit=True), "n must be >= 0, got -1"),
        (
            lambda b: b.add_nodes("host", 2, tier=0, transit=True, index=range(3)),
            r"must have one entry or 2 of them, got the shapes index \(3,\)$",
        ),
        (
            lambda b: b.add_nodes("host", 1, tier=0, transit=True, forwarding=330),
            r"forwarding must be within 0\.\.10 s",
        ),
        (
            lambda b: b.add_cables(0, 1, capacity=400),
            r'capacity must be within .* got 400\.0; write "400 Gb/s"',
        ),
        (
            lambda b: b.add_cables([0, 0], 1, capacity=[1e9, 2e14]),
            "capacity must be within .* got 200000000000000",
        ),
        (
            lambda b: b.add_cables([0, 0], 1, capacity=1e9, delay=[1e-6, 11.0]),
            r"delay must be within 0\.\.10 s, got 11",
        ),
        (
            lambda b: b.add_cables(0, 1, capacity=1e9, length=2e8),
            r"length must be within 0\.\.1e\+08 m, got 200000000",
        ),
        (
            lambda b: b.add_cables([0, 0], 1, capacity=[1e9] * 3),
            r"got the shapes a \(2,\), capacity \(3,\)$",
        ),
        (
            lambda b: b.add_cables(0, 2, capacity=1e9),
            r"b must be within 0\.\.1, got 2; add nodes first",
        ),
        (lambda b: b.add_cables(-1, 0, capacity=1e9), r"a must be within 0\.\.1, got -1"),
        (lambda b: b.add_cables(0, 1, capacity="400"), "capacity needs its unit, got '400'"),
        (
            lambda b: b.add_cables(0, 1, capacity=1e9, delay="3 m"),
            "delay must be a time, got the length '3 m'",
        ),
        (
            lambda _: star(capacity=1e9, ports=40_000),
            r"ports must be whole numbers \(int16\), got 40000",
        ),
        (
            lambda _: FabricBuilder(("host",), ()).build("x", {}, endpoint=[], rail=[], server=[]),
            "a fabric needs nodes",
        ),
    ],
)
def test_what_cannot_be_added_is_refused(ask, message):
    b = FabricBuilder(("host",), ("index",))
    b.add_nodes("host", 2, tier=0, transit=True, index=[0, 1])
    with pytest.raises(ValueError, match=message):
        ask(b)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"tier": "a"}, r"tier must be whole numbers \(int8\), got 'a'"),
        ({"transit": "no"}, "transit must be True or False, got 'no'"),
        ({"radix": None}, r"radix must be whole numbers \(int32\), got None"),
    ],
)
def test_columns_of_nodes_of_another_type_are_refused(columns, message):
    with pytest.raises(TypeError, match=message):
        FabricBuilder(("host",), ()).add_nodes("host", 2, **{"tier": 0, "transit": True, **columns})


def test_a_cable_may_be_built_dead_and_a_delay_may_last_ten_seconds():
    f = star(hosts=2, capacity=[0.0, 1e9], delay=10.0)
    assert (f.capacity.tolist(), f.delay[0]) == ([0.0, 0.0, 1e9, 1e9], 10.0)
    assert star(hosts=1, capacity="0 Gb/s").capacity.tolist() == [0.0, 0.0]


# names --------------------------------------------------------------------------------------------
SMALL = {name: registry.info("topology", name)["small"] for name in topologies.names()}
HALL = topologies.build("rail_optimised", servers=8, gpus=2, rails=2, radix=8)


@pytest.mark.parametrize("family", SMALL)
def test_the_name_of_every_node_finds_it(family):
    fabric = topologies.build(family, **SMALL[family])
    for node in range(fabric.n_nodes):
        name = fabric.name(node)
        assert fabric.node(name) == node
        assert fabric.node(name.upper().replace(" ", "")) == node
        kind, _, numbers = name.partition(" ")
        assert fabric.node(f"{kind}-{numbers}" if numbers else kind) == node


@pytest.mark.parametrize("family", SMALL)
def test_the_name_of_every_cable_fails_it(family):
    fabric = topologies.build(family, **SMALL[family])
    for link in range(0, fabric.n_links, max(1, fabric.n_links // 20)):
        ends = int(fabric.source[link]), int(fabric.target[link])
        name = fabric.link_name(link)
        both = name.replace("->", "-")
        one_way = fabric.links_between(*ends)
        assert same(fabric.without(name), fabric.without(links=one_way))
        assert same(fabric.without(both), fabric.without(cables=one_way // 2))
        assert same(fabric.without(links=both), fabric.without(cables=both))
        assert same(fabric.with_capacity(name, "1 GB/s"), fabric.with_capacity(one_way, "1 GB/s"))


def same(one, other):
    return np.array_equal(one.capacity, other.capacity) and repr(one) != ""


@given(st.lists(st.integers(0, HALL.n_nodes - 1), max_size=5), st.data())
def test_parts_fail_by_name_as_by_number(nodes, data):
    named = [HALL.name(n) if data.draw(st.booleans()) else n for n in nodes]
    wanted = HALL.without(nodes=nodes)
    for failed in (HALL.without(named), HALL.without(*named), HALL.without(nodes=named)):
        assert np.array_equal(failed.capacity, wanted.capacity)
        assert repr(failed) == repr(wanted)


def test_parts_by_hand():
    leaf = HALL.nodes("leaf")[0]
    assert repr(HALL.without("leaf 0.0")) == repr(HALL.without(nodes=[leaf]))
    assert repr(HALL.without([int(leaf)])) == repr(HALL.without(nodes=[leaf]))
    assert repr(HALL.without("cable 7", "LINK 3")) == repr(HALL.without(cables=[7], links=[3]))
    assert repr(HALL.without(cables="cable 7")) == repr(HALL.without(cables=7))
    mixed = HALL.without("leaf 0.0", cables=[1], links="nic 0.0 -> leaf 0.0")
    link = HALL.links_between(HALL.node("nic 0.0"), leaf)
    assert repr(mixed) == repr(HALL.without(nodes=[leaf], cables=[1], links=link))
    again = eval(repr(mixed), {"topologies": topologies})
    assert np.array_equal(again.capacity, mixed.capacity)


def test_parts_of_a_server_as_tools_print_them():
    server = topologies.build("dgx_h100")
    names = {
        "GPU3": "gpu 0.3",
        "NIC0": "nic 0.0",
        "mlx5_2": "nic 0.2",
        "NET/IB/1": "nic 0.1",
        "gpu 0.3": "gpu 0.3",
    }
    for printed, name in names.items():
        assert server.name(server.node(printed)) == name


@pytest.mark.parametrize("family", SMALL)
def test_a_kind_and_a_number_name_the_nodes_of_the_kind_in_order(family):
    fabric = topologies.build(family, **SMALL[family])
    names = {fabric.name(node) for node in range(fabric.n_nodes)}
    for kind in fabric.kinds:
        members = fabric.nodes(kind).tolist()
        for place, node in enumerate(members):
            if f"{kind} {place}" not in names:
                assert fabric.node(f"{kind} {place}") == node
        if members and f"{kind} {len(members)}" not in names:
            with pytest.raises(ValueError, match="names no node"):
                fabric.node(f"{kind} {len(members)}")


def test_a_leaf_is_named_as_where_parts_fail():
    rails = topologies.build("rail_optimised", servers=8, gpus=4, rails=4, radix=8)
    for place, leaf in operations.parts(rails, "leaf").items():
        assert [rails.node(f"leaf {place}")] == leaf.tolist()
    assert repr(rails.without("leaf 3")) == repr(rails.without(nodes=rails.nodes("leaf")[3:4]))


@pytest.mark.parametrize("name", ["nic 1 of server 4", "NIC1 of server 4", "mlx5_1 on Server 4"])
def test_a_part_of_a_server_in_words(name):
    assert HALL.name(HALL.node(name)) == "nic 4.1"


@pytest.mark.parametrize("name", ["nic 9 of server 4", "leaf 0 of server 77"])
def test_a_part_that_a_server_does_not_have(name):
    with pytest.raises(ValueError, match="names no node of this fabric; did you mean"):
        HALL.node(name)


@pytest.mark.parametrize(
    ("printed", "near"),
    [("GPU0", "gpu 0.0"), ("mlx5_0", "nic 0.0"), ("NIC1", "nic 0.1"), ("GPU7", "gpu 0.1")],
)
def test_a_part_that_every_server_has_is_answered_with_names(printed, near):
    with pytest.raises(ValueError, match=f"did you mean '{near}'"):
        HALL.node(printed)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: HALL.without("leaf 2.0"),
            "'leaf 2.0' names no node of this fabric; did you mean 'leaf [01]",
        ),
        (
            lambda: HALL.without("laef 0.0"),
            "kind of node must be one of .* got 'laef' in .*did you mean 'leaf'",
        ),
        (lambda: HALL.without("tor 0.0"), "got 'tor' in 'tor 0.0'; did you mean 'leaf'"),
        (lambda: HALL.node("GPU1"), "'GPU1' names 8 nodes .*did you mean 'gpu 0.1' or 'gpu 1.1'"),
        (
            lambda: HALL.without("leaf 0.0 - gpu 0.0"),
            "no cable joins .* did you mean one from 'leaf 0.0' to 'nic",
        ),
        (
            lambda: HALL.without(cables="leaf 0.0"),
            "cables must be numbers, or names such as 'cable 12' or 'leaf 0 - ",
        ),
        (
            lambda: HALL.without(links="leaf 0.0"),
            "links must be numbers, or names such as 'link 12' or 'leaf 0 -> ",
        ),
        (
            lambda: HALL.without(links="0"),
            "links must be numbers, or names such as 'link 12' .* got '0'",
        ),
        (lambda: HALL.without("cable 99999"), r"cables must be within 0\.\."),
        (lambda: HALL.without([99999]), r"nodes must be within 0\.\."),
        (lambda: HALL.node(""), "node must have a name such as 'gpu 0'"),
    ],
)
def test_a_part_that_is_not_there_is_refused_with_near_ones(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("wrong", [1.5, True, [[1, 2]], [True, False], np.array([0.5])])
def test_numbers_of_parts_are_whole(wrong):
    with pytest.raises(TypeError, match="must be whole numbers"):
        HALL.without(wrong)


def test_a_name_is_a_text():
    with pytest.raises(TypeError, match=r"name must be a text such as 'gpu 3\.5', got 3"):
        HALL.node(3)


# display ------------------------------------------------------------------------------------------
CHANGED = topologies.build("leaf_spine", hosts=64, rate="200 Gb/s")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: f.without(cables=[3, 4]), ".without(cables=[3, 4])"),
        (
            lambda f: f.without(cables=range(3)).with_capacity({7}, "100 Gb/s"),
            ".without(cables=[0, 1, 2]).with_capacity([7], 12500000000.0)",
        ),
        (lambda f: f.without(links=5, nodes=(n for n in [64])), ".without(links=[5], nodes=[64])"),
        (lambda f: f.without(links=np.arange(1, 128, 1)), ".without(links=range(1, 128))"),
        (lambda f: f.without(links=[5] * 200 + [3]), ".without(links=[3, 5])"),
        (lambda f: f.without(links=np.arange(127, 0, -1)), ".without(links=range(1, 128))"),
        (lambda f: f.without(links=[127, *range(100)]), None),
        (lambda f: f.without(), ".without()"),
    ],
)
def test_a_changed_fabric_says_so_and_can_be_typed_back(change, text):
    f = change(CHANGED)
    if text is None:
        assert repr(f).endswith(".without(links=[0, 1, 2, 3, 4, 5, 6, 7, ... 101 in all])")
        with pytest.raises(SyntaxError):
            eval(repr(f))
        return
    assert repr(f) == f"topologies.build('leaf_spine', hosts=64, rate='200 Gb/s'){text}"
    again = eval(repr(f), {"topologies": topologies})
    assert np.array_equal(again.capacity, f.capacity) and repr(again) == repr(f)


def test_a_fabric_that_cannot_be_typed_back_does_not_look_as_if():
    assert repr(star()) == "<Fabric star: 3 host, 1 switch, 3 cables, 3 ranks>"
    broken = star().without(cables=[1]).with_capacity([0], 5e8)
    assert (
        repr(broken) == "<Fabric star: 3 host, 1 switch, 3 cables, 3 ranks, 2 links of capacity 0>"
    )
    assert star().call == broken.call == ""
    fast = dataclasses.replace(CHANGED, capacity=2 * CHANGED.capacity)
    assert repr(fast) == "<Fabric leaf_spine: 64 host, 1 leaf, 64 cables, 64 ranks>"


def test_names_and_texts():
    f = star()
    assert [f.name(i) for i in range(4)] == ["host 0", "host 1", "host 2", "switch"]
    assert f.link_name(3) == "switch -> host 1"
    assert "<th>switch<td>1" in f._repr_html_()
