"""Tokens that begin a text and end an answer."""

from __future__ import annotations

from typing import Any

from intact.formats.metadata_fields import MetadataFields
from intact.lm.description.model_description import SpecialTokens
from intact.lm.description.model_files import ModelFiles

_CHOSEN = "requests choose how tokens are drawn"
_GENERATION = {
    **dict.fromkeys((
        "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "num_beams",
        "max_length", "max_new_tokens", "min_length", "min_new_tokens", "early_stopping", "length_penalty",
        "num_return_sequences", "penalty_alpha", "use_cache", "cache_implementation", "output_scores",
        "output_attentions", "output_hidden_states", "return_dict_in_generate", "trust_remote_code",
        "renormalize_logits", "epsilon_cutoff", "eta_cutoff", "num_beam_groups", "diversity_penalty",
        "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "max_time",
        "presence_penalty", "frequency_penalty", "chat_format", "max_window_size", "no_repeat_ngram_size",
        "encoder_repetition_penalty", "top_h", "low_memory", "is_assistant",
    ), _CHOSEN),
    **dict.fromkeys(("pad_token_id", "decoder_start_token_id"), "nothing is padded"),
    **dict.fromkeys(("_from_model_config", "transformers_version", "_name_or_path"), "it names its origin"),
}  # fmt: skip
_NO_TOKENS: dict[str, tuple[Any, ...]] = dict.fromkeys(
    ("suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id",
     "bad_words_ids", "force_words_ids", "sequence_bias", "forced_decoder_ids", "constraints",
     "stop_strings"),
    ([],),
)  # fmt: skip


def folder_special_tokens(sources: ModelFiles) -> SpecialTokens:
    """Return the special tokens of a Hugging Face folder: an answer ends where transformers ends it."""
    config, generation = sources.fields("config.json"), sources.fields("generation_config.json")
    ends = _ids(generation, "eos_token_id") or _ids(config, "eos_token_id")
    _ids(config, "eos_token_id")
    begins = _ids(generation, "bos_token_id") or _ids(config, "bos_token_id")
    _ids(config, "bos_token_id")
    generation.harmless(_GENERATION)
    for key, values in _NO_TOKENS.items():
        generation.require(key, values, "no token is meant")
    return SpecialTokens(begins[0] if begins else None, ends)


def _ids(fields: MetadataFields, key: str) -> tuple[int, ...]:
    """Return the tokens of a field that has one or a list of them."""
    if key not in fields:
        return ()
    if isinstance(fields.take(key), list):
        return tuple(fields.items(key, int) or ())
    return (fields.integer(key),)


def gguf_special_tokens(fields: MetadataFields) -> SpecialTokens:
    """Return the special tokens of a GGUF file."""
    fields.harmless({key: "the tokenizer reads it" for key in fields if key.startswith("tokenizer.")})
    return SpecialTokens()
