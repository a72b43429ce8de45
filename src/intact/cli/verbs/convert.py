"""``intact convert`` writes the weights of a language model in another file format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import READ, AsJson
from intact.errors import FileFormatError, QuantValueError
from intact.formats import FORMATS, WeightDifference, compare_weights
from intact.formats import convert as convert_weights
from intact.limits import RECORD_BYTES
from intact.reading import read_bytes

DIFFERENT = 1
_ONNX = "onnx"
_SHOWN = 5
"""Tensors that were left out and are printed."""

Weights = Annotated[
    Path, typer.Argument(help="A GGUF, ONNX or safetensors file, or a folder with config.json.", exists=True)
]


def run(
    source: Weights,
    target: Annotated[Path, typer.Argument(help="The file to write, or for safetensors a folder.")],
    to: Annotated[str, typer.Option(help=f"The format to write: {', '.join(FORMATS)}, {_ONNX}.")],
    model: Annotated[
        Path | None, typer.Option(help="With --to onnx: the float model that the weights belong to.", **READ)
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="With --to onnx: DequantizeLinear (the default) or MatMulNBits.")
    ] = None,
    activations: Annotated[
        str | None, typer.Option(help="With --to onnx: float, or dynamic-int8 (written as MatMulNBits).")
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(help="With --to onnx: a JSON table from tensors to ONNX weights or nodes.", **READ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write weights in another format; every float stays, or nothing is written.

    Reads GGUF, GPTQ, AWQ, AutoRound, compressed-tensors, and the weights of ONNX files. A weight on a grid
    that the format cannot hold is refused with its name, and with a format that holds it exactly.
    "safetensors" writes the floats. Names of tensors stay as they are: llama.cpp has names of its own for
    most networks. "onnx" puts codes in the place of the matrices of a float model that have the same names.

    Examples:

    - `intact convert model.gguf folder --to compressed-tensors`
    - `intact convert model-gptq model-awq --to awq`
    - `intact convert model-awq model.int4.onnx --to onnx --model model.onnx`
    """
    options = {"model": model, "operator": operator, "activations": activations, "names": names}
    if to == _ONNX:
        _to_onnx(source, target, options, as_json)
        return
    if (option := next((name for name, value in options.items() if value is not None), None)) is not None:
        raise QuantValueError(f"--{option}", f"with --to {to}", "--to onnx", f"leave out --{option}")
    conversion = convert_weights(source, target, to)
    if as_json:
        files = [str(file) for file in conversion.files]
        show_json({"files": files, "tensors": conversion.tensors, "grids": conversion.grids})
        return
    show_table(f"{source.name} as {to}", ("tensors", "grid"), [(n, g) for g, n in conversion.grids.items()])
    for file in conversion.files:
        say(f"wrote {file}")


def _to_onnx(source: Path, target: Path, options: dict[str, Any], as_json: bool) -> None:
    """Put the codes of a file into a float ONNX model, and print what became of each tensor."""
    from intact.ptq.blocks import convert_to_onnx

    model, operator, names = options["model"], options["operator"], options["names"]
    if model is None:
        raise QuantValueError(
            "--model",
            "none",
            "the float ONNX model that the weights belong to",
            "export it, and pass its path",
        )
    activations = options["activations"] or "float"
    result = convert_to_onnx(
        source, model, names=None if names is None else _read_names(names), operator=operator,
        activations=activations,
    )  # fmt: skip
    result.save(target)
    if as_json:
        show_json({
            "files": [str(target)], "layers": result.layers, "numbers": result.numbers,
            "unused": result.unused, "in_float": result.in_float,
        })  # fmt: skip
        return
    rows = [
        ("layers with codes of the file", f"{len(result.layers):,}"),
        ("constants with numbers of the file", f"{len(result.numbers):,}"),
        ("layers in float", f"{len(result.in_float):,}"),
        ("tensors of the file left out", f"{len(result.unused):,}"),
    ]
    show_table(f"{source.name} -> {target}", ("", "count"), rows, figures=("count",))
    for name, reason in list(result.unused.items())[:_SHOWN]:
        say(f"left out '{name}': {reason}")
    say(f"wrote {target}")


def _read_names(path: Path) -> dict[str, str]:
    """Read a table of names.

    Raises:
        FileFormatError: It is none.
    """
    data = read_bytes(path)
    RECORD_BYTES.check(len(data), f"file '{path}'")
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise FileFormatError(
            f"file '{path}'",
            "no JSON table of names",
            '{"blk.0.ffn_up.weight": "layers.0.up.weight"}',
            "correct it",
        )
    return table


def verify_weights(first: Path, second: Path, *, all_tensors: bool, as_json: bool) -> None:
    """Compare the floats of two weight files; exit with status 1 where they differ."""
    differences = list(compare_weights(first, second))
    unequal = [d for d in differences if d.differing or d.missing]
    if as_json:
        tensors = [vars(d) for d in (differences if all_tensors else unequal)]
        show_json({"tensors": tensors, "compared": len(differences), "equal": not unequal})
    else:
        shown = differences if all_tensors else unequal
        if shown:
            rows = [
                (d.name, f"{d.differing:,}", f"{d.elements:,}", f"{d.largest:.4g}", _where(d)) for d in shown
            ]
            show_table(f"{first.name} and {second.name}", ("tensor", "differ", "of", "by at most", ""), rows)
        say(f"{len(differences) - len(unequal)} of {len(differences)} tensors have equal floats")
    if unequal:
        raise typer.Exit(DIFFERENT)


def _where(difference: WeightDifference) -> str:
    return f"missing or of another shape in the {difference.missing} one" if difference.missing else ""
