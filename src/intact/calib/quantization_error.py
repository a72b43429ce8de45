"""What a range costs: the squared error that quantization with it makes on the collected values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from intact.calib.amax import checked, fitted
from intact.calib.histogram import Histogram
from intact.numerics import affine_from_range, fake_quantize, scale_from_amax
from intact.spec import QuantSpec


def expected_error(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Mean squared error that quantization with this range makes on the collected values.

    Every bin counts with its middle (the first one with 0), quantized by `numerics.fake_quantize`.

    Args:
        stats: The histogram of the tensor.
        spec: The grid and granularity.
        amax: Granule-shaped amax of a symmetric grid, or (rmin, rmax).
    Returns:
        The mean over all values of all channels, in the tensor's unit squared.
    Raises:
        CalibrationError: Nothing was collected, or the statistic does not fit.
    """
    checked(stats, spec, "mse", {})
    error, _ = _mean_squares(stats, spec, amax)
    return error


def expected_sqnr(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Signal to quantization noise ratio in dB: 10 log10(E x^2 / E err^2); inf where nothing is lost."""
    checked(stats, spec, "mse", {})
    error, signal = _mean_squares(stats, spec, amax)
    if error == 0:
        return float("inf")
    return 10 * float(np.log10(signal / error)) if signal > 0 else float("-inf")


def _mean_squares(
    stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]
) -> tuple[float, float]:
    """Means of the squared error and of the squared values."""
    rows = fitted(stats, spec)
    assert isinstance(rows, Histogram)
    if spec.symmetric:
        scale = scale_from_amax(amax[1] if isinstance(amax, tuple) else amax, spec)
        zero_point = np.zeros((), np.int32)
    else:
        low, high = amax if isinstance(amax, tuple) else (np.negative(amax), amax)
        scale, zero_point = affine_from_range(low, high, spec)
    middles = np.arange(rows.positive.shape[-1]) + 0.5
    middles[0] = 0
    x = np.multiply.outer(rows.bin_width, middles)
    error = signal = 0.0
    by_row = spec.with_(axis=None if rows.axis is None else 0)
    for counts, sign in ((rows.positive, 1), (rows.negative, -1)):
        real = (sign * x).astype(np.float32)
        lost = real - fake_quantize(real, scale, zero_point, by_row).astype(np.float64)
        error += float((counts * lost**2).sum())
        signal += float((counts * x**2).sum())
    total = int(rows.count.sum())
    return error / total, signal / total
