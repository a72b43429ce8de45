"""``intact migrate`` takes scripts, caches and ranges of implicit int8 to TensorRT 11."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.atomic import replacing, together
from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import READ, check_output_path
from intact.errors import CalibrationError, QuantValueError

if TYPE_CHECKING:
    from intact.trt.migration import ImplicitRecipe, Migration

_CHECKPOINTS = (".pt", ".pth", ".ckpt")
_SHOWN = 10


def run(
    source: Annotated[
        Path,
        typer.Argument(
            help="A Python script with a calibrator; a calibration cache; dynamic ranges; or a state dict of "
            "pytorch_quantization (.pt, .pth, .ckpt).",
            **READ,
        ),
    ],
    out: shared_options.Out,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="With --run, behind --: arguments of the script.")
    ] = None,
    onnx: Annotated[Path | None, typer.Option("--onnx", help="The float ONNX file.", **READ)] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Of a script: its calibration cache or dynamic ranges.", **READ)
    ] = None,
    run_script: Annotated[
        bool, typer.Option("--run", help="Run the script under the stand-in for TensorRT to get its scales.")
    ] = False,
    build: Annotated[
        int | None, typer.Option(min=0, help="With --run: which of several int8 builds, from 0.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="The page. Default: beside --out.", callback=check_output_path)
    ] = None,
    patch: Annotated[
        Path | None,
        typer.Option(help="The patch of a script. Default: beside --out.", callback=check_output_path),
    ] = None,
    include: shared_options.Include = None,
    exclude: shared_options.Exclude = None,
    data: shared_options.Data = None,
    num_batches: shared_options.NumBatches = None,
    as_json: shared_options.AsJson = False,
) -> None:
    """Take a script or cache of TensorRT 8 or 10 to TensorRT 11: Q/DQ file, patch and page.

    TensorRT 11 has no calibrators, no precision flags and strongly typed networks only. The file says in Q/DQ
    pairs what the scales said. The patch takes calibrators and removed flags out of the script, and of the
    modules beside it that it imports. The page says layer by layer what changes in precision and in answers,
    measured by running both: the implicit engine and the file.

    A script is parsed, and never run without --run. Without it, give the cache that it wrote and the ONNX
    file that it reads. All files appear together, or none.

    Examples:

    - `intact migrate calibration.cache --onnx model.onnx -o model.qdq.onnx`
    - `intact migrate build.py --cache calibration.cache --onnx model.onnx -o model.qdq.onnx`
    - `intact migrate build.py --run -o model.qdq.onnx -- --onnx model.onnx --int8`
    - `intact migrate qat.pth --onnx model.onnx -o model.qdq.onnx`
    - `intact migrate ranges.json --onnx model.onnx -o model.qdq.onnx --data images.npy`
    """
    from intact.trt.migration import edit_project, migrate, name_of

    is_script = source.suffix == ".py"
    of_scripts: dict[str, object] = {"--cache": cache, "--patch": patch, "--run": run_script}
    _refuse(is_script or of_scripts, f"with '{source}'", "a Python script")
    _refuse(run_script or {"arguments": arguments, "--build": build}, "without --run", "--run")
    with TemporaryDirectory() as folder:
        is_parsed = True
        if run_script:
            recipe, is_parsed = _run_script(source, arguments or [], Path(folder), build, onnx)
        else:
            recipe = _read_scales(source, cache if is_script else source, onnx)
        done = migrate(
            recipe, data=data, num_batches=num_batches, include=tuple(include or ()),
            exclude=tuple(exclude or ()),
        )  # fmt: skip
        model = name_of(recipe.model) or (onnx.name if onnx is not None else "network")
        if is_script:
            done.edits = edit_project(source, out.name, name_of(recipe.model), is_parsed=is_parsed)
        html, diff = page or out.with_suffix(".html"), patch or out.with_suffix(".patch")
        _report(done, _write(done, out, html, diff, model), as_json)


def _refuse(options: bool | dict[str, object], got: str, want: str) -> None:
    """Refuse options that mean nothing here; True allows them."""
    for name, value in {} if isinstance(options, bool) else options.items():
        if value is not None and value is not False and value != []:
            raise QuantValueError(name, got, want, f"leave out {name}")


def _run_script(
    script: Path, arguments: list[str], folder: Path, number: int | None, onnx: Path | None
) -> tuple[ImplicitRecipe, bool]:
    """Run a script; return the recipe of its build, and whether its network came from a file."""
    from dataclasses import replace

    from intact.trt.migration import record, require_one_build

    done = require_one_build(record(script, arguments, folder), number)
    recipe: ImplicitRecipe = done.recipe
    return (recipe if onnx is None else replace(recipe, model=onnx)), done.is_parsed


def _read_scales(source: Path, scales: Path | None, onnx: Path | None) -> ImplicitRecipe:
    """Return the recipe of files: scales, and the model that they belong to."""
    from intact.trt.migration import ImplicitRecipe, read_checkpoint, read_ranges

    if scales is None:
        raise CalibrationError(
            f"script '{source}'", "no scales: it is not run", "the cache that its calibrator wrote",
            "pass --cache calibration.cache, or let it run with --run",
        )  # fmt: skip
    if onnx is None:
        raise QuantValueError(
            "--onnx", "nothing", "the float ONNX file", "pass the file that the scales belong to"
        )
    if scales.suffix in _CHECKPOINTS:
        return read_checkpoint(scales, onnx)
    cache, kind = read_ranges(scales)
    return ImplicitRecipe(onnx, cache, kind)


def _write(done: Migration, out: Path, page: Path, patch: Path, model: str) -> list[Path]:
    """Write the files, all or none; the page is made before the first of them."""
    from intact import graph
    from intact.report import migration_page, render

    text = render(migration_page(done, out.name, model))
    files = [out, page]
    with together():
        graph.save(done.model, out)
        with replacing(page) as file:
            file.write(text.encode())
        if done.patch:
            files.append(patch)
            with replacing(patch) as file:
                file.write(done.patch.encode("utf-8", "surrogateescape"))
    return files


def _report(done: Migration, files: list[Path], as_json: bool) -> None:
    from intact.report import migration_figures, migration_summary

    counts = {"strangers": done.from_cache.strangers, "missing": done.from_cache.missing,
              "zero": done.from_cache.zero}  # fmt: skip
    points: list[dict[str, Any]] = [
        {"file": edit.name, "line": point.line, "what": point.what, "advice": point.advice}
        for edit in done.edits for point in edit.open_points
    ]  # fmt: skip
    if as_json:
        show_json(
            {"files": list(map(str, files)), "pairs": done.from_cache.pairs, "measured_on": done.data}
            | counts | migration_figures(done.answers)
            | {"findings": [vars(finding) for finding in done.findings], "by_hand": points}
        )  # fmt: skip
        return
    rows = [
        (layer.name, layer.before or "none", layer.after, f"{layer.difference.largest:.4g}")
        for layer in done.answers.layers if layer.before != layer.after or layer.difference.differing
    ]  # fmt: skip
    if rows:
        columns = ("layer", "implicit engine", "file", "largest difference")
        show_table("what changes", columns, rows[:_SHOWN], figures=columns[3:])
    say(migration_summary(done))
    for name, names in counts.items():
        if names:
            say(f"{len(names)} names: {_NAMES[name]}")
    for point in points:
        say(f"by hand: {point['file']}, line {point['line']}: {point['what']}: {point['advice']}")
    for file in files:
        say(f"wrote {file}")


_NAMES = {
    "strangers": "have a scale, and are no tensor of the model",
    "missing": "have no scale: their readers stay in float", "zero": "have scale 0: their scale is 1",
}  # fmt: skip
