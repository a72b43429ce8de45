"""`MergeableCalibrator`: the calibrator over `intact.calib`, whose statistics merge exactly."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from intact.calib import Histogram, Range, amax_of, range_of
from intact.spec import Format, QuantSpec
from intact.torch.calib.calibrator import _Calibrator, as_real
from intact.torch.calib.on_device import DeviceStatistics
from intact.torch.descriptor import format_name
from intact.torch.operators import fake_quantize as ops


class MergeableCalibrator(_Calibrator):
    """Collects into an `intact.calib` statistic, from which every method can choose a range.

    The result does not depend on batch size or order, and calibrators of several processes merge exactly
    (``calibrator.stats.merge(other.stats)``). NaN and infinity are refused: on the CPU by `collect`,
    elsewhere when `stats` is read, as counts stay on the device until then. One axis, or none, has a
    `Histogram` and with it every method; several axes have a `Range`, which offers "max" alone.

    Args:
        num_bits, axis, unsigned: As for `_Calibrator`.
        ends_only: Have a `Range` for any axis.

    Attributes:
        stats: The statistic.
        shape: Shape of the range: kept axes, the others of size 1; () per-tensor or before the first tensor.
    """

    def __init__(
        self,
        num_bits: int | tuple[int, int] = 8,
        axis: int | tuple[int, ...] | None = None,
        unsigned: bool = False,
        *,
        ends_only: bool = False,
    ) -> None:
        super().__init__(num_bits, axis, unsigned)
        self._ends_only = ends_only
        self.reset()

    def reset(self) -> None:
        axis = QuantSpec(axis=self._axis).axis  # a tuple of one axis is that axis
        self._stats: Histogram | Range
        if self._ends_only or isinstance(axis, tuple):
            self._stats = Range(axis)
        else:
            self._stats = Histogram(axis)
        self._pending: DeviceStatistics | None = None
        self.shape: tuple[int, ...] = ()

    @property
    def stats(self) -> Histogram | Range:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._stats.merge(pending.fetch())  # type: ignore[arg-type]  # both are of the kind of the axis
        return self._stats

    @stats.setter
    def stats(self, value: Histogram | Range) -> None:
        self._stats, self._pending = value, None

    def collect(self, x: Tensor) -> None:
        """Count `x`, of any real dtype and layout.

        Raises:
            CalibrationError: (a RuntimeError) `x` holds NaN or infinities, or its kept axes changed size.
        """
        if not x.numel():
            return
        x = as_real(x)
        if ops.is_readable(x) or self._ends_only:
            self._stats.collect(ops.as_numpy(x.cpu()), threads=torch.get_num_threads())
        else:
            if self._pending is None:
                self._pending = DeviceStatistics(QuantSpec(axis=self._axis).axis)
            self._pending.collect(x)
        kept_axes = {a % x.dim() for a in QuantSpec(axis=self._axis).axes}
        self.shape = tuple(n if a in kept_axes else 1 for a, n in enumerate(x.shape)) if kept_axes else ()

    def compute_amax(self, method: str = "max", **options: Any) -> Tensor | None:
        """Return the largest magnitude to keep, by one of `intact.calib.METHODS` (see
        `intact.calib.amax_of`).

        Returns:
            float32, 0-D per-tensor, reduced axes kept with size 1 otherwise; None without data.
        """
        if not self.stats.count.any():
            return None
        return self._to_range_shape(amax_of(self.stats, self._spec(symmetric=True), method, **options))

    def compute_range(self, method: str = "max", **options: Any) -> tuple[Tensor, Tensor] | None:
        """Return both ends of the range to keep (`intact.calib.range_of`), shaped as `compute_amax`."""
        if not self.stats.count.any():
            return None
        low, high = range_of(self.stats, self._spec(symmetric=False), method, **options)
        return self._to_range_shape(low), self._to_range_shape(high)

    def _spec(self, symmetric: bool) -> QuantSpec:
        grid = Format.parse(format_name(self._num_bits, self._unsigned))
        return QuantSpec(grid, axis=self._axis, symmetric=symmetric)

    def _to_range_shape(self, values: NDArray) -> Tensor:
        return torch.tensor(values, dtype=torch.float32).reshape(self.shape)

    def __str__(self) -> str:
        return f"MergeableCalibrator({self.stats!r})"

    def __repr__(self) -> str:
        return f"MergeableCalibrator({super().__repr__()} stats={self.stats!r})"
