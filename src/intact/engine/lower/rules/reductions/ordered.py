"""The largest elements along an axis, and images at the places of a grid, as steps."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.rules.moves.moves import Rule, between, data, moved, numbers, plain, who
from intact.engine.steps import Dim, GridSample, Tensor, TopK
from intact.graph import Node, Value, ops, set_shape
from intact.numerics.arg_max import ORDER_DTYPES
from intact.numerics.grid_sample import PADDINGS


def _top_k(builder: PlanBuilder, node: Node) -> None:
    """Of a known number of elements. They come in order, also where any order would do."""
    x, said = data(builder, node.inputs[0]), ops.TopK.of(node)
    k = numbers(builder, node, 1)
    if x.dtype not in ("codes", *ORDER_DTYPES) or not x.shape:
        raise NoMatch(f"no kernel orders {x.dtype}")
    if len(k) != 1 or k[0] < 0:
        raise NoMatch(f"it asks for {k} elements")
    axis = said.axis % len(x.shape)
    shape = tuple(k[0] if a == axis else n for a, n in enumerate(x.shape))
    places = Tensor("", "int64", shape)
    y, where = (
        _written(builder, value, like, shape) for value, like in zip(node.outputs, (x, places), strict=True)
    )
    builder.add(TopK(*who(node), x.name, y, where, axis, k[0], bool(said.largest)), node)


def _written(builder: PlanBuilder, value: Value, like: Tensor, shape: tuple[Dim, ...]) -> str:
    """What becomes one of the outputs; a tensor of its own where nobody reads it."""
    if not value.name or not (value.uses() or value.is_graph_output()):
        return between(builder, f"{value.name or 'unread'}.left", like, shape)
    set_shape(value, shape)
    return moved(builder, value, like)


def _grid_sample(builder: PlanBuilder, node: Node) -> None:
    said = ops.GridSample.of(node)
    x, grid = (plain(builder, value) for value in node.inputs)
    if len(x.shape) != 4 or x.dtype != "float32" or grid.dtype != "float32":
        raise NoMatch("it samples no images of float32")
    if said.mode not in ("linear", "nearest"):
        raise NoMatch(f"its mode is '{said.mode}'")
    if said.padding_mode not in PADDINGS:
        raise NoMatch(f"its padding is '{said.padding_mode}'")
    y = builder.write_plain(node.outputs[0], "float32")
    nearest, align = said.mode == "nearest", bool(said.align_corners)
    sample = GridSample(*who(node), x.name, grid.name, y, nearest, said.padding_mode, align)
    builder.add(sample, node)


ORDERS: dict[str, Rule] = {"GridSample": _grid_sample, "TopK": _top_k}
"""Operator -> how it becomes a step."""
