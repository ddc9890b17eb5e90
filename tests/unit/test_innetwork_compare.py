"""All-reduce in the network against hosts and against what was measured; and where it loses."""

from dataclasses import replace

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, collectives, topologies
from fabriclab.catalog import published
from fabriclab.innetwork import nvls
from fabriclab.innetwork.aggregation import Aggregator, Worker
from fabriclab.innetwork.compare import (
    bound,
    claims,
    compare,
    deployment,
    for_servers,
    gains,
    program,
)
from fabriclab.innetwork.network import aggregate
from fabriclab.innetwork.switch import Switch
from fabriclab.innetwork.trees import grow, run
from fabriclab.simulation import simulate


def star(n, rate="100 Gb/s", delay="2 us"):
    return topologies.build("crossbar", hosts=n, rate=rate, delay=delay)


# ------------------------------------------------------------------ between servers


def test_leaves_without_rails_of_their_own_are_the_reason_for_no_gain():
    """The rows, the summary and the error of a run name the same cause: no leaf that a rail has in common."""
    racks = fl.system(gpu="H100", servers=32, fabric="leaf_spine")
    found = for_servers(racks, "1 GiB")
    assert np.isnan(found["nvls_sharp"].time) and np.isnan(found.gain)
    assert found["NVLSTree"].time > 0
    for words in (found["nvls_sharp"].note, found["collnet"].note, found.why):
        assert "no leaf in common" in words
        assert "rail_optimised" in words
    assert "NVLSTree does not run" not in repr(found)
    with pytest.raises(ValueError, match="one leaf for each rail"):
        simulate("all_reduce", "nvls_sharp", racks, "1 GiB")

    one_leaf = for_servers(fl.system(gpu="H100", servers=2, fabric="leaf_spine"), "1 GiB")
    assert "streaming flows" in one_leaf.why and "in common" not in one_leaf.why


@pytest.mark.parametrize("transport", ["RoCE", "EFA", "Slingshot"])
def test_sharp_has_a_number_on_infiniband_only(transport):
    found = for_servers(fl.system(gpu="H100", servers=4, transport=transport), "1 GiB")
    assert found["Ring"].time > 0
    for name in ("nvls_sharp", "collnet"):
        assert np.isnan(found[name].time)
        assert "needs InfiniBand" in found[name].note
    assert np.isnan(found.gain)
    assert "needs InfiniBand" in found.why
    with_sharp = for_servers(fl.system(gpu="H100", servers=4), "1 GiB")
    assert with_sharp.gain > 1


# ------------------------------------------------------------------ NVLS


def test_bytes_of_nvls_on_each_port_come_from_the_engine():
    for n, rate in ((4, 1e9), (8, 4.5e11)):
        fabric = star(n, rate=rate, delay=0)
        for shot, part in (("nvls_two_shot", 1 + 1 / n), ("nvls_one_shot", None)):
            plan = collectives.build("all_reduce", shot, n)
            sim = simulate("all_reduce", shot, fabric, 1e9, switches=np.full(plan.n_switches, n))
            ports = sim.timeline.link_bytes.reshape(-1, 2)
            # One shot: n reads of the array each, and one sum.
            expected = [[part * 1e9] * 2] * n if part else [[n * 1e9, 1e9]] * n
            assert np.allclose(ports, expected)


def test_nvls_against_rings_on_eight_h100_per_size():
    ring, switch = published.load("h100x8_ring"), published.load("h100x8_nvls")
    errors = {
        s: nvls.times(8, s)["gain"] / (ring.at(s) / switch.at(s)) - 1
        for s in ring.size
        if s >= 2**25
    }
    assert len(errors) == 9 and max(map(abs, errors.values())) < 0.034
    # The ratio hides that both times are too short.
    off = {
        name: [nvls.times(8, s)[name] / run.at(s) - 1 for s in errors]
        for name, run in (("nvls", switch), ("ring", ring))
    }
    assert -0.060 < min(off["nvls"]) < -0.058 and max(off["nvls"]) < 0.01
    assert -0.081 < min(off["ring"]) < -0.079 and max(off["ring"]) < 0.0
    assert nvls.times(8, "4 MiB")["gain"] < 1 and nvls.times(8, "8 MiB")["gain"] < 1
    assert ring.at(2**22) < switch.at(2**22) and ring.at(2**23) < switch.at(2**23)


@pytest.mark.parametrize(("generation", "stops"), [("Hopper", 4), ("Blackwell", 5)])
def test_nvls_on_four_to_eight_gpus_with_one_efficiency(generation, stops):
    counted = [n for n in range(4, 9) if n != nvls.SETS]
    for n in counted:
        assert nvls.default_gain(n, generation) == pytest.approx(
            nvls.measured(n, generation), rel=0.05
        )
    worst = max(
        abs(nvls.default_gain(n, generation) / nvls.measured(n, generation) - 1) for n in counted
    )
    assert worst == pytest.approx({"Hopper": 0.025, "Blackwell": 0.019}[generation], abs=1e-3)
    assert nvls.measured(nvls.SETS, generation) == pytest.approx(
        nvls.efficiency(generation) * nvls.bound(nvls.SETS)
    )
    pays = [n for n in range(4, 9) if nvls.measured(n, generation) > 1.01]
    assert abs(nvls.stops(generation) - (min(pays) - 1)) <= 1 and nvls.stops(generation) == stops


def test_where_nvls_stops_paying_is_a_near_tie_that_two_sources_decide_differently(monkeypatch):
    rows = {r["GPUs"]: r for r in nvls.around("Hopper")}
    assert [*rows] == [3, 4, 5] and np.isnan(rows[3]["measured"]) and rows[4]["measured"] == 1
    found = {n: (round(r["NVLS"], 3), round(r["other rate"], 3)) for n, r in rows.items()}
    assert found == {3: (0.832, 0.839), 4: (0.998, 1.007), 5: (1.108, 1.119)}
    assert nvls.conflict("Hopper") == pytest.approx(477.45 / 473.1 - 1) and np.isnan(
        nvls.conflict("Blackwell")
    )
    same = {s.name.rsplit(", ", 1)[1]: s for s in catalog.measured["h200-ar"].specs}
    ours = catalog.measured["h200-n"].spec("busbw", name="8x H200 all-reduce 8 GiB")
    assert (
        same["4GiB"].si == ours.si and "nccl-tests" in ours.note and "PyTorch" in same["8GiB"].note
    )
    four = catalog.measured["h200-n"].spec("busbw", name="4x H200 all-reduce 8 GiB")
    # where its older rule is wrong
    assert "NCCL took Ring" in four.note and nvls.chosen(4, "Hopper")
    other = nvls.efficiency("Hopper") * (1 + nvls.conflict("Hopper"))
    monkeypatch.setattr(nvls, "efficiency", lambda generation: other)
    assert nvls.stops("Hopper") == 3  # right to one; what else is asked holds with either rate
    ring, switch = published.load("h100x8_ring"), published.load("h100x8_nvls")
    assert (
        max(
            abs(nvls.times(8, s)["gain"] * switch.at(s) / ring.at(s) - 1)
            for s in ring.size
            if s >= 2**25
        )
        < 0.042
    )
    off = [nvls.default_gain(n, "Hopper") / nvls.measured(n, "Hopper") - 1 for n in range(4, 9)]
    assert max(map(abs, off)) == pytest.approx(0.016, abs=1e-3)


def test_what_the_bytes_alone_say_of_five_b200_where_nccl_took_the_ring():
    assert (
        not nvls.chosen(5, "Blackwell")
        and nvls.chosen(6, "Blackwell")
        and nvls.measured(5, "Blackwell") == 1
    )
    assert nvls.times(5, "8 GiB", "Blackwell")["gain"] == pytest.approx(1.052, abs=1e-3)


def test_h200_per_size():
    rows = {s.name.rsplit(", ", 1)[1]: s.si for s in catalog.measured["h200-ar"].specs}
    errors = {}
    for name, rate in rows.items():
        size = float(name[:-3]) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[name[-3:]]
        errors[size] = nvls.times(8, size)["nvls"] / (size * 1.75 / rate) - 1
    assert max(abs(e) for s, e in errors.items() if s >= 2**27) < 0.05
    assert errors[2**25] == pytest.approx(-0.106, abs=1e-3) and errors[2**26] == pytest.approx(
        -0.077, abs=1e-3
    )


def test_nvls_refusals():
    with pytest.raises(ValueError, match="generation must be one of Hopper, Blackwell"):
        nvls.times(8, 1e9, "Ampere")
    with pytest.raises(ValueError, match="ranks must be >= 3"):
        nvls.times(2, 1e9)
    with pytest.raises(KeyError):
        nvls.measured(3, "Hopper")


# ------------------------------------------------------------------ a programmable switch


def simulated(n, slots, loss, chunks, lanes=32, timer="50 us"):
    workers = [Worker(w, np.ones((chunks, lanes)), slots) for w in range(n)]
    switch, rng = Switch(Aggregator(n, slots, lanes=lanes)), np.random.default_rng(1)
    found = aggregate(
        workers, switch, loss=loss, rate="100 Gb/s", delay="2 us", timer=timer, rng=rng
    )
    mode = replace(
        program(n, n, slots=slots, lanes=lanes, loss=loss, timer=timer), header=0.0, seconds=0.0
    )
    return run([grow(star(n), np.arange(n), mode)], 4 * lanes * chunks).end / found.finish.max()


@pytest.mark.parametrize("slots", [2, 8, 64, 128])  # 128 and more fill the bandwidth-delay product
def test_the_time_is_that_of_the_simulated_protocol(slots):
    assert 1 <= simulated(4, slots, 0.0, 800) < 1.04


def test_with_losses_it_is_somewhat_shorter_since_the_slowest_slot_decides():
    found = [simulated(4, 8, 0.05, 800), simulated(4, 8, 0.01, 1000), simulated(2, 4, 0.02, 600)]
    assert 0.7 < min(found) and max(found) < 1
    assert 0.4 < simulated(4, 512, 0.01, 4096, timer="1 ms") < 1  # the defaults of `compare`


def test_a_small_array_waits_for_a_timer_as_well():
    n, runs = 16, []
    for seed in range(60):
        team = [Worker(w, np.ones((2, 4)), 512) for w in range(n)]
        rng = np.random.default_rng(seed)
        runs.append(
            aggregate(
                team, Switch(Aggregator(n, lanes=4)), loss=0.01, timer="1 ms", rng=rng
            ).finish.max()
        )
    mode = replace(program(n, n, lanes=4, loss=0.01, timer="1 ms"), header=0.0, seconds=0.0)
    assert 0.7 < run([grow(star(n), np.arange(n), mode)], 32).end / np.mean(runs) < 1.3


def test_packets_that_recirculate_take_passes():
    per_packet = 1 / catalog.value("switches", "tofino1", "packet_rate_per_pipe")
    # 7 that are consumed, and one with two passes
    assert program(8, 8).seconds == pytest.approx(9 * per_packet)
    assert program(8, 8, lanes=256).seconds == pytest.approx((7 * 4 + 4 + 7) / 4 * per_packet)
    assert (
        program(8, 8, 3).seconds == pytest.approx(9 * per_packet)
        and program(8, 8, 3, slots=512).window == 170
    )
    assert program(4, 4).wait() == 0 and program(
        4, 4, loss=1e-4, timer=1.0
    ).wait() == pytest.approx(8e-4, rel=1e-2)
    again = 1 - 0.9**2  # with one worker: timer (q + 2 q^2 + 4 q^3 + ...)
    assert program(1, 1, loss=0.1, timer=1.0).wait() == pytest.approx(again / (1 - 2 * again))
    for wrong in ({"jobs": 600}, {"loss": 0.6}, {"loss": np.nan}):
        with pytest.raises(
            ValueError, match=r"slots must be at least the \d+ jobs, and loss 0..0.2, got 512 and"
        ):
            program(4, 4, **wrong)


# ------------------------------------------------------------------ hosts and switches


@pytest.mark.parametrize("n", [2, 8, 16])
def test_bytes_and_work_are_those_of_the_closed_forms(n):
    size, fabric = float(2**22), star(n, delay=0)
    found = compare(fabric, size, lag=0.0)
    port = {name: way.link_bytes.reshape(-1, 2).max(axis=1) for name, way in found.items()}
    for hosts in ("ring", "halving_doubling"):
        assert port[hosts] == pytest.approx(2 * (n - 1) / n * size)
        assert found[hosts].added == pytest.approx((n - 1) / n * size)
    assert found["ring"].messages == 2 * (n - 1) and found[
        "halving_doubling"
    ].messages == 2 * np.log2(n)
    assert port["streaming"] == pytest.approx(size) and port["low_latency"] == pytest.approx(size)
    assert port["program"] == pytest.approx(size * (256 + 76) / 256)
    assert [found[k].added for k in ("low_latency", "streaming", "program")] == [0, 0, 0]
    assert (found["program"].converted, found["program"].messages, found["streaming"].messages) == (
        2 * size,
        size / 256,
        1,
    )
    part = catalog.value("switches", "sharp2", "streaming_part")
    assert found["ring"].time / found["streaming"].time == pytest.approx(part * bound(n), rel=1e-2)
    for way in found.values():
        assert way.time * 1.25e10 >= size * (1 - 1e-12)


def test_where_it_loses():
    fabric, size = star(16), "64 MiB"
    plain = compare(fabric, size)
    assert (
        plain["streaming"].time
        < plain["program"].time
        < plain["ring"].time
        < plain["low_latency"].time
    )
    few = compare(fabric, size, slots=16)  # 4 KiB under way, and 100 KiB on 100 Gb/s in 8 us
    assert (
        few["program"].time > 1.5 * few["ring"].time
        and few["streaming"].time == plain["streaming"].time
    )
    tenants = compare(fabric, size, jobs=8, slots=128)  # 16 slots each
    assert tenants["program"].time > 1.5 * tenants["ring"].time
    assert (
        np.isnan(tenants["low_latency"].time)
        and "switch by job 0, job 1, job 2" in tenants["low_latency"].note
    )
    lossy = compare(fabric, size, loss=0.01)
    for name, more in (("program", 1 / 0.99), ("ring", 1 / 0.99), ("streaming", 1.0)):
        assert lossy[name].link_bytes.max() == pytest.approx(more * plain[name].link_bytes.max())
    assert (
        lossy["program"].time
        > 3 * lossy["halving_doubling"].time
        > 12 * plain["halving_doubling"].time
    )
    slow = compare(fabric, size, host="2 GB/s")  # quantisation on one slow core
    assert slow["program"].time == pytest.approx(2**26 / 2e9, rel=1e-2)


def test_hosts_and_the_program_wait_for_the_same_timer():
    fabric, ways = star(16), ("ring", "halving_doubling", "double_tree", "program")
    plain, quick, slow = (
        compare(fabric, "1 MiB", loss=p, timer=t)
        for p, t in ((0, "1 ms"), (0.01, 0), (0.01, "1 ms"))
    )
    for way in ways:
        assert quick[way].time == pytest.approx(
            plain[way].time / (0.99 if way != "program" else 1), rel=1e-2
        )
        twice = compare(fabric, "1 MiB", loss=0.01, timer="2 ms")[way].time - quick[way].time
        assert (
            twice == pytest.approx(2 * (slow[way].time - quick[way].time), rel=0.1) and twice > 1e-3
        )
    assert slow["streaming"].time == plain["streaming"].time
    # One packet in each of 2 steps of 2 ranks: each step loses what the slower of two packets loses.
    two, q, t = star(2), 1 - 0.99**2, 1e-3
    late = (
        compare(two, 4096, loss=0.01)["ring"].time
        - compare(two, 4096, loss=0.01, timer=0)["ring"].time
    )
    assert late == pytest.approx(
        2 * t * sum(2.0**k * (1 - (1 - q ** (k + 1)) ** 2) for k in range(40))
    )


def test_small_and_large_arrays_under_loss_are_as_the_lesson_says():
    fabric = topologies.build("leaf_spine", hosts=16, radix=8)
    for size, wins in ((8.0, True), (8.0**7, True), (8.0**8, False), (8.0**10, False)):
        found = compare(fabric, size, loss=0.01)
        hosts = min(found[way].time for way in ("ring", "halving_doubling", "double_tree"))
        assert (found["program"].time < hosts) == wins


def test_small_arrays_gain_by_depth():
    found = compare(topologies.build("leaf_spine", hosts=64, radix=16), 8)
    assert found["low_latency"].time < found["halving_doubling"].time / 4 < found["ring"].time / 40
    assert found["ring"].messages == 126


# ------------------------------------------------------------------ published gains, costs


def test_published_gains_beside_bound_and_model():
    rows = {r["id"]: r for r in gains()}
    assert {k for k, r in rows.items() if r["above"]} == {
        "switchml-training",  # 5.5
        "switchml-rdma",  # more than 2 with any number
        "sharp-streaming",  # 2 to 5
    }
    assert (
        rows["nvls-h100-8"]["bound"] == pytest.approx(14 / 9)
        and rows["switchml-rdma"]["bound"] == 2
    )
    assert rows["sharp-8B"]["bound"] == 7 and rows["sharp-8B"]["error"] == pytest.approx(
        0.176, abs=1e-3
    )
    sets = rows["sharp-4096B"]  # sets the time of an operation, so it has a model, and no error
    assert (
        sets["sets"] == "yes"
        and np.isnan(sets["error"])
        and "sets" in sets["note"]
        and sets["model"] < sets["bound"]
    )
    # its 2.83 us of 8 B come out as 2.41 us
    assert sets["model"] == pytest.approx(3.24 * 14.48 / 14.07, rel=1e-3)
    assert "no independent test" in rows["sharp-8B"]["note"]
    for r in rows.values():
        assert np.isnan(r["model"]) == (r["kind"] == "training") == ("no model" in r["note"])
    shown = {k: round(r["error"], 3) for k, r in rows.items() if k.startswith("nvls")}
    assert max(map(abs, shown.values())) < 0.03
    assert rows["switchml-rdma"]["error"] == pytest.approx(256 / (256 + 76) - 1)
    assert all(r["source"] and r["low"] <= r["high"] for r in rows.values())
    step = catalog.value("switches", "sharp1", "operation_time")
    assert step == pytest.approx((14.48e-6 - 2.83e-6) / 15, rel=1e-3)


def test_costs_of_switches_and_slots():
    fabric = topologies.build("leaf_spine", hosts=1024)
    found = deployment(fabric, 8, slots=512)
    assert found["slots per tenant"] == 64 and found["price more per rank"] == 0
    dear = deployment(fabric, price=1.5, power=1.1)
    assert dear["price more per rank"] == pytest.approx(0.5 * found["price"] / 1024)
    assert dear["power more per rank"] == pytest.approx(0.1 * found["power"] / 1024)


def test_claims_are_the_gains_between_hosts_in_words():
    rows = claims()
    assert [row["from"] for row in rows] == ["SHARP"] * 3 + ["SwitchML"] * 2 + ["ATP"]
    words = [row["published"] for row in rows]
    assert words[:2] == ["2.12 times", "2 to 5 times"] and words[3] == "over 2 times"
    assert words[4] == "up to 5.5 times"
    assert [row["above the bound"] for row in rows] == ["no", "yes", "no", "yes", "yes", "no"]
    assert len(rows) < len(gains())
