"""What the questions of lessons 42 to 42c call right is right on paths inside the servers, and on what lessons show."""

import json
import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, gpudirect, live, topologies
from fabriclab.catalog import published
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson42, lesson42b
from fabriclab.course.questions import find
from fabriclab.gpudirect import path, read_topo
from fabriclab.views.fabrics import fabric_scene
from support.lesson_runs import FILES

H100, A100 = (topologies.build(name) for name in ("dgx_h100", "dgx_a100"))


def cells(name):
    notebook = json.loads(FILES[name].read_text("utf-8"))
    return {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}


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
    # as on paper: a slot, packets of 128 B of data with 24 B around them
    assert bounce == pytest.approx(31.5e9 * 128 / 152, rel=0.01)
    # Two GPUs share the link of a switch: the one from GPU 0 to GPU 1 is theirs alone.
    uplinks = [n for n in A100.nodes("pcie") if A100.links_between(n, A100.nodes("cpu")[0]).size]
    # two GPUs and two NICs below each
    assert [int(np.sum(A100.target == n) - 1) for n in uplinks] == [4, 4]


# Functions -----------------------------------------------------------------------------------------------------------


def by_ends(copies):
    found = 0
    for copy in copies:
        for end in (copy[0], copy[-1]):
            found += "CPU" in end
    return found


def by_numpy(copies):
    ends = np.array([[copy[0], copy[-1]] for copy in copies])
    return np.char.startswith(ends, "CPU").sum()


def that_changes_its_lists(copies):
    found = 0
    while copies:
        copy = copies.pop()
        found += copy.pop(0).startswith("CPU")
        found += not copy or copy.pop().startswith("CPU")
    return float(found)


@pytest.mark.parametrize("rule", [by_ends, by_numpy, that_changes_its_lists])
def test_a_right_count_of_crossings_is_right(rule):
    for _ in range(2):  # a second try sees the same cases
        assert check("42-write-host", rule).data["right"]


def test_a_count_of_one_cpu_only_is_told_so():
    tried = check("42-write-host", lesson42.CROSSINGS_MISTAKES["memory of one CPU only"])
    assert not tried.data["right"] and "CPU 1 counts" in str(tried)


def test_the_crossings_of_the_judge_are_those_of_the_library():
    for source, target, mechanism in lesson42._TRANSFERS:
        moved = path(H100, source, target, mechanism)
        assert lesson42.crossings(moved.parts) == moved.host_traffic
    far = path(H100, "nic 4", "gpu 0", "peer")
    assert far.host_traffic == 0 and sum("CPU" in part for part in far.parts[0]) == 2


def by_filling_lanes(starts, rates, size, chunks):
    free = [0.0] * len(starts)  # when each copy may take the next chunk
    for _ in range(chunks):
        arrived = 0.0
        for i in range(len(starts)):
            free[i] = max(free[i], arrived) + starts[i] + size / chunks / rates[i]
            arrived = free[i]
    return free[-1]


def by_arrays(starts, rates, size, chunks):
    steps = np.array(starts) + size / chunks / np.array(rates)
    return steps.sum() + (chunks - 1) * steps.max()


def that_empties_its_lists(starts, rates, size, chunks):
    steps = []
    while starts:
        steps.append(starts.pop() + size / chunks / rates.pop())
    return sum(steps) + (chunks - 1) * max(steps)


@pytest.mark.parametrize("rule", [by_filling_lanes, by_arrays, that_empties_its_lists])
def test_a_right_time_in_chunks_is_right(rule):
    for _ in range(2):  # a second try sees the same cases
        assert check("42b-write-time", rule).data["right"]


@pytest.mark.parametrize("chunks", [1, 4, 64])
@pytest.mark.parametrize("mechanism", ["pinned", "pageable"])
def test_the_time_in_chunks_is_that_of_the_library_but_for_latency(mechanism, chunks):
    moved = path(H100, "gpu 0", "gpu 1", mechanism)
    starts, rates = zip(*[(move.issue, move.rate) for move in moved.moves], strict=True)
    latency = sum(move.latency for move in moved.moves)
    of_library = moved.time(2**23, 2**23 / chunks) - latency
    assert lesson42b.time_in_chunks(starts, rates, 2**23, chunks) == pytest.approx(of_library)


# Host memory ----------------------------------------------------------------------------------------------------------


def test_host_memory_carries_as_much_as_the_answers_say():
    for n, r in ((4, "200 Gb/s"), (8, "400 Gb/s")):
        ends = [e for i in range(n) for e in ((f"nic {i}", f"gpu {i}"), (f"gpu {i}", f"nic {i}"))]
        asked = sum(fl.units.rate(r) * path(H100, *e, "pinned").host_traffic for e in ends)
        assert asked == pytest.approx(find("42-host").key({"n": n, "r": r}))
    two = catalog.value("emerging", "ddr-2", "bandwidth")  # of 16 channels
    assert asked / (8 * two) == pytest.approx(3, abs=0.1)


def test_the_copy_that_disappears_is_the_one_in_host_memory():
    bounce, direct = (path(H100, "nic 0", "gpu 0", way) for way in ("pinned", "peer"))
    assert bounce.copies - direct.copies == 1 and direct.host_traffic == 0 < bounce.host_traffic
    assert direct.parts == [["NIC 0", "PCIe switch 0", "GPU 0"]]
    slots = [{parts[0], parts[-1]} - {"CPU 0"} for parts in bounce.parts]
    assert set().union(*slots) == {"NIC 0", "GPU 0"} == {direct.parts[0][0], direct.parts[0][-1]}
    assert "once" in right("42-which")


def test_an_iommu_leaves_the_rate_of_the_answer():
    rate = path(H100, "nic 0", "gpu 0", "peer", iommu="on").rate
    assert rate == pytest.approx(find("42-iommu").key({}), rel=1e-3)
    assert catalog.memory_path["pcie-tlp"]["overhead_write"].value == 24


@pytest.mark.parametrize(("server", "rate"), [("dgx_a100", "16 GB/s"), ("dgx_h100", "22 GB/s")])
def test_a_rate_between_cpus_that_nccl_plans_with_is_said_to_be_planned(server, rate):
    scene = fabric_scene(topologies.build(server))
    assert f"1 × {rate}" in scene.layers["margins"].fields["texts"]
    assert scene.hint == fl.texts.text("fabric.planned")


def test_a_rate_between_cpus_of_another_source_is_not():
    assert fl.texts.text("fabric.planned") not in fabric_scene(topologies.build("gb200")).hint


# NICs and servers -----------------------------------------------------------------------------------------------------


def test_the_matrix_of_the_lesson_has_the_nics_of_the_answer():
    printed = re.search(r'"""(.*?)"""', cells("42_gpudirect_paths")["42-matrix"], re.DOTALL)[1]
    matrix = read_topo(printed)
    given = dict(re.findall(r"(NIC\d) to GPU(\d and GPU\d)", right("42-nic")))
    best = {f"GPU{g}": nic for nic, gpus in given.items() for g in gpus.split(" and GPU")}
    assert {gpu: matrix.nearest(gpu) for gpu in matrix.names[:4]} == {
        gpu: (nic,) for gpu, nic in best.items()
    }
    classes = [matrix.relation(f"GPU{g}", f"NIC{n}") for g in range(4) for n in range(3)]
    question = find("42-pairs")
    counts = [classes.count("PIX"), classes.count("PXB"), classes.count("NODE"), len(classes)]
    assert counts == [*question.fill({})[0].values()] and question.key({}) == counts[0] + counts[1]


def test_the_slow_servers_have_the_faults_of_the_answer():
    healthy, *slow = gpudirect.slow_servers(H100)
    assert (healthy.name, [server.name for server in slow]) == ("healthy", [*"ABCD"])
    faults = {
        "the module": path(H100, "nic 0", "gpu 0", "peer", module=False),
        "ACS": path(H100, "nic 0", "gpu 0", "peer", acs=True),
        "the IOMMU": path(H100, "nic 0", "gpu 0", "peer", iommu="on"),
        "the far NIC": path(H100, "nic 7", "gpu 0", "peer"),
    }
    said = dict(part.split(" ", 1) for part in right("42-servers").split(", "))
    assert {server.name: server.path for server in slow} == {
        name: faults[fault] for name, fault in said.items()
    }
    module, iommu, acs, far = (server.path for server in slow)
    assert module.host_traffic == 2 and [server.relation for server in slow][-1] == "SYS"
    assert acs.rate == iommu.rate < healthy.path.rate and iommu.latency > acs.latency
    assert far.rate < acs.rate and all(p.host_traffic == 0 for p in (iommu, acs, far))


@pytest.mark.parametrize(("n", "u"), [(50, 22), (60, 10)])
def test_a_far_socket_takes_what_the_answer_says(n, u):
    key = find("42-socket").key({"n": f"{n} GB/s", "u": f"{u} GB/s"})
    assert key == pytest.approx(1 - min(n, u) / n)
    assert path(H100, "nic 7", "gpu 0", "peer").rate == catalog.value(
        "memory_path", "upi-spr", "bandwidth"
    )


# Storage and chunks ---------------------------------------------------------------------------------------------------


def test_a_copy_leaves_10_us_where_its_start_and_rate_say():
    copy = path(H100, "cpu 0", "gpu 0", "pinned")
    key = find("42b-copy").key(
        {"a": f"{copy.latency * 1e6!r} us", "r": f"{copy.rate / 1e9!r} GB/s", "t": "10 us"}
    )
    assert copy.time(key) == pytest.approx(10e-6)
    assert key == pytest.approx(190e3, rel=0.02)  # as the lesson says


def test_small_chunks_pay_starts_and_the_best_lie_between():
    way = path(H100, "gpu 0", "gpu 1", "pinned")
    small, best, whole = (way.time("8 MiB", chunk) for chunk in ("32 KiB", "2 MiB", "8 MiB"))
    assert best < whole < small and 256 * way.moves[0].issue > whole
    # as the reason says
    assert way.moves[0].issue * way.moves[0].rate == pytest.approx(340e3, rel=0.03)
    assert "2 MiB" in live.chunks(8192.0).scene.said
    assert "128 KiB" in live.chunks(8192.0, "pageable").scene.said


def test_the_fallback_adds_the_times_of_its_copies():
    way = path(H100, "nvme 0", "gpu 0", "peer", module=False)
    rates = {k: f"{m.rate / 1e9!r} GB/s" for k, m in zip("dg", way.moves, strict=True)}
    assert way.time("140 GB") == pytest.approx(
        find("42b-load").key({"s": "140 GB", **rates}), rel=1e-4
    )
    assert way.note and path(H100, "nvme 0", "gpu 0", "peer").time("140 GB") < way.time("140 GB")


def test_in_chunks_the_fallback_is_as_fast_as_the_direct_path():
    direct, fallback = (
        path(H100, "nvme 0", "gpu 0", "peer", module=has).time("140 GB", "16 MiB")
        for has in (True, False)
    )
    assert fallback / direct == pytest.approx(1, abs=1e-4)


# The direct path ------------------------------------------------------------------------------------------------------


def test_a_gpu_registers_with_either_of_the_parts_that_the_answer_names():
    with pytest.raises(OSError, match="nvidia-peermem") as failed:
        gpudirect.register("gpu", "ibv_reg_mr", module=False)
    assert f"errno {failed.value.errno}" in find("42c-errno").words.prompt
    for call in ("ibv_reg_mr", "ibv_reg_dmabuf_mr"):
        assert gpudirect.register("gpu", call)
        with pytest.raises(OSError, match="managed"):
            gpudirect.register("managed", call)


def test_the_rates_that_the_model_misses_belong_to_paths_that_reach_a_cpu():
    errors = {
        (fact.id, fact.quoted): abs(model / fact.si - 1)
        for fact, model, sets in gpudirect.published()
        if not sets and fact.unit != "us"
    }
    missed = {id for (id, _), error in errors.items() if error > 0.15}
    reach_a_cpu = {"h2d-h100-kernel", "h2d-pcie4-both"}  # end in its memory
    reach_a_cpu |= {"p2p-pcie4-far", "p2p-pcie4-root", "p2p-a40-far"}  # cross it, or may
    assert missed == reach_a_cpu and len(errors) == 36
    assert "cross a CPU" in right("42c-model")
