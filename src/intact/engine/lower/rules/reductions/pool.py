"""Lowers pools; those of sequences [n, c, l] are over images [n, c, 1, l], between two Reshapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, check_ratio, dims_of, is_float32
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.base.images import as_image, image_dims
from intact.engine.lower.base.rule import data, define_like
from intact.engine.lower.base.window import LoweredWindow, pads_of_window, window
from intact.engine.lower.rules.moves.stack_planes import (
    as_planes,
    as_volumes,
    plane_dims,
    stack_window,
    volume_window,
)
from intact.engine.steps import Binary, FloatConv, Pool, Reshape, Step
from intact.engine.steps.base.dims import Dim
from intact.engine.steps.base.window import Pair
from intact.graph import Node, ops
from intact.numerics import Window


def lower_max_pool(builder: PlanBuilder, node: Node) -> None:
    """Lower MaxPool and GlobalMaxPool of codes, and MaxPool of floats."""
    tensor = data(builder, node.inputs[0])
    if tensor.codes is None and (tensor.dtype != "float32" or node.op_type == "GlobalMaxPool"):
        raise NoMatch(f"no kernel pools {tensor.dtype}")  # the largest of whole planes is a Reduce
    volumes = len(tensor.shape) == 5 and node.op_type == "MaxPool"
    if len(tensor.shape) not in (3, 4) and not volumes:
        raise NoMatch("it is no pool of sequences, images or volumes")
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise NoMatch("its indices are used")
    y = define_like(builder, node.outputs[0], tensor)
    if node.op_type == "MaxPool" and ops.MaxPool.of(node).storage_order:
        raise NoMatch("its storage order is by columns")
    if volumes:
        _max_of_volumes(builder, node, tensor.name, y)
        return
    pool = _global("max") if node.op_type == "GlobalMaxPool" else _window_pool(node)
    _over_images(builder, node, tensor.name, y, pool)


def _max_of_volumes(builder: PlanBuilder, node: Node, x: str, y: str) -> None:
    """Lower a MaxPool of volumes to one over each plane, then one over the planes that a window spans.

    The planes of a window in depth lie between each other's rows.

    Beyond the ends lies the nearest plane: where neighbours in depth lie side by side, a window that reaches
    so far has that plane anyway.
    """
    op, step_names = ops.MaxPool.of(node), (node.name or "", (node.name or "",))
    kernel, depth = op.kernel_shape, builder.tensors[x].shape[2]
    flat = volume_window(node, op, (1, *kernel[1:]), rows=True).over
    window = volume_window(node, op, (kernel[0], 1, 1), rows=True)
    plane_dims(builder.tensors[x].shape)  # or there is no match
    assert isinstance(depth, int), "planes were counted"
    hop, (front, behind) = window.stride, window.pads
    if max(front, behind) >= window.kernel:
        raise NoMatch("a window lies in its pads alone")
    if depth + front + behind <= (window.kernel - 1) * window.dilation:
        raise NoMatch("its window is deeper than the volume")
    along = Window.of((window.kernel,), 1, hop, (window.pads,), window.dilation, bool(op.ceil_mode))
    (places,) = along.positions((depth,))
    reach = (places - 1) * hop + (window.kernel - 1) * window.dilation + 1 - front
    window = replace(window, pads=(front, max(behind, reach - depth)), repeats=True)
    if window.dilation > 1 and any(window.pads):
        raise NoMatch("planes of its window are apart, and it reaches beyond the ends")
    planes, before = as_planes(builder, x, *step_names)
    output, after = as_volumes(builder, y, *step_names)
    _check_pads((kernel[1], kernel[2]), flat)
    tensor, (count, channels, *_) = builder.tensors[output], builder.tensors[planes].shape
    sizes = (count, channels, *tensor.shape[2:])
    pooled = output if window.alone else builder.scratch(f"{y}.pooled", tensor.dtype, sizes, tensor.codes)
    over = kernel[1], kernel[2]
    pool = Pool(
        *step_names, planes, pooled, "max", over, flat.strides, flat.dilations, flat.pads, bool(op.ceil_mode)
    )
    image, stack = stack_window(builder, pooled, depth, window, *step_names)
    column = window.kernel, 1
    deep = [] if window.alone else [Pool(*step_names, image, output, "max", column, column)]
    for step in (*before, pool, *stack, *deep, *after):
        builder.add(step, node)


def _check_pads(kernel: Pair, shape: LoweredWindow) -> None:
    """Refuse a window that may lie in its pads alone."""
    reach = [(k - 1) * d for k, d in zip(kernel, shape.dilations, strict=True)] * 2
    if any(pad > most for pad, most in zip(shape.pads, reach, strict=True)):
        raise NoMatch("a window lies in its pads alone")


Make = Callable[[Node, str, str], Pool]


def _over_images(builder: PlanBuilder, node: Node, x: str, y: str, make: Make) -> None:
    """Write the pool, from an image or a sequence to an image, a sequence, or a reduced one."""
    step_names = node.name or "", (node.name or "",)
    tensor, output = builder.tensors[x], builder.tensors[y]
    image, before = as_image(builder, x, *step_names) if len(tensor.shape) == 3 else (x, [])
    for step in before:
        builder.add(step)
    shape = builder.tensors[image].shape
    if len(output.shape) == 4:
        builder.add(make(node, image, y), node)
        return
    sizes = image_dims(output.shape) if len(output.shape) == 3 else (*shape[:2], 1, 1)
    pooled = builder.scratch(f"{y}.pooled", output.dtype, sizes, output.codes)
    builder.add(make(node, image, pooled), node)
    builder.add(Reshape(*step_names, pooled, y))


def _global(mode: Literal["average", "max"]) -> Make:
    """Lower a pool over whole planes."""
    return lambda node, x, y: Pool(node.name or "", (node.name or "",), x, y, mode)


def _window_pool(node: Node) -> Make:
    op = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    shape = window(node, op, op.kernel_shape)
    height, width = (1, *op.kernel_shape)[-2:]
    _check_pads((height, width), shape)
    return lambda node, x, y: Pool(
        node.name or "", (node.name or "",), x, y, "max" if node.op_type == "MaxPool" else "average",
        (height, width), shape.strides, shape.dilations, shape.pads,
        bool(op.ceil_mode), isinstance(op, ops.AveragePool) and bool(op.count_include_pad),
    )  # fmt: skip


def lower_average_pool(builder: PlanBuilder, node: Node) -> None:
    """Lower AveragePool, GlobalAveragePool, and ReduceMean over whole planes, of codes."""
    x, codes = builder.require_codes(node.inputs[0])
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
    pool = _window_pool(node) if node.op_type == "AveragePool" else _global("average")
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


def average_over_volumes(
    builder: PlanBuilder, node: Node, x: str, y: str, make: Callable[[str, str, Pair, LoweredWindow], Step]
) -> None:
    """Lower an AveragePool of volumes to one of planes; the planes of a window lie between each other's rows.

    Args:
        x, y: Tensors of volumes.
        make: The pool of images: what it reads and makes, its kernel and window.
    Raises:
        NoMatch: How many elements a window counts depends on its depth.
    """
    op, step_names = ops.AveragePool.of(node), (node.name or "", (node.name or "",))
    kernel, depth = op.kernel_shape, builder.tensors[x].shape[2]
    window = volume_window(node, op, kernel, rows=True)
    if op.ceil_mode or (any(window.pads) and not op.count_include_pad):
        raise NoMatch("its windows reach over the ends of a volume, and count what is inside")
    planes, before = as_planes(builder, x, *step_names)
    image, stack = stack_window(builder, planes, depth, window, *step_names)
    output, after = as_volumes(builder, y, *step_names)
    pool = make(image, output, (kernel[1] * window.kernel, kernel[2]), window.over)
    for step in (*before, *stack, pool, *after):
        builder.add(step, node)


def lower_float_average_pool(builder: PlanBuilder, node: Node) -> None:
    """Lower AveragePool of floats to sums, by a depthwise convolution, divided by the count of elements."""
    x, op, value = builder.real(node.inputs[0]), ops.AveragePool.of(node), node.outputs[0]
    shape, output_dims = builder.tensors[x].shape, dims_of(value)
    if len(shape) == 5:
        _average_of_volumes(builder, node, x, op)
        return
    geometry, kernel = window(node, op, op.kernel_shape), (1, *op.kernel_shape)[-2:]
    channels = shape[1] if len(shape) in (3, 4) else None
    if not isinstance(channels, int) or not channels or not is_float32(value):
        raise NoMatch("it is no pool of images or sequences of a known number of channels")
    step_names = node.name or "", (node.name or "",)
    if flat := len(shape) == 3:
        x, before = as_image(builder, x, *step_names)
        for step in before:
            builder.add(step)
        shape, output_dims = image_dims(shape), image_dims(output_dims)
    plain = not op.ceil_mode and (bool(op.count_include_pad) or not any(geometry.pads))
    weight = builder.hold(f"{node.name}.window", np.ones((channels, *kernel, 1), np.float32))

    def sums(y: str, pads: tuple[int, int, int, int]) -> str:
        conv = FloatConv(*step_names, x, y, weight, "", geometry.strides, geometry.dilations, pads, channels)
        builder.add(conv, node)
        return y

    pooled = builder.scratch(f"{value.name}.sums", "float32", output_dims)
    counts: NDArray[np.float32] = np.array(prod(kernel), np.float32)
    pads = geometry.pads
    if not plain:
        counts, pads = _count_elements(op, kernel, shape[2:], output_dims[2:], geometry)
    counts_name = builder.hold(f"{node.name}.counts", np.asarray(counts, np.float32))
    if flat:
        y = builder.scratch(f"{value.name}.means", "float32", output_dims)
    else:
        y = builder.write(builder.output(value), value)
    builder.add(Binary(*step_names, "div", sums(pooled, pads), counts_name, y))
    if flat:
        builder.add(Reshape(*step_names, y, builder.write_plain(value, "float32")))


def _average_of_volumes(builder: PlanBuilder, node: Node, x: str, op: ops.AveragePool) -> None:
    """Lower an average pool of volumes to sums over planes, by their count; windows count all elements."""
    channels, value = builder.tensors[x].shape[1], node.outputs[0]
    if not isinstance(channels, int) or not channels or not is_float32(value):
        raise NoMatch("it is no pool of volumes of a known number of channels")
    if not op.count_include_pad and any(pads_of_window(node, op, op.kernel_shape)):
        raise NoMatch("its windows reach over the rim of a volume, and count what is inside")
    step_names = node.name or "", (node.name or "",)

    def pool(image: str, output: str, kernel: Pair, geometry: LoweredWindow) -> FloatConv:
        weight = builder.hold(f"{node.name}.window", np.ones((channels, *kernel, 1), np.float32))
        return FloatConv(
            *step_names,
            image,
            output,
            weight,
            "",
            geometry.strides,
            geometry.dilations,
            geometry.pads,
            channels,
        )

    sums = builder.scratch(f"{value.name}.sums", "float32", dims_of(value))
    average_over_volumes(builder, node, x, sums, pool)
    count = builder.hold(f"{node.name}.counts", np.array(prod(op.kernel_shape), np.float32))
    builder.add(Binary(*step_names, "div", sums, count, builder.write_plain(value, "float32")))


def _count_elements(
    op: ops.AveragePool,
    kernel: Sequence[int],
    sizes: Sequence[Dim],
    outputs: Sequence[Dim],
    geometry: LoweredWindow,
) -> tuple[NDArray[np.float32], tuple[int, int, int, int]]:
    """Count the elements of each window, float32 [1, 1, *outputs].

    Return the pads that all windows need, too.
    """
    axis_counts, ends = [], []
    for axis, (n, out, k) in enumerate(zip(sizes, outputs, kernel, strict=True)):
        if not isinstance(n, int) or not isinstance(out, int):
            raise NoMatch("windows reach over a rim whose place is not known")
        stride, hop, before, behind = (
            geometry.strides[axis], geometry.dilations[axis], geometry.pads[axis], geometry.pads[axis + 2],
        )  # fmt: skip
        places = np.arange(out)[:, None] * stride - before + np.arange(k) * hop
        rim = (before, behind) if op.count_include_pad else (0, 0)
        axis_counts.append(((places >= -rim[0]) & (places < n + rim[1])).sum(axis=1))
        ends.append(max(behind, int(places.max(initial=0)) - n + 1))
    counts = np.outer(*axis_counts).astype(np.float32)[None, None]
    if not counts.all():
        raise NoMatch("a window lies in its pads alone")
    return counts, (geometry.pads[0], geometry.pads[1], ends[0], ends[1])
