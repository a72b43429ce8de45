"""Rule for convolutions and products with a weight: all inputs are quantized."""

from __future__ import annotations

from intact.graph import Value, ops
from intact.graph.ops import CONVOLUTIONS, RECURRENT, Conv, ConvTranspose
from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.records import Kept
from intact.placement.rules.base import TAKES_LOGARITHM, Context, Int8, Rule


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data and the weight; the bias stays float: it is added to the accumulator.

    Before: ``x, w -> Conv``.  After: ``Q/DQ(x), Q/DQ(w) -> Conv``.

    Guards: the weight is a constant.
    """
    if len(op.inputs) < 2:
        return Kept("it has no weight")
    if view.is_constant(op.inputs[0]) and op.op_type in CONVOLUTIONS:
        return Kept("its data is a constant")
    if not any(map(view.is_constant, op.inputs[:2])):
        return Kept("its weight is not a constant: codes and scales cannot be stored")
    return 0, 1


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if op in ctx.in_logarithms:
        return Kept(TAKES_LOGARITHM)
    small = _small_convolution(ctx, op) if op.op_type in CONVOLUTIONS else small_product(ctx, op)
    return small or Int8(inputs, f"{op} has a weight: its data and weight in int8")


def _small_convolution(ctx: Context, op: Op) -> Kept | None:
    """Guard of engines whose kernels want 16 channels; the first layer, large in area, is left alone."""
    least, shape = ctx.profile.min_channels, shape_of(op.inputs[1])
    if shape is None or Conv.of(op.node).group > 1 or op.inputs[0] in ctx.view.model.graph.inputs:
        return None
    narrow = [size for size in shape[:2] if size is not None and size < least]
    return Kept(f"{narrow[0]} channels, below {least}: no int8 kernel that pays") if narrow else None


def small_product(ctx: Context, op: Op) -> Kept | None:
    """Guard: a matrix-vector product, or a K or N so small that quantizing costs more than it saves."""
    inner, outer = _sizes(op)
    least_inner, least_outer = ctx.profile.min_inner, ctx.profile.min_outer
    if inner is not None and inner < least_inner:
        return Kept(f"K = {inner}, below {least_inner}: too small to pay in int8")
    if outer is not None and outer == 1 and least_outer > 1:
        return Kept("N = 1: a matrix-vector product, bound by memory")
    if outer is not None and outer < least_outer and op.op_type == "MatMul":
        return Kept(f"N = {outer}, below {least_outer}: too small to pay in int8")
    return None


def _sizes(op: Op) -> tuple[int | None, int | None]:
    """Return K and N of a product; None where not known."""
    a, b = shape_of(op.inputs[0]), shape_of(op.inputs[1])
    if not b:
        return (a[-1] if a else None), None
    if len(b) == 1:
        return b[0], 1
    inner, outer = (b[-1], b[-2]) if ops.weight_axis(op.node) == 0 else (b[-2], b[-1])
    return inner, outer


def weight_axis(op: Op, index: int, value: Value) -> int | None:
    """Return the axis of output channels of a constant input; None: one scale for all of it.

    Conv: 0. ConvTranspose: 1; with groups its scales would repeat per group, and builders refuse them.
    Gemm: 0 where transB, else 1. MatMul with a matrix on the right: 1. LSTM and its kind: 1, that of gates,
    whose scales their directions share.
    """
    if op.op_type in RECURRENT:
        return ops.weight_axis(op.node) if index == 1 else None
    shape = shape_of(value)
    if op.op_type == "ConvTranspose" and ConvTranspose.of(op.node).group > 1:
        return None
    if op.op_type not in CONVOLUTIONS and (index != 1 or shape is None or len(shape) != 2):
        return None
    return ops.weight_axis(op.node)


RULE = Rule("weighted", frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}), "multiplies", _reads, _wants)
