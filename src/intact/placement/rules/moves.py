"""Operators that only move data: Q moves up through them, DQ moves down."""

from __future__ import annotations

import numpy as np

from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule
from intact.placement.view import Op, View

MOVING = frozenset({
    "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity",
    "MaxPool", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
    "Unsqueeze", "Upsample",
})  # fmt: skip
"""``Op(DQ(q)) == DQ(Op(q))`` for each, code by code: the largest code stands for the largest real."""


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """The data; of a Concat all inputs, which then share one scale.

    Before: ``x -> MaxPool -> Q/DQ -> Conv``.  After: ``x -> Q/DQ -> MaxPool -> Conv``.
    Before: ``a, b -> Concat -> Q/DQ -> Conv``.  After: ``Q/DQ(a), Q/DQ(b) -> Concat -> Conv``, one scale.
    Before: ``x -> Pad -> Conv``.  After: ``Q/DQ(x) -> Pad -> Conv``: code 0 (the zero point) is the real 0.

    Guards: `_GUARDS`, and data that is not a constant.
    """
    inputs = tuple(range(len(op.inputs))) if op.op_type == "Concat" else (0,)
    if any(op.inputs[i] is None or view.is_constant(op.inputs[i]) for i in inputs):
        return Kept("it moves a constant: a table, or a part that no layer writes")
    guard = _GUARDS.get(op.op_type)
    kept = guard(view, op) if guard is not None else None
    return kept or inputs


def _max_pool(view: View, op: Op) -> Kept | None:
    used = len(op.outputs) > 1 and (view.readers(op.outputs[1]) or view.is_output(op.outputs[1]))
    return Kept("its indices are used, and equal codes would change them") if used else None


def _pad(view: View, op: Op) -> Kept | None:
    if op.string("mode", "constant") != "constant":
        return None  # edge, reflect and wrap copy elements
    filled = op.float("value", 0.0)
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        array = view.constants(op.inputs[2])
        if array is None:
            return Kept("it pads with a value that is computed")
        filled = float(array.reshape(-1)[0]) if array.size else 0.0
    return None if filled == 0 else Kept(f"it pads with {filled:g}, which is no code of every grid; 0 is")


def _resize(view: View, op: Op) -> Kept | None:
    mode = op.string("mode", "nearest")
    return None if mode == "nearest" else Kept(f"it interpolates ({mode}): new values between the codes")


def _dropout(view: View, op: Op) -> Kept | None:
    array = view.constants(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] is not None else np.False_
    return None if array is not None and not np.any(array) else Kept("it drops at random")


_GUARDS = {"Dropout": _dropout, "MaxPool": _max_pool, "Pad": _pad, "Resize": _resize, "Upsample": _resize}


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    for output in op.outputs:
        used = ctx.view.readers(output) or ctx.view.is_output(output) or len(op.outputs) == 1
        if used and (reader := ctx.float_reader(output)) is not None:
            return Kept(f"its output is read in float, by {reader}")
    shared = ", one scale over all its inputs" if op.op_type == "Concat" else ""
    return Int8(inputs, f"{op} hands codes on{shared}")


RULE = Rule("moves", MOVING, "moves", _reads, _wants)
