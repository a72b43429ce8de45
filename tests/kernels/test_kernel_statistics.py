"""Abs-max, min-max and histogram counting equal numerics, kernel by kernel, on any number of threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import kernels, numerics
from intact.errors import QuantValueError

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
EDGE_SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 65, 127, 1025]

sizes = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 67, 300])
shapes = st.lists(sizes, min_size=0, max_size=5).filter(lambda s: np.prod(s, dtype=int) < 20000).map(tuple)


def floats(rng: np.random.Generator, shape: tuple[int, ...], dtype, missing: bool = True) -> np.ndarray:
    odd = [np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e-42, 3e38, -7e4, *([np.nan] if missing else [])]
    pool = np.concatenate([odd, rng.standard_normal(400)])
    with np.errstate(over="ignore"):
        return rng.choice(pool, shape).astype(np.float32).astype(dtype)


@st.composite
def cases(draw):
    """A tensor in some memory layout, and the axes to keep."""
    rng, shape = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(shapes)
    x = floats(rng, shape, draw(st.sampled_from(DTYPES)), missing=draw(st.booleans()))
    order = rng.permutation(len(shape))
    axes = draw(st.sets(st.integers(0, len(shape) - 1))) if shape else set()
    return x.transpose(order), tuple(axes)


@pytest.mark.rule("N32")
@settings(max_examples=80)
@given(case=cases(), threads=st.integers(1, 4))
def test_absmax_and_minmax(reduce_kernel, convert_kernel, force_kernels, case, threads):
    x, axis = case
    with force_kernels(reduce_kernel, convert_kernel):
        amax = kernels.absmax(x, axis, threads=threads)
        low, high = kernels.minmax(x, axis, threads=threads)
    want_low, want_high = numerics.minmax(x, axis)
    assert amax.dtype == low.dtype == high.dtype == np.float32
    np.testing.assert_array_equal(amax, numerics.absmax(x, axis), strict=True)
    np.testing.assert_array_equal(low, want_low, strict=True)
    np.testing.assert_array_equal(high, want_high, strict=True)


@pytest.mark.parametrize("n", EDGE_SIZES)
@pytest.mark.parametrize("position", ["first", "last"])
@pytest.mark.parametrize("odd", [9e9, -9e9, np.nan, np.inf], ids=str)
def test_one_outlier_anywhere_in_a_row_is_found(reduce_kernel, force_kernels, n, position, odd):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    if n:
        x[0 if position == "first" else -1] = odd
    with force_kernels(reduce_kernel):
        amax, ends = kernels.absmax(x), kernels.minmax(x)
    np.testing.assert_array_equal(amax, numerics.absmax(x))
    np.testing.assert_array_equal(ends, numerics.minmax(x))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_large_tensors(axis, threads):
    x = floats(np.random.default_rng(5), (129, 67, 41), np.float32, missing=False)
    np.testing.assert_array_equal(kernels.absmax(x, axis, threads=threads), numerics.absmax(x, axis))
    got, want = kernels.minmax(x, axis, threads=threads), numerics.minmax(x, axis)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


def test_zeros_come_out_positive_whatever_the_order():
    for x in ([0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]):
        low, high = kernels.minmax(np.array(x, np.float32))
        assert not np.signbit([low, high]).any()


def test_an_axis_out_of_range_is_refused():
    with pytest.raises(QuantValueError, match="distinct axes"):
        kernels.absmax(np.zeros((2, 3)), axis=2)


@pytest.mark.rule("N32")
@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([*EDGE_SIZES, 5000]),
    dtype=st.sampled_from(DTYPES),
    bins=st.sampled_from([1, 2, 7, 64, 2048]),
    exponent=st.integers(-170, 130),
)
def test_count_pow2(histogram_kernel, convert_kernel, force_kernels, seed, n, dtype, bins, exponent):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):  # magnitudes from far below the first edge to beyond the last
        x = np.ldexp(rng.standard_normal(n), exponent + rng.integers(-3, 13, n)).astype(np.float32)
        edges = np.ldexp(np.float64(rng.integers(0, bins + 1, n)), exponent).astype(np.float32)
    x = np.where(rng.random(n) < 0.3, edges * rng.choice([-1, 1], n), x)
    x = np.where(rng.random(n) < 0.05, floats(rng, (n,), np.float32), x)
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    negative, positive = rng.integers(0, 9, (2, bins))
    before = negative.copy(), positive.copy()
    with force_kernels(histogram_kernel, convert_kernel):
        reach = kernels.collect_pow2(x, exponent, negative, positive)
    want = numerics.count_pow2(x, exponent, bins)
    np.testing.assert_array_equal(negative - before[0], want[0])
    np.testing.assert_array_equal(positive - before[1], want[1])
    real = numerics.to_float32(x)
    finite = real[np.isfinite(real)]
    assert reach == (*(float(end) for end in numerics.minmax(finite)), n - finite.size)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([*EDGE_SIZES, 5000]),
    dtype=st.sampled_from(DTYPES),
    bins=st.sampled_from([1, 2, 7, 64, 2048]),
    width=st.sampled_from([0.25, 1e-3, 0.1, 3.7, 1e-42, 1e30]),
)
def test_count_fixed(histogram_kernel, convert_kernel, force_kernels, seed, n, dtype, bins, width):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        x = rng.standard_normal(n) * width * bins / 3
        edges = rng.integers(-bins, bins + 1, n) * width
        x = np.where(rng.random(n) < 0.3, edges, x).astype(np.float32)
        x = np.where(rng.random(n) < 0.05, floats(rng, (n,), np.float32), x).astype(dtype)
    counts = rng.integers(0, 9, bins)
    before = counts.copy()
    with force_kernels(histogram_kernel, convert_kernel):
        kernels.count_fixed(x, width, counts)
    np.testing.assert_array_equal(counts - before, numerics.count_fixed(x, width, bins))


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("bins", [64, 4096])
def test_large_histograms(histogram_kernel, force_kernels, threads, bins):
    x = floats(np.random.default_rng(5), (500, 1100), np.float32)
    negative, positive, fixed = np.zeros((3, bins), np.int64)
    with force_kernels(histogram_kernel):
        kernels.count_pow2(x, -9, negative, positive, threads=threads)
        kernels.count_fixed(x, 0.001, fixed, threads=threads)
    want = numerics.count_pow2(x, -9, bins)
    np.testing.assert_array_equal(negative, want[0])
    np.testing.assert_array_equal(positive, want[1])
    np.testing.assert_array_equal(fixed, numerics.count_fixed(x, 0.001, bins))


@pytest.mark.parametrize("exponent", [-10_000, -1075, 1023, 10_000])
def test_absurd_exponents_do_not_wrap(exponent):
    x = np.array([0.0, 1e-45, 1.0, -3e38], np.float32)
    negative, positive = np.zeros((2, 8), np.int64)
    kernels.count_pow2(x, exponent, negative, positive)
    assert positive.tolist() == ([1] if exponent < 0 else [3]) + [0] * 7
    assert negative.tolist() == ([0] if exponent < 0 else [1]) + [0] * 7


@pytest.mark.parametrize(
    "counts",
    [np.zeros(4, np.int32), np.zeros(8, np.int64)[::2], np.zeros((2, 2), np.int64), np.zeros(0, np.int64)],
    ids=["int32", "strided", "matrix", "empty"],
)
def test_counters_of_another_kind_are_refused(counts):
    with pytest.raises(QuantValueError, match=r"counts: got .* want a dense, writable int64 array"):
        kernels.count_fixed(np.ones(3), 1.0, counts)


def test_halves_of_two_sizes_are_refused():
    with pytest.raises(QuantValueError, match="the same for both halves"):
        kernels.count_pow2(np.ones(3), 0, np.zeros(4, np.int64), np.zeros(5, np.int64))


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan])
def test_a_width_that_is_not_positive_is_refused(width):
    with pytest.raises(QuantValueError, match="want a positive width"):
        kernels.count_fixed(np.ones(3), width, np.zeros(4, np.int64))
