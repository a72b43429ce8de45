"""Shapes and types of every value, where the operators tell them."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.proto import node_graphs, to_proto

SMALL = 1024
"""Elements up to which an initializer may steer shapes (the target of a Reshape, the pads of a Pad)."""

_NODE = re.compile(r"\(op_type:\s*(?P<op>[^,)]*)(?:, node name: (?P<name>[^)]*))?\)\s*:?\s*(?P<what>.*)")


def infer_shapes(model: ir.Model) -> None:
    """Give shape and type to the values that have none, in place; what cannot be told stays open.

    Raises:
        FileFormatError: The operators contradict the declared shapes; names the node.
    """
    skeleton = to_skeleton(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(
            skeleton, check_type=True, strict_mode=True, data_prop=True
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise _wrong(error) from error
    _merge(model.graph, inferred.graph)


def to_skeleton(model: ir.Model) -> onnx.ModelProto:
    """`model` without the data of its large initializers: small enough for ONNX's C++."""
    large = {
        value: value.const_value
        for graph in (model.graph, *model.graph.subgraphs())
        for value in graph.initializers.values()
        if value.const_value is not None and value.const_value.size > SMALL
    }
    try:
        for value, tensor in large.items():
            value.const_value = placeholder(value, tensor, "absent", 0)
        return to_proto(model)
    finally:
        for value, tensor in large.items():
            value.const_value = tensor


def placeholder(value: ir.Value, tensor: ir.TensorProtocol, file: str, offset: int) -> ir.ExternalTensor:
    """What stands for `tensor`, of the initializer `value`, while its data lie in `file`."""
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(file, offset, tensor.nbytes, tensor.dtype, shape=shape, name=value.name or "")


def _merge(graph: ir.Graph, inferred: onnx.GraphProto) -> None:
    infos = {info.name: info for info in (*inferred.value_info, *inferred.output)}
    for node, proto in zip(graph, inferred.node, strict=True):
        for value in node.outputs:
            if value.name in infos and (value.shape is None or value.type is None):
                _fill(value, infos[value.name])
        for inner, inner_proto in zip(_node_graphs(node), node_graphs(proto), strict=True):
            _merge(inner, inner_proto)


def _fill(value: ir.Value, info: onnx.ValueInfoProto) -> None:
    if not info.type.HasField("tensor_type"):
        return
    known = ir.serde.deserialize_value_info_proto(info, None)
    value.type = value.type or known.type
    value.shape = value.shape or known.shape


def _node_graphs(node: ir.Node) -> list[ir.Graph]:
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs.extend(attribute.as_graphs())
    return graphs


def _wrong(error: Exception) -> FileFormatError:
    text = re.sub(r"\s+", " ", str(error)).strip()
    found = _NODE.search(text)
    where = "model"
    if found:
        where = f"node '{found['name']}' ({found['op']})" if found["name"] else f"a node ({found['op']})"
        text = found["what"]
    return FileFormatError(
        where, f"shapes or types that do not fit: {text[:300]}", "a valid graph", "export the model again"
    )
