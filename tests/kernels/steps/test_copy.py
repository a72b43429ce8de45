"""Native copies and transposes in any order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact.kernels import moves
from intact.kernels.registry import kernels_in_use

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


def codes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def order_of(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    return tuple(rng.permutation(rank).tolist())


@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, shape=SIZES, dtype=st.sampled_from([np.uint8, np.float32, np.int64]))
def test_copy_in_any_order(
    runner: Any, transpose_kernel: str, seed: int, shape: tuple[int, ...], dtype: type
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, shape).astype(dtype)
    run = runner()
    x_view = run.input(x, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    y_view = run.output(shape, dtype, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    y = run.run(moves.copy(x_view, y_view, {**kernels_in_use(), "transpose": transpose_kernel}))
    np.testing.assert_array_equal(y, x)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17])
@pytest.mark.parametrize("hops", [(2, 1), (3, 1), (1, 2), (2, 2), (-1, 1)])
def test_copy_of_every_other_short_row(runner: Any, dtype: type, count: int, hops: tuple[int, int]) -> None:
    """A part of x, as slices cut it, becomes a part of y, as a concatenation has it."""
    rows, hop = hops
    x = np.random.default_rng(count).integers(0, 256, (3, 601, 2 * count)).astype(dtype)
    patches = x[:, ::rows, ::hop][:, :, :count]
    run = runner(2)
    x_view = run.input(x)
    strides = (x_view.strides[0], rows * x_view.strides[1], hop * x_view.strides[2])
    first = 600 * x_view.strides[1] if rows < 0 else 0
    y_view = run.output((*patches.shape[:2], 3 * count), dtype)
    part = y_view.part(y_view.offset + count * y_view.itemsize, patches.shape, y_view.strides)
    y = run.run(moves.copy(x_view.part(x_view.offset + first, patches.shape, strides), part))
    np.testing.assert_array_equal(y[:, :, count : 2 * count], patches)
    assert run.only_wrote(part)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32], ids=["bytes", "words"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 15, 16, 17, 64, 200])
@pytest.mark.parametrize("columns", [1, 3, 15, 16, 17, 33, 64, 300])
def test_transpose_of_any_size(
    runner: Any, transpose_kernel: str, dtype: type, rows: int, columns: int
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (rows, columns)).astype(dtype)
    run = runner(2)
    x_view, y_view = run.input(x), run.output((rows, columns), dtype, (1, 0))
    y = run.run(moves.copy(x_view, y_view, {**kernels_in_use(), "transpose": transpose_kernel}))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("columns", range(1, 20))
def test_copy_of_narrow_rows(runner: Any, columns: int) -> None:
    x = codes(np.random.default_rng(0), 50, columns)
    run = runner()
    x_view, y_view = run.input(x, gap=2), run.output(x.shape, gap=1)
    np.testing.assert_array_equal(run.run(moves.copy(x_view, y_view)), x)
    assert run.only_wrote(y_view)
