"""Quantization after training: an ONNX model and calibration data in, a Q/DQ model out."""

from intact.ptq.data import open_data
from intact.ptq.from_cache import FromCache, quantize_from_cache
from intact.ptq.images import Images
from intact.ptq.budget import GOOD_DB, POOR_DB
from intact.ptq.quantize import calibrate, quantize
from intact.ptq.result import QuantizedModel
from intact.ptq.streams import streamed

__all__ = [
    "GOOD_DB",
    "FromCache",
    "Images",
    "POOR_DB",
    "QuantizedModel",
    "calibrate",
    "open_data",
    "quantize",
    "quantize_from_cache",
    "streamed",
]
