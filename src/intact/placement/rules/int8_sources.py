"""Decide which nodes may write int8: a function of a float input gains nothing."""

from __future__ import annotations

from intact.graph import Value
from intact.graph.ops import may_move
from intact.placement.rules.base import Context

_WRITES_INT8 = frozenset({"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "ReduceMean"})


def float_source(ctx: Context, value: Value | None) -> str | None:
    """Return the operator that makes `value` in float; None where it can write int8.

    Looks up through the operators that only move data. The makers are not decided yet, for the graph is
    walked upwards: this asks what they could do.
    """
    while value is not None:
        if value in ctx.stems:
            return None
        op = ctx.view.producer(value)
        if op is None:
            return "a graph input"
        if op in ctx.fused or (op.domain == "" and op.op_type in _WRITES_INT8 | ctx.profile.tables):
            return None
        if not may_move(op.node):
            return str(op)
        value = op.inputs[0]
    return "nothing"
