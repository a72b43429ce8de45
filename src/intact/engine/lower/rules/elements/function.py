"""Lowers functions of one tensor: to tables of codes, or to steps in floats."""

from __future__ import annotations

from collections.abc import Sequence

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import StepChain
from intact.engine.lower.base.rule import Rule
from intact.engine.lower.base.weighted_layer import function_of
from intact.engine.lower.rules.elements.table import lower_table
from intact.engine.steps import Function
from intact.graph import Node, Value, ops


def lower_function(
    builder: PlanBuilder, nodes: Sequence[Node], label: str, entry: Value, output: Value
) -> None:
    """Lower `nodes`, which compute the function `label`, to a table of codes or a step in floats.

    Raises:
        NoMatch: It is neither.
    """
    if builder.codes(entry) is not None and builder.sole_quantizer(output) is not None:
        lower_table(builder, nodes, entry, output, function_of(nodes, label) or "")
        return
    name = function_of(nodes, label)
    if name is None:
        raise NoMatch(f"no kernel computes {label} in float")
    x = builder.either(entry)
    y = builder.write(builder.output(output), output)
    done = tuple(n.name or "" for n in nodes)
    builder.add(Function(nodes[0].name or "", done, x, y, name), *nodes)


def lower_function_alone(builder: PlanBuilder, node: Node) -> None:
    """Lower one node that computes a function of one tensor."""
    variable = [v for v in node.inputs if v is not None and v not in builder.constants]
    if len(set(variable)) != 1:
        raise NoMatch("it reads more than one tensor")
    lower_function(builder, [node], ops.display_name(node), variable[0], node.outputs[0])


def function_rule(function: str) -> Rule:
    """Return the rule for one of `numerics.FUNCTIONS`."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        x, chain = builder.either(node.inputs[0]), StepChain(builder, node)
        chain.function(function, x, dims_of(chain.value), chain.y)

    return rule
