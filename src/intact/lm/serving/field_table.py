"""Fields of requests that change no token, or that nothing here does: read over, or refused by name.

Whatever stands in neither table and is read by no parser is refused as unknown.
"""

from __future__ import annotations

from typing import Any

HARMLESS = {
    "user": "who asks", "metadata": "notes of the client", "store": "nothing is stored here",
    "service_tier": "there is one", "safety_identifier": "who asks",
    "prompt_cache_key": "prompts that begin alike share their beginning by themselves",
    "prompt_cache_retention": "as prompt_cache_key", "request_id": "a name for logs",
    "cache_prompt": "prompts that begin alike share their beginning, and no token changes by it",
    "id_slot": "any slot gives the same tokens", "priority": "requests run in the order of their arrival",
    "timings_per_token": "figures about speed", "return_progress": "figures about speed",
}  # fmt: skip
"""Fields that change no token, and why."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    # OpenAI
    "audio": (), "function_call": ("none", "auto"), "functions": ([],), "modalities": (["text"],),
    "prediction": (), "suffix": ("",), "verbosity": ("medium",), "web_search_options": (), "moderation": (),
    # vLLM
    "add_special_tokens": (True,), "allowed_token_ids": (), "bad_words": ([],), "early_stopping": (False,),
    "include_stop_str_in_output": (False,), "length_penalty": (1, 1.0), "logits_processors": ([],),
    "prompt_logprobs": (), "return_token_ids": (False,), "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,), "spaces_between_special_tokens": (True,), "truncate_prompt_tokens": (),
    "use_beam_search": (False,), "guided_json": (), "guided_regex": (), "guided_choice": (),
    "guided_grammar": (), "structured_outputs": (), "echo": (False,),
    # llama.cpp
    "dynatemp_range": (0,), "dry_multiplier": (0,), "frequency_last_n": (), "grammar": ("",),
    "json_schema": (), "lora": ([],), "mirostat": (0,), "n_keep": (0,), "n_predict": (), "n_probs": (0,),
    "repeat_penalty": (1, 1.0), "samplers": (), "t_max_predict_ms": (0,), "tfs_z": (1, 1.0),
    "typical_p": (1, 1.0), "xtc_probability": (0,),
}  # fmt: skip
"""Fields that nothing here does, and the values that ask for nothing; null always does."""
EMBEDDING_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "add_special_tokens": (True,), "truncate_prompt_tokens": (), "normalize": (True,), "embd_normalize": (2,),
}  # fmt: skip
"""As `NEUTRAL`, of requests for vectors."""
