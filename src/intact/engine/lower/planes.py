"""Pools and additions of codes, and the borders between codes and reals, as steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact import numerics
from intact.engine.lower.ending import Tail, take_bounds
from intact.engine.lower.grids import Grid
from intact.engine.lower.moves import Rule
from intact.engine.lower.sheet import Cannot, Sheet, check_ratio, in_range
from intact.engine.lower.window import window
from intact.engine.steps import Add, Pool, Quantize, Rescale, Reshape
from intact.graph import Node
from intact.graph.attributes import integer, integers


def _max_pool(sheet: Sheet, node: Node) -> None:
    x = node.inputs[0]
    tensor = sheet.tensors.get((x.name if x is not None else "") or "")
    if tensor is None or tensor.codes is None:
        raise Cannot("it pools reals: kernels pool codes")
    if len(tensor.shape) != 4:
        raise Cannot("it is no pool of images")
    if len(node.outputs) > 1 and node.outputs[1].uses():
        raise Cannot("its indices are used")
    y = sheet.write_codes(node.outputs[0], tensor.codes)
    if node.op_type == "GlobalMaxPool":
        sheet.add(Pool(node.name or "", (node.name or "",), tensor.name, y, "max"), node)
        return
    if integer(node, "storage_order", 0):
        raise Cannot("its storage order is by columns")
    sheet.add(_windowed(node, tensor.name, y), node)


def _windowed(node: Node, x: str, y: str) -> Pool:
    kernel = integers(node, "kernel_shape", ())
    shape = window(node, kernel)
    if len(kernel) != 2:
        raise Cannot("it is no pool of images")
    reach = [(k - 1) * d for k, d in zip(kernel, shape.dilations, strict=True)] * 2
    if any(pad > most for pad, most in zip(shape.pads, reach, strict=True)):
        raise Cannot("a window lies in its pads alone")
    return Pool(
        node.name or "", (node.name or "",), x, y, "max" if node.op_type == "MaxPool" else "average",
        (kernel[0], kernel[1]), shape.strides, shape.dilations, shape.pads,
        bool(integer(node, "ceil_mode", 0)), bool(integer(node, "count_include_pad", 0)),
    )  # fmt: skip


def _average_pool(sheet: Sheet, node: Node) -> None:
    x, codes = sheet.wanted_codes(node.inputs[0])
    if len(sheet.tensors[x].shape) != 4:
        raise Cannot("it is no pool of images")
    value = node.outputs[0]
    output = sheet.output(value)
    if output.grid is None:
        raise Cannot("its output goes on in float")
    check_ratio(Grid.of(codes), output.grid)
    # The mean of codes that are never below the zero point is not below it either.
    zero = output.grid.zero_point
    low = zero if codes.low >= codes.zero_point else None
    high = zero if codes.high <= codes.zero_point else None
    if node.op_type == "ReduceMean":
        _check_axes(sheet, node)
    y = sheet.write(output, value, low, high)
    if node.op_type == "AveragePool":
        sheet.add(_windowed(node, x, y), node)
        return
    _global(sheet, node, x, y)


def _check_axes(sheet: Sheet, node: Node) -> None:
    """Refuse a mean over anything but the whole planes."""
    axes = integers(node, "axes", ())
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        axes = tuple(int(a) for a in sheet.constant(node.inputs[1], "its axes").reshape(-1))
    if sorted(a % 4 for a in axes) != [2, 3]:
        raise Cannot("it is a mean over other axes than height and width")


def _global(sheet: Sheet, node: Node, x: str, y: str) -> None:
    """A pool over whole planes; without the axes of size 1 where the graph drops them."""
    who = node.name or "", (node.name or "",)
    tensor = sheet.tensors[y]
    if len(tensor.shape) == 4:
        sheet.add(Pool(*who, x, y, "average"), node)
        return
    plane = sheet.scratch(f"{y}.pooled", "codes", (*sheet.tensors[x].shape[:2], 1, 1), tensor.codes)
    sheet.add(Pool(*who, x, plane, "average"), node)
    sheet.add(Reshape(*who, plane, y), node)


def _quantize(sheet: Sheet, node: Node) -> None:
    grid, value = sheet.grids.of(node), node.inputs[0]
    if grid is None:
        raise Cannot("its codes are not int8 or uint8 with one constant scale")
    y, who = node.outputs[0], (node.name or "", (node.name or "",))
    found = sheet.codes(value)
    if found is not None:
        x, codes = found
        ends = np.array([codes.low, codes.high])
        with in_range():
            low, high = numerics.rescale(ends, Grid.of(codes).affine, grid.affine, grid.spec)
        sheet.add(Rescale(*who, x, sheet.write_codes(y, grid.codes(int(low), int(high)))), node)
        return
    x = sheet.real(value)
    if sheet.tensors[x].dtype != "float32":
        raise Cannot(f"it quantizes {sheet.tensors[x].dtype}")
    sheet.add(Quantize(*who, x, sheet.write_codes(y, grid.codes())), node)


def _dequantize(sheet: Sheet, node: Node) -> None:
    """Nothing, unless the graph puts it out: whoever wants reals asks for them."""
    if sheet.grids.of(node) is None or sheet.codes(node.outputs[0]) is None:
        raise Cannot("its codes are not int8 or uint8 with one constant scale")
    if node.outputs[0].is_graph_output():
        sheet.real(node.outputs[0])
    sheet.done[node] = None


def lower_add(sheet: Sheet, nodes: Sequence[Node]) -> None:
    """An Add of two tensors of codes, and the Relu or Clip behind it.

    Raises:
        Cannot: One operand is real, or the result is.
    """
    node = nodes[0]
    (a, first), (b, second) = (sheet.wanted_codes(value) for value in node.inputs)
    tail = Tail([node], node.outputs[0])
    for other in nodes[1:]:
        if not take_bounds(sheet, tail, other):
            raise Cannot(f"{other.op_type} behind it is no bound")
    output = sheet.output(tail.output)
    if output.grid is None:
        raise Cannot("its output goes on in float")
    for codes in (first, second):
        check_ratio(Grid.of(codes), output.grid)
    lower, upper = (-np.inf if tail.low is None else tail.low), (np.inf if tail.high is None else tail.high)
    low, high = numerics.activation_bounds(lower, upper, *output.grid.affine, output.grid.spec)
    y = sheet.write(output, tail.output, low, high)
    done = tuple(n.name or "" for n in nodes)
    sheet.add(Add(node.name or "", done, a, b, y, low, high), *nodes)


def _add(sheet: Sheet, node: Node) -> None:
    lower_add(sheet, [node])


PLANES: dict[str, Rule] = {
    "Add": _add, "AveragePool": _average_pool, "DequantizeLinear": _dequantize,
    "GlobalAveragePool": _average_pool, "GlobalMaxPool": _max_pool, "MaxPool": _max_pool,
    "QuantizeLinear": _quantize, "ReduceMean": _average_pool,
}  # fmt: skip
"""Operator -> how it becomes a step."""
