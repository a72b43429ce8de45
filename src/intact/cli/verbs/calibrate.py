"""``intact calibrate`` collects statistics, shows the ranges of each method, and merges files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from intact.calib import METHODS, Calibration, Histogram, Range, range_of
from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.errors import IntactError, QuantValueError
from intact.spec import Format, QuantSpec

Methods = Mapping[str, Mapping[str, float]]
"""Options by method."""


def run(
    files: Annotated[
        list[Path],
        typer.Argument(help="An ONNX file; with --from: .calib files.", **shared_options.READ),
    ],
    data: shared_options.Data = None,
    out: shared_options.CalibOut = None,
    stored: Annotated[
        bool, typer.Option("--from", help="FILES are .calib files: no model, no data.")
    ] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add the statistics of several .calib files.")
    ] = False,
    method: Annotated[
        str | None, typer.Option(help=f"Show the ranges of one method only: {', '.join(METHODS)}.")
    ] = None,
    format: Annotated[str, typer.Option(help="The grid that ranges are chosen for.")] = "int8",
    asymmetric: Annotated[bool, typer.Option("--asymmetric", help="Ranges with a zero point.")] = False,
    percentile: shared_options.Percentile = None,
    profile: shared_options.ProfileName = "intact",
    include: shared_options.Include = None,
    exclude: shared_options.Exclude = None,
    num_batches: shared_options.NumBatches = None,
    batch_size: shared_options.BatchSize = None,
    size: shared_options.Size = None,
    mean: shared_options.Mean = None,
    std: shared_options.Std = None,
    fit: shared_options.Fit = None,
    layout: shared_options.Layout = None,
    colour: shared_options.Colour = None,
    preset: shared_options.Preset = None,
    ray: shared_options.Ray = None,
    progress: shared_options.Progress = True,
    as_json: shared_options.AsJson = False,
) -> None:
    """Collect the statistics of every tensor that a model would have quantized, and show its ranges.

    Every method's ranges come from the one .calib file, without the model or the data: choose later, by
    `intact quantize model.onnx --calib model.calib --method entropy`. Files of several runs of one model
    merge: what was counted on many machines is what one would have counted.

    Examples:

    - `intact calibrate model.onnx --data photos -o model.calib`
    - `intact calibrate --from model.calib --method mse`
    - `intact calibrate --from a.calib b.calib --merge -o both.calib`
    """
    _require_method(method)
    spec = QuantSpec(Format.parse(format), symmetric=not asymmetric)
    if stored:
        calibration = _load_and_merge(files, merge, data)
    else:
        from intact.ptq import calibrate

        calibration = calibrate(
            _only_model(files, merge),
            shared_options.data_of(data, size, mean, std, fit, layout, colour, preset),
            profile=profile, include=tuple(include or ()), exclude=tuple(exclude or ()),
            num_batches=num_batches, batch_size=batch_size, progress=progress,
            pool=shared_options.pool_of(ray),
        )  # fmt: skip
    if out is not None:
        calibration.save(out)
    methods: dict[str, dict[str, float]] = {m: {} for m in (METHODS if method is None else (method,))}
    if percentile is not None and "percentile" in methods:
        methods["percentile"] = {"percentile": percentile}
    _show_statistics(calibration, spec, methods, out, as_json)


def _load_and_merge(files: Sequence[Path], merge: bool, data: Path | None) -> Calibration:
    if data is not None:
        raise QuantValueError("--data", f"'{data}'", "no data with --from", "leave one of the two out")
    if len(files) > 1 and not merge:
        raise QuantValueError(
            "--from", f"{len(files)} files", "one, or --merge", "say --merge to add their statistics"
        )
    first, *further = (Calibration.load(file) for file in files)
    return first.merge(*further)


def _only_model(files: Sequence[Path], merge: bool) -> Path:
    if len(files) != 1 or merge:
        raise QuantValueError(
            "files", ", ".join(map(str, files)), "one ONNX file", "say --from where they are .calib files"
        )
    return files[0]


def _require_method(method: str | None) -> None:
    if method is not None and method not in METHODS:
        raise QuantValueError("--method", repr(method), f"one of {', '.join(METHODS)}", "choose one of these")


def _show_statistics(
    calibration: Calibration, spec: QuantSpec, methods: Methods, out: Path | None, as_json: bool
) -> None:
    ranges = {name: _ranges(name, stats, spec, methods) for name, stats in calibration.items()}
    if as_json:
        show_json({"out": None if out is None else str(out), "format": str(spec), "ranges": ranges,
                   "provenance": calibration.provenance})  # fmt: skip
        return
    rows = [(name, *(_cell(by_method.get(m), spec) for m in methods)) for name, by_method in ranges.items()]
    show_table(f"ranges for {spec}", ("tensor", *methods), rows, figures=list(methods))
    for prepared in shared_options.images_of(calibration):
        say(shared_options.preparation_note(prepared))
    if out is not None:
        say(f"wrote {out}: {len(calibration)} tensors")


def _ranges(
    name: str, stats: Histogram | Range, spec: QuantSpec, methods: Methods
) -> dict[str, tuple[float, float]]:
    """Return (low, high) by method, the widest over channels; a Range knows "max" alone."""
    spec = spec.with_(axis=stats.axis)
    by_method = {}
    for method, chosen in methods.items():
        if method == "max" or isinstance(stats, Histogram):
            try:
                low, high = range_of(stats, spec, method, **chosen)
            except IntactError as error:
                raise error.at(f"tensor '{name}'") from error
            by_method[method] = (float(np.min(low)), float(np.max(high)))
    return by_method


def _cell(ends: tuple[float, float] | None, spec: QuantSpec) -> str:
    if ends is None:
        return "-"
    low, high = ends
    return f"{high:.6g}" if spec.symmetric else f"{low:.6g} .. {high:.6g}"
