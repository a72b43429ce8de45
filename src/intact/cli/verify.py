"""``intact verify``: does the engine compute what the file says, and where does anything depart?"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.cli import options
from intact.cli.output import say, show_json, show_table
from intact.cli.run import open_for
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.engine.compare import Comparison, Counts, Runner

DIFFERENT = 1


def run(
    model: options.ModelFile,
    data: options.Data = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Verify this plan of it, not one built now.", exists=True, dir_okay=False),
    ] = None,
    module: Annotated[
        Path | None,
        typer.Option(
            help="A .py file whose load_module() returns the fake-quantized module. It is run.",
            exists=True, dir_okay=False,
        ),
    ] = None,
    threads: options.Threads = None,
    traced: Annotated[
        int, typer.Option(min=0, help="Batches in which every tensor is compared; the reference is slow.")
    ] = 1,
    num_batches: options.NumBatches = None,
    batch_size: options.BatchSize = None,
    size: options.Size = None,
    mean: options.Mean = None,
    std: options.Std = None,
    fit: options.Fit = None,
    layout: options.Layout = None,
    colour: options.Colour = None,
    all_tensors: Annotated[bool, typer.Option("--all", help="List tensors that agree as well.")] = False,
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Compare the engine, the integer reference, the file in ONNX Runtime, and a module, on your data.

    The engine must equal the integer reference on every code. The file runs with optimizations off; it
    computes in float, so that a code beside a rounding boundary may be the neighbouring one, and what
    follows sees that. The layer where each of them first departs is named.

    Exit status: 0 where the engine equals the reference, 1 where it does not, 2 where a file cannot be read.

    Examples:

    - `intact verify model.int8.onnx --data photos`
    - `intact verify model.int8.onnx --plan model.plan --data samples.npy --traced 2`
    - `intact verify model.int8.onnx --data photos --module my_model.py`
    """
    import intact
    from intact.engine.compare import compare
    from intact.graph import load

    graph = load(model)
    engine = intact.compile(model if plan is None else plan, threads=threads)
    described = options.data_of(data, size, mean, std, fit, layout, colour)
    source = open_for(engine, described, batch_size, num_batches)
    others = {} if module is None else {"module": _module(module)}
    found = compare(graph, engine, source.batches, traced=traced, threads=engine.threads, others=others)
    if as_json:
        show_json(as_record(found, model))
    else:
        _show(found, model, all_tensors)
    if not found.exact:
        raise typer.Exit(DIFFERENT)


def as_record(found: Comparison, model: Path) -> dict[str, Any]:
    """The comparison as JSON has it."""
    tensors = [vars(t) | {"engine": vars(t.engine), "file": vars(t.file)} for t in found.tensors]
    firsts = {side: found.first(side) for side in ("engine", "file")}
    return {
        "file": str(model), "exact": found.exact, "samples": found.samples, "traced": found.traced,
        "codes": {side: vars(found.total(side)) for side in firsts},
        "first": {side: None if t is None else t.layer or t.tensor for side, t in firsts.items()},
        "answers": {side: vars(counts) for side, counts in found.answers.items()}, "tensors": tensors,
    }  # fmt: skip


def sentences(found: Comparison) -> list[str]:
    """What was found, in sentences."""
    names = {"engine": "engine", "file": "file in ONNX Runtime"}
    said = []
    for side, name in names.items() if found.traced else ():
        first = found.first(side)
        where = "" if first is None else f", first in {first.layer or first.tensor}"
        said.append(f"codes, {name} against integer reference: {_of(found.total(side))}{where}")
    for side, counts in found.answers.items():
        said.append(f"top-1, engine against {names.get(side, side)}: {_of(counts)}")
    return said


def _of(counts: Counts) -> str:
    if not counts.compared:
        return ""
    by = f", by at most {counts.largest:.4g}" if counts.differing else ""
    return f"{counts.differing:,} of {counts.compared:,} differ{by}"


def _show(found: Comparison, model: Path, all_tensors: bool) -> None:
    shown = [t for t in found.tensors if all_tensors or t.engine.differing or t.file.differing]
    rows = [(t.tensor, t.layer, "codes" if t.codes else "reals", _of(t.engine), _of(t.file)) for t in shown]
    if rows and found.traced:
        columns = ("tensor", "layer", "compared", "engine", "file")
        show_table(f"{model.name}: against the integer reference, {found.traced} samples", columns, rows)
    for line in sentences(found):
        say(line)
    if not found.traced:
        say("codes: not compared, for no batch was traced")


def _module(script: Path) -> Runner:
    load = runpy.run_path(str(script)).get("load_module")
    if not callable(load):
        raise QuantValueError(
            f"file '{script}'", "no function load_module", "load_module() that returns the module",
            "define it there",
        )  # fmt: skip
    from intact.torch.running import runner

    run: Runner = runner(load())
    return run
