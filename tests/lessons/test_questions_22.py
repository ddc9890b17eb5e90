"""What the questions of lesson 22 call right, and what they call wrong, is so on the dragonflies of the library."""

import json

import numpy as np
import pytest

from fabriclab import catalog, live, metrics, routing, run, topologies
from fabriclab.core import Flows
from fabriclab.course.questions import evaluate, find
from support.lesson_runs import ROOT

build = topologies.build
NET, SMALL = build("dragonfly", p=4, a=8, h=4), build("dragonfly", p=2, a=4, h=2)


def share(fabric, k, method):
    return metrics.throughput(fabric, metrics.shift(fabric, k), method).part


def named(id, mistake, **given):
    """Return a known wrong answer by its name."""
    q = find(id)
    return evaluate(next(f for name, f, _ in q.wrong if name == mistake), q.fill(given)[0])


@pytest.mark.parametrize(("a", "p", "h"), [(16, 8, 8), (8, 4, 4)])
def test_a_dragonfly_joins_as_many_gpus_at_three_links(a, p, h):
    f = build("dragonfly", p=p, a=a, h=h)
    assert f.n_ranks == find("22-hosts").key({"a": a, "p": p, "h": h})
    assert metrics.hops(f).diameter - 2 == 3  # so wrong2 of 22-bandwidth is not


def test_ranks_are_dealt_out_so_that_neighbours_stand_in_different_groups():
    cells = json.loads((ROOT / "notebooks/22_dragonfly.ipynb").read_text())["cells"]
    source = "".join(next(c for c in cells if c["id"] == "22-who")["source"])
    line = next(line for line in source.splitlines() if line.startswith("dealt = "))
    dealt = eval(line.removeprefix("dealt = "), {"small": SMALL, "np": np})
    group = SMALL.coord[dealt, SMALL.coord_names.index("group")]
    assert sorted(dealt) == sorted(SMALL.endpoint) and np.all(group != np.roll(group, 1))


@pytest.mark.parametrize(("a", "p"), [(8, 4), (8, 8)])
def test_one_cable_serves_a_group(a, p):
    f = build("dragonfly", p=p, a=a, h=4)
    assert share(f, a * p, "minimal") == pytest.approx(find("22-one-cable").key({"a": a, "p": p}))


@pytest.mark.parametrize(
    ("n", "shape"),
    [(9, {"p": 2, "a": 4, "h": 2}), (17, {"p": 2, "a": 8, "h": 2}), (33, {"p": 4, "a": 8, "h": 4})],
)
def test_detours_leave_what_the_answer_says(n, shape):
    f = build("dragonfly", **shape)
    assert f.n_ranks == n * (n - 1)
    assert share(f, n - 1, "valiant") == pytest.approx(find("22-detours").key({"n": n}))
    flows = metrics.shift(f, n - 1)
    direct, detour = (
        routing.route(f, flows, m).link_bytes(flows, f.n_links) for m in ("minimal", "valiant")
    )
    mixed = ((2 * direct + (n - 2) * detour) / n / f.capacity).max()
    assert 1 / mixed == pytest.approx(named("22-detours", "own groups drawn too", n=n))


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


@pytest.fixture(scope="module")
def lesson():
    """Return the names of the cells ``guess`` and ``cross``, as the lesson makes them."""
    nb = json.loads((ROOT / "notebooks" / "22_dragonfly.ipynb").read_text(encoding="utf-8"))
    source = {cell["id"]: "".join(cell["source"]) for cell in nb["cells"]}
    import fabriclab as fl

    names = {"np": np, "fl": fl, "build": build, "case": catalog.case()}
    exec(source["22-guess"].split("display(")[0], names)
    exec(source["22-cross"].split("took =")[0], names)
    return names


def test_no_network_is_first_everywhere(lesson):
    nets, patterns = lesson["nets"], list(lesson["first"])
    took = {k: [lesson["run"](*nets[k], w) for w in patterns] for k in nets}
    rank = {w: sorted(nets, key=lambda k: round(took[k][i], 3)) for i, w in enumerate(patterns)}
    assert (rank["next group"][0], rank["next group"][-1]) == ("torus", "dragonfly")
    assert (rank["all to all"][0], rank["all to all"][-1]) == ("HyperX", "torus")
    assert rank["transpose"][0] == "HyperX"
    assert max(nets, key=lambda k: nets[k][0].n_cables) == "torus"
    far = {k: metrics.hops(f).diameter for k, (f, _) in nets.items()}
    assert min(far, key=far.get) in ("HyperX", "fat tree") and far["HyperX"] == far["fat tree"] == 4
    # as the comments of the cell say
    assert [f.transit.sum() for f, _ in nets.values()] == [12, 32, 64, 16]


def test_what_is_said_of_non_blocking_is_true(lesson):
    fat, fly, time = lesson["fat"], lesson["fly"], lesson["run"]
    assert fat.n_ranks == fly.n_ranks == 64
    assert time(fat, "spray", "all to all") == pytest.approx(1, rel=1e-4)
    assert time(fat, "ecmp", "all to all") > 1.2
    assert time(fly, "minimal", "next group") == pytest.approx(
        1 / find("22-one-cable").key({"a": 4, "p": 2}), rel=1e-4
    )
    assert 0.4 < 1 / time(fly, "ugal_g", "next group") < 0.55
    assert 1 / time(fly, "minimal", "all to all") > 0.9


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
