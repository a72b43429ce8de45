"""Calibration without a framework: collects statistics once, chooses ranges later, merges exactly."""

from intact.calib.calibration import Calibration, ZeroRangeWarning
from intact.calib.calibration_methods import LEAST_VALUES, METHODS, Method, MethodOptions, register_method
from intact.calib.choose_amax import Stats, amax_from_counts, amax_of, range_of
from intact.calib.histogram import BINS, MIN_EXPONENT, Histogram
from intact.calib.range import Range
from intact.calib.range_candidates import (
    Candidates,
    ChosenRange,
    Ends,
    by_method,
    configuration,
    configurations,
    expected_error,
    expected_sqnr,
)
from intact.calib.trt_cache import ALGORITHMS, DEFAULT_VERSION, TrtCache

__all__ = [
    "ALGORITHMS", "BINS", "DEFAULT_VERSION", "LEAST_VALUES", "METHODS", "MIN_EXPONENT", "Calibration",
    "Candidates", "ChosenRange", "Ends", "Histogram", "Method", "MethodOptions", "Range", "Stats", "TrtCache",
    "ZeroRangeWarning", "amax_from_counts", "amax_of", "by_method", "configuration", "configurations",
    "expected_error", "expected_sqnr", "range_of", "register_method",
]  # fmt: skip
