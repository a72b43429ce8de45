"""Pools as steps; those of sequences [n, c, l] are over images [n, c, 1, l], between two Reshapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, check_ratio
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.base.window import LoweredWindow, window
from intact.engine.lower.rules.moves.moves import Rule, data, moved
from intact.engine.lower.rules.products.gemm import as_image, image_dims
from intact.engine.lower.rules.products.volumes import (
    as_planes,
    as_volumes,
    average_over_volumes,
    plane_dims,
    stacked,
    volume_window,
)
from intact.engine.steps import Pool, Reshape
from intact.engine.steps.base.window import Pair
from intact.graph import Node, ops
from intact.numerics.windows import Window


def _max_pool(builder: PlanBuilder, node: Node) -> None:
    tensor = data(builder, node.inputs[0])
    if tensor.codes is None and (tensor.dtype != "float32" or node.op_type == "GlobalMaxPool"):
        raise NoMatch(f"no kernel pools {tensor.dtype}")  # the largest of whole planes is a Reduce
    volumes = len(tensor.shape) == 5 and node.op_type == "MaxPool"
    if len(tensor.shape) not in (3, 4) and not volumes:
        raise NoMatch("it is no pool of sequences, images or volumes")
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise NoMatch("its indices are used")
    y = moved(builder, node.outputs[0], tensor)
    if node.op_type == "MaxPool" and ops.MaxPool.of(node).storage_order:
        raise NoMatch("its storage order is by columns")
    if volumes:
        _max_of_volumes(builder, node, tensor.name, y)
        return
    pool = _global("max") if node.op_type == "GlobalMaxPool" else _windowed(node)
    _over_images(builder, node, tensor.name, y, pool)


def _max_of_volumes(builder: PlanBuilder, node: Node, x: str, y: str) -> None:
    """A pool over each plane, and one over what that leaves of the planes that a window has in depth, which
    lie between each other's rows: the largest of the largest.

    Beyond the ends lies the nearest plane: where neighbours in depth lie side by side, a window that reaches
    so far has that plane anyway.
    """
    said, who = ops.MaxPool.of(node), (node.name or "", (node.name or "",))
    kernel, depth = said.kernel_shape, builder.tensors[x].shape[2]
    flat = volume_window(node, said, (1, *kernel[1:]), rows=True).over
    window = volume_window(node, said, (kernel[0], 1, 1), rows=True)
    plane_dims(builder.tensors[x].shape)  # or there is no match
    assert isinstance(depth, int), "planes were counted"
    hop, (front, behind) = window.stride, window.pads
    if max(front, behind) >= window.kernel:
        raise NoMatch("a window lies in its pads alone")
    if depth + front + behind <= (window.kernel - 1) * window.dilation:
        raise NoMatch("its window is deeper than the volume")
    along = Window.of((window.kernel,), 1, hop, (window.pads,), window.dilation, bool(said.ceil_mode))
    (places,) = along.positions((depth,))
    reach = (places - 1) * hop + (window.kernel - 1) * window.dilation + 1 - front
    window = replace(window, pads=(front, max(behind, reach - depth)), repeats=True)
    if window.dilation > 1 and any(window.pads):
        raise NoMatch("planes of its window are apart, and it reaches beyond the ends")
    planes, before = as_planes(builder, x, *who)
    made, after = as_volumes(builder, y, *who)
    _check_pads((kernel[1], kernel[2]), flat)
    tensor, (count, channels, *_) = builder.tensors[made], builder.tensors[planes].shape
    sizes = (count, channels, *tensor.shape[2:])
    pooled = made if window.alone else builder.scratch(f"{y}.pooled", tensor.dtype, sizes, tensor.codes)
    over = kernel[1], kernel[2]
    pool = Pool(
        *who, planes, pooled, "max", over, flat.strides, flat.dilations, flat.pads, bool(said.ceil_mode)
    )
    image, stack = stacked(builder, pooled, depth, window, *who)
    column = window.kernel, 1
    deep = [] if window.alone else [Pool(*who, image, made, "max", column, column)]
    for step in (*before, pool, *stack, *deep, *after):
        builder.add(step, node)


def _check_pads(kernel: Pair, shape: LoweredWindow) -> None:
    """Refuse a window that may lie in its pads alone."""
    reach = [(k - 1) * d for k, d in zip(kernel, shape.dilations, strict=True)] * 2
    if any(pad > most for pad, most in zip(shape.pads, reach, strict=True)):
        raise NoMatch("a window lies in its pads alone")


Make = Callable[[Node, str, str], Pool]


def _over_images(builder: PlanBuilder, node: Node, x: str, y: str, make: Make) -> None:
    """The pool, from an image or a sequence to an image, a sequence, or what is left of one."""
    who = node.name or "", (node.name or "",)
    tensor, made = builder.tensors[x], builder.tensors[y]
    image, before = as_image(builder, x, *who) if len(tensor.shape) == 3 else (x, [])
    for step in before:
        builder.add(step)
    shape = builder.tensors[image].shape
    if len(made.shape) == 4:
        builder.add(make(node, image, y), node)
        return
    sizes = image_dims(made.shape) if len(made.shape) == 3 else (*shape[:2], 1, 1)
    pooled = builder.scratch(f"{y}.pooled", made.dtype, sizes, made.codes)
    builder.add(make(node, image, pooled), node)
    builder.add(Reshape(*who, pooled, y))


def _global(mode: Literal["average", "max"]) -> Make:
    """Of whole planes."""
    return lambda node, x, y: Pool(node.name or "", (node.name or "",), x, y, mode)


def _windowed(node: Node) -> Make:
    said = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    shape = window(node, said, said.kernel_shape)
    height, width = (1, *said.kernel_shape)[-2:]
    _check_pads((height, width), shape)
    return lambda node, x, y: Pool(
        node.name or "", (node.name or "",), x, y, "max" if node.op_type == "MaxPool" else "average",
        (height, width), shape.strides, shape.dilations, shape.pads,
        bool(said.ceil_mode), isinstance(said, ops.AveragePool) and bool(said.count_include_pad),
    )  # fmt: skip


def _average_pool(builder: PlanBuilder, node: Node) -> None:
    x, codes = builder.wanted_codes(node.inputs[0])
    rank = len(builder.tensors[x].shape)
    volumes = rank == 5 and node.op_type == "AveragePool"
    if not volumes and rank != 4 and (rank != 3 or node.op_type == "ReduceMean"):
        raise NoMatch("it is no pool of images, sequences or volumes")
    value = node.outputs[0]
    output = builder.output(value)
    if output.grid is None:
        raise NoMatch("its output goes on in float")
    check_ratio(Grid.of(codes), output.grid)
    # The mean of codes that are never below the zero point is not below it either.
    zero = output.grid.zero_point
    low = zero if codes.low >= codes.zero_point else None
    high = zero if codes.high <= codes.zero_point else None
    if node.op_type == "ReduceMean":
        _check_axes(builder, node)
    y = builder.write(output, value, low, high)
    if volumes:
        average_over_volumes(builder, node, x, y, partial(_average_of_planes, node))
        return
    pool = _windowed(node) if node.op_type == "AveragePool" else _global("average")
    _over_images(builder, node, x, y, pool)


def _average_of_planes(node: Node, x: str, y: str, kernel: Pair, shape: LoweredWindow) -> Pool:
    _check_pads(kernel, shape)
    counts_pads = bool(ops.AveragePool.of(node).count_include_pad)
    return Pool(
        node.name or "", (node.name or "",), x, y, "average", kernel, shape.strides, shape.dilations,
        shape.pads, False, counts_pads,
    )  # fmt: skip


def _check_axes(builder: PlanBuilder, node: Node) -> None:
    """Refuse a mean over anything but the whole planes."""
    axes = ops.ReduceMean.of(node).axes_of(node, builder.constants)
    if axes is None:
        raise NoMatch("its axes is not a constant")
    if sorted(a % 4 for a in axes) != [2, 3]:
        raise NoMatch("it is a mean over other axes than height and width")


POOLS: dict[str, Rule] = {
    "AveragePool": _average_pool, "GlobalAveragePool": _average_pool, "GlobalMaxPool": _max_pool,
    "MaxPool": _max_pool, "ReduceMean": _average_pool,
}  # fmt: skip
"""Operator -> how it becomes a step."""
