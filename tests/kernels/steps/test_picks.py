"""The largest elements, scattered ones, rows by tuples and grids equal the reference, however they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.numerics.arg_max import ORDER_DTYPES
from intact.numerics.grid_sample import grid_sample
from intact.numerics.scatter_elements import REDUCTIONS, scatter_elements
from intact.numerics.scatter_rows import row_numbers, scatter_rows
from intact.numerics.top_k import top_k

SPECIAL = np.float32([0, -0.0, np.nan, np.inf, -np.inf])
SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


def turned_round(shape: tuple[int, ...], turned: bool) -> tuple[int, ...] | None:
    return tuple(range(len(shape)))[::-1] if turned else None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(runner: Any, dtype: str, shape: tuple[int, ...], turned: bool, largest: bool) -> None:
    x = numbers(dtype, shape)
    for axis, size in enumerate(shape):
        for k in {0, min(2, size), size}:
            want, where = top_k(x, k, axis, largest)
            run = runner(2)
            y = run.output(want.shape, np.dtype(dtype).type, gap=0 if turned else 1)
            places = run.output(want.shape, np.int64)
            view = run.input(x, order=turned_round(shape, turned))
            got = run.run(moves.top_k(view, y, places, axis, largest=largest))
            np.testing.assert_array_equal(got, want, strict=True)
            np.testing.assert_array_equal(run.result(1), where, strict=True)
            assert run.only_wrote(y)


@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["any order", "ascending", "descending", "equal", "few values"])
@pytest.mark.parametrize("k", [1, 16, 17, 256, 257, 1000, 3000])
def test_top_k_of_long_lines(runner: Any, dtype: str, largest: bool, kind: str, k: int) -> None:
    """Few, some, most and all of a line, each kept and sorted in another way."""
    rng, shape = np.random.default_rng(0), (2, 3000)
    ends = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype, (-(2**31), 2**31))
    x = rng.integers(*((0, 4) if kind == "few values" else ends), shape).astype(dtype)
    if dtype == "float32":
        x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), x)
    if kind == "equal":
        x = x[:, :1].repeat(shape[1], 1)
    elif kind.endswith("scending"):
        x = np.sort(x)[:, :: 1 if kind == "ascending" else -1]
    want, where = top_k(x, k, 1, largest)
    run = runner()
    y, places = run.output(want.shape, np.dtype(dtype).type), run.output(want.shape, np.int64)
    got = run.run(moves.top_k(run.input(x), y, places, 1, largest=largest))
    np.testing.assert_array_equal(got, want, strict=True)
    np.testing.assert_array_equal(run.result(1), where, strict=True)
    assert got.tobytes() == np.take_along_axis(x, where, 1).tobytes()  # the very bits


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [*((d, r) for d in ("float32", "int32", "int64") for r in REDUCTIONS),
     *((d, "none") for d in ("uint8", "float16", "bool", "float64"))],
)  # fmt: skip
def test_scattered_elements(runner: Any, dtype: str, reduction: str, wide: str, turned: bool) -> None:
    for shape, others in [
        ((7,), (30,)),
        ((3, 300), (2, 900)),
        ((2, 5, 4, 3), (2, 5, 1, 3)),
        ((3, 2), (0, 2)),
    ]:
        axis = int(np.argmax(np.array(others) >= shape))
        x, updates = numbers(dtype, shape), numbers(dtype, others, 1)
        index = np.random.default_rng(2).integers(-shape[axis], shape[axis], others).astype(wide)
        run = runner(2)
        y = run.output(shape, np.dtype(dtype).type, order=turned_round(shape, turned))
        views = [run.input(a, order=turned_round(others, turned)) for a in (index, updates)]
        there = moves.copy(run.input(x), y)
        got = run.run(there, moves.scatter_elements(*views, y, axis, reduction=reduction))
        np.testing.assert_array_equal(got, scatter_elements(x, index, updates, axis, reduction), strict=True)


@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize("width", [0, 1, 5, 700])
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("reduction", REDUCTIONS)
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


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("nearest", [False, True])
def test_images_at_places(runner: Any, nearest: bool, padding: str, align: bool, turned: bool) -> None:
    rng = np.random.default_rng(0)
    order = (0, 2, 3, 1) if turned else None
    for shape, places in [
        ((2, 3, 4, 5), (3, 150)),
        ((1, 9, 1, 7), (2, 3)),
        ((2, 2, 3, 3), (0, 4)),
        ((2, 0, 0, 3), (1, 1)),
    ]:
        x = rng.standard_normal(shape).astype(np.float32)
        x[rng.random(shape) < 0.05] = np.inf
        grid = rng.uniform(-3, 3, (shape[0], *places, 2)).astype(np.float32)
        grid[rng.random(grid.shape) < 0.1] = rng.choice(
            np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 1, -1])
        )
        run = runner(2)
        want = grid_sample(x, grid, nearest, padding, align)
        y = run.output(want.shape, np.float32, order=order)
        views = run.input(x, order=order), run.input(grid, order=(0, 3, 1, 2) if turned else None)
        got = run.run(moves.grid_sample(*views, y, nearest=nearest, padding=padding, align_corners=align))
        np.testing.assert_array_equal(got, want, strict=True)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


def test_what_cannot_be_run_safely_is_refused(runner: Any) -> None:
    run = runner()
    x, long = run.input(np.zeros((2, 3), np.float32)), run.output((2, 4), np.float32)
    places, index = run.output((2, 4), np.int64), run.input(np.zeros((4, 2), np.int64))
    high = run.input(np.zeros((4, 2), np.float32))
    image = run.input(np.zeros((1, 1, 0, 3), np.float32))
    grid, made = run.input(np.zeros((1, 2, 2, 2), np.float32)), run.output((1, 1, 2, 2), np.float32)
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
        "there is nothing to sample": lambda: moves.grid_sample(image, grid, made, **how),
    }
    for message, make in refused.items():
        with pytest.raises(ValueError, match=message):
            make()
