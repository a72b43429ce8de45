"""Values of images at places against exact interpolation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact.numerics.grid_sample import grid_sample

NAN, INF = math.nan, math.inf
F = np.float32


def _reflect(v, low, high):
    while not low <= v <= high:
        v = 2 * low - v if v < low else 2 * high - v
    return v


def _sample(image, gx, gy, nearest, padding, align):
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
            v = _reflect(v, low, high) if high > low else 0
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


@pytest.mark.rule("N59")
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
        want = _sample(x[n, c], *grid[n, i, j].astype(float), nearest, padding, align)
        assert y[n, c, i, j] == pytest.approx(want, abs=2e-6)


@pytest.mark.rule("N59")
def test_places_that_are_no_numbers_lie_outside():
    x, grid = np.full((1, 1, 3, 3), 7, F), np.array([NAN, INF, -INF, 1e30], F)
    places = np.stack([grid, np.zeros(4, F)], axis=-1).reshape(1, 1, 4, 2)
    assert grid_sample(x, places, False, "zeros", False).ravel().tolist() == [0, 0, 0, 0]
    for padding in ("border", "reflection"):
        assert grid_sample(x, places, False, padding, False).ravel().tolist() == [7, 7, 7, 7]
