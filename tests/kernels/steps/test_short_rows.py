"""Short rows, and pictures in two orders, take about as long as the same elements in long rows of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kernels.steps.test_float_steps import UINT8, Case, SameBits, some_values, spread

from intact import numerics
from intact.kernels import float_steps, moves
from intact.kernels.float_steps import Real
from intact.kernels.program import NativeStep, View
from intact.numerics.normalization import REDUCTIONS

ELEMENTS = 1 << 16


def seconds(runner: Any, make: Callable[[View, View], NativeStep], rows: int, made: Any) -> float:
    """Of the fastest of some runs over rows that hold all elements together."""
    run, n = runner(1), ELEMENTS // rows
    x = run.input(np.random.default_rng(0).standard_normal((rows, n)).astype(np.float32))
    y = run.output((rows, n) if made is None else (rows, 1), made or np.float32)
    return fastest(run, make(x, y))


def fastest(run: Any, step: NativeStep) -> float:
    run.run(step)
    times = []
    for _ in range(15):
        start = time.perf_counter()
        run.run()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(
    ("make", "made"),
    [
        (lambda x, y: float_steps.softmax(Real(x), Real(y)), None),
        (lambda x, y: float_steps.layer_norm(Real(x), Real(y), 1e-5), None),
        (lambda x, y: moves.arg_max(x, y, 1), np.int64),
    ],
    ids=["softmax", "layer_norm", "arg_max"],
)
def test_rows_of_four_do_not_wait_for_each_other(
    runner: Any, make: Callable[[View, View], NativeStep], made: Any
) -> None:
    short, long = (seconds(runner, make, rows, made) for rows in (ELEMENTS // 4, ELEMENTS // 512))
    assert short < 5 * long


def test_planes_and_pixels_are_added_as_pixels_alone(runner: Any) -> None:
    """What image enhancers end in: a graph's input of 3 planes, and a map that lies pixel by pixel."""
    times, shape = [], (1, 3, 128, 128)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    pixels = (0, 2, 3, 1)
    for order in ((0, 1, 2, 3), pixels):
        run = runner(1)
        a, b = Real(run.input(x, order)), Real(run.input(x, pixels))
        y = Real(run.output(shape, np.float32, pixels))
        times.append(fastest(run, float_steps.binary(a, b, y, "add")))
    assert times[0] < 4 * times[1]


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
