"""Lowers Clip of integers, and of floats."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between_floats, plain
from intact.engine.lower.rules.elements.elementwise import operation_step, write_operation
from intact.engine.steps import Binary, Clip
from intact.graph import Node, Value
from intact.numerics import INTEGERS


def lower_integer_clip(builder: PlanBuilder, node: Node) -> None:
    """Clip of integers: the low end, then the high one."""
    output = plain(builder, node.inputs[0])
    if output.dtype not in INTEGERS:
        raise NoMatch(f"no kernel bounds {output.dtype}")
    bounds = zip(("max", "min"), (*node.inputs[1:], None, None), strict=False)
    ends = [(name, plain(builder, end)) for name, end in bounds if end is not None]
    if not ends:
        raise NoMatch("it bounds nothing")
    *first, (last, most) = ends
    for name, end in first:
        output = operation_step(builder, node, name, output, end, shape=output.shape)
    write_operation(builder, node, last, [output, most])


def lower_clip(builder: PlanBuilder, node: Node) -> None:
    """Clip by constants in one step, by anything else in one for each end."""
    value, step_names = node.outputs[0], (node.name or "", (node.name or "",))
    low, high = (node.inputs[i] if i < len(node.inputs) else None for i in (1, 2))
    source = builder.either(node.inputs[0])
    if all(end is None or end in builder.constants for end in (low, high)):
        ends = _end(builder, low, -np.inf), _end(builder, high, np.inf)
        y = builder.write(builder.output(value), value)
        builder.add(Clip(*step_names, source, y, *ends), node)
        return
    for function, end in (("max", low), ("min", high)):
        if end is None:
            continue
        last = function == "min" or high is None
        y = builder.write(builder.output(value), value) if last else between_floats(builder, value, 1)
        builder.add(Binary(*step_names, function, source, builder.either(end), y), *[node] * last)
        source = y


def _end(builder: PlanBuilder, value: Value | None, nothing: float) -> float | None:
    """Return a constant bound; None for one that bounds nothing."""
    array = (
        builder.constant(value, "an end of Clip") if value is not None else np.array([nothing], np.float32)
    )
    end = float(array.reshape(-1)[0]) if array.dtype == np.float32 and array.size == 1 else np.nan
    if np.isnan(end) or end == -nothing:
        raise NoMatch("an end of Clip leaves no number")
    return None if end == nothing else end
