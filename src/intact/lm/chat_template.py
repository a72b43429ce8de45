"""Chat templates of models, in the sandbox of Jinja."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from intact.errors import MissingExtraError, QuantValueError

_MOST = 2**20  # characters of a template, and of what it makes


def render_chat(template: str, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
    """Return the prompt of a conversation, with the beginning of the answer.

    Args:
        template: Of the model, in Jinja.
        messages: ``{"role": "user", "content": "..."}``, in order.
        variables: What else the template reads, such as ``bos_token``.
    Raises:
        QuantValueError: The template fails, or refuses the messages.
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise MissingExtraError.of("jinja2", "lm", "chat templates") from error

    def refuse(text: str) -> NoReturn:
        raise TemplateError(text)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals.update(raise_exception=refuse)
    try:
        if len(template) > _MOST:
            raise TemplateError(f"a template of {len(template)} characters")
        return environment.from_string(template).render(
            messages=list(messages), add_generation_prompt=True, **variables
        )
    except (TemplateError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
        raise QuantValueError(
            "chat template", f"'{str(error)[:200]}'", "messages that the model's template takes",
            "check roles and contents, or build the prompt yourself",
        ) from error  # fmt: skip
