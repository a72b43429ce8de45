"""Lowers QuantizeLinear of codes, which moves them from one grid to another."""

from __future__ import annotations

import numpy as np

from intact import numerics
from intact.engine.lower.base.builder import PlanBuilder, in_range
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.base.rule import who
from intact.engine.steps import Codes, Rescale
from intact.graph import Node


def write_rescale(builder: PlanBuilder, node: Node, read: tuple[str, Codes], grid: Grid) -> None:
    """Write the step that rescales the codes of a tensor; which of them can occur follows from its ends."""
    x, codes = read
    ends = np.array([codes.low, codes.high])
    with in_range():
        low, high = numerics.rescale(ends, Grid.of(codes).affine, grid.affine, grid.spec)
    y = builder.write_codes(node.outputs[0], grid.codes(int(low), int(high)))
    builder.add(Rescale(*who(node), x, y), node)
