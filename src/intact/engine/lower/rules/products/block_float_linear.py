"""Lowers products of floats with weights in blocks."""

from __future__ import annotations

from intact.engine.lower.base.block_constants import hold_blocks
from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.float_weights import Floats
from intact.engine.steps import BlockFloatLinear
from intact.graph import Node
from intact.numerics import BlockWeights


def write_block_floats(
    builder: PlanBuilder, nodes: list[Node], x: str, y: str, weights: BlockWeights, bias: Floats | None
) -> list[Node]:
    """Write floats times the floats of block weights, plus a bias; returns the nodes that it does."""
    name = nodes[0].name or ""
    done = tuple(node.name or "" for node in nodes)
    source = nodes[0].inputs[1]
    base = (source.name if source is not None else None) or name
    bias_name = "" if bias is None else builder.hold(f"{name}.bias", bias)
    step = BlockFloatLinear(name, done, x, y, **hold_blocks(builder, base, weights), bias=bias_name)
    builder.add(step, *nodes)
    return nodes
