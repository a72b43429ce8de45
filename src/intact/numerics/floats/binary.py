"""Functions of two floats: maximum, minimum, and a slope below zero. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def maximum(a: ArrayLike, b: ArrayLike) -> Reals:
    """Compute b where ``a < b`` or b is a NaN, else a. NORMATIVE.

    Args:
        a, b: Reals that broadcast.
    Returns:
        float32, the shapes broadcast together.
    Source: ONNX Max.

    Rule N49.
    """
    a, b = to_float32(a), to_float32(b)
    return np.asarray(np.where((a < b) | np.isnan(b), b, a))


def minimum(a: ArrayLike, b: ArrayLike) -> Reals:
    """Compute b where ``a > b`` or b is a NaN, else a. NORMATIVE.

    Args:
        a, b: Reals that broadcast.
    Returns:
        float32, the shapes broadcast together.
    Source: ONNX Min.

    Rule N49.
    """
    a, b = to_float32(a), to_float32(b)
    return np.asarray(np.where((a > b) | np.isnan(b), b, a))


def apply_slope(x: ArrayLike, slope: ArrayLike) -> Reals:
    """Compute ``fl32(x * slope)`` where ``x < 0``, else x. NORMATIVE.

    Args:
        x, slope: Reals that broadcast.
    Returns:
        float32, the shapes broadcast together.
    Source: ONNX LeakyRelu, PRelu.

    Rule N48.
    """
    x = to_float32(x)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(x < 0, x * to_float32(slope), x))
