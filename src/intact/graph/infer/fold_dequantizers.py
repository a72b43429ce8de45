"""Compute dequantizers of constants in loops and branches, where ONNX Runtime has none for their types.

It runs loops, and branches that it chooses, as a whole. In the main graph the engine dequantizes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from intact.graph.core.build import new_constant
from intact.graph.core.constants import evaluate_node
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Note, Scene
from intact.graph.ops.attributes import subgraphs
from intact.graph.ops.structure import stored_tensor

_MISSING = frozenset({ir.DataType.FLOAT4E2M1, ir.DataType.FLOAT8E8M0})
"""Types of codes or scales that ONNX Runtime's DequantizeLinear does not have on the CPU."""


def fold_dequantizers(model: ir.Model) -> list[Note]:
    """Let the readers of such a node read an initializer of the main graph with its floats, in place."""
    notes: list[Note] = []
    scene = Scene(model.graph)
    nodes = [node for outer in model.graph for graph in subgraphs(outer) for node in _dequantizers(graph)]
    for node in nodes:
        tensors = [None if value is None else _tensor(value) for value in node.inputs]
        is_present = [value is not None for value in node.inputs]
        if is_present != [tensor is not None for tensor in tensors] or node.outputs[0].is_graph_output():
            continue
        node.version = model.opset_imports[""]  # a body has no imports of its own
        (floats,) = evaluate_node(node, [None if tensor is None else tensor.numpy() for tensor in tensors])
        constant = new_constant(scene.graph, scene.names(node.outputs[0].name or "floats"), floats)
        node.outputs[0].replace_all_uses_with(constant)
        assert node.graph is not None
        node.graph.remove(node, safe=True)
        notes.append(Note(node.name or "", "its floats are a constant of the main graph"))
    return notes


def _dequantizers(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph, and of those within, of types that are missing."""
    for node in graph:
        types = {value.dtype for value in node.inputs[:2] if value is not None}
        if is_op(node, "DequantizeLinear") and types & _MISSING:
            yield node
        for inner in subgraphs(node):
            yield from _dequantizers(inner)


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer or of a Constant."""
    maker = value.producer()
    if maker is not None:
        return stored_tensor(maker)
    return value.const_value if value.is_initializer() and not value.is_graph_input() else None
