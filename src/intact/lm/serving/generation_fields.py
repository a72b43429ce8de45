"""Fields of requests that say how an answer is generated: draws, ends, and the form of its text."""

from __future__ import annotations

import re
import secrets
from typing import Any

from intact.errors import QuantValueError
from intact.lm.generate import StopRules
from intact.lm.sampling import Sampling
from intact.lm.serving.protocol_error import MISSING, Fields, ProtocolError
from intact.lm.serving.server_limits import ServerLimits

_MOST_BIASES = 1024
_MOST_ENDS = 128
_SCHEMA_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read_sampling(fields: Fields) -> Sampling:
    """Read how tokens are chosen; a seed is drawn where none is given.

    Args:
        fields: Of the request.
    Raises:
        ProtocolError: A value is out of its bounds; names the field.
    """
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


def read_stop_rules(fields: Fields, max_tokens: int | None) -> StopRules:
    """Read which tokens end an answer.

    Args:
        fields: Of the request.
        max_tokens: The limit of the answer; None: no limit.
    Raises:
        ProtocolError: `stop_token_ids` or `min_tokens` is wrong.
    """
    tokens = fields.take("stop_token_ids", [])
    fits = isinstance(tokens, list) and len(tokens) <= _MOST_ENDS
    if not fits or not all(is_token(token) for token in tokens):
        raise fields.error("stop_token_ids", f"must be a list of at most {_MOST_ENDS} tokens")
    least = fields.integer("min_tokens", 0, 0, 2**31)
    if max_tokens is not None and least > max_tokens:
        raise fields.error("min_tokens", f"must be at most max_tokens, {max_tokens}")
    return StopRules(frozenset(tokens), fields.flag("ignore_eos"), least)


def read_stops(fields: Fields, limits: ServerLimits, name: str = "stop") -> tuple[str, ...]:
    """Read the texts that end an answer.

    Args:
        fields: Of the request.
        limits: How many texts, and how long.
        name: Of the field.
    Raises:
        ProtocolError: There are too many, or one is empty or too long.
    """
    value = fields.take(name, [])
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > limits.stops:
        raise fields.error(name, f"must be a string, or at most {limits.stops} of them")
    for stop in stops:
        if not 1 <= len(fields.check_text(name, stop)) <= limits.stop_length:
            raise fields.error(name, f"must have 1 to {limits.stop_length} characters each")
    return tuple(stops)


def read_response_format(fields: Fields) -> dict[str, Any] | None:
    """Read the JSON schema that an answer follows; None: nothing.

    A schema stands where OpenAI has it, or beside ``json_object``, as llama.cpp, Together and Fireworks do.

    Args:
        fields: Of the request.
    Raises:
        ProtocolError: The format is unknown, or its schema no object.
    """
    value = fields.take("response_format", None)
    if value is None:
        return None
    form = Fields(value, "response_format.")
    kind = _format_kind(form)
    schema = None
    if kind == "json_object":
        schema = form.take("schema", {"type": "object"})
    elif kind == "json_schema":
        inner = form.take("json_schema", None)
        if inner is None:
            schema = form.take("schema")
        else:
            named = Fields(inner, "response_format.json_schema.")
            schema = _read_named_schema(named, {})
            named.finish()
    form.finish()
    return _check_schema(form, schema)


def read_text_format(form: Fields) -> dict[str, Any] | None:
    """Read the format of an answer in which a schema's name stands beside it; None: any text.

    Args:
        form: The fields of the format, as the field ``text.format`` of /v1/responses has them.
    Raises:
        ProtocolError: The format is unknown, or its schema no object.
    """
    kind = _format_kind(form)
    schema = {"type": "object"} if kind == "json_object" else None
    if kind == "json_schema":
        schema = _read_named_schema(form, MISSING)
    form.finish()
    return _check_schema(form, schema)


def _format_kind(form: Fields) -> str:
    kind = form.text("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise form.error("type", "must be 'text', 'json_object' or 'json_schema'")
    return kind


def _read_named_schema(fields: Fields, default: Any) -> Any:
    """Read a schema with its name; it is enforced whether it is strict or not."""
    if not _SCHEMA_NAME.fullmatch(fields.text("name", "schema")):
        raise fields.error("name", "must have 1 to 64 letters, digits, _ or -")
    fields.text("description", "")
    fields.flag("strict")
    return fields.take("schema", default)


def _check_schema(form: Fields, schema: Any) -> dict[str, Any] | None:
    if schema is not None and not isinstance(schema, dict):
        raise form.error("schema", "must be an object")
    return schema


def is_token(value: Any) -> bool:
    """Return whether a value may be the number of a token."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _logit_bias(fields: Fields) -> dict[int, float]:
    value = fields.take("logit_bias", {})
    if not isinstance(value, dict) or len(value) > _MOST_BIASES:
        raise fields.error("logit_bias", f"must be an object of at most {_MOST_BIASES} tokens")
    biases = Fields(value, "logit_bias.")
    if not all(token.isascii() and token.isdecimal() and len(token) < 10 for token in value):
        raise fields.error("logit_bias", "must have the numbers of tokens as names")
    if len({int(token) for token in value}) < len(value):
        raise fields.error("logit_bias", "must have each token once")
    return {int(token): biases.number(token, 0.0, -100, 100) for token in value}
