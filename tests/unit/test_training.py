"""The time of a training step: the running case, laws, published rows and the search."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import training, validate
from fabriclab.catalog.tables import data_rows
from fabriclab.errors import DoesNotFit
from fabriclab.training import efficiency, kernels, places, published
from fabriclab.training.efficiency import Kind
from fabriclab.training.places import Place
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout

GPT = models.preset("Llama 3 8B")
MOE = models.preset("Mixtral 8x7B")


def of_published(row_id):
    return next(dict(row) for row in data_rows("training_steps") if row["row_id"] == row_id)


@pytest.mark.parametrize(
    "changes", [{}, {"nic_rate": "200 Gb/s"}, {"gradient_bytes": 4}, {"microbatches": 8}]
)
def test_the_running_case_comes_out(changes):
    job = fl.case(**changes)
    step = training.of_case(job)
    assert step.time == pytest.approx(
        job.t_step, rel=1e-7
    )  # its share of the backward is 0.6666667
    assert step.parts["compute"] == pytest.approx(job.t_compute, rel=1e-12)
    assert step.parts["tensor"] == pytest.approx(job.t_tp, rel=1e-12)
    assert step.parts["gradients"] == pytest.approx(job.t_dp_exposed, abs=1e-7)


def test_the_running_case_binds_on_computation():
    step = training.of_case(fl.case())
    twice = step.doubled()
    assert step.binds == "compute"
    assert twice["scale-up"] == pytest.approx(step.time - fl.case().t_tp / 2, abs=0.1)
    assert twice["memory"] == step.time
    assert step.tiers["tensor"] == "scale-up"
    assert step.tiers["gradients"] == "network"


def test_parts_add_up_and_the_timeline_has_them_all():
    layout = Layout(
        tp=2, pp=2, dp=4, chunks=2, microbatches=8, sequence_parallel=True, sharding="zero1"
    )
    step = training.train_step(GPT, layout, fl.system(gpu="H100", servers=2))
    assert sum(step.parts.values()) == pytest.approx(step.time)
    assert step.timeline[-1].finish == pytest.approx(step.time)
    assert step.low < step.time < step.high
    assert step.tokens == 4 * 8 * 8192
    assert step.mfu == pytest.approx(step.flops_per_gpu / 989e12)
    assert set(step.exposed) < set(step.parts)


def flat(layout, rate=4e14, scale_up=3e11, network=5e10, domain=8, **schedule):
    costs = training.RateCosts(scale_up=scale_up, network=network, domain=domain)
    model = MOE if layout.ep > 1 else GPT
    return training.ask(
        model, layout, training.Flat(rate=rate), costs, training.Schedule(**schedule)
    )


def some_layouts():
    return st.builds(
        lambda tp, pp, dp, ep, m, sharding: Layout(
            tp=tp,
            pp=pp,
            dp=dp,
            ep=min(ep, tp * dp),
            microbatches=m,
            sharding=sharding,
            sequence_parallel=tp > 1,
        ),
        tp=st.sampled_from([1, 2, 4]),
        pp=st.sampled_from([1, 2, 4]),
        dp=st.sampled_from([1, 2, 8]),
        ep=st.sampled_from([1, 2, 4]),
        m=st.integers(1, 8),
        sharding=st.sampled_from(["ddp", "zero1", "zero3"]),
    )


@given(layout=some_layouts(), factor=st.floats(1, 16))
def test_law_faster_parts_are_never_slower(layout, factor):
    step = flat(layout)
    for name, base in (("rate", 4e14), ("scale_up", 3e11), ("network", 5e10)):
        faster = flat(layout, **{name: base * factor})
        assert faster.time <= step.time * (1 + 1e-12)


@given(layout=some_layouts())
def test_law_hiding_is_never_slower_and_never_hides_computation(layout):
    open_ = flat(layout, gradients=False, context=False)
    hidden = flat(layout, tensor=True, experts=1.0)
    assert hidden.time <= open_.time * (1 + 1e-12)
    assert hidden.time >= hidden.parts["compute"]
    assert all(part >= 0 for part in hidden.parts.values())


@given(layout=some_layouts(), factor=st.integers(2, 5))
def test_law_a_pipeline_waits_less_with_more_microbatches(layout, factor):
    more = layout.replace(microbatches=layout.microbatches * factor)
    few, many = flat(layout), flat(more)
    assert many.parts["bubble"] == pytest.approx(few.parts["bubble"])
    assert many.parts["compute"] == pytest.approx(factor * few.parts["compute"])


def test_bubble_by_hand():
    # 32 equal layers on 4 stages and no vocabulary to speak of: 3 micro-batches of waiting, a half with two chunks.
    model = GPT.replace(vocabulary=1)
    for chunks in (1, 2):
        layout = Layout(pp=4, microbatches=8, chunks=chunks)
        costs = training.RateCosts(scale_up=1e30, network=1e30, domain=4)
        step = training.ask(model, layout, training.Flat(rate=1e15), costs, training.Schedule())
        assert step.parts["bubble"] / step.parts["compute"] == pytest.approx(
            3 / 8 / chunks, rel=1e-3
        )


def test_places_by_hand():
    layout = Layout(tp=4, pp=2, dp=4)
    assert places.place_of(layout, "tp", 8) == Place(1, 4)
    assert places.place_of(layout, "dp", 8) == Place(2, 2)
    assert places.place_of(layout, "pp", 8) == Place(2, 1)
    assert places.place_of(layout, "dp", 16) == Place(1, 4)
    assert Place(2, 2).tier == "network"


def test_places_of_ranks_that_are_dealt_out():
    layout = Layout(tp=4, dp=2)
    dealt = [0, 4, 1, 5, 2, 6, 3, 7]
    assert places.place_of(layout, "tp", 4) == Place(1, 4)
    assert places.place_of(layout, "tp", 4, dealt) == Place(2, 2)
    assert places.place_of(layout, "dp", 4, dealt) == Place(1, 2)
    with pytest.raises(ValueError, match="a different GPU for each of 8 ranks"):
        places.place_of(layout, "tp", 4, [0, 0, 1, 1, 2, 2, 3, 3])
    with pytest.raises(ValueError, match="each of 8 ranks"):
        places.place_of(layout, "tp", 4, [0, 1])


def test_a_group_has_the_nics_of_all_its_members_up_to_the_rate_inside():
    costs = training.RateCosts(scale_up=300e9, network=50e9, domain=8)
    for inside, rate in ((1, 50e9), (2, 100e9), (4, 200e9), (8, 300e9)):
        place = Place(4, inside)
        ranks = 4 * inside
        time = costs.time("all_reduce", 1e9, place)
        assert time == pytest.approx(2 * (ranks - 1) / ranks * 1e9 / rate)
        assert costs.time("send", 1e9, place) == pytest.approx(1e9 / 50e9)
    assert costs.time("all_reduce", 1e9, Place(1, 8)) == pytest.approx(1.75e9 / 300e9)


def test_two_gpus_of_a_server_share_a_sum_over_two_nics():
    # Half of the tensor group: twice the gradients on each GPU, and two NICs of each server for their ring.
    job = fl.case()
    layout = Layout(tp=4, dp=256, microbatches=2)
    step = training.of_case(job, layout=layout)
    assert step.sent["gradients"] == pytest.approx(255 / 256 * 128 / 127 * job.t_dp, rel=1e-6)


def test_costs_are_those_of_the_estimate():
    costs = training.Costs(fl.system(gpu="H100", servers=4))
    alone = fl.estimate(fl.system(gpu="H100", servers=1), "all_reduce", "64 MiB").time
    assert costs.time("all_reduce", 2**26, Place(1, 8)) == alone
    four = fl.estimate(
        fl.system(gpu="H100", servers=4, gpus=1, nics=1), "all_reduce", "64 MiB"
    ).time
    assert costs.time("all_reduce", 2**26, Place(4, 1)) == four


def test_experts_that_share_a_place_get_a_token_once():
    layout = Layout(dp=16, ep=8, microbatches=1)
    once = flat(layout, once=True).parts["experts"]
    each = flat(layout).parts["experts"]
    # two experts of 8: one of 8 draws meets the same rank again
    assert once / each == pytest.approx(8 * (1 - (7 / 8) ** 2) / 2)


def test_roofline_by_hand():
    chip = kernels.Machine("by hand", 1e15, 2e15, 4e15, 1e14, 1e30, 1e11)
    dense = GPT.replace(vocabulary=1)
    times = training.Roofline(machine=chip).layers(dense, Layout())
    flops = dense.layer_flops()
    expected = 8192 * (flops.products[0] / (0.8 * 1e15) + flops.core[0] / (0.55 * 1e15))
    assert times.forward[0] == pytest.approx(expected)
    backward = 8192 * (2 * flops.products[0] / (0.8 * 1e15) + 2.5 * flops.core[0] / (0.55 * 1e15))
    assert times.backward[0] == pytest.approx(backward)
    half = training.Roofline(machine=chip, efficiency=0.5).layers(dense, Layout())
    assert half.forward[0] == pytest.approx(2 * expected)
    low = training.Roofline(machine=chip, precision="fp8").layers(dense, Layout())
    assert low.forward[0] < times.forward[0]
    frozen = training.Roofline(machine=chip, frozen=True).layers(dense, Layout())
    saved = 8192 * flops.products[0] / (0.8 * 1e15)
    assert times.backward[0] - frozen.backward[0] == pytest.approx(saved)


def test_pooled_leans_on_what_is_common():
    seen = {
        (Kind("a", "old", "bf16"), "one"): 0.5,
        (Kind("a", "old", "fp8"), "two"): 0.5,
        (Kind("b", "new", "bf16"), "three"): 1.0,
    }
    near_a = efficiency.pooled(seen, Kind("a", "new", "fp8"))
    near_b = efficiency.pooled(seen, Kind("b", "old", "bf16"))
    assert 0.5 < near_a < near_b < 1.0
    many = {(Kind("a", "old", "bf16"), str(i)): 0.7 for i in range(50)}
    assert efficiency.pooled(many, Kind("a", "old", "bf16")) == pytest.approx(0.7)


def test_a_larger_job_reaches_less_by_what_other_models_lost():
    kind = Kind("nemo", "hopper", "bf16")
    usual = efficiency.efficiency(kind, "Grok-1")
    lost = efficiency.growth("Grok-1")
    for doublings in (-3, 1, 4):
        found = efficiency.efficiency(kind, "Grok-1", accelerators=efficiency.USUAL * 2**doublings)
        assert found == pytest.approx(usual / (1 + lost) ** doublings)
    jobs = {}
    for row in data_rows(efficiency.GROWTH):
        jobs.setdefault(row["model"], []).append(float(row["per_doubling"]))
    others = [np.median(each) for model, each in jobs.items() if model != "Grok-1"]
    assert lost == pytest.approx(np.median(others))
    assert 0.002 < lost < 0.01
    served = efficiency.efficiency(kind, table=efficiency.INFERENCE, accelerators=64)
    assert served == efficiency.efficiency(kind, table=efficiency.INFERENCE)


def test_growth_is_what_the_model_without_it_does_not_explain():
    held = validate.held_steps()
    jobs = {
        (few.model, few.kind.precision, few.step.ranks, many.step.ranks): (few, many)
        for few, many in validate.grown_jobs(held)
    }
    row = next(
        row
        for row in data_rows(efficiency.GROWTH)
        if (row["model"], row["precision"], row["few"]) == ("GPT-3 175B", "bf16", "128")
    )
    few, many = jobs["GPT-3 175B", "bf16", 128, 2048]
    times = []
    for each in (few, many):
        times.append(published.step_of_row(each.row, grows=False).time)
    explained = times[1] / times[0]
    took = many.seconds / few.seconds
    assert took == pytest.approx(explained * (1 + float(row["per_doubling"])) ** 4, rel=1e-3)


def test_jobs_with_the_same_work_for_each_accelerator_lose_as_published():
    changes = []
    for few, many in validate.grown_jobs(validate.held_steps()):
        changes.append((many.seconds / few.seconds, many.step.time / few.step.time))
    assert len(changes) == 27
    seen, said = np.array(changes).T
    assert np.sum((seen < 0.995) | (seen > 1.005)) == 22
    wrong = (np.abs(seen - 1) > 0.005) & ((seen > 1) != (said > 1))
    assert wrong.sum() <= 4  # three of them took less time on more accelerators
    assert np.abs(seen - said).max() < 0.055


def test_no_prediction_reads_a_result_or_its_own_model():
    for row_id in ("TS0001", "TS0028", "TS0323", "TS0219"):
        row = of_published(row_id)
        blind = {name: cell for name, cell in row.items() if name not in validate.steps.RESULTS}
        wrong = {**row, **dict.fromkeys(validate.steps.RESULTS, "12345")}
        assert validate.predict_step(blind) == validate.predict_step(wrong)
        asked = published.read_row(row)
        seen = efficiency._seen(asked.model.name)
        assert not [model for _, model in seen if model == asked.model.name]


def test_what_cannot_be_said():
    row = of_published("TS0028")
    assert validate.predict_step({**row, "model": "a model of 7 things"}) is None
    assert validate.predict_step({**row, "accelerator": "abacus"}) is None
    assert validate.predict_step({**row, "global_batch_seqs": ""}) is None
    assert validate.predict_step({**row, "task": "rl"}) is None
    assert validate.predict_step({**row, "gpus": "250"}) is None
    assert validate.predict_step({}) is None


def test_missing_layout_is_inferred():
    row = {**of_published("TS0335"), "dp": "", "grad_accum": "", "fsdp": "", "vp": ""}
    assert validate.predict_step(row) == validate.predict_step(of_published("TS0335"))


def test_search_names_the_best_and_its_front():
    system = fl.system(gpu="H100", servers=2)
    few = list(training.candidates(GPT, system, 64))[::9]
    done = []
    found = training.search(
        GPT, system, 64, layouts=few, executor=None, progress=lambda n, of: done.append((n, of))
    )
    assert done[-1] == (len(few), len(few))
    assert found.best.time == min(trial.time for trial in found.trials)
    front = found.front
    assert front[0] is found.best
    assert all(a.time <= b.time and a.memory > b.memory for a, b in itertools.pairwise(front))
    assert "longer" in found.why
    with ThreadPoolExecutor(2) as pool:
        again = training.search(GPT, system, 64, layouts=few, executor=pool)
    assert [t.time for t in again.trials] == [t.time for t in found.trials]


def test_search_ends_cleanly_when_interrupted():
    system = fl.system(gpu="H100", servers=2)
    few = list(training.candidates(GPT, system, 64))[:40]

    def stop(done, _):
        if done >= 16:
            raise KeyboardInterrupt

    found = training.search(GPT, system, 64, layouts=few, executor=None, progress=stop)
    assert not found.complete
    assert len(found.trials) + found.too_large == 16


def test_search_refuses_what_fits_nowhere():
    system = fl.system(gpu="H100", servers=1)
    large = models.preset("Llama 3 405B")
    with pytest.raises(DoesNotFit, match="none of"):
        training.search(
            large,
            system,
            8,
            layouts=[Layout(tp=8, sequence_parallel=True, microbatches=8)],
            executor=None,
        )
    with pytest.raises(ValueError, match="no layout divides"):
        training.search(large, system, 8, layouts=[], executor=None)


def test_candidates_divide_everything():
    system = fl.system(gpu="H100", servers=2)
    for layout in training.candidates(MOE, system, 32):
        assert layout.ranks == 16
        assert layout.batch == 32
        layouts.check(layout, MOE, 16)


def test_the_aims_on_published_steps():
    report = validate.step_report()
    every = next(iter(report.parts.values())).rows[0]
    assert every["number"] > 340
    assert every["median"] <= 0.10
    assert every["p90"] <= 0.25
    assert every["median"] <= every["constant median"] / 2
    assert every["p90"] <= every["constant p90"] / 2
    pairs = report.parts["which of two layouts is faster"].rows[0]
    assert pairs["model right"] >= 0.85
    assert np.isfinite(every["constant p90"])


def test_groups_that_share_cables_slow_each_other_down():
    # As in lesson 31: in order every flow has a cable to itself, after a shuffle the hash puts several on one.
    hall = fl.system(gpu="H100", servers=128)
    layout = Layout(tp=8, dp=128, microbatches=4, sequence_parallel=True, sharding="zero1")
    order = np.random.default_rng(1).permutation(128)
    ordered = training.slowdowns(layout, hall)
    shuffled = training.slowdowns(layout, hall, servers=order)
    sprayed = training.slowdowns(layout, hall, servers=order, method="spray")
    assert set(ordered) == {"dp_cp", "shard"}  # tensor parallelism stays inside a server
    assert ordered["dp_cp"] == 1
    assert shuffled["dp_cp"] == pytest.approx(4, rel=0.01)  # four flows on one cable
    assert sprayed["dp_cp"] == pytest.approx(1)

    model = models.preset("Llama 3 70B")
    before = training.train_step(model, layout, hall, slowdowns=ordered)
    after = training.train_step(model, layout, hall, slowdowns=shuffled)
    assert training.train_step(model, layout, hall).time == before.time
    assert after.parts["compute"] == before.parts["compute"]
    assert after.sent["tensor"] == before.sent["tensor"]
    ratio = after.sent["gradients"] / before.sent["gradients"]
    assert 3 < ratio < shuffled["dp_cp"]  # bytes take so much longer, the start-up does not


def test_leaves_with_fewer_uplinks_slow_all_groups_alike():
    # By rack, 48 ports down and 16 up; a shuffled ring nearly always leaves its leaf, and then has a third of a cable.
    thin = fl.system(gpu="H100", servers=96, fabric="leaf_spine", oversubscription=3)
    order = np.random.default_rng(1).permutation(96)
    apart = training.slowdowns(Layout(tp=8, dp=96), thin, method="spray", servers=order)
    assert 2.5 < apart["dp_cp"] <= 3.01


def test_an_order_that_is_no_permutation_is_refused():
    hall = fl.system(gpu="H100", servers=4)
    with pytest.raises(ValueError, match=r"each of 0..3 once"):
        training.slowdowns(Layout(tp=8, dp=4), hall, servers=[0, 1, 2, 2])
    with pytest.raises(ValueError, match="32 GPUs"):
        training.slowdowns(Layout(tp=8, dp=8), hall)


def test_the_first_keys_and_values_come_before_attention_can_hide_any():
    # So slow a computation hides all that travels while it runs; a rank still waits for its first neighbour.
    layout = Layout(cp=4, sequence=8192)
    slow = flat(layout, rate=1e12)
    assert slow.parts["context"] == pytest.approx(slow.sent["context"] / 4)
    quick = flat(layout, rate=1e18)
    assert slow.parts["context"] < quick.parts["context"] <= quick.sent["context"]


def test_contention_of_a_rack_keeps_groups_inside_its_links_out():
    # 72 GPUs of a rack reach each other without NICs, so a tensor group of eight in two servers of four has no cables.
    racks = fl.system(gpu="GB200", servers=36)
    layout = Layout(tp=8, dp=18)
    apart = training.slowdowns(layout, racks)
    assert "tp" not in apart and apart["dp_cp"] >= 1
    scattered = np.arange(36).reshape(2, 18).T.ravel()  # every second server in the other rack
    assert "tp" in training.slowdowns(layout, racks, servers=scattered)


def test_the_best_constant_has_not_seen_the_model():
    kinds = [Kind("a", "h100", "bf16")] * 5
    known = efficiency.unseen([0.1, 0.3, 0.5, 0.5, 0.8], kinds, ["x", "x", "y", "y", "z"])
    # The median of the others, each model once: of y and z for x, of x (0.2) and z for y, of x and y for z.
    assert known == pytest.approx([0.65, 0.65, 0.5, 0.5, 0.35])
