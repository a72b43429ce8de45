"""Weights of language models as files: read to codes and scales without loss, and written back.

with intact.formats.GgufFile("model.gguf") as file:
    weights = file.read("blk.0.attn_q.weight")    # BlockWeights: codes, scales, minima
    floats = intact.numerics.dequantize_blocks(weights)
"""

from intact.formats.ggml_types import GGML_TYPES, GgmlType
from intact.formats.gguf_fields import GgufField
from intact.formats.gguf_file import GgufFile, GgufTensor, write_gguf

__all__ = ["GGML_TYPES", "GgmlType", "GgufField", "GgufFile", "GgufTensor", "write_gguf"]
