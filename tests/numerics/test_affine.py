"""Quantize, dequantize, fake-quantize and its gradient: rounding, saturation, special values, properties."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.spec import QuantSpec

INF = np.float32(np.inf)
S8, U8, A8 = QuantSpec(), QuantSpec("uint8"), QuantSpec(symmetric=False)
FORMATS = [
    "int2",
    "int4",
    "int8",
    "int16",
    "uint3",
    "uint4",
    "uint8",
    "uint16",
    "fp8e4m3",
    "fp8e5m2",
    "fp4e2m1",
]
INTEGERS = FORMATS[:8]

finite = st.floats(-1e6, 1e6, width=32)
arrays = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), elements=finite
)
scales = st.floats(2.0**-20, 2.0**10, width=32)


@st.composite
def grids(draw, names=INTEGERS):
    """(spec, zero_point): any integer grid, narrow or not, with any of its codes as zero point."""
    spec = QuantSpec(draw(st.sampled_from(names)), symmetric=False, narrow=draw(st.booleans()))
    return spec, draw(st.integers(int(spec.qmin), int(spec.qmax)))


class TestQuantize:
    @pytest.mark.rule("N11")
    def test_ties_go_to_even(self):
        x = np.arange(-3.5, 4, 1.0)
        assert nx.quantize(x, 1.0, 0, S8).tolist() == [-4, -2, -2, 0, 0, 2, 2, 4]

    @pytest.mark.rule("N11")
    def test_zero_point_is_added_after_rounding(self):
        """Before rounding, 0.5 + 1 would give 2 and 1.5 + 1 would give 2."""
        assert nx.quantize([0.5, 1.5, 2.5], 1.0, 1, A8).tolist() == [1, 3, 3]

    @pytest.mark.rule("N11")
    def test_division_is_true_float32(self):
        """The product with the rounded reciprocal gives 63 where the quotient is a tie at 63.5."""
        assert nx.quantize(30.0, np.float32(60 / 127), 0, S8) == 64
        assert nx.quantize_reciprocal(30.0, np.float32(60 / 127), 0, S8) == 63

    @pytest.mark.rule("N15")
    @pytest.mark.parametrize("name", FORMATS)
    def test_infinities_and_large_reals_saturate(self, name):
        spec = QuantSpec(name)
        x = np.array([-INF, -3e38, 3e38, INF], np.float32)
        want = [spec.qmin, spec.qmin, spec.qmax, spec.qmax]
        assert nx.quantize(x, 1e-3, 0, spec).tolist() == want
        assert nx.quantize_reciprocal(x, 1e-3, 0, spec).tolist() == want

    @pytest.mark.rule("N15")
    @pytest.mark.parametrize("zero_point", [-128, -3, 0, 127])
    def test_infinities_saturate_around_any_zero_point(self, zero_point):
        assert nx.quantize([-INF, 0, INF], 1.0, zero_point, A8).tolist() == [-128, zero_point, 127]

    def test_narrow_and_unsigned_ends(self):
        assert nx.quantize([-200, 200], 1.0, 0, QuantSpec(narrow=True)).tolist() == [-127, 127]
        assert nx.quantize([-200, 300], 1.0, 0, U8).tolist() == [0, 255]

    @pytest.mark.rule("N11")
    def test_denormals_are_not_flushed(self):
        tiny = np.float32(2.0**-149)
        assert nx.quantize([tiny, -3 * tiny], tiny, 0, S8).tolist() == [1, -3]

    @pytest.mark.rule("N14")
    def test_float64_is_rounded_to_float32_first(self):
        above_tie = 0.5 + 2.0**-40  # exactly 0.5 in float32
        assert nx.quantize(np.float64(above_tie), 1.0, 0, S8) == 0
        assert nx.fake_quantize(np.float64(above_tie), 1.0, 0, S8) == 0
        assert nx.quantize(1e300, 1.0, 0, S8) == 127

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32])
    def test_any_real_dtype(self, dtype):
        q = nx.quantize(np.array([1, -2, 3], dtype), 0.5, 0, S8)
        assert q.dtype == np.int32
        assert q.tolist() == [2, -4, 6]

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)], ids=str)
    @pytest.mark.parametrize("name", ["int8", "fp8e4m3", "fp4e2m1"])
    def test_shapes_with_nothing_and_one(self, shape, name):
        q = nx.quantize(np.ones(shape), 1.0, 0, QuantSpec(name))
        assert isinstance(q, np.ndarray)
        assert q.shape == nx.dequantize(q, 1.0, 0, QuantSpec(name)).shape == shape

    @pytest.mark.rule("N35")
    @given(arrays, scales, grids())
    def test_reciprocal_form_differs_by_one_code_at_most(self, x, scale, grid):
        spec, z = grid
        assert (abs(nx.quantize(x, scale, z, spec) - nx.quantize_reciprocal(x, scale, z, spec)) <= 1).all()

    @given(arrays, scales, grids())
    def test_monotone_and_inside_the_grid(self, x, scale, grid):
        spec, z = grid
        q = nx.quantize(np.sort(x, axis=None), scale, z, spec)
        assert (np.diff(q) >= 0).all()
        assert ((q >= spec.qmin) & (q <= spec.qmax)).all()

    @pytest.mark.rule("N12")
    @given(st.integers(-32768, 65535), scales, grids())
    def test_dequantized_code_quantizes_to_itself(self, code, scale, grid):
        spec, z = grid
        code = int(np.clip(code, spec.qmin, spec.qmax))
        assert nx.quantize(nx.dequantize(code, scale, z, spec), scale, z, spec) == code

    @pytest.mark.rule("N12")
    @given(arrays, scales, grids())
    def test_error_is_half_a_step_inside_the_range(self, x, scale, grid):
        spec, z = grid
        low, high = nx.representable_range(scale, z, spec)
        inside = x[(x >= low) & (x <= high)]
        back = nx.dequantize(nx.quantize(inside, scale, z, spec), scale, z, spec)
        # Half a step, and the roundings of x / scale and of the product: 2**-23 of the magnitude.
        bound = scale / 2 + np.abs(inside).astype(float) * 2.0**-23
        assert (np.abs(back.astype(float) - inside) <= bound).all()


class TestFakeQuantize:
    @pytest.mark.rule("N13")
    @given(arrays, scales, grids())
    def test_is_dequantize_of_quantize(self, x, scale, grid):
        spec, z = grid
        want = nx.dequantize(nx.quantize(x, scale, z, spec), scale, z, spec)
        assert (nx.fake_quantize(x, scale, z, spec) == want).all()

    @pytest.mark.rule("N13")
    @given(arrays, scales, st.sampled_from(FORMATS))
    def test_idempotent(self, x, scale, name):
        once = nx.fake_quantize(x, scale, 0, QuantSpec(name))
        assert (nx.fake_quantize(once, scale, 0, QuantSpec(name)) == once).all()

    @pytest.mark.rule("N16")
    @pytest.mark.parametrize("name", FORMATS)
    def test_nan_stays_nan_and_infinities_saturate(self, name):
        spec = QuantSpec(name)
        y = nx.fake_quantize([np.nan, INF, -INF, 0.0], 2.0, 0, spec)
        assert np.isnan(y[0])
        assert y[1:].tolist() == [2 * spec.qmax, 2 * spec.qmin, 0.0]

    @pytest.mark.rule("N14")
    @pytest.mark.parametrize("dtype", nx.REAL_DTYPES)
    def test_computed_in_float32_and_rounded_once_to_the_input_dtype(self, dtype, rng):
        x = rng.standard_normal((4, 6)).astype(dtype)
        scale = np.float32(0.013)
        wide = nx.fake_quantize(np.asarray(x, np.float32), scale, 0, S8)
        y = nx.fake_quantize(x, scale, 0, S8)
        assert y.dtype == x.dtype
        assert (y == wide.astype(dtype)).all()

    def test_float16_overflow_is_infinite(self):
        assert nx.fake_quantize(np.float16(65504), 1000.0, 0, S8) == np.inf

    @pytest.mark.rule("N13")
    def test_negative_zero_and_small_negatives_become_zero(self):
        y = nx.fake_quantize(np.float32([-0.0, -0.1]), 1.0, 0, S8)
        assert np.signbit(y).tolist() == [False, False]

    def test_ends_of_float32_pass_without_a_warning(self):
        largest = np.finfo(np.float32).max
        scale = nx.scale_from_amax(largest, S8)
        assert nx.fake_quantize(largest, scale, 0, S8) >= largest * np.float32(1 - 2.0**-23)


class TestGradient:
    @pytest.mark.rule("N16", "N18")
    def test_passes_where_the_range_holds_x_ends_included(self):
        x = np.float32([-2.1, -2, 0, 2, 2.1, np.nan, INF])
        got = nx.fake_quantize_grad(np.full(7, 3.0, np.float32), x, -2.0, 2.0, S8)
        assert got.tolist() == [0, 3, 3, 3, 0, 0, 0]

    @pytest.mark.rule("N18")
    def test_unsigned_range_is_symmetric_too(self):
        """|x| <= amax, as the old library has it: a negative input of an unsigned quantizer still learns."""
        assert nx.fake_quantize_grad([1.0, 1.0], [-1.0, -3.0], -2.0, 2.0, U8).tolist() == [1, 0]

    @pytest.mark.rule("N18")
    def test_asymmetric_range_is_what_the_grid_reaches(self):
        low, high = nx.representable_range(0.5, 100, QuantSpec("uint8", symmetric=False))
        assert (low, high) == (-50, 77.5)
        got = nx.fake_quantize_grad(np.ones(4), [-50.1, -50, 77.5, 77.6], low, high, A8)
        assert got.tolist() == [0, 1, 1, 0]

    def test_per_channel_bounds_and_dtype_of_grad(self):
        spec = QuantSpec(axis=1)
        got = nx.fake_quantize_grad(np.ones((2, 2), np.float16), [[1, 3], [-1, -5]], [-2, -4], [2, 4], spec)
        assert got.dtype == np.float16
        assert got.tolist() == [[1, 1], [1, 0]]

    def test_representable_range_beyond_float32_is_infinite(self):
        low, high = nx.representable_range([1.0, 3e38], [0, 0], S8.with_(axis=0))
        assert high.tolist() == [127, np.inf]
        assert low.tolist() == [-128, -np.inf]


class TestStore:
    @pytest.mark.rule("N3")
    @pytest.mark.parametrize("name", FORMATS)
    def test_both_ends_survive(self, name):
        spec = QuantSpec(name)
        stored = nx.store(nx.quantize([-INF, INF], 1.0, 0, spec), spec)
        assert stored.dtype == spec.format.storage_dtype
        assert stored.astype(np.float64).tolist() == [spec.qmin, spec.qmax]
        assert nx.dequantize(stored, 2.0, 0, spec).tolist() == [2 * spec.qmin, 2 * spec.qmax]


SCALE = "compute it with scale_from_amax, which maps a range of zero to scale 1"
POINT = "compute it with affine_from_range, or use 0 for a symmetric grid"


@pytest.mark.rule("N16")
@pytest.mark.parametrize("function", [nx.quantize, nx.quantize_reciprocal], ids=lambda f: f.__name__)
def test_nan_is_an_error(function):
    with pytest.raises(QuantValueError) as caught:
        function([[1.0, np.nan], [np.nan, 2.0]], 1.0, 0, S8)
    assert str(caught.value) == (
        "x: got 2 NaN in 4 values of shape (2, 2), want numbers (infinities saturate). "
        "Fix: find the layer that produces NaN in the float model first"
    )


@pytest.mark.rule("N17")
@pytest.mark.parametrize(
    "function",
    [nx.quantize, nx.quantize_reciprocal, nx.dequantize, nx.fake_quantize],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    ("scale", "zero_point", "message"),
    [
        ([1.0, 0.0], 0, f"scale: got 0.0, want positive finite float32 values. Fix: {SCALE}"),
        ([1.0, -2.0], 0, f"scale: got -2.0, want positive finite float32 values. Fix: {SCALE}"),
        ([np.nan, 1.0], 0, f"scale: got nan, want positive finite float32 values. Fix: {SCALE}"),
        ([1.0, 1e300], 0, f"scale: got inf, want positive finite float32 values. Fix: {SCALE}"),
        (
            1.0,
            [0, 128],
            f"zero_point: got 128, want integers in [-128, 127] for int8 per-channel(axis=0). Fix: {POINT}",
        ),
        (
            1.0,
            [0.5, 0],
            f"zero_point: got 0.5, want integers in [-128, 127] for int8 per-channel(axis=0). Fix: {POINT}",
        ),
        (
            1.0,
            np.nan,
            f"zero_point: got nan, want integers in [-128, 127] for int8 per-channel(axis=0). Fix: {POINT}",
        ),
    ],
    ids=["zero", "negative", "nan", "beyond-float32", "no-code", "fraction", "nan-zero-point"],
)
def test_scale_and_zero_point_errors(function, scale, zero_point, message):
    with pytest.raises(QuantValueError) as caught:
        function(np.zeros(2), scale, zero_point, QuantSpec(axis=0))
    assert str(caught.value) == message


@pytest.mark.rule("N2")
def test_float_grids_have_no_zero_point():
    with pytest.raises(QuantValueError) as caught:
        nx.quantize(1.0, 1.0, 1, QuantSpec("fp8"))
    assert str(caught.value) == (
        f"zero_point: got 1, want integers in [0, 0] for fp8e4m3 per-tensor. Fix: {POINT}"
    )


def test_reciprocal_that_overflows():
    with pytest.raises(QuantValueError) as caught:
        nx.quantize_reciprocal(0.0, 2.0**-128, 0, S8)
    assert str(caught.value) == (
        "scale: got 2.938736e-39, want more than 2**-128, so that 1 / scale is finite. Fix: use quantize"
    )
