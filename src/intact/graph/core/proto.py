"""Convert between ModelProto and onnx-ir's Model without losses: `meta` keeps what onnx-ir cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnx_ir as ir

from intact.errors import FileFormatError, UnsupportedError
from intact.graph.core.error_text import first_line, root
from intact.graph.ops.attributes import subgraphs

INFERRED = "intact.inferred"
"""In a value's meta: its shape and type were not in the file, and are not written."""

_TYPE = "intact.type"  # in a value's meta: the bytes of a TypeProto that onnx-ir has no class for
_TRAINING = "intact.training_info"  # in the model's meta
MAX_DENSE = 2**26
"""Elements up to which a sparse tensor is made dense."""


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """Return the model of `proto`, whose tensors it keeps; sparse ones become dense ones in `proto`, too.

    Raises:
        FileFormatError: onnx-ir cannot read it.
    """
    for entry in proto.opset_import:
        entry.domain = _domain(entry.domain)
    graphs = list(proto_graphs(proto))
    for graph in graphs:
        _densify(graph)
    infos = [info for graph in graphs for info in _infos(graph)]
    unread = [(info, info.type.SerializeToString()) for info in infos if _is_opaque(info.type)]
    for info, _ in unread:
        info.ClearField("type")
    opaque = {info.name: type_ for info, type_ in unread}
    # The outputs of a branch may have no type; what inference finds is not written there either.
    opaque.update(
        (o.name, b"") for g in graphs[1:] for o in g.output if not o.HasField("type") and o.name not in opaque
    )
    model: ir.Model = ir.from_proto(proto)
    for info, type_ in unread:
        info.type.ParseFromString(type_)
    if proto.training_info:
        model.meta[_TRAINING] = [info.SerializeToString() for info in proto.training_info]
    declared = {info.name for info in infos}
    declared |= {info.name for function in proto.functions for info in function.value_info}
    for value in _values(model):
        if value.name in opaque:
            value.meta[_TYPE] = opaque[value.name]
        if value.name not in declared:
            value.meta[INFERRED] = True
    return model


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Convert `model` to one ModelProto, without inferred shapes: the inverse of `from_proto`.

    Raises:
        FileFormatError: It holds what ONNX cannot store, for example a name that is no text.
    """
    outside = {
        value: value.const_value
        for graph in with_subgraphs(model.graph)
        for value in graph.initializers.values()
        if isinstance(value.const_value, ir.ExternalTensor) and value.const_value.base_dir
    }
    try:
        for value, tensor in outside.items():
            value.const_value = copy_to_memory(tensor)
        proto: onnx.ModelProto = ir.to_proto(model)
    except ir.serde.SerdeError as error:
        want = "text and numbers that ONNX can store"
        raise FileFormatError("model", first_line(root(error)), want, "export the model again") from error
    finally:
        for value, tensor in outside.items():
            value.const_value = tensor
    values = list(_values(model))
    shown = {v.name for v in values if INFERRED not in v.meta}
    hidden = {v.name for v in values} - shown
    opaque = {v.name: v.meta[_TYPE] for v in values if _TYPE in v.meta}
    written = [proto.graph, *_within(model.graph, proto.graph.node)]
    for function, body in zip(model.functions.values(), proto.functions, strict=True):
        written += _within(function, body.node)
    for graph in written:
        visible = [info for info in graph.value_info if info.name not in hidden]
        if len(visible) < len(graph.value_info):
            del graph.value_info[:]
            graph.value_info.extend(visible)
        for info in _infos(graph):
            if info.name in opaque:
                info.ClearField("type")
                if opaque[info.name]:
                    info.type.ParseFromString(opaque[info.name])
    for data in model.meta.get(_TRAINING, ()):
        proto.training_info.add().ParseFromString(data)
    return proto


def copy_to_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return `tensor`, copied to memory where it lies in the file of another model."""
    if isinstance(tensor, ir.ExternalTensor) and tensor.base_dir:
        return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)
    return tensor


def _within(nodes: Iterable[ir.Node], written: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yield the written graphs within `nodes`. Few nodes have any, and onnx-ir knows which."""
    for node, proto in zip(nodes, written, strict=True):
        if inner := subgraphs(node):
            for graph, its in zip(inner, node_graphs(proto), strict=True):
                yield its
                yield from _within(graph, its.node)


def show_type(value: ir.Value) -> None:
    """Let `to_proto` write the type of the output of a branch: outputs of a model have one."""
    if value.meta.get(_TYPE) == b"":
        del value.meta[_TYPE]
    value.meta.pop(INFERRED, None)


def proto_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph, and every subgraph in it and in the functions."""
    yield from _with_subgraphs(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _subgraphs(node)


def _with_subgraphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        yield from _subgraphs(node)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for inner in node_graphs(node):
        yield from _with_subgraphs(inner)


def node_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """List the graphs that are attributes of `node` itself."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _infos(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info


def _is_opaque(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _is_opaque(getattr(type_, kind).elem_type)
    if kind == "tensor_type":
        return bool(type_.tensor_type.elem_type == onnx.TensorProto.UNDEFINED)
    return kind is not None and kind != "sparse_tensor_type"


def with_subgraphs(graph: ir.Graph) -> list[ir.Graph]:
    """List the graph and every graph within: ``[graph, *graph.subgraphs()]`` of onnx-ir, faster."""
    graphs, waiting = [], [graph]
    while waiting:
        graphs.append(waiting.pop())
        inner = [inner_graph for node in graphs[-1] for inner_graph in subgraphs(node)]
        waiting.extend(reversed(inner))
    return graphs


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield every node, each in front of those within it: ``graph.all_nodes()``, faster."""
    for node in graph:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def forget_domain(model: ir.Model, domain: str) -> None:
    """Take a domain of which no node is left out of those that a model imports."""
    if not any(node.domain == domain for node in all_nodes(model.graph)):
        model.opset_imports.pop(domain, None)


def values_of(graph: ir.Graph) -> list[ir.Value]:
    """List inputs, initializers and node outputs of this graph alone; they may be renamed meanwhile."""
    outputs = (value for node in graph for value in node.outputs)
    return [*graph.inputs, *graph.initializers.values(), *outputs]


def _values(model: ir.Model) -> Iterator[ir.Value]:
    """Yield every value of the graph, its subgraphs and the functions; some more than once."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for inner in with_subgraphs(graph):
            yield from inner.outputs
            yield from values_of(inner)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _densify(graph: onnx.GraphProto) -> None:
    """Convert sparse initializers and constants to dense ones, as every runtime does when it loads."""
    for sparse in graph.sparse_initializer:
        graph.initializer.append(_dense(sparse, sparse.values.name or "a sparse initializer"))
    del graph.sparse_initializer[:]
    for node in graph.node:
        if node.op_type == "Constant" and _domain(node.domain) == "":
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                    dense = _dense(attribute.sparse_tensor, node.name or node.output[0])
                    attribute.CopyFrom(onnx.helper.make_attribute("value", dense))


def _dense(sparse: onnx.SparseTensorProto, where: str) -> onnx.TensorProto:
    dims = list(sparse.dims)
    size = int(np.prod(dims, dtype=object)) if dims else 1
    if min(dims, default=0) < 0 or size > MAX_DENSE:
        raise UnsupportedError(
            where,
            f"a sparse tensor of shape {dims}",
            f"at most {MAX_DENSE} elements",
            "store this tensor as a dense one",
        )
    try:
        values, indices = map(onnx.numpy_helper.to_array, (sparse.values, sparse.indices))
        dense = np.zeros(size, values.dtype)
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
        dense[flat] = values
    except (ValueError, IndexError, TypeError) as error:
        raise FileFormatError(
            where, f"a damaged sparse tensor: {error}", "values and their indices", "export the model again"
        ) from error
    return onnx.numpy_helper.from_array(dense.reshape(dims), sparse.values.name)
