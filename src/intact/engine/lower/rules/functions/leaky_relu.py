"""Lowers LeakyRelu and PRelu of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import scalar
from intact.engine.steps import Binary
from intact.graph import Node, ops


def lower_leaky_relu(builder: PlanBuilder, node: Node) -> None:
    """Lower LeakyRelu and PRelu."""
    value, name = node.outputs[0], node.name or ""
    x = builder.either(node.inputs[0])
    if node.op_type == "PRelu":
        slope = builder.either(node.inputs[1])
    else:
        slope = scalar(builder, node, "slope", ops.LeakyRelu.of(node).alpha)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(name, (name,), "slope", x, slope, y), node)
