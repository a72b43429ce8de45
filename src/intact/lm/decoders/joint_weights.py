"""Weights whose rows stand in the tensor of another role: of attention, latent and not, and of layers with
states.

Heads of latent attention begin with the channels that rotate, and their values are as long as keys."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from intact.formats import floats_of, take_rows
from intact.lm.description.decoder_config import DecoderConfig, LatentAttention, Mixer
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


def qkv_rows(config: DecoderConfig, place: int) -> NDArray[np.int64]:
    """Return the rows of queries, keys or values (0, 1, 2) in a tensor that holds all of them."""
    group, size = config.heads // config.kv_heads, config.head_size
    if config.qkv_order == "groups":
        rows = np.arange((config.heads + 2 * config.kv_heads) * size).reshape(-1, group + 2, size)
        return (rows[:, :group] if place == 0 else rows[:, group + place - 1]).reshape(-1)
    rows = np.arange(3 * config.heads * size).reshape(4, 3, -1)
    return rows[:, {0: 0, 1: 2, 2: 1}[place]].reshape(-1)


# ---- layers with states


Rows = NDArray[np.int64] | None
MIXER_ROLES = (
    "mixer_before", "mixer_after", "mixer_x", "mixer_z", "mixer_rate", "mixer_step", "mixer_out",
    "mixer_short", "mixer_k", "mixer_q",
)  # fmt: skip
"""Roles of the layers: gates in front of a short convolution and behind it, what is convolved, the gate of
what a state gives, how much a token adds, how fast a state fades, the layer behind all, and of a scan what
steps are made of, its keys and its queries."""
_SCANNED = ("mixer_short", "mixer_k", "mixer_q")
_JOINED = {
    "conv": ("mixer_before", "mixer_after", "mixer_x"), "ssm": ("mixer_z", "mixer_x", "mixer_step"),
    "scan": ("mixer_x", "mixer_z"),
}  # fmt: skip
"""Roles that one tensor holds, by the kind of layer."""
_MIXER_VECTORS = ("mixer_slopes", "mixer_bias", "mixer_direct")


def mixer_source(config: DecoderConfig, role: str, stored_roles: frozenset[str]) -> tuple[str, Rows]:
    """Return the role of the tensor that holds a role, and the rows of it; None: all.

    Args:
        config: Of the decoder.
        role: One of `MIXER_ROLES`.
        stored_roles: Roles of which files have a tensor.
    """
    mixer = mixer_of(config)
    if role == "mixer_out" or role in stored_roles:
        return role, None
    if role in _SCANNED:
        return "mixer_scan", _rows_of(config, role, _SCANNED)
    if "mixer_in" in stored_roles:
        return "mixer_in", _rows_of(config, role, _JOINED[mixer.kind])
    return _group_source(mixer, role)


def _rows_of(config: DecoderConfig, role: str, roles: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the rows of a role in a tensor that holds several, one below the other."""
    sizes = [mixer_shape(config, each)[0] for each in roles]
    place = roles.index(role)
    return np.arange(sum(sizes[:place]), sum(sizes[: place + 1]))


def _group_source(mixer: Mixer, role: str) -> tuple[str, Rows]:
    """Return the rows of a role where each head of keys has its query, key, values and gates, or rates and
    steps, side by side, as Qwen3-Next stores them."""
    each = mixer.heads // mixer.key_heads
    if role in ("mixer_rate", "mixer_step"):
        both = np.arange(2 * mixer.heads).reshape(mixer.key_heads, 2, each)
        return "mixer_ba", both[:, 0 if role == "mixer_rate" else 1].reshape(-1)
    size, values = mixer.key_size, each * mixer.value_size
    rows = np.arange(mixer.key_heads * 2 * (size + values)).reshape(mixer.key_heads, -1)
    ends = np.cumsum([0, size, size, values, values])
    q, k, v, z = (rows[:, begin:end].reshape(-1) for begin, end in pairwise(ends))
    return "mixer_qkvz", z if role == "mixer_z" else np.concatenate([q, k, v])


def mixer_shape(config: DecoderConfig, role: str) -> tuple[int, ...]:
    """Return the shape of the weight of a role."""
    mixer, hidden = mixer_of(config), config.hidden
    columns = hidden if mixer.kind == "conv" else mixer.conv_width
    inner = hidden if mixer.kind == "conv" else mixer.inner
    if mixer.kind == "scan":
        rank, size = mixer.step_rank, mixer.key_size
        shapes: dict[str, tuple[int, ...]] = {
            "mixer_short": (rank, inner), "mixer_k": (size, inner), "mixer_q": (size, inner),
            "mixer_step": (inner, rank), "mixer_slopes": (inner, size), "mixer_direct": (inner,),
            "mixer_short_norm": (rank,), "mixer_k_norm": (size,), "mixer_q_norm": (size,),
        }  # fmt: skip
        if role in shapes:
            return shapes[role]
    if role in _MIXER_VECTORS:
        return (mixer.heads,)
    shapes = {
        "mixer_x": (columns, hidden), "mixer_z": (inner, hidden), "mixer_before": (hidden, hidden),
        "mixer_after": (hidden, hidden), "mixer_rate": (mixer.heads, hidden),
        "mixer_step": (mixer.heads, hidden), "mixer_out": (hidden, inner),
        "mixer_conv": (columns, 1, mixer.kernel),
        "mixer_norm": (mixer.value_size if mixer.kind == "delta" else mixer.inner,),
    }  # fmt: skip
    return shapes[role]


def mixer_of(config: DecoderConfig) -> Mixer:
    """Return what layers with states are."""
    assert config.mixer is not None
    return config.mixer
