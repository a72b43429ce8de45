"""Rule for a normalization behind a convolution, where the engine wants int8 from the convolution."""

from __future__ import annotations

from intact.graph.ops import CONVOLUTIONS
from intact.placement.placement_graph import Op, View
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule
from intact.placement.rules.float_reasons import float_reason


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data; the normalization itself stays in float and reads the convolution's codes.

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
