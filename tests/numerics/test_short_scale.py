"""`short_amax`, `short_range`: few significant bits, never a smaller range, exact sums; `midway_bias`."""

from __future__ import annotations

from fractions import Fraction
from math import floor, gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact import numerics
from intact.errors import QuantValueError
from intact.numerics import (
    affine_from_range,
    midway_bias,
    quantize,
    scale_from_amax,
    short_amax,
    short_range,
)
from intact.spec import QuantSpec

FORMATS = ["int8", "uint8", "int4", "int16", "fp8e4m3"]
POSITIVE = st.floats(2.0**-20, 2.0**60, width=32)


def significant_bits(value: float) -> int:
    numerator = Fraction(value).numerator
    return numerator.bit_length() - (numerator & -numerator).bit_length() + 1


@pytest.mark.rule("N9")
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


@pytest.mark.rule("N9")
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
    floats = (codes - zero_point) * float(scale)
    assert np.abs(floats - [-below, above]).max() <= 0.5001 * scale


@pytest.mark.rule("N9")
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


@pytest.mark.rule("N9")
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


SHORT = st.builds(lambda m, e: np.float32(m * 2.0**e), st.integers(8, 15), st.integers(-10, -2))


def common_divisor(*values: np.floating) -> Fraction:
    exact = [Fraction(float(value)) for value in values]
    below = max(value.denominator for value in exact)
    return Fraction(gcd(*(int(value * below) for value in exact)), below)


@pytest.mark.rule("N9")
@given(
    bias=st.floats(-8, 8, width=32), scales=st.tuples(SHORT, SHORT, SHORT), shortcut=SHORT | st.none(),
    codes=st.tuples(st.integers(-(2**20), 2**20), st.integers(-255, 255)),
)  # fmt: skip
def test_midway_bias_is_the_nearest_that_is_farthest_from_every_boundary(bias, scales, shortcut, codes):
    s_x, s_w, s_y = scales
    r_scale = np.float32(0) if shortcut is None else shortcut
    step = common_divisor(np.float64(s_x) * s_w, s_y, r_scale)
    moved = float(midway_bias(bias, s_x, s_w, s_y, shortcut))
    if moved == bias and abs(bias) >= 2**23 * step:
        return  # float32 cannot hold the one in the middle
    assert abs(Fraction(moved) - Fraction(bias)) <= step * Fraction(
        500_001, 1_000_000
    )  # a tie may go either way
    real = codes[0] * Fraction(float(s_x)) * Fraction(float(s_w)) + Fraction(moved)
    in_steps = (real + codes[1] * Fraction(float(r_scale))) / Fraction(float(s_y))
    to_boundary = abs(in_steps - floor(in_steps) - Fraction(1, 2))
    assert to_boundary >= step / 2 / Fraction(float(s_y))
    assert float(midway_bias(moved, s_x, s_w, s_y, shortcut)) == moved


@pytest.mark.rule("N9")
def test_a_bias_that_float32_cannot_put_midway_stays():
    """Scales of 24 bits leave floats everywhere; around 2^23 no float32 ends in a quarter."""
    assert midway_bias(np.float32(0.7), np.float32(0.0123456), np.float32(0.0234567), 0.1) == np.float32(0.7)
    assert midway_bias(np.float32([2.0**23, 0.3]), 0.5, 1.0, 1.0).tolist() == [2.0**23, 0.25]


def test_each_channel_has_its_own_middle():
    w_scale = np.float32([0.125, 0.75, 0.0625])
    biases = midway_bias(np.float32([0.3, -1.7, 0.0]), 0.5, w_scale, 0.5)
    alone = [float(midway_bias(b, 0.5, w, 0.5)) for b, w in zip([0.3, -1.7, 0.0], w_scale, strict=True)]
    assert biases.tolist() == alone
    assert biases.shape == (3,) and biases.dtype == np.float32


@pytest.mark.rule("N9")
def test_float_and_integer_layers_agree_on_every_code_with_a_midway_bias(rng):
    """Sums of 15 bits and a residual in float32, in another order; near half of s_y are the worst biases."""
    spec = QuantSpec("int8")
    s_x, s_w, s_y, s_r = (np.float32(v) for v in (12 / 512, 12 / 8192, 15 / 256, 9 / 256))
    acc = rng.integers(-(2**14), 2**14, (1, 1, 500, 500)).astype(np.int32)
    r = rng.integers(-128, 128, acc.shape)
    differing = []
    near = np.nextafter(s_y / 2, np.float32(1))
    for bias in (near, midway_bias(near, s_x, s_w, s_y, s_r)):
        real = (acc.astype(np.float32) * (s_x * s_w) + r.astype(np.float32) * s_r) + bias
        residual = numerics.Residual(r, s_r)
        layer = numerics.requantize(
            acc, numerics.multipliers(s_x, s_w), bias, s_y, 0, spec, residual=residual
        )
        differing.append(int((quantize(real, s_y, 0, spec) != layer).sum()))
    assert differing[0] > 0
    assert differing[1] == 0
