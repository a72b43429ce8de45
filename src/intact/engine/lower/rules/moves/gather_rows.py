"""Lowers GatherND: by constants, and by computed tuples."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import (
    between,
    data,
    data_or_constant,
    define_like,
    plain,
    product_of_sizes,
    who,
)
from intact.engine.lower.rules.moves.gather import take_rows
from intact.engine.steps import Dim, GatherRows, Reshape, Tensor
from intact.graph import Node, ops


def lower_constant_gather_nd(builder: PlanBuilder, node: Node) -> None:
    """Lower with constant tuples: the axes that they index become one, and rows of it are gathered."""
    x, index = data(builder, node.inputs[0]), builder.constant(node.inputs[1], "its index")
    batch = ops.GatherND.of(node).batch_dims
    count = batch + index.shape[-1]
    sizes = tuple(n for n in x.shape[:count] if isinstance(n, int))
    if len(sizes) < count or 4 in (len(x.shape) - count + 1, len(x.shape) - count):
        raise NoMatch("the sizes that it indexes are not known, or it picks images")
    chosen = _rows(index.astype(np.int64), sizes, batch)
    if prod(sizes) == 0 and chosen.size:
        raise NoMatch("there is nothing to pick")
    take_rows(builder, node, x, sizes, chosen)


def _rows(index: NDArray[np.int64], sizes: tuple[int, ...], batch: int) -> NDArray[np.int64]:
    """Return the number of each row that a GatherND picks.

    Raises:
        NoMatch: One is out of range.
    """
    limits = np.array(sizes[batch:], np.int64)
    if ((index < -limits) | (index >= limits)).any():
        raise NoMatch("an index is out of range")
    within = np.where(index < 0, index + limits, index)
    places = [within[..., i] for i in range(len(limits))]
    shape = index.shape[:-1]
    before = [
        np.arange(n).reshape(-1, *[1] * (len(shape) - axis - 1)) for axis, n in enumerate(sizes[:batch])
    ]
    row_indices = np.zeros(shape, np.int64)
    for size, place in zip(sizes, [*before, *places], strict=True):
        row_indices = row_indices * size + place
    return row_indices.reshape(-1)


def lower_gather_nd(builder: PlanBuilder, node: Node) -> None:
    """Lower GatherND with computed tuples: x as rows that the tuples pick, one part for each batch index."""
    table, value = node.inputs[0], node.outputs[0]
    x = data_or_constant(builder, table)
    index, batch = plain(builder, node.inputs[1]), ops.GatherND.of(node).batch_dims
    count, name = index.shape[-1], value.name
    if not isinstance(count, int) or count < 1:
        raise NoMatch("the length of its tuples is not known")
    sizes = require_told(builder, x.shape[batch : batch + count])
    front = product_of_sizes((*x.shape[:batch], *sizes), f"{name}.front")
    rows = under_shape(
        builder, node, x, "rows", (front, product_of_sizes(x.shape[batch + count :], f"{name}.row"))
    )
    tuples = index_tuples(builder, node, index)
    picked = between(builder, f"{name}.picked", x, (tuples.shape[0], rows.shape[1]))
    builder.add(GatherRows(*who(node), rows.name, tuples.name, picked, sizes), node)
    y = define_like(builder, value, x)
    builder.add(Reshape(*who(node), picked, y))


def require_sizes(sizes: tuple[Dim, ...]) -> tuple[int, ...]:
    """Return sizes that must be numbers.

    Raises:
        NoMatch: One is not known.
    """
    numbers = tuple(n for n in sizes if isinstance(n, int))
    if len(numbers) < len(sizes):
        raise NoMatch("the sizes that it indexes are not known")
    return numbers


def require_told(builder: PlanBuilder, sizes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return sizes that the inputs' sizes must determine.

    Raises:
        NoMatch: Nobody knows one before a run.
    """
    if not all(map(builder.is_told, sizes)):
        raise NoMatch("the sizes that it indexes are not known")
    return sizes


def index_tuples(builder: PlanBuilder, node: Node, index: Tensor) -> Tensor:
    """Reshape indices to [n, numbers of each tuple]."""
    array = builder.arrays.get(index.name)
    count = index.shape[-1]
    if array is not None:
        flat = array.reshape(prod(array.shape[:-1]), array.shape[-1])
        return Tensor(builder.hold(f"{node.name}.tuples", flat), index.dtype, flat.shape)
    if len(index.shape) == 2:
        return index
    return under_shape(
        builder, node, index, "tuples", (product_of_sizes(index.shape[:-1], f"{index.name}.count"), count)
    )


def under_shape(builder: PlanBuilder, node: Node, x: Tensor, what: str, shape: tuple[Dim, ...]) -> Tensor:
    """Reshape a tensor, or a constant."""
    array = builder.arrays.get(x.name)
    if array is not None:
        if not all(isinstance(n, int) for n in shape):
            raise NoMatch("the size of a constant's rows is not known")
        flat = array.reshape(require_sizes(shape))
        return Tensor(builder.hold(f"{node.name}.{what}", flat), x.dtype, flat.shape)
    y = between(builder, f"{node.outputs[0].name}.{what}", x, shape)
    builder.add(Reshape(*who(node), x.name, y))
    return builder.tensors[y]
