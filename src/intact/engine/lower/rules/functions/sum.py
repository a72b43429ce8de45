"""Lowers Sum and Mean of several tensors of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.graph import Node


def lower_sum(builder: PlanBuilder, node: Node) -> None:
    """Sum and Mean of any number of tensors, one after the other."""
    value, operands = node.outputs[0], [builder.either(x) for x in node.inputs]
    shape, mean = dims_of(value), node.op_type == "Mean"
    if len(operands) == 1 and not mean:
        raise NoMatch("it adds nothing")
    chain = StepChain(builder, node)
    total = operands[0]
    for i, other in enumerate(operands[1:], 2):
        total = chain.binary("add", total, other, shape, chain.y if i == len(operands) and not mean else "")
    if mean:
        chain.binary("div", total, chain.number("count", len(operands)), shape, chain.y)
