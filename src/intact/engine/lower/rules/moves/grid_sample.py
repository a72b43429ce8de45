"""Lowers GridSample."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, who
from intact.engine.steps import GridSample
from intact.graph import Node, ops
from intact.numerics import PADDINGS


def lower_grid_sample(builder: PlanBuilder, node: Node) -> None:
    """Lower GridSample of float32 images, with the modes that the step has."""
    op = ops.GridSample.of(node)
    x, grid = (plain(builder, value) for value in node.inputs)
    if len(x.shape) != 4 or x.dtype != "float32" or grid.dtype != "float32":
        raise NoMatch("it samples no images of float32")
    if op.mode not in ("linear", "nearest"):
        raise NoMatch(f"its mode is '{op.mode}'")
    if op.padding_mode not in PADDINGS:
        raise NoMatch(f"its padding is '{op.padding_mode}'")
    y = builder.write_plain(node.outputs[0], "float32")
    nearest, align = op.mode == "nearest", bool(op.align_corners)
    sample = GridSample(*who(node), x.name, grid.name, y, nearest, op.padding_mode, align)
    builder.add(sample, node)
