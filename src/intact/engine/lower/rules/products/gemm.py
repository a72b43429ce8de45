"""Convolutions and products as steps, with the bias, residual and activation that placement found behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.epilogue import (
    Tail,
    finish,
    take_affine,
    take_bounds,
    take_residual,
    take_slope,
)
from intact.engine.lower.base.functions import function_of
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.operand import CodesRead, codes_read
from intact.engine.lower.base.weights import Weight, bias_of, grouped, prove, prove_joined, weight_of
from intact.engine.lower.base.window import window
from intact.engine.lower.rules.products.volumes import (
    VolumeWindow,
    as_planes,
    as_volumes,
    plane_dims,
    stacked,
    volume_window,
)
from intact.engine.lower.rules.products.wide_weights import split_weight
from intact.engine.steps import Codes, Conv, ConvTranspose, Dim, Epilogue, Linear, MatMul, Reshape, Step
from intact.graph import Node, ops


def lower_sum(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """A layer whose root is a convolution or product.

    Returns:
        The nodes that it could not take in.
    Raises:
        NoMatch: The root itself.
    """
    return _ROOTS[fused.root.op_type](builder, fused)


ROOTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def _tail(builder: PlanBuilder, fused: Fused, tail: Tail) -> list[Node]:
    """Take in as much of `fused` as the epilogue can say, in order; the others."""
    for node in fused.affine:
        if not take_affine(builder, tail, node):
            return _left(fused, tail)
    add, last = fused.residual, fused.activation
    if add is not None and not take_residual(builder, tail, add):
        return _left(fused, tail)
    if len(last) == 1 and (take_bounds(builder, tail, last[0]) or take_slope(builder, tail, last[0])):
        return []
    if last and (function := function_of(last, fused.function)) is not None:
        tail.activation = function
        tail.nodes += last
        tail.output = last[-1].outputs[0]
    return _left(fused, tail)


def _left(fused: Fused, tail: Tail) -> list[Node]:
    return [node for node in fused.nodes if node not in tail.nodes]


def _conv(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    weight = weight_of(builder, node.inputs[1], 0)
    said, kernel = ops.Conv.of(node), weight.codes.shape[2:]
    if len(kernel) == 3:
        read = CodesRead(*builder.wanted_codes(node.inputs[0]))
    else:
        read = codes_read(builder, node.inputs[0], of_images=True)
    groups = said.group
    read, weight = split_weight(builder, node, read, weight, 1, groups)
    volumes = volume_window(node, said, kernel, rows=groups > 1) if len(kernel) == 3 else None
    shape = window(node, said, kernel) if volumes is None else volumes.over

    def step(image: Image) -> Step:
        made = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        (top, left, bottom, right) = (a + b for a, b in zip(shape.pads, read.pads, strict=True))
        return Conv(*made, shape.strides, shape.dilations, (top, left, bottom, right), groups, image.low)

    if volumes is not None:
        return _over_volumes(builder, fused, read, weight, volumes, step)
    return _over_images(builder, fused, read, weight, step)


def _over_volumes(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, window: VolumeWindow,
    make: Callable[[Image], Step],
) -> list[Node]:  # fmt: skip
    """A convolution over volumes is one over their planes, each beside its neighbours in depth."""
    x = read.x
    plane_dims(builder.tensors[x].shape)  # or there is no match

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        who = name, done
        planes, before = as_planes(builder, x, *who)
        image, stack = stacked(builder, planes, builder.tensors[x].shape[2], window, *who)
        residual, more = as_planes(builder, epilogue.residual, *who) if epilogue.residual else ("", [])
        made, behind = as_volumes(builder, y, *who)
        step = make(Image(*who, image, made, w, replace(epilogue, residual=residual)))
        return [*before, *stack, *more, step, *behind]

    return _weighted(builder, fused, read, weight, window.filters(weight.codes), steps)


@dataclass(frozen=True)
class Image:
    """What a convolution over images reads, writes and is called."""

    name: str
    nodes: tuple[str, ...]
    x: str
    y: str
    weight: str
    epilogue: Epilogue
    low: str = ""


def _over_images(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, make: Callable[[Image], Step]
) -> list[Node]:
    """A convolution of any kind; one over sequences is over images of height 1."""
    packed = np.moveaxis(weight.codes, 1, -1)
    flat = packed.ndim == 3

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        who = name, done
        if not flat:
            return [make(Image(*who, read.x, y, w, epilogue, read.low))]
        image, before = as_image(builder, read.x, *who)
        residual, more = as_image(builder, epilogue.residual, *who) if epilogue.residual else ("", [])
        low, lower = as_image(builder, read.low, *who) if read.low else ("", [])
        row = builder.tensors[y]
        made = builder.scratch(f"{y}.image", row.dtype, image_dims(row.shape), row.codes)
        step = make(Image(*who, image, made, w, replace(epilogue, residual=residual), low))
        return [*before, *more, *lower, step, Reshape(*who, made, y)]

    return _weighted(builder, fused, read, weight, packed[:, None] if flat else packed, steps)


def as_image(builder: PlanBuilder, x: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """A tensor over sequences [n, c, l] as one over images [n, c, 1, l], and the step that makes it."""
    tensor = builder.tensors[x]
    image = builder.scratch(f"{x}.image", tensor.dtype, image_dims(tensor.shape), tensor.codes)
    return image, [Reshape(name, done, x, image)]


def image_dims(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """[n, c, l] as [n, c, 1, l]."""
    return (*shape[:2], 1, *shape[2:])


def _conv_transpose(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    read = CodesRead(*builder.wanted_codes(node.inputs[0]))
    value, said = node.inputs[1], ops.ConvTranspose.of(node)
    groups = said.group
    weight = weight_of(builder, value, 1)
    if groups > 1 and weight.scale.ndim:
        raise NoMatch("its groups share the scales of its weight")
    if said.output_shape is not None:
        raise NoMatch("its pads follow from an output_shape")
    kernel = weight.codes.shape[2:]
    volumes = volume_window(node, said, kernel, rows=False) if len(kernel) == 3 else None
    shape = window(node, said, kernel) if volumes is None else volumes.over
    *deep, height, width = (0, 0, *said.output_padding)
    weight = Weight(grouped(weight.codes, groups), weight.scale)
    read, weight = split_weight(builder, node, read, weight, 1, groups)

    def step(image: Image) -> Step:
        made = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        return ConvTranspose(*made, shape.strides, shape.dilations, shape.pads, (height, width), groups)

    if volumes is None:
        return _over_images(builder, fused, read, weight, step)
    if groups > 1 or volumes.kernel != volumes.stride or any((*volumes.pads, *deep)):
        raise NoMatch("its windows overlap in depth, or leave something out, or it has groups")
    return _into_planes(builder, fused, read, weight, step)


def _into_planes(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, make: Callable[[Image], Step]
) -> list[Node]:
    """A transposed convolution whose windows lie side by side in depth: each plane makes one for each of its
    taps, channels behind channels, which then are planes of their own."""
    x, (out, inputs, depth, height, width) = read.x, weight.codes.shape
    plane_dims(builder.tensors[x].shape)  # or there is no match

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        who = name, done
        planes, before = as_planes(builder, x, *who)
        made, behind = as_volumes(builder, y, *who)
        tensor, count = builder.tensors[made], builder.tensors[planes].shape[0]
        dims = count, out * depth, *tensor.shape[2:]
        taps = builder.scratch(f"{y}.taps", tensor.dtype, dims, tensor.codes)
        residual = ""
        if epilogue.residual:
            others, more = as_planes(builder, epilogue.residual, *who)
            other = builder.tensors[others]
            residual = builder.scratch(f"{others}.taps", other.dtype, dims, other.codes)
            before += [*more, Reshape(*who, others, residual)]
        step = make(
            Image(*who, planes, taps, w, replace(_repeated(builder, epilogue, depth), residual=residual))
        )
        return [*before, step, Reshape(*who, taps, made), *behind]

    packed = np.ascontiguousarray(weight.codes.transpose(2, 0, 3, 4, 1)).reshape(-1, height, width, inputs)
    return _weighted(builder, fused, read, weight, packed, steps)


def _repeated(builder: PlanBuilder, epilogue: Epilogue, count: int) -> Epilogue:
    """For so many times as many channels."""

    def each(name: str) -> str:
        if not name or builder.arrays[name].size == 1:
            return name
        return builder.hold(f"{name}.each", np.tile(builder.arrays[name], count))

    return replace(
        epilogue, multiplier=each(epilogue.multiplier), bias=each(epilogue.bias), slope=each(epilogue.slope),
        integer_bias=each(epilogue.integer_bias), factors=each(epilogue.factors),
        offsets=each(epilogue.offsets), gain=each(epilogue.gain), shift=each(epilogue.shift),
    )  # fmt: skip


_Maker = Callable[[str, str, str, Epilogue, tuple[str, ...]], list[Step]]


def _weighted(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, packed: NDArray[np.int8],
    make: _Maker, *, alpha: float = 1.0, beta: float = 1.0,
) -> list[Node]:  # fmt: skip
    node = fused.root
    x = read.codes
    added = node.inputs[2] if len(node.inputs) > 2 and beta else None  # times 0 it is not read: N51
    bias = bias_of(builder, added, x.scale, weight)
    if bias.integer is not None and (alpha, beta) != (1.0, 1.0):
        raise NoMatch("it scales a bias that is part of its sum")
    shift = 0
    most: NDArray[np.int64] | int = 2**31 - 1
    if read.low:
        shift = prove_joined(weight, (x.low, x.high), x.zero_point, bias.integer)
    else:
        most = prove(weight, x, bias.integer)
    tail = Tail([node], node.outputs[0], weight.codes.shape[0], alpha)
    if bias.real is not None:
        tail.bias = bias.real if beta == 1.0 else (bias.real * np.float64(beta)).astype(np.float32)
    left = _tail(builder, fused, tail)
    name = node.name or ""
    still = np.asarray(~weight.codes.any(axis=tuple(range(1, weight.codes.ndim))))
    if bias.integer is not None:
        still &= bias.integer == 0
    epilogue, output = finish(
        builder, tail, (x.scale * 2**shift, weight.scale), name,
        most=most, integer_bias=bias.integer, still=still,
    )  # fmt: skip
    w = builder.hold(f"{name}.weight", packed)
    done = tuple(n.name or "" for n in tail.nodes)
    for step in make(name, output.name, w, epilogue, done):
        if isinstance(step, Conv | Linear):
            step = replace(step, shift=shift)
        builder.add(step, *tail.nodes)
    return left


def _gemm(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    said = ops.Gemm.of(node)
    if said.transA:
        raise NoMatch("its first operand is transposed")
    return _linear(builder, fused, said.weight_axis, said.alpha, said.beta)


def _linear(
    builder: PlanBuilder, fused: Fused, out_axis: int, alpha: float = 1.0, beta: float = 1.0
) -> list[Node]:
    node = fused.root
    read = codes_read(builder, node.inputs[0])
    value = node.inputs[1]
    if value is None or value.shape is None or len(value.shape) != 2:
        raise NoMatch("its weight is no matrix")
    read, weight = split_weight(builder, node, read, weight_of(builder, value, out_axis), -1)

    def step(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        return [Linear(name, done, read.x, y, w, epilogue, read.low)]

    return _weighted(builder, fused, read, weight, weight.codes, step, alpha=alpha, beta=beta)


def _matmul(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    if node.inputs[1] in builder.constants:
        return _linear(builder, fused, 1)
    if node.inputs[0] in builder.constants:
        raise NoMatch("its first operand is a constant")
    (a, first), (b, second) = (builder.wanted_codes(v) for v in node.inputs[:2])
    if min(len(builder.tensors[a].shape), len(builder.tensors[b].shape)) < 2:
        raise NoMatch("one of its operands is a vector")
    most = _prove_product(first, second, builder.tensors[a].shape[-1], builder.tensors[b].shape[-2])
    tail = Tail([node], node.outputs[0])
    left = _tail(builder, fused, tail)
    epilogue, output = finish(builder, tail, (first.scale, second.scale), node.name or "", most=most)
    done = tuple(n.name or "" for n in tail.nodes)
    builder.add(MatMul(node.name or "", done, a, b, output.name, epilogue), *tail.nodes)
    return left


def _prove_product(a: Codes, b: Codes, *inner: Dim) -> int:
    """The largest magnitude of a sum."""
    size = next((n for n in inner if isinstance(n, int)), LONGEST)
    if _reach(a) * _reach(b) * size >= 2**31:
        raise NoMatch(f"sums of {size} products could leave int32")
    return _reach(a) * _reach(b) * size


def _reach(codes: Codes) -> int:
    return max(codes.high - codes.zero_point, codes.zero_point - codes.low)


LONGEST = 32768
"""A sequence of unknown length is taken to be no longer: 255 * 255 * 32768 < 2**31."""


def lower_root(builder: PlanBuilder, node: Node) -> None:
    """A convolution or product by itself.

    Raises:
        NoMatch: As for `lower_sum`.
    """
    lower_sum(builder, Fused(node))


_Lower = Callable[[PlanBuilder, Fused], list[Node]]
_ROOTS: dict[str, _Lower] = {
    "Conv": _conv, "ConvTranspose": _conv_transpose, "Gemm": _gemm, "MatMul": _matmul,
}  # fmt: skip
