"""Convolutions and products in float as steps: what has no codes, or no integer form."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, is_float32
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.weights import grouped
from intact.engine.lower.base.window import window
from intact.engine.lower.rules.products.float_volumes import lower_over_volumes
from intact.engine.lower.rules.products.gemm import as_image, image_dims
from intact.engine.lower.rules.products.volumes import as_planes, as_volumes, stacked, volume_window
from intact.engine.steps import (
    Binary,
    FloatConv,
    FloatConvTranspose,
    FloatLinear,
    FloatMatMul,
    Reshape,
    Step,
    Transpose,
)
from intact.graph import Node, Value, is_op, ops

Floats = NDArray[np.float32]


def lower_float_sum(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """A layer in float: its root, and the bias that is added right behind it.

    Returns:
        The nodes that it could not take in.
    Raises:
        NoMatch: The root itself.
    """
    done = FLOAT_ROOTS[fused.root.op_type](builder, fused)
    return [node for node in fused.nodes if node not in done]


def lower_float_root(builder: PlanBuilder, node: Node) -> None:
    """A convolution or product in float by itself.

    Raises:
        NoMatch: As for `lower_float_sum`.
    """
    lower_float_sum(builder, Fused(node))


def _conv(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    weight = _weight(builder, node.inputs[1])
    said, value = ops.Conv.of(node), node.outputs[0]
    if weight.ndim == 5:
        return _conv_of_volumes(builder, node, weight)
    shape = window(node, said, weight.shape[2:])
    filters = np.moveaxis(weight, 1, -1)
    name, done = node.name or "", (node.name or "",)
    bias = _vector(builder, node.inputs[2], len(weight)) if len(node.inputs) > 2 else None
    x, held = builder.real(node.inputs[0]), _hold(builder, node, 2, "bias", bias)
    y, laid = _written(builder, value), (shape.strides, shape.dilations, shape.pads, said.group)
    w = _hold(builder, node, 1, "filters", filters if filters.ndim == 4 else filters[:, None])
    _add_over_images(builder, node, x, y, lambda a, b: FloatConv(name, done, a, b, w, held, *laid))
    return [node]


def _add_over_images(
    builder: PlanBuilder, node: Node, x: str, y: str, step_of: Callable[[str, str], Step]
) -> None:
    """The step that makes the image y of the image x; sequences become images of one row, and back."""
    if len(builder.tensors[y].shape) == 4:
        builder.add(step_of(x, y), node)
        return
    name, done = node.name or "", (node.name or "",)
    image, before = as_image(builder, x, name, done)
    made = builder.scratch(f"{y}.image", "float32", image_dims(builder.tensors[y].shape))
    for step in (*before, step_of(image, made), Reshape(name, done, made, y)):
        builder.add(step, node)


def _conv_of_volumes(builder: PlanBuilder, node: Node, weight: Floats) -> list[Node]:
    """One over planes, each beside its neighbours in depth."""
    said, who = ops.Conv.of(node), (node.name or "", (node.name or "",))
    window = volume_window(node, said, weight.shape[2:], rows=said.group > 1)
    shape = window.over
    bias = _vector(builder, node.inputs[2], len(weight)) if len(node.inputs) > 2 else None
    x, held = builder.real(node.inputs[0]), _hold(builder, node, 2, "bias", bias)
    planes, before = as_planes(builder, x, *who)
    image, stack = stacked(builder, planes, builder.tensors[x].shape[2], window, *who)
    made, behind = as_volumes(builder, _written(builder, node.outputs[0]), *who)
    w = _hold(builder, node, 1, "filters", window.filters(weight))
    conv = FloatConv(*who, image, made, w, held, shape.strides, shape.dilations, shape.pads, said.group)
    for step in (*before, *stack, conv, *behind):
        builder.add(step, node)
    return [node]


def _conv_transpose(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """A transposed convolution over images, sequences or volumes."""
    node = fused.root
    weight, said = _weight(builder, node.inputs[1]), ops.ConvTranspose.of(node)
    if said.output_shape is not None:
        raise NoMatch("its pads follow from an output_shape")
    filters = grouped(np.swapaxes(weight, 0, 1), said.group)
    overlap = tuple(weight.shape[2:]) != said.strides_of(weight.ndim - 2)
    if overlap and said.group == 1 and len(filters) < _LEAST_OUTPUTS:
        raise NoMatch(
            f"it makes {len(filters)} channels of windows that overlap: kernels of ours are slow there"
        )
    bias = _vector(builder, node.inputs[2], len(filters)) if len(node.inputs) > 2 else None
    held = _hold(builder, node, 2, "bias", bias)
    if weight.ndim == 5:
        lower_over_volumes(builder, node, filters, held)
        return [node]
    shape = window(node, said, weight.shape[2:])
    padding = (0, 0, *said.output_padding)[-2:]
    laid = shape.strides, shape.dilations, shape.pads, (padding[0], padding[1]), said.group
    name, done = node.name or "", (node.name or "",)
    x, y = builder.real(node.inputs[0]), _written(builder, node.outputs[0])
    turned = np.moveaxis(filters, 1, -1)
    w = _hold(builder, node, 1, "taps", turned if turned.ndim == 4 else turned[:, None])
    _add_over_images(builder, node, x, y, lambda a, b: FloatConvTranspose(name, done, a, b, w, held, *laid))
    return [node]


_LEAST_OUTPUTS = 8  # lanes are channels; with fewer ONNX Runtime is up to eight times as fast


def _matmul(builder: PlanBuilder, fused: Fused) -> list[Node]:
    node = fused.root
    a, b = node.inputs[:2]
    if b is not None and b in builder.constants and b.shape is not None and len(b.shape) == 2:
        weight = _weight(builder, b)
        bias, last = _bias_behind(builder, fused, weight.shape[1])
        x, y = builder.real(a), _written(builder, [node, *last][-1].outputs[0])
        return _linear(builder, [node, *last], x, y, weight, bias)
    operands = _operand(builder, a), _operand(builder, b)
    _product(builder, node, *operands, _written(builder, node.outputs[0]))
    return [node]


def _gemm(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """``alpha * A @ B + beta * C``: a constant B takes alpha in, a C that is a constant row beta."""
    node, said, value = fused.root, ops.Gemm.of(fused.root), fused.root.outputs[0]
    a, b = node.inputs[:2]
    c = node.inputs[2] if len(node.inputs) > 2 and said.beta else None  # a C times 0 is not read: N51
    x = _turned(builder, node, builder.real(a), "a") if said.transA else builder.real(a)
    weight, bias = None, None
    if b in builder.constants:
        weight = _weight(builder, b)
        weight = _scaled(weight.T if said.transB else weight, said.alpha)
        bias = _row(builder, c, weight.shape[1])
    elif said.alpha != 1:
        raise NoMatch("it scales a product of two tensors")
    if c is None or bias is not None:
        made = _written(builder, value)
    elif said.beta != 1:
        raise NoMatch("it scales what it adds, which is no constant row")
    else:
        name, added = node.name or "", _operand(builder, c)
        made = builder.scratch(f"{value.name}.product", "float32", dims_of(value))
        builder.add(Binary(name, (name,), "add", made, added, _written(builder, value)), node)
    if weight is not None:
        _linear(builder, [node], x, made, weight, None if bias is None else _scaled(bias, said.beta))
    else:
        right = _turned(builder, node, builder.real(b), "b") if said.transB else builder.real(b)
        _product(builder, node, x, right, made)
    return [node]


def _product(builder: PlanBuilder, node: Node, a: str, b: str, y: str) -> None:
    if min(_rank(builder, name) for name in (a, b)) < 2:
        raise NoMatch("one of its operands is a vector")
    builder.add(FloatMatMul(node.name or "", (node.name or "",), a, b, y), node)


def _linear(
    builder: PlanBuilder, nodes: list[Node], x: str, y: str, weight: Floats, bias: Floats | None
) -> list[Node]:
    name = nodes[0].name or ""
    done = tuple(node.name or "" for node in nodes)
    w = _hold(builder, nodes[0], 1, "matrix", weight)
    held = "" if bias is None else builder.hold(f"{name}.bias", bias)
    builder.add(FloatLinear(name, done, x, y, w, held), *nodes)
    return nodes


def _bias_behind(builder: PlanBuilder, fused: Fused, outputs: int) -> tuple[Floats | None, list[Node]]:
    """The constant row that the first node behind a product adds, and that node."""
    add, made = fused.affine[0] if fused.affine else None, fused.root.outputs[0]
    if add is None or not is_op(add, "Add") or made.is_graph_output() or len(list(made.uses())) != 1:
        return None, []
    others = [value for value in add.inputs if value is not made]
    if len(others) != 1 or dims_of(add.outputs[0]) != dims_of(made):
        return None, []
    bias = _row(builder, others[0], outputs)
    return bias, [] if bias is None else [add]


def _weight(builder: PlanBuilder, value: Value | None) -> Floats:
    array = builder.constant(value, "its weight")
    if array.dtype != np.float32 or array.size == 0:
        raise NoMatch(f"its weight is {array.dtype} of shape {array.shape}")
    return np.asarray(array, np.float32)


def _vector(builder: PlanBuilder, value: Value | None, outputs: int) -> Floats | None:
    """A constant that is one number for each output, or one for all; None where there is none."""
    if value is None:
        return None
    array = builder.constant(value, "its bias")
    if array.dtype != np.float32 or array.size not in (1, outputs) or prod(array.shape[:-1]) != 1:
        raise NoMatch(f"its bias is {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (outputs,)))


def _row(builder: PlanBuilder, value: Value | None, outputs: int) -> Floats | None:
    """As `_vector`, but None for what is none too."""
    try:
        return _vector(builder, value, outputs)
    except NoMatch:
        return None


def _scaled(array: Floats, factor: float) -> Floats:
    return array if factor == 1 else np.asarray(array * np.float64(factor), np.float32)


def _hold(builder: PlanBuilder, node: Node, index: int, key: str, array: Floats | None) -> str:
    """A constant under the name of the input that it is made of: layers that share that share it."""
    value = node.inputs[index] if array is not None else None
    return builder.hold(f"{value.name}.{key}", array) if value is not None and array is not None else ""


def _operand(builder: PlanBuilder, value: Value | None) -> str:
    """A tensor of floats, or a constant in its place."""
    return builder.either(value) if value in builder.constants else builder.real(value)


def _rank(builder: PlanBuilder, name: str) -> int:
    return len(builder.tensors[name].shape) if name in builder.tensors else builder.arrays[name].ndim


def _turned(builder: PlanBuilder, node: Node, x: str, key: str) -> str:
    """A matrix transposed."""
    rows, columns = builder.tensors[x].shape
    y = builder.scratch(f"{node.name}.{key}.T", "float32", (columns, rows))
    builder.add(Transpose(node.name or "", (node.name or "",), x, y, (1, 0)))
    return y


def _written(builder: PlanBuilder, value: Value) -> str:
    if not is_float32(value):
        raise NoMatch(f"'{value.name}' is no float32")
    return builder.write_plain(value, "float32")


_Rule = Callable[[PlanBuilder, Fused], list[Node]]
FLOAT_ROOTS: dict[str, _Rule] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
"""Operator -> its form in float."""
