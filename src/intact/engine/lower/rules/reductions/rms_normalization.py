"""Lowers RMSNormalization."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.chain import Shape, StepChain
from intact.graph import Node, ops


def lower_rms_norm(builder: PlanBuilder, node: Node) -> None:
    """Lower RMSNormalization: ``x / sqrt(mean(x * x) + epsilon) * scale``."""
    x, op = builder.real(node.inputs[0]), ops.RMSNormalization.of(node)
    shape = builder.tensors[x].shape
    axes = range(op.axis % len(shape), len(shape))
    reduced: Shape = tuple(1 if i in axes else n for i, n in enumerate(shape))
    scale = builder.either(node.inputs[1])
    chain = StepChain(builder, node)
    mean = chain.reduce("mean", chain.binary("mul", x, x, shape), axes, True, reduced)
    deviation = chain.function(
        "sqrt", chain.binary("add", mean, chain.number("epsilon", op.epsilon), reduced), reduced
    )
    chain.binary("mul", chain.binary("div", x, deviation, shape), scale, shape, chain.y)
