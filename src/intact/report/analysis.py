"""The page of an analysis: whose error it is, what was found, and the histograms behind it."""

from __future__ import annotations

import os
from math import isfinite, log10
from typing import TYPE_CHECKING

from intact.report.histogram import Panel, curve
from intact.report.page import Page, short, write_page
from intact.report.table import Cell, ReportTable

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
    """Return the same, not written yet."""
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
    return f"{-10 * log10(error):.1f} dB" if error > 0 else "no error"


def _summary(analysis: SensitivityAnalysis) -> str:
    said = (
        f"{name} {db:.1f} dB" if isfinite(db) else f"{name} loses nothing"
        for name, db in analysis.sqnr.items()
    )  # fmt: skip
    return f"SQNR of the outputs with everything quantized: {', '.join(said)}. {sum_in_words(analysis)}."


def sum_in_words(analysis: SensitivityAnalysis) -> str:
    """Return whether shares can be trusted, a sentence without its period."""
    said = f"All errors, each quantized alone, add up to {analysis.added:.2f} times that of the whole"
    if analysis.adds_up:
        return said
    return (
        f"{said}: shares only rank here, as where scores saturate; look at what helps when left in float, too"
    )


def _findings(analysis: SensitivityAnalysis, places: dict[str, str]) -> ReportTable:
    rows = [
        (
            Cell(one.tensor, link=places.get(one.tensor, ""), detail=f"{one.share:.1%} of the error"),
            one.says, one.advice,
        )
        for one in analysis.findings[:_FINDINGS]
    ]  # fmt: skip
    more = len(analysis.findings) - _FINDINGS
    note = f"{more} more, of tensors that matter less, stand below their histograms." if more > 0 else ""
    return ReportTable("Findings", ("tensor", "what was found", "what helps"), rows, note, prose=True)


def _sensitivities(analysis: SensitivityAnalysis, places: dict[str, str]) -> ReportTable:
    most = max((one.share for one in analysis.parts), default=0.0) or 1.0
    estimated = sum(not one.measured for one in analysis.parts)
    rows = [
        (
            Cell(one.name, link=places.get(one.tensors[0], ""), detail=f"{one.kind}, {one.formats}"),
            Cell(f"{one.share:.1%}", one.share / most),
            _measured(one, one.alone), _measured(one, one.without),
        )
        for one in analysis.ranked
    ]  # fmt: skip
    note = (
        "Alone: the outputs' signal to noise ratio with it alone quantized; without: with it alone "
        "left in float. Share: its squared error alone, of the sum over all."
    )
    if estimated:
        note += f" ~ marks the {estimated} that were measured in groups: a larger budget tells them apart."
    columns = ("name", "share of the error", "alone", "without")
    return ReportTable("Whose error it is", columns, rows, note)


def _measured(one: Sensitivity, error: float) -> str:
    return decibels(error) if one.measured else f"~{decibels(error)}"


def _panels(analysis: SensitivityAnalysis) -> list[Panel]:
    """One for each tensor, those of the largest shares first."""
    names = dict.fromkeys(tensor for one in analysis.ranked for tensor in one.tensors)
    notes: dict[str, list[str]] = {}
    for finding in analysis.findings:
        notes.setdefault(finding.tensor, []).append(f"{finding.says}: {finding.advice}.")
    shares = {one.name: one for one in analysis.parts if one.kind != "layer"}
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
        if (one := shares.get(name)) is not None:
            facts |= {"share": f"{one.share:.1%}"}
        ranges = {"kept": drawn.ends}
        panels.append(Panel(name, left, width, counts, ranges, {}, "kept", facts, notes.get(name, ())))
    return panels
