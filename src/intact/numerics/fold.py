"""Sums, products, extremes and running sums along one axis, element after element. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
"""The function of two numbers behind each fold."""
FOLD_DTYPES = {
    "float32": ("prod",),
    "float64": tuple(FOLDS),
    "int32": tuple(FOLDS),
    "int64": tuple(FOLDS),
}
"""dtype -> the folds that it has."""


def fold(x: Array, axis: int, function: str) -> Array:
    """Fold all elements along an axis, one after the other; integers wrap around (N60).

    Args:
        x: A dtype of `FOLD_DTYPES`.
        axis: The axis of x.
        function: A fold of that dtype. The sum, product, maximum and minimum of no elements are 0, 1, and the
            lowest and highest number of the dtype.
    Returns:
        dtype of x, shape of x with size 1 along the axis.
    Source: ONNX ReduceSum, ReduceProd, ReduceMax, ReduceMin.
    """
    if x.shape[axis] == 0:
        empty: dict[str, float] = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}
        if x.dtype.kind == "i":
            empty |= {"max": np.iinfo(x.dtype).min, "min": np.iinfo(x.dtype).max}
        return np.full([1 if a == axis else n for a, n in enumerate(x.shape)], empty[function], x.dtype)
    with np.errstate(all="ignore"):
        folds = FOLDS[function].accumulate(x, axis=axis, dtype=x.dtype)
    return np.take(folds, [-1], axis)


CUM_SUM_DTYPES = ("float32", "int32", "int64")
"""dtypes that `cum_sum` accepts."""


def cum_sum(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Compute ``y[0] = x[0]``, ``y[k] = y[k-1] + x[k]`` along an axis.

    Each sum is rounded, integers wrap (N54).

    Args:
        x: One of `CUM_SUM_DTYPES`.
        axis: The axis of x.
        exclusive: Leave x[k] out of y[k]; y[0] is 0.
        reverse: Add from the end.
    Returns:
        Shape and dtype of x.
    Source: ONNX CumSum.
    """
    lines = np.moveaxis(x, axis, -1)
    lines = lines[..., ::-1] if reverse else lines
    with np.errstate(all="ignore"):
        sums = np.add.accumulate(lines, axis=-1, dtype=x.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], axis=-1)
    sums = sums[..., ::-1] if reverse else sums
    return np.moveaxis(sums, -1, axis)
