"""Where the axes of a tensor come from."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from intact.graph import ops
from intact.graph.view import is_op


def axes_in_front(node: ir.Node, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of what `node` reads that become `axes` of what it makes, one of several at a time.

    None where it does more than to lay a tensor out, and where an axis is not made of whole ones.
    """
    x, y = node.inputs[0], node.outputs[0]
    if is_op(node, "Transpose") and y.shape is not None:
        order = ops.Transpose.of(node).order(len(y.shape))
        return tuple(sorted(order[axis] for axis in axes))
    lays_out = ops.may_move(node, keeps_all=True) and not is_op(node, "Transpose")
    if x is None or not (lays_out or is_op(node, "Cast")):
        return None
    old, new = _sizes(x), _sizes(y)
    if old is None or new is None or prod(old) != prod(new):
        return None
    found = [_made_of(old, prod(new[:axis]), new[axis]) for axis in axes]
    known = [those for those in found if those is not None]
    return tuple(sorted(axis for those in known for axis in those)) if len(known) == len(found) else None


def _sizes(x: ir.Value) -> list[int] | None:
    sizes = [] if x.shape is None else [size for size in x.shape if isinstance(size, int)]
    return None if x.shape is None or len(sizes) < len(x.shape) else sizes


def _made_of(sizes: list[int], before: int, size: int) -> list[int] | None:
    """The axes of more than one index that lie behind `before` rows, `size` of them in all."""
    found, rows, inside = list[int](), 1, 1
    for axis, one in enumerate(sizes):
        if rows < before:
            rows *= one
        elif inside < size and one > 1:
            found.append(axis)
            inside *= one
    return found if (rows, inside) == (before, size) else None
