"""Lowers Max and Min of integers, and of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import Rule, between_floats, plain
from intact.engine.lower.rules.elements.elementwise import operation_step, write_operation
from intact.engine.steps import Binary
from intact.graph import Node


def integer_extreme(name: str) -> Rule:
    """Return the rule for Max or Min of any number of integer tensors, two by two."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        first, *rest = (plain(builder, value) for value in node.inputs)
        if not rest:
            raise NoMatch("it compares nothing")
        shape = dims_of(node.outputs[0])
        for other in rest[:-1]:
            first = operation_step(builder, node, name, first, other, shape=shape)
        write_operation(builder, node, name, [first, rest[-1]])

    return rule


def lower_extreme(builder: PlanBuilder, node: Node) -> None:
    """Lower Max or Min of any number of tensors, two by two."""
    value, name = node.outputs[0], node.name or ""
    operands = [builder.either(v) for v in node.inputs]
    if len(operands) < 2:
        raise NoMatch("it compares nothing")
    result = operands[0]
    for i, other in enumerate(operands[1:], 2):
        last = i == len(operands)
        y = builder.write(builder.output(value), value) if last else between_floats(builder, value, i)
        builder.add(Binary(name, (name,), node.op_type.lower(), result, other, y), *[node] * last)
        result = y
