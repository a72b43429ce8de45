"""Softmax of floats. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.exp import LOG2_E, NORMAL_END, exp2
from intact.numerics.floats.reduce import lane_sum, positive_axis
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def softmax(x: ArrayLike, axis: int = -1, gain: float = 1.0, mask: ArrayLike | None = None) -> Reals:
    """Compute ``e * fl32(1 / sum(e))``, ``e = 2^((v - max(v)) * log2(e))``, ``v = x * gain (+ mask)``.

    NORMATIVE.

    The sum is `lane_sum`. Where ``v - max(v) < -87``, float32 has no normal numbers left, and e is 0. A row
    without a finite maximum, or with a NaN, is all NaN.

    Args:
        x: Reals.
        axis: The axis along which the results add up to 1.
        gain: Rounded to float32.
        mask: Reals that broadcast to the shape of `x`, added behind the product.
    Returns:
        float32, shape of `x`.
    Raises:
        QuantValueError: `mask` does not broadcast to the shape of `x`, or there is no such axis.

    Rules N40, N42.
    """
    x = to_float32(x)
    positive_axis(x, axis)
    with np.errstate(all="ignore"):
        v = x * np.float32(gain)
        if mask is not None:
            v = v + _broadcast(mask, x.shape)
        v = np.moveaxis(v, axis, -1)
        if v.shape[-1] == 0:
            return np.asarray(x)
        below = v - v.max(axis=-1, keepdims=True)
        e = np.where(below < -NORMAL_END, np.float32(0), exp2(below * LOG2_E))
        y = e * (np.float32(1) / lane_sum(e))[..., None]
    return np.ascontiguousarray(np.moveaxis(y, -1, axis))


def _broadcast(mask: ArrayLike, shape: tuple[int, ...]) -> Reals:
    mask = to_float32(mask)
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise QuantValueError(
            "mask", f"shape {mask.shape}", f"one that broadcasts to {shape}", "add missing axes of size 1"
        ) from None
