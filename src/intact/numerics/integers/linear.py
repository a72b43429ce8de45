"""The exact integer sums of a product with constant weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.accumulator import (
    accumulator,
    exact_product,
    shape_error,
    subtract_weight_zero_points,
    subtract_zero_point,
)


def linear(
    x: ArrayLike, w: ArrayLike, x_zero_point: int, w_zero_point: ArrayLike = 0, bias: ArrayLike | None = None
) -> NDArray[np.int32]:
    """Compute ``acc[..., o] = sum_k (x[..., k] - z_x) * (w[o, k] - z_w[o]) + bias[o]``, exact. NORMATIVE.

    Args:
        x: Codes [..., in_features].
        w: Codes [out_features, in_features].
        x_zero_point: The code of `x` that means 0.0.
        w_zero_point: The same for `w`, one number or [out_features].
        bias: A foreign file's int32 bias, whose scale is ``multipliers(s_x, s_w)``, [out_features]. A real
            bias is no part of the sum: `scale_bias` takes it.
    Returns:
        int32 [..., out_features].
    Raises:
        QuantValueError: Codes are not integers, the shapes do not fit, or a sum leaves int32.
    Source: ONNX MatMulInteger, Gemm; exact because every partial sum is an integer below 2**53.

    Rules N19, N30.
    """
    rows, columns = subtract_zero_point(x, x_zero_point, "x"), subtract_weight_zero_points(w, w_zero_point)
    if columns.ndim != 2 or rows.ndim < 1 or rows.shape[-1] != columns.shape[1]:
        raise shape_error(rows.shape, columns.shape, "x [..., k] and w [o, k]")
    return accumulator(exact_product(rows, columns.T), bias, axis=-1)
