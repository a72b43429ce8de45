"""Post-training quantization of ONNX models: turns a float model and calibration data into a Q/DQ model."""

from intact.ptq.data.batches import open_data
from intact.ptq.data.images import Images
from intact.ptq.data.state_sequences import streamed
from intact.ptq.from_cache import FromCache, quantize_from_cache
from intact.ptq.mixed.float_budget import GOOD_DB, POOR_DB
from intact.ptq.quantize import calibrate, quantize
from intact.ptq.result import QuantizedModel

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
