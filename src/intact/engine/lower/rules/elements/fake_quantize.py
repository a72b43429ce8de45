"""Lowers pairs of a Q and a DQ whose codes no kernel knows."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.rules.elements.quantize import why_no_grid
from intact.engine.steps import FakeQuantize
from intact.graph import Node


def lower_fake_quantize(builder: PlanBuilder, node: Node) -> None:
    """Lower a pair as one step. The Q by itself has none, and needs none where DQs alone read its codes."""
    pair = builder.grids.float_pair(node)
    if pair is None:
        raise NoMatch(why_no_grid(builder, node))
    above, grid = pair
    x = builder.variable_tensor(above.inputs[0])
    if builder.tensors[x].dtype not in ("codes", "float32"):
        raise NoMatch(f"it quantizes {builder.tensors[x].dtype}")
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    step_names = node.name or "", (above.name or "", node.name or "")
    builder.add(FakeQuantize(*step_names, x, y, grid.format, grid.scale, grid.zero_point), node)
