"""Rule for functions of one tensor between DequantizeLinear and QuantizeLinear: a table of codes."""

from __future__ import annotations

from intact.placement.activations import is_function
from intact.placement.placement_graph import Op, View
from intact.placement.profiles import PROFILES
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule, float_source

_FUNCTIONS = frozenset().union(*(profile.tables | profile.activations for profile in PROFILES.values()))


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data.

    Before: ``Concat -> Sigmoid -> Conv``.  After: ``Concat -> Q/DQ -> Sigmoid -> Q/DQ -> Conv``.

    Guards: parameters are constants; of Mul and Div, one number. The scores of attention are scaled that way
    between the projection and the product.
    """
    if op.op_type in ("Mul", "Div"):
        return _match_scaling(view, op)
    return (0,) if is_function(view, op) else Kept("its parameters are not constants")


def _match_scaling(view: View, op: Op) -> tuple[int, ...] | Kept:
    for index in (0, 1) if op.op_type == "Mul" else (0,):
        other = op.inputs[1 - index]
        if other is not None and view.is_constant(other) and not view.is_constant(op.inputs[index]):
            array = view.constants(other)
            if array is not None and array.size == 1:
                return (index,)
    return Kept("it would run in int8 only where it scales by one number")


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if op.op_type not in ctx.profile.tables:
        return Kept(f"{ctx.profile.name} has no int8 {op.op_type} of its own")
    if (refusal := ctx.float_outputs(op)) is not None:
        return refusal
    if (source := float_source(ctx, op.inputs[0])) is not None:
        return Kept(f"its input comes in float, from {source}")
    return Int8(inputs, f"{op} is a table of codes between int8 layers")


RULE = Rule("tables", _FUNCTIONS, "computes", _reads, _wants)
