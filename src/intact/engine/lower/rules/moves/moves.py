"""Operators that only move elements, codes and numbers of any type alike, as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.files.limits import DTYPES
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, new_sizes
from intact.engine.steps import STRING, Dim, Pad, Reshape, Slice, Tensor, Transpose
from intact.graph import Node, Value, is_op, ops, set_shape

Rule = Callable[[PlanBuilder, Node], None]


def data(builder: PlanBuilder, value: Value | None) -> Tensor:
    """The tensor that an operator moves: codes that are codes in the graph too, or numbers of any type."""
    tensor = builder.tensors.get((value.name if value is not None else "") or "")
    if tensor is None or tensor.codes is None:
        tensor = builder.tensors[builder.real(value)]
    if tensor.dtype not in DTYPES:
        raise NoMatch(f"it moves {tensor.dtype}")
    return tensor


def plain(builder: PlanBuilder, value: Value | None) -> Tensor:
    """A tensor of numbers of any type, or the constant that stands in its place."""
    array = builder.constants(value)
    if array is None or value is None:
        tensor = builder.tensors[builder.real(value)]
    else:
        dtype = STRING if array.dtype.kind == "O" else array.dtype.name
        tensor = Tensor(builder.hold(value.name or "", array), dtype, array.shape)
    if tensor.dtype not in DTYPES:
        raise NoMatch(f"no kernel knows {tensor.dtype}")
    return tensor


def moved(builder: PlanBuilder, value: Value, like: Tensor) -> str:
    """Define what such an operator makes of a tensor."""
    if like.codes is not None:
        return builder.write_codes(value, like.codes)
    return builder.write_plain(value, like.dtype)


def tell(value: Value, sizes: Sequence[Dim]) -> None:
    """Say the sizes of what an operator keeps of its input, where the graph has names of its own for several:
    behind sizes that data decide, nobody else tells these."""
    if len(new_sizes(dims_of(value), tuple(sizes))) > 1:
        set_shape(value, sizes)


def between(builder: PlanBuilder, name: str, like: Tensor, shape: tuple[Dim, ...]) -> str:
    """Define what one of several steps makes of a tensor, and the graph does not have."""
    return builder.scratch(name, like.dtype, shape, like.codes)


def _reshape(builder: PlanBuilder, node: Node) -> None:
    x = data(builder, node.inputs[0])
    if is_op(node, "Squeeze", "Unsqueeze") and has(node, 1):
        given, rank = numbers(builder, node, 1), len(dims_of(node.outputs[0]))
        if node.op_type == "Squeeze":
            axes = {axis % len(x.shape) for axis in given}
            tell(node.outputs[0], [dim for axis, dim in enumerate(x.shape) if axis not in axes])
        else:
            axes, rest = {axis % rank for axis in given}, iter(x.shape)
            tell(node.outputs[0], [1 if axis in axes else next(rest) for axis in range(rank)])
    y = moved(builder, node.outputs[0], x)
    builder.add(Reshape(*who(node), x.name, y), node)


def _transpose(builder: PlanBuilder, node: Node) -> None:
    x = data(builder, node.inputs[0])
    perm = ops.Transpose.of(node).order(len(x.shape))
    y = moved(builder, node.outputs[0], x)
    builder.add(Transpose(*who(node), x.name, y, perm), node)


def _slice(builder: PlanBuilder, node: Node) -> None:
    x = data(builder, node.inputs[0])
    shape = x.shape
    starts = numbers(builder, node, 1)
    computed = node.inputs[2] not in builder.constants
    ends = [0] * len(starts) if computed else numbers(builder, node, 2)
    axes = numbers(builder, node, 3) if has(node, 3) else list(range(len(starts)))
    steps = numbers(builder, node, 4) if has(node, 4) else [1] * len(starts)
    first, hops, made = [0] * len(shape), [1] * len(shape), list(dims_of(node.outputs[0]))
    for start, end, axis, hop in zip(starts, ends, axes, steps, strict=True):
        size = shape[axis]
        if (
            (not isinstance(size, int) or computed)
            and start >= 0
            and hop == 1
            and builder.is_told(made[axis])
        ):
            first[axis] = start
        elif computed:
            raise NoMatch(f"how much it takes of axis {axis} is computed")
        elif isinstance(size, int):
            taken = range(*slice(start, end, hop).indices(size))
            first[axis], hops[axis] = (taken.start, hop) if taken else (0, 1)  # nothing begins nowhere
            made[axis] = len(taken)
        elif start < 0 or hop < 0 or end < 2**31 - 1:
            raise NoMatch(f"it cuts axis {axis}, whose size is not known")
        else:
            first[axis], hops[axis] = start, hop
    set_shape(node.outputs[0], made)  # what inference could not tell: the step takes as many
    y = moved(builder, node.outputs[0], x)
    builder.add(Slice(*who(node), x.name, y, tuple(first), tuple(hops)), node)


def _split(builder: PlanBuilder, node: Node) -> None:
    x = data(builder, node.inputs[0])
    axis = ops.Split.of(node).axis % len(x.shape)
    start = 0
    for output in node.outputs:
        shape = dims_of(output)
        size = shape[axis]
        if not isinstance(size, int):
            raise NoMatch(f"it splits axis {axis}, whose size is not known")
        if output.uses() or output.is_graph_output():
            starts = tuple(start if a == axis else 0 for a in range(len(shape)))
            y = moved(builder, output, x)
            step = Slice(output.name or "", (node.name or "",), x.name, y, starts, (1,) * len(shape))
            builder.add(step, node)
        start += size


def pad_with_constant(builder: PlanBuilder, node: Node) -> None:
    """A Pad of mode "constant". What it takes away, where its pads are negative, goes first.

    Raises:
        NoMatch: Its pads or its fill are computed.
    """
    x = data(builder, node.inputs[0])
    fill, x = _fill(builder, node, x)
    pads = pads_of(builder, node, len(x.shape))
    if any(n < 0 for pair in pads for n in pair):
        x = _cut(builder, node, x, pads)
        pads = tuple((max(before, 0), max(after, 0)) for before, after in pads)
    y = moved(builder, node.outputs[0], x)
    builder.add(Pad(*who(node), x.name, y, pads, fill), node)


def _fill(builder: PlanBuilder, node: Node, x: Tensor) -> tuple[str, Tensor]:
    """The constant that a Pad fills with, "" for real 0, and x with the codes that occur behind it."""
    codes = x.codes
    given: NDArray[np.generic] = np.zeros(0)
    if has(node, 2):
        given = builder.constant(node.inputs[2], "its fill").reshape(-1)
    if codes is None:
        if not given.size or not given[0]:
            return "", x
        return builder.hold(f"{node.name}.fill", given[:1].astype(x.dtype)), x
    low, high = codes.held  # the zero point occurs now, if it did not
    code = int(given[0]) if given.size else 0  # of a file that pads codes, without a fill that is code 0
    if code == codes.zero_point:
        return "", replace(x, codes=replace(codes, low=low, high=high))
    code_dtype = np.int8 if codes.signed else np.uint8
    codes = replace(codes, low=min(codes.low, code), high=max(codes.high, code))
    return builder.hold(f"{node.name}.fill", np.array([code], code_dtype)), replace(x, codes=codes)


def _cut(builder: PlanBuilder, node: Node, x: Tensor, pads: tuple[tuple[int, int], ...]) -> Tensor:
    """What negative pads leave."""
    less = [(max(-before, 0), max(-after, 0)) for before, after in pads]
    sizes = list(x.shape)
    for axis, (before, after) in enumerate(less):
        size = sizes[axis]
        if not before and not after:
            continue
        if not isinstance(size, int) or size < before + after:
            raise NoMatch(f"it takes away more of axis {axis} than is known to be there")
        sizes[axis] = size - before - after
    y = between(builder, f"{node.outputs[0].name}.cut", x, tuple(sizes))
    starts = tuple(before for before, _ in less)
    builder.add(Slice(*who(node), x.name, y, starts, (1,) * len(starts)))
    return builder.tensors[y]


def pads_of(builder: PlanBuilder, node: Node, rank: int) -> tuple[tuple[int, int], ...]:
    """What a Pad adds in front of and behind each axis; below 0 what it takes away.

    Raises:
        NoMatch: It is computed.
    """
    found = ops.Pad.of(node).sides(node, builder.constants, rank)
    if found is None:
        raise NoMatch("its pads are not constant")
    return tuple(found)


def who(node: Node) -> tuple[str, tuple[str, ...]]:
    """Name and nodes of a step that does `node` alone."""
    return node.name or "", (node.name or "",)


def has(node: Node, index: int) -> bool:
    """Whether `node` has this input."""
    return index < len(node.inputs) and node.inputs[index] is not None


def numbers(builder: PlanBuilder, node: Node, index: int) -> list[int]:
    """What an input of integers always is.

    Raises:
        NoMatch: It is computed.
    """
    array: NDArray[np.generic] = builder.constant(node.inputs[index], f"its input {index}")
    return [int(n) for n in array.reshape(-1)]


MOVES: dict[str, Rule] = {
    "Flatten": _reshape, "Identity": _reshape, "Reshape": _reshape, "Slice": _slice,
    "Split": _split, "Squeeze": _reshape, "Transpose": _transpose, "Unsqueeze": _reshape,
}  # fmt: skip
"""Operator -> how it becomes a step."""
