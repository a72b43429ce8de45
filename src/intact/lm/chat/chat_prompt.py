"""The prompt of a conversation, from messages, tools and settings of the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from intact.errors import QuantValueError
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.chat.conversation import plain_data, prepare_messages
from intact.lm.chat.reasoning import ReasoningStream, final_mark, last_open_mark
from intact.lm.chat_template import REASONING_FIELDS, render_chat, template_reads

_ARGUMENTS = (
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "conversation",
)  # fmt: skip


class ChatPrompt(str):
    """A text that a chat template wrote.

    Attributes:
        adds_begin: As of `ChatTemplates`.
        template: That wrote it.
        open_mark: The mark of reasoning that it ends with and the answer goes on from; "" for none.
    """

    adds_begin: bool = False
    template: str = ""
    open_mark: str = ""


def chat_prompt(
    templates: ChatTemplates, messages: Sequence[Any], *, tools: Sequence[Any] = (),
    documents: Sequence[Any] | None = None, template: str = "", add_generation_prompt: bool | None = None,
    continue_final_message: bool | str = False, chat_template_kwargs: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> ChatPrompt:  # fmt: skip
    """Return the text that a conversation is for a model.

    Args:
        templates: Of the model.
        messages: In order.
        tools: Functions that the model may call, as JSON schemas in OpenAI's form.
        documents: Objects with "title" and "text", of which the answer is to be made.
        template: The name of a template; "": "tool_use" where there are tools and such a one, else "default".
        add_generation_prompt: End with the beginning of the answer; None: yes, where no message is continued.
        continue_final_message: As for `render_chat`.
        chat_template_kwargs: Values of other variables of the template, such as ``enable_thinking``.
        now: As for `render_chat`.
    Raises:
        QuantValueError: There is no template, or it refuses the messages or does not read what was given.
    """
    text = templates.pick(template, has_tools=bool(tools))
    if not messages:
        raise QuantValueError("messages", "none", "one or more", "begin with a message of the user")
    reads, own = template_reads(text).variables, dict(chat_template_kwargs or {})
    for name in own:
        if name in _ARGUMENTS:
            raise QuantValueError(
                f"chat_template_kwargs.{name}", "an argument of its own", "other variables",
                f"pass {name} beside chat_template_kwargs",
            )  # fmt: skip
    requested = {"tools": tools, "documents": documents}
    requested |= {f"chat_template_kwargs.{name}": (value,) for name, value in own.items()}
    for name, value in requested.items():
        if value and name.rpartition(".")[2] not in reads:
            raise QuantValueError(
                name, "a chat template that does not read it", "one that does",
                "leave it out, or take another model",
            )  # fmt: skip
    tokens, begins = dict(templates.variables), add_generation_prompt
    variables = tokens | {
        **{name: plain_data(value, f"chat_template_kwargs.{name}") for name, value in own.items()},
        "tools": plain_data(list(tools), "tools") if tools else None,
        "documents": None if documents is None else plain_data(list(documents), "documents"),
        "add_generation_prompt": not continue_final_message if begins is None else begins,
    }
    prepared = prepare_messages(messages, text, tokens)
    try:
        prompt = render_chat(
            text, prepared, variables=variables, now=now, continue_final_message=continue_final_message
        )
    except QuantValueError:
        described = _with_descriptions(variables["tools"])
        if described == variables["tools"]:
            raise
        variables["tools"] = described
        prompt = render_chat(
            text, prepared, variables=variables, now=now, continue_final_message=continue_final_message
        )
    chat = ChatPrompt(prompt)
    chat.adds_begin, chat.template = templates.adds_begin, text
    chat.open_mark = _open_mark_of(prompt, messages[-1], continue_final_message) or final_mark(prompt)
    return chat


def _with_descriptions(tools: Any) -> Any:
    """Return tools of which each has a description, which may be empty: templates may not do without."""
    if not isinstance(tools, list):
        return tools
    described = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and "description" not in function:
            tool = {**tool, "function": {"description": "", **function}}
        described.append(tool)
    return described


def split_reasoning(answer: str, prompt: str = "") -> tuple[str, str]:
    """Return the reasoning in front of an answer, "" for none, and the answer without it.

    Args:
        answer: Text of a model.
        prompt: That it answers, from `LanguageModel.chat_prompt`: its end may begin the reasoning.
    """
    if isinstance(prompt, ChatPrompt):
        stream = ReasoningStream(prompt.open_mark, prompt.template)
    else:
        stream = ReasoningStream(final_mark(prompt))
    pieces = (stream.push(answer), stream.finish())
    return "".join(reasoning for reasoning, _ in pieces), "".join(text for _, text in pieces)


def _open_mark_of(prompt: str, final: Any, field: bool | str) -> str:
    """Return the mark of reasoning that a continued message leaves open; "" for none."""
    if not field:
        return ""
    if field in REASONING_FIELDS:
        return last_open_mark(prompt)
    content = plain_data(final, "messages").get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return last_open_mark("\n".join(texts))
