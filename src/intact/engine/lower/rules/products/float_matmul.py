"""Lowers products of two tensors of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.steps import FloatMatMul
from intact.graph import Node


def write_float_matmul(builder: PlanBuilder, node: Node, a: str, b: str, y: str) -> None:
    """Write a product of two tensors.

    Raises:
        NoMatch: One of them is a vector.
    """
    if min(builder.rank(name) for name in (a, b)) < 2:
        raise NoMatch("one of its operands is a vector")
    builder.add(FloatMatMul(node.name or "", (node.name or "",), a, b, y), node)
