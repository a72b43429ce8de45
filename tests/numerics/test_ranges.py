"""From a range to a scale and a zero point: the zero range at its boundary, and the ends of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.spec import QuantSpec

FORMATS = ["int2", "int4", "int8", "int16", "uint2", "uint8", "uint16", "fp8e4m3", "fp8e5m2", "fp4e2m1"]
JUST_ABOVE = np.nextafter(np.float32(2.0**-24), np.float32(1))
amaxes = st.floats(float(JUST_ABOVE), 2.0**120, width=32)
ends = st.floats(-(2.0**100), 2.0**100, width=32)


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    ("name", "divisor"), [("int8", 127), ("uint8", 255), ("int4", 7), ("int16", 32767), ("fp8e4m3", 448)]
)
def test_scale_is_one_float32_division(name, divisor):
    scale = nx.scale_from_amax([0.1, 3.3], QuantSpec(name))
    assert scale.dtype == np.float32
    assert (scale == np.float32([0.1, 3.3]) / np.float32(divisor)).all()


@pytest.mark.rule("N7")
@pytest.mark.parametrize("name", FORMATS)
def test_zero_range_is_at_or_below_two_to_the_minus_24(name):
    spec = QuantSpec(name)
    amax = np.float32([0, 2.0**-149, 2.0**-24, JUST_ABOVE])
    assert nx.scale_from_amax(amax, spec).tolist() == [1, 1, 1, JUST_ABOVE / np.float32(spec.qmax)]


@pytest.mark.rule("N7")
def test_zero_width_is_at_or_below_two_to_the_minus_24():
    spec = QuantSpec(symmetric=False)
    low, high = np.float32([0, -(2.0**-25), 0]), np.float32([0, 2.0**-25, JUST_ABOVE])
    scale, z = nx.affine_from_range(low, high, spec)
    assert scale.tolist() == [1, 1, JUST_ABOVE / np.float32(255)]
    assert z.tolist() == [0, 0, -128]
    assert z.dtype == np.int32


@pytest.mark.rule("N5")
@given(amaxes, st.sampled_from(FORMATS))
def test_qmax_maps_back_to_amax_within_one_ulp(amax, name):
    spec = QuantSpec(name)
    scale, amax = nx.scale_from_amax(amax, spec), np.float32(amax)
    back = nx.dequantize(spec.qmax, scale, 0, spec)
    assert nx.quantize(amax, scale, 0, spec) == spec.qmax
    assert abs(back - amax) <= np.spacing(amax)


@pytest.mark.rule("N6")
@given(ends, ends, st.sampled_from(FORMATS[:7]), st.booleans())
def test_real_zero_is_exactly_a_code(a, b, name, narrow):
    spec = QuantSpec(name, symmetric=False, narrow=narrow)
    scale, z = nx.affine_from_range(min(a, b), max(a, b), spec)
    assert spec.qmin <= z <= spec.qmax
    assert nx.fake_quantize(0.0, scale, z, spec) == 0
    assert nx.quantize(0.0, scale, z, spec) == z


@given(ends, ends, st.sampled_from(["int4", "int8", "uint8"]))
def test_the_widened_range_is_reached_within_a_step(a, b, name):
    spec = QuantSpec(name, symmetric=False)
    scale, z = nx.affine_from_range(min(a, b), max(a, b), spec)
    low, high = nx.representable_range(scale, z, spec)
    assert low <= min(a, b, 0) + scale
    assert high >= max(a, b, 0) - scale


@pytest.mark.rule("N6")
def test_range_is_widened_to_contain_zero():
    spec = QuantSpec("uint8", symmetric=False)
    assert [int(v) for v in nx.affine_from_range(51.0, 255.0, spec)] == [1, 0]
    assert [int(v) for v in nx.affine_from_range(-255.0, -51.0, spec)] == [1, 255]


def test_granules_each_have_their_own():
    scale, z = nx.affine_from_range([-1.0, 0.0], [3.0, 255.0], QuantSpec("uint8", axis=0, symmetric=False))
    assert scale.shape == z.shape == (2,)
    assert z.tolist() == [64, 0]  # 255 - rne(3 / (4 / 255)) = 255 - rne(191.25)


@pytest.mark.rule("N34")
def test_inverse_scale_view_is_what_the_old_library_calls_scale():
    got = nx.inverse_scale_view([2.0, 0.0, 2.0**-24, JUST_ABOVE], QuantSpec())
    assert got.tolist() == [63.5, 1, 1, np.float32(127) / JUST_ABOVE]


DATA = "look for NaN or infinity in the data that the range was collected from"


@pytest.mark.rule("N8")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nx.scale_from_amax([1.0, -2.0], QuantSpec()),
            "amax: got -2.0, want a value >= 0. Fix: pass the largest magnitude, not a signed maximum",
        ),
        (
            lambda: nx.scale_from_amax(np.nan, QuantSpec()),
            f"amax: got NaN or infinity, want finite values. Fix: {DATA}",
        ),
        (
            lambda: nx.scale_from_amax(1e300, QuantSpec()),
            f"amax: got NaN or infinity, want finite values. Fix: {DATA}",
        ),
        (
            lambda: nx.affine_from_range(-np.inf, 1.0, QuantSpec()),
            f"rmin: got NaN or infinity, want finite values. Fix: {DATA}",
        ),
        (
            lambda: nx.affine_from_range(0.0, np.nan, QuantSpec()),
            f"rmax: got NaN or infinity, want finite values. Fix: {DATA}",
        ),
        (
            lambda: nx.affine_from_range(2.0, 1.0, QuantSpec()),
            "rmin: got a value above rmax, want rmin <= rmax. Fix: swap the two bounds",
        ),
        (
            lambda: nx.affine_from_range(-3e38, 3e38, QuantSpec()),
            "rmax - rmin: got a width beyond float32, want a finite width. Fix: narrow the range",
        ),
        (
            lambda: nx.affine_from_range(-1.0, 1.0, QuantSpec("fp8")),
            "format: got fp8e4m3, want an integer format: a float grid has no zero point. "
            "Fix: use scale_from_amax",
        ),
    ],
    ids=["negative", "nan", "beyond-float32", "rmin", "rmax", "swapped", "too-wide", "float-format"],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(QuantValueError) as caught:
        call()
    assert str(caught.value) == message
