"""Lowers GatherElements."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import data_or_constant, define_like, plain, who
from intact.engine.steps import GatherElements
from intact.graph import Node, ops


def lower_gather_elements(builder: PlanBuilder, node: Node) -> None:
    """Lower GatherElements to one step; x may be a constant."""
    x = data_or_constant(builder, node.inputs[0])
    index = plain(builder, node.inputs[1])
    axis = ops.GatherElements.of(node).axis % max(len(x.shape), 1)
    if not x.shape:
        raise NoMatch("it has no axis")
    y = define_like(builder, node.outputs[0], x)
    builder.add(GatherElements(*who(node), x.name, index.name, y, axis), node)
