"""``intact quickstart``: the main job from images to a verified int8 file, in one command."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track


def run(
    data: Annotated[
        Path | None,
        typer.Option(help="A folder with one folder of images per class, or a packed npz train file."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("quickstart-out"),
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes of float training.")] = None,
    seed: Annotated[int, typer.Option(help="Of the weights and of the order of images.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: as many as torch takes.")] = None,
) -> None:
    """Train a small CNN, quantize it by every method, fine-tune it, export it and verify the file.

    Without --data on scikit-learn's handwritten digits, in about a minute. Writes model.onnx, model.calib
    and report.html.

    Examples:

    - `intact quickstart`
    - `intact quickstart --data photos --out photos-int8` where photos/cats and photos/dogs hold images
    - `intact quickstart --data cifar10_train.npz --epochs 3`
    """
    from intact.cli import quickstart_report
    from intact.report import to_rich, write_page
    from intact.torch.quickstart import Settings, quickstart

    console = Console()
    follow = functools.partial(track, console=console, transient=True)
    settings = Settings(data=data, out=out, epochs=epochs, seed=seed, threads=threads)
    outcome = quickstart(settings, follow)
    page = quickstart_report.page(outcome)
    write_page(page, out / "report.html")
    console.print(to_rich(page.tables[0]))
    for name in ("model.onnx", "model.calib", "report.html"):
        console.print(f"wrote {out / name}", highlight=False, soft_wrap=True)
