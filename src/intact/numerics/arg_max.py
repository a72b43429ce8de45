"""Indices of the largest and smallest elements along one axis. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ORDER_DTYPES = ("float32", "int32", "int64", "uint8", "int8")
"""dtypes that `arg_max` and `top_k` accept."""


def arg_max(x: Array, axis: int, smallest: bool = False, last: bool = False) -> Array:
    """Return the index of the largest element along an axis (N54).

    A NaN counts as larger than any number, and as smaller where `smallest` is set.

    Args:
        x: One of `ORDER_DTYPES`.
        axis: The axis of x.
        smallest: Find the smallest element.
        last: Of equal elements take the last; otherwise the first.
    Returns:
        int64, shape of x with size 1 along the axis.
    Source: ONNX ArgMax, ArgMin.
    """
    find = np.argmin if smallest else np.argmax
    if not last:
        return np.asarray(find(x, axis=axis, keepdims=True), np.int64)
    from_end = find(np.flip(x, axis), axis=axis, keepdims=True)
    return np.asarray(x.shape[axis] - 1 - from_end, np.int64)
