"""Lowers OneHot to comparisons with the places along the new axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import plain, who
from intact.engine.lower.rules.elements.elementwise import operation_step, write_operation
from intact.engine.steps import Reshape, Tensor
from intact.graph import Node, ops


def lower_one_hot(builder: PlanBuilder, node: Node) -> None:
    """Lower OneHot to a comparison of each index, negative ones moved up, with the places along the new
    axis."""
    index, values = plain(builder, node.inputs[0]), plain(builder, node.inputs[2])
    depth = int(builder.constant(node.inputs[1], "its depth").reshape(-1)[0])
    if values.name not in builder.arrays or index.dtype not in ("int32", "int64") or depth < 1:
        raise NoMatch("its values or its depth are computed")
    shape = dims_of(node.outputs[0])
    axis = ops.OneHot.of(node).axis % len(shape)
    hold = _constants(builder, node, index.dtype)
    wide = (*index.shape[:axis], 1, *index.shape[axis:])
    negative = operation_step(builder, node, "less", index, hold("zero", 0), shape=index.shape)
    moved = operation_step(builder, node, "add", index, hold("depth", depth), shape=index.shape)
    counted = operation_step(builder, node, "where", negative, moved, index, shape=index.shape)
    column = builder.scratch(f"{node.outputs[0].name}.column", index.dtype, wide)
    builder.add(Reshape(*who(node), counted.name, column))
    places = hold("places", np.arange(depth).reshape(-1, *[1] * (len(shape) - axis - 1)))
    there = operation_step(builder, node, "equal", builder.tensors[column], places, shape=shape)
    off, on = builder.arrays[values.name].reshape(-1)
    each = _constants(builder, node, values.dtype)
    write_operation(builder, node, "where", [there, each("on", on), each("off", off)])


def _constants(builder: PlanBuilder, node: Node, dtype: str) -> Callable[[str, object], Tensor]:
    """Return a function that stores constants of a dtype for a node."""

    def hold(name: str, numbers: object) -> Tensor:
        array = np.asarray(numbers, dtype)
        return Tensor(builder.hold(f"{node.name}.{name}", array), dtype, array.shape)

    return hold
