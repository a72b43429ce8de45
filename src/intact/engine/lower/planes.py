"""Pools and additions of codes, and the borders between codes and floats, as steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact import numerics
from intact.engine.lower.builder import NoMatch, PlanBuilder, check_ratio, in_range
from intact.engine.lower.epilogue import Tail, take_bounds
from intact.engine.lower.grids import Grid
from intact.engine.lower.moves import Rule
from intact.engine.lower.window import window
from intact.engine.steps import Add, Pool, Quantize, Rescale, Reshape
from intact.graph import Node, ops


def _max_pool(builder: PlanBuilder, node: Node) -> None:
    x = node.inputs[0]
    tensor = builder.tensors.get((x.name if x is not None else "") or "")
    if tensor is None or tensor.codes is None:
        raise NoMatch("it pools floats: kernels pool codes")
    if len(tensor.shape) != 4:
        raise NoMatch("it is no pool of images")
    if len(node.outputs) > 1 and node.outputs[1].uses():
        raise NoMatch("its indices are used")
    y = builder.write_codes(node.outputs[0], tensor.codes)
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


def _quantize(builder: PlanBuilder, node: Node) -> None:
    grid, value = builder.grids.of(node), node.inputs[0]
    if grid is None:
        raise NoMatch("its codes are not int8 or uint8 with one constant scale")
    y, who = node.outputs[0], (node.name or "", (node.name or "",))
    found = builder.codes(value)
    if found is not None:
        x, codes = found
        ends = np.array([codes.low, codes.high])
        with in_range():
            low, high = numerics.rescale(ends, Grid.of(codes).affine, grid.affine, grid.spec)
        builder.add(Rescale(*who, x, builder.write_codes(y, grid.codes(int(low), int(high)))), node)
        return
    x = builder.real(value)
    if builder.tensors[x].dtype != "float32":
        raise NoMatch(f"it quantizes {builder.tensors[x].dtype}")
    builder.add(Quantize(*who, x, builder.write_codes(y, grid.codes())), node)


def _dequantize(builder: PlanBuilder, node: Node) -> None:
    """Nothing, unless the graph puts it out: whoever wants floats asks for them."""
    if builder.grids.of(node) is None or builder.codes(node.outputs[0]) is None:
        raise NoMatch("its codes are not int8 or uint8 with one constant scale")
    if node.outputs[0].is_graph_output():
        builder.real(node.outputs[0])
    builder.done[node] = None


def lower_add(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """An Add of two tensors of codes, and the Relu or Clip behind it.

    Raises:
        NoMatch: One operand is real, or the result is.
    """
    node = nodes[0]
    (a, first), (b, second) = (builder.wanted_codes(value) for value in node.inputs)
    tail = Tail([node], node.outputs[0])
    for other in nodes[1:]:
        if not take_bounds(builder, tail, other):
            raise NoMatch(f"{other.op_type} behind it is no bound")
    output = builder.output(tail.output)
    if output.grid is None:
        raise NoMatch("its output goes on in float")
    for codes in (first, second):
        check_ratio(Grid.of(codes), output.grid)
    lower, upper = (-np.inf if tail.low is None else tail.low), (np.inf if tail.high is None else tail.high)
    low, high = numerics.activation_bounds(lower, upper, *output.grid.affine, output.grid.spec)
    y = builder.write(output, tail.output, low, high)
    done = tuple(n.name or "" for n in nodes)
    builder.add(Add(node.name or "", done, a, b, y, low, high), *nodes)


def _add(builder: PlanBuilder, node: Node) -> None:
    lower_add(builder, [node])


PLANES: dict[str, Rule] = {
    "Add": _add, "AveragePool": _average_pool, "DequantizeLinear": _dequantize,
    "GlobalAveragePool": _average_pool, "GlobalMaxPool": _max_pool, "MaxPool": _max_pool,
    "QuantizeLinear": _quantize, "ReduceMean": _average_pool,
}  # fmt: skip
"""Operator -> how it becomes a step."""
