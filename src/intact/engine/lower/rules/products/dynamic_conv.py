"""Lowers ConvInteger, with the Cast, Mul and Add behind it that make floats of its sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, is_float32
from intact.engine.lower.base.images import add_over_images
from intact.engine.lower.base.operand import plain_operand
from intact.engine.lower.base.window import window
from intact.engine.steps import DynamicConv
from intact.engine.steps.products.dynamic_conv import MIDDLE, MOST_TERMS
from intact.graph import Node, Value, input_of, is_op, only_reader, ops


@dataclass(frozen=True)
class ScaledConv:
    """A ConvInteger and what makes floats of its sums.

    Attributes:
        node, cast, product: The ConvInteger, the Cast of its sums and the Mul that scales them.
        add: The Add of a bias; None for none.
        x_scale, weight_scale: Factors of the scale of the sums.
        bias: What is added.
    """

    node: Node
    cast: Node
    product: Node
    x_scale: Value
    weight_scale: Value
    add: Node | None = None
    bias: Value | None = None

    @property
    def nodes(self) -> list[Node]:
        """All of them, in the order in which they compute."""
        return [self.node, self.cast, self.product, *([] if self.add is None else [self.add])]


def find_scaled_conv(builder: PlanBuilder, node: Node) -> ScaledConv | None:
    """Find ``Add(Mul(Cast(ConvInteger(x, w, ...)), Mul(x_scale, w_scale)), bias)``; the Add may be missing.

    Guards: w, w_scale and bias are constant, with a number for each output; nobody else reads what lies
    between.
    """
    cast = only_reader(node.outputs[0], "Cast")
    product = None if cast is None else only_reader(cast.outputs[0], "Mul")
    weight = builder.constants(input_of(node, 1))
    if cast is None or product is None or weight is None or not is_float32(cast.outputs[0]):
        return None
    factor = _other(product, cast.outputs[0])
    scale = None if factor is None else factor.producer()
    if scale is None or not is_op(scale, "Mul"):
        return None
    factors = [value for value in scale.inputs if value is not None]
    if len(factors) == 2 and factors[0] in builder.constants:
        factors.reverse()
    if len(factors) != 2 or factors[0] in builder.constants or not _has_no_axes(factors[0]):
        return None
    if _per_output(builder.constants(factors[1]), weight) is None:
        return None
    conv = ScaledConv(node, cast, product, factors[0], factors[1])
    add = only_reader(product.outputs[0], "Add")
    bias = None if add is None else _other(add, product.outputs[0])
    if add is None or _per_output(builder.constants(bias), weight) is None:
        return conv
    return ScaledConv(node, cast, product, factors[0], factors[1], add, bias)


def _other(node: Node, value: Value) -> Value | None:
    """Return the operand of a product or sum that is not `value`."""
    return node.inputs[1 if node.inputs[0] is value else 0]


def _has_no_axes(value: Value) -> bool:
    return value.shape is not None and len(value.shape) == 0


def _per_output(array: NDArray | None, weight: NDArray) -> NDArray[np.float32] | None:
    """Return constant floats that broadcast along the channels of an image as [out]; None for others."""
    if array is None or array.dtype != np.float32:
        return None
    shape = (1,) * (weight.ndim - array.ndim) + array.shape
    outputs = weight.shape[0]
    if len(shape) != weight.ndim or shape[1] not in (1, outputs) or array.size != shape[1]:
        return None
    return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (outputs,)), np.float32)


def lower_scaled_conv(builder: PlanBuilder, conv: ScaledConv) -> None:
    """Lower a convolution of codes, dynamic ones or those that the graph reads (N73).

    Raises:
        NoMatch: Its codes have forms that no kernel multiplies.
    """
    node = conv.node
    weight = builder.constant(node.inputs[1], "its weight")
    if weight.dtype not in (np.int8, np.uint8) or weight.size == 0 or weight.ndim not in (3, 4):
        raise NoMatch(f"its weight is {weight.dtype} of shape {weight.shape}")
    if weight[0].size > MOST_TERMS:
        raise NoMatch(f"its sums of {weight[0].size} products may leave int32")
    op = ops.Conv.of(node)
    shape = window(node, op, weight.shape[2:])
    x, scale = plain_operand(builder, node.inputs[0]), plain_operand(builder, conv.x_scale)
    zero_value = input_of(node, 2)
    zero = plain_operand(builder, zero_value) if zero_value is not None else ""
    _check_codes(builder, x, zero)
    scales, bias = (
        None if value is None else _per_output(builder.constants(value), weight)
        for value in (conv.weight_scale, conv.bias)
    )
    assert scales is not None
    name, done = node.name or "", tuple(part.name or "" for part in conv.nodes)
    points = _zero_points(builder, node, weight)
    filters = np.moveaxis(_codes_without_sign(weight), 1, -1)
    source = node.inputs[1]
    base = (source.name if source is not None else "") or name
    constants = {
        "weight": builder.hold(f"{base}.filters", filters if filters.ndim == 4 else filters[:, None]),
        "scales": builder.hold(f"{base}.scales", scales),
        "zero_points": "" if points is None else builder.hold(f"{base}.zero_points", points),
        "bias": "" if bias is None else builder.hold(f"{name}.bias", bias),
    }
    y = builder.write_plain(conv.nodes[-1].outputs[0], "float32")

    def step(image: str, output: str) -> DynamicConv:
        return DynamicConv(
            name, done, image, scale, output, x_zero_point=zero, strides=shape.strides,
            dilations=shape.dilations, pads=shape.pads, groups=op.group, **constants,
        )  # fmt: skip

    add_over_images(builder, conv.nodes[-1], x, y, step)
    builder.done.update(dict.fromkeys(conv.nodes))


def _check_codes(builder: PlanBuilder, x: str, zero: str) -> None:
    if x not in builder.tensors:
        raise NoMatch("it reads constant codes")
    dtype = builder.tensors[x].dtype
    if dtype not in ("int8", "uint8") or (zero and dtype == "int8"):
        raise NoMatch(f"its codes are {dtype}{' with a zero point' if zero else ''}")
    if zero and builder.rank(zero) != 0:
        raise NoMatch("its zero point is a vector")


def _zero_points(builder: PlanBuilder, node: Node, weight: NDArray) -> NDArray[np.uint8] | None:
    """Return the zero points of unsigned codes; None where all are 128."""
    value = input_of(node, 3)
    zeros = (
        np.zeros((), weight.dtype) if value is None else builder.constant(value, "its weight's zero point")
    )
    if zeros.dtype != weight.dtype or zeros.size not in (1, weight.shape[0]):
        raise NoMatch("its weight's zero points do not belong to its outputs")
    points = np.ascontiguousarray(np.broadcast_to(_codes_without_sign(zeros).reshape(-1), weight.shape[:1]))
    return None if (points == MIDDLE).all() else points


def _codes_without_sign(codes: NDArray) -> NDArray[np.uint8]:
    """Return codes without a sign: int8 ones plus 128."""
    return np.asarray(codes if codes.dtype == np.uint8 else codes.view(np.uint8) ^ np.uint8(MIDDLE), np.uint8)
