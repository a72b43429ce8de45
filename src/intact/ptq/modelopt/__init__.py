"""Quantizes ONNX models as configurations of NVIDIA's ModelOpt say: floats in blocks, and attention."""

from intact.ptq.modelopt.configurations import (
    NAMES,
    needs_blocks_of_floats,
    read_rules,
    require_configuration,
)
from intact.ptq.modelopt.quantize_modelopt import ModelOptModel, layers_left_in_float, quantize_modelopt

__all__ = [
    "NAMES", "ModelOptModel", "layers_left_in_float", "needs_blocks_of_floats", "quantize_modelopt",
    "read_rules", "require_configuration",
]  # fmt: skip
