"""Codes of one grid as codes of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import positive_scale
from intact.numerics.integers.add import Affine, reals_of
from intact.numerics.integers.requantize import to_codes
from intact.spec import QuantSpec


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
