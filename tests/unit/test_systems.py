"""A cluster in the words of a purchase order: what is filled in, what is refused, and that all doors agree."""

import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import topologies
from fabriclab.catalog import published

SIZE = 4 * 2**30  # [B], where the data takes nearly all of the time


def test_what_is_not_given_is_that_of_the_usual_server():
    hall = fl.system(gpu="H100", servers=32)
    assert (hall.ranks, hall.gpus, hall.nics, hall.rate) == (256, 8, 8, 50e9)
    assert hall["transport"] == "ib" and hall["nic_gbps"] == 400
    assert hall.fabric.summary()["ranks"] == 256
    assert fl.system(gpu="h100 sxm5", servers=32).row["scale_up"] == hall.row["scale_up"]


def test_one_question_has_one_answer():
    # a published run of this class, 12 servers of 8 H100, took 5.81 ms
    hall = fl.system(gpu="H100", servers=32)
    estimate = fl.estimate(hall, "all_reduce", "1 GiB")
    run = fl.simulate("all_reduce", "nccl", hall, "1 GiB")
    assert estimate.low < published.load("cw_96gpu").at("1 GiB") < estimate.high
    assert estimate.low <= run.time <= estimate.high


@pytest.mark.parametrize(
    "sweep",
    [
        row["sweep_id"]
        for row in published.systems()
        if row["transport"] in ("none", "ib", "roce") and row["collective"] != "broadcast"
    ],
)
def test_the_run_of_what_estimate_chose_agrees_with_it_or_says_why(sweep):
    system = fl.system(sweep)
    collective = published.identifier(system["collective"])
    estimate = fl.estimate(system, size=SIZE)
    assert estimate.time == fl.estimate(sweep, size=SIZE).time
    run = fl.simulate(collective, "nccl", system, SIZE)
    if not estimate.low <= run.time <= estimate.high:
        assert run.time == pytest.approx(estimate.time, rel=0.05)
        assert any("estimate" in note for note in run.notes)


@pytest.mark.parametrize(
    ("gpu", "servers", "kinds"),
    [
        ("H100", 2, {"gpu", "nvlink", "pcie", "nic", "leaf", "spine"}),
        ("MI300X", 2, {"gpu", "pcie", "nic", "leaf", "spine"}),
        ("GB200", 18, {"gpu", "nvlink"}),
        ("GB200", 36, {"gpu", "nvlink", "pcie", "nic", "leaf", "spine"}),
        ("V100", 1, {"gpu", "pcie", "nic", "cpu"}),
    ],
)
def test_the_fabric_has_all_gpus_and_what_joins_them(gpu, servers, kinds):
    system = fl.system(gpu=gpu, servers=servers)
    assert set(system.fabric.kinds) == kinds
    assert system.fabric.n_ranks == system.ranks
    assert np.array_equal(system.placement, np.arange(system.ranks))


@pytest.mark.parametrize("nics", [1, 2, 4, 8, 16])
def test_a_server_has_as_many_nics_as_were_asked_for(nics):
    system = fl.system(gpu="H100", servers=3, nics=nics, rate="100 Gb/s")
    assert system.fabric.summary()["nic"] == 3 * nics
    run = fl.simulate("all_gather", "nccl", system, "64 MiB")
    into = (
        fl.core.bus_factor("all_gather", 24) * 2**26
    )  # [B] that enter or leave the GPUs of each server, at least
    assert run.time >= into / (nics * 12.5e9) / 8 * 0.99


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpu": "H100", "servers": 32, "ranks": 200}, "ranks must be 256"),
        ({"gpu": "H100", "servers": 32, "nics": 80}, "nics must be within 0..19"),
        ({"gpu": "H100", "servers": 2, "nics": 0}, "nics must be >= 1"),
        ({"gpu": "H101", "servers": 2}, "did you mean 'H100'"),
        ({"gpu": "H100"}, "servers must be given"),
        ({"servers": 2}, "gpu must be given"),
        ({"gpu": "H100", "servers": 2, "transport": "fibre"}, "list of transports"),
        ({"gpu": "H100", "servers": 2, "oversubs": 2}, "did you mean 'oversubscription'"),
        (
            {"gpu": "H100", "servers": 2, "fabric": "torus"},
            "fabric must connect any number of servers",
        ),
        ({"gpu": "GB200", "servers": 2, "domain": 6}, "domain must be a multiple of 4"),
        ({"gpu": "B200", "servers": 2, "rate": "400 Gb/s"}, "nics must be given"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(asked, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        fl.system(**asked)
    assert words in str(caught.value)


def test_every_topology_that_is_offered_connects_the_servers():
    with pytest.raises(ValueError, match="must connect any number of servers") as caught:
        fl.system(gpu="H100", servers=2, fabric="dragonfly")
    offered = re.search(r"as (.+) do, got", str(caught.value))[1].split(", ")
    assert {"rail_optimised", "leaf_spine", "fat_tree"} <= set(offered)
    for name in topologies.names():
        if name in offered:
            system = fl.system(gpu="H100", servers=4, fabric=name)
            assert system.fabric.n_ranks == system.ranks == 32
        else:
            with pytest.raises(ValueError, match="must connect any number of servers"):
                fl.system(gpu="H100", servers=4, fabric=name)


def test_a_built_dragonfly_plus_is_taken():
    fabric = topologies.build("dragonfly_plus", hosts=4, leaves=2, spines=2, h=1, groups=2, gpus=8)
    system = fl.system(gpu="H100", servers=2, fabric=fabric)
    assert system.fabric is fabric


@pytest.mark.parametrize("rate", ["400 GB/s", "800 GB/s", "3.2 Tb/s"])
def test_a_nic_faster_than_any_is_asked_about_bits(rate):
    with pytest.raises(ValueError, match=r"rate must be at most .* meant in bits, '\d+ Gb/s'\?"):
        fl.system(gpu="H100", servers=2, rate=rate)
    row = dict(fl.system(gpu="H100", servers=2)) | {"nic_gbps": 3200}
    with pytest.raises(ValueError, match="nic_gbps must be at most"):
        fl.estimate(row, "all_reduce", SIZE)


@pytest.mark.parametrize("rate", ["400 Gb/s", "50 GB/s", "800 Gb/s", "1.6 Tb/s"])
def test_a_rate_that_a_gpu_has_is_taken(rate):
    assert fl.system(gpu="H100", servers=2, rate=rate).rate == fl.units.rate(rate)


def test_a_fabric_of_another_size_is_refused():
    with pytest.raises(ValueError, match="fabric must have 16 ranks"):
        fl.system(gpu="H100", servers=2, fabric=topologies.build("crossbar", hosts=8))


def test_a_file_says_the_same_as_the_call(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text(
        '[system]\ngpu = "H100"\nservers = 4\nfabric = "leaf_spine"\noversubscription = 2\n',
        encoding="utf-8",
    )
    mine = fl.system(file)
    again = fl.system(gpu="H100", servers=4, fabric="leaf_spine", oversubscription=2)
    assert repr(mine) == repr(again) and dict(mine) == dict(again)
    assert mine.fabric.summary() == again.fabric.summary()
    file.write_text('gpu = "H100"\nserver = 4\n', encoding="utf-8")
    with pytest.raises((TypeError, ValueError), match=r"cluster\.toml: .*servers"):
        fl.system(file)
    with pytest.raises(ValueError, match="file that exists"):
        fl.system(tmp_path / "none.toml")


def test_a_part_is_changed_and_the_rest_stays():
    hall = fl.system(gpu="H100", servers=4, fabric="leaf_spine", oversubscription=2)
    fast = hall.replace(rate="800 Gb/s")
    assert (fast.rate, fast.servers, fast.network, dict(fast.options)) == (
        100e9,
        4,
        "leaf_spine",
        {"oversubscription": 2},
    )
    assert fl.estimate(hall.replace(nics=4), "all_reduce", SIZE).time > 1.5 * (
        fl.estimate(hall, "all_reduce", SIZE).time
    )


def test_it_shows_itself_and_has_a_bill():
    hall = fl.system(gpu="H100", servers=32)
    for words in (
        "32 servers x 8 H100",
        "256 ranks",
        "8 NICs of 400 Gb/s",
        "InfiniBand",
        "rail_optimised",
    ):
        assert words in repr(hall)
    assert "scale-up" in hall._repr_html_()
    assert hall.bill().items["nic 1 x 400 Gb/s"].quantity == 256


def test_a_run_that_leaves_nics_idle_says_so():
    fabric = fl.system(gpu="H100", servers=4).fabric
    one_ring = fl.simulate("all_reduce", "ring", fabric, "1 GiB")
    assert any("of 32 NICs busy" in note for note in one_ring.notes)
    assert "NICs busy" in repr(one_ring)
    two_levels = fl.simulate("all_reduce", "hierarchical", fabric, "1 GiB")
    assert two_levels.notes == ()


def test_what_the_library_would_choose_needs_a_system():
    fabric = topologies.build("rail_optimised", servers=2)
    with pytest.raises(TypeError, match="must be a system"):
        fl.simulate("all_reduce", "nccl", fabric, "1 GiB")
    with pytest.raises(ValueError, match="has no counterpart"):
        fl.simulate("broadcast", "nccl", fl.system(gpu="H100", servers=2), "1 GiB")


def test_a_system_stands_for_its_fabric():
    hall = fl.system(gpu="H100", servers=2)
    by_system = fl.simulate("all_reduce", "hierarchical", hall, "64 MiB")
    assert by_system.time == fl.simulate("all_reduce", "hierarchical", hall.fabric, "64 MiB").time


def test_half_the_uplinks_cost_what_crosses_them():
    # A ring over all NICs crosses the spine on each rail once for each pair of leaves, so it does not feel the
    # uplinks; an all-to-all does.
    wide = fl.system(gpu="H100", servers=64)
    narrow = fl.system(gpu="H100", servers=64, oversubscription=4)
    reduced = [fl.simulate("all_reduce", "nccl", s, "1 GiB").time for s in (wide, narrow)]
    exchanged = [fl.simulate("all_to_all", "nccl", s, "1 GiB").time for s in (wide, narrow)]
    assert reduced[1] < 1.1 * reduced[0]
    assert exchanged[1] > 1.4 * exchanged[0]


@pytest.mark.parametrize(
    "given",
    [
        {"placement": [0, 1]},
        {"method": "spray"},
        {"lag": "1 us"},
        {"gamma": 1.0},
        {"segments": 7},
        {"expand": True},
        {"changes": ()},
    ],
)
def test_a_run_of_the_library_refuses_what_it_has_no_use_for(given):
    hall = fl.system(gpu="H100", servers=2)
    for algorithm in ("nccl", "nvls_sharp"):
        with pytest.raises((TypeError, ValueError), match=next(iter(given))):
            fl.simulate("all_reduce", algorithm, hall, "1 MiB", **given)


@pytest.mark.parametrize("size", ["64 KiB", "1 MiB", "16 MiB", "1 GiB"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("gpu", ["H100", "MI300X", "GB200"])
def test_the_run_has_the_start_up_of_the_estimate(gpu, collective, size):
    hall = fl.system(gpu=gpu, servers=36 if gpu == "GB200" else 8)
    expected = fl.estimate(hall, collective, size)
    run = fl.simulate(collective, "nccl", hall, size)
    assert run.time == pytest.approx(expected.time, rel=0.35)
    if not expected.low <= run.time <= expected.high:
        assert any("estimate" in note for note in run.notes)


def test_nothing_changes_without_a_change():
    for name in (
        "h100x8_ring",
        "xx_1n_alltoall",
        "4090x8_p2p_off",
        "polaris_n8_2.18_all_reduce_env5",
    ):
        published = fl.system(name)
        before = fl.estimate(published, size="64 MiB")
        after = fl.estimate(published.replace(), size="64 MiB")
        assert (after.time, after.algorithm) == (before.time, before.algorithm)
    wider = fl.system("oci_h100_2n").replace(servers=32, rate="200 Gb/s")
    assert (wider["ranks"], wider["nic_gbps"], wider["transport"]) == (256, 200, "roce")
    with pytest.raises(TypeError, match="keeps its accelerator"):
        fl.system("oci_h100_2n").replace(gpu="B200")


def test_what_was_not_given_is_found_anew():
    assert fl.system(gpu="H100", servers=1).replace(servers=2).rate == 50e9
    half = fl.system(gpu="H100", servers=4).replace(gpus=4, nics=4)
    assert dict(half) == dict(fl.system(gpu="H100", servers=4, gpus=4, nics=4))
    rack = fl.system(gpu="GB200", servers=2, nics=4, rate="400 Gb/s").replace(servers=36)
    assert rack.domain == 72
    assert fl.system(gpu="H100", servers=2).replace(gpu="GB200").gpus == 4


@pytest.mark.parametrize("fabric", ["dual_tor", "multi_plane"])
def test_a_nic_uses_all_of_its_ports(fabric):
    hall = fl.system(gpu="H100", servers=32, fabric=fabric)
    run = fl.simulate("all_reduce", "nccl", hall, "1 GiB")
    assert run.time == pytest.approx(fl.estimate(hall, "all_reduce", "1 GiB").time, rel=0.1)


def test_chains_of_a_tree_take_any_order_of_the_gpus():
    plain = fl.collectives.build("all_reduce", "chain_tree", 16, per_server=8)
    zigzag = [0, 1, 7, 2, 6, 3, 5, 4]
    meshed = fl.collectives.build("all_reduce", "chain_tree", 16, per_server=8, order=zigzag)
    assert len(meshed.groups) == len(plain.groups)
    links = {
        tuple(pair)
        for group in meshed.groups
        for pair in zip(group.source, group.target, strict=True)
    }
    inside = {(a, b) for a, b in links if a // 8 == b // 8}
    assert len(inside) == 2 * 8 * 7  # every ordered pair of each server
    for wrong in ([0, 1], [1, 0, 2, 3, 4, 5, 6, 7], [0] * 8):
        with pytest.raises(ValueError, match="order"):
            fl.collectives.build("all_reduce", "chain_tree", 16, per_server=8, order=wrong)
