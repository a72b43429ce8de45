"""Infers operators that ONNX's inference does not look into, by others of the same shapes in their places.

They are functions that depend on attributes and types, ONNX Runtime's own, or INTact's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import onnx
from onnx import helper

from intact.graph.core.proto import node_graphs
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
    originals: dict[tuple[int, str], onnx.NodeProto] = {}
    nodes = [
        (number, scope, node, len(scope.graph.value_info))
        for number, scope in enumerate(_scopes(skeleton))
        for node in scope.graph.node
        if node.input and node.output and (len(node.output) == 1 or node.op_type in _OF_MANY_OUTPUTS)
    ]
    replaced = [item for item in nodes if _replace(item[0], item[1], item[2], originals)]
    if not replaced:
        return infer(skeleton)
    try:
        inferred_model = infer(skeleton)
    finally:
        for number, scope, node, count in reversed(replaced):
            node.CopyFrom(originals[number, node.output[0]])
            del scope.graph.value_info[count:]
    for number, scope in enumerate(_scopes(inferred_model)):
        for node in scope.graph.node:
            if node.output and (number, node.output[0]) in originals:
                node.CopyFrom(originals[number, node.output[0]])
    return inferred_model


@dataclass(frozen=True)
class _Scope:
    """A graph, and those around it, whose values it may read; two branches may use one name."""

    graph: onnx.GraphProto
    around: tuple[onnx.GraphProto, ...] = ()

    @property
    def graphs(self) -> tuple[onnx.GraphProto, ...]:
        return self.graph, *self.around


def _scopes(model: onnx.ModelProto) -> Iterator[_Scope]:
    """Yield the graph, and every subgraph in it and in the functions."""
    yield from _scopes_in(_Scope(model.graph))
    for function in model.functions:
        for node in function.node:
            for graph in node_graphs(node):
                yield from _scopes_in(_Scope(graph))


def _scopes_in(scope: _Scope) -> Iterator[_Scope]:
    yield scope
    for node in scope.graph.node:
        for graph in node_graphs(node):
            yield from _scopes_in(_Scope(graph, scope.graphs))


def _type_of(scope: _Scope, name: str) -> int:
    """Return the element type of a value that the graph, or one around it, declares; else float32."""
    for graph in scope.graphs:
        for tensor in graph.initializer:
            if tensor.name == name:
                return int(tensor.data_type)
        for info in (*graph.input, *graph.value_info):
            if info.name == name:
                return int(info.type.tensor_type.elem_type)
    return int(onnx.TensorProto.FLOAT)


def _shape_of(scope: _Scope, name: str) -> list[int] | None:
    """Return the sizes of a value that the graph, or one around it, declares.

    -1: one is not known, None: none is.
    """
    for graph in scope.graphs:
        for tensor in graph.initializer:
            if tensor.name == name:
                return list(tensor.dims)
        for info in (*graph.input, *graph.value_info):
            if info.name == name and info.type.tensor_type.HasField("shape"):
                dims = info.type.tensor_type.shape.dim
                return [d.dim_value if d.HasField("dim_value") else -1 for d in dims]
    return None


def _replace(
    number: int, scope: _Scope, node: onnx.NodeProto, originals: dict[tuple[int, str], onnx.NodeProto]
) -> bool:
    """Put a stand-in in place of `node`, and `node` into `originals`, where it needs one."""
    if (rule := _RULES.get((node.domain, node.op_type))) is not None:
        stand_in = rule(scope, node)
    elif node.op_type in _LIKE_FIRST and not node.domain:
        stand_in = helper.make_node("Identity", node.input[:1], list(node.output), name=node.name)
    else:
        stand_in = None
    if stand_in is None:
        return False
    original = onnx.NodeProto()
    original.CopyFrom(node)
    originals[number, node.output[0]] = original
    node.CopyFrom(stand_in)
    return True


def _same(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto:
    """Return what has the shape of the first output, which is that of the first input.

    Declare the types of the others, as of a layer that normalizes a sum: it hands that on.
    """
    _declare_types(scope, node.output[1:], _type_of(scope, node.input[0]))
    return helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)


def _declare_types(scope: _Scope, names: Iterable[str], dtype: int) -> None:
    """Declare the type of those of `names` that the graph does not declare."""
    declared = {info.name for info in (*scope.graph.value_info, *scope.graph.output)}
    for name in names:
        if name and name not in declared:
            scope.graph.value_info.append(helper.make_tensor_value_info(name, dtype, None))


def _product(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a MatMulNBits or MatMulBnb4."""
    sizes = {attribute.name: attribute.i for attribute in node.attribute}
    if min(sizes.get("K", 0), sizes.get("N", 0)) < 1 or len(node.input) < 3:
        return None
    matrix = _declare(scope, node, [sizes["K"], sizes["N"]])
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _dynamic_product(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a DynamicQuantizeMatMul."""
    shape = _shape_of(scope, node.input[1]) if len(node.input) > 2 else None
    if not shape or min(shape) < 0:
        return None
    matrix = _declare(scope, node, shape, 0)
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _product_of_codes(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return an If in the place of a MatMulIntegerToFloat: of two operators, because no single one fits."""
    if len(node.input) < 4:
        return None
    dtype = _type_of(scope, node.input[2])
    condition, sums, reals = (f"{node.output[0]}.intact.{part}" for part in ("condition", "sums", "reals"))
    _declare_types(scope, [condition], onnx.TensorProto.BOOL)
    nodes = [
        helper.make_node("MatMulInteger", list(node.input[:2]), [sums]),
        helper.make_node("Cast", [sums], [reals], to=dtype),
    ]
    branch = helper.make_graph(nodes, reals, [], [helper.make_tensor_value_info(reals, dtype, None)])
    return helper.make_node(
        "If", [condition], list(node.output), name=node.name, then_branch=branch, else_branch=branch
    )


def _gather(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a Gather in the place of a GatherBlockQuantized; uint8 codes are packed along the last axis."""
    shape = _shape_of(scope, node.input[0]) if len(node.input) > 2 else None
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if not shape or min(shape) < 0:
        return None
    if _type_of(scope, node.input[0]) == onnx.TensorProto.UINT8:
        shape[-1] *= 8 // max(1, min(8, numbers.get("bits", 4)))
    table, axis = _declare(scope, node, shape), numbers.get("gather_axis", 0)
    return helper.make_node("Gather", [table, node.input[1]], list(node.output), name=node.name, axis=axis)


def _attention(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return what makes the first output of a GroupQueryAttention: its queries; of a packed input a product.

    None where no cache that the graph declares says how large a head of the packed input is.
    """
    if len(node.input) > 1 and node.input[1]:
        return helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)
    counts = {attribute.name: attribute.i for attribute in node.attribute}
    heads, kv_heads = counts.get("num_heads", 0), counts.get("kv_num_heads", 0)
    cache = _shape_of(scope, node.input[3]) if len(node.input) > 3 else None
    if cache is None or len(cache) != 4:
        return None
    size = cache[3] - SCALE_BYTES * (_type_of(scope, node.input[3]) == onnx.TensorProto.INT8)
    if min(heads, kv_heads, size) < 1:
        return None
    matrix = _declare(scope, node, [(heads + 2 * kv_heads) * size, heads * size], 0)
    return helper.make_node("MatMul", [node.input[0], matrix], node.output[:1], name=node.name)


def _block_product(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a MatMul in the place of a BlockLinear."""
    shape = _block_shape(scope, node)
    if shape is None:
        return None
    matrix = _declare(scope, node, shape[::-1], 0)
    return helper.make_node("MatMul", [node.input[0], matrix], list(node.output), name=node.name)


def _block_rows(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return a Gather in the place of a BlockGather."""
    shape = _block_shape(scope, node)
    if shape is None:
        return None
    table = _declare(scope, node, shape, None)
    return helper.make_node("Gather", [table, node.input[0]], list(node.output), name=node.name)


def _block_shape(scope: _Scope, node: onnx.NodeProto) -> list[int] | None:
    """Return rows and elements of the weights of one of INTact's operators."""
    k = next((attribute.i for attribute in node.attribute if attribute.name == "K"), 0)
    codes = _shape_of(scope, node.input[1]) if len(node.input) > 2 else None
    return None if codes is None or len(codes) != 2 or min(k, codes[0]) < 1 else [codes[0], k]


def _lstm(scope: _Scope, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return an LSTM in the place of a DynamicQuantizeLSTM; its weights turned say nothing that is read."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if len(node.input) < 3 or "hidden_size" not in attributes or attributes["hidden_size"].i < 1:
        return None
    weights = _declare(scope, node, [1, 1, 1], 0)
    stand_in = helper.make_node("LSTM", [node.input[0], weights, weights], list(node.output), name=node.name)
    stand_in.attribute.extend(attributes[name] for name in ("direction", "hidden_size") if name in attributes)
    return stand_in


_RULES = {
    (MICROSOFT, "DynamicQuantizeLSTM"): _lstm, (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic_product,
    (MICROSOFT, "MatMulIntegerToFloat"): _product_of_codes,
    (MICROSOFT, "GatherBlockQuantized"): _gather, (MICROSOFT, "GroupQueryAttention"): _attention,
    (NarrowGroupQueryAttention.domain, "GroupQueryAttention"): _attention,
    (MICROSOFT, "MatMulBnb4"): _product, (MICROSOFT, "MatMulNBits"): _product,
    (BlockLinear.domain, "BlockGather"): _block_rows, (BlockLinear.domain, "BlockLinear"): _block_product,
    (MICROSOFT, "SkipLayerNormalization"): _same, (MICROSOFT, "MoE"): _same, (MICROSOFT, "QMoE"): _same,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _same,
}  # fmt: skip


def _declare(scope: _Scope, node: onnx.NodeProto, shape: list[int], like: int | None = 2) -> str:
    """Declare the floats that `node` computes with, of the type of its input `like`; returns their name.

    None: float32.
    """
    name = f"{node.output[0]}.intact.floats"
    dtype = int(onnx.TensorProto.FLOAT) if like is None else _type_of(scope, node.input[like])
    scope.graph.value_info.append(helper.make_tensor_value_info(name, dtype, shape))
    return name
