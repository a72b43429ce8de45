"""``intact convert`` writes the weights of a language model in another file format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson
from intact.formats import FORMATS, WeightDifference, compare_weights
from intact.formats import convert as convert_weights

DIFFERENT = 1

Weights = Annotated[
    Path, typer.Argument(help="A GGUF, ONNX or safetensors file, or a folder with config.json.", exists=True)
]


def run(
    source: Weights,
    target: Annotated[Path, typer.Argument(help="The file to write, or for safetensors a folder.")],
    to: Annotated[str, typer.Option(help=f"The format to write: {', '.join(FORMATS)}.")],
    as_json: AsJson = False,
) -> None:
    """Write weights in another format; every float stays, or nothing is written.

    Reads GGUF, GPTQ, AWQ, AutoRound, compressed-tensors, and the weights of ONNX files. A weight on a grid
    that the format cannot hold is refused with its name, and with a format that holds it exactly.
    "safetensors" writes the floats. Names of tensors stay as they are: llama.cpp has names of its own for
    most networks.

    Examples:

    - `intact convert model.gguf folder --to compressed-tensors`
    - `intact convert model-gptq model-awq --to awq`
    """
    conversion = convert_weights(source, target, to)
    if as_json:
        files = [str(file) for file in conversion.files]
        show_json({"files": files, "tensors": conversion.tensors, "grids": conversion.grids})
        return
    show_table(f"{source.name} as {to}", ("tensors", "grid"), [(n, g) for g, n in conversion.grids.items()])
    for file in conversion.files:
        say(f"wrote {file}")


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
