"""Messages of OpenAI's protocol and of transformers, as a template wants to read them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from intact.errors import QuantValueError
from intact.lm.chat_template import REASONING_FIELDS, render_chat, template_reads

_KNOWN = ("role", "content", "name", "tool_calls", "tool_call_id", *REASONING_FIELDS)
_UNSENT = ("refusal", "annotations", "audio", "function_call")
"""Fields of answers that clients send back; a value other than null or an empty one is refused."""

_MARK = "intactmark"
_CALL_ID = "intact123"  # nine letters and digits, as templates of Mistral want them


@dataclass(frozen=True)
class ContentForms:
    """The forms in which a template shows the content of messages of one role.

    Attributes:
        takes_texts: It reads contents that are plain texts.
        takes_parts: It reads lists of text parts; otherwise they are joined.
    """

    takes_texts: bool
    takes_parts: bool

    @property
    def takes_none(self) -> bool:
        """Return whether messages of this role are lost or refused."""
        return not (self.takes_texts or self.takes_parts)


@dataclass(frozen=True)
class CallForms:
    """The forms in which a template shows calls of tools.

    Attributes:
        has_text_arguments: It wants the arguments of a call as JSON text, not as an object.
        empty_content: Fields of a message with calls and no content.
    """

    has_text_arguments: bool
    empty_content: Mapping[str, Any]


def prepare_messages(
    messages: Sequence[Any], template: str, variables: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return messages in the forms that a template shows.

    As in transformers, fields that are None count as missing. Lists of text parts stay lists where the
    template walks over them, and are joined by line breaks otherwise. The arguments of calls are objects, or
    texts where the template shows those.

    Args:
        messages: Mappings, or objects with ``model_dump``, such as the client of OpenAI returns.
        template: That will render them.
        variables: Texts of special tokens.
    Raises:
        QuantValueError: A message has another form, a part that is no text, or a field that nobody reads.
    """
    names, texts = template_reads(template).names, tuple(variables.items())
    prepared = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        fields = _read_fields(message, names, where)
        if fields["role"] == "developer" and content_forms(template, "developer", texts).takes_none:
            fields["role"] = "system"
        if "content" in fields:
            forms_of_role = partial(content_forms, template, fields["role"], texts)
            fields["content"] = _content(fields["content"], forms_of_role, f"{where}.content")
        if calls := fields.pop("tool_calls", None):
            forms = call_forms(template, texts, has_content="content" in fields)
            fields["tool_calls"] = _calls(calls, forms, f"{where}.tool_calls")
            if not fields.get("content"):
                fields.pop("content", None)
                fields |= forms.empty_content
        prepared.append(fields)
    return prepared


def _read_fields(message: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """Return the fields of a message, of which each is known or read by a template with these `names`."""
    fields = plain_data(message, where)
    if not isinstance(fields, dict):
        raise _message_error(where, f"a {type(message).__name__}", "an object with 'role' and 'content'")
    fields = {name: value for name, value in fields.items() if value is not None}
    if not isinstance(fields.get("role"), str):
        raise _message_error(f"{where}.role", f"{fields.get('role')!r:.40}", "a text, such as 'user'")
    for name in ("name", "tool_call_id", *REASONING_FIELDS):
        if not isinstance(fields.get(name, ""), str):
            raise _message_error(f"{where}.{name}", f"a {type(fields[name]).__name__}", "a text")
    for name in (*fields,):
        if name in _KNOWN or name in names:
            continue
        if name not in _UNSENT or fields.pop(name):
            got = "a field that the model's chat template does not read"
            raise _message_error(f"{where}.{name:.80}", got, "role, content, and fields that it reads")
    return fields


def plain_data(value: Any, where: str) -> Any:
    """Return a value as JSON has it: objects become dictionaries.

    Raises:
        QuantValueError: It is no such value, or nested too deep; `where` names it.
    """
    try:
        return _json_value(value, where)
    except RecursionError as error:
        raise _message_error(where, "values nested too deep", "a value as JSON has it") from error


def _json_value(value: Any, where: str) -> Any:
    """Return a value as JSON has it; errors as of `plain_data`, and RecursionError."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(item, f"{where}.{name!s:.80}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if callable(getattr(value, "model_dump", None)):
        return _json_value(value.model_dump(), where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {
            field.name: _json_value(getattr(value, field.name), f"{where}.{field.name}") for field in fields
        }
    raise _message_error(where, f"a {type(value).__name__}", "texts, numbers, lists and objects")


def parse_arguments(text: str, where: str) -> dict[str, Any]:
    """Return the arguments of a call, which are JSON of an object.

    Raises:
        QuantValueError: They are not; `where` names them.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        arguments = json.loads(text or "{}", parse_constant=refuse)
        json.dumps(arguments, ensure_ascii=False).encode()  # which fails for half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise _message_error(where, f"'{str(error)[:80]}'", "JSON of an object") from error
    if not isinstance(arguments, dict):
        raise _message_error(where, "other JSON", "JSON of an object")
    return arguments


@lru_cache(maxsize=256)
def content_forms(template: str, role: str, variables: tuple[tuple[str, str], ...]) -> ContentForms:
    """Return the forms of contents that a template neither refuses, loses nor garbles."""
    user = {"role": "user", "content": "go"}
    before = [] if role in ("system", "developer", "user") else [user]
    if role == "tool":
        before.append(_probe_call(call_forms(template, variables)))
    more = {"name": "probe", "tool_call_id": _CALL_ID} if role == "tool" else {}
    shown = []
    for content in (_MARK, [{"type": "text", "text": _MARK}]):
        message = {"role": role, "content": content, **more}
        behind = [] if role == "user" else [user]
        prompt = _try_render(template, [*before, message, *behind], variables)
        shown.append(_MARK in prompt and not any(quote + "type" + quote in prompt for quote in "'\""))
    return ContentForms(*shown)


@lru_cache(maxsize=64)
def call_forms(
    template: str, variables: tuple[tuple[str, str], ...], *, has_content: bool = False
) -> CallForms:
    """Return the forms of calls that a template shows: the first ones that it neither refuses nor garbles.

    Args:
        template, variables: As for `prepare_messages`.
        has_content: Messages with calls have a content, an empty one; else none.
    """
    schema = {"type": "object", "properties": {_MARK: {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "probe", "description": "", "parameters": schema}}
    empty_contents: list[dict[str, Any]] = [{}, {"content": None}, {"content": ""}]
    if has_content:
        empty_contents.reverse()
    for empty_content in empty_contents:
        for has_text in (False, True):
            forms = CallForms(has_text, empty_content)
            answer = {"role": "tool", "content": "done", "name": "probe", "tool_call_id": _CALL_ID}
            messages = [{"role": "user", "content": "go"}, _probe_call(forms), answer]
            prompt = _try_render(template, messages, variables, tools=[tool]).rpartition("go")[2]
            garbled = (f"{{'{_MARK}'", f'\\"{_MARK}\\"', "None")
            if _MARK in prompt and not any(text in prompt for text in garbled):
                return forms
    return CallForms(False, empty_contents[0])


def _probe_call(forms: CallForms) -> dict[str, Any]:
    """Return a message with a call in these forms."""
    arguments = {_MARK: "value"}
    function = {
        "name": "probe",
        "arguments": json.dumps(arguments) if forms.has_text_arguments else arguments,
    }
    call = {"id": _CALL_ID, "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call], **forms.empty_content}


def _try_render(
    template: str, messages: list[dict[str, Any]], variables: tuple[tuple[str, str], ...], **more: Any
) -> str:
    """Return a prompt, or "" where the template refuses the messages."""
    try:
        return render_chat(template, messages, variables=dict(variables), **more)
    except QuantValueError:
        return ""


def _content(value: Any, forms: Callable[[], ContentForms], where: str) -> Any:
    """Return a content as the template shows it."""
    if isinstance(value, str):
        if value and not forms().takes_texts and forms().takes_parts:
            return [{"type": "text", "text": value}]
        return value
    if isinstance(value, dict):  # results of tools, for templates that write them as JSON
        return value
    if not isinstance(value, list):
        raise _message_error(where, f"a {type(value).__name__}", "a text, or a list of text parts")
    texts = [_part_text(part, f"{where}[{number}]") for number, part in enumerate(value)]
    if forms().takes_parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(texts)


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or part.get("type") != "text":
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        raise _message_error(where, f"a part of type {kind!r:.40}", "'text', with a text")
    for name, value in part.items():
        if name not in ("type", "text") and value is not None:
            raise _message_error(f"{where}.{name:.80}", "an unknown field", "'type' and 'text'")
    return str(part["text"])


def _calls(value: Any, forms: CallForms, where: str) -> list[dict[str, Any]]:
    """Return calls with arguments in the form that the template shows."""
    if not isinstance(value, list) or not all(isinstance(call, dict) for call in value):
        raise _message_error(where, f"a {type(value).__name__}", "a list of calls")
    calls = []
    for number, call in enumerate(value):
        function = call.get("function", call)
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _message_error(f"{where}[{number}].function", "no name", "an object with 'name'")
        arguments, place = function.get("arguments"), f"{where}[{number}].function.arguments"
        if isinstance(arguments, str):
            parsed = parse_arguments(arguments, place)
            arguments = (arguments or "{}") if forms.has_text_arguments else parsed
        elif isinstance(arguments, dict) and forms.has_text_arguments:
            arguments = json.dumps(arguments, ensure_ascii=False)
        elif not isinstance(arguments, dict | None):
            raise _message_error(place, f"a {type(arguments).__name__}", "an object, or its JSON")
        function = function if arguments is None else function | {"arguments": arguments}
        calls.append(call | {"function": function} if "function" in call else function)
    return calls


def _message_error(where: str, got: str, want: str) -> QuantValueError:
    return QuantValueError(where, got, want, "correct the message")
