"""Traffic engineering and checks of rules against other people's programs: an arc-based program, and networkx."""

import time

import networkx as nx
import numpy as np
import pytest

import fabriclab as fl
from fabriclab import sdn
from fabriclab.core import Flows
from support.budgets import budget


def by_arcs(fabric, flows):
    """Return the least largest utilisation by a program with a variable for each flow and link."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    n, links, rate = fabric.n_nodes, fabric.n_links, 1e-9
    every = np.arange(flows.n_flows * links)
    flow, link = np.divmod(every, links)
    rows = np.concatenate([flow * n + fabric.source[link], flow * n + fabric.target[link]])
    values = np.concatenate([np.ones(every.size), -np.ones(every.size)])
    balance = coo_array(
        (values, (rows, np.tile(every, 2))), shape=(flows.n_flows * n, every.size + 1)
    )
    right = np.zeros(flows.n_flows * n)
    number = np.arange(flows.n_flows)
    right[number * n + flows.source] = flows.size * rate
    right[number * n + flows.target] = -flows.size * rate
    room = coo_array(
        (
            np.concatenate([np.ones(every.size), -fabric.capacity * rate]),
            (
                np.concatenate([link, np.arange(links)]),
                np.concatenate([every, np.full(links, every.size)]),
            ),
        ),
        shape=(links, every.size + 1),
    )
    # Nodes that forbid transit pass nothing on.
    passes = fabric.transit[fabric.source[link]] | (fabric.source[link] == flows.source[flow])
    high = np.append(np.where(passes, np.inf, 0.0), np.inf)
    goal = np.append(np.zeros(every.size), 1.0)
    found = linprog(
        goal, room, np.zeros(links), balance, right, np.column_stack([np.zeros(high.size), high])
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize(
    ("family", "arguments", "cut"),
    [
        ("full_mesh", {"switches": 4, "hosts": 2}, 1),
        ("torus", {"shape": (3, 3), "hosts": 1}, 2),
        ("leaf_spine", {"hosts": 8, "radix": 4}, 1),
        ("dragonfly", {"p": 1, "a": 2, "h": 1}, 0),
    ],
)
def test_the_optimum_is_that_of_a_program_over_arcs(family, arguments, cut):
    fabric = fl.topologies.build(family, **arguments)
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    rng = np.random.default_rng(cut)
    fabric = fabric.without(cables=np.unique(inner // 2)[:cut])
    n = fabric.n_ranks
    target = np.roll(np.arange(n), 1)
    flows = Flows.make(fabric.endpoint, fabric.endpoint[target], rng.uniform(1e10, 5e10, n))
    best = sdn.engineer(fabric, flows)
    assert best.utilisation == pytest.approx(by_arcs(fabric, flows), rel=1e-6)
    assert abs(best.gap) <= 1e-6


def test_rules_of_shortest_paths_are_those_of_networkx():
    fabric = fl.topologies.build("leaf_spine", hosts=12, radix=6).without("leaf 0 - spine 1")
    rules = sdn.shortest(fabric, equal=True)
    graph = nx.DiGraph()
    for link in np.flatnonzero(fabric.capacity > 0).tolist():
        graph.add_edge(int(fabric.source[link]), int(fabric.target[link]))
    for d, goal in enumerate(rules.goal.tolist()):
        hops = dict(nx.single_target_shortest_path_length(graph, goal))
        for link in np.flatnonzero(rules.part[d]).tolist():
            assert hops[int(fabric.target[link])] == hops[int(fabric.source[link])] - 1


@pytest.mark.alone
def test_a_rollout_over_the_cluster_of_the_case_checks_each_step_in_ten_seconds():
    hall = fl.topologies.build("rail_optimised", expand=False)
    begin = time.process_time()
    controller = sdn.Controller(hall)
    controller.drain("spine 3")
    records = controller.apply(controller.plan())
    controller.undrain("spine 3")
    records += controller.apply(controller.plan())
    assert time.process_time() - begin < budget(10)
    assert hall.n_ranks == 1024 and len(records) == 66
    assert all(record.before.ok and record.after.ok for record in records)


@pytest.mark.alone
def test_traffic_of_the_cluster_of_the_case_is_engineered_in_seconds():
    hall = fl.topologies.build("rail_optimised", expand=False)
    inner = np.flatnonzero(hall.transit[hall.source] & hall.transit[hall.target])
    rng = np.random.default_rng(1)
    hurt = hall.without(cables=rng.choice(np.unique(inner // 2), 40, replace=False))
    begin = time.process_time()
    best = sdn.engineer(hurt, fl.metrics.permutation(hurt, 1))
    assert time.process_time() - begin < budget(10)
    assert best.is_proven
    assert best.part > fl.metrics.throughput(hurt, best.flows).part


@pytest.mark.slow
def test_where_the_two_engines_agree_on_a_collective_beside_a_neighbour():
    found = sdn.predictability(runs=200)
    for sharing in ("alone", "weights", "priority", "own cables"):
        for share in (0.5, 0.99):
            assert found.ratio(sharing, share) == pytest.approx(1.1, abs=0.1)
    assert found.ratio("sharing", 0.5) > 3
    assert found.ratio("sharing", 0.99) > 6
    # What the neighbour costs at the 99th percentile, and what is left of it with a class that goes first.
    alone = found.time("alone", "packet", 0.99)
    assert found.time("sharing", "packet", 0.99) > 8 * alone
    assert found.time("priority", "packet", 0.99) < 1.05 * alone
