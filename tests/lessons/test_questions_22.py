"""What the questions of lessons 22, 22b and 22c call right and wrong is so on the networks of the library."""

import numpy as np
import pytest

from fabriclab import catalog, live, metrics, routing, run, simulate, topologies
from fabriclab.core import Flows
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson22
from fabriclab.course.questions import find

build = topologies.build
NET, SMALL = build("dragonfly", p=4, a=8, h=4), build("dragonfly", p=2, a=4, h=2)


def share(fabric, k, method):
    return metrics.throughput(fabric, metrics.shift(fabric, k), method).part


@pytest.mark.parametrize(("a", "p", "h"), [(16, 8, 8), (12, 6, 6)])
def test_a_dragonfly_joins_as_many_gpus_at_three_links(a, p, h):
    f = build("dragonfly", p=p, a=a, h=h)
    assert f.n_ranks == find("22-hosts").key({"a": a, "p": p, "h": h})
    assert metrics.hops(f).diameter - 2 == 3


@pytest.mark.parametrize(("a", "p"), [(8, 4), (8, 8)])
def test_one_cable_serves_a_group(a, p):
    f = build("dragonfly", p=p, a=a, h=4)
    assert share(f, a * p, "minimal") == pytest.approx(find("22-one-cable").key({"a": a, "p": p}))


def by_formula(groups, size):
    return (groups - 2) / (2 * size)


def by_counting(groups, size):
    load = np.zeros(
        (groups, groups)
    )  # times its rate that the cable from one group to another would carry
    for source in range(groups):
        target = (source + 1) % groups
        others = [group for group in range(groups) if group not in (source, target)]
        for between in others:
            load[source, between] += size / len(others)
            load[between, target] += size / len(others)
    return 1 / load.max()


@pytest.mark.parametrize("rule", [by_formula, by_counting])
def test_a_right_share_with_detours_is_right(rule):
    assert check("22-write-detours", rule).data["right"]


def test_a_draw_among_all_groups_is_the_mistake_that_is_named_so():
    flows = metrics.shift(NET, 32)
    direct, detour = (
        routing.route(NET, flows, m).link_bytes(flows, NET.n_links) for m in ("minimal", "valiant")
    )
    mixed = ((2 * direct + 31 * detour) / 33 / NET.capacity).max()
    assert 1 / mixed == pytest.approx(lesson22.SHARE_MISTAKES["all groups drawn"](33, 32))


def test_detours_help_near_groups_most_and_local_cables_stop_the_others():
    part = {k: metrics.throughput(NET, metrics.shift(NET, 32 * k), "valiant") for k in range(1, 33)}
    near = [k for k, found in part.items() if found.part > 0.25]
    assert near == [1, 2, 31, 32] and part[1].part == pytest.approx(31 / 64) == pytest.approx(
        part[32].part
    )
    assert (
        part[4].part == pytest.approx(31 / 160) == pytest.approx(min(p.part for p in part.values()))
    )
    group = NET.coord[:, 0]
    same = {k: group[NET.source[p.link]] == group[NET.target[p.link]] for k, p in part.items()}
    assert all(same[k] for k in range(2, 32))
    left = np.array([found.part for found in part.values()])
    assert [np.isclose(left, share).sum() for share in (31 / 160, 31 / 128)] == [14, 14]
    flows = metrics.shift(NET, 32 * 4)
    load = (
        routing.route(NET, flows, "valiant").link_bytes(flows, NET.n_links)
        / NET.capacity
        * part[4].part
    )
    assert 0.3 < load[group[NET.source] != group[NET.target]].max() < 0.5
    direct = NET.link_name(metrics.throughput(NET, metrics.shift(NET, 32), "minimal").link)
    flows = metrics.shift(NET, 32)
    load = routing.route(NET, flows, "valiant").link_bytes(flows, NET.n_links)
    assert load[[NET.link_name(i) for i in range(NET.n_links)].index(direct)] == 0  # wrong3 is not


def test_the_view_of_ways_shows_why_the_longer_one_is_faster():
    view = live.paths(SMALL, target=8, routing="minimal", routings=("minimal", "valiant", "ugal_g"))
    between = {}
    for name in ("minimal", "valiant", "ugal_g"):
        table = view.set(routing=name).scene.table
        far = [
            a.split(".")[0] != b.split(".")[0] and b != "within"
            for a, b in zip(table["from"], table["to"], strict=True)
        ]
        between[name] = int(np.sum((table["load"] > 0) & far))
    assert between == {"minimal": 1, "valiant": 14, "ugal_g": 1}  # 7 groups, by two cables each
    assert between["valiant"] == find("22-longer").key({"groups": 9})
    assert np.unique(SMALL.capacity).size == 1


def test_detours_or_seats_mend_and_sizes_rates_and_lengths_do_not():
    def next_group(f, seats, size, method="minimal"):
        ends = f.endpoint[seats]
        flows = Flows.make(ends, np.roll(ends, -8), size)
        rate = size / run(f, routing.route(f, flows, method), flows).end
        return rate / f.capacity[0]

    here, dealt = np.arange(72), np.arange(72).reshape(8, 9).T.ravel()
    rate = SMALL.capacity[0]
    assert next_group(SMALL, here, rate) == pytest.approx(1 / 8, rel=1e-3)
    assert next_group(SMALL, here, rate, "valiant") > 0.4 and next_group(SMALL, dealt, rate) > 0.4
    assert next_group(SMALL, here, 100 * rate) == pytest.approx(1 / 8, rel=1e-3)
    near = build("dragonfly", p=2, a=4, h=2, switch_length=1)
    assert next_group(near, here, rate) == pytest.approx(1 / 8, rel=1e-3)


def test_a_switch_that_sees_its_own_links_leaves_too_much_on_a_cable_of_another_switch():
    flows = metrics.shift(NET, 32)
    rate, direct = {}, {}
    for rule in ("valiant", "ugal_l", "ugal_g"):
        rate[rule] = metrics.throughput(NET, flows, rule).part
        direct[rule] = routing.direct_share(NET, flows, routing.route(NET, flows, rule))
    assert rate["ugal_l"] < rate["ugal_g"] / 2 and rate["ugal_l"] < rate["valiant"]
    assert direct["valiant"] == 0 and direct["ugal_l"] > direct["ugal_g"] > 2 / 33


def test_the_choice_by_load_ends_where_one_full_cable_costs_as_much_as_those_of_a_detour(
    monkeypatch,
):
    monkeypatch.setattr(routing, "_REST", 2e-4)
    flows, group = metrics.shift(NET, 32), NET.coord[:, 0]
    routes = routing.settled(NET, flows, "ugal_g").routes
    direct = routing.direct_share(NET, flows, routes)
    load = routes.link_bytes(flows, NET.n_links)
    load = load * 32 * direct / load.max()  # the direct cables are the fullest links
    between = group[NET.source] != group[NET.target]
    other = np.median(load[between])
    assert load[between].max() == pytest.approx(2.154, rel=0.005)
    assert other == pytest.approx(2 * 32 * (1 - direct) / 31)
    local = ~between & NET.transit[NET.source] & NET.transit[NET.target]
    full = local & np.isclose(load, other, rtol=0.01)
    waits = 2 + load[full].sum() / (1056 * (1 - direct))  # full cables on a detour
    assert waits == pytest.approx(2 + 14 / 31, rel=1e-3)
    assert load.max() / other == pytest.approx(waits ** (1 / 8), rel=0.005)
    assert 1 / load.max() == pytest.approx(0.464, abs=1e-3)


def test_detours_and_places_remove_one_limit_of_the_rings_each():
    case = catalog.case()
    seats = np.arange(1024).reshape(32, 8, 4)
    places = {"in order": seats.reshape(128, 8).T, "rails": seats.swapaxes(0, 1).reshape(8, 128)}
    time = {
        (name, rule): simulate(
            "all_reduce", "ring", NET, case.dp_gradients, placement=where, method=rule
        ).time
        for name, where in places.items()
        for rule in ("minimal", "valiant")
    }
    one = time["rails", "valiant"]
    assert time["in order", "minimal"] == pytest.approx(time["rails", "minimal"])
    assert time["in order", "minimal"] == pytest.approx(8 * one, rel=0.01)
    assert time["in order", "valiant"] == pytest.approx(4 * one, rel=0.01)


def test_of_equal_taper_the_tree_has_fewer_switches_and_more_long_cables():
    pairs = [
        (NET, build("xgft", m=[10, 8, 16], w=[1, 6, 8])),
        (
            build("dragonfly", p=16, a=32, h=10, groups=74),
            build("xgft", m=[41, 32, 64], w=[1, 23, 32]),
        ),
    ]
    for fly, tree in pairs:
        assert metrics.switches(fly) / fly.n_ranks > metrics.switches(tree) / tree.n_ranks
        assert metrics.long_cables(fly) / fly.n_ranks < metrics.long_cables(tree) / tree.n_ranks
    tree = pairs[0][1]
    assert metrics.throughput(NET, None, "minimal").part == pytest.approx(1)
    for flows in (None, metrics.shift(tree, 80), metrics.permutation(tree)):
        assert metrics.throughput(tree, flows, "spray").part == pytest.approx(0.6, rel=0.01)


NETWORKS = {
    "fat tree": (build("leaf_spine", hosts=64, radix=16), "ecmp"),
    "dragonfly": (build("dragonfly", p=2, a=4, h=2, groups=8), "minimal"),
    "torus": (build("torus", shape=(8, 8), hosts=1), "dimension_order"),
    "HyperX": (build("hyperx", shape=(4, 4), hosts=4), "dimension_order"),
}
PATTERNS = {
    "next GPU": lambda f: metrics.shift(f, 1),
    "next group": lambda f: metrics.shift(f, 8),
    "transpose": metrics.transpose,
    "all to all": metrics.uniform,
}


def seconds(fabric, method, pattern):
    return 1 / metrics.throughput(fabric, PATTERNS[pattern](fabric), method).part


def test_no_network_is_first_everywhere():
    took = {w: {k: seconds(*NETWORKS[k], w) for k in NETWORKS} for w in PATTERNS}
    rank = {w: sorted(NETWORKS, key=lambda k, w=w: round(took[w][k], 3)) for w in PATTERNS}
    assert (rank["next group"][0], rank["next group"][-1]) == ("torus", "dragonfly")
    assert (rank["all to all"][0], rank["all to all"][-1]) == ("HyperX", "torus")
    assert rank["transpose"][0] == "HyperX"
    firsts = {k: sum(of[k] < min(of.values()) * 1.001 for of in took.values()) for k in NETWORKS}
    assert firsts["HyperX"] == 3 and max(firsts.values()) < len(PATTERNS)
    assert rank["all to all"][1] == "dragonfly"
    assert max(NETWORKS, key=lambda k: NETWORKS[k][0].n_cables) == "torus"
    far = {k: metrics.hops(f).diameter for k, (f, _) in NETWORKS.items()}
    assert min(far, key=far.get) in ("HyperX", "fat tree") and far["HyperX"] == far["fat tree"] == 4


def test_what_is_said_of_non_blocking_is_true():
    (fat, _), (fly, _) = NETWORKS["fat tree"], NETWORKS["dragonfly"]
    assert fat.n_ranks == fly.n_ranks == 64
    for pattern in PATTERNS:
        assert seconds(fat, "spray", pattern) == pytest.approx(1, rel=1e-4)
    assert seconds(fat, "ecmp", "all to all") > 1.2
    assert seconds(fly, "minimal", "next group") == pytest.approx(
        1 / find("22-one-cable").key({"a": 4, "p": 2}), rel=1e-4
    )
    assert 0.4 < 1 / seconds(fly, "ugal_g", "next group") < 0.5
    flows = PATTERNS["next group"](fly)
    direct, around = (
        routing.route(fly, flows, m).link_bytes(flows, fly.n_links) / fly.capacity
        for m in ("minimal", "valiant")
    )
    rate = {x: 1 / (x * direct + (1 - x) * around).max() for x in np.linspace(0, 1, 101)}
    best = max(rate, key=rate.get)
    assert (best, rate[best] / rate[1] / 8) == pytest.approx((0.25, 0.5))
    assert 1 / seconds(fly, "minimal", "all to all") > 0.9


@pytest.mark.parametrize("tiers", [2, 3, 4])
def test_twice_the_ports_double_a_tree_at_each_tier(tiers):
    hosts = []
    for half in (2, 4):  # ports up, and as many down
        down = [half] * (tiers - 1) + [2 * half]
        hosts.append(build("xgft", m=down, w=[1] + [half] * (tiers - 1)).n_ranks)
    assert hosts[1] / hosts[0] == find("22b-ports").key({"tiers": tiers})


def test_both_dragonflies_gain_most_from_twice_the_ports():
    def hosts(ports):
        half, quarter = ports // 2, ports // 4
        plus = build("dragonfly_plus", hosts=half, leaves=half, spines=half, h=half)
        return build("dragonfly", p=quarter, a=half, h=quarter).n_ranks, plus.n_ranks

    # With 32 ports they connect as many as the same sums give; those of 65,792 GPUs take long to build.
    assert hosts(16) == (4 * 8 * (8 * 4 + 1), 8 * 8 * (8 * 8 + 1)) == (1056, 4160)
    assert (8 * 16 * (16 * 8 + 1), 16 * 16 * (16 * 16 + 1)) == (16512, 65792)


@pytest.mark.parametrize("method", ["minimal", "valiant"])
def test_one_lane_closes_a_circle_and_lanes_open_it(method):
    flows = metrics.uniform(SMALL)
    routes = routing.route(SMALL, flows, method)
    lane = routing.lanes(SMALL, flows, routes, method)
    circle, group = routing.deadlock(SMALL, routes), SMALL.coord[:, 0]
    local = [group[SMALL.source[i]] == group[SMALL.target[i]] for i in circle]
    assert any(local) and not all(local)
    assert (
        routing.deadlock(SMALL, routes, lane) == ()
        and lane.max() == {"minimal": 1, "valiant": 2}[method]
    )


def test_frontier_is_built_as_published():
    facts = catalog.systems["frontier"]
    f = build("dragonfly", p=16, a=32, h=10, groups=int(facts["groups"].value), rate="200 Gb/s")
    group = f.coord[:, 0]
    out = (group[f.source] == 0) & (group[f.target] != 0)
    mine = (group[f.source] == 0) & ~f.transit[f.source]
    assert f.capacity[out].sum() == pytest.approx(facts["group_global"].si)
    assert f.capacity[mine].sum() == pytest.approx(facts["group_injection"].si)
    assert out.sum() == facts["links_per_group_pair"].value * (facts["groups"].value - 1)
