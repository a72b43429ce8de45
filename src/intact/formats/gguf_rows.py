"""The order of rows in queries and keys of GGUF files, which differs from that of Hugging Face."""

from __future__ import annotations

import numpy as np

from intact.formats.gguf_file import GgufFile, Tensor
from intact.formats.gguf_parts import GgufParts
from intact.formats.regrid import take_rows
from intact.numerics import BlockWeights

INTERLEAVED = ("llama", "mistral", "smollm3", "granite")
"""Architectures whose pairs of a rotation are neighbours in GGUF files, and halves of a head elsewhere."""

_HEADS = {"attn_q": "head_count", "attn_k": "head_count_kv"}


def with_halves(file: GgufFile | GgufParts, name: str, tensor: Tensor) -> Tensor:
    """Return a tensor with the rows of each head in the order of Hugging Face: the halves of all pairs apart.

    Tensors other than queries and keys, and those of other architectures, are returned as they are.

    Source: llama.cpp's convert_hf_to_gguf.py, `permute`.
    """
    fields = {key: field.value for key, field in file.metadata.items()}
    family, part = fields.get("general.architecture"), name.rsplit(".", 2)
    key = _HEADS.get(part[-2]) if len(part) == 3 and part[0].startswith("blk.") else None
    if family not in INTERLEAVED or key is None:
        return tensor
    count = fields.get(f"{family}.attention.{key}", fields.get(f"{family}.attention.head_count"))
    if isinstance(count, list):  # one for each layer
        layer = part[0].removeprefix("blk.")
        count = count[int(layer)] if layer.isdecimal() and int(layer) < len(count) else None
    rows = tensor.shape[0] if len(tensor.shape) else 0
    if not isinstance(count, int) or count < 1 or rows % (2 * count):
        return tensor
    order = np.arange(rows).reshape(count, rows // (2 * count), 2).swapaxes(1, 2).reshape(-1)
    return take_rows(tensor, order) if isinstance(tensor, BlockWeights) else tensor[order]
