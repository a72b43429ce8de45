"""The scale of every tensor that a Q/DQ graph holds in codes: what a calibration cache wants to know."""

from __future__ import annotations

from intact.graph import Model, QuantizedValue, Value, quantization_of
from intact.placement.rules import rules_of
from intact.placement.view import EdgeMark, Op, View


def tensor_scales(model: Model) -> dict[str, list[QuantizedValue]]:
    """How each activation is quantized, by the name of the real tensor, in the graph's order.

    Tensors behind operators that only move data have the scale of what was moved, with or without a pair
    of their own. Weights are left out.

    Returns:
        Nearly always one entry for a name; several where readers of one tensor quantize it differently.
    """
    view = View(model)
    found: dict[Value, list[QuantizedValue]] = {}
    for output, mark in view.output_marks.items():
        _add(view, found, output, mark)
    for op in view.ops:
        for index, value in enumerate(op.inputs):
            if value is not None:
                _add(view, found, value, view.marks.get((op, index)))
    for op in view.ops:
        if (moved := _moved(view, op, found)) is not None:
            for output in op.outputs:
                found.setdefault(output, [moved])
    order = [*model.graph.inputs, *(value for op in view.ops for value in op.outputs)]
    return {value.name: found[value] for value in order if value in found and value.name}


def _add(view: View, found: dict[Value, list[QuantizedValue]], value: Value, mark: EdgeMark | None) -> None:
    if mark is None or mark.dq is None or view.is_constant(value):
        return
    one = quantization_of(mark.dq.outputs[0], view.constants)
    if one is not None and not any(_same(one, other) for other in found.get(value, ())):
        found.setdefault(value, []).append(one)


def _moved(view: View, op: Op, found: dict[Value, list[QuantizedValue]]) -> QuantizedValue | None:
    """How `op` hands on what it moves; None where it computes, or its inputs come in different codes."""
    rule = next((rule for rule in rules_of(op.op_type, op.domain) if rule.kind == "moves"), None)
    inputs = rule.reads(view, op) if rule is not None else ()
    if not isinstance(inputs, tuple) or not inputs:
        return None
    values = [op.inputs[i] for i in inputs]
    known = [found.get(value, []) for value in values if value is not None]
    first = known[0][0] if known and known[0] else None
    if first is None or first.spec.axis is not None:
        return None
    return first if all(len(k) == 1 and _same(k[0], first) for k in known) else None


def _same(one: QuantizedValue, other: QuantizedValue) -> bool:
    return (
        one.spec == other.spec
        and one.scale.tobytes() == other.scale.tobytes()
        and one.zero_point.tobytes() == other.zero_point.tobytes()
    )
