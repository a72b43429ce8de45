"""Find from which axes of its input a Reshape forms an axis."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.edit import static_sizes
from intact.graph.core.quantization_view import is_op


def axes_in_front(node: ir.Node, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the input axes of `node` that become its output `axes`.

    None where it does more than to lay a tensor out, and where an axis is not made of whole ones.
    """
    x, y = node.inputs[0], node.outputs[0]
    if x is None or not (ops.may_move(node, keeps_all=True) or is_op(node, "Cast")):
        return None
    if is_op(node, "Transpose"):
        if y.shape is None:
            return None
        order = ops.Transpose.of(node).order(len(y.shape))
        return tuple(sorted(order[axis] for axis in axes))
    old, new = static_sizes(x.shape), static_sizes(y.shape)
    if old is None or new is None or prod(old) != prod(new):
        return None
    groups = [_split_axes(old, prod(new[:axis]), new[axis]) for axis in axes]
    known_groups = [those for those in groups if those is not None]
    return (
        tuple(sorted(axis for those in known_groups for axis in those))
        if len(known_groups) == len(groups)
        else None
    )


def _split_axes(sizes: list[int], before: int, size: int) -> list[int] | None:
    """Return the axes of more than one index that lie behind `before` rows, `size` of them in all."""
    axes, rows, inside = list[int](), 1, 1
    for axis, axis_size in enumerate(sizes):
        if rows < before:
            rows *= axis_size
        elif inside < size and axis_size > 1:
            axes.append(axis)
            inside *= axis_size
    return axes if (rows, inside) == (before, size) else None
