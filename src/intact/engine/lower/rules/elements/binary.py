"""Lowers functions of two floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import Rule, scalar
from intact.engine.steps import Binary
from intact.graph import Node

_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


def lower_binary(builder: PlanBuilder, node: Node) -> None:
    """Lower Add, Sub, Mul or Div of floats, or of dequantized codes."""
    a, b = (builder.either(value) for value in node.inputs)
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    builder.add(Binary(node.name or "", (node.name or "",), _BINARY[node.op_type], a, b, y), node)


def with_number(function: str, number: float, *, first: bool = False) -> Rule:
    """Return the rule for a function of one tensor and a number, which comes first or second."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        name, x = node.name or "", builder.either(node.inputs[0])
        constant = scalar(builder, node, function, number)
        y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
        a, b = (constant, x) if first else (x, constant)
        builder.add(Binary(name, (name,), function, a, b, y), node)

    return rule
