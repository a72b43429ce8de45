"""Match a Where behind a Softmax that zeroes rows of which a mask leaves nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op


def find_guarded_softmax(node: ir.Node, constants: Constants) -> ir.Value | None:
    """Return the output of the Softmax in front of `node`, a Where that puts 0 into its NaN rows.

    Two forms of ``Where(test, 0, Softmax(x))`` are known: ``IsNaN(Softmax(x))``, which torch's exporter
    writes, and ``ReduceMax(bias) == -inf`` for ``x = scores + bias``, as ONNX's Attention is specified.

    Args:
        node: Any node.
        constants: Of its graph.
    Returns:
        None where `node` is no such guard.
    """
    if not is_op(node, "Where"):
        return None
    test, zero, value = node.inputs
    softmax, number = _maker(value, "Softmax"), constants(zero)
    if softmax is None or number is None or number.any():
        return None
    is_nan = _maker(test, "IsNaN")
    if is_nan is not None:
        return value if is_nan.inputs[0] is value else None
    add = _maker(softmax.inputs[0], "Add")
    if add is None or not _is_last(ops.Softmax.of(softmax).axis, softmax.inputs[0]):
        return None
    return value if any(_asks_for_masked_rows(test, bias, constants) for bias in add.inputs) else None


def _asks_for_masked_rows(test: ir.Value | None, bias: ir.Value | None, constants: Constants) -> bool:
    """Return whether `test` selects the rows of `bias` that are -inf alone, computed or as a constant."""
    test_array, bias_array = constants(test), constants(bias)
    if test_array is not None and bias_array is not None:
        is_masked = (
            np.isneginf(bias_array).all(axis=-1, keepdims=True)
            if bias_array.ndim
            else np.isneginf(bias_array)
        )
        return test_array.dtype == bool and np.array_equal(test_array, is_masked)
    equal = _maker(test, "Equal")
    largest = _maker(None if equal is None else equal.inputs[0], "ReduceMax")
    if equal is None or largest is None or largest.inputs[0] is not bias:
        return False
    form, end = ops.ReduceMax.of(largest), constants(equal.inputs[1])
    axes = _axes(largest, constants)
    is_over_last = form.keepdims == 1 and len(axes) == 1 and _is_last(axes[0], bias)
    return is_over_last and end is not None and bool(np.isneginf(end).all())


def _axes(node: ir.Node, constants: Constants) -> tuple[int, ...]:
    """Return the axes that a reduction names, as an attribute or an input."""
    axes_array = constants(node.inputs[1]) if len(node.inputs) > 1 else None
    return (
        ops.ReduceMax.of(node).axes or ()
        if axes_array is None
        else tuple(int(axis) for axis in axes_array.reshape(-1))
    )


def _is_last(axis: int, value: ir.Value | None) -> bool:
    shape = None if value is None else value.shape
    return axis == -1 or (shape is not None and axis == len(shape) - 1)


def _maker(value: ir.Value | None, op_type: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if is_op(node, op_type) else None
