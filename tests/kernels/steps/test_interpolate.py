"""Native weighted sums along an axis against numerics, and what steps along an axis refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.numerics.interpolate import interpolate

SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


@pytest.mark.rule("N57")
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
        (lambda: between("float32", [[0], [1]]), "places and weights"),
        (lambda: between("float32", [[3]]), "out of range"),
        (lambda: between("float32", [[-1]]), "out of range"),
        (lambda: between("float32", np.zeros((1, 0), np.int64)), "places and weights"),
        (lambda: moves.fold(view(1, "int32", 3), view(2, "int64", 1), 0, "sum"), "one type"),
        (lambda: moves.fold(view(1, "int32", 3), view(2, "int32", 3), 0, "sum"), "size 1"),
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
