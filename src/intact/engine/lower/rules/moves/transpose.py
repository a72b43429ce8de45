"""Lowers Transpose."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import data, define_like, who
from intact.engine.steps import Transpose
from intact.graph import Node, ops


def lower_transpose(builder: PlanBuilder, node: Node) -> None:
    """Lower Transpose to one step."""
    x = data(builder, node.inputs[0])
    perm = ops.Transpose.of(node).order(len(x.shape))
    y = define_like(builder, node.outputs[0], x)
    builder.add(Transpose(*who(node), x.name, y, perm), node)
