"""The k largest or smallest elements along one axis, and the index of the first extreme. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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


Array = NDArray[Any]


def top_k(x: Array, k: int, axis: int, largest: bool = True) -> tuple[Array, NDArray[np.int64]]:
    """Return the k largest (smallest) elements along an axis and their indices, in order (N58).

    Of equal elements the one with the lower index comes first. A NaN comes before any number.

    Args:
        x: One of `arg_max.ORDER_DTYPES`.
        k: At most the size of the axis.
        axis: The axis of x.
        largest: False for the smallest elements.
    Returns:
        Elements, dtype of x, and int64 indices; both have size k along the axis.
    Source: ONNX TopK, with sorted = 1.
    """
    lines = np.moveaxis(x, axis, -1)
    index = np.broadcast_to(np.arange(lines.shape[-1]), lines.shape)
    keys = _negate_order(lines) if largest else lines
    is_number = ~np.isnan(lines) if lines.dtype.kind == "f" else np.ones(lines.shape, np.bool_)
    order = np.lexsort((index, np.where(is_number, keys, 0), is_number), axis=-1)[..., :k]
    elements = np.take_along_axis(lines, order, -1)
    return np.moveaxis(elements, -1, axis), np.moveaxis(order, -1, axis).astype(np.int64)


def _negate_order(x: Array) -> Array:
    """Negate the order of numbers. Integers use ~x, because -x overflows for the lowest one."""
    return -x if x.dtype.kind == "f" else ~x
