"""Small decoders of every family, with the logits that transformers computes.

`families.json` has their configurations and the shapes of their tensors, `logits.npz` the logits of `TOKENS`;
`make_families.py` writes both. Weights are drawn here, from the names of the tensors.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from intact import formats

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


def byte_tokenizer() -> Any:
    """Return a tokenizer whose tokens are letters, with <end> as the token 1."""
    tokenizers = pytest.importorskip("tokenizers")
    words = [
        "<begin>",
        "<end>",
        *(chr(97 + i) for i in range(26)),
        "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}",
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
    numbers = {
        "block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"], "context_length": 128,
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
    }  # fmt: skip
    words = [f"t{i}" for i in range(config["vocab_size"])]
    metadata = {
        "general.architecture": formats.GgufField.of("string", "llama"),
        **{f"llama.{key}": formats.GgufField.of("uint32", value) for key, value in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": formats.GgufField.of("float32", 1e-6),
        "tokenizer.ggml.model": formats.GgufField.of("string", "gpt2"),
        "tokenizer.ggml.pre": formats.GgufField.of("string", "smollm"),
        "tokenizer.ggml.tokens": formats.GgufField.of("string", words),
        "tokenizer.ggml.merges": formats.GgufField.of("string", []),
    }
    kinds = {n: formats.GgufTensor(formats.GGML_TYPES["F32"], array.shape) for n, array in tensors.items()}
    formats.write_gguf(path, metadata, kinds, tensors.__getitem__)
    return path
