"""Clos families, graphs from networkx and composed servers: by hand, laws against formulas and networkx, refusals."""

import csv
import inspect
import itertools
import json
from collections import Counter
from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from fabriclab import catalog, registry, routing, topologies, units
from fabriclab.collectives import leaf_of
from fabriclab.core import FabricBuilder, Flows, load, save
from fabriclab.errors import TooLarge
from support import DATA
from support.breadth_first import hops_from
from support.oracles.builds import bytes_of, estimate_holds, refused
from support.oracles.hops import HOPS
from support.oracles.routes import check_routes

ROWS = (DATA / "topology_reference.csv").read_text(encoding="utf-8").splitlines()
REFERENCE = [r for r in csv.DictReader(ROWS) if r["id"].startswith(("fattree_k", "leafspine_k"))]
SMALL = {name: registry.info("topology", name)["small"] for name in topologies.names()}
SERVERS = ("dgx1v", "dgx_a100", "dgx_h100", "dgx_h200", "gb200", "gh200", "mi300x", "pcie_8gpu")


def edges(fabric, *fields):
    """Return how often each named pair of nodes is joined, with the given columns of its links."""
    columns = [getattr(fabric, k).tolist() for k in fields]
    names = [fabric.name(i) for i in range(fabric.n_nodes)]
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    return Counter((names[a], names[b], *row) for (a, b), *row in zip(ends, *columns, strict=True))


def distances(fabric):
    """Return the hops of all ordered pairs of ranks by networkx; each end is split, so that no way crosses one."""
    graph = nx.DiGraph()
    for a, b in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        graph.add_edge(
            a if fabric.transit[a] else ("out", a), b if fabric.transit[b] else ("in", b)
        )
    ends, out = fabric.endpoint.tolist(), {}
    for a in ends:
        reached = nx.single_source_shortest_path_length(
            graph, a if fabric.transit[a] else ("out", a)
        )
        out |= {(a, b): reached.get(b if fabric.transit[b] else ("in", b)) for b in ends if a != b}
    return list(out.values())


def narrowest(fabric):
    """Return the least that any half of the ranks can send to the other half, in B/s, by max-flow for every half."""
    graph = nx.DiGraph()
    for a, b, c in zip(
        fabric.source.tolist(), fabric.target.tolist(), fabric.capacity.tolist(), strict=True
    ):
        graph.add_edge(
            a, b, capacity=c + (graph.edges[a, b]["capacity"] if graph.has_edge(a, b) else 0.0)
        )
    ends, least = fabric.endpoint.tolist(), np.inf
    for half in itertools.combinations(ends, len(ends) // 2):
        both = graph.copy()
        both.add_edges_from(("from", e) for e in half)
        both.add_edges_from((e, "to") for e in ends if e not in half)
        least = min(least, nx.maximum_flow_value(both, "from", "to"))
    return least


def degrees(fabric, node, kind):
    """Return how many cables lead from a node to nodes of one kind."""
    return int(np.sum((fabric.source == node) & np.isin(fabric.target, fabric.nodes(kind))))


def same_graph(f, g):
    """Tell whether two fabrics are one graph: networkx finds a renaming that keeps the tiers."""
    one, other = (nx.Graph(x.to_networkx()) for x in (f, g))
    same_tier = nx.is_isomorphic(one, other, node_match=lambda a, b: a["tier"] == b["tier"])
    return f.n_cables == g.n_cables == one.number_of_edges() and same_tier


@st.composite
def trees(draw, most=200):
    """Draw m and w of an XGFT with at most that many hosts."""
    h = draw(st.integers(1, 4))
    m = draw(st.lists(st.integers(1, 5), min_size=h, max_size=h))
    assume(2 <= np.prod(m) <= most)
    return {"m": m, "w": draw(st.lists(st.integers(1, 3), min_size=h, max_size=h))}


@st.composite
def halls(draw, ranks, names=("rail_optimised", "multi_plane", "dual_tor")):
    """Draw family and arguments of servers on rails, with at most that many ranks."""
    name, rails, per_rail = (
        draw(st.sampled_from(names)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
    )
    gpus = rails * per_rail
    assume(2 * gpus <= ranks)
    asked = {
        "servers": draw(st.integers(2, ranks // gpus)),
        "gpus": gpus,
        "rails": rails,
        "radix": draw(st.integers(2, 12)),
        "oversubscription": draw(st.sampled_from([1, 1, 2, 3])),
        "tiers": draw(st.sampled_from([None, 2, 3])),
        "expand": draw(st.booleans()),
    }
    asked |= {"planes": draw(st.integers(1, 3))} if name == "multi_plane" else {}
    return name, asked | ({"dual_plane": draw(st.booleans())} if name == "dual_tor" else {})


def built(name, asked):
    """Return the fabric, or let hypothesis draw anew where the arguments do not fit."""
    try:
        return topologies.build(name, **asked)
    except ValueError:
        reject()


# by hand ------------------------------------------------------------------------------------------
def test_xgft_by_hand():
    """Two leaves of two hosts, two spines: switches that differ in one digit only are joined."""
    f = topologies.build("xgft", m=(2, 2), w=(1, 2), radix=4)
    assert f.summary() == {"host": 4, "leaf": 2, "spine": 2, "cables": 8, "ranks": 4, "servers": 4}
    assert [f.name(i) for i in range(8)] == [
        "host 0.0",
        "host 0.1",
        "host 1.0",
        "host 1.1",
        "leaf 0.0",
        "leaf 1.0",
        "spine 0.0",
        "spine 1.0",
    ]
    assert {(a, b) for a, b in edges(f) if a < b} == {
        ("host 0.0", "leaf 0.0"),
        ("host 0.1", "leaf 0.0"),
        ("host 1.0", "leaf 1.0"),
        ("host 1.1", "leaf 1.0"),
        *itertools.product(("leaf 0.0", "leaf 1.0"), ("spine 0.0", "spine 1.0")),
    }


@pytest.mark.parametrize(
    ("m", "w", "name", "asked"),
    [
        ((2, 2, 4), (1, 2, 2), "fat_tree", {"k": 4}),
        ((3, 6), (1, 3), "fat_tree", {"k": 6, "tiers": 2}),
        ((6, 8), (1, 2), "leaf_spine", {"hosts": 48, "radix": 8, "oversubscription": 3}),
        (
            (4, 8),
            (2, 4),
            "dual_tor",
            {"servers": 32, "gpus": 1, "rails": 1, "radix": 4, "expand": False},
        ),
    ],
)
def test_an_xgft_is_the_fat_tree_the_leaf_spine_and_the_planes_of_its_size(m, w, name, asked):
    assert same_graph(topologies.build("xgft", m=m, w=w), topologies.build(name, **asked))
    assert not same_graph(
        topologies.build("xgft", m=m, w=(w[0] + 1, *w[1:])), topologies.build(name, **asked)
    )


@pytest.mark.parametrize(("servers", "switches"), [(64, 8), (1024, 384), (2048, 768)])
def test_rails_without_spines_between_them_need_the_switches_of_the_price_sheet(servers, switches):
    """A public price sheet of August 2024 counts 8, 384 and 768 switches for 512, 8,192 and 16,384 GPUs."""
    f = topologies.build("rail_only", servers=servers, expand=False)
    assert f.n_nodes - f.n_ranks == switches


def test_rail_only_joins_equal_rails_and_equal_servers_only():
    f = topologies.build("rail_only", servers=5, gpus=4, rails=2, radix=8)
    hops = np.array(distances(f), dtype=object).reshape(f.n_ranks, f.n_ranks - 1)
    a, b = np.nonzero(~np.eye(f.n_ranks, dtype=bool))
    way = (hops.ravel() != None).astype(bool)  # noqa: E711
    assert np.array_equal(way, (f.rail[a] == f.rail[b]) | (f.server[a] == f.server[b]))
    assert [f.name(int(i)) for i in f.nodes("spine")] == [
        f"spine {r}.{i}" for r in (0, 1) for i in (0, 1)
    ]
    assert topologies.build("rail_only", servers=4, gpus=4, rails=2, radix=8).summary()["leaf"] == 2


def test_slower_planes_reach_more_with_as_many_switches():
    """Two tiers of 64 ports end at 2,048 NICs of 800 Gb/s; as 4 x 200 Gb/s they reach 16 times as many."""
    few = {"rails": 1, "tiers": 2, "expand": False}
    for planes, most in ((1, 2048), (2, 8192), (4, 32768)):
        f = topologies.build("multi_plane", servers=most // 8, planes=planes, **few)
        assert f.n_nodes - f.n_ranks == 3 * most // 64  # 3 N / k, on any number of planes
        up = f.source == f.endpoint[0]
        assert (up.sum(), f.capacity[up].sum()) == (
            planes,
            catalog.value("nics", "cx8", "throughput"),
        )
        assert f.n_cables == 2 * planes * most
        with pytest.raises(
            ValueError,
            match=rf"servers must be within 1\.\.{most // 8} for 2 tiers of {64 * planes}",
        ):
            topologies.build("multi_plane", servers=most // 8 + 1, planes=planes, **few)


def test_hpn_7():
    """15 segments of 1,024 GPUs on dual planes are two tiers [K. Qian et al., SIGCOMM 2024]; one plane needs three."""
    segment = int(catalog.value("systems", "hpn7", "gpus_per_segment"))
    f = topologies.build("dual_tor", servers=15 * segment // 8, radix=128, expand=False)
    nic, leaves = f.endpoint, 16
    assert (f.n_ranks, "core" in f.kinds, f.nodes("leaf").size) == (
        15 * segment,
        False,
        15 * leaves,
    )
    up = np.isin(f.source, nic)
    met = np.unique(f.target[up][f.source[up] < segment])  # by the NICs of the first 128 servers
    assert met.size == leaves and np.all(
        np.bincount(f.target[up], minlength=f.n_nodes)[met] == segment // 8
    )
    ahead = {
        i: set(f.target[(f.source == leaf) & (f.tier[f.target] == 2)]) for i, leaf in enumerate(met)
    }
    assert ahead[0].isdisjoint(ahead[leaves - 1])  # the planes never meet
    assert "core" in topologies.build("rail_optimised", servers=1920, radix=128, expand=False).kinds


@pytest.mark.parametrize("split", [True, False])
def test_a_nic_with_two_leaves_outlives_one(split):
    f = topologies.build(
        "dual_tor", servers=8, gpus=2, rails=2, radix=4, dual_plane=split, expand=False
    )
    hurt = f.without(nodes=[int(f.nodes("leaf")[0])])
    assert set(np.bincount(hurt.source[hurt.capacity > 0], minlength=f.n_nodes)[f.endpoint]) == {
        1,
        2,
    }
    assert None not in distances(hurt)
    assert (len(set(f.coord[f.nodes("spine"), f.coord_names.index("plane")])) == 2) == split


def test_the_rates_of_a_server_on_planes():
    f = topologies.build("multi_plane", servers=2, planes=2, rate="400 Gb/s", pcie="64 GB/s")
    assert {f.media[m]: c for m, c in zip(f.medium, f.capacity, strict=True)} == {
        "nvlink": catalog.value("links", "nvlink4", "bandwidth_per_gpu"),
        "pcie": 64e9,
        "fibre": 25e9,
    }
    bus = catalog.value("links", "pcie6", "bandwidth_after_encoding")
    assert bus in topologies.build("multi_plane", servers=2).capacity


# laws ---------------------------------------------------------------------------------------------
@given(trees())
def test_xgft_of_any_shape(asked):
    f, m, w = topologies.build("xgft", **asked), asked["m"], asked["w"]
    h, hosts = len(m), int(np.prod(m))
    assert [f.nodes(k).size for k in f.kinds] == [
        np.prod(w[:i]) * np.prod(m[i:]) for i in range(h + 1)
    ]
    assert f.n_cables == sum(np.prod(w[: i + 1]) * np.prod(m[i:]) for i in range(h))
    for i, kind in enumerate(f.kinds):
        for node in f.nodes(kind)[:: max(1, f.nodes(kind).size // 5)]:
            assert [degrees(f, node, k) for k in f.kinds[max(i - 1, 0) : i]] == m[max(i - 1, 0) : i]
            assert [degrees(f, node, k) for k in f.kinds[i + 1 : i + 2]] == w[i : i + 1]
    assert len({f.name(i) for i in range(f.n_nodes)}) == f.n_nodes
    graph = nx.Graph(f.to_networkx())
    # differs in digit h alone
    there = int(np.flatnonzero(np.arange(hosts) // np.prod(m[:-1]) == m[-1] - 1)[0])
    if m[-1] > 1:
        assert sum(1 for _ in nx.all_shortest_paths(graph, 0, there)) == np.prod(w)
    for a, b in zip(f.source, f.target, strict=True):
        differ = f.coord[a] != f.coord[b]
        assert (
            differ[: h - max(f.tier[a], f.tier[b])].sum()
            + differ[h - min(f.tier[a], f.tier[b]) :].sum()
            == 0
        )


@given(trees())
def test_hops_of_an_xgft(asked):
    f = topologies.build("xgft", **asked)
    seen = distances(f)
    assert HOPS["xgft"](**asked) == (max(seen), pytest.approx(np.mean(seen)))


@given(halls(24))
def test_hops_of_servers_on_rails(drawn):
    seen = distances(built(*drawn))
    assert HOPS[drawn[0]](**drawn[1]) == (max(seen), pytest.approx(np.mean(seen)))


@given(st.integers(2, 40), st.integers(2, 9), st.sampled_from([1, 2, 3]))
def test_hops_of_a_leaf_spine(hosts, radix, over):
    asked = {"hosts": hosts, "radix": radix, "oversubscription": over}
    seen = distances(built("leaf_spine", asked))
    assert HOPS["leaf_spine"](**asked) == (max(seen), pytest.approx(np.mean(seen)))


def agrees(name, asked):
    """Tell whether the bisection by formula is the least over all halves; None where there is no formula."""
    f, cut = built(name, asked), registry.info("topology", name)["bisection"](**asked)
    if cut is not None:
        assert narrowest(f) == pytest.approx(
            cut * f.capacity[f.medium == f.media.index("fibre")][0]
        )
    return cut


@given(trees(most=6))
def test_bisection_of_an_xgft_is_the_least_over_all_halves(asked):
    agrees("xgft", asked)


@given(halls(6, names=("rail_optimised", "rail_only", "multi_plane", "dual_tor")))
def test_bisection_of_servers_on_rails_is_the_least_over_all_halves(drawn):
    agrees(*drawn)


@pytest.mark.parametrize(
    ("name", "asked", "cut"),
    [
        ("leaf_spine", {"hosts": 7, "radix": 4}, 3),
        ("leaf_spine", {"hosts": 5, "radix": 8}, 2),
        ("leaf_spine", {"hosts": 6, "radix": 4, "oversubscription": 3}, 1),
        (
            "leaf_spine",
            {"hosts": 6, "radix": 3, "oversubscription": 2},
            None,
        ),  # three leaves have no half
        (
            "leaf_spine",
            {"hosts": 10, "radix": 6, "oversubscription": 2},
            None,
        ),  # the last leaf is not full
        ("fat_tree", {"k": 2}, 1),
        ("fat_tree", {"k": 4, "tiers": 2}, 4),
        ("xgft", {"m": (4, 2), "w": (1, 1)}, 1),
        ("xgft", {"m": (2, 2, 2), "w": (1, 2, 1)}, 2),
        ("xgft", {"m": (2, 2, 2), "w": (1, 1, 2)}, 2),
        ("xgft", {"m": (2, 3), "w": (1, 1)}, None),
        ("xgft", {"m": (5,), "w": (2,)}, 4),
        ("rail_optimised", {"servers": 4, "gpus": 2, "rails": 2, "radix": 4}, 4),
        (
            "rail_optimised",
            {"servers": 8, "gpus": 1, "rails": 1, "radix": 6, "oversubscription": 2},
            2,
        ),
        (
            "rail_optimised",
            {"servers": 4, "gpus": 2, "rails": 2, "radix": 12, "oversubscription": 2},
            None,
        ),
        (
            "rail_optimised",
            {
                "servers": 4,
                "gpus": 2,
                "rails": 2,
                "radix": 12,
                "oversubscription": 2,
                "expand": False,
            },
            2,
        ),
        ("rail_optimised", {"servers": 4, "gpus": 2, "rails": 2, "pcie": "32 GB/s"}, None),
        ("rail_only", {"servers": 4, "gpus": 2, "rails": 2, "expand": False}, 0),
        ("rail_only", {"servers": 2}, None),
        ("multi_plane", {"servers": 4, "gpus": 2, "rails": 2, "planes": 3}, 12),
        ("multi_plane", {"servers": 3, "gpus": 2, "rails": 2}, None),
        ("dual_tor", {"servers": 4, "gpus": 2, "rails": 2, "radix": 4, "dual_plane": False}, 8),
    ],
)
def test_bisection_by_hand(name, asked, cut):
    assert (
        registry.info("topology", name)["bisection"](**asked)
        if cut is None
        else agrees(name, asked)
    ) == cut


def defaults(name):
    """Return the default of each parameter of a family, without lengths."""
    found = {}
    for parameter in inspect.signature(registry.get("topology", name)).parameters.values():
        if parameter.default is not parameter.empty and not parameter.name.endswith("length"):
            found[parameter.name] = parameter.default
    return found


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("leaf_spine", {"hosts": 300}),
        ("leaf_spine", {"servers": 60, "gpus": 4}),
        ("fat_tree", {"k": 4}),
        ("fat_tree", {"hosts": 300}),
        ("fat_tree", {"servers": 60, "gpus": 4}),
    ],
)
def test_formulas_of_hosts_and_servers_know_the_defaults(name, asked):
    formula = registry.info("topology", name)["bisection"]
    half = topologies.build(name, **asked).n_ranks // 2
    assert formula(**asked) == formula(**defaults(name) | asked) == half


@pytest.mark.parametrize("name", ["rail_optimised", "multi_plane", "dual_tor", "rail_only"])
def test_formulas_know_the_defaults_of_their_family(name):
    formula = registry.info("topology", name)["bisection"]
    default = defaults(name)
    few = {"gpus": 1, "rails": 1, "expand": False}
    for asked in (few, few | {"servers": 512}):
        assert formula(**asked) == formula(**default | asked)
    assert formula(**few) == topologies.build(name, **few).n_ranks // 2 * {
        "multi_plane": 4,
        "dual_tor": 2,
    }.get(name, 1)


@given(halls(60, names=("multi_plane", "dual_tor", "rail_only")))
def test_each_network_of_a_nic_is_the_rail_optimised_one(drawn):
    """Planes apart, and rails apart: by the names of their switches, with the coordinate of the network cut out."""
    name, asked = drawn[0], drawn[1] | {"expand": False}
    asked |= {
        k: v
        for k, v in (("dual_plane", True), ("planes", max(2, asked.get("planes", 2))))
        if k in asked
    }
    f, apart = built(name, asked), name == "rail_only"
    planes = {"multi_plane": asked.get("planes", 1), "dual_tor": 2, "rail_only": 1}[name]
    copies = asked["rails"] if apart else planes
    assume(copies > 1)
    one = {k: v for k, v in asked.items() if k not in ("planes", "dual_plane")} | {
        "radix": asked["radix"] * planes
    }
    if apart:
        one |= {"gpus": asked["gpus"] // copies, "rails": 1}
    g, net = (
        topologies.build("rail_optimised", **one),
        f.coord[:, f.coord_names.index("rail" if apart else "plane")],
    )
    assume("spine" in f.kinds or one["rails"] > 1)
    outer, inner = np.flatnonzero(f.tier > 0), np.flatnonzero(g.tier > 0)
    assert np.array_equal(np.bincount(net[outer]), [inner.size] * copies)
    for i in range(copies):
        number = np.full(f.n_nodes, -1)
        number[outer[net[outer] == i]] = inner
        mine = f.endpoint[f.rail == i] if apart else f.endpoint
        number[mine] = g.endpoint
        links = np.flatnonzero((number[f.source] >= 0) & (number[f.target] >= 0))
        ours = sorted(
            zip(number[f.source[links]].tolist(), number[f.target[links]].tolist(), strict=True)
        )
        assert ours == sorted(zip(g.source.tolist(), g.target.tolist(), strict=True))
    assert np.all(f.ports_used[outer] <= asked["radix"] * planes)


@given(halls(60, names=("dual_tor",)))
def test_two_leaves_of_a_nic_under_common_spines(drawn):
    asked = drawn[1] | {"dual_plane": False, "expand": False}
    f = built("dual_tor", asked)
    up = np.isin(f.source, f.endpoint)
    first = np.sort(f.target[up][np.argsort(f.source[up], kind="stable")].reshape(-1, 2), axis=1)
    leaf = dict(zip(f.coord_names, np.moveaxis(f.coord[first], -1, 0), strict=True))
    for name in ("pod", "rail", "index"):  # the two leaves of a NIC differ in their plane alone
        assert np.array_equal(leaf[name][:, 0], leaf[name][:, 1])
    assert np.array_equal(leaf["rail"][:, 0], f.rail)
    assert np.all(leaf["plane"] == [0, 1])
    assert np.all(f.ports_used[f.tier > 0] <= 2 * asked["radix"])


# the reference ------------------------------------------------------------------------------------
@cache
def found(identity):
    """Return what is built for an identity of the reference: by its own family and as an XGFT."""
    k, fat = int(identity.partition("_k")[2]), identity.startswith("fat")
    name, asked = (
        ("fat_tree", {"k": k}) if fat else ("leaf_spine", {"hosts": k * k // 2, "radix": k})
    )
    half = [k // 2] * (2 if fat else 1)
    tree, out = {"m": (*half, k), "w": (1, *half), "radix": k}, []
    for family, given_ in ((name, asked), ("xgft", tree)):
        f, facts = topologies.build(family, **given_), registry.info("topology", family)
        hops, ways = hops_from(f, int(f.endpoint[0]))
        assert HOPS[family](**given_) == (
            hops[f.endpoint].max(),
            pytest.approx(hops[f.endpoint[1:]].mean()),
        )
        out.append(
            {
                "hosts": f.n_ranks,
                "switches": f.n_nodes - f.n_ranks,
                "cables": f.n_cables,
                "diameter_host_links": hops[f.endpoint].max(),
                "mean_hops_host_links": hops[f.endpoint[1:]].mean(),
                "shortest_paths_interpod": ways[f.endpoint[-1]],
                "bisection": facts["bisection"](**given_),
            }
        )
    return out


@pytest.mark.parametrize("row", REFERENCE, ids=lambda r: f"{r['id']}-{r['attribute']}")
def test_rows_of_the_reference(row):
    """Computed there by breadth-first search on graphs of its own."""
    for ours in found(row["id"]):
        assert ours[row["attribute"]] == pytest.approx(float(row["value"]), rel=1e-5)


def test_the_reference_has_all_rows():
    assert Counter(r["id"].partition("_")[0] for r in REFERENCE) == {
        "fattree": 8 * 7,
        "leafspine": 6 * 3,
    }


# graphs of others ---------------------------------------------------------------------------------
def rows(f):
    table = np.array([f.source, f.target, f.capacity, f.delay, f.ports]).T
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("name", SMALL)
def test_a_fabric_survives_networkx(name):
    f = topologies.build(name, **SMALL[name])
    f = f.with_capacity([0], f.capacity[0] / 2)  # a cable may differ in its two directions
    g = topologies.from_networkx(f.to_networkx())
    assert np.array_equal(rows(f), rows(g))
    for x in ("tier", "transit", "radix", "endpoint", "rail", "server"):
        assert np.array_equal(getattr(f, x), getattr(g, x)), x
    assert [f.kinds[k] for k in f.kind] == [g.kinds[k] for k in g.kind]


def marked(graph, ends=(0, 1)):
    nx.set_node_attributes(graph, dict.fromkeys(ends, True), "endpoint")
    return graph


@pytest.mark.parametrize(
    ("kind", "rate"),
    [(nx.Graph, "400 Gb/s"), (nx.MultiGraph, 50e9), (nx.DiGraph, np.float64(50e9))],
)
def test_a_graph_of_ones_own(kind, rate):
    """Two hosts on a path over two switches; one edge has a rate of its own."""
    graph = marked(kind(nx.path_graph(["a", "left", "right", "b"])), ("a", "b"))
    for u, v in list(graph.edges())[:2]:
        key = (0,) * graph.is_multigraph()
        graph.edges[(u, v, *key)]["capacity"] = rate
        graph.edges[(u, v, *key)]["delay"] = "1 us"
    if not graph.is_directed():
        f = topologies.from_networkx(graph, "100 Gb/s")
        assert (
            f.capacity.tolist() == [50e9] * 4 + [12.5e9] * 2
            and f.delay.tolist() == [1e-6] * 4 + [0] * 2
        )
    else:
        f = topologies.from_networkx(graph, "400 Gb/s")
        assert set(f.capacity) == {50e9}
    assert (
        f.endpoint.tolist() == [0, 3]
        and f.server.tolist() == [0, 1]
        and f.tier.tolist() == [0, 1, 1, 0]
    )
    assert np.diff(routing.route(f, Flows.make(0, 3, 1.0)).ptr).tolist() == [3]
    assert repr(f) == "<Fabric from_networkx: 2 host, 2 switch, 3 cables, 2 ranks>"


@given(st.integers(0, 2**32 - 1), st.integers(4, 30))
def test_any_connected_graph_keeps_its_hops(seed, n):
    graph = marked(nx.connected_watts_strogatz_graph(n, 4, 0.5, seed=seed), range(0, n, 2))
    f = topologies.from_networkx(graph, 1e9)
    graph = graph.to_directed()
    ends = range(0, n, 2)
    hops = [
        nx.shortest_path_length(graph.subgraph({a, b} | set(range(1, n, 2))), a, b)
        if nx.has_path(graph.subgraph({a, b} | set(range(1, n, 2))), a, b)
        else None
        for a in ends
        for b in ends
        if a != b
    ]
    assert distances(f) == hops


def looped():
    graph = marked(nx.path_graph(3))
    graph.add_edge(1, 1)
    return graph


def one_way():
    graph = marked(nx.DiGraph(nx.path_graph(["a", "b", "c"])), "a")
    graph.remove_edge("c", "b")
    return graph


def partly_served():
    graph = marked(nx.path_graph(3), [0, 2])
    graph.nodes[0]["server"] = 1
    return graph


@pytest.mark.parametrize(
    ("graph", "rate", "error", "text"),
    [
        (
            marked(nx.Graph([(0, 1), (2, 3)])),
            1e9,
            ValueError,
            "graph must be connected, got 2 parts, such as the 2 nodes",
        ),
        (nx.Graph(), 1e9, ValueError, "graph must be connected, got 0 parts; join"),
        (
            nx.path_graph(3),
            1e9,
            ValueError,
            "got no node whose attribute 'endpoint' is true; set it with networkx",
        ),
        (looped(), 1e9, ValueError, "no edge from a node to itself, got one at 1; remove it"),
        (
            marked(nx.path_graph(3)),
            None,
            ValueError,
            "capacity of the edge 0 - 1 is missing; set it",
        ),
        (
            marked(nx.path_graph(3)),
            "400",
            ValueError,
            "capacity of the edge 0 - 1 needs its unit, got '400'",
        ),
        (
            marked(nx.path_graph(3)),
            400,
            ValueError,
            r"capacity of the edge 0 - 1 must be within .* B/s, got 400",
        ),
        (
            marked(nx.path_graph(3)),
            -50e9,
            ValueError,
            r"capacity of the edge 0 - 1 must be within .* got -5",
        ),
        (marked(nx.path_graph(3)), "400 Gbps", ValueError, "read in two ways"),
        (
            one_way(),
            1e9,
            ValueError,
            "as many edges from 'b' to 'c' as back: a cable has two directions; add the",
        ),
        ([(0, 1)], 1e9, TypeError, "graph must be a networkx graph, got list"),
        (
            partly_served(),
            1e9,
            ValueError,
            "server must be set for all endpoints or for none, got none for 2; set it",
        ),
    ],
)
def test_graphs_that_are_no_fabric(graph, rate, error, text):
    with pytest.raises(error, match=text):
        topologies.from_networkx(graph, rate)


# servers on a network -----------------------------------------------------------------------------
def plain_server(gpus=4):
    """Return the inside of a server as `rail_optimised` draws it."""
    hall = topologies.build("rail_optimised", servers=1, gpus=gpus, rails=gpus)
    keep = np.flatnonzero(hall.tier <= 2)
    cables = np.flatnonzero(np.isin(hall.source, keep) & np.isin(hall.target, keep))[::2]
    b = FabricBuilder(hall.kinds, ("server", "local"))
    for kind in ("gpu", "nvlink", "pcie", "nic"):
        nodes = hall.nodes(kind)
        b.add_nodes(
            kind,
            nodes.size,
            tier=hall.tier[nodes[0]],
            transit=kind != "gpu",
            radix=hall.radix[nodes[0]],
            server=0,
            **({} if kind == "nvlink" else {"local": range(gpus)}),
        )
    for x in cables:
        b.add_cables(
            hall.source[x],
            hall.target[x],
            capacity=hall.capacity[x],
            delay=hall.delay[x],
            ports=hall.ports[x],
            medium=hall.media[hall.medium[x]],
        )
    return b.build("plain", {}, endpoint=range(gpus), rail=range(gpus), server=[0] * gpus)


@pytest.mark.parametrize(("servers", "radix"), [(1, 8), (6, 8), (9, 16)])
def test_composed_servers_are_those_of_the_rail_optimised_family(servers, radix):
    asked = {"servers": servers, "gpus": 4, "rails": 4, "radix": radix}
    whole = topologies.build("rail_optimised", **asked)
    f = topologies.compose(
        plain_server(), topologies.build("rail_optimised", expand=False, **asked), servers
    )
    fields = ("capacity", "delay", "ports", "length")
    assert edges(f, *fields) == edges(whole, *fields)
    assert [f.name(int(e)) for e in f.endpoint] == [whole.name(int(e)) for e in whole.endpoint]
    assert np.array_equal(f.rail, whole.rail) and np.array_equal(f.server, whole.server)
    facts = {f.name(i): (f.tier[i], f.transit[i], f.radix[i]) for i in range(f.n_nodes)}
    assert facts == {
        whole.name(i): (whole.tier[i], whole.transit[i], whole.radix[i])
        for i in range(whole.n_nodes)
    }


@pytest.mark.parametrize("name", SERVERS)
def test_any_server_on_any_network(name):
    """Ranks of two servers meet over the NICs: as far apart as the NICs, and the ways to them."""
    server, count = topologies.build(name), 3
    nics = server.nodes("nic").size
    outer = topologies.build("leaf_spine", hosts=count * nics, radix=4 * nics)
    f = topologies.compose(server, outer, count)
    assert len({f.name(i) for i in range(f.n_nodes)}) == f.n_nodes
    assert (
        f.n_ranks == count * server.n_ranks
        and f.n_cables == count * server.n_cables + outer.n_cables
    )
    assert f.n_nodes == count * server.n_nodes + outer.n_nodes - outer.n_ranks
    per = server.server.max() + 1
    assert f.server.tolist() == [s * per + x for s in range(count) for x in server.server]
    graph, inside = f.to_networkx(), server.to_networkx()
    for a, b in ((0, server.n_ranks), (server.n_ranks - 1, 2 * server.n_ranks)):
        start, end = (int(server.endpoint[x % server.n_ranks]) for x in (a, b))
        to = [
            nx.shortest_path_length(inside, x, n)
            for n in server.nodes("nic").tolist()
            for x in (start, end)
        ]
        routes = routing.route(f, flows := Flows.make(f.endpoint[a], f.endpoint[b], 1.0))
        check_routes(routes, f, flows)
        assert routes.hops()[0] >= min(to[::2]) + min(to[1::2]) + 2
        assert routes.hops()[0] == nx.shortest_path_length(
            graph, int(f.endpoint[a]), int(f.endpoint[b])
        )
    again = eval(repr(f), {"topologies": topologies})
    assert edges(again) == edges(f) and (f.family, f.asked["count"]) == ("compose", 3)


def test_gpus_take_the_rail_of_the_nic_that_serves_them():
    """8 GPUs share 4 NICs: two neighbours each."""
    b = FabricBuilder(("gpu", "nic"), ("local",))
    gpu = b.add_nodes("gpu", 8, tier=0, transit=False, local=range(8))
    nic = b.add_nodes("nic", 4, tier=1, transit=True, local=range(4))
    b.add_cables(gpu, nic[np.arange(8) // 2], capacity=1e9)
    server = b.build("half", {}, endpoint=gpu, rail=[0] * 8, server=[0] * 8)
    rails = topologies.build("rail_optimised", servers=5, gpus=4, rails=4, radix=8, expand=False)
    f = topologies.compose(server, rails.without(cables=[3]), 5)
    assert f.rail.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] * 5
    # a cable that failed before stays so
    assert f.name(int(f.source[f.capacity == 0][0])) == "nic 0.3"
    assert repr(f).startswith("<Fabric compose: 40 gpu, 20 nic,")
    g = topologies.compose(server, topologies.build("dragonfly", p=4, a=2, h=1, groups=2), 4)
    assert [g.name(int(g.endpoint[-1])), g.name(int(g.nodes("switch")[-1]))] == [
        "gpu 3.7",
        "switch 1.1",
    ]


def racks():
    return topologies.build("nvl72")


def test_racks_of_several_servers():
    rack = racks()
    trays, nics = np.unique(rack.server).size, rack.nodes("nic").size
    f = topologies.compose(rack, topologies.build("leaf_spine", hosts=2 * nics, radix=2 * nics), 2)
    assert np.unique(f.server).tolist() == list(range(2 * trays))
    assert len({f.name(i) for i in range(f.n_nodes)}) == f.n_nodes


def closed_nic():
    b = FabricBuilder(("gpu", "nic"), ("local",))
    b.add_nodes("gpu", 1, tier=0, transit=False)
    b.add_nodes("nic", 1, tier=1, transit=False)
    b.add_cables(0, 1, capacity=1e9)
    return b.build("closed", {}, endpoint=[0], rail=[0], server=[0])


@pytest.mark.parametrize(
    ("server", "hosts", "count", "error", "text"),
    [
        (
            plain_server(),
            9,
            2,
            ValueError,
            r"fabric must have 8 endpoints \(2 servers with 4 NICs each\), got 9; build it",
        ),
        (plain_server(), 8, 0, ValueError, "count must be >= 1, got 0"),
        (plain_server(), 8, 2.0, TypeError, r"count must be a whole number, got 2\.0"),
        (
            topologies.build("crossbar", hosts=2),
            8,
            2,
            ValueError,
            "server must have nodes of the kind 'nic' that let",
        ),
        (
            closed_nic(),
            2,
            2,
            ValueError,
            "'nic' that let traffic pass, got the kinds gpu, nic; take a server",
        ),
        (
            "dgx_h100",
            8,
            2,
            TypeError,
            r"server must be a Fabric, got 'dgx_h100'; make one with topologies\.build",
        ),
    ],
)
def test_servers_that_do_not_fit(server, hosts, count, error, text):
    with pytest.raises(error, match=text):
        topologies.compose(server, topologies.build("crossbar", hosts=hosts), count)


# save and load ------------------------------------------------------------------------------------
def same(f, g):
    for x in (
        "kind",
        "tier",
        "transit",
        "radix",
        "coord",
        "source",
        "target",
        "capacity",
        "delay",
        "ports",
        "medium",
        "length",
        "endpoint",
        "rail",
        "server",
    ):
        assert np.array_equal(getattr(f, x), getattr(g, x)), x
    names = ("kinds", "media", "coord_names", "family", "call")
    assert [getattr(f, x) for x in names] == [getattr(g, x) for x in names]
    assert json.dumps(f.asked) == json.dumps(g.asked)


@pytest.mark.parametrize("name", SMALL)
def test_every_family_is_saved_and_loaded(name, tmp_path):
    f = topologies.build(name, **SMALL[name])
    save(f, tmp_path / "f.npz")
    same(f, load(tmp_path / "f.npz"))


def test_what_was_joined_is_saved_and_loaded(tmp_path):
    server = plain_server()
    f = topologies.compose(topologies.build("dgx_h100"), topologies.build("crossbar", hosts=16), 2)
    for value in (
        topologies.compose(server, topologies.build("crossbar", hosts=8), 2),
        f,
        topologies.from_networkx(server.to_networkx()),
    ):
        save(value, tmp_path / "f.npz")
        same(value, load(tmp_path / "f.npz"))


# memory -------------------------------------------------------------------------------------------
def composed():
    rails = topologies.build("rail_optimised", servers=1000, expand=False)
    return topologies.compose(topologies.build("dgx_h100"), rails, 1000)


@pytest.mark.parametrize(
    "make",
    [
        composed,
        lambda: topologies.build("xgft", m=(16, 16, 32), w=(1, 16, 16)),
        lambda: topologies.build("multi_plane", servers=1024, expand=False),
        lambda: topologies.build("rail_only", servers=4096, expand=False),
        lambda: topologies.build("dual_tor", servers=1024),
    ],
)
def test_the_estimate_of_memory_is_near_and_not_below(make):
    estimate_holds(make)


def test_a_fabric_too_large_is_refused_before_it_is_made(monkeypatch):
    server, outer = topologies.build("dgx_h100"), topologies.build("crossbar", hosts=8000)
    whole, planes = (
        topologies.compose(server, outer, 1000),
        topologies.build("multi_plane", servers=4000, expand=False),
    )
    monkeypatch.setenv("FABRICLAB_MEMORY", "5 MiB")
    for asked in ({"m": (10**4, 10**4), "w": (1, 1)}, {"m": (64,) * 8, "w": (1,) * 8}):
        with pytest.raises(TooLarge, match=f"a fabric of {np.prod(asked['m'])} hosts needs about"):
            topologies.build("xgft", **asked, radix=10**5)
    need, more = (units.format_size(bytes_of(f)) for f in (whole, planes))
    with pytest.raises(TooLarge, match=f"a fabric of 1000 servers needs about {need} of memory"):
        topologies.compose(server, outer, 1000)
    with pytest.raises(
        TooLarge, match=f"a fabric of 4000 servers with 8 GPUs each needs about {more} of memory"
    ):
        topologies.build("multi_plane", servers=4000, expand=False)


# refusals -----------------------------------------------------------------------------------------
test_what_cannot_be_built_is_refused = refused(
    [
        (
            "xgft",
            {"m": (4, 4), "w": (1,)},
            "m and w must have one number for each tier of switches, got 2 and 1",
        ),
        ("xgft", {"m": (), "w": ()}, "m and w must have one number .* got 0 and 0"),
        ("xgft", {"m": (4, 0), "w": (1, 2)}, "m must be >= 1, got 0"),
        ("xgft", {"m": (4, 4), "w": (1, -2)}, "w must be >= 1, got -2"),
        (
            "xgft",
            {"m": (4, 4), "w": (1, 5), "radix": 8},
            r"radix must be >= 9 \(a switch of tier 1 has 4 children and 5 parents\), got 8; take a larger radix",
        ),
        (
            "xgft",
            {"m": (4, 65), "w": (1, 4)},
            r"radix must be >= 65 \(a switch of tier 2 has 65 children and 0 parents\)",
        ),
        ("xgft", {"m": (2,), "w": (1,), "rate": "400"}, "rate needs its unit, got '400'"),
        ("xgft", {"m": (2,), "w": (1,), "rate": -1.0}, "rate must be within .* got -1"),
        ("rail_only", {"rails": 3}, r"rails must divide gpus \(8\), got 3"),
        (
            "rail_only",
            {"servers": 65537},
            r"within 1\.\.65536 for 3 tiers .* on 8 rails, got 65537; take a larger radix$",
        ),
        (
            "rail_only",
            {"servers": 5, "gpus": 8, "rails": 2, "radix": 4},
            r"gpus must be within 1\.\.4 \(2 rails, 2 ports down of a leaf\), got 8; add rails",
        ),
        (
            "rail_only",
            {"servers": 2049, "tiers": 2},
            r"within 1\.\.2048 .*; take a larger radix or tiers=3$",
        ),
        ("multi_plane", {"planes": 0}, "planes must be >= 1, got 0"),
        (
            "multi_plane",
            {"servers": 4097, "tiers": 2, "radix": 32, "planes": 2},
            r"within 1\.\.256 .* 4097",
        ),
        ("dual_tor", {"rails": 3}, r"rails must divide gpus \(8\), got 3"),
        (
            "dual_tor",
            {
                "gpus": 80,
                "rails": 80,
                "radix": 16,
                "expand": False,
                "dual_plane": False,
                "tiers": 2,
            },
            r"rails must be within 1\.\.16 for 2 tiers of 32-port switches, got 80",
        ),
        ("dgx_h1000", {}, r"unknown topology 'dgx_h1000'; choose one of .*dgx_h100"),
    ]
)


test_wrong_types_are_refused = refused(
    [
        ("xgft", {"m": 2.5, "w": 1}, r"m must be a whole number, got 2\.5"),
        ("xgft", {"m": "42", "w": (1, 1)}, "m must be a whole number, got '42'"),
        ("dual_tor", {"dual_plane": "no"}, "dual_plane must be True or False, got 'no'"),
        ("multi_plane", {"planes": "4"}, "planes must be a whole number, got '4'"),
    ],
    TypeError,
)


def test_a_rank_out_of_range_is_refused():
    f = topologies.build("xgft", m=(2, 2), w=(1, 1))
    with pytest.raises(ValueError, match=r"node must be within 0\.\.6, got 7"):
        f.name(7)
    with pytest.raises(ValueError, match="capacity must be within"):
        f.with_capacity([0], -1)


# Two wirings of the same parts --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("servers", "gpus", "radix", "leaves", "spines", "cables"),
    [(128, 8, 64, 32, 16, 2048), (8, 4, 16, 4, 2, 64)],
)
def test_two_wirings_by_hand(servers, gpus, radix, leaves, spines, cables):
    wired = topologies.two_wirings(servers=servers, gpus=gpus, radix=radix)
    assert list(wired) == ["by rail", "by rack"]
    for fabric in wired.values():
        made = fabric.summary()
        assert (made["leaf"], made["spine"], made["cables"]) == (leaves, spines, cables)
        assert (made["ranks"], made["servers"]) == (servers * gpus, servers)
    leaf = {name: leaf_of(f).reshape(servers, gpus) for name, f in wired.items()}
    # by rail the NICs of a server hang on as many leaves, by rack on one
    assert all(len({*row}) == gpus for row in leaf["by rail"].tolist())
    assert all(len({*row}) == 1 for row in leaf["by rack"].tolist())


def test_two_wirings_are_those_of_the_running_case_unless_told():
    first, second = topologies.two_wirings(), topologies.two_wirings(128, 8, 64)
    assert repr(first) == repr(second)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3))
def test_law_two_wirings_have_equal_parts(gpus, times, rows):
    down = gpus * times  # ports of a leaf for NICs
    assume(rows <= down * down)
    wired = topologies.two_wirings(servers=rows * down, gpus=gpus, radix=2 * down)
    rail, rack = wired["by rail"], wired["by rack"]
    assert rail.summary() == rack.summary()
    assert np.array_equal(rail.server, rack.server)
    assert np.array_equal(np.sort(rail.capacity), np.sort(rack.capacity))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (
            (9, 4, 16),
            "8 leaf switches.* by rail, but 5 leaf switches.*; take servers=16 or another",
        ),
        ((8, 3, 16), "; take radix=18 and a multiple of 9 servers"),
        ((8, 16, 16), r"gpus must be within 1\.\.8, .* got 16; take radix=32 and a multiple of 16"),
        ((65, 2, 8), r"servers must be within 1\.\.64 for 3 tiers .* got 65; take a larger radix"),
        ((0, 4, 16), "servers must be >= 1, got 0"),
        ((8, 4, 1), "radix must be >= 2, got 1"),
    ],
)
def test_sizes_without_two_wirings_are_refused(size, words):
    with pytest.raises(ValueError, match=words):
        topologies.two_wirings(*size)


def test_what_a_refusal_of_two_wirings_proposes_works():
    for servers, gpus, radix in ((16, 4, 16), (9, 3, 18), (16, 16, 32), (64, 2, 8)):
        assert len(topologies.two_wirings(servers, gpus, radix)) == 2
