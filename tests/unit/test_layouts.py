"""Layouts: textbook volumes with worked values, the running case, memory, and errors that name what works."""

import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab.collectives import rail_groups, spine_crossings
from fabriclab.errors import DoesNotFit
from fabriclab.workload import layouts, memory, models, volumes
from fabriclab.workload.layouts import Layout
from fabriclab.workload.volumes import Collective

GPT3 = models.preset("GPT-3 175B")
SHARE = 63 / 64
SMALL = models.Model(layers=4, hidden=64, heads=8, kv_heads=4, vocabulary=256, sequence=128)
EXPERTS = SMALL.replace(experts=8, experts_per_token=2, expert_feed_forward=32)


def message(ledger, purpose, operation=None, moment=None):
    """Return the only line of a purpose, and of an operation and a moment if they are given."""
    lines = []
    for line in ledger.only(purpose):
        if operation in (None, line.operation) and moment in (None, line.moment):
            lines.append(line)
    assert len(lines) == 1, lines
    return lines[0]


# ---- textbook volumes: the worked values of Narayanan et al. 2021, ZeRO, ring attention and Ulysses ----------------


def test_a_ring_sums_the_gradients_of_gpt3():
    line = Collective(
        "gradients", "all_reduce", "dp_cp", 64, 0, "last backward", 175e9 * 2 / 64, 1, 1, 1
    )
    assert line.sent == pytest.approx(1.0767e10, rel=1e-4)
    ledger = volumes.volumes(GPT3, Layout(tp=8, pp=8, dp=64))
    stored = GPT3.parameters + GPT3.table_parameters  # the last stage has a copy of the tied table
    assert ledger.by_stage("gradients").mean() == pytest.approx(2 * SHARE * 2 * stored / 64)


def ratio(**changes):
    """Return what a sharding sends for parameters and gradients, compared with DDP, on 64 ranks."""
    whole = volumes.volumes(SMALL, Layout(dp=64)).sent("gradients", "parameters")
    return volumes.volumes(SMALL, Layout(dp=64, **changes)).sent("gradients", "parameters") / whole


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({"sharding": "zero1"}, 1.0),
        ({"sharding": "zero2"}, 1.0),
        ({"sharding": "zero3"}, 1.5),
        ({"sharding": "fsdp"}, 1.5),
        ({"sharding": "zero3", "reshard": False}, 1.0),
        ({"sharding": "zero1", "microbatches": 4}, 1.0),
        ({"sharding": "zero3", "microbatches": 4}, 6.0),
    ],
)
def test_sharding_sends_as_many_times_the_bytes_of_ddp(changes, times):
    assert ratio(**changes) == pytest.approx(times)


def test_hybrid_sharding_sums_parts_between_the_groups():
    layout = Layout(dp=64, sharding="zero3", shard=8)
    ledger = volumes.volumes(SMALL, layout)
    gradients = 2 * SMALL.parameters
    assert ledger.only("parameters").sent() == pytest.approx(2 * 7 / 8 * gradients)
    between = sum(line.sent for line in ledger if line.group == "replica")
    assert between == pytest.approx(2 * 7 / 8 * gradients / 8)


@pytest.mark.parametrize(
    ("sharding", "bytes_each"),
    [("ddp", 16), ("zero1", 4 + 12 / 64), ("zero2", 2 + 14 / 64), ("zero3", 16 / 64)],
)
def test_adam_in_mixed_precision_keeps_so_many_bytes_of_a_parameter(sharding, bytes_each):
    kept = memory.memory(SMALL, Layout(dp=64, sharding=sharding))
    assert kept.state.max() == pytest.approx(bytes_each * SMALL.parameters)


def test_tensor_parallelism_sums_four_activations_in_a_layer():
    layout = Layout(tp=8, sequence=2048)
    ledger = volumes.volumes(GPT3, layout)
    for moment in ("forward", "backward"):
        line = message(ledger, "tensor", moment=moment)
        assert (line.size, line.count) == (50331648, 2 * 96)
    assert ledger.sent("tensor") / 96 == 352321536
    again = volumes.volumes(GPT3, layout.replace(recompute="full"))
    assert again.sent("tensor") == pytest.approx(1.5 * ledger.sent("tensor"))
    parallel = volumes.volumes(GPT3, layout.replace(sequence_parallel=True))
    assert parallel.sent("tensor") == ledger.sent("tensor")
    assert {line.operation for line in parallel.only("tensor")} == {"all_gather", "reduce_scatter"}


def test_a_pipeline_sends_an_activation_over_each_boundary():
    layout = Layout(tp=8, pp=8, microbatches=64, sequence=2048)
    ledger = volumes.volumes(GPT3, layout)
    line = message(ledger.only(stage=3), "pipeline", moment="forward")
    assert (line.size, line.count) == (50331648, 64)
    parts = volumes.volumes(GPT3, layout.replace(scatter_gather=True))
    assert message(parts.only(stage=3), "pipeline", "send", "forward").size == 50331648 / 8
    more = volumes.volumes(GPT3, layout.replace(chunks=3))
    assert more.by_stage("pipeline")[3] == 3 * ledger.by_stage("pipeline")[3]
    # With three parts a micro-batch goes over 23 boundaries in each direction instead of 7.
    assert more.by_stage("pipeline").sum() == 2 * 23 * 64 * 50331648
    assert layout.bubble == pytest.approx(0.1094, abs=5e-5)


def test_tokens_go_to_experts_and_back():
    model = models.preset("DeepSeek-V3")
    layout = Layout(pp=61, dp=64, ep=64, microbatches=1, sequence=4096)
    ledger = volumes.volumes(model, layout)
    assert ledger.by_stage("experts")[30] == pytest.approx(1.8497e9, rel=1e-4)
    assert ledger.by_stage("experts")[0] == 0  # one of the three dense layers
    small = volumes.volumes(model, layout.replace(dispatch_bytes=1))
    assert small.by_stage("experts")[30] == pytest.approx(1.8497e9 * 7 / 8, rel=1e-4)


def test_experts_whose_matrices_are_divided_sum_as_often_as_a_dense_layer():
    # A sum after attention and one after the experts, forward and backward, in each of four layers.
    for model in (SMALL, EXPERTS):
        ledger = volumes.volumes(model, Layout(tp=2))
        for moment in ("forward", "backward"):
            assert message(ledger, "tensor", "all_reduce", moment).count == 2 * 4


@pytest.mark.parametrize("context", ["ring", "all_gather", "ulysses"])
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_attention_that_is_computed_again_needs_what_it_was_sent_once_more(context, recompute):
    layout = Layout(cp=4, sequence=64, context=context)
    once = volumes.volumes(SMALL, layout)
    again = volumes.volumes(SMALL, layout.replace(recompute=recompute))
    forward = sum(line.sent for line in once.only("context") if line.moment == "forward")
    more = again.sent("context") - once.sent("context")
    assert more == pytest.approx(forward) and forward > 0


@pytest.mark.parametrize("context", ["ring", "all_gather"])
def test_context_parallelism_passes_keys_and_values_on(context):
    model = models.preset("Llama 3 405B")
    ledger = volumes.volumes(model, Layout(cp=16, sequence=131072, context=context))
    forward = message(ledger, "context", moment="forward")
    assert forward.sent / model.layers == pytest.approx(5.0332e8, rel=1e-4)
    assert ledger.sent("context") == pytest.approx(3 * forward.sent)


def test_ulysses_exchanges_tokens_for_heads():
    model = models.preset("Llama 3 405B")
    layout = Layout(cp=16, sequence=131072, context="ulysses")
    whole = volumes.volumes(model.replace(kv_heads=128), layout)
    assert whole.sent("context") / model.layers / 2 == pytest.approx(1.0066e9, rel=1e-4)
    grouped = volumes.volumes(model, layout)
    assert grouped.sent("context") == pytest.approx(whole.sent("context") * (2 + 2 * 8 / 128) / 4)


def test_a_tied_table_is_summed_over_the_first_and_the_last_stage():
    ledger = volumes.volumes(GPT3, Layout(tp=8, pp=8))
    for line in ledger.only("tied_table"):
        assert line.size == pytest.approx(1.5729e8, rel=1e-4)
        assert line.sent == line.size
    assert [line.stage for line in ledger.only("tied_table")] == [0, 7]


def test_gpt3_takes_a_month_on_1024_a100():
    rule = 300e9 * (8 * GPT3.parameters) / (1024 * 140e12) / 86400
    assert rule == pytest.approx(33.9, abs=0.1)
    days = 300e9 * GPT3.flops(recompute="full").total / (1024 * 140e12) / 86400
    assert days == pytest.approx(34, abs=0.5)  # the paper counts 34 days


# ---- the running case --------------------------------------------------------------------------------------------


def test_the_volumes_of_the_case_are_those_of_the_case():
    case = fl.case()
    model, layout = models.of_case(case), layouts.of_case(case)
    ledger = volumes.volumes(model, layout)
    assert {line.size for line in ledger.only("tensor")} == {case.tp_message}
    assert sum(line.count for line in ledger.only("tensor")) == case.tp_allreduces
    assert ledger.sent("tensor") == pytest.approx(case.tp_bytes, rel=1e-12)
    gradients = sum(line.size * line.count for line in ledger.only("gradients"))
    assert gradients == pytest.approx(case.dp_gradients, rel=1e-12)
    assert ledger.sent("gradients", "parameters") == pytest.approx(case.dp_bytes, rel=1e-12)
    kept = memory.memory(model, layout, activations="rule")
    assert kept.state.max() == pytest.approx(case.memory_zero1, rel=1e-12)
    assert kept.activations.max() == pytest.approx(case.memory_activations, rel=1e-12)
    assert memory.memory(model, layout.replace(sharding="ddp")).state.max() == pytest.approx(
        case.memory_unsharded
    )
    assert layout.batch * layout.sequence == case.tokens_per_step
    assert layout.ranks == case.gpus


def test_a_changed_case_changes_its_layout():
    case = fl.case(gradient_bytes=4, microbatches=8)
    ledger = volumes.volumes(models.of_case(case), layouts.of_case(case))
    assert sum(line.size * line.count for line in ledger.only("gradients")) == pytest.approx(
        case.dp_gradients
    )
    assert ledger.sent("tensor") == pytest.approx(case.tp_bytes)


def test_the_tiers_of_the_hall_carry_what_the_rings_cross():
    case = fl.case()
    hall = fl.system(gpu="H100", servers=128).fabric
    ledger = volumes.volumes(models.of_case(case), layouts.of_case(case))
    assert ledger.tiers(hall, "tensor", "table")["scale-up"] == pytest.approx(
        1024 * ledger.sent("tensor", "table")
    )
    tiers = ledger.tiers(hall, "gradients", "parameters")
    assert tiers["scale-up"] == 0
    crossings = spine_crossings(hall, rail_groups(hall))
    assert tiers["spine"] / (tiers["spine"] + tiers["leaf"]) == pytest.approx(crossings / 1024)


def test_servers_in_another_order_cross_the_spine_more():
    hall = fl.system(gpu="H100", servers=128).fabric
    ledger = volumes.volumes(SMALL, Layout(tp=8, dp=128))
    servers = np.random.default_rng(0).permutation(128)
    order = [8 * server + gpu for server in servers for gpu in range(8)]
    usual = ledger.tiers(hall)
    mixed = ledger.tiers(hall, placement=order)
    assert mixed["spine"] > 5 * usual["spine"]
    assert sum(mixed.values()) == pytest.approx(sum(usual.values()))


def test_a_larger_domain_keeps_more_inside():
    hall = fl.system(gpu="H100", servers=128).fabric
    ledger = volumes.volumes(SMALL, Layout(dp=1024))
    assert ledger.tiers(hall, domain=64)["scale-up"] > ledger.tiers(hall)["scale-up"]


# ---- what differs from stage to stage ----------------------------------------------------------------------------


def test_layers_that_do_not_divide_leave_the_ends_of_the_model_shorter():
    layout = Layout(pp=16, microbatches=16)
    sizes = [len(stage) for stage in layout.stages(models.preset("Llama 3 405B"))]
    assert sizes == [7, *[8] * 14, 7]  # as the paper of Llama 3 has it, section 3.3.2


def test_one_layer_too_few_is_missing_on_the_last_stage():
    assert [len(stage) for stage in Layout(pp=2).stages(SMALL.replace(layers=5))] == [3, 2]
    sizes = [len(stage) for stage in Layout(pp=16).stages(models.preset("DeepSeek-V3"))]
    assert sizes == [3, *[4] * 13, 3, 3]


def test_heads_of_keys_and_values_are_copied_to_more_ranks_than_heads():
    four = volumes.volumes(SMALL, Layout(tp=4, cp=2)).sent("context")
    eight = volumes.volumes(SMALL, Layout(tp=8, cp=2)).sent("context")
    assert eight == four  # of four heads each of eight ranks has a whole one


def test_each_rank_keeps_its_part_of_what_an_expert_computes():
    layout = Layout(tp=4, ep=2, etp=2, sequence_parallel=True)
    kept = memory.memory(EXPERTS, layout).activations[0]
    whole = memory.memory(EXPERTS, layout.replace(etp=1)).activations[0]
    # Four layers, two visits of a quarter of 128 tokens, three products of 32 numbers, of which half are saved.
    assert whole - kept == 4 * 2 * 32 * 3 * 16 * 2


def test_interleaved_chunks_are_as_far_apart_as_possible():
    layout = Layout(pp=2, chunks=2, microbatches=2)
    assert [[chunk.tolist() for chunk in stage] for stage in layout.parts(SMALL)] == [
        [[0], [2]],
        [[1], [3]],
    ]


def test_the_first_stage_keeps_most_micro_batches():
    layout = Layout(pp=4, microbatches=8)
    one = memory.memory(SMALL, Layout(microbatches=8)).activations[0]
    kept = memory.memory(SMALL, layout).activations
    assert kept == pytest.approx([one, one * 3 / 4, one / 2, one / 4])


def test_interleaving_keeps_as_much_more_as_korthikanti_et_al_count():
    model = SMALL.replace(layers=8)
    one = memory.memory(model, Layout(microbatches=8)).activations[0]
    kept = memory.memory(model, Layout(pp=4, chunks=2, microbatches=8)).activations
    assert kept[0] == pytest.approx(one * (1 + 3 / (4 * 2)))


def test_recomputation_keeps_only_the_inputs_of_layers():
    kept = memory.memory(SMALL, Layout(recompute="full"))
    assert kept.activations[0] == 4 * 128 * 64 * 2
    scores = (
        memory.memory(SMALL, Layout(), stored_scores=True).activations
        - memory.memory(SMALL, Layout()).activations
    )
    assert scores[0] == 5 * 8 * 128 * 128 * 4
    dropped = memory.memory(SMALL, Layout(recompute="selective"), stored_scores=True)
    assert dropped.activations[0] == memory.memory(SMALL, Layout()).activations[0]


def test_gathered_parameters_are_those_of_two_layers():
    kept = memory.memory(SMALL, Layout(dp=8, sharding="zero3"))
    assert kept.gathered[0] == 2 * 2 * SMALL.layer_parameters[0]
    everything = memory.memory(SMALL, Layout(dp=8, sharding="zero3", reshard=False))
    assert everything.gathered[0] == 2 * SMALL.parameters


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "layout", "words"),
    [
        (
            SMALL,
            {"tp": 3},
            "tp must divide the 8 heads of a model, got 3; the nearest that do are 2 and 4",
        ),
        (SMALL, {"cp": 3}, "cp must divide the 128 tokens"),
        (SMALL, {"pp": 5}, "pp x chunks must be at most the 4 layers"),
        (
            EXPERTS,
            {"ep": 3, "dp": 3},
            "ep must divide the 8 experts of a model, got 3; the nearest that do are 2 and 4",
        ),
        (SMALL, {"ep": 2, "dp": 2}, "ep must be 1, because a model has no experts"),
        (EXPERTS, {"ep": 2, "tp": 2}, "sequence_parallel must be True"),
        (SMALL, {"cp": 16, "context": "ulysses"}, "cp must divide the 8 heads"),
        (
            SMALL.replace(heads=12, hidden=96, kv_heads=6),
            {"tp": 4},
            "or be a multiple of them, got 4; the nearest are 3 and 6",
        ),
    ],
)
def test_a_layout_that_does_not_divide_says_what_does(model, layout, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        volumes.volumes(model, Layout(**layout))


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"dp": 8, "ep": 3}, "the nearest ep that do are 2 and 4"),
        ({"dp": 8, "shard": 3}, "the nearest that do are 2 and 4"),
        ({"chunks": 2}, "chunks must be 1 without a pipeline"),
        ({"pp": 4, "chunks": 2, "microbatches": 6}, "the nearest are 4 and 8"),
        ({"dp": 0}, "dp"),
        ({"sharding": "zero4"}, "sharding must be one of"),
        ({"gradient_bytes": 0}, "gradient_bytes must be a number of bytes"),
    ],
)
def test_groups_that_do_not_divide_each_other_are_refused(layout, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Layout(**layout)


def test_a_batch_that_does_not_divide_names_the_nearest():
    with pytest.raises(ValueError, match="the nearest batches are 96 and 128"):
        Layout(dp=32).with_batch(100)
    assert Layout(dp=32).with_batch(96).microbatches == 3


def test_a_layout_of_another_size_than_the_system_names_the_dp_that_fits():
    with pytest.raises(ValueError, match="dp=128 uses them all"):
        layouts.check(Layout(tp=8, dp=100), models.preset("Llama 3 70B"), 1024)


def test_a_model_that_does_not_fit_says_so_and_what_fits():
    model = models.preset("Llama 3 70B")
    layout = Layout(tp=8, dp=16, microbatches=4, sequence_parallel=True)
    with pytest.raises(
        DoesNotFit,
        match=r"needs 164 GB .*a GPU has 80\.0 GB.*nearest layout that fits is sharding='zero1'",
    ):
        memory.check_fit(model, layout, "80 GB")
    memory.check_fit(model, layout.replace(sharding="zero1"), "80 GB")
    with pytest.raises(DoesNotFit, match="no layout of as many ranks"):
        memory.check_fit(model, Layout(), "80 GB")


def test_a_group_larger_than_its_domain_says_how_far_it_reaches():
    with pytest.raises(
        DoesNotFit, match=r"16 ranks in 2 scale-up domains of 8 GPUs.*nearest that divides is 8"
    ):
        memory.check_domain(Layout(tp=16, dp=2), 8)
    with pytest.raises(DoesNotFit, match="not in one domain"):
        memory.check_domain(Layout(tp=4, cp=4), 8, ("cp",))
    memory.check_domain(Layout(tp=8, dp=4), 8)


def test_a_placement_must_name_an_endpoint_for_each_rank():
    fabric = fl.system(gpu="H100", servers=2).fabric
    ledger = volumes.volumes(SMALL, Layout(dp=8))
    with pytest.raises(ValueError, match="different endpoint for each of 8 ranks"):
        ledger.tiers(fabric, placement=[0] * 8)
    with pytest.raises(ValueError, match="it has 16"):
        volumes.volumes(SMALL, Layout(dp=32)).tiers(fabric)
