"""A model that answers what is written down: each answer is one token, chosen by the message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from intact import lm

TEMPLATE = "{% if tools %}{% endif %}<|{{ messages[-1].content }}|>"
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]


def byte_letters() -> list[str]:
    """Return the letter that stands for each byte in vocabularies of GPT-2's kind."""
    unprintable = iter(range(256, 512))
    return [chr(byte) if byte in _PRINTABLE else chr(next(unprintable)) for byte in range(256)]


def model_of_answers(folder: Path, answers: Mapping[str, str]) -> lm.LanguageModel:
    """Return a model that answers the message "a" with `answers["a"]`; its other tokens are all bytes."""
    tokenizers = pytest.importorskip("tokenizers")
    letters = byte_letters()
    spell = lambda text: "".join(letters[byte] for byte in text.encode())  # noqa: E731
    special = ["<|end|>", *(f"<|{key}|>" for key in answers)]
    words = list(dict.fromkeys([*letters, *map(spell, answers.values()), *special]))
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    successors = {numbers[f"<|{key}|>"]: numbers[spell(answer)] for key, answer in answers.items()}
    successors |= {numbers[spell(answer)]: numbers["<|end|>"] for answer in answers.values()}
    folder.mkdir(parents=True, exist_ok=True)
    _write_weights(folder, len(words), successors)
    config = _config(len(words)) | {"eos_token_id": numbers["<|end|>"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    tokenizer.save(str(folder / "tokenizer.json"))
    return lm.load(folder, threads=1)


def _write_weights(folder: Path, words: int, successors: Mapping[int, int]) -> None:
    """Write a decoder without attention: its head is a table of successors."""
    hidden = _config(words)["hidden_size"]
    embeddings, head = np.eye(words, hidden, dtype=np.float32), np.zeros((words, hidden), np.float32)
    for token, following in successors.items():
        head[following, token] = 1
    ones, layer = np.ones(hidden, np.float32), "model.layers.0."
    tensors: dict[str, Any] = {
        "model.embed_tokens.weight": embeddings, "lm_head.weight": head, "model.norm.weight": ones,
        f"{layer}input_layernorm.weight": ones, f"{layer}post_attention_layernorm.weight": ones,
        f"{layer}mlp.gate_proj.weight": np.zeros((64, hidden), np.float32),
        f"{layer}mlp.up_proj.weight": np.zeros((64, hidden), np.float32),
        f"{layer}mlp.down_proj.weight": np.zeros((hidden, 64), np.float32),
    }  # fmt: skip
    for name in "qkvo":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = np.zeros((hidden, hidden), np.float32)
    save_file(tensors, folder / "model.safetensors")


def _config(words: int) -> dict[str, Any]:
    hidden = -(-words // 64) * 64
    return {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": hidden // 32, "num_key_value_heads": hidden // 32, "head_dim": 32,
        "vocab_size": words, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
        "tie_word_embeddings": False, "hidden_act": "silu",
    }  # fmt: skip
