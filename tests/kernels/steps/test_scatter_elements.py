"""Native scattered elements against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.numerics.scatter_elements import SCATTER_REDUCTIONS, scatter_elements


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


def reversed_axes(shape: tuple[int, ...], turned: bool) -> tuple[int, ...] | None:
    return tuple(range(len(shape)))[::-1] if turned else None


@pytest.mark.rule("N58")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [*((d, r) for d in ("float32", "int32", "int64") for r in SCATTER_REDUCTIONS),
     *((d, "none") for d in ("uint8", "float16", "bool", "float64"))],
)  # fmt: skip
def test_scattered_elements(runner: Any, dtype: str, reduction: str, wide: str, turned: bool) -> None:
    for shape, update_shapes in [
        ((7,), (30,)),
        ((3, 300), (2, 900)),
        ((2, 5, 4, 3), (2, 5, 1, 3)),
        ((3, 2), (0, 2)),
    ]:
        axis = int(np.argmax(np.array(update_shapes) >= shape))
        x, updates = numbers(dtype, shape), numbers(dtype, update_shapes, 1)
        index = np.random.default_rng(2).integers(-shape[axis], shape[axis], update_shapes).astype(wide)
        run = runner(2)
        y = run.output(shape, np.dtype(dtype).type, order=reversed_axes(shape, turned))
        views = [run.input(a, order=reversed_axes(update_shapes, turned)) for a in (index, updates)]
        there = moves.copy(run.input(x), y)
        got = run.run(there, moves.scatter_elements(*views, y, axis, reduction=reduction))
        np.testing.assert_array_equal(got, scatter_elements(x, index, updates, axis, reduction), strict=True)
