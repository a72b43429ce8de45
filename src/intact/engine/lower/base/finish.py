"""Turn a builder into a plan: order the steps, cut subgraphs for the rest, and name tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dtype_of, is_float32
from intact.engine.lower.base.order import Part, in_order, values_read
from intact.engine.plan import Plan
from intact.engine.steps import FallbackSubgraph, Step
from intact.engine.steps.base.wiring import constants, reads, rename_tensors, writes
from intact.errors import UnsupportedError
from intact.graph import cut, is_op


def finish(builder: PlanBuilder, notes: list[str]) -> tuple[Plan, dict[str, str]]:
    """Turn `builder` into a plan without layers, and return the reasons of nodes without a step by name.

    Raises:
        UnsupportedError: The graph puts out or reads what a plan cannot hold.
    """
    try:
        builder, steps = _steps(builder)
    except NoMatch as why:  # a value that a subgraph would hand over has no known rank
        _give_up_all(builder, str(why))
        builder, steps = _all_at_once(builder)
    part_notes = [_note(step) for step in steps if isinstance(step, FallbackSubgraph)]
    inputs = tuple(value.name or "" for value in builder.model.graph.inputs)
    outputs = tuple(value.name or "" for value in builder.model.graph.outputs)
    steps = _name_codes(builder, steps, inputs, outputs)
    used = {name for step in steps for name in (*reads(step), *writes(step))} | {*inputs, *outputs}
    used_names = {name for step in steps for name in (*constants(step), *reads(step))}
    plan = Plan(
        tuple(steps),
        {name: tensor for name, tensor in builder.tensors.items() if name in used},
        {name: array for name, array in builder.arrays.items() if name in used_names},
        inputs, outputs, notes=(*notes, *part_notes),
    )  # fmt: skip
    return plan, {node.name or "": why for node, why in builder.reasons.items()}


def _give_up_all(builder: PlanBuilder, why: str) -> None:
    """Leave the whole graph to one subgraph."""
    graph = builder.model.graph
    ports = {value.name for value in (*graph.inputs, *graph.outputs)}
    builder.steps.clear()
    builder.done.clear()
    builder.reasons = dict.fromkeys(graph, why)
    for name in [name for name in builder.tensors if name not in ports]:
        del builder.tensors[name]


def _all_at_once(builder: PlanBuilder) -> tuple[PlanBuilder, list[Step]]:
    try:
        return _steps(builder)
    except NoMatch as why:
        raise UnsupportedError(
            "model",
            str(why),
            "inputs and outputs of a known rank",
            "export the model again, with their shapes",
        ) from why


def _steps(builder: PlanBuilder) -> tuple[PlanBuilder, list[Step]]:
    """Return the steps in order, and the builder with all that they name."""
    written, order = in_order(builder)
    return written, [_subgraph(written, item) if isinstance(item, Part) else item for item in order]


def _note(step: FallbackSubgraph) -> str:
    return f"{len(step.nodes)} nodes run in ONNX Runtime from '{step.name}': {step.reason}"


def _subgraph(builder: PlanBuilder, part: Part) -> FallbackSubgraph:
    nodes = part.nodes
    outputs = {value for node in nodes for value in node.outputs}
    xs = dict.fromkeys(
        v for node in nodes for v in values_read(node) if v not in outputs and v not in builder.constants
    )
    ys = [value for node in nodes for value in node.outputs if value.name in part.ys]
    reasons = dict.fromkeys(f"{n.op_type}: {builder.reasons[n]}" for n in nodes if n in builder.reasons)
    for value in ys:
        if (value.name or "") not in builder.tensors:
            builder.write_plain(
                value, "float32" if value.dtype is None or is_float32(value) else dtype_of(value)
            )
    name = nodes[0].name or nodes[0].op_type
    model = builder.hold(f"{name}.onnx", np.frombuffer(cut(builder.model, list(xs), ys), np.uint8))
    return FallbackSubgraph(
        name, tuple(n.name or "" for n in nodes), tuple(v.name or "" for v in xs),
        tuple(v.name or "" for v in ys), model, "; ".join(reasons) or "an output that is constant",
    )  # fmt: skip


def _name_codes(
    builder: PlanBuilder, steps: list[Step], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> list[Step]:
    """Name tensors of codes as the graph names their floats, where that name is free."""
    used = {name for step in steps for name in (*reads(step), *writes(step))}
    outside = [step for step in steps if not step.native]
    fixed = {*inputs, *outputs, *(name for step in outside for name in (*reads(step), *writes(step)))}
    names: dict[str, str] = {}
    occupied = used | fixed
    for node in builder.model.graph:
        if not is_op(node, "QuantizeLinear", "DequantizeLinear"):
            continue
        real, codes = node.inputs[0], node.outputs[0]
        if node.op_type == "DequantizeLinear":
            assert real is not None
            real, codes = codes, real
        if real is None or codes.name not in used or codes.name in fixed or codes.name in names:
            continue
        if real.name and real.name not in occupied:
            names[codes.name or ""] = real.name
            occupied.add(real.name)
    for old, new in names.items():
        builder.tensors[new] = replace(builder.tensors.pop(old), name=new)
    return [rename_tensors(step, names) for step in steps]
