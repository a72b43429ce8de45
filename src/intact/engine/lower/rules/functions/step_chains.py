"""Lowers functions of floats that no kernel has, to several steps."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.base.rule import between_floats, plain, scalar, who
from intact.engine.lower.rules.elements.function import function_rule
from intact.engine.steps import Binary, Clip, Elementwise, Tensor
from intact.graph import Node, ops
from intact.numerics import INTEGERS


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


def lower_sign(builder: PlanBuilder, node: Node) -> None:
    """Lower Sign: 1, -1 or 0, which a NaN is too."""
    x = plain(builder, node.inputs[0])
    if x.dtype not in {"float32", *INTEGERS}:
        raise NoMatch(f"no kernel knows the sign of {x.dtype}")
    numbers = {"zero": 0, "one": 1, "minus": -1}
    constants = {key: builder.hold(f"{node.name}.{key}", np.array(n, x.dtype)) for key, n in numbers.items()}
    below = write_choice(builder, node, "less", x, constants["zero"], constants["minus"], constants["zero"])
    write_choice(builder, node, "greater", x, constants["zero"], constants["one"], below, last=True)


def write_choice(
    builder: PlanBuilder,
    node: Node,
    test: str,
    x: Tensor,
    than: str,
    yes: str,
    no: str,
    *,
    last: bool = False,
) -> str:
    """Write steps that select `yes` where x is less or greater `than` a number, else `no`.

    `last`: their result is the output of the node.
    """
    name = node.outputs[0].name
    chosen = builder.scratch(f"{name}.{test}", "bool", x.shape)
    builder.add(Elementwise(*who(node), test, (x.name, than), chosen), *[node] * last)
    y = (
        builder.write_plain(node.outputs[0], x.dtype)
        if last
        else builder.scratch(f"{name}.part", x.dtype, x.shape)
    )
    builder.add(Elementwise(*who(node), "where", (chosen, yes, no), y))
    return y


def lower_tan(builder: PlanBuilder, node: Node) -> None:
    """Lower Tan: ``sin(x) / cos(x)``."""
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape = dims_of(chain.value)
    sine, cosine = (chain.function(name, x, shape) for name in ("sin", "cos"))
    chain.binary("div", sine, cosine, shape, chain.y)


def lower_thresholded_relu(builder: PlanBuilder, node: Node) -> None:
    """Lower ThresholdedRelu: x where it is above alpha, else 0."""
    x = plain(builder, node.inputs[0])
    alpha = builder.hold(f"{node.name}.alpha", np.array(ops.ThresholdedRelu.of(node).alpha, np.float32))
    zero = builder.hold(f"{node.name}.zero", np.zeros((), np.float32))
    if x.dtype != "float32":
        raise NoMatch(f"no kernel has it of {x.dtype}")
    write_choice(builder, node, "greater", x, alpha, x.name, zero, last=True)


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
