"""Lowers Add of codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, check_ratio
from intact.engine.lower.base.epilogue import Tail, take_bounds
from intact.engine.lower.base.grids import Grid
from intact.engine.steps import Add
from intact.graph import Node


def lower_add(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """Lower an Add of two tensors of codes, and the Relu or Clip behind it.

    Raises:
        NoMatch: One operand is real, or the result is.
    """
    node = nodes[0]
    (a, first), (b, second) = (builder.require_codes(value) for value in node.inputs)
    tail = Tail([node], node.outputs[0])
    for other in nodes[1:]:
        if not take_bounds(builder, tail, other):
            raise NoMatch(f"{other.op_type} behind it is no bound")
    output = builder.output(tail.output)
    if output.grid is None:
        raise NoMatch("its output goes on in float")
    for codes in (first, second):
        check_ratio(Grid.of(codes), output.grid)
    lower, upper = (-np.inf if tail.low is None else tail.low), (np.inf if tail.high is None else tail.high)
    low, high = numerics.activation_bounds(lower, upper, *output.grid.affine, output.grid.spec)
    y = builder.write(output, tail.output, low, high)
    done = tuple(n.name or "" for n in nodes)
    builder.add(Add(node.name or "", done, a, b, y, low, high), *nodes)


def lower_add_alone(builder: PlanBuilder, node: Node) -> None:
    """Lower an Add of codes by itself."""
    lower_add(builder, [node])
