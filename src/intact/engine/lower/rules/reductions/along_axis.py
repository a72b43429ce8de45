"""Folds, running sums, places of the largest elements, and elements by index as steps."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.rules.moves.moves import Rule, between, data, moved, numbers, plain, tell, who
from intact.engine.steps import (
    ArgMax,
    CumSum,
    Elementwise,
    Fold,
    Gather,
    GatherElements,
    Reshape,
    Slice,
    Tensor,
)
from intact.graph import Node, ops
from intact.graph.ops.attributes import integer
from intact.numerics.arg_max import ORDER_DTYPES
from intact.numerics.cum_sum import CUM_SUM_DTYPES
from intact.numerics.fold import FOLD_DTYPES


def _fold(builder: PlanBuilder, node: Node) -> None:
    """Along one axis after the other, the last one first; a mean is divided then."""
    x, value, said = plain(builder, node.inputs[0]), node.outputs[0], ops.Reduction.of(node)
    given, rank = said.axes_of(node, builder.constants), len(x.shape)
    if given is None:
        raise NoMatch("its axes is not a constant")
    function = node.op_type.removeprefix("Reduce").lower()
    if ("sum" if function == "mean" else function) not in FOLD_DTYPES.get(x.dtype, ()):
        raise NoMatch(f"no kernel has {node.op_type} of {x.dtype}")
    everything = () if said.noop_with_empty_axes else range(rank)
    axes = sorted({axis % rank for axis in given} or everything)
    who, name, count = (node.name or "", (node.name or "",)), x.name, 1
    shape = list(x.shape)
    for axis in reversed(axes):
        size, shape[axis] = shape[axis], 1
        if function == "mean" and not isinstance(size, int):
            raise NoMatch("it is a mean of as many integers as are not known")
        count *= size if isinstance(size, int) else 1
        made = builder.scratch(f"{value.name}.axis{axis}", x.dtype, tuple(shape))
        builder.add(Fold(*who, name, made, axis, "sum" if function == "mean" else function))
        name = made
    if function == "mean":
        if not count:
            raise NoMatch("it is a mean of nothing")
        divisor = builder.hold(f"{node.name}.count", np.array(count, x.dtype))
        made = builder.scratch(f"{value.name}.mean", x.dtype, tuple(shape))
        builder.add(Elementwise(*who, "div", (name, divisor), made))
        name = made
    tell(value, [n for axis, n in enumerate(shape) if said.keepdims or axis not in axes])
    builder.add(Reshape(*who, name, builder.write_plain(value, x.dtype)), node)


def _cum_sum(builder: PlanBuilder, node: Node) -> None:
    x, said = plain(builder, node.inputs[0]), ops.CumSum.of(node)
    if x.dtype not in CUM_SUM_DTYPES or not x.shape:
        raise NoMatch(f"no kernel sums {x.dtype} along an axis")
    axis = numbers(builder, node, 1)[0] % len(x.shape)
    y = builder.write_plain(node.outputs[0], x.dtype)
    builder.add(CumSum(*who(node), x.name, y, axis, bool(said.exclusive), bool(said.reverse)), node)


def _arg_max(builder: PlanBuilder, node: Node) -> None:
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    said = (ops.ArgMax if node.op_type == "ArgMax" else ops.ArgMin).of(node)
    if x.dtype not in ORDER_DTYPES or not x.shape:
        raise NoMatch(f"no kernel orders {x.dtype}")
    axis = said.axis % len(x.shape)
    shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    kept = builder.scratch(f"{value.name}.kept", "int64", shape) if not said.keepdims else ""
    tell(value, [n for a, n in enumerate(shape) if said.keepdims or a != axis])
    y = builder.write_plain(value, "int64")
    smallest, last = node.op_type == "ArgMin", bool(said.select_last_index)
    builder.add(ArgMax(*who(node), x.name, kept or y, axis, smallest, last), node)
    if kept:
        builder.add(Reshape(*who(node), kept, y))


def _gather_elements(builder: PlanBuilder, node: Node) -> None:
    held = node.inputs[0] in builder.constants
    x = plain(builder, node.inputs[0]) if held else data(builder, node.inputs[0])
    index = plain(builder, node.inputs[1])
    axis = ops.GatherElements.of(node).axis % max(len(x.shape), 1)
    if not x.shape:
        raise NoMatch("it has no axis")
    y = moved(builder, node.outputs[0], x)
    builder.add(GatherElements(*who(node), x.name, index.name, y, axis), node)


def _gather_nd(builder: PlanBuilder, node: Node) -> None:
    """By constants: rows of what has the axes that they index as one."""
    x, index = data(builder, node.inputs[0]), builder.constant(node.inputs[1], "its index")
    batch = ops.GatherND.of(node).batch_dims
    count = batch + index.shape[-1]
    sizes = tuple(n for n in x.shape[:count] if isinstance(n, int))
    if len(sizes) < count or 4 in (len(x.shape) - count + 1, len(x.shape) - count):
        raise NoMatch("the sizes that it indexes are not known, or it picks images")
    chosen = _rows(index.astype(np.int64), sizes, batch)
    if prod(sizes) == 0 and chosen.size:
        raise NoMatch("there is nothing to pick")
    _pick_rows(builder, node, x, sizes, chosen)


def _reverse_sequence(builder: PlanBuilder, node: Node) -> None:
    """By constant lengths: all rows whole at once, else row by row."""
    x, lengths = data(builder, node.inputs[0]), numbers(builder, node, 1)
    time, batch = integer(node, "time_axis", 0), integer(node, "batch_axis", 1)
    sizes = tuple(n for n in x.shape[:2] if isinstance(n, int))
    if {time, batch} != {0, 1} or len(sizes) < 2:
        raise NoMatch("its axes are not the first two, or their sizes are not known")
    steps, rank = sizes[time], len(x.shape)
    if len(lengths) != sizes[batch] or not all(0 <= length <= steps for length in lengths):
        raise NoMatch("its lengths are not those of its rows")
    if steps and all(length == steps for length in lengths):
        starts, hops = ([at if axis == time else one for axis in range(rank)]
                        for at, one in ((steps - 1, 0), (-1, 1)))  # fmt: skip
        y = moved(builder, node.outputs[0], x)
        builder.add(Slice(*who(node), x.name, y, tuple(starts), tuple(hops)), node)
        return
    if rank in (4, 5):
        raise NoMatch("it turns a part of images")
    place, end = np.arange(steps)[:, None], np.array(lengths)[None]
    read, row = np.where(place < end, end - 1 - place, place), np.arange(sizes[batch])[None]
    chosen = read * sizes[1] + row if time == 0 else (row * sizes[1] + read).T
    _pick_rows(builder, node, x, sizes, chosen.reshape(-1))


def _pick_rows(
    builder: PlanBuilder, node: Node, x: Tensor, sizes: tuple[int, ...], chosen: NDArray[np.int64]
) -> None:
    """Rows of what has its first axes, of these sizes, as one."""
    rest, name = x.shape[len(sizes) :], node.outputs[0].name
    rows = between(builder, f"{name}.rows", x, (prod(sizes), *rest))
    picked = between(builder, f"{name}.picked", x, (chosen.size, *rest))
    y = moved(builder, node.outputs[0], x)
    held = builder.hold(f"{node.name}.rows", chosen)
    builder.add(Reshape(*who(node), x.name, rows), node)
    builder.add(Gather(*who(node), rows, held, picked))
    builder.add(Reshape(*who(node), picked, y))


def _rows(index: NDArray[np.int64], sizes: tuple[int, ...], batch: int) -> NDArray[np.int64]:
    """The number of each row that a GatherND picks.

    Raises:
        NoMatch: One is out of range.
    """
    limits = np.array(sizes[batch:], np.int64)
    if ((index < -limits) | (index >= limits)).any():
        raise NoMatch("an index is out of range")
    within = np.where(index < 0, index + limits, index)
    places = [within[..., i] for i in range(len(limits))]
    shape = index.shape[:-1]
    before = [
        np.arange(n).reshape(-1, *[1] * (len(shape) - axis - 1)) for axis, n in enumerate(sizes[:batch])
    ]
    found = np.zeros(shape, np.int64)
    for size, place in zip(sizes, [*before, *places], strict=True):
        found = found * size + place
    return found.reshape(-1)


ALONG_AXIS: dict[str, Rule] = {
    "ArgMax": _arg_max, "ArgMin": _arg_max, "CumSum": _cum_sum, "GatherElements": _gather_elements,
    "GatherND": _gather_nd, "ReverseSequence": _reverse_sequence,
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _fold),
}  # fmt: skip
"""Operator -> how it becomes a step."""
