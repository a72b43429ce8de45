"""``intact analyze``: what the quantization of each tensor costs, whose error it is, and what helps."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from intact.calib import ZeroRangeWarning
from intact.cli import options
from intact.cli.output import say, show_json, show_table
from intact.cli.verbs.quantize import (
    Activations,
    Asymmetric,
    BiasCorrection,
    Bits16,
    Equalization,
    Method,
    Overrides,
    PerTensor,
    Rounding,
    Switch,
    Weights,
    read_bits16,
    read_overrides,
)
from intact.report import decibels, sum_in_words, write_analysis

if TYPE_CHECKING:
    from intact.ptq.analysis import SensitivityAnalysis

_ROWS, _FINDINGS = 12, 20


class By(StrEnum):
    """What is changed at a time."""

    tensor = "tensor"
    layer = "layer"


JsonFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="A JSON file to write: everything.", callback=options.into_a_folder),
]
Html = Annotated[
    Path | None,
    typer.Option(help="A page to write: for a browser, a phone, or paper.", callback=options.into_a_folder),
]
Changed = Annotated[By, typer.Option(help="Measure each tensor, or each layer with all that it reads.")]
Budget = Annotated[
    int, typer.Option(min=1, help="Measure at most so many one by one; where there are more, groups first.")
]
Runs = Annotated[
    int | None,
    typer.Option(min=1, help="Measure on at most so many of the runs that calibration keeps. Default: all."),
]
Later = Annotated[
    Path | None,
    typer.Option(
        help="Data that calibration does not see, of the kind of --data: do ranges hold there?", exists=True
    ),
]


def run(
    model: options.ModelFile,
    data: options.Data = None,
    out: JsonFile = None,
    html: Html = None,
    by: Changed = By.tensor,
    budget: Budget = 256,
    runs: Runs = None,
    later: Later = None,
    method: Method = "auto",
    percentile: options.Percentile = None,
    profile: options.ProfileName = "intact",
    activations: Activations = None,
    weights: Weights = "int8",
    asymmetric: Asymmetric = False,
    per_tensor: PerTensor = False,
    include: options.Include = None,
    exclude: options.Exclude = None,
    overrides: Overrides = None,
    opset: options.Opset = None,
    num_batches: options.NumBatches = None,
    batch_size: options.BatchSize = None,
    size: options.Size = None,
    mean: options.Mean = None,
    std: options.Std = None,
    fit: options.Fit = None,
    layout: options.Layout = None,
    colour: options.Colour = None,
    preset: options.Preset = None,
    bias_correction: BiasCorrection = Switch.auto,
    equalization: Equalization = Switch.auto,
    rounding: Rounding = None,
    bits16: Bits16 = None,
    progress: options.Progress = True,
    as_json: options.AsJson = False,
) -> None:
    """Say where a quantized model loses its accuracy: tensor by tensor or layer by layer, with advice.

    The float model is quantized as `intact quantize` does it with the same options. Then each tensor is
    quantized alone, and left in float alone, and the error of the outputs measured on a few samples.

    Examples:

    - `intact analyze model.onnx --data photos --html report.html`
    - `intact analyze model.onnx --data photos --by layer -o analysis.json`
    - `intact analyze model.onnx --data photos --later photos-of-may`
    """
    from intact.ptq.analysis import analyze

    described = (size, mean, std, fit, layout, colour, preset)
    source, unseen = options.data_of(data, *described), later and options.data_of(later, *described)
    tuning: dict[str, Any] = {} if percentile is None else {"percentile": percentile}
    with catch_warnings():
        simplefilter("ignore", ZeroRangeWarning)  # findings name what is dead
        found = analyze(
            model, source, by=by.value, budget=budget, runs=runs, later=unseen, method=method,
            profile=profile, activations=activations, weights=weights, symmetric=not asymmetric,
            per_channel=not per_tensor, include=tuple(include or ()), exclude=tuple(exclude or ()),
            overrides=read_overrides(overrides), opset=opset, num_batches=num_batches,
            batch_size=batch_size, bias_correction=bias_correction.for_ptq,
            equalization=equalization.for_ptq, rounding="auto" if rounding is None else rounding,
            bits16=read_bits16(bits16),
            progress=progress, **tuning,
        )  # fmt: skip
    _write(found, model.name, out, html)
    if as_json:
        show_json(found.to_json())
    else:
        _show(found, model.name)
        for written in filter(None, (out, html)):
            say(f"wrote {written}")


def _write(found: SensitivityAnalysis, model: str, out: Path | None, html: Path | None) -> None:
    if out is not None:
        found.save(out)
    if html is not None:
        write_analysis(found, html, model)


def _show(found: SensitivityAnalysis, model: str) -> None:
    rows = [
        (one.name, one.kind, one.formats, f"{one.share:.1%}", decibels(one.alone), decibels(one.without))
        for one in found.ranked[:_ROWS]
    ]
    figures = ("share", "alone", "without")
    show_table(f"{model}: whose error it is", ("name", "kind", "format", *figures), rows, figures=figures)
    if len(found.parts) > _ROWS:
        say(f"... and {len(found.parts) - _ROWS} more, with smaller shares")
    for name, db in found.sqnr.items():
        say(f"SQNR of {name}: {db:.1f} dB" if isfinite(db) else f"SQNR of {name}: nothing is lost")
    say("alone, without: the SQNR with it alone quantized, with it alone in float")
    say(sum_in_words(found))
    if estimated := sum(not one.measured for one in found.parts):
        say(f"{estimated} were measured in groups: a larger --budget tells them apart")
    for finding in found.findings[:_FINDINGS]:
        say(f"- {finding}")
    if len(found.findings) > _FINDINGS:
        say(f"... and {len(found.findings) - _FINDINGS} more, with smaller shares: see --out and --html")
