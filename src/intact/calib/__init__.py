"""Calibration without a framework: collect once, decide later, merge anywhere."""

from intact.calib.calibration import Calibration, ZeroRangeWarning
from intact.calib.extent import Range
from intact.calib.histogram import BINS, Histogram
from intact.calib.methods import (
    METHODS,
    amax_from_counts,
    amax_of,
    expected_error,
    expected_sqnr,
    range_of,
)

__all__ = [
    "BINS",
    "METHODS",
    "Calibration",
    "Histogram",
    "Range",
    "ZeroRangeWarning",
    "amax_from_counts",
    "amax_of",
    "expected_error",
    "expected_sqnr",
    "range_of",
]
