"""Units: by hand, shape, laws, refusals, display."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import units
from fabriclab.core import Spec


# by hand ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("400 Gb/s", "rate", 50e9),
        ("400Gb/s", "rate", 50e9),
        ("50 GB/s", "rate", 50e9),
        ("1 Gibit/s", "rate", 2**27),
        ("1 MiB", "size", 1048576.0),
        ("1 MB", "size", 1e6),
        ("8 b", "size", 1.0),
        ("1_024 B", "size", 1024.0),
        ("500 ns", "time", 5e-7),
        ("2 us", "time", 2e-6),
        ("2 µs", "time", 2e-6),
        ("2 μs", "time", 2e-6),
        ("1.5 h", "time", 5400.0),
        ("1 d", "time", 86400.0),
        ("2 min", "time", 120.0),
        ("1e-3 s", "time", 1e-3),
        ("3 m", "length", 3.0),
        ("2 km", "length", 2000.0),
        ("9 W", "power", 9.0),
        ("10.2 kW", "power", 10200.0),
        ("36 kUSD", "price", 36e3),
        ("989 TFLOP/s", "speed", 989e12),
        ("60 GHz", "frequency", 60e9),
        ("-1 s", "time", -1.0),
        (".5 s", "time", 0.5),
        (7, "size", 7.0),
        (np.float64(2.5), "time", 2.5),
    ],
)
def test_text_with_unit_becomes_si(text, quantity, value):
    assert units.parse(text, quantity) == pytest.approx(value, rel=1e-15)


def test_minutes_and_metres_are_told_apart():
    """The letter m stands for milli, metre and minute in daily life; here each has one spelling."""
    assert units.time("5 ms") == 5e-3
    assert units.length("5 mm") == 5e-3
    with pytest.raises(ValueError, match="must be a time, got the length '5 m'"):
        units.time("5 m")


# shape --------------------------------------------------------------------------------------------
def test_parsers_return_plain_floats():
    assert type(units.rate("1 GB/s")) is float
    assert type(units.size(np.int64(3))) is float
    assert type(units.count(np.int32(3), "n")) is int


# laws ---------------------------------------------------------------------------------------------
@given(st.floats(1e-3, 1e6), st.sampled_from(sorted(units.UNITS)))
def test_every_unit_is_linear(number, unit):
    kind, factor = units.UNITS[unit]
    assert units.parse(f"{number!r} {unit}", kind) == pytest.approx(number * factor, rel=1e-15)


@given(st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi"]), st.floats(1, 1e5))
def test_eight_bits_are_a_byte(prefix, number):
    assert 8 * units.parse(f"{number!r} {prefix}b", "size") == units.parse(
        f"{number!r} {prefix}B", "size"
    )
    assert 8 * units.parse(f"{number!r} {prefix}b/s", "rate") == units.parse(
        f"{number!r} {prefix}B/s", "rate"
    )


@given(st.floats(1e-11, 1e17))
def test_shown_text_is_read_back_within_three_digits(value):
    for show, quantity in (
        (units.format_time, "time"),
        (units.format_rate, "rate"),
        (units.format_size, "size"),
    ):
        if (quantity == "time" and value < 1e6) or value >= 1:
            back = units.parse(show(value), quantity)
            assert back == pytest.approx(value, rel=5.1e-3)


SHOWN = {"time": units.format_time, "rate": units.format_rate, "size": units.format_size}


@given(st.sampled_from(sorted(SHOWN)), st.floats(1e-12, 1e18))
def test_a_shown_text_is_shown_again_as_it_is(quantity, value):
    """What was read back is written the same: no second rounding, and no change of prefix."""
    text = SHOWN[quantity](value)
    if (
        quantity != "size" or value >= 1000
    ):  # a fraction of a byte is read back as one, and written as whole bytes
        assert SHOWN[quantity](units.parse(text, quantity)) == text


@given(st.integers(1, 1023), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_whole_binary_sizes_come_back_exactly(n, unit):
    size = n * units.UNITS[unit][1]
    assert (
        units.format_size(size) == f"{n} {unit}"
        and units.parse(units.format_size(size), "size") == size
    )


@given(
    st.floats(1e-3, 1e5),
    st.integers(1, 5),
    st.sampled_from(["B", "b", "bit", "B/s", "b/s", "bit/s", "FLOP", "FLOP/s"]),
)
def test_binary_prefixes_are_larger_than_decimal_ones_by_their_power(number, power, unit):
    kind = units.UNITS[unit][0]
    decimal = units.parse(f"{number!r} {' kMGTP'[power]}{unit}", kind)
    binary = units.parse(f"{number!r} {' KMGTP'[power]}i{unit}", kind)
    assert binary / decimal == pytest.approx(1.024**power, rel=1e-12)


@given(st.floats(1e-2, 1e4), st.sampled_from(["Mb/s", "Gb/s", "GB/s", "TB/s", "GiB/s"]))
def test_both_directions_are_halved_and_one_is_kept(value, unit):
    one, both = (
        Spec("x", "x", "rate", value, unit, way, "estimate", note="test")
        for way in ("per_direction", "bidirectional_sum")
    )
    assert one.si == pytest.approx(units.parse(f"{value!r} {unit}", "rate"), rel=1e-15)
    assert one.si == 2 * both.si


@given(
    st.floats(1e-3, 1e4).map(lambda x: f"{x:.6g}"),
    st.sampled_from(["", *"kKmMgGtTpP", "Ki", "Mi", "gi", "Ti"]),
    st.sampled_from(["bps", "Bps", "BPS", "b/sec", "B/sec", "bit/sec"]),
    st.sampled_from(["", " ", "  "]),
)
def test_an_ambiguous_rate_is_refused_with_both_readings_and_each_can_be_read(
    number, prefix, unit, gap
):
    with pytest.raises(ValueError, match="is read in two ways") as error:
        units.parse(f"{number}{gap}{prefix}{unit}", "rate", "nic")
    bits, octets = re.findall(r'"([^"]+/s)"', str(error.value))
    assert 8 * units.parse(bits, "rate") == pytest.approx(units.parse(octets, "rate"), rel=1e-15)
    small = prefix.capitalize().replace("K", "k").replace("ki", "Ki")
    assert units.parse(octets, "rate") == pytest.approx(
        float(number) * units.UNITS[f"{small}B/s"][1], rel=1e-15
    )
    assert str(error.value).startswith("nic has the unknown unit")


@given(st.floats(1e-11, 1e17))
def test_shown_number_has_three_digits(value):
    shown = units.format_rate(max(value, 1.0)).split()[0]
    assert len(shown.replace(".", "").lstrip("0")) == 3
    assert 1 <= float(shown) < 1000


# refusals -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["400 Gbps", "400 GBps", "400 Gb/sec", "400 Gbit/sec"])
def test_ambiguous_rate_is_answered_with_both_readings(text):
    with pytest.raises(ValueError, match=r"write \"400 Gb/s\" for bits per second or \"400 GB/s\""):
        units.rate(text, "nic")


@pytest.mark.parametrize(
    ("text", "proposal"),
    [
        ("400 gbps", 'write "400 Gb/s" for bits per second or "400 GB/s" for bytes'),
        ("3,2 mbps", 'write "3.2 Mb/s" for'),
        ("400G", 'did you mean "400 Gb/s" or "400 GB/s"?'),
        ("400 k", 'did you mean "400 kb/s" or "400 kB/s"?'),
        ("3,2 GB/s", 'write "3.2 GB/s"'),
        ("-0,125 GB/s", 'write "-0.125 GB/s"'),
        ("1__0 GB/s", 'write "10 GB/s"'),
        ("1 000 GB/s", 'write "1000 GB/s"'),
        ("1,000 GB/s", 'write "1000 GB/s" or "1.000 GB/s"'),
        ("1,000.5 GB/s", 'write "1000.5 GB/s"'),
        ("1.000,5 GB/s", 'write "1000.5 GB/s"'),
        ("1,000,000 kB/s", 'write "1000000 kB/s"'),
        ("2,5 gb/s", 'did you mean "2.5 GB/s" or "2.5 Gb/s"?'),
        ("400 Gb", "got the size '400 Gb'; write \"400 Gb/s\""),
        ("25 GB", "got the size '25 GB'; write \"25 GB/s\""),
        ("1.2.3 GB/s", "got '1.2.3 GB/s'; write \"400 Gb/s\" or 50e9"),
        ("12,5", "got '12,5'; write \"400 Gb/s\" or 50e9"),
    ],
)
def test_a_spelling_that_can_be_guessed_is_proposed(text, proposal):
    with pytest.raises(ValueError) as error:
        units.rate(text, "nic")
    assert str(error.value).startswith("nic ") and proposal in str(error.value)


def test_a_short_unit_is_read_in_the_quantity_that_is_asked():
    with pytest.raises(ValueError, match=r'did you mean "5 GiB" .* or "5 GB"'):
        units.size("5G")
    with pytest.raises(ValueError, match=r'unknown unit .G. in .5G.; write "500 ns"'):
        units.time("5G")


@pytest.mark.parametrize(
    ("text", "binary", "decimal"),
    [
        ("64K", "64 KiB", "64 kB"),
        ("64k", "64 KiB", "64 kB"),
        ("8M", "8 MiB", "8 MB"),
        ("1 G", "1 GiB", "1 GB"),
        ("1,5G", "1.5 GiB", "1.5 GB"),
        ("2T", "2 TiB", "2 TB"),
        ("8Ki", "8 KiB", ""),
    ],
)
def test_a_size_of_nccl_tests_is_answered_in_bytes(text, binary, decimal):
    with pytest.raises(ValueError) as error:
        units.size(text)
    words = str(error.value)
    assert f'did you mean "{binary}"' in words
    assert units.size(binary) > 0
    assert (f'"{decimal}"' in words) == ("nccl-tests" in words) == bool(decimal)
    assert not re.search(r"[kKMGT]i?b\b", words)


def test_a_failed_link_may_have_no_rate_where_that_is_allowed():
    assert units.rate("0 Gb/s", may_be_zero=True) == units.rate(0, may_be_zero=True) == 0
    with pytest.raises(ValueError, match="must be within"):
        units.rate(1, may_be_zero=True)


def test_the_table_of_units_cannot_be_changed():
    with pytest.raises(TypeError):
        units.UNITS["Gbps"] = ("rate", 1.0)


def test_the_argument_is_named():
    with pytest.raises(ValueError, match="nic needs its unit, got '400'"):
        units.rate("400", "nic")


@pytest.mark.parametrize(
    ("text", "proposal"), [("1 KB", '"1 kB"'), ("1 mib", '"1 MiB"'), ("1 gb", '"1 GB" or "1 Gb"')]
)
def test_wrong_case_is_answered_with_the_right_form(text, proposal):
    with pytest.raises(ValueError) as error:
        units.size(text)
    assert all(part in str(error.value) for part in proposal.split(" or "))


@pytest.mark.parametrize(
    "text", ["", "fast", "1,5 GB", "1 GB 2", "GB", "--1 B", "1.2.3 B", "nan B", "1 furlong"]
)
def test_no_number_with_a_known_unit_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        units.size(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        np.True_,
        np.array(True),
        [1],
        {"a": 1},
        b"1 B",
        1j,
        np.ones(1),
        np.ones(2),
        np.complex64(1 + 2j),
        np.bytes_(b"5"),
        np.timedelta64(1),
    ],
)
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match=r"size must be a number .* write \"1 MiB\""):
        units.size(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, Fraction(10**400)])
def test_numbers_must_be_finite(value):
    with pytest.raises(ValueError, match="must be finite"):
        units.time(value)


@pytest.mark.parametrize("value", [400, 9.99e5, 1.01e14, -1e9, 0, "1 B/s"])
def test_rate_that_no_part_has_is_refused(value):
    with pytest.raises(ValueError, match=r"rate must be within 1e\+06\.\.1e\+14 B/s.*400 Gb/s"):
        units.rate(value)


def test_bounds_of_a_rate_are_allowed():
    assert (units.rate(1e6), units.rate(1e14)) == (1e6, 1e14)


@pytest.mark.parametrize("check", [units.size, units.time, units.length])
def test_negative_quantities_are_refused(check):
    assert check(0) == 0
    with pytest.raises(ValueError, match="must be within 0"):
        check(-1e-9)


def test_count_names_its_bounds():
    assert units.count(3, "ranks", 3, 3) == 3
    with pytest.raises(ValueError, match="ranks must be >= 1, got 0"):
        units.count(0, "ranks")
    with pytest.raises(ValueError, match=r"root must be within 0\.\.7, got 8"):
        units.count(8, "root", 0, 7)
    for wrong in (3.0, "3", True, None, np.True_):
        with pytest.raises(TypeError, match="ranks must be a whole number"):
            units.count(wrong, "ranks")


def test_a_flag_is_true_or_false_and_nothing_that_is_read_as_one():
    assert [units.flag(v, "on") for v in (True, False, np.True_, np.False_)] == [
        True,
        False,
        True,
        False,
    ]
    assert type(units.flag(np.False_, "on")) is bool
    for wrong in ("no", "", 0, 1, None, [], np.array([True])):
        with pytest.raises(TypeError, match="on must be True or False, got "):
            units.flag(wrong, "on")


def test_a_choice_is_answered_with_all_and_the_nearest():
    assert units.choice("ring", "way", ("ring", "tree")) == "ring"
    with pytest.raises(
        ValueError, match=r"^way must be one of ring, tree, got 'rings'; did you mean 'ring'\?$"
    ):
        units.choice("rings", "way", ("ring", "tree"))
    with pytest.raises(ValueError, match=r"^way must be one of ring, tree, got None$"):
        units.choice(None, "way", ("ring", "tree"))


# display ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.format_time(0.7), "700 ms"),
        (units.format_time(4.6), "4.60 s"),
        (units.format_time(2e-6), "2.00 µs"),
        (units.format_time(0), "0 s"),
        (units.format_time(0.99999), "1.00 s"),
        (units.format_time(math.inf), "inf s"),
        (units.format_rate(50e9), "50.0 GB/s"),
        (units.format_rate(999.6e6), "1.00 GB/s"),
        (units.format_rate(9.999e9), "10.0 GB/s"),
        (units.format_rate(-5e9), "-5.00 GB/s"),
        (units.format_size(4 * 2**20), "4 MiB"),
        (units.format_size(17.6e9), "17.6 GB"),
        (units.format_size(8), "8 B"),
        (units.format_size(999), "999 B"),
        (units.format_size(1000), "1.00 kB"),
        (units.format_size(1536), "1.54 kB"),
        (units.format_size(0), "0 B"),
        (units.format_size(0.5), "0.500 B"),
    ],
)
def test_shown_as_people_write_it(shown, text):
    assert shown == text


@pytest.mark.parametrize(
    ("given", "written"), [("5 minutes", "5 min"), ("0.7 seconds", "0.7 s"), ("3 Bytes", "3 B")]
)
def test_a_unit_in_words_is_answered_with_its_sign(given, written):
    with pytest.raises(ValueError, match=f'did you mean "{written}"'):
        units.parse(given, "time")


def test_a_latency_in_the_wrong_unit_is_refused():
    assert units.latency("14 us", "lag") == pytest.approx(14e-6)
    with pytest.raises(
        ValueError,
        match=r'lag must be within 0\.\.10 s, got 14; write "500 ns" or 5e-7 \(seconds\)',
    ):
        units.latency(14, "lag")


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("2*(8-1)/8*100 MB", r'2\*\(8-1\)/8 \* units\.parse\("100 MB", "size"\)'),
        ("3 * 1 GiB", r'3 \* units\.parse\("1 GiB", "size"\)'),
        ("2**20", 'calculate the number first and write "1 MiB"'),
        ("10-20 MB", "calculate the number first"),
        ("3/4 GiB", "calculate the number first"),
        ("2*3 GB/s", "calculate the number first"),
    ],
)
def test_a_calculation_is_left_to_python(text, way_out):
    with pytest.raises(
        ValueError, match=f"size must be one number .* the calculation .*{way_out}"
    ) as error:
        units.size(text)
    assert "GB/s or" not in str(error.value)


def test_the_sign_of_an_exponent_is_no_calculation():
    assert units.time("1e-3 s") == 1e-3
    assert units.size("1e+3 B") == 1000
    with pytest.raises(ValueError, match="unknown unit 'foo'"):
        units.size("1e-3 foo")


@pytest.mark.parametrize(
    ("share", "digits", "signed", "shown"),
    [
        (0.9712, 1, False, "97.1 %"),
        (1.0, 0, False, "100 %"),
        (0.05, 0, True, "+5 %"),
        (-0.034, 1, True, "-3.4 %"),
        (np.float64(0.5), 2, False, "50.00 %"),
        (math.nan, 0, False, "nan %"),
    ],
)
def test_a_share_is_written_with_a_space(share, digits, signed, shown):
    assert units.format_share(share, digits, signed=signed) == shown
