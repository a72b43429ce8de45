"""Serialize models without their large weights, for checks of structure, shapes and types."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx
import onnx_ir as ir

from intact.graph.core.proto import copy_to_memory, to_proto

SMALL = 1024
"""Elements up to which an initializer may steer shapes (the target of a Reshape, the pads of a Pad)."""


def to_proto_without_weights(model: ir.Model) -> onnx.ModelProto:
    """Serialize `model` with its large initializers as inputs: small enough for ONNX's C++, whatever they
    weigh."""
    return move_large_tensors_to_inputs(without_weights(model)[0])


def without_weights(model: ir.Model) -> tuple[onnx.ModelProto, dict[str, ir.TensorProtocol]]:
    """Serialize `model` with its large initializers declared as external data.

    Return these by name, too, for `put_tensors` to bring back.
    """
    tensors = {v: v.const_value for v in model.graph.initializers.values() if v.const_value is not None}
    large = {v: t for v, t in tensors.items() if t.size > SMALL and t.dtype != ir.DataType.STRING}
    try:
        for value, tensor in large.items():
            value.const_value = placeholder(value, tensor, "absent", 0)
        proto = to_proto(model)
    finally:
        for value, tensor in large.items():
            value.const_value = tensor
    return proto, {value.name or "": tensor for value, tensor in large.items()}


def put_tensors(proto: onnx.ModelProto, tensors: Mapping[str, ir.TensorProtocol]) -> None:
    """Let the initializers of the main graph that `tensors` names hold these, in place."""
    for stored in proto.graph.initializer:
        if (tensor := tensors.get(stored.name)) is not None:
            name = stored.name  # which a tensor that was a node's attribute has not
            stored.Clear()
            ir.serde.serialize_tensor_into(stored, copy_to_memory(tensor))
            stored.name = name


def move_large_tensors_to_inputs(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Turn large initializers of `proto` into inputs, in place, for inference."""
    inputs = {info.name for info in proto.graph.input}
    large = {tensor.name for tensor in proto.graph.initializer if math.prod(tensor.dims) > SMALL}
    if not large:
        return proto
    small = [tensor for tensor in proto.graph.initializer if tensor.name not in large]
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name in large - inputs
    )
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(small)
    return proto


def say_onesided(node: onnx.NodeProto) -> None:
    """Write out that an STFT is one-sided, its default: ONNX's inference takes it for two-sided."""
    if node.op_type == "STFT" and not any(attribute.name == "onesided" for attribute in node.attribute):
        node.attribute.append(onnx.helper.make_attribute("onesided", 1))


def placeholder(value: ir.Value, tensor: ir.TensorProtocol, file: str, offset: int) -> ir.ExternalTensor:
    """Return a placeholder for `tensor`, of the initializer `value`, while its data lie in `file`."""
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(file, offset, tensor.nbytes, tensor.dtype, shape=shape, name=value.name or "")
