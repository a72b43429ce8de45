"""The fused multiply-add of float32. NORMATIVE.

NumPy has none. In float64 the product of two float32 is exact, and its sum with a third is rounded to odd.
Rounding that to float32 then equals rounding the exact sum once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Reals:
    """Compute ``fl32(a * b + c)``: one rounding. NORMATIVE.

    Args:
        a, b, c: Reals that broadcast together.
    Returns:
        float32, the shapes broadcast together. Of a NaN only that it is one is defined.
    Source: IEEE 754 fusedMultiplyAdd; S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums:
        proved algorithms using rounding to odd", 2008.

    Rule N51.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(to_float32(a).astype(np.float64) * to_float32(b))
        return _round_sum(product, to_float32(c).astype(np.float64))


def _round_sum(x: NDArray[np.float64], y: NDArray[np.float64]) -> Reals:
    """Compute ``fl32(x + y)``, rounded once. `x` may be overwritten."""
    total = x + y
    # TwoSum gives the rounding error exactly. It does not overflow, and is a NaN where the sum is not finite.
    back = total - x
    error = (x - (total - back)) + (y - back)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    odd = bits + np.where(away, 1, -1) * inexact
    return np.asarray(odd.view(np.float64).astype(np.float32))
