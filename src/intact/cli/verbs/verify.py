"""``intact verify`` checks that the engine computes what the file says, and names the first difference."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from numpy.typing import NDArray

from intact.cli import shared_options
from intact.cli.printing import say, show_json, show_table
from intact.cli.verbs.run import open_for
from intact.errors import QuantValueError
from intact.reading import require_regular

if TYPE_CHECKING:
    from intact.engine import Engine
    from intact.engine.compare import CLibrary, Comparison, Counts, Distance, Module, TensorCounts
    from intact.graph import Model
    from intact.ptq.data import Source

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
    model: Annotated[
        Path, typer.Argument(help="An ONNX file; or a plan by itself; with --against weights.", exists=True)
    ],
    data: shared_options.Data = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Verify this plan of it, not one built now.", **shared_options.READ),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="The fake-quantized module: a .py file with load_module(), or package.module:attribute, "
            "a module or what returns one. It is run.",
        ),
    ] = None,
    with_c: Annotated[
        bool, typer.Option("--c", help="Run the C library, too: its outputs must be the engine's.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(help="Compare the floats of two files of weights: GGUF, safetensors.", exists=True),
    ] = None,
    threads: shared_options.Threads = None,
    traced: Annotated[
        int, typer.Option(min=0, help="Batches in which every tensor is compared; the reference is slow.")
    ] = 1,
    num_batches: shared_options.NumBatches = None,
    batch_size: shared_options.BatchSize = None,
    size: shared_options.Size = None,
    mean: shared_options.Mean = None,
    std: shared_options.Std = None,
    fit: shared_options.Fit = None,
    layout: shared_options.Layout = None,
    colour: shared_options.Colour = None,
    preset: shared_options.Preset = None,
    all_tensors: Annotated[bool, typer.Option("--all", help="List tensors that agree as well.")] = False,
    as_json: shared_options.AsJson = False,
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

    A plan by itself, without data, runs its self-test: `intact build` stored checksums of the outputs of test
    inputs, and this machine must give the same.

    With --against, the floats of two files that `intact convert` reads are compared tensor by tensor, and the
    status is 1 where any differs.

    Examples:

    - `intact verify model.plan`
    - `intact verify model.int8.onnx --data photos --c` proves that the C library gives the same
    - `intact verify model.int8.onnx --data photos`
    - `intact verify model.int8.onnx --plan model.plan --data samples.npy --traced 2`
    - `intact verify model.int8.onnx --data photos --module my_model.py`
    - `intact verify model.int8.onnx --data photos --module my_package.models:quantized`
    - `intact verify model.gguf --against folder`
    """
    if against is not None:
        _compare_weights(model, against, all_tensors, as_json)
        return
    require_regular(model)
    from intact.engine.files import plan_files as files

    if data is None and plan is None and module is None and files.is_plan(model):
        _selftest(model, threads, with_c, as_json)
        return
    import intact
    from intact.graph import load

    graph = load(model)
    engine = intact.compile(model if plan is None else plan, threads=threads, deterministic=True)
    described = shared_options.data_of(data, size, mean, std, fit, layout, colour, preset)
    source = open_for(engine, described, batch_size, num_batches)
    comparison, beside = _compare(graph, engine, source, traced, _module(module, graph), with_c)
    _report(comparison, beside, source, model, all_tensors, as_json)
    if not comparison.exact or comparison.departing is not None or beside.differing:
        raise typer.Exit(DIFFERENT)


def _compare_weights(model: Path, against: Path, all_tensors: bool, as_json: bool) -> None:
    from intact.cli.verbs.convert import verify_weights

    verify_weights(model, against, all_tensors=all_tensors, as_json=as_json)


def _report(
    comparison: Comparison, beside: _Beside, source: Source, model: Path, all_tensors: bool, as_json: bool
) -> None:
    if as_json:
        images = {"images": source.prepared} if source.prepared else {}
        show_json(as_record(comparison, model) | images | beside.as_record())
        return
    _show_comparison(comparison, model, all_tensors)
    for line in beside.sentences():
        say(line)
    if source.prepared:
        say(shared_options.preparation_note(source.prepared))


def _compare(
    graph: Model, engine: Engine, source: Source, traced: int, module: Module | None, with_c: bool
) -> tuple[Comparison, _Beside]:
    """Compare on all batches, if asked with the C library beside the engine."""
    from intact.engine.compare import c_library_of, compare

    with ExitStack() as stack:
        beside = _Beside(stack.enter_context(c_library_of(engine)) if with_c else None, engine)
        batches = beside.compare(source.batches)
        comparison = compare(graph, engine, batches, traced=traced, threads=engine.threads, module=module)
        return comparison, beside


class _Beside:
    """Counts where the outputs of the C library, if there is one, are not the engine's."""

    def __init__(self, library: CLibrary | None, engine: Engine) -> None:
        self._library, self._engine = library, engine
        self.compared, self.differing = 0, dict[str, int]()

    def compare(self, batches: Iterable[Mapping[str, NDArray]]) -> Iterator[Mapping[str, NDArray]]:
        """Yield the batches, each of which both have run."""
        from intact.engine.compare import differing_elements

        for feeds in batches:
            if self._library is None:
                yield feeds
                continue
            want, got = self._engine.run(feeds), self._library.run(feeds)
            for name, array in want.items():
                self.compared += array.size
                if count := differing_elements(array, got[name]):
                    self.differing[name] = self.differing.get(name, 0) + count
            yield feeds

    def as_record(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        counts = {"compared": self.compared, "differing": self.differing}
        return {} if self._library is None else {"c": counts}

    def sentences(self) -> Iterator[str]:
        """Yield a sentence on the counts."""
        if self._library is None:
            return
        where = f", first in '{min(self.differing)}'" if self.differing else ""
        total = sum(self.differing.values())
        yield f"outputs, C library against engine: {total:,} of {self.compared:,} differ{where}"


def _selftest(path: Path, threads: int | None, with_c: bool, as_json: bool) -> None:
    """Run the self-test of a plan file, in the engine and, if asked, in the C library."""
    import intact
    from intact.engine.compare import CLibrary

    engine = intact.load(path, threads=threads, deterministic=True)
    differing = list(engine.selftest())
    if with_c:
        library = CLibrary(engine, path)
        if not library.passes_selftest():
            differing.append("the C library's")
        library.close()
    if as_json:
        show_json({"file": str(path), "exact": not differing, "differing": differing})
    elif differing:
        say(f"differs from the machine that built it: {', '.join(differing)}")
    else:
        say(f"self-test: {len(engine.outputs)} outputs equal those of the machine that built the plan")
    if differing:
        raise typer.Exit(DIFFERENT)


def as_record(comparison: Comparison, model: Path) -> dict[str, Any]:
    """Return the comparison as a JSON object."""
    tensors = [
        vars(t) | {side: vars(getattr(t, side)) for side in SIDES} | {"departs": t.departs}
        for t in comparison.tensors
    ]
    departing = comparison.departing
    return {
        "file": str(model), "exact": comparison.exact, "samples": comparison.samples,
        "traced": comparison.traced,
        "codes": {side: vars(comparison.total(side)) for side in SIDES},
        "first": {side: _where(comparison.first(side)) for side in SIDES}, "departs": _where(departing),
        "answers": {side: vars(counts) for side, counts in comparison.answers.items()},
        "outputs": {side: _as_json(distance) for side, distance in comparison.outputs.items()},
        "leaves": None if (leaves := comparison.first("file", floats=True)) is None else leaves.tensor,
        "float_steps": comparison.float_steps, "parts": list(comparison.parts),
        "unmatched": list(comparison.unmatched), "tensors": tensors,
    }  # fmt: skip


def _as_json(distance: Distance) -> dict[str, Any]:
    """Return a distance without its sums; `decibels` is None where nothing differs."""
    counts = {"compared": distance.compared, "differing": distance.differing, "largest": distance.largest}
    return counts | {"decibels": distance.decibels if isfinite(distance.decibels) else None}


def _where(tensor: TensorCounts | None) -> str | None:
    return None if tensor is None else tensor.layer or tensor.tensor


def _label(tensor: TensorCounts) -> str:
    return f"{_where(tensor)}" + (f" ({tensor.quantizer})" if tensor.quantizer else "")


def sentences(comparison: Comparison) -> list[str]:
    """Describe the comparison in sentences."""
    lines = []
    for side, name in SIDES.items() if comparison.traced else ():
        total, first = comparison.total(side), comparison.first(side)
        if total.compared:
            where = "" if first is None else f", first in {_label(first)}"
            far = max(tensor.alone.boundary for tensor in comparison.tensors) if side == "alone" else 0.0
            beside = f", {far:.1e} of a step from a rounding boundary" if far else ""
            lines.append(f"codes, {name}: {_of(total)}{beside}{where}")
    for side, counts in comparison.answers.items():
        against = {"file": "file in ONNX Runtime"}.get(side, side)
        lines.append(f"top-1, engine against {against}: {_of(counts)}")
    lines += _end_to_end(comparison)
    if comparison.unmatched:
        more = f" and {len(comparison.unmatched) - 5} more" if len(comparison.unmatched) > 5 else ""
        lines.append(
            f"not compared, in the module or the file alone: {', '.join(comparison.unmatched[:5])}{more}"
        )
    if comparison.departing is not None:
        lines.append(f"the module departs by more than rounding, first in {_label(comparison.departing)}")
    return lines


def _end_to_end(comparison: Comparison) -> Iterator[str]:
    """Yield sentences on the distance of the outputs, and on what may cause it."""
    from intact.placement import in_other_runtimes

    for side, name in _OUTPUTS.items():
        if (distance := comparison.outputs.get(side)) is not None and distance.compared:
            far = f", {distance.decibels:.1f} dB" if distance.noise else ""
            yield f"outputs, {name}: {_of(distance)}{far}"
    if (leaves := comparison.first("file", floats=True)) is not None:
        step = f" of {leaves.layer}" if leaves.layer else ""
        yield (
            f"the file in ONNX Runtime leaves the reference first in the {_kind(leaves)} "
            f"'{leaves.tensor}'{step}: {_of(leaves.file)}"
        )
    yield in_other_runtimes(comparison.float_steps)
    if comparison.parts:
        more = f" and {len(comparison.parts) - 5} more" if len(comparison.parts) > 5 else ""
        names = ", ".join(comparison.parts[:5])
        yield f"in ONNX Runtime, in float, of which nothing is promised: {names}{more}"


def _of(counts: Counts) -> str:
    if not counts.compared:
        return ""
    by = f", by at most {counts.largest:.4g}" if counts.largest else ""
    return f"{counts.differing:,} of {counts.compared:,} differ{by}"


def _show_comparison(comparison: Comparison, model: Path, all_tensors: bool) -> None:
    sides = [side for side in SIDES if side in ("engine", "file") or comparison.total(side).compared]
    shown = [t for t in comparison.tensors if all_tensors or any(getattr(t, s).differing for s in sides)]
    counts = attrgetter(*sides)
    rows = [(t.tensor, t.layer, _kind(t), *map(_of, counts(t))) for t in shown]
    if rows and comparison.traced:
        columns = ("tensor", "layer", "compared", *(_COLUMNS.get(side, side) for side in sides))
        show_table(f"{model.name}: against the integer reference, {comparison.traced} samples", columns, rows)
    for line in sentences(comparison):
        say(line)
    if not comparison.traced:
        say("codes: not compared, for no batch was traced")


def _kind(tensor: TensorCounts) -> str:
    return "codes" if tensor.codes else "indices" if tensor.indices else "floats"


_COLUMNS = {"export": "module, file", "alone": "module, layer by layer"}


def _module(name: str | None, graph: Model) -> Module | None:
    if name is None:
        return None
    from intact.graph import read_named_pairs
    from intact.torch.models import Runner

    return Runner(_load_module(name), read_named_pairs(graph))


def _load_module(name: str) -> Any:
    """Return what load_module() of a .py file returns, or an importable attribute, called if needed."""
    from intact.ptq.data import user_scripts

    if Path(name).is_file():
        return user_scripts.call(Path(name), "load_module", "the module")
    (package, _, attribute), here = name.partition(":"), str(Path.cwd())
    sys.path.insert(0, here)  # as `python -m` has it, and a console script does not
    try:
        target = attrgetter(attribute)(importlib.import_module(package))
    # Importing runs the package's own code, which may raise or exit as it likes.
    except (Exception, SystemExit) as error:
        raise QuantValueError(
            "--module", f"'{name}': {type(error).__name__}: {error}",
            "a .py file, or package.module:attribute", "correct the path or the name",
        ) from error  # fmt: skip
    finally:
        sys.path.remove(here)
    makes = isinstance(target, type) or not hasattr(target, "named_modules")  # a module is callable too
    with user_scripts.attribute_errors(f"--module '{name}'"):
        return target() if makes and callable(target) else target
