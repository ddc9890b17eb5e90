"""Validate: the textbook ring and our model, and their errors on every published sweep."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import tuner, validate
from fabriclab.catalog import published
from fabriclab.core.result import Result
from fabriclab.validate import crossed, tables

SYSTEMS = {s["sweep_id"]: s for s in published.systems()}


def us(name, size):
    return validate.textbook(SYSTEMS[name], size)


def test_predictions_by_hand():
    """Constants: NVLink 4 450 GB/s, NVLink 3 300, PCIe 4 31.508, xGMI 448; steps of 0.6, 1.0 and 2.7 us."""
    n = 2**30
    assert us("h100x8_ring", n) == pytest.approx(14 * 0.6 + 1e6 * 1.75 * n / 450e9)
    assert us("gb200_72", n) == pytest.approx(142 * 0.6 + 1e6 * 142 / 72 * n / 900e9)
    assert us("mi300x_1n", n) == pytest.approx(14 * 0.6 + 1e6 * 1.75 * n / 448e9)
    assert us("4090x8_p2p_off", n) == pytest.approx(14 * 1.0 + 1e6 * 1.75 * n / 31.508e9)
    assert us("xx_1n_all_gather", n) == pytest.approx(7 * 0.6 + 1e6 * 7 / 8 * n / 450e9)
    assert us("xx_1n_sendrecv", n) == pytest.approx(0.6 + 1e6 * n / 450e9)
    assert us("oci_h100_2n", n) == pytest.approx(30 * 2.7 + 1e6 * 30 / 16 * n / 400e9)
    assert us("polaris_n2_2.18_all_gather_env3", n) == pytest.approx(
        7 * 2.7 + 1e6 * 7 / 8 * n / 50e9
    )
    # 8 of 16 blocks leave the server, and a GPU has one of its eight NICs (200 Gb/s).
    assert us("sophia_n2_2.22.3_alltoall_env6", n) == pytest.approx(
        15 * 2.7 + 1e6 * 8 / 16 * n / 25e9
    )
    assert us("xx_10n_g2_sendrecv", n) == pytest.approx(2.7 + 1e6 * n / 50e9)


@pytest.mark.parametrize(
    ("sweep", "inside"),
    [
        ("oci_h100_2n", 28),  # all-reduce on 2 servers x 8: 2 of 30 steps are between servers
        ("polaris_n2_2.18_all_gather_env3", 6),  # 2 x 4: one of 7 steps
        ("sophia_n2_2.22.3_alltoall_env6", 7),  # 2 x 8: peers in the sender's own server
        ("xx_10n_g2_sendrecv", 0),
        ("h100x8_ring", 0),  # one server, whose steps take 0.6 us anyway
    ],
)
def test_steps_inside_a_server_count_apart_if_asked(sweep, inside):
    """Steps of 2.7 and 0.6 us by LL, 14 and 3.4 us by Simple; the bytes stay as they are."""
    about = SYSTEMS[sweep]
    for protocol, net, nvlink in (("LL", 2.7, 0.6), ("Simple", 14, 3.4)):
        alike, apart = (
            validate.textbook(about, 2**20, protocol=protocol, split=split)
            for split in (False, True)
        )
        assert alike - apart == pytest.approx((net - nvlink) * inside, abs=1e-6)
    with pytest.raises(TypeError, match="split must be True or False"):
        validate.textbook(about, 2**20, split="yes")


@pytest.mark.parametrize(
    ("sweep", "change", "rate"),
    [
        ("oci_h100_2n", {}, 400e9),
        ("oci_h100_2n", {"nic_gbps": 800}, 450e9),  # the GPU's own links are the narrow place
        ("xx_10n_g2_sendrecv", {"nics_per_node": 4}, 100e9),  # two NICs for each of two GPUs
        ("xx_10n_g2_sendrecv", {"nics_per_node": 1}, 50e9),
        ("xx_10n_g2_sendrecv", {"nic_gbps": 4000}, 450e9),
    ],
)
def test_the_narrow_place_by_hand(sweep, change, rate):
    about = {**SYSTEMS[sweep], **change}
    factor = 30 / 16 if sweep.startswith("oci") else 1
    slope = (validate.textbook(about, 2e9) - validate.textbook(about, 1e9)) / 1e9 * 1e-6
    assert slope == pytest.approx(factor / rate)


@pytest.mark.parametrize(
    ("change", "part", "rate"),
    [
        ({}, 8 / 16, 25e9),  # 8 of 16 blocks leave the server by the GPU's share of the NICs
        (
            {"nic_gbps": 1200},
            8 / 16,
            150e9,
        ),  # 8/16 at 150 GB/s outside still takes longer than 15/16 at 300 inside
        ({"nic_gbps": 1600}, 15 / 16, 300e9),  # 8/16 at 200 GB/s does not
        ({"nic_gbps": 3200}, 15 / 16, 300e9),
    ],
)
def test_the_narrow_place_of_an_all_to_all_by_hand(change, part, rate):
    """Two servers of 8 A100: NVLink 3 takes 15 of 16 blocks at 300 GB/s, the NICs those for the other server."""
    about = {**SYSTEMS["sophia_n2_2.22.3_alltoall_env6"], **change}
    assert validate.textbook(about, 2**30) == pytest.approx(15 * 2.7 + 1e6 * part * 2**30 / rate)


def test_quantiles_by_hand():
    """Errors of 0, 1, 2 ... on the sizes of one regime: the median and the tenth from above, between ranks."""
    about = SYSTEMS["h100x8_ring"]
    result = published.load("h100x8_ring")
    kind = validate.regimes(result)
    order = {s: i for g in validate.REGIMES for i, s in enumerate(result.size[kind == g])}
    row = tables._of_sweep(lambda _, size: (1 + order[size]) * 1e6 * result.at(size), about)
    for g in validate.REGIMES:
        last = np.sum(kind == g) - 1
        assert (row[g], row[f"{g}_p90"]) == pytest.approx((0.5 * last, 0.9 * last))


def test_regimes_by_hand():
    result = Result(
        "all_reduce",
        "measured",
        [8, 64, 1024, 2**20, 2**24, 2**25],
        [1e-5, 1.1e-5, 2.5e-5, 1e-4, 4e-4, 7e-4],
        4,
    )
    assert validate.regimes(result).tolist() == ["lat", "lat", "mid", "mid", "bw", "bw"]
    large = Result("all_reduce", "measured", [2**17, 2**20], [1e-5, 1.2e-5], 4)
    # begins above 64 KiB: no latency regime
    assert validate.regimes(large).tolist() == ["mid", "bw"]


def test_shape():
    made = validate.table(validate.textbook)
    assert [r["sweep"] for r in made.rows] == [s["sweep_id"] for s in published.systems()]
    assert {r["cover"] for r in made.rows} == {1.0}
    assert list(made.rows[0]) == [
        "sweep",
        "collective",
        "ranks",
        "cover",
        "lat",
        "lat_p90",
        "mid",
        "mid_p90",
        "bw",
        "bw_p90",
    ]


def test_the_textbook_is_as_wrong_as_it_is():
    """Fixed by a run; the model that has to beat it is in test_tuner.py."""
    made = validate.table(validate.textbook)
    medians = {g: round(np.nanmedian([r[g] for r in made.rows]), 2) for g in validate.REGIMES}
    assert medians == {"lat": 0.67, "mid": 0.68, "bw": 0.27}
    ring = next(r for r in made.rows if r["sweep"] == "h100x8_ring")
    assert (round(ring["lat"], 2), round(ring["bw"], 2)) == (0.77, 0.21)


def test_law_the_measured_time_has_no_error_and_twice_of_it_one_of_100_percent():
    def oracle(factor):
        return lambda about, size: factor * 1e6 * published.load(about["sweep_id"]).at(size)

    for factor, error in ((1, 0), (2, 1), (0.25, 0.75)):
        rows = validate.table(oracle(factor)).rows
        for g in validate.REGIMES:
            held = [r[k] for r in rows for k in (g, f"{g}_p90") if not math.isnan(r[g])]
            assert held == pytest.approx([error] * len(held), abs=1e-9)


def test_law_a_missing_prediction_counts_as_wrong():
    half = validate.table(
        lambda about, size: None if size < 2**20 else validate.textbook(about, size)
    )
    assert np.nanmedian([r["lat"] for r in half.rows]) > 1e6
    assert 0 < min(r["cover"] for r in half.rows) < max(r["cover"] for r in half.rows) == 1
    for bad in (math.inf, math.nan, 0.0, -1.0):
        assert validate.table(lambda about, size, bad=bad: bad).rows[0]["cover"] == 0


@given(st.sampled_from(sorted(SYSTEMS)), st.floats(1, 1e11), st.floats(1.01, 100))
def test_law_time_rises_with_size_and_falls_with_rate(name, size, factor):
    about = SYSTEMS[name]
    assert 0 < validate.textbook(about, size) < validate.textbook(about, size * factor)
    faster = {**about, "nic_gbps": 4 * about["nic_gbps"]}
    assert validate.textbook(faster, size) <= validate.textbook(about, size)


@given(st.sampled_from(sorted(SYSTEMS)))
def test_law_the_bandwidth_term_is_linear(name):
    a, b, c = (us(name, s) for s in (1e6, 2e6, 3e6))
    assert c - b == pytest.approx(b - a, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"collective": "hypercube"},
        {"scale_up": "cxl"},
        {"ranks": 0},
        {"ranks": ""},
        {"scale_up": ""},
        {"nodes": 4, "ranks": 32, "nics_per_node": 0},
        {"nodes": 4, "ranks": 32, "nic_gbps": 0},
    ],
)
def test_a_row_that_cannot_be_understood_has_no_prediction(change):
    assert validate.textbook({**SYSTEMS["h100x8_ring"], **change}, 2**20) is None
    assert us("h100x8_ring", 0) is None


def test_sizes_with_a_unit():
    assert (
        us("h100x8_ring", "1 MiB")
        == us("h100x8_ring", np.int64(2**20))
        == us("h100x8_ring", 2.0**20)
    )


@pytest.mark.parametrize(
    ("size", "error", "text"),
    [
        ("1 seconds", ValueError, "size_bytes has the unknown unit 'seconds'"),
        ("1 s", ValueError, "size_bytes must be a size, got the time '1 s'"),
        ("1048576", ValueError, "size_bytes needs its unit"),
        (-1, ValueError, "size_bytes must be within 0"),
        (math.nan, ValueError, "size_bytes must be finite"),
        (None, TypeError, "size_bytes must be a number or a string with a unit, got None"),
        ([8, 16], TypeError, "size_bytes must be a number"),
    ],
)
def test_sizes_that_are_none(size, error, text):
    with pytest.raises(error, match=text):
        us("h100x8_ring", size)


@pytest.mark.parametrize(
    ("sweep", "error", "text"),
    [
        (
            {},
            ValueError,
            r"row of catalog.published.systems\(\), got {} without collective, scale_up",
        ),
        (
            {k: v for k, v in SYSTEMS["h100x8_ring"].items() if k != "nic_gbps"},
            ValueError,
            "without nic_gbps$",
        ),
        ("h100x8_ring", ValueError, r"got 'h100x8_ring' without keys at all"),
        (None, ValueError, "got None without keys at all"),
        ({**SYSTEMS["h100x8_ring"], "collective": 3}, TypeError, "collective must be text, got 3"),
        (
            {**SYSTEMS["h100x8_ring"], "scale_up": None},
            TypeError,
            "scale_up must be text, got None",
        ),
        (
            {**SYSTEMS["h100x8_ring"], "ranks": "8"},
            TypeError,
            "ranks must be a whole number, got '8'",
        ),
        ({**SYSTEMS["h100x8_ring"], "ranks": -8}, ValueError, "ranks must be >= 0, got -8"),
        (
            {**SYSTEMS["h100x8_ring"], "nic_gbps": "400 Gb/s"},
            TypeError,
            "nic_gbps must be a whole number",
        ),
    ],
)
def test_rows_that_are_none(sweep, error, text):
    with pytest.raises(error, match=text):
        validate.textbook(sweep, 2**20)


def test_a_model_is_a_function():
    with pytest.raises(
        TypeError, match=r"model must be a function of a sweep and a size.*got 3\.0"
    ):
        validate.table(3.0)


def test_no_measured_value_is_needed():
    keys = (
        "collective",
        "ranks",
        "scale_up",
        "accelerator",
        "scale_up_domain_gpus",
        "gpus_per_node",
        "transport",
        "nic_gbps",
        "nics_per_node",
    )
    for about in SYSTEMS.values():
        assert validate.textbook({k: about[k] for k in keys}, 2**24) == validate.textbook(
            about, 2**24
        )


def test_display():
    made = validate.table(validate.textbook)
    lines = repr(made).splitlines()
    assert len(lines) == 68
    assert lines[0].split()[:4] == ["sweep", "collective", "ranks", "cover"]
    assert made._repr_html_().count("<tr>") == 68
    assert "nan" not in str(made)
    assert "none" in str(validate.table(lambda about, size: None))
    assert np.isnan(made.rows[8]["lat"])


def test_the_band_holds_four_in_five_where_a_second_system_is_known():
    rows = {row["family"]: row for row in crossed.coverage()}
    for family, row in rows.items():
        for kind in ("latency", "middle", "bandwidth"):
            if row["systems"] < 2 or family == "all" or row[f"{kind}, points"] < 50:
                continue
            assert int(row[f"{kind}, inside"][:-1]) >= 75, (family, kind)
    assert (
        sum(rows["all"][f"{kind}, points"] for kind in ("latency", "middle", "bandwidth")) == 1303
    )


def test_without_the_only_system_of_a_family_no_system_is_known():
    only = SYSTEMS["aws_p4de_2n"]
    assert tuner.estimate(only, size="1 MiB").note == "one system known"
    unseen = tuner.estimate(only, size="1 MiB", without=only["system"])
    assert unseen.note == "no system known"
    several = SYSTEMS["oci_h100_2n"]
    assert tuner.estimate(several, size="1 MiB", without=several["system"]).note == ""


def test_the_median_errors_are_those_of_the_rows_of_the_table():
    rows = [
        row for row in validate.table(validate.textbook).rows if row["collective"] == "all_gather"
    ]
    found = validate.median_errors(validate.textbook, "all_gather")
    assert list(found) == ["small", "medium", "large"]
    assert found["large"] == pytest.approx(np.nanmedian([row["bw"] for row in rows]))
    assert found["small"] == pytest.approx(np.nanmedian([row["lat"] for row in rows]))


def test_a_collective_without_published_sweeps_is_refused():
    with pytest.raises(ValueError, match=r"all_reduce.*got 'barrier'"):
        validate.median_errors(validate.textbook, "barrier")
