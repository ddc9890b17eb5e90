"""What the questions of lessons 71 and 71b call right and wrong is so in the library."""

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, training
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson71
from fabriclab.course.questions import find, misconception
from fabriclab.training import places
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout
from fabriclab.workload.memory import memory
from fabriclab.workload.volumes import volumes

CASE = catalog.case()
MODEL = models.of_case(CASE)
RANK = np.arange(1024)
DEALT = RANK % 128 * 8 + RANK // 128


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")


# Who talks to whom ------------------------------------------------------------------------------------------------


def test_the_example_has_eight_groups_of_64_each_on_one_rail():
    groups = Layout(tp=8, dp=64).groups("dp")
    assert groups.shape == (8, 64)
    assert [{rank % 8 for rank in row} for row in groups.tolist()] == [{rail} for rail in range(8)]
    right = [option for option, mistake in find("71-groups").options({}).values() if not mistake]
    assert right[0].startswith("8 groups of 64")


def test_dealt_out_tensor_groups_reach_eight_servers_and_data_groups_fill_16():
    layout = layouts.of_case(CASE)
    assert places.place_of(layout, "tp", 8)[:2] == (1, 8)
    assert places.place_of(layout, "dp", 8)[:2] == (128, 1)
    assert places.place_of(layout, "tp", 8, DEALT)[:2] == (8, 1)
    assert places.place_of(layout, "dp", 8, DEALT)[:2] == (16, 8)


def test_the_restart_takes_as_long_as_bytes_over_rates_say():
    step = training.of_case(CASE, placement=DEALT)
    tensor = CASE.tp_bytes / CASE.nic_rate
    assert step.parts["tensor"] == pytest.approx(tensor, rel=1e-9)
    assert step.parts["compute"] == pytest.approx(CASE.t_compute)
    # A data group has eight NICs in each of its servers, more than the links inside can use.
    assert step.sent["gradients"] == pytest.approx(CASE.dp_bytes / CASE.tp_busbw)
    assert step.time == pytest.approx(CASE.t_compute + tensor, abs=2e-3)
    assert CASE.tp_bytes / CASE.dp_bytes == pytest.approx(8.59, abs=0.01)


def test_the_flow_engine_agrees_with_both_places_of_a_sum():
    cluster = fl.topologies.build("rail_optimised")
    groups = layouts.of_case(CASE).groups("tp")
    for placement, rate in ((RANK, CASE.nvlink_per_gpu), (DEALT, CASE.nic_rate)):
        run = fl.simulate(
            "all_reduce", "ring", cluster, CASE.tp_message, placement=placement[groups]
        )
        assert run.time == pytest.approx(1.75 * CASE.tp_message / rate, rel=0.02)


# What is sent -----------------------------------------------------------------------------------------------------


def right_bytes(tp, layers, microbatches, tokens, hidden):
    message = 2 * tokens * hidden
    sums = 4 * layers * microbatches
    return sums * 2 * (tp - 1) / tp * message


def by_halves(tp, layers, microbatches, tokens, hidden):
    total = 0.0
    for _ in range(microbatches):
        total += 8 * layers * (tokens * hidden * 2 - tokens * hidden * 2 / tp)
    return total


@pytest.mark.parametrize("rule", [right_bytes, by_halves])
def test_right_bytes_are_right(rule):
    assert check("71-write-bytes", rule).data["right"]
    assert right_bytes(8, 80, 4, 8192, 8192) == CASE.tp_bytes


def test_a_message_and_the_gradients_are_those_of_the_ledger():
    sums = volumes(MODEL, Layout(tp=8)).only("tensor")
    assert {line.size for line in sums} == {find("71-message").key({"s": 8192, "h": 8192})}
    sent = volumes(MODEL, layouts.of_case(CASE, sharding="ddp")).sent("gradients")
    assert sent == pytest.approx(find("71-gradients").key({"p": 70.55, "t": 8, "d": 128}), rel=1e-3)


@pytest.mark.parametrize(("p", "m"), [(4, 20), (8, 28)])
def test_the_bubble_is_that_of_the_pipeline(p, m):
    from fabriclab.views.live.training import idle_share, pipeline_run

    share = idle_share(pipeline_run(p, m, "1F1B"), p)
    assert share == pytest.approx(find("71-bubble").key({"p": p, "m": m}))


# A layout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"tp": 4, "dp": 256, "microbatches": 2, "sharding": "zero3"},
        {"tp": 4, "dp": 256, "microbatches": 2, "sharding": "fsdp", "sequence_parallel": True},
        {"tp": 4, "dp": 256, "microbatches": 2, "sharding": "zero3", "shard": 64},
    ],
)
def test_a_layout_that_fits_and_is_fast_is_right(fields):
    assert check("71-layout", lambda: Layout(**fields)).data["right"]


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"tp": 4, "dp": 256, "microbatches": 2, "sharding": "zero1"}, "does not fit"),
        ({"tp": 8, "dp": 128, "microbatches": 4}, "does not fit"),
        ({"tp": 8, "pp": 4, "dp": 32, "microbatches": 16, "sharding": "zero1"}, "a long bubble"),
        ({"tp": 8, "dp": 128, "microbatches": 4, "sharding": "zero1"}, "sums cost most"),
        ({"tp": 16, "dp": 64, "microbatches": 8, "sharding": "zero1"}, "sums cost most"),
        (
            {
                "tp": 4,
                "dp": 256,
                "microbatches": 2,
                "sharding": "zero3",
                "recompute": "full",
            },
            "computed again",
        ),
    ],
)
def test_a_layout_that_is_not_is_told_why(fields, mistake):
    shown = check("71-layout", lambda: Layout(**fields))
    assert not shown.data["right"] and shown.data["named"] == mistake
    assert misconception("71-layout", mistake) in str(shown)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: None,
        lambda: 8,
        lambda: Layout(tp=8, dp=64, microbatches=8),
        lambda: Layout(tp=8, dp=128, microbatches=2),
        lambda: Layout(tp=8, dp=128, microbatches=4, sequence=4096),
        lambda: Layout(tp=8, dp=128, microbatches=4, weight_bytes=1),
        lambda: Layout(tp=128, dp=8, microbatches=64),
        lambda: 1 / 0,
        lambda tp: Layout(tp=tp),
    ],
)
def test_another_job_or_no_layout_is_not_counted(answer):
    assert not check("71-layout", answer).data["counted"]


def test_the_case_itself_is_slower_than_what_is_asked_for():
    assert CASE.t_step > lesson71.LONGEST_STEP > 4.2


# 71b --------------------------------------------------------------------------------------------------------------


def kept(**changes):
    layout = layouts.of_case(CASE, sequence_parallel=True, **changes)
    return memory(MODEL, layout, activations="rule")


def test_state_is_as_the_answer_says():
    own = CASE.parameters / CASE.tp / 1e9
    assert kept().state[0] == pytest.approx(find("71b-state").key({"p": own, "d": 128}), rel=1e-6)
    assert kept(sharding="ddp").state[0] == pytest.approx(16e9 * own, rel=1e-6)
    assert kept(sharding="zero3").state[0] == pytest.approx(16e9 * own / 128, rel=1e-6)


@pytest.mark.parametrize(("sharding", "times"), [("ddp", 2), ("zero1", 2), ("zero3", 3)])
def test_sharding_sends_as_many_times_the_weights_as_is_said(sharding, times):
    part = CASE.dp_gradients * 127 / 128
    for microbatches in (1, 4):
        layout = layouts.of_case(CASE, sharding=sharding, microbatches=microbatches)
        sent = volumes(MODEL, layout).sent("gradients", "parameters")
        repeats = microbatches if sharding == "zero3" else 1
        assert sent == pytest.approx(times * repeats * part, rel=1e-6)


def test_hybrid_sharding_sends_what_the_answer_says():
    model = models.preset("Llama 3 8B")
    layout = Layout(dp=128, shard=8, sharding="zero3")
    lines = volumes(model, layout)
    across = sum(line.sent for line in lines if line.group == "replica")
    question = find("71b-hybrid")
    wanted = question.key({"k": 8, "g": f"{2 * model.parameters / 1e9} GB", "r": 16})
    assert across == pytest.approx(wanted, rel=1e-6)


def test_parameters_elsewhere_cross_the_middle_for_each_worker():
    wanted = find("71b-servers").key({"n": 1024, "s": "17.6 GB"})
    assert wanted == pytest.approx(CASE.gpus * CASE.dp_gradients, rel=5e-3)
    rings = 8 * CASE.dp_bytes
    assert wanted / rings == pytest.approx(64.5, abs=0.3)
