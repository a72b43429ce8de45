"""`short_amax` and `short_range`: few significant bits, never a smaller range, exact float sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact.errors import QuantValueError
from intact.numerics import affine_from_range, quantize, scale_from_amax, short_amax, short_range
from intact.spec import QuantSpec

FORMATS = ["int8", "uint8", "int4", "int16", "fp8e4m3"]
POSITIVE = st.floats(2.0**-20, 2.0**60, width=32)


def significant_bits(value: float) -> int:
    numerator = Fraction(value).numerator
    return numerator.bit_length() - (numerator & -numerator).bit_length() + 1


@pytest.mark.parametrize("name", FORMATS)
@given(amax=POSITIVE, bits=st.integers(1, 8))
def test_scale_is_the_next_short_one(name, amax, bits):
    spec = QuantSpec(name)
    scale = scale_from_amax(amax, spec)
    short = scale_from_amax(short_amax(amax, spec, bits), spec)
    assert significant_bits(float(short)) <= bits
    assert scale <= short < float(scale) * (1 + 2.0 ** (1 - bits))
    spacing = 2.0 ** (np.frexp(float(scale))[1] - bits)
    assert short - spacing < scale


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_short_ranges_stay(bits):
    amax = short_amax(np.geomspace(1e-3, 1e3, 50), QuantSpec("int8"), bits)
    np.testing.assert_array_equal(short_amax(amax, QuantSpec("int8"), bits), amax)


@given(below=POSITIVE, above=POSITIVE)
def test_asymmetric_scale_is_short_and_the_range_stays(below, above):
    spec = QuantSpec("uint8", symmetric=False)
    ends = short_range(-below, above, spec)
    scale, zero_point = affine_from_range(*ends, spec)
    assert significant_bits(float(scale)) <= 4
    assert scale >= affine_from_range(-below, above, spec)[0]
    again = short_range(*ends, spec)
    np.testing.assert_array_equal(again, ends)
    # Each end is reached up to the half step that the rounding of the zero point may cost it.
    codes = quantize(np.float32([-below, above]), scale, zero_point, spec)
    reals = (codes - zero_point) * float(scale)
    assert np.abs(reals - [-below, above]).max() <= 0.5001 * scale


@pytest.mark.parametrize("low, high, zero_point", [(0.0, 7.3, -128), (0.5, 7.3, -128), (-7.3, 0.0, 127)])
def test_a_range_that_ends_at_0_keeps_ending_there(low, high, zero_point):
    spec = QuantSpec("int8", symmetric=False)
    ends = short_range(low, high, spec)
    assert affine_from_range(*ends, spec)[1] == zero_point
    assert ends[0] <= low and high <= ends[1] and 0 in (float(ends[0]), float(ends[1]))


def test_a_range_without_information_stays():
    spec = QuantSpec("uint8", symmetric=False)
    assert short_amax(0, QuantSpec("int8")) == 0
    assert short_amax(2.0**-24, QuantSpec("int8")) == 2.0**-24
    assert [float(end) for end in short_range(0, 0, spec)] == [0, 0]


def test_a_range_at_the_end_of_float32_stays():
    largest = np.finfo(np.float32).max
    assert short_amax(largest, QuantSpec("int8")) == largest
    low, high = short_range(0, largest, QuantSpec("uint8", symmetric=False))
    assert (low, high) == (0, largest)


def test_each_granule_has_its_own():
    amax = np.float32([[1.0], [3.7]])
    short = short_amax(amax, QuantSpec("int8", axis=0))
    assert short.shape == (2, 1)
    assert [float(v) for v in short[:, 0]] == [float(short_amax(v, QuantSpec("int8"))) for v in (1.0, 3.7)]


@pytest.mark.parametrize("bits", [0, 9, -1])
def test_bits_out_of_range(bits):
    with pytest.raises(QuantValueError) as error:
        short_amax(1.0, QuantSpec("int8"), bits)
    assert str(error.value) == (
        f"scale_bits: got {bits}, want 1..8, or None. Fix: use 4, or None for exact ranges"
    )


def test_products_and_sums_of_short_scales_are_exact(rng):
    spec = QuantSpec("int8")
    s_x = scale_from_amax(short_amax(2.71, spec), spec)
    s_w = scale_from_amax(short_amax(0.0314, spec), spec)
    x, w = rng.integers(-128, 128, 512), rng.integers(-20, 21, 512)
    terms = (x.astype(np.float32) * s_x) * (w.astype(np.float32) * s_w)
    exact = int((x * w).sum()) * Fraction(float(s_x)) * Fraction(float(s_w))
    for order in (np.arange(512), rng.permutation(512), np.arange(512)[::-1]):
        assert np.abs(np.cumsum(x[order] * w[order])).max() < 2**16, "as far as the promise goes"
        total = np.float32(0)
        for term in terms[order]:
            total += term
        assert Fraction(float(total)) == exact
