"""Lowers Expand and Tile: to constant indices where sizes are known, to a step where they are free."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import between, data, data_or_constant, define_like, numbers, who
from intact.engine.lower.rules.moves.resize import check_count, require_size, take_places
from intact.engine.steps import Dim, Expand, Reshape
from intact.graph import Node, ops


def lower_expand(builder: PlanBuilder, node: Node) -> None:
    """Lower Expand: axes of size 1 are read as often as wanted."""
    wanted = dims_of(node.outputs[0])
    if any(isinstance(dim, str) for dim in wanted):
        _broadcast(builder, node, wanted)
        return
    x = data(builder, node.inputs[0])
    shape = x.shape
    more = len(wanted) - len(shape)
    if more > 0:
        shape = (*[1] * more, *shape)
        wide = between(builder, f"{node.outputs[0].name}.wide", x, shape)
        builder.add(Reshape(*who(node), x.name, wide), node)
        x = builder.tensors[wide]
    places = {}
    for axis, (size, new) in enumerate(zip(shape, wanted, strict=True)):
        if size == new:
            continue
        if size != 1 or not isinstance(new, int):
            raise NoMatch(f"the size of axis {axis} is not known")
        check_count(axis, new)
        places[axis] = np.zeros(new, np.int64)
    take_places(builder, node, x, places)


def lower_constant_of_shape(builder: PlanBuilder, node: Node) -> None:
    """Lower ConstantOfShape to a number that is broadcast."""
    value = node.outputs[0]
    fill = ops.ConstantOfShape.fill(node)
    if not all(map(builder.is_told, dims_of(value))):
        raise NoMatch("its sizes are computed")
    y = builder.write_plain(value, fill.dtype.name)
    builder.add(Expand(*who(node), builder.hold(f"{node.name}.value", fill), y), node)


def _broadcast(builder: PlanBuilder, node: Node, wanted: tuple[Dim, ...]) -> None:
    """Broadcast a tensor or a constant to sizes that are free."""
    x = data_or_constant(builder, node.inputs[0])
    shape = (*[1] * (len(wanted) - len(x.shape)), *x.shape)
    for axis, (size, new) in enumerate(zip(shape, wanted, strict=True)):
        if size != new and not builder.is_told(new):
            raise NoMatch(f"the size of axis {axis} is not known")
    builder.add(Expand(*who(node), x.name, define_like(builder, node.outputs[0], x)), node)


def lower_tile(builder: PlanBuilder, node: Node) -> None:
    """Lower Tile: the places of each axis are read again and again."""
    x = data(builder, node.inputs[0])
    shape, repeats = x.shape, numbers(builder, node, 1)
    often = {axis: count for axis, count in enumerate(repeats) if count != 1}
    for axis, count in often.items():
        check_count(axis, count * require_size(shape, axis))
    places = {axis: np.tile(np.arange(require_size(shape, axis)), count) for axis, count in often.items()}
    take_places(builder, node, x, places)


def lower_free_tile(builder: PlanBuilder, node: Node) -> None:
    """Lower Tile with free sizes: each repeated axis gets one in front of it, along which x is expanded."""
    x = data_or_constant(builder, node.inputs[0])
    repeats = builder.sizes(node.inputs[1], "how often it repeats")
    apart, wide = list[Dim](), list[Dim]()
    for size, count in zip(x.shape, repeats, strict=True):
        if not builder.is_told(count) or not builder.is_told(size):
            raise NoMatch("how often it repeats is computed")
        apart += [size] if count == 1 or size == 1 else [1, size]
        wide += [size] if count == 1 else [count] if size == 1 else [count, size]
    name = node.outputs[0].name
    if tuple(apart) != x.shape:
        spaced = between(builder, f"{name}.apart", x, tuple(apart))
        builder.add(Reshape(*who(node), x.name, spaced), node)
        x = builder.tensors[spaced]
    expanded = between(builder, f"{name}.wide", x, tuple(wide))
    builder.add(Expand(*who(node), x.name, expanded), node)
    builder.add(Reshape(*who(node), expanded, define_like(builder, node.outputs[0], x)))
