"""``intact run``: a model or a plan on data, its outputs in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import ZipFile

import numpy as np
import typer
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.cli import options
from intact.cli.output import say, show_json, show_table
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.engine import Engine
    from intact.ptq.data import Source

NpzOut = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The .npz file for the outputs.", callback=options.into_a_folder),
]


def run(
    model: options.Runnable,
    data: options.Data = None,
    out: NpzOut = None,
    threads: options.Threads = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Run the integer reference, slow: the answers that engines equal."),
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Time every step, and print it.")] = False,
    num_batches: options.NumBatches = None,
    batch_size: options.BatchSize = None,
    size: options.Size = None,
    mean: options.Mean = None,
    std: options.Std = None,
    fit: options.Fit = None,
    layout: options.Layout = None,
    colour: options.Colour = None,
    preset: options.Preset = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a Q/DQ file or a plan in int8 and write what comes out: one array per output, by its name.

    Where batches make outputs of other sizes (sequences of other lengths), each is its own array: `name.0`.

    Without --data, --profile times the model on zeros.

    Examples:

    - `intact run model.plan --data samples.npy -o outputs.npz`
    - `intact run model.int8.onnx --data photos --batch-size 1 --threads 2`
    - `intact run model.int8.onnx --data samples.npy --reference -o expected.npz`
    - `intact run model.plan --profile` shows where the time goes
    """
    import intact

    if data is None and not profile:
        raise QuantValueError(
            "--data, --profile", "neither", "one of the two", "say what to run the model on"
        )
    engine = intact.compile(model, threads=threads, backend="reference" if reference else "cpu")
    report: dict[str, Any] = {"file": str(model), "threads": engine.threads}
    if data is not None:
        described = options.data_of(data, size, mean, std, fit, layout, colour, preset)
        source = open_for(engine, described, batch_size, num_batches)
        report |= _outputs(engine, source, out) | ({"images": source.prepared} if source.prepared else {})
    timings = engine.profile() if profile else None
    if as_json:
        if timings is not None:
            report["profile"] = [vars(timing) for timing in timings.timings]
        show_json(report)
        return
    if data is not None:
        rows = [(name, str(tuple(shape))) for name, shape in report["outputs"].items()]
        show_table(str(model.name), ("output", "shape"), rows)
        if "images" in report:
            say(options.how_prepared(report["images"]))
        say(f"{report['samples']} samples in {report['seconds']:.3f} s" + (f"; wrote {out}" if out else ""))
    if timings is not None:
        from intact.engine.profile import COLUMNS

        show_table(f"{timings.seconds * 1e6:.1f} us in all", COLUMNS, timings.rows(), figures=COLUMNS[:4])


def open_for(engine: Engine, data: Any, batch_size: int | None, num_batches: int | None) -> Source:
    """Batches of `data` for an engine's inputs; an engine with a fixed batch gets batches of that size."""
    from intact.ptq.data import open_data
    from intact.ptq.inputs import Input

    inputs = [Input(port.name, np.dtype(port.dtype), port.shape) for port in engine.inputs]
    fixed = inputs[0].shape[0] if inputs and inputs[0].shape else None
    if batch_size is None and isinstance(fixed, int):
        batch_size = fixed
    return open_data(data, inputs, batch_size=batch_size, num_batches=num_batches)


def _outputs(engine: Engine, source: Source, out: Path | None) -> dict[str, Any]:
    """Run all batches; write the outputs, batch behind batch."""
    parts: dict[str, list[Any]] = {port.name: [] for port in engine.outputs}
    seconds = 0.0
    for feeds in source.batches:
        start = time.perf_counter()
        made = engine.run(feeds)
        seconds += time.perf_counter() - start
        for name, array in made.items():
            parts[name].append(array)
    samples = sum(len(np.atleast_1d(array)) for array in next(iter(parts.values()), ()))
    arrays = {key: array for name, found in parts.items() for key, array in _joined(name, found).items()}
    if out is not None:
        _write(out, arrays)
    return {
        "out": None if out is None else str(out),
        "outputs": {name: list(array.shape) for name, array in arrays.items()},
        "samples": samples,
        "seconds": seconds,
    }


def _joined(name: str, found: list[NDArray]) -> dict[str, NDArray]:
    """The outputs of all batches as one array; those that differ in more than the first size by number."""
    rows = [np.atleast_1d(array) for array in found]
    if len({array.shape[1:] for array in rows}) == 1:
        return {name: np.concatenate(rows)}
    return {f"{name}.{number}": array for number, array in enumerate(found)}


def _write(out: Path, arrays: Mapping[str, NDArray]) -> None:
    """An .npz file. NumPy's own function takes no array whose name is that of its arguments."""
    with replacing(out) as new, ZipFile(new, "w") as packed:
        for name, array in arrays.items():
            with packed.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
