"""Functions of one tensor of floats that are several steps, or that no table of codes stands for."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.rules.moves.moves import Rule, plain, who
from intact.engine.steps import Elementwise, Tensor
from intact.graph import Node, ops
from intact.numerics.elementwise import INTEGERS

_MOST_POWER = 64


def _named(function: str) -> Rule:
    """One of `numerics.FUNCTIONS`."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
        chain.function(function, x, dims_of(chain.value), chain.y)

    return rule


def _tan(builder: PlanBuilder, node: Node) -> None:
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape = dims_of(chain.value)
    sine, cosine = (chain.function(name, x, shape) for name in ("sin", "cos"))
    chain.binary("div", sine, cosine, shape, chain.y)


def _elu(builder: PlanBuilder, node: Node) -> None:
    """Elu of any alpha: what is below 0 is below it in Elu with alpha 1, times alpha."""
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape, alpha = dims_of(chain.value), chain.number("alpha", ops.Elu.of(node).alpha)
    chain.binary("slope", chain.function("elu", x, shape), alpha, shape, chain.y)


def _selu(builder: PlanBuilder, node: Node) -> None:
    x, said, chain = builder.either(node.inputs[0]), ops.Selu.of(node), StepChain(builder, node)
    shape, alpha = dims_of(chain.value), chain.number("alpha", said.alpha)
    curve = chain.binary("slope", chain.function("elu", x, shape), alpha, shape)
    chain.binary("mul", curve, chain.number("gamma", said.gamma), shape, chain.y)


def _celu(builder: PlanBuilder, node: Node) -> None:
    """``max(x, 0) + alpha * elu(min(x, 0) / alpha)``."""
    alpha = ops.Celu.of(node).alpha
    if alpha == 1:
        _named("elu")(builder, node)
        return
    if not alpha > 0:
        raise NoMatch(f"its alpha is {alpha}")
    x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
    shape, zero, held = dims_of(chain.value), chain.number("zero", 0.0), chain.number("alpha", alpha)
    below = chain.binary("div", chain.binary("min", x, zero, shape), held, shape)
    bent = chain.binary("mul", chain.function("elu", below, shape), held, shape)
    chain.binary("add", chain.binary("max", x, zero, shape), bent, shape, chain.y)


def _power(builder: PlanBuilder, node: Node) -> None:
    """Pow by a constant: products for whole numbers, ``exp(log(x) * exponent)`` for others."""
    exponent = builder.constant(node.inputs[1], "its exponent")
    x = builder.either(node.inputs[0])
    if exponent.size != 1 or exponent.ndim > len(dims_of(node.outputs[0])):
        raise NoMatch("its exponent is no number")
    power = float(exponent.reshape(-1)[0])
    if power == 0 or not abs(power) <= _MOST_POWER:
        raise NoMatch(f"its exponent is {power}")
    chain = StepChain(builder, node)
    shape = dims_of(chain.value)
    if not power.is_integer():
        scaled = chain.binary("mul", chain.function("log", x, shape), chain.number("exponent", power), shape)
        chain.function("exp", scaled, shape, chain.y)
        return
    one = chain.number("one", 1.0)
    parts = _products(chain, x, abs(int(power)), power < 0)
    if power < 0:
        chain.binary("div", one, parts[-1], shape, chain.y)
    elif power == 1:
        chain.binary("mul", x, one, shape, chain.y)


def _products(chain: StepChain, x: str, power: int, inner: bool) -> list[str]:
    """x, and what squares and products with x make of it, down the bits of `power`; the last one is the
    node's output unless it is an `inner` one."""
    made, shape, bits = [x], dims_of(chain.value), bin(power)[3:]
    turns = [other for bit in bits for other in (["square", "times"] if bit == "1" else ["square"])]
    for i, turn in enumerate(turns, 1):
        into = chain.y if i == len(turns) and not inner else ""
        made.append(chain.binary("mul", made[-1], made[-1] if turn == "square" else x, shape, into))
    return made


def _sign(builder: PlanBuilder, node: Node) -> None:
    """1, -1 or 0, which a NaN is too."""
    x = plain(builder, node.inputs[0])
    if x.dtype not in {"float32", *INTEGERS}:
        raise NoMatch(f"no kernel knows the sign of {x.dtype}")
    numbers = {"zero": 0, "one": 1, "minus": -1}
    held = {key: builder.hold(f"{node.name}.{key}", np.array(n, x.dtype)) for key, n in numbers.items()}
    below = _choice(builder, node, "less", x, held["zero"], held["minus"], held["zero"])
    _choice(builder, node, "greater", x, held["zero"], held["one"], below, last=True)


def _thresholded(builder: PlanBuilder, node: Node) -> None:
    """x where it is above alpha, else 0."""
    x = plain(builder, node.inputs[0])
    alpha = builder.hold(f"{node.name}.alpha", np.array(ops.ThresholdedRelu.of(node).alpha, np.float32))
    zero = builder.hold(f"{node.name}.zero", np.zeros((), np.float32))
    if x.dtype != "float32":
        raise NoMatch(f"no kernel has it of {x.dtype}")
    _choice(builder, node, "greater", x, alpha, x.name, zero, last=True)


def _choice(
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
    """Where x is less or greater `than` a number `yes`, else `no`; `last`: that is what the node makes."""
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


CURVES: dict[str, Rule] = {
    **{name: _named(name.lower())
       for name in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh")},
    "Celu": _celu, "Elu": _elu, "Pow": _power, "Selu": _selu, "Sign": _sign,
    "Tan": _tan, "ThresholdedRelu": _thresholded,
}  # fmt: skip
"""Operator -> how it becomes steps, where no other rule takes it."""
