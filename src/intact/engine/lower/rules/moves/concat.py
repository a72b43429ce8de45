"""Lowers Concat: of constants around one tensor of floats, and of any tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, check_ratio, dims_of, is_float32
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.base.rule import data, define_like, plain, who
from intact.engine.steps import Binary, Concat, Pad
from intact.graph import Node, Value, is_op, ops


def lower_concat_with_tokens(builder: PlanBuilder, node: Node) -> None:
    """Lower a Concat of constants around one tensor, in float: pad it with zeros and add the constants.

    Before: ``Concat(Expand(token), x)``.  After: ``Pad(x) + constant``.
    """
    value, name = node.outputs[0], node.name or ""
    shape = dims_of(value)
    axis = ops.Concat.of(node).axis % len(shape)
    parts = [_token(builder, v, axis, len(shape)) for v in node.inputs]
    free = [i for i, part in enumerate(parts) if part is None]
    if len(free) != 1 or len(parts) < 2 or not is_float32(value):
        raise NoMatch("it joins constants with more than one tensor")
    x = builder.real(node.inputs[free[0]])
    size = builder.tensors[x].shape[axis]
    if not isinstance(size, int):
        raise NoMatch(f"the size of axis {axis} is not known")
    before, after = (
        _join_constants(parts[s], axis, len(shape)) for s in (slice(free[0]), slice(free[0] + 1, None))
    )
    wide = np.maximum(before.shape, after.shape)
    middle = np.zeros([1] * len(shape), np.float32)
    around = ((before, before.shape[axis]), (middle, size), (after, after.shape[axis]))
    whole = np.concatenate(
        [np.broadcast_to(part, [n if a == axis else m for a, m in enumerate(wide)]) for part, n in around],
        axis=axis,
    )
    pads = tuple((before.shape[axis], after.shape[axis]) if a == axis else (0, 0) for a in range(len(shape)))
    padded = builder.scratch(f"{value.name}.padded", "float32", shape)
    y = builder.write(builder.output(value), value)
    builder.add(Pad(name, (name,), x, padded, pads), node)
    builder.add(Binary(name, (name,), "add", padded, builder.hold(f"{name}.tokens", whole), y))


def _token(builder: PlanBuilder, value: Value | None, axis: int, rank: int) -> NDArray[np.float32] | None:
    """Return a constant that a Concat joins, with as many axes as the others and its size along `axis`."""
    array = constant_of(builder, value)
    if array is None or value is None or array.ndim > rank:
        return None
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    size = array.shape[axis] if value in builder.constants else dims_of(value)[axis]
    if size != array.shape[axis] and not (isinstance(size, int) and array.shape[axis] == 1):
        return None
    return np.repeat(array, size, axis) if isinstance(size, int) and size != array.shape[axis] else array


def _join_constants(parts: Sequence[NDArray[np.float32] | None], axis: int, rank: int) -> NDArray[np.float32]:
    """Concatenate constants; without any, return an array of size 0 along the axis."""
    arrays = [part for part in parts if part is not None]
    if not arrays:
        return np.zeros([0 if a == axis else 1 for a in range(rank)], np.float32)
    return np.concatenate(arrays, axis=axis)


def constant_of(builder: PlanBuilder, value: Value | None) -> NDArray[np.float32] | None:
    """Return a float32 constant, which an Expand may repeat; None for anything else."""
    node = value.producer() if value is not None else None
    while node is not None and is_op(node, "Expand") and value not in builder.constants:
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    array = builder.constants(value)
    return array if array is not None and array.dtype == np.float32 else None


def lower_concat(builder: PlanBuilder, node: Node) -> None:
    """Concat of codes on the grid of the first, or of tensors of one type."""
    value = node.outputs[0]
    axis = ops.Concat.of(node).axis % len(dims_of(value))
    first = next(data(builder, v) for v in node.inputs if v not in builder.constants)
    codes = first.codes
    if codes is None:
        parts = [plain(builder, v) for v in node.inputs]
        if any(part.dtype != first.dtype for part in parts):
            raise NoMatch("it joins codes and floats")
        y = define_like(builder, value, first)
        builder.add(Concat(*who(node), tuple(part.name for part in parts), y, axis), node)
        return
    grid = Grid.of(codes)
    code_parts = [_part(builder, v, grid, node) for v in node.inputs]
    low, high = min(low for _, low, _ in code_parts), max(high for _, _, high in code_parts)
    y = builder.write_codes(value, grid.codes(low, high))
    builder.add(Concat(*who(node), tuple(name for name, _, _ in code_parts), y, axis), node)


def _part(builder: PlanBuilder, value: Value | None, grid: Grid, concat: Node) -> tuple[str, int, int]:
    """Return the tensor of a part, and its ends on `grid`. A pair that rescales it is left to the Concat."""
    tensor = data(builder, value)
    name, codes = tensor.name, tensor.codes
    if codes is None:
        raise NoMatch("it joins codes and floats")
    node = value.producer() if value is not None else None
    if Grid.of(codes) != grid:
        name = builder.read_as(tensor, codes, grid, concat)[0]
    elif (
        node is not None
        and is_op(node, "QuantizeLinear")
        and (name_and_codes := builder.codes(node.inputs[0]))
    ):
        name = name_and_codes[0]
        check_ratio(Grid.of(name_and_codes[1]), grid)
    return name, codes.low, codes.high
