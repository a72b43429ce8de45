"""Lowers DequantizeLinear."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import FloatGrid
from intact.engine.lower.rules.elements.fake_quantize import lower_fake_quantize
from intact.engine.lower.rules.elements.quantize import why_no_grid
from intact.graph import Node


def lower_dequantize_linear(builder: PlanBuilder, node: Node) -> None:
    """Lower DequantizeLinear to nothing, unless the graph puts it out: readers ask for floats."""
    if isinstance(builder.grids.any_of(node), FloatGrid):
        lower_fake_quantize(builder, node)
        return
    if builder.grids.of(node) is None or builder.codes(node.outputs[0]) is None:
        raise NoMatch(why_no_grid(builder, node))
    if node.outputs[0].is_graph_output():
        builder.real(node.outputs[0])
    builder.done[node] = None
