"""What the questions of lesson 42 call right is right on paths inside the servers, and on what the lesson shows."""

import json
import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, live, topologies
from fabriclab.catalog import published
from fabriclab.course.questions import find
from fabriclab.gpudirect import path, read_topo
from fabriclab.texts import text
from support.lesson_runs import FILES

H100, A100 = (topologies.build(name) for name in ("dgx_h100", "dgx_a100"))
CELLS = {
    c["id"]: "".join(c["source"])
    for c in json.loads(FILES["42_gpudirect_paths"].read_text("utf-8"))["cells"]
}


def right(id):
    return find(id).right


def test_one_setting_costs_45_times_and_the_copies_explain_18():
    on, off = (published.load(f"dgxa100_4gpu_{name}").busbw[-1] for name in ("nvswitch", "p2p_off"))
    assert (round(on / 1e9, 1), round(off / 1e9, 1), round(on / off)) == (234.7, 5.2, 45)
    nvlink, bounce = (
        path(A100, "gpu 0", "gpu 2", way, kernel=True).rate for way in ("nvlink", "pinned")
    )
    assert 17.5 < nvlink / (bounce / 2) < 18.5
    assert on < nvlink and off < bounce / 2  # both are bounds
    # Two GPUs share the link of a switch: the one from GPU 0 to GPU 1 is theirs alone.
    uplinks = [n for n in A100.nodes("pcie") if A100.links_between(n, A100.nodes("cpu")[0]).size]
    # two GPUs and two NICs below each
    assert [int(np.sum(A100.target == n) - 1) for n in uplinks] == [4, 4]


def test_host_memory_carries_as_much_as_the_answers_say():
    pageable = path(A100, "gpu 1", "gpu 0", "pageable")
    assert pageable.host_traffic == find("42-crossings").key({})
    said = live.copies("pageable", source="gpu", server="dgx_a100").scene.said
    often = text("live.copies.times", n=pageable.host_traffic)
    assert text("live.copies.host", n=often) in said
    for n, r in ((4, "200 Gb/s"), (8, "400 Gb/s")):
        ends = [e for i in range(n) for e in ((f"nic {i}", f"gpu {i}"), (f"gpu {i}", f"nic {i}"))]
        asked = sum(fl.units.rate(r) * path(H100, *e, "pinned").host_traffic for e in ends)
        assert asked == pytest.approx(find("42-host").key({"n": n, "r": r}))


def test_the_copy_that_disappears_is_the_one_in_host_memory():
    bounce, direct = (path(H100, "nic 0", "gpu 0", way) for way in ("pinned", "peer"))
    assert bounce.copies - direct.copies == 1 and direct.host_traffic == 0 < bounce.host_traffic
    assert all(
        part in direct.moves[0].over for part in ("nic 0", "pcie 0.0", "gpu 0")
    ) and "host" in right("42-which")


def test_an_iommu_leaves_the_rate_of_the_answer():
    rate = path(H100, "nic 0", "gpu 0", "peer", iommu="on").rate
    assert rate == pytest.approx(find("42-iommu").key({}), rel=1e-3)
    assert catalog.memory_path["pcie-tlp"]["overhead_write"].value == 24


def test_the_matrix_of_the_lesson_has_the_nics_of_the_answer():
    matrix = read_topo(re.search(r'"""(.*?)"""', CELLS["42-matrix"], re.DOTALL)[1])
    given = dict(re.findall(r"(NIC\d) to GPU(\d and GPU\d)", right("42-nic")))
    best = {f"GPU{g}": nic for nic, gpus in given.items() for g in gpus.split(" and GPU")}
    assert {gpu: matrix.nearest(gpu) for gpu in matrix.names[:4]} == {
        gpu: (nic,) for gpu, nic in best.items()
    }
    classes = [matrix.relation(f"GPU{g}", f"NIC{n}") for g in range(4) for n in range(3)]
    question = find("42-pairs")
    counts = [classes.count("PIX"), classes.count("PXB"), classes.count("NODE"), len(classes)]
    assert counts == [*question.fill({})[0].values()] and question.key({}) == counts[0] + counts[1]


def test_the_cards_have_the_faults_of_the_answer():
    names, order = (
        ("the module", "ACS", "the IOMMU", "the far NIC"),
        np.random.default_rng(7).permutation(4),
    )
    assert "default_rng(7).permutation(4)" in CELLS["42-cards"]
    assert '[{"module": False}, {"acs": True}, {"iommu": "on"}, {}]' in CELLS["42-cards"]
    assert right("42-cards") == ", ".join(
        f"{card} {names[i]}" for card, i in zip("ABCD", order, strict=True)
    )
    healthy, module, acs, iommu = (
        path(H100, "nic 0", "gpu 0", "peer", **fault)
        for fault in ({}, {"module": False}, {"acs": True}, {"iommu": "on"})
    )
    assert (
        module.host_traffic == 2
        and acs.rate == iommu.rate < healthy.rate
        and iommu.latency > acs.latency
    )


@pytest.mark.parametrize(("n", "u"), [(50, 22), (60, 10)])
def test_a_far_socket_takes_what_the_answer_says(n, u):
    key = find("42-socket").key({"n": f"{n} GB/s", "u": f"{u} GB/s"})
    assert key == pytest.approx(1 - min(n, u) / n)
    assert path(H100, "nic 7", "gpu 0", "peer").rate == catalog.value(
        "memory_path", "upi-spr", "bandwidth"
    )


def test_a_copy_leaves_10_us_where_its_start_and_rate_say():
    copy = path(H100, "cpu 0", "gpu 0", "pinned")
    key = find("42-copy").key(
        {"a": f"{copy.latency * 1e6!r} us", "r": f"{copy.rate / 1e9!r} GB/s", "t": "10 us"}
    )
    assert copy.time(key) == pytest.approx(10e-6)


def test_small_chunks_pay_starts_and_the_best_lie_between():
    way = path(H100, "gpu 0", "gpu 1", "pinned")
    small, best, whole = (way.time("8 MiB", chunk) for chunk in ("32 KiB", "2 MiB", "8 MiB"))
    assert best < whole < small and 256 * way.moves[0].issue > whole
    # as the reason says
    assert way.moves[0].issue * way.moves[0].rate == pytest.approx(340e3, rel=0.03)
    assert "2 MiB" in live.chunks(8192.0).scene.said


def test_the_fallback_adds_the_times_of_its_copies():
    way = path(H100, "nvme 0", "gpu 0", "peer", module=False)
    rates = {k: f"{m.rate / 1e9!r} GB/s" for k, m in zip("dg", way.moves, strict=True)}
    assert way.time("140 GB") == pytest.approx(
        find("42-load").key({"s": "140 GB", **rates}), rel=1e-4
    )
    assert way.note and path(H100, "nvme 0", "gpu 0", "peer").time("140 GB") < way.time("140 GB")
