"""Elements and rows by index equal NumPy's, and stay within the tensor whatever the indices are."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("wide", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(7, 5), (7,), (300, 3, 9), (2, 700)], ids=str)
@pytest.mark.parametrize("index_shape", [(4, 6), (50,), (), (3, 0)], ids=str)
def test_pick(
    runner: Any, dtype: type, wide: type, shape: tuple[int, ...], index_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, shape).astype(dtype)
    index = np.asarray(rng.integers(-shape[0], shape[0], index_shape), wide)
    run = runner(2)
    y = run.output((*index_shape, *shape[1:]), dtype, gap=0)
    got = run.run(moves.gather(run.input(x), run.input(index, order=tuple(range(index.ndim))[::-1]), y))
    np.testing.assert_array_equal(got, x[index])
    assert run.only_wrote(y)


@pytest.mark.parametrize("wide", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("order", ["rows", "pixels", "turned"])
def test_pick_along_any_axis_however_they_lie(runner: Any, order: str, dtype: type, wide: type) -> None:
    """Elements, pairs of them and long rows; one index for all rows, and more than a piece of work has."""
    rng = np.random.default_rng(0)
    for shape, index_shape in [
        ((3, 5, 7), (4, 2)),
        ((2, 3, 4, 7), (6,)),
        ((2, 30, 2), (9000,)),
        ((4, 2), ()),
    ]:
        x = rng.integers(0, 100, shape).astype(dtype)
        for axis, size in enumerate(shape):
            index = np.asarray(rng.integers(-size, size, index_shape), wide)
            want = np.take(x, index, axis)
            run = runner(2)
            y = run.output(want.shape, dtype, order=axis_order(order, want.ndim))
            views = run.input(x, order=axis_order(order, x.ndim)), run.input(index)
            np.testing.assert_array_equal(run.run(moves.gather(*views, y, axis)), want, strict=True)
            assert run.only_wrote(y)


def axis_order(order: str, rank: int) -> tuple[int, ...] | None:
    if order == "pixels" and rank == 4:
        return (0, 2, 3, 1)
    return tuple(range(rank))[::-1] if order == "turned" else None


def test_an_index_out_of_range_fails_and_stays_within_the_rows(runner: Any) -> None:
    x, index = np.arange(12, dtype=np.uint8).reshape(4, 3), np.array([4, -5, 2**62, -(2**63), 3])
    run = runner()
    step = moves.gather(run.input(x), run.input(index), run.output((5, 3)))
    with pytest.raises(IndexError, match=r"step 0 \(gather\)"):
        run.run(step)
    np.testing.assert_array_equal(run.result(0), x[[0, 0, 0, 0, 3]])


@pytest.mark.parametrize(
    ("x", "index", "y", "message"),
    [
        (("uint8", (4, 3)), ("float32", (5,)), ("uint8", (5, 3)), "int32 or int64"),
        (("uint8", (4, 3)), ("int64", (5,)), ("float32", (5, 3)), "one type"),
        (("uint8", (4, 3)), ("int64", (5,)), ("uint8", (5,)), "axes of the index"),
        (("uint8", (4, 3)), ("int64", (5,)), ("uint8", (5, 4)), "rows differ"),
        (("uint8", (4, 3)), ("int64", (5,)), ("uint8", (6, 3)), "differ in their sizes"),
        (("uint8", (0, 3)), ("int64", (5,)), ("uint8", (5, 3)), "nothing along"),
    ],
    ids=["index", "dtype", "rank", "rows", "count", "empty"],
)
def test_pick_refuses(x: Any, index: Any, y: Any, message: str) -> None:
    views = []
    for block, (dtype, shape) in enumerate((x, index, y), 1):
        strides = [prod(shape[i + 1 :]) * np.dtype(dtype).itemsize for i in range(len(shape))]
        views.append(View(block, 0, dtype, shape, strides))
    with pytest.raises(ValueError, match=message):
        moves.gather(*views)
