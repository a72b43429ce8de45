"""Tools of a request to /v1/chat/completions."""

from __future__ import annotations

import re
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
    value = fields.take("tools", [])
    if not isinstance(value, list) or len(value) > limits.tools:
        raise fields.error("tools", f"must be a list of at most {limits.tools} tools")
    pairs = [_tool(record, f"tools[{number}].") for number, record in enumerate(value)]
    tools = [tool for tool, _ in pairs]
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise fields.error("tools", "must have names that differ")
    strict = frozenset(name for name, (_, is_strict) in zip(names, pairs, strict=True) if is_strict)
    most = None if fields.flag("parallel_tool_calls", True) else 1
    choice = fields.take("tool_choice", "auto")
    if choice == "none":
        return [], ToolChoice()
    if choice == "auto":
        return tools, ToolChoice((), strict, most)
    if choice == "required" and tools:
        return tools, ToolChoice(tuple(names), strict, most)
    if isinstance(choice, dict):
        chosen = Fields(choice, "tool_choice.")
        function = Fields(chosen.take("function"), "tool_choice.function.")
        kind, name = chosen.text("type"), function.text("name")
        chosen.finish()
        function.finish()
        if kind == "function" and name in names:
            return tools, ToolChoice((name,), strict, most)
    raise fields.error("tool_choice", "must be 'none', 'auto', 'required', or name one of the tools")


def _tool(record: Any, where: str) -> tuple[dict[str, Any], bool]:
    """Return a tool for the template, and whether its schema is to be enforced."""
    tool = Fields(record, where)
    if tool.text("type") != "function":
        raise tool.error("type", "must be 'function'", "unsupported_parameter")
    function = Fields(tool.take("function"), f"{where}function.")
    name, parameters = function.text("name"), function.take("parameters", {"type": "object"})
    if not _NAME.fullmatch(name):
        raise function.error("name", "must have 1 to 64 letters, digits, _, . or -")
    if not isinstance(parameters, dict):
        raise function.error("parameters", "must be a JSON schema")
    about = function.text("description", "")
    sent = record["function"]
    is_strict = function.flag("strict")
    function.finish()
    tool.finish()
    shown: dict[str, Any] = {"name": name, "description": about, "parameters": parameters}
    # The template gets the fields that came, in their order, as in transformers.
    fields = [field for field in sent if sent[field] is not None and field in shown]
    order = [*fields, *(() if "parameters" in fields else ("parameters",))]
    return {"type": "function", "function": {field: shown[field] for field in order}}, is_strict
