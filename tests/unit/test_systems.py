"""A cluster in the words of a purchase order: what is filled in, what is refused, and that all doors agree."""

import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import topologies
from fabriclab.catalog import published
from fabriclab.errors import TooLarge
from fabriclab.innetwork.compare import for_servers

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
    # A column that names its unit is taken at its word.
    row = dict(fl.system(gpu="H100", servers=2)) | {"nic_gbps": 3200}
    assert fl.estimate(row, "all_reduce", SIZE).time > 0


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
    wide = fl.system(gpu="H100", servers=16, radix=16)  # two leaves on each rail
    narrow = fl.system(gpu="H100", servers=16, radix=16, oversubscription=4)
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
    assert run.time == pytest.approx(expected.time, rel=0.16)
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
    thin = wider.replace(oversubscription=2)
    assert dict(thin.replace(servers=16).options) == {"oversubscription": 2}
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


def agree(system, collective="all_reduce", size=SIZE, within=0.1):
    """Return whether the run of what the library would choose takes as long as estimated."""
    estimate = fl.estimate(system, collective, size).time
    return fl.simulate(collective, "nccl", system, size).time == pytest.approx(estimate, rel=within)


@pytest.mark.parametrize("nics", [1, 2, 4])
def test_gpus_that_share_a_nic_still_meet_at_nvlink(nics):
    alone = fl.system(gpu="H100", servers=1)
    shared = fl.system(gpu="H100", servers=1, nics=nics)
    times = [fl.simulate("all_reduce", "ring", s.fabric, SIZE).time for s in (alone, shared)]
    assert times[1] == pytest.approx(times[0])
    for collective in ("all_reduce", "all_to_all"):
        assert agree(fl.system(gpu="H100", servers=4, nics=nics), collective, within=0.02)
    assert agree(fl.system("aws_p4de_2n"), within=0.02)


@pytest.mark.parametrize("nics", [3, 5, 12])
def test_nics_that_do_not_divide_among_gpus_are_named_as_the_reason(nics):
    system = fl.system(gpu="H100", servers=4, nics=nics, rate="200 Gb/s")
    run = fl.simulate("all_reduce", "nccl", system, SIZE)
    assert any("evenly" in note for note in run.notes)
    assert run.time > 1.1 * fl.estimate(system, "all_reduce", SIZE).time


@pytest.mark.parametrize("sweep", [row["sweep_id"] for row in published.systems()])
def test_every_published_system_has_a_fabric_that_runs_its_collective(sweep):
    system = fl.system(sweep)
    assert system.fabric.n_ranks == system["ranks"]
    if system["ranks"] < 512 or system["collective"] != "alltoall":  # that one takes seconds
        assert agree(system, published.identifier(system["collective"]))


@pytest.mark.parametrize("gpu", ["H100", "MI300X"])
@pytest.mark.parametrize("servers", [1, 4])
def test_a_server_has_the_links_that_its_description_names(gpu, servers):
    system = fl.system(gpu=gpu, servers=servers, scale_up="pcie5")
    assert not {"nvlink", "xgmi"} & set(system.fabric.media)
    assert agree(system, within=0.02)
    run = fl.simulate("all_to_all", "nccl", system, SIZE)
    assert servers == 1 or any("shares the PCIe link" in note for note in run.notes)
    mesh = fl.system(gpu="A100", servers=1, gpus=4, scale_up="nvlink3-mesh4")
    assert mesh.fabric.capacity == pytest.approx(100e9)


@pytest.mark.parametrize("servers", [2, 3, 4])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
def test_rings_and_trees_follow_the_links_of_a_cube_mesh(servers, collective):
    assert agree(fl.system(gpu="V100", servers=servers), collective, within=0.02)


def test_gpus_without_a_link_meet_inside_their_server():
    system = fl.system(gpu="V100", servers=2)
    flows = fl.core.Flows.make(system.fabric.endpoint[[0]], system.fabric.endpoint[[5]], 1.0)
    route = fl.routing.route(system.fabric, flows)
    assert set(system.fabric.coordinate("server")[system.fabric.target[route.link]]) == {0}
    part = fl.system(gpu="V100", servers=1, gpus=4)
    run = fl.simulate("all_reduce", "nccl", part, SIZE)
    assert any("links of a GPU" in note for note in run.notes)


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("gpus", range(2, 8))
def test_a_part_of_a_mesh_has_a_part_of_its_links(gpus, servers):
    system = fl.system(gpu="MI300X", servers=servers, gpus=gpus)
    direct = system.fabric.medium == system.fabric.media.index("xgmi")
    assert set(system.fabric.capacity[direct]) == {64e9}
    assert np.count_nonzero(direct) == servers * gpus * (gpus - 1)
    assert agree(system, within=0.02) and agree(system, "all_to_all")
    if (gpus, servers) == (4, 1):  # three of seven links
        assert fl.estimate(system, "all_reduce", SIZE).time == pytest.approx(47.15e-3, rel=1e-3)


@pytest.mark.parametrize(("nics", "rate"), [(16, "400 Gb/s"), (16, "200 Gb/s"), (32, "100 Gb/s")])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
def test_all_nics_of_a_gpu_are_used_up_to_its_pcie_link(nics, rate, collective):
    system = fl.system(gpu="H100", servers=4, nics=nics, rate=rate)
    assert agree(system, collective, within=0.02)
    usual = fl.estimate(fl.system(gpu="H100", servers=4), collective, SIZE).time
    assert fl.estimate(system, collective, SIZE).time == pytest.approx(usual, rel=0.02)
    few = fl.system(gpu="H100", servers=4, nics=nics, rate="50 Gb/s")
    assert agree(few, collective, within=0.02)


def test_a_part_of_a_server_has_a_part_of_its_nics():
    assert [fl.system(gpu="H100", servers=4, gpus=g).nics for g in (1, 2, 4, 8)] == [1, 2, 4, 8]
    assert [fl.system(gpu="V100", servers=4, gpus=g).nics for g in (1, 3, 8)] == [1, 2, 4]
    assert fl.system(gpu="H100", servers=4, gpus=4, nics=8).nics == 8


@pytest.mark.parametrize(
    "wiring",
    [
        {"fabric": "crossbar"},
        {"host_length": 0},
        {"fabric": "leaf_spine", "host_length": 0, "switch_length": 0},
    ],
)
def test_cables_without_a_length_reach_no_more_than_others(wiring):
    usual = fl.system(gpu="H100", servers=4, transport="tcp")
    other = fl.system(gpu="H100", servers=4, transport="tcp", **wiring)
    times = [fl.simulate("all_reduce", "nccl", s, "1 GiB").time for s in (usual, other)]
    assert times[1] == pytest.approx(times[0], rel=0.01)
    added = [
        fl.simulate("all_reduce", "nvls_sharp", fl.system(gpu="H100", servers=4, **more), "1 GiB")
        for more in ({}, wiring)
    ]
    assert added[1].time == pytest.approx(added[0].time, rel=0.01)
    compared = for_servers(other, "1 GiB")
    assert compared["Ring"].nic_bytes > 0


@pytest.mark.parametrize(
    ("asked", "built", "words"),
    [
        ({"rate": "100 Gb/s"}, ("rail_optimised", {"servers": 2}), "NICs of 100 Gb/s"),
        ({"nics": 4}, ("rail_optimised", {"servers": 2}), "4 NICs in each server"),
        ({}, ("crossbar", {"hosts": 16}), "8 GPUs in each server"),
        ({}, ("rail_optimised", {"servers": 4, "gpus": 4, "rails": 4}), "8 GPUs in each server"),
        ({}, ("rail_optimised", {"servers": 2, "expand": False}), "inside of the servers"),
    ],
)
def test_a_fabric_for_other_servers_is_refused(asked, built, words):
    family, arguments = built
    fabric = topologies.build(family, **arguments)
    with pytest.raises(ValueError, match="fabric must have") as caught:
        fl.system(gpu="H100", servers=2, fabric=fabric, **asked)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "H100", "servers": 4, "fabric": "dual_tor"},
        {"gpu": "H100", "servers": 4, "fabric": "crossbar"},
        {"gpu": "GB200", "servers": 36},
        {"gpu": "MI300X", "servers": 2, "gpus": 4},
        {"gpu": "V100", "servers": 2},
    ],
)
def test_the_fabric_of_a_system_fits_it(asked):
    fabric = fl.system(**asked).fabric
    assert fl.system(**{**asked, "fabric": fabric}).fabric is fabric


@pytest.mark.parametrize("gpu", ["H100-PCIe", "A100-PCIE-40GB", "H100-NVL", "H100 NVL"])
def test_a_card_is_not_taken_for_a_gpu_on_a_board(gpu):
    with pytest.raises(ValueError, match="needs gpus=8 and scale_up"):
        fl.system(gpu=gpu, servers=1)
    assert fl.system(gpu=gpu, servers=1, gpus=2, scale_up="pcie5").fabric.n_ranks == 2
    for board in ("H100-SXM5", "A100-SXM4-40GB", "MI300X OAM"):
        assert fl.system(gpu=board, servers=1).gpus == 8


def test_bridges_join_two_cards_and_no_more():
    bridged = fl.system(gpu="H100 NVL", servers=1, gpus=8, scale_up="nvlink4-pair")
    assert np.count_nonzero(bridged.fabric.medium == bridged.fabric.media.index("nvlink")) == 8
    assert agree(bridged, within=0.02)
    more = {"nics": 4, "rate": "200 Gb/s", "transport": "InfiniBand"}
    several = {"gpu": "H100 NVL", "servers": 4, "gpus": 8, "scale_up": "nvlink4-pair"}
    assert agree(fl.system(**several, **more), within=0.02)
    assert agree(fl.system(gpu="H100 NVL", servers=1, gpus=2, scale_up="nvlink4-pair"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpu": "GB200", "servers": 20}, "take 18 or 36"),
        ({"gpu": "H100", "servers": 3, "domain": 16}, "take 2 or 4"),
        ({"gpu": "GB200", "servers": 40, "gpus": 5}, "domain must be a multiple of 5"),
        ({"gpu": "MI300X", "servers": 1, "gpus": 16}, "gpus must be within 1..8"),
        ({"gpu": "MI300X", "servers": 1, "domain": 16}, "domain must be 8"),
        ({"gpu": "H100", "servers": 2, "scale_up": "pcie5", "domain": 16}, "domain must be 8"),
        ({"gpu": "H100", "servers": 2, "scale_up": "nvlinc4"}, "scale_up must begin with"),
        ({"gpu": "H100", "servers": 4, "transport": "none"}, "transport must be one between"),
        (
            {"gpu": "X1", "servers": 4, "gpus": 8, "scale_up": "pcie5", "nics": 8, "rate": 5e10},
            "transport must be given",
        ),
    ],
)
def test_domains_and_transports_that_cannot_be_are_refused(asked, words):
    with pytest.raises(ValueError) as caught:
        fl.system(**asked)
    assert words in str(caught.value)


def test_a_rack_that_is_full_or_alone_is_built():
    for servers in (2, 18, 36):
        system = fl.system(gpu="GB200", servers=servers)
        assert system.fabric.n_ranks == 4 * servers


def test_nothing_is_given_beside_a_published_name_not_even_zero():
    for more in ({"nics": 0}, {"ranks": 0}, {"oversubscription": 2}):
        with pytest.raises(TypeError, match="takes no further arguments"):
            fl.system("oci_h100_2n", **more)


def test_the_network_of_a_published_system_is_an_assumption():
    known = fl.system("oci_h100_2n")
    assert "rail_optimised (assumed)" in repr(known)
    assert "rail_optimised (assumed)" in known._repr_html_()
    assert "assumed" not in repr(fl.system(gpu="H100", servers=2))


@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
def test_a_nic_that_is_faster_than_pcie_does_not_make_pcie_faster(collective):
    fast = fl.system(gpu="H100", servers=4, rate="800 Gb/s")
    host = fast.fabric.medium == fast.fabric.media.index("pcie")
    assert fast.fabric.capacity[host].max() == fl.catalog.value(
        "links", "pcie5", "bandwidth_after_encoding"
    )
    assert agree(fast, collective, within=0.02)
    usual = fl.system(gpu="H100", servers=4)
    times = [fl.simulate(collective, "nccl", s, SIZE).time for s in (usual, fast)]
    assert times[1] == pytest.approx(times[0], rel=0.01)


def test_a_gpu_with_two_nics_loses_half_with_one():
    hall = fl.system(gpu="H100", servers=4, nics=16, rate="100 Gb/s")
    for collective in ("all_reduce", "all_to_all"):
        assert fl.what_if(hall, "leaf 1", collective).slower > 1.8
        assert fl.what_if(hall, "pcie 2", collective).after is not None


def test_a_large_mesh_of_unknown_gpus_has_rings_over_all_links():
    more = {"nics": 4, "rate": "200 Gb/s", "transport": "Slingshot"}
    system = fl.system(gpu="X", servers=2, gpus=16, scale_up="nvlink4-mesh", **more)
    assert agree(system, "all_gather")


def test_a_word_that_nobody_has_is_named_before_what_is_missing(tmp_path):
    file = tmp_path / "hall.toml"
    file.write_text('gpu = "H100"\nserver = 32\n')
    with pytest.raises(TypeError, match=r"hall\.toml: .*did you mean 'servers'"):
        fl.system(file)
    assert set(fl.system(gpu="H100", servers=2)) == set(published.system("oci_h100_2n"))


def test_a_sweep_names_the_choice_for_each_size():
    hall = fl.system(gpu="H100", servers=4)
    sizes = ["64 KiB", "1 MiB", "1 GiB"]
    swept = fl.simulation.sweep("all_reduce", "nccl", hall, sizes)
    alone = [fl.simulate("all_reduce", "nccl", hall, size) for size in sizes]
    assert swept.asked["chosen"] == [run.result.asked["chosen"] for run in alone]
    assert swept.time.tolist() == [run.time for run in alone]
    assert len(set(swept.asked["chosen"])) > 1


@pytest.mark.parametrize("algorithm", ["nvls_sharp", "collnet"])
def test_switches_that_add_have_no_time_where_their_start_up_decides(algorithm):
    hall = fl.system(gpu="H100", servers=32)
    with pytest.raises(ValueError, match="outside what is known"):
        fl.simulate("all_reduce", algorithm, hall, "64 KiB")
    run = fl.simulate("all_reduce", algorithm, hall, "1 GiB")
    compared = for_servers(hall, "1 GiB")[algorithm]
    assert run.time == pytest.approx(compared.time, rel=0.03)
    with pytest.raises(ValueError, match="needs InfiniBand"):
        fl.simulate("all_reduce", algorithm, hall.replace(transport="RoCE"), "1 GiB")


def test_the_size_that_is_said_to_fit_does(monkeypatch):
    monkeypatch.setenv("FABRICLAB_MEMORY", "256 MiB")
    with pytest.raises(TooLarge, match="take fewer ranks") as refused:
        fl.simulate("all_to_all", "nccl", fl.system(gpu="H100", servers=64), "1 GiB")
    servers = int(re.search(r"\(([\d,]+) domains of 8\)", str(refused.value))[1])
    assert servers > 32
    assert fl.simulate("all_to_all", "nccl", fl.system(gpu="H100", servers=servers), "1 GiB").time
    with pytest.raises(TooLarge):
        fl.simulate("all_to_all", "nccl", fl.system(gpu="H100", servers=servers + 1), "1 GiB")


def test_a_run_that_public_facts_do_not_explain_says_so():
    assert "not predictable" in fl.estimate("xx_10n_g1_sendrecv", size="1 GiB").note
    assert "far outside" in str(fl.estimate("xx_10n_g1_sendrecv", size="1 GiB"))


def test_nvls_tree_finds_the_switches_of_its_servers():
    hall = fl.system(gpu="H100", servers=4)
    found = fl.simulate("all_reduce", "nvls_tree", hall, "1 MiB")
    given = fl.simulate(
        "all_reduce",
        "nvls_tree",
        hall.fabric,
        "1 MiB",
        switches=hall.fabric.nodes("nvlink"),
        options={"per_server": 8},
    )
    assert found.time == given.time


def test_the_library_of_amd_has_its_own_name():
    hall = fl.system(gpu="MI300X", servers=16)
    assert fl.estimate(hall, "all_reduce", "1 GiB").binds == "RCCL's plan of the NIC"
    assert "as RCCL's" in fl.simulate("all_reduce", "nccl", hall, "1 GiB").notes[0]
