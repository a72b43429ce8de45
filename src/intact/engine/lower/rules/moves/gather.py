"""Lowers Gather: of one constant index, and of any."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, data, data_or_constant, define_like, plain, tell, who
from intact.engine.steps import Dim, Gather, Reshape, Slice, Tensor
from intact.graph import Node, ops, set_shape


def lower_gather_of_one(builder: PlanBuilder, node: Node) -> None:
    """Lower Gather of one index of an axis: a Slice, and a Reshape where the axis goes."""
    x = data(builder, node.inputs[0])
    shape = x.shape
    index = builder.constant(node.inputs[1], "its index")
    axis = ops.Gather.of(node).axis % len(shape)
    if index.size != 1:
        raise NoMatch("it gathers more than one index")
    at, size = int(index.reshape(-1)[0]), shape[axis]
    if at < 0 and not isinstance(size, int):
        raise NoMatch("it counts from the end of an axis whose size is not known")
    at += size if at < 0 and isinstance(size, int) else 0
    starts = tuple(at if a == axis else 0 for a in range(len(shape)))
    cut = tuple(1 if a == axis else dim for a, dim in enumerate(shape))
    tell(node.outputs[0], (*shape[:axis], *index.shape, *shape[axis + 1 :]))
    row = between(builder, f"{node.outputs[0].name}.row", x, cut)
    y = define_like(builder, node.outputs[0], x)
    builder.add(Slice(*who(node), x.name, row, starts, (1,) * len(shape)), node)
    builder.add(Reshape(*who(node), row, y))


def lower_gather(builder: PlanBuilder, node: Node) -> None:
    """Lower Gather along any axis, by an index of any rank, each of both a tensor or a constant."""
    table, value = node.inputs[0], node.outputs[0]
    x = data_or_constant(builder, table)
    index = plain(builder, node.inputs[1])
    if not x.shape:
        raise NoMatch("it has no axis")
    axis = ops.Gather.of(node).axis % len(x.shape)
    check_range(builder, index, x.shape[axis])
    if index.name in builder.arrays:  # where indices are computed of sizes, nobody knew what they make
        set_shape(value, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    y = define_like(builder, value, x)
    builder.add(Gather(*who(node), x.name, index.name, y, axis), node)


def check_range(builder: PlanBuilder, index: Tensor, size: Dim) -> None:
    """Refuse a constant index that points at nothing.

    Raises:
        NoMatch: It does.
    """
    array = builder.arrays.get(index.name)
    if array is None or not array.size or not isinstance(size, int):
        return
    if not -size <= int(array.min()) <= int(array.max()) < size:
        raise NoMatch("an index is out of range")


def take_rows(
    builder: PlanBuilder, node: Node, x: Tensor, sizes: tuple[int, ...], chosen: NDArray[np.int64]
) -> None:
    """Gather rows of a tensor whose first axes, of these sizes, are merged into one."""
    rest, name = x.shape[len(sizes) :], node.outputs[0].name
    rows = between(builder, f"{name}.rows", x, (prod(sizes), *rest))
    picked = between(builder, f"{name}.picked", x, (chosen.size, *rest))
    y = define_like(builder, node.outputs[0], x)
    index_name = builder.hold(f"{node.name}.rows", chosen)
    builder.add(Reshape(*who(node), x.name, rows), node)
    builder.add(Gather(*who(node), rows, index_name, picked))
    builder.add(Reshape(*who(node), picked, y))
