"""Messages of TensorRT's ONNX parser about one QuantizeLinear or DequantizeLinear, in its words.

Each function returns the message and what to do about it, or None. Source: the parser of onnx-tensorrt 10.1
and the notes of NvInfer.h on the quantize layers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intact.graph import Value
from intact.placement.checks.records import SCALE, ZERO_POINT, Half, is_dynamic_quantizer
from intact.placement.placement_graph import is_dequantize, shape_of

Said = tuple[str, str]

_ALLOWED = {"INT8", "INT4", "FLOAT8E4M3FN", "FLOAT4E2M1"}


def inputs(half: Half) -> Said | None:
    """Check that data and scale are there."""
    if half.input(0) is not None and half.input(SCALE) is not None:
        return None
    message = "This version of TensorRT requires at least 2 inputs for the QuantizeLinear/DequantizeLinear"
    return f"{message} operator.", "give it data and a scale"


def uint8(half: Half) -> Said | None:
    """Refuse uint8 tensors, which the GPU does not have."""
    if half.codes != "UINT8":
        return None
    return "Found unsupported input type of UINT8", "quantize symmetrically to int8"


def code_type(half: Half) -> Said | None:
    """Check that codes are int8, int4, fp8 or fp4; uint8 has a message of its own."""
    if half.codes is None or half.codes in _ALLOWED or half.codes == "UINT8":
        return None
    fix = "leave the bias in float" if half.codes == "INT32" else "quantize to int8"
    return (
        "TensorRT only allows FP8, INT8, and INT4 quantization",
        f"{fix}: these codes are {half.codes.lower()}",
    )


def output_dtype(half: Half) -> Said | None:
    """Check that output_dtype and the zero point name the same type."""
    declared_dtype, zero_point = half.form.output_dtype, half.input(ZERO_POINT)
    if not half.quantizes or not declared_dtype or zero_point is None or zero_point.dtype is None:
        return None
    if declared_dtype == int(zero_point.dtype):
        return None
    types = f"output_dtype {declared_dtype} and zero-point data type {int(zero_point.dtype)}"
    message = f"Mismatch between attribute {types}"
    return message, "remove output_dtype"


def _is_of_run(scale: Value | None) -> bool:
    """Return whether a run computes scales, one for each block, which the parser takes of any size."""
    node = None if scale is None else scale.producer()
    if node is not None and is_dequantize(node):  # scales of FP8 with one of their own
        scale = node.inputs[0]
        node = None if scale is None else scale.producer()
    return node is not None and is_dynamic_quantizer(node)


def scale_shape(half: Half) -> Said | None:
    """Check that the sizes of the scale are known."""
    if half.array(SCALE) is not None or half.input(SCALE) is None:
        return None
    shape = shape_of(half.input(SCALE))
    if (shape is not None and None not in shape) or _is_of_run(half.input(SCALE)):
        return None
    return "Dynamic shape for scale tensor is not supported", "store the scale as an initializer"


def scale_count(half: Half) -> Said | None:
    """Check that there is a scale."""
    scale = half.array(SCALE)
    if scale is None or scale.size:
        return None
    return "Cannot have scale with no coefficients.", "give it one scale, or one for each channel"


def scale_positive(half: Half) -> Said | None:
    """Check that scales are positive numbers."""
    scale = half.array(SCALE)
    if scale is None or np.all(scale.astype(np.float32) > 0):
        return None
    return "Scale coefficients must all be positive", "calibrate again; the scale of a range of zeros is 1"


def zero_point_constant(half: Half) -> Said | None:
    """Check that the zero point is stored."""
    if half.input(ZERO_POINT) is None or half.array(ZERO_POINT) is not None:
        return None
    return "The zero point must be a build-time constant", "store it as an initializer of zeros"


def zero_point_zero(half: Half) -> Said | None:
    """Check that the zero point is 0."""
    zero_point = half.array(ZERO_POINT)
    if zero_point is None or not np.any(zero_point.astype(np.float32)):
        return None
    message = "TensorRT only supports symmetric quantization. The zero point must be all zeros."
    return message, "quantize symmetrically: symmetric=True (no --asymmetric)"


def volumes(half: Half) -> Said | None:
    """Check that there are as many zero points as scales."""
    scale, zero_point = half.array(SCALE), half.array(ZERO_POINT)
    if scale is None or zero_point is None or scale.size == zero_point.size:
        return None
    return "The scale and zero point must have the same volume", "give every scale its zero point"


def scale_rank(half: Half) -> Said | None:
    """Check that the scale is a number, a vector, or a tensor of the data's rank."""
    scale, shape = half.array(SCALE), half.shape
    if scale is None or shape is None or scale.ndim in (0, 1, len(shape)):
        return None
    return "Invalid rank for the scale tensor", "give one scale, a vector, or one for each block"


def channel_count(half: Half) -> Said | None:
    """Check that a vector has a scale for each index of its axis."""
    scale, shape = half.array(SCALE), half.shape
    if scale is None or scale.ndim != 1 or scale.size <= 1 or not shape:
        return None
    axis = half.axis if half.has_axis else 0
    size = shape[axis] if axis < len(shape) else 0
    if size is None or size == scale.size:
        return None
    message = "The number of scales is not equal to the number of output channels"
    return message, f"axis {axis} of this tensor has {size} entries; there are {scale.size} scales"


def block_dimensions(half: Half) -> Said | None:
    """Check that one axis is cut into blocks."""
    blocked = _find_block_axes(half)
    if blocked is None or len(blocked) <= 1:
        return None
    return "Only a single blocking dimension is allowed", "keep a scale for each index of all axes but one"


def block_size(half: Half) -> Said | None:
    """Check that blocks are all of one size."""
    scale, shape = half.array(SCALE), half.shape
    for axis in _find_block_axes(half) or ():
        assert scale is not None and shape is not None
        size = shape[axis]
        if size is not None and scale.shape[axis] and size % scale.shape[axis]:
            return "Inferred block size is not an integer", f"choose a block size that divides {size}"
    return None


def int4_even(half: Half) -> Said | None:
    """Check that the number of int4 codes is even, as two share a byte."""
    shape = half.shape
    if half.codes != "INT4" or not shape or shape[-1] is None or shape[-1] % 2 == 0:
        return None
    message = "Quantization to INT4 is not supported for tensors with an odd last dimension"
    return message, "pad the tensor, or quantize it to int8"


def per_channel_activation(half: Half) -> Said | None:
    """Check that only weights have more than one scale."""
    if half.is_weight or not half.per_channel:
        return None
    message = "Per-channel quantization is supported only for weight inputs"
    return message, "give this activation one scale"


def scale_type(half: Half) -> Said | None:
    """Check that a scale of 16 bits has the type of the data; float32 is always taken."""
    scale, data = half.input(SCALE), half.input(0) if half.quantizes else half.node.outputs[0]
    if scale is None or data is None or scale.dtype is None or data.dtype is None:
        return None
    if scale.dtype.name == "FLOAT" or scale.dtype == data.dtype or data.dtype.name not in _REALS:
        return None
    kinds = f"{scale.dtype.name.lower()} for {data.dtype.name.lower()} data"
    return f"The scale's type must match the data's: {kinds}", "store the scale as float32"


_REALS = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}


def _find_block_axes(half: Half) -> list[int] | None:
    """Find the axes that have fewer scales than entries, where the scale has the data's rank."""
    scale, shape = half.array(SCALE), half.shape
    if scale is None or shape is None or scale.ndim != len(shape) or scale.ndim < 2:
        return None
    return [i for i, size in enumerate(shape) if size is not None and size != scale.shape[i]]


PARSER: dict[str, Callable[[Half], Said | None]] = {
    "inputs": inputs,
    "uint8": uint8,
    "code-type": code_type,
    "output-dtype": output_dtype,
    "scale-shape": scale_shape,
    "scale-count": scale_count,
    "scale-positive": scale_positive,
    "scale-rank": scale_rank,
    "scale-type": scale_type,
    "channel-count": channel_count,
    "block-dimensions": block_dimensions,
    "block-size": block_size,
    "zero-point-constant": zero_point_constant,
    "zero-point-zero": zero_point_zero,
    "zero-point-volume": volumes,
    "int4-even": int4_even,
    "per-channel-activation": per_channel_activation,
}
"""Errors about one node, by the name of the rule; a new one is a function and a line here."""


def missing_axis(half: Half) -> Said | None:
    """Report an axis that is left out, for which the parser and ONNX have different defaults."""
    if half.has_axis or not half.per_channel:
        return None
    return "The axis is missing: TensorRT takes 0, ONNX takes 1", "write the axis into the node"


def missing_type(half: Half) -> Said | None:
    """Report a type that is left out, for which the parser and ONNX have different defaults."""
    if not half.quantizes or half.input(ZERO_POINT) is not None or half.form.output_dtype:
        return None
    message = "The zero point is missing: TensorRT takes INT8, ONNX takes UINT8"
    return message, "give it a zero point of int8"


def computed_scale(half: Half) -> Said | None:
    """Report scales that are checked only while the engine runs."""
    scale = half.input(SCALE)
    if scale is None or half.array(SCALE) is not None or scale_shape(half) is not None or _is_of_run(scale):
        return None
    return "The scale is computed from the network's inputs", "store the scale as an initializer"


DIALECT: dict[str, Callable[[Half], Said | None]] = {
    "missing-axis": missing_axis,
    "missing-type": missing_type,
    "computed-scale": computed_scale,
}
"""Warnings about one node: what the parser reads otherwise than ONNX, or cannot check."""
