"""Statistics counted where the tensors are: what `intact.calib` collects, fetched from the device at the end.

Nothing here asks for a value before `fetch`, so that calibration does not wait for the device at every batch.
Counts are exact integers, and the same as on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intact.calib import BINS, MIN_EXPONENT, Histogram, Range
from intact.errors import CalibrationError
from intact.torch import fake_quantize_formula as formula
from intact.torch.operators import fake_quantize as ops

_PART = 1 << 24  # values whose bins are in memory at a time


class DeviceStatistics:
    """A `Histogram` (one axis or none) or a `Range` (several axes) of tensors on one device.

    Args:
        axis: As for these two.
    """

    _low: Tensor
    _high: Tensor
    _count: Tensor
    _nonfinite: Tensor
    _exponent: Tensor
    _bins: Tensor

    def __init__(self, axis: int | tuple[int, ...] | None) -> None:
        self._axis = axis
        self._shape: list[int] | None = None

    def collect(self, x: Tensor) -> None:
        """Count a tensor that is not empty, of a real dtype.

        Raises:
            CalibrationError: The sizes of its kept axes changed.
        """
        kept_axes = ops.positive_axes(self._axis, x.dim())
        shape = [x.shape[a] for a in kept_axes]
        rows = x.detach().movedim(kept_axes, list(range(len(kept_axes)))).reshape(math.prod(shape), -1)
        if self._shape is None:
            self._start(shape, kept_axes, x.device)
        elif shape != self._shape:
            raise CalibrationError(
                "channels",
                f"kept axes of sizes {shape} for axis {self._axis}",
                f"{self._shape}, as in what was collected before",
                "use one statistic per tensor, and axes whose sizes never change",
            )
        kernels = ops.kernels_for(rows)
        if kernels is None or not kernels.fits(rows.numel()):
            kernels = None
        if kernels is None or rows.dtype not in ops.DTYPES:
            rows = rows.to(torch.float32)
        low, high, nonfinite = (kernels.finite_range if kernels else finite_range)(rows)
        self._nonfinite += nonfinite
        self._count += rows.shape[1] - nonfinite
        self._low = torch.minimum(self._low, low + 0.0)
        self._high = torch.maximum(self._high, high + 0.0)
        if isinstance(self._axis, tuple):
            return
        self._widen(bin_exponent(torch.maximum(-self._low, self._high)))
        if kernels:
            kernels.count_pow2(rows, self._exponent, self._bins)
            return
        for part in torch.split(rows, max(_PART // len(rows), 1), dim=1):
            count_pow2(part, self._exponent, self._bins)

    def _start(self, shape: list[int], kept_axes: list[int], device: torch.device) -> None:
        self._shape, channels = shape, math.prod(shape)
        if isinstance(self._axis, int):
            self._axis = kept_axes[0]
        elif self._axis is not None:
            self._axis = tuple(kept_axes)
        self._low = torch.full((channels,), math.inf, device=device)
        self._high = torch.full((channels,), -math.inf, device=device)
        self._count = torch.zeros(channels, dtype=torch.int64, device=device)
        self._nonfinite = torch.zeros_like(self._count)
        if not isinstance(self._axis, tuple):
            self._exponent = torch.full((channels,), MIN_EXPONENT, dtype=torch.int32, device=device)
            self._bins = torch.zeros(channels, 2, BINS, dtype=torch.int64, device=device)

    def _widen(self, exponent: Tensor) -> None:
        """Add neighbouring bins until they are ``2**exponent`` wide."""
        shift = (exponent - self._exponent).clamp(max=BINS.bit_length())
        index = torch.arange(BINS, device=shift.device) >> shift[:, None, None]
        self._bins = torch.zeros_like(self._bins).scatter_add_(2, index.expand_as(self._bins), self._bins)
        self._exponent = exponent

    def fetch(self) -> Histogram | Range:
        """Copy the statistic from the device, once it is computed.

        Raises:
            CalibrationError: NaN or infinity was collected.
        """
        if self._shape is None:
            return Range(self._axis) if isinstance(self._axis, tuple) else Histogram(self._axis)
        tensors = {"min": self._low, "max": self._high, "count": self._count, "nonfinite": self._nonfinite}
        arrays = {name: values.cpu().numpy() for name, values in tensors.items()}
        if arrays["nonfinite"].any():
            raise CalibrationError(
                "x",
                f"{arrays['nonfinite'].sum()} NaN and infinities among the values that were collected",
                "finite values",
                "find the layer that produces them in the float model or the sample in the data",
            )
        if isinstance(self._axis, tuple):
            shaped = {name: values.reshape(self._shape) for name, values in arrays.items()}
            return Range.from_arrays(shaped, self._axis)
        bins = self._bins.cpu().numpy()
        arrays |= {"negative": bins[:, 0].copy(), "positive": bins[:, 1].copy()}
        arrays["exponent"] = self._exponent.cpu().numpy().astype(np.int64)
        return Histogram.from_arrays(arrays, self._axis)


def bin_exponent(amax: Tensor) -> Tensor:
    """Return the exponent of the bin width that puts `amax` into the upper half of a histogram; int32."""
    field = amax.clamp(min=0).view(torch.int32) >> 23  # amax < 2**(field - 126), as frexp has it
    return (field - 126 - (BINS.bit_length() - 1)).clamp(min=MIN_EXPONENT)


def finite_range(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of each row's finite values (float32), and how many others it has (int64).

    A row without finite values has the ends (inf, -inf).
    """
    finite = torch.isfinite(rows)
    low, high = torch.where(finite, rows, math.inf).amin(1), torch.where(finite, rows, -math.inf).amax(1)
    return low, high, rows.shape[1] - finite.sum(1)


def count_pow2(rows: Tensor, exponent: Tensor, bins: Tensor) -> None:
    """Add `numerics.count_pow2` of each row to `bins`; non-finite values are left out.

    Args:
        rows: float32, [rows, n], below the last edge of their bins.
        exponent: int32, [rows].
        bins: int64, [rows, 2, BINS]: counts of negative and of other values.
    """
    finite = torch.isfinite(rows)
    steps = rows.abs() * formula.power_of_two(127 - exponent)[:, None]
    index = torch.where(finite, steps, 0).to(torch.int64) + torch.where(rows < 0, 0, BINS)
    first = torch.arange(len(rows), device=rows.device)[:, None] * (2 * BINS)
    bins.view(-1).index_add_(0, (index + first).flatten(), finite.flatten().to(torch.int64))


def count_fixed(
    x: Tensor, width: Tensor, last: Tensor, counts: Tensor, counted: Tensor | None = None
) -> None:
    """Add `numerics.count_fixed` to `counts`; where `counted` is False, a value is left out.

    Args:
        x: Reals without NaN.
        width, last: 0-D: the width of a bin, float32, > 0, and the index of the last bin, int64.
        counts: int64, one dimension, on the device of `x`.
    """
    steps = (x.detach().to(torch.float32).abs() / width).floor().flatten()
    index = torch.minimum(steps.nan_to_num(0.0), last.to(torch.float32)).to(torch.int64)
    ones = torch.ones_like(index) if counted is None else counted.flatten().to(torch.int64)
    counts.index_add_(0, index, ones)


class DeviceBins:
    """The counts of a `HistogramCalibrator`, which begin as that has them and are fetched back into it.

    Bins are as wide as the first batch says, and later ones append some. How many is known on the device
    alone, which therefore has room for `most` from the start (8 MiB).
    """

    def __init__(
        self,
        counts: NDArray[np.int64],
        width: float,
        top: float,
        zeros: int,
        first: int,
        most: int,
        device: Any,
    ) -> None:
        self._counts = torch.zeros(most, dtype=torch.int64, device=device)
        initial_counts = counts if len(counts) else np.array([zeros])
        self._counts[: len(initial_counts)] = torch.from_numpy(initial_counts).to(device, non_blocking=True)
        self._first = torch.full((), first, dtype=torch.float32, device=device)
        self._width = torch.full((), width, dtype=torch.float32, device=device)
        self._top = torch.full((), top, dtype=torch.float64, device=device)
        self._bins = torch.full((), max(len(counts), 1), dtype=torch.int64, device=device)
        self._peak = torch.zeros((), device=device)

    def collect(self, x: Tensor, skip_zeros: bool) -> None:
        """Count |x| of a tensor that is not empty; see `HistogramCalibrator.collect`."""
        low, high = ops.min_max(x)
        peak = torch.maximum(low.abs(), high.abs())
        self._peak = torch.maximum(self._peak, peak)
        unset = self._width == 0
        self._width = torch.where(unset, peak / self._first, self._width)
        has_width = self._width > 0
        width = self._width.double()
        grown = torch.maximum((peak / width).ceil().nan_to_num(0.0, 0.0), self._bins.double())
        bins = torch.where(
            unset & has_width, self._first.double(), torch.where(peak > self._top, grown, self._bins)
        )
        more = torch.where(unset, peak.double(), torch.where(peak > self._top, bins * width, self._top))
        self._bins, self._top = (
            torch.where(has_width, new, old) for new, old in ((bins, self._bins), (more, self._top))
        )
        self._bins = self._bins.to(torch.int64)
        last = self._bins.clamp(max=len(self._counts)) - 1
        width = torch.where(has_width, self._width, math.inf)
        if (kernels := ops.kernels_for(x)) and kernels.fits(x.numel()) and x.dtype in ops.DTYPES:
            kernels.count_fixed(x, width, last, self._counts, skip_zeros)
            return
        count_fixed(x, width, last, self._counts, (x != 0) & has_width if skip_zeros else None)

    def fetch(self) -> tuple[NDArray[np.int64], float, float, int, float, int]:
        """Copy counts, bin width, last edge, early zeros, largest |x| and number of bins from the device."""
        bins, width = int(self._bins), float(self._width)
        counts = self._counts[:bins].cpu().numpy().copy()
        if width == 0:
            return np.zeros(0, np.int64), 0.0, 0.0, int(counts[0]), float(self._peak), bins
        return counts, width, float(self._top), 0, float(self._peak), bins
