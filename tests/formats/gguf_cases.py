"""A small GGUF file, written by the package `gguf`, with metadata of every kind and tensors of every type."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from intact.formats.ggml_types import GGML_TYPES

TYPES = (
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
    "TQ1_0", "TQ2_0", "MXFP4", "BF16",
)  # fmt: skip


def blocks_of(rng: np.random.Generator, name: str, rows: int, columns: int) -> np.ndarray:
    """Bytes [rows, n] of a type: what the package quantizes to, or random bytes where it cannot."""
    kind = gguf.GGMLQuantizationType[name]
    try:
        return gguf.quants.quantize(rng.normal(size=(rows, columns)).astype(np.float32), kind)
    except NotImplementedError:
        ours = GGML_TYPES[name]
        return rng.integers(0, 60, (rows, columns // ours.block_size * ours.nbytes), np.uint8)


def write(path: Path, types: tuple[str, ...] = TYPES) -> Path:
    """Write the file with the package's own writer."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("small é")
    writer.add_context_length(2048)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_array("tokenizer.ggml.tokens", ["a", "", "ü" * 5])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0])
    writer.add_array("test.flags", [True, False])
    writer.add_bool("test.flag", True)
    writer.add_int8("test.int8", -3)
    writer.add_uint64("test.uint64", 2**63 + 1)
    writer.add_float64("test.float64", 0.1)
    writer.add_tensor("norm", rng.normal(size=7).astype(np.float32))
    writer.add_tensor("half", rng.normal(size=(2, 3, 4)).astype(np.float16))
    writer.add_tensor("integers", np.arange(5, dtype=np.int32))
    for name in types:
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(f"blk.{name}", blocks_of(rng, name, 3, 512), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
