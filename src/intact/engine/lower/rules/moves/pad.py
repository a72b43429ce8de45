"""Lowers Pad: with a constant, or with elements of its input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.operand import positions, size_scalar
from intact.engine.lower.base.rule import between, data, define_like, has, who
from intact.engine.lower.rules.moves.resize import check_count, require_size, take_places
from intact.engine.steps import Dim, Elementwise, Pad, Resize, Slice, Tensor
from intact.engine.steps.base.dims import expression
from intact.graph import Node, ops


def lower_pad(builder: PlanBuilder, node: Node) -> None:
    """Lower Pad to constants around a tensor, or to a Resize that reads its elements again."""
    onnx_mode = ops.Pad.of(node).mode
    mode = _MODES.get(onnx_mode)
    if onnx_mode == "constant":
        pad_with_constant(builder, node)
        return
    if mode is None:
        raise NoMatch(f"its mode is '{onnx_mode}'")
    x = data(builder, node.inputs[0])
    shape, places, free = x.shape, dict[int, NDArray[np.int64]](), list[tuple[int, int, int]]()
    for axis, (before, after) in enumerate(pads_of(builder, node, len(shape))):
        if before < 0 or after < 0:
            raise NoMatch("its pads are negative")
        if not before and not after:
            continue
        if not isinstance(shape[axis], int):
            free.append((axis, before, after))
        else:
            size = require_size(shape, axis)
            if mode != "edge" and max(before, after) >= size:
                raise NoMatch(f"it pads axis {axis} with more than there is")
            check_count(axis, before + size + after)
            places[axis] = np.pad(np.arange(size), (before, after), mode)
    if not free:
        take_places(builder, node, x, places)
        return
    indices = {axis: builder.hold(f"{node.name}.axis{axis}", read) for axis, read in places.items()}
    indices |= {
        axis: _free_places(builder, node, mode, shape[axis], before, after) for axis, before, after in free
    }
    y = define_like(builder, node.outputs[0], x)
    builder.add(Resize(*who(node), x.name, y, tuple(indices), tuple(indices.values())), node)


def _free_places(builder: PlanBuilder, node: Node, mode: str, size: Dim, before: int, after: int) -> str:
    """Write the steps of what an axis of a free size reads, and return their tensor.

    Of an axis with fewer elements than are added, a binding refuses what "reflect" and "wrap" read.
    """
    count = expression("+", size, before + after)
    if count is None or not builder.is_told(count):
        raise NoMatch("the size of an axis that it pads is computed")
    name = node.outputs[0].name

    def step(operation: str, *xs: str) -> str:
        y = builder.scratch(f"{name}.{operation}", "int64", (count,))
        builder.add(Elementwise(*who(node), operation, xs, y))
        return y

    number = partial(size_scalar, builder, node)

    last = number(expression("-", size, 1) or 0)
    at = step("sub", positions(builder, node, count), number(before))
    if mode == "edge":
        return step("min", step("max", at, number(0)), last)
    if mode == "reflect":
        return step("sub", last, step("abs", step("sub", last, step("abs", at))))
    return step("mod", step("add", at, number(size)), number(size))


_MODES: dict[str, Literal["edge", "reflect", "wrap"]] = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def pad_with_constant(builder: PlanBuilder, node: Node) -> None:
    """Lower a Pad of mode "constant". Negative pads become a Slice in front.

    Raises:
        NoMatch: Its pads or its fill are computed.
    """
    x = data(builder, node.inputs[0])
    fill, x = _fill(builder, node, x)
    if node.inputs[1] not in builder.constants and not has(node, 3):
        _pad_with_sizes(builder, node, x, fill)
        return
    pads = pads_of(builder, node, len(x.shape))
    if any(n < 0 for pair in pads for n in pair):
        x = _cut(builder, node, x, pads)
        pads = tuple((max(before, 0), max(after, 0)) for before, after in pads)
    y = define_like(builder, node.outputs[0], x)
    builder.add(Pad(*who(node), x.name, y, pads, fill), node)


def _pad_with_sizes(builder: PlanBuilder, node: Node, x: Tensor, fill: str) -> None:
    """Lower a Pad by what follows from sizes; a binding refuses negative ones."""
    widths, rank = builder.sizes(node.inputs[1], "by how much it pads"), len(x.shape)
    if len(widths) != 2 * rank:
        raise NoMatch("it has other pads than axes")
    y = define_like(builder, node.outputs[0], x)
    pads = tuple(zip(widths[:rank], widths[rank:], strict=True))
    builder.add(Pad(*who(node), x.name, y, pads, fill), node)


def _fill(builder: PlanBuilder, node: Node, x: Tensor) -> tuple[str, Tensor]:
    """Return the constant that a Pad fills with, "" for real 0, and x with the codes that occur behind it."""
    codes = x.codes
    fill: NDArray[np.generic] = np.zeros(0)
    if has(node, 2):
        fill = builder.constant(node.inputs[2], "its fill").reshape(-1)
    if codes is None:
        if not fill.size or not fill[0]:
            return "", x
        return builder.hold(f"{node.name}.fill", fill[:1].astype(x.dtype)), x
    low, high = codes.stored_range  # the zero point occurs now, if it did not
    code = int(fill[0]) if fill.size else 0  # of a file that pads codes, without a fill that is code 0
    if code == codes.zero_point:
        return "", replace(x, codes=replace(codes, low=low, high=high))
    code_dtype = np.int8 if codes.signed else np.uint8
    codes = replace(codes, low=min(codes.low, code), high=max(codes.high, code))
    return builder.hold(f"{node.name}.fill", np.array([code], code_dtype)), replace(x, codes=codes)


def _cut(builder: PlanBuilder, node: Node, x: Tensor, pads: tuple[tuple[int, int], ...]) -> Tensor:
    """Write the Slice for negative pads."""
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
    """Return the elements that a Pad adds in front of and behind each axis; negative ones are removed.

    Raises:
        NoMatch: It is computed.
    """
    sides = ops.Pad.of(node).sides(node, builder.constants, rank)
    if sides is None:
        raise NoMatch("its pads are not constant")
    return tuple(sides)
