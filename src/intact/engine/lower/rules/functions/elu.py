"""Lowers Elu, Selu and Celu of any alpha."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.rules.elements.function import function_rule
from intact.graph import Node, ops


def lower_elu(builder: PlanBuilder, node: Node) -> None:
    """Lower Elu of any alpha: negative results of Elu with alpha 1, times alpha."""
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape, alpha = dims_of(chain.value), chain.number("alpha", ops.Elu.of(node).alpha)
    chain.binary("slope", chain.function("elu", x, shape), alpha, shape, chain.y)


def lower_selu(builder: PlanBuilder, node: Node) -> None:
    """Lower Selu: ``gamma * elu(x)`` with the slope `alpha` below 0."""
    x, op, chain = builder.either(node.inputs[0]), ops.Selu.of(node), StepChain(builder, node)
    shape, alpha = dims_of(chain.value), chain.number("alpha", op.alpha)
    curve = chain.binary("slope", chain.function("elu", x, shape), alpha, shape)
    chain.binary("mul", curve, chain.number("gamma", op.gamma), shape, chain.y)


def lower_celu(builder: PlanBuilder, node: Node) -> None:
    """Lower Celu: ``max(x, 0) + alpha * elu(min(x, 0) / alpha)``."""
    alpha = ops.Celu.of(node).alpha
    if alpha == 1:
        function_rule("elu")(builder, node)
        return
    if not alpha > 0:
        raise NoMatch(f"its alpha is {alpha}")
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape, zero, alpha_name = dims_of(chain.value), chain.number("zero", 0.0), chain.number("alpha", alpha)
    below = chain.binary("div", chain.binary("min", x, zero, shape), alpha_name, shape)
    bent = chain.binary("mul", chain.function("elu", below, shape), alpha_name, shape)
    chain.binary("add", chain.binary("max", x, zero, shape), bent, shape, chain.y)
