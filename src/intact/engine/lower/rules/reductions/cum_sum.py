"""Lowers CumSum."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import numbers, plain, who
from intact.engine.steps import CumSum
from intact.graph import Node, ops
from intact.numerics import CUM_SUM_DTYPES


def lower_cum_sum(builder: PlanBuilder, node: Node) -> None:
    """Lower CumSum to one step along a constant axis."""
    x, op = plain(builder, node.inputs[0]), ops.CumSum.of(node)
    if x.dtype not in CUM_SUM_DTYPES or not x.shape:
        raise NoMatch(f"no kernel sums {x.dtype} along an axis")
    axis = numbers(builder, node, 1)[0] % len(x.shape)
    y = builder.write_plain(node.outputs[0], x.dtype)
    builder.add(CumSum(*who(node), x.name, y, axis, bool(op.exclusive), bool(op.reverse)), node)
