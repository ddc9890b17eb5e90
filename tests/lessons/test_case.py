"""The running case: given rows from the catalog, derived rows from formulas."""

import copy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fabriclab import catalog, topologies
from fabriclab.catalog import published
from fabriclab.catalog.running_case import _COMPUTED, FORMULAS, last_finish
from fabriclab.catalog.tables import data_rows

ROWS = data_rows("case")
DERIVED = [r for r in ROWS if r["kind"] == "derived"]
CASE = catalog.case()

# Figures of the teaching plan's table and of the text under it, as printed there: held to 1%.
PLAN = {
    "parameters": 70.55e9,
    "tokens_per_step": 4.19e6,
    "steps": 333786,
    "gpus": 1024,
    "leaves": 32,
    "spines": 16,
    "switches": 48,
    "memory_unsharded": 141e9,
    "memory_zero1": 36e9,
    "memory_activations": 23e9,
    "flop_per_step": 1.91e18,
    "t_compute": 3.77,
    "tp_message": 134e6,
    "tp_bytes": 301e9,
    "t_tp": 0.82,
    "t_tp_h100_134MB_ring": 0.90,
    "t_tp_h100_134MB_nvls": 0.75,
    "dp_gradients": 17.6e9,
    "dp_bytes": 35.0e9,
    "t_dp": 0.700,
    "window": 0.731,
    "nic_break_even": 47.9e9,
    "t_step": 4.60,
    "mfu": 0.41,
    "run_hours": 427,
    "price_total": 50.4e6,
    "price_gpu_hour": 1.40,
    "price_run": 0.61e6,
    "mtbf": 49.5 * 3600,
    "interruptions": 8.6,
    "checkpoint_bytes": 0.99e12,
    "ledger_fp32_gradients": 5.27,
    "ledger_no_overlap": 5.29,
    "ledger_one_nic_quarter": 6.67,
    "ledger_tp_over_network": 9.9,
    "ledger_half_rate": 5.27,
    "ledger_one_root": 93.5,
    "t_one_root": 89.6,
}


def test_by_hand():
    assert CASE.gpus == 128 * 8
    assert CASE["gpus"] == CASE.gpus
    assert CASE.nic_rate == 50e9
    assert CASE.t_dp == pytest.approx(2 * 127 / 128 * 2 * CASE.parameters / 8 / 50e9)
    # one bucket is ready when the pass ends
    assert CASE.exposed(buckets=1) == pytest.approx(CASE.t_dp)
    assert last_finish([1, 2, 3], [5, 1, 1]) == 8
    assert last_finish([1, 9, 10], [2, 3, 1]) == 13


@pytest.mark.parametrize("row", DERIVED, ids=lambda r: r["key"])
def test_derived_rows_equal_the_shared_figures(row):
    assert bool(row["formula"]) != (row["key"] in _COMPUTED)  # one way to compute it
    assert row["value"] == ""
    assert CASE.row(row["key"]).value == pytest.approx(float(row["expected"]), rel=1e-5)


@pytest.mark.parametrize("key", PLAN)
def test_figures_of_the_teaching_plan(key):
    assert CASE[key] == pytest.approx(PLAN[key], rel=0.01)


def test_figures_of_the_plan_that_are_made_of_rows():
    part = CASE.t_compute / CASE.microbatches
    assert part == pytest.approx(0.94, rel=0.01)
    assert part * CASE.backward_share == pytest.approx(0.628, rel=0.01)
    assert CASE.t_tp / 2 / CASE.microbatches == pytest.approx(0.103, rel=0.01)
    assert CASE.window - CASE.t_dp == pytest.approx(0.031, rel=0.01)
    assert CASE.layers * CASE.hidden * CASE.sequence / CASE.parameters == pytest.approx(
        0.076, rel=0.01
    )
    assert CASE.run_hours / 24 == pytest.approx(17.8, rel=0.01)
    assert CASE.price_run / 100 == pytest.approx(6100, rel=0.01)
    assert CASE.t_step - CASE.t_dp_exposed + CASE.t_dp_exposed_14us == pytest.approx(
        4.85, rel=0.002
    )
    assert CASE.t_step - CASE.t_dp_exposed + CASE.t_dp_exposed_true_sizes == pytest.approx(
        4.61, rel=0.002
    )
    assert CASE.t_one_root / CASE.t_dp == pytest.approx(128)


@pytest.mark.parametrize(
    ("key", "table", "part", "attribute", "where"),
    [
        ("hbm_capacity", "accelerators", "h100", "hbm_capacity", {}),
        ("peak_bf16", "accelerators", "h100", "peak_bf16_dense", {}),
        ("nvlink_per_gpu", "links", "nvlink4", "bandwidth_per_gpu", {}),
        ("nvlink_per_gpu", "accelerators", "h100", "scaleup_bandwidth", {}),
        ("nic_rate", "nics", "cx7", "throughput", {}),
        ("gpus_per_server", "systems", "dgxh100", "scaleout_nics", {}),  # one NIC per GPU
        ("switch_ports", "switches", "quantum2", "ports", {}),
        ("server_power", "systems", "dgxh100", "power_max", {}),
        ("optic_nic_side", "media", "sr4", "power_max", {}),
        ("optic_twin_port", "media", "dr4x2", "power_max", {}),
        ("price_server", "media", "node-h100", "price", {}),
        ("ring_step_latency", "nccl_model", "hw", "latency_Simple", {"name": "hwLat NET Ring"}),
    ],
)
def test_given_rows_repeat_the_catalog(key, table, part, attribute, where):
    spec = getattr(catalog, table)[part].spec(attribute, **where)
    assert CASE[key] == pytest.approx(spec.si, rel=1e-12)
    assert CASE.given[key].source.split("+")[0] in spec.source or key in (
        "price_server",
        "peak_bf16",
    )


def test_given_rows_that_stand_in_words():
    ring = catalog.measured["h200-n"].spec("busbw", name="8x H200 all-reduce 8 GiB").note
    assert float(ring.split()[-1]) * 1e9 == CASE.tp_busbw
    assert catalog.media["sw64ndr"]["price"].value.split("-")[0] == f"{CASE.price_switch:.0f}"
    counts = [s.si for s in catalog.reliability["llama3"].specs if s.attribute == "count"]
    assert sum(counts) == CASE.llama3_interruptions
    hours = catalog.reliability["llama3"].spec("mtbf", name="Llama 3 job MTBF").si
    assert CASE.llama3_days * 86400 / CASE.llama3_interruptions == pytest.approx(hours, rel=0.01)
    assert published.load("h100x8_ring").busbw[24] == pytest.approx(336.0e9, rel=1e-3)
    assert published.load("h100x8_nvls").busbw[24] == pytest.approx(400.2e9, rel=1e-3)
    assert published.load("h100x8_ring").size[24] == CASE.tp_message


def test_every_row_has_evidence_and_every_formula_a_row():
    assert {r["key"] for r in DERIVED} == set(FORMULAS)
    assert list(CASE) == [r["key"] for r in ROWS if r["kind"] != "derived"] + list(FORMULAS)
    for spec in CASE.given.values():
        if spec.kind in ("datasheet", "literature", "measured"):
            assert catalog.cite(spec.source)


def test_changes_make_a_new_case():
    slow = catalog.case(nic_rate="200 Gb/s")
    assert slow.nic_rate == 25e9
    assert slow.t_dp == pytest.approx(2 * CASE.t_dp)
    assert slow.t_step == pytest.approx(CASE.ledger_half_rate)
    assert CASE.nic_rate == 50e9
    assert slow.row("nic_rate").kind == "illustrative"
    assert slow.row("nic_rate").note == "50 GB/s in the case"
    assert catalog.case(lifetime="5 years").lifetime == 5 * 8766 * 3600
    assert catalog.case(ring_step_latency=0).t_dp_exposed_14us == pytest.approx(CASE.t_dp_exposed)
    campus = CASE.replace(servers=2048, dp=2048)
    assert campus.gpus == 16384
    assert campus.mtbf == pytest.approx(3.093 * 3600, rel=1e-3)


@given(st.floats(0.05, 20), st.integers(1, 200), st.floats(0, 1e-3))
def test_law_exposed_time_has_its_bounds(factor, buckets, latency):
    c = CASE.replace(nic_rate=CASE.nic_rate * factor)
    cost = c.t_dp + buckets * 254 * latency
    exposed = c.exposed(buckets=buckets, step_latency=latency)
    assert exposed >= cost / buckets * (1 - 1e-9)  # the last bucket is ready when the pass ends
    # the NIC starts after the first bucket
    assert exposed >= cost - c.window * (1 - 1 / buckets) - 1e-9
    assert exposed <= cost + 1e-9


@given(st.floats(0.1, 10))
def test_law_a_faster_nic_is_never_slower_or_dearer(factor):
    c = CASE.replace(nic_rate=CASE.nic_rate * factor)
    better, worse = (c, CASE) if factor > 1 else (CASE, c)
    assert better.t_step <= worse.t_step + 1e-12
    assert better.price_run <= worse.price_run + 1e-6
    assert c.price_total == CASE.price_total


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nic_rate": "200 Gbps"}, "nic_rate has the unknown unit 'Gbps'"),
        ({"nic_rate": 200}, "nic_rate must be within"),
        ({"nic_rate": "3 m"}, "nic_rate must be a rate, got the length"),
        (
            {"nic_rate": "1 MB/s"},
            r'nic_rate must be near the 5e\+10 \(SI\) of the case.*write it as "50 GB/s"',
        ),
        ({"lifetime": 5}, 'lifetime must be near .* got 5; write it as "4 years"'),
        ({"lifetime": "x years"}, "lifetime"),
        ({"lifetime": "1.2.3 years"}, "lifetime has the unknown unit"),
        ({"backward_share": 2}, "backward_share must be near the 0.666667"),
        ({"servers": 64}, "tp x dp must be the number of GPUs, got 8 x 128 for 512"),
        ({"servers": 128.5}, "servers must be a whole number, got 128.5"),
        ({"tp": 0}, "tp must be near the 8"),
        ({"t_dp": 3}, "has no 't_dp'.*it is derived: change what it follows from"),
        ({"nic_rat": 3}, "has no 'nic_rat'; did you mean 'nic_rate'"),
    ],
)
def test_refusals(changes, text):
    with pytest.raises(ValueError, match=text):
        catalog.case(**changes)


def clos_of_the_sheet(c):
    return c.leaves, c.spines, c.cores, c.cables_spine


def clos_that_is_built(c):
    fabric = topologies.build(
        "rail_optimised",
        servers=c.servers,
        gpus=c.gpus_per_server,
        rails=c.rails,
        radix=c.switch_ports,
        expand=False,
    )
    count = fabric.summary()
    return count["leaf"], count["spine"], count.get("core", 0), count["cables"] - c.cables_host


@pytest.mark.parametrize(
    "servers",
    [
        *range(1, 34),
        64,
        65,
        96,
        97,
        100,
        128,
        129,
        130,
        160,
        161,
        200,
        255,
        256,
        257,
        300,
        512,
        1000,
        2048,
        2049,
    ],
)
def test_switches_and_cables_are_those_that_are_built(servers):
    c = catalog.case(servers=servers, dp=servers)
    assert clos_of_the_sheet(c) == clos_that_is_built(c)
    assert c.switches == c.leaves + c.spines + c.cores


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.integers(1, 8), st.integers(2, 70))
@example(servers=16, per_rail=2, rails=4, ports=9)  # one port of a leaf stays free
@example(servers=3, per_rail=8, rails=1, ports=70)
@example(
    servers=32, per_rail=1, rails=5, ports=64
)  # 3 spines of 11 cables would need 33 ports of a leaf
def test_law_a_clos_of_any_size_is_the_one_that_is_built_or_refused(
    servers, per_rail, rails, ports
):
    gpus = per_rail * rails
    c = catalog.case(
        servers=servers, dp=servers, tp=gpus, gpus_per_server=gpus, rails=rails, switch_ports=ports
    )
    try:
        built = clos_that_is_built(c)
    except ValueError:
        with pytest.raises(ValueError, match=r"(servers|rails|gpus) must be within"):
            clos_of_the_sheet(c)
    else:
        assert clos_of_the_sheet(c) == built


def test_the_campus():
    """Three full tiers: 5 switches for each 64 GPUs, and three cables for each; 32,768 GPUs as on the price sheet."""
    campus = CASE.replace(servers=2048, dp=2048)
    assert campus.strip() == "step 4.60 s | 41 % | 1.1 days | USD 0.64 M"
    assert (campus.leaves, campus.spines, campus.cores) == (512, 512, 256)
    assert campus.cables_spine == 2 * campus.cables_host == 2 * 16384
    assert campus.optics_power == pytest.approx(16384 * 9 + 2.5 * 16384 * 17)
    assert campus.price_fabric == 1280 * 36000 + 2048 * 30720
    assert all(campus[row] > 0 for row in FORMULAS)
    twice = CASE.replace(servers=4096, dp=4096)
    assert twice.switches * twice.price_switch == 92_160_000
    assert twice.price_cables == pytest.approx(124_518_400, rel=0.011)


def test_three_tiers_end():
    for row in ("leaves", "spines", "cables_spine", "price_fabric", "optics_power"):
        with pytest.raises(
            ValueError, match=r"servers must be within 1\.\.8192 for 3 tiers of 64-port .* got 8193"
        ):
            CASE.replace(servers=8193, dp=8193)[row]
    assert CASE.replace(servers=8193, dp=8193).t_step > 0
    with pytest.raises(ValueError, match=r"rails must divide gpus \(8\), got 3"):
        _ = CASE.replace(rails=3).leaves


def test_unknown_rows():
    with pytest.raises(AttributeError, match="the case has no 't_ste'; did you mean 't_step'"):
        _ = CASE.t_ste
    with pytest.raises(KeyError, match="the case has no 't_ste'"):
        CASE["t_ste"]
    for key in ([], {}, None, 3):
        with pytest.raises(
            KeyError, match=r"the case has no .*; it has backward_share, .*, dp, ... \d+ in all"
        ):
            CASE[key]
    with pytest.raises(ValueError, match="buckets must be >= 1"):
        CASE.exposed(buckets=0)


def test_display():
    assert CASE.strip() == "step 4.60 s | 41 % | 17.8 days | USD 0.61 M"
    assert CASE.strip(step=False, share=False) == "step - | - | 17.8 days | USD 0.61 M"
    assert CASE.strip(days=False, bill=False) == "step 4.60 s | 41 % | - days | USD -"
    assert repr(CASE) == "<Case: 1024 GPUs, NIC 50.0 GB/s, nothing changed>"
    assert (
        repr(CASE.replace(nic_rate="25 GB/s"))
        == "<Case: 1024 GPUs, NIC 25.0 GB/s, nic_rate changed>"
    )
    assert (
        repr(CASE.row("t_dp"))
        == "<Spec case.t_dp: 0.7000251 s (derived, derived: dp_bytes / nic_rate)>"
    )
    assert CASE.row("parameters").quoted == "70,553,706,496 parameters"
    assert CASE.row("optics_power").quoted == "35.328 kW"
    page = CASE._repr_html_()
    assert "nic_rate" in page
    assert page.count("not confirmed<td>memory") == 1  # the power of a server
    assert "10.2 kW (estimate, not confirmed, memory)" in repr(CASE.row("server_power"))
    # given rows only: a lesson's answers are not shown before the question
    assert "4.6" not in page
    assert {"t_step", "replace"} <= set(dir(CASE))
    assert copy.deepcopy(CASE).t_step == CASE.t_step
