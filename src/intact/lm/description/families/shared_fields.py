"""Fields and names of tensors that the configurations of several families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIZES = {
    "vocab_size": None, "hidden_size": None, "intermediate_size": None, "num_hidden_layers": None,
    "num_attention_heads": None,
}  # fmt: skip
"""Fields that every configuration has to have: no default serves two models."""
LLAMA: dict[str, Any] = {
    **SIZES, "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
_BIASES = ("attention_bias", "mlp_bias")


def replace_fields(fields: Mapping[str, Any], *names: str, **changes: Any) -> dict[str, Any]:
    """Return fields without those of `names`, and with other values."""
    return {key: value for key, value in fields.items() if key not in names} | changes


PLAIN = replace_fields(LLAMA, "head_dim", *_BIASES)
NO_BIASES = replace_fields(LLAMA, *_BIASES)
SLIDING = {"sliding_window": 4096, "layer_types": None}
QWEN = NO_BIASES | SLIDING | {
    "max_position_embeddings": 32768, "use_sliding_window": False, "max_window_layers": 28,
}  # fmt: skip
GRANITE = {
    "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
}  # fmt: skip
LAYER = "model.layers.{}."
