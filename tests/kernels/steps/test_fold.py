"""Native folds against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.numerics.fold import FOLD_DTYPES, fold

SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


@pytest.mark.rule("N60")
@pytest.mark.parametrize("shape", [*SHAPES, (2, 700), (700, 2)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("dtype", "function"), [(d, f) for d, functions in FOLD_DTYPES.items() for f in functions]
)
def test_folds(runner: Any, dtype: str, function: str, shape: tuple[int, ...], turned: bool) -> None:
    x = numbers(dtype, shape) - np.array(2, dtype)
    x *= np.array(1 if dtype == "float32" else 2**29, dtype)  # so that sums and products wrap around
    for axis in range(len(shape)):
        want, run = fold(x, axis, function), runner(2)
        y = run.output(want.shape, np.dtype(dtype).type, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        np.testing.assert_array_equal(run.run(moves.fold(view, y, axis, function)), want, strict=True)
        assert run.only_wrote(y)


def view(block: int, dtype: str, *shape: int) -> View:
    itemsize = np.dtype(dtype).itemsize
    strides = [int(np.prod(shape[i + 1 :])) * itemsize for i in range(len(shape))]
    return View(block, 0, dtype, shape, strides)
