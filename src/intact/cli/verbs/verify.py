"""``intact verify``: does the engine compute what the file says, and where does anything depart?"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.cli import options
from intact.cli.output import say, show_json, show_table
from intact.cli.verbs.run import open_for
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.engine.compare import Module
    from intact.engine.counts import Comparison, Counts, Distance, TensorCounts
    from intact.graph import Model

DIFFERENT = 1
_OUTPUTS = {
    "reference": "engine against integer reference",
    "file": "engine against file in ONNX Runtime",
    "module": "engine against module",
    "export": "module against file in ONNX Runtime",
}
"""The distances of a comparison, and what they are between."""
SIDES = {
    "engine": "engine against integer reference",
    "file": "file in ONNX Runtime against integer reference",
    "module": "module against integer reference",
    "export": "module against file in ONNX Runtime",
    "alone": "module against integer reference, each layer on its codes",
}
"""The counts of a tensor, and what they count."""


def run(
    model: options.ModelFile,
    data: options.Data = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Verify this plan of it, not one built now.", **options.READ),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="The fake-quantized module: a .py file with load_module(), or package.module:attribute, "
            "a module or what returns one. It is run.",
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
    preset: options.Preset = None,
    all_tensors: Annotated[bool, typer.Option("--all", help="List tensors that agree as well.")] = False,
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Compare the engine, the integer reference, the file in ONNX Runtime, and a module, on your data.

    The engine must equal the integer reference on every code. The file runs with optimizations off: its
    norms, functions and sums of floats are ONNX Runtime's own, so that a code beside a rounding boundary may
    be the neighbouring one, and what follows sees that. The first tensor where it leaves the reference is
    named, and how far the outputs are apart. A module that intact.torch exported is compared tensor by
    tensor too: its weights, what its quantizers make as it runs, and what each layer makes of the
    reference's codes, where nothing but rounding may differ.

    Exit status: 0 where the engine equals the reference and no layer of the module departs from it by more
    than rounding, 1 where one does, 2 where a file cannot be read.

    Examples:

    - `intact verify model.int8.onnx --data photos`
    - `intact verify model.int8.onnx --plan model.plan --data samples.npy --traced 2`
    - `intact verify model.int8.onnx --data photos --module my_model.py`
    - `intact verify model.int8.onnx --data photos --module my_package.models:quantized`
    """
    import intact
    from intact.engine.compare import compare
    from intact.graph import load

    graph = load(model)
    engine = intact.compile(model if plan is None else plan, threads=threads, deterministic=True)
    described = options.data_of(data, size, mean, std, fit, layout, colour, preset)
    source = open_for(engine, described, batch_size, num_batches)
    fake = None if module is None else _module(module, graph)
    found = compare(graph, engine, source.batches, traced=traced, threads=engine.threads, module=fake)
    if as_json:
        show_json(as_record(found, model) | ({"images": source.prepared} if source.prepared else {}))
    else:
        _show(found, model, all_tensors)
        if source.prepared:
            say(options.how_prepared(source.prepared))
    if not found.exact or found.departing is not None:
        raise typer.Exit(DIFFERENT)


def as_record(found: Comparison, model: Path) -> dict[str, Any]:
    """The comparison as JSON has it."""
    tensors = [
        vars(t) | {side: vars(getattr(t, side)) for side in SIDES} | {"departs": t.departs}
        for t in found.tensors
    ]
    departing = found.departing
    return {
        "file": str(model), "exact": found.exact, "samples": found.samples, "traced": found.traced,
        "codes": {side: vars(found.total(side)) for side in SIDES},
        "first": {side: _where(found.first(side)) for side in SIDES}, "departs": _where(departing),
        "answers": {side: vars(counts) for side, counts in found.answers.items()},
        "outputs": {side: _as_json(distance) for side, distance in found.outputs.items()},
        "leaves": None if (leaves := found.first("file", floats=True)) is None else leaves.tensor,
        "float_steps": found.float_steps, "parts": list(found.parts),
        "unmatched": list(found.unmatched), "tensors": tensors,
    }  # fmt: skip


def _as_json(distance: Distance) -> dict[str, Any]:
    """A distance without its sums; `decibels` is None where nothing differs."""
    counts = {"compared": distance.compared, "differing": distance.differing, "largest": distance.largest}
    return counts | {"decibels": distance.decibels if isfinite(distance.decibels) else None}


def _where(tensor: TensorCounts | None) -> str | None:
    return None if tensor is None else tensor.layer or tensor.tensor


def _named(tensor: TensorCounts) -> str:
    return f"{_where(tensor)}" + (f" ({tensor.quantizer})" if tensor.quantizer else "")


def sentences(found: Comparison) -> list[str]:
    """What was found, in sentences."""
    said = []
    for side, name in SIDES.items() if found.traced else ():
        total, first = found.total(side), found.first(side)
        if total.compared:
            where = "" if first is None else f", first in {_named(first)}"
            far = max(tensor.alone.boundary for tensor in found.tensors) if side == "alone" else 0.0
            beside = f", {far:.1e} of a step from a rounding boundary" if far else ""
            said.append(f"codes, {name}: {_of(total)}{beside}{where}")
    for side, counts in found.answers.items():
        against = {"file": "file in ONNX Runtime"}.get(side, side)
        said.append(f"top-1, engine against {against}: {_of(counts)}")
    said += _end_to_end(found)
    if found.unmatched:
        more = f" and {len(found.unmatched) - 5} more" if len(found.unmatched) > 5 else ""
        said.append(f"not compared, in the module or the file alone: {', '.join(found.unmatched[:5])}{more}")
    if found.departing is not None:
        said.append(f"the module departs by more than rounding, first in {_named(found.departing)}")
    return said


def _end_to_end(found: Comparison) -> Iterator[str]:
    """How far the outputs are apart, where the file leaves the reference, and what may make it do so."""
    from intact.placement import in_other_runtimes

    for side, name in _OUTPUTS.items():
        if (distance := found.outputs.get(side)) is not None and distance.compared:
            far = f", {distance.decibels:.1f} dB" if distance.noise else ""
            yield f"outputs, {name}: {_of(distance)}{far}"
    if (leaves := found.first("file", floats=True)) is not None:
        step = f" of {leaves.layer}" if leaves.layer else ""
        yield (
            f"the file in ONNX Runtime leaves the reference first in the {_kind(leaves)} "
            f"'{leaves.tensor}'{step}: {_of(leaves.file)}"
        )
    yield in_other_runtimes(found.float_steps)
    if found.parts:
        more = f" and {len(found.parts) - 5} more" if len(found.parts) > 5 else ""
        yield f"in ONNX Runtime, in float, of which nothing is promised: {', '.join(found.parts[:5])}{more}"


def _of(counts: Counts) -> str:
    if not counts.compared:
        return ""
    by = f", by at most {counts.largest:.4g}" if counts.largest else ""
    return f"{counts.differing:,} of {counts.compared:,} differ{by}"


def _show(found: Comparison, model: Path, all_tensors: bool) -> None:
    sides = [side for side in SIDES if side in ("engine", "file") or found.total(side).compared]
    shown = [t for t in found.tensors if all_tensors or any(getattr(t, s).differing for s in sides)]
    counts = attrgetter(*sides)
    rows = [(t.tensor, t.layer, _kind(t), *map(_of, counts(t))) for t in shown]
    if rows and found.traced:
        columns = ("tensor", "layer", "compared", *(_COLUMNS.get(side, side) for side in sides))
        show_table(f"{model.name}: against the integer reference, {found.traced} samples", columns, rows)
    for line in sentences(found):
        say(line)
    if not found.traced:
        say("codes: not compared, for no batch was traced")


def _kind(tensor: TensorCounts) -> str:
    return "codes" if tensor.codes else "indices" if tensor.indices else "floats"


_COLUMNS = {"export": "module, file", "alone": "module, layer by layer"}


def _module(name: str, graph: Model) -> Module:
    from intact.graph import tagged_pairs
    from intact.torch.models.array_runner import Runner

    return Runner(_loaded(name), tagged_pairs(graph))


def _loaded(name: str) -> Any:
    """What load_module() of a .py file returns; or an importable attribute, called where it makes one."""
    from intact.ptq.data import scripts

    if Path(name).is_file():
        return scripts.call(Path(name), "load_module", "the module")
    (package, _, attribute), here = name.partition(":"), str(Path.cwd())
    sys.path.insert(0, here)  # as `python -m` has it, and a console script does not
    try:
        found = attrgetter(attribute)(importlib.import_module(package))
    # Importing runs the package's own code, which may raise or exit as it likes.
    except (Exception, SystemExit) as error:
        raise QuantValueError(
            "--module", f"'{name}': {type(error).__name__}: {error}",
            "a .py file, or package.module:attribute", "correct the path or the name",
        ) from error  # fmt: skip
    finally:
        sys.path.remove(here)
    makes = isinstance(found, type) or not hasattr(found, "named_modules")  # a module is callable too
    with scripts.blamed(f"--module '{name}'"):
        return found() if makes and callable(found) else found
