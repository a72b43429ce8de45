"""Layer normalization of floats. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.reduce import lane_sum
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
    residual: ArrayLike | None = None,
) -> Reals:
    """Normalize x (+ residual) over its last axis. NORMATIVE.

    ``v = x + residual``, ``mean = lane_sum(v) / n``, ``d = v - mean``, ``variance = lane_sum(d * d) / n``,
    ``r = 1 / sqrt(variance + epsilon)``, ``y = d * r * weight + bias``; both divisions by n and the square
    root are true ones.

    Args:
        x: Reals [..., n].
        weight, bias: Reals [n].
        epsilon: Rounded to float32.
        residual: Reals, shape of `x`.
    Returns:
        float32, shape of `x`.
    Raises:
        QuantValueError: Shapes do not fit.

    Rules N41, N42, N55.
    """
    v = to_float32(x)
    if v.ndim == 0:
        raise QuantValueError("x", "a number", "a last axis to normalize over", "reshape it to [1]")
    with np.errstate(all="ignore"):
        if residual is not None:
            v = v + _of_shape(residual, v.shape, "residual")
        n = np.float32(v.shape[-1])
        d = v - (lane_sum(v) / n)[..., None]
        variance = lane_sum(d * d) / n
        y = d * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))[..., None]
        if weight is not None:
            y = y * _of_shape(weight, v.shape[-1:], "weight")
        if bias is not None:
            y = y + _of_shape(bias, v.shape[-1:], "bias")
    return np.asarray(y)


def _of_shape(values: ArrayLike, shape: tuple[int, ...], name: str) -> Reals:
    values = to_float32(values)
    if values.shape != shape:
        raise QuantValueError(name, f"shape {values.shape}", f"shape {shape}", "pass one value for each")
    return values
