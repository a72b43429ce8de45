"""Lowers Slice, and Split to several Slices."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.operand import positions, size_scalar
from intact.engine.lower.base.rule import between, data, data_or_constant, define_like, has, numbers, who
from intact.engine.lower.passes.output_sizes import first_of_slice
from intact.engine.steps import Dim, Elementwise, Gather, Slice
from intact.engine.steps.base.dims import expression
from intact.graph import Node, ops, set_shape


def lower_counted_slice(builder: PlanBuilder, node: Node) -> None:
    """Lower Slice of a constant, or from a start that is computed of sizes, to gathered positions."""
    x = data_or_constant(builder, node.inputs[0])
    starts = builder.sizes(node.inputs[1], "where it starts")
    axes = numbers(builder, node, 3) if has(node, 3) else list(range(len(starts)))
    if has(node, 4) and set(numbers(builder, node, 4)) != {1}:
        raise NoMatch("it skips elements of an axis whose size is not known")
    wanted, shape = dims_of(node.outputs[0]), x.shape
    for start, axis in zip(starts, axes, strict=True):
        count, is_last = wanted[axis % len(shape)], axis == axes[-1]
        from_start = first_of_slice(shape[axis % len(shape)], start)
        if from_start is None or not builder.is_told(count) or not builder.is_told(from_start):
            raise NoMatch(f"how much it takes of axis {axis} is computed")
        axis %= len(shape)
        shape = (*shape[:axis], count, *shape[axis + 1 :])
        y = define_like(builder, node.outputs[0], x) if is_last else ""
        y = y or between(builder, f"{node.outputs[0].name}.axis{axis}", x, shape)
        _take(builder, node, x.name, from_start, y, axis)
        x = builder.tensors[y]


def _take(builder: PlanBuilder, node: Node, x: str, first: Dim, y: str, axis: int) -> None:
    """Gather the elements of an axis from `first` on that y has."""
    count = builder.tensors[y].shape[axis]
    index = positions(builder, node, count)
    if first != 0:
        start = size_scalar(builder, node, first)
        moved = builder.scratch(f"{index}.moved", "int64", (count,))
        builder.add(Elementwise(*who(node), "add", (index, start), moved))
        index = moved
    builder.add(Gather(*who(node), x, index, y, axis), node)


def lower_slice(builder: PlanBuilder, node: Node) -> None:
    """Lower Slice with constant starts and steps; unknown sizes are those of the graph."""
    x = data(builder, node.inputs[0])
    shape = x.shape
    starts = numbers(builder, node, 1)
    computed = node.inputs[2] not in builder.constants
    ends = [0] * len(starts) if computed else numbers(builder, node, 2)
    axes = numbers(builder, node, 3) if has(node, 3) else list(range(len(starts)))
    steps = numbers(builder, node, 4) if has(node, 4) else [1] * len(starts)
    first, hops, output_dims = [0] * len(shape), [1] * len(shape), list(dims_of(node.outputs[0]))
    for start, end, axis, hop in zip(starts, ends, axes, steps, strict=True):
        size = shape[axis]
        if (
            (not isinstance(size, int) or computed)
            and start >= 0
            and hop == 1
            and builder.is_told(output_dims[axis])
        ):
            first[axis] = start
        elif computed:
            raise NoMatch(f"how much it takes of axis {axis} is computed")
        elif isinstance(size, int):
            indices = range(*slice(start, end, hop).indices(size))
            first[axis], hops[axis] = (indices.start, hop) if indices else (0, 1)  # nothing begins nowhere
            output_dims[axis] = len(indices)
        elif start < 0 or hop < 0 or end < 2**31 - 1:
            raise NoMatch(f"it cuts axis {axis}, whose size is not known")
        else:
            first[axis], hops[axis] = start, hop
    set_shape(node.outputs[0], output_dims)  # what inference could not tell: the step takes as many
    y = define_like(builder, node.outputs[0], x)
    builder.add(Slice(*who(node), x.name, y, tuple(first), tuple(hops)), node)


def lower_split(builder: PlanBuilder, node: Node) -> None:
    """Lower Split to a Slice for each output that is read, or to gathered elements from a free size on."""
    x = data(builder, node.inputs[0])
    axis = ops.Split.of(node).axis % len(x.shape)
    start: Dim | None = 0
    for output in node.outputs:
        shape = dims_of(output)
        if start is None or not builder.is_told(start) or not builder.is_told(shape[axis]):
            raise NoMatch(f"it splits axis {axis}, whose size is not known")
        if output.uses() or output.is_graph_output():
            y = define_like(builder, output, x)
            if isinstance(start, int):
                starts = tuple(start if a == axis else 0 for a in range(len(shape)))
                step = Slice(output.name or "", (node.name or "",), x.name, y, starts, (1,) * len(shape))
                builder.add(step, node)
            else:
                _take(builder, node, x.name, start, y, axis)
        start = expression("+", start, shape[axis])
