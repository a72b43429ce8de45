"""``intact embed``: vectors of texts, or their scores for a query."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from intact import lm
from intact.atomic import replacing
from intact.cli.printing import say, show_json
from intact.cli.shared_options import AsJson, check_output_path, check_thread_count
from intact.cli.verbs.models.model_commands import Accept


def run(
    model: Annotated[
        Path,
        typer.Argument(help="An ONNX file of an encoder, or a folder with model.onnx in it.", exists=True),
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; - or none: lines of the standard input.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Of a reranker: score the texts for it.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="An .npy file to write.", callback=check_output_path),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(help="The folder of tokenizer.json and config.json.", exists=True, file_okay=False),
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="Of hidden states: mean, cls, last, max, ...; by default the files'.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Name of a text of the files that is put in front, such as query.")
    ] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long.")] = False,
    threads: Annotated[int | None, typer.Option(help="Of a run.", callback=check_thread_count)] = None,
    accept: Accept = None,
    as_json: AsJson = False,
) -> None:
    """Turn texts into vectors with a BERT-like ONNX file, float or quantized, or score them for a query.

    Tokens, pooling, length and prompts are those of the files beside it, as sentence-transformers reads
    them. Vectors go to an .npy file, or one a line as JSON.

    Examples:

    - `intact embed all-MiniLM-L6-v2 "A text" "Another one" -o vectors.npy`
    - `intact embed reranker/model.int8.onnx --query "What is INT8?" "A text" "Another one"`
    """
    encoder = lm.load_encoder(model, files=files, threads=threads, accept=accept or ())
    parts = texts if texts and texts != ["-"] else [line.rstrip("\n") for line in sys.stdin]
    if query is None:
        values = encoder.embed(parts, pooling=pooling, prompt=prompt, truncate=truncate)
    else:
        values = encoder.rank(query, parts, truncate=truncate)
    if out is not None:
        with replacing(out) as file:
            np.save(file, values)
        say(f"wrote {out}: {' x '.join(map(str, values.shape))}")
    elif as_json:
        show_json({"vectors" if query is None else "scores": values.tolist()})
    elif query is None:
        for vector in values:
            typer.echo(str(vector.tolist()))
    else:
        for score, text in sorted(zip(values.tolist(), parts, strict=True), key=lambda pair: -pair[0]):
            typer.echo(f"{score:.6f}  {text}")
