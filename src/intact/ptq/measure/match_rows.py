"""Matches the rows of two arrays by content, because a selection may order them differently."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_MOST = 2**25
"""Numbers that are subtracted at most: 1,000 rows of 30 from as many take 0.1 s."""


def align_rows(got: NDArray, want: NDArray, *, unordered: bool = False) -> NDArray | None:
    """Return `got` in the shape of `want`: each row of `want` is replaced by the nearest row of `got`.

    A row is zeros where these are nearer. The result is None where other axes differ in size, or there are
    too many rows.

    Args:
        got, want: Reals. Rows lie along the axis in whose size they differ.
        unordered: Whether equal sizes may be in another order: rows of the first axis above 1 but the last.
    """
    axis = _axis_of_rows(got.shape, want.shape, unordered)
    if axis is None or got.size * want.shape[axis] > _MOST:
        return None
    ours, theirs = (np.moveaxis(_finite(a), axis, 0) for a in (got, want))
    rows, own_rows = (a.reshape(len(a), math.prod(a.shape[1:])) for a in (theirs, ours))
    aligned = np.zeros_like(rows)
    for number, row in enumerate(rows):
        places = _nearest(own_rows, row, number if got.shape == want.shape else None)
        if places is not None:
            aligned[number] = own_rows[places]
    return np.moveaxis(aligned.reshape(theirs.shape), 0, axis)


def _axis_of_rows(got: tuple[int, ...], want: tuple[int, ...], unordered: bool) -> int | None:
    if len(got) != len(want):
        return None
    differ = [axis for axis, (a, b) in enumerate(zip(got, want, strict=True)) if a != b]
    if not differ and unordered:
        differ = [axis for axis, size in enumerate(want[:-1]) if size > 1][:1]
    return differ[0] if len(differ) == 1 else None


def _nearest(rows: NDArray[np.float64], row: NDArray[np.float64], same: int | None) -> int | None:
    """Return the index of the nearest row, preferring `same` among equals; None where zeros are nearer."""
    if not len(rows):
        return None
    distances = np.square(rows - row).sum(1)
    place = int(distances.argmin())
    if same is not None and distances[same] <= distances[place]:
        place = same
    return place if distances[place] < np.square(row).sum() else None


def _finite(array: NDArray) -> NDArray[np.float64]:
    real = array.astype(np.float64)
    return np.where(np.isfinite(real), real, 0)
