"""Post-training quantization of ONNX models: turns a float model and calibration data into a Q/DQ model."""

from intact.ptq.blocks import BlockQuantizedModel, quantize_weights, wants_blocks
from intact.ptq.branch_data import keep_if_read_once, open_batches
from intact.ptq.data.batches import open_data
from intact.ptq.data.images import Images
from intact.ptq.data.state_sequences import streamed
from intact.ptq.from_cache import FromCache, quantize_from_cache, tensor_names
from intact.ptq.mixed.float_budget import GATE_DB, GOOD_DB, POOR_DB
from intact.ptq.modelopt import ModelOptModel, quantize_modelopt
from intact.ptq.modelopt_options import modelopt_onnx_options, modelopt_options, options_with_modelopt
from intact.ptq.quantize_model import BECAME_LARGER, calibrate, quantize
from intact.ptq.result import QuantizedModel, across, layers_of, summary, warnings_of

__all__ = [
    "BECAME_LARGER", "GATE_DB", "GOOD_DB", "POOR_DB", "BlockQuantizedModel", "FromCache", "Images",
    "ModelOptModel", "QuantizedModel", "across", "calibrate", "keep_if_read_once", "layers_of",
    "modelopt_onnx_options", "modelopt_options", "open_batches", "open_data", "options_with_modelopt",
    "quantize", "quantize_from_cache", "quantize_modelopt", "quantize_weights", "streamed", "summary",
    "tensor_names", "wants_blocks", "warnings_of",
]  # fmt: skip
