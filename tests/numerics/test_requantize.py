"""The epilogue of integer layers against exact rational arithmetic, one element at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.numerics.exact import code, exact, fl32, fl64, scales, zero_points

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)


sums = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-3000, 3000)


@pytest.mark.rule("N21", "N22", "N32")
@given(sums, scales, scales, scales, st.floats(-50, 50, width=32), zero_points)
def test_requantize_equals_exact_evaluation(acc, s_x, s_w, s_y, bias, zero_point):
    m = fl32(fl64(exact(s_x) * exact(s_w)))
    real = fl32(fl32(fl32(Fraction(acc)) * m) + exact(bias))
    want = code(fl32(real / exact(s_y)), zero_point, -128, 127)
    multiplier = nx.multipliers(s_x, s_w)
    assert exact(multiplier) == m
    assert nx.requantize([[acc]], multiplier, bias, s_y, zero_point, S8) == want


@pytest.mark.rule("N23")
@given(sums, zero_points, st.integers(0, 255), st.integers(0, 255), scales, scales, scales, scales)
def test_residual_is_added_after_bias(acc, z_y, r, z_r, s_x, s_w, s_r, s_y):
    m = fl32(fl64(exact(s_x) * exact(s_w)))
    real = fl32(fl32(fl32(Fraction(acc)) * m) + exact(np.float32(0.3)))
    real = fl32(real + fl32((r - z_r) * exact(s_r)))
    want = code(fl32(real / exact(s_y)), z_y, -128, 127)
    branch = nx.Residual(np.uint8(r), s_r, z_r)
    got = nx.requantize([[acc]], nx.multipliers(s_x, s_w), 0.3, s_y, z_y, S8, residual=branch)
    assert got == want


factors = st.floats(-4, 4, width=32)


@pytest.mark.rule("N29")
@given(sums, scales, scales, scales, factors, factors, factors)
def test_gain_and_quotient_stand_behind_the_bias(acc, s_x, s_w, s_y, bias, factor, offset):
    real = fl32(fl32(fl32(Fraction(acc)) * fl32(fl64(exact(s_x) * exact(s_w)))) + exact(bias))
    gained = fl32(fl32(real * exact(factor)) + exact(offset))
    parameters, behind = (nx.multipliers(s_x, s_w), bias), nx.Gain(factor, offset)
    assert exact(nx.to_real([[acc]], *parameters, gain=behind)[0, 0]) == gained
    assert nx.requantize([[acc]], *parameters, s_y, 3, S8, gain=behind) == code(
        fl32(gained / exact(s_y)), 3, -128, 127
    )
    assert exact(nx.to_real([[acc]], *parameters, quotient=np.float32(3))[0, 0]) == fl32(real / 3)


def test_no_offset_keeps_the_sign_of_a_zero():
    assert np.signbit(nx.to_real([[0]], 1.0, 0.0, gain=nx.Gain(-1.0)))


@pytest.mark.rule("N25")
@given(sums, scales, scales, st.floats(-50, 50, width=32))
def test_float_output_equals_exact_evaluation(acc, s_x, s_w, bias):
    m = fl32(fl64(exact(s_x) * exact(s_w)))
    want = fl32(fl32(fl32(Fraction(acc)) * m) + exact(bias))
    got = nx.to_real([[acc]], nx.multipliers(s_x, s_w), bias)
    assert got.dtype == np.float32
    assert exact(got[0, 0]) == want


@pytest.mark.rule("N48")
@given(sums, scales, scales, scales, st.floats(-2, 2, width=32))
def test_slopes_below_zero_are_applied_before_rounding(acc, s_x, s_w, s_y, slope):
    real = fl32(fl32(fl32(Fraction(acc)) * fl32(fl64(exact(s_x) * exact(s_w)))) + exact(np.float32(0.3)))
    real = fl32(real * exact(slope)) if real < 0 else real
    want = code(fl32(real / exact(s_y)), 3, -128, 127)
    assert nx.requantize([[acc]], nx.multipliers(s_x, s_w), 0.3, s_y, 3, S8, slope=slope) == want


def test_each_channel_has_its_slope_behind_the_residual():
    acc, slope = np.full((1, 3, 2), -40), np.float32([0.1, 1, -0.5])
    branch = nx.Residual(np.full((1, 3, 2), 20, np.int8), 1.0)
    got = nx.requantize(acc, 1.0, 0.0, 1.0, 0, S8, slope=slope, residual=branch)
    np.testing.assert_array_equal(got[0], [[-2, -2], [-20, -20], [10, 10]])


@pytest.mark.rule("N23")
def test_order_of_additions_is_observable():
    """(1 + 2**24) - 2**24 is 0 in float32; any other order of the same three terms gives 1."""
    branch = nx.Residual(np.int8(-1), 2.0**24)
    assert nx.requantize([[1]], 1.0, 2.0**24, 1.0, 0, S8, residual=branch) == 0


@pytest.mark.rule("N22")
def test_accumulator_beyond_24_bits_is_rounded_before_the_product():
    acc = 2**24 + 1
    assert nx.to_real([[acc]], np.float32(3), 0.0) == np.float32(2**24) * 3
    assert np.float32(acc * 3) != np.float32(2**24) * 3


@pytest.mark.rule("N22")
@pytest.mark.parametrize(
    ("acc", "want"), [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (2**31 - 1, 127), (-(2**31), -128)]
)
def test_requantize_ties_to_even_and_saturates(acc, want):
    assert nx.requantize([[acc]], 0.5, 0.0, 1.0, 0, S8) == want
    assert nx.requantize_by_product([[acc]], 0.5, 0.0, 0, S8) == want


@pytest.mark.rule("N22")
def test_requantize_per_channel_negative_gain_and_axis():
    acc = np.array([[10, 10], [20, 20]])
    m = nx.multipliers(1.0, [1.0, 0.5], 1.0, gain=[-1.0, 1.0])
    for form in (partial(nx.requantize, y_scale=1.0), nx.requantize_by_product):
        call = partial(form, acc, m, [0, 1], zero_point=3, spec=S8)
        assert call(axis=1).tolist() == [[-7, 9], [-17, 14]]
        assert call(axis=0).tolist() == [[-7, -7], [14, 14]]


@pytest.mark.rule("N24")
def test_activation_bounds_equal_clamping_the_reals(rng):
    scale, z = nx.affine_from_range(-1.0, 7.0, U8)
    floats = np.linspace(-3, 9, 1201, dtype=np.float32)
    bounds = nx.activation_bounds(0.0, 6.0, scale, int(z), U8)
    direct = nx.quantize(np.clip(floats, 0, 6), scale, z, U8)
    got = nx.to_codes(floats / scale, int(z), U8, bounds)
    assert (got == direct).all()
    assert nx.activation_bounds(0.0, math.inf, scale, int(z), U8) == (int(z), 255)
