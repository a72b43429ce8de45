"""Statistics for calibration: largest magnitudes, ranges and histograms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import to_float32
from intact.numerics.grids.granularity import normalize_axes
from intact.spec import QuantSpec


def absmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> NDArray[np.float32]:
    """Return the largest magnitude of each granule. NORMATIVE.

    Args:
        x: Reals of any shape.
        axis: The axes that keep an index of their own; None for one number.
    Returns:
        float32, the sizes of the kept axes in ascending order. NaN where a granule holds a NaN, 0 where
        it is empty.

    Rule N10.
    """
    x = np.abs(to_float32(x))
    return np.asarray(np.max(x, axis=_inner_axes(x.shape, axis), initial=np.float32(0)))


def minmax(
    x: ArrayLike, axis: int | tuple[int, ...] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the smallest and largest value of each granule. NORMATIVE.

    Args:
        x: Any shape; becomes float32.
        axis: The axes of the scales, None for one of the whole tensor.
    Returns:
        Both of shape () or of the sizes of these axes.

    An empty granule gives (inf, -inf), the identity of a merge. A
    zero comes out positive, because which of two zeros is the smaller depends on their order.

    Rule N10.
    """
    x = to_float32(x)
    axes = _inner_axes(x.shape, axis)
    low = np.min(x, axis=axes, initial=np.float32(np.inf))
    high = np.max(x, axis=axes, initial=np.float32(-np.inf))
    return np.asarray(low + np.float32(0)), np.asarray(high + np.float32(0))


def count_pow2(x: ArrayLike, exponent: int, bins: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count negative and other values in bins of |x|, each 2**exponent wide. NORMATIVE.

    Bin ``floor(|x| * 2**-exponent)``: the product with a power of two is exact, so that bins of one
    exponent are unions of bins of a smaller one.

    Args:
        x: Reals of any shape. Non-finite values, and values at or beyond bins * 2**exponent, are not counted.
        exponent: Width of a bin, as a power of two.
        bins: Number of bins.
    Returns:
        (negative, positive), int64 [bins] each. Zeros of either sign count as positive.

    Rule N10.
    """
    x = to_float32(x).reshape(-1)
    magnitude = np.abs(x).astype(np.float64) * 2.0**-exponent
    inside = magnitude < bins  # false for NaN
    index, negative = magnitude[inside].astype(np.int64), x[inside] < 0
    return (
        np.bincount(index[negative], minlength=bins),
        np.bincount(index[~negative], minlength=bins),
    )


def count_fixed(x: ArrayLike, width: float, bins: int) -> NDArray[np.int64]:
    """Count |x| in bins of any width; values beyond the last edge go to the last bin. NORMATIVE.

    Bin ``min(floor(fl32(|x| / width)), bins - 1)``, as `pytorch_quantization`'s histograms have it.

    Args:
        x: Reals of any shape. NaN is not counted.
        width: Width of a bin, rounded to float32, > 0.
        bins: Number of bins.
    Returns:
        int64 [bins].
    Raises:
        QuantValueError: `width` is not a positive finite float32.

    Rule N10.
    """
    if not 0 < np.float32(width) < np.inf:
        raise QuantValueError(
            "width", str(width), "a positive finite float32", "give the histogram a range that is not zero"
        )
    x = np.abs(to_float32(x).reshape(-1))
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        index = np.minimum(np.floor(x / np.float32(width)), np.float32(bins - 1))
    return np.bincount(index.astype(np.int64), minlength=bins)


def _inner_axes(shape: tuple[int, ...], axis: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes within a granule."""
    own_axes = normalize_axes(shape, QuantSpec(axis=axis))
    return tuple(a for a in range(len(shape)) if a not in own_axes)
