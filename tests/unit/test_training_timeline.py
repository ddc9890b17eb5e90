"""The timeline of a step, scaling and the audit of a table: cases by hand, laws, and what is refused."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import training
from fabriclab.training import audit, scaling
from fabriclab.training.timeline import NAMES
from fabriclab.views import live
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout

GPT = models.preset("Llama 3 8B")


def step_of(layout, model=GPT, **schedule):
    costs = training.RateCosts(scale_up=3e11, network=5e10, domain=8)
    return training.ask(
        model, layout, training.Flat(rate=4e14), costs, training.Schedule(**schedule)
    )


pipelines = st.builds(
    lambda tp, pp, groups, chunks, sharding: Layout(
        tp=tp,
        pp=pp,
        dp=2,
        chunks=chunks if pp > 1 else 1,
        microbatches=groups * pp,
        sharding=sharding,
        sequence_parallel=tp > 1,
    ),
    tp=st.sampled_from([1, 2, 8]),
    pp=st.sampled_from([1, 2, 4, 8]),
    groups=st.integers(1, 3),
    chunks=st.sampled_from([1, 2, 4]),
    sharding=st.sampled_from(["ddp", "zero1"]),
)


@given(layout=pipelines)
def test_law_the_bars_of_each_stage_add_up_to_the_step(layout):
    step = step_of(layout)
    shown = training.step_timeline(step)
    assert shown.end == pytest.approx(step.time)
    for stage in range(layout.pp):
        bars = shown.of(stage)
        assert sum(bar.time for bar in bars) == pytest.approx(step.time)
        assert bars[0].start == 0
        for before, after in itertools.pairwise(bars):
            assert before.finish == pytest.approx(after.start)
        assert {bar.name for bar in bars} <= set(NAMES)
        busy = shown.total("forward", stage) + shown.total("backward", stage)
        assert busy == pytest.approx(layout.microbatches * step.stages[stage].compute)
        assert shown.total("tensor", stage) == pytest.approx(
            layout.microbatches * step.stages[stage].exposed["tensor"]
        )


@given(layout=pipelines)
def test_law_a_stage_waits_for_the_micro_batch_of_the_one_before(layout):
    shown = training.step_timeline(step_of(layout))
    done = {}
    for bar in shown.bars:
        if bar.microbatch >= 0 and bar.name in ("forward", "backward"):
            key = (bar.name, bar.stage, bar.microbatch)
            first, last = done.get(key, (bar.start, bar.finish))
            done[key] = (min(first, bar.start), max(last, bar.finish))
    for stage in range(1, layout.pp):
        for m in range(layout.microbatches):
            assert done["forward", stage, m][0] >= done["forward", stage - 1, m][0]
            assert done["backward", stage - 1, m][1] >= done["backward", stage, m][1]
    for m in range(layout.microbatches):
        last = layout.pp - 1
        assert done["backward", last, m][1] > done["forward", last, m][1]


def test_a_slow_first_stage_needs_less_than_the_step_counts_and_the_rest_is_a_wait():
    # 5 layers on 4 stages: one stage has two of them. It is moved to the front.
    step = step_of(Layout(pp=4, microbatches=8), GPT.replace(layers=5, vocabulary=1))
    slow_first = sorted(step.stages, key=lambda stage: -stage.time)
    step = replace(step, stages=tuple(slow_first))
    shown = training.step_timeline(step)
    for stage in range(4):
        assert sum(bar.time for bar in shown.of(stage)) == pytest.approx(step.time)
    assert shown.total("wait", 0) == pytest.approx(step.parts["bubble"])
    last = shown.of(0)[-1]
    assert last.name == "wait" and last.time > 0.05 * step.time  # it is done before the step ends


def test_gradients_of_the_case_lie_under_the_last_backward_pass():
    step = training.of_case(fl.case())
    (nic,) = training.step_timeline(step).overlapped
    last = [bar for bar in training.step_timeline(step).bars if bar.name == "backward"][-1]
    assert nic.time == pytest.approx(fl.case().t_dp)
    assert last.start < nic.start < last.finish < nic.finish == pytest.approx(step.time)


def test_the_graph_of_a_timeline_is_drawn_and_run():
    shown = training.step_timeline(training.of_case(fl.case()))
    timeline, flows = shown.graph()
    assert timeline.end == pytest.approx(shown.end)
    assert flows.n_flows == len(shown.bars) + len(shown.overlapped)
    assert "tensor sums" in str(fl.views.timeline(timeline, flows).table)
    # An engine that runs these computations ends when they ended.
    assert flows.start.max() == pytest.approx(shown.end)


def test_what_one_thing_twice_as_fast_changes_is_what_doubled_says():
    step = training.of_case(fl.case())
    for what, time in step.doubled().items():
        assert step.faster(what).time == time
    with pytest.raises(ValueError, match="what must be"):
        step.faster("cooling")


def test_pieces_add_up_to_the_case_and_windows_are_those_of_the_step():
    job = fl.case()
    pieces = training.of_case(job).pieces
    assert pieces.microbatches * (pieces.compute + pieces.sums) + pieces.last == pytest.approx(
        job.t_step
    )
    assert pieces.overlap == pytest.approx(job.window * (1 - 1 / job.layers))
    assert pieces.last == pytest.approx(job.t_dp / job.layers)


def test_the_view_of_a_step_has_a_lane_for_each_stage_and_one_for_the_nic():
    step = step_of(Layout(tp=8, pp=4, dp=2, microbatches=4))
    view = live.step(step)
    table = view.scene.table
    assert list(table["lane"]) == ["stage 0", "stage 1", "stage 2", "stage 3", "NIC of stage 0"]
    # Whatever a stage does, it does until the step ends.
    doing = [table[column][:4] for column in table.columns if column.endswith("[s]")]
    assert sum(doing) == pytest.approx(step.time)
    before = view.scene.said
    assert view.set(twice="scale-up").scene.said != before


# Scaling ----------------------------------------------------------------------------------------


def test_intensity_by_hand():
    # Data parallel over many: 6 operations a parameter and token, 2 bytes down and 2 up.
    model = GPT.replace(vocabulary=1, sequence=16)
    layout = Layout(dp=1024, microbatches=8)
    tokens = 8 * 16
    assert scaling.intensity(model, layout, "gradients") == pytest.approx(6 * tokens / 4, rel=0.01)
    assert scaling.intensity(model, Layout()) == np.inf


def test_rounds_by_hand():
    layout = Layout(tp=8, dp=4, microbatches=2)
    # 4 all-reduces a layer and micro-batch of 14 rounds.
    assert scaling.rounds(GPT, layout, "tensor") == 32 * 2 * 4 * 14
    piped = Layout(pp=2, microbatches=3)
    assert (
        scaling.rounds(GPT, piped, "pipeline") == 3
    )  # forward on one stage, backward on the other


@given(factor=st.sampled_from([1, 2, 4, 8]))
def test_law_strong_scaling_never_beats_weak_scaling(factor):
    step = step_of(Layout(tp=8, dp=2, microbatches=8))
    weak = scaling.efficiency(step, factor)
    strong = scaling.efficiency(step, factor, batch="same")
    assert strong <= weak * (1 + 1e-12)
    assert weak <= 1 + 1e-9
    grown = scaling.grown(step, factor, batch="same")
    assert grown.tokens == step.tokens and grown.ranks == factor * step.ranks
    assert scaling.grown(step, factor).tokens == factor * step.tokens


def test_what_scaling_refuses():
    step = step_of(Layout(tp=8, dp=2, microbatches=3))
    with pytest.raises(ValueError, match="must divide the 3 micro-batches"):
        scaling.grown(step, 2, batch="same")
    with pytest.raises(ValueError, match="batch must be"):
        scaling.grown(step, 2, batch="smaller")
    with pytest.raises(ValueError, match="rate must be > 0"):
        scaling.ridge(0, "50 GB/s")
    with pytest.raises(ValueError, match="the nearest is 8192"):
        scaling.sized(models.of_case(fl.case()), 8000)
    with pytest.raises(ValueError, match="must be dense"):
        scaling.sized(models.preset("Mixtral 8x7B"), 4096)


def test_a_model_of_its_own_size_is_itself():
    shape = models.of_case(fl.case())
    same = scaling.sized(shape, shape.hidden)
    assert same.parameters == shape.parameters
    twice = scaling.sized(shape, 2 * shape.hidden)
    assert twice.layers == 2 * shape.layers and twice.feed_forward == 2 * shape.feed_forward
    usual = layouts.of_case(fl.case())
    assert scaling.intensity(same, usual) == scaling.intensity(shape, usual)


# A published table ------------------------------------------------------------------------------


def test_a_table_without_a_slip_has_no_misprint():
    good = []
    for row in audit.ring_table():
        if row.name.startswith("13B"):
            good.append(row)
    assert audit.misprint(good) is None


@pytest.mark.parametrize("column", ["default", "own"])
def test_a_slip_in_any_entry_is_found(column):
    good = [row for row in audit.ring_table() if row.name.startswith("13B")]
    for i, row in enumerate(good):
        if row.unit == "samples/s":
            typed = [
                *good[:i],
                replace(row, **{column: 1.01 * getattr(row, column)}),
                *good[i + 1 :],
            ]
            slip = audit.misprint(typed)
            assert slip.name == row.name
            assert slip.expected == pytest.approx(getattr(row, column), rel=1e-3)
