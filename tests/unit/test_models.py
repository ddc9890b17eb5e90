"""Models: parameters as their makers state them, operations as published formulas count them, names in any spelling."""

import re

import pytest

import fabriclab as fl
from fabriclab.workload import models

MEGATRON = [name for name in models.preset_names() if name.startswith("Megatron ")]


PUBLISHED = [name for name in models.preset_names() if name != "the running case"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_within_two_percent_of_what_the_makers_state(name):
    model = models.preset(name)
    row = models.preset_row(name)
    stated = float(row["published_total_b"]) * 1e9
    rounding = (
        0.05e9 if name in MEGATRON else 0.0
    )  # the paper prints one decimal, and 1.7 has two digits
    assert abs(model.parameters - stated) <= max(0.02 * stated, rounding * 1.01)
    assert row["source"] and row["confirmed"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_active_parameters_are_near_what_the_makers_state(name):
    model = models.preset(name)
    row = models.preset_row(name)
    if not row["published_active_b"]:
        return
    met = model.active_parameters
    if "leave out the input table" in row["note"]:
        met -= model.input_parameters
    stated = float(row["published_active_b"]) * 1e9
    assert abs(met - stated) <= max(0.05 * stated, 0.05e9)  # two digits are stated


def test_the_running_case_has_the_parameters_and_operations_of_the_case():
    case = fl.case()
    model = models.preset("the running case")
    assert model.parameters == case.parameters
    flops = model.flops(case.sequence, count="parameters")
    assert flops.total * case.tokens_per_step == pytest.approx(case.flop_per_step, rel=1e-12)


@pytest.mark.parametrize("name", MEGATRON)
def test_operations_are_those_of_the_formula_of_the_megatron_paper(name):
    m = models.preset(name)
    h, layers, s, v = m.hidden, m.layers, m.sequence, m.vocabulary
    per_token = 96 * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert m.flops(causal=False, recompute="full").total == pytest.approx(per_token, rel=1e-12)


def test_an_unknown_name_is_answered_with_the_near_ones():
    with pytest.raises(ValueError, match="did you mean 'Llama 3 8B'"):
        models.preset("Lama 3 9B")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("DeepSeekV3", "DeepSeek-V3"),
        ("deepseek-r1", "DeepSeek-V3"),
        ("Qwen3_235B_a22B", "Qwen3 235B A22B"),
        ("LLAMA3.1_405B", "Llama 3 405B"),
        ("llama2-70b-99.9", "Llama 2 70B"),
        ("Llama4-Maverick-17B-128E", "Llama 4 Maverick"),
        ("Nemotron_3_5_Lightning", "Nemotron 3 Nano"),
        ("mixtral-8x7b", "Mixtral 8x7B"),
        ("GPT3-20B", "GPT-3 20B"),
        ("GPT 530B", "Megatron 529.6B"),
    ],
)
def test_names_of_published_tables_are_found(spelling, name):
    assert models.preset(spelling).name == name


def test_no_two_models_share_a_name():
    names = []
    for name in PUBLISHED:
        names += [name, *filter(None, models.preset_row(name)["aliases"].split(";"))]
    found = [models.preset(spelling).name for spelling in names]
    compact = [re.sub(r"[^a-z0-9]", "", spelling.lower()) for spelling in names]
    owners = dict(zip(compact, found, strict=True))
    assert [owners[spelling] for spelling in compact] == found


def test_attention_is_named_after_its_heads():
    kinds = {
        name: models.preset(name).attention
        for name in ("PaLM 540B", "GPT-3 175B", "Llama 3 8B", "Kimi K2")
    }
    assert list(kinds.values()) == ["MQA", "MHA", "GQA", "MLA"]


def test_layers_of_experts_are_where_the_makers_put_them():
    assert models.preset("DeepSeek-V3").moe_layers.tolist() == [False] * 3 + [True] * 58
    assert models.preset("Llama 4 Maverick").moe_layers.tolist() == [False, True] * 24
    assert models.preset("Mixtral 8x7B").moe_layers.all()
    nano = models.preset("Nemotron 3 Nano")
    assert (nano.mamba_layers.sum(), nano.moe_layers.sum(), nano.attention_layers.sum()) == (
        23,
        23,
        6,
    )


def test_windows_alternate_with_full_attention():
    oss = models.preset("gpt-oss-120b")
    assert oss.windowed_layers.tolist() == [True, False] * 18
    assert oss.attended(4096).tolist()[:2] == [128 - 128**2 / (2 * 4096), 2048]
    assert oss.attended(4096, causal=False).tolist()[:2] == [128, 4096]


def test_the_cache_of_latent_attention_is_small():
    deepseek = models.preset("DeepSeek-V3")
    assert (
        deepseek.cache_bytes() == 61 * 576 * 2
    )  # 70 kB a token, as the DeepSeek-V3 paper on hardware says
    llama = models.preset("Llama 3 405B")
    assert llama.cache_bytes(1000) == 1000 * 126 * 2 * 8 * 128 * 2
    oss = models.preset("gpt-oss-20b")
    assert oss.cache_bytes(1000) == 2 * 8 * 64 * 2 * 12 * (1000 + 128)


def test_frozen_weights_need_no_gradients_of_their_own():
    model = models.preset("Llama 2 70B")
    whole, frozen = model.flops(), model.flops(trained=False)
    products = model.layer_flops().products.sum() + model.head_flops
    assert whole.backward - frozen.backward == products


def test_precisions_count_their_scales():
    assert models.bytes_of("BF16") == 2
    assert models.bytes_of("nvfp4") == 0.5625
    assert models.preset("Llama 3 8B").weight_bytes("mxfp8") == models.preset(
        "Llama 3 8B"
    ).parameters * (1 + 1 / 32)
    with pytest.raises(ValueError, match="has no 'fp7'"):
        models.bytes_of("fp7")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 7}, "head_size must be given"),
        ({"kv_heads": 3}, "kv_heads must divide heads = 8"),
        ({"layers": 0}, "layers"),
        ({"pattern": "M*"}, "one letter of"),
        ({"pattern": "M*-X"}, "one letter of"),
        ({"pattern": "M*-E"}, "mamba_heads and mamba_head_size"),
        ({"pattern": "**-E"}, "experts must be >= 1"),
        ({"experts": 4}, "experts_per_token"),
        ({"experts": 4, "experts_per_token": 5}, "experts_per_token"),
        ({"norm": "batch"}, "norm must be one of"),
    ],
)
def test_shapes_that_cannot_be_are_refused(changes, words):
    given = {"layers": 4, "hidden": 64, "heads": 8, "vocabulary": 256, **changes}
    with pytest.raises(ValueError, match=re.escape(words)):
        models.Model(**given)


def test_latent_attention_has_five_matrices():
    # Down and up for queries, down and up for keys and values, and out: 187 million, counted from the paper's sizes.
    queries = 7168 * 1536 + 1536 * 128 * (128 + 64)
    keys_and_values = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    out = 128 * 128 * 7168
    assert models.preset("DeepSeek-V3").attention_parameters == queries + keys_and_values + out


def test_selective_recomputation_repeats_what_is_between_tokens():
    model = models.preset("GPT-3 175B")
    again = model.flops(causal=False, recompute="selective").recomputed
    assert (
        again == 96 * 4 * 12288 * 2048
    )  # scores and sums of each layer, two operations for each product
