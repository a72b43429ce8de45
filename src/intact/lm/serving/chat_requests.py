"""Messages of a request to /v1/chat/completions, and how the chat template makes a prompt of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from intact.errors import QuantValueError
from intact.lm.chat.conversation import parse_arguments
from intact.lm.chat_template import REASONING_FIELDS
from intact.lm.serving.protocol_error import Fields

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MOST_DOCUMENTS = 256


@dataclass(frozen=True)
class ChatOptions:
    """Says how the template makes a prompt of the messages, as arguments of `LanguageModel.chat_prompt`."""

    documents: list[dict[str, Any]] | None = None
    template: str = ""
    add_generation_prompt: bool | None = None
    continue_final_message: bool | str = False
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)


def parse_chat_options(fields: Fields) -> ChatOptions:
    """Read `chat_template`, `chat_template_kwargs` and what belongs to them.

    Other servers accept whole templates in `chat_template`; here it is the name of one of the model's.

    Args:
        fields: Of the request.
    Raises:
        ProtocolError: A field has a wrong value; names it.
    """
    documents = fields.take("documents", None)
    if documents is not None:
        if not isinstance(documents, list) or not all(isinstance(record, dict) for record in documents):
            raise fields.error("documents", "must be a list of objects")
        if len(documents) > _MOST_DOCUMENTS:
            raise fields.error("documents", f"must have at most {_MOST_DOCUMENTS} documents")
    variables = fields.take("chat_template_kwargs", {})
    if not isinstance(variables, dict):
        raise fields.error("chat_template_kwargs", "must be an object")
    effort = read_effort(fields, "reasoning_effort")
    if effort is not None:
        if variables.get("reasoning_effort", effort) != effort:
            raise fields.error("reasoning_effort", "is another one in chat_template_kwargs")
        variables = {**variables, "reasoning_effort": effort}
    begins = fields.take("add_generation_prompt", None)
    if not isinstance(begins, bool | None):
        raise fields.error("add_generation_prompt", "must be true or false")
    goes_on = fields.take("continue_final_message", False)
    if not isinstance(goes_on, bool | str):
        raise fields.error("continue_final_message", "must be true, false or the name of a field")
    if goes_on and begins:
        raise fields.error("add_generation_prompt", "must be false beside continue_final_message")
    return ChatOptions(documents, fields.text("chat_template", ""), begins, goes_on, variables)


def read_effort(fields: Fields, name: str) -> str | None:
    """Read how much reasoning is asked for, as the template's variable `reasoning_effort` has it.

    Args:
        fields: Of the request.
        name: Of the field.
    Raises:
        ProtocolError: There is no such effort.
    """
    effort = fields.take(name, None)
    if effort is not None and effort not in _EFFORTS:
        raise fields.error(name, f"must be one of {', '.join(_EFFORTS)}")
    return None if effort is None else str(effort)


def parse_messages(fields: Fields) -> list[dict[str, Any]]:
    """Read `messages`, of all roles; `prepare_messages` gives them the forms that the template shows.

    Args:
        fields: Of the request.
    Raises:
        ProtocolError: It is no list of messages.
    """
    return [_message(message) for message in message_fields(fields)]


def message_fields(fields: Fields) -> list[Fields]:
    """Return the fields of each of `messages`.

    Args:
        fields: Of the request.
    Raises:
        ProtocolError: It is no list of objects, or empty.
    """
    return fields.objects("messages", fields.take("messages"), "a list of one message or more", least=1)


def _message(message: Fields) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.text("role")}
    if (content := message.take("content", None)) is not None:
        entry["content"] = _content(message, content)
    for name in REASONING_FIELDS:
        if (reasoning := message.take(name, None)) is not None:
            entry[name] = message.check_text(name, reasoning)
    if len({entry[name] for name in REASONING_FIELDS if name in entry}) > 1:
        raise message.error(REASONING_FIELDS[0], "differs from the same field under another name")
    if calls := _calls(message):
        entry["tool_calls"] = calls
    for name in ("tool_call_id", "name"):
        if text := message.text(name, ""):
            entry[name] = text
    message.refuse(function_call=(), refusal=("",), audio=(), annotations=([],))
    message.finish()
    if len(entry) == 1:
        raise message.error("content", "is missing", "missing_required_parameter")
    return entry


def _calls(message: Fields) -> list[dict[str, Any]]:
    """Return earlier calls; their arguments stay the text that came."""
    calls = []
    for call in message.objects("tool_calls", message.take("tool_calls", []), "a list"):
        if call.text("type", "function") != "function":
            raise call.error("type", "must be 'function'", "unsupported_parameter")
        function = Fields(call.take("function"), call.place("function."))
        name, arguments = function.text("name"), read_arguments(function, function.take("arguments", "{}"))
        entry = {"type": "function", "function": {"name": name, "arguments": arguments}}
        calls.append(({"id": call_id} if (call_id := call.text("id", "")) else {}) | entry)
        call.skip("index")
        for rest in (function, call):
            rest.finish()
    return calls


def read_arguments(function: Fields, arguments: Any) -> str | dict[str, Any]:
    """Return the arguments of an earlier call: the text that came, or an object.

    Args:
        function: The fields of the call, for errors.
        arguments: Its field of that name.
    Raises:
        ProtocolError: They are no object, and no JSON of one.
    """
    if isinstance(arguments, str):
        try:
            parse_arguments(function.check_text("arguments", arguments), function.place(""))
        except QuantValueError as error:
            raise function.error("arguments", "must be JSON of an object") from error
    elif not isinstance(arguments, dict):
        raise function.error("arguments", "must be JSON of an object")
    checked: str | dict[str, Any] = arguments
    return checked


def _content(message: Fields, value: Any) -> str | list[dict[str, str]]:
    """Return a text, or parts of text."""
    if not isinstance(value, list):
        return message.check_text("content", value)
    whole = [{"type": "text", "text": part} if isinstance(part, str) else part for part in value]
    parts = []
    for part in message.objects("content", whole, "a list"):
        if part.text("type") not in ("text", "input_text", "output_text"):
            raise part.error("type", "must be 'text'", "unsupported_parameter")
        parts.append({"type": "text", "text": part.text("text")})
        part.finish()
    return parts
