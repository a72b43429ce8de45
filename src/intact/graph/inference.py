"""Shapes and types of every value, where the operators tell them."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.growth import vectors_stay_small
from intact.graph.pools import behind_pools, settled_pools
from intact.graph.proto import INFERRED, node_graphs, own_graphs, proto_graphs, to_proto
from intact.graph.tensors import check_shape
from intact.graph.wording import first_line

SMALL = 1024
"""Elements up to which an initializer may steer shapes (the target of a Reshape, the pads of a Pad)."""

_NODE = re.compile(r"\(op_type:\s*([^,)]*)(?:, node name: ([^)]*))?\)\s*:?\s*")


MAX_VECTOR = 2**20
"""Numbers up to which shape arithmetic is followed."""


def infer_shapes(model: ir.Model) -> None:
    """Give shape and type to the values that have none, in place; what cannot be told stays open.

    Where the declared shape of what a node makes contradicts the operators, these are right, as in ONNX
    Runtime: exporters write ranks of outputs that their networks do not have.

    Raises:
        FileFormatError: The operators contradict each other; names the node.
    """
    skeleton = to_skeleton(model)
    try:
        made = inferred(skeleton).graph
    except FileFormatError as contradiction:
        try:
            made = inferred(undeclared(skeleton)).graph
        except FileFormatError:
            raise contradiction from None
        for node in model.graph:
            for value in node.outputs:
                value.shape = None
    behind = behind_pools(skeleton.graph)
    if behind:
        told = {
            info.name for info in (*made.value_info, *made.output) if info.type.tensor_type.HasField("shape")
        }
        for node in model.graph:
            for value in node.outputs:
                if value.name in behind & told:
                    value.shape = None
    _merge(model.graph, made)


def refresh_shapes(model: ir.Model) -> None:
    """Infer again what the file did not say, in place: after a rewrite the operators may tell more.

    Raises:
        FileFormatError: As for `infer_shapes`.
    """
    for node in model.graph:
        for value in node.outputs:
            if INFERRED in value.meta and not value.is_graph_output():
                value.shape = None
    infer_shapes(model)


def undeclared(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` without the shapes that it declares for what its nodes make; types stay."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    made = {name for node in bare.graph.node for name in node.output}
    for info in (*bare.graph.value_info, *bare.graph.output):
        if info.name in made:
            info.type.tensor_type.ClearField("shape")
    return bare


def inferred(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    """`skeleton` with the shapes and types that its operators tell.

    Raises:
        FileFormatError: As for `infer_shapes`.
    """
    try:
        return settled_pools(skeleton, lambda proto: _infer(proto, strict=True))
    except _ERRORS as error:
        problem = error
    text = first_line(problem, 1000)
    if _within_operator(text):
        try:
            return _infer(skeleton, strict=False)
        except _ERRORS as error:
            text = first_line(error, 1000)
    raise _wrong(text) from problem


_ERRORS = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)


def _infer(skeleton: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    """ONNX's inference; it follows the numbers of shape arithmetic only where they stay small.

    It keeps an entry for every element of a vector that it follows, and a vector of 2**40 elements takes one
    number in a hostile file to ask for.
    """
    first = onnx.shape_inference.infer_shapes(skeleton, check_type=True, strict_mode=strict)
    if _is_large(first) or not vectors_stay_small(first, MAX_VECTOR):
        return first
    try:
        return onnx.shape_inference.infer_shapes(
            skeleton, check_type=True, strict_mode=strict, data_prop=True
        )
    except _ERRORS as error:
        if _ITS_OWN not in str(error):
            raise
    return onnx.shape_inference.infer_shapes(skeleton, check_type=True, data_prop=True)


_ITS_OWN = "broadcasting: ("
"""In what ONNX says where two vectors of numbers that it follows have no size for both: it takes every value
for a vector, [640, 1] + [455] too. Shapes that do not fit are found without numbers."""


def _is_large(proto: onnx.ModelProto) -> bool:
    vectors = (
        info.type.tensor_type.shape.dim
        for graph in proto_graphs(proto)
        for info in (*graph.input, *graph.output, *graph.value_info)
    )
    if any(len(dims) == 1 and dims[0].dim_value > MAX_VECTOR for dims in vectors):
        return True
    ends = {
        name
        for graph in proto_graphs(proto)
        for node in graph.node
        if node.op_type == "Slice"
        for name in node.input
    }
    return any(
        tensor.data_type == onnx.TensorProto.INT64
        and tensor.name not in ends  # where the largest number means the end
        and abs(onnx.numpy_helper.to_array(tensor).astype(float)).max(initial=0) > MAX_VECTOR
        for graph in proto_graphs(proto)
        for tensor in graph.initializer
    )


def _within_operator(text: str) -> bool:
    """Whether ONNX stumbles over its own definition of an operator (MeanVarianceNormalization's axes)."""
    found = _NODE.findall(text)
    if len(found) < 2:
        return False
    try:
        schema = onnx.defs.get_schema(found[0][0])
    except onnx.defs.SchemaError:
        return False
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def to_skeleton(model: ir.Model) -> onnx.ModelProto:
    """`model` with its large initializers as inputs: small enough for ONNX's C++, whatever they weigh."""
    held = {v: v.const_value for v in model.graph.initializers.values() if v.const_value is not None}
    large = {v: t for v, t in held.items() if t.size > SMALL}
    try:
        for value, tensor in large.items():
            value.const_value = placeholder(value, tensor, "absent", 0)
        proto = to_proto(model)
    finally:
        for value, tensor in held.items():
            value.const_value = tensor
    inputs = {info.name for info in proto.graph.input}
    names = {value.name for value in large}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name in names - inputs
    )
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    for graph in proto_graphs(proto):
        for node in graph.node:
            say_onesided(node)
    return proto


def say_onesided(node: onnx.NodeProto) -> None:
    """Say of an STFT that it is one-sided, as it is by default: ONNX's inference takes it for two-sided."""
    if node.op_type == "STFT" and not any(attribute.name == "onesided" for attribute in node.attribute):
        node.attribute.append(onnx.helper.make_attribute("onesided", 1))


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
        for inner, inner_proto in zip(own_graphs(node), node_graphs(proto), strict=True):
            _merge(inner, inner_proto)


def _fill(value: ir.Value, info: onnx.ValueInfoProto) -> None:
    if not info.type.HasField("tensor_type"):
        return
    dims = info.type.tensor_type.shape.dim
    if any(dim.dim_value < 0 for dim in dims):  # sums of sizes that ONNX's inference took too far
        return
    check_shape(info, "")
    known = ir.serde.deserialize_value_info_proto(info, None)
    if info.type.tensor_type.elem_type != onnx.TensorProto.UNDEFINED:
        value.type = value.type or known.type
    value.shape = value.shape or known.shape


def _wrong(text: str) -> FileFormatError:
    where = "model"
    if found := _NODE.search(text):
        where = f"node '{found[2]}' ({found[1]})" if found[2] else f"a node ({found[1]})"
        text = _NODE.split(text[found.end() :])[0].strip()  # the first error; the others follow from it
    return FileFormatError(
        where, f"shapes or types that do not fit: {text[:300]}", "a valid graph", "export the model again"
    )
