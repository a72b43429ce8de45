"""Weights of latent attention: heads begin with the channels that rotate, and values are as long as keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.formats import floats_of, take_rows
from intact.lm.description.decoder_config import DecoderConfig, LatentAttention
from intact.numerics import BlockWeights

Weight = BlockWeights | NDArray[np.float32]
LATENT_ROLES = ("q", "q_a", "q_b", "kv_a", "k_rotated", "k_plain", "v", "o")
"""Roles of the layers of latent attention: shorter vectors, and what is made of them."""
_SOURCES = {"k_rotated": "kv_a", "k_plain": "kv_b", "v": "kv_b"}


def latent_source(config: DecoderConfig, role: str) -> tuple[str, tuple[int, int]]:
    """Return the role of the tensor that holds a role, and its shape."""
    latent = _latent_of(config)
    shapes = {
        "q": (config.heads * latent.head_size, config.hidden), "q_a": (latent.q_rank, config.hidden),
        "q_b": (config.heads * latent.head_size, latent.q_rank),
        "kv_a": (latent.kv_rank + latent.rotated, config.hidden),
        "kv_b": (config.heads * (latent.plain + latent.value), latent.kv_rank),
        "o": (config.hidden, config.heads * latent.value),
    }  # fmt: skip
    source = _SOURCES.get(role, role)
    return source, shapes[source]


def latent_weight(config: DecoderConfig, role: str, weight: Weight) -> Weight:
    """Return the weight [outputs, inputs] of a role out of the tensor of `latent_source`.

    Values and what reads them are filled up with zeros to the length of keys, so that one cache serves both.
    """
    latent = _latent_of(config)
    heads, size, plain = config.heads, latent.head_size, latent.plain
    if role in ("q", "q_b"):
        rows = np.arange(heads * size).reshape(heads, size)
        return _take(weight, np.concatenate([rows[:, plain:], rows[:, :plain]], 1).reshape(-1))
    if role in ("kv_a", "k_rotated"):
        joined = np.arange(latent.kv_rank + latent.rotated)
        return _take(weight, joined[: latent.kv_rank] if role == "kv_a" else joined[latent.kv_rank :])
    rows = np.arange(heads * (plain + latent.value)).reshape(heads, -1)
    if role == "k_plain":
        return _take(weight, rows[:, :plain].reshape(-1))
    if role == "q_a" or latent.value == size:
        return _take(weight, rows[:, plain:].reshape(-1)) if role == "v" else weight
    floats = np.asarray(floats_of(weight), np.float32)
    if role == "o":
        padded = np.zeros((len(floats), heads, size), np.float32)
        padded[..., : latent.value] = floats.reshape(len(floats), heads, latent.value)
        return padded.reshape(len(floats), -1)
    values = np.zeros((heads, size, floats.shape[1]), np.float32)
    values[:, : latent.value] = floats.reshape(heads, -1, floats.shape[1])[:, plain:]
    return values.reshape(-1, floats.shape[1])


def _latent_of(config: DecoderConfig) -> LatentAttention:
    assert config.latent is not None
    return config.latent


def _take(weight: Weight, rows: NDArray[np.int64]) -> Weight:
    if isinstance(weight, BlockWeights):
        return take_rows(weight, rows)
    return np.ascontiguousarray(np.asarray(weight, np.float32)[rows])
