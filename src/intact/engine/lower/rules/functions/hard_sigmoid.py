"""Lowers HardSigmoid of any slope."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import between_floats, scalar
from intact.engine.steps import Binary, Clip
from intact.graph import Node, ops


def lower_hard_sigmoid(builder: PlanBuilder, node: Node) -> None:
    """Lower HardSigmoid of any slope: clip(alpha * x + beta, 0, 1)."""
    op, value, name = ops.HardSigmoid.of(node), node.outputs[0], node.name or ""
    step_names, x = (name, (name,)), builder.either(node.inputs[0])
    alpha, beta = scalar(builder, node, "alpha", op.alpha), scalar(builder, node, "beta", op.beta)
    scaled, line = between_floats(builder, value, 1), between_floats(builder, value, 2)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(*step_names, "mul", x, alpha, scaled))
    builder.add(Binary(*step_names, "add", scaled, beta, line))
    builder.add(Clip(*step_names, line, y, 0.0, 1.0), node)
