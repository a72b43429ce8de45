"""Small models in each format that `convert` reads and writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from intact.formats import GGML_TYPES, GgufField, GgufTensor, write_gguf
from intact.formats.ggml_blocks import CODECS
from intact.formats.packed_layers import LAYER_CODECS
from intact.formats.safetensors_file import StoredTensor, write_safetensors
from intact.numerics import BlockWeights

CONFIGS: dict[str, dict] = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False},
    "gptq_v2": {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"},
    "compressed-tensors": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    "naive-quantized": {"quant_method": "compressed-tensors", "format": "int-quantized"},
}


def int4(rng: np.random.Generator, n: int = 64, k: int = 128, block: int = 32) -> BlockWeights:
    """Weights that every format holds."""
    codes = rng.integers(-8, 8, (n, k)).astype(np.int8)
    scales = (rng.normal(size=(n, k // block)) * 0.01).astype(np.float16)
    return BlockWeights(codes, "int4", scales, block)


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    tensors = {name: StoredTensor(array.dtype, array.shape) for name, array in arrays.items()}
    write_safetensors(path, tensors, arrays.__getitem__)


def write_folder(
    folder: Path, form: str, layers: dict[str, BlockWeights], plain: dict[str, np.ndarray], shards: int = 1
) -> Path:
    """A folder as Hugging Face has them, with a tokenizer's file."""
    folder.mkdir()
    arrays = dict(plain)
    for name, weights in layers.items():
        parts = LAYER_CODECS[form].write(weights)
        arrays |= {f"{name}.{suffix}": part for suffix, part in parts.items()}
    names = list(arrays)
    for shard in range(shards):
        save(folder / f"model-{shard}.safetensors", {name: arrays[name] for name in names[shard::shards]})
    config = {"model_type": "llama", "hidden_size": 128, "quantization_config": _config(form, layers)}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def _config(form: str, layers: dict[str, BlockWeights]) -> dict:
    """Return the configuration of these layers."""
    config = dict(CONFIGS[form])
    if "group_size" in config and layers:
        config["group_size"] = next(iter(layers.values())).block_size
    if "desc_act" in config:
        config["desc_act"] = any(weights.groups is not None for weights in layers.values())
    return config


def write_gguf_file(path: Path, layers: dict[str, BlockWeights], plain: dict[str, np.ndarray]) -> Path:
    """A GGUF file with weights of Q4_0."""
    kinds = {np.dtype("f4"): "F32", np.dtype("f2"): "F16"}
    tensors: dict[str, GgufTensor] = {}
    content: dict[str, np.ndarray] = {}
    for name, array in plain.items():
        tensors[name], content[name] = GgufTensor(GGML_TYPES[kinds[array.dtype]], array.shape), array
    for name, weights in layers.items():
        tensors[f"{name}.weight"] = GgufTensor(GGML_TYPES["Q4_0"], weights.shape)
        content[f"{name}.weight"] = CODECS["Q4_0"].pack(weights)
    write_gguf(path, {"general.architecture": GgufField.of("string", "llama")}, tensors, content.__getitem__)
    return path
