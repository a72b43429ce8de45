"""Lowers products of floats with a constant matrix."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.float_weights import Floats, hold_input
from intact.engine.steps import FloatLinear
from intact.graph import Node


def write_float_linear(
    builder: PlanBuilder, nodes: list[Node], x: str, y: str, weight: Floats, bias: Floats | None
) -> list[Node]:
    """Write x times a constant matrix, plus a bias; returns the nodes that it does."""
    name = nodes[0].name or ""
    done = tuple(node.name or "" for node in nodes)
    w = hold_input(builder, nodes[0], 1, "matrix", weight)
    bias_name = "" if bias is None else builder.hold(f"{name}.bias", bias)
    builder.add(FloatLinear(name, done, x, y, w, bias_name), *nodes)
    return nodes
