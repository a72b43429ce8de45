"""Elements of a tensor replaced by updates, at indices along one axis. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.binary import maximum, minimum

Array = NDArray[Any]

SCATTER_REDUCTIONS = ("none", "add", "mul", "max", "min")
"""Functions that combine an element and its update; with "none" the update replaces the element."""
SCATTER_DTYPES = ("float32", "int32", "int64")
"""dtypes that reductions other than "none" accept."""


def scatter_elements(x: Array, index: Array, updates: Array, axis: int, reduction: str = "none") -> Array:
    """Compute ``x[index[i, j], j] = updates[i, j]``, where axis is 0, or the reduction of both (N58).

    Args:
        x: Any dtype; one of `SCATTER_DTYPES` where the reduction is not "none".
        index: Integers; negative ones count from the end. Indices along the axis take effect in their order.
        updates: Shape of the index, dtype of x.
        axis: The axis of x that the indices count along.
        reduction: One of `SCATTER_REDUCTIONS`.
    Returns:
        Shape and dtype of x.
    Source: ONNX ScatterElements.
    """
    y = np.array(x)
    y_lines, index_lines, update_lines = (np.moveaxis(a, axis, -1) for a in (y, index, updates))
    other_axes: list[NDArray[np.int64]] = list(np.indices(index_lines.shape[:-1]))
    for k in range(index_lines.shape[-1]):
        at: tuple[NDArray[np.int64], ...] = (*other_axes, index_lines[..., k])
        y_lines[at] = combine_updates(reduction, y_lines[at], update_lines[..., k])
    return y


def combine_updates(reduction: str, current: Array, update: Array) -> Array:
    """Combine elements and their updates by a reduction, in the dtype of `current`.

    Args:
        reduction: One of `SCATTER_REDUCTIONS`.
        current, update: Arrays of one shape. Floats meet in `maximum` and `minimum`, integers wrap around.
    """
    is_float = current.dtype.kind == "f"
    with np.errstate(all="ignore"):
        match reduction:
            case "none":
                result = update
            case "add":
                result = current + update
            case "mul":
                result = current * update
            case "max":
                result = maximum(current, update) if is_float else np.maximum(current, update)
            case _:
                result = minimum(current, update) if is_float else np.minimum(current, update)
        return np.asarray(result, current.dtype)
