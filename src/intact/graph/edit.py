"""Constants of a graph, exchanged for others."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray


def set_initializer(model: ir.Model, name: str, array: NDArray) -> None:
    """Let the initializer `name` of the main graph hold `array`, in the dtype and shape that it has.

    Raises:
        KeyError: There is no such initializer.
    """
    value = model.graph.initializers[name]
    old = value.const_value
    assert old is not None
    stored = np.asarray(array).astype(old.dtype.numpy()).reshape(old.shape.numpy())
    value.const_value = ir.Tensor(stored, dtype=old.dtype, name=name)


def settle(model: ir.Model) -> None:
    """Hold every initializer of the main graph as one array in memory, in place.

    A tensor that came from a protobuf message or a file is copied anew by every reader.
    """
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if (
            isinstance(tensor, (ir.TensorProtoTensor, ir.ExternalTensor))
            and tensor.dtype != ir.DataType.STRING
        ):
            array = np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape.numpy())
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)
