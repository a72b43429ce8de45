"""The exact integer sums of a product of two activations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.accumulator import accumulator, exact_product, shape_error, subtract_zero_point


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
