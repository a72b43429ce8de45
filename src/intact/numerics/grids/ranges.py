"""Scale and zero point from a range. Nothing else in INTact computes a scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.spec import QuantSpec

ZERO_RANGE = np.float32(2.0**-24)
"""A range at or below this holds no information: its scale is 1 (N7)."""


def scale_from_amax(amax: ArrayLike, spec: QuantSpec) -> NDArray[np.float32]:
    """Compute ``scale = amax / qmax`` in float32; a range of zero gets scale 1. NORMATIVE.

    Args:
        amax: Largest magnitude of each granule, float32, >= 0, in the unit of the tensor.
        spec: The target grid; its `qmax` is the divisor (127 for int8, 255 for uint8, 448 for fp8e4m3).
    Returns:
        float32, > 0, shape of `amax`.
    Raises:
        QuantValueError: `amax` is negative, NaN or infinite.
    Numerics: one float32 division. `amax` at or below 2**-24 gives 1.
    Source: ONNX QuantizeLinear; TensorRT explicit quantization, symmetric scheme.

    Rules N5, N7, N8, N36.
    """
    amax = _finite(amax, "amax")
    if (amax < 0).any():
        raise QuantValueError(
            "amax", f"{amax.min()}", "a value >= 0", "pass the largest magnitude, not a signed maximum"
        )
    scale = amax / np.float32(spec.qmax)
    return np.where(amax <= ZERO_RANGE, np.float32(1), scale).astype(np.float32)


def affine_from_range(
    rmin: ArrayLike, rmax: ArrayLike, spec: QuantSpec
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Compute ``scale = (rmax - rmin) / (qmax - qmin)``, ``zero_point = clamp(qmax - rne(rmax / scale))``.

    NORMATIVE.

    The range is widened to contain 0 first, so that real 0 is always a code.

    Args:
        rmin, rmax: Ends of each granule's range, float32, in the unit of the tensor, rmin <= rmax.
        spec: The target grid, an integer format.
    Returns:
        scale, float32, > 0, and zero_point, int32 in [qmin, qmax], both of the shape of `rmin`.
    Raises:
        QuantValueError: A bound is NaN or infinite, rmin > rmax, rmax - rmin is beyond float32, or the
            format is a float format.
    Numerics: float32 throughout, ties to even. A width at or below 2**-24 gives scale 1, zero point 0.
    Source: ONNX QuantizeLinear; Jacob et al. 2018, section 2.1.

    Rules N6, N7, N8, N36.
    """
    if spec.format.is_float:
        raise QuantValueError(
            "format",
            spec.format.name,
            "an integer format: a float grid has no zero point",
            "use scale_from_amax",
        )
    low, high = _finite(rmin, "rmin"), _finite(rmax, "rmax")
    if (low > high).any():
        raise QuantValueError("rmin", "a value above rmax", "rmin <= rmax", "swap the two bounds")
    low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
    with np.errstate(over="ignore"):
        width = high - low
    if not np.isfinite(width).all():
        raise QuantValueError("rmax - rmin", "a width beyond float32", "a finite width", "narrow the range")
    empty = width <= ZERO_RANGE
    scale = np.where(empty, np.float32(1), width / np.float32(spec.qmax - spec.qmin)).astype(np.float32)
    zero_point = np.clip(np.float32(spec.qmax) - np.rint(high / scale), spec.qmin, spec.qmax)
    return scale, np.where(empty, 0, zero_point).astype(np.int32)


def inverse_scale_view(amax: ArrayLike, spec: QuantSpec) -> NDArray[np.float32]:
    """Compute ``qmax / amax`` in float32: what `pytorch_quantization` calls "scale".

    A view, never used to quantize.

    Args:
        amax: Largest magnitude of each granule, float32.
        spec: The target grid.
    Returns:
        float32, shape of `amax`; 1 where the range is zero.

    Rule N34.
    """
    amax = np.asarray(amax, np.float32)
    safe = np.where(amax <= ZERO_RANGE, np.float32(1), amax)
    return np.where(amax <= ZERO_RANGE, np.float32(1), np.float32(spec.qmax) / safe).astype(np.float32)


def _finite(values: ArrayLike, name: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a float64 beyond float32 is infinite, and refused below
        array = np.asarray(values).astype(np.float32)
    if not np.isfinite(array).all():
        raise QuantValueError(
            name,
            "NaN or infinity",
            "finite values",
            "look for NaN or infinity in the data that the range was collected from",
        )
    return array
