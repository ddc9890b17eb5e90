"""What a failed part costs: the arithmetic of the NICs that are left, and parts whose loss costs nothing or all."""

import numpy as np
import pytest

import fabriclab as fl
from fabriclab.errors import NoPath


@pytest.fixture(scope="module")
def hall():
    return fl.system(gpu="H100", servers=8)


def data_time(run):
    """Return the time without the start-up, which each step has a part of."""
    return run.time - float(run.flows.lag[0] * run.flows.repeat.sum())


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("lost", [["leaf 3"], ["leaf 3", "leaf 5"]])
def test_a_lost_leaf_costs_what_its_rail_carried(hall, collective, lost):
    found = fl.what_if(hall, lost, collective)
    left = 8 - len(lost)
    assert found.nics_left == pytest.approx(left / 8)
    assert data_time(found.after) / data_time(found.before) == pytest.approx(8 / left, rel=0.01)
    assert (found.report.cut_off.size, found.report.alone.size) == (0, 8 * len(lost))
    if collective == "all_reduce":  # with seven NICs in each server the cost model says the same
        fewer = fl.estimate(hall.replace(nics=left), collective, "1 GiB").time
        ratio = fewer / fl.estimate(hall, collective, "1 GiB").time
        assert found.slower == pytest.approx(ratio, rel=0.05)
    assert 1 < found.slower <= 8 / left * 1.001  # the start-up is not longer
    assert found.job_after.t_step > found.job_before.t_step
    assert fl.economics.legality(hall.fabric, may_lose=0) == ()


def test_a_spine_with_nothing_to_do_costs_nothing(hall):
    found = fl.what_if(hall, "spine 0")
    assert found.slower == pytest.approx(1.0)
    assert found.nics_left == 1.0
    assert found.job_after.t_step == pytest.approx(found.job_before.t_step)


def test_the_only_nic_of_a_server_costs_the_job():
    found = fl.what_if(fl.system(gpu="H100", servers=4, nics=1), "nic 0")
    assert found.after is None and found.slower == float("inf")
    assert found.report.cut_off.size == 8
    assert "cut off" in repr(found)


def test_without_links_between_gpus_nobody_hands_over():
    fabric = fl.topologies.build("rail_optimised", servers=4, expand=False)
    hurt = fl.operations.fail(fabric, "leaf", [3])
    plan = fl.collectives.build("all_reduce", "ring", fabric.n_ranks)
    flows = fl.lower.lower(plan, fabric, "1 MiB")
    with pytest.raises((NoPath, ValueError)):
        fl.routing.route(hurt, flows, "pxn")


def test_names_are_those_that_are_printed(hall):
    name = hall.fabric.name(int(hall.fabric.nodes("leaf")[3]))
    assert fl.what_if(hall, name).slower == fl.what_if(hall, "leaf 3").slower
    for wrong, words in (
        ("leef 3", "did you mean 'leaf'"),
        ("leaf 99", "leaf 7.0"),
        ("leaf 9.9", "did you mean"),
        (3, 'such as "leaf 3"'),
        ([], "at least one"),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            fl.what_if(hall, wrong)
        assert words in str(caught.value)
    with pytest.raises(TypeError, match="system must be a System"):
        fl.what_if(hall.fabric, "leaf 3")


@pytest.mark.parametrize("lost", ["leaf 0", "nic 0", "spine 0"])
@pytest.mark.parametrize("gpu", ["MI300X", "GH200", "GB200", "A100"])
def test_servers_of_every_kind_hand_over(gpu, lost):
    servers = 36 if gpu == "GB200" else 4
    found = fl.what_if(fl.system(gpu=gpu, servers=servers), lost, size="256 MiB")
    assert found.after is not None
    assert 0.999 < found.slower < 3


def test_only_the_network_changes():
    """The published run forced an algorithm, and a network with options is built already."""
    forced = fl.system("mi325x_4n")
    for size in ("64 KiB", "16 MiB"):
        found = fl.what_if(forced, "spine 0", size=size)
        assert found.slower == pytest.approx(1.0)
        assert found.after.result.asked["chosen"] == found.before.result.asked["chosen"]
    thin = fl.system(gpu="H100", servers=16, oversubscription=2)
    assert fl.what_if(thin, "leaf 3").slower > 1


def test_a_small_array_hardly_notices_a_lost_leaf(hall):
    assert fl.what_if(hall, "leaf 3", size="64 KiB").slower == pytest.approx(1.0, abs=0.01)


def test_parts_are_numbered_in_order(hall):
    cables = fl.operations.parts(hall.fabric, "cable")
    assert fl.what_if(hall, "cable 0").slower > 1
    with pytest.raises(ValueError, match=f"cable 0 to {len(cables) - 1}"):
        fl.what_if(hall, f"cable {len(cables)}")
    gone = fl.what_if(hall, "server 5")
    assert gone.after is None and "replace(servers=7)" in repr(gone)
    assert fl.what_if(hall, "rail 3").slower == fl.what_if(hall, "leaf 3").slower
    dark = fl.what_if(hall, "nvlink 0")
    assert dark.after is None and "no path" in dark.why


def test_a_rack_counts_the_nics_of_all_its_servers():
    found = fl.what_if(fl.system(gpu="GB200", servers=36), "leaf 0", size="256 MiB")
    assert found.alone.size > 0
    assert found.nics_left == pytest.approx(1 - np.bincount(found.alone // 72).max() / 72)


def test_a_job_is_slowed_by_the_loss_and_not_by_the_size_that_was_asked_for(hall):
    steps = {fl.what_if(hall, "leaf 3", size=size).job_after.t_step for size in ("64 KiB", "4 GiB")}
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)
