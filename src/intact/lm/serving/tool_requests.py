"""Tools of a request to /v1/chat/completions."""

from __future__ import annotations

import re
from typing import Any

from intact.lm.serving.protocol_error import Fields
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.tool_calls import call_schema

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def parse_tools(fields: Fields, limits: ServerLimits) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Read `tools` and `tool_choice`.

    Returns:
        The tools that the model may call, for its template; and the JSON schema of an answer that must be a
        call, None where it may be text.
    """
    value = fields.take("tools", [])
    if not isinstance(value, list) or len(value) > limits.tools:
        raise fields.error("tools", f"must be a list of at most {limits.tools} tools")
    tools = [_tool(record, f"tools[{number}].") for number, record in enumerate(value)]
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise fields.error("tools", "must have names that differ")
    choice = fields.take("tool_choice", "auto")
    if choice == "none":
        return [], None
    if choice == "auto":
        return tools, None
    if choice == "required" and tools:
        return tools, call_schema(tools)
    if isinstance(choice, dict):
        chosen = Fields(choice, "tool_choice.")
        kind, name = (
            chosen.text("type"),
            Fields(chosen.take("function"), "tool_choice.function.").text("name"),
        )
        if kind == "function" and name in names:
            return tools, call_schema([tools[names.index(name)]])
    raise fields.error("tool_choice", "must be 'none', 'auto', 'required', or name one of the tools")


def _tool(record: Any, where: str) -> dict[str, Any]:
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
    function.skip("strict")
    function.finish()
    tool.finish()
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
