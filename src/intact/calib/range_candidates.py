"""Computes the range that each method chooses for a tensor, and picks the one of least expected error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.calib.calibration_methods import LEAST_VALUES, METHODS, MethodOptions
from intact.calib.choose_amax import Stats, range_of
from intact.calib.histogram import Histogram
from intact.calib.quantization_error import QuantizationError
from intact.errors import IntactError
from intact.spec import QuantSpec

Ends = tuple[NDArray[np.float32], NDArray[np.float32]]
Key = TypeVar("Key")


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
    least = {
        key: candidates[key].least_error() if m == "auto" else candidates[key].by(m)
        for key, m in methods.items()
    }
    by_name = {"least expected error": least}
    for method in METHODS if free and several else ():
        by_name[method] = by_method(candidates, methods, method)
    return by_name
