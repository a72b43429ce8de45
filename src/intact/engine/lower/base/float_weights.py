"""Constant weights and biases of layers in floats."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, is_float32
from intact.graph import Node, Value

Floats = NDArray[np.float32]


def float_weight(builder: PlanBuilder, value: Value | None) -> Floats:
    """Return a constant weight of float32, which must not be empty.

    Raises:
        NoMatch: It is computed, or something else.
    """
    array = builder.constant(value, "its weight")
    if array.dtype != np.float32 or array.size == 0:
        raise NoMatch(f"its weight is {array.dtype} of shape {array.shape}")
    return np.asarray(array, np.float32)


def bias_vector(builder: PlanBuilder, value: Value | None, outputs: int) -> Floats | None:
    """Return a constant with one number for each output, or one for all; None where there is none."""
    if value is None:
        return None
    array = builder.constant(value, "its bias")
    if array.dtype != np.float32 or array.size not in (1, outputs) or prod(array.shape[:-1]) != 1:
        raise NoMatch(f"its bias is {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (outputs,)))


def bias_row(builder: PlanBuilder, value: Value | None, outputs: int) -> Floats | None:
    """Return `bias_vector`, or None where it raises NoMatch."""
    try:
        return bias_vector(builder, value, outputs)
    except NoMatch:
        return None


def scale_array(array: Floats, factor: float) -> Floats:
    """Multiply an array by a factor in float64 and round once."""
    return array if factor == 1 else np.asarray(array * np.float64(factor), np.float32)


def hold_input(builder: PlanBuilder, node: Node, index: int, key: str, array: Floats | None) -> str:
    """Store a constant under the name of the input that it is derived from, so that layers share it."""
    value = node.inputs[index] if array is not None else None
    return builder.hold(f"{value.name}.{key}", array) if value is not None and array is not None else ""


def operand_or_constant(builder: PlanBuilder, value: Value | None) -> str:
    """Return the name of a tensor of floats, or of a constant in its place."""
    return builder.either(value) if value in builder.constants else builder.real(value)


def write_floats(builder: PlanBuilder, value: Value) -> str:
    """Define the output tensor of a layer in floats.

    Raises:
        NoMatch: It is no float32.
    """
    if not is_float32(value):
        raise NoMatch(f"'{value.name}' is no float32")
    return builder.write_plain(value, "float32")
