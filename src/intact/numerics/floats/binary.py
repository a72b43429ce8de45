"""Functions of several floats: maximum, minimum, clip, and a slope below zero. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.elementary import at_least, at_most
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


def clip(x: ArrayLike, low: float, high: float) -> Reals:
    """Compute low where ``x < low``, high where ``x > high``, else x; a NaN stays. NORMATIVE.

    Args:
        x: Reals.
        low, high: Rounded to float32; an infinity bounds nothing. Where low is above high, the result is
            high.
    Returns:
        float32, shape of `x`.
    Source: ONNX Clip.

    Rule N49.
    """
    return at_most(at_least(to_float32(x), np.float32(low)), np.float32(high))
