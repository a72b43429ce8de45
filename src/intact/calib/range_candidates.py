"""Computes the range that each method chooses for a tensor, and picks the one of least expected error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact import kernels
from intact.calib.calibration_methods import LEAST_VALUES, METHODS, MethodOptions
from intact.calib.choose_amax import Stats, check_method, match_granularity, range_of
from intact.calib.histogram import Histogram
from intact.errors import IntactError
from intact.numerics import affine_from_range, scale_from_amax
from intact.signal_to_noise import signal_to_noise
from intact.spec import QuantSpec

Ends = tuple[NDArray[np.float32], NDArray[np.float32]]
Key = TypeVar("Key")

LEAST_ERROR = "least expected error"
"""The configuration in which each tensor has the range of the method that suits it."""


@dataclass(frozen=True)
class ChosenRange:
    """Holds the range of one tensor, and the method that chose it.

    Attributes:
        ends: (rmin, rmax), float32, granule shape.
        method: One of `METHODS`.
    """

    ends: Ends
    method: str


@dataclass
class Candidates:
    """Computes and caches the range that each method chooses for one tensor.

    Attributes:
        name: The tensor or quantizer in words, for errors: "quantizer 'conv1._input_quantizer'".
        stats: What was collected of it.
        spec: Its grid and granularity.
        options: Of the methods, see `intact.calib.amax_of`; `least_values` is `LEAST_VALUES` where it is not
            given.
    """

    name: str
    stats: Stats
    spec: QuantSpec
    options: dict[str, Any] = field(default_factory=dict)
    _ranges: dict[str, ChosenRange] = field(default_factory=dict, repr=False)

    def by(self, method: str) -> ChosenRange:
        """Return the range by `method`, or by "max" where the statistic or the grid offers no other.

        Raises:
            IntactError: As for `range_of`; names the tensor.
        """
        method = method if method in self.methods else "max"
        if method not in self._ranges:
            options = {"least_values": LEAST_VALUES} | self.options
            try:
                self._ranges[method] = ChosenRange(range_of(self.stats, self.spec, method, **options), method)
            except IntactError as error:
                raise error.at(self.name) from None
        return self._ranges[method]

    def least_error(self) -> ChosenRange:
        """Return the range of the smallest expected squared error among all methods."""
        if not isinstance(self.stats, Histogram):
            return self.by("max")
        ranges = [self.by(method) for method in self.methods]
        error = QuantizationError(self.stats, self.spec)
        errors = [error.mean_square(self._argument(r.ends)) for r in ranges]
        return ranges[int(np.argmin(errors))]

    def is_too_few(self, method: str) -> bool:
        """Return whether the tensor has too few values for `method`, so that the range is whole."""
        options = MethodOptions(**{"least_values": LEAST_VALUES} | self.options)
        return isinstance(self.stats, Histogram) and not METHODS[method].is_served_by(
            self.stats.count, options
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that the statistic and the grid offer."""
        if not isinstance(self.stats, Histogram):
            return ("max",)
        return tuple(name for name, method in METHODS.items() if method.offers(self.spec))

    def _argument(self, ends: Ends) -> Any:
        return ends[1] if self.spec.symmetric else ends


def by_method(
    candidates: Mapping[Key, Candidates], methods: Mapping[Key, str], method: str
) -> dict[Key, ChosenRange]:
    """Return the ranges of all tensors: by `method` where "auto" is requested, else by the requested
    method.

    Args:
        candidates: Ranges of each tensor by method.
        methods: What is requested for each tensor.
        method: For those with "auto".
    """
    return {key: candidates[key].by(method if m == "auto" else m) for key, m in methods.items()}


def configurations(
    candidates: Mapping[Key, Candidates], methods: Mapping[Key, str], *, several: bool
) -> dict[str, dict[Key, ChosenRange]]:
    """Return the ranges of all tensors for each configuration, by its name.

    Args:
        candidates: By tensor.
        methods: The method of each tensor; those with "auto" are free.
        several: Whether configurations can be compared.
    """
    free = any(m == "auto" for m in methods.values())
    names = (LEAST_ERROR, *(METHODS if free and several else ()))
    return {name: configuration(candidates, methods, name) for name in names}


def configuration(
    candidates: Mapping[Key, Candidates], methods: Mapping[Key, str], name: str
) -> dict[Key, ChosenRange]:
    """Return the ranges of all tensors for one configuration.

    Args:
        candidates: Of each tensor.
        methods: The method of each tensor, "auto" where the configuration chooses.
        name: One of the names that `configurations` gives.
    """
    if name != LEAST_ERROR:
        return by_method(candidates, methods, name)
    return {
        key: candidates[key].least_error() if m == "auto" else candidates[key].by(m)
        for key, m in methods.items()
    }


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
    """Return the signal to quantization noise ratio in dB, 10 log10(E x^2 / E err^2); inf without error.

    Args:
        stats: Of the tensor.
        spec: The grid.
        amax: The largest magnitude, or both ends, float32 of the shape of the scales.
    """
    quantization_error = QuantizationError(stats, spec)
    return signal_to_noise(quantization_error.signal, quantization_error.mean_square(amax))


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
