"""Short rows, and pictures that lie in two orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.steps.test_float_steps import UINT8, Case, SameBits, some_values, spread

from intact import numerics
from intact.kernels import float_steps
from intact.kernels.float_steps import Real
from intact.numerics.floats.reduce import REDUCTIONS


@pytest.mark.parametrize("channels", [1, 3, 16, 24, 300])
@pytest.mark.parametrize("planes", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("other", ["image", "channel", "pixel"])
def test_planes_and_pixels(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    channels: int,
    planes: tuple[bool, bool],
    other: str,
) -> None:
    """One picture lies plane by plane, another pixel by pixel, and so does what comes of them."""
    case, shape = Case(runner, channels, float_steps_kernel), (2, channels, 9, 37)
    orders = [(0, 1, 2, 3) if plane else (0, 2, 3, 1) for plane in (*planes, not planes[0])]
    small = {"image": shape, "channel": (1, channels, 1, 1), "pixel": (2, 1, 9, 37)}[other]
    a, b = (case.rng.standard_normal(n).astype(np.float32) for n in (shape, small))
    codes = case.rng.integers(0, 256, shape).astype(np.uint8)
    views = [Real(case.runner.input(n, order)) for n, order in zip((a, b), orders, strict=False)]
    y = Real(case.runner.output(shape, np.float32, orders[2]))
    step = float_steps.binary(views[0], spread(views[1], shape), y, "sub", case.kernels)
    case.check(step, y, a - b, assert_same_bits)
    again = Case(runner, channels, float_steps_kernel)
    x = Real(again.runner.input(codes, orders[0]), 0.05, 7)
    y = Real(again.runner.output(shape, np.uint8, orders[2]), 0.02, 100, 3, 250)
    real = numerics.dequantize(codes, np.float32(0.05), 7, UINT8)
    again.check(float_steps.clip(x, y, -2, 2.5, again.kernels), y, real.clip(-2, 2.5), assert_same_bits)


@pytest.mark.parametrize("n", [1, 5, 16, 21, 64])
@pytest.mark.parametrize("function", sorted(REDUCTIONS))
def test_reduce_of_rows_with_anything(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, function: str, n: int
) -> None:
    case = Case(runner, n, float_steps_kernel)
    x = np.stack([some_values(case.rng, n) for _ in range(50)])
    x[7], x[8] = -0.0, np.nan
    y = Real(case.runner.output((50,), np.float32))
    step = float_steps.reduce(Real(case.runner.input(x)), y, function, case.kernels)
    case.check(step, y, REDUCTIONS[function](x, (1,), False), assert_same_bits)
