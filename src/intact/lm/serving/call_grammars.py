"""Grammars of answers that call tools: that must, or that may and then follow the schemas of strict tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from intact.lm.language_model import LanguageModel
from intact.lm.schemas import NormalizedSchema, SchemaPool
from intact.lm.schemas.normalize import Schema
from intact.lm.serving.tool_requests import ToolChoice
from intact.lm.token_grammar import TokenGrammar

_LARK = r"""%llguidance {}
start: %START%
call: begin BLANK body BLANK "</tool_call>"
again: next BLANK body BLANK "</tool_call>"
next[lazy]: TEXT "<tool_call>"
whole: PREFIX? (body | "[" body ("," BLANK body)* "]")
PREFIX: "<|python_tag|>" | "[TOOL_CALLS]"
BLANK: /[ \n]?/
TEXT: /(?s:.*)/
body: %json %CALLS%
"""
_FREE = r"""begin[lazy]: FIRST "<tool_call>"
FIRST: /(?s:.*)/ & ~/[ \t\r\n]*(\{|\[|<\|python_tag\|>)(?s:.*)/
"""
_FORMED = r"""begin: "<tool_call>"
answer: %json %ANSWER%
"""


def request_grammar(
    model: LanguageModel, tools: Sequence[dict[str, Any]], choice: ToolChoice,
    json_schema: dict[str, Any] | None,
) -> TokenGrammar | None:  # fmt: skip
    """Return the grammar of an answer; None: it is free.

    Args:
        model: It answers.
        tools, choice: As a request has them.
        json_schema: Of an answer that calls none; None: any text.
    Raises:
        QuantValueError: A schema has a keyword that no grammar enforces.
    """
    names = {tool["function"]["name"]: tool for tool in tools}
    if choice.forced:
        return model.grammar(json_schema=call_schema([names[name] for name in choice.forced]))
    if tools and (choice.strict or json_schema is not None):
        return model.grammar(optional_call_grammar(tools, choice.strict, json_schema))
    return None if json_schema is None else model.grammar(json_schema=json_schema)


def call_schema(tools: Sequence[dict[str, Any]]) -> NormalizedSchema:
    """Return the schema of a call of any of these tools; references of each stay in its own parameters."""
    pool = SchemaPool()
    calls = [_call(tool, _parameters(pool, tool), "arguments") for tool in tools]
    root = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return NormalizedSchema(root | pool.table(), is_compact=True)


def optional_call_grammar(
    tools: Sequence[dict[str, Any]], strict: Iterable[str], answer: dict[str, Any] | None
) -> str:
    """Return a grammar, in Lark's notation, of answers that may call tools.

    Args:
        tools: As a request has them.
        strict: Names of those whose arguments follow their schema; those of others are any object.
        answer: JSON schema of an answer that calls none; None: any text that does not begin like a call.
    """
    pool, calls = SchemaPool(), list[Schema]()
    for tool in tools:
        is_strict = tool["function"]["name"] in strict
        parameters = _parameters(pool, tool) if is_strict else {"type": "object"}
        calls += [_call(tool, parameters, name) for name in ("arguments", "parameters")]
    start, rest = "whole | call again* TEXT | FIRST", _FREE
    if answer is not None:
        answers = SchemaPool()
        root = answers.add(answer)
        schema = NormalizedSchema((root if isinstance(root, dict) else {}) | answers.table())
        start, rest = "answer | whole | call again*", _FORMED.replace("%ANSWER%", schema.to_json())
    body = NormalizedSchema({"anyOf": calls} | pool.table()).to_json()
    return _LARK.replace("%START%", start).replace("%CALLS%", body) + rest


def _parameters(pool: SchemaPool, tool: dict[str, Any]) -> Schema:
    function = tool["function"]
    return pool.add(function["parameters"], f"{function['name']}#")


def _call(tool: dict[str, Any], parameters: Schema, name: str) -> dict[str, Any]:
    properties = {"name": {"const": tool["function"]["name"]}, name: parameters}
    return {
        "type": "object", "properties": properties, "required": ["name", name],
        "additionalProperties": False,
    }  # fmt: skip
