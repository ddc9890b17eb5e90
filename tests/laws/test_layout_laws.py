"""Laws of layouts: groups divide the ranks, nothing is lost between ledger, traffic, tiers and memory."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab.errors import DoesNotFit
from fabriclab.workload import layouts, memory, models, volumes

DENSE = models.Model(layers=8, hidden=64, heads=8, kv_heads=4, vocabulary=256, sequence=128)
EXPERTS = DENSE.replace(
    experts=8,
    experts_per_token=2,
    expert_feed_forward=32,
    shared_experts=1,
    shared_feed_forward=32,
    dense_layers=2,
)
HYBRID = EXPERTS.replace(
    pattern="M*-EM*-E",
    expert_hidden=32,
    mamba_heads=8,
    mamba_head_size=16,
    mamba_state=16,
    dense_layers=0,
)
TIED = DENSE.replace(tied=True)
HALL = fl.system(gpu="H100", servers=32).fabric
POWERS = (1, 2, 4)


@st.composite
def jobs(draw):
    """Draw a model and a layout that divides it."""
    model = draw(st.sampled_from([DENSE, EXPERTS, HYBRID, TIED]))
    tp, cp, dp, pp = (draw(st.sampled_from(POWERS)) for _ in range(4))
    chunks = draw(st.sampled_from((1, 2))) if pp > 1 else 1
    stage = tp * cp * dp
    sizes = [n for n in (1, 2, 4, 8) if stage % n == 0] if model.is_moe else [1]
    ep = draw(st.sampled_from(sizes))
    layout = layouts.Layout(
        tp=tp,
        cp=cp,
        dp=dp,
        pp=pp,
        chunks=chunks,
        ep=ep,
        microbatch=draw(st.sampled_from((1, 3))),
        microbatches=pp * draw(st.integers(1, 3)),
        sharding=draw(st.sampled_from(layouts.SHARDING)),
        shard=draw(st.sampled_from([n for n in range(1, cp * dp + 1) if cp * dp % n == 0])),
        reshard=draw(st.booleans()),
        sequence_parallel=draw(st.booleans()) or (ep > 1 and tp > 1),
        scatter_gather=draw(st.booleans()),
        context=draw(st.sampled_from(("ring", "all_gather"))),
        recompute=draw(st.sampled_from(models.RECOMPUTE)),
        gradient_bytes=draw(st.sampled_from((2, 4))),
    )
    return model, layout


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_groups_of_a_kind_have_every_rank_once(job):
    _, layout = job
    for kind in layouts.GROUPS:
        if kind == "table":
            continue
        groups = layout.groups(kind)
        assert groups.shape[1] == layout.size_of(kind)
        assert sorted(groups.ravel().tolist()) == list(range(layout.ranks))
        if kind != "pp":  # all others stay in a stage
            stages = groups // layout.stage_ranks
            assert (stages == stages[:, :1]).all()


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_copies_are_the_product_of_the_groups_that_share_and_those_apart(job):
    _, layout = job
    for whole, shard, replica in (
        ("dp_cp", "shard", "replica"),
        ("edp", "expert_shard", "expert_replica"),
    ):
        assert layout.size_of(whole) == layout.size_of(shard) * layout.size_of(replica)
        for group in layout.groups(whole):
            inside = [g for g in layout.groups(shard) if g[0] in group]
            assert sorted(np.concatenate(inside)) == sorted(group)


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_every_layer_is_on_one_stage(job):
    model, layout = job
    parts = layout.parts(model)
    assert sorted(np.concatenate(layout.stages(model)).tolist()) == list(range(model.layers))
    order = [parts[k % layout.pp][k // layout.pp] for k in range(layout.pp * layout.chunks)]
    assert np.concatenate(order).tolist() == list(range(model.layers))
    assert max(map(len, order)) - min(map(len, order)) <= 1


@settings(max_examples=30, deadline=None)
@given(jobs())
def test_traffic_is_what_the_ledger_says_that_ranks_send(job):
    model, layout = job
    ledger = volumes.volumes(model, layout)
    stage = np.arange(layout.ranks) // layout.stage_ranks
    for purpose in volumes.PURPOSES:
        traffic = ledger.traffic(purpose)
        sent = np.bincount(traffic.source, traffic.size, layout.ranks)
        assert sent == pytest.approx(ledger.by_stage(purpose)[stage], rel=1e-9)
        assert (traffic.source != traffic.target).all()
    table = ledger.traffic().matrix(layout.ranks)
    assert table.sum() == pytest.approx(ledger.by_stage().sum() * layout.stage_ranks)
    tiers = ledger.tiers(HALL)
    assert sum(tiers.values()) == pytest.approx(table.sum())


@settings(max_examples=30, deadline=None)
@given(jobs())
def test_all_ranks_together_keep_the_model_as_often_as_it_is_copied(job):
    model, layout = job
    kept = memory.memory(model, layout)
    copied = model.table_parameters if model.tied and layout.pp > 1 else 0
    routed = int(model.routed_parameters.sum())
    dense = model.parameters - routed + copied
    shares = layouts.SHARDING.index(layout.sharding)
    for name, bytes_each, since in (
        ("weights", layout.weight_bytes, 3),
        ("gradients", layout.gradient_bytes, 2),
        ("optimiser", layout.optimiser_bytes, 1),
    ):
        copies = layout.copies / (layout.shard if shares >= since else 1)
        expert_copies = layout.edp / (layout.expert_shard if shares >= since else 1)
        total = getattr(kept, name).sum() * layout.stage_ranks
        assert total == pytest.approx(bytes_each * (dense * copies + routed * expert_copies))


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_sequence_parallelism_sends_the_same_bytes_between_tensor_parallel_ranks(job):
    model, layout = job
    with_it = volumes.volumes(model, layout.replace(sequence_parallel=True))
    if layout.ep > 1 and layout.tp > 1:
        return
    without = volumes.volumes(model, layout.replace(sequence_parallel=False))
    assert with_it.by_stage("tensor") == pytest.approx(without.by_stage("tensor"))
    activations = memory.memory(model, with_it.layout).activations
    assert (activations <= memory.memory(model, without.layout).activations * (1 + 1e-12)).all()


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_recomputation_sends_no_less_and_keeps_no_more(job):
    model, layout = job
    sent = []
    kept = []
    for mode in models.RECOMPUTE:
        changed = layout.replace(recompute=mode)
        sent.append(volumes.volumes(model, changed).sent())
        kept.append(memory.memory(model, changed, stored_scores=True).activations.max())
    assert sent == sorted(sent)
    assert kept == sorted(kept, reverse=True)


@settings(max_examples=40, deadline=None)
@given(jobs())
def test_more_sharing_keeps_less(job):
    model, layout = job
    kept = [memory.memory(model, layout.replace(sharding=mode)).state for mode in layouts.SHARDING]
    for more, less in itertools.pairwise(kept):
        assert (less <= more * (1 + 1e-12)).all()


@settings(max_examples=10, deadline=None)
@given(jobs(), st.floats(0.05, 1.0))
def test_the_proposed_layout_fits_and_is_of_the_same_job(job, part):
    model, layout = job
    room = part * memory.memory(model, layout).most
    found = memory.nearest(model, layout, room, domain=8)
    try:
        memory.check_fit(model, layout, room, domain=8)
    except DoesNotFit as error:
        assert ("no layout" in str(error)) == (found is None)
    if found is None:
        return
    layouts.check(found, model, layout.ranks)
    assert found.batch == layout.batch
    assert found.tp <= 8
    assert memory.memory(model, found).most <= room
    memory.check_domain(found, 8)


@given(st.integers(1, 500), st.integers(1, 500))
def test_the_numbers_that_a_refusal_names_divide(number, value):
    near = layouts.divisors_near(number, value)
    assert all(number % n == 0 for n in near)
    between = range(near[0] + 1, near[-1]) if len(near) == 2 else []
    assert all(number % n for n in between if n != value)


@given(st.integers(1, 10**5), st.booleans())
def test_a_window_attends_to_no_more_than_all(sequence, causal):
    plain = DENSE.attended(sequence, causal=causal)
    windowed = DENSE.replace(window=64, full_every=2).attended(sequence, causal=causal)
    assert (windowed <= plain * (1 + 1e-12)).all()
    assert windowed[1::2] == pytest.approx(plain[1::2])
    counted = [min(k, 64) for k in range(sequence)] if sequence < 500 else None
    if causal and counted is not None:
        # The average is that of a continuous sequence; counting whole tokens differs by half a token.
        assert windowed[0] == pytest.approx(np.mean(counted) if sequence else 0, abs=0.51)
