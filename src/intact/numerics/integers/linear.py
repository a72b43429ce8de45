"""Exact integer sums of products: with constant weights, of two tensors, and of 16-bit codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.accumulator import (
    ACCUMULATOR_LIMIT,
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


def matmul(a: ArrayLike, b: ArrayLike, a_zero_point: int, b_zero_point: int) -> NDArray[np.int32]:
    """Compute ``acc[..., i, j] = sum_k (a[..., i, k] - z_a) * (b[..., k, j] - z_b)``, of two activations.

    NORMATIVE.

    Args:
        a: Codes [..., i, k].
        b: Codes [..., k, j]; leading axes broadcast.
        a_zero_point, b_zero_point: The codes that mean 0.0.
    Returns:
        int32 [..., i, j].
    Raises:
        QuantValueError: Codes are not integers, the shapes do not fit, or a sum leaves int32.
    Source: ONNX MatMulInteger.

    Rule N19.
    """
    left, right = subtract_zero_point(a, a_zero_point, "a"), subtract_zero_point(b, b_zero_point, "b")
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise shape_error(left.shape, right.shape, "a [..., i, k] and b [..., k, j]")
    return accumulator(exact_product(left, right))


def join_sums(high: ArrayLike, low: ArrayLike, shift: int = 0) -> NDArray[np.int32]:
    """Compute ``floor((256 * high + low) / 2^shift + 1/2)``: the sums of 16-bit codes from those of bytes.

    NORMATIVE.

    Args:
        high, low: int32, one shape: `linear` or `conv` of ``(q - qmin) >> 8`` and of ``(q - qmin) & 255``,
            each with that byte of the zero point. An integer bias is part of `low`.
        shift: 0 to 7, from `shift_of_sums`: the smallest shift for which the result is proved to fit.
    Returns:
        int32, shape of `high`.
    Raises:
        QuantValueError: A sum leaves int32.

    Rule N62.
    """
    half = 1 << shift >> 1
    whole = (256 * np.asarray(high, np.int64) + np.asarray(low, np.int64) + half) >> shift
    return accumulator(np.asarray(whole))


def shift_of_sums(bound: ArrayLike) -> int:
    """Return the smallest shift with which `join_sums` stays in int32. NORMATIVE.

    Args:
        bound: The largest magnitude of the sums, any shape, from `accumulator_bound`.

    Rule N62.
    """
    most, shift = int(np.asarray(bound).max(initial=0)), 0
    while (most >> shift) + 1 >= ACCUMULATOR_LIMIT:
        shift += 1
    return shift
