"""Rule for Add and Mul of two tensors that no layer fuses."""

from __future__ import annotations

from intact.placement.placement_graph import Op, View
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule, float_source


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return both operands, and the result.

    Before: ``a, b -> Add -> Conv``.  After: ``Q/DQ(a), Q/DQ(b) -> Add -> Q/DQ -> Conv``.
    """
    if any(map(view.is_constant, op.inputs)):
        return Kept("one operand is a constant, and no int8 layer in front takes it in")
    return 0, 1


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if op.op_type == "Mul" and not ctx.profile.multiply:
        return Kept(f"{ctx.profile.name} has no int8 Mul")
    if (refusal := ctx.float_outputs(op)) is not None:
        return refusal
    sources = [float_source(ctx, op.inputs[i]) for i in inputs]
    if all(sources):
        return Kept(f"both operands come in float, from {' and '.join(map(str, sources))}")
    return Int8(inputs, f"{op} runs in int8 between int8 layers")


RULE = Rule("elementwise", frozenset({"Add", "Mul"}), "computes", _reads, _wants)
