"""Floats as integers with a common scale: the bound holds for all floats, and no sum leaves 32 bits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabriclab.innetwork.aggregation import LARGEST
from fabriclab.innetwork.quantisation import (
    block_scale,
    dequantise,
    error_bound,
    overflows,
    quantise,
)

SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=True)
JUST_BELOW = float(np.nextafter(np.float32(1), np.float32(0)))


def blocks(numbers, n):
    """Return numbers as (n, blocks, 3)."""
    return np.resize(np.array(numbers, np.float32), (n, max(1, len(numbers) // (3 * n)), 3))


@settings(max_examples=300)
@example([JUST_BELOW, -JUST_BELOW, 0.5], 2)
@example([1e-45, -1e-45, 0.0], 3)
@example([3.4028235e38, 1e-45, 1.0], 255)
@example([0.0, -0.0, 0.0], 1)
@given(st.lists(SINGLE, min_size=3, max_size=24), st.integers(1, 255))
def test_the_bound_holds_and_nothing_overflows(numbers, n):
    values = blocks(numbers, n)
    scale = block_scale(values)
    sent = quantise(values, scale)
    total = sent.astype(object).sum(axis=0)
    assert np.abs(total).max() <= LARGEST
    wrapped = np.add.reduce(sent, axis=0, dtype=np.int32)
    assert np.array_equal(wrapped, total)  # in any order, so partial sums stay within too
    found = dequantise(total, scale)
    for b in range(scale.size):
        bound = Fraction(float(error_bound(n, scale[b])))
        for lane in range(3):
            exact = sum(Fraction(float(v)) for v in values[:, b, lane])
            assert abs(Fraction(float(found[b, lane])) - exact) <= bound


def test_by_hand():
    values = np.array([[[1.0, -0.25]], [[1.5, 0.75]]], np.float32)  # below 2^1, two workers
    scale = block_scale(values)
    assert scale.tolist() == [LARGEST / 4]
    assert quantise(values, scale)[:, 0, 0].tolist() == [
        round(LARGEST / 4),
        round(LARGEST / 4 * 1.5),
    ]
    assert error_bound(2, scale)[0] == pytest.approx(2**2 * 2 / (2 * LARGEST), rel=2e-6)


def test_the_bound_is_tight_and_a_large_neighbour_drowns_small_ones():
    scale = np.array([LARGEST / 4])
    half = np.float32(0.5 * 2.0**-29 * 0.999)  # just below half a step for each of two workers
    off = np.abs(dequantise(quantise([[[half]], [[half]]], scale).sum(0), scale) - 2 * float(half))
    assert 0.9 < float(off[0, 0] / error_bound(2, scale)[0]) <= 1
    mixed = np.array([[[1e9, 1e-3]]], np.float32)
    assert dequantise(quantise(mixed, block_scale(mixed))[0], block_scale(mixed))[0, 1] == 0


def test_a_scale_known_in_advance_wraps_or_saturates():
    scale = 2.0**20
    assert (
        not overflows(2047.9, 1, scale)
        and overflows(2048.0, 1, scale)
        and overflows(1024.0, 2, scale)
    )
    values = np.array([[2048.0, -2048.0, -2049.0, 3.0]], np.float32)
    assert quantise(values, scale).tolist() == [[LARGEST, -LARGEST - 1, -LARGEST - 1, 3 * 2**20]]
    assert quantise(values, scale, wrap=True).tolist() == [
        [-(2**31), -(2**31), 2**31 - 2**20, 3 * 2**20]
    ]


def test_what_nobody_can_say_of_an_overflow_is_refused():
    for largest in (np.nan, np.inf, -1.0):
        with pytest.raises(
            ValueError, match=r"largest must be .* 0 or more and finite, got (nan|inf|-1.0)"
        ):
            overflows(largest, 2, 1.0)
    with pytest.raises(ValueError, match="scale must be positive and finite, got nan"):
        overflows(1.0, 2, np.nan)


@settings(max_examples=200)
@given(
    st.lists(SINGLE.filter(lambda x: abs(x) < 1000), min_size=2, max_size=40), st.floats(1, 2.0**24)
)
def test_what_does_not_overflow_on_a_known_scale_keeps_the_bound(numbers, scale):
    values = np.array(numbers, np.float32)[:, None]
    if not overflows(float(np.abs(values).max()), len(numbers), scale):
        total = np.add.reduce(quantise(values, scale), axis=0, dtype=np.int32)
        exact = sum(Fraction(float(v)) for v in values[:, 0])
        assert abs(Fraction(float(dequantise(total, scale)[0])) - exact) <= Fraction(
            error_bound(len(numbers), scale)
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e39])
def test_what_no_integer_stands_for_is_refused(wrong):
    with pytest.raises(
        ValueError,
        match=r"values must be finite in float32, got (nan|-?inf|1e\+39): .* add on the ho",
    ):
        block_scale([[[1.0, wrong]]])
    with pytest.raises(ValueError, match="finite in float32"):
        quantise([[wrong]], 1.0)
    for scale in (0.0, -5.0, np.nan, [1.0, np.inf]):
        with pytest.raises(ValueError, match="scale must be positive and finite, got"):
            quantise([[1.0], [1.0]], scale)
    with pytest.raises(ValueError, match=r"workers must be (<=|within).*255"):
        block_scale(np.zeros((256, 1, 1)))
