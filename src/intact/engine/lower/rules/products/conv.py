"""Conv, in codes and in floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.float_weights import bias_vector, float_weight, hold_input, write_floats
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.images import Image, add_over_images, lower_over_images
from intact.engine.lower.base.operand import CodesRead
from intact.engine.lower.base.weighted_layer import lower_weighted
from intact.engine.lower.base.weights import Weight, weight_of
from intact.engine.lower.base.wide_weights import split_weight
from intact.engine.lower.base.window import window
from intact.engine.lower.rules.elements.split_quantize import codes_read
from intact.engine.lower.rules.moves.stack_planes import (
    VolumeWindow,
    as_planes,
    as_volumes,
    plane_dims,
    stack_window,
    volume_window,
)
from intact.engine.lower.rules.products.float_conv import write_float_conv_of_volumes
from intact.engine.steps import Conv, Epilogue, FloatConv, Step
from intact.graph import Node, ops


def lower_conv(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a Conv of codes over sequences, images or volumes."""
    node = fused.root
    weight = weight_of(builder, node.inputs[1], 0)
    op, kernel = ops.Conv.of(node), weight.codes.shape[2:]
    if len(kernel) == 3:
        read = CodesRead(*builder.require_codes(node.inputs[0]))
    else:
        read = codes_read(builder, node.inputs[0], of_images=True)
    groups = op.group
    read, weight = split_weight(builder, node, read, weight, 1, groups)
    volumes = volume_window(node, op, kernel, rows=groups > 1) if len(kernel) == 3 else None
    shape = window(node, op, kernel) if volumes is None else volumes.over

    def step(image: Image) -> Step:
        operands = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        (top, left, bottom, right) = (a + b for a, b in zip(shape.pads, read.pads, strict=True))
        return Conv(*operands, shape.strides, shape.dilations, (top, left, bottom, right), groups, image.low)

    if volumes is not None:
        return _over_volumes(builder, fused, read, weight, volumes, step)
    return lower_over_images(builder, fused, read, weight, step)


def _over_volumes(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, window: VolumeWindow,
    make: Callable[[Image], Step],
) -> list[Node]:  # fmt: skip
    """Lower a convolution over volumes to one over planes, each stacked with its neighbours in depth."""
    x = read.x
    plane_dims(builder.tensors[x].shape)  # or there is no match

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        step_names = name, done
        planes, before = as_planes(builder, x, *step_names)
        image, stack = stack_window(builder, planes, builder.tensors[x].shape[2], window, *step_names)
        residual, more = as_planes(builder, epilogue.residual, *step_names) if epilogue.residual else ("", [])
        output, behind = as_volumes(builder, y, *step_names)
        step = make(Image(*step_names, image, output, w, replace(epilogue, residual=residual)))
        return [*before, *stack, *more, step, *behind]

    return lower_weighted(builder, fused, read, weight, window.filters(weight.codes), steps)


def lower_conv_in_floats(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a Conv of floats over sequences, images or volumes."""
    node = fused.root
    weight = float_weight(builder, node.inputs[1])
    op, value = ops.Conv.of(node), node.outputs[0]
    if weight.ndim == 5:
        return write_float_conv_of_volumes(builder, node, weight)
    shape = window(node, op, weight.shape[2:])
    filters = np.moveaxis(weight, 1, -1)
    name, done = node.name or "", (node.name or "",)
    bias = bias_vector(builder, node.inputs[2], len(weight)) if len(node.inputs) > 2 else None
    x, bias_name = builder.real(node.inputs[0]), hold_input(builder, node, 2, "bias", bias)
    y, geometry = write_floats(builder, value), (shape.strides, shape.dilations, shape.pads, op.group)
    w = hold_input(builder, node, 1, "filters", filters if filters.ndim == 4 else filters[:, None])
    add_over_images(builder, node, x, y, lambda a, b: FloatConv(name, done, a, b, w, bias_name, *geometry))
    return [node]
