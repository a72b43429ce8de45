"""Rule for average pooling: input and output are quantized."""

from __future__ import annotations

from intact.graph.ops import ReduceMean
from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.records import Kept
from intact.placement.rules.base import Context, Int8, Rule


def _reads(view: View, op: Op) -> tuple[int, ...] | Kept:
    """Return the data.

    Before: ``x -> GlobalAveragePool -> Gemm``.  After: ``Q/DQ(x) -> GlobalAveragePool -> Q/DQ -> Gemm``.

    Guards: a ReduceMean is a pool where it covers all the axes behind the channels of an image.
    """
    if op.op_type == "ReduceMean" and not _is_pool(view, op):
        return Kept("a mean over other axes than an image's height and width")
    return (0,)


def _is_pool(view: View, op: Op) -> bool:
    shape, axes = shape_of(op.inputs[0]), ReduceMean.of(op.node).axes_of(op.node, view.constants)
    if not axes or shape is None or len(shape) not in (4, 5):
        return False
    return sorted(axis % len(shape) for axis in axes) == list(range(2, len(shape)))


def _wants(ctx: Context, op: Op, inputs: tuple[int, ...]) -> Int8 | Kept:
    return ctx.float_outputs(op) or Int8(inputs, f"{op} averages codes between int8 layers")


RULE = Rule(
    "pools", frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"}), "computes", _reads, _wants
)
