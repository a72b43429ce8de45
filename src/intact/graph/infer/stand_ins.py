"""Infers operators that ONNX's inference does not look into, by others of the same shapes in their places.

They are functions that depend on attributes and types, or ONNX Runtime's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from onnx import helper

from intact.graph.core.proto import proto_graphs
from intact.graph.ops import MICROSOFT

_LIKE_FIRST = frozenset({"GroupNormalization", "MeanVarianceNormalization", "Swish"})


def infer_with_stand_ins(
    skeleton: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> onnx.ModelProto:
    """Infer shapes of `skeleton`, also of operators that have a stand-in meanwhile.

    Args:
        skeleton: The model; it is as before when this returns.
        infer: ONNX's shape inference.
    """
    originals: dict[str, onnx.NodeProto] = {}
    nodes = [
        (graph, node, len(graph.value_info))
        for graph in proto_graphs(skeleton)
        for node in graph.node
        if node.input and node.output and (len(node.output) == 1 or _is_attention(node))
    ]
    replaced = [(graph, node, count) for graph, node, count in nodes if _replace(graph, node, originals)]
    if not replaced:
        return infer(skeleton)
    try:
        inferred_model = infer(skeleton)
    finally:
        for graph, node, count in reversed(replaced):
            node.CopyFrom(originals[node.output[0]])
            del graph.value_info[count:]
    for node in _nodes(inferred_model):
        if node.output and node.output[0] in originals:
            node.CopyFrom(originals[node.output[0]])
    return inferred_model


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in proto_graphs(model):
        yield from graph.node


def _type_of(graph: onnx.GraphProto, name: str) -> int:
    """Return the element type of a value that the graph declares; else float32."""
    for tensor in graph.initializer:
        if tensor.name == name:
            return int(tensor.data_type)
    for info in (*graph.input, *graph.value_info):
        if info.name == name:
            return int(info.type.tensor_type.elem_type)
    return int(onnx.TensorProto.FLOAT)


def _replace(graph: onnx.GraphProto, node: onnx.NodeProto, originals: dict[str, onnx.NodeProto]) -> bool:
    """Put a stand-in in place of `node`, and `node` into `originals`, where it needs one."""
    is_product = node.op_type == "MatMulNBits" and node.domain == MICROSOFT
    is_attention = _is_attention(node)
    if not (is_product or is_attention) and (node.op_type not in _LIKE_FIRST or node.domain):
        return False
    original = onnx.NodeProto()
    original.CopyFrom(node)
    if is_product or (is_attention and not (len(node.input) > 1 and node.input[1])):
        shape = _matrix_of_product(node) if is_product else _matrix_of_packed_attention(graph, node)
        if shape is None:
            return False
        matrix = f"{node.output[0]}.intact.matrix"
        dtype = _type_of(graph, node.input[2 if is_product else 0])
        graph.value_info.append(helper.make_tensor_value_info(matrix, dtype, shape))
        stand_in = helper.make_node("MatMul", [node.input[0], matrix], node.output[:1], name=node.name)
    else:
        stand_in = helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)
    originals[node.output[0]] = original
    node.CopyFrom(stand_in)
    return True


def _is_attention(node: onnx.NodeProto) -> bool:
    return node.op_type == "GroupQueryAttention" and node.domain == MICROSOFT


def _matrix_of_product(node: onnx.NodeProto) -> list[int] | None:
    """Return the sizes of a MatMulNBits' matrix."""
    sizes = {attribute.name: attribute.i for attribute in node.attribute}
    fits = min(sizes.get("K", 0), sizes.get("N", 0)) >= 1 and len(node.input) >= 3
    return [sizes["K"], sizes["N"]] if fits else None


def _matrix_of_packed_attention(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[int] | None:
    """Return the sizes of a matrix that makes an attention's output of its packed input.

    None where no cache that the graph declares says how large a head is.
    """
    counts = {attribute.name: attribute.i for attribute in node.attribute}
    heads, kv_heads = counts.get("num_heads", 0), counts.get("kv_num_heads", 0)
    caches = [info for info in graph.input if len(node.input) > 3 and info.name == node.input[3]]
    if not caches or min(heads, kv_heads) < 1:
        return None
    dims = caches[0].type.tensor_type.shape.dim
    if len(dims) != 4 or dims[3].dim_value < 1:
        return None
    return [(heads + 2 * kv_heads) * dims[3].dim_value, heads * dims[3].dim_value]
