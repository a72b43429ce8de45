"""Calibrators of `pytorch_quantization.calib`, which find the range of a tensor from the data that passes."""

from __future__ import annotations

from intact.errors import QuantValueError
from intact.torch.calib.calibrator import _Calibrator
from intact.torch.calib.histogram import HistogramCalibrator, calibrate_weights
from intact.torch.calib.max import MaxCalibrator
from intact.torch.calib.mergeable import MergeableCalibrator

__all__ = [
    "HistogramCalibrator",
    "MaxCalibrator",
    "MergeableCalibrator",
    "_Calibrator",
    "calibrate_weights",
    "create",
]


def create(
    method: str, num_bits: int | tuple[int, int], axis: int | tuple[int, ...] | None, unsigned: bool
) -> _Calibrator:
    """Create the calibrator that a descriptor's `calib_method` names.

    Args:
        method: "max", "histogram" or "mergeable".
        num_bits, axis, unsigned: As for the calibrators.
    Raises:
        QuantValueError: There is no such method.
    """
    if method == "max":
        return MaxCalibrator(num_bits, axis, unsigned)
    if method == "histogram":
        return HistogramCalibrator(num_bits, axis, unsigned)
    if method == "mergeable":
        return MergeableCalibrator(num_bits, axis, unsigned)
    raise QuantValueError(
        "calib_method", repr(method), "'max', 'histogram' or 'mergeable'", "choose one of these"
    )
