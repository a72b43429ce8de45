"""Requests of OpenAI's protocol, read from JSON.

Fields of requests that change no token, or that nothing here does: read over, or refused by name.

Whatever stands in neither table and is read by no parser is refused as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from intact.lm.generate import StopRules
from intact.lm.sampling import Sampling
from intact.lm.serving.chat_requests import ChatOptions, parse_chat_options, parse_messages
from intact.lm.serving.generation_fields import (
    read_response_format,
    read_sampling,
    read_stop_rules,
    read_stops,
)
from intact.lm.serving.protocol_error import Fields, ProtocolError
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.strict_json import parse_strict
from intact.lm.serving.tool_requests import ToolChoice, parse_tools

Prompt = str | list[int]


@dataclass(frozen=True)
class TextRequest:
    """A request for answers.

    Attributes:
        model: Its name; "" where the client names none.
        prompts: Texts or tokens; of a chat none.
        messages: Of a chat.
        sampling: How tokens are chosen.
        max_tokens: Of an answer; None: the server's default; 0: the prompt alone is read.
        answers: For each prompt.
        stop: Texts that end an answer.
        stop_rules: Tokens that do.
        is_streamed, wants_usage: How the answer is sent.
        logprobs: The most likely tokens that are named beside each; None: no probabilities at all.
        json_schema: What the answer follows; None: nothing.
        echoes: The answer begins with the prompt.
        tools: What the model may call.
        chat: How the template makes a prompt of the messages.
        choice: How it may.
        wishes: Variables for templates that read them; others answer as they do.
    """

    model: str
    prompts: list[Prompt]
    messages: list[dict[str, Any]]
    sampling: Sampling
    max_tokens: int | None
    answers: int
    stop: tuple[str, ...]
    stop_rules: StopRules
    is_streamed: bool
    wants_usage: bool
    logprobs: int | None
    json_schema: dict[str, Any] | None = None
    echoes: bool = False
    tools: list[dict[str, Any]] = field(default_factory=list)
    chat: ChatOptions = field(default_factory=ChatOptions)
    choice: ToolChoice = field(default_factory=ToolChoice)
    wishes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request for vectors of texts; `is_base64`: as bytes of float32 in base 64."""

    model: str
    texts: list[Prompt]
    is_base64: bool
    dimensions: int | None


def parse_json(body: bytes) -> Any:
    """Return the value of a body.

    Raises:
        ProtocolError: It is no strict JSON.
    """
    try:
        return parse_strict(body)
    except ValueError as error:
        raise ProtocolError(400, f"the body is no JSON: {str(error)[:200]}") from error


def parse_completion(record: Any, limits: ServerLimits) -> TextRequest:
    """Read a request to /v1/completions."""
    fields = Fields(record)
    prompts = _prompts(fields, "prompt", limits.sequences)
    logprobs = fields.integer("logprobs", None, 0, 20)
    echoes = fields.flag("echo")
    max_tokens = fields.integer("max_tokens", 16, 0 if echoes else 1, limits.max_tokens)
    return replace(_text_request(fields, prompts, [], max_tokens, logprobs, limits), echoes=echoes)


def parse_chat(record: Any, limits: ServerLimits) -> TextRequest:
    """Read a request to /v1/chat/completions.

    Args:
        record: The body of the request, as JSON.
        limits: Of this server.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields = Fields(record)
    messages = parse_messages(fields)
    tools, choice = parse_tools(fields, limits)
    most = fields.integer("max_tokens", None, 1, limits.max_tokens)
    most = fields.integer("max_completion_tokens", most, 1, limits.max_tokens)
    has_logprobs = fields.flag("logprobs")
    top = fields.integer("top_logprobs", 0, 0, 20)
    chat = parse_chat_options(fields)
    request = _text_request(fields, [], messages, most, top if has_logprobs else None, limits)
    if choice.forced and request.json_schema is not None:
        raise fields.error("response_format", "cannot stand beside a tool_choice that wants a call")
    return replace(request, tools=tools, choice=choice, chat=chat)


def parse_embedding(record: Any, limits: ServerLimits) -> EmbeddingRequest:
    """Read a request to /v1/embeddings.

    Args:
        record: The body of the request, as JSON.
        limits: Of this server.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields = Fields(record)
    model, texts = fields.text("model", ""), _prompts(fields, "input", limits.texts)
    encoding = fields.text("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise fields.error("encoding_format", "must be 'float' or 'base64'")
    dimensions = fields.integer("dimensions", None, 1, 2**31)
    fields.refuse(**EMBEDDING_NEUTRAL)
    fields.skip(*HARMLESS)
    fields.finish()
    return EmbeddingRequest(model, texts, encoding == "base64", dimensions)


def _text_request(
    fields: Fields, prompts: list[Prompt], messages: list[dict[str, Any]], max_tokens: int | None,
    logprobs: int | None, limits: ServerLimits,
) -> TextRequest:  # fmt: skip
    """Read the fields that completions and chats share."""
    model = fields.text("model", "")
    answers = fields.integer("n", 1, 1, limits.sequences)
    if answers * max(len(prompts), 1) > limits.sequences:
        raise fields.error("n", f"gives more than {limits.sequences} answers with these prompts")
    is_streamed = fields.flag("stream")
    request = TextRequest(
        model, prompts, messages, read_sampling(fields), max_tokens, answers, read_stops(fields, limits),
        read_stop_rules(fields, max_tokens), is_streamed, _wants_usage(fields, is_streamed), logprobs,
        read_response_format(fields),
    )  # fmt: skip
    fields.refuse(best_of=(answers,), **NEUTRAL)
    fields.skip(*HARMLESS)
    fields.finish()
    return request


def _wants_usage(fields: Fields, is_streamed: bool) -> bool:
    """Read how a stream is sent; without one the options would mean nothing."""
    value = fields.take("stream_options", None)
    if value is None:
        return False
    if not is_streamed:
        raise fields.error("stream_options", "needs 'stream'")
    options = Fields(value, "stream_options.")
    wants_usage = options.flag("include_usage")
    options.refuse(continuous_usage_stats=(False,))
    options.skip("include_obfuscation")
    options.finish()
    return wants_usage


def _prompts(fields: Fields, name: str, most: int) -> list[Prompt]:
    """Return texts or lists of tokens, of a field that has one or a list of them."""
    value = fields.take(name)
    if isinstance(value, str) or (isinstance(value, list) and value and not isinstance(value[0], str | list)):
        value = [value]
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise fields.error(name, f"must be a string, tokens, or a list of 1 to {most} of them")
    prompts: list[Prompt] = []
    for prompt in value:
        if isinstance(prompt, list):
            if not all(isinstance(token, int) and not isinstance(token, bool) for token in prompt):
                raise fields.error(name, "must have integers as tokens")
            prompts.append(prompt)
        else:
            prompts.append(fields.check_text(name, prompt))
        if not prompt:
            raise fields.error(name, "must not be empty")
    return prompts


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
