"""Lowers LogSoftmax."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.chain import Shape, StepChain
from intact.graph import Node, ops


def lower_log_softmax(builder: PlanBuilder, node: Node) -> None:
    """Lower LogSoftmax: x less the largest one, less the logarithm of the sum of exponentials."""
    x = builder.real(node.inputs[0])
    shape = builder.tensors[x].shape
    axis = ops.LogSoftmax.of(node).axis % len(shape)
    reduced: Shape = (*shape[:axis], 1, *shape[axis + 1 :])
    chain = StepChain(builder, node)
    below = chain.binary("sub", x, chain.reduce("max", x, (axis,), True, reduced), shape)
    total = chain.reduce("sum", chain.function("exp", below, shape), (axis,), True, reduced)
    chain.binary("sub", below, chain.function("log", total, reduced), shape, chain.y)
