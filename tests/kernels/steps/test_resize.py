"""Native nearest resizing: copies by lists of indices."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from intact.kernels import moves


def codes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


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
