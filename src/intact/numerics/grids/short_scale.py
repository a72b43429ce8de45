"""Scales with few significant bits, with which float arithmetic on codes hardly rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import positive_scale, representable_range
from intact.numerics.grids.ranges import ZERO_RANGE, affine_from_range, scale_from_amax
from intact.spec import QuantSpec

SHORT_BITS = 4
"""With 4 bits the product of two dequantized bytes fits float32's 24 exactly, and sums of such products
stay exact up to 2^16 steps: frameworks that add in different orders get the same sum.

Rule N9.
"""


def short_amax(amax: ArrayLike, spec: QuantSpec, bits: int = SHORT_BITS) -> NDArray[np.float32]:
    """Return the smallest magnitude from `amax` up whose scale has at most `bits` significant bits.

    NORMATIVE.

    Args:
        amax: Largest magnitude of each granule, float32, >= 0, in the unit of the tensor.
        spec: The target grid.
        bits: Significant bits of ``amax / qmax``, 1..8. The step grows by less than 2^(1 - bits), with 4
            bits by 4.6% on average.
    Returns:
        float32, shape of `amax`, at least `amax` up to one ulp; a range of zero stays as it is.
    Raises:
        QuantValueError: `bits` is out of range, or `amax` is negative, NaN or infinite.
    Numerics: ``scale_from_amax`` of the result is the short scale exactly. Where the result would leave
        float32, `amax` stays as it is.

    Rule N9.
    """
    amax = np.asarray(amax, np.float32)
    with np.errstate(over="ignore"):
        short = (_round_up(scale_from_amax(amax, spec), bits) * spec.qmax).astype(np.float32)
    return np.where((amax <= ZERO_RANGE) | ~np.isfinite(short), amax, short)


def short_range(
    rmin: ArrayLike, rmax: ArrayLike, spec: QuantSpec, bits: int = SHORT_BITS
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the range of an asymmetric grid like [rmin, rmax] whose scale has at most `bits` significant
    bits.

    NORMATIVE. The zero point is rounded for the short scale, and is the grid's first or last code where 0
    ends the range; the ends are those that the grid then reaches.

    Args:
        rmin, rmax: Ends of each granule's range, float32, rmin <= rmax.
        spec, bits: As for `short_amax`; an integer format.
    Returns:
        (rmin, rmax), float32, shape of `rmin`; a range of zero width stays as it is.
    Raises:
        QuantValueError: As for `affine_from_range`, or `bits` is out of range.
    Numerics: ``affine_from_range`` of the result gives the short scale exactly.

    Rule N9.
    """
    low, high = np.asarray(rmin, np.float32), np.asarray(rmax, np.float32)
    scale, zero_point = affine_from_range(low, high, spec)
    empty = np.maximum(high, 0) - np.minimum(low, 0) <= ZERO_RANGE
    with np.errstate(over="ignore"):
        short = _round_up(scale, bits).astype(np.float32)
        code = np.rint(np.maximum(high, np.float32(0)) / short)
        zero_point = np.clip(np.float32(spec.qmax) - code, spec.qmin, spec.qmax)
        zero_point = np.where(
            low >= 0, np.float32(spec.qmin), zero_point
        )  # negative numbers do not occur: they get no code
        ends = representable_range(short, zero_point.astype(np.int32), spec)
        keep = empty | ~np.isfinite(ends[1] - ends[0])
    return np.where(keep, low, ends[0]), np.where(keep, high, ends[1])


def midway_bias(
    bias: ArrayLike,
    x_scale: ArrayLike,
    w_scale: ArrayLike,
    y_scale: ArrayLike,
    residual_scale: ArrayLike | None = None,
) -> NDArray[np.float32]:
    """Return the bias nearest to `bias` that keeps a layer's floats farthest from where codes change.

    NORMATIVE.

    A real in front of a quantizer is ``n * s_x * s_w + bias [+ r * s_r]``, a boundary ``(k + 1/2) * s_y``,
    with integers n, r and k. All their differences are ``bias - s_y / 2`` and a multiple of
    ``g = gcd(s_x * s_w, s_y [, s_r])``: here `bias` moves by g/2 at most, and none is below g/2. With short
    scales that is more than most float evaluations are off by, whatever their order.

    Args:
        bias: Real bias, float32, [channels] or one number.
        x_scale: Scale of the input codes, float32, one number.
        w_scale: Scale of the weight codes, float32, one number or [channels].
        y_scale: Scale of the output codes, one number.
        residual_scale: Scale of the codes that are added behind the bias, one number; None: there are none.
    Returns:
        float32, shape of `bias`. A bias whose new value float32 could not hold stays as it is.
    Raises:
        QuantValueError: A scale is not positive and finite.
    Numerics: exact; every number is a multiple of g/2, below 2^29 of them and thus of 53 bits.

    Rule N9.
    """
    bias = np.asarray(bias, np.float32)
    x, w, y = (positive_scale(s).astype(np.float64) for s in (x_scale, w_scale, y_scale))
    gap = _common_divisor(x * w, y)
    if residual_scale is not None:
        gap = _common_divisor(gap, positive_scale(residual_scale).astype(np.float64))
    steps = np.rint((bias - y / 2) / gap - 0.5)
    midway = (steps + 0.5) * gap + y / 2
    with np.errstate(over="ignore"):
        is_exact = (np.abs(steps) < 2**28) & (midway.astype(np.float32) == midway)
    return np.where(is_exact, midway, bias).astype(np.float32)


def _common_divisor(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest number of which both are integer multiples; positive numbers of at most 53 bits."""
    (first, low), (second, lower) = _odd_part(a), _odd_part(b)
    divisor: NDArray[np.float64] = np.ldexp(np.gcd(first, second).astype(np.float64), np.minimum(low, lower))
    return divisor


def _odd_part(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (odd, exponent) with ``odd * 2^exponent`` the values."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = whole & -whole
    return whole // lowest, exponent - 54 + np.frexp(lowest.astype(np.float64))[1]


def _round_up(scale: NDArray[np.float32], bits: int) -> NDArray[np.float64]:
    """Round scales up to `bits` significant bits."""
    if not 1 <= bits <= 8:
        raise QuantValueError("scale_bits", str(bits), "1..8, or None", "use 4, or None for exact ranges")
    mantissa, exponent = np.frexp(scale.astype(np.float64))
    short: NDArray[np.float64] = np.ldexp(np.ceil(mantissa * 2**bits), exponent - bits)
    return short
