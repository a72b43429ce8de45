"""A normalization behind a convolution, where an engine wants the convolution to write int8."""

from __future__ import annotations

from intact.graph.ops import CONVOLUTIONS
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule
from intact.placement.rules.floats import float_reason
from intact.placement.view import Op, View


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """The data; the normalization itself stays in float and reads the convolution's codes.

    Before: ``Conv -> LayerNormalization``.  After: ``Conv -> Q/DQ -> LayerNormalization``.
    """
    return (0,)


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    value = op.inputs[0]
    root = ctx.stems.get(value) if value is not None else None
    if not ctx.profile.norm_after_conv or root is None or root.op_type not in CONVOLUTIONS:
        return Kept(float_reason(op.op_type, op.domain))
    return Int8(inputs, f"{root} writes int8 for {op}")


RULE = Rule("norms", frozenset({"LayerNormalization"}), "joins", _reads, _wants)
