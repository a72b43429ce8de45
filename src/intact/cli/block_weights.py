"""``intact quantize`` of weights alone, in blocks: what is refused beside it, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table, size_with_data
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.ptq import BlockQuantizedModel

_RANGES: Mapping[str, object] = {
    "calib": None, "percentile": None, "profile": "intact", "asymmetric": False, "per_tensor": False,
    "overrides": None, "opset": None, "bias_correction": "auto", "equalization": "auto", "rounding": None,
    "bits16": None, "float_budget": None, "dynamic_ranges": "auto", "ray": None,
}  # fmt: skip
"""Options for activations with stored ranges, and what each is where it was not given."""

_PASSED = (
    "weights", "block", "operator", "activations", "method", "bits_budget", "state", "strength",
    "include", "exclude", "num_batches", "batch_size", "progress",
)  # fmt: skip
_IMAGES = ("size", "mean", "std", "fit", "layout", "colour", "preset")


def is_wanted(options: Mapping[str, Any]) -> bool:
    """Return whether the options of ``intact quantize`` ask for weights in blocks alone."""
    from intact.ptq import wants_blocks

    return wants_blocks(options)


def run(options: Mapping[str, Any]) -> None:
    """Quantize the weights of a file in blocks, write the result, and print what was done.

    Args:
        options: All of ``intact quantize``, by the names of its parameters.
    Raises:
        QuantValueError: One is for activations with stored ranges.
    """
    from intact.ptq import quantize_weights

    for name, default in _RANGES.items():
        if options[name] != default:
            option = f"--{name.replace('_', '-')}"
            raise QuantValueError(
                option, "given with weights in blocks", "none: activations have no stored ranges",
                f"leave out {option}, or --block, --operator, --method and --activations dynamic-int8",
            )  # fmt: skip
    model, out = options["model"], options["out"]
    data = options["data"]
    if data is not None:
        data = shared_options.data_of(data, *(options[name] for name in _IMAGES))
    result = quantize_weights(model, data, **{name: options[name] for name in _PASSED})
    result.save(out)
    show(result, model, out, options["as_json"])


def show(result: BlockQuantizedModel, model: Path, out: Path, as_json: bool) -> None:
    """Print what was done.

    Args:
        result: The quantized model.
        model: The file that it was made of.
        out: The file that was written.
        as_json: Print JSON instead of a table.
    """
    sizes = {"before": size_with_data(model), "after": size_with_data(out)}
    if as_json:
        show_json({
            "out": str(out), "bytes": sizes, "weights": result.settings.weights,
            "block": result.settings.block, "activations": result.settings.activations,
            "operator": result.settings.file_operator, "in_float": result.in_float,
            "layers": {
                layer.name: {"shape": layer.shape, "error": layer.error, "twins": layer.twins}
                for layer in result.layers
            },
            "warnings": result.warnings,
        })  # fmt: skip
        return
    for line in result.warnings:
        say(f"warning: {line}")
    rows = [*((f"bytes {when}", f"{size:,}") for when, size in sizes.items() if size), *result.summary()]
    show_table(f"{model.name} -> {out}", ("", "quantized"), rows, figures=("quantized",))
