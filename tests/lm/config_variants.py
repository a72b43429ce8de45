"""Configurations that differ from a family's default in one field, made of transformers' own classes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

FAMILIES = {
    "Llama": {}, "Mistral": {"sliding_window": 8}, "Qwen2": {}, "Qwen3": {"head_dim": 16}, "SmolLM3": {},
    "Phi3": {}, "Granite": {}, "Gemma": {"head_dim": 16}, "Gemma2": {"head_dim": 16, "sliding_window": 8},
    "Gemma3Text": {"head_dim": 16, "sliding_window": 8}, "GPT2": {}, "Starcoder2": {},
}  # fmt: skip
"""Names of configuration classes without "Config", and settings that keep a small model legal."""
COMMON = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_TEXTS = {
    "hidden_act": (
        "silu", "gelu", "gelu_new", "relu", "relu2", "quick_gelu", "mish", "tanh", "leaky_relu", "laplace",
    ),
    "layer_types": (
        ["full_attention", "sliding_attention", "full_attention", "full_attention"],
        ["sliding_attention"] * 4, ["full_attention"] * 4,
    ),
    "no_rope_layers": ([1, 1, 0, 0], [0, 1, 1, 1]),
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 16},
        {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        {"full_attention": {"rope_type": "default", "rope_theta": 700.0},
         "sliding_attention": {"rope_type": "default", "rope_theta": 30.0}},
        {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 700.0},
         "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 30.0}},
    ),
}  # fmt: skip
_TEXTS["hidden_activation"] = _TEXTS["activation_function"] = _TEXTS["hidden_act"]
_OLD = {
    "rope_theta": (500.0,), "rope_scaling": _TEXTS["rope_parameters"][1:3], "partial_rotary_factor": (0.5,),
    "rope_local_base_freq": (30.0,), "sliding_window_pattern": (2,), "tie_encoder_decoder": (True,),
    "is_decoder": (True,), "pruned_heads": ({"1": [0]},),
    "per_layer_config": ({"1": {"hidden_act": "relu"}},),
    "use_qk_norm": (True,), "rope_interleaved": (True,), "new_field": (1,),
}  # fmt: skip
"""Fields of files that older versions wrote, and of no version."""
_INTERVALS = {"initializer_range": (0.5,), "dtype": ("float32",), "problem_type": ("regression",)}


def _values(name: str, value: Any) -> tuple[Any, ...]:
    """Return legal values of a field, beside its own."""
    if name in _TEXTS or name in _INTERVALS:
        return (_TEXTS | _INTERVALS)[name]
    if name in ("vocab_size", "hidden_size", "num_attention_heads", "n_embd", "n_head"):
        return (2 * value,) if isinstance(value, int) else ()
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, 2 * value) if name.endswith("token_id") or "window" in name else (2 * value,)
    if isinstance(value, float):
        return (0.3, 2.5) if value >= 0.5 or value == 0.0 else (value * 100,)
    return (True, 3, 0.5) if value is None else ()


def variants(name: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield field, value and config.json of each variant of a family; first ("", None) for the default."""
    import transformers

    kind = getattr(transformers, f"{name}Config")
    base = kind(**{k: v for k, v in (COMMON | FAMILIES[name]).items() if k in _names(kind)})
    record = {key: value for key, value in base.to_dict().items() if not key.startswith("_")}
    record["model_type"] = base.model_type
    yield "", None, copy.deepcopy(record)
    for field in sorted(_names(kind) | set(_OLD)):
        current = record.get(field)
        for value in _OLD.get(field, _values(field, current)):
            if value != current:
                changed = copy.deepcopy(record)
                changed[field] = copy.deepcopy(value)
                if field in ("rope_theta", "rope_scaling", "partial_rotary_factor", "rope_local_base_freq"):
                    changed.pop("rope_parameters", None)  # as files of older versions are
                if field == "sliding_window_pattern":
                    changed.pop("layer_types", None)
                yield field, value, changed


def _names(kind: type) -> set[str]:
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    return fields | set(getattr(kind, "attribute_map", ()))
