"""Families of decoders: what distinguishes them, and the fields of their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_GELU = "gelu_pytorch_tanh"
_SIZES = {
    "vocab_size": None, "hidden_size": None, "intermediate_size": None, "num_hidden_layers": None,
    "num_attention_heads": None,
}  # fmt: skip
"""Fields that every configuration has to have: no default serves two models."""
_LLAMA = {
    **_SIZES, "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
_NO_BIASES = {key: value for key, value in _LLAMA.items() if key not in ("attention_bias", "mlp_bias")}
_QWEN = {
    **_NO_BIASES, "max_position_embeddings": 32768, "use_sliding_window": False, "sliding_window": 4096,
    "max_window_layers": 28, "layer_types": None,
}  # fmt: skip
_GEMMA = {
    **_NO_BIASES, "attention_bias": False, "head_dim": 256, "hidden_act": _GELU,
    "max_position_embeddings": 8192, "tie_word_embeddings": True,
}  # fmt: skip
_GEMMA2 = {
    **{key: value for key, value in _GEMMA.items() if key != "hidden_act"}, "hidden_activation": _GELU,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": None,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
}  # fmt: skip


@dataclass(frozen=True)
class DecoderFamily:
    """Describes what the decoders of one family have in common.

    Attributes:
        name: `model_type` of config.json.
        architecture: Beginning of the names of its classes in transformers.
        defaults: Fields of its configuration that decide what it computes, with the values that transformers
            takes where config.json does not have them; None: worked out of others, or required. A field that
            other families have and this one does not must say what it would do without.
        own_names: Names that the family has for fields of the others.
        mapped: Those of them that transformers takes under the others' names, too.
        rope_base: Of the rotation, where config.json says none.
        biases: Roles of layers that always have a bias.
        is_layer_norm, is_gated, learned_positions, qk_norm, norm_offset, post_norms: As `DecoderConfig`.
        scales_embedding: Embeddings are multiplied by the root of their length.
        has_partial_rotary: Whether `partial_rotary_factor` is read.
        window_period: Every so many layers one has no window; 0: `layer_types` or all.
    """

    name: str
    architecture: str
    defaults: Mapping[str, Any]
    own_names: Mapping[str, str] = field(default_factory=dict)
    mapped: frozenset[str] = frozenset()
    rope_base: float = 10000.0
    biases: frozenset[str] = frozenset()
    is_layer_norm: bool = False
    is_gated: bool = True
    learned_positions: bool = False
    qk_norm: bool = False
    norm_offset: float = 0.0
    post_norms: bool = False
    scales_embedding: bool = False
    has_partial_rotary: bool = False
    window_period: int = 0


_RECORDS = (
    DecoderFamily("llama", "Llama", _LLAMA),
    DecoderFamily(
        "mistral", "Mistral", _NO_BIASES | {"max_position_embeddings": 131072, "sliding_window": 4096,
                                            "num_key_value_heads": 8},
    ),
    DecoderFamily(
        "qwen2", "Qwen2", {key: value for key, value in _QWEN.items() if key != "head_dim"} | {
            "num_key_value_heads": 32}, biases=frozenset("qkv"),
    ),
    DecoderFamily(
        "qwen3", "Qwen3", _QWEN | {"head_dim": 128, "attention_bias": False, "num_key_value_heads": 32},
        qk_norm=True,
    ),
    DecoderFamily(
        "smollm3", "SmolLM3", {key: value for key, value in _LLAMA.items() if key != "head_dim"} | {
            "num_key_value_heads": 4, "max_position_embeddings": 32768, "tie_word_embeddings": True,
            "use_sliding_window": False, "sliding_window": None, "layer_types": None, "no_rope_layers": None,
            "no_rope_layer_interval": 4,
        }, rope_base=2e6,
    ),
    DecoderFamily(
        "phi3", "Phi3", {key: value for key, value in _NO_BIASES.items() if key != "head_dim"} | {
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "sliding_window": None},
        has_partial_rotary=True,
    ),
    DecoderFamily(
        "granite", "Granite", {key: value for key, value in _LLAMA.items() if key != "head_dim"} | {
            "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0,
            "attention_multiplier": 1.0},
    ),
    DecoderFamily(
        "gemma", "Gemma", _GEMMA | {"num_key_value_heads": 16}, norm_offset=1.0, scales_embedding=True
    ),
    DecoderFamily(
        "gemma2", "Gemma2", _GEMMA2 | {"num_key_value_heads": 4}, norm_offset=1.0, scales_embedding=True,
        post_norms=True, window_period=2,
    ),
    DecoderFamily(
        "gemma3_text", "Gemma3", {
            key: value for key, value in _GEMMA2.items() if key != "attn_logit_softcapping"  # nobody reads it
        } | {
            "num_key_value_heads": 4, "max_position_embeddings": 131072, "final_logit_softcapping": None,
            "sliding_window_pattern": 6,
        }, rope_base=1e6, norm_offset=1.0, scales_embedding=True, post_norms=True, qk_norm=True,
        window_period=6,
    ),
    DecoderFamily(
        "gpt2", "GPT2", _SIZES | {
            "max_position_embeddings": 1024, "hidden_act": "gelu_new", "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True, "scale_attn_weights": True,
        }, own_names={
            "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
            "max_position_embeddings": "n_positions", "intermediate_size": "n_inner",
            "hidden_act": "activation_function", "rms_norm_eps": "layer_norm_epsilon",
        }, mapped=frozenset((
            "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
        )), biases=frozenset(("q", "k", "v", "o", "up", "down")), is_layer_norm=True, is_gated=False,
        learned_positions=True,
    ),
    DecoderFamily(
        "starcoder2", "Starcoder2", {key: value for key, value in _NO_BIASES.items() if key != "head_dim"} | {
            "num_key_value_heads": 2, "hidden_act": _GELU, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "sliding_window": None, "use_bias": True,
        }, own_names={"rms_norm_eps": "norm_epsilon"}, is_layer_norm=True, is_gated=False,
    ),
)  # fmt: skip
FAMILIES: Mapping[str, DecoderFamily] = {record.name: record for record in _RECORDS}
"""By `model_type`."""

SYNONYMS: Mapping[str, frozenset[str]] = {
    "hidden_size": frozenset(("n_embd", "d_model", "dim")),
    "num_hidden_layers": frozenset(("n_layer", "n_layers", "num_layers")),
    "num_attention_heads": frozenset(("n_head", "n_heads", "num_heads")),
    "num_key_value_heads": frozenset(("n_kv_heads", "num_kv_heads")),
    "max_position_embeddings": frozenset((
        "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length",
    )),
    "intermediate_size": frozenset(("n_inner", "ffn_dim", "d_ff")),
    "rms_norm_eps": frozenset(("layer_norm_epsilon", "norm_epsilon", "norm_eps", "layer_norm_eps")),
    "head_dim": frozenset(("d_head",)),
}  # fmt: skip
"""Names of one field in different families. Where a name is not the family's own, it may repeat the value."""

_ELSEWHERE = "generation_config.json is where transformers reads it"
_TRAINING = "it concerns training"
_OUTPUTS = "it chooses what transformers returns beside logits"
_NAMES = "it names where the file comes from"
HARMLESS: Mapping[str, str] = {
    **dict.fromkeys(("_name_or_path", "transformers_version", "architectures", "auto_map", "model_type",
                     "_commit_hash", "unsloth_version", "unsloth_fixed", "is_llama_config", "name_or_path"),
                    _NAMES),
    **dict.fromkeys(("initializer_range", "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop",
                     "residual_dropout", "embedding_dropout", "hidden_dropout", "classifier_dropout",
                     "neftune_noise_alpha", "router_aux_loss_coef", "gradient_checkpointing"), _TRAINING),
    **dict.fromkeys(("output_hidden_states", "output_attentions", "return_dict", "output_router_logits",
                     "use_cache", "torchscript", "tie_last_hidden_states"), _OUTPUTS),
    **dict.fromkeys(("id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
                     "task_specific_params", "summary_type", "summary_use_proj", "summary_activation",
                     "summary_proj_to_labels", "summary_first_dropout"), "it concerns classifiers"),
    **dict.fromkeys(("attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
                     "_experts_implementation", "cache_implementation", "chunk_size_feed_forward",
                     "pretraining_tp", "reorder_and_upcast_attn", "_flash_attn_2_enabled"),
                    "it chooses how, not what, transformers computes"),
    **dict.fromkeys(("torch_dtype", "dtype", "use_bfloat16"), "floats of the file are widened to float32"),
    **dict.fromkeys(("pad_token_id", "tokenizer_class", "sep_token_id", "decoder_start_token_id", "prefix",
                     "transformers.js_config", "cls_token_id", "bos_token", "eos_token", "pad_token"),
                    "nothing is padded, and the tokenizer has files of its own"),
    **dict.fromkeys((
        "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
        "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
        "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
        "num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
        "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
        "begin_suppress_tokens", "max_new_tokens", "min_new_tokens", "penalty_alpha", "min_p",
    ), _ELSEWHERE),
}  # fmt: skip
"""Fields of config.json that change no logit, with the reason."""

FIXED: Mapping[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False,), "add_cross_attention": (False,), "is_decoder": (False, True),
    "tie_encoder_decoder": (False,), "cross_attention_hidden_size": (), "pruned_heads": ({}, []),
    "scale_attn_by_inverse_layer_idx": (False,), "use_bidirectional_attention": (False,),
    "rope_interleaved": (False,), "use_mrope": (False,), "tf_legacy_loss": (False,),
    "is_causal": (True,), "use_qk_norm": (), "num_experts": (0,), "num_local_experts": (0,),
}  # fmt: skip
"""Fields of config.json with the values that a plain decoder has; others are refused."""
