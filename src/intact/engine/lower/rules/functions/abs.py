"""Lowers Abs of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import between_floats, scalar
from intact.engine.steps import Binary
from intact.graph import Node


def lower_abs(builder: PlanBuilder, node: Node) -> None:
    """Lower Abs: the larger of a number and its negative, less the sign that 0 may have."""
    value, name = node.outputs[0], node.name or ""
    step_names, x = (name, (name,)), builder.either(node.inputs[0])
    minus, zero = scalar(builder, node, "minus", -1.0), scalar(builder, node, "zero", 0.0)
    negative, larger = between_floats(builder, value, 1), between_floats(builder, value, 2)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(*step_names, "mul", x, minus, negative))
    builder.add(Binary(*step_names, "max", negative, x, larger))
    builder.add(Binary(*step_names, "add", larger, zero, y), node)
