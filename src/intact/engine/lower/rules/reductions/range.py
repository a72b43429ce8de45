"""Lowers Range to running sums, so that its length may be free."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, is_float32
from intact.engine.lower.base.operand import count_up
from intact.engine.lower.base.rule import plain, who
from intact.engine.steps import Dim, Elementwise
from intact.graph import Node


def lower_range(builder: PlanBuilder, node: Node) -> None:
    """Lower Range of whole numbers whose length the sizes of the graph's inputs determine."""
    value = node.outputs[0]
    (count,) = dims_of(value)
    if not builder.is_told(count):
        raise NoMatch("its length is computed")
    if is_float32(value):
        _lower_whole_floats(builder, node, count)
        return
    start, delta = (plain(builder, node.inputs[i]) for i in (0, 2))
    if start.dtype not in ("int32", "int64"):
        raise NoMatch(f"it counts in {start.dtype}")
    at_zero = start.name in builder.arrays and not builder.arrays[start.name].any()
    y = builder.write_plain(value, start.dtype)
    sums = y if at_zero else builder.scratch(f"{y}.sums", start.dtype, (count,))
    count_up(builder, node, delta.name, sums)
    if not at_zero:
        builder.add(Elementwise(*who(node), "add", (sums, start.name), y), node)


def _lower_whole_floats(builder: PlanBuilder, node: Node, count: Dim) -> None:
    """Lower Range of floats that begin at a whole number and go on in whole steps: integers are counted."""
    floats = [float(builder.constant(node.inputs[i], "where it starts, or its step").item()) for i in (0, 2)]
    if not all(x.is_integer() and abs(x) < _MOST_WHOLE for x in floats):
        raise NoMatch("it counts in parts of 1")
    start, delta = (np.array(int(x)) for x in floats)
    name = node.outputs[0].name
    sums = builder.scratch(f"{name}.sums", "int64", (count,))
    count_up(builder, node, builder.hold(f"{node.name}.delta", delta), sums)
    moved = builder.scratch(f"{name}.moved", "int64", (count,))
    builder.add(Elementwise(*who(node), "add", (sums, builder.hold(f"{node.name}.start", start)), moved))
    y = builder.write_plain(node.outputs[0], "float32")
    builder.add(Elementwise(*who(node), "cast", (moved,), y), node)


_MOST_WHOLE = 2**24  # whole numbers up to which float32 has all
