"""Day 2: telemetry of known causes, a subnet manager, drains, drift of settings, and the services of a site."""

import numpy as np
import pytest

from fabriclab import operations, routing, sdn, topologies
from fabriclab.core import Flows
from fabriclab.errors import FileFormat, NoPath
from fabriclab.operations import Cause

HALL = topologies.build("leaf_spine", hosts=16, radix=8)


def every_pair(fabric):
    n = fabric.n_ranks
    one, other = (a[~np.eye(n, dtype=bool)] for a in np.indices((n, n)))
    return Flows.make(fabric.endpoint[one], fabric.endpoint[other], 1.0)


# telemetry ----------------------------------------------------------------------------------------
PLACES = {
    "dirty connector": "leaf 0 -> spine 1",
    "bad module": "leaf 0 -> spine 1",
    "slow NIC": "host 5",
    "hot switch": "spine 1",
    "ECN threshold too high": "leaf 1",
    "ECN threshold too low": "leaf 1",
    "missing headroom": "leaf 1",
}


def test_every_cause_has_a_place_here():
    assert set(PLACES) == set(operations.cause_kinds())


@pytest.mark.parametrize("kind", PLACES)
def test_a_cause_changes_the_counters_that_it_names_and_no_link_elsewhere(kind):
    start = 120 * 30.0
    cause = Cause(kind, PLACES[kind], start)
    quiet = operations.observe(HALL, samples=240, seed=3)
    seen = operations.observe(HALL, [cause], samples=240, seed=3)
    for counter, values in seen.values.items():
        onset = seen.onset(counter)
        acts = onset >= 0
        assert set(onset[acts]) <= {120}
        before = values[:120].mean(axis=0) + 1
        after = values[200:].mean(axis=0) + 1
        ratio = after / before
        if counter == "temperature":
            assert np.all(after[acts] - before[acts] > 10)
        elif acts.any() and counter != "symbol_errors":
            assert np.all((ratio[acts] > 1.5) | (ratio[acts] < 0.2)), (counter, ratio[acts])
        if not acts.any() and counter in ("discards", "symbol_errors"):
            assert values.sum() == quiet.values[counter].sum() == 0
    assert seen.bad().size


def test_only_enough_bit_errors_make_symbol_errors():
    seen = operations.observe(
        HALL, [Cause("bad module", "leaf 0 -> spine 1", strength=1.5)], samples=600, seed=1
    )
    place = int(seen.bad()[0])
    first_symbol = np.flatnonzero(seen.values["symbol_errors"][:, place])[0]
    first_alarm = operations.first_alarm(
        operations.over_baseline(seen.values["bit_errors"]), 10, 3
    )[place]
    assert 0 < first_alarm < first_symbol - 60  # more than half an hour earlier


def test_the_same_seed_gives_the_same_counters():
    one, two, other = (
        operations.observe(HALL, samples=5, seed=s).values["pauses"] for s in (1, 1, 2)
    )
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_totals_stop_as_counters_of_sixteen_bits_do():
    seen = operations.observe(
        HALL, [Cause("bad module", "leaf 0 -> spine 1", strength=3)], samples=300
    )
    whole = seen.totals("symbol_errors")
    stuck = seen.totals("symbol_errors", bits=16)
    assert whole.max() > 65_535 and stuck.max() == 65_535
    assert np.array_equal(np.diff(whole, axis=0), seen.values["symbol_errors"][1:])
    with pytest.raises(ValueError, match="temperature has no total"):
        seen.totals("temperature")


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause("rust", "host 1"), r"kind must be one of dirty connector"),
        (Cause("bad module", "host 1"), r"must name a link in the direction of its bits"),
        (Cause("bad module", "leaf 0 -> leaf 1"), r"no working link outside the servers"),
        (Cause("slow NIC", "host 99"), r"host 99"),
        (Cause("slow NIC", "host 1", strength=0), r"strength must be > 0"),
    ],
)
def test_telemetry_refusals(cause, said):
    with pytest.raises(ValueError, match=said):
        operations.observe(HALL, [cause], samples=3)
    with pytest.raises(ValueError, match=r"interval must be > 0 s"):
        operations.observe(HALL, samples=3, interval=0)
    with pytest.raises(ValueError, match=r"no link is named 'leaf 9 -> x'"):
        operations.observe(HALL, samples=3).place("leaf 9 -> x")


# subnet manager -----------------------------------------------------------------------------------
def test_a_sweep_by_hand():
    small = topologies.build("leaf_spine", hosts=8, radix=4)
    swept = operations.sweep(small)
    assert swept.order.size == small.n_nodes == 14
    assert (
        swept.packets == 1 + 1 + 4 * 4 + 2 * 4
    )  # itself, its cable, 4 leaves and 2 spines with 4 ports
    assert int(swept.hops.max()) == 4
    assert sorted(swept.lid.tolist()) == list(range(1, 15))
    for node in range(small.n_nodes):  # a directed route leads where it says
        at = int(swept.order[0])
        for port in swept.directed_route(node):
            link = np.flatnonzero((small.source == at) & (swept.port == port))
            at = int(small.target[link[0]])
        assert at == node


def test_what_is_cut_off_is_not_found():
    small = topologies.build("leaf_spine", hosts=8, radix=4)
    hurt = small.without("leaf 3")
    swept = operations.sweep(hurt)
    assert swept.order.size == 14 - 3  # the leaf and its two hosts
    with pytest.raises(ValueError, match="was not found; repair"):
        swept.directed_route(hurt.node("leaf 3"))
    tables = operations.forwarding_tables(swept)
    ranks = swept.lid[hurt.endpoint]
    assert (tables.ports[:, ranks[ranks > 0]] != 255).all()
    # the two spines have no way to each other that goes up first; OpenSM calls its remedy connect_roots
    assert np.count_nonzero(tables.ports[:, 1:] == 255) == 2


@pytest.mark.parametrize("engine", ["updn", "minhop", "dor"])
def test_tables_on_a_torus(engine):
    torus = topologies.build("torus", shape=(4, 4), hosts=1)
    tables = operations.forwarding_tables(operations.sweep(torus), engine)
    routes = routing.from_tables(torus, every_pair(torus), tables.next_link)
    assert routes.n_rows == every_pair(torus).n_flows
    if engine == "updn":
        assert routing.deadlock(torus, routes) == ()
    if engine == "dor":
        assert routing.deadlock(torus, routes) != ()


def test_updown_never_climbs_again_even_with_failures():
    from fabriclab.routing.updown import climbs

    whole = topologies.build("dragonfly", p=2, a=4, h=1)
    inner = np.flatnonzero(whole.transit[whole.source[::2]] & whole.transit[whole.target[::2]])
    fabric = whole.without(cables=inner[[3, 20]])
    tables = operations.forwarding_tables(operations.sweep(fabric))
    routes = routing.from_tables(fabric, every_pair(fabric), tables.next_link)
    up = climbs(fabric)
    for row in range(routes.n_rows):
        steps = up[routes.link[routes.ptr[row] : routes.ptr[row + 1]]]
        assert not np.any(~steps[:-1] & steps[1:])


def test_ranks_need_one_cable():
    with pytest.raises(ValueError, match="an adapter with one cable"):
        operations.sweep(topologies.build("torus", shape=(3, 3)))


# maintenance --------------------------------------------------------------------------------------
def test_a_spine_is_drained_step_by_step():
    controller = sdn.Controller(HALL)
    done = operations.take_out(controller, "spine 1")
    assert done.ok and done.is_idle and not done.jobs
    assert [s.kind for s in done.stages] == ["rules"] * 5 + ["ready"]
    back = operations.put_back(controller, "spine 1")
    assert back[-1].check.ok
    assert not controller.drained


def test_a_server_leaves_after_its_jobs():
    controller = sdn.Controller(HALL)
    done = operations.take_out(controller, "host 5", jobs={"job": [range(12)]}, spares=[13])
    assert [s.kind for s in done.stages][:3] == ["cordon", "move", "cordon"]
    assert done.ok and done.is_idle
    assert done.jobs["job"].groups[0].tolist() == [0, 1, 2, 3, 4, 13, 6, 7, 8, 9, 10, 11]
    assert (done.jobs["job"].crossings_before, done.jobs["job"].crossings_after) == (3, 5)


def test_without_a_spare_a_job_does_not_move():
    with pytest.raises(NoPath, match=r"job job runs on server 5, .* no spare is left"):
        operations.take_out(sdn.Controller(HALL), "host 5", jobs={"job": [range(12)]})


def test_ranks_keep_their_rail():
    rails = topologies.build("rail_optimised", servers=8, gpus=2, rails=2, radix=16, expand=False)
    groups = np.arange(12).reshape(6, 2).T  # two rings over servers 0 to 5
    moved = operations.rerank(rails, groups, bad=2, spare=7)
    assert moved.groups.tolist() == [[0, 2, 14, 6, 8, 10], [1, 3, 15, 7, 9, 11]]
    assert moved.replaced.tolist() == [[4, 14], [5, 15]]
    closed = operations.rerank(rails, groups, bad=2, method="close up")
    assert closed.groups.tolist() == [[0, 2, 6, 8, 10], [1, 3, 7, 9, 11]]
    assert closed.replaced.tolist() == [[4, -1], [5, -1]]
    for bad, arguments, said in (
        (7, {"spare": 6}, "no group has a rank on server 7"),
        (2, {}, "needs a spare server"),
        (2, {"spare": 3}, "is in the job already"),
        (2, {"method": "wish"}, "method must be one of spare, close up"),
        (9, {"spare": 7}, r"bad must be within 0\.\.7"),
    ):
        with pytest.raises(ValueError, match=said):
            operations.rerank(rails, groups, bad, **arguments)


# drift --------------------------------------------------------------------------------------------
TABLE = """\
# settings of a small hall
switch,role,mtu,ecn_kmin,fec
leaf 0,leaf,4096,400,rs
leaf 1,leaf,4096,800,rs
leaf 2,leaf,4096,400,
leaf 3,leaf,4096,400,rs
spine 0,spine,4096,400,rs
spine 1,spine,1500,300,rs
leaf 3,leaf,9000,400,rs
leaf 4,leaf,4096
,leaf,1,2,3
"""


def test_drift_by_majority_and_by_intent():
    settings = operations.read_settings(TABLE)
    assert [s.line for s in settings.skipped] == [9, 10, 11]
    found = operations.find_drift(settings)
    assert [d[:4] for d in found.deviations] == [
        ("leaf 1", "ecn_kmin", "800", "400"),
        ("leaf 2", "fec", "", "rs"),
    ]
    # two spines that differ have no majority, so nothing says which of them drifted
    assert found.undecided == (
        "spine, mtu: 4096 x 1, 1500 x 1",
        "spine, ecn_kmin: 400 x 1, 300 x 1",
    )
    told = operations.find_drift(settings, {"spine": {"mtu": "4096"}})
    assert [d[:4] for d in told.deviations] == [("spine 1", "mtu", "1500", "4096")]
    assert told.undecided == ("no intended settings for role leaf",)
    assert "dropped" in repr(told)


def test_both_ends_of_a_cable_agree():
    found = operations.mismatched_ends(HALL, operations.read_settings(TABLE))
    assert {(d.switch, d.setting) for d in found.deviations} == {
        (f"spine 1 (cable to leaf {leaf})", "mtu") for leaf in range(4)
    }


def test_what_changed_since_yesterday():
    old = operations.read_settings(TABLE)
    new = operations.read_settings(
        TABLE.replace("leaf 0,leaf,4096,400,rs", "leaf 0,leaf,4096,400,none")
    )
    found = operations.changed(old, new)
    assert [d[:4] for d in found.deviations] == [("leaf 0", "fec", "none", "rs")]
    assert repr(operations.changed(old, old)) == "<Drift by earlier table: none>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,role\nleaf 0,leaf\n", r"line 1: the header has no column 'switch'"),
        ("switch,role,mtu,mtu\nleaf 0,leaf,1,2\n", r"column 'mtu' twice"),
        ("switch,role\n", r"no switch was understood"),
        ("switch,role,mtu\nleaf 0,leaf\n", r"no switch was understood.*line 2 skipped"),
    ],
)
def test_settings_refusals(text, said):
    with pytest.raises(FileFormat, match=said):
        operations.read_settings(text)


# services -----------------------------------------------------------------------------------------
def test_the_inventory_is_consistent():
    services = operations.inventory()
    names = [s.name for s in services]
    assert len(set(names)) == len(names)
    for service in services:
        assert set(service.depends) <= set(names)
        assert service.needed_from in (1, 8, 1000)
        for other in service.depends:  # what a service depends on is there wherever it is
            assert services[names.index(other)].needed_from <= service.needed_from
        assert service.does and service.failure and service.delay >= 0


def test_more_servers_need_more_services():
    one, eight, thousand = (operations.needed(n) for n in (1, 8, 1000))
    assert set(one) < set(eight) < set(thousand)
    assert operations.needed(7) == one and operations.needed(999) == eight
    assert {"parallel file system", "scheduler"} <= {s.name for s in eight}  # C182
    assert not {"parallel file system", "scheduler"} & {s.name for s in one}


def test_what_fails_with_a_service():
    outcome = operations.fails_with("names and addresses")
    assert outcome.worst == "new"  # running jobs keep their connections
    assert {"scheduler", "health checks", "alerts"} <= {s.name for s in outcome.also}
    names = {service.name for service in operations.inventory()}
    without_power = {s.name for s in operations.fails_with("power and cooling").also}
    assert names - without_power == {"power and cooling", "spare parts and repair"}
    assert operations.fails_with("telemetry").worst == "silent"
    assert operations.fails_with("subnet manager").worst == "repair"
    with pytest.raises(ValueError, match=r"name must be one of .*did you mean"):
        operations.fails_with("shedulers")
    with pytest.raises(ValueError, match="name must be one of"):
        operations.fails_with("scheduler", servers=1)
