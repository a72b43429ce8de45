"""``intact analyze`` measures what quantizing each tensor costs, and gives advice."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from intact.calib import ZeroRangeWarning
from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import data_of
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
    """Unit that one trial changes."""

    tensor = "tensor"
    layer = "layer"


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="A JSON file to write: everything.", callback=shared_options.check_output_path
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help="A page to write: for a browser, a phone, or paper.", callback=shared_options.check_output_path
    ),
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
    model: shared_options.ModelFile,
    data: shared_options.Data = None,
    out: JsonFile = None,
    html: Html = None,
    by: Changed = By.tensor,
    budget: Budget = 256,
    runs: Runs = None,
    later: Later = None,
    method: Method = "auto",
    percentile: shared_options.Percentile = None,
    profile: shared_options.ProfileName = "intact",
    activations: Activations = None,
    weights: Weights = "int8",
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
    progress: shared_options.Progress = True,
    as_json: shared_options.AsJson = False,
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
    source, unseen = data_of(data, *described), later and data_of(later, *described)
    tuning: dict[str, Any] = {} if percentile is None else {"percentile": percentile}
    with catch_warnings():
        simplefilter("ignore", ZeroRangeWarning)  # findings name what is dead
        analysis = analyze(
            model, source, by=by.value, budget=budget, runs=runs, later=unseen, method=method,
            profile=profile, activations=activations, weights=weights, symmetric=not asymmetric,
            per_channel=not per_tensor, include=tuple(include or ()), exclude=tuple(exclude or ()),
            overrides=read_overrides(overrides), opset=opset, num_batches=num_batches,
            batch_size=batch_size, bias_correction=bias_correction.for_ptq,
            equalization=equalization.for_ptq, rounding="auto" if rounding is None else rounding,
            bits16=read_bits16(bits16),
            progress=progress, **tuning,
        )  # fmt: skip
    _write_report(analysis, model.name, out, html)
    if as_json:
        show_json(analysis.to_json())
    else:
        _show_analysis(analysis, model.name)
        for written in filter(None, (out, html)):
            say(f"wrote {written}")


def _write_report(analysis: SensitivityAnalysis, model: str, out: Path | None, html: Path | None) -> None:
    if out is not None:
        analysis.save(out)
    if html is not None:
        write_analysis(analysis, html, model)


def _show_analysis(analysis: SensitivityAnalysis, model: str) -> None:
    rows = [
        (
            part.name,
            part.kind,
            part.formats,
            f"{part.share:.1%}",
            decibels(part.alone),
            decibels(part.without),
        )
        for part in analysis.ranked[:_ROWS]
    ]
    figures = ("share", "alone", "without")
    show_table(f"{model}: whose error it is", ("name", "kind", "format", *figures), rows, figures=figures)
    if len(analysis.parts) > _ROWS:
        say(f"... and {len(analysis.parts) - _ROWS} more, with smaller shares")
    for name, db in analysis.sqnr.items():
        say(f"SQNR of {name}: {db:.1f} dB" if isfinite(db) else f"SQNR of {name}: nothing is lost")
    say("alone, without: the SQNR with it alone quantized, with it alone in float")
    say(sum_in_words(analysis))
    if estimated := sum(not part.measured for part in analysis.parts):
        say(f"{estimated} were measured in groups: a larger --budget tells them apart")
    for finding in analysis.findings[:_FINDINGS]:
        say(f"- {finding}")
    if len(analysis.findings) > _FINDINGS:
        say(f"... and {len(analysis.findings) - _FINDINGS} more, with smaller shares: see --out and --html")
