"""ConvTranspose, in codes and in floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.float_weights import bias_vector, float_weight, hold_input, write_floats
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.images import Image, add_over_images, lower_over_images
from intact.engine.lower.base.operand import CodesRead
from intact.engine.lower.base.weighted_layer import lower_weighted
from intact.engine.lower.base.weights import Weight, group_filters, weight_of
from intact.engine.lower.base.wide_weights import split_weight
from intact.engine.lower.base.window import window
from intact.engine.lower.rules.moves.stack_planes import as_planes, as_volumes, plane_dims, volume_window
from intact.engine.lower.rules.products.float_conv_transpose import write_float_conv_transpose_of_volumes
from intact.engine.steps import ConvTranspose, Epilogue, FloatConvTranspose, Reshape, Step
from intact.graph import Node, ops


def lower_conv_transpose(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a ConvTranspose of codes; of volumes where its windows lie side by side in depth."""
    node = fused.root
    read = CodesRead(*builder.require_codes(node.inputs[0]))
    value, op = node.inputs[1], ops.ConvTranspose.of(node)
    groups = op.group
    weight = weight_of(builder, value, 1)
    if op.output_shape is not None:
        raise NoMatch("its pads follow from an output_shape")
    kernel = weight.codes.shape[2:]
    volumes = volume_window(node, op, kernel, rows=False) if len(kernel) == 3 else None
    shape = window(node, op, kernel) if volumes is None else volumes.over
    *deep, height, width = (0, 0, *op.output_padding)
    scale = np.tile(weight.scale, groups) if weight.scale.ndim else weight.scale  # all groups have the same
    weight = Weight(group_filters(weight.codes, groups), scale)
    read, weight = split_weight(builder, node, read, weight, 1, groups)

    def step(image: Image) -> Step:
        operands = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        return ConvTranspose(*operands, shape.strides, shape.dilations, shape.pads, (height, width), groups)

    if volumes is None:
        return lower_over_images(builder, fused, read, weight, step)
    if groups > 1 or volumes.kernel != volumes.stride or any((*volumes.pads, *deep)):
        raise NoMatch("its windows overlap in depth, or leave something out, or it has groups")
    return _into_planes(builder, fused, read, weight, step)


def _into_planes(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, make: Callable[[Image], Step]
) -> list[Node]:
    """Lower a transposed convolution over volumes whose windows lie side by side in depth.

    Each plane makes one for each of its taps, channels behind channels, which then are planes of their own.
    """
    x, (out, inputs, depth, height, width) = read.x, weight.codes.shape
    plane_dims(builder.tensors[x].shape)  # or there is no match

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        step_names = name, done
        planes, before = as_planes(builder, x, *step_names)
        output, behind = as_volumes(builder, y, *step_names)
        tensor, count = builder.tensors[output], builder.tensors[planes].shape[0]
        dims = count, out * depth, *tensor.shape[2:]
        taps = builder.scratch(f"{y}.taps", tensor.dtype, dims, tensor.codes)
        residual = ""
        if epilogue.residual:
            residual_planes, more = as_planes(builder, epilogue.residual, *step_names)
            other = builder.tensors[residual_planes]
            residual = builder.scratch(f"{residual_planes}.taps", other.dtype, dims, other.codes)
            before += [*more, Reshape(*step_names, residual_planes, residual)]
        step = make(
            Image(
                *step_names,
                planes,
                taps,
                w,
                replace(_repeat_epilogue(builder, epilogue, depth), residual=residual),
            )
        )
        return [*before, step, Reshape(*step_names, taps, output), *behind]

    packed = np.ascontiguousarray(weight.codes.transpose(2, 0, 3, 4, 1)).reshape(-1, height, width, inputs)
    return lower_weighted(builder, fused, read, weight, packed, steps)


def _repeat_epilogue(builder: PlanBuilder, epilogue: Epilogue, count: int) -> Epilogue:
    """Repeat an epilogue for so many times as many channels."""

    def each(name: str) -> str:
        if not name or builder.arrays[name].size == 1:
            return name
        return builder.hold(f"{name}.each", np.tile(builder.arrays[name], count))

    return replace(
        epilogue, multiplier=each(epilogue.multiplier), bias=each(epilogue.bias), slope=each(epilogue.slope),
        integer_bias=each(epilogue.integer_bias), factors=each(epilogue.factors),
        offsets=each(epilogue.offsets), gain=each(epilogue.gain), shift=each(epilogue.shift),
    )  # fmt: skip


def lower_conv_transpose_in_floats(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a ConvTranspose of floats over images, sequences or volumes."""
    node = fused.root
    weight, op = float_weight(builder, node.inputs[1]), ops.ConvTranspose.of(node)
    if op.output_shape is not None:
        raise NoMatch("its pads follow from an output_shape")
    filters = group_filters(np.swapaxes(weight, 0, 1), op.group)
    overlap = tuple(weight.shape[2:]) != op.strides_of(weight.ndim - 2)
    if overlap and op.group == 1 and len(filters) < _LEAST_OUTPUTS:
        raise NoMatch(
            f"it makes {len(filters)} channels of windows that overlap: kernels of ours are slow there"
        )
    bias = bias_vector(builder, node.inputs[2], len(filters)) if len(node.inputs) > 2 else None
    bias_name = hold_input(builder, node, 2, "bias", bias)
    if weight.ndim == 5:
        write_float_conv_transpose_of_volumes(builder, node, filters, bias_name)
        return [node]
    shape = window(node, op, weight.shape[2:])
    padding = (0, 0, *op.output_padding)[-2:]
    geometry = shape.strides, shape.dilations, shape.pads, (padding[0], padding[1]), op.group
    name, done = node.name or "", (node.name or "",)
    x, y = builder.real(node.inputs[0]), write_floats(builder, node.outputs[0])
    turned = np.moveaxis(filters, 1, -1)
    w = hold_input(builder, node, 1, "taps", turned if turned.ndim == 4 else turned[:, None])
    add_over_images(
        builder, node, x, y, lambda a, b: FloatConvTranspose(name, done, a, b, w, bias_name, *geometry)
    )
    return [node]


_LEAST_OUTPUTS = 8  # lanes are channels; with fewer ONNX Runtime is up to eight times as fast
