"""Requests of Anthropic's protocol to /v1/messages, read as requests for an answer to a chat."""

from __future__ import annotations

from typing import Any

from intact.lm.generate import StopRules
from intact.lm.serving.chat_requests import ChatOptions, message_fields, read_effort
from intact.lm.serving.generation_fields import read_sampling, read_stops, read_text_format
from intact.lm.serving.protocol_error import Fields
from intact.lm.serving.requests import TextRequest
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.tool_requests import ToolChoice, choose_tools, read_function, read_tools

_THINKING = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}

HARMLESS = {
    "metadata": "who asks", "user_profile_id": "who asks", "workspace_id": "who asks",
    "service_tier": "there is one", "inference_geo": "there is one place",
    "diagnostics": "figures for the client",
    "cache_control": "prompts that begin alike share their beginning by themselves",
}  # fmt: skip
"""Fields of requests that change no token, and why."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "container": (), "mcp_servers": ([],), "context_management": (), "speed": ("standard",),
}  # fmt: skip
"""Fields that nothing here does, and the values that ask for nothing; null always does."""


def parse_message_request(record: Any, limits: ServerLimits, *, is_counted: bool = False) -> TextRequest:
    """Read a request to /v1/messages.

    The answer goes on from a last message of the assistant, as Anthropic's does.

    Args:
        record: The body of the request, as JSON.
        limits: Of this server.
        is_counted: It asks for the tokens of its prompt alone: it needs no `max_tokens`.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields = Fields(record)
    messages = [*_system(fields), *_messages(fields)]
    tools, choice = _tools(fields, limits)
    most = fields.integer("max_tokens", None, 1, limits.max_tokens)
    if most is None and not is_counted:
        raise fields.error("max_tokens", "is missing", "missing_required_parameter")
    wishes = _thinking(fields)
    output = Fields(fields.take("output_config", {}), "output_config.")
    if (effort := read_effort(output, "effort")) is not None:
        wishes["reasoning_effort"] = effort
    form = output.take("format", None)
    schema = None if form is None else read_text_format(Fields(form, "output_config.format."))
    output.finish()
    if choice.forced and schema is not None:
        raise fields.error("output_config", "cannot have a format beside a tool_choice that wants a call")
    request = TextRequest(
        fields.text("model", ""), [], messages, read_sampling(fields), most, 1,
        read_stops(fields, limits, "stop_sequences"), StopRules(), fields.flag("stream"), True, None, schema,
        tools=tools, choice=choice,
        chat=ChatOptions(continue_final_message=messages[-1]["role"] == "assistant"), wishes=wishes,
    )  # fmt: skip
    fields.refuse(**NEUTRAL)
    fields.skip(*HARMLESS)
    fields.finish()
    return request


def _system(fields: Fields) -> list[dict[str, Any]]:
    value = fields.take("system", None)
    if value is None:
        return []
    parts = _texts(fields, "system", value)
    return [{"role": "system", "content": parts}] if parts else []


def _messages(fields: Fields) -> list[dict[str, Any]]:
    """Return the messages; several of one role in turn are one message, as in Anthropic's."""
    messages: list[dict[str, Any]] = []
    for message in message_fields(fields):
        role, content = message.text("role"), message.take("content")
        message.finish()
        if role not in ("user", "assistant", "system"):
            raise message.error("role", "must be 'user', 'assistant' or 'system'")
        read = _assistant if role == "assistant" else _user
        for entry in read(message, role, content):
            _append(messages, entry)
    if not messages:
        raise fields.error("messages", "must have a text")
    return messages


def _append(messages: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    last, role = messages[-1] if messages else {}, entry["role"]
    if role == last.get("role") and role != "tool" and "tool_calls" not in last:
        content = [*last.get("content", ()), *entry.get("content", ())]
        thoughts = "".join(each.get("reasoning_content", "") for each in (last, entry))
        messages[-1] = last | entry | ({"content": content} if content else {})
        if thoughts:
            messages[-1]["reasoning_content"] = thoughts
    else:
        messages.append(entry)


def _user(message: Fields, role: str, content: Any) -> list[dict[str, Any]]:
    """Return the messages that a message of the user is: results of tools are each one of its own."""
    entries: list[dict[str, Any]] = []
    for block in _blocks(message, content):
        kind = block.text("type")
        if kind == "tool_result" and role == "user":
            call, result = block.text("tool_use_id"), _texts(block, "content", block.take("content", ""))
            if block.flag("is_error"):
                result = [{"type": "text", "text": "Error:"}, *result]
            entries.append({"role": "tool", "tool_call_id": call, "content": result or ""})
        else:
            part = _text_part(block, kind)
            if entries and entries[-1]["role"] == role:
                entries[-1]["content"].append(part)
            else:
                entries.append({"role": role, "content": [part]})
        _finish(block)
    return entries


def _assistant(message: Fields, role: str, content: Any) -> list[dict[str, Any]]:
    """Return the message that one of the assistant is: text, with reasoning and calls beside it."""
    entry: dict[str, Any] = {"role": role}
    for block in _blocks(message, content):
        kind = block.text("type")
        if kind == "thinking":
            entry["reasoning_content"] = entry.get("reasoning_content", "") + block.text("thinking")
            block.skip("signature")
        elif kind == "tool_use":
            call, name, arguments = block.text("id"), block.text("name"), block.take("input", {})
            if not isinstance(arguments, dict):
                raise block.error("input", "must be an object")
            function = {"name": name, "arguments": arguments}
            entry.setdefault("tool_calls", []).append({"id": call, "type": "function", "function": function})
            block.skip("caller")
        else:
            entry.setdefault("content", []).append(_text_part(block, kind))
        _finish(block)
    return [entry] if len(entry) > 1 else []


def _blocks(message: Fields, content: Any) -> list[Fields]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    return message.objects("content", content, "a string or a list of blocks")


def _text_part(block: Fields, kind: str) -> dict[str, str]:
    if kind != "text":
        raise block.error("type", "must be 'text', or a block of thinking or tools", "unsupported_parameter")
    return {"type": "text", "text": block.text("text")}


def _texts(fields: Fields, name: str, value: Any) -> list[dict[str, str]]:
    """Return parts of text, of a text or a list of blocks."""
    if isinstance(value, str):
        text = fields.check_text(name, value)
        return [{"type": "text", "text": text}] if text else []
    parts = []
    for block in fields.objects(name, value, "a string or a list of texts"):
        parts.append(_text_part(block, block.text("type")))
        _finish(block)
    return parts


def _finish(block: Fields) -> None:
    block.skip("cache_control")
    block.refuse(citations=([],), toolset_name=())
    block.finish()


def _thinking(fields: Fields) -> dict[str, Any]:
    """Read whether the answer has reasoning in front, as a variable of the template."""
    value = fields.take("thinking", None)
    if value is None:
        return {}
    thinking = Fields(value, "thinking.")
    kind = thinking.text("type")
    if kind not in _THINKING:
        raise thinking.error("type", f"must be one of {', '.join(_THINKING)}")
    thinking.skip("budget_tokens", "display")  # a budget is a bound from above; `max_tokens` holds for all
    thinking.finish()
    return {"enable_thinking": _THINKING[kind]}


def _tools(fields: Fields, limits: ServerLimits) -> tuple[list[dict[str, Any]], ToolChoice]:
    tools, strict = read_tools(fields, limits, _tool)
    choice = Fields(fields.take("tool_choice", {"type": "auto"}), "tool_choice.")
    kind, name = choice.text("type"), choice.text("name", "")
    most = 1 if choice.flag("disable_parallel_tool_use") else None
    choice.finish()
    return choose_tools(fields, tools, {"auto", "any", "none", "tool"}, kind, name, strict, most)


def _tool(record: Any, where: str) -> tuple[dict[str, Any], bool]:
    tool = Fields(record, where)
    if tool.text("type", "custom") != "custom":
        raise tool.error("type", "must be 'custom': this server runs no tools", "unsupported_parameter")
    tool.skip("cache_control", "eager_input_streaming", "input_examples")
    tool.refuse(defer_loading=(False,), allowed_callers=(["direct"],))
    return read_function(tool, record, "input_schema")
