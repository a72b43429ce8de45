"""Sizes of what operators make that ONNX's inference does not know, and which axes stay in front."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.edit import static_sizes
from intact.graph.core.quantization_view import is_op
from intact.graph.ops.window import Steps

Sizes = list[int | str | None]
"""Sizes, their names, or nothing where nobody knows them before a run."""
Look = Callable[[ir.Value | None], Sizes | None]


def layer_sizes(node: ir.Node, shape_of: Look, steps: Steps | None = None) -> Sizes | None:
    """Return the sizes of the first output of a layer; None where they are not known.

    Args:
        node: Of any operator.
        shape_of: Returns the sizes of a tensor, as far as they are known.
        steps: As for `Windowed.positions`.
    """
    key = node.domain, node.op_type
    if (window := _WINDOWS.get(key)) is not None:
        return window(node, shape_of, steps)
    rule = _RULES.get(key)
    return None if rule is None else rule(node, shape_of)


def _like_first(node: ir.Node, shape_of: Look) -> Sizes | None:
    return shape_of(node.inputs[0])


def _times_matrix(node: ir.Node, shape_of: Look) -> Sizes | None:
    """Return the sizes of rows times a matrix."""
    x, matrix = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    return None if not x or matrix is None or len(matrix) != 2 else [*x[:-1], matrix[1]]


def _times_columns(node: ir.Node, shape_of: Look) -> Sizes | None:
    x, form = shape_of(node.inputs[0]), ops.read(node)
    assert isinstance(form, ops.BlockProduct)
    return [*x[:-1], form.N] if x else None


def _times_rows(node: ir.Node, shape_of: Look) -> Sizes | None:
    """Return the sizes of rows times the weights of INTact's operator, a row for each output."""
    x, codes = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    return None if not x or not codes else [*x[:-1], codes[0]]


def _convolve(node: ir.Node, shape_of: Look, steps: Steps | None) -> Sizes | None:
    """Return sizes with as many axes as the kernel has, however little is known of the input."""
    x, w = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if w is None or len(w) < 3 or (x is not None and len(x) != len(w)):
        return None
    x = x or [None] * len(w)
    return [x[0], w[0], *ops.Conv.of(node).positions(x[2:], w[2:], steps)]


def _pool(node: ir.Node, shape_of: Look, steps: Steps | None) -> Sizes | None:
    x = shape_of(node.inputs[0])
    form = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    if x is None or form.ceil_mode or len(x) != 2 + len(form.kernel_shape):
        return None
    return [*x[:2], *form.positions(x[2:], form.kernel_shape, steps)]


def _rows_of_tuples(node: ir.Node, shape_of: Look) -> Sizes | None:
    """Return the sizes of a GatherND: those of the tuples, then those of what each finds."""
    x, tuples = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if x is None or not tuples or not isinstance(tuples[-1], int):
        return None
    return [*tuples[:-1], *x[ops.GatherND.of(node).batch_dims + tuples[-1] :]]


_WINDOWS: dict[tuple[str, str], Callable[[ir.Node, Look, Steps | None], Sizes | None]] = {
    ("", "AveragePool"): _pool,
    ("", "Conv"): _convolve,
    ("", "ConvInteger"): _convolve,
    ("", "MaxPool"): _pool,
}
_RULES: dict[tuple[str, str], Callable[[ir.Node, Look], Sizes | None]] = {
    ("", "DynamicQuantizeLinear"): _like_first,
    ("", "GatherND"): _rows_of_tuples,
    ("", "MatMulInteger"): _times_matrix,
    (ops.BlockLinear.domain, "BlockLinear"): _times_rows,
    (ops.MICROSOFT, "DynamicQuantizeMatMul"): _times_matrix,
    (ops.MICROSOFT, "MatMulIntegerToFloat"): _times_matrix,
    (ops.MICROSOFT, "MatMulBnb4"): _times_columns,
    (ops.MICROSOFT, "MatMulNBits"): _times_columns,
    (ops.MICROSOFT, "MoE"): _like_first,
    (ops.MICROSOFT, "QMoE"): _like_first,
}


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
