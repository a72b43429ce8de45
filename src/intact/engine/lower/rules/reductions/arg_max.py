"""Lowers ArgMax and ArgMin."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, tell, who
from intact.engine.steps import ArgMax, Reshape
from intact.graph import Node, ops
from intact.numerics import ORDER_DTYPES


def lower_arg_max(builder: PlanBuilder, node: Node) -> None:
    """Lower ArgMax or ArgMin to one step, which keeps the axis; a Reshape takes it away."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    op = (ops.ArgMax if node.op_type == "ArgMax" else ops.ArgMin).of(node)
    if x.dtype not in ORDER_DTYPES or not x.shape:
        raise NoMatch(f"no kernel orders {x.dtype}")
    axis = op.axis % len(x.shape)
    shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    with_axis = builder.scratch(f"{value.name}.kept", "int64", shape) if not op.keepdims else ""
    tell(value, [n for a, n in enumerate(shape) if op.keepdims or a != axis])
    y = builder.write_plain(value, "int64")
    smallest, last = node.op_type == "ArgMin", bool(op.select_last_index)
    builder.add(ArgMax(*who(node), x.name, with_axis or y, axis, smallest, last), node)
    if with_axis:
        builder.add(Reshape(*who(node), with_axis, y))
