"""Quantizes weights alone: codes of 2 to 8 bits with a scale for each block; activations need no ranges.

result = quantize_weights("model.onnx", data, weights="int4", block=32)
result.save("model.int4.onnx")
"""

from intact.ptq.blocks.apply_channel_scales import fold_channel_scales, insert_channel_scales
from intact.ptq.blocks.block_format import BlockFormat, activation_block
from intact.ptq.blocks.block_quantizer import (
    BlockQuantizer,
    BlockResult,
    LayerCodes,
    measure_inputs,
    stack_rows,
)
from intact.ptq.blocks.block_settings import (
    ACTIVATIONS,
    METHODS,
    OPERATORS,
    BlockSettings,
    settings_of,
    wants_blocks,
)
from intact.ptq.blocks.channel_scales import search_channel_scales, smooth_channel_scales
from intact.ptq.blocks.convert_to_onnx import ConvertedModel, convert_to_onnx
from intact.ptq.blocks.fit_scales import round_to_nearest, short_scales
from intact.ptq.blocks.linear_layers import LayerGroup, LinearLayer, find_linear_layers, group_by_input
from intact.ptq.blocks.mixed_bits import (
    FormatErrors,
    candidate_formats,
    choose_formats,
    measure_formats,
    stored_bits,
)
from intact.ptq.blocks.quantize_weights import (
    BlockQuantizedModel,
    quantize_weights,
    read_groups,
)
from intact.ptq.blocks.round_group import RECIPES, InputMoments, round_group
from intact.ptq.blocks.rounding_methods import damp, refine, round_with_hessian
from intact.ptq.blocks.write_layers import (
    QDQ_OPSET,
    copy_nbits,
    insert_dequantize,
    insert_nbits,
    write_nbits,
)

__all__ = [
    "ACTIVATIONS", "BlockFormat", "BlockQuantizedModel", "BlockQuantizer", "BlockResult",
    "BlockSettings", "ConvertedModel", "FormatErrors", "InputMoments", "LayerCodes", "LayerGroup",
    "LinearLayer", "METHODS", "OPERATORS", "QDQ_OPSET", "RECIPES", "activation_block",
    "candidate_formats", "choose_formats", "convert_to_onnx", "copy_nbits", "damp",
    "find_linear_layers", "fold_channel_scales", "group_by_input", "insert_channel_scales",
    "insert_dequantize", "insert_nbits", "measure_formats", "measure_inputs", "quantize_weights",
    "read_groups", "refine", "round_group", "round_to_nearest", "round_with_hessian",
    "search_channel_scales", "settings_of", "short_scales", "smooth_channel_scales", "stack_rows",
    "stored_bits", "wants_blocks", "write_nbits",
]  # fmt: skip
