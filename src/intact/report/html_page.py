"""Writes report pages as one HTML file: results, histograms, configuration and provenance.

The page is static: text, a style sheet and SVG. It opens offline, without a script, on a phone and on paper.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from intact.atomic import replacing
from intact.errors import MissingExtraError
from intact.report.histogram_panel import Panel
from intact.report.svg import bar, histogram
from intact.report.table import Cell, ReportTable


@dataclass(frozen=True)
class Figure:
    """Holds a drawing with its caption.

    Attributes:
        title: What it shows.
        svg: The drawing, one ``svg`` element.
        key: What each of its classes stands for.
        note: A sentence below it.
    """

    title: str
    svg: str
    key: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Page:
    """Holds the contents of a page, from top to bottom; empty parts are left out.

    Attributes:
        title: Heading and window title.
        summary: One or two sentences below it.
        tables: Results.
        panels: One per quantizer.
        configuration, provenance: Name-value pairs, in order.
        figures: Drawings, in front of the tables.
    """

    title: str
    summary: str = ""
    tables: Sequence[ReportTable] = ()
    panels: Sequence[Panel] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[Figure] = ()


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write `page` as one self-contained HTML file; `path` appears whole or not at all.

    Args:
        page: Title and contents.
        path: Of the file.
    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    text = render(page)
    with replacing(path) as file:
        file.write(text.encode())


def render(page: Page) -> str:
    """Return `page` as HTML.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingExtraError.of(error.name or "jinja2", "report", "writing a report page") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = resources.files("intact.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    panels = [panel for panel in page.panels if panel.sqnr]
    methods = list(dict.fromkeys(method for panel in panels for method in panel.ranges))
    return environment.from_string(template).render(
        page=page,
        methods=methods,
        draw=_draw,
        bar=bar,
        number=short,
        is_cell=lambda value: isinstance(value, Cell),
    )


def short(value: float) -> str:
    """Format a number with four significant digits."""
    return f"{value:.4g}"


def _draw(panel: Panel) -> str:
    label = f"histogram of {panel.name}"
    return histogram(panel.left, panel.width, panel.counts, panel.ranges, panel.chosen, label)
