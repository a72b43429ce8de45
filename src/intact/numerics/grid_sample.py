"""Values of images at places between pixels. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float32]
PADDINGS = ("zeros", "border", "reflection")
"""Padding modes, which define the value of a place outside the image."""


def grid_sample(x: Reals, grid: Reals, nearest: bool, padding: str, align_corners: bool) -> Reals:
    """Sample each image at each place of its grid (N59).

    Args:
        x: Images [n, channels, height, width].
        grid: Places (x, y) [n, rows, columns, 2], float32: -1 and 1 are the ends of the image.
        nearest: Take the nearest pixel, ties to even; otherwise interpolate between four.
        padding: One of `PADDINGS`.
        align_corners: The ends are the centres of the border pixels, not their outer edges.
    Returns:
        float32 [n, channels, rows, columns].
    Source: ONNX GridSample.
    """
    shape = (*x.shape[:2], *grid.shape[1:3])
    if 0 in shape:
        return np.zeros(shape, np.float32)
    with np.errstate(all="ignore"):
        columns, left, right = _pixels(grid[..., 0], x.shape[3], nearest, padding, align_corners)
        rows, top, bottom = _pixels(grid[..., 1], x.shape[2], nearest, padding, align_corners)
        if nearest:
            return _pixels_at(x, rows[0], columns[0])
        above, below = (
            left[:, None] * _pixels_at(x, row, columns[0]) + right[:, None] * _pixels_at(x, row, columns[1])
            for row in rows
        )
        return np.asarray(top[:, None] * above + bottom[:, None] * below, np.float32)


ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)


def _pixels(
    place: Reals, size: int, nearest: bool, padding: str, align: bool
) -> tuple[list[NDArray[np.int64]], Reals, Reals]:
    """Return the two pixels around each place along one axis, -1 for none, and the weight of each."""
    last = np.float32(size - 1)
    v = (place + ONE) * HALF * last if align else ((place + ONE) * (last + ONE) - ONE) * HALF
    v = np.rint(v) if nearest else v
    none = np.float32(-2 if padding == "zeros" else 0)
    if padding == "reflection":
        v = _reflect(v, last, align)
    v = np.where(np.isnan(v), none, v)
    low, high = (np.float32(0), last) if padding == "border" else (np.float32(-2), last + TWO)
    v = np.minimum(np.maximum(v, low), high)
    first = np.floor(v)
    whole = [first, first + ONE]
    if padding != "zeros":
        whole = [np.minimum(np.maximum(w, np.float32(0)), last) for w in whole]
    pixels = [np.where((w >= 0) & (w <= last), w, -1).astype(np.int64) for w in whole]
    return pixels, first + ONE - v, v - first


def _reflect(v: Reals, last: np.float32, align: bool) -> Reals:
    """Reflect places at the ends of the image until they lie inside."""
    low, high = (np.float32(0), last) if align else (-HALF, last + HALF)
    width = high - low
    if width == 0:
        return np.zeros_like(v)
    below = v < low
    beyond = np.where(below, low - v, v - high)
    reflections = np.floor(beyond / width)
    rest = beyond - reflections * width
    is_even = reflections - TWO * np.floor(reflections * HALF) == 0
    inside = np.where(below == is_even, low + rest, high - rest)
    return np.where(below | (v > high), inside, v)


def _pixels_at(x: Reals, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Reals:
    """Return x [n, c, h, w] at pixels [n, rows, columns], 0 where there is none: [n, c, rows, columns]."""
    n = np.arange(len(x)).reshape(-1, 1, 1)
    exists = (rows >= 0) & (columns >= 0)
    pixels = np.moveaxis(x, 1, -1)[n, np.where(exists, rows, 0), np.where(exists, columns, 0)]
    return np.moveaxis(np.where(exists[..., None], pixels, np.float32(0)), -1, 1)
