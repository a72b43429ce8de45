"""Merge nodes that compute the same from the same tensors."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from intact.graph.core.without_weights import SMALL
from intact.graph.ops import DRAWING
from intact.graph.ops.attributes import copy_attributes, subgraphs

_DRAWING = DRAWING | {"Dropout"}


def merge_common_subexpressions(model: ir.Model) -> dict[str, list[str]]:
    """Merge nodes that compute the same, in place: two ``Sigmoid(x)`` become one with all readers.

    Guards: one operator with the same attributes and inputs, small constants compared by their values; it is
    ONNX's own, draws nothing and has no subgraph; what it makes is no graph output.

    Returns:
        Name of each node that stays -> its own name, and those of the nodes that it stands for.
    """
    first, same = dict[Hashable, ir.Node](), dict[str, list[str]]()
    for node in list(model.graph):
        key = None if _is_apart(node) else _key(node)
        representative = node if key is None else first.setdefault(key, node)
        same.setdefault(representative.name or "", []).append(node.name or "")
        if representative is not node:
            for ours, theirs in zip(representative.outputs, node.outputs, strict=True):
                theirs.replace_all_uses_with(ours)
            model.graph.remove(node, safe=True)
    return same


def _is_apart(node: ir.Node) -> bool:
    shown = any(value.is_graph_output() for value in node.outputs)
    return bool(node.domain) or node.op_type in _DRAWING or shown or bool(subgraphs(node))


def _key(node: ir.Node) -> Hashable:
    attributes = tuple(
        sorted((name, _attribute(attribute)) for name, attribute in copy_attributes(node).items())
    )
    return node.op_type, len(node.outputs), tuple(map(_input, node.inputs)), attributes


def _input(value: ir.Value | None) -> Hashable:
    tensor = value.const_value if value is not None else None
    if tensor is None or tensor.size > SMALL:
        return id(value)
    return _tensor(tensor)


def _attribute(attribute: ir.Attr) -> str:
    value = attribute.value
    return repr(_tensor(value) if attribute.type is ir.AttributeType.TENSOR else value)


def _tensor(tensor: ir.TensorProtocol) -> Hashable:
    if tensor.size > SMALL or tensor.dtype is ir.DataType.STRING:
        return id(tensor)
    return tensor.dtype.name, tuple(tensor.shape.numpy()), tensor.numpy().tobytes()
