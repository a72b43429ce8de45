"""The PyTorch face of INTact, with the names of `pytorch_quantization` 2.2.1.

Code written for that library runs unchanged after ``intact.torch.alias()``, or under
``python -m intact.torch script.py``. New code calls `quantize`, `calibrate`, `reconstruct`, `finetune`,
`export` and `compile`.
"""

from __future__ import annotations

import sys as _sys

from intact.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtraError.of("torch", "torch", "intact.torch") from None

from intact.torch import calib, cuda_ext, nn, quant_modules, tensor_quant, utils
from intact.torch.alias import alias
from intact.torch.block_weights import (
    BlockQuantizedModule,
    BlockWeightLinear,
    quantize_,
    quantize_dynamic,
    quantize_weights,
)
from intact.torch.checkpoint import load_checkpoint, save_checkpoint
from intact.torch.compile_module import compile
from intact.torch.graph_mode import GraphModeReport, GraphModeResult, quantize
from intact.torch.hf_quantizer import install as _register_with_transformers
from intact.torch.module_replacement import ReplaceReport, replace_modules
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators.fake_quantize import fake_quantize
from intact.torch.pickled_models import load_pickled
from intact.torch.qdq import patch_torch_onnx as _onnx_export  # noqa: F401  in front of torch.onnx.export
from intact.torch.qdq.compare_engine import EngineComparison
from intact.torch.qdq.export import ExportReport, export
from intact.torch.quant_modules import deactivate, enable_onnx_export, initialize
from intact.torch.reconstruction import BlockReport, ReconstructionResult, reconstruct
from intact.torch.training.calibration import CalibrationResult, calibrate
from intact.torch.training.finetuning import FinetuneResult, finetune
from intact.torch.version import __version__

_register_with_transformers()
if "torch._dynamo" in _sys.modules:  # two seconds of import, that who compiles nothing does not pay
    from intact.torch.dynamo.backend import register as _register

    _register()

__all__ = [
    "BlockWeightLinear",
    "BlockQuantizedModule",
    "BlockReport",
    "CalibrationResult",
    "EngineComparison",
    "ExportReport",
    "FinetuneResult",
    "GraphModeReport",
    "GraphModeResult",
    "ReconstructionResult",
    "ReplaceReport",
    "__version__",
    "alias",
    "calib",
    "calibrate",
    "compile",
    "cuda_ext",
    "deactivate",
    "enable_onnx_export",
    "export",
    "fake_quantize",
    "finetune",
    "initialize",
    "load_checkpoint",
    "load_pickled",
    "nn",
    "ops",
    "quant_modules",
    "quantize",
    "quantize_",
    "quantize_dynamic",
    "quantize_weights",
    "reconstruct",
    "replace_modules",
    "save_checkpoint",
    "tensor_quant",
    "utils",
]
