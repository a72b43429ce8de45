"""Convolutions and products as steps, with the bias, residual and activation that placement found behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.builder import NoMatch, PlanBuilder
from intact.engine.lower.epilogue import Tail, finish, take_affine, take_bounds, take_residual, take_slope
from intact.engine.lower.functions import function_of
from intact.engine.lower.fused import Fused
from intact.engine.lower.operand import CodesRead, codes_read
from intact.engine.lower.weights import Bias, Weight, bias_of, prove, prove_joined, weight_of
from intact.engine.lower.window import window
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
    read = codes_read(builder, node.inputs[0], of_images=True)
    weight = weight_of(builder, node.inputs[1], 0)
    said = ops.Conv.of(node)
    shape, groups = window(node, said, weight.codes.shape[2:]), said.group

    def step(image: Image) -> Step:
        made = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        (top, left, bottom, right) = (a + b for a, b in zip(shape.pads, read.pads, strict=True))
        return Conv(*made, shape.strides, shape.dilations, (top, left, bottom, right), groups, image.low)

    return _over_images(builder, fused, read, weight, step)


@dataclass(frozen=True)
class Image:
    """What a convolution over images reads, writes and is called."""

    name: str
    nodes: tuple[str, ...]
    x: str
    y: str
    weight: str
    epilogue: Epilogue
    low: str


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
    shape = window(node, said, weight.codes.shape[2:])
    height, width = (0, 0, *said.output_padding)[-2:]
    weight = Weight(_grouped(weight.codes, groups), weight.scale)

    def step(image: Image) -> Step:
        made = image.name, image.nodes, image.x, image.y, image.weight, image.epilogue
        return ConvTranspose(*made, shape.strides, shape.dilations, shape.pads, (height, width), groups)

    return _over_images(builder, fused, read, weight, step)


def _grouped(codes: NDArray[np.int8], groups: int) -> NDArray[np.int8]:
    """[out / groups, in, ...] of ONNX's ConvTranspose as [out, in / groups, ...]."""
    outputs, inputs, *kernel = codes.shape
    split = codes.reshape(outputs, groups, inputs // groups, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, 1, 0)).reshape(outputs * groups, inputs // groups, *kernel)


_Maker = Callable[[str, str, str, Epilogue, tuple[str, ...]], list[Step]]


def _weighted(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, packed: NDArray[np.int8],
    make: _Maker, *, alpha: float = 1.0, beta: float = 1.0,
) -> list[Node]:  # fmt: skip
    node = fused.root
    x = read.codes
    bias = bias_of(builder, node.inputs[2] if len(node.inputs) > 2 else None, x.scale, weight)
    if bias.integer is not None and (alpha, beta) != (1.0, 1.0):
        raise NoMatch("it scales a bias that is part of its sum")
    shift = 0
    if read.low:
        shift = prove_joined(weight, (x.low, x.high), x.zero_point, bias.integer)
    else:
        prove(weight, x, bias.integer)
    tail = Tail([node], node.outputs[0], weight.codes.shape[0], np.float64(alpha) * np.ones(()))
    tail.shift = bias.real * beta
    left = _tail(builder, fused, tail)
    name = node.name or ""
    still = np.asarray(~weight.codes.any(axis=tuple(range(1, weight.codes.ndim))))
    if bias.integer is not None:
        still &= bias.integer == 0
    epilogue, output = finish(builder, tail, (x.scale * 2**shift, weight.scale), bias, name, still=still)
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
    weight = weight_of(builder, value, out_axis)

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
    _prove_product(first, second, builder.tensors[a].shape[-1], builder.tensors[b].shape[-2])
    tail = Tail([node], node.outputs[0])
    left = _tail(builder, fused, tail)
    epilogue, output = finish(builder, tail, (first.scale, second.scale), Bias(np.zeros(())), node.name or "")
    done = tuple(n.name or "" for n in tail.nodes)
    builder.add(MatMul(node.name or "", done, a, b, output.name, epilogue), *tail.nodes)
    return left


def _prove_product(a: Codes, b: Codes, *inner: Dim) -> None:
    size = next((n for n in inner if isinstance(n, int)), LONGEST)
    if _reach(a) * _reach(b) * size >= 2**31:
        raise NoMatch(f"sums of {size} products could leave int32")


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
