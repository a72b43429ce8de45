"""HardSigmoid of any slope."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import between_floats, scalar
from intact.engine.steps import Binary, Clip
from intact.graph import Node, ops


def lower_hard_sigmoid(builder: PlanBuilder, node: Node) -> None:
    """HardSigmoid of any slope: clip(alpha * x + beta, 0, 1)."""
    said, value, name = ops.HardSigmoid.of(node), node.outputs[0], node.name or ""
    who, x = (name, (name,)), builder.either(node.inputs[0])
    alpha, beta = scalar(builder, node, "alpha", said.alpha), scalar(builder, node, "beta", said.beta)
    scaled, line = between_floats(builder, value, 1), between_floats(builder, value, 2)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(*who, "mul", x, alpha, scaled))
    builder.add(Binary(*who, "add", scaled, beta, line))
    builder.add(Clip(*who, line, y, 0.0, 1.0), node)
