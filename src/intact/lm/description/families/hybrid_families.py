"""Families of decoders whose layers have states in place of keys and values: what distinguishes them."""

from __future__ import annotations

import math
from dataclasses import replace

from intact.lm.description.families.decoder_family import DecoderFamily, ExpertFamily, MixerFamily
from intact.lm.description.families.dense_families import (
    GRANITE,
    LAYER,
    PLAIN,
    replace_fields,
)
from intact.lm.description.families.expert_families import GRANITE_MOE

_LFM2_LAYER = {
    "attention_norm": "operator_norm", "mlp_norm": "ffn_norm", "o": "self_attn.out_proj",
    "q_norm": "self_attn.q_layernorm", "k_norm": "self_attn.k_layernorm", "gate": "feed_forward.w1",
    "up": "feed_forward.w3", "down": "feed_forward.w2", "mixer_in": "conv.in_proj",
    "mixer_conv": "conv.conv", "mixer_out": "conv.out_proj",
}  # fmt: skip
_LFM2_TENSORS = {"norm": "model.embedding_norm"} | {
    role: f"{LAYER}{name}" for role, name in _LFM2_LAYER.items()
}  # fmt: skip
_LFM2_CONV = MixerFamily(
    "conv", {"kernel": "conv_L_cache", "conv_bias": "conv_bias"},
    {"conv_L_cache": 3, "conv_bias": False}, word="conv", attention="full_attn_idxs",
)  # fmt: skip
_DELTA_FIELDS = {
    "kernel": "linear_conv_kernel_dim", "heads": "linear_num_value_heads",
    "key_heads": "linear_num_key_heads", "key_size": "linear_key_head_dim",
    "value_size": "linear_value_head_dim",
}  # fmt: skip
_DELTA = MixerFamily(
    "delta", _DELTA_FIELDS, {
        "linear_conv_kernel_dim": 4, "linear_num_value_heads": 32, "linear_num_key_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "full_attention_interval": 4,
    }, attention="full_attention_interval", gates_first=False,
)  # fmt: skip
_DELTA_TENSORS = {
    f"mixer_{role}": f"{LAYER}linear_attn.{name}" for role, name in {
        "x": "in_proj_qkv", "z": "in_proj_z", "rate": "in_proj_b", "step": "in_proj_a",
        "conv": "conv1d", "norm": "norm", "out": "out_proj", "slopes": "A_log", "bias": "dt_bias",
    }.items()
}  # fmt: skip
_QWEN_SHARED = {f"shared_{role}": f"{LAYER}mlp.shared_expert.{role}_proj" for role in ("gate", "up", "down")}
_QWEN35_UNREAD = ("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype")
_QWEN3_NEXT = PLAIN | {
    "attention_bias": False, "head_dim": 256, "num_key_value_heads": 2, "max_position_embeddings": 32768,
}  # fmt: skip

_SSM_USUAL = {
    "time_step_limit": (0.0, math.inf),
    "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 256,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False,
}  # fmt: skip
_SSM = MixerFamily(
    "ssm", {
        "kernel": "mamba_d_conv", "heads": "mamba_n_heads", "key_heads": "mamba_n_groups",
        "key_size": "mamba_d_state", "value_size": "mamba_d_head", "expand": "mamba_expand",
        "conv_bias": "mamba_conv_bias", "bias": "mamba_proj_bias",
    }, _SSM_USUAL, has_groups=True, has_steps=True,
)  # fmt: skip


def _ssm_tensors(prefix: str) -> dict[str, str]:
    """Return the names of a selective state space's tensors."""
    names = {
        "in": "in_proj", "conv": "conv1d", "norm": "norm", "out": "out_proj", "slopes": "A_log",
        "bias": "dt_bias", "direct": "D",
    }  # fmt: skip
    return {f"mixer_{role}": f"{prefix}.{name}" for role, name in names.items()}


_SCAN_UNREAD = (
    "residual_in_fp32", "time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme",
    "time_step_floor", "rescale_prenorm_residual", "use_mambapy", "use_associative_scan",
    "use_falcon_mambapy", "d_inner", "fused_add_norm", "rms_norm", "ssm_cfg", "pad_vocab_size_multiple",
)  # fmt: skip
_SCAN = MixerFamily(
    "scan", {
        "kernel": "conv_kernel", "key_size": "state_size", "expand": "expand", "rank": "time_step_rank",
        "conv_bias": "use_conv_bias", "bias": "use_bias", "width": "intermediate_size",
    }, {
        "conv_kernel": 4, "state_size": 16, "expand": 2, "use_conv_bias": True, "use_bias": False,
        "mixer_rms_eps": 1e-6,
    }, layers="all",
)  # fmt: skip
_MAMBA = {
    "vocab_size": None, "hidden_size": None, "num_hidden_layers": None, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": True,
}  # fmt: skip


def _scan_tensors(prefix: str) -> dict[str, str]:
    """Return the names of Mamba 1's tensors."""
    names = {
        "in": "in_proj", "conv": "conv1d", "scan": "x_proj", "step": "dt_proj", "out": "out_proj",
        "slopes": "A_log", "direct": "D", "short_norm": "dt_layernorm", "k_norm": "b_layernorm",
        "q_norm": "c_layernorm",
    }  # fmt: skip
    return {f"mixer_{role}": f"{prefix}.{name}" for role, name in names.items()}


_MAMBA_TENSORS = _scan_tensors("backbone.layers.{}.mixer") | {
    "embedding": "backbone.embeddings", "norm": "backbone.norm_f",
    "attention_norm": "backbone.layers.{}.norm",
}  # fmt: skip
_OWN_KERNELS = ("mamba_chunk_size", "chunk_size", "num_logits_to_keep", "use_mamba_kernels")
_FEED_FORWARD = {role: f"{LAYER}feed_forward.{role}_proj" for role in ("gate", "up", "down")}
_FALCON_FACTORS = (
    "key_multiplier", "attention_out_multiplier", "attention_in_multiplier", "mlp_multipliers",
    "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier",
)  # fmt: skip

HYBRID_FAMILIES = (
    DecoderFamily(
        "lfm2", "Lfm2", replace_fields(PLAIN, "hidden_act") | {
            "max_position_embeddings": 128000, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "tie_word_embeddings": True, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0,
            "block_multiple_of": 256,
        }, own_names={"rms_norm_eps": "norm_eps", "intermediate_size": "block_ff_dim",
                      "tie_word_embeddings": "tie_embedding"},
        mapped=frozenset(("intermediate_size", "tie_word_embeddings")), rope_base=1e6, qk_norm="head",
        unread=("block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
                "block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out",
                "conv_use_xavier_init", "theta", "use_pos_enc", "num_heads"),
        tensors=_LFM2_TENSORS, mixer=_LFM2_CONV,
    ),
    DecoderFamily(
        "lfm2_moe", "Lfm2Moe", replace_fields(PLAIN, "hidden_act") | {
            "max_position_embeddings": 128000, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "tie_word_embeddings": True,
        }, own_names={"rms_norm_eps": "norm_eps", "tie_word_embeddings": "tie_embedding"},
        mapped=frozenset(("tie_word_embeddings",)), rope_base=1e6, qk_norm="head",
        unread=("conv_dim", "conv_dim_out", "theta", "num_heads"), fixed={"use_expert_bias": (True,)},
        tensors=_LFM2_TENSORS | {
            "router": f"{LAYER}feed_forward.gate", "correction": f"{LAYER}feed_forward.expert_bias",
            "expert_gate": f"{LAYER}feed_forward.experts.{{}}.w1",
            "expert_up": f"{LAYER}feed_forward.experts.{{}}.w3",
            "expert_down": f"{LAYER}feed_forward.experts.{{}}.w2",
            "experts_gate_up": f"{LAYER}feed_forward.experts.gate_up_proj",
            "experts_down": f"{LAYER}feed_forward.experts.down_proj",
        }, mixer=_LFM2_CONV,
        experts=ExpertFamily(
            ("num_experts",), scores="sigmoid", has_correction=True, normalizes="norm_topk_prob",
            scale="routed_scaling_factor", first="num_dense_layers", layers="first", usual={
                "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792,
                "num_dense_layers": 2, "norm_topk_prob": True, "routed_scaling_factor": 1.0,
            },
        ),
    ),
    DecoderFamily(
        "qwen3_next", "Qwen3Next", _QWEN3_NEXT, rotary_share=0.25, has_partial_rotary=True,
        qk_norm="head", norm_offset=1.0, gates_attention=True, mixer=_DELTA,
        unread_tensors=("mtp.",), tensors=_DELTA_TENSORS | _QWEN_SHARED | {
            "mixer_qkvz": f"{LAYER}linear_attn.in_proj_qkvz", "mixer_ba": f"{LAYER}linear_attn.in_proj_ba",
        },
        experts=ExpertFamily(
            normalizes="norm_topk_prob", shared="shared_expert_intermediate_size", gates_shared=True,
            layers="steps", usual={
                "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
                "shared_expert_intermediate_size": 512, "norm_topk_prob": True, "decoder_sparse_step": 1,
            },
        ),
    ),
    DecoderFamily(
        "qwen3_5_text", "Qwen3_5", _QWEN3_NEXT | {"num_key_value_heads": 4}, rotary_share=0.25,
        has_partial_rotary=True, has_sections=True, qk_norm="head", norm_offset=1.0, gates_attention=True,
        mixer=_DELTA, tensors=_DELTA_TENSORS, unread=_QWEN35_UNREAD, unread_tensors=("mtp.",),
        fixed={"attn_output_gate": (True,), "mlp_only_layers": ([],)},
    ),
    DecoderFamily(
        "qwen3_5_moe_text", "Qwen3_5Moe", replace_fields(_QWEN3_NEXT, "intermediate_size"),
        rotary_share=0.25, has_partial_rotary=True, qk_norm="head", norm_offset=1.0, gates_attention=True,
        has_sections=True, mixer=_DELTA, tensors=_DELTA_TENSORS | _QWEN_SHARED, unread=_QWEN35_UNREAD,
        unread_tensors=("mtp.",), fixed={"attn_output_gate": (True,), "mlp_only_layers": ([],)},
        experts=ExpertFamily(
            shared="shared_expert_intermediate_size", gates_shared=True, usual={
                "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
                "shared_expert_intermediate_size": 512,
            },
        ),
    ),
    DecoderFamily(
        "mamba2", "Mamba2", {
            "vocab_size": None, "hidden_size": None, "num_hidden_layers": None, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "tie_word_embeddings": False,
        }, own_names={"rms_norm_eps": "layer_norm_epsilon"}, has_attention=False, has_mlp=False,
        unrotated="all",
        unread=("chunk_size", "residual_in_fp32", "time_step_rank", "time_step_min", "time_step_max",
                "time_step_floor", "rescale_prenorm_residual"),
        mixer=replace(
            _SSM, fields={
                "kernel": "conv_kernel", "heads": "num_heads", "key_heads": "n_groups",
                "key_size": "state_size", "value_size": "head_dim", "expand": "expand",
                "conv_bias": "use_conv_bias", "bias": "use_bias",
            }, usual={
                "conv_kernel": 4, "num_heads": 128, "n_groups": 8, "state_size": 128, "head_dim": 64,
                "expand": 2, "use_conv_bias": True, "use_bias": False, "time_step_limit": (0.0, math.inf),
            }, layers="all",
        ),
        tensors=_ssm_tensors("backbone.layers.{}.mixer") | {
            "embedding": "backbone.embeddings", "norm": "backbone.norm_f",
            "attention_norm": "backbone.layers.{}.norm",
        },
    ),
    DecoderFamily(
        "mamba", "Mamba", _MAMBA, own_names={"rms_norm_eps": "layer_norm_epsilon"}, has_attention=False,
        has_mlp=False, unrotated="all", unread=_SCAN_UNREAD, mixer=_SCAN, tensors=_MAMBA_TENSORS,
    ),
    DecoderFamily(
        "falcon_mamba", "FalconMamba", _MAMBA, own_names={"rms_norm_eps": "layer_norm_epsilon"},
        has_attention=False, has_mlp=False, unrotated="all", unread=_SCAN_UNREAD, tensors=_MAMBA_TENSORS,
        mixer=replace(_SCAN, scan_norms="plain", scan_epsilon="mixer_rms_eps"),
    ),
    DecoderFamily(
        "jamba", "Jamba", PLAIN | {"max_position_embeddings": 262144, "num_key_value_heads": 8},
        unrotated="all", unread=("use_mamba_kernels", "use_mambapy", "use_associative_scan"),
        mixer=replace(
            _SCAN, fields={
                "kernel": "mamba_d_conv", "key_size": "mamba_d_state", "expand": "mamba_expand",
                "rank": "mamba_dt_rank", "conv_bias": "mamba_conv_bias", "bias": "mamba_proj_bias",
            }, usual={
                "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2, "mamba_conv_bias": True,
                "mamba_proj_bias": False, "attn_layer_period": 8, "attn_layer_offset": 4,
            }, layers="types", attention="attn_layer_period", offset="attn_layer_offset",
            scan_norms="weights",
        ),
        tensors=_scan_tensors(f"{LAYER}mamba") | _FEED_FORWARD | {
            "norm": "model.final_layernorm", "mlp_norm": f"{LAYER}pre_ff_layernorm",
            "router": f"{LAYER}feed_forward.router",
            **{f"expert_{role}": f"{LAYER}feed_forward.experts.{{}}.{role}_proj"
               for role in ("gate", "up", "down")},
            "experts_gate_up": f"{LAYER}feed_forward.experts.gate_up_proj",
            "experts_down": f"{LAYER}feed_forward.experts.down_proj",
        },
        experts=ExpertFamily(
            inner="intermediate_size", normalizes=False, layers="period", usual={
                "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2,
                "expert_layer_offset": 1,
            },
        ),
    ),
    DecoderFamily(
        "bamba", "Bamba", PLAIN | {
            "max_position_embeddings": 262144, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "attention_bias": False, "mlp_bias": False,
        }, rotary_share=0.5, has_partial_rotary=True, unread=(*_OWN_KERNELS, "z_loss_coefficient"),
        mixer=replace(_SSM, attention="attn_layer_indices"),
        tensors=_ssm_tensors(f"{LAYER}mamba") | _FEED_FORWARD | {
            "norm": "model.final_layernorm", "mlp_norm": f"{LAYER}pre_ff_layernorm",
        },
    ),
    DecoderFamily(
        "falcon_h1", "FalconH1", PLAIN | {
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "attention_bias": False, "mlp_bias": False, "embedding_multiplier": 1.0, "logit_scale": 1.0,
        }, own_names={"logit_scale": "lm_head_multiplier"}, factors=_FALCON_FACTORS,
        unread=(*_OWN_KERNELS, "mamba_use_mlp", "mlp_expansion_factor", "time_step_rank", "time_step_min",
                "time_step_max", "time_step_floor"),
        mixer=replace(
            _SSM, fields={**_SSM.fields, "width": "mamba_d_ssm", "norm_first": "mamba_norm_before_gate",
                          "bias": "mamba_proj_bias", "out_bias": "projectors_bias"},
            usual=_SSM_USUAL | {
                "mamba_d_ssm": 1024, "mamba_norm_before_gate": True, "mamba_rms_norm": False,
                "projectors_bias": False,
            }, layers="both", has_norm="mamba_rms_norm",
        ),
        tensors=_ssm_tensors(f"{LAYER}mamba") | _FEED_FORWARD | {
            "norm": "model.final_layernorm", "mlp_norm": f"{LAYER}pre_ff_layernorm",
        },
    ),
    DecoderFamily(
        "granitemoehybrid", "GraniteMoeHybrid", PLAIN | GRANITE | {
            "attention_bias": False, "position_embedding_type": None,
        }, unrotated="position_embedding_type", unread=(*_OWN_KERNELS, "init_method"),
        fixed={"normalization_function": ("rmsnorm",)},
        mixer=_SSM, shared_inner="shared_intermediate_size",
        tensors=_ssm_tensors(f"{LAYER}mamba") | GRANITE_MOE | {
            "gate_up": f"{LAYER}shared_mlp.input_linear", "down": f"{LAYER}shared_mlp.output_linear",
        },
        experts=ExpertFamily(
            ("num_local_experts",), inner="intermediate_size", scores="chosen",
            shared="shared_intermediate_size",
            usual={"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 1024},
        ),
    ),
    DecoderFamily(
        "nemotron_h", "NemotronH", replace_fields(PLAIN, "num_hidden_layers") | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128, "hidden_act": "relu2", "attention_bias": False, "mlp_bias": False,
        }, own_names={"rms_norm_eps": "layer_norm_epsilon", "hidden_act": "mlp_hidden_act"},
        unrotated="all", is_gated=False,
        unread=(*_OWN_KERNELS, "expand", "time_step_min", "time_step_max", "time_step_floor",
                "n_shared_experts", "num_query_groups", "time_step_rank", "residual_in_fp32",
                "rescale_prenorm_residual", "mamba_ssm_cache_dtype", "use_bias",
                "moe_shared_expert_overlap", "num_nextn_predict_layers", "mtp_layers_block_type",
                "mtp_hybrid_override_pattern", "sliding_window"),
        fixed={"moe_latent_size": ()},
        mixer=replace(
            _SSM, fields={
                "kernel": "conv_kernel", "heads": "mamba_num_heads", "key_heads": "n_groups",
                "key_size": "ssm_state_size", "value_size": "mamba_head_dim", "conv_bias": "use_conv_bias",
                "bias": "mamba_proj_bias",
            }, usual={
                "conv_kernel": 4, "mamba_num_heads": 128, "n_groups": 8, "ssm_state_size": 128,
                "mamba_head_dim": 64, "use_conv_bias": True, "mamba_proj_bias": False,
                "time_step_limit": (0.0, math.inf), "layers_block_type": None,
            }, layers="parts", activation="mamba_hidden_act",
        ),
        tensors=_ssm_tensors("backbone.layers.{}.mixer") | {
            "embedding": "backbone.embeddings", "norm": "backbone.norm_f",
            **{role: f"backbone.layers.{{}}.{name}" for role, name in {
                "attention_norm": "norm", "mlp_norm": "norm", "q": "mixer.q_proj", "k": "mixer.k_proj",
                "v": "mixer.v_proj", "o": "mixer.o_proj", "up": "mixer.up_proj", "down": "mixer.down_proj",
                "router": "mixer.gate", "correction": "mixer.gate.e_score_correction_bias",
                "expert_up": "mixer.experts.{}.up_proj", "expert_down": "mixer.experts.{}.down_proj",
                "experts_gate_up": "mixer.experts.up_proj", "experts_down": "mixer.experts.down_proj",
                "shared_up": "mixer.shared_experts.up_proj", "shared_down": "mixer.shared_experts.down_proj",
            }.items()},
        },
        experts=ExpertFamily(
            ("n_routed_experts", "num_local_experts"), scores="sigmoid", has_correction=True,
            normalizes="norm_topk_prob", scale="routed_scaling_factor", has_groups=True,
            shared="moe_shared_expert_intermediate_size", layers="parts", is_gated=False, usual={
                "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 7688,
                "moe_shared_expert_intermediate_size": 7688, "norm_topk_prob": True,
                "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1,
            },
        ),
    ),
)  # fmt: skip
