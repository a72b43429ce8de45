"""Requests of OpenAI's protocol to /v1/responses, read as requests for an answer to a chat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intact.lm.generate import StopRules
from intact.lm.serving.chat_requests import ChatOptions, read_arguments, read_effort
from intact.lm.serving.generation_fields import read_sampling, read_text_format
from intact.lm.serving.protocol_error import Fields
from intact.lm.serving.requests import HARMLESS as HARMLESS_IN_CHATS
from intact.lm.serving.requests import TextRequest
from intact.lm.serving.server_limits import ServerLimits
from intact.lm.serving.tool_requests import ToolChoice, choose_tools, read_function, read_tools

HARMLESS = {
    **{name: HARMLESS_IN_CHATS[name] for name in (
        "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention",
    )},
    "client_metadata": "notes of the client", "prompt_cache_options": HARMLESS_IN_CHATS["prompt_cache_key"],
}  # fmt: skip
"""Fields that change no token, and why."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "background": (False,), "conversation": (), "previous_response_id": (), "prompt": (), "moderation": (),
    "max_tool_calls": (), "truncation": ("disabled", "auto"), "context_management": ([],),
    "access_programs": (), "background_options": (), "image": (),
}  # fmt: skip
"""Fields that nothing here does, and the values that ask for nothing; null always does.

`truncation`: a prompt that does not fit is refused either way."""

_LOGPROBS = "message.output_text.logprobs"
_INCLUDED = (_LOGPROBS, "reasoning.encrypted_content")
"""Further contents of answers; reasoning is never encrypted here, and is always there."""

_ECHOED = (
    "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "safety_identifier",
    "temperature", "text", "tool_choice", "tools", "top_p", "truncation", "user",
)  # fmt: skip
_DEFAULTS: Mapping[str, Any] = {
    "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "text": {"format": {"type": "text"}},
    "tool_choice": "auto", "tools": [], "top_p": 1.0, "truncation": "disabled",
}  # fmt: skip


@dataclass(frozen=True)
class ResponseRequest:
    """A request to /v1/responses.

    Attributes:
        answer: What is asked for.
        echoed: Fields of the request that the response repeats.
    """

    answer: TextRequest
    echoed: dict[str, Any]


def parse_response_request(record: Any, limits: ServerLimits) -> ResponseRequest:
    """Read a request to /v1/responses.

    Args:
        record: The body of the request, as JSON.
        limits: Of this server.
    Raises:
        ProtocolError: A field is unknown, missing or wrong; names it.
    """
    fields = Fields(record)
    instructions = fields.text("instructions", "")
    messages = [{"role": "system", "content": instructions}] if instructions else []
    messages += _messages(fields)
    tools, choice = _tools(fields, limits)
    schema = _text_format(fields)
    if choice.forced and schema is not None:
        raise fields.error("text", "cannot have a format beside a tool_choice that wants a call")
    top = fields.integer("top_logprobs", 0, 0, 20)
    has_logprobs = _wants_logprobs(fields) or top > 0
    most = fields.integer("max_output_tokens", None, 1, limits.max_tokens)
    options = Fields(fields.take("stream_options", {}), "stream_options.")
    options.skip("include_obfuscation")
    options.finish()
    request = TextRequest(
        fields.text("model", ""), [], messages, read_sampling(fields), most, 1, (), StopRules(),
        fields.flag("stream"), True, top if has_logprobs else None, schema, tools=tools, choice=choice,
        chat=ChatOptions(chat_template_kwargs=_reasoning(fields)),
    )  # fmt: skip
    fields.refuse(**NEUTRAL)
    fields.skip(*HARMLESS)
    fields.finish()
    sent = {name: record.get(name) for name in _ECHOED}
    echoed = {name: _DEFAULTS.get(name) if value is None else value for name, value in sent.items()}
    return ResponseRequest(request, echoed)


def _messages(fields: Fields) -> list[dict[str, Any]]:
    value = fields.take("input")
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    messages: list[dict[str, Any]] = []
    for item in fields.objects("input", value, "a string, or a list of one item or more", least=1):
        entry = _item(item, item.text("type", "message"))
        item.skip("id", "status", "phase")
        item.finish()
        # Reasoning, text and calls of one answer are items of their own; templates want one message.
        last = messages[-1] if messages else {}
        if entry["role"] == last.get("role") == "assistant" and _goes_on(last, entry):
            calls = [*last.get("tool_calls", ()), *entry.get("tool_calls", ())]
            last |= entry | ({"tool_calls": calls} if calls else {})
        else:
            messages.append(entry)
    return messages


def _goes_on(message: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether an item belongs to the answer in front: reasoning, then a text, then calls."""
    if "tool_calls" in entry:
        return True
    return "tool_calls" not in message and "content" not in message and "content" in entry


def _item(item: Fields, kind: str) -> dict[str, Any]:
    if kind == "message":
        role = item.text("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise item.error("role", "must be 'user', 'assistant', 'system' or 'developer'")
        return {"role": role, "content": _content(item, "content", item.take("content"))}
    if kind == "function_call":
        arguments = read_arguments(item, item.take("arguments", "{}"))
        function = {"name": item.text("name"), "arguments": arguments}
        item.skip("namespace", "caller")
        return {
            "role": "assistant",
            "tool_calls": [{"id": item.text("call_id"), "type": "function", "function": function}],
        }
    if kind == "function_call_output":
        output = _content(item, "output", item.take("output"))
        item.skip("name", "caller")
        return {"role": "tool", "tool_call_id": item.text("call_id"), "content": output}
    if kind == "reasoning":
        item.skip("encrypted_content")  # of another server; what it says is in the texts
        parts = [*_content_list(item, "summary"), *_content_list(item, "content")]
        return {"role": "assistant", "reasoning_content": "".join(part["text"] for part in parts)}
    raise item.error("type", "must be a message, a call, its output, or reasoning", "unsupported_parameter")


def _content_list(item: Fields, name: str) -> list[dict[str, str]]:
    content = _content(item, name, item.take(name, []))
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _content(item: Fields, name: str, value: Any) -> str | list[dict[str, str]]:
    if isinstance(value, str):
        return item.check_text(name, value)
    parts = []
    for part in item.objects(name, value, "a string or a list of texts"):
        kind = part.text("type")
        if kind not in ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"):
            raise part.error("type", "must be a text", "unsupported_parameter")
        parts.append({"type": "text", "text": part.text("refusal" if kind == "refusal" else "text")})
        part.skip("annotations", "logprobs")
        part.finish()
    return parts


def _tools(fields: Fields, limits: ServerLimits) -> tuple[list[dict[str, Any]], ToolChoice]:
    tools, strict = read_tools(fields, limits, _tool)
    most = None if fields.flag("parallel_tool_calls", True) else 1
    kind, name = fields.take("tool_choice", "auto"), ""
    if isinstance(kind, dict):
        choice = Fields(kind, "tool_choice.")
        kind, name = choice.text("type"), choice.text("name")
        choice.finish()
    return choose_tools(fields, tools, {"auto", "none", "required", "function"}, kind, name, strict, most)


def _tool(record: Any, where: str) -> tuple[dict[str, Any], bool]:
    tool = Fields(record, where)
    if tool.text("type") != "function":
        raise tool.error("type", "must be 'function': this server runs no tools", "unsupported_parameter")
    tool.refuse(defer_loading=(False,), allowed_callers=(["direct"],))
    return read_function(tool, record)


def _text_format(fields: Fields) -> dict[str, Any] | None:
    text = Fields(fields.take("text", {}), "text.")
    form = text.take("format", None)
    schema = None if form is None else read_text_format(Fields(form, "text.format."))
    text.refuse(verbosity=("medium",))
    text.finish()
    return schema


def _wants_logprobs(fields: Fields) -> bool:
    included = fields.take("include", [])
    if not isinstance(included, list) or not all(name in _INCLUDED for name in included):
        raise fields.error("include", f"can have {' and '.join(_INCLUDED)}", "unsupported_parameter")
    return _LOGPROBS in included


def _reasoning(fields: Fields) -> dict[str, Any]:
    """Return the template's variables for what a request says of reasoning."""
    reasoning = Fields(fields.take("reasoning", {}), "reasoning.")
    effort = read_effort(reasoning, "effort")
    reasoning.skip("summary", "generate_summary")  # reasoning is there as it is
    reasoning.refuse(context=())
    reasoning.finish()
    return {} if effort is None else {"reasoning_effort": effort}
