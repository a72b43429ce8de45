"""``intact lm show``, ``verify`` and ``serve``: what a model's files say, compare it, offer it over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from intact import lm
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson, check_thread_count
from intact.errors import QuantValueError
from intact.processes import untrusted_files

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
    sizes = {} if decoder is None else {name: _json_value(value) for name, value in vars(decoder).items()}
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


def _json_value(value: Any) -> Any:
    """Return a value that JSON has, too."""
    if isinstance(value, frozenset):
        return sorted(value)
    return value if isinstance(value, int | float | str | None) else str(value)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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


_SlotCount = Annotated[int, typer.Option(help="Sequences that run together.", min=1, max=1024)]
_ApiKey = Annotated[
    str, typer.Option(help="What clients must send.", envvar="INTACT_API_KEY", show_default=False)
]
_MetricsKey = Annotated[
    str, typer.Option(help="What must be sent for /metrics.", envvar="INTACT_METRICS_KEY", show_default=False)
]
_Origins = Annotated[
    list[str] | None,
    typer.Option(help="Origin of web pages that may ask, such as https://example.org; * for all."),
]


def serve(
    model: Annotated[
        Path,
        typer.Argument(
            help="A GGUF file, a Hugging Face folder, or a folder of `intact lm quantize`.", exists=True
        ),
    ],
    weights: Annotated[str, typer.Option(help="keep, float32, int8, int4 or uint4.")] = "keep",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: a free one.", min=0, max=65535)] = 8000,
    name: Annotated[str, typer.Option(help="Of the model, for clients; by default that of its file.")] = "",
    slots: _SlotCount = 8,
    waiting: Annotated[int, typer.Option(help="Sequences that may wait for a slot.", min=0, max=2**20)] = 64,
    max_tokens: Annotated[int, typer.Option(help="Tokens of one answer.", min=1, max=2**24)] = 4096,
    body: Annotated[int, typer.Option(help="Bytes of one request.", min=1024, max=2**30)] = 2**20,
    grace: Annotated[int, typer.Option(help="Seconds for answers to end on SIGTERM.", min=0, max=3600)] = 30,
    idle: Annotated[
        int, typer.Option(help="Seconds without a request until caches are freed.", min=0, max=2**20)
    ] = 600,
    api_key: _ApiKey = "",
    metrics_key: _MetricsKey = "",
    cors: _Origins = None,
    positions: Annotated[
        int | None, typer.Option(help="The longest sequence; by default the model's, up to 8192.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(help="How keys and values are kept: float32, float16 or int8.")
    ] = None,
    accept: Accept = None,
    untrusted: Annotated[
        bool,
        typer.Option(help="Try the model's files, and grammars of clients, in a limited process first."),
    ] = True,
    threads: Annotated[int | None, typer.Option(help="Of a run.", callback=check_thread_count)] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json in place of the model's.", exists=True)
    ] = None,
) -> None:
    """Serve a model to clients of OpenAI's protocols and Anthropic's: chat, completions, embeddings, rerank.

    A text encoder's ONNX file, or its folder, answers /v1/embeddings, and a reranker's /v1/rerank.
    Requests run together, and each gets the tokens that `intact lm run` gives with the same seed. On
    SIGTERM the server stops when its answers are complete.

    Examples:

    - `intact lm serve folder --port 8000 --slots 16`
    - `INTACT_API_KEY=secret intact lm serve model.gguf --host 0.0.0.0`
    """
    from intact.lm.serving import ModelServer, ServerLimits

    limits = ServerLimits(
        slots=slots, waiting=waiting, max_tokens=max_tokens, body_bytes=body, grace_seconds=grace,
        idle_seconds=idle,
    )  # fmt: skip
    with untrusted_files(untrusted):
        loaded = _load_for_clients(
            model,
            threads,
            accept or (),
            weights=weights,
            positions=positions,
            tokenizer=tokenizer,
            cache=cache,
        )
    server = ModelServer(
        loaded, name=name or _name_of(model), host=host, port=port, limits=limits, api_key=api_key,
        metrics_key=metrics_key, origins=cors or (),
    )  # fmt: skip
    say(f"serving '{name or _name_of(model)}' at {server.url}/v1; {_answers_of(loaded, slots)}")
    server.run()


def _name_of(model: Path) -> str:
    real = Path(os.path.realpath(model))
    return real.stem if model.is_file() else real.name


def _load_for_clients(
    model: Path, threads: int | None, accept: Sequence[str], **options: Any
) -> lm.LanguageModel | lm.TextEncoder:
    """Return the model of a path; options for models that generate are refused for a text encoder."""
    if not lm.is_encoder(model):
        return lm.load(model, threads=threads, accept=accept, **options)
    for name, value in options.items():
        if value not in (None, "keep"):
            raise QuantValueError(
                f"--{name}", str(value), "none for a text encoder, which runs as its file says",
                "leave it out; quantize the file first: intact quantize",
            )  # fmt: skip
    return lm.load_encoder(model, threads=threads, accept=accept)


def _answers_of(model: lm.LanguageModel | lm.TextEncoder, slots: int) -> str:
    """Return what clients get, or the memory that it takes, in words."""
    if isinstance(model, lm.TextEncoder):
        return "scores" if model.is_reranker else "vectors"
    most = model.new_cache().token_bytes * model.positions * slots
    return f"caches take up to {most / 1e6:,.0f} MB"
