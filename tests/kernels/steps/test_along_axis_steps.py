"""Steps along an axis equal the reference, whatever the axis, wherever tensors lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.kernels.registry import chosen_kernels
from intact.numerics.arg_max import ORDER_DTYPES, arg_max
from intact.numerics.cum_sum import CUM_SUM_DTYPES, cum_sum
from intact.numerics.fold import FOLD_DTYPES, fold
from intact.numerics.interpolate import interpolate

SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


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


@pytest.mark.parametrize("shape", [*SHAPES, (2, 700), (700, 2)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("dtype", "function"), [(d, f) for d, known in FOLD_DTYPES.items() for f in known])
def test_folds(runner: Any, dtype: str, function: str, shape: tuple[int, ...], turned: bool) -> None:
    x = numbers(dtype, shape) - np.array(2, dtype)
    x *= np.array(1 if dtype == "float32" else 2**29, dtype)  # so that sums and products wrap around
    for axis in range(len(shape)):
        want, run = fold(x, axis, function), runner(2)
        y = run.output(want.shape, np.dtype(dtype).type, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        np.testing.assert_array_equal(run.run(moves.fold(view, y, axis, function)), want, strict=True)
        assert run.only_wrote(y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 4])
def test_values_between_elements(runner: Any, terms: int, shape: tuple[int, ...], turned: bool) -> None:
    rng = np.random.default_rng(terms)
    x = rng.standard_normal(shape).astype(np.float32)
    for axis, size in enumerate(shape):
        places = rng.integers(0, max(size, 1), (5 if size else 0, terms))
        weights = rng.standard_normal(places.shape).astype(np.float32)
        want = interpolate(x, axis, places, weights)
        run = runner(2)
        y = run.output(want.shape, np.float32, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        got = run.run(moves.interpolate(view, y, axis, places, weights))
        np.testing.assert_array_equal(got, want, strict=True)
        assert run.only_wrote(y)


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
    x, kernels = numbers(dtype, shape), {**chosen_kernels(), "transpose": transpose_kernel}
    for axis in range(len(shape)):
        want = arg_max(x, axis, smallest, last)
        run = runner(2)
        y = run.output(want.shape, np.int64, gap=0 if turned else 1)
        view = run.input(x, order=tuple(range(len(shape)))[::-1] if turned else None)
        np.testing.assert_array_equal(
            run.run(moves.arg_max(view, y, axis, smallest=smallest, last=last, kernels=kernels)), want
        )
        assert run.only_wrote(y)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "int64"])
@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize("turned", [False, True])
def test_elements_by_index(runner: Any, dtype: str, wide: str, turned: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (5, 9, 4)).astype(dtype)
    for axis in range(3):
        shape = tuple(7 if a == axis else n - 1 for a, n in enumerate(x.shape))
        index = rng.integers(-x.shape[axis], x.shape[axis], shape).astype(wide)
        within = tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(shape))
        run = runner(2)
        y = run.output(shape, np.dtype(dtype).type, gap=1)
        order = (2, 1, 0) if turned else None
        got = run.run(moves.gather_elements(run.input(x, order=order), run.input(index), y, axis))
        np.testing.assert_array_equal(got, np.take_along_axis(x[within], index.astype(np.int64), axis))
        assert run.only_wrote(y)


def test_an_index_out_of_range_fails(runner: Any) -> None:
    x, index = np.arange(6, dtype=np.int32), np.array([5, -6, 6, -7, 2**62, -(2**63)])
    run = runner()
    with pytest.raises(IndexError, match="gather_elements"):
        run.run(moves.gather_elements(run.input(x), run.input(index), run.output((6,), np.int32), 0))
    assert run.result(0).tolist() == [5, 0, 0, 0, 0, 0]


def view(block: int, dtype: str, *shape: int) -> View:
    itemsize = np.dtype(dtype).itemsize
    strides = [int(np.prod(shape[i + 1 :])) * itemsize for i in range(len(shape))]
    return View(block, 0, dtype, shape, strides)


def between(dtype: str, places: Any) -> Any:
    """One element of what lies between three."""
    weights = np.ones(np.shape(places), np.float32)
    return moves.interpolate(view(1, dtype, 3), view(2, dtype, 1), 0, np.asarray(places), weights)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: between("int32", [[0]]), "are float32"),
        (lambda: between("float32", [[0], [1]]), "as many places"),
        (lambda: between("float32", [[3]]), "out of range"),
        (lambda: between("float32", [[-1]]), "out of range"),
        (lambda: between("float32", np.zeros((1, 0), np.int64)), "as many places"),
        (lambda: moves.fold(view(1, "int32", 3), view(2, "int64", 1), 0, "sum"), "one type"),
        (lambda: moves.fold(view(1, "int32", 3), view(2, "int32", 3), 0, "sum"), "becomes one number"),
        (lambda: moves.fold(view(1, "int32", 3), view(2, "int32", 1), 0, "mean"), "no such fold"),
        (lambda: moves.fold(view(1, "float32", 3), view(2, "float32", 1), 0, "sum"), "folds are of"),
        (lambda: moves.cum_sum(view(1, "int32", 3), view(2, "int64", 3), 0), "one type"),
        (lambda: moves.cum_sum(view(1, "uint8", 3), view(2, "uint8", 3), 0), "float32, int32 or int64"),
        (lambda: moves.cum_sum(view(1, "int32", 3), view(2, "int32", 3), 1), "no such axis"),
        (lambda: moves.cum_sum(view(1, "int32", 3), view(2, "int32", 4), 0), "differ in their sizes"),
        (lambda: moves.arg_max(view(1, "int32", 3), view(2, "int32", 1), 0), "places are int64"),
        (lambda: moves.arg_max(view(1, "int32", 3), view(2, "int64", 3), 0), "places are int64"),
        (lambda: moves.arg_max(view(1, "int32", 0), view(2, "int64", 1), 0), "a line is empty"),
        (lambda: moves.arg_max(view(1, "bool", 3), view(2, "int64", 1), 0), "elements are"),
        (
            lambda: moves.gather_elements(view(1, "int32", 3), view(2, "int32", 4), view(3, "int32", 5), 0),
            "differ in their sizes",
        ),
        (
            lambda: moves.gather_elements(
                view(1, "int32", 3, 2), view(2, "int32", 4, 3), view(3, "int32", 4, 3), 0
            ),
            "y is larger than x",
        ),
        (
            lambda: moves.gather_elements(view(1, "int32", 3), view(2, "float32", 4), view(3, "int32", 4), 0),
            "indices are",
        ),
        (
            lambda: moves.gather_elements(view(1, "int32", 3), view(2, "int32", 4), view(3, "float32", 4), 0),
            "one type",
        ),
        (
            lambda: moves.gather_elements(view(1, "int32", 0), view(2, "int32", 4), view(3, "int32", 4), 0),
            "nothing along the axis",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
