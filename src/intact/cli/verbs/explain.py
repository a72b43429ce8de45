"""``intact explain`` shows what runs in int8, what it fuses with, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import READ, AsJson, Exclude, Include, ProfileName
from intact.cli.verbs.build import subgraphs
from intact.errors import QuantValueError, UnsupportedError

if TYPE_CHECKING:
    from intact.engine import Plan
    from intact.graph import Model
    from intact.placement import Placement

_BOOLS = 2  # inputs that decide, of which all combinations are shown


def run(
    model: Annotated[Path, typer.Argument(help="An ONNX file, or a plan.", **READ)],
    profile: ProfileName = "intact",
    include: Include = None,
    exclude: Exclude = None,
    precision: Annotated[
        str | None, typer.Option(help="Show only the layers that run in this: int8 or float.")
    ] = None,
    kernels: Annotated[
        bool,
        typer.Option("--kernels", help="Of a plan: which form of each layer runs here, and what decided it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show layer by layer what runs in int8, fused into what, and why.

    For a file with Q/DQ pairs, dynamic ranges or weights in codes: what they make of it; with the profile
    "intact", what the steps of its plan do. For a float file: what `intact quantize` would do. For a plan:
    what its steps do, which `--json` names, and what of it ONNX Runtime runs.

    Examples:

    - `intact explain model.onnx`
    - `intact explain model.plan`
    - `intact explain model.plan --kernels` shows which kernel each layer has on this machine, and by what
    - `intact explain float.onnx --profile tensorrt --exclude 'head/*'`
    - `intact explain model.onnx --precision float` shows what did not make it, and why
    """
    from intact.placement import explain

    if kernels:
        show_kernels(model, as_json)
        return
    if precision not in (None, "int8", "float"):
        raise QuantValueError("--precision", repr(precision), "int8 or float", "choose one of these")
    plan, quantized, engine = _plan(model), True, "intact"
    if plan is None and profile == "intact" and not (include or exclude) and _quantizes_itself(model):
        plan = _lower(model)
    branches: list[Placement] = []
    if plan is None:
        quantized, (placement, *branches) = read(model, profile, include or (), exclude or ())
        rows, engine = explain(placement), placement.profile.name
        plan = _lower(model) if quantized and engine == "intact" else None
    branch_plans = plan_for_each_branch(plan) if plan is not None else {}
    if plan is not None:
        rows = with_steps(explain(plan), plan)
    if branch_plans:
        parts = {words: with_steps(explain(part), part) for words, part in branch_plans.items()}
        rows = _side_by_side(parts)
        branches = []
    rows += [row for branch in branches for row in explain(branch)]
    counts = Counter(str(row["precision"]) for row in rows)
    if precision is not None:
        rows = [row for row in rows if row["precision"] == precision]
    if as_json:
        show_json({"file": str(model), "quantized": quantized, "profile": engine, "layers": rows})
        return
    title = f"{model.name}: {'as the file says' if quantized else 'as it would be quantized'}"
    columns = ("layer", "runs in", "as", "why")
    cells = [(row["layer"], row["precision"], row["fused"], _why(row)) for row in rows]
    show_table(title, columns, cells)
    say(f"{counts['int8']} layers in int8, {counts['float']} in float, for {engine}")
    for part in branch_plans.values() or ([] if plan is None else [plan]):
        for name, reason in subgraphs(part).items():
            say(f"in ONNX Runtime: {name}: {reason}")
    if plan is not None and plan.deciding:
        say(f"once {', '.join(plan.deciding)} is known, the branch that it takes runs as the rest")


def plan_for_each_branch(plan: Plan) -> dict[str, Plan]:
    """Return a plan for each value of the bools that decide between branches, by the values in words.

    Nothing where other inputs decide, too many, or where the engine does not take a branch.
    """
    tensors = [plan.tensors[name] for name in plan.deciding]
    if not plan.model or not 0 < len(tensors) <= _BOOLS or any(t.stored_dtype != "bool" for t in tensors):
        return {}
    from intact.engine.lower import lower

    model, plans = plan.constants[plan.model].tobytes(), {}
    for values in product((True, False), repeat=len(tensors)):
        words = ", ".join(f"{name} = {value}" for name, value in zip(plan.deciding, values, strict=True))
        arrays = {t.name: np.full([1] * len(t.shape), v) for t, v in zip(tensors, values, strict=True)}
        try:
            plans[words] = lower(model, values=arrays, keep_codes=False)
        except UnsupportedError:
            return {}
    return plans


def _side_by_side(rows: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    """Return the rows that all plans have, and behind them those of each, named by the values."""
    first, *rest = rows.values()
    common = [row for row in first if all(row in other for other in rest)]
    return common + [
        row | {"layer": f"{words}: {row['layer']}"}
        for words, part in rows.items()
        for row in part
        if row not in common
    ]


def _why(row: dict[str, object]) -> str:
    """Return the reason of a row, and how its sums become codes."""
    rounding = row.get("rounding")
    return f"{row['reason']}; codes by a {rounding}" if rounding else str(row["reason"])


def show_kernels(model: Path, as_json: bool) -> None:
    """Print the chosen kernel of each layer that has several, and the measured times of the others."""
    import intact

    choices = intact.compile(model).choices()
    if as_json:
        layers = [
            {
                "layer": step.name, "runs": choice.form, "by": choice.by, "model": choice.default,
                "seconds": dict(choice.seconds),
            }
            for step, choice in choices
        ]  # fmt: skip
        show_json({"file": str(model), "layers": layers})
        return
    rows = []
    for step, choice in choices:
        times = ", ".join(f"{form} {seconds * 1e6:.1f}" for form, seconds in choice.seconds.items())
        rows.append((step.name, choice.form, choice.by, times))
    show_table(f"{model.name}: on this machine", ("layer", "runs", "chosen by", "us"), rows)


def with_steps(rows: list[dict[str, object]], plan: Plan) -> list[dict[str, object]]:
    """Add the kinds of steps that run each layer, and how its sums become codes (N22).

    Among the kinds "onnx" is ONNX Runtime. "rounding" is "product", "division", or "" where no sum does.
    """
    from intact.engine.steps import writes

    kinds: dict[str, list[str]] = {}
    rounding: dict[str, str] = {}
    for step in plan.steps:
        epilogue = getattr(step, "epilogue", None)
        for node in step.nodes:
            kinds.setdefault(node, []).append(step.kind)
            if epilogue is not None and plan.tensors[writes(step)[0]].codes is not None:
                rounding[node] = "division" if epilogue.divides or epilogue.activation else "product"
    return [
        row | {"steps": kinds.get(str(row["layer"]), []), "rounding": rounding.get(str(row["layer"]), "")}
        for row in rows
    ]


def _plan(model: Path) -> Plan | None:
    """Return the plan of a plan file; None for other files."""
    from intact.engine.files import plan_files as files

    return files.load(model).plan if files.is_plan(model) else None


def _lower(model: Path) -> Plan | None:
    """Lower a file with pairs to a plan; return None where the engine does not take it."""
    from intact.engine.lower import lower

    try:
        return lower(model)
    except UnsupportedError:
        return None


def _quantizes_itself(model: Path) -> bool:
    """Return whether layers of a file quantize their input while they run, or have weights in codes."""
    from intact.graph import is_dynamic, load

    return any(map(is_dynamic, load(model).graph.all_nodes()))


def read(
    model: Path, profile: str, include: Sequence[str], exclude: Sequence[str]
) -> tuple[bool, list[Placement]]:
    """Return whether the file has Q/DQ pairs, and the placement of the main graph and of its branches.

    Raises:
        QuantValueError: Patterns are given for a file whose pairs have decided already, or as for `place`.
    """
    from intact.graph import is_op, load, pipelines, run_stages, upgrade_opset
    from intact.placement import place, read_placement
    from intact.ptq.scope import NameResolver, node_names

    graph = load(model)
    before = node_names(graph)
    run_stages(graph, pipelines.EXPLAIN)
    if not any(is_op(node, "QuantizeLinear", "DequantizeLinear") for node in graph.graph.all_nodes()):
        upgrade_opset(graph, max(graph.opset_imports.get("", 13), 13))
        run_stages(graph, pipelines.KNOWN_FORMS)
        resolver = NameResolver(before, graph)
        include, exclude = (
            [name for names in resolver.resolve(where, patterns).values() for name in names]
            for where, patterns in (("include", include), ("exclude", exclude))
        )
        main = place(graph, profile, include=include, exclude=exclude)
        return False, [main, *(place(branch, profile) for branch in _branches(graph))]
    if include or exclude:
        raise QuantValueError(
            "include, exclude",
            "patterns for a file that has Q/DQ pairs",
            "a float file",
            "leave them out, or take the pairs away first: intact strip",
        )
    return True, [read_placement(graph_part, profile) for graph_part in (graph, *_branches(graph))]


def _branches(model: Model) -> Iterator[Model]:
    """Yield the branches of Ifs, and those of branches, as models."""
    from intact.graph import branches_of, load

    for branch in branches_of(model):
        part = load(branch.model)
        yield part
        yield from _branches(part)
