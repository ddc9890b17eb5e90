"""Inference: tokens counted by hand, limits, laws, refusals, memory beyond the GPU, and published runs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import training, validate
from fabriclab.catalog.tables import data_rows
from fabriclab.errors import DoesNotFit
from fabriclab.training import efficiency, kernels, served
from fabriclab.training.places import Place
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout

LARGE = models.preset("Llama 3.1 405B")
MIDDLE = models.preset("Llama 3 70B")
MOE = models.preset("Mixtral 8x7B")
ONE_BOX = fl.system(gpu="MI300X", servers=1)
TWO_BOXES = fl.system(gpu="MI300X", servers=2)


def costs(latency=0.0, rate=1e30):
    both = {"scale-up": latency, "network": latency}
    return training.LatencyCosts(latency=both, rate={"scale-up": rate, "network": rate}, domain=8)


def served_405b(**changes):
    given = {"layout": Layout(tp=8), "system": ONE_BOX, **changes}
    return training.serve(LARGE, given.pop("layout"), given.pop("system"), **given)


def test_cache_of_a_token_by_hand():
    # keys and values x 80 layers x 8 heads x 128 numbers x 2 bytes
    assert MIDDLE.cache_bytes(1) == 2 * 80 * 8 * 128 * 2 == 327_680
    sent = training.handover(MIDDLE, 1000, "32.768 GB/s")
    assert sent.size == 327_680_000
    assert sent.time == pytest.approx(0.01)
    assert sent.requests == pytest.approx(100)


def test_a_token_waits_for_252_sums():
    found = served_405b(costs=costs(latency=40e-6))
    assert found.sums == 252
    assert found.parts["latency"] == pytest.approx(10.08e-3)
    assert found.token == pytest.approx(served_405b(costs=costs()).token + 10.08e-3)
    assert found.sent["tensor"] == pytest.approx(252 * 2 * 7 / 8 * 16384 * 2)


def test_weights_are_read_once_for_a_token():
    found = served_405b(costs=costs())
    table = LARGE.table_parameters
    read = (LARGE.layer_parameters.sum() + table) / 8 * 2
    assert found.parts["weights"] == pytest.approx(read / (0.8 * 5.3e12))
    assert found.parts["compute"] == 0
    halved = served_405b(costs=costs(), layout=Layout(tp=16), system=TWO_BOXES)
    assert halved.parts["weights"] == pytest.approx(found.parts["weights"] / 2)
    # one GPU more than heads of keys and values has no less cache to read
    assert halved.parts["cache"] == pytest.approx(found.parts["cache"])


def test_cache_is_read_for_each_request():
    few = served_405b(costs=costs(), batch=8, input_tokens=4000, output_tokens=96)
    read = 8 * LARGE.cache_bytes(4048) / 8
    assert few.parts["cache"] == pytest.approx(read / (0.8 * 5.3e12))


def test_prompt_by_hand():
    found = served_405b(costs=costs(latency=1e-6), input_tokens=2048)
    by_layer = LARGE.layer_flops(2048)
    m = kernels.machine("mi300x")
    products = by_layer.products.sum() * 2048 / 8 / (0.8 * m.bf16)
    core = by_layer.core.sum() * 2048 / 8 / (0.55 * m.bf16)
    assert found.reading_parts["compute"] == pytest.approx(products + core)
    assert found.reading_parts["latency"] == pytest.approx(252e-6)
    assert found.first == pytest.approx(found.reading)
    assert found.completion == pytest.approx(found.reading + 127 * found.token)
    assert found.throughput == pytest.approx(128 / found.completion)


def test_stages_take_turns_or_work_at_the_same_time():
    system = fl.system(gpu="H200", servers=1)
    one = training.serve(LARGE, Layout(pp=8), system, precision="fp8", costs=costs())
    alone = training.serve(LARGE, Layout(tp=8), system, precision="fp8", costs=costs())
    # stages read the same weights one after another that tensor-parallel ranks read together
    assert one.parts["weights"] == pytest.approx(8 * alone.parts["weights"], rel=1e-9)
    assert one.sums == 0
    eight = one.replace(batch=8)
    assert eight.token == pytest.approx(one.token, rel=0.03)  # the fullest stage sets the pace
    assert eight.tokens_per_second > 7.7 * one.tokens_per_second


def test_experts_are_read_if_a_token_meets_them():
    system = fl.system(gpu="H200", servers=1)
    one = training.serve(MOE, Layout(tp=8), system, costs=costs())
    many = training.serve(MOE, Layout(tp=8), system, costs=costs(), batch=64)
    dense = (MOE.layer_parameters - MOE.routed_parameters).sum() + MOE.table_parameters
    routed = MOE.routed_parameters.sum()
    rate = 0.8 * kernels.machine("h200").hbm
    assert one.parts["weights"] == pytest.approx((dense + routed * 2 / 8) / 8 * 2 / rate)
    assert many.parts["weights"] == pytest.approx((dense + routed) / 8 * 2 / rate, rel=1e-3)


def test_expert_parallel_ranks_exchange_tokens():
    system = fl.system(gpu="H200", servers=1)
    layout = Layout(dp=8, ep=8)
    found = training.serve(MOE, layout, system, batch=64, costs=costs(latency=5e-6))
    # every layer dispatches and combines: 8 tokens to 2 experts, 7 of 8 elsewhere
    assert found.sums == 2 * 32
    assert found.sent["experts"] == pytest.approx(64 * 8 * 2 * 4096 * 2 * 7 / 8)
    by_nccl = training.serve(MOE, layout, system, batch=64, costs=costs(latency=5e-6), direct=False)
    assert by_nccl.parts["latency"] == pytest.approx(64 * 5e-6)


def test_without_latency_and_with_endless_batch_a_roofline_is_left():
    system = fl.system(gpu="H200", servers=1)
    found = training.serve(
        MIDDLE, Layout(tp=8), system, input_tokens=1, output_tokens=2, batch=200_000, costs=costs()
    )
    m = kernels.machine("h200")
    products = MIDDLE.layer_flops(1).products.sum() + MIDDLE.head_flops
    ceiling = 8 * 0.8 * m.bf16 / products
    moved = found.parts["activations"] + found.parts["cache"]
    assert found.tokens_per_second < ceiling
    assert 200_000 / (found.token - moved) == pytest.approx(ceiling, rel=0.01)


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from([1, 2, 4, 8]))
def test_more_requests_make_tokens_slower_and_throughput_higher(a, b, tp):
    system = fl.system(gpu="H200", servers=1, gpus=tp)
    small = models.preset("Llama 3 8B")
    few = training.serve(small, Layout(tp=tp), system, batch=min(a, b))
    many = training.serve(small, Layout(tp=tp), system, batch=max(a, b))
    assert few.token <= many.token * (1 + 1e-12)
    assert few.tokens_per_second <= many.tokens_per_second * (1 + 1e-12)
    read = small.layer_parameters.sum() * 2 / tp / kernels.machine("h200").hbm
    assert many.each < 1 / read


@given(st.floats(0, 1e-3), st.floats(1e9, 1e12))
def test_collectives_only_add(latency, rate):
    free = served_405b(costs=costs())
    slow = served_405b(costs=costs(latency, rate))
    assert slow.token >= free.token
    assert slow.token == pytest.approx(sum(slow.parts.values()))
    computed = ("weights", "cache", "compute", "activations")
    assert all(slow.parts[name] == free.parts[name] for name in computed)


def test_what_binds():
    assert served_405b().binds == "memory"
    slow = served_405b(costs=costs(latency=300e-6))
    assert slow.binds == "latency"
    assert slow.halved()["latency"] == pytest.approx(slow.token - 252 * 150e-6)
    narrow = served_405b(costs=costs(rate=1e8))
    assert narrow.binds == "scale-up"
    assert served_405b(batch=900, input_tokens=64, output_tokens=16).binds == "compute"


def test_largest_latency_is_the_inverse():
    found = served_405b(costs=costs(latency=40e-6))
    assert training.tolerable_latency(found, found.each) == pytest.approx(40e-6)
    slower = training.tolerable_latency(found, 20.0)
    assert served_405b(costs=costs(latency=slower)).each == pytest.approx(20.0)
    with pytest.raises(ValueError, match="without any latency it is"):
        training.tolerable_latency(found, 1000.0)
    step = training.of_case(fl.case())
    # 80 layers x 4 micro-batches x 4 all-reduces
    assert training.tolerable_latency(step, step.time + 1.28) == pytest.approx(1e-3, rel=1e-6)
    alone = training.train_step(
        models.preset("Llama 3 8B"),
        Layout(dp=8, sharding="zero3"),
        fl.system(gpu="H100", servers=1),
    )
    assert training.tolerable_latency(alone, 100.0) == math.inf


def test_refusals_name_the_way_out():
    with pytest.raises(DoesNotFit, match=r"101 GB of weights .* tp=16 on 16 GPUs"):
        training.serve(LARGE, Layout(tp=8), fl.system(gpu="H100", servers=1))
    with pytest.raises(DoesNotFit, match="the cache of 2,000 requests"):
        served_405b().replace(batch=2000)
    with pytest.raises(ValueError, match="input_tokens must be"):
        served_405b().replace(input_tokens=0)
    with pytest.raises(DoesNotFit, match=r"batch=\d+ fits") as refused:
        served_405b(batch=10_000)
    fits = int(str(refused.value).split("batch=")[1].split()[0])
    assert served_405b(batch=fits).batch == fits
    with pytest.raises(ValueError, match="the nearest that do are 8 and 16"):
        training.serve(LARGE, Layout(tp=12), fl.system(gpu="MI300X", gpus=6, servers=2))
    with pytest.raises(ValueError, match="dp=2 uses them all"):
        served_405b(system=TWO_BOXES)
    with pytest.raises(DoesNotFit, match="at most 8 fit"):
        served_405b(layout=Layout(tp=16), system=TWO_BOXES, inside=("tp",))
    with pytest.raises(ValueError, match="efficiency must be"):
        served_405b(efficiency=0)
    with pytest.raises(ValueError, match="batch must be"):
        served_405b(batch=0)
    with pytest.raises(ValueError, match="must have experts"):
        training.exchange(LARGE, 1, costs(), Place(1, 8))


def test_display():
    found = served_405b(batch=4)
    assert "batch 4" in repr(found)
    assert "weights" in found._repr_html_()
    assert found.cache == 4 * LARGE.cache_bytes(1152)


def test_a_sweep_gives_the_times_of_its_domain():
    sweep = fl.catalog.published.load("mi300x_1n")
    inside = training.SweepCosts(sweep=sweep, other=costs(latency=1e-3))
    whole = Place(1, 8)
    for size in (32768, 2**21, 2**30):
        assert sum(inside.split("all_reduce", size, whole)) == pytest.approx(sweep.at(size))
    startup, data = inside.split("all_reduce", 4.0, whole)
    assert startup == sweep.time.min()
    assert startup + data == pytest.approx(sweep.time[0])
    between = sum(inside.split("all_reduce", 3e6, whole))
    assert sweep.at(2**21) < between < sweep.at(2**22)
    last = sweep.size[-1]
    assert sum(inside.split("all_reduce", 2 * last, whole)) == pytest.approx(2 * sweep.at(last))
    assert sum(inside.split("all_reduce", 100.0, Place(2, 8))) == pytest.approx(1e-3)
    assert sum(inside.split("all_gather", 100.0, whole)) == pytest.approx(1e-3)
    fast = inside.doubled("scale-up")
    assert fast.split("all_reduce", 2**30, whole)[1] == pytest.approx(
        inside.split("all_reduce", 2**30, whole)[1] / 2
    )


def test_calibrated_meets_the_published_rate():
    found = served_405b(costs=costs(latency=20e-6)).calibrated(24.6)
    assert found.throughput == pytest.approx(24.6)
    assert found.waiting == pytest.approx(128 * 252 * 20e-6)
    with pytest.raises(ValueError, match="collectives alone allow"):
        served_405b(costs=costs(latency=1e-3)).calibrated(24.6)


def test_most_readers_at_a_speed():
    found = served_405b(costs=costs(latency=20e-6))
    most = found.readers(20.0)
    assert found.replace(batch=most).each >= 20 > found.replace(batch=most + 1).each
    assert found.readers(1000.0) == 0
    assert found.readers(0.001) == training.largest_batch(found.room, found.layout)
    copies = served_405b(layout=Layout(tp=8, dp=2), system=TWO_BOXES, costs=costs(latency=20e-6))
    assert copies.readers(20.0) == 2 * most
    with pytest.raises(ValueError, match="each must be"):
        found.readers(0)


# ---- memory beyond the GPU -----------------------------------------------------------------------------------------


def test_far_weights_by_hand():
    near = served_405b(costs=costs())
    weights = near.room.weights
    ahead = training.with_far_weights(near, 0.5, "64 GB/s")
    rest = near.token - near.parts["weights"]
    assert ahead == pytest.approx(rest + 0.5 * weights / 64e9)
    behind = training.with_far_weights(near, 0.5, "64 GB/s", ahead=False)
    assert behind == pytest.approx(ahead + 0.5 * near.parts["weights"])
    assert training.with_far_weights(near, 0.0, "64 GB/s") == pytest.approx(near.token)
    with pytest.raises(ValueError, match="share must be"):
        training.with_far_weights(near, 1.5, "64 GB/s")


def test_lookups_follow_littles_law_until_the_link_is_full():
    assert training.lookups_per_second(2e-6, 10, 64, 1e12) == pytest.approx(5e6)
    assert training.lookups_per_second(2e-6, 10_000, 64, 64e9) == pytest.approx(1e9)
    with pytest.raises(ValueError, match="latency must be"):
        training.lookups_per_second(0, 1, 1, 1)


def test_demand_has_the_mean_that_was_asked_for_and_pools_save():
    rng = np.random.default_rng(1)
    alone = training.demand_traces(rng, 16, 4000, requests=20, size=1e9)
    assert alone.shape == (4000, 16)
    assert alone.mean() == pytest.approx(20e9, rel=0.02)
    # a sum of Poisson many exponential sizes: variance 2 n s^2
    assert alone.std() == pytest.approx(math.sqrt(2 * 20) * 1e9, rel=0.03)
    saved = 1 - fl.physics.memory.bought(alone, 16) / fl.physics.memory.bought(alone, 1)
    together = training.demand_traces(rng, 16, 4000, requests=20, size=1e9, together=0.5)
    less = 1 - fl.physics.memory.bought(together, 16) / fl.physics.memory.bought(together, 1)
    assert 0.05 < less < saved < 0.6
    with pytest.raises(ValueError, match="must be > 0"):
        training.demand_traces(rng, 1, 1, requests=0, size=1)


def test_parameter_pool_by_hand():
    pool = training.parameter_pool(8, 2, push=4e9, pull=2e9, seconds=2.0)
    assert pool.worker == 2e9
    assert pool.server == 8e9
    assert pool.bisection == 16e9
    assert pool.ring == pytest.approx(2 * 7 / 8 * 2e9)
    with pytest.raises(ValueError, match="seconds"):
        training.parameter_pool(8, 2, push=1, pull=1, seconds=0)


# ---- published runs ------------------------------------------------------------------------------------------------


def published(row_id):
    return next(dict(row) for row in data_rows("inference") if row["row_id"] == row_id)


def test_two_boxes_as_published():
    rows = [row for row in data_rows("inference") if row["source_id"] == "gigaio_isc25"]
    rate = {(row["gpus"], row["system"]): float(row["output_tokens_per_s"]) for row in rows}
    default, best = "1s-2rp-std-cascade", "2s-2rp-split-flat"
    assert rate["16", default] / rate["8", default] - 1 == pytest.approx(-0.355, abs=0.0005)
    assert rate["16", best] / rate["8", best] - 1 == pytest.approx(0.165, abs=0.0005)


def test_no_prediction_reads_a_result_or_its_own_model():
    for row_id in ("IN0003", "IN0275", "IN0375", "IN0540"):
        row = published(row_id)
        hidden = validate.inference.INFERENCE_RESULTS
        blind = {name: cell for name, cell in row.items() if name not in hidden}
        wrong = {**row, **dict.fromkeys(hidden, "12345")}
        assert validate.predict_inference(blind) == validate.predict_inference(wrong)
        assert validate.predict_inference(blind) > 0
        own = served.read_row(row).model.name
        assert own in {model for _, model in efficiency._seen("", efficiency.INFERENCE)}
        assert own not in {model for _, model in efficiency._seen(own, efficiency.INFERENCE)}


def test_what_cannot_be_said():
    row = published("IN0003")
    assert validate.predict_inference({**row, "model": "a model of 7 things"}) is None
    assert validate.predict_inference({**row, "accelerator": "abacus"}) is None
    assert validate.predict_inference({**row, "precision": "fp37"}) is None
    assert validate.predict_inference({**row, "gpus": "3"}) is None
    assert validate.predict_inference({**row, "kind": "comm_kernel"}) is None
    assert validate.predict_inference({}) is None


def test_report_beats_the_constant_and_gets_the_order_right():
    report = validate.inference_report()
    throughput, pairs, latencies, exchanges = (part.rows for part in report.parts.values())
    assert throughput[0]["number"] > 250
    assert throughput[0]["median"] < throughput[0]["constant median"]
    assert throughput[0]["p90"] < throughput[0]["constant p90"]
    assert [row["sign"] for row in pairs] == ["right", "right"]
    assert {row["faster"] for row in pairs} == {"tensor", "pipeline"}
    for row in pairs:
        ratio = float(row["model ratio"]) / float(row["published ratio"])
        assert 0.8 < ratio < 1.25
    assert all(row["median"] < 0.3 for row in latencies)
    for row in exchanges:
        assert abs(int(row["error"].rstrip("%"))) <= 15
    assert "published loads predicted" in str(report)


def test_fitted_efficiencies_bring_their_rows_to_the_published_rate():
    row = published("IN0003")
    kind, _, value = served.needed(row)
    found = served.serving_of_row(row, value=value)
    assert found.throughput == pytest.approx(float(row["output_tokens_per_s"]), rel=1e-6)
    assert kind == served.read_row(row).kind
    layouts.check(found.layout, found.model)
