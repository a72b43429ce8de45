"""Weights of layers with states: which rows of which tensor are those of a role."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from intact.lm.description.decoder_config import DecoderConfig, Mixer

Rows = NDArray[np.int64] | None
MIXER_ROLES = (
    "mixer_before", "mixer_after", "mixer_x", "mixer_z", "mixer_rate", "mixer_step", "mixer_out",
)  # fmt: skip
"""Roles of the layers: gates in front of a short convolution and behind it, what is convolved, the gate of
what a state gives, how much a token adds, how fast a state fades, and the layer behind all."""
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
    if "mixer_in" in stored_roles:
        roles = (
            ("mixer_before", "mixer_after", "mixer_x") if mixer.kind == "conv"
            else ("mixer_z", "mixer_x", "mixer_step")
        )  # fmt: skip
        sizes = [mixer_shape(config, each)[0] for each in roles]
        place = roles.index(role)
        return "mixer_in", np.arange(sum(sizes[:place]), sum(sizes[: place + 1]))
    return _group_source(mixer, role)


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
    columns = hidden if mixer.kind == "conv" else mixer.inner + 2 * mixer.keys
    inner = hidden if mixer.kind == "conv" else mixer.inner
    if role in _MIXER_VECTORS:
        return (mixer.heads,)
    shapes: dict[str, tuple[int, ...]] = {
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
