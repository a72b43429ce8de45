"""Depthwise convolutions of so few channels that a block of lanes holds several pixels, against numerics."""

from typing import Any

import numpy as np
import pytest

from intact import numerics
from intact.kernels import depthwise
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.registry import kernels_in_use
from intact.kernels.window import PixelWindow
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)


DIVIDED = ("slopes", "residual")


def apply_epilogue(
    real: np.ndarray, ending: str, grid: Bytes, factors: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Apply an epilogue to real sums, by numerics."""
    curve = ending in ("curve", "factors")
    if curve:
        real = numerics.FUNCTIONS["hard_swish"](real)
    if ending == "factors":
        real = real * factors[:, None, None] + offsets[:, None, None]
    if ending == "slopes":
        real = numerics.apply_slope(real, factors[:, None, None])
    if ending == "floats":
        return real
    scale = np.float32(0.02 if curve else 0.75 if ending in DIVIDED else 1.0)
    return np.clip(numerics.quantize(real, scale, grid.zero, UINT8), grid.low, grid.high)


@pytest.mark.parametrize("ending", ["codes", "floats", "curve", "factors", "slopes"])
@pytest.mark.parametrize("channels", [1, 3, 16, 24, 48])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("width", [4, 21, 64])
def test_depthwise_of_few_channels(
    runner: Any, depthwise_kernel: str, channels: int, kernel: int, width: int, ending: str
) -> None:
    """Neighbouring pixels are worked on together, where there is no residual and bytes lie side by side."""
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (2, 5, width, channels)).astype(np.uint8)
    weight = rng.integers(-128, 128, (channels, 1, kernel, kernel)).astype(np.int8)
    multiplier = (rng.standard_normal(channels) * 2**-12).astype(np.float32)
    bias, factors, offsets = rng.standard_normal((3, channels)).astype(np.float32)
    pad, grid = kernel // 2, Bytes(100, 3, 240)
    run = runner(2)
    x_view = run.input(x, halo=(pad,) * 4, fill=77, slack=64)
    y_view = run.output(x.shape, np.float32 if ending == "floats" else np.uint8)
    curve = ending in ("curve", "factors")
    epilogue = BoundEpilogue(
        multiplier if curve else multiplier * 20,
        bias,
        (-77 * weight.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32),
        None if ending == "floats" else grid,
        function="hard_swish" if curve else "",
        scale=0.02 if curve else 0.75,
        divides=ending in DIVIDED,
        factors=factors if ending == "factors" else None,
        offsets=offsets if ending == "factors" else None,
        slopes=factors if ending == "slopes" else None,
    )
    window = PixelWindow((kernel, kernel), pads=(pad,) * 4)
    taps, kernels = weight[:, 0].transpose(1, 2, 0), {**kernels_in_use(), "depthwise": depthwise_kernel}
    y = run.run(depthwise.depthwise(x_view, y_view, taps, window, epilogue, kernels))
    acc = numerics.conv(x.transpose(0, 3, 1, 2), weight, 77, padding=pad, groups=channels)
    want = numerics.to_real(acc, np.asarray(epilogue.multiplier), bias)
    want = apply_epilogue(want, ending, grid, factors, offsets)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("ending", ["codes", "floats", "curve", "factors", "slopes", "residual"])
@pytest.mark.parametrize("channels", [1, 3, 16, 24, 80, 144])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("most", [127, 255])
def test_depthwise_of_16_bits(
    runner: Any, depthwise_kernel: str, channels: int, kernel: int, stride: int, most: int, ending: str
) -> None:
    """Sums of high and of low bytes, joined; rims read the code of 0, codes and weights reach their ends, and
    bytes may end at 127."""
    rng = np.random.default_rng(channels)
    zero, pad, width = int(rng.choice([0, 32768, 65535, 300])) & 257 * most, kernel // 2, 21
    x = rng.choice(np.array([0, 255, 256, 65535, zero], np.uint16), (2, 5, width, channels))
    x = np.where(rng.random(x.shape) < 0.5, x, rng.integers(0, 65536, x.shape).astype(np.uint16))
    x &= 257 * most
    weight = rng.integers(-128, 128, (channels, 1, kernel, kernel)).astype(np.int8)
    weight[0] = -128
    multiplier = (rng.standard_normal(channels) * 2**-20).astype(np.float32)
    bias, factors, offsets = rng.standard_normal((3, channels)).astype(np.float32)
    grid = Bytes(100, 3, 240)
    run = runner(2)
    high, low = (
        run.input(
            (x >> shift & 255).astype(np.uint8), halo=(pad,) * 4, fill=zero >> shift & 255, slack=64,
            holds=(0, most),
        )
        for shift in (8, 0)
    )  # fmt: skip
    shape = (2, 4 // stride + 1, (width - 1) // stride + 1, channels)
    residual = rng.integers(0, 256, shape).astype(np.uint8) if ending == "residual" else None
    residual_view = None if residual is None else run.input(residual, slack=64)
    y_view = run.output(shape, np.float32 if ending == "floats" else np.uint8)
    curve = ending in ("curve", "factors")
    epilogue = BoundEpilogue(
        multiplier if curve else multiplier * 20,
        bias,
        (-zero * weight.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32),
        None if ending == "floats" else grid,
        function="hard_swish" if curve else "",
        scale=0.02 if curve else 0.75,
        divides=ending in DIVIDED,
        factors=factors if ending == "factors" else None,
        offsets=offsets if ending == "factors" else None,
        slopes=factors if ending == "slopes" else None,
        residual=residual_view,
        residual_multiplier=0.5,
        residual_zero=9,
    )
    window = PixelWindow((kernel, kernel), strides=(stride,) * 2, pads=(pad,) * 4)
    kernels = {**kernels_in_use(), "depthwise": depthwise_kernel}
    taps = weight[:, 0].transpose(1, 2, 0)
    y = run.run(depthwise.depthwise(high, y_view, taps, window, epilogue, kernels, low))
    acc = numerics.conv(x.transpose(0, 3, 1, 2), weight, zero, stride=stride, padding=pad, groups=channels)
    want = numerics.to_real(acc, np.asarray(epilogue.multiplier), bias)
    if residual is not None:
        branch = (residual.transpose(0, 3, 1, 2).astype(np.int32) - 9).astype(np.float32)
        want = want + branch * np.float32(0.5)
    want = apply_epilogue(want, ending, grid, factors, offsets)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)
