"""Operands of layers: codes on a grid of the plan, tensors as they are, and positions along an axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import Codes, CumSum, Dim, Expand, SizeVector
from intact.engine.steps.base.window import Pads
from intact.graph import Node, Value


@dataclass(frozen=True)
class CodesRead:
    """Codes that a layer reads.

    Attributes:
        x: The tensor of codes, or of their high bytes.
        codes: The grid, and which codes can occur.
        low: The tensor of low bytes; "": the codes are bytes.
        pads: (top, left, bottom, right), of zeros that are still to be put around images.
    """

    x: str
    codes: Codes
    low: str = ""
    pads: Pads = (0, 0, 0, 0)


def plain_operand(builder: PlanBuilder, value: Value | None) -> str:
    """Return a tensor that is no codes of a grid, or a constant in its place; "" for none.

    Raises:
        NoMatch: No native step makes it, or it lies on a grid.
    """
    if value is None:
        return ""
    if (array := builder.constants(value)) is not None:
        return builder.hold(value.name or "", array)
    tensor = builder.tensors.get(value.name or "")
    if tensor is None or tensor.codes is not None:
        raise NoMatch(f"'{value.name}' is made by no native step, or lies on a grid of its own")
    return tensor.name


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
