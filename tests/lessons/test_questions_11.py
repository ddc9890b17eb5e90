"""What the questions of lesson 11 call right is right by the catalog and the models, and by what the lesson shows."""

import itertools
import json
import math

import numpy as np
import pytest

from fabriclab import catalog, live
from fabriclab.catalog import published
from fabriclab.course.questions import find
from fabriclab.formulas import evaluate
from fabriclab.physics import coding, electrical, memory
from fabriclab.rdma import timing
from fabriclab.texts import text
from support.lesson_runs import FILES
from support.prose import states

LESSON = json.loads(FILES["11_electrical_links"].read_text("utf-8"))
CELLS = {c["id"]: "".join(c["source"]) for c in LESSON["cells"]}
LINKS = catalog.links


def test_41_percent_of_the_label_arrives_and_37_at_the_size_of_the_case():
    label = 2 * catalog.value("links", "nvlink4", "quoted")
    ring = catalog.value("measured", "h200-n", "busbw_ring", name="8x H200 all-reduce 8 GiB")
    sweep = published.load("h100x8_ring")
    assert (label, round(ring / label, 2)) == (900e9, 0.41)
    assert round(1.75 * 2**27 / sweep.at(2**27) / label, 2) == 0.37
    # a part: without a unit 100 times that is wrong
    assert 'reveal("11-arrives", run / label, ' in CELLS["11-peel"]
    assert abs(1.75 * 2**33 / sweep.at(2**33) / ring - 1) < 0.01
    states(CELLS["11-build-ask"], "1 %", "8 GiB")
    assert find("11-share").key({"b": f"{ring!r} B/s"}) == pytest.approx(ring / 450e9)
    layers = [label / 2, 396.4e9, 18 * LINKS["nvlink4"]["nccl_effective_per_link"].si, ring]
    assert all(a > b for a, b in itertools.pairwise(layers))  # each layer takes something


@pytest.mark.parametrize(("g", "n", "r"), [(3, 12, 25), (4, 18, 25), (5, 18, 50)])
def test_labels_of_nvlink_are_sums_over_links_and_directions(g, n, r):
    part = LINKS[f"nvlink{g}"]
    assert (part["links_per_gpu"].si, part["bandwidth_per_link"].si) == (n, r * 1e9)
    assert find("11-label").key({"n": n, "r": f"{r} GB/s"}) == 2 * part["quoted"].si
    states(find("11-links").right, "18", "25 GB/s")
    assert find("11-label").key({"n": 18, "r": "25 GB/s"}) == 900e9


@pytest.mark.parametrize(("generation", "rate"), [(3, 8), (4, 16), (5, 32)])
def test_slots_of_pcie_are_those_of_the_model(generation, rate):
    part = LINKS[f"pcie{generation}"]
    key = find("11-pcie").key({"g": f"{rate} Gb/s", "l": 16})
    assert key == pytest.approx(part["encoded"].si, rel=1e-6)
    assert key == pytest.approx(coding.rates(16, rate * 1e9, 1, "128b/130b").encoded)
    assert (key < catalog.case().nic_rate) is (generation < 5)  # 11-series
    states(find("11-series").right, f"{LINKS['pcie4']['encoded'].si / 1e9:.1f}")


def test_ports_are_named_after_what_codes_leave():
    for name, lanes, rate in (("400GbE", 4, 106.25), ("800GbE", 8, 106.25), ("1.6TbE", 8, 212.5)):
        key = find("11-eth").key({"l": lanes, "s": f"{rate} Gb/s"})
        assert (
            key
            == pytest.approx(LINKS[name]["quoted"].si)
            == pytest.approx(coding.rates(lanes, rate * 5e8, 2, "RS(544,514)", "256b/257b").encoded)
        )
    assert [find("11-double").key({"g": g}) for g in (2, 3)] == [
        LINKS[n]["4x_data_rate"].si for n in ("XDR", "GDR")
    ]
    assert [LINKS[n]["quoted"].si * 8e-9 for n in ("HDR", "NDR")] == [200, 400]


def test_older_infiniband_is_named_after_the_wire():
    after = {n: 8e-9 * LINKS[n]["encoded"].si for n in "SDR DDR QDR FDR EDR HDR NDR XDR".split()}
    named = {n: 8e-9 * LINKS[n]["quoted"].si for n in after}
    assert [n for n in after if named[n] == pytest.approx(after[n])] == ["EDR", "HDR", "NDR", "XDR"]


@pytest.mark.parametrize("own", ["QDR", "FDR", "XDR", "1.6TbE"])
def test_a_row_of_ones_own_has_the_codes_of_its_port_and_leaves_the_closing_alone(own):
    assert CELLS["11-eth"].count('"100GbE"') == 1 and "rows" not in CELLS["11-close"]
    cell, names = CELLS["11-eth"].partition("ib = ")[0], {"links": LINKS, "coding": coding}
    exec(cell.replace('"100GbE"', repr(own)), names)
    assert names["rows"][0]["encoded [Gb/s]"] == pytest.approx(8e-9 * LINKS[own]["encoded"].si)


def test_the_figure_of_adapters_is_one_for_both_ends():
    """With one for each end, the view would stand above what was published of a way without switches."""
    both = catalog.value("links", "ib-hdr", "adapter_latency")
    assert parts()[text("live.latency.nic")][1] == both
    states(text("live.latency.nic"), "2")
    seen = next(s for r, s, _ in timing.published() if (r["size"], r["switches"]) == ("32", "0"))
    low = sum(t[0] for t in parts(switches=0, metres=2.0).values())
    one = catalog.value("links", "ib-edr", "adapter_latency")
    assert low < seen < low + one
    states(find("11-what").words.prompt, f"{both * 1e6:g} us", "2")
    states(CELLS["11-tcp-ask"], f"{one * 1e6:g} us", f"{both * 1e6:g} us", "2")


def parts(**values):
    table = live.latency(**values).scene.table
    return dict(
        zip(
            table["part"].tolist(),
            zip(table["least [s]"], table["most [s]"], strict=True),
            strict=True,
        )
    )


def test_cables_are_the_largest_part_at_200_m_and_the_stack_with_tcp():
    far = parts(switches=3, metres=200.0)
    assert max(far, key=lambda k: far[k][1]) == text("live.latency.metre")
    for way in ("InfiniBand, RDMA", "Ethernet, RDMA", "Slingshot, RDMA"):
        assert parts(way=way)[text("live.latency.stack")][1] <= 1e-6
    tcp = parts(way="Ethernet, kernel TCP", switches=6)
    assert tcp[text("live.latency.stack")] == pytest.approx((10e-6, 30e-6))
    assert tcp[text("live.latency.stack")][0] > sum(
        t[1] for k, t in tcp.items() if k != text("live.latency.stack")
    )
    assert find("11-metres").key({"t": "330 ns"}) == pytest.approx(330 / 4.9)


def test_published_times_lie_in_the_ranges_of_the_view():
    """Of a WRITE over one switch and over three; the rows are of HDR, whose switch the view does not have."""
    for r, seen, model in timing.published():
        if r["op"] == "WRITE" and r["poster"] == "host":
            low, high = np.sum([*parts(switches=int(r["switches"]), metres=2.0).values()], axis=0)
            assert low < seen < high and low < model < high


def test_the_sum_gains_about_two():
    slow, fast = (published.load(f"polaris_n2_2.18_all_reduce_env{i}").time for i in (1, 3))
    assert (slow[0], fast[0]) == pytest.approx((48.77e-6, 26.29e-6)) and round(
        slow[0] / fast[0], 2
    ) == 1.86
    # to 1 KiB
    assert np.median(slow[:9] / fast[:9]) == pytest.approx(2, rel=0.05)
    states(CELLS["11-close-ask"], "2")
    steps = catalog.nccl_model["hw"]
    for way, us in (("LL", 2.7), ("Simple", 14.0)):
        assert steps.spec(f"latency_{way}", name="hwLat NET Ring").si == pytest.approx(us * 1e-6)
        states(find("11-what").words.prompt, f"{us:g} us")


def test_one_slot_of_pcie_5_feeds_one_card():
    feed, rate = find("11-feed"), catalog.case().nic_rate
    assert feed.key({}) == pytest.approx(LINKS["pcie5"]["quoted"].si / rate) == 1.28
    mistake, formula, _ = feed.wrong[-1]  # who takes the code off, as two cells before, is told so
    assert mistake == "code taken off a label"
    assert evaluate(formula, feed.fill({})[0]) == pytest.approx(LINKS["pcie5"]["encoded"].si / rate)


def test_the_domain_that_ships_is_the_only_one():
    starts = {"semantics": "memory", "status": "shipping"}
    found = [
        k
        for k, p in catalog.scaleup.items()
        if p["max_accelerators"].si > 72
        and all(str(p[a].value).startswith(word) for a, word in starts.items())
    ]
    assert found == ["cloudmatrix384"] and "CloudMatrix384" in find("11-domain").right


def test_no_passive_copper_of_2_m_at_200_gbps():
    budget, baud = catalog.link_physics["cr-100g"]["loss_budget"].value, 2 * 53.125e9
    assert (electrical.reach(baud, budget, np.array([24, 26, 28, 30])) < 2).all()
    assert electrical.reach(baud / 2, budget, 26) > 2
    from fabriclab.physics._facts import held

    off = [f"{100 * e:.0f} %" for _, _, e in held("electrical.reach")]
    states(CELLS["11-reach-ask"], "26 AWG", *off, "50 Gb/s", "100", "200")
    assert off == ["15 %", "27 %", "48 %"]
    assert all(r["given"].count('"gauge": 26') for r, _, _ in held("electrical.reach"))


def test_only_the_optimiser_state_may_leave():
    def waits(**tiers):
        t = live.tiers(**tiers).scene.table["time [s]"]
        return t[:2].sum(), t[2] / catalog.case().t_step

    base = waits()
    lost = {
        k: (waits(**{k: "CXL"})[0] / base[0] - 1, waits(**{k: "CXL"})[1] - base[1])
        for k in ("weights", "cache", "optimiser")
    }
    assert [k for k, v in lost.items() if max(v) < 0.01] == ["optimiser"]
    part = memory.tier("CXL")[1] / memory.tier("HBM")[1]
    states(find("11-tiers").words.explanation, f"{100 * part:.1f} %")


def test_a_table_read_by_a_hundredth_costs_more_than_one_percent_of_a_step():
    case, copy = catalog.case(), catalog.value("memory_path", "h2d", "bandwidth")
    room = {
        t: (r * 1e9, min(memory.tier(t)[1], copy if t != "HBM" else np.inf))
        for t, r in (("HBM", 80), ("DDR", 200), ("CXL", 1000))
    }
    weights = case.parameters * case.gradient_bytes / case.tp
    costs = [
        memory.place({"weights": (weights, weights, 0), "table": (9e11, 9e11 * p, 0)}, room)[1]
        / case.t_step
        for p in (0.01, 0.001)
    ]
    assert costs[0] > 0.03 and costs[1] < 0.01


def test_pools_coherence_and_lines_are_those_of_the_model():
    alone, pooled = (memory.bought_normal(0, 40e9 / 2.3263478740408408, 1, k) for k in (1, 16))
    assert find("11-strand").key({}) == pytest.approx(pooled) and alone == pytest.approx(40e9)
    assert (
        memory.mesi([("host", "store"), ("device", "load")])[1][0][0]
        == find("11-mesi").right[0]
        == "S"
    )
    for n, b in ((64, 16), (128, 8)):
        assert memory.queue_messages(n, b)[1] == find("11-queue").key({"n": n, "b": b})
    assert math.isclose(memory.queue_messages(64)[0] / 64, 5, rel_tol=0.01)
    states(find("11-queue").words.explanation, "5")
    assert find("11-lines").key({}) == memory.moved(1e9, 0.01, 16)[0]
    took = [catalog.value("emerging", f"cxl-{box}", "latency") for box in ("xconn", "switched")]
    assert [round(t / memory.load("CXL switch"), 1) for t in took] == [0.7, 1.9]  # 0.7 to 1.9 times
