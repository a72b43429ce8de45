"""What is ordered, written or read by values: largest elements, scattered ones, places. NORMATIVE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.functions import maximum, minimum

Array = NDArray[Any]
Reals = NDArray[np.float32]

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""What becomes of an element that is there and one that is scattered onto it."""
COMBINED = ("float32", "int32", "int64")
"""dtypes that reductions other than "none" know."""
PADDINGS = ("zeros", "border", "reflection")
"""What lies beyond an image."""
ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)


def top_k(x: Array, k: int, axis: int, largest: bool = True) -> tuple[Array, NDArray[np.int64]]:
    """The k largest (smallest) elements along an axis, the first one first, and where they stand (N58).

    Args:
        x: Of a dtype of `along_axis.ORDERED`. A NaN comes before any number.
        k: At most the size of the axis.
        axis: Along which.
        largest: Or the smallest.
    """
    lines = np.moveaxis(x, axis, -1)
    places = np.broadcast_to(np.arange(lines.shape[-1]), lines.shape)
    keys = _descending(lines) if largest else lines
    numbers = ~np.isnan(lines) if lines.dtype.kind == "f" else np.ones(lines.shape, np.bool_)
    order = np.lexsort((places, np.where(numbers, keys, 0), numbers), axis=-1)[..., :k]
    picked = np.take_along_axis(lines, order, -1)
    return np.moveaxis(picked, -1, axis), np.moveaxis(order, -1, axis).astype(np.int64)


def _descending(x: Array) -> Array:
    """Numbers whose order is the other way round."""
    return -x if x.dtype.kind == "f" else ~x


def scatter_elements(x: Array, index: Array, updates: Array, axis: int, reduction: str = "none") -> Array:
    """x with ``x[index[i, j], j] = updates[i, j]``, where axis is 0, or what `reduction` makes of both (N58).

    Args:
        x: Any dtype; of `COMBINED` where the reduction is not "none".
        index: Integers; negative ones count from the end. Along the axis they are taken in their order.
        updates: Of the shape of the index.
        axis: Along which.
        reduction: One of `REDUCTIONS`.
    """
    y = np.array(x)
    lines, indices, given = (np.moveaxis(a, axis, -1) for a in (y, index, updates))
    others: list[NDArray[np.int64]] = list(np.indices(indices.shape[:-1]))
    for k in range(indices.shape[-1]):
        at: tuple[NDArray[np.int64], ...] = (*others, indices[..., k])
        lines[at] = _combine(reduction, lines[at], given[..., k])
    return y


def scatter_rows(
    x: Array, index: Array, updates: Array, sizes: Sequence[int], reduction: str = "none"
) -> Array:
    """x [rows, width], of which row ``row_numbers(index)[i]`` becomes updates[i], or what `reduction` makes
    of both, i ascending (N58)."""
    y, rows = np.array(x), row_numbers(index, sizes)
    if reduction == "none":
        y[rows] = updates  # the last one stays
        return y
    for row, update in zip(rows, updates, strict=True):
        y[row] = _combine(reduction, y[row], update)
    return y


def row_numbers(index: Array, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Where tuples of indices [n, axes] stand in an array of sizes; negative ones count from the end."""
    rows = np.zeros(len(index), np.int64)
    for axis, size in enumerate(sizes):
        at = index[:, axis].astype(np.int64)
        rows = rows * size + np.where(at < 0, at + size, at)
    return rows


def _combine(reduction: str, there: Array, update: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(_COMBINE[reduction](there, update), there.dtype)


def _extreme(of_floats: Callable[[Array, Array], Array], of_integers: Callable[[Array, Array], Array]) -> Any:
    return lambda a, b: (of_floats if a.dtype.kind == "f" else of_integers)(a, b)


_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "none": lambda there, update: update,
    "add": np.add,
    "mul": np.multiply,
    "max": _extreme(maximum, np.maximum),
    "min": _extreme(minimum, np.minimum),
}


def grid_sample(x: Reals, grid: Reals, nearest: bool, padding: str, align_corners: bool) -> Reals:
    """Images at places (N59): float32 [n, channels, rows, columns].

    Args:
        x: Images [n, channels, height, width].
        grid: (x, y) of each place [n, rows, columns, 2]: -1 and 1 are the ends of the image.
        nearest: The nearest pixel, ties to even; else between four.
        padding: One of `PADDINGS`.
        align_corners: The ends are the middles of the pixels at the rim, not their outer edges.
    """
    made = (*x.shape[:2], *grid.shape[1:3])
    if 0 in made:
        return np.zeros(made, np.float32)
    with np.errstate(all="ignore"):
        columns, left, right = _pixels(grid[..., 0], x.shape[3], nearest, padding, align_corners)
        rows, top, bottom = _pixels(grid[..., 1], x.shape[2], nearest, padding, align_corners)
        if nearest:
            return _taken(x, rows[0], columns[0])
        above, below = (
            left[:, None] * _taken(x, row, columns[0]) + right[:, None] * _taken(x, row, columns[1])
            for row in rows
        )
        return np.asarray(top[:, None] * above + bottom[:, None] * below, np.float32)


def _pixels(
    place: Reals, size: int, nearest: bool, padding: str, align: bool
) -> tuple[list[NDArray[np.int64]], Reals, Reals]:
    """The pixels before and behind places along one axis, -1 for none, and their weights."""
    last = np.float32(size - 1)
    v = (place + ONE) * HALF * last if align else ((place + ONE) * (last + ONE) - ONE) * HALF
    v = np.rint(v) if nearest else v
    none = np.float32(-2 if padding == "zeros" else 0)
    if padding == "reflection":
        v = _reflected(v, last, align)
    v = np.where(np.isnan(v), none, v)
    low, high = (np.float32(0), last) if padding == "border" else (np.float32(-2), last + TWO)
    v = np.minimum(np.maximum(v, low), high)
    first = np.floor(v)
    whole = [first, first + ONE]
    if padding != "zeros":
        whole = [np.minimum(np.maximum(w, np.float32(0)), last) for w in whole]
    pixels = [np.where((w >= 0) & (w <= last), w, -1).astype(np.int64) for w in whole]
    return pixels, first + ONE - v, v - first


def _reflected(v: Reals, last: np.float32, align: bool) -> Reals:
    """Turned back at the ends, as often as it takes."""
    low, high = (np.float32(0), last) if align else (-HALF, last + HALF)
    width = high - low
    if width == 0:
        return np.zeros_like(v)
    below = v < low
    beyond = np.where(below, low - v, v - high)
    turns = np.floor(beyond / width)
    rest = beyond - turns * width
    even = turns - TWO * np.floor(turns * HALF) == 0
    turned = np.where(below == even, low + rest, high - rest)
    return np.where(below | (v > high), turned, v)


def _taken(x: Reals, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Reals:
    """x [n, c, h, w] at pixels [n, rows, columns], 0 where there is none: [n, c, rows, columns]."""
    n = np.arange(len(x)).reshape(-1, 1, 1)
    there = (rows >= 0) & (columns >= 0)
    picked = np.moveaxis(x, 1, -1)[n, np.where(there, rows, 0), np.where(there, columns, 0)]
    return np.moveaxis(np.where(there[..., None], picked, np.float32(0)), -1, 1)
