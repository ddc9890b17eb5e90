"""Inside the server and application-specific fabrics: by hand, laws, published figures, refusals."""

import itertools
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import catalog, engines, metrics, routing, simulation, topologies, validate
from fabriclab.core import Flows
from fabriclab.topologies.gigaio import WIRINGS, gigaio, rings
from fabriclab.topologies.servers import links_between_gpus
from fabriclab.topologies.tpu_slice import ocs_of_cables
from support.oracles.builds import refused

NAMES = ("dgx1v", "dgx_a100", "dgx_h100", "dgx_h200", "mi300x", "pcie_8gpu", "gh200", "gb200")
KINDS = ("all_gather", "all_reduce", "broadcast")


def build(name, **asked):
    return topologies.build(name, **asked)


def only(fabric, medium):
    """Return a graph of the links of one medium, with capacities [B/s] that parallel links share."""
    g = nx.DiGraph()
    for link in np.flatnonzero(fabric.medium == fabric.media.index(medium)).tolist():
        ends = int(fabric.source[link]), int(fabric.target[link])
        g.add_edge(
            *ends,
            capacity=fabric.capacity[link]
            + (g.edges[ends]["capacity"] if g.has_edge(*ends) else 0),
        )
    return g


def between_halves(fabric, medium):
    """Return what one half of the ranks can send to the other over one medium, one way [B/s]."""
    g, half = only(fabric, medium), fabric.n_ranks // 2
    g.add_edges_from(("from", int(e)) for e in fabric.endpoint[:half])
    g.add_edges_from((int(e), "to") for e in fabric.endpoint[half:])
    return nx.maximum_flow_value(g, "from", "to")


def way(fabric, a, b, method="ecmp"):
    """Return the routes of one flow of 1 GB between two nodes, and its time."""
    flows = Flows.make(a, b, 1e9)
    routes = routing.route(fabric, flows, method)
    return routes, engines.run(fabric, routes, flows).end


def names_on(fabric, a, b):
    routes, _ = way(fabric, a, b)
    return [fabric.name(int(fabric.target[x])) for x in routes.row(0)]


def below(fabric, kind, node):
    """Return the numbers of the nodes of a kind that are joined to a node."""
    met = fabric.target[fabric.source == node]
    return sorted(
        np.searchsorted(fabric.nodes(kind), np.intersect1d(met, fabric.nodes(kind))).tolist()
    )


# by hand: what is inside ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("dgx1v", {"gpu": 8, "pcie": 4, "nic": 4, "cpu": 2, "cables": 16 + 8 + 4 + 4 + 1}),
        (
            "dgx_a100",
            {
                "gpu": 8,
                "port": 8,
                "nvswitch": 6,
                "pcie": 4,
                "nic": 8,
                "cpu": 2,
                "cables": 48 + 16 + 8 + 4 + 1,
            },
        ),
        (
            "dgx_h100",
            {"gpu": 8, "nvswitch": 4, "pcie": 8, "nic": 8, "cpu": 2, "cables": 32 + 8 + 8 + 8 + 1},
        ),
        (
            "dgx_h200",
            {"gpu": 8, "nvswitch": 4, "pcie": 8, "nic": 8, "cpu": 2, "cables": 32 + 8 + 8 + 8 + 1},
        ),
        ("mi300x", {"gpu": 8, "pcie": 4, "nic": 8, "cpu": 2, "cables": 28 + 8 + 8 + 4 + 1}),
        ("pcie_8gpu", {"gpu": 8, "pcie": 2, "nic": 2, "cpu": 2, "cables": 8 + 2 + 2 + 1}),
        ("gh200", {"gpu": 4, "nic": 4, "cpu": 4, "cables": 6 + 4 + 4 + 6}),
        (
            "gb200",
            {"gpu": 4, "port": 4, "nvswitch": 18, "nic": 4, "cpu": 2, "cables": 72 + 8 + 4 + 1},
        ),
        (
            "nvl72",
            {"gpu": 72, "port": 72, "nvswitch": 18, "nic": 72, "cpu": 36, "cables": 1296 + 18 * 13},
        ),
    ],
)
def test_parts_by_hand(name, counts):
    f = build(name)
    servers = 18 if name == "nvl72" else 1
    assert f.summary() == {**counts, "ranks": counts["gpu"], "servers": servers}
    assert (
        not f.transit[f.endpoint].any()
        and f.transit[np.setdiff1d(np.arange(f.n_nodes), f.endpoint)].all()
    )
    assert np.array_equal(f.rail, np.arange(f.n_ranks) % (counts["gpu"] // servers))


@pytest.mark.parametrize(
    ("name", "link", "ports"),
    [
        ("dgx1v", "nvlink2", 6),
        ("dgx_a100", "nvlink3", 12),
        ("dgx_h100", "nvlink4", 18),
        ("dgx_h200", "nvlink4", 18),
        ("gh200", "nvlink4", 18),
        ("gb200", "nvlink5", 18),
        ("nvl72", "nvlink5", 18),
    ],
)
def test_a_gpu_has_the_nvlinks_and_the_bandwidth_of_its_datasheet(name, link, ports):
    f = build(name)
    mine = (f.medium == f.media.index("nvlink")) & np.isin(f.source, f.endpoint)
    assert set(np.bincount(f.source[mine], weights=f.ports[mine])[f.endpoint]) == {ports}
    assert catalog.value("links", link, "links_per_gpu") == ports
    rate = catalog.value("links", link, "bandwidth_per_gpu")
    assert np.bincount(f.source[mine], weights=f.capacity[mine])[f.endpoint] == pytest.approx(rate)


def test_mi300x_has_one_link_of_64_to_each_other():
    f = build("mi300x")
    g = only(f, "xgmi")
    assert {d for _, d in g.out_degree()} == {7} and {c for *_, c in g.edges.data("capacity")} == {
        64e9
    }
    assert sum(g.edges[0, j]["capacity"] for j in range(1, 8)) == catalog.value(
        "links", "xgmi-mi300x", "bandwidth_per_gpu_all_links"
    )
    assert way(f, 0, 1)[1] == pytest.approx(1 / 64)  # a pair uses one of seven links


def test_more_rings_use_more_of_the_mesh():
    """Two GPUs have one link; 8 GPUs have 7 each, and n rings without a common link reach n times as much."""
    f = build("mi300x")
    assert simulation.ring_busbw("all_reduce", f, [0, 1]) == pytest.approx(64e9)
    for steps in ([1], [1, 7], [1, 7, 3], [1, 7, 3, 5]):  # GPU i sends to i + step
        orders = [np.arange(8) * s % 8 for s in steps]
        for what in KINDS:
            assert simulation.ring_busbw(what, f, orders) == pytest.approx(len(steps) * 64e9)
    shared = simulation.ring_busbw("all_gather", f, [range(8)] * 2, "8 MiB")  # the same ring twice
    assert shared == pytest.approx(64e9)


def test_ports_of_the_switch_chips():
    def used(name, **asked):
        f = build(name, **asked)
        return f.ports_used[f.nodes("nvswitch")].tolist(), set(f.radix[f.nodes("nvswitch")])

    assert used("dgx_a100") == ([16] * 6, {36})
    assert used("dgx_h100") == ([40, 32, 32, 40], {64})
    assert used("gb200") == ([4] * 18, {72})
    assert used("nvl72") == ([72] * 18, {72})  # 1,296 ports for 72 GPUs with 18 links
    assert sum(used("nvl72", gpus=72)[0]) == 1296


# Published by nvidia-smi topo -m of a DGX-1V: NV1 or NV2 of each pair; GPUs 0 to 3 and 4 to 7 are quads.
NV2 = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
NV1 = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]


def test_the_cube_mesh_is_as_published():
    f = build("dgx1v")
    g = only(f, "nvlink")
    pairs = {(a, b): c for a, b, c in g.edges.data("capacity") if a < b}
    assert pairs == {**dict.fromkeys(NV2, 50e9), **dict.fromkeys(NV1, 25e9)}
    assert np.array_equal(links_between_gpus("dgx1v"), links_between_gpus("dgx1v").T)
    lengths = [
        n for a, row in nx.all_pairs_shortest_path_length(g) for b, n in row.items() if a != b
    ]
    # topology_reference.csv
    assert (max(lengths), np.mean(lengths)) == (2, pytest.approx(1.42857, abs=1e-5))


@pytest.mark.parametrize(("pair", "rate"), [((0, 3), 50e9), ((0, 1), 25e9)])
def test_a_pair_of_the_cube_mesh_has_one_link_or_two(pair, rate):
    f = build("dgx1v")
    assert way(f, *pair)[1] == pytest.approx(1e9 / rate)


def test_a_pair_without_nvlink_goes_over_the_processors():
    """As other GPUs let nothing pass, GPU 0 reaches GPU 5 as nvidia-smi says: SYS."""
    f = build("dgx1v")
    assert names_on(f, 0, 5) == ["pcie 0.0", "cpu 0.0", "cpu 0.1", "pcie 0.2", "gpu 0.5"]
    assert way(f, 0, 5)[1] == pytest.approx(
        1e9 / catalog.value("memory_path", "upi-bdw", "bandwidth")
    )


@pytest.mark.parametrize(
    ("name", "rate"),
    [("dgx_a100", 300e9), ("dgx_h100", 450e9), ("dgx_h200", 450e9), ("gb200", 900e9)],
)
def test_any_pair_behind_nvswitch_has_all_links_of_a_gpu(name, rate):
    f = build(name)
    nvlink = f.media.index("nvlink")
    for a, b in itertools.permutations(f.endpoint.tolist(), 2):
        routes, time = way(f, a, b, "spray")
        assert set(f.medium[routes.link]) == {nvlink}, "no way over PCIe or C2C is as short"
        assert time == pytest.approx(1e9 / rate)


def test_bisection_of_dgx_h100():
    both_ways = catalog.systems["dgxh100"]["bisection"]
    assert (both_ways.value, both_ways.unit, both_ways.direction) == (
        3.6,
        "TB/s",
        "bidirectional_sum",
    )
    assert 2 * between_halves(build("dgx_h100"), "nvlink") == pytest.approx(3.6e12)
    assert between_halves(build("dgx_h100"), "nvlink") == pytest.approx(both_ways.si)
    # 2 x 2 + 2 x 1 links
    assert between_halves(build("dgx1v"), "nvlink") == pytest.approx(6 * 25e9)


@pytest.mark.parametrize(
    ("name", "switches", "sockets"),
    [
        ("dgx1v", [[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 1], [2, 3]]),
        ("dgx_h100", [[i] for i in range(8)], [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("mi300x", [[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 1], [2, 3]]),
        ("pcie_8gpu", [[0, 1, 2, 3], [4, 5, 6, 7]], [[0], [1]]),
    ],
)
def test_pcie_switches_have_their_gpus_and_nics(name, switches, sockets):
    f = build(name)
    assert [below(f, "gpu", p) for p in f.nodes("pcie")] == switches
    assert [below(f, "pcie", c) for c in f.nodes("cpu")] == sockets
    nics = [below(f, "nic", p) for p in f.nodes("pcie")]
    assert nics == np.arange(f.nodes("nic").size).reshape(len(switches), -1).tolist()


def test_gpus_of_a_dgx_a100_share_a_switch_two_by_two_with_two_nics():
    f = build("dgx_a100")
    ports, pcie = f.nodes("port"), f.nodes("pcie")
    assert [below(f, "gpu", p) for p in ports] == [[i] for i in range(8)]
    assert (
        [below(f, "port", p) for p in pcie]
        == [below(f, "nic", p) for p in pcie]
        == [[0, 1], [2, 3], [4, 5], [6, 7]]
    )
    assert names_on(f, 0, f.nodes("nic")[1]) == ["port 0.0", "pcie 0.0", "nic 0.1"]


def test_superchips_reach_their_nics_over_their_own_processor():
    f = build("gh200")
    assert [(below(f, "gpu", c), below(f, "nic", c)) for c in f.nodes("cpu")] == [
        ([i], [i]) for i in range(4)
    ]
    c2c = f.capacity[f.links_between(f.endpoint[0], f.nodes("cpu")[0])]
    assert c2c.tolist() == [450e9]
    g = build("gb200")
    assert [(below(g, "port", c), below(g, "nic", c)) for c in g.nodes("cpu")] == [
        ([0, 1], [0, 1]),
        ([2, 3], [2, 3]),
    ]
    assert way(f, 0, 3)[1] == pytest.approx(1 / 150)  # six NVLinks


def test_gpus_on_pcie_meet_on_their_switch_or_cross_the_sockets():
    f = build("pcie_8gpu")
    assert names_on(f, 0, 3) == ["pcie 0.0", "gpu 0.3"]
    assert names_on(f, 0, 4) == ["pcie 0.0", "cpu 0.0", "cpu 0.1", "pcie 0.1", "gpu 0.4"]
    near, far = way(f, 0, 3)[1], way(f, 0, 4)[1]
    assert near == pytest.approx(1e9 / catalog.value("links", "pcie5", "bandwidth_after_encoding"))
    assert far == pytest.approx(1e9 / catalog.value("memory_path", "upi-spr", "bandwidth"))


# the rack -------------------------------------------------------------------------------------------
def test_nvl72_adds_up_to_130_tb_per_second():
    f = build("nvl72")
    up = (f.medium == f.media.index("nvlink")) & np.isin(f.source, f.endpoint)
    total = catalog.systems["nvl72"]["nvlink_total"]
    assert 2 * f.capacity[up].sum() == pytest.approx(total.value * 1e12, rel=0.01)
    assert set(f.ports[up]) == {1} and up.sum() == 72 * 18
    assert between_halves(f, "nvlink") == pytest.approx(32.4e12)
    about = topologies.registry.info("topology", "nvl72")["bisection"]
    assert (
        about() * 50e9 == about(gpus=72) * 50e9 == pytest.approx(32.4e12) and about(gpus=36) is None
    )


@given(st.integers(1, 144))
def test_domains_of_any_size(trays):
    gpus = 4 * trays
    f = build("nvl72", gpus=gpus)
    chips = f.nodes("nvswitch")
    used = f.ports_used[chips]
    assert f.n_ranks == gpus and f.summary()["servers"] == trays
    nvlink = f.medium == f.media.index("nvlink")
    mine = np.isin(f.source, f.endpoint) & nvlink
    assert set(np.bincount(f.source[mine], weights=f.ports[mine])[f.endpoint]) == {18}
    assert np.all(used <= 72)
    plane = f.coord[:, f.coord_names.index("plane")]
    assert np.array_equal(np.unique(plane[chips]), np.arange(18))
    inner = nvlink & np.isin(f.source, chips) & np.isin(f.target, chips)
    assert np.all(plane[f.source[inner]] == plane[f.target[inner]])
    if gpus <= 72:
        assert chips.size == 18 and set(used) == {gpus}
    else:  # each chip of the lower tier has at least as many links up as it has GPUs
        low = chips[f.tier[chips] == 1]
        down = np.bincount(f.target[mine], minlength=f.n_nodes)[low]
        up = np.bincount(f.source[inner], minlength=f.n_nodes)[low]
        assert np.all(up >= down) and np.all(down <= 36) and low.size == 18 * -(-gpus // 36)


@pytest.mark.parametrize("gpus", [80, 144, 576])
def test_large_domains_are_non_blocking(gpus):
    f = build("nvl72", gpus=gpus)
    assert between_halves(f, "nvlink") == pytest.approx(9 * gpus * 50e9)
    assert topologies.registry.info("topology", "nvl72")["bisection"](gpus=gpus) == 9 * gpus
    routes, time = way(f, f.endpoint[0], f.endpoint[-1], "spray")
    assert time == pytest.approx(1e9 / 900e9) and routes.hops()[0] == pytest.approx(4)


# slices of a TPU pod --------------------------------------------------------------------------------
SHAPES = st.tuples(*[st.integers(1, 4).map(lambda k: 4 * k)] * 3)


def check_circuits(f, cubes):
    """Each OCS must hold one circuit from every cube to a cube, on fibres of one dimension and face position."""
    ocs = ocs_of_cables(f)
    optical = np.flatnonzero(ocs >= 0)
    assert f.n_cables == 3 * f.n_ranks and optical.size == 48 * cubes == 3 * f.n_ranks // 4
    assert np.unique(ocs[optical]).size == 48
    assert (
        2 * np.bincount(ocs[optical]).max()
        == 2 * cubes
        <= catalog.value("switches", "palomar", "ports")
    )
    for end, side in ((f.source[2 * optical], 3), (f.target[2 * optical], 0)):
        at, cube = f.coord[end] % 4, f.server[end]
        # each cube once at each OCS
        assert np.unique(ocs[optical] * cubes + cube).size == optical.size
        dimension, place = np.divmod(ocs[optical], 16)
        assert np.all(at[np.arange(optical.size), dimension] == side)
        rest = np.stack([at[np.arange(optical.size), (dimension + i) % 3] for i in (1, 2)])
        assert np.array_equal(rest[0] * 4 + rest[1], place)
    same = f.server[f.source[::2]] == f.server[f.target[::2]]
    assert np.all(same[ocs < 0]), "a copper cable leaves its cube"
    assert np.array_equal(np.array(f.media)[f.medium[::2]] == "fibre", ocs >= 0)


def test_a_pod_has_48_optical_switches():
    f = build("tpu_slice", shape=(16, 16, 16))
    check_circuits(f, 64)
    assert (
        f.n_ranks == catalog.value("systems", "tpu4pod", "chips") and f.summary()["servers"] == 64
    )
    assert np.unique(ocs_of_cables(f)).size - 1 == catalog.value(
        "switches", "palomar", "count_per_pod"
    )
    assert 2 * np.bincount(ocs_of_cables(f) + 1)[1:].max() == 128  # ports in use on each
    assert f.kinds == ("chip",) and f.transit.all()
    assert f.capacity.min() * 6 == catalog.value("accelerators", "tpu4", "scaleup_bandwidth")
    assert topologies.registry.info("topology", "tpu_slice")["bisection"](shape=(16, 16, 16)) == 512
    assert metrics.hops(f).diameter == 24


@given(SHAPES)
def test_slices_are_tori_of_cubes(shape):
    f, torus = build("tpu_slice", shape=shape), build("torus", shape=shape)
    check_circuits(f, np.prod(shape) // 64)
    for x in ("source", "target", "coord"):
        assert np.array_equal(getattr(f, x), getattr(torus, x)), x
    assert np.all(f.length[f.medium == 0] < f.length[f.medium == 1].min())


@pytest.mark.parametrize("shape", [(4, 4, 8), (4, 8, 8), (8, 8, 16), (8, 4, 4)])
def test_twisted_slices(shape):
    f = build("tpu_slice", shape=shape, twisted=True)
    check_circuits(f, np.prod(shape) // 64)
    twisted = build("twisted_torus", shape=shape)
    assert np.array_equal(f.target, twisted.target)
    assert not np.array_equal(f.target, build("tpu_slice", shape=shape).target)


# GigaIO ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wiring", "cards", "dracos"),
    [
        ("1s-2rp-split-cascade", 2, [6]),
        ("1s-1rp-std-cascade", 2, [5]),
        ("1s-2rp-std-cascade", 2, [6]),
        ("2s-2rp-split-flat", 4, [5, 5]),
        ("2s-2rp-std-flat", 4, [5, 5]),
    ],
)
def test_wirings_have_their_cards_and_fit_on_their_switches(wiring, cards, dracos):
    f = build("gigaio", wiring=wiring)
    draco = f.nodes("draco")
    chip = f.coord[draco, f.coord_names.index("chip")]
    assert np.bincount(chip, weights=f.ports_used[draco]).tolist() == dracos
    assert max(dracos) <= catalog.value("switches", "draco", "connections")
    to_box = [f.server[below(f, "gpu", a)[0]] for a in f.nodes("apa") if below(f, "draco", a)]
    assert np.bincount(to_box).tolist() == [cards, cards]
    assert f.nodes("root").size == int(wiring[3]) and f.n_ranks == 16
    chained = [[2], [3], [0], [1]] if cards == 2 else [[]] * 4
    for box in range(2):
        apa = f.nodes("apa")[4 * box : 4 * box + 4]
        assert [below(f, "gpu", a) for a in apa] == [
            [8 * box + i, 8 * box + i + 4] for i in range(4)
        ]
        assert [below(f, "apa", a) for a in apa] == [[4 * box + i for i in row] for row in chained]
    assert rings(f).shape == (cards, 16)


@pytest.mark.parametrize(
    ("wiring", "crosses"),
    [
        ("1s-2rp-split-cascade", False),
        ("1s-1rp-std-cascade", False),
        ("1s-2rp-std-cascade", True),
        ("2s-2rp-split-flat", False),
        ("2s-2rp-std-flat", True),
    ],
)
def test_boxes_meet_on_a_switch_or_across_the_processor(wiring, crosses):
    f = build("gigaio", wiring=wiring)
    for ring in rings(f).tolist():
        for a, b in ((ring[7], ring[8]), (ring[15], ring[0])):
            on = names_on(f, a, b)
            assert ("cpu" in on) == crosses
            assert f.server[[a, b]].tolist() in ([0, 1], [1, 0])


@pytest.mark.parametrize("wiring", WIRINGS)
def test_rings_share_no_link_inside_a_box_and_leave_by_their_own_card(wiring):
    f = build("gigaio", wiring=wiring)
    order = rings(f)
    assert np.array_equal(np.sort(order, axis=1), np.tile(np.arange(16), (len(order), 1)))
    steps = [tuple(sorted(p)) for ring in order.tolist() for p in itertools.pairwise(ring)]
    inside = [p for p in steps if f.server[p[0]] == f.server[p[1]]]
    assert len(set(inside)) == len(inside) == 14 * len(order)
    cards = [names_on(f, ring[7], ring[8])[0] for ring in order]
    assert cards == [f"apa 0.{r}" for r in range(len(order))]


@pytest.fixture(scope="module")
def cells():
    return {(r["wiring"], r["collective"]): r for r in validate.gigaio().rows}


SHARED = ("1s-2rp-std-cascade", "2s-2rp-std-flat")  # the processor is crossed
LINK = catalog.value("links", "pcie4", "bandwidth_after_encoding")


def cards(wiring):
    return 4 if wiring.endswith("flat") else 2


def test_the_groups_of_the_published_table(cells):
    """One link at most where it is shared, above one link in the other three, and no more than all cards of a box."""
    assert set(cells) == set(itertools.product(WIRINGS, KINDS))
    for (wiring, what), row in cells.items():
        assert row["published"] == catalog.value("systems", f"gigaio-{wiring}", f"busbw_{what}")
        for key in ("published", "model"):
            assert (row[key] > LINK) == (wiring not in SHARED)
            assert row[key] <= cards(wiring) * LINK


@pytest.mark.parametrize("what", KINDS)
def test_the_order_of_the_published_table(cells, what):
    """Whenever the model has one wiring above another, the table has, too: 1 x 2 + 2 x 2 + 1 x 2 of 10 pairs."""
    pairs = [(cells[a, what], cells[b, what]) for a, b in itertools.permutations(WIRINGS, 2)]
    above = [(one, other) for one, other in pairs if one["model"] > other["model"] * (1 + 1e-9)]
    assert len(above) == 8
    assert all(one["published"] > other["published"] for one, other in above)


@pytest.mark.parametrize("what", KINDS)
def test_the_ratio_of_flat_to_cascade(cells, what):
    """The model has that of the cards, the table less: latency and rings are left out."""
    flat, cascade = (
        cells[wiring, what] for wiring in ("2s-2rp-split-flat", "1s-2rp-split-cascade")
    )
    assert flat["model"] / cascade["model"] == pytest.approx(4 / 2)
    assert 1 < flat["published"] / cascade["published"] < 4 / 2


def test_one_efficiency_for_all_cells(cells):
    table = validate.gigaio()
    copied, full = (
        catalog.memory_path["p2p-pcie"]["bandwidth"],
        catalog.links["pcie5"]["bandwidth_after_encoding"],
    )
    assert table.efficiency == pytest.approx(copied.si / full.si)
    half = {
        (r["wiring"], r["collective"]): r["model"]
        for r in validate.gigaio(table.efficiency / 2).rows
    }
    assert half == pytest.approx({k: r["model"] / 2 for k, r in cells.items()})
    assert {k: r["model"] for k, r in cells.items()} == pytest.approx(
        {(w, c): table.efficiency * (1 if w in SHARED else cards(w)) * LINK for w, c in cells}
    )
    for row in table.rows:
        assert row["error"] == pytest.approx(row["model"] / row["published"] - 1)


def test_the_table_shows_itself():
    table = validate.gigaio()
    lines = str(table).splitlines()
    assert (
        lines[0].split() == ["wiring", "collective", "published", "model", "error"]
        and len(lines) == 16
    )
    name, *cells = re.split(r"  +", lines[10])
    assert name == "2 switches, 2 root ports, boxes split, flat"
    assert " ".join(cells).split() == [
        "all",
        "gather",
        "92.0",
        "GB/s",
        "109",
        "GB/s",
        "+18",
        "%",
    ]
    assert {line.split()[-2] for line in lines[1:]} >= {"-3", "+18"}
    assert table._repr_html_().count("<tr>") == 16


def test_pcie_5_doubles_the_fabric():
    slow, fast = (
        build("gigaio", wiring=WIRINGS[0]),
        build("gigaio", wiring=WIRINGS[0], pcie="63 GB/s"),
    )
    of_box = slow.medium != slow.media.index("xgmi")
    assert set(fast.capacity[of_box]) == {63e9} and np.array_equal(
        slow.capacity[~of_box], fast.capacity[~of_box]
    )


# refusals -------------------------------------------------------------------------------------------
test_what_cannot_be_built_is_refused = refused(
    [
        (
            "dgx_h300",
            {},
            "unknown topology 'dgx_h300'; choose one of .*dgx_a100, dgx_h100, dgx_h200",
        ),
        (
            "nvl72",
            {"gpus": 73},
            r"gpus must be a multiple of 4 \(GPUs of a tray\), got 73; take 72",
        ),
        ("nvl72", {"gpus": 580}, r"gpus must be within 4\.\.576, got 580"),
        ("nvl72", {"gpus": 0}, r"gpus must be within 4\.\.576, got 0"),
        (
            "tpu_slice",
            {"shape": (4, 4, 6)},
            r"shape must be 3 multiples of 4, up to 4096 chips.*got \(4, 4, 6\)",
        ),
        ("tpu_slice", {"shape": (4, 4)}, "shape must be 3 multiples of 4"),
        ("tpu_slice", {"shape": "4x4x4"}, "shape must be 3 multiples of 4"),
        ("tpu_slice", {"shape": (0, 4, 4)}, "shape must be >= 1, got 0"),
        ("tpu_slice", {"shape": (16, 16, 20)}, r"shape must be .* up to 4096 chips"),
        ("tpu_slice", {"shape": (4, 8, 16), "twisted": True}, r"shape must .*k and 2k"),
        ("tpu_slice", {"shape": (4, 4, 4), "rate": "45"}, "rate needs its unit"),
        (
            "gigaio",
            {"wiring": "3s-1rp-std-flat"},
            r"wiring must be one of 1s-2rp-split-cascade, .*got '3s-1rp-std-flat'",
        ),
        ("gigaio", {"wiring": "2s-1rp-std-flat"}, "a switch needs a root port"),
        (
            "gigaio",
            {"wiring": "1s-2rp-split-flat"},
            r"needs 10 ports on a switch, a Draco has 6; take 2s or cascade",
        ),
        ("gigaio", {"wiring": None}, "wiring must be one of .* got None"),
        ("gigaio", {"wiring": WIRINGS[0], "pcie": "32 GBps"}, "pcie has the unknown unit"),
    ]
)


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match=r"dgx_h100: .*gpus"):
        build("dgx_h100", gpus=4)
    with pytest.raises(TypeError, match="twisted must be True or False"):
        build("tpu_slice", shape=(4, 4, 8), twisted="yes")
    with pytest.raises(TypeError, match="shape must be a whole number"):
        build("tpu_slice", shape=(4, 4, 4.0))
    for orders, size in (([0], 1e6), ([], 1e6), ([0, 1], 0)):
        with pytest.raises(ValueError, match=r"orders must .*2 or more ranks.*size above 0 B"):
            simulation.ring_busbw("all_gather", build("mi300x"), orders, size)
    with pytest.raises(KeyError, match=r"catalog\.systems has no 'dgx9'"):
        links_between_gpus("dgx9")
    for part in (1.2, "80%"):
        with pytest.raises(
            ValueError, match=f"efficiency must be a number above 0 and at most 1, got {part!r}"
        ):
            validate.gigaio(part)


def test_servers_say_what_they_are():
    for name in NAMES:
        function = topologies.registry.get("topology", name)
        assert function.__name__ == name and function.__doc__.startswith("Return one server: ")
    assert "4 and 5" in topologies.registry.get("topology", "dgx_h100").__doc__
    assert repr(build("dgx_a100")) == "topologies.build('dgx_a100')"
    assert gigaio(WIRINGS[0]).n_ranks == 16


def test_a_domain_counts_its_chips_layers_and_ports():
    counted = metrics.domain(topologies.build("nvl72"))
    assert counted == (72, 18, 1, 1, 72 * 18, 0, 900e9)
    assert metrics.domain(topologies.build("dgx_h100")).to_a_chip == 5  # 5, 4, 4 and 5 links
    mesh = metrics.domain(topologies.build("mi300x"))
    assert mesh == (8, 0, 0, 0, 0, 0, 448e9)
    with pytest.raises(ValueError, match="links of their own"):
        metrics.domain(topologies.build("leaf_spine", hosts=8, radix=8))


def test_a_drawing_becomes_a_fabric_whose_ranks_pass_on_traffic():
    ring = topologies.from_lines([(0, 1), (1, 2), (2, 3), (3, 0)], "50 GB/s")
    assert (ring.n_ranks, ring.n_cables, ring.capacity.min()) == (4, 4, 50e9)
    assert metrics.bisection(ring).upper == pytest.approx(100e9)
    for lines, word in (([], "line"), ([(0, 1), (2, 3)], "connected")):
        with pytest.raises(ValueError, match=word):
            topologies.from_lines(lines, "50 GB/s")
