"""Lowers reductions of integers."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, tell
from intact.engine.lower.rules.reductions.reduce import axes_of_reduction
from intact.engine.steps import Elementwise, Fold, Reshape
from intact.graph import Node, ops
from intact.numerics import FOLD_DTYPES


def lower_fold(builder: PlanBuilder, node: Node) -> None:
    """Lower an integer reduction along one axis after the other, the last one first.

    A mean is divided then.
    """
    x, value, op = plain(builder, node.inputs[0]), node.outputs[0], ops.Reduction.of(node)
    axes = axes_of_reduction(builder, node, len(x.shape))
    function = node.op_type.removeprefix("Reduce").lower()
    if ("sum" if function == "mean" else function) not in FOLD_DTYPES.get(x.dtype, ()):
        raise NoMatch(f"no kernel has {node.op_type} of {x.dtype}")
    step_names, name, count = (node.name or "", (node.name or "",)), x.name, 1
    shape = list(x.shape)
    for axis in reversed(axes):
        size, shape[axis] = shape[axis], 1
        if function == "mean" and not isinstance(size, int):
            raise NoMatch("it is a mean of as many integers as are not known")
        count *= size if isinstance(size, int) else 1
        output = builder.scratch(f"{value.name}.axis{axis}", x.dtype, tuple(shape))
        builder.add(Fold(*step_names, name, output, axis, "sum" if function == "mean" else function))
        name = output
    if function == "mean":
        if not count:
            raise NoMatch("it is a mean of nothing")
        divisor = builder.hold(f"{node.name}.count", np.array(count, x.dtype))
        output = builder.scratch(f"{value.name}.mean", x.dtype, tuple(shape))
        builder.add(Elementwise(*step_names, "div", (name, divisor), output))
        name = output
    tell(value, [n for axis, n in enumerate(shape) if op.keepdims or axis not in axes])
    builder.add(Reshape(*step_names, name, builder.write_plain(value, x.dtype)), node)
