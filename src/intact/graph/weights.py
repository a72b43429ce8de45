"""Weights of a serialized model by name: which there are, and others in their place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph.wording import unreadable


def weights_in(model: bytes) -> dict[str, NDArray]:
    """The initializers of a model's main graph, by name.

    Raises:
        FileFormatError: The bytes are no model.
    """
    try:
        graph = onnx.ModelProto.FromString(model).graph
    except DecodeError as error:
        raise unreadable("model", error) from error
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def with_weights(model: bytes, arrays: Mapping[str, NDArray]) -> bytes:
    """The model with other values for some initializers, in the shapes and types that they had.

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
        made = np.ascontiguousarray(array.astype(old.dtype).reshape(old.shape))
        tensor.CopyFrom(onnx.numpy_helper.from_array(made, tensor.name))
    return bytes(proto.SerializeToString())
