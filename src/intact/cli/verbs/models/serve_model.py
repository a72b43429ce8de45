"""``intact lm serve``: a language model for clients of OpenAI's protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from intact import lm
from intact.cli.printing import say
from intact.cli.shared_options import check_thread_count
from intact.cli.verbs.models.show_model import Accept
from intact.processes import untrusted_files

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
    """Serve a model to clients of OpenAI's protocol: completions, chat and embeddings.

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
        loaded = lm.load(
            model, weights=weights, positions=positions, threads=threads, tokenizer=tokenizer, cache=cache,
            accept=accept or (),
        )  # fmt: skip
    real = Path(os.path.realpath(model))
    shown = name or (real.stem if model.is_file() else real.name)
    server = ModelServer(
        loaded, name=shown, host=host, port=port, limits=limits, api_key=api_key, metrics_key=metrics_key,
        origins=cors or (),
    )  # fmt: skip
    most = loaded.new_cache().token_bytes * loaded.positions * slots
    say(f"serving '{shown}' at {server.url}/v1; caches take up to {most / 1e6:,.0f} MB")
    server.run()
