"""Modules whose weights are codes in blocks, for inference on the engine's kernels.

result = intact.quantize(module, batches, weights="int4", block=32, activations="dynamic-int8")
result.model(x)
"""

from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.block_weights.quantize_dynamic import quantize_dynamic
from intact.torch.block_weights.quantize_modules import BlockQuantizedModule, quantize_weights
from intact.torch.block_weights.torchao_configs import quantize_

__all__ = ["BlockWeightLinear", "BlockQuantizedModule", "quantize_", "quantize_dynamic", "quantize_weights"]
