"""Lowers LSTM, GRU and RNN: a product of all inputs with their weights, and one step over the states.

With pairs on the inputs and their weights that product is one of integers, as any other layer's. Inputs may
have 16 bits (N62).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, in_range
from intact.engine.lower.base.rule import who
from intact.engine.lower.base.weights import gates_of, prove, prove_joined
from intact.engine.lower.rules.elements.split_quantize import codes_read
from intact.engine.steps import Epilogue, FloatLinear, Linear, Recurrent
from intact.graph import Node, Value, input_of, ops
from intact.graph.ops import Recurrent as Operator


@dataclass(frozen=True)
class _Layer:
    """One node, as it was read.

    Attributes:
        op: Its attributes.
        cell: Of `numerics.GATES`.
        states: float32 [directions, gates * hidden, hidden].
        shift: float64 [directions * gates * hidden], added to each step's input; None for nothing.
        apart: float32 [directions, hidden], where the candidate's sum over states begins; None for 0.
    """

    op: Operator
    cell: str
    states: NDArray[np.float32]
    shift: NDArray[np.float64] | None
    apart: NDArray[np.float32] | None


def lower_recurrent(builder: PlanBuilder, node: Node) -> None:
    """Lower one recurrent layer in all its directions.

    Raises:
        NoMatch: It has a form that no kernel knows, weights that are no constants, or nobody reads it.
    """
    layer = _read(builder, node)
    projected = _project_inputs(builder, node, layer)
    name = node.name or ""
    weight = builder.hold(f"{name}.states", layer.states)
    bias = "" if layer.apart is None else builder.hold(f"{name}.states.bias", layer.apart)
    tensors = tensors_around(builder, node)
    step = Recurrent(
        *who(node), weight, layer.cell, bias, x=projected, reverse=layer.op.reverse_flags,
        batch_first=bool(layer.op.layout), **tensors,
    )  # fmt: skip
    builder.add(step, node)


def _read(builder: PlanBuilder, node: Node) -> _Layer:
    op = ops.read(node)
    assert isinstance(op, Operator)
    if why := op.unusual(node):
        raise NoMatch(why)
    states = _floats(builder, input_of(node, 2), "its weight of states")
    cell = _cell(op)
    directions, rows, _ = states.shape
    value = input_of(node, 3)
    if value is None:
        return _Layer(op, cell, states, None, None)
    both = builder.constant(value, "its bias").astype(np.float64).reshape(directions, 2, rows)
    apart = None
    if cell == "gru_reset_after":
        apart = both[:, 1, rows * 2 // 3 :].astype(np.float32)
        both = both.copy()
        both[:, 1, rows * 2 // 3 :] = 0
    return _Layer(op, cell, states, both.sum(axis=1).reshape(-1), apart)


def _floats(builder: PlanBuilder, value: Value | None, what: str) -> NDArray[np.float32]:
    """Return a constant of floats; codes behind a DequantizeLinear are dequantized at build time."""
    array = builder.constant(value, what)
    if array.dtype != np.float32:
        raise NoMatch(f"{what} is {array.dtype}: native steps know float32 alone")
    return np.asarray(array, np.float32)


def _cell(op: Operator) -> str:
    if isinstance(op, ops.GRU):
        return "gru_reset_after" if op.linear_before_reset else "gru"
    if isinstance(op, ops.RNN):
        return "rnn_relu" if op.rectifies else "rnn_tanh"
    return "lstm"


def _project_inputs(builder: PlanBuilder, node: Node, layer: _Layer) -> str:
    """Multiply the inputs by their weights and add biases: the sums over states start there."""
    x, weights = node.inputs[:2]
    assert x is not None and weights is not None
    rows = layer.states.shape[0] * layer.states.shape[1]
    y = builder.scratch(f"{node.name}.projected", "float32", (*dims_of(x)[:-1], rows))
    try:
        with builder.attempt():
            _in_codes(builder, node, layer, y)
    except NoMatch as why:
        _in_floats(builder, node, layer, y)
        builder.reasons.setdefault(node, str(why))
    return y


def _in_codes(builder: PlanBuilder, node: Node, layer: _Layer, y: str) -> None:
    read = codes_read(builder, node.inputs[0])
    weight, codes, shift = gates_of(builder, node.inputs[1]), read.codes, 0
    if read.low:
        shift = prove_joined(weight, (codes.low, codes.high), codes.zero_point, None)
    else:
        prove(weight, codes, None)
    epilogue = _epilogue(builder, node, codes.scale * 2**shift, weight.scale, layer)
    w = builder.hold(f"{node.name}.weight", weight.codes)
    builder.add(Linear(*who(node), read.x, y, w, epilogue, read.low, shift))


def _in_floats(builder: PlanBuilder, node: Node, layer: _Layer, y: str) -> None:
    weights = _floats(builder, node.inputs[1], "its weight")
    w = builder.hold(f"{node.name}.weight", weights.reshape(-1, weights.shape[2]).T)
    bias = ""
    if layer.shift is not None:
        bias = builder.hold(f"{node.name}.bias", layer.shift.astype(np.float32))
    builder.add(FloatLinear(*who(node), builder.real(node.inputs[0]), y, w, bias))


def _epilogue(
    builder: PlanBuilder, node: Node, x_scale: float, scale: NDArray[np.float32], layer: _Layer
) -> Epilogue:
    """Build the epilogue that turns sums of integers into floats and adds the biases (N25)."""
    unit = np.float32(1)
    with in_range():
        multiplier = np.atleast_1d(numerics.multipliers(np.float32(x_scale), scale, unit))
        shift = None if layer.shift is None else np.atleast_1d(numerics.scale_bias(layer.shift, unit))
    bias = "" if shift is None else builder.hold(f"{node.name}.bias", shift)
    return Epilogue(builder.hold(f"{node.name}.multiplier", multiplier), bias)


def tensors_around(builder: PlanBuilder, node: Node) -> dict[str, Any]:
    """Return the states and lengths that a layer reads and the outputs that it writes, by the step's fields.

    Raises:
        NoMatch: Nobody reads what it makes, or its lengths are no tensor of int32.
    """
    h, c = (_state_of(builder, node, index) for index in (5, 6))
    lengths = _lengths_of(builder, input_of(node, 4))
    y, last_h, last_c = (*(_output_of(builder, value) for value in node.outputs), "", "")[:3]
    if not (y or last_h or last_c):
        raise NoMatch("nobody reads what it makes")
    return {"h": h, "c": c, "lengths": lengths, "y": y, "last_h": last_h, "last_c": last_c}


def _state_of(builder: PlanBuilder, node: Node, index: int) -> str:
    """Return the first state; "" where it is 0 everywhere."""
    value = input_of(node, index)
    array = builder.constants(value)
    if value is None or (array is not None and not array.any()):
        return ""
    return builder.either(value)


def _lengths_of(builder: PlanBuilder, value: Value | None) -> str:
    """Return the tensor of the lengths of sequences, or a constant in its place; "" for none."""
    if value is None:
        return ""
    if (array := builder.constants(value)) is not None:
        return builder.hold(value.name or "", array)
    tensor = builder.tensors.get(value.name or "")
    if tensor is None or tensor.dtype != "int32":
        raise NoMatch("its lengths are no tensor of int32")
    return tensor.name


def _output_of(builder: PlanBuilder, value: Value) -> str:
    """Return the tensor of an output; "" where nobody reads it."""
    if not value.name or not (value.uses() or value.is_graph_output()):
        return ""
    return builder.write(builder.output(value), value)
