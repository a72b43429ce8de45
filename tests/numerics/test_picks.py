"""The largest elements, scattered ones and images at places, against loops over single elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact.numerics.arg_max import ORDER_DTYPES
from intact.numerics.grid_sample import grid_sample
from intact.numerics.scatter_elements import REDUCTIONS, scatter_elements
from intact.numerics.scatter_rows import row_numbers, scatter_rows
from intact.numerics.top_k import top_k

NAN, INF = math.nan, math.inf
F = np.float32


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_top_k_is_sorting_and_of_equal_elements_the_first(dtype, largest, axis):
    low = 0 if dtype == "uint8" else -4
    x = np.random.default_rng(0).integers(low, 5, (3, 7, 5)).astype(dtype)
    assert top_k(x, 0, axis, largest)[0].shape[axis] == 0
    for k in range(1, x.shape[axis] + 1):
        y, places = top_k(x, k, axis, largest)
        assert y.dtype == x.dtype and places.dtype == np.int64
        lines = (np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis]) for a in (x, y, places))
        for line, found, where in zip(*lines, strict=True):
            sign = -1 if largest else 1
            want = sorted(range(len(line)), key=lambda i, of=line, by=sign: (by * int(of[i]), i))[:k]
            assert where.tolist() == want and found.tolist() == line[want].tolist()


def test_what_is_no_number_comes_first_and_zeros_are_equal():
    x = np.array([1, NAN, -INF, INF, -0.0, 0.0, NAN], F)
    assert top_k(x, 7, 0)[1].tolist() == [1, 6, 3, 0, 4, 5, 2]
    assert top_k(x, 7, 0, largest=False)[1].tolist() == [1, 6, 2, 4, 5, 0, 3]


def test_the_ends_of_integers_are_ordered():
    x = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    assert top_k(x, 3, 0)[1].tolist() == [1, 2, 0]
    assert top_k(np.array([0, 255, 1], np.uint8), 3, 0)[0].tolist() == [255, 1, 0]


def _combined(reduction, there, update):
    if reduction == "none":
        return update
    return {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction](there, update)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scattered_elements_one_after_the_other(dtype, reduction, axis):
    rng = np.random.default_rng(axis)
    x = (rng.standard_normal((3, 4, 5)) * 3).astype(dtype)
    shape = [2, 3, 4]
    shape[axis] = 7
    index = rng.integers(-x.shape[axis], x.shape[axis], shape)
    updates = (rng.standard_normal(shape) * 3).astype(dtype)
    want = x.copy()
    for place in np.ndindex(*shape):
        at = list(place)
        at[axis] = index[place]
        want[tuple(at)] = _combined(reduction, want[tuple(at)], updates[place])
    np.testing.assert_array_equal(scatter_elements(x, index, updates, axis, reduction), want, strict=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_scattered_rows_one_after_the_other(dtype, reduction):
    rng = np.random.default_rng(0)
    x, updates = ((rng.standard_normal((n, 5)) * 3).astype(dtype) for n in (12, 30))
    index = np.stack([rng.integers(-3, 3, 30), rng.integers(-4, 4, 30)], axis=1)
    want = x.copy()
    for (i, j), update in zip(index, updates, strict=True):
        row = np.arange(12).reshape(3, 4)[i, j]
        want[row] = _combined(reduction, want[row], update)
    np.testing.assert_array_equal(scatter_rows(x, index, updates, (3, 4), reduction), want, strict=True)
    assert (
        row_numbers(index, (3, 4)).tolist() == np.arange(12).reshape(3, 4)[index[:, 0], index[:, 1]].tolist()
    )


def test_an_extreme_with_what_is_no_number_is_none():
    x, index = np.array([1, NAN, 2], F), np.arange(3)
    updates = np.array([NAN, 1, 5], F)
    np.testing.assert_array_equal(scatter_elements(x, index, updates, 0, "max"), F([NAN, NAN, 5]))
    np.testing.assert_array_equal(scatter_elements(x, index, updates, 0, "min"), F([NAN, NAN, 2]))


def _reflected(v, low, high):
    while not low <= v <= high:
        v = 2 * low - v if v < low else 2 * high - v
    return v


def _sampled(image, gx, gy, nearest, padding, align):
    """One place of one plane, in float64, from the words of ONNX's GridSample."""
    h, w = image.shape
    place = []
    for g, size in ((gx, w), (gy, h)):
        v = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
        v = float(np.rint(v)) if nearest else v
        low, high = (0, size - 1) if align else (-0.5, size - 0.5)
        if padding == "border":
            v = min(max(v, 0), size - 1)
        elif padding == "reflection":
            v = _reflected(v, low, high) if high > low else 0
        place.append(v)

    def pixel(r, c):
        if padding != "zeros":
            r, c = min(max(r, 0), h - 1), min(max(c, 0), w - 1)
        return float(image[r, c]) if 0 <= r < h and 0 <= c < w else 0.0

    x, y = place
    c, r = math.floor(x), math.floor(y)
    if nearest:
        return pixel(r, c)
    return sum(
        pixel(r + i, c + j) * (y - r if i else r + 1 - y) * (x - c if j else c + 1 - x)
        for i in (0, 1) for j in (0, 1)
    )  # fmt: skip


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("size", [(4, 5), (1, 3)], ids=str)
def test_images_at_places(size, nearest, padding, align):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, *size)).astype(F)
    grid = rng.uniform(-2.5, 2.5, (2, 6, 7, 2)).astype(F)
    grid[0, 0] = [[-1, -1], [1, 1], [-1, 1], [0, 0], [1.25, 0], [-1.25, -3], [3, 3]]
    y = grid_sample(x, grid, nearest, padding, align)
    assert y.shape == (2, 3, 6, 7) and y.dtype == F
    for n, c, i, j in np.ndindex(*y.shape):
        want = _sampled(x[n, c], *grid[n, i, j].astype(float), nearest, padding, align)
        assert y[n, c, i, j] == pytest.approx(want, abs=2e-6)


def test_places_that_are_no_numbers_lie_outside():
    x, grid = np.full((1, 1, 3, 3), 7, F), np.array([NAN, INF, -INF, 1e30], F)
    places = np.stack([grid, np.zeros(4, F)], axis=-1).reshape(1, 1, 4, 2)
    assert grid_sample(x, places, False, "zeros", False).ravel().tolist() == [0, 0, 0, 0]
    for padding in ("border", "reflection"):
        assert grid_sample(x, places, False, padding, False).ravel().tolist() == [7, 7, 7, 7]
