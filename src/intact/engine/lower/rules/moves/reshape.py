"""Lowers operators that only change the shape."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder, dims_of
from intact.engine.lower.base.rule import data, define_like, has, numbers, tell, who
from intact.engine.lower.passes.output_sizes import axes_from_front
from intact.engine.steps import Reshape
from intact.graph import Node, is_op


def lower_reshape(builder: PlanBuilder, node: Node) -> None:
    """Lower Flatten, Identity, Reshape, Squeeze and Unsqueeze to the shape that the graph declares."""
    x = data(builder, node.inputs[0])
    if is_op(node, "Squeeze", "Unsqueeze") and has(node, 1):
        target, rank = numbers(builder, node, 1), len(dims_of(node.outputs[0]))
        if node.op_type == "Squeeze":
            axes = axes_from_front(node, target, len(x.shape))
            tell(node.outputs[0], [dim for axis, dim in enumerate(x.shape) if axis not in axes])
        else:
            axes, rest = axes_from_front(node, target, rank), iter(x.shape)
            tell(node.outputs[0], [1 if axis in axes else next(rest) for axis in range(rank)])
    y = define_like(builder, node.outputs[0], x)
    builder.add(Reshape(*who(node), x.name, y), node)
