"""Elements and rows by computed indices, where these lie along any axis."""

from __future__ import annotations

from math import prod

import numpy as np

from intact.engine.lower.builder import NoMatch, PlanBuilder
from intact.engine.lower.moves import Rule, between, data, moved, plain, who
from intact.engine.steps import Dim, Gather, Reshape, Tensor, Transpose
from intact.graph import Node, ops


def _gather(builder: PlanBuilder, node: Node) -> None:
    """Along any axis: it goes to the front, as rows of all that lies behind it and before it.

    Before: ``Gather(x [a, b, n, c], index [i, j], axis=2)``.
    After: x as [a * b, n, c], as [n, a * b, c], as [n, a * b * c]; rows of that; and the way back. A table
    is laid so beforehand.
    """
    table, value = node.inputs[0], node.outputs[0]
    x = plain(builder, table) if table in builder.constants else data(builder, table)
    index = plain(builder, node.inputs[1])
    if not x.shape:
        raise NoMatch("it has no axis")
    axis, name = ops.Gather.of(node).axis % len(x.shape), value.name
    check_range(builder, index, x.shape[axis])
    before, size, behind = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    front, back, count = (
        _product(dims, f"{name}.{what}")
        for dims, what in ((before, "front"), (behind, "back"), (index.shape, "count"))
    )

    def laid(what: str, of: Tensor, shape: tuple[Dim, ...]) -> Tensor:
        y = between(builder, f"{name}.{what}", x, shape)
        builder.add(Reshape(*who(node), of.name, y))
        return builder.tensors[y]

    def turned(what: str, of: Tensor) -> Tensor:
        shape = of.shape[1], of.shape[0], of.shape[2]
        y = between(builder, f"{name}.{what}", x, shape)
        builder.add(Transpose(*who(node), of.name, y, (1, 0, 2)))
        return builder.tensors[y]

    flat = index.name
    if len(index.shape) != 1:
        flat = builder.scratch(f"{name}.index", index.dtype, (count,))
        builder.add(Reshape(*who(node), index.name, flat))
    row = _product((front, back), f"{name}.row")
    if x.name in builder.arrays:
        held = np.moveaxis(builder.arrays[x.name], axis, 0)
        array = held.reshape(len(held), prod(held.shape[1:]))
        rows = Tensor(builder.hold(f"{node.name}.rows", array), x.dtype, array.shape)
    elif front == 1:
        rows = laid("rows", x, (size, row))
    else:
        rows = laid("rows", turned("turned", laid("planes", x, (front, size, back))), (size, row))
    picked = between(builder, f"{name}.picked", x, (count, row))
    builder.add(Gather(*who(node), rows.name, flat, picked), node)
    if front != 1:
        picked = turned("back", laid("cut", builder.tensors[picked], (count, front, back))).name
    y = moved(builder, value, x)
    builder.add(Reshape(*who(node), picked, y))


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


def _product(dims: tuple[Dim, ...], name: str) -> Dim:
    """The size of several axes as one; a name of its own where one of them is not known."""
    known = [n for n in dims if isinstance(n, int)]
    named = [n for n in dims if not isinstance(n, int)]
    if not named:
        return prod(known)
    return named[0] if len(named) == 1 and prod(known) == 1 else name


GATHERS: dict[str, Rule] = {"Gather": _gather}
"""Operator -> how it becomes steps."""
