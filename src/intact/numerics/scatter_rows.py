"""Rows of a matrix replaced by updates, at tuples of indices. NORMATIVE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.numerics.scatter_elements import combine_updates

Array = NDArray[Any]


def scatter_rows(
    x: Array, index: Array, updates: Array, sizes: Sequence[int], reduction: str = "none"
) -> Array:
    """Scatter rows: row ``row_numbers(index)[i]`` of x becomes updates[i], or the reduction of both (N58).

    i ascends.

    Args:
        x: [product of sizes, width]; one of `SCATTER_DTYPES` where the reduction is not "none".
        index: Integers [n, axes]; negative ones count from the end.
        updates: [n, width], dtype of x.
        sizes: The size of each axis that the tuples index.
        reduction: One of `REDUCTIONS`.
    Returns:
        Shape and dtype of x.
    Source: ONNX ScatterND.
    """
    y, rows = np.array(x), row_numbers(index, sizes)
    if reduction == "none":
        y[rows] = updates  # of several updates of one row the last one stays
        return y
    for row, update in zip(rows, updates, strict=True):
        y[row] = combine_updates(reduction, y[row], update)
    return y


def row_numbers(index: Array, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the row-major position of each tuple of indices in an array of `sizes`.

    Args:
        index: Integers [n, axes]; negative ones count from the end.
        sizes: The size of each axis.
    Returns:
        int64 [n].
    """
    rows = np.zeros(len(index), np.int64)
    for axis, size in enumerate(sizes):
        at = index[:, axis].astype(np.int64)
        rows = rows * size + np.where(at < 0, at + size, at)
    return rows
