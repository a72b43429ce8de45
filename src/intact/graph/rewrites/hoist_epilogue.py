"""Move bias and activation ahead of Reshape, Squeeze or Flatten, so that they fuse with the layer."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import Inserter, Namer, drop_unused, hand_over
from intact.graph.core.constants import Constants
from intact.graph.core.edit import static_sizes
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Outcome, Rewrite, Scene

_SHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
_WITH_CONSTANT = ("Add", "Div", "Mul", "Sub")


def _hoist_epilogue(node: ir.Node, scene: Scene) -> Outcome:
    """Move element-wise nodes in front of a change of shape behind a layer.

    Before: ``Relu(Add(Squeeze(Conv(x, w)), b))``, as tf2onnx writes Keras' Conv1D; its Dense on sequences is
    ``Add(Reshape(MatMul(x, w)), b)``. After: ``Squeeze(Relu(Add(Conv(x, w), b')))``: one step does all but
    the Squeeze.

    Guards: nobody else reads what is in between; a constant is one number, or one for each index of an axis
    that the change of shape leaves whole.
    """
    layer = _producer(node.inputs[0])
    if layer is None or not ops.is_kind(layer, "convolution", "product") or layer.graph is not scene.graph:
        return None
    moved = []
    while (name := _hoist_one(node, scene.constants, scene.names)) is not None:
        moved.append(name)
    return f"{', '.join(moved)} stand in front of it" if moved else None


def _hoist_one(node: ir.Node, constants: Constants, names: Namer) -> str | None:
    """Take the one reader of a change of shape in front of it; None where that cannot be done."""
    x, y = node.inputs[0], node.outputs[0]
    uses = list(y.uses())
    if x is None or x.is_graph_output() or len(x.uses()) > 1 or y.is_graph_output() or len(uses) != 1:
        return None
    reader, place = uses[0].node, uses[0].idx
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    if reader.graph is not graph or len(reader.outputs) != 1:
        return None
    operands = _operands(node, reader, place, constants)
    if operands is None:
        return None
    insert = Inserter(graph, node, names)
    inputs = list(reader.inputs)
    inputs[place] = x
    for index, array in operands.items():
        old = inputs[index]
        inputs[index] = insert.constant(f"{old.name if old is not None else reader.name}.laid", array)
        constants.add(inputs[index])
    (moved,) = insert.copy(reader, inputs)
    moved.shape, moved.type = x.shape, reader.outputs[0].type
    node.replace_input_with(0, moved)
    y.type = moved.type
    hand_over(reader, reader.outputs[0], y, names)
    rest = [value for index, value in enumerate(reader.inputs) if index != place]
    graph.remove(reader, safe=True)
    drop_unused(graph, *rest)
    producer = moved.producer()
    assert producer is not None
    producer.name = reader.name
    return f"{reader.op_type} '{reader.name}'"


def _operands(
    node: ir.Node, reader: ir.Node, place: int, constants: Constants
) -> dict[int, NDArray[np.generic]] | None:
    """Return the constants that `reader` needs in front of `node`, by input; None where it has to stay."""
    other_indices = [
        index for index, value in enumerate(reader.inputs) if index != place and value is not None
    ]
    if not ops.is_kind(reader, "arithmetic", "function"):
        return None
    if any(is_op(_producer(reader.inputs[index]), "DequantizeLinear") for index in other_indices):
        return None  # a pair says how it is to be added
    arrays = {index: constants(reader.inputs[index]) for index in other_indices}
    if any(array is None for array in arrays.values()):
        return None
    if all(array is not None and array.size == 1 for array in arrays.values()):
        wide = [array for array in arrays.values() if array is not None and array.ndim > _rank(node)]
        return None if wide or (place and other_indices and not is_op(reader, *_WITH_CONSTANT)) else {}
    if not is_op(reader, *_WITH_CONSTANT):
        return None
    (index,) = other_indices
    array = arrays[index]
    reshaped = None if array is None else _reshape_constant(node, array, constants)
    return None if reshaped is None else {index: reshaped}


def _producer(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


def _rank(node: ir.Node) -> int:
    """Return the least number of axes in front of and behind a change of shape."""
    shapes = [value.shape for value in (node.inputs[0], node.outputs[0]) if value is not None]
    return min((0 if shape is None else len(shape) for shape in shapes), default=0)


def _reshape_constant(
    node: ir.Node, array: NDArray[np.generic], constants: Constants
) -> NDArray[np.generic] | None:
    """Reshape a constant behind `node` to fit in front of it; None where that is impossible."""
    x, y = node.inputs[0], node.outputs[0]
    if x is None or x.shape is None or y.shape is None or array.ndim > len(y.shape):
        return None
    behind = array.reshape(*[1] * (len(y.shape) - array.ndim), *array.shape)
    if is_op(node, "Squeeze", "Unsqueeze"):
        axes = constants(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
        if axes is None:
            return None
        rank = max(len(x.shape), len(y.shape))
        places = tuple(sorted(int(axis) % rank for axis in axes.reshape(-1)))
        if node.op_type == "Squeeze":
            return np.expand_dims(behind, places)
        wide = any(behind.shape[axis] != 1 for axis in places)
        return None if wide else np.squeeze(behind, places)
    last = static_sizes(ir.Shape([x.shape[-1], y.shape[-1]])) if len(x.shape) and len(y.shape) else None
    if last is None or last[0] != last[1] or behind.size != behind.shape[-1] or array.size != last[0]:
        return None
    return behind.reshape(-1)


HOIST_EPILOGUE = Rewrite("finish layers before their shape changes", _hoist_epilogue, _SHAPING)
