"""Native arg max against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.numerics.arg_max import ORDER_DTYPES, arg_max

SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


@pytest.mark.rule("N54")
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize(("smallest", "last"), [(False, False), (True, False), (False, True), (True, True)])
def test_places_of_the_largest(
    runner: Any,
    transpose_kernel: str,
    dtype: str,
    shape: tuple[int, ...],
    turned: bool,
    smallest: bool,
    last: bool,
) -> None:
    x, kernels = numbers(dtype, shape), {**kernels_in_use(), "transpose": transpose_kernel}
    for axis in range(len(shape)):
        want = arg_max(x, axis, smallest, last)
        run = runner(2)
        y = run.output(want.shape, np.int64, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        np.testing.assert_array_equal(
            run.run(moves.arg_max(view, y, axis, smallest=smallest, last=last, kernels=kernels)), want
        )
        assert run.only_wrote(y)


def view(block: int, dtype: str, *shape: int) -> View:
    itemsize = np.dtype(dtype).itemsize
    strides = [int(np.prod(shape[i + 1 :])) * itemsize for i in range(len(shape))]
    return View(block, 0, dtype, shape, strides)
