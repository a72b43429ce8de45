"""Native running sums against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.numerics.cum_sum import CUM_SUM_DTYPES, cum_sum

SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


@pytest.mark.rule("N54")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", CUM_SUM_DTYPES)
@pytest.mark.parametrize(
    ("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_running_sums(
    runner: Any, dtype: str, shape: tuple[int, ...], turned: bool, exclusive: bool, reverse: bool
) -> None:
    x = numbers(dtype, shape)
    for axis in range(len(shape)):
        run = runner(2)
        y = run.output(shape, np.dtype(dtype).type, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        got = run.run(moves.cum_sum(view, y, axis, exclusive=exclusive, reverse=reverse))
        np.testing.assert_array_equal(got, cum_sum(x, axis, exclusive, reverse))
        assert run.only_wrote(y)


def view(block: int, dtype: str, *shape: int) -> View:
    itemsize = np.dtype(dtype).itemsize
    strides = [int(np.prod(shape[i + 1 :])) * itemsize for i in range(len(shape))]
    return View(block, 0, dtype, shape, strides)
