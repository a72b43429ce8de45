"""Families of decoders with experts: what distinguishes them."""

from __future__ import annotations

from typing import Any

from intact.lm.description.families.decoder_family import DecoderFamily, ExpertFamily
from intact.lm.description.families.dense_families import (
    GRANITE,
    LAYER,
    LLAMA,
    PLAIN,
    QWEN,
    SLIDING,
    replace_fields,
)


def _names_of_shared_experts(module: str) -> dict[str, str]:
    """Return the names of the shared experts' matrices, which are those of this module of the MLP."""
    return {f"shared_{role}": f"{LAYER}mlp.{module}.{role}_proj" for role in ("gate", "up", "down")}


_BLOCK_SPARSE = {
    "router": f"{LAYER}block_sparse_moe.gate",
    **{f"expert_{role}": f"{LAYER}block_sparse_moe.experts.{{}}.{name}"
       for role, name in (("gate", "w1"), ("down", "w2"), ("up", "w3"))},
}  # fmt: skip
GRANITE_MOE = {
    "router": f"{LAYER}block_sparse_moe.router.layer",
    "experts_gate_up": f"{LAYER}block_sparse_moe.input_linear.weight",
    "experts_down": f"{LAYER}block_sparse_moe.output_linear.weight",
    "shared_gate_up": f"{LAYER}shared_mlp.input_linear", "shared_down": f"{LAYER}shared_mlp.output_linear",
}  # fmt: skip
_QWEN_EXPERTS = {"norm_topk_prob": False, "decoder_sparse_step": 1}
_GLM_EXPERTS = {
    "n_routed_experts": 128, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
    "routed_scaling_factor": 1.0,
}  # fmt: skip
_SIGMOID: dict[str, Any] = {
    "count": ("n_routed_experts", "num_local_experts"), "scores": "sigmoid", "has_correction": True,
    "normalizes": "norm_topk_prob", "scale": "routed_scaling_factor", "has_groups": True,
    "shared": "n_shared_experts",
}  # fmt: skip

_LATENT = {
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}  # fmt: skip
_LATENT_FIELDS = PLAIN | {"rope_interleave": True}
_USUAL_LAYERS = {"attention_bias": (False,), "moe_layer_freq": (1,)}
_USUAL_ROUTER = {"topk_method": ("noaux_tc",), "scoring_func": ("sigmoid",)}
_SPARSE = (
    "index_head_dim", "index_n_heads", "indexer_types", "index_topk_freq", "index_topk_pattern",
    "index_skip_topk_offset", "indexer_rope_interleave",
)  # fmt: skip
_INDEXER = ("model.layers.*.self_attn.indexer.",)
_DEEPSEEK_EXPERTS = {
    "n_routed_experts": 256, "n_shared_experts": 1, "n_group": 8, "topk_group": 4,
    "routed_scaling_factor": 2.5, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3, "norm_topk_prob": True,
}  # fmt: skip
_UNREAD = ("head_dim", "num_nextn_predict_layers", "num_mtp_layers")

EXPERT_FAMILIES = (
    DecoderFamily(
        "youtu", "Youtu", _LATENT_FIELDS | {
            "max_position_embeddings": 131072, "num_key_value_heads": 16, "tie_word_embeddings": True,
        }, fixed=_USUAL_LAYERS, unread=("head_dim",), latent=_LATENT,
    ),
    DecoderFamily(
        "deepseek_v3", "DeepseekV3", _LATENT_FIELDS | {
            "max_position_embeddings": 4096, "num_key_value_heads": 128,
        }, fixed=_USUAL_LAYERS | _USUAL_ROUTER, unread=_UNREAD, latent=_LATENT,
        experts=ExpertFamily(usual=_DEEPSEEK_EXPERTS, layers="first", **_SIGMOID),
    ),
    DecoderFamily(
        "deepseek_v32", "DeepseekV32", PLAIN | {
            "max_position_embeddings": 163840, "num_key_value_heads": 128, "index_topk": 2048,
        }, fixed=_USUAL_LAYERS | _USUAL_ROUTER | {"mlp_bias": (False,)}, unread=_UNREAD, latent=_LATENT,
        interleaved=True,
        longest="index_topk", beyond=_SPARSE, unread_tensors=_INDEXER, layer_kind="indexed_attention",
        experts=ExpertFamily(usual=_DEEPSEEK_EXPERTS, layers="types", **_SIGMOID),
    ),
    DecoderFamily(
        "glm_moe_dsa", "GlmMoeDsa", PLAIN | {
            "max_position_embeddings": 202752, "num_key_value_heads": 64, "rms_norm_eps": 1e-5,
            "index_topk": 2048,
        }, fixed=_USUAL_LAYERS | _USUAL_ROUTER | {"mlp_bias": (False,)}, unread=_UNREAD, interleaved=True,
        latent=_LATENT | {"q_lora_rank": 2048, "qk_nope_head_dim": 192, "v_head_dim": 256},
        longest="index_topk", beyond=_SPARSE, unread_tensors=_INDEXER, layer_kind="indexed_attention",
        experts=ExpertFamily(
            usual=_DEEPSEEK_EXPERTS | {"n_group": 1, "topk_group": 1}, layers="types", **_SIGMOID
        ),
    ),
    DecoderFamily(
        "sarvam_mla", "SarvamMLA", _LATENT_FIELDS | {"max_position_embeddings": 4096}, alias="DeepseekV3",
        fixed=_USUAL_LAYERS | _USUAL_ROUTER, unread=_UNREAD, latent=_LATENT | {"q_lora_rank": None},
        experts=ExpertFamily(
            usual=_DEEPSEEK_EXPERTS | {
                "n_routed_experts": 128, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
            }, layers="first", **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "minicpm3", "MiniCPM3", PLAIN | {
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "num_key_value_heads": 40,
            "tie_word_embeddings": True, "embedding_multiplier": 12.0, "scale_depth": 1.4,
            "dim_model_base": 256,
        }, own_names={"embedding_multiplier": "scale_emb"}, unread=("head_dim",),
        fixed=_USUAL_LAYERS | {"mlp_bias": (False,)},
        latent={"q_lora_rank": 768, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
    ),
    DecoderFamily(
        "glm4_moe_lite", "Glm4MoeLite", _LATENT_FIELDS | {
            "max_position_embeddings": 202752, "num_key_value_heads": 20, "rms_norm_eps": 1e-5,
        }, fixed=_USUAL_LAYERS | _USUAL_ROUTER, unread=_UNREAD, latent=_LATENT | {
            "q_lora_rank": 768, "qk_nope_head_dim": 192, "v_head_dim": 256,
        },
        experts=ExpertFamily(
            usual=_GLM_EXPERTS | {
                "n_routed_experts": 64, "routed_scaling_factor": 1.8, "num_experts_per_tok": 4,
                "moe_intermediate_size": 1536, "first_k_dense_replace": 1, "norm_topk_prob": True,
            }, layers="types", **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "deepseek_v2", "DeepseekV2", PLAIN, interleaved=True,
        fixed=_USUAL_LAYERS | {"mlp_bias": (False,), "topk_method": ("greedy",),
                             "scoring_func": ("softmax",)},
        unread=("head_dim", "n_group", "topk_group", "norm_topk_prob"), latent=_LATENT,
        experts=ExpertFamily(
            ("n_routed_experts", "num_experts"), normalizes=False, scale="routed_scaling_factor",
            shared="n_shared_experts", layers="first", usual={
                "n_routed_experts": 64, "n_shared_experts": 2, "routed_scaling_factor": 1.0,
                "moe_intermediate_size": 1407, "first_k_dense_replace": 0,
            },
        ),
    ),
    DecoderFamily(
        "mixtral", "Mixtral", PLAIN | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "sliding_window": None,
        }, rope_base=1e6, tensors=_BLOCK_SPARSE,
        experts=ExpertFamily(
            inner="intermediate_size", usual={"num_experts_per_tok": 2, "num_local_experts": 8}
        ),
    ),
    DecoderFamily(
        "gpt_oss", "GptOss", PLAIN | SLIDING | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 64, "sliding_window": 128, "attention_bias": True,
        }, rope_base=150000.0, rope={
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 4096,
        }, window_period=2, has_sinks=True, biases=frozenset(("router",)),
        unread=("initial_context_length", "experts_per_token"), tensors={"router": f"{LAYER}mlp.router"},
        experts=ExpertFamily(
            ("num_local_experts", "num_experts"), inner="intermediate_size", scores="chosen",
            is_clamped=True, has_biases=True, rows_alternate=True, turned=True, usual={
                "num_experts_per_tok": 4, "num_local_experts": 128, "swiglu_limit": 7.0,
                "swiglu_alpha": 1.702,
            },
        ),
    ),
    DecoderFamily(
        "minimax_m2", "MiniMaxM2", PLAIN | {
            "max_position_embeddings": 196608, "num_key_value_heads": 8,
            "head_dim": 128,
        }, rope_base=5e6, has_partial_rotary=True, qk_norm="whole",
        tensors=_BLOCK_SPARSE | {"correction": f"{LAYER}block_sparse_moe.e_score_correction_bias"},
        experts=ExpertFamily(
            inner="intermediate_size", scores="sigmoid", has_correction=True,
            usual={"num_experts_per_tok": 8, "num_local_experts": 256},
        ),
    ),
    DecoderFamily(
        "qwen2_moe", "Qwen2Moe",
        replace_fields(QWEN, num_key_value_heads=16, attention_bias=True),
        attention_biases=frozenset("qkv"), own_names={"attention_bias": "qkv_bias"},
        tensors=_names_of_shared_experts("shared_expert"),
        experts=ExpertFamily(
            ("num_experts",), normalizes="norm_topk_prob", shared="shared_expert_intermediate_size",
            gates_shared=True, layers="steps", usual=_QWEN_EXPERTS | {
                "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                "shared_expert_intermediate_size": 5632,
            },
        ),
    ),
    DecoderFamily(
        "qwen3_moe", "Qwen3Moe", replace_fields(QWEN, "max_window_layers", "layer_types") | {
            "attention_bias": False, "num_key_value_heads": 4,
        }, qk_norm="head", unread=("max_window_layers",),
        experts=ExpertFamily(
            normalizes="norm_topk_prob", layers="steps", usual=_QWEN_EXPERTS | {
                "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
            },
        ),
    ),
    DecoderFamily(
        "olmoe", "Olmoe", PLAIN | {
            "attention_bias": False, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "clip_qkv": None,
        }, qk_norm="whole",
        experts=ExpertFamily(
            ("num_experts",), inner="intermediate_size", normalizes="norm_topk_prob",
            usual={"num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": False},
        ),
    ),
    DecoderFamily(
        "flex_olmo", "FlexOlmo", PLAIN | {"attention_bias": False, "max_position_embeddings": 4096},
        rope_base=5e5, norms="after", qk_norm="whole",
        experts=ExpertFamily(
            ("num_experts",), inner="intermediate_size", normalizes="norm_topk_prob",
            usual={"num_experts": 7, "num_experts_per_tok": 5, "norm_topk_prob": False},
        ),
    ),
    DecoderFamily(
        "granitemoe", "GraniteMoe", PLAIN | GRANITE | {"attention_bias": False}, tensors=GRANITE_MOE,
        experts=ExpertFamily(
            ("num_local_experts",), inner="intermediate_size", scores="chosen",
            usual={"num_local_experts": 8, "num_experts_per_tok": 2},
        ),
    ),
    DecoderFamily(
        "granitemoeshared", "GraniteMoeShared", PLAIN | GRANITE | {"attention_bias": False},
        tensors=GRANITE_MOE,
        experts=ExpertFamily(
            ("num_local_experts",), inner="intermediate_size", scores="chosen",
            shared="shared_intermediate_size",
            usual={"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 0},
        ),
    ),
    DecoderFamily(
        "granitemoe_swa", "GraniteMoeSWA", PLAIN | GRANITE | SLIDING | {
            "attention_bias": False, "sliding_window": 128, "layer_rope_theta": None,
        }, window_period=4, window_offset=0, has_sinks=True, tensors=GRANITE_MOE | {
            "router": f"{LAYER}block_sparse_moe.router",
            "experts_gate_up": f"{LAYER}block_sparse_moe.experts.gate_up_proj",
            "experts_down": f"{LAYER}block_sparse_moe.experts.down_proj",
        },
        experts=ExpertFamily(
            ("num_local_experts",), inner="intermediate_size", scores="chosen",
            shared="shared_intermediate_size",
            usual={"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 0},
        ),
    ),
    DecoderFamily(
        "mellum", "Mellum", PLAIN | SLIDING | {
            "max_position_embeddings": 131072, "num_key_value_heads": 4, "head_dim": 128,
            "attention_bias": False, "sliding_window": 1024,
        }, qk_norm="head", rope_base=5e5, local_rope=("", 10000.0), window_period=1, rope={
            "full_attention": {"rope_type": "default", "rope_theta": 5e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        unread=("num_nextn_predict_layers", "num_mtp_layers", "mtp_layer_types", "mtp_mlp_layer_types"),
        unread_tensors=("mtp.",),
        experts=ExpertFamily(
            normalizes="norm_topk_prob", layers="types", usual={
                "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 896,
                "norm_topk_prob": True,
            },
        ),
    ),
    DecoderFamily(
        "ernie4_5_moe", "Ernie4_5_Moe", PLAIN | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 4,
            "tie_word_embeddings": True,
        }, rope_base=5e5, interleaved=True, fixed={"moe_norm_min": (1e-12,), "use_bias": (False,)},
        tensors={"correction": f"{LAYER}mlp.moe_statics.e_score_correction_bias"},
        experts=ExpertFamily(
            ("moe_num_experts",), "moe_k", has_correction=True, shared="moe_num_shared_experts",
            layers="interval", usual={
                "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
                "moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1,
            },
        ),
    ),
    DecoderFamily(
        "hunyuan_v1_moe", "HunYuanMoEV1", replace_fields(LLAMA, "mlp_bias") | {"rms_norm_eps": 1e-5},
        qk_norm="head", norms_rotated=True,
        tensors={
            "q_norm": f"{LAYER}self_attn.query_layernorm", "k_norm": f"{LAYER}self_attn.key_layernorm",
            "router": f"{LAYER}mlp.gate.wg",
            **_names_of_shared_experts("shared_mlp"),
        },
        experts=ExpertFamily(
            ("num_experts", "num_local_experts"), "moe_topk", inner="intermediate_size",
            shared="intermediate_size", usual={"num_experts": 1, "moe_topk": 1},
        ),
    ),
    DecoderFamily(
        "glm4_moe", "Glm4Moe", replace_fields(LLAMA, "mlp_bias") | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "use_qk_norm": False,
        }, rotary_share=0.5, has_partial_rotary=True, qk_norm="head", attention_biases=frozenset("qkv"),
        unread=("num_nextn_predict_layers", "num_mtp_layers"),
        experts=ExpertFamily(
            usual=_GLM_EXPERTS | {
                "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
                "norm_topk_prob": True,
            }, layers="first", **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "sarvam_moe", "SarvamMoE", replace_fields(LLAMA, "mlp_bias") | {
            "max_position_embeddings": 131072, "num_key_value_heads": 4, "head_dim": 64,
            "use_qk_norm": True,
        }, rope_base=8e6, has_partial_rotary=True, qk_norm="head", attention_biases=frozenset("qkv"),
        alias="Glm4Moe", unread=("num_nextn_predict_layers", "num_mtp_layers"), tensors={
            "embedding": "model.word_embeddings", "correction": f"{LAYER}mlp.gate.expert_bias",
            "qkv": f"{LAYER}attention.query_key_value", "o": f"{LAYER}attention.dense",
            "q_norm": f"{LAYER}attention.query_layernorm", "k_norm": f"{LAYER}attention.key_layernorm",
        },
        experts=ExpertFamily(
            usual=_GLM_EXPERTS | {
                "num_experts_per_tok": 6, "moe_intermediate_size": 1024, "first_k_dense_replace": 1,
                "routed_scaling_factor": 2.5, "norm_topk_prob": True,
            }, layers="first", **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "solar_open", "SolarOpen", replace_fields(LLAMA, "mlp_bias", "intermediate_size") | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128, "moe_intermediate_size": 1280,
        }, own_names={"intermediate_size": "moe_intermediate_size"}, rope_base=1e6,
        has_partial_rotary=True, attention_biases=frozenset("qkv"),
        experts=ExpertFamily(
            usual=_GLM_EXPERTS | {
                "num_experts_per_tok": 8, "moe_intermediate_size": 1280, "norm_topk_prob": True,
            }, **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "dots1", "Dots1", PLAIN | SLIDING | {
            "num_key_value_heads": 32, "attention_bias": False, "max_window_layers": 62,
        }, qk_norm="head",
        experts=ExpertFamily(
            usual={
                "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "moe_intermediate_size": 1408,
                "first_k_dense_replace": 0, "norm_topk_prob": False,
            }, layers="first", **_SIGMOID,
        ),
    ),
    DecoderFamily(
        "hy_v3", "HYV3", LLAMA | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128,
        }, rope_base=11158840.0, qk_norm="head", unread=("enable_moe_fp32_combine",),
        tensors={
            "router": f"{LAYER}mlp.router.gate", "correction": f"{LAYER}mlp.expert_bias",
            **_names_of_shared_experts("shared_mlp"),
        },
        experts=ExpertFamily(
            ("num_experts", "num_local_experts"), scores="sigmoid", has_correction=True,
            scale="router_scaling_factor", shared="num_shared_experts", layers="types", usual={
                "num_experts": 192, "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
                "num_shared_experts": 1, "router_scaling_factor": 2.826, "first_k_dense_replace": 1,
            },
        ),
    ),
    DecoderFamily(
        "exaone_moe", "ExaoneMoe", PLAIN | SLIDING | {
            "num_key_value_heads": 32, "rms_norm_eps": 1e-5, "sliding_window_pattern": 4,
        }, qk_norm="head", unrotated="full", window_period=4,
        tensors={"correction": f"{LAYER}mlp.e_score_correction_bias"},
        experts=ExpertFamily(
            ("num_experts",), scores="sigmoid", has_correction=True, normalizes="norm_topk_prob",
            scale="routed_scaling_factor", has_groups=True, shared="num_shared_experts", layers="types",
            usual={
                "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 1024,
                "num_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_group": 1,
                "topk_group": 1, "first_k_dense_replace": 1,
            },
        ),
    ),
)  # fmt: skip
