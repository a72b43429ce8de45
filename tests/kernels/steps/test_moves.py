"""Copies, gathers and fills put each element where they should, and touch nothing else."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact.kernels import moves
from intact.kernels.registry import chosen_kernels

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
    y = run.run(moves.copy(x_view, y_view, {**chosen_kernels(), "transpose": transpose_kernel}))
    np.testing.assert_array_equal(y, x)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17])
@pytest.mark.parametrize("hops", [(2, 1), (3, 1), (1, 2), (2, 2), (-1, 1)])
def test_copy_of_every_other_short_row(runner: Any, dtype: type, count: int, hops: tuple[int, int]) -> None:
    """A part of x, as slices cut it, becomes a part of y, as a concatenation has it."""
    rows, hop = hops
    x = np.random.default_rng(count).integers(0, 256, (3, 601, 2 * count)).astype(dtype)
    taken = x[:, ::rows, ::hop][:, :, :count]
    run = runner(2)
    x_view = run.input(x)
    strides = (x_view.strides[0], rows * x_view.strides[1], hop * x_view.strides[2])
    first = 600 * x_view.strides[1] if rows < 0 else 0
    y_view = run.output((*taken.shape[:2], 3 * count), dtype)
    part = y_view.part(y_view.offset + count * y_view.itemsize, taken.shape, y_view.strides)
    y = run.run(moves.copy(x_view.part(x_view.offset + first, taken.shape, strides), part))
    np.testing.assert_array_equal(y[:, :, count : 2 * count], taken)
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
    y = run.run(moves.copy(x_view, y_view, {**chosen_kernels(), "transpose": transpose_kernel}))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_gather_reads_where_the_indices_say(runner: Any, order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = codes(rng, 4, 5, 6)
    indices = [rng.integers(0, n, m).tolist() for n, m in zip(x.shape, (3, 7, 9), strict=True)]
    run = runner(2)
    x_view, y_view = run.input(x, order), run.output((3, 7, 9), gap=1)
    np.testing.assert_array_equal(run.run(moves.resize(x_view, y_view, indices)), x[np.ix_(*indices)])
    assert run.only_wrote(y_view)


def test_gather_copies_runs(runner: Any) -> None:
    x = codes(np.random.default_rng(0), 2, 3, 4, 80)
    indices = [[0, 1], [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2, 3, 3], list(range(80))]
    run = runner()
    x_view, y_view = run.input(x), run.output((2, 6, 8, 80), halo=(1, 1, 1, 1))
    want = x.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_array_equal(run.run(moves.resize(x_view, y_view, indices)), want)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64])
def test_gather_of_runs_and_of_single_columns(runner: Any, dtype: type) -> None:
    """Reflected rims, runs of two, equal neighbours, rows cut for threads; x dense, and not."""
    columns = [*range(40, 0, -1), *range(20000), *range(19998, 19900, -1), 7, 8, 3, 3, 4, 19999]
    x = np.arange(40000).reshape(2, 20000).astype(dtype)
    for gap in (0, 3):
        run = runner(2)
        x_view, y_view = run.input(x, gap=gap), run.output((3, len(columns)), dtype, gap=gap)
        got = run.run(moves.resize(x_view, y_view, [[1, 0, 1], columns]))
        np.testing.assert_array_equal(got, x[np.ix_([1, 0, 1], columns)])
        assert run.only_wrote(y_view)


@pytest.mark.parametrize("columns", range(1, 20))
def test_copy_of_narrow_rows(runner: Any, columns: int) -> None:
    x = codes(np.random.default_rng(0), 50, columns)
    run = runner()
    x_view, y_view = run.input(x, gap=2), run.output(x.shape, gap=1)
    np.testing.assert_array_equal(run.run(moves.copy(x_view, y_view)), x)
    assert run.only_wrote(y_view)


def test_fill_and_halo(runner: Any) -> None:
    run = runner()
    y_view = run.output((2, 3, 4, 5), halo=(1, 2, 0, 1))
    y = run.run(moves.fill(y_view, 7), moves.halo(y_view, 9))
    assert (y == 7).all()
    image = run.buffer.reshape(2, 4, 7, 5)
    image[:, 1:, 2:6] = 9
    assert (image == 9).all()
