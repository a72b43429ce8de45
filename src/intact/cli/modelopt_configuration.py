"""``intact quantize --modelopt``: a configuration by name or file, and what is refused beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from intact.cli import block_weights, shared_options
from intact.cli.printing import say, show_json, show_table, size_with_data
from intact.errors import QuantValueError
from intact.limits import YAML_BYTES

_OTHERS: Mapping[str, object] = {
    "calib": None, "method": "auto", "percentile": None, "profile": "intact", "activations": None,
    "weights": "int8", "block": None, "operator": None, "bits_budget": None, "state": None, "strength": None,
    "asymmetric": False, "per_tensor": False, "overrides": None, "opset": None, "bias_correction": "auto",
    "equalization": "auto", "rounding": None, "bits16": None, "float_budget": None, "dynamic_ranges": "auto",
    "ray": None,
}  # fmt: skip
"""Options that say what a configuration says, and what each is where it was not given."""

_IMAGES = ("size", "mean", "std", "fit", "layout", "colour", "preset")
_SHOWN = 8  # layers in float that are named, each with the reason


def run(options: Mapping[str, Any], show: Callable[..., None]) -> None:
    """Quantize a file as a configuration says, write the result, and print what was done.

    Args:
        options: All of ``intact quantize``, by the names of its parameters.
        show: Prints a model with Q/DQ pairs alone.
    Raises:
        QuantValueError: An option says what the configuration says.
    """
    import intact
    from intact.ptq import BlockQuantizedModel, ModelOptModel

    for name, default in _OTHERS.items():
        if options[name] != default:
            option = f"--{name.replace('_', '-')}"
            raise QuantValueError(
                option, "given with --modelopt", "none: the configuration says it", f"leave out {option}"
            )
    model, out, as_json = options["model"], options["out"], options["as_json"]
    data = options["data"]
    if data is not None:
        data = shared_options.data_of(data, *(options[name] for name in _IMAGES))
    config = _configuration(options["modelopt"])
    rest = {name: options[name] for name in ("num_batches", "batch_size", "progress")}
    patterns = {name: tuple(options[name] or ()) for name in ("include", "exclude")}
    result = intact.quantize(model, data, modelopt=config, **rest, **patterns)
    result.save(out)
    if isinstance(result, BlockQuantizedModel):
        block_weights.show(result, model, out, as_json)
    elif isinstance(result, ModelOptModel):
        _show(result, model, out, as_json)
    else:
        show(result, model, out, as_json, advised=False)


def _configuration(name: str) -> Any:
    """Return a name as it is, and the content of a file."""
    file = Path(name)
    if not file.is_file():
        return name
    from intact.safe_yaml import read_yaml

    YAML_BYTES.check(file.stat().st_size, f"file '{file}'")
    return read_yaml(file.read_bytes(), f"file '{file}'")


def _show(result: Any, model: Path, out: Path, as_json: bool) -> None:
    sizes = {"before": size_with_data(model), "after": size_with_data(out)}
    if as_json:
        show_json({
            "out": str(out), "bytes": sizes, "layers": result.layers, "weight_errors": result.errors,
            "in_float": result.in_float, "warnings": result.warnings,
        })  # fmt: skip
        return
    for line in result.warnings:
        say(f"warning: {line}")
    rows = [*((f"bytes {when}", f"{size:,}") for when, size in sizes.items() if size), *result.summary()]
    show_table(f"{model.name} -> {out}", ("", "quantized"), rows, figures=("quantized",))
    for name, why in list(result.in_float.items())[:_SHOWN]:
        say(f"in float {name}: {why}")
    if len(result.in_float) > _SHOWN:
        say(f"in float {len(result.in_float) - _SHOWN:,} more: --json has them all")
