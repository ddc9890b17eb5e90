"""Servers in every family: the same servers everywhere, the network of the family around them, refusals."""

import inspect
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import metrics, registry, routing, topologies
from fabriclab.collectives import rail_groups
from support.oracles.builds import refused


def facts(family):
    return registry.info("topology", family)


def takes_gpus(family):
    """Return whether a family connects hosts, which become the NICs of servers if it is given ``gpus``."""
    parameters = inspect.signature(registry.get("topology", family)).parameters
    return "gpus" in parameters and "rails" not in parameters and family != "nvl72"


SERVED = {name: facts(name)["with_servers"] for name in topologies.names() if takes_gpus(name)}


def build(family):
    return topologies.build(family, **SERVED[family])


def without_servers(family):
    """Return the network of the same family around hosts, as many as the servers have NICs."""
    asked = dict(SERVED[family])
    gpus = asked.pop("gpus")
    if "servers" in asked:
        asked["hosts"] = asked.pop("servers") * gpus
    return topologies.build(family, **asked)


def cables_between(fabric, kinds):
    """Count the cables whose ends both are of these kinds, by the names of their ends and all that describes them."""
    found = Counter()
    for link in range(fabric.n_links):
        ends = fabric.source[link], fabric.target[link]
        if all(fabric.kinds[fabric.kind[end]] in kinds for end in ends):
            facts = [
                getattr(fabric, name)[link] for name in ("capacity", "delay", "ports", "length")
            ]
            medium = fabric.media[fabric.medium[link]]
            found[fabric.link_name(link), medium, *map(float, facts)] += 1
    return found


INSIDE = ("gpu", "nvlink", "pcie", "nic")
families = pytest.mark.parametrize("family", SERVED)


# laws over the registry ---------------------------------------------------------------------------
@families
def test_ranks_are_gpus_server_by_server(family):
    fabric = build(family)
    gpus = SERVED[family]["gpus"]
    server, local = np.divmod(np.arange(fabric.n_ranks), gpus)
    names = [fabric.name(int(node)) for node in fabric.endpoint]
    assert names == [f"gpu {s}.{g}" for s, g in zip(server, local, strict=True)]
    assert fabric.server.tolist() == server.tolist()
    assert set(fabric.rail.tolist()) == {0}
    assert [group.tolist() for group in rail_groups(fabric)] == [list(range(fabric.n_ranks))]
    assert len({fabric.name(node) for node in range(fabric.n_nodes)}) == fabric.n_nodes


@families
def test_the_servers_are_those_of_rails(family):
    fabric = build(family)
    gpus = SERVED[family]["gpus"]
    rails = topologies.build(
        "rail_optimised", servers=fabric.n_ranks // gpus, gpus=gpus, rails=gpus, radix=16
    )
    assert cables_between(fabric, INSIDE) == cables_between(rails, INSIDE)


@families
def test_the_network_is_that_of_the_family(family):
    fabric = build(family)
    plain = without_servers(family)
    of_switches = tuple(kind for kind in plain.kinds if kind != "host")
    assert cables_between(fabric, of_switches) == cables_between(plain, of_switches)
    for kind in of_switches:
        assert np.array_equal(
            fabric.ports_used[fabric.nodes(kind)], plain.ports_used[plain.nodes(kind)]
        )
    # NIC i of server s is plugged in where host s gpus + i is
    nics = fabric.nodes("nic")
    where = [set(names_beyond(fabric, nic)) - {f"pcie{fabric.name(nic)[3:]}"} for nic in nics]
    assert where == [set(names_beyond(plain, host)) for host in plain.endpoint]


def names_beyond(fabric, node):
    return [fabric.name(int(far)) for far in fabric.target[fabric.source == node]]


@families
@pytest.mark.parametrize("method", ["ecmp", "spray"])
def test_every_pair_has_a_path_over_its_own_nics(family, method):
    fabric = build(family)
    flows = metrics.uniform(fabric)  # between any two ranks
    routes = routing.route(fabric, flows, method)
    rows = np.repeat(routes.flow, np.diff(routes.ptr))  # flow of each entry
    is_nic = fabric.kind == fabric.kinds.index("nic")
    entry = np.flatnonzero(is_nic[fabric.source[routes.link]])
    place = fabric.coordinate("local") + 1000 * fabric.coordinate("server")
    ends = np.stack([flows.source[rows[entry]], flows.target[rows[entry]]])
    assert np.all((place[fabric.source[routes.link[entry]]] == place[ends]).any(axis=0))


@families
def test_it_shows_the_call_that_builds_it(family):
    fabric = build(family)
    again = eval(repr(fabric), {"topologies": topologies})
    assert repr(again) == repr(fabric)
    assert fabric.family == family
    for name in ("source", "target", "capacity", "coord", "endpoint"):
        assert np.array_equal(getattr(again, name), getattr(fabric, name))


@families
def test_it_is_drawn_and_runs_collectives(family):
    fabric = build(family)
    gpus = SERVED[family]["gpus"]
    assert fl.views.fabric(fabric).finding
    run = fl.simulate("all_reduce", "hierarchical", fabric, "1 MiB", options={"per_server": gpus})
    assert 0 < run.time < 1


# trees of any size --------------------------------------------------------------------------------
@given(
    st.integers(1, 5).map(lambda half: 2 * half),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 2, 3]),
)
def test_a_fat_tree_for_all_its_hosts_is_the_full_one(k, tiers, taper):
    if k < 1 + taper:
        return
    full = topologies.build("fat_tree", k=k, tiers=tiers, taper=taper)
    same = topologies.build("fat_tree", hosts=full.n_ranks, k=k, tiers=tiers, taper=taper)
    for name in ("source", "target", "capacity", "coord", "kind", "endpoint"):
        assert np.array_equal(getattr(full, name), getattr(same, name))
    least = topologies.build("fat_tree", hosts=full.n_ranks, tiers=tiers, taper=taper)
    assert least.radix.max() <= k


@given(
    st.integers(1, 300),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 1.5, 2, 3]),
    st.sampled_from([None, 1, 2, 4]),
)
def test_fat_trees_for_any_number_of_hosts(count, tiers, taper, gpus):
    size = {"hosts": count} if gpus is None else {"servers": count, "gpus": gpus}
    fabric = topologies.build("fat_tree", **size, tiers=tiers, oversubscription=taper)
    assert fabric.n_ranks == count * (gpus or 1)
    k = int(fabric.radix[fabric.nodes("leaf")[0]])
    leaf = fabric.nodes("leaf")
    above = np.isin(fabric.source, leaf) & np.isin(fabric.target, fabric.nodes("spine"))
    up = np.bincount(fabric.source[above], minlength=fabric.n_nodes)[leaf]
    down = fabric.ports_used[leaf] - up
    assert down.sum() == fabric.n_ranks
    assert down.max() <= taper * up.min() + 1e-9
    assert np.all(down[:-1].astype(bool) | (tiers == 3))
    # no smaller k would do: a full tree of k - 2 ports has fewer hosts
    if k - 2 >= 1 + taper:
        smaller = registry.get("topology", "fat_tree")
        with pytest.raises(ValueError, match=r"must be within 1\.\."):
            smaller(k - 2, tiers, **size, oversubscription=taper)


@given(st.integers(1, 40), st.integers(1, 8), st.sampled_from([1, 2, 3]))
def test_by_rack_all_nics_of_a_server_share_a_leaf(servers, gpus, oversubscription):
    size = {"servers": servers, "gpus": gpus, "oversubscription": oversubscription}
    for fabric in (
        topologies.build("leaf_spine", **size, radix=32),
        topologies.build("fat_tree", **size, k=32),
    ):
        nics = fabric.nodes("nic")
        up = np.isin(fabric.source, nics) & np.isin(fabric.target, fabric.nodes("leaf"))
        leaf = fabric.target[up][np.argsort(fabric.source[up])].reshape(servers, gpus)
        assert np.all(leaf == leaf[:, :1])


# by hand ------------------------------------------------------------------------------------------
def test_256_gpus_by_rack_and_by_rail_have_the_same_parts():
    rack = topologies.build("leaf_spine", servers=32, gpus=8)
    rail = topologies.build("rail_optimised", servers=32)
    assert rack.summary() == rail.summary()
    assert rack.summary() == topologies.build("leaf_spine", hosts=256, gpus=8).summary()


def test_the_least_fat_tree_for_256_hosts_by_hand():
    """k = 12 has room for 432 hosts and k = 10 only for 250; 256 hosts at 6 a leaf need 43 leaves in 8 pods of 6."""
    fabric = topologies.build("fat_tree", hosts=256)
    assert set(fabric.radix[fabric.tier > 0].tolist()) == {12}
    counts = fabric.summary()
    assert (counts["leaf"], counts["spine"], counts["core"]) == (48, 48, 36)


def test_taper_is_another_word_for_oversubscription():
    for family, size in (
        ("fat_tree", {"k": 8}),
        ("leaf_spine", {"hosts": 30}),
        ("rail_optimised", {"servers": 4}),
    ):
        fabric = topologies.build(family, **size, taper=2)
        assert fabric.asked["oversubscription"] == 2
        assert "oversubscription=2" in repr(fabric)


def test_rates_inside_the_servers_can_be_given():
    fabric = topologies.build("leaf_spine", servers=2, gpus=2, nvlink="900 GB/s", pcie="32 GB/s")
    rates = {fabric.media[m]: c for m, c in zip(fabric.medium, fabric.capacity, strict=True)}
    assert rates["nvlink"] == 900e9
    assert rates["pcie"] == 32e9


def test_help_shows_the_parameters_and_names_compose():
    assert "compose" in topologies.build.__doc__
    assert list(inspect.signature(registry.get("topology", "fat_tree")).parameters)[:6] == [
        "k",
        "tiers",
        "hosts",
        "servers",
        "gpus",
        "oversubscription",
    ]


# refusals -----------------------------------------------------------------------------------------
test_sizes_that_cannot_be_built_are_refused = refused(
    [
        ("leaf_spine", {"hosts": 4, "servers": 2}, "hosts and servers must not both be given"),
        (
            "leaf_spine",
            {"hosts": 12, "gpus": 8},
            r"gpus must divide .*\(12\).* got 8; take a divisor of 12, or 8",
        ),
        (
            "dragonfly",
            {"p": 3, "a": 2, "h": 1, "gpus": 4},
            r"gpus must divide the number of hosts \(18\)",
        ),
        (
            "torus",
            {"shape": (4, 4), "gpus": 4},
            "gpus must be left out where the switches have no hosts, .*=4; give",
        ),
        (
            "leaf_spine",
            {"hosts": 4, "nvlink": "1 GB/s"},
            "nvlink must be left out where there are no servers",
        ),
        (
            "leaf_spine",
            {"servers": 4, "gpus": 16},
            r"gpus must be within 1\.\.14 .* got 16; .* no gpus elsewhere|else",
        ),
        (
            "leaf_spine",
            {"servers": 9, "gpus": 8, "radix": 8},
            r"gpus must be within 1\.\.4, since one leaf",
        ),
        (
            "leaf_spine",
            {"servers": 300},
            r"servers must be within 1\.\.256 for two tiers .* got 300",
        ),
        (
            "fat_tree",
            {"k": 4, "gpus": 4},
            r"gpus must be within 1\.\.2, since one leaf .* take a larger k",
        ),
        (
            "fat_tree",
            {"k": 4, "hosts": 17},
            r"hosts must be within 1\.\.16 for 3 tiers of 4-port .* got 17; leave out k",
        ),
        ("fat_tree", {"k": 4, "taper": 4}, r"oversubscription must be within 1\.\.3"),
        ("crossbar", {"servers": 0}, "servers must be >= 1, got 0"),
    ]
)

test_missing_sizes_are_refused = refused(
    [
        (
            "leaf_spine",
            {},
            "leaf_spine: missing the size, got neither hosts nor servers; give hosts=256",
        ),
        ("crossbar", {}, "crossbar: missing the size"),
        ("fat_tree", {}, "fat_tree: missing the size, .*; give k=8 for"),
        ("leaf_spine", {"host": 4}, "unexpected keyword argument 'host'; .*did you mean 'hosts'"),
        (
            "leaf_spine",
            {"taper": 2, "oversubscription": 2, "hosts": 4},
            "oversubscription must be given once",
        ),
    ],
    TypeError,
)
