"""Operators that several steps make together, exactly: BatchNorms that no layer took in, tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, is_float32
from intact.engine.lower.base.epilogue import Tail, finish, take_affine, take_bounds, take_slope
from intact.engine.lower.rules.moves.moves import Rule
from intact.engine.steps import Binary, Conv, Pad
from intact.graph import Node, Value, is_op, ops


def lower_batchnorm(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """A BatchNormalization that no layer took in, and the Relu, Clip or slope behind it.

    Of codes of images it is a convolution of each channel by 1, whose multipliers and biases it is (N29); of
    floats a product and a sum.

    Raises:
        NoMatch: Its parameters are no constants.
    """
    node = nodes[0]
    x = node.inputs[0]
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        raise NoMatch("it is in training mode")
    tail = Tail([], node.outputs[0], builder.constant(node.inputs[1], "its scale").size)
    take_affine(builder, tail, node)
    found = builder.codes(x)
    if found is None or len(builder.tensors[found[0]].shape) != 4:
        _in_floats(builder, nodes, x, tail)
        return
    for other in nodes[1:]:
        if not (take_bounds(builder, tail, other) or take_slope(builder, tail, other)):
            raise NoMatch(f"{other.op_type} behind it is no bound")
    name, (source, codes) = node.name or "", found
    channels = tail.channels
    if not channels:
        raise NoMatch("it has no channels")
    epilogue, output = finish(builder, tail, (codes.scale, 1.0), name, most=255)
    ones = builder.hold(f"{name}.ones", np.ones((channels, 1, 1, 1), np.int8))
    done = tuple(n.name or "" for n in nodes)
    builder.add(Conv(name, done, source, output.name, ones, epilogue, groups=channels), *nodes)


def _in_floats(builder: PlanBuilder, nodes: Sequence[Node], x: Value | None, tail: Tail) -> None:
    if len(nodes) > 1:
        raise NoMatch("what it normalizes comes in float, and so does what is behind it")
    source, value = builder.either(x), nodes[0].outputs[0]
    shape = dims_of(value)
    wide = (-1, *[1] * (len(shape) - 2))
    gain, shift = (
        builder.hold(f"{nodes[0].name}.{key}", np.asarray(numbers, np.float32).reshape(wide))
        for key, numbers in (("gain", tail.gain), ("shift", tail.shift))
    )
    name = nodes[0].name or ""
    scaled = builder.scratch(f"{value.name}.scaled", "float32", shape)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(name, (name,), "mul", source, gain, scaled), nodes[0])
    builder.add(Binary(name, (name,), "add", scaled, shift, y))


def _batchnorm(builder: PlanBuilder, node: Node) -> None:
    lower_batchnorm(builder, [node])


def with_tokens(builder: PlanBuilder, node: Node) -> None:
    """A Concat of constants around one tensor, in float: zeros around it, plus the constants there.

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
    before, after = (_joined(parts[s], axis, len(shape)) for s in (slice(free[0]), slice(free[0] + 1, None)))
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
    """A constant that a Concat joins, with as many axes as the others and its size along `axis`."""
    array = constant_of(builder, value)
    if array is None or value is None or array.ndim > rank:
        return None
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    size = array.shape[axis] if value in builder.constants else dims_of(value)[axis]
    if size != array.shape[axis] and not (isinstance(size, int) and array.shape[axis] == 1):
        return None
    return np.repeat(array, size, axis) if isinstance(size, int) and size != array.shape[axis] else array


def _joined(parts: Sequence[NDArray[np.float32] | None], axis: int, rank: int) -> NDArray[np.float32]:
    """Constants side by side; without any, nothing along the axis."""
    arrays = [part for part in parts if part is not None]
    if not arrays:
        return np.zeros([0 if a == axis else 1 for a in range(rank)], np.float32)
    return np.concatenate(arrays, axis=axis)


def constant_of(builder: PlanBuilder, value: Value | None) -> NDArray[np.float32] | None:
    """A float32 constant, of which an Expand may have made more; None for anything else."""
    node = value.producer() if value is not None else None
    while node is not None and is_op(node, "Expand") and value not in builder.constants:
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    array = builder.constants(value)
    return array if array is not None and array.dtype == np.float32 else None


PARTS: dict[str, Rule] = {
    "BatchNormalization": _batchnorm,
}
"""Operator -> how it becomes steps, where no single step does it."""
