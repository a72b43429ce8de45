"""Requests of OpenAI's protocol, read from JSON."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from intact.errors import QuantValueError
from intact.lm.sampling import Sampling
from intact.lm.serving.chat_requests import ChatOptions, parse_chat_options, parse_messages
from intact.lm.serving.protocol_error import Fields, ProtocolError
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.strict_json import parse_strict
from intact.lm.serving.tool_requests import parse_tools

Prompt = str | list[int]
_MOST_BIASES = 1024
_HARMLESS = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")


@dataclass(frozen=True)
class TextRequest:
    """A request for answers.

    Attributes:
        model: Its name; "" where the client names none.
        prompts: Texts or tokens; of a chat none.
        messages: Of a chat.
        sampling: How tokens are chosen.
        max_tokens: Of an answer; None: the server's default.
        answers: For each prompt.
        stop: Texts that end an answer.
        is_streamed, wants_usage: How the answer is sent.
        logprobs: The most likely tokens that are named beside each; None: no probabilities at all.
        json_schema: What the answer follows; None: nothing.
        tools: What the model may call.
        chat: How the template makes a prompt of the messages.
    """

    model: str
    prompts: list[Prompt]
    messages: list[dict[str, Any]]
    sampling: Sampling
    max_tokens: int | None
    answers: int
    stop: tuple[str, ...]
    is_streamed: bool
    wants_usage: bool
    logprobs: int | None
    json_schema: dict[str, Any] | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    chat: ChatOptions = field(default_factory=ChatOptions)


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
    fields.refuse(suffix=("",), echo=(False,), best_of=(1,))
    max_tokens = fields.integer("max_tokens", 16, 1, limits.max_tokens)
    return _text_request(fields, prompts, [], max_tokens, logprobs, limits)


def parse_chat(record: Any, limits: ServerLimits) -> TextRequest:
    """Read a request to /v1/chat/completions."""
    fields = Fields(record)
    messages = parse_messages(fields)
    tools, schema = parse_tools(fields, limits)
    most = fields.integer("max_tokens", None, 1, limits.max_tokens)
    most = fields.integer("max_completion_tokens", most, 1, limits.max_tokens)
    has_logprobs = fields.flag("logprobs")
    top = fields.integer("top_logprobs", 0, 0, 20)
    fields.refuse(
        functions=([],), function_call=("none", "auto"), modalities=(["text"],), audio=(), prediction=(),
        web_search_options=(),
    )  # fmt: skip
    fields.skip("parallel_tool_calls", "verbosity")
    chat = parse_chat_options(fields)
    request = _text_request(fields, [], messages, most, top if has_logprobs else None, limits)
    if schema is not None and request.json_schema is not None:
        raise fields.error("response_format", "cannot stand beside a tool_choice that wants a call")
    return replace(request, tools=tools, json_schema=schema or request.json_schema, chat=chat)


def parse_embedding(record: Any, limits: ServerLimits) -> EmbeddingRequest:
    """Read a request to /v1/embeddings."""
    fields = Fields(record)
    model, texts = fields.text("model", ""), _prompts(fields, "input", limits.texts)
    encoding = fields.text("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise fields.error("encoding_format", "must be 'float' or 'base64'")
    dimensions = fields.integer("dimensions", None, 1, 2**31)
    fields.skip(*_HARMLESS)
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
    is_streamed, options = fields.flag("stream"), Fields(fields.take("stream_options", {}), "stream_options.")
    wants_usage = options.flag("include_usage")
    options.skip("include_obfuscation")
    options.finish()
    request = TextRequest(
        model, prompts, messages, _sampling(fields), max_tokens, answers, _stops(fields, limits), is_streamed,
        wants_usage, logprobs, _json_schema(fields),
    )  # fmt: skip
    fields.skip(*_HARMLESS)
    fields.finish()
    return request


def _sampling(fields: Fields) -> Sampling:
    seed = fields.integer("seed", None, 0, 2**63 - 1)
    try:
        return Sampling(
            temperature=fields.number("temperature", 1.0, 0, 100), top_k=fields.integer("top_k", 0, 0, 2**31),
            top_p=fields.number("top_p", 1.0, 0, 1), min_p=fields.number("min_p", 0.0, 0, 1),
            repetition_penalty=fields.number("repetition_penalty", 1.0, 0, 100),
            presence_penalty=fields.number("presence_penalty", 0.0, -2, 2),
            frequency_penalty=fields.number("frequency_penalty", 0.0, -2, 2), logit_bias=_logit_bias(fields),
            seed=secrets.randbits(32) if seed is None else seed,
        )  # fmt: skip
    except QuantValueError as error:
        raise ProtocolError(400, str(error), param=error.where) from error


def _logit_bias(fields: Fields) -> dict[int, float]:
    value = fields.take("logit_bias", {})
    if not isinstance(value, dict) or len(value) > _MOST_BIASES:
        raise fields.error("logit_bias", f"must be an object of at most {_MOST_BIASES} tokens")
    biases = Fields(value, "logit_bias.")
    if not all(token.isascii() and token.isdecimal() and len(token) < 10 for token in value):
        raise fields.error("logit_bias", "must have the numbers of tokens as names")
    return {int(token): biases.number(token, 0.0, -100, 100) for token in value}


def _stops(fields: Fields, limits: ServerLimits) -> tuple[str, ...]:
    value = fields.take("stop", [])
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > limits.stops:
        raise fields.error("stop", f"must be a string, or at most {limits.stops} of them")
    for stop in stops:
        if not 1 <= len(fields.check_text("stop", stop)) <= limits.stop_length:
            raise fields.error("stop", f"must have 1 to {limits.stop_length} characters each")
    return tuple(stops)


def _json_schema(fields: Fields) -> dict[str, Any] | None:
    value = fields.take("response_format", None)
    if value is None:
        return None
    form = Fields(value, "response_format.")
    kind = form.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise form.error("type", "must be 'text', 'json_object' or 'json_schema'")
    schema = Fields(form.take("json_schema"), "response_format.json_schema.").take("schema", {})
    if not isinstance(schema, dict):
        raise form.error("json_schema.schema", "must be an object")
    return schema


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
