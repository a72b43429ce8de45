"""Collect the scale of every quantized tensor of a Q/DQ graph, for a calibration cache."""

from __future__ import annotations

from intact.graph import Model, QuantizedValue, Value, quantization_of
from intact.placement.placement_graph import EdgeMark, Op, View
from intact.placement.rules import rules_of


def tensor_scales(model: Model) -> dict[str, list[QuantizedValue]]:
    """Return how each activation is quantized, by the name of the real tensor, in the graph's order.

    Tensors behind operators that only move data have the scale of what was moved, with or without a pair
    of their own. Weights are left out.

    Returns:
        Nearly always one entry for a name; several where readers of one tensor quantize it differently.
    """
    view = View(model)
    marks: dict[Value, list[QuantizedValue]] = {}
    for output, mark in view.output_marks.items():
        _add(view, marks, output, mark)
    for op in view.ops:
        for index, value in enumerate(op.inputs):
            if value is not None:
                _add(view, marks, value, view.marks.get((op, index)))
    for op in view.ops:
        if (moved := _grid_behind_move(view, op, marks)) is not None:
            for output in op.outputs:
                marks.setdefault(output, [moved])
    order = [*model.graph.inputs, *(value for op in view.ops for value in op.outputs)]
    return {value.name: marks[value] for value in order if value in marks and value.name}


def _add(view: View, marks: dict[Value, list[QuantizedValue]], value: Value, mark: EdgeMark | None) -> None:
    if mark is None or mark.dq is None or view.is_constant(value):
        return
    quantized = quantization_of(mark.dq.outputs[0], view.constants)
    if quantized is not None and not any(_same(quantized, other) for other in marks.get(value, ())):
        marks.setdefault(value, []).append(quantized)


def _grid_behind_move(view: View, op: Op, marks: dict[Value, list[QuantizedValue]]) -> QuantizedValue | None:
    """Return the grid that `op` hands on with the data that it moves.

    None where it computes, or grids differ.
    """
    rule = next((rule for rule in rules_of(op.op_type, op.domain) if rule.kind == "moves"), None)
    inputs = rule.reads(view, op) if rule is not None else ()
    if not isinstance(inputs, tuple) or not inputs:
        return None
    values = [op.inputs[i] for i in inputs]
    known_marks = [marks.get(value, []) for value in values if value is not None]
    first = known_marks[0][0] if known_marks and known_marks[0] else None
    if first is None or first.spec.axis is not None:
        return None
    return first if all(len(k) == 1 and _same(k[0], first) for k in known_marks) else None


def _same(first: QuantizedValue, other: QuantizedValue) -> bool:
    return (
        first.spec == other.spec
        and first.scale.tobytes() == other.scale.tobytes()
        and first.zero_point.tobytes() == other.zero_point.tobytes()
    )
