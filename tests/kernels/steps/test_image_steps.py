"""The steps on planes of codes equal numerics, on every kernel that this machine has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import depthwise, moves, pointwise, pool
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import View
from intact.kernels.registry import kernel_list, kernels_in_use
from intact.kernels.window import PixelWindow
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)
SEEDS = st.integers(0, 2**32 - 1)
SCALES = st.floats(2**-6, 2**6, width=32)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


def codes(rng: np.random.Generator, *shape: int, high: int = 255) -> np.ndarray:
    return rng.integers(0, high + 1, shape).astype(np.uint8)


def order_of(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    return tuple(rng.permutation(rank).tolist())


def grid_and_bounds(rng: np.random.Generator) -> tuple[Bytes, tuple[int, int]]:
    low, high = sorted(rng.integers(0, 256, 2).tolist())
    return Bytes(int(rng.integers(0, 256)), low, high), (low, high)


def kernels_of(**names: str) -> dict[str, str]:
    return {**kernels_in_use(), **names}


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, shape=SIZES, scale=SCALES)
def test_quantize_in_any_order(
    runner: Any, quantize_kernel: str, transpose_kernel: str, seed: int, shape: tuple[int, ...], scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * scale * 100).astype(np.float32)
    grid, bounds = grid_and_bounds(rng)
    run = runner()
    x_view = run.input(x, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    y_view = run.output(shape, order=order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    kernels = kernels_of(quantize=quantize_kernel, transpose=transpose_kernel)
    y = run.run(pointwise.quantize(x_view, y_view, scale, grid, kernels))
    want = np.clip(numerics.quantize(x, scale, grid.zero, UINT8), *bounds)
    np.testing.assert_array_equal(y, want)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize(
    "shape", [(1, 3, 224, 224), (2, 3, 7, 33), (1, 64, 14, 14), (1, 200, 5, 130)], ids=str
)
@pytest.mark.parametrize("halo", [(0, 0, 0, 0), (1, 1, 1, 1)], ids=["dense", "halo"])
@pytest.mark.parametrize("threads", [1, 2])
def test_quantize_images(
    runner: Any,
    quantize_kernel: str,
    transpose_kernel: str,
    shape: tuple[int, ...],
    halo: tuple[int, int, int, int],
    threads: int,
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    run = runner(threads)
    kernels = kernels_of(quantize=quantize_kernel, transpose=transpose_kernel)
    x_view = run.input(x.transpose(0, 2, 3, 1), (0, 3, 1, 2))
    y_view = run.output((shape[0], shape[2], shape[3], shape[1]), halo=halo)
    y = run.run(pointwise.quantize(x_view, y_view, 0.02, Bytes(128), kernels))
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), numerics.quantize(x, np.float32(0.02), 128, UINT8))
    assert run.only_wrote(y_view)


@settings(deadline=None, max_examples=60)
@given(scale=st.floats(2**-110, 2**110, width=32), zero=st.integers(0, 255))
def test_quantize_close_to_ties(runner: Any, quantize_kernel: str, scale: float, zero: int) -> None:
    ties = ((np.arange(-300, 300) + 0.5) * scale).astype(np.float32)
    x = np.concatenate([ties, *(np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf))])
    run = runner()
    x_view, y_view = run.input(x), run.output(x.shape)
    kernels = kernels_of(quantize=quantize_kernel)
    y = run.run(pointwise.quantize(x_view, y_view, scale, Bytes(zero), kernels))
    np.testing.assert_array_equal(y, numerics.quantize(x, np.float32(scale), zero, UINT8))


def test_quantize_takes_infinities_and_nan_as_numerics_says(runner: Any, quantize_kernel: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.5, 1.5, -0.5, 3e38], np.float32)
    run = runner()
    x_view, y_view = run.input(x), run.output(x.shape)
    kernels = kernels_of(quantize=quantize_kernel)
    y = run.run(pointwise.quantize(x_view, y_view, 1.0, Bytes(10, 3, 250), kernels))
    assert y.tolist() == [250, 3, 3, 10, 12, 10, 250]


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, shape=SIZES, scale=SCALES)
def test_dequantize_in_any_order(
    runner: Any, quantize_kernel: str, transpose_kernel: str, seed: int, shape: tuple[int, ...], scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x, zero = codes(rng, *shape), int(rng.integers(0, 256))
    run = runner()
    x_view = run.input(x, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    y_view = run.output(shape, np.float32, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    kernels = kernels_of(quantize=quantize_kernel, transpose=transpose_kernel)
    y = run.run(pointwise.dequantize(x_view, y_view, scale, zero, kernels))
    np.testing.assert_array_equal(y, numerics.dequantize(x, scale, zero, UINT8))
    assert run.only_wrote(y_view)


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, shape=SIZES, a_scale=SCALES, b_scale=SCALES)
def test_add_broadcasts_in_any_order(
    runner: Any, pointwise_kernel: str, seed: int, shape: tuple[int, ...], a_scale: float, b_scale: float
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (codes(rng, *[n if rng.random() < 0.7 else 1 for n in shape]) for _ in "ab")
    both = np.broadcast_shapes(a.shape, b.shape)
    (za, zb), (grid, bounds) = rng.integers(0, 256, 2).tolist(), grid_and_bounds(rng)
    run = runner()
    views = [spread(run.input(x, order_of(rng, x.ndim)), both) for x in (a, b)]
    y_view = run.output(both, order=order_of(rng, len(both)), gap=int(rng.integers(0, 3)))
    scale = float(np.float32(rng.choice([1.0, 0.0390625, rng.uniform(0.01, 2)])))
    from_a, from_b = (za, float(np.float32(a_scale))), (zb, float(np.float32(b_scale)))
    kernels = kernels_of(pointwise=pointwise_kernel)
    y = run.run(pointwise.add(*views, y_view, from_a, from_b, scale, grid, kernels))
    affines = (a_scale, za), (b_scale, zb), (scale, grid.zero)
    np.testing.assert_array_equal(y, numerics.add(a, b, *affines, UINT8, bounds=bounds))
    assert run.only_wrote(y_view)


def spread(view: View, shape: tuple[int, ...]) -> View:
    strides = [0 if n == 1 else s for n, s in zip(view.sizes, view.strides, strict=True)]
    return View(view.block, view.offset, "uint8", shape, strides)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 63, 64, 65, 1000, 40000])
def test_points_of_every_byte_and_any_tail(runner: Any, pointwise_kernel: str, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b, table = codes(rng, n), codes(rng, n), codes(rng, 256)
    kernels = kernels_of(pointwise=pointwise_kernel)
    scales = [float(np.float32(s)) for s in (0.31, 1.9, 0.7)]

    run = runner(2)
    views, y_view = [run.input(a), run.input(b)], run.output((n,))
    from_a, from_b, grid = (3, scales[0]), (200, scales[1]), Bytes(120, 2, 251)
    y = run.run(pointwise.add(*views, y_view, from_a, from_b, scales[2], grid, kernels))
    want = numerics.add(a, b, (0.31, 3), (1.9, 200), (0.7, 120), UINT8, bounds=(2, 251))
    np.testing.assert_array_equal(y, want)
    assert run.only_wrote(y_view)

    run = runner(2)
    x_view, y_view = run.input(a), run.output((n,))
    multiplier = float(numerics.ratio(0.31, 0.7))
    y = run.run(pointwise.rescale(x_view, y_view, 3, multiplier, grid, kernels))
    want = np.clip(numerics.rescale(a, (0.31, 3), (0.7, 120), UINT8), 2, 251)
    np.testing.assert_array_equal(y, want)
    assert run.only_wrote(y_view)

    run = runner(2)
    x_view, y_view = run.input(a), run.output((n,))
    y = run.run(pointwise.lookup(x_view, run.constant(table), y_view, kernels))
    np.testing.assert_array_equal(y, table[a])
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("multiplier", [2.0**94, -(2.0**94), 2.0**31, 1e-30, 0.5])
def test_rescale_saturates_where_an_integer_would_wrap(
    runner: Any, pointwise_kernel: str, multiplier: float
) -> None:
    x = np.arange(256, dtype=np.uint8)
    run = runner()
    x_view, y_view = run.input(x), run.output((256,))
    kernels = kernels_of(pointwise=pointwise_kernel)
    y = run.run(pointwise.rescale(x_view, y_view, 100, multiplier, Bytes(7, 1, 250), kernels))
    steps = (x.astype(np.float32) - 100) * np.float32(multiplier)
    np.testing.assert_array_equal(y, numerics.to_codes(steps, 7, UINT8, (1, 250)))


def test_pointwise_in_place(runner: Any, pointwise_kernel: str) -> None:
    rng = np.random.default_rng(1)
    x = codes(rng, 333)
    run = runner()
    x_view, y_view = run.input(x), run.output((333,))
    kernels = kernels_of(pointwise=pointwise_kernel)
    double = pointwise.add(y_view, y_view, y_view, (0, 1.0), (0, 1.0), 1.0, Bytes(0), kernels)
    y = run.run(moves.copy(x_view, y_view), double)
    np.testing.assert_array_equal(y, np.minimum(2 * x.astype(int), 255))


@st.composite
def pools(draw: st.DrawFn) -> tuple[int, dict[str, object], tuple[int, int]]:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3)]))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [
        draw(st.integers(0, e - 1 if d == 1 else 0)) for e, d in zip(reach * 2, dilation * 2, strict=True)
    ]
    sizes = [draw(st.integers(max(1, e - p), 13)) for e, p in zip(reach, pads, strict=False)]
    window = {"kernel": kernel, "stride": stride, "dilation": dilation}
    padding = ((pads[0], pads[2]), (pads[1], pads[3]))
    ceil = draw(st.booleans())
    return draw(SEEDS), {**window, "padding": padding, "ceil_mode": ceil}, (sizes[0], sizes[1])


def window_of(w: dict) -> PixelWindow:
    (top, bottom), (left, right) = w["padding"]
    return PixelWindow(w["kernel"], w["stride"], w["dilation"], (top, left, bottom, right))


@settings(deadline=None, max_examples=80)
@given(drawn=pools(), channels=st.integers(1, 70), batch=st.integers(1, 2))
def test_max_pool(runner: Any, pool_kernel: str, drawn: tuple, channels: int, batch: int) -> None:
    seed, w, sizes = drawn
    x = codes(np.random.default_rng(seed), batch, *sizes, channels)
    want = numerics.max_pool(x.transpose(0, 3, 1, 2), **w).transpose(0, 2, 3, 1)
    run = runner()
    x_view, y_view = run.input(x, halo=(1, 0, 0, 2)), run.output(want.shape, gap=seed % 3, halo=(0, 1, 1, 0))
    y = run.run(pool.max_pool(x_view, y_view, window_of(w), kernels_of(pool=pool_kernel)))
    np.testing.assert_array_equal(y, want)
    assert run.only_wrote(y_view)


@settings(deadline=None, max_examples=80)
@given(drawn=pools(), channels=st.integers(1, 70), batch=st.integers(1, 2))
def test_float_max_pool(runner: Any, drawn: tuple, channels: int, batch: int) -> None:
    seed, w, sizes = drawn
    rng = np.random.default_rng(seed)
    odd = rng.choice(np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0]), (batch, *sizes, channels))
    x = np.where(rng.random(odd.shape) < 0.2, odd, rng.standard_normal(odd.shape)).astype(np.float32)
    want = numerics.float_max_pool(x.transpose(0, 3, 1, 2), **w).transpose(0, 2, 3, 1)
    for kernel in (k.name for k in kernel_list() if k.family == "float_steps" and k.available):
        run = runner(2)
        x_view, y_view = run.input(x, halo=(1, 0, 0, 2)), run.output(want.shape, np.float32, gap=seed % 3)
        y = run.run(pool.float_max_pool(x_view, y_view, window_of(w), kernels_of(float_steps=kernel)))
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(np.signbit(y[y == 0]), np.signbit(want[want == 0]))
        assert run.only_wrote(y_view)


@settings(deadline=None, max_examples=80)
@given(drawn=pools(), channels=st.integers(1, 70), scale=SCALES, include=st.booleans())
def test_mean_pool(
    runner: Any, pool_kernel: str, drawn: tuple, channels: int, scale: float, include: bool
) -> None:
    seed, w, sizes = drawn
    rng = np.random.default_rng(seed)
    x, zero = codes(rng, 2, *sizes, channels), int(rng.integers(0, 256))
    grid, bounds = grid_and_bounds(rng)
    y_scale = float(np.float32(rng.choice([1.0, 0.0390625, 0.0546875, rng.uniform(0.01, 2)])))
    affines = (np.float32(scale), zero), (y_scale, grid.zero)
    nchw = x.transpose(0, 3, 1, 2)
    want = numerics.avg_pool(nchw, w["kernel"], *affines, UINT8, count_include_pad=include, **rest_of(w))
    run = runner()
    x_view, y_view = run.input(x, halo=(1, 0, 0, 2)), run.output(want.transpose(0, 2, 3, 1).shape)
    from_x, kernels = (zero, float(np.float32(scale))), kernels_of(pool=pool_kernel)
    mean = pool.mean_pool(
        x_view, y_view, window_of(w), from_x, y_scale, grid, include_pads=include, kernels=kernels
    )
    y = run.run(mean)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), np.clip(want, *bounds))
    assert run.only_wrote(y_view)


def rest_of(w: dict) -> dict:
    return {name: value for name, value in w.items() if name != "kernel"}


@pytest.mark.parametrize("channels", [1, 16, 100, 2048])
@pytest.mark.parametrize("size", [7, 40], ids=["7x7", "40x40"])
def test_global_mean_sums_exactly(runner: Any, pool_kernel: str, channels: int, size: int) -> None:
    x = np.full((1, size, size, channels), 255, np.uint8)
    x[0, 0, 0] = np.arange(channels) % 256
    affines = (np.float32(0.1), 200), (np.float32(0.09), 3)
    want = numerics.avg_pool(x.transpose(0, 3, 1, 2), size, *affines, UINT8)
    run = runner()
    x_view, y_view = run.input(x), run.output((1, 1, 1, channels))
    from_x, scale = (200, float(np.float32(0.1))), float(np.float32(0.09))
    window, kernels = PixelWindow((size, size)), kernels_of(pool=pool_kernel)
    y = run.run(pool.mean_pool(x_view, y_view, window, from_x, scale, Bytes(3), kernels=kernels))
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)


@st.composite
def filters(draw: st.DrawFn) -> tuple[int, dict[str, object], tuple[int, int]]:
    kernel = draw(st.sampled_from([(3, 3), (3, 3), (5, 5), (1, 1), (3, 1), (2, 3), (1, 7), (4, 4)]))
    seed, w, sizes = draw(pools())
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, w["dilation"], strict=True)]
    sizes = tuple(max(s, e) for s, e in zip(sizes, reach, strict=True))
    stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3)]))
    return (
        seed,
        {"kernel": kernel, "stride": stride, "dilation": w["dilation"], "padding": w["padding"]},
        sizes,
    )


@settings(deadline=None, max_examples=120)
@given(
    filters=filters(),
    channels=st.integers(1, 150),
    residual=st.booleans(),
    real=st.booleans(),
    high=st.sampled_from([127, 255]),
)
def test_depthwise(
    runner: Any, depthwise_kernel: str, filters: tuple, channels: int, residual: bool, real: bool, high: int
) -> None:
    seed, w, sizes = filters
    rng = np.random.default_rng(seed)
    x, zero = codes(rng, 2, *sizes, channels, high=high), int(rng.integers(0, high + 1))
    weight = rng.integers(-128, 128, (channels, 1, *w["kernel"])).astype(np.int8)
    multiplier = (rng.standard_normal(channels) * 2**-8).astype(np.float32)
    bias = (rng.standard_normal(channels) * 10).astype(np.float32)
    acc = numerics.conv(
        x.transpose(0, 3, 1, 2),
        weight,
        zero,
        stride=w["stride"],
        padding=w["padding"],
        dilation=w["dilation"],
        groups=channels,
    )
    branch, grid, bounds = codes(rng, *acc.transpose(0, 2, 3, 1).shape), *grid_and_bounds(rng)
    scale = float(np.float32(rng.choice([0.75, 1.375, rng.uniform(0.3, 3)])))
    run = runner()
    (top, bottom), (left, right) = w["padding"]
    halo = (top, left, bottom, right)
    x_view = run.input(x, halo=halo, fill=zero, slack=64, holds=(0, high))
    y_view = run.output(branch.shape, np.float32 if real else np.uint8, gap=seed % 2)
    r_view = run.input(branch, gap=seed % 3, slack=64)
    epilogue = BoundEpilogue(
        multiplier,
        bias,
        (-zero * weight.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32),
        None if real else grid,
        -5.0,
        7.5,
        r_view if residual else None,
        0.37,
        100,
        scale=scale,
        divides=residual and not real,
    )
    window, kernels = window_of(w), kernels_of(depthwise=depthwise_kernel)
    taps = np.ascontiguousarray(weight[:, 0].transpose(1, 2, 0))
    y = run.run(depthwise.depthwise(x_view, y_view, taps, window, epilogue, kernels))
    steps = numerics.to_real(acc, multiplier, bias)
    if residual:
        steps = steps + (branch.astype(np.float32) - 100).transpose(0, 3, 1, 2) * np.float32(0.37)
        steps = steps if real else steps / np.float32(scale)
    want = np.clip(steps, -5.0, 7.5) if real else numerics.to_codes(steps, grid.zero, UINT8, bounds)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("multiplier", [2.0**60, -(2.0**60), 2.0**-3])
@pytest.mark.parametrize("weight", [127, -128])
@pytest.mark.parametrize("high", [127, 255])
def test_depthwise_saturates_and_takes_extreme_weights(
    runner: Any, depthwise_kernel: str, multiplier: float, weight: int, high: int
) -> None:
    x = np.full((1, 6, 6, 40), high, np.uint8)
    taps = np.full((3, 3, 40), weight, np.int8)
    run = runner(2)
    x_view, y_view = run.input(x, slack=64, holds=(0, high)), run.output((1, 4, 4, 40))
    per_channel = np.ones(40, np.float32)
    epilogue = BoundEpilogue(
        per_channel * np.float32(multiplier), per_channel, np.zeros(40, np.int32), Bytes(100, 3, 250)
    )
    kernels = kernels_of(depthwise=depthwise_kernel)
    y = run.run(depthwise.depthwise(x_view, y_view, taps, PixelWindow((3, 3)), epilogue, kernels))
    assert (y == (250 if (multiplier > 0) == (weight > 0) else 3)).all()


@pytest.mark.parametrize("real", [False, True], ids=["codes", "float_steps"])
@pytest.mark.parametrize("channels", [5, 64, 200])
@pytest.mark.parametrize("function", ["silu", "hard_swish", ""], ids=["silu", "hard_swish", "slopes"])
@pytest.mark.parametrize("numbers", ["none", "one", "each"])
@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize("gained", [False, True], ids=["", "gained"])
def test_depthwise_through_a_function(
    runner: Any, depthwise_kernel: str, function: str, channels: int, real: bool, numbers: str, gap: int,
    gained: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(channels)
    x, branch = codes(rng, 2, 9, 130, channels), codes(rng, 2, 9, 130, channels)
    weight = rng.integers(-128, 128, (channels, 1, 3, 3)).astype(np.int8)
    multiplier = (rng.standard_normal(channels) * 2**-14).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    acc = numerics.conv(x.transpose(0, 3, 1, 2), weight, 77, padding=1, groups=channels)
    run = runner(2)
    x_view = run.input(x, halo=(1, 1, 1, 1), fill=77, slack=64)
    y_view = run.output(x.shape, np.float32 if real else np.uint8, gap=gap)
    r_view = run.input(branch, slack=64)
    correction = (-77 * weight.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32)
    grid, scale = Bytes(100, 3, 240), float(np.float32(0.02))
    slopes = rng.uniform(-1, 2, channels).astype(np.float32)
    drawn = rng.uniform(-1, 2, (2, 1 if numbers == "one" else channels)).astype(np.float32)
    factors, offsets = np.broadcast_to(drawn, (2, channels))
    behind = bool(function) and numbers != "none"
    gains, shifts = rng.uniform(-1, 2, (2, channels)).astype(np.float32)
    epilogue = BoundEpilogue(
        multiplier,
        bias,
        correction,
        None if real else grid,
        residual=r_view,
        residual_multiplier=0.01,
        residual_zero=9,
        function=function,
        scale=scale,
        slopes=None if function else slopes,
        factors=factors if behind else None,
        offsets=offsets if behind else None,
        divides=not function and not real,
        gains=gains if gained else None,
        shifts=shifts if gained else None,
    )
    taps, window = weight[:, 0].transpose(1, 2, 0), PixelWindow((3, 3), pads=(1, 1, 1, 1))
    kernels = kernels_of(depthwise=depthwise_kernel)
    y = run.run(depthwise.depthwise(x_view, y_view, taps, window, epilogue, kernels=kernels))
    added = (branch.astype(np.float32) - 9).transpose(0, 3, 1, 2) * np.float32(0.01)
    want = numerics.to_real(acc, multiplier, bias, gain=numerics.Gain(gains, shifts) if gained else None)
    want = want + added
    want = (
        numerics.FUNCTIONS[function](want) if function else numerics.apply_slope(want, slopes[:, None, None])
    )
    if behind:
        want = want * factors[:, None, None] + offsets[:, None, None]
    if not real:
        want = np.clip(numerics.quantize(want, scale, grid.zero, UINT8), grid.low, grid.high)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)
