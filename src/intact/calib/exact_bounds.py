"""Exact ends of collected values, and the checks that every collected tensor passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact import kernels
from intact.errors import CalibrationError
from intact.numerics import REAL_DTYPES, to_float32

NonFinite = Literal["raise", "count"]
Axis = int | tuple[int, ...] | None


_MOST_COUNTED = 2**53
"""Values of one tensor: no data has more, and sums of a thousand such counts fit int64."""


@dataclass
class Bounds:
    """Holds smallest and largest value and counts of each granule; all four arrays have one shape.

    Attributes:
        low, high: float32; (inf, -inf) where nothing was collected.
        count, nonfinite: int64, number of finite and of other values.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    count: NDArray[np.int64]
    nonfinite: NDArray[np.int64]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Self:
        """Return the bounds of no values: the identity of `merge`."""
        inf = np.full(shape, np.inf, np.float32)
        return cls(inf, -inf, np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    @property
    def amax(self) -> NDArray[np.float32]:
        """The largest magnitude, float32; 0 where nothing was collected."""
        return np.where(self.count > 0, np.maximum(-self.low, self.high), np.float32(0))

    def merge(self, other: Bounds) -> None:
        """Widen to hold what `other` holds.

        Raises:
            CalibrationError: Together they count more values than any data has; nothing is changed.
        """
        for mine, more in ((self.count, other.count), (self.nonfinite, other.nonfinite)):
            _require_countable(mine + more)
        # asarray: NumPy returns scalars where both operands are 0-dimensional.
        self.low = np.asarray(np.minimum(self.low, other.low))
        self.high = np.asarray(np.maximum(self.high, other.high))
        self.count = np.asarray(self.count + other.count)
        self.nonfinite = np.asarray(self.nonfinite + other.nonfinite)

    def require_room(self, size: int) -> None:
        """Refuse `size` more values where there would be more than any data has; one granule."""
        counted = max(int(self.count[0]), int(self.nonfinite[0])) + size
        if counted > _MOST_COUNTED:
            _require_countable(np.array([counted]))

    def add(self, low: float, high: float, size: int, nonfinite: int) -> None:
        """Add the bounds of `size` values to one granule; call `require_room` first.

        Args:
            low, high: Smallest and largest finite value.
            size: Number of values, others included.
            nonfinite: How many of them are NaN or infinite.
        """
        # Adding 0 makes +0 of -0, see `_positive_zeros`.
        if low < self.low[0]:
            self.low = np.array([low + 0.0], np.float32)
        if high > self.high[0]:
            self.high = np.array([high + 0.0], np.float32)
        self.count = self.count + (size - nonfinite)
        self.nonfinite = self.nonfinite + nonfinite

    def set(self, index: int, low: float, high: float, size: int, nonfinite: int) -> None:
        """Fill one entry of a one-dimensional set of bounds; `size` counts all its values.

        Args:
            index: The entry.
            low, high: Smallest and largest finite value.
            size: Number of values, others included.
            nonfinite: How many of them are NaN or infinite.
        """
        self.low[index], self.high[index] = _positive_zeros(np.array([low, high], np.float32))
        self.count[index], self.nonfinite[index] = size - nonfinite, nonfinite

    def __getitem__(self, index: slice) -> Bounds:
        return Bounds(self.low[index], self.high[index], self.count[index], self.nonfinite[index])

    def to_arrays(self) -> dict[str, NDArray]:
        """Return the four arrays by the names that files use."""
        return {"min": self.low, "max": self.high, "count": self.count, "nonfinite": self.nonfinite}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], shape: tuple[int, ...]) -> Self:
        """Return the bounds that `to_arrays` took apart.

        Args:
            arrays: By the names that files use.
            shape: Of each: the sizes of the kept axes.
        Raises:
            CalibrationError: An array has another dtype or shape, or they contradict each other.
        """
        low, high = (take(arrays, name, np.float32, shape) for name in ("min", "max"))
        count, nonfinite = (take(arrays, name, np.int64, shape) for name in ("count", "nonfinite"))
        require(bool((count >= 0).all() and (nonfinite >= 0).all()), "count", "a negative number", ">= 0")
        for counted in (count, nonfinite):
            _require_countable(counted)
        empty = count == 0
        require(bool(np.isfinite(low[~empty]).all() and np.isfinite(high[~empty]).all()),
                "min, max", "NaN or infinity", "finite values where something was collected")  # fmt: skip
        require(bool((low <= high)[~empty].all()), "min", "a value above max", "min <= max")
        idle = bool((low[empty] == np.inf).all() and (high[empty] == -np.inf).all())
        require(idle, "min, max", "values without a count", "inf, -inf where nothing was collected")
        return cls(low, high, count, nonfinite)


def _require_countable(count: NDArray[np.int64]) -> None:
    most = int(np.max(count, initial=0))
    require(most <= _MOST_COUNTED, "count", f"{most:,}", f"at most {_MOST_COUNTED:,}")


def measure(x: NDArray, axes: Axis, policy: NonFinite, threads: int) -> Bounds:
    """Return the bounds of `x` for every index of `axes`, by one read and no copy where all is finite.

    Args:
        x: Real numbers, any shape.
        axes: That are kept; None: none.
        policy: For NaN and infinities: "raise" or "count".
        threads: Of the kernel.
    Raises:
        CalibrationError: `x` holds NaN or infinities and `policy` is "raise".
    """
    low, high = kernels.minmax(x, axes, threads=threads)
    count = np.full(low.shape, x.size // max(low.size, 1), np.int64)
    nonfinite = np.zeros(low.shape, np.int64)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        if policy == "raise":
            refuse_nonfinite(x)
        x = to_float32(x)
        finite = np.isfinite(x)
        kept_axes = () if axes is None else (axes,) if isinstance(axes, int) else axes
        other_axes = tuple(a for a in range(x.ndim) if a not in kept_axes)
        low = np.min(x, axis=other_axes, initial=np.float32(np.inf), where=finite)
        high = np.max(x, axis=other_axes, initial=np.float32(-np.inf), where=finite)
        nonfinite = np.asarray(np.sum(~finite, axis=other_axes, dtype=np.int64))
    return Bounds(_positive_zeros(low), _positive_zeros(high), count - nonfinite, nonfinite)


def _positive_zeros(values: NDArray[np.float32]) -> NDArray[np.float32]:
    # Which zero wins, -0 or +0, depends on the order of the values: adding 0 makes it +0.
    return np.asarray(values + np.float32(0))


def refuse_nonfinite(x: NDArray) -> NoReturn:
    """Raise the CalibrationError of a tensor that holds NaN or infinities.

    Args:
        x: Of any shape and real dtype.
    Raises:
        CalibrationError: Always; says how many there are.
    """
    x = to_float32(x)
    missing, infinite = int(np.isnan(x).sum()), int(np.isinf(x).sum())
    raise CalibrationError(
        "x",
        f"{missing} NaN and {infinite} infinities among {x.size} values of shape {x.shape}",
        "finite values",
        "find the layer that produces them in the float model (or the sample in the data) and repair it",
    )


def as_real(x: ArrayLike) -> NDArray:
    """Return `x` as an array of a dtype that calibration reads.

    Raises:
        CalibrationError: The dtype is none of `REAL_DTYPES`.
    """
    array = np.asarray(x)
    if array.dtype.name not in REAL_DTYPES:
        raise CalibrationError(
            "x",
            f"dtype {array.dtype}",
            f"one of {', '.join(REAL_DTYPES)}",
            "collect the real tensor, before it is quantized or cast to integers",
        )
    return array


def resolve_axes(axis: Axis, rank: int) -> Axis:
    """Return `axis` with negative entries counted from the end, in ascending order.

    Args:
        axis: One axis, several, or None.
        rank: Number of dimensions of the tensor.
    Raises:
        CalibrationError: A tensor of that rank lacks an axis, or it is named twice.
    """
    if axis is None:
        return None
    entries = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(a + rank if a < 0 else a for a in entries))
    if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
        raise CalibrationError(
            "axis",
            f"a tensor of {rank} dimensions for axis {axis}",
            "distinct axes that the tensor has",
            "collect tensors of one layout, or use axis=None for one range per tensor",
        )
    return axes[0] if isinstance(axis, int) else axes


def require_same_axis(mine: Axis, other: Axis) -> None:
    """Refuse to merge statistics of different granularity.

    A negative axis belongs to a statistic that has seen no tensor yet, and fits any of its kind.

    Args:
        mine, other: Axes of the two statistics.
    Raises:
        CalibrationError: They differ.
    """
    pair = (mine, other)
    fresh = any(a is not None and np.min(a) < 0 for a in pair) and None not in pair
    if mine != other and not fresh:
        raise CalibrationError(
            "axis",
            f"statistics with axis {other}",
            f"axis {mine}, as in those that they are merged into",
            "collect the tensor with the same axis in every process and run",
        )


def take(arrays: Mapping[str, NDArray], name: str, dtype: type, shape: tuple[int, ...]) -> NDArray:
    """Return the array called `name`, a copy in native byte order, after its dtype and shape were checked.

    Args:
        arrays: Of a file.
        name: Which.
        dtype, shape: That it must have.
    Raises:
        CalibrationError: It is missing, or has another dtype or shape.
    """
    require(name in arrays, name, "nothing", f"{np.dtype(dtype)} of shape {shape}")
    array = arrays[name]
    got = f"{array.dtype} of shape {array.shape}"
    require(array.dtype == dtype and array.shape == shape, name, got, f"{np.dtype(dtype)} of shape {shape}")
    return array.astype(dtype, copy=True)


def require(condition: bool, where: str, got: str, want: str) -> None:
    """Raise the CalibrationError of a damaged statistic unless `condition` holds.

    Args:
        condition: What holds for an undamaged one.
        where, got, want: Of the error: the array, what it holds, what it should.
    Raises:
        CalibrationError: It does not hold.
    """
    if not condition:
        raise CalibrationError(where, got, want, "collect the tensor again, or restore the undamaged file")
