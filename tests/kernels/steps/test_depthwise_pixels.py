"""Depthwise convolutions of so few channels that a block of lanes holds several pixels, against numerics."""

from typing import Any

import numpy as np
import pytest

from intact import numerics
from intact.kernels import depthwise
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.registry import chosen_kernels
from intact.kernels.window import PixelWindow
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)


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
        scale=0.02 if curve else 1.0,
        factors=factors if ending == "factors" else None,
        offsets=offsets if ending == "factors" else None,
        slopes=factors if ending == "slopes" else None,
    )
    window = PixelWindow((kernel, kernel), pads=(pad,) * 4)
    taps, kernels = weight[:, 0].transpose(1, 2, 0), {**chosen_kernels(), "depthwise": depthwise_kernel}
    y = run.run(depthwise.depthwise(x_view, y_view, taps, window, epilogue, kernels))
    acc = numerics.conv(x.transpose(0, 3, 1, 2), weight, 77, padding=pad, groups=channels)
    want = numerics.to_real(acc, np.asarray(epilogue.multiplier), bias)
    if curve:
        want = numerics.hard_swish(want)
    if ending == "factors":
        want = want * factors[:, None, None] + offsets[:, None, None]
    if ending == "slopes":
        want = numerics.sloped(want, factors[:, None, None])
    if ending != "floats":
        scale = np.float32(0.02 if curve else 1.0)
        want = np.clip(numerics.quantize(want, scale, grid.zero, UINT8), grid.low, grid.high)
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)
