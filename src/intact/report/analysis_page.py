"""The HTML page of a sensitivity analysis: shares of the error, findings and histograms."""

from __future__ import annotations

import os
from math import isfinite
from typing import TYPE_CHECKING

from intact.report.histogram_panel import Panel, curve
from intact.report.html_page import Page, short, write_page
from intact.report.table import Cell, ReportTable
from intact.signal_to_noise import signal_to_noise

if TYPE_CHECKING:
    from intact.ptq.analysis import Sensitivity, SensitivityAnalysis


_FINDINGS = 20
"""In the table: all others stand below their histograms."""


def write_analysis(analysis: SensitivityAnalysis, path: str | os.PathLike[str], model: str = "model") -> None:
    """Write a page of what `intact.analyze` found, one HTML file; `path` appears whole or not at all.

    Args:
        analysis: What was found.
        path: The page to write.
        model: Its name, for the title.
    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    write_page(page_of(analysis, model), path)


def page_of(analysis: SensitivityAnalysis, model: str) -> Page:
    """Build the page of an analysis without writing it.

    Args:
        analysis: What is shown.
        model: Its name, for the title.
    """
    panels = _panels(analysis)
    places = {panel.name: f"panel-{index}" for index, panel in enumerate(panels)}
    tables = [_findings(analysis, places), _sensitivities(analysis, places)]
    return Page(
        title=f"Where {model} loses accuracy",
        summary=_summary(analysis),
        tables=[table for table in tables if table.rows],
        panels=panels,
        configuration=analysis.settings,
        provenance={
            "measured on": f"{analysis.runs} runs of the calibration data",
            "configurations measured": f"{analysis.trials:,}",
            "segments of the model": str(analysis.segments),
        },
    )


def decibels(error: float) -> str:
    """Return a relative squared error as a signal to noise ratio."""
    return f"{signal_to_noise(1.0, error):.1f} dB" if error > 0 else "no error"


def _summary(analysis: SensitivityAnalysis) -> str:
    parts = (
        f"{name} {db:.1f} dB" if isfinite(db) else f"{name} loses nothing"
        for name, db in analysis.sqnr.items()
    )  # fmt: skip
    return f"SQNR of the outputs with everything quantized: {', '.join(parts)}. {sum_in_words(analysis)}."


def sum_in_words(analysis: SensitivityAnalysis) -> str:
    """Return whether shares can be trusted, a sentence without its period."""
    sentence = f"All errors, each quantized alone, add up to {analysis.added:.2f} times that of the whole"
    if analysis.adds_up:
        return sentence
    return (
        f"{sentence}: shares only rank here, as where scores saturate; "
        "look at what helps when left in float, too"
    )


def _findings(analysis: SensitivityAnalysis, places: dict[str, str]) -> ReportTable:
    rows = [
        (
            Cell(
                finding.tensor, link=places.get(finding.tensor, ""),
                detail=f"{finding.share:.1%} of the error",
            ),
            finding.says, finding.advice,
        )
        for finding in analysis.findings[:_FINDINGS]
    ]  # fmt: skip
    more = len(analysis.findings) - _FINDINGS
    note = f"{more} more, of tensors that matter less, stand below their histograms." if more > 0 else ""
    return ReportTable("Findings", ("tensor", "what was found", "what helps"), rows, note, prose=True)


def _sensitivities(analysis: SensitivityAnalysis, places: dict[str, str]) -> ReportTable:
    most = max((part.share for part in analysis.parts), default=0.0) or 1.0
    estimated = sum(not part.measured for part in analysis.parts)
    rows = [
        (
            Cell(part.name, link=places.get(part.tensors[0], ""), detail=f"{part.kind}, {part.formats}"),
            Cell(f"{part.share:.1%}", part.share / most),
            _decibels_of(part, part.alone), _decibels_of(part, part.without),
        )
        for part in analysis.ranked
    ]  # fmt: skip
    note = (
        "Alone: the outputs' signal to noise ratio with it alone quantized; without: with it alone "
        "left in float. Share: its squared error alone, of the sum over all."
    )
    if estimated:
        note += f" ~ marks the {estimated} that were measured in groups: a larger budget tells them apart."
    columns = ("name", "share of the error", "alone", "without")
    return ReportTable("Whose error it is", columns, rows, note)


def _decibels_of(part: Sensitivity, error: float) -> str:
    return decibels(error) if part.measured else f"~{decibels(error)}"


def _panels(analysis: SensitivityAnalysis) -> list[Panel]:
    """Return one panel for each tensor, those of the largest shares first."""
    names = dict.fromkeys(tensor for part in analysis.ranked for tensor in part.tensors)
    notes: dict[str, list[str]] = {}
    for finding in analysis.findings:
        notes.setdefault(finding.tensor, []).append(f"{finding.says}: {finding.advice}.")
    shares = {part.name: part for part in analysis.parts if part.kind != "layer"}
    panels = []
    for name in names:
        if (drawn := analysis.drawn.get(name)) is None:
            continue
        left, width, counts = curve(drawn.stats)
        facts = {
            "format": drawn.spec,
            "min": short(float(drawn.stats.min.min())),
            "max": short(float(drawn.stats.max.max())),
        }
        if (part := shares.get(name)) is not None:
            facts |= {"share": f"{part.share:.1%}"}
        ranges = {"kept": drawn.ends}
        panels.append(Panel(name, left, width, counts, ranges, {}, "kept", facts, notes.get(name, ())))
    return panels
