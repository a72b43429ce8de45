"""``intact run`` runs a model or a plan on data, and writes the outputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import ZipFile

import numpy as np
import typer
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.engine import Engine, Port
    from intact.ptq.data import Source

NpzOut = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="The .npz file for the outputs.", callback=shared_options.check_output_path
    ),
]


def run(
    model: shared_options.Runnable,
    data: shared_options.Data = None,
    out: NpzOut = None,
    threads: shared_options.Threads = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Run the integer reference, slow: the answers that engines equal."),
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Time every step, and print it.")] = False,
    num_batches: shared_options.NumBatches = None,
    batch_size: shared_options.BatchSize = None,
    size: shared_options.Size = None,
    mean: shared_options.Mean = None,
    std: shared_options.Std = None,
    fit: shared_options.Fit = None,
    layout: shared_options.Layout = None,
    colour: shared_options.Colour = None,
    preset: shared_options.Preset = None,
    as_json: shared_options.AsJson = False,
) -> None:
    """Run a Q/DQ file or a plan in int8 and write what comes out: one array per output, by its name.

    Where batches make outputs of other sizes (sequences of other lengths), or values decide how many rows
    there are (detections), each batch has an array of its own: `name.0`, `name.1`, ...

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
        described = shared_options.data_of(data, size, mean, std, fit, layout, colour, preset)
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
            say(shared_options.preparation_note(report["images"]))
        say(f"{report['samples']} samples in {report['seconds']:.3f} s" + (f"; wrote {out}" if out else ""))
    if timings is not None:
        from intact.engine import COLUMNS

        show_table(f"{timings.seconds * 1e6:.1f} us in all", COLUMNS, timings.rows(), figures=COLUMNS[:4])


def open_for(engine: Engine, data: Any, batch_size: int | None, num_batches: int | None) -> Source:
    """Open `data` for an engine's inputs; an engine with a fixed batch gets batches of that size."""
    from intact.ptq.data import Input, open_data

    inputs = [Input(port.name, np.dtype(port.dtype), port.shape) for port in engine.inputs]
    fixed = inputs[0].shape[0] if inputs and inputs[0].shape else None
    if batch_size is None and isinstance(fixed, int):
        batch_size = fixed
    return open_data(data, inputs, batch_size=batch_size, num_batches=num_batches)


def _outputs(engine: Engine, source: Source, out: Path | None) -> dict[str, Any]:
    """Run all batches; write the outputs, batch behind batch."""
    parts: dict[str, list[NDArray]] = {port.name: [] for port in engine.outputs}
    seconds, sizes = 0.0, list[int]()
    for feeds in source.batches:
        start = time.perf_counter()
        outputs = engine.run(feeds)
        seconds += time.perf_counter() - start
        sizes.append(_samples_in(feeds))
        for name, array in outputs.items():
            parts[name].append(array)
    inputs = [port.shape[0] for port in engine.inputs if port.shape]
    arrays = dict[str, NDArray]()
    for port in engine.outputs:
        arrays |= _concatenate(port, parts[port.name], inputs, sizes)
    if out is not None:
        _write_npz(out, arrays)
    return {
        "out": None if out is None else str(out),
        "outputs": {name: list(array.shape) for name, array in arrays.items()},
        "samples": sum(sizes),
        "batches": sizes,
        "seconds": seconds,
    }


def _samples_in(feeds: Mapping[str, NDArray]) -> int:
    """Return the number of samples in a batch: the rows of its inputs, or 1 where these differ."""
    sizes = {array.shape[0] if array.ndim else 1 for array in feeds.values()}
    return sizes.pop() if len(sizes) == 1 else 1


def _concatenate(
    port: Port, arrays: list[NDArray], inputs: Sequence[int | str | None], sizes: Sequence[int]
) -> dict[str, NDArray]:
    """Concatenate the outputs of all batches where rows match samples; else return an array for each batch.

    Args:
        port: The output.
        arrays: What it was in each batch.
        inputs: The first sizes of the inputs.
        sizes: How many samples each batch has.
    """
    rows = [np.atleast_1d(array) for array in arrays]
    if len({array.shape[1:] for array in rows}) == 1 and _has_row_per_sample(port, rows, inputs, sizes):
        return {port.name: np.concatenate(rows)}
    return {f"{port.name}.{number}": array for number, array in enumerate(arrays)}


def _has_row_per_sample(
    port: Port, rows: Sequence[NDArray], inputs: Sequence[int | str | None], sizes: Sequence[int]
) -> bool:
    """Return whether an output has one row per sample; values may decide the number, as for detections."""
    size = port.shape[0] if port.shape else 1
    if isinstance(size, int):
        return True
    if isinstance(size, str) and all(isinstance(first_size, int) for first_size in inputs):
        return False  # not that of the batch, which is fixed: what it was in these batches is chance
    return all(len(array) == samples for array, samples in zip(rows, sizes, strict=True))


def _write_npz(out: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write an .npz file, with strings in NumPy's own dtype, because objects would be pickled.

    NumPy's own function takes no array whose name is that of its arguments.
    """
    with replacing(out) as new, ZipFile(new, "w") as packed:
        for name, array in arrays.items():
            with packed.open(f"{name}.npy", "w", force_zip64=True) as file:
                plain = array.astype(str) if array.dtype.kind == "O" else array
                np.lib.format.write_array(file, plain, allow_pickle=False)
