"""Rounding to the small float formats: fp8 e4m3 and e5m2, fp4 e2m1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.spec import Format


def round_to_format(x: NDArray[np.float32], fmt: Format) -> NDArray[np.float32]:
    """Round to the nearest value of `fmt`, ties to even mantissa, saturating at the largest finite one.

    NORMATIVE.

    Args:
        x: float32, any shape; infinities saturate, a NaN stays a NaN (fp4, which has none, gives 0).
        fmt: A float format.
    Returns:
        float32 values of the grid, shape of `x`.
    Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0 (e2m1);
        ONNX Cast with saturate = 1.

    Rule N2.
    """
    clamped = np.clip(x, np.float32(fmt.qmin), np.float32(fmt.qmax))
    if fmt.name == "fp4e2m1":
        clamped = np.nan_to_num(clamped, nan=0.0)
    return np.asarray(clamped.astype(fmt.storage_dtype).astype(np.float32))
