"""``intact report`` writes an HTML page of a calibration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intact.calib import METHODS, Calibration, Histogram
from intact.cli.printing import say
from intact.cli.shared_options import READ, check_output_path
from intact.progress import Progress
from intact.report import Page, panel, write_page
from intact.spec import Format, QuantSpec


def provenance(calibration: Calibration) -> dict[str, str]:
    """Return one name-value pair per collecting run."""
    return {
        f"collected, run {number}": ", ".join(f"{key}: {value}" for key, value in record.items() if value)
        for number, record in enumerate(calibration.provenance, 1)
    }


def run(
    file: Annotated[Path, typer.Argument(help="A .calib file.", **READ)],
    out: Annotated[Path, typer.Option(help="The page to write.", callback=check_output_path)] = Path(
        "report.html"
    ),
    format: Annotated[str, typer.Option(help="The grid of the thresholds: int8, uint8, int4, ...")] = "int8",
    asymmetric: Annotated[bool, typer.Option("--asymmetric", help="Ranges with a zero point.")] = False,
    percentile: Annotated[float, typer.Option(help="For the method percentile, in percent.")] = 99.99,
) -> None:
    """Show what was collected: each tensor's histogram and the threshold that every method chooses.

    The thresholds are computed from the file alone, for any format, without the model or the data.

    Examples:

    - `intact report model.calib`
    - `intact report model.calib --format int4 --out int4.html`
    """
    calibration = Calibration.load(file)
    spec = QuantSpec(Format.parse(format), symmetric=not asymmetric)
    methods = {m: {"percentile": percentile} if m == "percentile" else {} for m in METHODS}
    histograms = {name: stats for name, stats in calibration.items() if isinstance(stats, Histogram)}
    with Progress("choosing thresholds", len(histograms), shown=True) as bar:
        panels = [
            panel(name, stats, spec.with_(axis=stats.axis), methods)
            for name, stats in bar.over(histograms.items())
        ]
    page = Page(
        title=f"Calibration of {file.stem}",
        summary=f"{len(histograms)} histograms; thresholds for {spec}.",
        panels=panels,
        configuration={"format": str(spec), "percentile": f"{percentile:g}"},
        provenance=provenance(calibration),
    )
    write_page(page, out)
    say(f"wrote {out}")
