"""Fields of config.json that mean the same for every family, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SYNONYMS: Mapping[str, frozenset[str]] = {
    "hidden_size": frozenset(("n_embd", "d_model", "dim", "word_embed_proj_dim")),
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
    **dict.fromkeys(("initializer_range", "embedding_initializer_range",
                     "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop",
                     "residual_dropout", "embedding_dropout", "hidden_dropout", "classifier_dropout",
                     "neftune_noise_alpha", "router_jitter_noise",
                     "input_jitter_noise", "layerdrop",
                     "activation_dropout", "dropout", "init_std",
                     "hidden_dropout_prob", "attention_probs_dropout_prob",
                     "initializer_factor", "router_aux_loss_coef", "aux_loss_alpha", "seq_aux",
                     "gradient_checkpointing"), _TRAINING),
    **dict.fromkeys(("output_hidden_states", "output_attentions", "return_dict", "output_router_logits",
                     "use_cache", "torchscript", "tie_last_hidden_states"), _OUTPUTS),
    **dict.fromkeys(("id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
                     "task_specific_params", "summary_type", "summary_use_proj", "summary_activation",
                     "summary_proj_to_labels", "summary_first_dropout"), "it concerns classifiers"),
    **dict.fromkeys(("attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
                     "_experts_implementation", "cache_implementation", "chunk_size_feed_forward",
                     "pretraining_tp", "ep_size", "reorder_and_upcast_attn", "_flash_attn_2_enabled"),
                    "it chooses how, not what, transformers computes"),
    **dict.fromkeys(("torch_dtype", "dtype", "use_bfloat16"), "floats of the file are widened to float32"),
    **dict.fromkeys(("pad_token_id", "tokenizer_class", "sep_token_id", "decoder_start_token_id", "prefix",
                     "transformers.js_config", "cls_token_id", "eod_token_id",
                     "bos_token", "eos_token", "pad_token"),
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
