"""``intact lm verify``: whether a language model means the same here as in its maker's program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intact import lm
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson, check_thread_count
from intact.cli.verbs.models.show_model import Accept


def verify(
    model: Annotated[
        Path, typer.Argument(help="A Hugging Face folder or a GGUF file, as its maker wrote it.", exists=True)
    ],
    saved: Annotated[
        Path | None,
        typer.Option(
            help="A folder of `intact lm quantize`, which keeps the result.", exists=True, file_okay=False
        ),
    ] = None,
    positions: Annotated[int, typer.Option(help="The longest sequence of the comparison.", min=64)] = 512,
    threads: Annotated[int | None, typer.Option(help="Of a run.", callback=check_thread_count)] = None,
    accept: Accept = None,
    as_json: AsJson = False,
) -> None:
    """Compare a language model with its maker's program, where that is installed.

    A Hugging Face folder is run by transformers in float32, a GGUF file by llama.cpp (package xllamacpp).
    Compared are tokens of hard texts, prompts of conversations, probabilities, most likely tokens, where an
    answer ends, and vectors. Exit code 1: something differs, or nothing was compared.

    Examples:

    - `intact lm verify Qwen3-0.6B`
    - `intact lm verify model.gguf --saved folder`
    """
    result = lm.verify(model, accept=accept or (), positions=positions, threads=threads)
    record = lm.verification_record(result)
    if saved is not None:
        lm.keep_verification(saved, record)
    if as_json:
        show_json(record | {"equal": result.is_equal})
    else:
        rows = [(check.name, check.result, check.detail) for check in result.checks]
        show_table(f"{model.name} and {result.peer}", ("compared", "result", ""), rows)
        say(
            "nothing differs in what was compared"
            if result.is_equal
            else "something differs, or nothing was compared"
        )
    if not result.is_equal:
        raise typer.Exit(1)
