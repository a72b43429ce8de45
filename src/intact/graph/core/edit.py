"""Edit initializers and names of values, and read sizes and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph.core.proto import INFERRED, with_subgraphs
from intact.graph.core.scene import Scene


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


def static_sizes(shape: ir.Shape | None) -> list[int] | None:
    """Return all sizes; None where one is unknown."""
    numbers = [] if shape is None else [n for n in shape if isinstance(n, int)]
    return None if shape is None or len(numbers) < len(shape) else numbers


def rank_of(value: ir.Value | None) -> int | None:
    """Return the rank of `value`; None where it is unknown."""
    return None if value is None or value.shape is None else len(value.shape)


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input of `node`; None where the node leaves it out."""
    return node.inputs[index] if index < len(node.inputs) else None


def last_size(value: ir.Value | None) -> int | None:
    """Return the size of the last axis; None where it is unknown."""
    size = value.shape[-1] if value is not None and value.shape else None
    return size if isinstance(size, int) else None


def set_shape(value: ir.Value, sizes: Sequence[int | str | None]) -> None:
    """Set the shape of `value`: sizes, names of free ones, None where nothing is known."""
    value.shape = ir.Shape(sizes)
    value.meta.pop(INFERRED, None)  # what is worked out here is not in the file, and inference keeps it


def free_weights(model: ir.Model) -> None:
    """Remove weights from the main graph's inputs, in place, so that they are constants.

    IR version 3 wanted them there, and exporters still put them there on request
    (``keep_initializers_as_inputs``). As inputs they would be defaults that a caller may override.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    if len(inputs) < len(model.graph.inputs):
        for weight in model.graph.initializers.values():
            weight.meta[INFERRED] = True  # said by the tensor itself
        model.graph.inputs.clear()
        model.graph.inputs.extend(inputs)


def settle(model: ir.Model) -> None:
    """Hold every initializer of the main graph as one array in memory, and none as an input, in place.

    A tensor that came from a protobuf message or a file is copied anew by every reader.
    """
    free_weights(model)
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if (
            isinstance(tensor, (ir.TensorProtoTensor, ir.ExternalTensor))
            and tensor.dtype != ir.DataType.STRING
        ):
            array = np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape.numpy())
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)


def own_weights(model: ir.Model) -> None:
    """Copy every initializer of the main graph into memory of its own, in place.

    What an exporter of a framework makes shares memory with the parameters, which go on being trained.
    """
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and type(tensor) not in (ir.Tensor, ir.StringTensor):
            array = np.array(tensor.numpy(), order="C").reshape(tensor.shape.numpy())
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)


def hold_constants(model: ir.Model) -> None:
    """Register constants that no graph holds as initializers of the main graph, in place.

    onnxscript's optimizer makes a Clip of each Max and Min, and calls its bounds after the tensor: of two
    that read one tensor, those of the first are read, and lost.
    """
    faces = {*model.graph.inputs}
    names = Scene(model.graph).names
    for node in model.graph.all_nodes():
        for value in node.inputs:
            if value is None or value.const_value is None or value.producer() is not None or value in faces:
                continue
            if value.graph is None:
                if value.name in model.graph.initializers:
                    value.name = names(value.name or "")
                model.graph.initializers.add(value)


_WORTH_SHARING = 1024
"""Bytes from which an initializer is stored once for several graphs."""


def share_initializers(model: ir.Model) -> None:
    """Store initializers of subgraphs that are equal once, in the main graph, in place.

    The branches of an If may hold one network, with the same tables and weights. Codes of a DequantizeLinear
    stay beside it: ONNX Runtime 1.32 fuses it with a product, and fails where they lie in an outer graph.
    """
    inner = [
        value
        for graph in with_subgraphs(model.graph)[1:]
        for value in graph.initializers.values()
        if _is_sharable(value)
    ]
    kinds = {_kind(value) for value in inner}
    main = [v for v in model.graph.initializers.values() if _is_sharable(v) and _kind(v) in kinds]
    names = Scene(model.graph).names
    stored: dict[tuple[object, bytes], ir.Value] = {}
    for value in (*main, *inner):
        assert value.const_value is not None
        key = _kind(value), blake2b(value.const_value.tobytes()).digest()
        first = stored.setdefault(key, value)
        if first is value or value.graph is model.graph:
            continue
        if first.graph is not model.graph:
            _remove_initializer(first)
            first.name = names(first.name or "")
            model.graph.register_initializer(first)
        _remove_initializer(value)
        value.replace_all_uses_with(first)


def _is_sharable(value: ir.Value) -> bool:
    tensor, is_face = value.const_value, value.is_graph_input() or value.is_graph_output()
    return (
        tensor is not None
        and not is_face
        and not any(use.node.op_type == "DequantizeLinear" for use in value.uses())
        and tensor.dtype != ir.DataType.STRING
        and tensor.nbytes >= _WORTH_SHARING
    )


def _kind(value: ir.Value) -> tuple[object, ...]:
    assert value.const_value is not None
    return value.const_value.dtype, *value.const_value.shape


def _remove_initializer(value: ir.Value) -> None:
    assert value.graph is not None
    value.graph.initializers.pop(value.name or "")


def separate_names(model: ir.Model) -> None:
    """Give inner values of the main graph other names where an input or output has theirs, in place.

    Before: ``embedding = Relu(x); embedding = Gemm(embedding, w)``, as torch's exporter leaves the output
    that it was told to call so.  After: ``embedding_1 = Relu(x); embedding = Gemm(embedding_1, w)``.

    Raises:
        QuantValueError: An input and an output that is another value, or two of them, have one name.
    """
    faces = dict.fromkeys((*model.graph.inputs, *model.graph.outputs))
    used_names: set[str | None] = set()
    for value in faces:
        if value.name in used_names:
            raise QuantValueError(
                f"name '{value.name}'", "two inputs or outputs that are called so", "a name for each",
                "change input_names or output_names",
            )  # fmt: skip
        used_names.add(value.name)
    names = Scene(model.graph).names
    for inner in with_subgraphs(model.graph):
        values = [*inner.inputs, *inner.initializers.values(), *(v for node in inner for v in node.outputs)]
        for value in values:
            if value not in faces and value.name in used_names:
                value.name = names(value.name or "")
