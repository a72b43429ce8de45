"""Lowers whatever holds numbers that the sizes of the graph's inputs determine."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import SizeVector
from intact.graph import Node


def lower_sizes(builder: PlanBuilder, node: Node) -> bool:
    """Lower Shape, and arithmetic with what it makes, whatever the operators; return whether it is such."""
    value = node.outputs[0] if len(node.outputs) == 1 else None
    if value is None or node.domain or value not in builder.numbers:
        return False
    if value.shape is None or len(value.shape) > 1 or value.dtype is None or value.dtype.name != "INT64":
        return False
    y = builder.write_plain(value, "int64")
    builder.add(SizeVector(*who(node), y, builder.numbers[value]), node)
    return True
