"""Histograms of magnitudes whose bin edges nest, so that any two of them merge exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact import kernels
from intact.calib.exact_bounds import (
    Bounds,
    NonFinite,
    as_real,
    refuse_nonfinite,
    require,
    require_same_axis,
    resolve_axes,
    take,
)
from intact.errors import CalibrationError

BINS = 4096
MIN_EXPONENT = -100
"""Bins are at least 2**-100 wide: below 2**-88 a maximum has fewer than 2048 bins beneath it. No method
needs them there (a range at or below 2**-24 has scale 1), and 2**100 stays a float32."""


class Histogram:
    """Counts |x| in 4096 bins whose width is a power of two, negative and other values apart.

    The width is the power of two that puts the largest magnitude seen so far into the upper half of the
    bins. When a larger value comes, neighbouring bins are added in pairs and the width doubles, as often
    as needed. Edges nest, so the content depends only on the multiset of values: any batch size, order,
    split over processes or tree of merges gives the same bits.

    Args:
        axis: None for one histogram of the whole tensor, or the axis (negative: from the end of the
            first tensor) whose every index gets a histogram and a bin width of its own.
        nonfinite: What a NaN or an infinity does: "raise" refuses the tensor when it is collected;
            "count" counts it and leaves it out, and a method refuses when a range is asked for.

    The properties below have one entry per channel, or are 0-dimensional when `axis` is None.
    """

    def __init__(self, axis: int | None = None, *, nonfinite: NonFinite = "raise") -> None:
        self.axis = axis
        self._policy: NonFinite = nonfinite
        self._allocate(0 if axis is not None else 1)

    def _allocate(self, channels: int) -> None:
        self._negative = np.zeros((channels, BINS), np.int64)
        self._positive = np.zeros((channels, BINS), np.int64)
        self._exponent = np.full(channels, MIN_EXPONENT, np.int64)
        self._bounds = Bounds.empty((channels,))

    def collect(self, x: ArrayLike, *, threads: int = 1) -> None:
        """Count the values of `x`. An empty tensor changes nothing.

        Args:
            x: float32, float16, bfloat16 or float64, of any shape that has `axis`. Not copied.
            threads: How many threads the kernels may use.
        Raises:
            CalibrationError: `x` holds NaN or infinities (unless they are to be counted), its dtype is
                not a real one, or its number of channels changed. Nothing of `x` is counted then.
        """
        array = as_real(x)
        if array.size:
            if self.axis is None:
                self._count_in_place(array, threads)
                return
            axis: Any = resolve_axes(self.axis, array.ndim)
            channels = array.shape[axis]
            self._require_channels(channels, f"shape {array.shape}")
            self.merge(self._histogram_of(array, axis, channels, threads))

    def collect_apart(self, x: ArrayLike, *, threads: int = 1) -> Histogram:
        """Count `x` as `collect` does without an axis, and return the counts of `x` alone.

        Its bins are at least as wide as those of `self`, so that `x` is read once.
        """
        part = Histogram(nonfinite=self._policy)
        part._exponent = self._exponent.copy()
        part.collect(x, threads=threads)
        self.merge(part)
        return part

    def _count_in_place(self, x: NDArray, threads: int) -> None:
        """Count a whole tensor without a second histogram; the result equals a merge."""
        halves = self._negative[0], self._positive[0]
        exponent = int(self._exponent[0])
        self._bounds.require_room(x.size)
        collected = kernels.collect_pow2(x, exponent, *halves, threads=threads)
        refused = collected.nonfinite > 0 and self._policy == "raise"
        needed = _exponent(max(-collected.min, collected.max, 0.0))
        if refused or needed > exponent:  # rare: the same counts are taken back
            counted = np.zeros((2, BINS), np.int64)
            kernels.count_pow2(x, exponent, *counted, threads=threads)
            self._negative -= counted[0]
            self._positive -= counted[1]
        if refused:
            refuse_nonfinite(x)
        if needed > exponent:
            self._widen(np.array([needed]))
            kernels.count_pow2(x, needed, self._negative[0], self._positive[0], threads=threads)
        self._bounds.add(collected.min, collected.max, x.size, collected.nonfinite)

    def _histogram_of(self, x: NDArray, axis: int, channels: int, threads: int) -> Histogram:
        """Return a histogram of `x` alone, in one read of it where the bin width of `self` already fits."""
        batch = Histogram(axis)
        batch._allocate(channels)
        if self.channels:
            batch._exponent = self._exponent.copy()
        bounds = batch._bounds
        for channel, values in enumerate(np.moveaxis(x, axis, 0)):
            bins = batch._negative[channel], batch._positive[channel]
            exponent = int(batch._exponent[channel])
            collected = kernels.collect_pow2(values, exponent, *bins, threads=threads)
            needed = _exponent(max(-collected.min, collected.max, 0.0))
            if needed > exponent:
                for row in bins:
                    row[:] = 0
                kernels.count_pow2(values, needed, *bins, threads=threads)
                batch._exponent[channel] = needed
            bounds.set(channel, collected.min, collected.max, values.size, collected.nonfinite)
        if self._policy == "raise" and bounds.nonfinite.any():
            refuse_nonfinite(x)
        return batch

    def merge(self, other: Histogram) -> Self:
        """Add the counts of `other`, which stays as it is. In place; returns self.

        Raises:
            CalibrationError: `other` is not a Histogram, or has another axis or number of channels.
        """
        if not isinstance(other, Histogram):
            raise CalibrationError(
                "merge",
                f"a {type(other).__name__}",
                "a Histogram",
                "collect the tensor with the same kind of statistic in every process and run",
            )
        require_same_axis(self.axis, other.axis)
        if not other.channels:
            return self
        self._require_channels(other.channels, "a histogram")
        if not self.channels:
            self._allocate(other.channels)
        self.axis = other.axis
        self._bounds.merge(other._bounds)
        self._widen(np.maximum(self._exponent, other._exponent))
        shift = self._exponent - other._exponent
        self._negative += _coarsen(other._negative, shift) if shift.any() else other._negative
        self._positive += _coarsen(other._positive, shift) if shift.any() else other._positive
        return self

    def without(self, part: Histogram) -> Histogram | None:
        """Return the counts of the values that `part` lacks; None where `part` counts others than these.

        Counts are exact. An end that `part` reached, too, is the outer edge of the last bin that is left:
        it is at most a 2048th of the range too far out.

        Args:
            part: Of some of the values, with one histogram for the whole tensor, as this one.
        """
        shift = self._exponent - part._exponent
        if self.axis is not None or part.axis is not None or shift[0] < 0:
            return None
        negative, positive = (
            counts - _coarsen(part_counts, shift)
            for counts, part_counts in ((self._negative, part._negative), (self._positive, part._positive))
        )
        if min(negative.min(), positive.min()) < 0:
            return None
        rest = Histogram(nonfinite=self._policy)
        rest._negative, rest._positive, rest._exponent = negative, positive, self._exponent
        bounds, inner, width = self._bounds, part._bounds, float(np.ldexp(1.0, self._exponent[0]))
        if count := int(bounds.count[0] - inner.count[0]):
            low, high = _end_of(-1.0, positive, negative, width), _end_of(1.0, negative, positive, width)
            low = max(low, float(bounds.low[0])) if inner.low[0] <= bounds.low[0] else float(bounds.low[0])
            high = (
                min(high, float(bounds.high[0])) if inner.high[0] >= bounds.high[0] else float(bounds.high[0])
            )
            rest._bounds.set(0, low, high, count, 0)
        return rest

    def per_tensor(self) -> Histogram:
        """Return the histogram of all channels together, as collecting with axis=None would give it."""
        whole = Histogram(nonfinite=self._policy)
        for channel in range(self.channels):
            whole.merge(self._channel(channel))
        return whole

    def _channel(self, channel: int) -> Histogram:
        part, rows = Histogram(nonfinite=self._policy), slice(channel, channel + 1)
        part._negative, part._positive = self._negative[rows], self._positive[rows]
        part._exponent, part._bounds = self._exponent[rows], self._bounds[rows]
        return part

    def _require_channels(self, channels: int, what: str) -> None:
        if self.channels not in (0, channels):
            raise CalibrationError(
                "channels",
                f"{what} with {channels} channels on axis {self.axis}",
                f"{self.channels} channels, as in what was collected before",
                "use one statistic per tensor, and an axis whose size never changes",
            )

    def _widen(self, exponent: NDArray[np.int64]) -> None:
        shift = exponent - self._exponent
        if shift.any():
            self._negative = _coarsen(self._negative, shift)
            self._positive = _coarsen(self._positive, shift)
            self._exponent = exponent

    @property
    def channels(self) -> int:
        """Number of channels: 1 per-tensor, 0 before the first per-channel tensor."""
        return len(self._exponent)

    @property
    def negative(self) -> NDArray[np.int64]:
        """Counts of the values below 0 by magnitude, int64 [bins] or [channels, bins]."""
        return self._face(self._negative)

    @property
    def positive(self) -> NDArray[np.int64]:
        """Counts of the other values, zeros among them, int64 [bins] or [channels, bins]."""
        return self._face(self._positive)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Counts of |x|: the sum of `negative` and `positive`."""
        return self._face(self._negative + self._positive)

    @property
    def bin_width(self) -> NDArray[np.float64]:
        """Width of a bin in the unit of the tensor, a power of two."""
        return self._face(np.ldexp(1.0, self._exponent))

    @property
    def min(self) -> NDArray[np.float32]:
        """Smallest finite value, exact; inf before the first."""
        return self._face(self._bounds.low)

    @property
    def max(self) -> NDArray[np.float32]:
        """Largest finite value, exact; -inf before the first."""
        return self._face(self._bounds.high)

    @property
    def amax(self) -> NDArray[np.float32]:
        """Largest finite magnitude, exact; 0 before the first value."""
        return self._face(self._bounds.amax)

    @property
    def count(self) -> NDArray[np.int64]:
        """Number of finite values."""
        return self._face(self._bounds.count)

    @property
    def nonfinite(self) -> NDArray[np.int64]:
        """Number of NaN and infinities that were left out."""
        return self._face(self._bounds.nonfinite)

    def _face(self, rows: NDArray) -> NDArray:
        # A copy: through a view a reader could change the counts and leave the bounds behind.
        return np.array(rows[0] if self.axis is None else rows)

    def to_arrays(self) -> dict[str, NDArray]:
        """Return the whole content as arrays with a leading channel axis: for files and other processes."""
        return {
            "negative": self._negative,
            "positive": self._positive,
            "exponent": self._exponent,
            **self._bounds.to_arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], axis: int | None = None) -> Self:
        """Return the histogram that `to_arrays` took apart.

        Args:
            arrays: By the names that files use.
            axis: As for the constructor.
        Raises:
            CalibrationError: An array is missing, has a wrong dtype or shape, or contradicts another one
                (a negative count, a sum that is not the count, a width that does not fit the maximum).
        """
        require("exponent" in arrays and arrays["exponent"].ndim == 1, "exponent", "no vector", "one")
        channels = arrays["exponent"].size
        require(axis is not None or channels == 1, "channels", f"{channels}", "1 where axis is None")
        histogram = cls(axis)
        histogram._exponent = take(arrays, "exponent", np.int64, (channels,))
        histogram._negative = take(arrays, "negative", np.int64, (channels, BINS))
        histogram._positive = take(arrays, "positive", np.int64, (channels, BINS))
        histogram._bounds = Bounds.from_arrays(arrays, (channels,))
        histogram._check()
        return histogram

    def _check(self) -> None:
        bounds, exponent = self._bounds, self._exponent
        halves = ((self._negative, -bounds.low, "negative"), (self._positive, bounds.high, "positive"))
        fits = bool((exponent == _exponent_of(bounds.amax)).all())
        require(fits, "exponent", f"{exponent.tolist()}", "the bin width that belongs to min and max")
        total = np.zeros(self.channels, object)
        for rows, bound, name in halves:
            require(bool((rows >= 0).all()), name, "a negative count", "counts >= 0")
            # In two pieces of 32 bits: sums of damaged counts may not fit int64.
            total += (rows >> 32).sum(axis=1).astype(object) * 2**32 + (rows & 0xFFFFFFFF).sum(axis=1)
            last = np.where(rows.any(axis=1), BINS - 1 - np.argmax(rows[:, ::-1] > 0, axis=1), 0)
            reach = np.where(bounds.count > 0, np.maximum(bound, 0), 0).astype(np.float64)
            top = np.floor(reach * np.ldexp(1.0, -exponent))
            require(bool((last == top).all()), name, "counts that contradict min or max", "counts up to them")
        same = total.tolist() == bounds.count.tolist()
        require(same, "count", f"{bounds.count.tolist()}", f"the sum of the bins, {total.tolist()}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        mine, theirs = self.to_arrays(), other.to_arrays()
        return self.axis == other.axis and all(np.array_equal(mine[k], theirs[k]) for k in mine)

    __hash__ = None  # type: ignore[assignment]  # its content changes

    def __repr__(self) -> str:
        if not self._bounds.count.any():
            return f"Histogram(axis={self.axis}, nothing collected)"
        low, high = self._bounds.low.min(), self._bounds.high.max()
        return f"Histogram(axis={self.axis}, count={self._bounds.count.sum()}, min={low}, max={high})"


def _end_of(sign: float, inner: NDArray[np.int64], outer: NDArray[np.int64], width: float) -> float:
    """Return the end of a range towards `sign`, by the last bin there or the first one opposite."""
    if outer.any():
        return sign * (int(np.flatnonzero(outer[0])[-1]) + 1) * width
    return -sign * int(np.flatnonzero(inner[0])[0]) * width


def _exponent(amax: float) -> int:
    """Return `_exponent_of` for one number."""
    return max(math.frexp(amax)[1] - (BINS.bit_length() - 1), MIN_EXPONENT) if amax > 0 else MIN_EXPONENT


def _exponent_of(amax: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the bin width, as a power of two, that puts `amax` into the upper half of the bins."""
    _, exponent = np.frexp(amax)  # amax < 2**exponent <= 2 * amax
    fitting = np.maximum(exponent.astype(np.int64) - (BINS.bit_length() - 1), MIN_EXPONENT)
    return np.where(amax > 0, fitting, MIN_EXPONENT)


def _coarsen(rows: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts in bins 2**shift times as wide, one shift per row; a copy."""
    result = np.zeros_like(rows)
    for step in set(shift.tolist()):  # `np.unique` imports NumPy's masked arrays
        merged = min(BINS, 1 << min(step, 63))
        chosen = shift == step
        pairs = rows[chosen].reshape(-1, BINS // merged, merged)
        result[chosen, : BINS // merged] = pairs.sum(axis=2)
    return result
