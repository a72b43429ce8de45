"""Lowers products of floats with a constant matrix."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.block_constants import has_block_codes
from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.float_weights import Floats, hold_input
from intact.engine.lower.rules.products.block_float_linear import write_block_floats
from intact.engine.steps import FloatLinear
from intact.errors import FileFormatError
from intact.graph import Node, is_op, read_block_weight
from intact.numerics import BlockWeights, dequantize_blocks


def write_float_linear(
    builder: PlanBuilder, nodes: list[Node], x: str, y: str, weight: Floats, bias: Floats | None
) -> list[Node]:
    """Write x times a constant matrix, plus a bias; returns the nodes that it does.

    A matrix that a DequantizeLinear makes of codes in blocks stays in its bits.
    """
    if (blocks := _block_codes(builder, nodes[0], weight)) is not None:
        return write_block_floats(builder, nodes, x, y, blocks, bias)
    name = nodes[0].name or ""
    done = tuple(node.name or "" for node in nodes)
    w = hold_input(builder, nodes[0], 1, "matrix", weight)
    bias_name = "" if bias is None else builder.hold(f"{name}.bias", bias)
    builder.add(FloatLinear(name, done, x, y, w, bias_name), *nodes)
    return nodes


def _block_codes(builder: PlanBuilder, node: Node, weight: Floats) -> BlockWeights | None:
    """Return the codes whose floats a matrix [in, out] is, bit by bit; None where it has none."""
    source = node.inputs[1].producer() if node.inputs[1] is not None else None
    if source is not None and is_op(source, "Transpose") and source.inputs[0] is not None:
        source = source.inputs[0].producer()
    if source is None or not is_op(source, "DequantizeLinear"):
        return None
    try:
        weights = read_block_weight(source, builder.constants)
    except FileFormatError:  # its floats are what they are
        return None
    if not has_block_codes(weights) or weights.shape != weight.shape[::-1]:
        return None
    floats = np.ascontiguousarray(dequantize_blocks(weights).T)
    same = np.array_equal(floats.view(np.uint32), np.ascontiguousarray(weight).view(np.uint32))
    return weights if same else None
