"""The borders between codes and floats as steps."""

from __future__ import annotations

import numpy as np

from intact import numerics
from intact.engine.lower.builder import NoMatch, PlanBuilder, in_range
from intact.engine.lower.grids import Grid
from intact.engine.lower.moves import Rule
from intact.engine.steps import Quantize, Rescale
from intact.graph import Node


def _quantize(builder: PlanBuilder, node: Node) -> None:
    grid, value = builder.grids.of(node), node.inputs[0]
    if grid is None:
        raise NoMatch("its codes are not int8 or uint8 with one constant scale")
    y, who = node.outputs[0], (node.name or "", (node.name or "",))
    found = builder.codes(value)
    if found is not None:
        x, codes = found
        ends = np.array([codes.low, codes.high])
        with in_range():
            low, high = numerics.rescale(ends, Grid.of(codes).affine, grid.affine, grid.spec)
        builder.add(Rescale(*who, x, builder.write_codes(y, grid.codes(int(low), int(high)))), node)
        return
    x = builder.real(value)
    if builder.tensors[x].dtype != "float32":
        raise NoMatch(f"it quantizes {builder.tensors[x].dtype}")
    builder.add(Quantize(*who, x, builder.write_codes(y, grid.codes())), node)


def _dequantize(builder: PlanBuilder, node: Node) -> None:
    """Nothing, unless the graph puts it out: whoever wants floats asks for them."""
    if builder.grids.of(node) is None or builder.codes(node.outputs[0]) is None:
        raise NoMatch("its codes are not int8 or uint8 with one constant scale")
    if node.outputs[0].is_graph_output():
        builder.real(node.outputs[0])
    builder.done[node] = None


PAIRS: dict[str, Rule] = {"DequantizeLinear": _dequantize, "QuantizeLinear": _quantize}
"""Operator -> how it becomes a step."""
