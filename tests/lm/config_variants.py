"""Configurations that differ from a family's default in one field, made of transformers' own classes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

_LATENT = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "num_key_value_heads": 4,
}  # fmt: skip
_INDEXER = {"index_topk": 64, "index_head_dim": 16, "index_n_heads": 2, "topk_group": 1}
_DELTA = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 12, "head_dim": 16,
}  # fmt: skip
_SSM = {
    "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 8,
    "shared_intermediate_size": 24,
}  # fmt: skip
_TYPES = {word: [word, word, "full_attention", word] for word in ("conv", "linear_attention")}
FAMILIES = {
    "Llama": {}, "Mistral": {"sliding_window": 8}, "Qwen2": {}, "Qwen3": {"head_dim": 16}, "SmolLM3": {},
    "Phi3": {}, "Granite": {}, "Gemma": {"head_dim": 16}, "Gemma2": {"head_dim": 16, "sliding_window": 8},
    "Gemma3Text": {"head_dim": 16, "sliding_window": 8}, "GPT2": {}, "Starcoder2": {},
    "Ministral": {"sliding_window": 8, "head_dim": 8}, "HyperCLOVAX": {"head_dim": 8}, "GPTBigCode": {},
    "VaultGemma": {"head_dim": 16, "sliding_window": 8}, "GPTJ": {"rotary_dim": 4},
    "CodeGen": {"rotary_dim": 4}, "InternLM3": {"head_dim": 8}, "IQuestCoder": {"head_dim": 8},
    "Exaone": {}, "Cwm": {"head_dim": 8, "sliding_window": 8}, "Ernie4_5": {"head_dim": 16},
    "SeedOss": {"head_dim": 16}, "HunYuanDenseV1": {"head_dim": 16}, "Helium": {"head_dim": 8},
    "Glm": {"head_dim": 16}, "Glm4": {"head_dim": 16}, "Cohere": {}, "Cohere2": {"sliding_window": 8},
    "Olmo": {}, "Olmo2": {}, "Olmo3": {"sliding_window": 8}, "Exaone4": {"sliding_window": 8},
    "Nemotron": {}, "Jais2": {}, "Arcee": {}, "BitNet": {}, "NanoChat": {}, "StableLm": {}, "Phi": {},
    "Persimmon": {}, "GPTNeoX": {}, "Falcon": {}, "OPT": {"word_embed_proj_dim": 32}, "BioGpt": {},
    "Mixtral": {"head_dim": 8}, "Qwen2Moe": {}, "Qwen3Moe": {}, "Olmoe": {}, "FlexOlmo": {}, "GraniteMoe": {},
    "GraniteMoeShared": {"shared_intermediate_size": 24}, "Ernie4_5_Moe": {"moe_num_experts": 4, "moe_k": 2},
    "HunYuanMoEV1": {"head_dim": 16, "moe_topk": 2}, "Glm4Moe": {"head_dim": 16}, "Dots1": {},
    "SolarOpen": {"head_dim": 16}, "HYV3": {"head_dim": 16}, "ExaoneMoe": {"sliding_window": 8},
    "MiniMaxM2": {"head_dim": 16}, "GptOss": {"head_dim": 16, "sliding_window": 8},
    "Lfm2": {"block_multiple_of": 8, "layer_types": _TYPES["conv"]},
    "Qwen3Next": _DELTA | {"layer_types": _TYPES["linear_attention"]},
    "Qwen3_5Text": _DELTA | {"layer_types": _TYPES["linear_attention"]},
    "Qwen3_5MoeText": _DELTA | {"layer_types": _TYPES["linear_attention"]},
    "Mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 2, "chunk_size": 8},
    "Bamba": _SSM | {"attn_layer_indices": [1]}, "FalconH1": _SSM | {"mamba_d_ssm": 48},
    "NemotronH": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "head_dim": 8,
        "mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 8, "n_groups": 2, "chunk_size": 8,
        "moe_shared_expert_intermediate_size": 24,
    },
    "Lfm2Moe": {"layer_types": _TYPES["conv"]},
    "GraniteMoeHybrid": _SSM | {"layer_types": _TYPES["linear_attention"]},
    "Bloom": {"n_layer": 4, "n_head": 4}, "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 4},
    "Mamba": {"state_size": 8}, "FalconMamba": {"state_size": 8},
    "Jamba": {"mamba_d_state": 8, "attn_layer_period": 2, "attn_layer_offset": 1},
    "Ministral3": {"head_dim": 8}, "GraniteSWA": {"sliding_window": 8},
    "GraniteMoeSWA": {"sliding_window": 8}, "Mellum": {"head_dim": 8, "sliding_window": 8},
    "MiniCPM3": _LATENT, "SarvamMLA": _LATENT,
    "SarvamMoE": {"head_dim": 8}, "DeepseekV32": _LATENT | _INDEXER, "GlmMoeDsa": _LATENT | _INDEXER,
    "Youtu": _LATENT, "DeepseekV2": _LATENT,
    "DeepseekV3": _LATENT | {"topk_group": 1, "first_k_dense_replace": 1},
}  # fmt: skip
"""Names of configuration classes without "Config", and settings that keep a small model legal."""
COMMON = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1, "n_group": 2,
    "shared_expert_intermediate_size": 24,
}  # fmt: skip
_TEXTS = {
    "hidden_act": (
        "silu", "gelu", "gelu_new", "relu", "relu2", "quick_gelu", "mish", "tanh", "leaky_relu", "laplace",
    ),
    "layer_types": (
        ["full_attention", "sliding_attention", "full_attention", "full_attention"],
        ["sliding_attention"] * 4, ["full_attention"] * 4,
        ["linear_attention", "full_attention"] * 2, ["conv", "full_attention"] * 2,
    ),
    "mlp_layer_types": (["sparse"] * 4, ["dense", "sparse", "dense", "sparse"], ["dense"] * 4),
    "mlp_only_layers": ([1, 2],), "topk_group": (2,), "moe_layer_end_index": (2,),
    "no_rope_layers": ([1, 1, 0, 0], [0, 1, 1, 1]),
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "beta_fast": 20.0, "beta_slow": 2.0,
         "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "attention_factor": 1.3,
         "original_max_position_embeddings": 32},
        {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 2.0, 3.0, 4.0],
         "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": 64},
        {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 2.0, 3.0, 4.0], "factor": 3.0,
         "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": 64},
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
    "time_step_limit": ([0.05, 0.5],), "mlp_multipliers": ([0.7, 1.3],),
    "position_embedding_type": ("rope", "nope"), "ssm_multipliers": ([0.7, 1.3, 0.8, 1.2, 0.9],),
    "attn_layer_indices": ([0, 2],), "full_attn_idxs": ([0],),
    "head_dim": (12,), "use_qk_norm": (True,), "rope_interleaved": (True,), "new_field": (1,),
    "rotary_pct": (0.5,), "rotary_emb_base": (500.0,), "qkv_bias": (True,),
    "use_parallel_residual": (True, False),
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
