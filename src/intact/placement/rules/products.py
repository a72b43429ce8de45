"""Rule for products of two activations: attention's scores and weighted sums."""

from __future__ import annotations

from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.records import Kept
from intact.placement.rules.base import TAKES_LOGARITHM, Context, Int8, Rule
from intact.placement.rules.weighted import small_product


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return both operands.

    Before: ``q, k -> MatMul -> Softmax -> MatMul <- v``.
    After: ``Q/DQ(q), Q/DQ(k) -> MatMul -> Softmax -> Q/DQ -> MatMul <- Q/DQ(v)``.
    """
    if len(op.inputs) < 2 or any(map(view.is_constant, op.inputs[:2])):
        return Kept("an operand is a constant")
    return 0, 1


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if op in ctx.in_logarithms:
        return Kept(TAKES_LOGARITHM)
    limit = ctx.profile.max_attention
    rows = [shape[-2] for shape in map(shape_of, op.inputs[:2]) if shape is not None and len(shape) > 1]
    longest = max((size for size in rows if size is not None), default=0)
    if limit is not None and longest > limit:
        return Kept(f"a sequence of {longest}, above {limit}: faster in float16")
    return small_product(ctx, op) or Int8(inputs, f"{op} multiplies two activations: both in int8")


RULE = Rule("products", frozenset({"MatMul", "Gemm"}), "multiplies", _reads, _wants)
