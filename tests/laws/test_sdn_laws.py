"""Laws of software-defined fabrics: duality, safe orders, floors of tenants, and checks around every step."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import sdn
from fabriclab.core import Flows
from fabriclab.engines.flow import max_min_rates
from fabriclab.sdn.invariants import check

SEED = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=8, deadline=None)


def meshes(seed):
    """Return a small network with cables of different rates, some of which are dead, and random demands."""
    rng = np.random.default_rng(seed)
    family, arguments = (
        ("full_mesh", {"switches": 4, "hosts": 2}),
        ("leaf_spine", {"hosts": 12, "radix": 6}),
        ("torus", {"shape": (3, 3), "hosts": 1}),
    )[int(rng.integers(3))]
    fabric = fl.topologies.build(family, **arguments)
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    slow = rng.choice(inner, 3, replace=False)
    fabric = fabric.with_capacity(slow, 20e9)
    n = fabric.n_ranks
    source, target = rng.integers(0, n, 2 * n), rng.integers(0, n, 2 * n)
    apart = source != target
    size = rng.uniform(1e9, 50e9, 2 * n)[apart]
    ends = fabric.endpoint[source[apart]], fabric.endpoint[target[apart]]
    return fabric, Flows.make(*ends, size)


@FEW
@given(SEED)
def test_optimum_and_bound_meet_and_no_other_rules_are_better(seed):
    fabric, flows = meshes(seed)
    best = sdn.engineer(fabric, flows)
    assert best.is_proven
    for equal in (True, False):
        usual = sdn.shortest(fabric, equal=equal)
        reached = sdn.utilisation(fabric, sdn.loads(fabric, usual, flows))
        assert best.utilisation <= reached * (1 + 1e-9)
        assert sdn.lower_bound(fabric, flows, 1.0 / fabric.capacity) <= reached * (1 + 1e-9)
    # Rules for paths round a mesh may deadlock, but nothing is lost and nothing goes in circles.
    assert {v.kind for v in check(fabric, best.forwarding).violations} <= {"deadlock"}


@FEW
@given(SEED)
def test_routes_carry_what_their_rules_say(seed):
    fabric, flows = meshes(seed)
    rules = sdn.engineer(fabric, flows).forwarding
    by_routes = sdn.routes(fabric, rules, flows).link_bytes(flows, fabric.n_links)
    assert np.allclose(by_routes, sdn.loads(fabric, rules, flows), rtol=1e-9, atol=1.0)
    # All that is sent arrives: into each target comes what the flows bring.
    into = np.bincount(fabric.target, by_routes, fabric.n_nodes)
    wanted = np.bincount(flows.target, flows.size, fabric.n_nodes)
    ends = ~fabric.transit
    assert np.allclose(into[ends], wanted[ends], rtol=1e-9, atol=1.0)


@given(SEED)
def test_a_safe_order_is_safe_at_every_moment(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))

    def tree():
        """Return rules by which each node leads to one or two that are nearer to node 0 in a random order."""
        place = np.concatenate([[0], rng.permutation(np.arange(1, n))])
        table = {}
        for i in range(1, n):
            ahead = rng.choice(place[:i], min(i, int(rng.integers(1, 3))), replace=False)
            table[int(place[i])] = tuple(int(a) for a in ahead)
        return sdn.rules(table)

    old, new = tree(), tree()
    sources = tuple(range(1, n))
    order = sdn.safe_order(old, new, sources=sources, destination=0)
    moments = sdn.play(order, old, new, sources=sources, destination=0)
    assert len(moments) == len(sdn.moving(old, new)) + 1
    assert not any(moment.faults for moment in moments)


@given(SEED)
def test_what_all_orders_counts_is_what_each_order_meets(seed):
    rng = np.random.default_rng(seed)
    inner = ["a", "b", "c"]
    routes = []
    for _ in range(2):
        some = rng.permutation(inner)[: int(rng.integers(1, 4))].tolist()
        routes.append(sdn.rules(["s", *some, "d"]))
    counted = sdn.all_orders(*routes)
    safe = set(counted.safe)
    for order in itertools.permutations(sdn.moving(*routes)):
        assert sdn.is_safe(order, *routes) == (order in safe)
    assert counted.loop_met <= counted.loop_anywhere <= counted.total
    assert counted.safe


@given(SEED)
def test_the_floor_of_a_tenant_holds_under_any_load(seed):
    rng = np.random.default_rng(seed)
    fabric = fl.topologies.build("leaf_spine", hosts=12, radix=6)
    owner = rng.permutation(np.repeat([0, 1, 2], 4))
    weights = rng.uniform(0.5, 8.0, 3)
    tenants = sdn.Tenants(
        tuple(
            sdn.Tenant(name, tuple(np.flatnonzero(owner == i).tolist()), weight=float(weights[i]))
            for i, name in enumerate("ABC")
        )
    )
    n = int(rng.integers(2, 40))
    source, target = rng.integers(0, 12, n), rng.integers(0, 12, n)
    target = np.where(source == target, (target + 1) % 12, target)
    flows = Flows.make(fabric.endpoint[source], fabric.endpoint[target], 1e9)
    flows = sdn.weighted(fabric, flows, tenants)
    routes = fl.routing.route(
        fabric, flows, "ecmp", seed=int(rng.integers(99)), entropy=np.arange(n)
    )
    floor = sdn.floors(fabric, routes, flows, float(weights.sum()))
    got = max_min_rates(routes.ptr, routes.link, fabric.capacity, weight=flows.weight[routes.flow])
    assert np.all(got >= floor[routes.flow] * (1 - 1e-9))


@FEW
@given(SEED)
def test_drain_and_undrain_keep_all_invariants_and_a_rollback_restores_the_rules(seed):
    rng = np.random.default_rng(seed)
    fabric = fl.topologies.build("leaf_spine", hosts=18, radix=6)
    spines = [fabric.name(int(node)) for node in fabric.nodes("spine")]
    leaf = fabric.name(int(rng.choice(fabric.nodes("leaf"))))
    gone = str(rng.choice(spines))
    cable = f"{leaf} - {rng.choice(spines)}"
    controller = sdn.Controller(fabric)
    at_first = controller.forwarding
    controller.drain(gone if rng.random() < 0.5 else cable)
    for record in controller.apply(controller.plan()):
        assert record.before.ok and record.after.ok
    for record in controller.rollback():
        assert record.after.ok
    assert np.array_equal(controller.forwarding.part, at_first.part)
    assert sdn.graph_change(fabric, controller.fabric).gone.size == 0
