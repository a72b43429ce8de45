"""``intact quickstart`` trains, quantizes, exports and verifies a small network in one command."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from intact.calib import METHODS, Histogram
from intact.cli.printing import say, threads_in_words
from intact.cli.shared_options import COUNT, check_thread_count
from intact.cli.verbs.report import provenance
from intact.cli.verbs.verify import sentences
from intact.report import Page, ReportTable, panel, to_rich, write_page

if TYPE_CHECKING:
    from intact.torch.quickstart import Outcome, Row

COMPARED_BATCH = 100
TIMED_BATCHES = (1, 32)
TIMED_SECONDS = 0.5


def run(
    data: Annotated[
        Path | None,
        typer.Option(help="A folder with one folder of images per class, or a packed npz train file."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("quickstart-out"),
    epochs: Annotated[
        int | None, typer.Option(**COUNT, help="Passes of float training. Default: by the number of images.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Of the weights and of the order of images.")
    ] = 0,
    threads: Annotated[
        int | None,
        typer.Option(min=1, callback=check_thread_count, help="Default: by the size of the images."),
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show progress bars.")] = True,
) -> None:
    """Train a small CNN, quantize it by every method, fine-tune it, export it, and build its int8 engine.

    File and engine are verified, and the engine is timed against the float network in ONNX Runtime.

    Without --data it takes scikit-learn's handwritten digits. Writes model.onnx, model.plan, model.calib
    and report.html.

    Examples:

    - `intact quickstart`
    - `intact quickstart --data photos --out photos-int8` where photos/cats and photos/dogs hold images
    - `intact quickstart --data cifar10_train.npz --epochs 3`
    """
    from intact.torch.quickstart import QuickstartSettings, quickstart

    outcome = quickstart(QuickstartSettings(data, out, epochs, seed, threads, progress))
    table = results_table(outcome)
    built = engine_table(outcome)
    write_page(results_page(outcome, table, built), out / "report.html")
    console = Console()
    console.print(to_rich(table))
    for line in str(outcome.export).split("\n"):
        say(line)
    console.print(to_rich(built))
    for name in ("model.plan", "model.calib", "report.html"):
        say(out / name)


def results_table(outcome: Outcome) -> ReportTable:
    """Build the table with one row per model, and a note about the comparison."""
    images, settings = outcome.images, outcome.settings
    return ReportTable(
        title=f"{images.name}: float and int8",
        columns=("model", "top-1", "agrees with float", "logits, SQNR", "file"),
        rows=[_cells(row) for row in outcome.rows],
        note=(
            f"{len(images.test_y):,} test images; trained on {len(images.train_y):,} "
            f"({settings.epochs} epochs), calibrated once on {_calibration_samples(outcome):,} of them. "
            "auto chooses without labels; QAT fine-tunes it. 2 bits: of all weights but the first and last "
            "layer's; AdaRound learns their rounding from the calibration images."
        ),
    )


def engine_table(outcome: Outcome) -> ReportTable:
    """Build the engine of model.onnx, save it as model.plan, verify it and time it against float."""
    import intact
    from intact.engine.compare import compare
    from intact.graph import Session, load

    settings = outcome.settings
    threads = settings.threads or 1
    source, path = settings.out / "model.onnx", settings.out / "model.plan"
    intact.compile(source, threads=threads).save(path)
    engine = intact.load(path, threads=threads)
    port = engine.inputs[0].name
    feeds = ({port: batch} for batch in outcome.batches(COMPARED_BATCH))
    comparison = compare(load(source), engine, feeds, threads=threads)
    lines = [line for line in sentences(comparison) if line.startswith(("codes, ", "top-1, "))]
    rows = [tuple(line.split(": ", 1)) for line in lines]
    plain = Session(outcome.float_file, folded=True, threads=threads)
    for size in TIMED_BATCHES:
        x = next(outcome.batches(size))
        ours, theirs = fastest(partial(engine, x), partial(plain.run, {plain.inputs[0]: x}))
        figures = f"{ours:.3f} ms, float {theirs:.3f} ms: {theirs / ours:.2f} times as fast"
        rows.append((f"batch of {len(x)}, {threads_in_words(threads)}", figures))
    return ReportTable(
        title="model.plan in INTact's engine",
        columns=("what", "found"),
        rows=rows,
        note=f"{path.stat().st_size:,} bytes; codes on {comparison.traced} images. Float in ONNX Runtime, as "
        "fast as it goes; the fastest of many runs counts.",
    )


def fastest(*runs: Callable[[], object]) -> list[float]:
    """Return the shortest time of each function in milliseconds; they take turns."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + TIMED_SECONDS
    while time.perf_counter() < end:
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], 1e3 * (time.perf_counter() - start))
    return best


def results_page(outcome: Outcome, table: ReportTable, built: ReportTable) -> Page:
    """Build the page of the results, with every activation's histogram and thresholds."""
    methods: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
    panels = [
        panel(name, stats, outcome.specs[name], methods, outcome.methods[name])
        for name, stats in outcome.calibration.items()
        if isinstance(stats, Histogram)
    ]
    return Page(
        title="INTact quickstart",
        summary=f"A residual CNN for {outcome.images.name}, in int8 with quantizers on its shortcuts.",
        tables=(table, _verification(outcome), built),
        panels=panels,
        configuration=_configuration(outcome),
        provenance={"machine": platform.machine(), **provenance(outcome.calibration)},
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.top1:.2%}",
        f"{row.agreement:.2%}",
        "" if row.sqnr is None else f"{row.sqnr:.1f} dB",
        f"{row.size:,} bytes",
    )


def _calibration_samples(outcome: Outcome) -> int:
    return sum(int(record["samples"]) for record in outcome.calibration.provenance)


def _verification(outcome: Outcome) -> ReportTable:
    written = outcome.export
    end = written.end_to_end
    rows = [("codes, layer by layer", f"{written.codes:,}", f"{written.codes_differing:,}")]
    if end is not None:
        rows.append(("top-1 answers, end to end", f"{end.answers:,}", f"{end.answers_differing:,}"))
    return ReportTable(
        title="model.onnx in ONNX Runtime against the module",
        columns=("what", "compared", "different"),
        rows=rows,
        note=f"opset {written.opset}, {written.pairs} Q/DQ pairs, {written.size:,} bytes; optimizations off.",
    )


def _configuration(outcome: Outcome) -> Mapping[str, str]:
    images, settings = outcome.images, outcome.settings
    return {
        "data": images.name if settings.data is None else str(settings.data),
        "classes": ", ".join(images.classes),
        "images": f"{len(images.train_y):,} train, {len(images.test_y):,} test, {images.train_x.shape[1:]}",
        "float training": f"{settings.epochs} epochs",
        "seed": str(settings.seed),
        "threads": str(settings.threads),
    }
