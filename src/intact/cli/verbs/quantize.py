"""``intact quantize`` writes an int8 file with Q/DQ pairs from a float ONNX file."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings

import typer

from intact.calib import METHODS, Calibration, ZeroRangeWarning
from intact.cli import block_weights, modelopt_configuration, shared_options
from intact.cli.printing import say, show_json, show_table, size_with_data
from intact.errors import FileFormatError, QuantValueError
from intact.limits import YAML_BYTES

if TYPE_CHECKING:
    from intact.ptq import QuantizedModel

_WHY_LARGER = "it held fewer bits for some weights than they have now"
_SHOWN = 8  # tensors with 16 bits that are named, each with the reason


class Switch(StrEnum):
    """A setting that is on, off, or "auto": on only where it helps on the calibration data."""

    auto = "auto"
    on = "on"
    off = "off"

    @property
    def for_ptq(self) -> str | bool:
        """The setting as `intact.ptq` takes it: True, False or "auto"."""
        return self.value if self is Switch.auto else self is Switch.on


CalibFile = Annotated[
    Path | None,
    typer.Option(
        help="A .calib file of this model, instead of --data, or beside it for some tensors.",
        **shared_options.READ,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help=f"How ranges are chosen: auto, {', '.join(METHODS)}. With --block, how codes "
        "are: auto, rtn, hqq, smoothquant, awq, autoround, gptq."
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(
        help="Format: int8, uint8, int16, float, ...; left out: what the profile likes. With --block: float, "
        "or dynamic-int8, with ranges that the values give."
    ),
]
Weights = Annotated[
    str, typer.Option(help="Format: int8, int4, fp8, float, ...; with --block int2 to uint8.")
]
Block = Annotated[
    int | None,
    typer.Option(
        help="Quantize weights alone, with a scale for so many elements along the sum; needs no data.",
        **shared_options.COUNT,
    ),
]
Operator = Annotated[
    str | None,
    typer.Option(help="With --block, what holds the codes: DequantizeLinear or MatMulNBits."),
]
BitsBudget = Annotated[
    float | None,
    typer.Option(help="The most bits for each weight, scales included: layers that lose most get more."),
]
State = Annotated[
    Path | None,
    typer.Option(help="With --block, a folder that keeps codes; the same command goes on from it."),
]
Strength = Annotated[
    float | None,
    typer.Option(help="With --method smoothquant, how much of the inputs' ranges goes into weights: 0 to 1."),
]
ModelOpt = Annotated[
    str | None,
    typer.Option(
        help="A configuration of NVIDIA's ModelOpt, by name (NVFP4_DEFAULT_CFG), or a JSON file of one.",
    ),
]
Asymmetric = Annotated[bool, typer.Option("--asymmetric", help="Activations with a zero point.")]
PerTensor = Annotated[bool, typer.Option("--per-tensor", help="One scale per weight, not per channel.")]
Overrides = Annotated[
    Path | None,
    typer.Option(help="A YAML file: settings by pattern, see above.", **shared_options.READ),
]
BiasCorrection = Annotated[Switch, typer.Option(help="Make up for the mean error of each channel.")]
Rounding = Annotated[
    bool | None,
    typer.Option(help="Fit codes of weights to the layer's inputs; unless told where that takes no time."),
]
Bits16 = Annotated[
    list[str] | None,
    typer.Option(
        help="16 bits: auto (for as few tensors as bring every output to 40 dB), or a pattern of names of "
        "tensors or nodes, repeatable, whose layers then compute in float. Default: never."
    ),
]
FloatBudget = Annotated[
    float | None,
    typer.Option(
        help="Where an output loses much at 8 bits, 16 bits or float for what loses most for its time, up "
        "to this part of the predicted time; 0: none. Default for INTact's engine: 0.4, and more for outputs "
        "below 25 dB; 0 for others and with --bits16."
    ),
]
DynamicRanges = Annotated[
    Switch,
    typer.Option(
        help="Linear layers find the ranges of their inputs while the model runs: with auto where that "
        "brings the outputs closer, for as few layers as it takes (MatMulNBits in the file)."
    ),
]
Equalization = Annotated[Switch, typer.Option(help="Bring the channels of neighbouring layers to one range.")]


def run(
    model: shared_options.ModelFile,
    out: shared_options.Out,
    data: shared_options.Data = None,
    calib: CalibFile = None,
    method: Method = "auto",
    percentile: shared_options.Percentile = None,
    profile: shared_options.ProfileName = "intact",
    activations: Activations = None,
    weights: Weights = "int8",
    block: Block = None,
    operator: Operator = None,
    bits_budget: BitsBudget = None,
    state: State = None,
    strength: Strength = None,
    modelopt: ModelOpt = None,
    asymmetric: Asymmetric = False,
    per_tensor: PerTensor = False,
    include: shared_options.Include = None,
    exclude: shared_options.Exclude = None,
    overrides: Overrides = None,
    opset: shared_options.Opset = None,
    num_batches: shared_options.NumBatches = None,
    batch_size: shared_options.BatchSize = None,
    size: shared_options.Size = None,
    mean: shared_options.Mean = None,
    std: shared_options.Std = None,
    fit: shared_options.Fit = None,
    layout: shared_options.Layout = None,
    colour: shared_options.Colour = None,
    preset: shared_options.Preset = None,
    bias_correction: BiasCorrection = Switch.auto,
    equalization: Equalization = Switch.auto,
    rounding: Rounding = None,
    bits16: Bits16 = None,
    float_budget: FloatBudget = None,
    dynamic_ranges: DynamicRanges = Switch.auto,
    ray: shared_options.Ray = None,
    progress: shared_options.Progress = True,
    as_json: shared_options.AsJson = False,
) -> None:
    """Quantize an ONNX file: fold, place Q/DQ pairs by rules, calibrate, write.

    An overrides file says what patterns of names or operator types get: `"head/*": {activations: int16}`.

    Examples:

    - `intact quantize model.onnx --data photos -o model.int8.onnx`
    - `intact quantize model.onnx --weights int4 --block 32 --data texts.npz -o out.onnx`
    - `intact quantize model.onnx --modelopt NVFP4_DEFAULT_CFG --data texts.npz -o out.onnx`
    """
    if _run_without_ranges(dict(locals())):
        return
    import intact

    source = _read_source(data, calib, (size, mean, std, fit, layout, colour, preset))
    settings, widths = read_overrides(overrides), read_bits16(bits16)
    with catch_warnings(action="ignore", category=ZeroRangeWarning):  # `_show_result` names these tensors
        result = intact.quantize(
            model, source, method=method, profile=profile, activations=activations, weights=weights,
            symmetric=not asymmetric, per_channel=not per_tensor, include=tuple(include or ()),
            exclude=tuple(exclude or ()), overrides=settings, opset=opset, num_batches=num_batches,
            batch_size=batch_size, bias_correction=bias_correction.for_ptq,
            equalization=equalization.for_ptq, rounding="auto" if rounding is None else rounding,
            bits16=widths, float_budget=float_budget, progress=progress, pool=shared_options.pool_of(ray),
            ranges=calib if data is not None else None, dynamic_ranges=dynamic_ranges.for_ptq,
            **_method_options(percentile),
        )  # fmt: skip
    result.save(out)
    _show_result(result, model, out, as_json, advised=widths == "never")


def _run_without_ranges(options: dict[str, Any]) -> bool:
    """Do what a configuration says, or quantize weights in blocks; return whether options ask for that."""
    if options["modelopt"] is not None:
        modelopt_configuration.run(options, _show_result)
        return True
    if block_weights.is_wanted(options):
        block_weights.run(options)
        return True
    return False


def _method_options(percentile: Any) -> dict[str, Any]:
    return {} if percentile is None else {"percentile": percentile}


def _read_source(data: Path | None, calib: Path | None, images: tuple[Any, ...]) -> Any:
    """Return the calibration data, or the stored statistics; refuse where neither is there."""
    _require_one(data, calib)
    return shared_options.data_of(data, *images) if data or not calib else Calibration.load(calib)


def _require_one(data: Path | None, calib: Path | None) -> None:
    if data is None and calib is None:
        raise QuantValueError(
            "--data, --calib", "neither", "one of the two, or both",
            "give data to calibrate with, or the .calib file of an earlier run",
        )  # fmt: skip


def read_bits16(patterns: list[str] | None) -> str | list[str]:
    """Return the one word of --bits16, or the patterns.

    Raises:
        QuantValueError: A word stands beside patterns.
    """
    if not patterns:
        return "never"
    words = {"never", "auto"}.intersection(patterns)
    if words and len(patterns) > 1:
        raise QuantValueError(
            "--bits16", f"{', '.join(patterns):.60}", "auto, never, or patterns", "choose one of the three"
        )
    return patterns[0] if words else patterns


def read_overrides(file: Path | None) -> dict[str, dict[str, Any]] | None:
    """Return the settings by pattern of a YAML file; None for None.

    Raises:
        FileFormatError: The file holds something else.
    """
    if file is None:
        return None
    from intact.safe_yaml import read_yaml

    YAML_BYTES.check(file.stat().st_size, f"file '{file}'")
    content = read_yaml(file.read_bytes(), f"file '{file}'")
    named = isinstance(content, dict) and all(isinstance(v, dict) for v in content.values())
    if not named or not all(isinstance(key, str) for key in content):
        raise FileFormatError(
            f"file '{file}'", f"{content!r:.60}", "a mapping from patterns to mappings of settings",
            "write lines such as \"head/*\": {activations: int16}",
        )  # fmt: skip
    return dict(content)


def _show_result(result: QuantizedModel, model: Path, out: Path, as_json: bool, advised: bool) -> None:
    from intact.ptq import BECAME_LARGER, across, layers_of, summary, warnings_of

    layers, warnings = layers_of(result), warnings_of(result)
    bits16 = across(result, lambda part: part.bits16)
    in_float = across(result, lambda part: part.in_float)
    dynamic = across(result, lambda part: part.dynamic)
    advice = _advice(result) if advised else ""
    before, after = size_with_data(model), size_with_data(out)
    is_named = any(BECAME_LARGER in line for line in warnings)
    if before and after and after > before and not is_named:
        warnings.append(f"the file has become larger, {after:,} bytes of {before:,}: {_WHY_LARGER}")
    if as_json:
        sqnr, top1 = across(result, lambda part: part.sqnr), across(result, lambda part: part.top1)
        unseen = across(result, lambda part: part.unseen_sqnr)
        expected = across(result, lambda part: part.top1_expected)
        show_json({
            "out": str(out), "layers": {"int8": layers["int8"], "float": layers["float"]},
            "bytes": {"before": before, "after": after},
            "sqnr_db": {name: db if isfinite(db) else None for name, db in sqnr.items()},
            "unseen_sqnr_db": {name: db if isfinite(db) else None for name, db in unseen.items()},
            "extra_time": result.extra_time,
            "top1": {n: {"same": s, "of": of, "expected": expected.get(n)} for n, (s, of) in top1.items()},
            "chosen": result.chosen or None, "methods": result.methods, "ranges": result.ranges,
            "bias_corrected": result.corrected, "equalized": result.equalized,
            "smoothed": result.smoothed, "bits16": bits16, "in_float": in_float, "dynamic": dynamic,
            "not_equalized": result.not_equalized or None,
            "images": shared_options.images_of(result.calibration) or None,
            "relative_errors": result.errors, "warnings": warnings, "advice": advice or None,
            "float_steps": result.float_steps, "agreement": result.agreement,
            "comparison": None if result.comparison is None else result.comparison.as_record(),
        })  # fmt: skip
        return
    for line in warnings:
        say(f"warning: {line}")
    sizes = [(f"bytes {when}", f"{size:,}") for when, size in (("before", before), ("after", after)) if size]
    rows = [*sizes, *summary(result)]
    show_table(f"{model.name} -> {out}", ("", "quantized"), rows, figures=("quantized",))
    for prepared in shared_options.images_of(result.calibration):
        say(shared_options.preparation_note(prepared))
    for what, named in (("16 bits for", bits16), ("in float", in_float), ("", dynamic)):
        for name, why in list(named.items())[:_SHOWN]:
            say(f"{what} {name}: {why}".lstrip())
        if len(named) > _SHOWN:
            say(f"{what or 'dynamic ranges for'} {len(named) - _SHOWN:,} more: --json has them all")
    for sentence in result.statements:
        say(sentence)
    if advice:
        say(advice)
    if result.not_equalized:
        say(f"not equalized: {result.not_equalized}")
    if layers["float"]:
        profile = result.placement.profile.name
        say(f"why layers stay in float: intact explain {out} --profile {profile} --precision float")


def _advice(result: QuantizedModel) -> str:
    """Return advice for outputs with too little accuracy at 8 bits; "" where none applies."""
    from intact.ptq import POOR_DB

    least = min(part.least_sqnr for part in result.parts.values())
    if least >= POOR_DB or not result.placement.profile.bits16:
        return ""
    return (
        f"an output has {least:.1f} dB with 8 bits, or a part of one: --bits16 auto gives 16 to the tensors "
        "that need them, at some cost of speed"
    )
