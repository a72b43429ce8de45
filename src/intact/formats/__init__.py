"""Weights of language models as files: read to codes and scales without loss, and written back.

weights = intact.formats.open_weights("model.gguf")     # GGUF, or safetensors of GPTQ, AWQ, ...
tensor = weights.read("blk.0.attn_q.weight")            # BlockWeights: codes, scales, minima
floats = intact.numerics.dequantize_blocks(tensor)
intact.formats.convert("model.gguf", "folder", to="compressed-tensors")
"""

from intact.formats.convert import FORMATS, Conversion, convert, holders
from intact.formats.ggml_types import GGML_TYPES, GgmlType
from intact.formats.gguf_fields import GgufField
from intact.formats.gguf_file import GgufFile, GgufTensor, write_gguf
from intact.formats.gguf_parts import INTERLEAVED, with_halves
from intact.formats.metadata_fields import ACCEPTED, USED, FieldUse, MetadataFields, short_value
from intact.formats.onnx_inputs import BLOCK_INPUTS, block_inputs, dequantize_inputs, nbits_inputs
from intact.formats.regrid import join_rows, sort_by_group, take_rows
from intact.formats.safetensors_file import SafetensorsFile, StoredTensor, write_safetensors
from intact.formats.weight_files import (
    GgufWeights,
    WeightDifference,
    WeightFiles,
    compare_weights,
    floats_of,
    open_weights,
)

__all__ = [
    "ACCEPTED", "BLOCK_INPUTS", "FORMATS", "GGML_TYPES", "INTERLEAVED", "USED", "Conversion", "FieldUse",
    "GgmlType", "GgufField", "GgufFile", "GgufTensor", "GgufWeights", "MetadataFields", "SafetensorsFile",
    "StoredTensor", "WeightDifference", "WeightFiles", "block_inputs", "compare_weights", "convert",
    "dequantize_inputs", "floats_of", "holders", "join_rows", "nbits_inputs", "open_weights", "short_value",
    "sort_by_group", "take_rows", "with_halves", "write_gguf", "write_safetensors",
]  # fmt: skip
