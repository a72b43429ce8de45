"""Holds the statistics of a model's tensors by name, with their provenance, and saves them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact._version import __version__
from intact.calib import calib_files
from intact.calib.choose_amax import Stats, range_of
from intact.calib.histogram import Histogram
from intact.calib.range import Range
from intact.errors import CalibrationError, IntactError
from intact.numerics import ZERO_RANGE
from intact.spec import QuantSpec


class ZeroRangeWarning(UserWarning):
    """A tensor holds nothing but zeros, or values so small that its scale will be 1."""


class Calibration(MutableMapping[str, Stats]):
    """Maps tensor names to statistics, in the order in which they were added, with their provenance.

    Args:
        stats: What to start with; not copied.
        provenance: Where the statistics come from: records of JSON values, see `record`.

    Example:
        >>> calibration = Calibration()
        >>> calibration.collect("conv1.input", np.float32([[0.5, -1.0]]))
        >>> calibration.record(source="two numbers", batches=1, samples=1)
        >>> print(calibration.amax(QuantSpec("int8"))["conv1.input"])
        1.0
    """

    def __init__(
        self, stats: Mapping[str, Stats] | None = None, provenance: list[dict[str, Any]] | None = None
    ) -> None:
        self._stats: dict[str, Stats] = {}
        self.provenance: list[dict[str, Any]] = list(provenance or [])
        self.update(stats or {})

    def record(self, *, source: str = "", batches: int = 0, samples: int = 0, **info: Any) -> None:
        """Add one record of provenance: this tool and its version, and what the caller says.

        Args:
            source: The data, in words, or its path or hash.
            batches, samples: How much of it was collected.
            info: Anything else to keep, as JSON values. No time is added: equal work gives equal files.
        """
        tool = f"intact {__version__}"
        self.provenance.append(
            {"tool": tool, "source": source, "batches": batches, "samples": samples, **info}
        )

    def collect(self, name: str, x: ArrayLike, *, axis: int | None = None, threads: int = 1) -> None:
        """Count `x` in the histogram called `name`, which is made with `axis` if it is new.

        Args:
            name: Of the tensor.
            x: Real numbers, any shape that has `axis`.
            axis: That keeps a histogram for each index; None: one in all.
            threads: Of the kernel.
        Raises:
            CalibrationError: As for `Histogram.collect`; names the tensor.
        """
        stats = self._stats.get(name)
        stats = Histogram(axis) if stats is None else stats
        try:
            stats.collect(x, threads=threads)
        except IntactError as error:
            raise error.at(f"tensor '{name}'") from error
        self._stats[name] = stats

    def collect_apart(self, name: str, x: ArrayLike, *, threads: int = 1) -> Histogram:
        """Count `x` as `collect` does without an axis, and return the histogram of it alone.

        Raises:
            CalibrationError: As for `Histogram.collect`; names the tensor.
        """
        stats = self._stats.get(name, Histogram())
        assert isinstance(stats, Histogram), "collected by `collect`"
        try:
            part = stats.collect_apart(x, threads=threads)
        except IntactError as error:
            raise error.at(f"tensor '{name}'") from error
        self._stats[name] = stats
        return part

    def merge(self, *calibrations: Calibration) -> Self:
        """Add the statistics of `calibrations`, which stay as they are; returns self.

        Neither the order nor the grouping of merges changes the statistics; the records of provenance
        are sorted, so that it does not change them either.

        Raises:
            CalibrationError: The names differ, or two statistics of one name do not fit; names the tensor.
        """
        for other in calibrations:
            self._require_names(other)
            merged = {}
            for name, stats in self.items():
                try:  # on copies: an error half-way must not leave some tensors merged
                    merged[name] = deepcopy(stats).merge(other[name])  # type: ignore[arg-type]
                except IntactError as error:
                    raise error.at(f"tensor '{name}'") from error
            self._stats = merged
            joined = self.provenance + other.provenance
            self.provenance = sorted(joined, key=lambda r: json.dumps(r, sort_keys=True))
        return self

    def _require_names(self, other: Calibration) -> None:
        if missing := sorted(self.keys() ^ other.keys()):
            shown = ", ".join(repr(name) for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise CalibrationError(
                "merge",
                f"{len(missing)} tensors that only one of the two has: {shown}",
                "the same tensors in both",
                "collect the same model with the same quantizers enabled in every run",
            )

    def ranges(
        self, spec: QuantSpec | Mapping[str, QuantSpec], method: str = "max", **options: Any
    ) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Return (rmin, rmax) of every tensor by `range_of`.

        Args:
            spec: One for all, or by name; with a mapping the tensors that it lacks are left out.
            method, options: As for `range_of`.
        Raises:
            IntactError: As for `range_of`; names the tensor.
        Warns:
            ZeroRangeWarning: A tensor is zero throughout.
        """
        return self._ranges(spec, method, options)

    def amax(
        self, spec: QuantSpec | Mapping[str, QuantSpec], method: str = "max", **options: Any
    ) -> dict[str, NDArray[np.float32]]:
        """Return amax of every tensor; errors and warnings as for `ranges`.

        Args:
            spec: A symmetric grid for all tensors, or one for each by name.
            method: As for `amax_of`.
            options: Of the method.
        Returns:
            By name: float32 of the shape of the tensor's scales, () or [channels].
        Raises:
            CalibrationError: A grid is asymmetric; names the tensor.
            IntactError: As for `range_of`.
        """
        specs = dict.fromkeys(self, spec) if isinstance(spec, QuantSpec) else spec
        for name, spec_of_tensor in specs.items():
            if not spec_of_tensor.symmetric:
                where = f"tensor '{name}': spec"
                raise CalibrationError(
                    where, str(spec_of_tensor), "a symmetric grid", "use ranges for an asymmetric one"
                )
        return {name: high for name, (_, high) in self._ranges(specs, method, options).items()}

    def _ranges(
        self, spec: QuantSpec | Mapping[str, QuantSpec], method: str, options: dict[str, Any]
    ) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        result = {}
        for name, stats in self.items():
            spec_of_tensor = spec if isinstance(spec, QuantSpec) else spec.get(name)
            if spec_of_tensor is None:
                continue
            try:
                low, high = range_of(stats, spec_of_tensor, method, **options)
            except IntactError as error:
                raise error.at(f"tensor '{name}'") from error
            idle = int((np.maximum(-low, high) <= ZERO_RANGE).sum())
            if idle:
                part = "; its" if np.ndim(high) == 0 else f" in {idle} of {np.size(high)} channels; their"
                text = f"tensor '{name}': every value is zero or almost{part} scale is 1"
                warnings.warn(text, ZeroRangeWarning, stacklevel=3)
            result[name] = low, high
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.calib` file; an older one of that name is replaced only by a whole one."""
        calib_files.write(path, self._stats, self.provenance)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a `.calib` file.

        Raises:
            FileFormatError: The file is damaged, of another kind or version.
            FileAccessError: The file cannot be read.
        """
        return cls(*calib_files.read(path))

    def __getitem__(self, name: str) -> Stats:
        return self._stats[name]

    def __setitem__(self, name: str, stats: Stats) -> None:
        if not isinstance(stats, (Histogram, Range)):
            raise CalibrationError(
                f"tensor '{name}'",
                f"a {type(stats).__name__}",
                "a Histogram or a Range",
                "collect into one of the two",
            )
        self._stats[name] = stats

    def __delitem__(self, name: str) -> None:
        del self._stats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stats)

    def __len__(self) -> int:
        return len(self._stats)

    def __repr__(self) -> str:
        return f"Calibration({len(self)} tensors, provenance of {len(self.provenance)} runs)"
