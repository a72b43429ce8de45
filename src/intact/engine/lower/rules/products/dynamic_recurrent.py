"""Lowers DynamicQuantizeLSTM: a product of all inputs in codes, and one step whose states are codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.block_constants import hold_blocks
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import who
from intact.engine.lower.rules.elements.dynamic_quantize import quantize_whole
from intact.engine.lower.rules.products.recurrent import tensors_around
from intact.engine.steps import BlockLinear, DynamicRecurrent
from intact.engine.steps.products.dynamic_conv import MIDDLE, MOST_TERMS
from intact.graph import Node, input_of, ops
from intact.numerics import BlockWeights


@dataclass(frozen=True)
class _Codes:
    """Weights of all directions and gates.

    Attributes:
        codes: uint8 [directions, gates * hidden, in].
        scales, zero_points: float32 and uint8 [directions, gates * hidden].
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]


def lower_dynamic_lstm(builder: PlanBuilder, node: Node) -> None:
    """Lower a DynamicQuantizeLSTM with constant weights (N74).

    Raises:
        NoMatch: It has a form that no kernel knows, or nobody reads it.
    """
    op = ops.LSTM.of(node)
    if why := op.unusual(node):
        raise NoMatch(why)
    inputs, states = _read(builder, node, 1, 8), _read(builder, node, 2, 10)
    directions, rows, hidden = states.codes.shape
    if (directions, rows) != (len(op.reverse_flags), 4 * hidden) or inputs.codes.shape[:2] != (
        directions, rows,
    ):  # fmt: skip
        raise NoMatch("its weights do not belong to its directions and gates")
    x = _project_inputs(builder, node, inputs)
    name = node.name or ""
    tensors = tensors_around(builder, node)
    zeros = states.zero_points
    step = DynamicRecurrent(
        *who(node), builder.hold(f"{name}.states", states.codes),
        builder.hold(f"{name}.states.scales", states.scales),
        "" if (zeros == MIDDLE).all() else builder.hold(f"{name}.states.zero_points", zeros),
        x=x, reverse=op.reverse_flags, **tensors,
    )  # fmt: skip
    builder.add(step, node)


def _read(builder: PlanBuilder, node: Node, index: int, ranges: int) -> _Codes:
    """Read the weight [directions, in, gates * hidden] at an input, its scales and zero points."""
    weight = builder.constant(node.inputs[index], "its weight")
    if weight.dtype not in (np.int8, np.uint8) or weight.ndim != 3 or not 0 < weight.shape[1] <= MOST_TERMS:
        raise NoMatch(f"its weight is {weight.dtype} of shape {weight.shape}")
    shift = MIDDLE if weight.dtype == np.int8 else 0
    rows = weight.shape[0], weight.shape[2]
    scales = _per_row(builder.constant(input_of(node, ranges), "its weight's scale"), rows)
    value = input_of(node, ranges + 1)
    zeros = (
        np.zeros((), weight.dtype) if value is None else builder.constant(value, "its weight's zero point")
    )
    if scales.dtype != np.float32 or zeros.dtype != weight.dtype:
        raise NoMatch("its scales or zero points are of another type than its weight's")
    if zeros.size > weight.shape[0] and zeros.any():
        raise NoMatch("its zero points differ by column: ONNX Runtime takes the first for all")
    codes, points = (
        (array.astype(np.int16) + shift).astype(np.uint8) for array in (weight, _per_row(zeros, rows))
    )
    return _Codes(np.ascontiguousarray(codes.swapaxes(1, 2)), scales, points)


def _per_row(values: NDArray[np.generic], rows: tuple[int, int]) -> NDArray:
    """Spread numbers of each direction, or of each of its rows."""
    if values.size == rows[0]:
        values = values.reshape(rows[0], 1)
    if values.shape not in ((rows[0], 1), rows, ()):
        raise NoMatch(f"its scales or zero points have the shape {values.shape}")
    return np.ascontiguousarray(np.broadcast_to(values, rows))


def _project_inputs(builder: PlanBuilder, node: Node, weight: _Codes) -> str:
    """Multiply the inputs, quantized as a whole, by their weights and add both biases."""
    x = node.inputs[0]
    assert x is not None
    codes, scale, zero = quantize_whole(builder, node, builder.real(x))
    directions, rows, inputs = weight.codes.shape
    outputs = directions * rows
    bias = ""
    if (value := input_of(node, 3)) is not None:
        both = builder.constant(value, "its bias")
        if both.dtype != np.float32 or both.size != 2 * outputs:
            raise NoMatch(f"its bias is {both.dtype} of shape {both.shape}")
        bias = builder.hold(f"{node.name}.bias", both.reshape(directions, 2, rows).sum(axis=1).reshape(-1))
    weights = BlockWeights(
        weight.codes.reshape(outputs, inputs), "uint8", weight.scales.reshape(outputs, 1), inputs,
        weight.zero_points.reshape(outputs, 1),
    )  # fmt: skip
    y = builder.scratch(f"{node.name}.projected", "float32", (*dims_of(x)[:-1], outputs))
    constants = hold_blocks(builder, f"{node.name}.inputs", weights)
    step = BlockLinear(
        *who(node), codes, scale, y, **constants, x_block=inputs, x_zero_points=zero, bias=bias
    )
    builder.add(step)
    return y
