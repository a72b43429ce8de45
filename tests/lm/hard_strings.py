"""64 texts that tell tokenizers apart, and vocabularies whose merges cross any border between words."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from intact.lm.vocabularies.token_bytes import byte_letters

SPECIAL = ("<|im_start|>", "<think>", "<|endoftext|>")
HARD_STRINGS: tuple[str, ...] = tuple(json.loads(Path(__file__).with_suffix(".json").read_text()))
"""Blanks and line ends, words, digits, signs, scripts, control characters, special tokens, long runs."""


def crossing_merges(alphabet: dict[int, str], seed: int, count: int) -> list[tuple[str, str]]:
    """Draw merges that build up parts of the hard strings, whatever they hold, as letters for bytes."""
    rng, merges = random.Random(seed), dict[tuple[str, str], None]()
    words = [[alphabet[byte] for byte in text.encode()] for text in HARD_STRINGS if len(text) > 1]
    for _ in range(count):
        word = rng.choice(words)
        start = rng.randrange(len(word) - 1)
        built = word[start]
        for letter in word[start + 1 : start + rng.randint(2, 5)]:
            merges.setdefault((built, letter))
            built += letter
    return list(merges)


def byte_level_metadata(pre: str, seed: int = 0, count: int = 1500) -> dict[str, Any]:
    """Return the metadata of a byte-pair vocabulary, for a pre-tokenizer."""
    alphabet = {byte: letter for letter, byte in byte_letters().items()}
    merges = crossing_merges(alphabet, seed, count)
    tokens = [*dict.fromkeys([*alphabet.values(), *(left + right for left, right in merges)]), *SPECIAL]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 3) + [3, 4, 3],
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
        "tokenizer.ggml.bos_token_id": len(tokens) - 3, "tokenizer.ggml.eos_token_id": len(tokens) - 1,
    }  # fmt: skip


def piece_metadata(seed: int = 0, count: int = 400, ties: int = 1, **fields: Any) -> dict[str, Any]:
    """Return the metadata of a vocabulary of pieces with scores, `ties` of which are alike."""
    letters = {letter for text in HARD_STRINGS for letter in text.replace(" ", "\u2581")} - {"\0"}
    rng = random.Random(seed)
    alphabet = [*sorted(letters)[:: 1 + seed % 3], "\u2581"]
    joined: dict[str, None] = {}
    texts = ["\u2581" + text.replace(" ", "\u2581") for text in HARD_STRINGS if text]
    for _ in range(count):
        text = rng.choice(texts)
        start = rng.randrange(len(text))
        for end in range(start + 2, start + rng.randint(2, 6)):
            joined.setdefault(text[start:end])
    pieces = [piece for piece in joined if len(piece) > 1 and "\0" not in piece]
    rng.shuffle(pieces)
    words = [*pieces, *dict.fromkeys(alphabet)]
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "<|im_start|>", "<think>"]
    words = [word for word in words if word not in special]
    tokens = [*special, *words]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 3, 4, *[1] * len(words)],
        "tokenizer.ggml.scores": [0.0] * len(special) + [-1.0 - at // ties for at in range(len(words))],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, **fields,
    }  # fmt: skip


def blank_pair_metadata(pre: str, seed: int = 0) -> dict[str, Any]:
    """Return the metadata of a byte-pair vocabulary that writes blanks as U+2581 and falls back to bytes."""
    tokens = piece_metadata(seed, 300)["tokenizer.ggml.tokens"]
    token_set = set(tokens)
    merges = [
        f"{token[:cut]} {token[cut:]}" for token in tokens if "\n" not in token
        for cut in range(1, len(token)) if {token[:cut], token[cut:]} <= token_set
    ]  # fmt: skip
    tokens = [*tokens, *("\n" * count for count in range(1, 8) if "\n" * count not in token_set)]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 3, 4, *[1] * (len(tokens) - 261)],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    }  # fmt: skip
