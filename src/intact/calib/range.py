"""Exact ends of a tensor, without a histogram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.calib.exact_bounds import (
    Axis,
    Bounds,
    NonFinite,
    as_real,
    measure,
    require,
    require_same_axis,
    resolve_axes,
)
from intact.errors import CalibrationError


class Range:
    """Holds the exact smallest and largest value, which suffice for the method "max" at any granularity.

    Merges as a Histogram does, with the same independence from batches, order and split.

    Args:
        axis: None for one range of the whole tensor, or the axis or axes (negative: from the end of the
            first tensor) whose every index keeps a range of its own.
        nonfinite: "raise" refuses a tensor with NaN or infinities; "count" counts and leaves them out,
            and a method refuses when a range is asked for.

    The properties have the sizes of the kept axes as their shape, () when `axis` is None.
    """

    def __init__(self, axis: Axis = None, *, nonfinite: NonFinite = "raise") -> None:
        self.axis: Axis = tuple(axis) if isinstance(axis, (tuple, list)) else axis
        self._policy: NonFinite = nonfinite
        self._bounds: Bounds | None = Bounds.empty(()) if axis is None else None

    def collect(self, x: ArrayLike, *, threads: int = 1) -> None:
        """Widen the range to hold `x`. An empty tensor changes nothing.

        Args:
            x: float32, float16, bfloat16 or float64, of any shape that has `axis`. Not copied.
            threads: How many threads the kernel may use.
        Raises:
            CalibrationError: `x` holds NaN or infinities (unless they are to be counted), its dtype is
                not a real one, or the sizes of the kept axes changed. The range stays as it was then.
        """
        array = as_real(x)
        if array.size:
            axis = resolve_axes(self.axis, array.ndim)
            self._add(measure(array, axis, self._policy, threads), axis)

    def merge(self, other: Range) -> Self:
        """Widen to hold what `other` holds, which stays as it is. In place; returns self.

        Raises:
            CalibrationError: `other` is not a Range, or has other axes or sizes.
        """
        if not isinstance(other, Range):
            raise CalibrationError(
                "merge",
                f"a {type(other).__name__}",
                "a Range",
                "collect the tensor with the same kind of statistic in every process and run",
            )
        require_same_axis(self.axis, other.axis)
        if other._bounds is not None:
            self._add(other._bounds, other.axis)
        return self

    def per_tensor(self) -> Range:
        """Return one range of all granules together."""
        whole, bounds = Range(nonfinite=self._policy), self._own_bounds
        if bounds.count.any():
            low, high = np.asarray(bounds.low.min()), np.asarray(bounds.high.max())
            whole._bounds = Bounds(
                low, high, np.asarray(bounds.count.sum()), np.asarray(bounds.nonfinite.sum())
            )
        return whole

    def _add(self, bounds: Bounds, axis: Axis) -> None:
        if self._bounds is None:
            self._bounds = Bounds.empty(bounds.low.shape)
        elif self._bounds.low.shape != bounds.low.shape:
            raise CalibrationError(
                "channels",
                f"sizes {bounds.low.shape} on axis {axis}",
                f"sizes {self._bounds.low.shape}, as in what was collected before",
                "use one statistic per tensor, and axes whose sizes never change",
            )
        self.axis = axis
        self._bounds.merge(bounds)

    @property
    def _own_bounds(self) -> Bounds:
        return Bounds.empty((0,)) if self._bounds is None else self._bounds

    @property
    def min(self) -> NDArray[np.float32]:
        """Smallest finite value; inf before the first."""
        return self._own_bounds.low

    @property
    def max(self) -> NDArray[np.float32]:
        """Largest finite value; -inf before the first."""
        return self._own_bounds.high

    @property
    def amax(self) -> NDArray[np.float32]:
        """Largest finite magnitude; 0 before the first value."""
        return self._own_bounds.amax

    @property
    def count(self) -> NDArray[np.int64]:
        """Number of finite values."""
        return self._own_bounds.count

    @property
    def nonfinite(self) -> NDArray[np.int64]:
        """Number of NaN and infinities that were left out."""
        return self._own_bounds.nonfinite

    def to_arrays(self) -> dict[str, NDArray]:
        """Return the whole content as arrays: for files and other processes."""
        return self._own_bounds.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], axis: Axis = None) -> Self:
        """Return the range that `to_arrays` took apart.

        Args:
            arrays: By the names that files use.
            axis: As for the constructor.
        Raises:
            CalibrationError: An array is missing, has a wrong dtype or shape, or contradicts another one.
        """
        restored = cls(axis)
        require("min" in arrays, "min", "nothing", "an array")
        shape = arrays["min"].shape
        rank = 0 if axis is None else 1 if isinstance(axis, int) else len(axis)
        require(len(shape) == rank, "min", f"shape {shape}", f"{rank} dimensions, for axis {axis}")
        restored._bounds = Bounds.from_arrays(arrays, shape)
        return restored

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Range):
            return NotImplemented
        mine, theirs = self.to_arrays(), other.to_arrays()
        return self.axis == other.axis and all(np.array_equal(mine[k], theirs[k]) for k in mine)

    __hash__ = None  # type: ignore[assignment]  # its content changes

    def __repr__(self) -> str:
        if not self.count.any():
            return f"Range(axis={self.axis}, nothing collected)"
        ends = f"min={self.min.min()}, max={self.max.max()}"
        return f"Range(axis={self.axis}, count={self.count.sum()}, {ends})"
