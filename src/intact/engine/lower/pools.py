"""Pools as steps; those of sequences [n, c, l] are over images [n, c, 1, l], between two Reshapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from intact.engine.lower.builder import NoMatch, PlanBuilder, check_ratio
from intact.engine.lower.gemm import as_image, image_dims
from intact.engine.lower.grids import Grid
from intact.engine.lower.moves import Rule, data, moved
from intact.engine.lower.window import window
from intact.engine.steps import Pool, Reshape
from intact.graph import Node, ops


def _max_pool(builder: PlanBuilder, node: Node) -> None:
    tensor = data(builder, node.inputs[0])
    if tensor.codes is None and (tensor.dtype != "float32" or node.op_type == "GlobalMaxPool"):
        raise NoMatch(f"no kernel pools {tensor.dtype}")  # the largest of whole planes is a Reduce
    if len(tensor.shape) not in (3, 4):
        raise NoMatch("it is no pool of images or sequences")
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise NoMatch("its indices are used")
    y = moved(builder, node.outputs[0], tensor)
    if node.op_type == "MaxPool" and ops.MaxPool.of(node).storage_order:
        raise NoMatch("its storage order is by columns")
    pool = _global("max") if node.op_type == "GlobalMaxPool" else _windowed(node)
    _over_images(builder, node, tensor.name, y, pool)


Make = Callable[[Node, str, str], Pool]


def _over_images(builder: PlanBuilder, node: Node, x: str, y: str, make: Make) -> None:
    """The pool, from an image or a sequence to an image, a sequence, or what is left of one."""
    who = node.name or "", (node.name or "",)
    tensor, made = builder.tensors[x], builder.tensors[y]
    image, before = as_image(builder, x, *who) if len(tensor.shape) == 3 else (x, [])
    for step in before:
        builder.add(step)
    shape = builder.tensors[image].shape
    if len(made.shape) == 4:
        builder.add(make(node, image, y), node)
        return
    sizes = image_dims(made.shape) if len(made.shape) == 3 else (*shape[:2], 1, 1)
    pooled = builder.scratch(f"{y}.pooled", made.dtype, sizes, made.codes)
    builder.add(make(node, image, pooled), node)
    builder.add(Reshape(*who, pooled, y))


def _global(mode: Literal["average", "max"]) -> Make:
    """Of whole planes."""
    return lambda node, x, y: Pool(node.name or "", (node.name or "",), x, y, mode)


def _windowed(node: Node) -> Make:
    said = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    shape = window(node, said, said.kernel_shape)
    height, width = (1, *said.kernel_shape)[-2:]
    reach = [(k - 1) * d for k, d in zip((height, width), shape.dilations, strict=True)] * 2
    if any(pad > most for pad, most in zip(shape.pads, reach, strict=True)):
        raise NoMatch("a window lies in its pads alone")
    return lambda node, x, y: Pool(
        node.name or "", (node.name or "",), x, y, "max" if node.op_type == "MaxPool" else "average",
        (height, width), shape.strides, shape.dilations, shape.pads,
        bool(said.ceil_mode), isinstance(said, ops.AveragePool) and bool(said.count_include_pad),
    )  # fmt: skip


def _average_pool(builder: PlanBuilder, node: Node) -> None:
    x, codes = builder.wanted_codes(node.inputs[0])
    rank = len(builder.tensors[x].shape)
    if rank != 4 and (rank != 3 or node.op_type == "ReduceMean"):
        raise NoMatch("it is no pool of images or sequences")
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
    pool = _windowed(node) if node.op_type == "AveragePool" else _global("average")
    _over_images(builder, node, x, y, pool)


def _check_axes(builder: PlanBuilder, node: Node) -> None:
    """Refuse a mean over anything but the whole planes."""
    axes = ops.ReduceMean.of(node).axes_of(node, builder.constants)
    if axes is None:
        raise NoMatch("its axes is not a constant")
    if sorted(a % 4 for a in axes) != [2, 3]:
        raise NoMatch("it is a mean over other axes than height and width")


POOLS: dict[str, Rule] = {
    "AveragePool": _average_pool, "GlobalAveragePool": _average_pool, "GlobalMaxPool": _max_pool,
    "MaxPool": _max_pool, "ReduceMean": _average_pool,
}  # fmt: skip
"""Operator -> how it becomes a step."""
