"""The HTML page of a tuning run: time against error, verified choices and every layer."""

from __future__ import annotations

import os
from math import log10
from typing import TYPE_CHECKING

from intact.report.analysis_page import decibels
from intact.report.html_page import Figure, Page, write_page
from intact.report.svg import Point, scatter
from intact.report.table import Cell, ReportTable

if TYPE_CHECKING:
    from intact.tuning import TunedLayer, TuneResult, TuneTrial


def write_tuning(result: TuneResult, path: str | os.PathLike[str], model: str = "model") -> None:
    """Write a page of what `intact.tune` found, one HTML file; `path` appears whole or not at all.

    Args:
        result: What was found.
        path: The page to write.
        model: Its name, for the title.
    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    write_page(tuning_page(result, model), path)


def tuning_page(result: TuneResult, model: str) -> Page:
    """Build the page of a tuning run without writing it.

    Args:
        result: What is shown.
        model: Its name, for the title.
    """
    return Page(
        title=f"Formats of {model}",
        summary=_summary(result),
        figures=[_front(result)],
        tables=[_trials(result), _layers(result)],
        configuration=result.settings,
    )


def _summary(result: TuneResult) -> str:
    best = result.best
    verb = "keeps" if best.met else "does not keep"
    return (
        f"The answer {verb} the target: {best.score:.4g} where float has {result.float_score:.4g} and "
        f"{result.least_score:.4g} or more was asked for. A run takes {_ms(best.seconds)} ms, in float "
        f"{_ms(result.float_seconds)} ms."
    )


def _front(result: TuneResult) -> Figure:
    picked = [Point(1e3 * s, _loss(e), "r1", "expected") for s, e in result.front]
    tried = [
        Point(
            1e3 * trial.seconds,
            _loss(trial.predicted_error),
            "r4" if trial.met else "r0",
            f"{trial.score:.4g}",
        )
        for trial in result.trials
    ]
    key = {"r1": "best for its time", "r4": "verified: keeps the metric", "r0": "verified: does not"}
    return Figure(
        "Error against time", scatter([*picked, *tried], label="error of the outputs against time"), key,
        "From left to right milliseconds of a run, upwards decibels of the outputs' expected squared error.",
    )  # fmt: skip


def _loss(error: float) -> float:
    """Return an error in decibels; exact models stand at the lowest value."""
    return 10 * log10(max(error, 1e-9))


def _trials(result: TuneResult) -> ReportTable:
    rows: list[tuple[str | Cell, ...]] = [
        ("float", f"{result.float_score:.4g}", _ms(result.float_seconds), "", "no error", "")
    ]
    rows += [_trial(result, trial) for trial in result.trials]
    columns = ("layers", "metric", "ms", "ms expected", "error expected", "keeps the metric")
    return ReportTable("What was verified", columns, rows)


def _trial(result: TuneResult, trial: TuneTrial) -> tuple[str | Cell, ...]:
    counts = trial.counts(result.formats[0], len(result.layers))
    labels = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    verdict = "chosen" if trial == result.best else "yes" if trial.met else "no"
    return (
        Cell(labels), f"{trial.score:.4g}", _ms(trial.seconds), _ms(trial.predicted_seconds),
        decibels(trial.predicted_error), verdict,
    )  # fmt: skip


def _layers(result: TuneResult) -> ReportTable:
    first, *alternatives = result.formats
    most = max((layer.errors.get(first, 0.0) for layer in result.layers), default=0.0) or 1.0
    ranked = sorted(result.layers, key=lambda layer: -layer.errors.get(first, 0.0))
    rows = [
        (
            Cell(layer.name, detail=layer.chosen),
            Cell(decibels(layer.errors.get(first, 0.0)), layer.errors.get(first, 0.0) / most),
            *(_format(layer, name) for name in alternatives),
        )
        for layer in ranked
    ]
    columns = ("layer", f"alone in {first}", *(f"in {name}" for name in alternatives))
    note = (
        "Alone: the outputs' signal to noise ratio with it alone quantized. In other formats: that ratio, "
        "and what a run takes longer with it alone so; where there is no time it would lose more."
    )
    return ReportTable("Layers that had a choice", columns, rows, note)


def _format(layer: TunedLayer, name: str) -> Cell:
    seconds = layer.seconds.get(name)
    return Cell(
        decibels(layer.errors.get(name, 0.0)), detail="" if seconds is None else f"{1e6 * seconds:+.1f} µs"
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"
