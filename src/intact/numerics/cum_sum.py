"""Running sums along one axis. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
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
