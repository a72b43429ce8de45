"""``intact lm show``: what a language model's files say, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from intact import lm
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson

Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept", help="A field that passes although nothing computes what it says; also several times."
    ),
]
_SHOWN = 60
"""Characters of a value in the table."""


def show(
    model: Annotated[
        Path,
        typer.Argument(
            help="A GGUF file, a Hugging Face folder, or a folder of `intact lm quantize`.", exists=True
        ),
    ],
    accept: Accept = None,
    as_json: AsJson = False,
) -> None:
    """Show what decides what a language model computes, and the file and field that each part came from.

    Every field of its files is used, changes nothing for the reason in the last column, or was accepted.
    No weight is read. Files with a field that is not known are refused by the field's name.

    Examples:

    - `intact lm show Qwen3-0.6B`
    - `intact lm show model.gguf --json`
    - `intact lm show model --accept rope_interleaved`
    """
    described = lm.describe(model, accept or ())
    record = _record(described)
    if as_json:
        show_json(record)
        return
    del record["fields"], record["verification"]
    show_table(model.name, ("", ""), [(name, _cell(value)) for name, value in record.items()])
    if described.verification:
        peer, checks = described.verification
        show_table(f"compared with {peer}", ("compared", "result", ""), checks)
    else:
        say("not compared with its maker's program: intact lm verify does that")
    rows = [(use.file, use.key, _cell(use.value), use.use) for use in described.fields]
    if rows:
        show_table("fields", ("file", "field", "value", "use"), rows)
    else:
        say("an earlier version saved this folder, without what the model's files say")


def _record(described: lm.ModelDescription) -> dict[str, Any]:
    """Return what is shown, by name."""
    decoder = described.decoder
    sizes = {} if decoder is None else {name: _plain(value) for name, value in vars(decoder).items()}
    tokens, pooling = described.special_tokens, described.pooling
    origins = described.chat_templates.origins
    templates = {name: origins.get(name, "unknown origin") for name in described.chat_templates.templates}
    return {
        "family": described.family, **sizes, "first token": tokens.begin, "end tokens": list(tokens.ends),
        "tokens behind texts": list(tokens.appended),
        "chat templates": "; ".join(map(": ".join, templates.items())) or "none",
        "special tokens in templates": dict(described.chat_templates.variables),
        "pooling": f"{pooling.kind}, length {'1' if pooling.is_normalized else 'as it is'}"
        + (f" ({pooling.source})" if pooling.source else ""),
        "verification": list(described.verification),
        "fields": [[use.file, use.key, use.value, use.use] for use in described.fields],
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Return a value that JSON has, too."""
    if isinstance(value, frozenset):
        return sorted(value)
    return value if isinstance(value, int | float | str | None) else str(value)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
