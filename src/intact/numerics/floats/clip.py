"""Floats within two bounds. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.elementary import at_least, at_most
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


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
