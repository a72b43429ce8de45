"""The sum of two tensors of codes, and codes on another grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import positive_scale
from intact.numerics.integers.accumulator import subtract_zero_point
from intact.numerics.integers.requantize import Bounds, to_codes
from intact.spec import QuantSpec

Affine = tuple[ArrayLike, int]
"""(scale, zero_point) of a whole tensor: float32 > 0, and the code that means 0.0."""


def add(
    a: ArrayLike,
    b: ArrayLike,
    a_affine: Affine,
    b_affine: Affine,
    y_affine: Affine,
    spec: QuantSpec,
    *,
    bounds: Bounds | None = None,
) -> NDArray[np.int32]:
    """Compute ``y = clamp(rne(fl32(r / s_y)) + z_y)``, r = fl32((a - z_a) * s_a) + fl32((b - z_b) * s_b).

    NORMATIVE.

    Args:
        a, b: Codes whose shapes broadcast.
        a_affine, b_affine, y_affine: (scale, zero_point) of each.
        spec: The output grid, an integer format.
        bounds: (low, high) codes from `activation_bounds`, for a Relu or Clip behind it.
    Returns:
        int32 codes, the shapes broadcast together.

    Rule N26.
    """
    reals = reals_of(a, a_affine) + reals_of(b, b_affine)
    return to_codes(reals / positive_scale(y_affine[0]), y_affine[1], spec, bounds)


def reals_of(q: ArrayLike, affine: Affine) -> NDArray[np.float32]:
    """Compute ``fl32((q - z) * s)``; what leaves float32 is infinite."""
    steps = subtract_zero_point(q, affine[1], "codes").astype(np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(steps * positive_scale(affine[0]))


def rescale(q: ArrayLike, in_affine: Affine, out_affine: Affine, spec: QuantSpec) -> NDArray[np.int32]:
    """Compute ``y = clamp(rne(fl32(fl32((q - z_in) * s_in) / s_out)) + z_out)``: one input of a Concat.

    NORMATIVE.

    Args:
        q: Codes, any shape.
        in_affine, out_affine: (scale, zero_point) read and written.
        spec: The output grid, an integer format.
    Returns:
        int32 codes, shape of `q`.

    Rules N28, N43.
    """
    return to_codes(reals_of(q, in_affine) / positive_scale(out_affine[0]), out_affine[1], spec)
