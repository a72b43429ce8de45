"""Rule for operators that only move data: Q moves up through them, DQ moves down."""

from __future__ import annotations

from intact.graph import ops
from intact.placement.placement_graph import Op, View
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data inputs, of a Concat all inputs. `make_sites` decides which share its scale.

    Before: ``x -> MaxPool -> Q/DQ -> Conv``.  After: ``x -> Q/DQ -> MaxPool -> Conv``.
    Before: ``a, b -> Concat -> Q/DQ -> Conv``.  After: ``Q/DQ(a), Q/DQ(b) -> Concat -> Conv``, one scale;
    a part that others read too keeps its own where the engine rescales it, and the pair behind stays.
    Before: ``x -> Pad -> Conv``.  After: ``Q/DQ(x) -> Pad -> Conv``: code 0 (the zero point) is the real 0.

    Guards: those of the book of operators, and data that is not a constant.
    """
    inputs = ops.data_inputs(op.node)
    if any(op.inputs[i] is None or view.is_constant(op.inputs[i]) for i in inputs):
        return Kept("it moves a constant: a table, or a part that no layer writes")
    why = ops.quantized_before(op.node, view.constants)
    return Kept(why) if why else inputs


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if len(inputs) > 1 and op.op_type != "Concat":
        return Kept("it writes one tensor into another, and one scale for both may suit neither")
    for output in op.outputs:
        used = ctx.view.readers(output) or ctx.view.is_output(output) or len(op.outputs) == 1
        if used and (reader := ctx.float_reader(output)) is not None:
            return Kept(f"its output is read in float, by {reader}")
    shared = _describe_scale(ctx) if op.op_type == "Concat" else ""
    return Int8(inputs, f"{op} hands codes on{shared}")


def _describe_scale(ctx: Context) -> str:
    parts = "the inputs that it alone reads" if ctx.profile.rescales else "all its inputs"
    return f", one scale over {parts}"


RULE = Rule("moves", ops.MOVING, "moves", _reads, _wants)
