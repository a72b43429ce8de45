"""Calibration without a framework: collects statistics once, chooses ranges later, merges exactly."""

from intact.calib.calibration import Calibration, ZeroRangeWarning
from intact.calib.calibration_methods import LEAST_VALUES, METHODS, Method, register_method
from intact.calib.choose_amax import amax_from_counts, amax_of, range_of
from intact.calib.histogram import BINS, Histogram
from intact.calib.quantization_error import expected_error, expected_sqnr
from intact.calib.range import Range
from intact.calib.trt_cache import TrtCache

__all__ = [
    "BINS",
    "LEAST_VALUES",
    "METHODS",
    "Calibration",
    "Histogram",
    "Method",
    "Range",
    "TrtCache",
    "ZeroRangeWarning",
    "amax_from_counts",
    "amax_of",
    "expected_error",
    "expected_sqnr",
    "range_of",
    "register_method",
]
