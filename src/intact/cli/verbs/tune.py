"""``intact tune`` chooses a format for each layer, as fast as an accuracy target allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from intact.calib import ZeroRangeWarning
from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.cli.verbs.quantize import (
    Activations,
    BiasCorrection,
    Equalization,
    Method,
    Overrides,
    Switch,
    Weights,
    read_overrides,
)
from intact.report import write_tuning

if TYPE_CHECKING:
    from intact.tuning import TuneResult

Rounding = Annotated[
    Switch, typer.Option(help="Fit codes of weights to the layer's inputs. Default: where that is better.")
]
Script = Annotated[
    Path | None,
    typer.Option(
        help="A .py file with evaluate(engine), which returns the metric, the larger the better. It is run. "
        "Default: agreement with the float model on the data, in percent.",
        **shared_options.READ,
    ),
]
Benchmark = Annotated[
    Path | None,
    typer.Option(
        help="A .py file with latency(path), which returns the seconds that a run of an ONNX file takes "
        "elsewhere. It is run. Default: the time in INTact's engine, here.",
        **shared_options.READ,
    ),
]
MaxDrop = Annotated[
    float, typer.Option(min=0, help="How much less than the float model's the metric may be.")
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="Formats to choose from: int8, uint8, int16, float, ... Repeatable."),
]
Budget = Annotated[int, typer.Option(min=1, help="At most so many layers have a choice, the worst ones.")]
Trials = Annotated[int, typer.Option(min=1, help="Verify at most so many choices.")]
Record = Annotated[
    Path | None,
    typer.Option(
        help="A file that keeps what was measured: with it an interrupted run goes on.",
        callback=shared_options.check_output_path,
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help="A page to write: for a browser, a phone, or paper.", callback=shared_options.check_output_path
    ),
]


def run(
    model: shared_options.ModelFile,
    out: shared_options.Out,
    data: shared_options.Data = None,
    evaluate: Script = None,
    max_drop: MaxDrop = 1.0,
    benchmark: Benchmark = None,
    formats: Formats = None,
    budget: Budget = 64,
    trials: Trials = 20,
    threads: shared_options.Threads = None,
    record: Record = None,
    html: Html = None,
    method: Method = "auto",
    percentile: shared_options.Percentile = None,
    profile: shared_options.ProfileName = "intact",
    activations: Activations = None,
    weights: Weights = "int8",
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
    rounding: Rounding = Switch.auto,
    ray: shared_options.Ray = None,
    progress: shared_options.Progress = True,
    as_json: shared_options.AsJson = False,
) -> None:
    """Quantize an ONNX file with the format for each layer that an accuracy target and the clock ask for.

    Errors and times of the layers are measured, an integer program picks the fastest formats for an error,
    and the fastest pick that keeps the metric is searched. Exit status 1: the best one found does not keep
    it; it is written all the same.

    Examples:

    - `intact tune model.onnx --data photos --evaluate eval.py --max-drop 0.3 -o tuned.onnx`
    - `intact tune model.onnx --data photos -o tuned.onnx --record tuned.json --html tuned.html`
    """
    from intact.tuning import tune

    source = shared_options.data_of(data, size, mean, std, fit, layout, colour, preset)
    wants: dict[str, Any] = {} if percentile is None else {"percentile": percentile}
    wants |= _scripts(evaluate, benchmark)
    with catch_warnings():
        simplefilter("ignore", ZeroRangeWarning)  # `intact analyze` names these tensors
        result = tune(
            model, source, max_drop=max_drop, formats=formats, threads=threads, budget=budget, trials=trials,
            record=record, method=method, profile=profile, activations=activations, weights=weights,
            include=tuple(include or ()), exclude=tuple(exclude or ()), overrides=read_overrides(overrides),
            opset=opset, num_batches=num_batches, batch_size=batch_size,
            bias_correction=bias_correction.for_ptq, equalization=equalization.for_ptq,
            rounding=rounding.for_ptq, progress=progress, pool=shared_options.pool_of(ray), **wants,
        )  # fmt: skip
    result.save(out)
    _tell(result, model.name, out, html, as_json)
    if not result.met:
        raise typer.Exit(1)


def _scripts(evaluate: Path | None, benchmark: Path | None) -> dict[str, Any]:
    """Load the user's scripts as arguments of `tune`."""
    from intact.ptq.data import user_scripts
    from intact.tuning import FileClock

    arguments: dict[str, Any] = {}
    if evaluate is not None:
        arguments["evaluate"] = user_scripts.function(
            evaluate, "evaluate(engine)", "a number, the larger the better"
        )
    if benchmark is not None:
        latency = user_scripts.function(benchmark, "latency(path)", "the seconds of a run")
        arguments["clock"] = FileClock(latency, latency.key)
    return arguments


def _tell(result: TuneResult, model: str, out: Path, html: Path | None, as_json: bool) -> None:
    if html is not None:
        write_tuning(result, html, model)
    if as_json:
        show_json(result.to_json() | {"out": str(out)})
        return
    _show_tuning(result, model)
    for written in filter(None, (out, html)):
        say(f"wrote {written}")


def _show_tuning(result: TuneResult, model: str) -> None:
    rows = [
        (
            "float"
            if trial is None
            else _counts_in_words(result, trial.counts(result.formats[0], len(result.layers))),
            f"{result.float_score if trial is None else trial.score:.4g}",
            f"{1e3 * (result.float_seconds if trial is None else trial.seconds):.3f}",
            "" if trial is None else f"{1e3 * trial.predicted_seconds:.3f}",
            "" if trial is None else "chosen" if trial == result.best else "yes" if trial.met else "no",
        )
        for trial in (None, *result.trials)
    ]
    figures = ("metric", "ms", "ms predicted")
    show_table(f"{model}: what was verified", ("layers", *figures, "keeps it"), rows, figures=figures)
    say(f"target: {result.least_score:.4g}")
    if not result.met:
        say("no choice keeps the metric: give --budget or --trials more, or --format float")


def _counts_in_words(result: TuneResult, counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
