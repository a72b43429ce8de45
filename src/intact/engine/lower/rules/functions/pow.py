"""Lowers Pow by a constant: to one step where it rounds once, else to several."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.base.rule import Rule, present
from intact.engine.lower.rules.elements.binary import with_number
from intact.engine.steps import Binary, Function
from intact.graph import Node


def lower_exact_pow(builder: PlanBuilder, node: Node) -> None:
    """Lower Pow by a constant that means a product, a root or a quotient: each is rounded once."""
    exponent = builder.constant(node.inputs[1], "its exponent")
    rule = _POWERS.get(float(exponent.reshape(-1)[0])) if exponent.size == 1 else None
    if rule is None or exponent.ndim > len(dims_of(present(node.inputs[0]))):
        raise NoMatch("its exponent is none of 2, 1/2 and -1")
    rule(builder, node)


def _square(builder: PlanBuilder, node: Node) -> None:
    name, x = node.name or "", builder.either(node.inputs[0])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Binary(name, (name,), "mul", x, x, y), node)


def _root(builder: PlanBuilder, node: Node) -> None:
    name, x = node.name or "", builder.either(node.inputs[0])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Function(name, (name,), x, y, "sqrt"), node)


_POWERS: dict[float, Rule] = {2.0: _square, 0.5: _root, -1.0: with_number("div", 1.0, first=True)}


def lower_pow(builder: PlanBuilder, node: Node) -> None:
    """Lower Pow by a constant: products for whole numbers, ``exp(log(x) * exponent)`` for others."""
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
    unit = chain.number("one", 1.0)
    parts = _products(chain, x, abs(int(power)), power < 0)
    if power < 0:
        chain.binary("div", unit, parts[-1], shape, chain.y)
    elif power == 1:
        chain.binary("mul", x, unit, shape, chain.y)


def _products(chain: StepChain, x: str, power: int, inner: bool) -> list[str]:
    """Write squares and products with x, down the bits of `power`.

    Return x and them; the last one is the node's output unless it is an `inner` one.
    """
    factors, shape, bits = [x], dims_of(chain.value), bin(power)[3:]
    turns = [other for bit in bits for other in (["square", "times"] if bit == "1" else ["square"])]
    for i, turn in enumerate(turns, 1):
        into = chain.y if i == len(turns) and not inner else ""
        factors.append(chain.binary("mul", factors[-1], factors[-1] if turn == "square" else x, shape, into))
    return factors


_MOST_POWER = 64
