"""Pools of codes as steps."""

from __future__ import annotations

from intact.engine.lower.builder import NoMatch, PlanBuilder, check_ratio
from intact.engine.lower.grids import Grid
from intact.engine.lower.moves import Rule, data, moved
from intact.engine.lower.window import window
from intact.engine.steps import Pool, Reshape
from intact.graph import Node, ops


def _max_pool(builder: PlanBuilder, node: Node) -> None:
    tensor = data(builder, node.inputs[0])
    if tensor.codes is None and (tensor.dtype != "float32" or node.op_type == "GlobalMaxPool"):
        raise NoMatch(f"no kernel pools {tensor.dtype}")  # the largest of whole planes is a Reduce
    if len(tensor.shape) != 4:
        raise NoMatch("it is no pool of images")
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise NoMatch("its indices are used")
    y = moved(builder, node.outputs[0], tensor)
    if node.op_type == "GlobalMaxPool":
        builder.add(Pool(node.name or "", (node.name or "",), tensor.name, y, "max"), node)
        return
    if ops.MaxPool.of(node).storage_order:
        raise NoMatch("its storage order is by columns")
    builder.add(_windowed(node, tensor.name, y), node)


def _windowed(node: Node, x: str, y: str) -> Pool:
    said = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    kernel = said.kernel_shape
    shape = window(node, said, kernel)
    if len(kernel) != 2:
        raise NoMatch("it is no pool of images")
    reach = [(k - 1) * d for k, d in zip(kernel, shape.dilations, strict=True)] * 2
    if any(pad > most for pad, most in zip(shape.pads, reach, strict=True)):
        raise NoMatch("a window lies in its pads alone")
    return Pool(
        node.name or "", (node.name or "",), x, y, "max" if node.op_type == "MaxPool" else "average",
        (kernel[0], kernel[1]), shape.strides, shape.dilations, shape.pads,
        bool(said.ceil_mode), isinstance(said, ops.AveragePool) and bool(said.count_include_pad),
    )  # fmt: skip


def _average_pool(builder: PlanBuilder, node: Node) -> None:
    x, codes = builder.wanted_codes(node.inputs[0])
    if len(builder.tensors[x].shape) != 4:
        raise NoMatch("it is no pool of images")
    value = node.outputs[0]
    output = builder.output(value)
    if output.grid is None:
        raise NoMatch("its output goes on in float")
    check_ratio(Grid.of(codes), output.grid)
    # The mean of codes that are never below the zero point is not below it either.
    zero = output.grid.zero_point
    low = zero if codes.low >= codes.zero_point else None
    high = zero if codes.high <= codes.zero_point else None
    if node.op_type == "ReduceMean":
        _check_axes(builder, node)
    y = builder.write(output, value, low, high)
    if node.op_type == "AveragePool":
        builder.add(_windowed(node, x, y), node)
        return
    _global(builder, node, x, y)


def _check_axes(builder: PlanBuilder, node: Node) -> None:
    """Refuse a mean over anything but the whole planes."""
    axes = ops.ReduceMean.of(node).axes_of(node, builder.constants)
    if axes is None:
        raise NoMatch("its axes is not a constant")
    if sorted(a % 4 for a in axes) != [2, 3]:
        raise NoMatch("it is a mean over other axes than height and width")


def _global(builder: PlanBuilder, node: Node, x: str, y: str) -> None:
    """A pool over whole planes; without the axes of size 1 where the graph drops them."""
    who = node.name or "", (node.name or "",)
    tensor = builder.tensors[y]
    if len(tensor.shape) == 4:
        builder.add(Pool(*who, x, y, "average"), node)
        return
    plane = builder.scratch(f"{y}.pooled", "codes", (*builder.tensors[x].shape[:2], 1, 1), tensor.codes)
    builder.add(Pool(*who, x, plane, "average"), node)
    builder.add(Reshape(*who, plane, y), node)


POOLS: dict[str, Rule] = {
    "AveragePool": _average_pool, "GlobalAveragePool": _average_pool, "GlobalMaxPool": _max_pool,
    "MaxPool": _max_pool, "ReduceMean": _average_pool,
}  # fmt: skip
"""Operator -> how it becomes a step."""
