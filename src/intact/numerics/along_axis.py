"""Along one axis: folds, running sums, places of the largest elements, values between elements. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SUMMED = ("float32", "int32", "int64")
"""dtypes of which there are running sums."""
ORDERED = ("float32", "int32", "int64", "uint8", "int8")
"""dtypes whose largest elements are found."""
FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
"""What makes one number of two, and so of a line."""
FOLDED = {
    "float32": ("prod",),
    "float64": tuple(FOLDS),
    "int32": tuple(FOLDS),
    "int64": tuple(FOLDS),
}
"""dtype -> which of them."""


def fold(x: Array, axis: int, function: str) -> Array:
    """One number for the elements along an axis (N60), which stays with size 1.

    Args:
        x: Of a dtype of `FOLDED`.
        axis: Along which.
        function: One of those of its dtype. Of no elements it makes 0, 1, the lowest or the highest number.
    """
    if x.shape[axis] == 0:
        ends: dict[str, float] = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}
        if x.dtype.kind == "i":
            ends |= {"max": np.iinfo(x.dtype).min, "min": np.iinfo(x.dtype).max}
        return np.full([1 if a == axis else n for a, n in enumerate(x.shape)], ends[function], x.dtype)
    with np.errstate(all="ignore"):
        folded = FOLDS[function].accumulate(x, axis=axis, dtype=x.dtype)
    return np.take(folded, [-1], axis)


def cum_sum(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums (N54), of the dtype and the shape of x.

    Args:
        x: Of a dtype of `SUMMED`.
        axis: Along which.
        exclusive: y[k] is without x[k] itself; y[0] is 0.
        reverse: From the end.
    """
    lines = np.moveaxis(x, axis, -1)
    lines = lines[..., ::-1] if reverse else lines
    with np.errstate(all="ignore"):
        sums = np.add.accumulate(lines, axis=-1, dtype=x.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], axis=-1)
    sums = sums[..., ::-1] if reverse else sums
    return np.moveaxis(sums, -1, axis)


def arg_max(x: Array, axis: int, smallest: bool = False, last: bool = False) -> Array:
    """Where the largest elements stand (N54): int64, of the shape of x with size 1 along the axis.

    Args:
        x: Of a dtype of `ORDERED`. A NaN is larger, and smaller, than any number.
        axis: Along which.
        smallest: Where the smallest ones stand.
        last: Of equal ones the last; else the first.
    """
    find = np.argmin if smallest else np.argmax
    if not last:
        return np.asarray(find(x, axis=axis, keepdims=True), np.int64)
    turned = find(np.flip(x, axis), axis=axis, keepdims=True)
    return np.asarray(x.shape[axis] - 1 - turned, np.int64)


def interpolate(
    x: NDArray[np.float32], axis: int, places: NDArray[np.int64], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``y[i] = weights[i, 0] * x[places[i, 0]] + weights[i, 1] * x[places[i, 1]] + ...`` along an axis (N57).

    Args:
        x: float32.
        axis: Along which.
        places: int64 [elements of y along the axis, terms of each]; of elements of x.
        weights: float32, of the same shape.
    """
    shape = [1] * x.ndim
    shape[axis] = len(places)
    with np.errstate(all="ignore"):
        terms = [
            weight.reshape(shape) * np.take(x, place, axis)
            for place, weight in zip(places.T, weights.T, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
    return np.asarray(total, np.float32)
