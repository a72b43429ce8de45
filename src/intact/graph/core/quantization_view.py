"""Read what a DequantizeLinear says about the tensor that it makes: grid, scale, zero point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError
from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.ops.attributes import FIX
from intact.spec import Format, QuantSpec

FORMATS = {
    ir.DataType.INT8: "int8", ir.DataType.UINT8: "uint8", ir.DataType.INT16: "int16",
    ir.DataType.UINT16: "uint16", ir.DataType.INT4: "int4", ir.DataType.UINT4: "uint4",
    ir.DataType.FLOAT8E4M3FN: "fp8e4m3", ir.DataType.FLOAT8E5M2: "fp8e5m2",
    ir.DataType.FLOAT4E2M1: "fp4e2m1",
}  # fmt: skip
"""The formats that a DequantizeLinear may read, by the type of the codes."""


@dataclass(frozen=True)
class QuantizedValue:
    """A tensor that comes out of a DequantizeLinear.

    Attributes:
        value: The real tensor: the output of the DequantizeLinear.
        codes: What it dequantizes.
        spec: Grid and granularity; `symmetric` where every zero point is 0.
        scale: float32, granule shape of `spec`.
        zero_point: int32, granule shape of `spec`.
        constant: The codes depend on no graph input: a weight.
    """

    value: ir.Value
    codes: ir.Value
    spec: QuantSpec
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int32]
    constant: bool

    @property
    def source(self) -> ir.Value | None:
        """The real tensor that a QuantizeLinear right before made the codes of; None where there is none."""
        node = self.codes.producer()
        return node.inputs[0] if node is not None and is_op(node, "QuantizeLinear") else None


@dataclass(frozen=True)
class QuantizedBias:
    """A bias stored as int32 behind a DequantizeLinear, as older tools write it.

    Attributes:
        value: The real tensor.
        codes: int32, its stored form.
        scale: float32: one, or one per channel.
    """

    value: ir.Value
    codes: NDArray[np.int32]
    scale: NDArray[np.float32]


def is_op(node: ir.Node | None, *op_types: str, domain: str = "") -> bool:
    """Return whether `node` is one of these operators of `domain`."""
    return node is not None and node.domain == domain and node.op_type in op_types


def only_reader(value: ir.Value, *op_types: str) -> ir.Node | None:
    """Return the node that alone reads `value`, once; None where others do, or it is an output of the graph.

    Args:
        op_types: None too where it is none of these operators of ONNX; by default it may be any.
    """
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or (op_types and not is_op(uses[0].node, *op_types)):
        return None
    return uses[0].node


def quantization_of(value: ir.Value | None, constants: Constants | None = None) -> QuantizedValue | None:
    """Read how `value` is quantized; None unless a DequantizeLinear with constant parameters makes it.

    Args:
        value: A value of the main graph.
        constants: The graph's constants, where the caller asks for many values; None: found here.
    """
    read = _parameters(value, constants)
    if read is None:
        return None
    node, codes, scale, zero_point, constants = read
    format_name = FORMATS.get(codes.dtype) if codes.dtype is not None else None
    if format_name is None:
        return None
    layout = _layout(node, codes, scale)
    if layout is None:
        return None
    axis, block = layout
    spec = QuantSpec(Format.parse(format_name), axis, block, symmetric=not zero_point.any())
    shape = scale.shape if spec.axis is not None else ()
    return QuantizedValue(
        node.outputs[0], codes, spec, scale.reshape(shape),
        _as_many(zero_point, scale).reshape(shape), codes in constants,
    )  # fmt: skip


def quantized_bias_of(value: ir.Value | None, constants: Constants | None = None) -> QuantizedBias | None:
    """Read the int32 codes of `value`, a dequantized bias; None for anything else."""
    read = _parameters(value, constants)
    if read is None:
        return None
    node, codes, scale, zero_point, constants = read
    stored = constants(codes)
    if codes.dtype != ir.DataType.INT32 or stored is None or zero_point.any():
        return None
    if scale.size != 1 and scale.shape != stored.shape[-1:]:
        return None
    return QuantizedBias(node.outputs[0], stored, scale)


def _as_many(zero_point: NDArray[np.int32], scale: NDArray) -> NDArray[np.int32]:
    return np.full(scale.shape, zero_point.item(), np.int32) if zero_point.size == 1 else zero_point


_Read = tuple[ir.Node, ir.Value, NDArray[np.float32], NDArray[np.int32], Constants]


def _parameters(value: ir.Value | None, constants: Constants | None) -> _Read | None:
    node = value.producer() if value is not None else None
    if node is None or not is_op(node, "DequantizeLinear") or node.inputs[0] is None:
        return None
    if constants is None:
        assert isinstance(node.graph, ir.Graph)
        constants = Constants(node.graph)
    scale, zero_point = constants(node.inputs[1]), np.zeros((), np.int32)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        zero_point_array = constants(node.inputs[2])
        if zero_point_array is None:
            return None
        zero_point = zero_point_array.astype(np.int32)
    if scale is None or (not scale.size and 0 in (node.inputs[0].shape or ())):  # a scale for no channels
        return None
    _check_parameters(node, scale, zero_point)
    if (scale < 0).any():  # no grid, but of weights floats: ONNX Runtime writes them for 4 bits
        if node.inputs[0] in constants:
            return None
        where = f"node '{node.name}' ({node.op_type})"
        raise FileFormatError(where, "a scale that is negative", "scales above 0", FIX)
    return node, node.inputs[0], scale.astype(np.float32), zero_point, constants


def _check_parameters(node: ir.Node, scale: NDArray, zero_point: NDArray) -> None:
    """Refuse parameters that no grid has; a scale of 0 or infinity is left to those who ask for the grid."""
    where = f"node '{node.name}' ({node.op_type})"
    if zero_point.size not in (1, scale.size) or not scale.size:
        got = f"a scale of shape {scale.shape} with a zero point of shape {zero_point.shape}"
        raise FileFormatError(where, got, "one shape for both, not empty", FIX)
    if np.isnan(scale.astype(np.float32)).any():
        raise FileFormatError(where, "a scale that is no number", "scales above 0", FIX)


def _layout(node: ir.Node, codes: ir.Value, scale: NDArray) -> tuple[int | None, int | None] | None:
    """Return axis and block_size as in `QuantSpec`, None per tensor.

    None where the rank is needed and unknown.
    """
    if scale.size == 1 and scale.ndim <= 1:
        return None, None
    rank = len(codes.shape) if codes.shape is not None else None
    form = ops.DequantizeLinear.of(node)
    axis = 1 if form.axis is None else form.axis
    if axis < 0:
        if rank is None:
            return None
        axis += rank
    return axis, form.block_size or None
