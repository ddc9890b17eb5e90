"""What the questions of lessons 25 and 25b call right is right on the fabrics, and the judges name mistakes."""

import itertools

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import linprog

from fabriclab import catalog, check, circuits, live, metrics, routing, topologies
from fabriclab.core import Flows
from fabriclab.course.judges.lessons import lesson25b
from fabriclab.course.questions import find
from fabriclab.errors import NoPath
from fabriclab.simulation import ring_busbw
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.workload import layouts, models, volumes
from support.prose import sentence, states

FABRICS = {wiring: topologies.build("gigaio", wiring=wiring) for wiring in WIRINGS}
RATES = {wiring: ring_busbw("all_reduce", f, rings(f)) for wiring, f in FABRICS.items()}
PORT = catalog.value("links", "pcie4", "bandwidth_after_encoding")


@pytest.mark.parametrize(("wiring", "k"), [("1s-2rp-std-cascade", 2), ("2s-2rp-std-flat", 4)])
def test_rings_that_share_a_link_have_its_rate(wiring, k):
    assert RATES[wiring] == pytest.approx(find("25-shared").key({"k": k, "r": f"{PORT} B/s"}))
    assert sentence("live.gigaio.said", most=k).search(live.gigaio(wiring).scene.said)


def test_the_view_counts_the_rings_of_each_link():
    for wiring, f in FABRICS.items():
        table = live.gigaio(wiring).scene.table
        up = [
            n
            for a, b, n in zip(table["from"], table["to"], table["load"], strict=True)
            if a.startswith("switch") and b.startswith("root port")
        ]
        shared = RATES[wiring] < PORT * len(rings(f)) * 0.99
        assert (max(up) == pytest.approx(1)) == shared and (max(up) == 0) != shared
    table = live.gigaio("2s-2rp-std-flat").scene.table
    xgmi = [
        n
        for a, b, n in zip(table["from"], table["to"], table["load"], strict=True)
        if a[:3] == b[:3] == "GPU"
    ]
    own = catalog.value("links", "xgmi-mi300x", "bandwidth_per_link")
    # one ring here, four on the fullest link
    assert len(xgmi) == 56 and max(xgmi) == pytest.approx(PORT / (4 * own))


def test_the_order_is_that_of_the_model_and_of_the_publication():
    groups = [
        ["2s-2rp-split-flat"],
        ["1s-2rp-split-cascade", "1s-1rp-std-cascade"],
        ["1s-2rp-std-cascade", "2s-2rp-std-flat"],
    ]
    told = {w: catalog.value("systems", f"gigaio-{w}", "busbw_all_reduce") for w in WIRINGS}
    for rates in (RATES, told):
        for fast, slow in itertools.pairwise(groups):
            assert min(rates[w] for w in fast) > 1.5 * max(rates[w] for w in slow)
        assert rates[groups[1][0]] == pytest.approx(rates[groups[1][1]])


def test_no_cheaper_wiring_reaches_80_gb_per_s():
    """A ring for each card, all on one link where they cross the processor; eight of twelve forms find their ports."""
    copied, link = catalog.value("memory_path", "p2p-pcie", "bandwidth"), catalog.links["pcie5"]
    part, room = (
        copied / link["bandwidth_after_encoding"].si,
        catalog.value("switches", "draco", "connections"),
    )
    built = []
    for form in itertools.product(
        ("1s-1rp", "1s-2rp", "2s-2rp"), ("std", "split"), ("cascade", "flat")
    ):
        wiring, switches, cards = "-".join(form), int(form[0][0]), 4 if form[2] == "flat" else 2
        ports = find("25b-ports").key({"b": 2, "c": cards, "p": int(wiring[3])})
        if ports / switches > room:
            with pytest.raises(ValueError, match=f"needs {ports:g} ports on a switch"):
                topologies.build("gigaio", wiring=wiring)
            continue
        f = topologies.build("gigaio", wiring=wiring)
        assert f.ports_used[f.nodes("draco")].sum() == ports
        rate = ring_busbw("all_reduce", f, rings(f))
        assert rate == pytest.approx(PORT * (1 if "2rp-std" in wiring else cards))
        assert (part * rate >= 80e9) == (wiring == "2s-2rp-split-flat")
        built.append(wiring)
    assert len(built) == 8 and {*WIRINGS} < {*built}


def test_the_two_tables_disagree_on_one_wiring():
    def told(what):
        return catalog.value("systems", "gigaio-2s-2rp-split-flat", what)

    gains = {
        what: told(f"busbw_{what}_own_rings") / told(f"busbw_{what}_default_rings") - 1
        for what in ("all_reduce", "reduce_scatter", "all_gather")
    }
    assert {k: round(100 * v) for k, v in gains.items()} == {
        "all_reduce": 17,
        "reduce_scatter": 30,
        "all_gather": 50,
    }
    assert told("busbw_all_reduce") > told("busbw_all_reduce_own_rings")
    assert (
        told("busbw_all_gather_default_rings")
        < told("busbw_all_gather")
        < told("busbw_all_gather_own_rings")
    )


def test_rail_only_has_no_way_from_rail_to_rail_of_another_server():
    f = topologies.build("rail_only", servers=4, radix=4)
    for a, b, there in ((0, 9, False), (0, 8, True), (0, 1, True)):
        flow = Flows.make(f.endpoint[[a]], f.endpoint[[b]], 1.0)
        if there:
            assert routing.route(f, flow).link.size
        else:
            with pytest.raises(NoPath):
                routing.route(f, flow)
            assert routing.route(f, flow, "pxn").link.size


def mean_hops(chosen, share):
    f = circuits.patched(chosen, len(share), 3, "50 GB/s")
    return circuits.carried(f, share).hops, f


def cubic_graphs(edges=(), free=(3,) * 8):
    """Yield all graphs with three links at each of 8 nodes: the first that lacks some takes them to later ones."""
    one = next((node for node, left in enumerate(free) if left), 8)
    if one == 8:
        yield edges
        return
    for others in itertools.combinations([n for n in range(one + 1, 8) if free[n]], free[one]):
        rest = [0 if n == one else left - (n in others) for n, left in enumerate(free)]
        yield from cubic_graphs((*edges, *((one, n) for n in others)), rest)


def test_circuits_along_the_job_meet_the_bound_and_no_others_do():
    """All 19,355 ways to place 12 circuits at 8 servers are tried, with hops counted by powers of their matrices."""
    share = circuits.ring_with_partners()
    assert (share.sum(axis=1) == 100).all() and (share == share.T).all()
    mine = circuits.place(share, 3)
    graphs = np.array([*cubic_graphs()])
    joined = np.zeros((len(graphs), 8, 8), dtype=int)
    for one, other in (graphs.T, graphs.T[::-1]):
        joined[np.arange(len(graphs)), one, other] = 1
    assert len(graphs) == 19355 and (joined.sum(axis=2) == 3).all()  # OEIS A002829
    hops, reach = np.full(joined.shape, np.inf), np.broadcast_to(np.eye(8, dtype=int), joined.shape)
    for n in range(8):
        hops[(hops == np.inf) & (reach > 0)] = n
        reach = reach @ joined
    mean = (hops * share).sum(axis=(1, 2)) / share.sum()
    key = find("25-circuits").key({"s": "80 %"})
    best = np.flatnonzero(mean < key + 1e-9)
    assert [{*map(frozenset, graphs[k].tolist())} for k in best] == [{*map(frozenset, mine)}]
    assert mean[best] == pytest.approx(key)
    assert metrics.hops(mean_hops(mine, share)[1]).diameter == 2
    for k in (*best, *np.flatnonzero(mean < np.inf)[::4000]):
        assert mean_hops(graphs[k], share)[0] == pytest.approx(mean[k])


def test_a_fourth_circuit_at_a_server_is_refused():
    ring = [(i, (i + 1) % 8) for i in range(8)]
    with pytest.raises(ValueError, match="needs 4 ports and has 3"):
        mean_hops([*ring, (0, 4), (0, 3)], circuits.ring_with_partners())


# Bytes that change rail -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")


def by_tables(traffic, per_server):
    rank = np.arange(len(traffic))
    leaves = rank[:, None] // per_server != rank // per_server
    changes = rank[:, None] % per_server != rank % per_server
    return traffic[leaves & changes].sum() / traffic[leaves].sum()


def by_loops(traffic, per_server):
    all_bytes = relayed = 0
    for a, b in zip(*np.nonzero(traffic), strict=True):
        if a // per_server != b // per_server:
            all_bytes += traffic[a, b]
            if a % per_server != b % per_server:
                relayed += traffic[a, b]
    return relayed / all_bytes


def in_place(traffic, per_server):
    rank = np.arange(len(traffic))
    traffic[rank[:, None] // per_server == rank // per_server] = 0
    same = rank[:, None] % per_server == rank % per_server
    return 1 - float(traffic[same].sum()) / float(traffic.sum())


@pytest.mark.parametrize("rule", [by_tables, by_loops, in_place])
def test_a_right_count_of_bytes_that_change_rail_is_right(rule):
    assert check("25-write-relay", rule).data["right"]


def test_no_count_is_no_try_and_shows_no_large_matrix():
    shown = str(check("25-write-relay", lambda traffic, per_server: None))
    assert "an array of 128 x 128 numbers" in shown and len(shown) < 600


def test_the_traffic_of_the_judge_is_that_of_the_jobs_of_the_lesson():
    job = layouts.of_case(catalog.case())
    flat = volumes.volumes(models.preset("Llama 3 8B"), job.replace(tp=1, dp=1024)).traffic()
    ours = volumes.volumes(models.of_case(catalog.case()), job).traffic()
    assert (flat.relayed(8), ours.relayed(8)) == (1.0, 0.0)
    assert by_tables(flat.matrix(1024), 8) == 1.0
    hops = flat.source // 8 != flat.target // 8
    assert (hops.sum(), hops.size) == (128, 1024)


@pytest.mark.parametrize(("servers", "left"), [(128, 0), (127, 1)])
def test_a_ring_that_is_turned_round_in_every_second_server_stays_on_its_rails(servers, left):
    gpu = np.arange(servers * 8).reshape(servers, 8)
    gpu[1::2] = gpu[1::2, ::-1]
    rank = np.arange(servers * 8)
    ring = volumes.Traffic(rank, np.roll(rank, -1), np.ones(rank.size))
    assert ring.moved(gpu.ravel()).relayed(8) == pytest.approx(left / servers)


def test_experts_on_one_rail_change_no_rail_and_send_more():
    job = layouts.of_case(catalog.case()).replace(tp=1, dp=1024, ep=32)
    sent = volumes.volumes(models.preset("Qwen3 30B A3B"), job).traffic()
    group, member = np.divmod(np.arange(1024), 32)
    on_one_rail = sent.moved(8 * (group // 8 * 32 + member) + group % 8)
    assert sent.relayed(8) == pytest.approx(0.856, abs=5e-4)
    assert on_one_rail.relayed(8) < 0.01
    before, after = (each.between_servers(1024, 8).sum() for each in (sent, on_one_rail))
    assert (round(before / 1e12), round(after / 1e12)) == (163, 211)


def test_relays_carry_an_all_to_all_without_spines():
    f = topologies.build("rail_only", servers=16, radix=16)
    flows = metrics.to_other_servers(f, catalog.case().nic_rate)
    assert metrics.throughput(f, flows, "pxn").part == pytest.approx(1)
    assert flows.size.sum() == pytest.approx(128 * catalog.case().nic_rate)


# Circuits for a matrix ------------------------------------------------------------------------------------------------


def sorted_pairs(traffic, fibres):
    n = len(traffic)
    left = [fibres] * n
    pairs = [(i, j) for i in range(n) for j in range(i)]
    pairs.sort(key=lambda pair: traffic[pair] + traffic[pair[::-1]], reverse=True)
    chosen = []
    for i, j in pairs:
        if left[i] and left[j]:
            chosen.append((i, j))
            left[i] -= 1
            left[j] -= 1
    return chosen


def largest_again(traffic, fibres):
    both = np.triu(traffic + traffic.T, 1)
    used = np.zeros(len(both), dtype=int)
    chosen = set()
    while both.max() > 0:
        one, other = np.unravel_index(both.argmax(), both.shape)
        both[one, other] = 0
        if used[one] < fibres and used[other] < fibres:
            chosen.add((one, other))
            used[one] += 1
            used[other] += 1
    return chosen


@pytest.mark.parametrize("rule", [sorted_pairs, largest_again, circuits.place])
def test_circuits_that_are_placed_greedily_are_right(rule):
    assert check("25-write-circuits", rule).data["right"]


def ahead_only(traffic, fibres):
    n = len(traffic)
    return [(0, j) for j in range(1, n)]


def twice(traffic, fibres):
    chosen = circuits.place(traffic, fibres)
    return chosen + [pair[::-1] for pair in chosen]


def to_itself(traffic, fibres):
    return [*circuits.place(traffic, fibres)[:-1], (0, 0)]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (ahead_only, "other end forgotten"),
        (twice, "pair twice"),
        (to_itself, "circuit to itself"),
    ],
)
def test_circuits_that_cannot_be_patched_are_named(rule, name):
    assert check("25-write-circuits", rule).data["named"] == name


@pytest.mark.parametrize("found", [None, 3, "0-1", [], [(0, 1, 2)], [(0, 99)], [(0.5, 1)], [0, 1]])
def test_what_is_no_list_of_circuits_is_no_try(found):
    shown = str(check("25-write-circuits", lambda traffic, fibres: found))
    assert "list of circuits" in shown and "not counted" in shown


def test_circuits_of_the_job_in_two_stages_take_one_hop_and_carry_39_percent():
    job = layouts.of_case(catalog.case()).replace(pp=2, dp=4, microbatches=16)
    real = volumes.volumes(models.of_case(catalog.case()), job).traffic().between_servers(64, 8)
    parts = []
    for matrix, part in ((real, 0.387), ((real + real.T) / 2, 0.775)):
        f = circuits.patched(circuits.place(matrix, 3), 8, 3, "50 GB/s")
        got = circuits.carried(f, matrix)
        assert got.hops == pytest.approx(1) and got.part == pytest.approx(part, abs=5e-4)
        parts.append(got.part)
    assert real[0].max() / real[0].sum() == pytest.approx(0.86, abs=2e-3)
    states(find("25-uneven").words.prompt, f"{100 * parts[0]:.0f} %")


def test_circuits_of_one_deal_carry_30_to_56_percent_of_another_and_the_tree_all():
    light = circuits.patched(circuits.place(circuits.ring_with_partners(), 3), 8, 3, "50 GB/s")
    tree = topologies.build("leaf_spine", hosts=8, radix=4, rate="150 GB/s")
    deals = [circuits.ring_with_partners(seed=seed) for seed in range(1, 12)]
    parts = [circuits.carried(light, deal).part for deal in deals]
    assert (min(parts), max(parts)) == pytest.approx((0.303, 0.556), abs=5e-4)
    assert all(circuits.carried(tree, deal).part == pytest.approx(1) for deal in deals)


def part_over_best_routes(pairs, traffic):
    """Return the part of the rate if bytes may take any routes, by a linear program over the flows from each host."""
    n = len(traffic)
    demand = traffic / traffic.sum(axis=1).max()
    links = np.array([*pairs, *(pair[::-1] for pair in pairs)])
    host = np.arange(n)[:, None]
    enters = 1.0 * (links[:, 1] == host) - (links[:, 0] == host)  # what each link adds at each host
    each = [np.delete(enters, one, axis=0) for one in range(n)]
    wanted = np.concatenate([np.delete(demand[one], one) for one in range(n)])
    kept = np.hstack([block_diag(*each), -wanted[:, None]])
    full = np.hstack([np.tile(np.eye(len(links)), n), np.zeros((len(links), 1))])
    aim = np.append(np.zeros(n * len(links)), -1.0)
    found = linprog(aim, full, np.full(len(links), 1 / 3), kept, np.zeros(len(kept)))
    return found.x[-1]


def test_longer_routes_help_some_matrices_as_the_lesson_says():
    own = circuits.ring_with_partners()
    chosen = circuits.place(own, 3)
    assert part_over_best_routes(chosen, own) == pytest.approx(0.741, abs=5e-4)
    assert part_over_best_routes(chosen, np.roll(np.eye(8), 1, axis=1)) == pytest.approx(4 / 9)
    anew = [circuits.ring_with_partners(seed=seed) for seed in range(1, 12)]
    deals = [part_over_best_routes(chosen, deal) for deal in anew]
    assert (min(deals), max(deals)) == pytest.approx((0.460, 0.617), abs=5e-4)
    job = layouts.of_case(catalog.case()).replace(pp=2, dp=4, microbatches=16)
    real = volumes.volumes(models.of_case(catalog.case()), job).traffic().between_servers(64, 8)
    best = part_over_best_routes(circuits.place(real, 3), real)
    assert best == pytest.approx(0.517, abs=5e-4)


def test_our_job_would_change_rail_if_every_second_server_were_turned_round():
    gpu = np.arange(1024).reshape(128, 8)
    gpu[1::2] = gpu[1::2, ::-1]
    case = catalog.case()
    ours = volumes.volumes(models.of_case(case), layouts.of_case(case)).traffic()
    assert ours.moved(gpu.ravel()).relayed(8) == 1.0


@pytest.mark.parametrize("hosts", [4, 7])
def test_a_ring_with_partners_has_an_even_number_of_hosts(hosts):
    with pytest.raises(ValueError, match="hosts must be"):
        circuits.ring_with_partners(hosts)


# Rings that share a link ----------------------------------------------------------------------------------------------


def with_a_dictionary(routes, rate):
    counts = {}
    for ring in routes:
        for link in ring:
            counts[link] = counts.get(link, 0) + 1
    return np.float64(len(routes) * rate / max(counts.values()))


def test_a_right_bus_bandwidth_of_rings_is_right_and_that_of_the_engine():
    assert check("25b-write-shared", with_a_dictionary).data["right"]
    for wiring in WIRINGS:
        assert with_a_dictionary(lesson25b.routes_of(wiring), PORT) == pytest.approx(RATES[wiring])
