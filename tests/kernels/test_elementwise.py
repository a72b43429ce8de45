"""Fake-quantize, its gradient, quantize and dequantize equal numerics on every bit, kernel by kernel."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import kernels, numerics
from intact.errors import QuantValueError
from intact.spec import INT8, UINT8, Format, QuantSpec

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
EDGE_SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 65, 127, 1025]
GRIDS = [Format.integer(bits, signed=signed) for bits in range(2, 17) for signed in (True, False)]

sizes = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 67])
shapes = st.lists(sizes, min_size=0, max_size=4).filter(lambda s: np.prod(s, dtype=int) < 20000).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def floats(rng: np.random.Generator, shape: tuple[int, ...], dtype, scale: float = 0.25) -> np.ndarray:
    """Ordinary values, exact ties of `scale`, infinities, NaN, zeros of both signs, denormals, outliers."""
    ties = (rng.integers(-300, 300, 40) + 0.5) * scale
    odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -3e-42, 3e38, -6e4, 127 * scale]
    pool = np.concatenate([ties, odd, rng.standard_normal(60) * 20 * scale])
    with np.errstate(over="ignore"):
        return rng.choice(pool, shape).astype(np.float32).astype(dtype)


def scramble(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same values, lying in memory in another way: permuted, strided, reversed or dense."""
    way = rng.integers(4)
    if way == 0 or x.ndim == 0:
        return x
    if way == 1:
        order = rng.permutation(x.ndim)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if way == 2:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return np.ascontiguousarray(x[::-1])[::-1]


def params(rng: np.random.Generator, x: np.ndarray, spec: QuantSpec) -> tuple[np.ndarray, np.ndarray]:
    """Scales (some of all-zero granules, hence 1) and zero points of granule shape."""
    granules = numerics.granule_shape(x.shape, spec)
    amax = np.abs(rng.standard_normal(granules) * rng.choice([0, 0.25 * 127, 1e-3], granules))
    scale = numerics.scale_from_amax(np.asarray(amax, np.float32), spec)
    low, high = int(spec.qmin), int(spec.qmax)
    return scale, np.int32(0) if spec.symmetric else rng.integers(low, high + 1, granules)


@st.composite
def cases(draw):
    """A generator, a tensor and a spec of any granularity that fits it."""
    rng, shape = np.random.default_rng(draw(seeds)), draw(shapes)
    x = scramble(floats(rng, shape, draw(st.sampled_from(DTYPES))), rng)
    axes = draw(st.sets(st.integers(0, len(shape) - 1))) if shape else set()
    blocks = st.integers(1, 40) if len(axes) == 1 and x.size else st.none()
    symmetric, narrow = draw(st.booleans()), draw(st.booleans())
    block_size = draw(st.none() | blocks)
    spec = QuantSpec(draw(st.sampled_from(GRIDS)), tuple(axes), block_size, symmetric, narrow)
    return rng, x, spec


@pytest.mark.rule("N32")
@settings(max_examples=80)
@given(case=cases(), threads=st.integers(1, 4))
def test_fake_quantize(fake_quantize_kernel, convert_kernel, force_kernels, assert_same_bits, case, threads):
    rng, x, spec = case
    scale, zero_point = params(rng, x, spec)
    want = numerics.fake_quantize(x, scale, zero_point, spec)
    with force_kernels(fake_quantize_kernel, convert_kernel):
        assert_same_bits(kernels.fake_quantize(x, scale, zero_point, spec, threads=threads), want)


@pytest.mark.rule("N32")
@settings(max_examples=80)
@given(case=cases(), grad_dtype=st.sampled_from(DTYPES))
def test_fake_quantize_grad(
    fake_quantize_grad_kernel, convert_kernel, force_kernels, assert_same_bits, case, grad_dtype
):
    rng, x, spec = case
    grad = scramble(floats(rng, x.shape, grad_dtype), rng)
    high = np.abs(rng.standard_normal(numerics.granule_shape(x.shape, spec))) * 30
    low = -high * rng.choice([1, 0.25])
    want = numerics.fake_quantize_grad(grad, x, low, high, spec)
    with force_kernels(fake_quantize_grad_kernel, convert_kernel):
        assert_same_bits(kernels.fake_quantize_grad(grad, x, low, high, spec), want)


@pytest.mark.rule("N32")
@settings(max_examples=80)
@given(case=cases(), grad_dtype=st.sampled_from(DTYPES), threads=st.integers(1, 4))
def test_learned_range_grad(
    fake_quantize_grad_kernel, convert_kernel, force_kernels, assert_same_bits, case, grad_dtype, threads
):
    rng, x, spec = case
    spec, x = replace(spec, block_size=None), np.ascontiguousarray(x)
    grad = np.ascontiguousarray(floats(rng, x.shape, grad_dtype))
    y = np.round(x.astype(np.float32)).astype(x.dtype)
    high = np.abs(rng.standard_normal(numerics.granule_shape(x.shape, spec))) * 30
    low = -high * rng.choice([1, 0.25])
    to_x, sums = numerics.learned_range_grad(grad, x, y, low, high, spec)
    with force_kernels(fake_quantize_grad_kernel, convert_kernel):
        got = kernels.learned_range_grad(grad, x, y, low, high, spec, threads=threads)
    assert_same_bits(got[0], to_x)
    np.testing.assert_array_equal(got[1], sums)


def test_sums_of_a_learned_range_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    x, grad = rng.standard_normal((2, 8, 3, 70_000)).astype(np.float32)[:, 0]
    for axis in (None, (0,)):
        spec = QuantSpec("int8", axis)
        single, many = (
            kernels.learned_range_grad(grad, x, x.round(), -1, 1, spec, threads=n)[1] for n in (1, 3)
        )
        np.testing.assert_array_equal(single, many)
        want = numerics.learned_range_grad(grad, x, x.round(), -1, 1, spec)[1]
        np.testing.assert_array_equal(single, want)


@pytest.mark.rule("N16", "N32")
@settings(max_examples=80)
@given(case=cases())
def test_quantize_and_back(quantize_kernel, convert_kernel, force_kernels, assert_same_bits, case):
    rng, x, spec = case
    scale, zero_point = params(rng, x, spec)
    want = numerics.quantize(np.where(np.isnan(x), -np.inf, x), scale, zero_point, spec)
    with force_kernels(quantize_kernel, convert_kernel):
        q = kernels.quantize(x, scale, zero_point, spec)
        back = kernels.dequantize(q, scale, zero_point, spec)
    width = 8 if spec.format.bits <= 8 else 16
    assert q.dtype == np.dtype(f"{'int' if spec.format.signed else 'uint'}{width}")
    np.testing.assert_array_equal(q.astype(np.int32), want)
    assert_same_bits(back, numerics.dequantize(want, scale, zero_point, spec))


@pytest.mark.parametrize("n", EDGE_SIZES)
@pytest.mark.parametrize("fmt", [INT8, UINT8], ids=str)
def test_every_tail_of_a_row(fake_quantize_kernel, quantize_kernel, force_kernels, assert_same_bits, n, fmt):
    x, spec = floats(np.random.default_rng(n), (n,), np.float32), QuantSpec(fmt, symmetric=fmt is INT8)
    zero_point = 0 if fmt is INT8 else 3
    with force_kernels(fake_quantize_kernel, quantize_kernel):
        y = kernels.fake_quantize(x, 0.25, zero_point, spec)
        q = kernels.quantize(x, 0.25, zero_point, spec)
    assert_same_bits(y, numerics.fake_quantize(x, 0.25, zero_point, spec))
    want = numerics.quantize(np.where(np.isnan(x), -np.inf, x), 0.25, zero_point, spec)
    np.testing.assert_array_equal(q.astype(np.int32), want)


@pytest.mark.parametrize("fmt", GRIDS, ids=str)
@pytest.mark.parametrize("narrow", [False, True], ids=["full", "narrow"])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
def test_every_width(fmt, narrow, symmetric, force_kernels, assert_same_bits, fake_quantize_kernel):
    rng, spec = np.random.default_rng(1), QuantSpec(fmt, 1, None, symmetric, narrow)
    x = floats(rng, (3, 17, 19), np.float32, scale=0.0625)
    scale, zero_point = params(rng, x, spec)
    with force_kernels(fake_quantize_kernel):
        y = kernels.fake_quantize(x, scale, zero_point, spec)
    assert_same_bits(y, numerics.fake_quantize(x, scale, zero_point, spec))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1)], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_large_tensors_on_any_number_of_threads(axis, threads, assert_same_bits):
    rng, spec = np.random.default_rng(7), QuantSpec(axis=axis)
    x = floats(rng, (67, 129, 41), np.float32)
    scale, _ = params(rng, x, spec)
    y = kernels.fake_quantize(x, scale, 0, spec, threads=threads)
    assert_same_bits(y, numerics.fake_quantize(x, scale, 0, spec))
    assert_same_bits(
        kernels.fake_quantize_grad(x, x, -scale, scale, spec, threads=threads),
        numerics.fake_quantize_grad(x, x, -scale, scale, spec),
    )


@pytest.mark.parametrize("name", ["fp8e4m3", "fp8e5m2", "fp4e2m1"])
def test_float_grids_are_those_of_numerics(name, assert_same_bits):
    x, spec = floats(np.random.default_rng(2), (9, 33), np.float32), QuantSpec(name, axis=0)
    scale = np.linspace(0.1, 2, 9, dtype=np.float32)
    assert_same_bits(kernels.fake_quantize(x, scale, 0, spec), numerics.fake_quantize(x, scale, 0, spec))
    x[np.isnan(x)] = 0
    q = kernels.quantize(x, scale, 0, spec)
    assert_same_bits(q, numerics.store(numerics.quantize(x, scale, 0, spec), spec))
    assert_same_bits(kernels.dequantize(q, scale, 0, spec), numerics.dequantize(q, scale, 0, spec))


@pytest.mark.parametrize("zero_point", [256, -1, 0.5], ids=str)
@pytest.mark.parametrize("axis", [None, 0], ids=["per-tensor", "per-channel"])
def test_a_zero_point_that_is_no_code_is_refused(zero_point, axis):
    spec = QuantSpec(UINT8, axis, symmetric=False)
    scale, zero_points = np.full(5 if axis == 0 else (), 0.5), np.full(5 if axis == 0 else (), zero_point)
    with pytest.raises(QuantValueError, match=r"want integers in \[0, 255\]"):
        kernels.fake_quantize(np.zeros((5, 2), np.float32), scale, zero_points, spec)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_out_receives_the_result(dtype, assert_same_bits):
    x = floats(np.random.default_rng(3), (5, 6, 7), dtype)
    want = numerics.fake_quantize(x, 0.25, 0, QuantSpec())
    fortran, strided = np.empty_like(x, order="F"), np.empty((5, 6, 14), dtype)[..., ::2]
    for out in (np.empty_like(x), fortran, strided, x.copy()):
        assert kernels.fake_quantize(x, 0.25, 0, QuantSpec(), out=out) is out
        assert_same_bits(np.ascontiguousarray(out), want)
    shifted = np.concatenate([x.reshape(-1), x.reshape(-1)[:1]])
    kernels.fake_quantize(shifted[:-1], 0.25, 0, QuantSpec(), out=shifted[1:])
    assert_same_bits(shifted[1:].reshape(x.shape), want)
    assert kernels.fake_quantize(x, 0.25, 0, QuantSpec(), out=x) is x
    assert_same_bits(x, want)


def test_channels_last_keeps_its_memory_layout():
    x = np.zeros((2, 8, 8, 3), np.float32).transpose(0, 3, 1, 2)
    y = kernels.fake_quantize(x, np.ones(3, np.float32), 0, QuantSpec(axis=1))
    assert y.strides == x.strides


def test_memory_that_is_not_aligned_is_read_and_written(assert_same_bits):
    x, y = (np.zeros(4 * 33 + 1, np.uint8)[1:].view(np.float32) for _ in range(2))
    x[:] = np.linspace(-2, 2, 33)
    assert not x.flags.aligned
    assert kernels.fake_quantize(x, 0.1, 0, QuantSpec(), out=y) is y
    assert_same_bits(y, numerics.fake_quantize(x.copy(), 0.1, 0, QuantSpec()))
    np.testing.assert_array_equal(kernels.absmax(x), np.float32(2))


def test_foreign_byte_order_is_read(assert_same_bits):
    x = np.linspace(-2, 2, 21, dtype=np.float32)
    got = kernels.fake_quantize(x.astype(">f4"), 0.1, 0, QuantSpec())
    assert_same_bits(got, numerics.fake_quantize(x, 0.1, 0, QuantSpec()))


@pytest.mark.parametrize("out", [np.empty(3, np.float32), np.empty(4, np.float64)], ids=["shape", "dtype"])
def test_a_wrong_out_is_refused(out):
    with pytest.raises(QuantValueError, match="want a writable array of float32, shape"):
        kernels.fake_quantize(np.zeros(4, np.float32), 1.0, 0, QuantSpec(), out=out)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_bad_scale_is_refused_in_the_words_of_numerics(scale):
    x = np.zeros((2, 2), np.float32)
    for call in (kernels.fake_quantize, kernels.quantize):
        with pytest.raises(QuantValueError, match="want positive finite float32 values"):
            call(x, scale, 0, QuantSpec())
        with pytest.raises(QuantValueError, match="want positive finite float32 values"):
            call(x, np.array([1, scale], np.float32), 0, QuantSpec(axis=0))


def test_scales_of_another_shape_are_refused():
    with pytest.raises(QuantValueError, match=r"got shape \(4,\) for a tensor of shape \(2, 3\)"):
        kernels.fake_quantize(np.zeros((2, 3)), np.ones(4, np.float32), 0, QuantSpec(axis=0))
