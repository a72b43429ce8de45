"""Constant weights and biases of integer layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, in_range
from intact.engine.steps import Codes
from intact.engine.steps.elements.split_quantize import MOST_SHIFT
from intact.graph import QuantizedValue, Value, is_op, ops, quantization_of, quantized_bias_of

_Number = TypeVar("_Number", np.int8, np.float32)


@dataclass(frozen=True)
class Weight:
    """Weights with the output channels first.

    Attributes:
        codes: int8 [out, ...], zero points subtracted; int16 where some do not fit (`split_weight`).
        scale: float32: one, or [out].
    """

    codes: NDArray[np.int8]
    scale: NDArray[np.float32]


@dataclass(frozen=True)
class Bias:
    """A bias: floats that are added to the result, or integers that are added to the sum.

    Attributes:
        real: float32: one, or [out]; None where there is none.
        integer: int32 [out], or None.
    """

    real: NDArray[np.float32] | None = None
    integer: NDArray[np.int32] | None = None


def weight_of(builder: PlanBuilder, value: Value | None, out_axis: int) -> Weight:
    """Return the weight behind a DequantizeLinear, its axis of output channels moved to the front.

    Raises:
        NoMatch: It is no constant in codes of 8 bits or less with a scale per tensor or output channel.
    """
    perm: tuple[int, ...] | None = None
    node = value.producer() if value is not None else None
    if node is not None and is_op(node, "Transpose") and value is not None and value.shape is not None:
        perm, value = ops.Transpose.of(node).order(len(value.shape)), node.inputs[0]
    quantized, centred = _codes_of_weight(builder, value)
    axis, stored_axis = quantized.spec.axis, out_axis if perm is None else perm[out_axis]
    if axis is not None and axis != stored_axis:
        raise NoMatch(f"its weight has a scale for each index of axis {axis}, which is summed over")
    if perm is not None:
        centred = centred.transpose(perm)
    return Weight(np.moveaxis(centred, out_axis, 0), quantized.scale)  # type: ignore[arg-type]


def gates_of(builder: PlanBuilder, value: Value | None) -> Weight:
    """Return a recurrent layer's input weights [directions, rows, in], one direction behind the other.

    Raises:
        NoMatch: As for `weight_of`; scales are of a tensor, a direction, or a row of all directions.
    """
    quantized, centred = _codes_of_weight(builder, value)
    axis = quantized.spec.axis
    if axis == 2:
        raise NoMatch("its weight has a scale for each index of axis 2, which is summed over")
    if centred.dtype != np.int8:
        raise NoMatch("its weight less its zero point does not fit into int8")
    scale = quantized.scale
    if axis is not None:
        scale = np.broadcast_to(scale[:, None] if axis == 0 else scale, centred.shape[:2]).reshape(-1)
    return Weight(centred.reshape(-1, centred.shape[2]), scale)  # type: ignore[arg-type]


def _codes_of_weight(
    builder: PlanBuilder, value: Value | None
) -> tuple[QuantizedValue, NDArray[np.int8] | NDArray[np.int16]]:
    """Return a constant weight behind a DequantizeLinear, and its codes less their zero points."""
    quantized = quantization_of(value, builder.constants)
    if quantized is None or not quantized.constant:
        raise NoMatch("its weight is no constant behind a DequantizeLinear with a constant scale")
    if quantized.spec.format.is_float or quantized.spec.format.bits > 8:
        raise NoMatch(f"its weight is {quantized.spec.format}: kernels multiply int8")
    if quantized.spec.block_size is not None:
        raise NoMatch("its weight has a scale for each block, and sums run over blocks")
    codes = np.asarray(builder.constants(quantized.codes))
    if codes.size == 0:
        raise NoMatch(f"its weight of shape {codes.shape} has no elements")
    axis = quantized.spec.axis
    return quantized, _subtract_zero_points(
        codes, quantized.zero_point.reshape([-1 if a == axis else 1 for a in range(codes.ndim)])
    )


def _subtract_zero_points(
    codes: NDArray[np.generic], points: NDArray[np.int32]
) -> NDArray[np.int8] | NDArray[np.int16]:
    """Subtract zero points from codes, in the same memory where nothing changes and nobody can write
    there."""
    if codes.dtype == np.int8 and not points.any():
        return codes.copy() if codes.flags.writeable else codes  # type: ignore[return-value]
    centred = codes.astype(np.int16) - points.astype(np.int16)
    if centred.size and (centred.min() < -128 or centred.max() > 127):
        return centred
    return centred.astype(np.int8)


def bias_of(builder: PlanBuilder, value: Value | None, x_scale: float, weight: Weight) -> Bias:
    """Return the bias of a layer: exact integers where the file stores them in the scale of the sums.

    Raises:
        NoMatch: It is no constant, or not one number per output channel.
    """
    channels = weight.codes.shape[0]
    if value is None:
        return Bias()
    stored = quantized_bias_of(value, builder.constants)
    if stored is not None and stored.codes.size == channels:
        with in_range():
            product = numerics.multipliers(np.float32(x_scale), weight.scale)
        if np.array_equal(np.broadcast_to(product, channels), np.broadcast_to(stored.scale, channels)):
            return Bias(integer=stored.codes.reshape(-1))
    array = builder.constant(value, "its bias").astype(np.float32)
    if array.size not in (1, channels) or (array.size > 1 and array.shape[-1] != channels):
        raise NoMatch("its bias is not one number per output channel")
    return Bias(array.reshape(()) if array.size == 1 else array.reshape(-1))


_ROWS = 16


def prove(weight: Weight, x: Codes, bias: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """Prove that no input makes a sum leave int32; return the largest magnitude of each output channel's sum.

    Raises:
        NoMatch: Some input could.
    """
    bound = _accumulator_bound(weight, (x.low, x.high), x.zero_point, bias)
    if bound.size and bound.max() >= 2**31:
        raise NoMatch(f"sums of output channel {bound.argmax()} could reach {bound.max()}, beyond int32")
    return bound


def prove_joined(
    weight: Weight, ends: tuple[int, int], zero_point: int, bias: NDArray[np.int32] | None
) -> int:
    """Prove that no codes of 16 bits make a sum, rounded to multiples of 2^shift, leave int32 (N62).

    Args:
        weight: Of the layer.
        ends: Codes that can occur, less the least one of all.
        zero_point: Of the codes, less that.
        bias: An integer one.
    Returns:
        The least such shift.
    Raises:
        NoMatch: There is none.
    """
    bound = _accumulator_bound(weight, ends, zero_point, bias)
    shift = numerics.shift_of_sums(bound)
    low = _accumulator_bound(weight, (0, 255), 0, bias)
    if shift > MOST_SHIFT or low.max(initial=0) >= 2**31 - 2**MOST_SHIFT:
        raise NoMatch(f"sums of output channel {bound.argmax()} could reach {bound.max()}, beyond int32")
    return shift


def _accumulator_bound(
    weight: Weight, ends: tuple[int, int], zero_point: int, bias: NDArray[np.int32] | None
) -> NDArray[np.int64]:
    rows = range(0, max(1, len(weight.codes)), _ROWS)  # the sums are formed in int64
    return np.concatenate([
        numerics.accumulator_bound(
            weight.codes[i : i + _ROWS], ends, zero_point, bias=None if bias is None else bias[i : i + _ROWS]
        )
        for i in rows
    ])  # fmt: skip


def group_filters(weight: NDArray[_Number], groups: int) -> NDArray[_Number]:
    """Swap axes of ONNX's ConvTranspose weight: [out / groups, in, ...] becomes [out, in / groups, ...]."""
    outputs, inputs, *kernel = weight.shape
    split = weight.reshape(outputs, groups, inputs // groups, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, 1, 0)).reshape(outputs * groups, inputs // groups, *kernel)
