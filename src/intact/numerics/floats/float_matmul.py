"""Products of float32 matrices, by fused multiply-adds in one fixed order. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.fma import fma
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def float_product(a: ArrayLike, b: ArrayLike, start: ArrayLike | None = None) -> Reals:
    """Compute ``y = start``, then ``y[..., i, j] = fma(a[..., i, k], b[..., k, j], y[..., i, j])``, k
    ascending.

    NORMATIVE.

    Args:
        a: Reals [..., m, k].
        b: Reals [..., k, n]; leading axes broadcast.
        start: Reals that broadcast to the result, such as a bias [n]; +0 where there is none.
    Returns:
        float32 [..., m, n].
    Raises:
        QuantValueError: Shapes do not fit.
    Source: ONNX MatMul, Gemm.

    Rules N51, N75.
    """
    left, right = to_float32(a), to_float32(b)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise shape_error(left.shape, right.shape, "a [..., m, k] and b [..., k, n]")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        y = start_sums(start, (*batch, left.shape[-2], right.shape[-1]))
    except ValueError:
        raise shape_error(left.shape, right.shape, "leading axes and a start that broadcast") from None
    for k in range(left.shape[-1]):
        y = fma(left[..., k, None], right[..., k, None, :], y)
    return y


def start_sums(start: ArrayLike | None, shape: tuple[int, ...]) -> Reals:
    """Return the values at which sums of `shape` begin: `start`, or +0."""
    return np.array(np.broadcast_to(to_float32(0 if start is None else start), shape))


def shape_error(first: tuple[int, ...], second: tuple[int, ...], want: str) -> QuantValueError:
    return QuantValueError("shape", f"{first} with {second}", want, "check the layout")
