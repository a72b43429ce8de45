"""Lowers Tan to a sine divided by a cosine."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.graph import Node


def lower_tan(builder: PlanBuilder, node: Node) -> None:
    """Lower Tan: ``sin(x) / cos(x)``."""
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape = dims_of(chain.value)
    sine, cosine = (chain.function(name, x, shape) for name in ("sin", "cos"))
    chain.binary("div", sine, cosine, shape, chain.y)
