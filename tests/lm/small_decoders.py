"""Small decoders of every family, with the logits that transformers computes.

`families.json` has their configurations and the shapes of their tensors, `logits.npz` the logits of `TOKENS`;
`make_families.py` writes both. Weights are drawn here, from the names of the tensors.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from intact import formats
from intact.formats.ggml_blocks import CODECS
from intact.numerics import BlockWeights

FOLDER = Path(__file__).parent
TOKENS = np.random.default_rng(1).integers(1, 64, 24)
Tensors = dict[str, np.ndarray]


def families() -> dict[str, dict[str, Any]]:
    """Return configuration and shapes of each family."""
    return json.loads((FOLDER / "families.json").read_text())


def reference_logits(family: str) -> np.ndarray:
    """Return what transformers computes in float32, [tokens, words]."""
    with np.load(FOLDER / "logits.npz") as arrays:
        return arrays[family]


def draw_weights(shapes: dict[str, list[int]]) -> Tensors:
    """Draw weights of about the size that trained ones have; norms are near 1, biases near 0."""
    tensors = {}
    for name, shape in shapes.items():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        values = rng.normal(size=shape)
        if len(shape) == 1:
            values = values * 0.2 + (0 if name.endswith("bias") else 1)
        elif "embed" not in name:
            values *= 1.5 / shape[-1] ** 0.5
        tensors[name] = values.astype(np.float32)
    return tensors


def write_folder(family: str, folder: Path) -> Path:
    """Write a Hugging Face folder."""
    record = families()[family]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(record["config"]))
    save_file(draw_weights(record["tensors"]), folder / "model.safetensors")
    return folder


def byte_tokenizer(more: str = "") -> Any:
    """Return a tokenizer whose tokens are letters and `more`, with <end> as the token 1."""
    tokenizers = pytest.importorskip("tokenizers")
    words = [
        "<begin>",
        "<end>",
        *(chr(97 + i) for i in range(26)),
        "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}",
        *more,
    ]
    words += [f"<{i}>" for i in range(len(words), 64)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({word: i for i, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(words[:2])
    return tokenizer


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def random_blocks(rng: np.random.Generator, kind: str, rows: int, columns: int) -> BlockWeights:
    """Draw weights of a type of GGUF files: random codes and sub-scales under small scales."""
    ours, codec = formats.GGML_TYPES[kind], CODECS[kind]
    raw = rng.integers(0, 120, (rows, columns // ours.block_size, ours.nbytes), np.uint8)
    weights = codec.unpack(raw)

    def draw(part: np.ndarray | None, size: float) -> np.ndarray | None:
        return None if part is None else (rng.normal(size=part.shape) * size).astype(part.dtype)

    if weights.super_scales is not None:
        parts = {"super_scales": draw(weights.super_scales, 4e-4)}
        return replace(weights, **parts, super_minima=draw(weights.super_minima, 2e-3))
    if weights.scales.dtype != np.float16:  # powers of 2
        return replace(
            weights, scales=(2.0 ** rng.integers(-7, -3, weights.scales.shape)).astype(weights.scales.dtype)
        )
    return replace(weights, scales=draw(weights.scales, 0.02), minima=draw(weights.minima, 0.1))


def write_quantized_gguf(path: Path, kind: str, head: str | None = None) -> Path:
    """Write a small llama whose matrices are of a type of GGUF files, with a head of its own or none."""
    rng, tensors = np.random.default_rng(3), dict[str, BlockWeights | np.ndarray]()
    shapes = {
        "attn_q": 256,
        "attn_k": 128,
        "attn_v": 128,
        "attn_output": 256,
        "ffn_gate": 256,
        "ffn_up": 256,
        "ffn_down": 256,
    }
    tensors["token_embd.weight"] = random_blocks(rng, kind, 64, 256)
    if head is not None:
        tensors["output.weight"] = random_blocks(rng, head, 64, 256)
    for layer in range(2):
        for name, rows in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = random_blocks(rng, kind, rows, 256)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = rng.normal(1, 0.2, 256).astype(np.float32)
    tensors["output_norm.weight"] = np.ones(256, np.float32)
    config = {
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "intermediate_size": 256,
        "vocab_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    types = {"token_embd.weight": kind, "output.weight": head}
    kinds = {
        name: formats.GgufTensor(
            formats.GGML_TYPES["F32" if isinstance(part, np.ndarray) else types.get(name) or kind], part.shape
        )
        for name, part in tensors.items()
    }
    formats.write_gguf(path, _llama_metadata(config), kinds, tensors.__getitem__)
    return path


def write_llama_gguf(path: Path) -> Path:
    """Write the family "llama" as llama.cpp's converter does: pairs of queries and keys are neighbours."""
    record = families()["llama"]
    config, tensors = record["config"], {}
    for name, array in draw_weights(record["tensors"]).items():
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
        for part, count in heads.items():
            if part in name:
                halves = array.reshape(count, 2, -1, array.shape[1])
                array = halves.swapaxes(1, 2).reshape(array.shape)
        name = name.removesuffix(".weight").replace("model.layers.", "blk.")
        for old, new in GGUF_NAMES.items():
            name = new if name == old else name.replace(f".{old}", f".{new}")
        tensors[f"{name}.weight"] = np.ascontiguousarray(array)
    kinds = {n: formats.GgufTensor(formats.GGML_TYPES["F32"], array.shape) for n, array in tensors.items()}
    formats.write_gguf(path, _llama_metadata(config), kinds, tensors.__getitem__)
    return path


GPT2_NAMES = {
    "transformer.": "", "h.": "blk.", "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def write_gpt2_gguf(path: Path) -> Path:
    """Write the family "gpt2" as llama.cpp's converter does: matrices are [outputs, inputs]."""
    record = families()["gpt2"]
    tensors = {}
    for name, array in draw_weights(record["tensors"]).items():
        if ".c_" in name and name.endswith("weight"):
            array = np.ascontiguousarray(array.T)
        for old, new in GPT2_NAMES.items():
            name = name.replace(old, new)
        tensors[name] = array
    config = record["config"] | {"num_key_value_heads": record["config"]["n_head"]}
    config["intermediate_size"] = config["n_inner"]
    kinds = {n: formats.GgufTensor(formats.GGML_TYPES["F32"], array.shape) for n, array in tensors.items()}
    metadata = {key.replace("llama.", "gpt2."): field for key, field in _llama_metadata(config).items()}
    del metadata["gpt2.attention.layer_norm_rms_epsilon"]
    metadata |= {
        "general.architecture": formats.GgufField.of("string", "gpt2"),
        "gpt2.attention.layer_norm_epsilon": formats.GgufField.of("float32", 1e-5),
    }
    formats.write_gguf(path, metadata, kinds, tensors.__getitem__)
    return path


def _llama_metadata(config: dict[str, Any]) -> dict[str, formats.GgufField]:
    numbers = {
        "block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"], "context_length": 128,
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
    }  # fmt: skip
    words = [f"t{i}" for i in range(config["vocab_size"])]
    return {
        "general.architecture": formats.GgufField.of("string", "llama"),
        **{f"llama.{key}": formats.GgufField.of("uint32", value) for key, value in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": formats.GgufField.of("float32", 1e-6),
        "tokenizer.ggml.model": formats.GgufField.of("string", "gpt2"),
        "tokenizer.ggml.pre": formats.GgufField.of("string", "smollm"),
        "tokenizer.ggml.tokens": formats.GgufField.of("string", words),
        "tokenizer.ggml.merges": formats.GgufField.of("string", []),
    }
