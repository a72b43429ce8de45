"""Finds the ONNX file of a text encoder, the files that say what it means, and its inputs and outputs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError, UnsupportedError, require_path

TOKENIZER = "tokenizer.json"
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
STATES = ("token_embeddings", "last_hidden_state")
"""Outputs [texts, tokens, channels], the hidden states."""
VECTOR, SCORES = "sentence_embedding", "logits"
"""Outputs [texts, channels], which the graph has pooled, and [texts, labels]."""


@dataclass(frozen=True)
class EncoderFiles:
    """Names the files of a text encoder.

    Attributes:
        model: The ONNX file.
        folder: Of tokenizer.json and the configuration.
    """

    model: Path
    folder: Path


def find_files(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> EncoderFiles:
    """Return the files that a path means.

    Args:
        path: An ONNX file, or a folder with one: model.onnx, there or in its folder "onnx".
        folder: Of tokenizer.json and the configuration; None: that of the file, or the one above "onnx".
    Raises:
        FileFormatError: There is no ONNX file, or no tokenizer.json; or several, and none is model.onnx.
    """
    require_path(path)
    model = Path(path)
    if model.is_dir():
        model = _model_of(model)
    place = model.parent if folder is None else Path(folder)
    if folder is None and not (place / TOKENIZER).is_file() and place.name == "onnx":
        place = place.parent
    if not (place / TOKENIZER).is_file():
        raise FileFormatError(
            str(place), f"no {TOKENIZER}", "the files of the encoder's folder beside its ONNX file",
            "name their folder: --files, or files= in Python",
        )  # fmt: skip
    return EncoderFiles(model, place)


def _model_of(folder: Path) -> Path:
    for place in (folder, folder / "onnx"):
        files = sorted(place.glob("*.onnx"))
        named = [file for file in files if file.name == "model.onnx"]
        if len(named or files) == 1:
            return (named or files)[0]
        if files:
            names = ", ".join(file.name for file in files[:4])
            raise FileFormatError(str(place), names, "one model.onnx", "give the path of the file itself")
    raise FileFormatError(
        str(folder), "no ONNX file", "model.onnx, or onnx/model.onnx", "export the model to ONNX first"
    )


def is_encoder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path means a text encoder or a reranker, by the names of its inputs and outputs."""
    from intact.graph import load

    try:
        model = Path(path)
        model = _model_of(model) if model.is_dir() else model
        if model.suffix != ".onnx":
            return False
    except FileFormatError:
        return False
    graph = load(model).graph
    inputs = {value.name or "" for value in graph.inputs}
    ranks = {value.name or "": None if value.shape is None else len(value.shape) for value in graph.outputs}
    return "input_ids" in inputs <= set(INPUTS) and bool(
        ranks.keys() & {*STATES, VECTOR} or ranks.get(SCORES) == 2
    )


def check_ports(inputs: Iterable[Any], outputs: Iterable[Any]) -> str:
    """Return the output to read: hidden states, a vector, or scores.

    Args:
        inputs, outputs: Ports of the engine.
    Raises:
        UnsupportedError: An input has no meaning here, or no output has one.
    """
    names = [port.name for port in inputs]
    if other := [name for name in names if name not in INPUTS]:
        raise UnsupportedError(
            "inputs", ", ".join(other), ", ".join(INPUTS), "run the file yourself: intact.compile(file)"
        )
    if "input_ids" not in names:
        raise UnsupportedError("inputs", ", ".join(names), "input_ids", "give the file of a text encoder")
    ranks = {port.name: len(port.shape) for port in outputs}
    for name in (*STATES, VECTOR):
        if name in ranks:
            return name
    if ranks.get(SCORES) == 2:
        return SCORES
    raise UnsupportedError(
        "outputs", ", ".join(ranks), ", ".join((*STATES, VECTOR, f"or {SCORES} of a reranker")),
        "run the file yourself: intact.compile(file)",
    )  # fmt: skip
