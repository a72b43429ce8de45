"""Lowers functions that leave codes as they are, because the scales share their factor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.grids import Grid
from intact.engine.steps import Codes, Reinterpret
from intact.graph import Node


def keeps_codes(inside: NDArray[np.int64], output_codes: NDArray[np.int32], codes: Codes, grid: Grid) -> bool:
    """Return whether all codes that can occur, `inside`, become themselves on `grid`."""
    same = (codes.zero_point, codes.signed) == (grid.zero_point, grid.signed)
    return same and bool((inside == output_codes).all())


def write_reinterpret(builder: PlanBuilder, nodes: Sequence[Node], x: str, y: str) -> None:
    """Write the step that gives the codes of x the grid of y."""
    done = tuple(node.name or "" for node in nodes)
    builder.add(Reinterpret(nodes[0].name or "", done, x, y), *nodes)
