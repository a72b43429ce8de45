"""Tokens that begin a text and end an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intact.formats import MetadataFields
from intact.lm.description.model_files import ModelFiles
from intact.lm.vocabularies.gguf_keys import CONTENTS, PREFIX
from intact.lm.vocabularies.gguf_tokenizer import is_known_vocabulary, read_special_tokens
from intact.lm.vocabularies.special_tokens import SpecialTokens

CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"
_READ = "the tokenizer reads it"

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


def folder_special_tokens(sources: ModelFiles, language: MetadataFields | None = None) -> SpecialTokens:
    """Return the special tokens of a Hugging Face folder: an answer ends where transformers ends it.

    That is at the tokens of generation_config.json, or without them at those of config.json. The end token of
    the tokenizer ends it as well, because conversations are written with it.

    Args:
        sources: The files.
        language: The fields of the language model, where they stand in others, which name the tokens first.
    """
    config, generation = sources.fields(CONFIG), sources.fields("generation_config.json")
    ends = end_tokens(generation, "eos_token_id")
    places = [config] if language is None or language is config else [config, language]
    own = [end_tokens(fields, "eos_token_id") for fields in places]
    begins = [token for fields in (generation, *places) for token in end_tokens(fields, "bos_token_id")]
    generation.harmless(_GENERATION)
    for key, values in _NO_TOKENS.items():
        generation.require(key, values, "no token is meant")
    ends = ends or next(filter(None, own), ())
    return SpecialTokens(next(iter(begins), None), ends, end_texts=_end_texts(sources))


def end_tokens(fields: MetadataFields, key: str, most: int = 2**31 - 1) -> tuple[int, ...]:
    """Return the tokens of a field that has one or a list of them.

    Args:
        fields: Of a configuration.
        key: The field.
        most: The largest number of a token.
    Raises:
        FileFormatError: It is of another kind, or a number is below 0 or above `most`.
    """
    value = fields.take(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        return (fields.integer(key, most=most),)
    if not all(type(number) is int and 0 <= number <= most for number in value):
        raise fields.error(key, f"numbers from 0 to {most}")
    return tuple(value)


def _end_texts(sources: ModelFiles) -> tuple[str, ...]:
    """Return the text of the tokenizer's end token, which its file has as a text or in an object."""
    fields = MetadataFields(sources._read_object(TOKENIZER), TOKENIZER)
    value = fields.peek("eos_token")
    if isinstance(value, Mapping):
        value = value.get("content")
    if value is not None and not isinstance(value, str):
        raise fields.error("eos_token", "a text")
    return () if value is None else (value,)


def gguf_special_tokens(fields: MetadataFields) -> SpecialTokens:
    """Return the special tokens of a GGUF file; none where only another tokenizer's file can help."""
    is_known = is_known_vocabulary(fields)
    special = read_special_tokens(fields) if is_known else SpecialTokens()
    left = (key for key in fields if key.startswith("tokenizer.") and not key.startswith(PREFIX))
    read = (f"{PREFIX}{name}" for name in CONTENTS) if is_known else iter(fields)
    fields.harmless({key: _READ for key in (*left, *read) if key.startswith("tokenizer.")})
    return special
