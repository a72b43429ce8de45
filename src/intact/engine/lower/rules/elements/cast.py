"""Lowers Cast."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, who
from intact.engine.lower.rules.elements.elementwise import operation_dtype
from intact.engine.steps import Elementwise
from intact.graph import Node


def lower_cast(builder: PlanBuilder, node: Node) -> None:
    """Lower Cast and CastLike to the type that the graph declares."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    if value.dtype is None:
        raise NoMatch("nobody says what it makes")
    to = value.dtype.numpy().name
    operation_dtype("cast", [x], to)
    builder.add(Elementwise(*who(node), "cast", (x.name,), builder.write_plain(value, to)), node)
