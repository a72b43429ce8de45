"""Lowers TopK."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, data, define_like, numbers, who
from intact.engine.steps import Dim, Tensor, TopK
from intact.graph import Node, Value, ops, set_shape
from intact.numerics import ORDER_DTYPES


def lower_top_k(builder: PlanBuilder, node: Node) -> None:
    """Lower a TopK with a known k. The elements are sorted, also where any order would do."""
    x, op = data(builder, node.inputs[0]), ops.TopK.of(node)
    k = numbers(builder, node, 1)
    if x.dtype not in ("codes", *ORDER_DTYPES) or not x.shape:
        raise NoMatch(f"no kernel orders {x.dtype}")
    if len(k) != 1 or k[0] < 0:
        raise NoMatch(f"it asks for {k} elements")
    axis = op.axis % len(x.shape)
    shape = tuple(k[0] if a == axis else n for a, n in enumerate(x.shape))
    places = Tensor("", "int64", shape)
    y, where = (
        _write_output(builder, value, like, shape)
        for value, like in zip(node.outputs, (x, places), strict=True)
    )
    builder.add(TopK(*who(node), x.name, y, where, axis, k[0], bool(op.largest)), node)


def _write_output(builder: PlanBuilder, value: Value, like: Tensor, shape: tuple[Dim, ...]) -> str:
    """Write the tensor of an output, or a scratch tensor where nobody reads the output."""
    if not value.name or not (value.uses() or value.is_graph_output()):
        return between(builder, f"{value.name or 'unread'}.left", like, shape)
    set_shape(value, shape)
    return define_like(builder, value, like)
