"""Numbers that steps count with: positions along an axis whose size is free, and sizes."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import CumSum, Dim, Expand, SizeVector
from intact.graph import Node


def positions(builder: PlanBuilder, node: Node, count: Dim) -> str:
    """Write the steps of int64 numbers 0, 1, ... up to a size, and return their tensor."""
    y = builder.scratch(f"{node.outputs[0].name}.positions", "int64", (count,))
    count_up(builder, node, builder.hold(f"{node.name}.one", np.array(1)), y)
    return y


def size_scalar(builder: PlanBuilder, node: Node, size: Dim) -> str:
    """Return a dimension as a 0-d int64 tensor: a constant if known, else the output of a SizeVector step."""
    if isinstance(size, int):
        return builder.hold(f"{node.name}.number", np.array(size))
    y = builder.scratch(f"{node.outputs[0].name}.number", "int64", ())
    builder.add(SizeVector(*who(node), y, (size,)))
    return y


def count_up(builder: PlanBuilder, node: Node, delta: str, y: str) -> None:
    """Write 0, delta, 2 delta, ... to y, a vector that is defined."""
    tensor = builder.tensors[y]
    steps = builder.scratch(f"{y}.steps", tensor.dtype, tensor.shape)
    builder.add(Expand(*who(node), delta, steps), node)
    builder.add(CumSum(*who(node), steps, y, 0, exclusive=True), node)
