"""Infers operators that ONNX's inference does not look into, by others of the same shapes in their places.

They are functions that depend on attributes and types, ONNX Runtime's own, or INTact's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import onnx
from onnx import helper

from intact.graph.core.proto import proto_graphs
from intact.graph.ops import MICROSOFT, BlockLinear, NarrowGroupQueryAttention
from intact.numerics import SCALE_BYTES

_LIKE_FIRST = frozenset(
    {"GroupNormalization", "MeanVarianceNormalization", "SimplifiedLayerNormalization", "Swish"}
)
_OF_MANY_OUTPUTS = (
    "DynamicQuantizeLSTM", "GroupQueryAttention", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)  # fmt: skip


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
        if node.input and node.output and (len(node.output) == 1 or node.op_type in _OF_MANY_OUTPUTS)
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


def _shape_of(graph: onnx.GraphProto, name: str) -> list[int] | None:
    """Return the sizes of a value that the graph declares; -1: one is not known, None: none is."""
    for tensor in graph.initializer:
        if tensor.name == name:
            return list(tensor.dims)
    for info in (*graph.input, *graph.value_info):
        if info.name == name and info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            return [d.dim_value if d.HasField("dim_value") else -1 for d in dims]
    return None


def _replace(graph: onnx.GraphProto, node: onnx.NodeProto, originals: dict[str, onnx.NodeProto]) -> bool:
    """Put a stand-in in place of `node`, and `node` into `originals`, where it needs one."""
    if (rule := _RULES.get((node.domain, node.op_type))) is not None:
        stand_in = rule(graph, node)
    elif node.op_type in _LIKE_FIRST and not node.domain:
        stand_in = helper.make_node("Identity", node.input[:1], list(node.output), name=node.name)
    else:
        stand_in = None
    if stand_in is None:
        return False
    original = onnx.NodeProto()
    original.CopyFrom(node)
    originals[node.output[0]] = original
    node.CopyFrom(stand_in)
    return True


def _same(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto:
    """Return what has the shape of the first output, which is that of the first input.

    Declare the types of the others, as of a layer that normalizes a sum: it hands that on.
    """
    _declare_types(graph, node.output[1:], _type_of(graph, node.input[0]))
    return helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)


def _declare_types(graph: onnx.GraphProto, names: Iterable[str], dtype: int) -> None:
    """Declare the type of those of `names` that the graph does not declare."""
    declared = {info.name for info in (*graph.value_info, *graph.output)}
    for name in names:
        if name and name not in declared:
            graph.value_info.append(helper.make_tensor_value_info(name, dtype, None))


def _product(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a MatMulNBits."""
    sizes = {attribute.name: attribute.i for attribute in node.attribute}
    if min(sizes.get("K", 0), sizes.get("N", 0)) < 1 or len(node.input) < 3:
        return None
    matrix = _declare(graph, node, [sizes["K"], sizes["N"]])
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _dynamic_product(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a DynamicQuantizeMatMul."""
    shape = _shape_of(graph, node.input[1]) if len(node.input) > 2 else None
    if not shape or min(shape) < 0:
        return None
    matrix = _declare(graph, node, shape, 0)
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _product_of_codes(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMulIntegerToFloat as it is, but declare its type: no operator of ONNX has its types."""
    if len(node.input) < 4:
        return None
    _declare_types(graph, node.output, _type_of(graph, node.input[2]))
    return helper.make_node(
        node.op_type, list(node.input), list(node.output), name=node.name, domain=node.domain
    )


def _gather(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a Gather in the place of a GatherBlockQuantized; uint8 codes are packed along the last axis."""
    shape = _shape_of(graph, node.input[0]) if len(node.input) > 2 else None
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if not shape or min(shape) < 0:
        return None
    if _type_of(graph, node.input[0]) == onnx.TensorProto.UINT8:
        shape[-1] *= 8 // max(1, min(8, numbers.get("bits", 4)))
    table, axis = _declare(graph, node, shape), numbers.get("gather_axis", 0)
    return helper.make_node("Gather", [table, node.input[1]], list(node.output), name=node.name, axis=axis)


def _attention(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return what makes the first output of a GroupQueryAttention: its queries; of a packed input a product.

    None where no cache that the graph declares says how large a head of the packed input is.
    """
    if len(node.input) > 1 and node.input[1]:
        return helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)
    counts = {attribute.name: attribute.i for attribute in node.attribute}
    heads, kv_heads = counts.get("num_heads", 0), counts.get("kv_num_heads", 0)
    cache = _shape_of(graph, node.input[3]) if len(node.input) > 3 else None
    if cache is None or len(cache) != 4:
        return None
    size = cache[3] - SCALE_BYTES * (_type_of(graph, node.input[3]) == onnx.TensorProto.INT8)
    if min(heads, kv_heads, size) < 1:
        return None
    matrix = _declare(graph, node, [(heads + 2 * kv_heads) * size, heads * size], 0)
    return helper.make_node("MatMul", [node.input[0], matrix], node.output[:1], name=node.name)


def _block_product(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a BlockLinear."""
    shape = _block_shape(graph, node)
    if shape is None:
        return None
    matrix = _declare(graph, node, shape[::-1], 0)
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _block_rows(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a Gather in the place of a BlockGather."""
    shape = _block_shape(graph, node)
    if shape is None:
        return None
    table = _declare(graph, node, shape, None)
    return helper.make_node("Gather", [table, node.input[0]], list(node.output), name=node.name)


def _block_shape(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[int] | None:
    """Return rows and elements of the weights of one of INTact's operators."""
    k = next((attribute.i for attribute in node.attribute if attribute.name == "K"), 0)
    codes = _shape_of(graph, node.input[1]) if len(node.input) > 2 else None
    return None if codes is None or len(codes) != 2 or min(k, codes[0]) < 1 else [codes[0], k]


def _lstm(graph: onnx.GraphProto, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return an LSTM in the place of a DynamicQuantizeLSTM; its weights turned say nothing that is read."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if len(node.input) < 3 or "hidden_size" not in attributes or attributes["hidden_size"].i < 1:
        return None
    weights = _declare(graph, node, [1, 1, 1], 0)
    stand_in = helper.make_node("LSTM", [node.input[0], weights, weights], list(node.output), name=node.name)
    stand_in.attribute.extend(attributes[name] for name in ("direction", "hidden_size") if name in attributes)
    return stand_in


_RULES = {
    (MICROSOFT, "DynamicQuantizeLSTM"): _lstm, (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic_product,
    (MICROSOFT, "MatMulIntegerToFloat"): _product_of_codes,
    (MICROSOFT, "GatherBlockQuantized"): _gather, (MICROSOFT, "GroupQueryAttention"): _attention,
    (NarrowGroupQueryAttention.domain, "GroupQueryAttention"): _attention,
    (MICROSOFT, "MatMulNBits"): _product, (BlockLinear.domain, "BlockGather"): _block_rows,
    (BlockLinear.domain, "BlockLinear"): _block_product, (MICROSOFT, "SkipLayerNormalization"): _same,
    (MICROSOFT, "MoE"): _same, (MICROSOFT, "QMoE"): _same,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _same,
}  # fmt: skip


def _declare(graph: onnx.GraphProto, node: onnx.NodeProto, shape: list[int], like: int | None = 2) -> str:
    """Declare the floats that `node` computes with, of the type of its input `like`; returns their name.

    None: float32.
    """
    name = f"{node.output[0]}.intact.floats"
    dtype = int(onnx.TensorProto.FLOAT) if like is None else _type_of(graph, node.input[like])
    graph.value_info.append(helper.make_tensor_value_info(name, dtype, shape))
    return name
