"""Spec: a fact with unit, direction and evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import units
from fabriclab.core.spec import DIRECTIONS, EVIDENCE, KINDS, Spec, html_table, si_factor


def spec(value=450.0, unit="GB/s", **more):
    return Spec(
        "nvlink4", "NVLink 4", "bandwidth_per_gpu", value, unit, **{"kind": "illustrative", **more}
    )


@pytest.mark.parametrize(
    ("value", "unit", "direction", "si"),
    [
        (450.0, "GB/s", "per_direction", 450e9),
        (900.0, "GB/s", "bidirectional_sum", 450e9),
        (51.2, "Tb/s", "aggregate_bidirectional_sum", 3.2e12),
        (51.2, "Tb/s", "aggregate_per_direction", 6.4e12),
        (400.0, "Gb/s", "per_direction", 50e9),
        (80.0, "GB (as printed by vendor)", "n/a", 80e9),
        (14.0, "us per step", "n/a", 14e-6),
        (212.5, "Gb/s per lane", "per_direction", 212.5e9 / 8),
        (1.5, "W per 800G end", "n/a", 1.5),
        (4.5, "ns/m", "n/a", 4.5e-9),
        (989.0, "TFLOP/s", "n/a", 989e12),
        (4.0, "years", "n/a", 4 * 8766 * 3600.0),
        (3.09, "h", "n/a", 3.09 * 3600),
        (8.0, "ConnectX-7 400 Gb/s", "n/a", 8.0),
        (32.0, "GT/s per lane", "per_direction", None),
        (68.1, "dB", "n/a", None),
        (40.0, "dBm", "n/a", None),
        ("14-18", "W", "n/a", None),
        ("full mesh", "text", "n/a", None),
    ],
)
def test_si_value_by_hand(value, unit, direction, si):
    made = spec(value, unit, direction=direction).si
    assert made is None if si is None else made == pytest.approx(si, rel=1e-15)


def test_a_row_of_text_cells():
    row = {
        "id": "a",
        "name": "A",
        "attribute": "b",
        "value": "16",
        "unit": "Tb/s",
        "key": "not a field",
        "direction": "aggregate_bidirectional_sum",
        "kind": "derived",
    }
    made = Spec.from_row(row)
    assert made == Spec("a", "A", "b", 16.0, "Tb/s", "aggregate_bidirectional_sum", "derived")
    assert made.si == 1e12
    assert Spec.from_row({**row, "value": "14-18"}).value == "14-18"


@pytest.mark.parametrize(
    ("value", "unit", "direction", "ends"),
    [
        ("14-18", "GB/s", "per_direction", (14e9, 18e9)),
        ("20-30", "dB", "n/a", (20, 30)),
        ("100-200", "GB/s", "bidirectional_sum", (50e9, 100e9)),
        (1e-7, "s", "n/a", (1e-7, 1e-7)),
        (-40.0, "dBm", "n/a", (-40, -40)),
    ],
)
def test_ends_by_hand(value, unit, direction, ends):
    assert spec(value, unit, direction=direction).ends == pytest.approx(ends, rel=1e-15)


@pytest.mark.parametrize("value", ["full mesh", "14 to 18", "all-to-all"])
def test_what_is_no_range_has_no_ends(value):
    with pytest.raises(ValueError, match="must be a number or a range such as 14-18, got"):
        spec(value, "text").ends  # noqa: B018


@given(st.floats(1e-9, 1e9), st.sampled_from(["GB/s", "us", "ports", "dB"]))
def test_law_the_ends_of_a_number_are_its_si_value(value, unit):
    made = spec(value, unit)
    assert made.ends == pytest.approx([made.si if unit != "dB" else value] * 2, rel=1e-12)


@given(st.floats(-1e9, 1e9), st.sampled_from(sorted(units.UNITS)))
def test_law_si_agrees_with_the_parser_at_the_door(value, unit):
    quantity, _ = units.UNITS[unit]
    assert spec(value, unit).si == pytest.approx(
        units.parse(f"{value!r} {unit}", quantity), rel=1e-12, abs=1e-300
    )
    assert si_factor(f"{unit} per end") == si_factor(unit) == si_factor(f"{unit} (as printed)")


@given(st.floats(1e-9, 1e6), st.sampled_from(["GB/s", "Tb/s", "ports"]))
def test_law_a_sum_of_both_directions_is_halved(value, unit):
    for both, one in (
        ("bidirectional_sum", "per_direction"),
        ("aggregate_bidirectional_sum", "aggregate_per_direction"),
    ):
        assert 2 * spec(value, unit, direction=both).si == spec(value, unit, direction=one).si


@pytest.mark.parametrize("kind", EVIDENCE)
def test_evidence_needs_a_source(kind):
    with pytest.raises(ValueError, match=rf"nvlink4.bandwidth_per_gpu: kind {kind} needs a source"):
        spec(kind=kind)
    assert spec(kind=kind, source="MLE-net").kind == kind


def test_an_estimate_needs_a_note():
    with pytest.raises(ValueError, match="an estimate needs a note"):
        spec(kind="estimate", source="memory")
    assert spec(kind="estimate", note="rule of thumb").si == 450e9


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"kind": "guess"}, "kind must be one of .*illustrative, got 'guess'"),
        ({"direction": "both"}, "direction must be one of .*unstated, got 'both'"),
        ({"confidence": "D"}, "confidence must be one of A, B, C, got 'D'"),
        ({"value": float("nan")}, "value must be finite, got nan GB/s"),
        ({"value": float("inf")}, "value must be finite"),
    ],
)
def test_refusals(more, text):
    with pytest.raises(ValueError, match=text):
        spec(**more)


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        spec().value = 3.0
    assert hash(spec()) == hash(spec())
    assert len(set(KINDS)) == 7
    assert len(set(DIRECTIONS)) == 6


def test_display():
    fact = spec(
        direction="per_direction",
        kind="datasheet",
        source="MLE-net",
        confidence="A",
        note="18 links < 25 & up",
    )
    assert (
        repr(fact)
        == "<Spec nvlink4.bandwidth_per_gpu: 450 GB/s per_direction (datasheet, MLE-net, A)>"
    )
    assert (
        repr(spec(1310720.0, "B")) == "<Spec nvlink4.bandwidth_per_gpu: 1,310,720 B (illustrative)>"
    )
    assert spec("full mesh", "text").quoted == "full mesh"
    page = fact._repr_html_()
    assert all(
        x in page for x in ("<caption>NVLink 4", "450 GB/s", "MLE-net", "18 links &lt; 25 &amp; up")
    )
    assert html_table([fact, fact], "two").count("<tr>") == 3
