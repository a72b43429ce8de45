"""Every integer layer against an evaluation in exact rational arithmetic, one element at a time."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from intact import numerics as nx
from intact.spec import INT8, QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)


def rounded(value: Fraction, digits: int, least: int) -> Fraction:
    """`value` to a binary float of `digits` bits whose smallest step is 2**least, ties to even."""
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - 1
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** max(exponent - digits + 1, least)
    return round(value / step) * step


def fl32(value: Fraction) -> Fraction:
    return rounded(value, 24, -149)


def fl64(value: Fraction) -> Fraction:
    return rounded(value, 53, -1074)


def exact(value: float) -> Fraction:
    return Fraction(float(value))


def code(steps: Fraction, zero_point: int, low: int, high: int) -> int:
    return min(max(round(steps) + zero_point, low), high)  # Python's round is ties to even, and exact here


scales = st.floats(2.0**-12, 2.0**4, width=32)
zero_points = st.integers(-128, 127)
sums = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-3000, 3000)


@given(sums, scales, scales, scales, st.floats(-50, 50, width=32), zero_points)
def test_requantize_equals_exact_evaluation(acc, s_x, s_w, s_y, bias, zero_point):
    m = fl32(fl64(exact(s_x) * exact(s_w)))
    real = fl32(fl32(fl32(Fraction(acc)) * m) + exact(bias))
    want = code(fl32(real / exact(s_y)), zero_point, -128, 127)
    multiplier = nx.multipliers(s_x, s_w)
    assert exact(multiplier) == m
    assert nx.requantize([[acc]], multiplier, bias, s_y, zero_point, S8) == want


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


@given(sums, scales, scales, scales, factors, factors, factors)
def test_gain_and_quotient_stand_behind_the_bias(acc, s_x, s_w, s_y, bias, factor, offset):
    real = fl32(fl32(fl32(Fraction(acc)) * fl32(fl64(exact(s_x) * exact(s_w)))) + exact(bias))
    gained = fl32(fl32(real * exact(factor)) + exact(offset))
    made, behind = (nx.multipliers(s_x, s_w), bias), nx.Gain(factor, offset)
    assert exact(nx.to_real([[acc]], *made, gain=behind)[0, 0]) == gained
    assert nx.requantize([[acc]], *made, s_y, 3, S8, gain=behind) == code(
        fl32(gained / exact(s_y)), 3, -128, 127
    )
    assert exact(nx.to_real([[acc]], *made, quotient=np.float32(3))[0, 0]) == fl32(real / 3)


def test_no_offset_keeps_the_sign_of_a_zero():
    assert np.signbit(nx.to_real([[0]], 1.0, 0.0, gain=nx.Gain(-1.0)))


@given(sums, scales, scales, st.floats(-50, 50, width=32))
def test_float_output_equals_exact_evaluation(acc, s_x, s_w, bias):
    m = fl32(fl64(exact(s_x) * exact(s_w)))
    want = fl32(fl32(fl32(Fraction(acc)) * m) + exact(bias))
    got = nx.to_real([[acc]], nx.multipliers(s_x, s_w), bias)
    assert got.dtype == np.float32
    assert exact(got[0, 0]) == want


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


def test_order_of_additions_is_observable():
    """(1 + 2**24) - 2**24 is 0 in float32; any other order of the same three terms gives 1."""
    branch = nx.Residual(np.int8(-1), 2.0**24)
    assert nx.requantize([[1]], 1.0, 2.0**24, 1.0, 0, S8, residual=branch) == 0


def test_accumulator_beyond_24_bits_is_rounded_before_the_product():
    acc = 2**24 + 1
    assert nx.to_real([[acc]], np.float32(3), 0.0) == np.float32(2**24) * 3
    assert np.float32(acc * 3) != np.float32(2**24) * 3


@pytest.mark.parametrize(
    ("acc", "want"), [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (2**31 - 1, 127), (-(2**31), -128)]
)
def test_requantize_ties_to_even_and_saturates(acc, want):
    assert nx.requantize([[acc]], 0.5, 0.0, 1.0, 0, S8) == want
    assert nx.requantize_by_product([[acc]], 0.5, 0.0, 0, S8) == want


def test_requantize_per_channel_negative_gain_and_axis():
    acc = np.array([[10, 10], [20, 20]])
    m = nx.multipliers(1.0, [1.0, 0.5], 1.0, gain=[-1.0, 1.0])
    for form in (partial(nx.requantize, y_scale=1.0), nx.requantize_by_product):
        call = partial(form, acc, m, [0, 1], zero_point=3, spec=S8)
        assert call(axis=1).tolist() == [[-7, 9], [-17, 14]]
        assert call(axis=0).tolist() == [[-7, -7], [14, 14]]


def test_activation_bounds_equal_clamping_the_reals(rng):
    scale, z = nx.affine_from_range(-1.0, 7.0, U8)
    floats = np.linspace(-3, 9, 1201, dtype=np.float32)
    bounds = nx.activation_bounds(0.0, 6.0, scale, int(z), U8)
    direct = nx.quantize(np.clip(floats, 0, 6), scale, z, U8)
    got = nx.to_codes(floats / scale, int(z), U8, bounds)
    assert (got == direct).all()
    assert nx.activation_bounds(0.0, math.inf, scale, int(z), U8) == (int(z), 255)


def loop_linear(x, w, z_x, z_w, bias):
    out = np.zeros((x.shape[0], w.shape[0]), object)
    for n, o in itertools.product(range(x.shape[0]), range(w.shape[0])):
        out[n, o] = int(bias[o]) + sum(
            (int(a) - z_x) * (int(b) - int(z_w[o])) for a, b in zip(x[n], w[o], strict=True)
        )
    return out


def test_linear_equals_python_integers(rng):
    x = rng.integers(0, 256, (3, 7), np.uint8)
    w = rng.integers(-128, 128, (4, 7), np.int8)
    z_w, bias = np.array([0, 1, -5, 7]), rng.integers(-(2**20), 2**20, 4, np.int32)
    want = loop_linear(x, w, 131, z_w, bias)
    got = nx.linear(x, w, 131, z_w, bias)
    assert got.dtype == np.int32
    assert (got == want).all()
    assert (nx.linear(x[0], w, 131, z_w, bias) == want[0]).all()


def test_matmul_subtracts_both_zero_points(rng):
    a = rng.integers(0, 256, (2, 1, 3, 5), np.uint8)
    b = rng.integers(-128, 128, (4, 5, 2), np.int8)
    got = nx.matmul(a, b, 7, -3)
    assert got.shape == (2, 4, 3, 2)
    for i, j, r, c in np.ndindex(got.shape):
        assert got[i, j, r, c] == sum((int(a[i, 0, r, k]) - 7) * (int(b[j, k, c]) + 3) for k in range(5))


def loop_conv(x, w, z_x, z_w, bias, stride, padding, dilation, groups):
    sizes, kernel = x.shape[2:], w.shape[2:]
    places = [
        (size + sum(pads) - (k - 1) * d - 1) // s + 1
        for size, k, s, pads, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *places), object)
    for n, o, *p in np.ndindex(out.shape):
        first = o // (w.shape[0] // groups) * w.shape[1]
        total = int(bias[o])
        for c, *t in np.ndindex(w.shape[1:]):
            at = [
                i * s + j * d - pads[0]
                for i, j, s, d, pads in zip(p, t, stride, dilation, padding, strict=True)
            ]
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                total += (int(x[(n, first + c, *at)]) - z_x) * (int(w[(o, c, *t)]) - int(z_w[o]))
        out[(n, o, *p)] = total
    return out


@pytest.mark.parametrize(
    ("sizes", "kernel", "groups", "options"),
    [
        pytest.param((9,), (3,), 1, {}, id="1d"),
        pytest.param((9,), (2,), 2, {"stride": (2,), "padding": ((0, 1),)}, id="1d-groups-uneven-padding"),
        pytest.param((5, 6), (3, 3), 1, {"padding": ((1, 1), (1, 1))}, id="2d-same"),
        pytest.param((5, 6), (1, 1), 1, {"stride": (2, 2)}, id="2d-pointwise-stride2"),
        pytest.param((5, 6), (3, 2), 4, {"padding": ((1, 0), (0, 2))}, id="2d-depthwise"),
        pytest.param(
            (7, 6),
            (2, 3),
            2,
            {"stride": (2, 1), "dilation": (2, 2), "padding": ((2, 2), (1, 1))},
            id="2d-all",
        ),
        pytest.param((3, 4, 3), (2, 2, 2), 2, {"stride": (1, 2, 1), "dilation": (1, 1, 2)}, id="3d"),
    ],
)
def test_conv_equals_python_integers(rng, sizes, kernel, groups, options):
    rank = len(sizes)
    full = {"stride": (1,) * rank, "padding": ((0, 0),) * rank, "dilation": (1,) * rank} | options
    x = rng.integers(-128, 128, (2, 4, *sizes), np.int8)
    w = rng.integers(-128, 128, (4, 4 // groups, *kernel), np.int8)
    z_w, bias = np.array([0, 3, -4, 0]), rng.integers(-1000, 1000, 4, np.int32)
    want = loop_conv(x, w, -9, z_w, bias, **full, groups=groups)
    got = nx.conv(x, w, -9, z_w, bias, **options, groups=groups)
    assert got.shape == want.shape
    assert (got == want).all()


def test_conv_shorthands_and_empty_batch(rng):
    x, w = rng.integers(0, 256, (1, 2, 5, 5), np.uint8), rng.integers(-127, 128, (3, 2, 3, 3), np.int8)
    spelled = nx.conv(x, w, 4, stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1))
    assert (nx.conv(x, w, 4, stride=2, padding=1) == spelled).all()
    assert (nx.conv(x, w, 4, stride=[2, 2], padding=[1, 1]) == spelled).all()
    assert nx.conv(x[:0], w, 4, stride=2, padding=1).shape == (0, 3, 3, 3)


def test_padding_reads_real_zero():
    """An input that is real 0 everywhere sums to 0 everywhere, borders included."""
    acc = nx.conv(np.full((1, 1, 3, 3), 128, np.uint8), np.full((1, 1, 3, 3), 5, np.int8), 128, padding=1)
    assert (acc == 0).all()


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), scales, scales, scales)
def test_add_equals_exact_evaluation(a, b, z, s_a, s_b, s_y):
    total = fl32(fl32((a - z) * exact(s_a)) + fl32((b - 3) * exact(s_b)))
    want = code(fl32(total / exact(s_y)), 100, 0, 255)
    assert nx.add(np.uint8(a), np.uint8(b), (s_a, z), (s_b, 3), (s_y, 100), U8) == want


def test_add_broadcasts_and_clamps():
    got = nx.add([[10], [100]], [5, -20], (1.0, 0), (1.0, 0), (1.0, 0), S8, bounds=(0, 90))
    assert got.tolist() == [[15, 0], [90, 80]]


@given(zero_points, zero_points, zero_points, scales, scales)
def test_rescale_equals_exact_evaluation(q, z_in, z_out, s_in, s_out):
    want = code(fl32(fl32((q - z_in) * exact(s_in)) / exact(s_out)), z_out, -128, 127)
    assert nx.rescale(np.int8(q), (s_in, z_in), (s_out, z_out), S8) == want


def test_rescale_to_the_same_grid_changes_nothing():
    q = np.arange(-128, 128, dtype=np.int8)
    assert (nx.rescale(q, (0.37, -11), (0.37, -11), S8) == q).all()


def loop_avg_pool(x, kernel, stride, padding, include, ceil, s_x, z_x, s_y, z_y):
    """1-d only: one value at a time, in exact arithmetic."""
    size, out = x.shape[2], []
    room = size + 2 * padding - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1
    for p in range(count):
        taps = [p * stride + t - padding for t in range(kernel)]
        real = [t for t in taps if 0 <= t < size]
        n = len([t for t in taps if -padding <= t < size + padding]) if include else len(real)
        total = sum(int(x[0, 0, t]) - z_x for t in real)
        mean = fl32(fl32(fl32(Fraction(total)) * exact(s_x)) / n)
        out.append(code(fl32(mean / exact(s_y)), z_y, 0, 255))
    return out


@pytest.mark.parametrize("include", [False, True], ids=["exclude-pad", "include-pad"])
@pytest.mark.parametrize("ceil", [False, True], ids=["floor", "ceil"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (4, 3, 2)])
def test_avg_pool_equals_exact_evaluation(rng, kernel, stride, padding, ceil, include):
    x = rng.integers(0, 256, (1, 1, 8), np.uint8)
    got = nx.avg_pool(
        x,
        kernel,
        (0.05, 17),
        (0.04, 30),
        U8,
        stride=stride,
        padding=padding,
        ceil_mode=ceil,
        count_include_pad=include,
    )
    assert got[0, 0].tolist() == loop_avg_pool(
        x, kernel, stride, padding, include, ceil, np.float32(0.05), 17, np.float32(0.04), 30
    )


def test_global_average_pool():
    x = np.array([[[[1, 2], [3, 5]], [[0, 0], [0, 2]]]], np.int8)
    assert nx.avg_pool(x, (2, 2), (1.0, 0), (1.0, 0), S8).tolist() == [
        [[[3]], [[0]]]
    ]  # 2.75, and the tie 0.5


def test_max_pool_takes_codes_and_padding_never_wins(rng):
    x = np.array([[[-128, -100, -90, -128, -128]]], np.int8)
    assert nx.max_pool(x, 3, stride=2, padding=1).tolist() == [[[-100, -90, -128]]]
    wide = rng.integers(-128, 128, (2, 3, 6, 7), np.int8)
    got = nx.max_pool(wide, (2, 3), stride=(2, 1), padding=((0, 1), (1, 0)), dilation=(1, 2))
    for n, c, i, j in np.ndindex(got.shape):
        taps = itertools.product((2 * i, 2 * i + 1), (j - 1, j + 1, j + 3))
        assert got[n, c, i, j] == max(wide[n, c, a, b] for a, b in taps if 0 <= a < 6 and 0 <= b < 7)


def test_max_pool_of_floats_keeps_what_is_no_number(rng):
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    x[0, 0, 0, 0], x[0, 1] = np.nan, -np.inf
    y = nx.float_max_pool(x, 2)
    blocks = x.reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5))
    np.testing.assert_array_equal(y, blocks)
    padded = nx.float_max_pool(-np.ones((1, 1, 3, 3), np.float32), 3, padding=1)
    assert (padded == -1).all()


def test_max_pool_ceil_mode_drops_a_window_that_starts_in_the_padding_behind():
    x = np.arange(4, dtype=np.int8).reshape(1, 1, 4)
    assert nx.max_pool(x, 3, stride=2, ceil_mode=True).tolist() == [[[2, 3]]]
    assert nx.max_pool(x, 2, stride=2, padding=1, ceil_mode=True).tolist() == [[[0, 2, 3]]]
    assert nx.max_pool(x[..., :3], 1, stride=2, padding=0, ceil_mode=True).tolist() == [[[0, 2]]]
    assert nx.max_pool(x[..., :2], 1, stride=2, ceil_mode=True).tolist() == [[[0]]]
    assert nx.max_pool(x[..., :2], 3, stride=2, ceil_mode=True).tolist() == [
        [[1]]
    ]  # it overhangs, as in ONNX


def test_fold_batchnorm_is_onnx_runtimes_gain_and_shift(rng):
    """Every bit of a BatchNormalization that ONNX Runtime runs without optimizations."""
    channels, numbers = 512, {}
    for name in ("gamma", "beta", "mean", "var", "x"):
        shape = (2, channels, 3) if name == "x" else channels
        numbers[name] = rng.standard_normal(shape).astype(np.float32)
    numbers["var"] = np.square(numbers["var"]) + np.float32(1e-6)
    names = ["x", "gamma", "beta", "mean", "var"]
    node = helper.make_node("BatchNormalization", names, ["y"], epsilon=1e-5)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, numbers[n].shape) for n in names]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, numbers["x"].shape)
    graph = helper.make_graph([node], "g", info, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, numbers)
    gain, shift = nx.fold_batchnorm(*(numbers[n] for n in names[1:]), 1e-5)
    assert gain.dtype == shift.dtype == np.float32
    assert (gain < 0).any()
    assert np.array_equal(numbers["x"] * gain[:, None] + shift[:, None], want)


def test_foreign_int32_bias_is_exact():
    """2**24 + 1 survives only because the bias joins the integer sum, before fl32."""
    acc = nx.linear(np.array([[1]]), np.array([[1]]), 0, bias=np.array([2**24]))
    assert acc == 2**24 + 1


def test_accumulator_bound_is_reached_by_the_worst_input():
    w, bias = np.array([[127, -128, 3], [1, 1, -1]], np.int8), np.array([1000, -7], np.int32)
    bound = nx.accumulator_bound(w, (0, 255), 10, bias=bias)
    assert bound.tolist() == [245 * 258 + 1000, 245 * 3 + 7]
    low_zero = nx.accumulator_bound(w, (0, 255), 0, bias=np.array([1000, 7]))
    positive_only = nx.linear(np.array([[255, 255]]), np.array([[127, 1]]), 0)
    assert nx.accumulator_bound(np.array([[127, 1]]), (0, 255), 0) == positive_only[0]
    assert low_zero.tolist() == [255 * 258 + 1000, 255 * 3 + 7]
    nx.prove_accumulator(bound)
    nx.prove_accumulator(2**31 - 1)


def test_accumulator_bound_counts_weight_zero_points_of_convolutions():
    w = np.array([[[[10, 20]]], [[[30, 40]]]], np.uint8)
    assert nx.accumulator_bound(w, (-128, 127), 0, [15, 35]).tolist() == [1280, 1280]


def test_multiplier_is_rounded_once_from_float64(rng):
    """Products formed in float32 would be rounded twice, and some of them differ."""
    s_x, s_w, s_y = rng.random((3, 100), np.float32) + np.float32(0.001)
    once = np.float32(s_x.astype(float) * s_w.astype(float) / s_y.astype(float))
    assert (nx.multipliers(s_x, s_w, s_y) == once).all()
    assert (s_x * s_w / s_y != once).any()


def test_layers_take_every_storage_dtype():
    x = nx.store([[1, -2]], QuantSpec("int4"))
    assert nx.linear(x, nx.store([[7, -8]], QuantSpec("int4")), 1) == 24
    assert nx.linear(x.astype(np.int16), np.array([[7, -8]], np.int64), 1) == 24
    assert INT8.storage_dtype == np.int8


def test_a_float_max_pool_of_no_images_has_none():
    made = nx.float_max_pool(np.zeros((0, 3, 6, 5), np.float32), (2, 2), stride=(2, 2))
    assert made.shape == (0, 3, 3, 2) and made.dtype == np.float32
