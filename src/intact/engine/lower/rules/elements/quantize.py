"""Lowers QuantizeLinear."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import FloatGrid
from intact.engine.lower.rules.elements.rescale import write_rescale
from intact.engine.steps import Quantize
from intact.graph import Node


def lower_quantize_linear(builder: PlanBuilder, node: Node) -> None:
    """Lower QuantizeLinear of floats, or of other codes."""
    grid, value = builder.grids.of(node), node.inputs[0]
    if grid is None:
        raise NoMatch(why_no_grid(builder, node))
    y, step_names = node.outputs[0], (node.name or "", (node.name or "",))
    name_and_codes = builder.codes(value)
    if name_and_codes is not None:
        write_rescale(builder, node, name_and_codes, grid)
        return
    x = builder.real(value)
    if builder.tensors[x].dtype != "float32":
        raise NoMatch(f"it quantizes {builder.tensors[x].dtype}")
    builder.add(Quantize(*step_names, x, builder.write_codes(y, grid.codes())), node)


def why_no_grid(builder: PlanBuilder, node: Node) -> str:
    """Return why a node's grid has no codes for kernels."""
    grid = builder.grids.any_of(node)
    if isinstance(grid, FloatGrid):
        return f"its codes are {grid.format}, and no Q/DQ pair of one grid: kernels know int8 and uint8"
    return "its codes are not int8 or uint8 with one constant scale"
