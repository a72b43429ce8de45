"""``intact build`` compiles a Q/DQ file to a plan file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.atomic import replacing
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import (
    SHAPES,
    AsJson,
    ModelFile,
    Out,
    Threads,
    check_optional_seconds,
    check_output_path,
    read_shapes,
)
from intact.errors import UnsupportedError

if TYPE_CHECKING:
    from intact.engine import Plan


NoFallback = Annotated[
    bool,
    typer.Option(
        "--no-fallback", help="Fail, and name the nodes, where a part would run in ONNX Runtime or Python."
    ),
]


def run(
    model: ModelFile,
    out: Out,
    threads: Threads = None,
    shapes: Annotated[str, typer.Option("--shapes", help=SHAPES)] = "",
    tune_seconds: Annotated[
        float | None,
        typer.Option(
            "--tune-seconds",
            min=0.01,
            callback=check_optional_seconds,
            help="Time the forms that layers have, about so long, and keep the fastest; 1 is enough for "
            "ResNet-50. Default: a cost model chooses.",
        ),
    ] = None,
    timing_cache: Annotated[
        Path | None,
        typer.Option(
            "--timing-cache", help="A file of what was timed before: read, and with --tune-seconds written."
        ),
    ] = None,
    no_fallback: NoFallback = False,
    emit_config: Annotated[
        Path | None,
        typer.Option(
            help="Write the kinds of steps, for a C library of these alone (cmake -DINTACT_KINDS=).",
            callback=check_output_path,
        ),
    ] = None,
    show_notes: Annotated[bool, typer.Option("--notes", help="Print what every pass did.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build the engine of a Q/DQ file and write it as a plan.

    The plan holds the int8 weights as they are and as this machine's kernels want them. It runs on any
    machine: one with other kernels packs the weights again. `intact explain` reads plans too.

    Examples:

    - `intact build model.int8.onnx -o model.plan`
    - `intact build model.int8.onnx -o model.plan --notes`
    - `intact build model.int8.onnx -o model.plan --tune-seconds 1` measures which kernels are fastest here
    - `intact build model.int8.onnx -o model.plan --shapes x:1x3x224x224` for inputs of this shape alone
    - `intact build model.int8.onnx -o model.plan --emit-config model.kinds` for a small C library
    - `intact build model.int8.onnx -o model.plan --no-fallback`: a plan that the C library runs, or an error
    - `intact run model.plan --data samples.npy -o outputs.npz` afterwards
    """
    import intact

    start = time.perf_counter()
    engine = intact.compile(
        model, threads=threads, shapes=read_shapes(shapes) or None, tune_seconds=tune_seconds,
        timing_cache=timing_cache,
    )  # fmt: skip
    if no_fallback or emit_config is not None:
        require_native(engine.plan, model)
    has_selftest = engine.add_selftest()
    engine.save(out)
    write_config(emit_config, engine.plan)
    report = _as_record(engine.plan, model, out)
    report |= {"seconds": time.perf_counter() - start, "selftest": has_selftest}
    if as_json:
        show_json(report)
        return
    chosen = Counter(choice.by for _, choice in engine.choices()) if tune_seconds or timing_cache else {}
    _show(report, model, out, chosen)
    if engine.plan.model:
        say("made anew for every set of input shapes; --shapes fixes one")
    for name, reason in subgraphs(engine.plan).items():
        say(f"in ONNX Runtime: {name}: {reason}")
    for note in engine.plan.notes if show_notes else ():
        say(note)


def _as_record(plan: Plan, model: Path, out: Path) -> dict[str, Any]:
    """Return what was built as a JSON object."""
    steps, layers = describe(plan)
    nbytes = {"before": model.stat().st_size, "after": out.stat().st_size}
    return {
        "out": str(out), "steps": steps, "layers": layers, "onnxruntime": subgraphs(plan), "bytes": nbytes,
        "notes": plan.notes,
    }  # fmt: skip


def _show(report: Mapping[str, Any], model: Path, out: Path, chosen: Mapping[str, int]) -> None:
    steps, layers, nbytes = report["steps"], report["layers"], report["bytes"]
    rows = [(f"layers in {name}", f"{count:,}") for name, count in layers.items()]
    rows += [("native steps", f"{sum(steps.values()) - steps.get('onnx', 0):,}")]
    rows += [("subgraphs in ONNX Runtime", f"{steps.get('onnx', 0):,}")]
    rows += [(f"forms of layers by {by}", f"{count:,}") for by, count in sorted(chosen.items())]
    rows += [("bytes before", f"{nbytes['before']:,}"), ("bytes after", f"{nbytes['after']:,}")]
    rows += [("seconds", f"{report['seconds']:.1f}")]
    show_table(f"{model.name} -> {out}", ("", "built"), rows, figures=("built",))


def describe(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Count the steps of each kind and the layers of each precision in a plan."""
    steps = Counter(step.kind for step in plan.steps)
    layers = Counter(layer.precision for layer in plan.layers)
    return dict(sorted(steps.items())), {"int8": layers["int8"], "float": layers["float"]}


def subgraphs(plan: Plan) -> dict[str, str]:
    """Return the subgraphs that ONNX Runtime runs, each with the reason."""
    from intact.engine.steps import FallbackSubgraph

    return {step.name: step.reason for step in plan.steps if isinstance(step, FallbackSubgraph)}


def require_native(plan: Plan, model: Path) -> None:
    """Refuse a plan that the C library does not run.

    Raises:
        UnsupportedError: Names the nodes that ONNX Runtime or Python would run, or the tensors of strings.
    """
    from intact.engine.steps import STRING

    foreign = [f"{' '.join(s.nodes) or s.name} ({s.kind})" for s in plan.steps if not s.native]
    foreign += [f"{tensor.name} (strings)" for tensor in plan.tensors.values() if tensor.dtype == STRING]
    if plan.model and not foreign:
        foreign = ["sizes that decide what runs"]
    if foreign:
        more = f" and {len(foreign) - 10} more" if len(foreign) > 10 else ""
        raise UnsupportedError(
            f"file '{model}'", f"parts without native steps: {', '.join(foreign[:10])}{more}",
            "native steps alone, as --no-fallback and --emit-config demand",
            "change these nodes, fix the sizes of the inputs by --shapes, or leave these options out",
        )  # fmt: skip


def write_config(path: Path | None, plan: Plan) -> None:
    """Write the kinds of a plan's steps, one a line, and `depthwise` where a convolution has groups."""
    from intact.engine.steps import Conv

    if path is None:
        return
    names = {step.kind for step in plan.steps}
    if any(isinstance(step, Conv) and step.groups > 1 for step in plan.steps):
        names.add("depthwise")
    lines = ["# Kinds of steps: cmake -DINTACT_PYTHON=OFF -DINTACT_KINDS=<this file>", *sorted(names)]
    with replacing(path) as new:
        new.write("\n".join([*lines, ""]).encode())
