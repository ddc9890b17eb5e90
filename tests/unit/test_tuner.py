"""Tuner: choice and time of a collective on a real system, and how wrong they are."""

import itertools
import math
import random
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab
from fabriclab import catalog, tuner, validate
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows
from fabriclab.tuner.plans import plans, post
from fabriclab.tuner.system import read
from support.prose import states

SYSTEMS = {s["sweep_id"]: s for s in published.systems()}
GIB = 2.0**30
CALIBRATION = data_rows("calibration")
MAIN = [r for r in CALIBRATION if r["family"] not in ("", tuner.HOST) and not r["without"]]


def of(name, **change):
    return {**SYSTEMS[name], **change}


def plan(name, which, **change):
    return next(
        p for p in plans(read(of(name, **change))) if f"{p.algorithm}/{p.protocol}" == which
    )


def chosen(row, collective, size):
    found = tuner.estimate(row, collective, size, calibrated=False)
    return f"{found.algorithm}/{found.protocol}"


@cache
def report():
    return validate.report()


def part(number):
    return list(report().parts.values())[number].rows


def test_rates_by_hand():
    """NVLink 4 is 18 x 20.6 GB/s, a pair of MI300X reaches 47.671 of 64; NICs wait for PCIe 4 at 24, PCIe 5 at 48."""
    assert read(of("h100x8_ring")).own == pytest.approx(370.8e9)
    mi300 = 448e9 * 47.671 / 64
    assert read(of("mi300x_1n")).ring == pytest.approx(mi300)
    assert read(of("mi300x_1n", ranks=2)).own == pytest.approx(mi300 / 7)  # one of seven neighbours
    assert read(of("mi325x_2n")).ring == pytest.approx(mi300 * 8 / 7)
    assert read(of("4090x8_p2p_off")).own == pytest.approx(24e9)
    sophia, alps, p4de = (
        read(of(n))
        for n in ("sophia_n2_2.22.3_all_reduce_env6", "alps_N008_ofi1.13.0", "aws_p4de_2n")
    )
    assert (sophia.node, sophia.nic < sophia.wire) == (8 * 24e9, True)
    assert (alps.node, alps.nic < alps.wire) == (4 * 25e9, False)
    assert (p4de.node, p4de.nic) == (50e9, 12.5e9)
    nvl72 = read(of("gb200_72"))
    assert (nvl72.servers, nvl72.local) == (1, 72)
    two = read(of("gb200_72", nodes=36, ranks=144, nics_per_node=4, nic_gbps=400))
    assert (two.servers, two.nics) == (2, 72)


def test_terms_by_hand():
    """By the catalog alone: what hands on chunks, what NVLS has under way, what trees reach, what asks thrice."""
    plain = {**tuner.CONSTANTS, "own": 1.0}

    def parts(name, which, size):
        system = read(of(name))
        return tuner.terms(system, plan(name, which), size, plain)

    tree = plan("alps_N008_ofi1.13.0", "Tree/LL")
    assert [tree.tree_part(n) for n in (1, 64, 512, 1023, 1024, 2**18, 2**40)] == [
        1,
        1,
        1,
        1,
        0.9,
        0.4,
        1,
    ]
    # six times on to another server at half of a NIC's 25 GB/s, in chunks of 4 x 32 KiB
    assert parts("alps_N008_ofi1.13.0", "Tree/LL", 2**18)["protocol"] == pytest.approx(
        (5 * 2**17 + 2**18) / 12.5e9
    )
    # 16 channels x 128 KiB x 8 GPUs: half of 16 MiB goes first
    assert parts("xx_1n_all_reduce", "NVLS/Simple", GIB)["NVLink"] == pytest.approx(
        (GIB + 2**23) / 320e9 / 0.85
    )
    assert parts("xx_1n_all_reduce", "NVLS/Simple", 2**20)["NVLink"] == pytest.approx(
        1.5 * 2**20 / 320e9 / 0.85
    )
    # eight launches of 4.5 us take longer than the collective: 6.6 us + 14 hops of 0.6 us
    short = parts("h100x8_ring", "Ring/LL", 8)
    assert sum(short.values()) == pytest.approx(8 * 4.5e-6)
    assert short["launch"] == pytest.approx((36 - 14 * 0.6) * 1e-6, rel=1e-4)
    # with much data they are hidden behind it
    assert parts("h100x8_ring", "Ring/LL", 2**24)["launch"] == pytest.approx(6.6e-6)
    name = "sophia_n2_2.22.3_alltoall_env6"
    for size, posts in ((16 * 2**14, 1), (17 * 2**14, 3)):
        assert parts(name, "P2P/Simple", size)["network latency"] == pytest.approx(
            8 * (2.7e-6 + posts * 2e-6)
        )


def test_plans_by_hand():
    """Eight H100: 14 steps of 0.6 us after 6.6 us by LL at a quarter of the rate; LL128 at 92%; NVLS after 25 us."""
    ll, long, simple = (plan("xx_1n_all_reduce", f"Ring/{p}") for p in ("LL", "LL128", "Simple"))
    assert ll.expected(read(of("xx_1n_all_reduce")), 1e5) == pytest.approx(
        6.6e-6 + 14 * 0.6e-6 + 1e5 * 1.75 / 87.7e9
    )
    assert 1 / ll.own == pytest.approx(370.8e9 / 4 / 1.75)  # of all-gather a third
    assert 1 / plan("xx_1n_all_gather", "Ring/LL").own == pytest.approx(370.8e9 / 3 / 0.875)
    assert (long.own, simple.own) == pytest.approx((1.75 / (370.8e9 * 0.92), 1.75 / 370.8e9))
    nvls = plan("xx_1n_all_reduce", "NVLS/Simple")
    assert (nvls.steps * nvls.hop, 1 / nvls.own) == pytest.approx((25e-6, 320e9 * 0.85))
    # 32 ranks in 8 servers: a chain of 4 and log2(8) hops, up and down
    tree = plan("alps_N008_ofi1.13.0", "Tree/LL")
    assert (tree.start, tree.network) == pytest.approx((6.8e-6, 6 * 5e-6))
    assert tree.steps * tree.hop == pytest.approx(6 * 0.6e-6)
    # 14 of 62 steps leave a server; the others still wait for one post of 1 us, three by Simple
    ring = plan("alps_N008_ofi1.13.0", "Ring/Simple")
    assert (ring.steps, ring.posts, ring.network) == (48, 3, pytest.approx(14 * 14e-6))
    assert ring.nic == pytest.approx(62 / 32 / 100e9)
    # two servers: 0.92 x 2 x 12.5 GB/s on each of 4 channels, up or down
    assert plan("aws_p4de_2n", "Tree/Simple").nic == pytest.approx(2 / (4 * 0.92 * 25e9))
    # two servers of 8 GPUs, each with a NIC: 8 peers outside of 16
    peers = plan("sophia_n2_2.22.3_alltoall_env6", "P2P/Simple")
    assert (peers.peers, peers.nic) == (8, pytest.approx(8 / 16 / 24e9))


def test_a_proxy_reads_every_line_of_a_message_by_ll():
    """A line has 8 B of data, a message of one channel up to 4 KiB; a tree of 8 servers has six in a row."""
    tree = plan("alps_N008_ofi1.13.0", "Tree/LL")
    assert [tree.lines(n) for n in (8, 2048, 4096, 2**20)] == [6, 6 * 256, 6 * 512, 6 * 512]
    ring = plan(
        "sophia_n2_2.22.3_all_gather_env6", "Ring/LL"
    )  # one hop to the other server, 16 blocks
    assert [ring.lines(n) for n in (16 * 8, 16 * 4096, 2**20)] == [1, 512, 512]
    assert plan("sophia_n2_2.22.3_all_reduce_env6", "Tree/LL128").lines(4096) == 0
    assert plan("xx_1n_all_reduce", "Ring/LL").lines(4096) == 0  # no proxy inside a server
    system = read(of("alps_N008_ofi1.13.0"))
    plain = {**tuner.CONSTANTS, "own": 1.0}
    without = tuner.terms(system, tree, 4096, plain)["network latency"]
    assert without == pytest.approx(6 * 5e-6 + 6 * 1e-6)  # and a post of 1 us for each
    slow = tuner.terms(system, tree, 4096, {**plain, "line": 1e-8})["network latency"]
    assert slow - without == pytest.approx(6 * 512 * 1e-8)


def test_a_tree_by_simple_is_filled_chunk_by_chunk():
    """Four NICs have 8 channels; eight servers of four GPUs 3 + 3 levels, and six hops between servers."""
    tree = plan("alps_N008_ofi1.13.0", "Tree/Simple")
    # 64 MiB: 16 chunks of 512 KiB on a channel, fewer than 6 x 8; 32 of 256 and 64 of 128 KiB
    assert tree.filling(2**26) == 6 * 8 * 2**17
    assert (
        tree.filling(2**24) == 6 * 8 * 2**16
    )  # 32 of 64 KiB are as many as the last rule asks for
    assert tree.filling(2**21) == 6 * 8 * 2**15
    assert tree.filling(2**10) == 6 * 2**10  # there is no more to be under way
    assert tree.filling(2**33) == 6 * 8 * 2**19
    for which in ("Tree/LL", "Tree/LL128", "Ring/Simple"):
        assert plan("sophia_n2_2.22.3_all_reduce_env6", which).filling(2**24) == 0
    assert plan("xx_1n_all_reduce", "Tree/Simple").filling(2**24) == 0  # one server


@pytest.mark.parametrize(
    ("accelerator", "links", "ranks", "rate", "long_lines"),
    [
        ("RTX A6000", "nvlink3-pair", 2, 4 * 12e9, False),
        ("RTX 3090", "nvlink3-pair", 2, 4 * 12e9, False),
        ("A100-PCIe-80GB", "nvlink3-pair", 2, 12 * 20e9, True),
        ("Quadro RTX 8000", "nvlink2-pair", 2, 2 * 20e9, False),
        ("H100 NVL", "nvlink4-pair", 2, 12 * 20.6e9, True),
        ("RTX A6000", "nvlink3-pair", 4, 24e9, False),  # PCIe 4 from one pair to the other
    ],
)
def test_a_bridge_has_the_links_of_its_cards(accelerator, links, ranks, rate, long_lines):
    row = UNSEEN | {
        "accelerator": accelerator,
        "scale_up": links,
        "scale_up_domain_gpus": 2,
        "gpus_per_node": ranks,
        "ranks": ranks,
    }
    system = read(row)
    assert system.own == pytest.approx(rate)
    assert system.long_lines is long_lines
    assert (system.servers, system.kind) == (1, "nvlink" if ranks == 2 else "pcie")
    assert tuner.estimate(row, size=GIB).time > 0


@pytest.mark.parametrize(
    ("algo", "long_lines"),
    [
        ("default", True),
        ("default; NCCL before 2.5", False),
        ("default; NCCL before 2.6", True),
        ("default; NCCL 2.4.8", False),
        ("default; NCCL 2.5", True),
        ("default; NCCL 2.18", True),
        ("default; aws-ofi-nccl 1.13.0", True),
    ],
)
def test_ll128_came_with_nccl_2_5(algo, long_lines):
    assert read(of("v100_8", algo=algo)).long_lines is long_lines


def test_an_estimate_says_how_well_its_family_is_known():
    """Sockets are known from Polaris alone; their band is as wide as that of other families known from one system."""
    one = tuner.estimate("polaris_n2_2.18_all_reduce_env1", size=GIB)
    assert one.note == "one system known"
    assert repr(one).endswith("; one system known>")
    two = tuner.estimate("sophia_n2_2.22.3_all_reduce_env6", size=GIB)
    assert (two.note, "known" in repr(two)) == ("", False)
    none = tuner.estimate(UNSEEN | {"scale_up": "pcie5"}, size=GIB)
    assert none.note == "no system known"
    assert none.high / none.low > one.high / one.low > two.high / two.low
    assert tuner.estimate(UNSEEN | {"scale_up": "pcie5"}, size=GIB, calibrated=False).note == ""
    alone = [row for row in MAIN if "; " not in row["systems"]]
    assert {row["family"] for row in alone} == {"cxi-software", "tcp", "efa"}
    for kind in ("latency", "middle", "bandwidth"):
        assert len({row[f"band_{kind}"] for row in alone}) == 1


def test_the_make_of_cpu_sets_the_limit_of_ll_and_the_time_to_post():
    """Between servers 39 GB/s (two) or 20.4 on Intel's and Grace, 22.5 or 19 on AMD's, which post in twice the time."""
    for name, limit, wait in (
        ("oci_h100_2n", 39e9, 1e-6),
        ("alps_N008_ofi1.13.0", 20.4e9, 1e-6),
        ("aws_p4de_2n", 22.5e9, 2e-6),
        ("mi325x_4n", 19e9, 2e-6),
    ):
        system = read(of(name, collective="all_reduce", algo="default"))
        assert 1 / plan(name, "Tree/LL", algo="default").copy == pytest.approx(limit)
        assert post(system) == wait


def test_nccl_chooses_a_broadcast_by_one_hop_and_a_plateau_by_size():
    """All hops at once where channels go round alike, as many as ranks on a mesh; x 1.4 (1.9) from 64 B on."""
    for what in ("broadcast", "reduce"):
        ll = plan("xx_1n_all_reduce", "Ring/LL", collective=what)
        assert ll.expected(read(of("xx_1n_all_reduce")), 0) == pytest.approx(6.6e-6 + 0.6e-6)
        mesh = plan("v100_8", "Ring/Simple", collective=what)
        assert mesh.expected(read(of("v100_8")), 0) == pytest.approx(8.4e-6 + 8 * 4e-6)
        assert ll.steps == 7  # what it takes is another matter
    for name, factor in (("aws_p4de_2n", 1.4), ("v100_8", 1.9)):
        more = {"nodes": 2, "ranks": 16, "transport": "tcp", "nic_gbps": 100, "nics_per_node": 4}
        system, ring = read(of(name, **more)), plan(name, "Ring/Simple", **more)
        slope = max(ring.own, ring.nic)
        low, high = (ring.expected(system, n) - n * slope for n in (64 * 8 * 16 - 1, 64 * 8 * 16))
        assert high == pytest.approx(factor * low)


def test_what_nccl_does_not_time_and_wrong_words_are_refused():
    row = SYSTEMS["h100x8_ring"]
    for what in ("barrier", "copy", "sockets"):
        with pytest.raises(
            ValueError, match=f"collective must be one of all_reduce, .* got '{what}'"
        ):
            tuner.estimate(row, what, 8)
    for ask in (
        lambda **more: tuner.estimate(row, size=8, **more),
        lambda **more: validate.predict(row, 8, **more),
    ):
        with pytest.raises(
            ValueError,
            match=r"without must be one of .* got 'Alps GH2000'; did you mean 'Alps GH200'",
        ):
            ask(without="Alps GH2000")
    with pytest.raises(TypeError, match="calibrated must be True or False"):
        tuner.estimate(row, size=8, calibrated="no")
    with pytest.raises(ValueError, match=r"algo must be one of .* did you mean 'ring'"):
        tuner.estimate({**row, "algo": "rnig"}, size=8)
    with pytest.raises(TypeError, match="algo must be text, got 3"):
        tuner.estimate({**row, "algo": 3}, size=8)


@pytest.mark.parametrize(
    ("sweep", "collective", "size", "change", "choice"),
    [
        ("xx_1n_all_reduce", "all_reduce", 1024, {}, "Ring/LL"),
        ("xx_1n_all_reduce", "all_reduce", GIB, {}, "NVLS/Simple"),
        (
            "xx_1n_all_reduce",
            "all_reduce",
            GIB,
            {"ranks": 2},
            "Ring/Simple",
        ),  # NVLS takes three at the least
        ("xx_1n_all_reduce", "all_reduce", GIB, {"algo": "ring"}, "Ring/Simple"),
        ("xx_1n_all_reduce", "all_gather", GIB, {}, "Ring/Simple"),
        (
            "dgxa100_4gpu_nvswitch",
            "all_reduce",
            GIB,
            {},
            "Ring/Simple",
        ),  # Ampere's switches do not add
        ("oci_h100_2n", "all_reduce", GIB, {}, "NVLSTree/Simple"),
        ("oci_h100_2n", "all_reduce", GIB, {"algo": "collnet"}, "CollNet/Simple"),
        ("aws_p4de_2n", "all_reduce", GIB, {}, "Tree/Simple"),
        ("sophia_n2_2.22.3_all_reduce_env6", "all_reduce", 1024, {}, "Tree/LL"),
        ("sophia_n2_2.22.3_all_reduce_env6", "all_reduce", 2**20, {}, "Tree/LL128"),
        ("sophia_n2_2.22.3_all_reduce_env6", "all_reduce", GIB, {}, "Ring/Simple"),
        ("xx_10n_g1_all_gather", "all_gather", 64, {"nodes": 8, "ranks": 8}, "Ring/LL"),
        ("xx_10n_g1_all_gather", "all_gather", 64, {"nodes": 256, "ranks": 256}, "PAT/Simple"),
        ("xx_10n_g1_all_gather", "all_gather", 2**24, {"nodes": 256, "ranks": 256}, "PAT/Simple"),
        ("h100x8_ring", "alltoall", GIB, {}, "P2P/Simple"),
    ],
)
def test_choices(sweep, collective, size, change, choice):
    assert chosen(of(sweep, **change), collective, size) == choice


@pytest.mark.parametrize(
    ("protocol", "step"), [("LL", 5.0e-6), ("LL128", 8.5e-6), ("Simple", 14e-6)]
)
def test_nccl_expects_a_tree_s_latency_of_a_ring_with_one_rank_in_each_server(protocol, step):
    """The rule of NCCL's tuning.cc since 2.23.4; the time itself keeps the ring's own latency."""
    rail = of("xx_10n_g1_all_reduce", nodes=128, ranks=128)
    start = {"LL": 6.6e-6, "LL128": 14e-6, "Simple": 8.4e-6}[protocol]
    # 8 B move in no time, and are too few for the plateau of Simple
    found = tuner.estimate(rail, size=8).expected[f"Ring/{protocol}"]
    assert found == pytest.approx(start + 254 * step, rel=1e-4)
    chains = tuner.estimate(rail | {"collective": "broadcast"}, size=8).expected
    assert chains["Ring/LL"] < 6.6e-6 + 128 * 3e-6  # a broadcast keeps the ring's own
    several = of("xx_10n_g2_all_reduce")
    plan = tuner.choose(tuner.read(several), 8)[0]
    assert plan.exposed == 0


def test_the_run_with_one_rank_in_each_server_was_faster_at_64_mib_than_ll128_can_be():
    """So NCCL took Simple there, as the rule says; without it the ring by LL128 would be expected to win."""
    seen = published.load("xx_10n_g1_all_reduce")
    at = list(seen.size).index(2**26)
    assert seen.busbw[at] > 50e9 * 120 / 128
    told = tuner.estimate("xx_10n_g1_all_reduce", size=2**26)
    assert (told.algorithm, told.protocol) == ("Ring", "Simple")
    exposed = 18 * (8.5e-6 - 4.0e-6)
    assert told.expected["Ring/LL128"] - exposed < told.expected["Ring/Simple"]


def test_what_binds():
    def binds(name, size, **change):
        return tuner.estimate(of(name, **change), size=size, calibrated=False).binds

    assert binds("h100x8_ring", 8) == "launch"
    assert binds("h100x8_ring", GIB) == "NVLink"
    assert binds("mi300x_1n", GIB) == "xGMI"
    assert binds("4090x8_p2p_off", GIB) == "PCIe"
    assert binds("alps_N032_ofi1.13.0", GIB) == "NIC"
    # 200 Gb/s behind PCIe 4, for which NCCL counts 24 GB/s
    assert binds("sophia_n2_2.22.3_all_reduce_env6", GIB) == "NCCL's plan of the NIC"
    assert binds("sophia_n2_2.22.3_alltoall_env6", GIB) == "NIC in an all-to-all"
    assert binds("alps_N128_ofi1.13.0", 8) == "network latency"
    assert binds("polaris_n8_2.18_all_gather_env4", 1024) == "hop latency"


def test_at_most_four_constants_a_family_with_reason_and_sweeps():
    assert len(MAIN) == 9
    gone = {r["sweep_id"] for r in data_rows("exclusions") if float(r["to_bytes"]) > 1e11}
    for row in MAIN:
        assert 1 <= sum(bool(row[k]) for k in tuner.CONSTANTS) <= 4
        assert row["reason"]
        on = row["fitted_on"].split()
        assert on
        assert not gone & set(on)
        assert {read(SYSTEMS[name]).family for name in on} == {row["family"]}
        assert {SYSTEMS[name]["system"] for name in on} == set(row["systems"].split("; "))


@pytest.mark.parametrize("family", ["roce", "xgmi", "shm"])
def test_the_table_is_what_the_fit_finds(root, monkeypatch, family):
    monkeypatch.syspath_prepend(str(root / "tools"))
    monkeypatch.delitem(sys.modules, "fit_tuner", raising=False)
    import fit_tuner

    sweeps = [v for v in fit_tuner.load().values() if v[0].family == family]
    row = next(r for r in MAIN if r["family"] == family)
    kept = {f: dict(c) for f, c in tuner.calibration().items() if f != family}
    assert fit_tuner.fit(family, sweeps, kept) == pytest.approx(
        {k: float(row[k]) for k in fit_tuner.WHY[family][0].split()}, 0.02
    )


def told(row):
    return {g: (round(row[g], 2), round(row[f"{g}_p90"], 2)) for g in validate.REGIMES}


def test_errors_on_the_sweeps_that_were_fitted():
    """Fixed by a run: median of sweep medians, 90th percentile of points."""
    seen = {r["model"]: r for r in part(1)}
    native = seen["catalog alone, vendor-native paths"]
    assert told(native)["bw"] == (0.06, 0.13)
    assert told(seen["calibrated"]) == {"lat": (0.08, 0.22), "mid": (0.2, 0.63), "bw": (0.05, 0.24)}


def test_what_no_fit_has_seen_stands_first_and_beats_both_baselines():
    """Fixed by a run: median of sweep medians, 90th percentile of points."""
    rows = part(0)
    assert [r["model"].strip() for r in rows[::3]] == [
        "each system",
        "largest rank count",
        "only system of its family: catalog",
    ]
    for ours, ring, near in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        # Where nothing was fitted, a neighbour may know a start better than the catalog.
        assert all(
            ours[g] <= min(ring[g], near[g])
            for g in ("mid", "bw")
            if g == "bw" or ours is not rows[6]
        )
    assert str(report()).index("not seen it") < str(report()).index("calibrated")
    assert told(rows[0]) == {"lat": (0.12, 0.24), "mid": (0.28, 0.67), "bw": (0.06, 0.36)}


def test_bands_hold_four_in_five_of_what_their_fit_has_not_seen():
    """Each sweep by the constants without its system, in each class that two systems of a family show."""
    inside = {}
    systems = {}
    for name, row in SYSTEMS.items():
        family = read(row).family
        result = published.load(name)
        kept = ~validate.excluded(name, result.size)
        for size, time in zip(result.size[kept], result.time[kept], strict=True):
            found = tuner.estimate(row, size=size, without=row["system"])
            key = family, tuner.classify(found.terms)
            inside.setdefault(key, []).append(found.low <= time <= found.high)
            systems.setdefault(key, set()).add(row["system"])
    shown = {k: v for k, v in inside.items() if len(systems[k]) > 1 and len(v) >= 10}
    assert {family for family, _ in shown} == {"nvlink", "cxi", "ib", "roce", "shm", "xgmi"}
    for key, hits in shown.items():
        assert np.mean(hits) == pytest.approx(0.8, abs=max(0.05, 1.5 / len(hits))), key


def test_exclusions_name_a_fact_and_stay_below_a_tenth():
    sizes = {k: published.load(k).size for k in SYSTEMS}
    out = sum(validate.excluded(k, n).sum() for k, n in sizes.items())
    assert 0 < out <= 0.1 * sum(map(len, sizes.values()))
    for row in data_rows("exclusions"):
        assert row["missing_fact"]
        assert validate.excluded(row["sweep_id"], sizes[row["sweep_id"]]).any()
    assert not validate.excluded("h100x8_ring", sizes["h100x8_ring"]).any()


def test_a_fit_without_a_system_falls_back_to_the_catalog_where_it_was_the_only_one():
    tcp = SYSTEMS["polaris_n2_2.18_all_reduce_env1"]
    blind = tuner.estimate(tcp, size=GIB, without=tcp["system"]).time
    alone = tuner.estimate(tcp, size=GIB, calibrated=False).time
    # but for the links inside the server, which others were fitted on
    assert blind == pytest.approx(alone, rel=0.05)
    assert tuner.estimate(tcp, size=GIB).time > 5 * blind
    assert tuner.calibration("Alps GH200")["cxi"] != tuner.calibration()["cxi"]
    assert tuner.calibration("Alps GH200")["tcp"] == tuner.calibration()["tcp"]


def test_law_names_and_order_do_not_matter():
    rng = random.Random(1)
    rows = published.systems()
    points = [(row, size) for row in rows for size in published.load(row["sweep_id"]).size]
    before = {(row["sweep_id"], size): validate.predict(row, size) for row, size in points}
    rng.shuffle(points)
    for row, size in points:
        noise = {
            k: "".join(rng.choices("abcdefgh ", k=9)) for k in ("sweep_id", "system", "source")
        }
        shuffled = list({**row, **noise}.items())
        rng.shuffle(shuffled)
        assert validate.predict(dict(shuffled), size) == before[row["sweep_id"], size]


@given(st.sampled_from(sorted(SYSTEMS)), st.floats(1, 1e11), st.booleans())
def test_law_terms_add_up_to_a_time_in_its_band(name, size, calibrated):
    found = tuner.estimate(name, size=size, calibrated=calibrated)
    assert sum(found.terms.values()) == pytest.approx(found.time)
    assert 0 < found.low <= found.time <= found.high < math.inf
    assert found.binds in found.terms
    assert min(found.expected, key=found.expected.get) == f"{found.algorithm}/{found.protocol}"
    assert validate.predict(SYSTEMS[name], size, calibrated=calibrated) == pytest.approx(
        1e6 * found.time
    )


@given(st.sampled_from(sorted(SYSTEMS)), st.floats(1, 1e10))
def test_law_one_plan_takes_longer_with_size_and_with_slower_links(name, size):
    system, plain = read(SYSTEMS[name]), {**tuner.CONSTANTS, "own": 1.0}
    for one in plans(system):
        both = [tuner.terms(system, one, n, plain) for n in (size, 4 * size)]
        longer = sum(both[1].values()) * (1 + 1e-12)  # sums of floats
        assert sum(both[0].values()) <= longer
        slow = {**plain, "own": 0.5, "rate": 0.5, "hop": 2.0}
        longer = sum(tuner.terms(system, one, size, slow).values()) * (1 + 1e-12)
        assert sum(both[0].values()) <= longer


UNSEEN = {
    "launch": "mpi",
    "collective": "all_reduce",
    "accelerator": "H200",
    "scale_up": "nvlink4-nvswitch",
    "scale_up_domain_gpus": 8,
    "gpus_per_node": 8,
    "ranks": 8,
    "nic_gbps": 0,
    "nics_per_node": 0,
    "transport": "none",
}


@pytest.mark.parametrize(
    ("part", "name", "change"),
    [("h200-n", f"{n}x H200 all-reduce 8 GiB", {"ranks": n}) for n in (5, 6, 7, 8)]
    + [
        ("b200-n", f"{n}x B200 all-reduce 8 GiB", {"ranks": n, "scale_up": "nvlink5-nvswitch"})
        for n in (4, 5, 6, 7, 8)
    ]
    + [
        ("a100", "8x A100 all-reduce 16 GiB", {"scale_up": "nvlink3-nvswitch"}),
        (
            "mi300x-8",
            "8x MI300X all-reduce 4 GiB",
            {"scale_up": "xgmi-full-mesh", "accelerator": "MI300X"},
        ),
        ("h200-ring", "8x H200 all-reduce 16 GiB ring", {"algo": "ring"}),
        ("h200-ag", "8x H200 all-gather (ring)", {"collective": "all_gather"}),
        (
            "p5en-32",
            "4 nodes x 8 H200, EFA v3, 32 ranks, 4 GiB, Ring",
            {"ranks": 32, "nic_gbps": 200, "nics_per_node": 16, "transport": "efa", "algo": "ring"},
        ),
    ],
)
def test_systems_that_no_sweep_has(part, name, change):
    """Bus bandwidths of the catalog that no constant was fitted to, met within 10%."""
    size = (
        16 * GIB
        if "16 GiB" in name or "gather" in name
        else 4 * GIB
        if "4 GiB" in name
        else 8 * GIB
    )
    found = tuner.estimate({**UNSEEN, **change}, size=size)
    busbw = fabriclab.core.result.bus_factor(found.what, found.ranks) * size / found.time
    assert busbw == pytest.approx(catalog.value("measured", part, "busbw", name=name), rel=0.10)


@pytest.mark.parametrize(
    "collective",
    [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "alltoall",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "sendrecv",
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        {
            "scale_up": "nvlink5-nvswitch",
            "ranks": 256,
            "nics_per_node": 8,
            "nic_gbps": 400,
            "transport": "ib",
        },
        {
            "scale_up": "nvlink6-nvswitch",
            "ranks": 16,
            "nics_per_node": 8,
            "nic_gbps": 800,
            "transport": "spectrum-x",
        },
        {
            "scale_up": "xgmi-full-mesh",
            "accelerator": "MI250X",
            "ranks": 64,
            "nics_per_node": 4,
            "nic_gbps": 200,
            "transport": "cxi",
        },
        {"scale_up": "xgmi-full-mesh", "accelerator": "MI999X"},
        {"scale_up": "pcie6", "accelerator": "an unknown card"},
        {
            "scale_up": "nvlink1-hybrid-cube-mesh",
            "transport": "tcp",
            "ranks": 32,
            "nics_per_node": 1,
            "nic_gbps": 100,
        },
        {
            "scale_up": "",
            "scale_up_domain_gpus": 1,
            "gpus_per_node": 1,
            "nics_per_node": 2,
            "nic_gbps": 200,
            "transport": "roce",
        },
        {
            "scale_up": "nvlink4-nvswitch",
            "scale_up_domain_gpus": "",
            "ranks": 12,
            "nics_per_node": 8,
            "nic_gbps": 400,
            "transport": "ib",
        },
    ],
)
def test_unknown_systems_have_a_time_where_the_facts_suffice(change, collective):
    row = {**UNSEEN, **change, "collective": collective}
    times = [validate.predict(row, size) for size in (8, 2**16, 2**20, 2**26, 2**33)]
    assert all(0 < a <= 1.5 * b for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("system", "size", "error", "text"),
    [
        ("h100x8_rong", 1, KeyError, "did you mean 'h100x8_ring'"),
        (
            UNSEEN | {"scale_up": "cxl"},
            1,
            ValueError,
            "must begin with a link of the catalog .*, got 'cxl'",
        ),
        (
            UNSEEN | {"ranks": 16},
            1,
            ValueError,
            "16 ranks in 2 servers need NICs, got nics_per_node 0",
        ),
        (UNSEEN | {"ranks": 0}, 1, ValueError, "ranks must be >= 1, got 0"),
        (UNSEEN | {"collective": "all_redcue"}, 1, ValueError, "did you mean 'all_reduce'"),
        (UNSEEN, 0, ValueError, "size must be above 0 B, got 0"),
        (UNSEEN, "1 s", ValueError, "size must be a size, got the time"),
        ({}, 1, ValueError, "without collective"),
    ],
)
def test_refusals(system, size, error, text):
    with pytest.raises(error, match=text):
        tuner.estimate(system, size=size)


def test_nothing_to_predict():
    assert validate.predict(UNSEEN, 0) is None
    assert validate.predict(UNSEEN | {"scale_up": "cxl"}, 1) is None
    assert validate.predict(UNSEEN | {"ranks": 16}, 1) is None
    with pytest.raises(ValueError, match="without collective"):
        validate.predict({}, 1)


def test_one_rank_and_each_part_of_the_row():
    assert tuner.estimate(UNSEEN | {"ranks": 1}, size=2**20).time > 0
    fewer = {k: v for k, v in UNSEEN.items() if k != "launch"}
    assert tuner.estimate(fewer, size=GIB).time == tuner.estimate(UNSEEN, size=GIB).time


def test_what_binds_is_told_with_the_next_limit_and_not_as_a_limit_of_hardware():
    found = fabriclab.estimate("cw_96gpu", "all_reduce", "1 GiB")
    # 48 GB/s of each NIC carry S / 8 up and down two trees; the links inside a server would need this much less
    ahead = found.limits["NCCL's plan of the NIC"] / found.limits["NVLink"] - 1
    assert f"{100 * ahead:.0f} % more than NVLink" in found.why
    assert "48.0 GB/s" in found.why and "the NIC itself has 4 % more" in found.why
    assert found.terms[found.binds] == max(found.limits.values())
    assert found.channels == 16
    small = fabriclab.estimate("cw_96gpu", "all_reduce", "8 KiB")
    share = 100 * small.terms["network latency"] / small.time
    assert small.why == f"network latency takes {share:.0f} % of the time"


def test_display():
    found = fabriclab.estimate("oci_h100_2n", "all_reduce", "1 GiB")
    assert repr(found).startswith("<Estimate all_reduce of 1 GiB on 16 ranks: ")
    assert repr(found).endswith("by NVLSTree/Simple; NVLink binds>")
    parts = len(found.terms) + len(found.limits) + len(found.expected)
    assert (
        found._repr_html_().count("<tr>") == parts + 4
    )  # and the heading, what binds, and the channels
    text = str(report())
    assert "each system" in text
    states(text, "9 families", "13 systems")
    assert len(part(2)) == len(SYSTEMS)


def test_the_command_prints_it(capsys):
    from fabriclab.__main__ import main

    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    assert "h100x8_ring" in out
    assert "textbook ring" in out


def test_the_nearest_system_is_scaled_by_its_port_rate():
    """Eight H100 are nearest to those of another site; four A100 (240 GB/s) to the four of Alps (370.8 GB/s)."""
    for name, near, ratio in (
        ("h100x8_ring", "xx_1n_all_reduce", 1.0),
        ("dgxa100_4gpu_nvswitch", "alps_N001_ofi1.13.0", 370.8 / 240),
    ):
        other = published.load(near)
        for size, time in (
            (other.size[3], other.time[3]),
            (4 * other.size[-1], 4 * other.time[-1]),
        ):
            assert validate.nearest(SYSTEMS[name], size) == pytest.approx(1e6 * time * ratio)
    # It begins at this size or below: the first size of a sweep from 32 MB on says nothing of 1 KiB.
    for name, row in SYSTEMS.items():
        seen = published.load(name)
        assert all(
            validate.nearest(row, n) < 20e6 * t for n, t in zip(seen.size, seen.time, strict=True)
        )
    assert validate.nearest(SYSTEMS["h100x8_ring"], 0) is None
    sites = {SYSTEMS[name]["system"] for name in ("xx_1n_all_reduce", "xx_10n_g1_all_reduce")}
    assert len(sites) == 1  # one cluster: a fold leaves out all of it
    (site,) = sites
    assert tuner.calibration(site)["nvlink"] != tuner.calibration()["nvlink"]
    assert tuner.calibration(site)["ib"] != tuner.calibration()["ib"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"ranks": 200},
            r"ranks must fit the nodes \(32 x 8 GPUs, so 256 if all are used\), got 200",
        ),
        ({"ranks": 257}, "ranks must fit the nodes"),
        ({"nics_per_node": 80}, r"nics_per_node must be within 0\.\.19 at 400 Gb/s .* got 80"),
    ],
)
def test_a_row_that_no_cluster_has_is_refused(change, said):
    row = {**SYSTEMS["oci_h100_2n"], "nodes": 32, "ranks": 256}
    assert tuner.estimate(row, size="1 GiB").time > 0
    assert tuner.estimate({**row, "ranks": 32}, size="1 GiB").time > 0  # one GPU of each server
    with pytest.raises(ValueError, match=said):
        tuner.estimate({**row, **change}, size="1 GiB")


def test_printed_an_estimate_says_what_binds_and_what_its_band_means():
    found = tuner.estimate("oci_h100_2n", size="1 GiB")
    lines = str(found).splitlines()
    assert lines[0] == repr(found)
    assert found.why in lines[1]
    assert f"{found.channels} channels" in lines[2]
    assert "four in five" in lines[3]
    assert "four in five" not in str(tuner.estimate("aws_p4de_2n", size="1 GiB"))
    assert found.busbw == pytest.approx(found.algbw * 2 * 15 / 16)
