"""From a sheet to a plan: stretches for what is left, an order in which everything can run, names."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from intact.engine.lower.order import Part, in_order, values_read
from intact.engine.lower.sheet import Cannot, Sheet, is_float32
from intact.engine.plan import Plan
from intact.engine.steps import OUTSIDE, Ending, Step, Stretch
from intact.engine.wiring import constants, reads, writes
from intact.errors import UnsupportedError
from intact.graph import cut, is_op
from intact.placement import Layer


def finish(sheet: Sheet, layers: tuple[Layer, ...], notes: list[str]) -> Plan:
    """The plan of `sheet`.

    Raises:
        UnsupportedError: The graph puts out or reads what a plan cannot hold.
    """
    try:
        sheet, steps = _steps(sheet)
    except Cannot as why:  # a value that a stretch would hand over has no known rank
        _give_up_all(sheet, str(why))
        sheet, steps = _all_at_once(sheet)
    said = [_note(step) for step in steps if isinstance(step, Stretch)]
    inputs = tuple(value.name or "" for value in sheet.model.graph.inputs)
    outputs = tuple(value.name or "" for value in sheet.model.graph.outputs)
    steps = _named(sheet, steps, inputs, outputs)
    used = {name for step in steps for name in (*reads(step), *writes(step))} | {*inputs, *outputs}
    held = {name for step in steps for name in (*constants(step), *reads(step))}
    return Plan(
        tuple(steps),
        {name: tensor for name, tensor in sheet.tensors.items() if name in used},
        {name: array for name, array in sheet.arrays.items() if name in held},
        inputs, outputs, layers, (*notes, *said),
    )  # fmt: skip


def _give_up_all(sheet: Sheet, why: str) -> None:
    """Leave the whole graph to one stretch."""
    graph = sheet.model.graph
    ports = {value.name for value in (*graph.inputs, *graph.outputs)}
    sheet.steps.clear()
    sheet.done.clear()
    sheet.reasons = dict.fromkeys(graph, why)
    for name in [name for name in sheet.tensors if name not in ports]:
        del sheet.tensors[name]


def _all_at_once(sheet: Sheet) -> tuple[Sheet, list[Step]]:
    try:
        return _steps(sheet)
    except Cannot as why:
        raise UnsupportedError(
            "model",
            str(why),
            "inputs and outputs of a known rank",
            "export the model again, with their shapes",
        ) from why


def _steps(sheet: Sheet) -> tuple[Sheet, list[Step]]:
    """The steps in order, and the sheet with all that they name."""
    written, order = in_order(sheet)
    return written, [_stretch(written, one) if isinstance(one, Part) else one for one in order]


def _note(step: Stretch) -> str:
    return f"{len(step.nodes)} nodes run in ONNX Runtime from '{step.name}': {step.reason}"


def _stretch(sheet: Sheet, part: Part) -> Stretch:
    nodes = part.nodes
    made = {value for node in nodes for value in node.outputs}
    xs = dict.fromkeys(
        v for node in nodes for v in values_read(node) if v not in made and v not in sheet.constants
    )
    ys = [value for node in nodes for value in node.outputs if value.name in part.ys]
    reasons = dict.fromkeys(f"{n.op_type}: {sheet.reasons[n]}" for n in nodes if n in sheet.reasons)
    for value in ys:
        if (value.name or "") not in sheet.tensors:
            sheet.write_plain(
                value,
                value.dtype.numpy().name if value.dtype is not None and not is_float32(value) else "float32",
            )
    name = nodes[0].name or nodes[0].op_type
    model = sheet.hold(f"{name}.onnx", np.frombuffer(cut(sheet.model, list(xs), ys), np.uint8))
    return Stretch(
        name, tuple(n.name or "" for n in nodes), tuple(v.name or "" for v in xs),
        tuple(v.name or "" for v in ys), model, "; ".join(reasons),
    )  # fmt: skip


def _named(sheet: Sheet, steps: list[Step], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> list[Step]:
    """Call tensors of codes as the graph calls the reals that they stand for, where that name is free."""
    used = {name for step in steps for name in (*reads(step), *writes(step))}
    outside = [step for step in steps if isinstance(step, OUTSIDE)]
    fixed = {*inputs, *outputs, *(name for step in outside for name in (*reads(step), *writes(step)))}
    names: dict[str, str] = {}
    taken = used | fixed
    for node in sheet.model.graph:
        if not is_op(node, "QuantizeLinear", "DequantizeLinear"):
            continue
        real, codes = node.inputs[0], node.outputs[0]
        if node.op_type == "DequantizeLinear":
            assert real is not None
            real, codes = codes, real
        if real is None or codes.name not in used or codes.name in fixed or codes.name in names:
            continue
        if real.name and real.name not in taken:
            names[codes.name or ""] = real.name
            taken.add(real.name)
    for old, new in names.items():
        sheet.tensors[new] = replace(sheet.tensors.pop(old), name=new)
    return [_renamed(step, names) for step in steps]


def _renamed(step: Step, names: dict[str, str]) -> Step:
    changes: dict[str, Any] = {}
    for one in fields(step):
        value = getattr(step, one.name)
        if one.name in _TENSORS:
            changes[one.name] = (
                tuple(names.get(v, v) for v in value) if isinstance(value, tuple) else names.get(value, value)
            )
        elif isinstance(value, Ending):
            changes[one.name] = replace(value, residual=names.get(value.residual, value.residual))
    return replace(step, **changes)


_TENSORS = {"x", "index", "xs", "y", "ys", "a", "b", "mask", "residual"}
