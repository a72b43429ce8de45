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
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.engine import Engine, Plan


TuneSeconds = Annotated[
    float | None,
    typer.Option(
        "--tune-seconds",
        min=0.01,
        callback=check_optional_seconds,
        help="Time the forms that layers have, about so long, and keep the fastest; 1 is enough for "
        "ResNet-50. Default: a cost model chooses.",
    ),
]
TimingCache = Annotated[
    Path | None,
    typer.Option(
        "--timing-cache", help="A file of what was timed before: read, and with --tune-seconds written."
    ),
]
NoFallback = Annotated[
    bool,
    typer.Option(
        "--no-fallback", help="Fail, and name the nodes, where a part would run in ONNX Runtime or Python."
    ),
]
EmitConfig = Annotated[
    Path | None,
    typer.Option(
        help="Write the kinds of steps, for a C library of these alone (cmake -DINTACT_KINDS=).",
        callback=check_output_path,
    ),
]
EpContext = Annotated[
    bool,
    typer.Option(
        "--ep-context",
        help="Write an ONNX file of one EPContext node, which ONNX Runtime runs by INTact's provider.",
    ),
]
ExternalPlan = Annotated[
    bool, typer.Option("--external-plan", help="With --ep-context: write the plan beside it, as OUT.plan.")
]
ShowNotes = Annotated[bool, typer.Option("--notes", help="Print what every pass did.")]


def run(
    model: ModelFile,
    out: Out,
    threads: Threads = None,
    shapes: Annotated[str, typer.Option("--shapes", help=SHAPES)] = "",
    tune_seconds: TuneSeconds = None,
    timing_cache: TimingCache = None,
    no_fallback: NoFallback = False,
    emit_config: EmitConfig = None,
    ep_context: EpContext = False,
    external_plan: ExternalPlan = False,
    show_notes: ShowNotes = False,
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
    - `intact build model.int8.onnx --ep-context -o model_ctx.onnx` for ONNX Runtime in any language
    - `intact run model.plan --data samples.npy -o outputs.npz` afterwards
    """
    import intact
    from intact.engine import require_native

    if external_plan and not ep_context:
        raise QuantValueError(
            "--external-plan", "no --ep-context", "both", "add --ep-context: a plan by itself is one file"
        )
    start = time.perf_counter()
    engine = intact.compile(
        model, threads=threads, shapes=read_shapes(shapes) or None, tune_seconds=tune_seconds,
        timing_cache=timing_cache,
    )  # fmt: skip
    if no_fallback or emit_config is not None:
        require_native(engine, model, "--no-fallback and --emit-config demand them")
    has_selftest = engine.add_selftest()
    nbytes = _save(engine, model, out, ep_context, external_plan)
    write_config(emit_config, engine.plan)
    report = _as_record(engine.plan, model, out, nbytes)
    report |= {"seconds": time.perf_counter() - start, "selftest": has_selftest}
    if as_json:
        show_json(report)
        return
    chosen = Counter(choice.by for _, choice in engine.choices()) if tune_seconds or timing_cache else {}
    _show_engine(report, model, out, chosen)
    if engine.plan.model:
        say("made anew for every set of input shapes; --shapes fixes one")
    for name, reason in subgraphs(engine.plan).items():
        say(f"in ONNX Runtime: {name}: {reason}")
    for note in engine.plan.notes if show_notes else ():
        say(note)


def _save(engine: Engine, model: Path, out: Path, ep_context: bool, external_plan: bool) -> int:
    """Write the plan, or the model that holds or names it; return the bytes of what was written."""
    from intact.engine import save_ep_context

    if not ep_context:
        engine.save(out)
        return out.stat().st_size
    plan = save_ep_context(engine, model, out, is_external=external_plan)
    return out.stat().st_size + (0 if plan is None else plan.stat().st_size)


def _as_record(plan: Plan, model: Path, out: Path, nbytes: int) -> dict[str, Any]:
    """Return what was built as a JSON object."""
    steps, layers = describe(plan)
    return {
        "out": str(out), "steps": steps, "layers": layers, "onnxruntime": subgraphs(plan),
        "bytes": {"before": model.stat().st_size, "after": nbytes}, "notes": plan.notes,
    }  # fmt: skip


def _show_engine(report: Mapping[str, Any], model: Path, out: Path, chosen: Mapping[str, int]) -> None:
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
