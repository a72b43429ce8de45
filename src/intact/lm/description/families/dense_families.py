"""Families of decoders whose layers have one MLP: what distinguishes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intact.lm.description.families.decoder_family import DecoderFamily

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


PLAIN = replace_fields(LLAMA, *_BIASES)
_EVEN_HEADS = replace_fields(PLAIN, "head_dim")
"""Of families whose heads always fill the residual stream."""
SLIDING = {"sliding_window": 4096, "layer_types": None}
QWEN = PLAIN | SLIDING | {
    "max_position_embeddings": 32768, "use_sliding_window": False, "max_window_layers": 28,
}  # fmt: skip
GRANITE = {
    "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
}  # fmt: skip
LAYER = "model.layers.{}."


_GELU = "gelu_pytorch_tanh"
_GEMMA = PLAIN | {
    "attention_bias": False, "head_dim": 256, "hidden_act": _GELU, "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}  # fmt: skip
_GEMMA2 = replace_fields(_GEMMA, "hidden_act") | SLIDING | {
    "hidden_activation": _GELU, "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}  # fmt: skip
_GPT2_NAMES = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions", "intermediate_size": "n_inner",
    "hidden_act": "activation_function", "rms_norm_eps": "layer_norm_epsilon",
}  # fmt: skip
_GPT2_MAPPED = frozenset(
    ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
)
_GPT2 = SIZES | {
    "max_position_embeddings": 1024, "hidden_act": "gelu_new", "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True, "scale_attn_weights": True,
}  # fmt: skip
_GPTJ = replace_fields(_GPT2, "scale_attn_weights") | {
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "rotary_dim": 64,
}  # fmt: skip
_EVERY = frozenset(("q", "k", "v", "o", "up", "down"))
_LAYER_EPS = {"rms_norm_eps": "layer_norm_eps"}
_PLAIN_MLP = {"up": f"{LAYER}mlp.c_fc", "down": f"{LAYER}mlp.c_proj"}
_FC_MLP = {"up": f"{LAYER}mlp.fc1", "down": f"{LAYER}mlp.fc2"}
_GPT2_TENSORS = {
    "embedding": "transformer.wte", "positions": "transformer.wpe", "norm": "transformer.ln_f",
    **{role: f"transformer.h.{{}}.{name}" for role, name in {
        "attention_norm": "ln_1", "qkv": "attn.c_attn", "o": "attn.c_proj", "mlp_norm": "ln_2",
        "up": "mlp.c_fc", "down": "mlp.c_proj",
    }.items()},
}  # fmt: skip
_GPTJ_TENSORS = {
    "embedding": "transformer.wte", "norm": "transformer.ln_f",
    **{role: f"transformer.h.{{}}.{name}" for role, name in {
        "attention_norm": "ln_1", "q": "attn.q_proj", "k": "attn.k_proj", "v": "attn.v_proj",
        "qkv": "attn.qkv_proj", "o": "attn.out_proj", "up": "mlp.fc_in", "down": "mlp.fc_out",
    }.items()},
}  # fmt: skip
_EXAONE_NAMES = {
    "num_hidden_layers": "num_layers", "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}  # fmt: skip
_EXAONE_TENSORS = {
    "embedding": "transformer.wte", "norm": "transformer.ln_f",
    **{role: f"transformer.h.{{}}.{name}" for role, name in {
        "attention_norm": "ln_1", "q": "attn.attention.q_proj", "k": "attn.attention.k_proj",
        "v": "attn.attention.v_proj", "o": "attn.attention.out_proj", "mlp_norm": "ln_2",
        "gate": "mlp.c_fc_0", "up": "mlp.c_fc_1", "down": "mlp.c_proj",
    }.items()},
}  # fmt: skip


def _megatron(prefix: str, attention: str) -> dict[str, str]:
    """Return the names of Megatron's layers, which four families took over."""
    return {
        "attention_norm": f"{prefix}{{}}.input_layernorm",
        "mlp_norm": f"{prefix}{{}}.post_attention_layernorm",
        "qkv": f"{prefix}{{}}.{attention}.query_key_value", "o": f"{prefix}{{}}.{attention}.dense",
        "up": f"{prefix}{{}}.mlp.dense_h_to_4h", "down": f"{prefix}{{}}.mlp.dense_4h_to_h",
    }  # fmt: skip


def _fairseq(prefix: str) -> dict[str, str]:
    """Return the names of fairseq's decoders."""
    return {
        role: f"{prefix}layers.{{}}.{name}" for role, name in {
            "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
            "o": "self_attn.out_proj", "attention_norm": "self_attn_layer_norm",
            "mlp_norm": "final_layer_norm", "up": "fc1", "down": "fc2",
        }.items()
    }  # fmt: skip


DENSE_FAMILIES = (
    DecoderFamily("llama", "Llama", LLAMA),
    DecoderFamily(
        "mistral", "Mistral", PLAIN | {"max_position_embeddings": 131072, "sliding_window": 4096,
                                            "num_key_value_heads": 8},
    ),
    DecoderFamily(
        "ministral", "Ministral", PLAIN | SLIDING | {"max_position_embeddings": 131072,
                                                           "num_key_value_heads": 8},
    ),
    DecoderFamily(
        "ministral3", "Ministral3", PLAIN | {
            "max_position_embeddings": 262144, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128, "sliding_window": None,
        }, rope_base=1e6, reads_query_scale=True, rope={
            "rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0,
            "llama_4_scaling_beta": 0.1, "rope_theta": 1e6,
        },
    ),
    DecoderFamily(
        "qwen2", "Qwen2", replace_fields(QWEN, num_key_value_heads=32), biases=frozenset("qkv"),
    ),
    DecoderFamily(
        "qwen3", "Qwen3", QWEN | {"head_dim": 128, "attention_bias": False, "num_key_value_heads": 32},
        qk_norm="head",
    ),
    DecoderFamily(
        "smollm3", "SmolLM3", LLAMA | {
            "num_key_value_heads": 4, "max_position_embeddings": 32768, "tie_word_embeddings": True,
            "use_sliding_window": False, "sliding_window": None, "layer_types": None, "no_rope_layers": None,
            "no_rope_layer_interval": 4,
        }, rope_base=2e6,
    ),
    DecoderFamily(
        "phi3", "Phi3", PLAIN | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "sliding_window": None,
            "original_max_position_embeddings": 4096,
        }, has_partial_rotary=True, reads_longrope=True,
    ),
    DecoderFamily("granite", "Granite", LLAMA | GRANITE),
    DecoderFamily(
        "granite_swa", "GraniteSWA", LLAMA | GRANITE | SLIDING | {
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "num_key_value_heads": 4,
            "tie_word_embeddings": True, "sliding_window": 128, "layer_rope_theta": None,
        }, window_period=4, window_offset=0, has_sinks=True,
    ),
    DecoderFamily(
        "hyperclovax", "HyperCLOVAX", replace_fields(
            LLAMA | GRANITE, "logits_scaling", attention_multiplier=None, use_post_norm=True, logit_scale=1.0,
        ), own_names={"logit_scale": "logits_scaling"},  # this family multiplies
        norm_tensors={"both": {
            "mlp_norm": f"{LAYER}post_attention_layernorm",
            "post_attention_norm": f"{LAYER}post_norm1", "post_mlp_norm": f"{LAYER}post_norm2",
        }},
    ),
    DecoderFamily(
        "gemma", "Gemma", _GEMMA | {"num_key_value_heads": 16}, norm_offset=1.0, scales_embedding=True
    ),
    DecoderFamily(
        "gemma2", "Gemma2", _GEMMA2 | {"num_key_value_heads": 4}, norm_offset=1.0, scales_embedding=True,
        norms="both", window_period=2,
    ),
    DecoderFamily(
        "vaultgemma", "VaultGemma", _GEMMA2 | {"num_key_value_heads": 4}, norm_offset=1.0,
        scales_embedding=True, window_period=2,
        tensors={"mlp_norm": f"{LAYER}pre_feedforward_layernorm"},
    ),
    DecoderFamily(
        "gemma3_text", "Gemma3", replace_fields(_GEMMA2, "attn_logit_softcapping") | {  # nobody reads it
            "num_key_value_heads": 4, "max_position_embeddings": 131072, "final_logit_softcapping": None,
            "sliding_window_pattern": 6,
        }, rope_base=1e6, local_rope=("rope_local_base_freq", 10000.0), norm_offset=1.0,
        scales_embedding=True, norms="both", qk_norm="head", window_period=6,
    ),
    DecoderFamily(
        "gpt2", "GPT2", _GPT2, own_names=_GPT2_NAMES, mapped=_GPT2_MAPPED, biases=_EVERY,
        is_layer_norm=True, is_gated=False, learned_positions=True, tensors=_GPT2_TENSORS, turned=True,
    ),
    DecoderFamily(
        "gpt_bigcode", "GPTBigCode", _GPT2 | {"hidden_act": _GELU, "multi_query": True},
        own_names=_GPT2_NAMES, mapped=_GPT2_MAPPED, biases=_EVERY, is_layer_norm=True, is_gated=False,
        learned_positions=True, tensors=_GPT2_TENSORS,
        fixed={"attention_softmax_in_fp32": (True,), "scale_attention_softmax_in_fp32": (True,)},
    ),
    DecoderFamily(
        "gptj", "GPTJ", _GPTJ, own_names=_GPT2_NAMES, mapped=_GPT2_MAPPED,
        biases=frozenset(("up", "down", "head")), is_layer_norm=True, is_gated=False, norms="shared",
        interleaved=True, tensors=_GPTJ_TENSORS,
    ),
    DecoderFamily(
        "codegen", "CodeGen", _GPTJ, own_names=_GPT2_NAMES, mapped=_GPT2_MAPPED,
        biases=frozenset(("up", "down", "head")), is_layer_norm=True, is_gated=False, norms="shared",
        interleaved=True, tensors=_GPTJ_TENSORS, qkv_order="quarters", unread=("n_ctx",),
    ),
    DecoderFamily(
        "starcoder2", "Starcoder2", PLAIN | {
            "num_key_value_heads": 2, "hidden_act": _GELU, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "sliding_window": None, "use_bias": True,
        }, own_names={"rms_norm_eps": "norm_epsilon"}, is_layer_norm=True, is_gated=False, tensors=_PLAIN_MLP,
    ),
    DecoderFamily(
        "internlm3", "InternLM3", LLAMA | {
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "num_key_value_heads": 2,
            "head_dim": 128,
        }, fixed={"qkv_bias": (False,), "bias": (False,)}, alias="Llama",
    ),
    DecoderFamily(
        "iquestcoder", "IQuestCoder", LLAMA | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128,
        }, alias="Llama",
    ),
    DecoderFamily(
        "exaone", "Exaone", LLAMA | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
        }, own_names=_EXAONE_NAMES, mapped=frozenset(_EXAONE_NAMES), rope_base=5e5, alias="Llama",
        tensors=_EXAONE_TENSORS,
    ),
    DecoderFamily(
        "cwm", "Cwm", replace_fields(LLAMA, "attention_bias") | SLIDING | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
            "head_dim": 128,
            "sliding_window": 8192,
        }, rope_base=0.0, window_period=4, window_offset=0,
    ),
    DecoderFamily(
        "emu3_text_model", "Emu3", PLAIN | {
            "max_position_embeddings": 9216, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
        }, rope_base=1e6,
    ),
    DecoderFamily(
        "ernie4_5", "Ernie4_5", PLAIN | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "num_key_value_heads": 2,
            "head_dim": 128,
            "tie_word_embeddings": True, "use_bias": False,
        }, rope_base=5e5, interleaved=True,
    ),
    DecoderFamily(
        "seed_oss", "SeedOss", LLAMA | {
            "max_position_embeddings": 524288, "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_bias": True, "attention_out_bias": False,
        }, attention_biases=frozenset("qkv"),
    ),
    DecoderFamily(
        "hunyuan_v1_dense", "HunYuanDenseV1", replace_fields(LLAMA, "mlp_bias") | {"rms_norm_eps": 1e-5},
        qk_norm="head", norms_rotated=True,
        tensors={"q_norm": f"{LAYER}self_attn.query_layernorm", "k_norm": f"{LAYER}self_attn.key_layernorm"},
    ),
    DecoderFamily(
        "helium", "Helium", LLAMA | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-8, "num_key_value_heads": 20, "head_dim": 128,
        }, rope_base=1e5, interleaved=True, attention_biases=frozenset("qkv"),
    ),
    DecoderFamily(
        "glm", "Glm", replace_fields(LLAMA, "mlp_bias") | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1.5625e-7, "num_key_value_heads": 2,
            "head_dim": 128, "attention_bias": True,
        }, rotary_share=0.5, has_partial_rotary=True, interleaved=True, attention_biases=frozenset("qkv"),
    ),
    DecoderFamily(
        "glm4", "Glm4", replace_fields(LLAMA, "mlp_bias") | {
            "max_position_embeddings": 131072, "rms_norm_eps": 1.5625e-7, "num_key_value_heads": 2,
            "head_dim": 128, "attention_bias": True,
        }, rotary_share=0.5, has_partial_rotary=True, interleaved=True, attention_biases=frozenset("qkv"),
        norms="both",
        norm_tensors={"both": {
            "mlp_norm": f"{LAYER}post_attention_layernorm",
            "post_attention_norm": f"{LAYER}post_self_attn_layernorm",
            "post_mlp_norm": f"{LAYER}post_mlp_layernorm",
        }},
    ),
    DecoderFamily(
        "cohere", "Cohere", replace_fields(PLAIN, max_position_embeddings=8192, rms_norm_eps=1e-5) | {
            "tie_word_embeddings": True, "attention_bias": False, "logit_scale": 0.0625, "use_qk_norm": False,
        }, own_names=_LAYER_EPS, rope_base=5e5, is_layer_norm=True, has_norm_biases=False, norms="shared",
        qk_norm="heads", interleaved=True,
    ),
    DecoderFamily(
        "cohere2", "Cohere2", PLAIN | SLIDING | {
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True, "attention_bias": False, "logit_scale": 0.0625,
            "sliding_window_pattern": 4, "head_dim": None,
        }, own_names=_LAYER_EPS, is_layer_norm=True, has_norm_biases=False, norms="shared",
        interleaved=True, unrotated="full", window_period=4,
    ),
    DecoderFamily(
        "olmo", "Olmo", replace_fields(PLAIN, "rms_norm_eps") | {"attention_bias": False, "clip_qkv": None},
        epsilon=1e-5, is_layer_norm=True, has_norm_weights=False,
    ),
    DecoderFamily(
        "olmo2", "Olmo2", PLAIN | {"attention_bias": False, "rms_norm_eps": 1e-5}, norms="after",
        qk_norm="whole",
    ),
    DecoderFamily(
        "olmo3", "Olmo3", PLAIN | SLIDING | {"attention_bias": False, "rms_norm_eps": 1e-5}, norms="after",
        qk_norm="whole", rope_base=5e5, local_rope=("", 5e5), window_period=4,
    ),
    DecoderFamily(
        "exaone4", "Exaone4", PLAIN | SLIDING | {
            "num_key_value_heads": 32, "rms_norm_eps": 1e-5, "sliding_window_pattern": 4,
        }, norms="after", qk_norm="head", unrotated="full", window_period=4,
    ),
    DecoderFamily(
        "nemotron", "Nemotron", LLAMA | {
            "hidden_act": "relu2", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        }, own_names={"rms_norm_eps": "norm_eps"}, rotary_share=0.5, has_partial_rotary=True,
        is_layer_norm=True, norm_offset=1.0, is_gated=False,
    ),
    DecoderFamily(
        "jais2", "Jais2", LLAMA | {
            "hidden_act": "relu2", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
            "attention_bias": True, "mlp_bias": True,
        }, own_names=_LAYER_EPS, is_layer_norm=True, is_gated=False,
    ),
    DecoderFamily(
        "arcee", "Arcee", LLAMA | {
            "hidden_act": "relu2", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        }, is_gated=False,
    ),
    DecoderFamily(
        "bitnet", "BitNet", replace_fields(PLAIN, rms_norm_eps=1e-5, num_key_value_heads=5) | {
            "hidden_act": "relu2", "attention_bias": False,
        }, rope_base=5e5, inner_norms=True,
    ),
    DecoderFamily(
        "nanochat", "NanoChat", PLAIN | {
            "hidden_act": "relu2", "final_logit_softcapping": 15.0, "attention_bias": False,
        }, has_norm_weights=False, is_gated=False, embedding_norm=True, reverses=True, qk_norm="head",
        norms_rotated=True, tensors=_FC_MLP,
    ),
    DecoderFamily(
        "stablelm", "StableLm", _EVEN_HEADS | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
            "num_key_value_heads": 32, "use_qkv_bias": False, "qk_layernorm": False,
            "use_parallel_residual": False,
        }, own_names=_LAYER_EPS, rotary_share=0.25, has_partial_rotary=True, is_layer_norm=True,
        norms="shared", qk_norm="heads", tensors={
            "q_norm": f"{LAYER}self_attn.q_layernorm.norms", "k_norm": f"{LAYER}self_attn.k_layernorm.norms",
        },
    ),
    DecoderFamily(
        "phi", "Phi", PLAIN | {"hidden_act": "gelu_new", "rms_norm_eps": 1e-5, "qk_layernorm": False},
        own_names=_LAYER_EPS, rotary_share=0.5, has_partial_rotary=True, biases=_EVERY | {"head"},
        is_layer_norm=True, is_gated=False, norms="shared", qk_norm="head", qk_norm_biases=True,
        tensors=_FC_MLP | {
            "norm": "model.final_layernorm", "o": f"{LAYER}self_attn.dense",
            "q_norm": f"{LAYER}self_attn.q_layernorm", "k_norm": f"{LAYER}self_attn.k_layernorm",
        },
    ),
    DecoderFamily(
        "persimmon", "Persimmon", replace_fields(_EVEN_HEADS, "num_key_value_heads", rms_norm_eps=1e-5) | {
            "hidden_act": "relu2", "max_position_embeddings": 16384, "qk_layernorm": True,
        }, own_names=_LAYER_EPS, rotary_share=0.5, has_partial_rotary=True, biases=_EVERY,
        is_layer_norm=True, is_gated=False, qk_norm="head", qk_norm_biases=True, qkv_order="groups",
        tensors=_megatron("model.layers.", "self_attn") | {
            "norm": "model.final_layernorm", "q_norm": f"{LAYER}self_attn.q_layernorm",
            "k_norm": f"{LAYER}self_attn.k_layernorm",
        },
    ),
    DecoderFamily(
        "gpt_neox", "GPTNeoX", replace_fields(_EVEN_HEADS, "num_key_value_heads", rms_norm_eps=1e-5) | {
            "hidden_act": "gelu", "attention_bias": True, "use_parallel_residual": True,
        }, own_names=_LAYER_EPS | {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
        rotary_share=0.25, has_partial_rotary=True, biases=frozenset(("up", "down")), is_layer_norm=True,
        is_gated=False, norms="parallel", qkv_order="groups",
        tensors=_megatron("gpt_neox.layers.", "attention") | {
            "embedding": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out",
        },
    ),
    DecoderFamily(
        "falcon", "Falcon", replace_fields(_EVEN_HEADS, "num_key_value_heads") | {
            "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "hidden_act": "gelu", "bias": False,
            "num_kv_heads": None, "multi_query": True, "parallel_attn": True,
            "new_decoder_architecture": False, "num_ln_in_parallel_attn": None,
        }, own_names={"rms_norm_eps": "layer_norm_epsilon", "hidden_act": "activation",
                      "intermediate_size": "ffn_hidden_size"},
        linear_biases="alibi", is_layer_norm=True, is_gated=False, norms="shared", qkv_order="groups",
        tensors=_megatron("transformer.h.", "self_attention") | {
            "embedding": "transformer.word_embeddings", "norm": "transformer.ln_f",
        },
        norm_tensors={"parallel": {
            "attention_norm": "transformer.h.{}.ln_attn", "mlp_norm": "transformer.h.{}.ln_mlp",
        }},
    ),
    DecoderFamily(
        "bloom", "Bloom", {
            "vocab_size": None, "hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "max_position_embeddings": 2048,
        }, own_names={"hidden_size": "n_embed", "num_hidden_layers": "n_layer",
                      "num_attention_heads": "n_head", "rms_norm_eps": "layer_norm_epsilon",
                      "max_position_embeddings": "seq_length"},
        mapped=frozenset(("hidden_size", "num_hidden_layers", "num_attention_heads")),
        unread=("slow_but_exact", "offset_alibi", "masked_softmax_fusion", "attention_softmax_in_fp32",
                "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id"),
        fixed={"apply_residual_connection_post_layernorm": (False,)}, function="gelu_pytorch_tanh",
        linear_biases="halving", biases=_EVERY, is_layer_norm=True, is_gated=False, embedding_norm=True,
        qkv_order="groups", tensors=_megatron("transformer.h.", "self_attention") | {
            "embedding": "transformer.word_embeddings", "norm": "transformer.ln_f",
            "embedding_norm": "transformer.word_embeddings_layernorm",
        },
    ),
    DecoderFamily(
        "mpt", "Mpt", {
            "vocab_size": None, "hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        }, own_names={
            "hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
            "max_position_embeddings": "max_seq_len", "rms_norm_eps": "layer_norm_epsilon",
        }, mapped=frozenset(("hidden_size", "num_hidden_layers", "num_attention_heads")),
        fixed={"expansion_ratio": (4,), "no_bias": (True,), "logit_scale": ()}, function="gelu",
        unread=("learned_pos_emb", "init_device", "embedding_fraction", "norm_type", "emb_pdrop", "verbose",
                "init_config", "tokenizer_name"),
        linear_biases="interleaved", is_layer_norm=True, has_norm_biases=False, is_gated=False,
        tensors={
            "embedding": "transformer.wte", "norm": "transformer.norm_f",
            **{role: f"transformer.blocks.{{}}.{name}" for role, name in {
                "attention_norm": "norm_1", "mlp_norm": "norm_2", "qkv": "attn.Wqkv", "o": "attn.out_proj",
                "up": "ffn.up_proj", "down": "ffn.down_proj",
            }.items()},
        },
    ),
    DecoderFamily(
        "opt", "OPT", replace_fields(_EVEN_HEADS, "num_key_value_heads", "rms_norm_eps") | {
            "hidden_act": "relu", "tie_word_embeddings": True,
        }, own_names={"intermediate_size": "ffn_dim", "hidden_act": "activation_function"},
        fixed={
            "do_layer_norm_before": (True,), "_remove_final_layer_norm": (False,), "enable_bias": (True,),
            "layer_norm_elementwise_affine": (True,),
        }, epsilon=1e-5, biases=_EVERY, is_layer_norm=True, is_gated=False, learned_positions=True,
        position_offset=2, tensors=_fairseq("model.decoder.") | {
            "embedding": "model.decoder.embed_tokens", "positions": "model.decoder.embed_positions",
            "norm": "model.decoder.final_layer_norm",
        },
    ),
    DecoderFamily(
        "biogpt", "BioGpt", replace_fields(_EVEN_HEADS, "num_key_value_heads", "rms_norm_eps") | {
            "hidden_act": "gelu", "max_position_embeddings": 1024, "tie_word_embeddings": True,
            "scale_embedding": True,
        }, unread=("layer_norm_eps",), epsilon=1e-5, biases=_EVERY, is_layer_norm=True, is_gated=False,
        learned_positions=True, position_offset=2, tensors=_fairseq("biogpt.") | {
            "embedding": "biogpt.embed_tokens", "positions": "biogpt.embed_positions",
            "norm": "biogpt.layer_norm", "head": "output_projection",
        },
    ),
)  # fmt: skip
