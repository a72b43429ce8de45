"""The HTML page of a comparison of two language models: divergence of tokens, and what each layer loses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import log10
from typing import TYPE_CHECKING

import numpy as np

from intact.report.html_page import Figure, Page, write_page
from intact.report.svg import Point, scatter
from intact.report.table import Cell, ReportTable

if TYPE_CHECKING:
    from intact.lm import LayerLoss, ModelComparison

_POINTS = 200


def write_comparison(
    comparison: ModelComparison, layers: Sequence[LayerLoss], rows: Sequence[tuple[str, str]],
    path: str | os.PathLike[str], names: str,
) -> None:  # fmt: skip
    """Write a page of what one model lost, one HTML file; `path` appears whole or not at all.

    Args:
        comparison: Of both models.
        layers: What each loses.
        rows: (label, figure) of the whole.
        path: The page to write.
        names: Of both models, for the title.
    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    write_page(comparison_page(comparison, layers, rows, names), path)


def comparison_page(
    comparison: ModelComparison, layers: Sequence[LayerLoss], rows: Sequence[tuple[str, str]], names: str
) -> Page:
    """Build the page of a comparison without writing it."""
    table = ReportTable("What was compared", ("", "first -> other"), [(Cell(a), b) for a, b in rows])
    figures = [_divergences(comparison)]
    tables = [table]
    if layers:
        figures.append(_losses(layers))
        tables.append(_layers(layers))
    summary = (
        f"The other model's probabilities are {comparison.kl:.4g} nats per token from the first one's; "
        f"{100 * comparison.same_top:.1f}% of the most likely tokens are the same."
    )
    return Page(title=f"Comparison of {names}", summary=summary, figures=figures, tables=tables)


def _divergences(comparison: ModelComparison) -> Figure:
    shares = np.linspace(0, 1, _POINTS)
    values = np.quantile(comparison.divergences, shares)
    points = [
        Point(100 * float(share), _decade(float(value)), "r1", f"{value:.3g}")
        for share, value in zip(shares, values, strict=True)
    ]
    return Figure(
        "Divergence of tokens", scatter(points, label="divergence by share of the tokens"), {},
        "From left to right percent of the tokens, upwards the power of 10 of the most divergence that they "
        "have, in nats.",
    )  # fmt: skip


def _losses(layers: Sequence[LayerLoss]) -> Figure:
    totals = [
        Point(number, _decade(layer.total), "r4", f"{layer.name}: {layer.total:.3g}")
        for number, layer in enumerate(layers)
    ]
    alone = [
        Point(number, _decade(layer.error), "r1", f"{layer.name}, {layer.bits} bits: {layer.error:.3g}")
        for number, layer in enumerate(layers)
    ]
    key = {"r1": "with its own codes alone", "r4": "with what layers in front lost"}
    return Figure(
        "Errors of layers", scatter([*totals, *alone], label="errors of layers"), key,
        "From left to right products in their order, upwards the power of 10 of the squared error of the "
        "output relative to its square.",
    )  # fmt: skip


def _layers(layers: Sequence[LayerLoss]) -> ReportTable:
    most = max(layer.error for layer in layers) or 1.0
    rows = [
        (
            Cell(layer.name),
            f"{layer.bits}",
            Cell(f"{layer.error:.2e}", layer.error / most),
            f"{layer.total:.2e}",
        )
        for layer in sorted(layers, key=lambda layer: -layer.error)
    ]
    return ReportTable("Layers, those that lose most first", ("layer", "bits", "alone", "in all"), rows)


def _decade(value: float) -> float:
    return log10(max(value, 1e-9))
