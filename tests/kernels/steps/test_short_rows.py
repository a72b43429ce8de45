"""Short rows take about as long as the same elements in long ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intact.kernels import float_steps, moves
from intact.kernels.float_steps import Real
from intact.kernels.program import NativeStep, View

ELEMENTS = 1 << 16


def seconds(runner: Any, make: Callable[[View, View], NativeStep], rows: int, made: Any) -> float:
    """Of the fastest of some runs over rows that hold all elements together."""
    run, n = runner(1), ELEMENTS // rows
    x = run.input(np.random.default_rng(0).standard_normal((rows, n)).astype(np.float32))
    y = run.output((rows, n) if made is None else (rows, 1), made or np.float32)
    run.run(make(x, y))
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
