"""Steps of a tiny transformer on real buffers: gradients and bytes against one device, a layout and a ledger by hand.

`tests.support.tiny_training` runs the steps; each collective is executed by `fabriclab.collectives.execute`.
"""

import numpy as np
import pytest

from fabriclab.workload import models, volumes
from tests.support.tiny_training import Job, exact, make_weights

DENSE = models.Model(
    layers=4, hidden=8, heads=4, kv_heads=2, feed_forward=16, vocabulary=16, sequence=8
)
TIED = DENSE.replace(tied=True)
EXPERTS = DENSE.replace(experts=4, experts_per_token=2, expert_feed_forward=8)

# What the parts have, counted by hand. Each number has 8 bytes.
B = 8
STATE = 8 * 8 * B  # tokens x hidden size of a sequence
NORMS = 2 * 8 * B  # of a layer
ATTENTION = (64 + 32 + 32 + 64) * B
LAYER = ATTENTION + 3 * 8 * 16 * B + NORMS
TABLE = 16 * 8 * B
OUTPUT = TABLE + 8 * B  # with its norm
ALL = 4 * LAYER + TABLE + OUTPUT
LOSS = 3 * 8 * 4  # three numbers of fp32 for each token
EXPERT_LAYER = ATTENTION + NORMS + 8 * 4 * B  # with the router
ROUTED = 4 * 3 * 8 * 8 * B
KV = 2 * 8 * 4 * B  # keys and values of a sequence
TOKEN = 8 * B

# Model, layout, and for each purpose what a rank of each stage sends.
CASES = {
    "ddp": (DENSE, {"dp": 4}, {"gradients": [2 * 3 / 4 * ALL]}),
    "ddp with micro-batches": (DENSE, {"dp": 2, "microbatches": 2}, {"gradients": [ALL]}),
    "zero1": (
        DENSE,
        {"dp": 4, "sharding": "zero1", "microbatches": 2},
        {"gradients": [3 / 4 * ALL], "parameters": [3 / 4 * ALL]},
    ),
    "zero2": (
        DENSE,
        {"dp": 4, "sharding": "zero2", "microbatches": 2},
        {"gradients": [2 * 3 / 4 * ALL], "parameters": [3 / 4 * ALL]},
    ),
    "zero3": (
        DENSE,
        {"dp": 4, "sharding": "zero3"},
        {"gradients": [3 / 4 * ALL], "parameters": [2 * 3 / 4 * ALL]},
    ),
    "zero3 with micro-batches": (
        DENSE,
        {"dp": 2, "sharding": "zero3", "microbatches": 3},
        {"gradients": [3 / 2 * ALL], "parameters": [3 * ALL]},
    ),
    "zero3 that keeps parameters": (
        DENSE,
        {"dp": 4, "sharding": "zero3", "reshard": False},
        {"gradients": [3 / 4 * ALL], "parameters": [3 / 4 * ALL]},
    ),
    "hybrid sharding": (
        DENSE,
        {"dp": 4, "sharding": "zero3", "shard": 2},
        {"gradients": [ALL / 2 + ALL / 2], "parameters": [2 * ALL / 2]},
    ),
    "hybrid zero1": (
        DENSE,
        {"dp": 8, "sharding": "zero1", "shard": 4},
        {"gradients": [3 / 4 * ALL + ALL / 4], "parameters": [3 / 4 * ALL]},
    ),
    # Four layers with two sums each, forward and backward: 16 sums; two at the tables.
    "tensor": (DENSE, {"tp": 2}, {"tensor": [16 * STATE], "table": [2 * STATE + LOSS]}),
    "tensor with sequence parallelism": (
        DENSE,
        {"tp": 2, "sequence_parallel": True},
        {"tensor": [16 * STATE], "table": [2 * STATE + LOSS]},
    ),
    # Full recomputation runs each layer forward once more: half as much again in the layers, nothing at the tables.
    "tensor with recomputation": (
        DENSE,
        {"tp": 2, "recompute": "full"},
        {"tensor": [24 * STATE], "table": [2 * STATE + LOSS]},
    ),
    "zero3 with recomputation": (
        DENSE,
        {"dp": 4, "sharding": "zero3", "recompute": "full"},
        {"gradients": [3 / 4 * ALL], "parameters": [2 * 3 / 4 * ALL]},
    ),
    "context with recomputation": (
        DENSE,
        {"cp": 2, "recompute": "full"},
        {"context": [4 * 4 * KV / 2], "gradients": [ALL]},
    ),
    "experts with recomputation": (
        EXPERTS,
        {"dp": 2, "ep": 2, "recompute": "full"},
        {
            "experts": [6 * 4 * 8 * 2 * TOKEN / 2],
            "gradients": [4 * EXPERT_LAYER + TABLE + OUTPUT],
        },
    ),
    # One boundary, forward and backward, for each of three micro-batches.
    "pipeline": (DENSE, {"pp": 2, "microbatches": 3}, {"pipeline": [3 * STATE, 3 * STATE]}),
    # Three boundaries forward: the first stage sends over two of them, the last over one; backward the other way round.
    "interleaved pipeline": (
        DENSE,
        {"pp": 2, "chunks": 2, "microbatches": 2},
        {"pipeline": [2 * 3 * STATE, 2 * 3 * STATE]},
    ),
    "pipeline of four": (
        DENSE,
        {"pp": 4},
        {"pipeline": [STATE, 2 * STATE, 2 * STATE, STATE]},
    ),
    "tied table": (
        TIED,
        {"pp": 2, "microbatches": 2},
        {"pipeline": [2 * STATE, 2 * STATE], "tied_table": [TABLE, TABLE]},
    ),
    # Keys and values are gathered, gathered again, and their gradients scattered, in each of four layers.
    "context by gathering": (
        DENSE,
        {"cp": 2, "context": "all_gather"},
        {"context": [4 * 3 * KV / 2], "gradients": [ALL]},
    ),
    "context around a ring": (
        DENSE,
        {"cp": 4},
        {"context": [4 * 3 * 3 / 4 * KV], "gradients": [2 * 3 / 4 * ALL]},
    ),
    # Queries and results of 8 numbers a token, keys and values of 4; a rank has half of the tokens.
    "context by exchange": (
        DENSE,
        {"cp": 2, "context": "ulysses"},
        {"context": [4 * 2 * (STATE + KV) / 2 / 2 + 4 * 2 * STATE / 2 / 2], "gradients": [ALL]},
    ),
    # Each token goes to two experts, back, and both again for gradients: 8 tokens in each of four layers.
    "experts": (
        EXPERTS,
        {"dp": 2, "ep": 2},
        {
            "experts": [4 * 4 * 8 * 2 * TOKEN / 2],
            "gradients": [4 * EXPERT_LAYER + TABLE + OUTPUT],
        },
    ),
    "experts with copies": (
        EXPERTS,
        {"dp": 4, "ep": 2, "sharding": "zero1"},
        {
            "experts": [4 * 4 * 8 * 2 * TOKEN / 2],
            "gradients": [3 / 4 * (4 * EXPERT_LAYER + TABLE + OUTPUT)],
            "parameters": [3 / 4 * (4 * EXPERT_LAYER + TABLE + OUTPUT)],
            "expert_gradients": [4 * ROUTED / 2 / 2],
            "expert_parameters": [4 * ROUTED / 2 / 2],
        },
    ),
    "experts that share parameters": (
        EXPERTS,
        {"dp": 4, "ep": 2, "sharding": "zero3", "microbatches": 2},
        {
            "experts": [2 * 4 * 4 * 8 * 2 * TOKEN / 2],
            "gradients": [2 * 3 / 4 * (4 * EXPERT_LAYER + TABLE + OUTPUT)],
            "parameters": [2 * 2 * 3 / 4 * (4 * EXPERT_LAYER + TABLE + OUTPUT)],
            "expert_gradients": [2 * 4 * ROUTED / 2 / 2],
            "expert_parameters": [2 * 2 * 4 * ROUTED / 2 / 2],
        },
    ),
    # Tensor-parallel ranks each send their half of the tokens; only attention is divided.
    "experts on tensor-parallel ranks": (
        EXPERTS,
        {"tp": 2, "ep": 2, "sequence_parallel": True},
        {
            "tensor": [8 * STATE],
            "table": [2 * STATE + LOSS],
            "experts": [4 * 4 * 4 * 2 * TOKEN / 2],
        },
    ),
    "divided experts": (
        EXPERTS.replace(kv_heads=4),
        {"tp": 4, "ep": 2, "etp": 2, "sequence_parallel": True},
        {
            "tensor": [8 * 2 * 3 / 4 * STATE],
            "table": [2 * 2 * 3 / 4 * STATE + 2 * 3 / 4 * LOSS],
            # 2 tokens of each rank: half leave the rank; two ranks gather, or scatter, what has come to both.
            "experts": [4 * 4 * 2 * 2 * TOKEN / 2 + 4 * 4 * 2 * 2 * TOKEN],
        },
    ),
}


def run(model, options, seed=1):
    """Return the jobs of a layout and of one device after the same step."""
    layout = exact(**options)
    weights = make_weights(model)
    sequences = np.random.default_rng(seed).integers(
        model.vocabulary, size=(layout.batch, layout.length(model) + 1)
    )
    job = Job(model, layout, weights)
    job.step(sequences)
    alone = Job(model, exact(microbatches=layout.batch), weights)
    alone.step(sequences)
    return job, alone


def gradients_agree(job, alone, tolerance):
    """Assert that every rank has the gradients of one device, or its part of them."""
    whole = alone.gradient_of(0)
    reference = Job(alone.model, job.layout, alone.old)
    for rank in range(job.layout.ranks):
        for (unit, name), gradient in job.gradient_of(rank).items():
            source = "input" if unit == "output" and name == "table" and job.model.tied else unit
            expected = reference.part(rank, name, whole[source, name])
            assert np.abs(gradient).max() > 0
            np.testing.assert_allclose(
                gradient, expected, atol=tolerance, err_msg=f"{rank} {unit} {name}"
            )


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_bytes_of_a_step_are_those_of_the_layout_and_of_the_ledger(name):
    model, options, ledger = CASES[name]
    job, alone = run(model, options)
    # Only tensor-parallel ranks agree on the loss in fp32.
    gradients_agree(job, alone, 1e-6 if options.get("tp", 1) > 1 else 1e-12)

    layout = job.layout
    planned = volumes.volumes(model, layout)
    stage = np.arange(layout.ranks) // layout.stage_ranks
    for purpose in volumes.PURPOSES:
        by_hand = np.array(ledger.get(purpose, [0.0] * layout.pp))
        assert planned.by_stage(purpose) == pytest.approx(by_hand, rel=1e-12), purpose
        assert job.wire.sent[purpose] == pytest.approx(by_hand[stage], rel=1e-12), purpose


def test_the_gradients_of_one_device_are_the_slopes_of_the_loss():
    model = EXPERTS.replace(layers=2)
    weights = make_weights(model)
    sequences = np.random.default_rng(3).integers(16, size=(2, 9))
    job = Job(model, exact(microbatches=2), weights)
    job.step(sequences)
    gradient = job.gradient_of(0)
    for (unit, name), slopes in gradient.items():
        place = np.unravel_index(np.argmax(np.abs(slopes)), slopes.shape)
        loss = []
        for change in (1e-5, -1e-5):
            moved = {u: {n: a.copy() for n, a in arrays.items()} for u, arrays in weights.items()}
            moved[unit][name][place] += change
            other = Job(model, exact(microbatches=2), moved)
            other.step(sequences)
            loss.append(other.mean_loss)
        assert (loss[0] - loss[1]) / 2e-5 == pytest.approx(slopes[place], rel=1e-4), (unit, name)


def test_what_the_layout_leaves_out_is_small_and_known():
    # Norms are whole on each tensor-parallel rank; the layout counts them as divided.
    job, alone = run(DENSE, {"tp": 2, "dp": 2, "sequence_parallel": True})
    gradients_agree(job, alone, 1e-6)
    planned = volumes.volumes(DENSE, job.layout).sent("gradients")
    norms = 4 * NORMS + 8 * B
    assert planned == (ALL - norms) / 2 + norms / 2
    assert job.wire.sent["gradients"] == pytest.approx((ALL - norms) / 2 + norms)
    # With sequence parallelism each rank has seen a part of the tokens, so it sums the gradients of norms.
    assert job.wire.sent["not counted"] == pytest.approx(norms)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (DENSE, {"tp": 2, "pp": 2, "dp": 2, "microbatches": 2}),
        (DENSE, {"cp": 2, "pp": 2, "dp": 2, "sharding": "zero3"}),
        (EXPERTS, {"ep": 4, "dp": 2, "cp": 2, "pp": 2, "chunks": 2, "microbatches": 2}),
        (EXPERTS, {"tp": 2, "dp": 2, "ep": 4, "sequence_parallel": True, "sharding": "zero2"}),
    ],
)
def test_several_kinds_of_parallelism_at_once_give_the_same_gradients(model, options):
    job, alone = run(model, options)
    gradients_agree(job, alone, 1e-6 if options.get("tp", 1) > 1 else 1e-12)
    planned = volumes.volumes(model, job.layout)
    stage = np.arange(job.layout.ranks) // job.layout.stage_ranks
    purposes = set(volumes.PURPOSES)
    if job.layout.tp > 1:
        purposes -= {"gradients", "parameters"}  # norms are whole
    for purpose in purposes:
        sent = planned.by_stage(purpose)[stage]
        assert job.wire.sent[purpose] == pytest.approx(sent, rel=1e-12), purpose
