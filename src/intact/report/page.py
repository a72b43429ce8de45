"""The HTML page: results, histograms with their thresholds, configuration and provenance, in one file.

The page opens offline: plotly's script is inlined once, the data is JSON, and a plot is drawn when it
scrolls into view, so that a hundred quantizers open as fast as one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from intact.atomic import replacing
from intact.errors import MissingExtraError
from intact.report.histogram import Panel
from intact.report.table import ReportTable


@dataclass(frozen=True)
class Page:
    """What a page shows, from top to bottom; empty parts are left out.

    Attributes:
        title: Heading and window title.
        summary: One or two sentences below it.
        tables: Results.
        panels: One per quantizer.
        configuration, provenance: Name-value pairs, in order.
    """

    title: str
    summary: str = ""
    tables: Sequence[ReportTable] = ()
    panels: Sequence[Panel] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write `page` as one self-contained HTML file; `path` appears whole or not at all.

    Raises:
        MissingExtraError: jinja2 or plotly is not installed.
    """
    text = render(page)
    with replacing(path) as file:
        file.write(text.encode())


def render(page: Page) -> str:
    """`page` as HTML.

    Raises:
        MissingExtraError: jinja2 or plotly is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError.of(error.name or "jinja2", "report", "writing a report page") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = resources.files("intact.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    methods = list(dict.fromkeys(method for panel in page.panels for method in panel.ranges))
    return environment.from_string(template).render(
        page=page,
        methods=methods,
        figures=json.dumps([_figure(panel) for panel in page.panels], allow_nan=False).replace(
            "<", "\\u003c"
        ),
        plotly=get_plotlyjs() if page.panels else "",
        number=short,
    )


def short(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def _figure(panel: Panel) -> dict[str, Any]:
    """What the page's script plots for one panel; empty bins are gaps on the logarithmic axis."""
    return {
        "left": [float(f"{edge:.6g}") for edge in panel.left],
        "width": panel.width,
        "counts": [int(count) or None for count in panel.counts],
        "ranges": [
            {"method": method, "low": low, "high": high, "chosen": method == panel.chosen}
            for method, (low, high) in panel.ranges.items()
        ],
    }
