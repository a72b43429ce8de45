"""The borders between codes and floats as steps."""

from __future__ import annotations

import numpy as np

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, in_range
from intact.engine.lower.base.grids import FloatGrid, Grid
from intact.engine.lower.rules.moves.moves import Rule
from intact.engine.steps import FakeQuantize, Quantize, Rescale
from intact.graph import Node


def _quantize(builder: PlanBuilder, node: Node) -> None:
    grid, value = builder.grids.of(node), node.inputs[0]
    if grid is None:
        raise NoMatch(_why_not(builder, node))
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


def _why_not(builder: PlanBuilder, node: Node) -> str:
    """Why there are no codes for kernels."""
    grid = builder.grids.any_of(node)
    if isinstance(grid, FloatGrid):
        return f"its codes are {grid.format}, and no Q/DQ pair of one grid: kernels know int8 and uint8"
    return "its codes are not int8 or uint8 with one constant scale"


def _dequantize(builder: PlanBuilder, node: Node) -> None:
    """Nothing, unless the graph puts it out: whoever wants floats asks for them."""
    if isinstance(builder.grids.any_of(node), FloatGrid):
        _fake_quantize(builder, node)
        return
    if builder.grids.of(node) is None or builder.codes(node.outputs[0]) is None:
        raise NoMatch(_why_not(builder, node))
    if node.outputs[0].is_graph_output():
        builder.real(node.outputs[0])
    builder.done[node] = None


def _fake_quantize(builder: PlanBuilder, node: Node) -> None:
    """A pair as one step. The Q by itself has none, and none needs it where DQs alone read its codes."""
    pair = builder.grids.float_pair(node)
    if pair is None:
        raise NoMatch(_why_not(builder, node))
    above, grid = pair
    x = builder.made(above.inputs[0])
    if builder.tensors[x].dtype not in ("codes", "float32"):
        raise NoMatch(f"it quantizes {builder.tensors[x].dtype}")
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    who = node.name or "", (above.name or "", node.name or "")
    builder.add(FakeQuantize(*who, x, y, grid.format, grid.scale, grid.zero_point), node)


PAIRS: dict[str, Rule] = {"DequantizeLinear": _dequantize, "QuantizeLinear": _quantize}
"""Operator -> how it becomes a step."""
