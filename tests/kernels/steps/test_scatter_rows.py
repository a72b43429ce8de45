"""Native scattered and gathered rows against numerics, and what steps by index refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.numerics.scatter_elements import SCATTER_REDUCTIONS
from intact.numerics.scatter_rows import row_numbers, scatter_rows


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


@pytest.mark.rule("N58")
@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize("width", [0, 1, 5, 700])
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("reduction", SCATTER_REDUCTIONS)
def test_rows_by_tuples(runner: Any, reduction: str, count: int, width: int, wide: str) -> None:
    rng, sizes = np.random.default_rng(0), (3, 4)
    x, updates = numbers("float32", (12, width)), numbers("float32", (count, width), 1)
    index = np.stack([rng.integers(-n, n, count) for n in sizes], axis=1).astype(wide)
    run = runner(2)
    y = run.output((12, width), np.float32)
    views = [run.input(a, order=order) for a, order in ((index, (1, 0)), (updates, None))]
    got = run.run(moves.copy(run.input(x), y), moves.scatter_rows(*views, y, sizes, reduction=reduction))
    np.testing.assert_array_equal(got, scatter_rows(x, index, updates, sizes, reduction), strict=True)
    for parts in (1, 2):
        if count % parts == 0:
            run = runner(2)
            y = run.output((count, width), np.float32)
            tables = np.concatenate([x] * parts)
            rows = row_numbers(index, sizes) + 12 * np.repeat(np.arange(parts), count // parts)
            got = run.run(moves.gather_rows(run.input(tables), run.input(index), y, sizes, parts))
            np.testing.assert_array_equal(got, tables[rows], strict=True)


def test_what_cannot_be_run_safely_is_refused(runner: Any) -> None:
    run = runner()
    x, long = run.input(np.zeros((2, 3), np.float32)), run.output((2, 4), np.float32)
    places, index = run.output((2, 4), np.int64), run.input(np.zeros((4, 2), np.int64))
    high = run.input(np.zeros((4, 2), np.float32))
    image = run.input(np.zeros((1, 1, 0, 3), np.float32))
    grid, output = run.input(np.zeros((1, 2, 2, 2), np.float32)), run.output((1, 1, 2, 2), np.float32)
    how: Any = {"nearest": True, "padding": "zeros", "align_corners": True}
    refused = {
        "there are not as many elements": lambda: moves.top_k(x, long, places, 1),
        "there is no such axis": lambda: moves.top_k(x, long, places, 2),
        "places are int64": lambda: moves.top_k(x, x, x, 1),
        "there is no such reduction": lambda: moves.scatter_elements(index, x, x, 0, reduction="sum"),
        "updates and y have one type": lambda: moves.scatter_elements(index, index, x, 0),
        "the index is larger than y": lambda: moves.scatter_elements(index, high, x, 1),
        "each number of a tuple has a size": lambda: moves.scatter_rows(index, x, x, (2,)),
        "a row for each tuple": lambda: moves.scatter_rows(index, x, x, (2, 1)),
        "rows for each part": lambda: moves.gather_rows(x, index, x, (2, 2), 1),
        "there is nothing to sample": lambda: moves.grid_sample(image, grid, output, **how),
    }
    for message, make in refused.items():
        with pytest.raises(ValueError, match=message):
            make()
