"""Tools of requests: functions with JSON schemas, and which of them an answer may or must call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from intact.lm.serving.protocol_error import Fields
from intact.lm.serving.server_limits import ServerLimits

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@dataclass(frozen=True)
class ToolChoice:
    """Bounds of the calls that a model makes.

    Attributes:
        forced: Names of the tools of which it has to call one; empty: it may answer with text.
        strict: Names of those whose arguments have to follow their schema.
        most: Calls of an answer; None: any number.
    """

    forced: tuple[str, ...] = ()
    strict: frozenset[str] = frozenset()
    most: int | None = None


def parse_tools(fields: Fields, limits: ServerLimits) -> tuple[list[dict[str, Any]], ToolChoice]:
    """Read `tools`, `tool_choice` and `parallel_tool_calls`; return the template's tools and the choice.

    Args:
        fields: Of the request.
        limits: How many tools there may be.
    Raises:
        ProtocolError: A tool or the choice is wrong, or two tools have one name.
    """
    tools, strict = read_tools(fields, limits, _tool)
    most = None if fields.flag("parallel_tool_calls", True) else 1
    choice, name = fields.take("tool_choice", "auto"), ""
    if isinstance(choice, dict):
        chosen = Fields(choice, "tool_choice.")
        function = Fields(chosen.take("function"), "tool_choice.function.")
        choice, name = chosen.text("type"), function.text("name")
        chosen.finish()
        function.finish()
    return choose_tools(fields, tools, {"auto", "none", "required", "function"}, choice, name, strict, most)


ToolReader = Callable[[Any, str], tuple[dict[str, Any], bool]]
"""Reads a tool in a protocol's form, at a place; returns it for the template, and whether it is strict."""


def read_tools(
    fields: Fields, limits: ServerLimits, read: ToolReader
) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Read `tools`; return them in the template's form, and the names of those whose schema is enforced.

    Args:
        fields: Of the request.
        limits: How many tools there may be.
        read: Reads one.
    Raises:
        ProtocolError: A tool is wrong, or two have one name.
    """
    value = fields.take("tools", [])
    if not isinstance(value, list) or len(value) > limits.tools:
        raise fields.error("tools", f"must be a list of at most {limits.tools} tools")
    pairs = [read(record, f"tools[{number}].") for number, record in enumerate(value)]
    names = [tool["function"]["name"] for tool, _ in pairs]
    if len(set(names)) < len(names):
        raise fields.error("tools", "must have names that differ")
    strict = frozenset(name for name, (_, is_strict) in zip(names, pairs, strict=True) if is_strict)
    return [tool for tool, _ in pairs], strict


def choose_tools(
    fields: Fields, tools: list[dict[str, Any]], kinds: Collection[str], kind: Any, name: str,
    strict: frozenset[str], most: int | None,
) -> tuple[list[dict[str, Any]], ToolChoice]:  # fmt: skip
    """Return the tools that the template shows, and the choice.

    Args:
        fields: Of the request, for errors.
        tools: Of the request, as of `read_tools`.
        kinds: Kinds of choices that the protocol has, of "auto", "none", "required" or "any", and "function"
            or "tool".
        kind: That of the request.
        name: Of the tool that it names; "" for none.
        strict: As of `read_tools`.
        most: Calls of an answer; None: any number.
    Raises:
        ProtocolError: There is no such choice, or no such tool.
    """
    names = [tool["function"]["name"] for tool in tools]
    if isinstance(kind, str) and kind in kinds:
        if kind == "none":
            return [], ToolChoice()
        if kind == "auto":
            return tools, ToolChoice((), strict, most)
        if kind in ("required", "any") and tools:
            return tools, ToolChoice(tuple(names), strict, most)
        if kind in ("function", "tool") and name in names:
            return tools, ToolChoice((name,), strict, most)
    raise fields.error("tool_choice", f"must be one of {', '.join(sorted(kinds))}, and name one of the tools")


def _tool(record: Any, where: str) -> tuple[dict[str, Any], bool]:
    tool = Fields(record, where)
    if tool.text("type") != "function":
        raise tool.error("type", "must be 'function'", "unsupported_parameter")
    function = tool.take("function")
    tool.finish()
    return read_function(Fields(function, f"{where}function."), function)


def read_function(
    function: Fields, sent: Mapping[str, Any], schema: str = "parameters"
) -> tuple[dict[str, Any], bool]:
    """Read a function; return a tool for the template, and whether its schema is to be enforced.

    Args:
        function: Its fields.
        sent: As they came: the template gets them in their order, as in transformers.
        schema: Name of the field with the JSON schema of its arguments.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    name, parameters = function.text("name"), function.take(schema, {"type": "object"})
    if not _NAME.fullmatch(name):
        raise function.error("name", "must have 1 to 64 letters, digits, _, . or -")
    if not isinstance(parameters, dict):
        raise function.error(schema, "must be a JSON schema")
    shown: dict[str, Any] = {
        "name": name, "description": function.text("description", ""), "parameters": parameters,
    }  # fmt: skip
    is_strict = function.flag("strict")
    function.finish()
    came = ["parameters" if field == schema else field for field in sent if sent[field] is not None]
    order = [*(field for field in came if field in shown), *(() if "parameters" in came else ("parameters",))]
    return {"type": "function", "function": {field: shown[field] for field in order}}, is_strict
