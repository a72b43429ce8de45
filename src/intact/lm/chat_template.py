"""Chat templates of models, in the sandbox of Jinja, in a process of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from intact.errors import MissingExtraError, QuantValueError
from intact.processes import ScriptProcess

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
"""Names of the reasoning of an answer, in messages; the first one counts."""

_MOST = 2**20  # characters of a template, and of what it makes
_SECONDS = 10.0  # templates of models take milliseconds
_MARK = "INTACT_GOES_ON_FROM_HERE "  # behind a message that is continued; the blank shows what was trimmed


def render_chat(
    template: str, messages: Sequence[Mapping[str, Any]], *, continue_final_message: bool | str = False,
    now: datetime | None = None, variables: Mapping[str, Any] | None = None, **more: Any,
) -> str:  # fmt: skip
    """Return the prompt of a conversation, as transformers renders it.

    Args:
        template: Of the model, in Jinja.
        messages: ``{"role": "user", "content": "..."}``, in order.
        continue_final_message: The prompt ends inside the last message, behind its content, or behind the
            field that is named.
        now: What ``strftime_now`` writes; None: the time of this machine.
        variables, more: What else the template reads, such as ``bos_token``, ``tools`` and
            ``enable_thinking``. ``add_generation_prompt``, which writes the beginning of the answer, is on
            where no message is continued.
    Raises:
        QuantValueError: The template fails, takes too long, or refuses the messages.
        MissingExtraError: jinja2 is not installed.
    """
    values = {
        "tools": None, "documents": None, "add_generation_prompt": not continue_final_message,
        **(variables or {}), **more,
    }  # fmt: skip
    if continue_final_message and values["add_generation_prompt"]:
        raise QuantValueError(
            "add_generation_prompt", "on, with continue_final_message", "one of both",
            "continue the last message, or begin an answer",
        )  # fmt: skip
    values["messages"] = chat = [_with_reasoning(dict(message)) for message in messages]
    final = _mark_final_message(template, chat, continue_final_message) if continue_final_message else None
    reply = _ask(template, {"variables": values, "now": (now or datetime.now()).isoformat(), "most": _MOST})
    text = str(reply["text"])
    return text if final is None else _cut_at_mark(text, final)


@dataclass(frozen=True)
class TemplateReads:
    """Names that a template reads.

    Attributes:
        variables: Names that it gets from outside, such as "tools".
        names: Attributes, keys and other constant texts in it.
    """

    variables: frozenset[str]
    names: frozenset[str]


@lru_cache(maxsize=64)
def template_reads(template: str) -> TemplateReads:
    """Return the names that a template reads; errors as of `render_chat`."""
    reply = _ask(template, {})
    return TemplateReads(frozenset(reply["variables"]), frozenset(reply["names"]))


def _ask(template: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the worker's answer to a request."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError.of("jinja2", "lm", "chat templates") from error
    if len(template) > _MOST:
        raise _template_error(f"a template of {len(template)} characters")
    try:
        line = json.dumps({"template": template, **request}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _template_error(str(error)) from error
    reply = _WORKER.ask(line, _SECONDS)
    if reply is None:
        reply = {"error": f"more than {_SECONDS:g} seconds, or too much memory"}
    if "error" in reply:
        raise _template_error(str(reply["error"]))
    return reply


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose reasoning has the names under which templates read it."""
    reasoning = next((message[name] for name in REASONING_FIELDS if message.get(name) is not None), None)
    return (
        message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}
    )


def _mark_final_message(template: str, chat: list[dict[str, Any]], field: bool | str) -> str:
    """Put a mark behind the text of the last message, in `chat`; return that text."""
    name = field if isinstance(field, str) else "content"
    value = chat[-1].get(name) if chat else None
    if value is None:
        raise _continue_error(f"a last message without '{name}'")
    # Reasoning has several names; the template may read any of them.
    names = [other for other in REASONING_FIELDS if chat[-1].get(other) == value]
    names = names if name in REASONING_FIELDS else [name]
    if not any(other in template for other in names):
        raise _continue_error(f"a template that does not read '{name}'")
    if isinstance(value, str):
        chat[-1] |= dict.fromkeys(names, value + _MARK)
        return value
    parts = list(value) if isinstance(value, list | tuple) else []
    parts = [dict(part) if isinstance(part, Mapping) else {"text": part} for part in parts]
    text_part = next((part for part in reversed(parts) if isinstance(part.get("text"), str)), None)
    if text_part is None:
        raise _continue_error(f"a last message without text in '{name}'")
    text = str(text_part["text"])
    text_part["text"] = text + _MARK
    chat[-1] = chat[-1] | {name: parts}
    return text


def _cut_at_mark(prompt: str, final: str) -> str:
    """Return a prompt up to the mark behind the final message; blanks that the template dropped stay away."""
    stripped = _MARK.rstrip()
    if final.strip() not in prompt or stripped not in prompt:
        raise _continue_error("a template that leaves out the last message, or a part of it")
    place = prompt.rindex(stripped)
    text = prompt[:place]
    return text if prompt.startswith(_MARK, place) else text.rstrip()


def _continue_error(got: str) -> QuantValueError:
    return QuantValueError(
        "continue_final_message", got, "a message that can go on",
        "put the beginning of the answer last, as a message of the assistant",
    )  # fmt: skip


def _template_error(got: str) -> QuantValueError:
    return QuantValueError(
        "chat template", f"'{got[:200]}'", "messages that the model's template takes",
        "check roles and contents, or build the prompt yourself",
    )  # fmt: skip


_WORKER = ScriptProcess(Path(__file__).with_name("chat_worker.py"), "chat template", "to render in")
"""Renders templates."""
