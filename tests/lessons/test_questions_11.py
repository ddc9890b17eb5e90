"""What the questions of lessons 11 to 11d call right is right by the catalog and the models, and by what they show."""

import itertools
import json
import math

import numpy as np
import pytest

import fabriclab
from fabriclab import catalog, check, live
from fabriclab.catalog import published
from fabriclab.course.judges.lessons import lesson11, lesson11c
from fabriclab.course.questions import find
from fabriclab.formulas import evaluate
from fabriclab.physics import coding, electrical, memory
from fabriclab.rdma import timing
from fabriclab.texts import text
from support.lesson_runs import FILES
from support.prose import states

CELLS = {}  # of all four, by id
for name, file in FILES.items():
    if name.startswith("11"):
        for cell in json.loads(file.read_text("utf-8"))["cells"]:
            CELLS[cell["id"]] = "".join(cell["source"])
LINKS = catalog.links


def test_41_percent_of_the_label_arrives_and_37_at_the_size_of_the_case():
    label = 2 * catalog.value("links", "nvlink4", "quoted")
    ring = catalog.value("measured", "h200-n", "busbw_ring", name="8x H200 all-reduce 8 GiB")
    sweep = published.load("h100x8_ring")
    assert (label, round(ring / label, 2)) == (900e9, 0.41)
    assert round(1.75 * 2**27 / sweep.at(2**27) / label, 2) == 0.37
    # a part: without a unit 100 times that is wrong
    assert 'reveal("11-arrives", ring / label, ' in CELLS["11-peel"]
    assert abs(1.75 * 2**33 / sweep.at(2**33) / ring - 1) < 0.01
    assert find("11-share").key({"b": f"{ring!r} B/s"}) == pytest.approx(ring / 450e9)
    layers = [label / 2, 396.4e9, 18 * LINKS["nvlink4"]["nccl_effective_per_link"].si, ring]
    assert all(a > b for a, b in itertools.pairwise(layers))  # each layer takes something


def test_neither_adding_nor_steps_take_the_rest_of_a_copy():
    """A test that only sends, and rings of 6 to 14 steps, reach what the ring of eight does."""
    ring = [
        catalog.value("measured", "h200-n", "busbw_ring", name=f"{n}x H200 all-reduce 8 GiB")
        for n in range(4, 9)
    ]
    sends = published.load("xx_1n_sendrecv")
    rate = sends.size[-1] / sends.time[-1]
    assert 363e9 < min(ring) <= max(ring) < 366e9 and round(rate / 1e9) == 367
    assert published.load("h100x8_ring").at(2**33) == pytest.approx(1.75 * 2**33 / 368e9, rel=1e-3)
    states(CELLS["11-layers-why"], "363 and 366", "367 GB/s", "368 GB/s", "6 to 14 steps")


@pytest.mark.parametrize(("g", "n", "r"), [(3, 12, 25), (4, 18, 25), (5, 18, 50)])
def test_labels_of_nvlink_are_sums_over_links_and_directions(g, n, r):
    part = LINKS[f"nvlink{g}"]
    assert (part["links_per_gpu"].si, part["bandwidth_per_link"].si) == (n, r * 1e9)
    assert find("11-label").key({"n": n, "r": f"{r} GB/s"}) == 2 * part["quoted"].si
    states(find("11d-links").right, "18", "25 GB/s")
    assert find("11-label").key({"n": 18, "r": "25 GB/s"}) == 900e9


@pytest.mark.parametrize(("generation", "rate"), [(3, 8), (4, 16), (5, 32)])
def test_slots_of_pcie_are_those_of_the_model(generation, rate):
    part = LINKS[f"pcie{generation}"]
    key = find("11d-pcie").key({"g": f"{rate} Gb/s", "l": 16})
    assert key == pytest.approx(part["encoded"].si, rel=1e-6)
    assert key == pytest.approx(coding.rates(16, rate * 1e9, 1, "128b/130b").encoded)
    assert (key < catalog.case().nic_rate) is (generation < 5)  # 11-series
    states(find("11-series").right, f"{LINKS['pcie4']['encoded'].si / 1e9:.1f}")


def test_ports_are_named_after_what_codes_leave():
    for name, lanes, rate in (("400GbE", 4, 106.25), ("800GbE", 8, 106.25), ("1.6TbE", 8, 212.5)):
        key = find("11d-eth").key({"l": lanes, "s": f"{rate} Gb/s"})
        assert (
            key
            == pytest.approx(LINKS[name]["quoted"].si)
            == pytest.approx(coding.rates(lanes, rate * 5e8, 2, "RS(544,514)", "256b/257b").encoded)
        )
    assert [find("11d-double").key({"g": g}) for g in (2, 3)] == [
        LINKS[n]["4x_data_rate"].si for n in ("XDR", "GDR")
    ]
    assert [LINKS[n]["quoted"].si * 8e-9 for n in ("HDR", "NDR")] == [200, 400]


def test_older_infiniband_is_named_after_the_wire():
    after = {n: 8e-9 * LINKS[n]["encoded"].si for n in "SDR DDR QDR FDR EDR HDR NDR XDR".split()}
    named = {n: 8e-9 * LINKS[n]["quoted"].si for n in after}
    assert [n for n in after if named[n] == pytest.approx(after[n])] == ["EDR", "HDR", "NDR", "XDR"]


@pytest.mark.parametrize("own", ["100GbE", "1.6TbE"])
def test_a_port_of_ones_own_fits_the_table_of_ports(own):
    assert CELLS["11-ports"].count('"400GbE", ') == 1
    cell = CELLS["11-ports"].replace('"400GbE", ', f'"{own}", ').replace("fl.views.table(rows)", "")
    if own == "100GbE":  # older codes
        cell = cell.replace('"RS(544,514)", "256b/257b"', '"64b/66b"')
    names = {"fl": fabriclab}
    exec(cell, names)
    seen = names["rows"][0]["after codes [Gb/s]"]
    assert seen == pytest.approx(8e-9 * LINKS[own]["encoded"].si)


def test_a_bus_bandwidth_above_the_link_is_no_ring():
    """8 GiB in the time of 473.1 GB/s of bus bandwidth: a ring would have sent more than fits."""
    reported = catalog.value("measured", "h200-n", "busbw", name="8x H200 all-reduce 8 GiB")
    link = LINKS["nvlink4"]["encoded"].si
    sent = 1.75 * 2**33
    assert (reported, link) == (473.1e9, 450e9) and sent > link * sent / reported > 2**33
    assert "ring" in find("11-above").right


def test_a_gpu_has_nine_times_the_lanes_of_its_nic():
    inside, port = LINKS["nvlink4"], LINKS["400GbE"]
    for same in ("symbol_rate", "bits_per_symbol"):
        assert inside[same].si == port[same].si
    assert inside["coding"].value == port["coding"].value == "16/17"
    assert inside["lanes"].si == 9 * port["lanes"].si
    assert inside["encoded"].si == 9 * port["encoded"].si


# Functions that learners write ---------------------------------------------------------------------------------------


def in_steps(lanes, symbols, bits, code, data, headers):
    wire = lanes * symbols * bits
    left = wire * code
    return left * data / (data + headers) / 8


def from_packets(lanes, symbols, bits, code, data, headers):
    packet_time = (data + headers) * 8 / (lanes * symbols * bits * code)
    return data / packet_time


@pytest.mark.parametrize("rule", [in_steps, from_packets])
def test_a_right_rate_of_a_port_is_right(rule):
    assert check("11-write-carried", rule).data["right"]


def test_the_ports_tried_carry_what_the_catalog_says():
    for (name, port), part in zip(lesson11.ports().items(), lesson11._PORTS, strict=True):
        link, data = part
        assert LINKS[link].name in name
        if data == 4096:
            assert lesson11.carried(*port) == pytest.approx(LINKS[link]["achievable"].si, rel=1e-3)


def by_lines(size, share, record):
    records = size * share / record
    lines = math.ceil(record / 64)
    return min(size, records * lines * 64)


def test_right_bytes_by_lines_are_right():
    assert check("11b-write-moved", by_lines).data["right"]


def by_sum(wrong, symbols, repaired):
    total = 0
    for k in range(repaired + 1, symbols + 1):
        total += math.comb(symbols, k) * wrong**k * (1 - wrong) ** (symbols - k)
    return total


def by_rest(wrong, symbols, repaired):
    kept = 0
    for k in range(repaired + 1):
        kept += math.comb(symbols, k) * wrong**k * (1 - wrong) ** (symbols - k)
    return 1 - kept


@pytest.mark.parametrize("rule", [by_sum, by_rest])
def test_a_right_chance_of_a_lost_word_is_right(rule):
    assert check("11c-write-lost", rule).data["right"]


def test_the_example_on_paper_and_the_model_agree_with_the_judge():
    assert round(lesson11c.lost(0.1, 4, 1), 4) == 0.0523
    wrong = 1 - (1 - 1e-3) ** 10  # of a symbol of ten bits
    model = float(coding.word_error(1e-3, "RS(544,514)"))
    assert lesson11c.lost(wrong, 544, 15) == pytest.approx(model)


# Latency -------------------------------------------------------------------------------------------------------------


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
    # 8 B: the row of 4 B, the first, is slow on both sides
    assert (slow[1], fast[1]) == pytest.approx((44.84e-6, 22.48e-6)) and round(
        slow[1] / fast[1], 2
    ) == 1.99
    assert min(slow[0] - slow[1], fast[0] - fast[1]) > 3.5e-6
    # to 1 KiB
    assert np.median(slow[:9] / fast[:9]) == pytest.approx(2, rel=0.05)
    steps = catalog.nccl_model["hw"]
    for way, us in (("LL", 2.7), ("Simple", 14.0)):
        assert steps.spec(f"latency_{way}", name="hwLat NET Ring").si == pytest.approx(us * 1e-6)
        states(find("11-what").words.prompt, f"{us:g} us")


def test_one_slot_of_pcie_5_feeds_one_card():
    feed, rate = find("11d-feed"), catalog.case().nic_rate
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
    assert found == ["cloudmatrix384"] and "CloudMatrix384" in find("11d-domain").right


def test_no_passive_copper_of_2_m_at_200_gbps():
    budget, baud = catalog.link_physics["cr-100g"]["loss_budget"].value, 2 * 53.125e9
    assert (electrical.reach(baud, budget, np.array([24, 26, 28, 30])) < 2).all()
    assert electrical.reach(baud / 2, budget, 26) > 2
    from fabriclab.physics._facts import held

    off = [f"{100 * e:.0f} %" for _, _, e in held("electrical.reach")]
    states(CELLS["11c-plug-ask"], *off, "50 Gb/s", "100", "200")
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
    states(find("11b-tiers").words.explanation, f"{100 * part:.1f} %")


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
    assert find("11b-strand").key({"x": "40 GB"}) == pytest.approx(
        pooled
    ) and alone == pytest.approx(40e9)
    assert (
        memory.mesi([("host", "store"), ("device", "load")])[1][0][0]
        == find("11b-mesi").right[0]
        == "S"
    )
    for n, b in ((64, 16), (128, 8)):
        assert memory.queue_messages(n, b)[1] == find("11b-queue").key({"n": n, "b": b})
    assert math.isclose(memory.queue_messages(64)[0] / 64, 5, rel_tol=0.01)
    states(find("11b-queue").words.explanation, "5")
    took = [catalog.value("emerging", f"cxl-{box}", "latency") for box in ("xconn", "switched")]
    assert [round(t / memory.load("CXL switch"), 1) for t in took] == [0.7, 1.9]  # 0.7 to 1.9 times


def test_tiers_say_where_their_latency_comes_from():
    known = {name: memory.evidence(name) for name in memory.TIERS}
    assert known["DDR"] == known["remote socket"] == "published"
    assert known["HBM"] == known["CXL"] == known["CXL switch"] == "partly recalled"
    with pytest.raises(ValueError, match="tier"):
        memory.evidence("L2")


def test_small_messages_are_the_published_ones_of_hosts():
    found = timing.small_messages()
    assert len(found) == 5 and all(m.time < 2e-6 for m in found)
    assert not [m for m in found if m.name.startswith("READ")]
    assert [m.name for m in timing.small_messages("2 B")] == [
        "WRITE of 2 B",
        "SEND of 2 B",
        "WRITE of 2 B",
    ]
    with pytest.raises(ValueError, match="most"):
        timing.small_messages(0)
    for message in found:  # as the lesson compares them
        low, high = np.sum([*parts(switches=message.switches, metres=2.0).values()], axis=0)
        assert low < message.time < high


def test_cables_outgrow_the_stack_from_51_m_on():
    stack, metre = text("live.latency.stack"), text("live.latency.metre")
    for metres, longer in ((50, False), (51.1, True)):
        most = {k: t[1] for k, t in parts(switches=3, metres=float(metres)).items()}
        assert bool(most[metre] > most[stack]) is longer


def test_what_stays_of_the_sum_is_20_us_if_the_stack_is_ten_times_as_fast():
    slow, fast = (published.load(f"polaris_n2_2.18_all_reduce_env{i}").at(8) for i in (1, 3))
    rest = slow - (slow - fast) / 0.9
    assert rest * 1e6 == pytest.approx(20.0, abs=0.05) and slow / rest == pytest.approx(
        2.24, abs=0.005
    )
    slow, fast = (published.load(f"polaris_n8_2.18_all_reduce_env{i}").at(8) for i in (1, 4))
    assert slow / fast == pytest.approx(2.53, abs=0.005)


def test_twice_as_many_wrong_bits_lose_24_000_times_as_many_words():
    chance = {ber: float(coding.word_error(ber, "RS(544,514)")) for ber in (2e-4, 4e-4, 8e-4)}
    assert chance[4e-4] / chance[2e-4] == pytest.approx(24_041, rel=1e-3)
    words = 425e9 / 5440
    assert 1 / (words * chance[2e-4]) / 3600 == pytest.approx(66, abs=0.5)
    assert 1 / (words * chance[4e-4]) == pytest.approx(9.9, abs=0.05)
    assert words * chance[8e-4] == pytest.approx(905, abs=1)
    assert find("11c-lost").key({}) == pytest.approx(words * 3600 * 1e-11)
    short = lesson11c.lost(1 - (1 - 2e-4) ** 10, 272, 7) * 425e9 / 2720  # RS(272,257+1)
    assert short == pytest.approx(17, abs=0.5)
    states(CELLS["11c-end"], "17 words")
