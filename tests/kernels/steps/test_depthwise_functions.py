"""Codes of a function behind a depthwise convolution: most by bounds, the others by the function itself."""

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


@pytest.mark.parametrize("channels", [16, 24, 64, 152])
@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("function", ["silu", "hard_swish", "gelu"])
@pytest.mark.parametrize("factor", [0.0, 0.75])
def test_codes_of_functions(
    runner: Any, depthwise_kernel: str, channels: int, kernel: int, stride: int, function: str, factor: float
) -> None:
    """Blocks of 16, 32 and 64 lanes, whole and not; reals from far below 0 to beyond the grid's end."""
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (1, 9, 83, channels)).astype(np.uint8)
    weight = rng.integers(-128, 128, (channels, 1, kernel, kernel)).astype(np.int8)
    multiplier = (rng.uniform(0.5, 1.5, channels) * 2**-13 / kernel).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    pad, grid = kernel // 2, Bytes(11, 3, 250)
    acc = numerics.conv(x.transpose(0, 3, 1, 2), weight, 77, stride=stride, padding=pad, groups=channels)
    want = numerics.FUNCTIONS[function](numerics.to_real(acc, multiplier, bias))
    same = np.full(channels, factor, np.float32)
    if factor:
        want = want * same[:, None, None] + same[:, None, None]
    want = np.clip(numerics.quantize(want, np.float32(0.02), grid.zero, UINT8), grid.low, grid.high)

    run = runner(2)
    x_view = run.input(x, halo=(pad,) * 4, fill=77, slack=64)
    y_view = run.output(want.transpose(0, 2, 3, 1).shape)
    epilogue = BoundEpilogue(
        multiplier,
        bias,
        (-77 * weight.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32),
        grid,
        function=function,
        scale=float(np.float32(0.02)),
        factors=same if factor else None,
        offsets=same if factor else None,
    )
    window = PixelWindow((kernel, kernel), strides=(stride, stride), pads=(pad,) * 4)
    taps, kernels = weight[:, 0].transpose(1, 2, 0), {**kernels_in_use(), "depthwise": depthwise_kernel}
    y = run.run(depthwise.depthwise(x_view, y_view, taps, window, epilogue, kernels))
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), want)
    assert run.only_wrote(y_view)
