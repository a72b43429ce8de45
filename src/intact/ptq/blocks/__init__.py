"""Quantizes weights alone: codes of 2 to 8 bits with a scale for each block; activations need no ranges.

result = quantize_weights("model.onnx", data, weights="int4", block=32)
result.save("model.int4.onnx")
"""

from intact.ptq.blocks.block_format import BlockFormat
from intact.ptq.blocks.block_settings import ACTIVATIONS, METHODS, OPERATORS, BlockSettings, wants_blocks
from intact.ptq.blocks.channel_scales import search_channel_scales
from intact.ptq.blocks.fit_scales import round_to_nearest
from intact.ptq.blocks.gptq import damp, round_with_hessian
from intact.ptq.blocks.quantize_weights import BlockQuantizedModel, LayerCodes, quantize_weights
from intact.ptq.blocks.refine_codes import refine
from intact.ptq.blocks.round_group import take_rows

__all__ = [
    "ACTIVATIONS", "METHODS", "OPERATORS", "BlockFormat", "BlockQuantizedModel", "BlockSettings",
    "LayerCodes", "wants_blocks", "damp", "quantize_weights", "refine", "round_to_nearest",
    "round_with_hessian", "search_channel_scales", "take_rows",
]  # fmt: skip
