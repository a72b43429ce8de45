"""Rule for recurrent layers: the product with their inputs runs in int8, before the first step."""

from __future__ import annotations

from intact.graph import ops
from intact.graph.ops import Recurrent
from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data and its weight; the weight of states stays float, as states do (decision 25).

    Before: ``x, w, r -> LSTM``.  After: ``Q/DQ(x), Q/DQ(w), r -> LSTM``.

    Guards: the weights are constants, and the form is one that kernels know.
    """
    form = ops.read(op.node)
    assert isinstance(form, Recurrent)
    if len(op.inputs) < 3 or not all(map(view.is_constant, op.inputs[1:3])):
        return Kept("its weights are not constants: codes and scales cannot be stored")
    if view.is_constant(op.inputs[0]):
        return Kept("its data is a constant")
    why = form.unusual(op.node)
    return Kept(f"{why}, and its inputs and states are multiplied in float") if why else (0, 1)


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    if not ctx.profile.recurrent:
        return Kept("its engine multiplies the inputs of recurrent layers in float")
    shape = shape_of(op.inputs[1])
    size = shape[-1] if shape else None
    if size is not None and size < ctx.profile.min_inner:
        return Kept(f"K = {size}, below {ctx.profile.min_inner}: too small to pay in int8")
    return Int8(inputs, f"{op} has a weight for its inputs: both in int8")


RULE = Rule("recurrent", ops.RECURRENT, "projects", _reads, _wants)
