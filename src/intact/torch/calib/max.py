"""`MaxCalibrator`: the largest magnitude ever seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from intact.errors import CalibrationError
from intact.torch.calib.calibrator import _Calibrator, as_real
from intact.torch.operators import fake_quantize as ops


class MaxCalibrator(_Calibrator):
    """Keeps the exact ends of the range of everything it saw, on the device that it saw it on.

    NaN and infinity are refused: on the CPU by `collect`, elsewhere when a range is asked for.

    Args:
        num_bits, axis, unsigned: As for `_Calibrator`.
        track_amax: Keep the amax of each batch as well, in `amaxs`.
    """

    def __init__(
        self,
        num_bits: int | tuple[int, int] = 8,
        axis: int | tuple[int, ...] | None = None,
        unsigned: bool = False,
        track_amax: bool = False,
    ) -> None:
        super().__init__(num_bits, axis, unsigned)
        self._track_amax = track_amax
        self._amaxs: list[Tensor | np.ndarray] = []
        self._low: Tensor | None = None
        self._high: Tensor | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the state of a pickle, ours or the old library's, which kept one amax."""
        rest = dict(state)
        amax = rest.pop("_calib_amax", None)
        self.__dict__.update({"_amaxs": [], "_low": None, "_high": None} | rest)
        if amax is not None:
            self._calib_amax = amax

    @property
    def amaxs(self) -> list[np.ndarray]:
        """The amax of each batch, with ``track_amax=True``."""
        return [amax.cpu().numpy() if isinstance(amax, Tensor) else amax for amax in self._amaxs]

    @property
    def _calib_amax(self) -> Tensor | None:
        return None if self._low is None or self._high is None else _largest(self._low, self._high)

    @_calib_amax.setter
    def _calib_amax(self, value: Tensor | None) -> None:
        self._low, self._high = (None, None) if value is None else (-value, value)

    def collect(self, x: Tensor) -> None:
        """Widen the range to all of `x`; an empty tensor changes nothing.

        Raises:
            CalibrationError: (a RuntimeError) amax shape changed, or `x` holds NaN or infinity.
        """
        if not x.numel():
            return
        x = as_real(x)
        low, high = ops.min_max(x, ops.positive_axes(self._axis, x.dim()))
        if ops.is_readable(low):
            _refuse_nonfinite(low, high, f"a tensor of shape {tuple(x.shape)}")
        if self._track_amax:
            self._amaxs.append(_largest(low, high))
        if self._low is not None and self._high is not None:
            if self._low.shape != low.shape:
                raise CalibrationError(
                    "MaxCalibrator",
                    f"amax shape changed! shape {tuple(low.shape)}",
                    f"shape {tuple(self._low.shape)} as in the batches before",
                    "calibrate with axis=None, or with batches whose kept axes have one size",
                )
            low, high = torch.minimum(self._low, low), torch.maximum(self._high, high)
        self._low, self._high = low, high

    def reset(self) -> None:
        self._low = self._high = None
        self._amaxs = []

    def compute_amax(self) -> Tensor | None:
        """Return the largest magnitude: 0-D, or with reduced axes of size 1 per-channel.

        None without data.
        """
        ends = self.compute_range()
        return None if ends is None else _largest(*ends)

    def compute_range(self) -> tuple[Tensor, Tensor] | None:
        if self._low is None or self._high is None:
            return None
        _refuse_nonfinite(self._low, self._high, "a tensor that was collected")
        return self._low, self._high

    def __str__(self) -> str:
        return f"MaxCalibrator(track_amax={self._track_amax})"

    def __repr__(self) -> str:
        tracked = f" amaxs={self._amaxs}" if self._track_amax else ""
        return (
            f"MaxCalibrator({super().__repr__()} calib_amax={self._calib_amax} "
            f"track_amax={self._track_amax}{tracked})"
        )


def _largest(low: Tensor, high: Tensor) -> Tensor:
    return torch.maximum(low.abs(), high.abs())


def _refuse_nonfinite(low: Tensor, high: Tensor, what: str) -> None:
    if bool((torch.isfinite(low) & torch.isfinite(high)).all()):
        return
    raise CalibrationError(
        "calibration",
        f"NaN or infinity in {what}",
        "finite values",
        "find the layer that produces them in the float model first",
    )
