"""Lowers Tile."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, data, define_like, numbers, plain, who
from intact.engine.lower.rules.moves.resize import check_count, require_size, take_places
from intact.engine.steps import Dim, Expand, Reshape
from intact.graph import Node


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
    is_constant = node.inputs[0] in builder.constants
    x = plain(builder, node.inputs[0]) if is_constant else data(builder, node.inputs[0])
    repeats = builder.sizes(node.inputs[1], "how often it repeats")
    apart, wide = list[Dim](), list[Dim]()
    for size, count in zip(x.shape, repeats, strict=True):
        if not builder.is_told(count) or not builder.is_told(size):
            raise NoMatch("how often it repeats is computed")
        apart += [size] if count == 1 or size == 1 else [1, size]
        wide += [size] if count == 1 else [count] if size == 1 else [count, size]
    name = node.outputs[0].name
    if tuple(apart) != x.shape:
        one = between(builder, f"{name}.apart", x, tuple(apart))
        builder.add(Reshape(*who(node), x.name, one), node)
        x = builder.tensors[one]
    expanded = between(builder, f"{name}.wide", x, tuple(wide))
    builder.add(Expand(*who(node), x.name, expanded), node)
    builder.add(Reshape(*who(node), expanded, define_like(builder, node.outputs[0], x)))
