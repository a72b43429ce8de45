"""Elements and rows by computed indices, along any axis or several: read, and written."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.rules.moves.moves import Rule, between, data, moved, plain, who
from intact.engine.steps import (
    Dim,
    Gather,
    GatherRows,
    Reshape,
    ScatterElements,
    ScatterRows,
    Tensor,
)
from intact.graph import Node, Value, ops, set_shape
from intact.numerics.scatter_elements import REDUCTIONS, SCATTER_DTYPES


def _gather(builder: PlanBuilder, node: Node) -> None:
    """Along any axis, by an index of any rank, each of both a tensor or a constant."""
    table, value = node.inputs[0], node.outputs[0]
    x = plain(builder, table) if table in builder.constants else data(builder, table)
    index = plain(builder, node.inputs[1])
    if not x.shape:
        raise NoMatch("it has no axis")
    axis = ops.Gather.of(node).axis % len(x.shape)
    check_range(builder, index, x.shape[axis])
    if index.name in builder.arrays:  # where indices are computed of sizes, nobody knew what they make
        set_shape(value, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    y = moved(builder, value, x)
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


def _product(dims: tuple[Dim, ...], name: str) -> Dim:
    """The size of several axes as one; a name of its own where one of them is not known."""
    known = [n for n in dims if isinstance(n, int)]
    named = [n for n in dims if not isinstance(n, int)]
    if not named:
        return prod(known)
    return named[0] if len(named) == 1 and prod(known) == 1 else name


def _gather_nd(builder: PlanBuilder, node: Node) -> None:
    """By computed tuples: x as rows of what the tuples do not index, one part for each place of the batch."""
    table, value = node.inputs[0], node.outputs[0]
    x = plain(builder, table) if table in builder.constants else data(builder, table)
    index, batch = plain(builder, node.inputs[1]), ops.GatherND.of(node).batch_dims
    count, name = index.shape[-1], value.name
    if not isinstance(count, int) or count < 1:
        raise NoMatch("the length of its tuples is not known")
    sizes = _known(x.shape[batch : batch + count])
    front = _product((*x.shape[:batch], *sizes), f"{name}.front")
    rows = _laid(builder, node, x, "rows", (front, _product(x.shape[batch + count :], f"{name}.row")))
    tuples = _tuples(builder, node, index)
    picked = between(builder, f"{name}.picked", x, (tuples.shape[0], rows.shape[1]))
    builder.add(GatherRows(*who(node), rows.name, tuples.name, picked, sizes), node)
    y = moved(builder, value, x)
    builder.add(Reshape(*who(node), picked, y))


def _scatter_nd(builder: PlanBuilder, node: Node) -> None:
    """As `_gather_nd` the other way round."""
    x, updates = _alike(builder, node.inputs[0], node.inputs[2])
    index, value = plain(builder, node.inputs[1]), node.outputs[0]
    count, name = index.shape[-1], value.name
    if not isinstance(count, int) or count < 1:
        raise NoMatch("the length of its tuples is not known")
    sizes = _known(x.shape[:count])
    made, reduction = _both(x, updates), _reduction(ops.ScatterND.of(node).reduction, x)
    tuples = _tuples(builder, node, index)
    rows = _laid(builder, node, x, "rows", (prod(sizes), _product(x.shape[count:], f"{name}.row")))
    given = _laid(builder, node, updates, "updates", (tuples.shape[0], rows.shape[1]))
    written = between(builder, f"{name}.written", made, rows.shape)
    scatter = ScatterRows(*who(node), rows.name, tuples.name, given.name, written, sizes, reduction)
    builder.add(scatter, node)
    y = moved(builder, value, made)
    builder.add(Reshape(*who(node), written, y))


def _scatter_elements(builder: PlanBuilder, node: Node) -> None:
    x, updates = _alike(builder, node.inputs[0], node.inputs[2])
    index, said = plain(builder, node.inputs[1]), ops.ScatterElements.of(node)
    if not x.shape:
        raise NoMatch("it has no axis")
    axis, made = said.axis % len(x.shape), _both(x, updates)
    check_range(builder, index, x.shape[axis])
    reduction = _reduction(said.reduction, x)
    y = moved(builder, node.outputs[0], made)
    scatter = ScatterElements(*who(node), x.name, index.name, updates.name, y, axis, reduction)
    builder.add(scatter, node)


def _alike(builder: PlanBuilder, *values: Value | None) -> list[Tensor]:
    """Tensors or constants of one type: codes of one grid, stored alike, or numbers."""
    found = [plain(builder, v) if v in builder.constants else data(builder, v) for v in values]
    grids = {None if t.codes is None else (Grid.of(t.codes), t.codes.offset) for t in found}
    if len(grids) > 1:
        raise NoMatch("what it scatters has another grid than what it scatters onto")
    if len({t.dtype for t in found}) > 1:
        raise NoMatch("what it scatters has another type than what it scatters onto")
    return found


def _both(x: Tensor, updates: Tensor) -> Tensor:
    """x with the codes that occur in it or in its updates."""
    if x.codes is None or updates.codes is None:
        return x
    low, high = min(x.codes.low, updates.codes.low), max(x.codes.high, updates.codes.high)
    return replace(x, codes=replace(x.codes, low=low, high=high))


def _reduction(name: str, x: Tensor) -> str:
    if name != "none" and x.dtype not in SCATTER_DTYPES:
        raise NoMatch(f"no kernel has '{name}' of {x.dtype}")
    if name not in REDUCTIONS:
        raise NoMatch(f"its reduction is '{name}'")
    return name


def _known(sizes: tuple[Dim, ...]) -> tuple[int, ...]:
    known = tuple(n for n in sizes if isinstance(n, int))
    if len(known) < len(sizes):
        raise NoMatch("the sizes that it indexes are not known")
    return known


def _tuples(builder: PlanBuilder, node: Node, index: Tensor) -> Tensor:
    """Indices [n, numbers of each tuple]."""
    array = builder.arrays.get(index.name)
    count = index.shape[-1]
    if array is not None:
        flat = array.reshape(prod(array.shape[:-1]), array.shape[-1])
        return Tensor(builder.hold(f"{node.name}.tuples", flat), index.dtype, flat.shape)
    if len(index.shape) == 2:
        return index
    return _laid(builder, node, index, "tuples", (_product(index.shape[:-1], f"{index.name}.count"), count))


def _laid(builder: PlanBuilder, node: Node, x: Tensor, what: str, shape: tuple[Dim, ...]) -> Tensor:
    """A tensor, or a constant, under another shape."""
    array = builder.arrays.get(x.name)
    if array is not None:
        if not all(isinstance(n, int) for n in shape):
            raise NoMatch("the size of a constant's rows is not known")
        flat = array.reshape(_known(shape))
        return Tensor(builder.hold(f"{node.name}.{what}", flat), x.dtype, flat.shape)
    y = between(builder, f"{node.outputs[0].name}.{what}", x, shape)
    builder.add(Reshape(*who(node), x.name, y))
    return builder.tensors[y]


GATHERS: dict[str, Rule] = {
    "Gather": _gather, "GatherND": _gather_nd, "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}  # fmt: skip
"""Operator -> how it becomes steps."""
