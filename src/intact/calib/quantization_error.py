"""Computes the squared error that quantization with a range makes on collected values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from intact import kernels
from intact.calib.choose_amax import check_method, match_granularity
from intact.calib.histogram import Histogram
from intact.numerics import affine_from_range, scale_from_amax
from intact.spec import QuantSpec


def expected_error(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Return the mean squared error that quantization with this range makes on the collected values.

    Every bin counts with its middle (the first one with 0), quantized by `kernels.fake_quantize`.

    Args:
        stats: The histogram of the tensor.
        spec: The grid and granularity.
        amax: Granule-shaped amax of a symmetric grid, or (rmin, rmax).
    Returns:
        The mean over all values of all channels, in the tensor's unit squared.
    Raises:
        CalibrationError: Nothing was collected, or the statistic does not fit.
    """
    return QuantizationError(stats, spec).mean_square(amax)


def expected_sqnr(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Return the signal to quantization noise ratio in dB, 10 log10(E x^2 / E err^2); inf without error."""
    quantization_error = QuantizationError(stats, spec)
    error, signal = quantization_error.mean_square(amax), quantization_error.signal
    if error == 0:
        return float("inf")
    return 10 * float(np.log10(signal / error)) if signal > 0 else float("-inf")


class QuantizationError:
    """Computes the errors of several ranges on the same values.

    Args:
        stats, spec: As for `expected_error`, which has the errors, too.
    """

    def __init__(self, stats: Histogram, spec: QuantSpec) -> None:
        check_method(stats, spec, "mse", {})
        rows = match_granularity(stats, spec)
        assert isinstance(rows, Histogram)
        positive, negative = rows.positive, rows.negative
        middles = np.arange(positive.shape[-1]) + 0.5
        middles[0] = 0
        self._x = np.multiply.outer(rows.bin_width, middles)
        self._halves = [
            (counts, (sign * self._x).astype(np.float32))
            for counts, sign in ((positive, 1), (negative, -1))
            if counts.any()
        ]
        self._spec, self._by_row = spec, spec.with_(axis=None if rows.axis is None else 0)
        self._total = int(rows.count.sum())

    @property
    def signal(self) -> float:
        """The mean of the squared values."""
        return sum(float((counts * self._x**2).sum()) for counts, _ in self._halves) / self._total

    def mean_square(self, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
        """Return the mean squared error of a range; `amax` as for `expected_error`."""
        scale, zero_point = self._grid(amax)
        error = 0.0
        for counts, real in self._halves:
            rounded = kernels.fake_quantize(real, scale, zero_point, self._by_row)
            error += float((counts * (real - rounded.astype(np.float64)) ** 2).sum())
        return error / self._total

    def _grid(self, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> tuple[ArrayLike, ArrayLike]:
        if self._spec.symmetric:
            scale = scale_from_amax(amax[1] if isinstance(amax, tuple) else amax, self._spec)
            return scale, np.zeros((), np.int32)
        low, high = amax if isinstance(amax, tuple) else (np.negative(amax), amax)
        return affine_from_range(low, high, self._spec)
