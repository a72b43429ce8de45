"""List the weights of a serialized model, and replace them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph.core.error_text import unreadable


def weights_in(model: bytes) -> dict[str, NDArray]:
    """Return the initializers of a model's main graph, by name.

    Raises:
        FileFormatError: The bytes are no model.
    """
    try:
        graph = onnx.ModelProto.FromString(model).graph
    except DecodeError as error:
        raise unreadable("model", error) from error
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def raw_weights(model: bytes, least: int) -> list[bytes]:
    """Yield the bytes of large tensors of a model's main graph, in the model's order.

    Args:
        model: A serialized model; bytes that are none have no tensors.
        least: Bytes of the smallest tensor.
    """
    try:
        graph = onnx.ModelProto.FromString(model).graph
    except DecodeError:
        return []
    stored = (attribute.t for node in graph.node for attribute in node.attribute)
    tensors = (*stored, *graph.initializer)
    return [tensor.raw_data for tensor in tensors if len(tensor.raw_data) >= least]


def with_weights(model: bytes, arrays: Mapping[str, NDArray]) -> bytes:
    """Replace the values of some initializers of a serialized model, in their shapes and types.

    Raises:
        QuantValueError: An array has another number of values.
    """
    proto = onnx.ModelProto.FromString(model)
    for tensor in proto.graph.initializer:
        if tensor.name not in arrays:
            continue
        old, array = onnx.numpy_helper.to_array(tensor), arrays[tensor.name]
        if array.size != old.size:
            raise QuantValueError(
                f"weights '{tensor.name}'",
                f"{array.size} values",
                f"{old.size}",
                "give as many as there were",
            )
        new_array = np.ascontiguousarray(array.astype(old.dtype).reshape(old.shape))
        tensor.CopyFrom(onnx.numpy_helper.from_array(new_array, tensor.name))
    return bytes(proto.SerializeToString())
