"""Infer shapes and types of all values of a model."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from functools import partial

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.core.check_tensors import check_value
from intact.graph.core.error_text import first_line
from intact.graph.core.proto import INFERRED, node_graphs, proto_graphs
from intact.graph.core.without_weights import say_onesided, to_proto_without_weights
from intact.graph.infer.ceil_mode_pools import behind_pools, infer_with_pools
from intact.graph.infer.runtime_inference import infer_runtime_operators
from intact.graph.infer.shape_vector_limits import vectors_stay_small
from intact.graph.ops.attributes import subgraphs

_NODE = re.compile(r"\(op_type:\s*([^,)]*)(?:, node name: ([^)]*))?\)\s*:?\s*")


HAS_SHAPES = "intact.told"
"""In a model's meta: whether inference has told all that it can tell."""

MAX_VECTOR = 2**20
"""Numbers up to which shape arithmetic is followed."""


def infer_shapes(model: ir.Model, skeleton: onnx.ModelProto | None = None) -> None:
    """Infer the missing shapes and types of values, in place; unknown ones stay open.

    Where the declared shape of what a node makes contradicts the operators, these are right, as in ONNX
    Runtime: exporters write ranks of outputs that their networks do not have.

    Args:
        model: Any.
        skeleton: What `to_proto_without_weights` makes of it, where that is there already; it is changed.
    Raises:
        FileFormatError: The operators contradict each other; names the node.
    """
    skeleton = to_proto_without_weights(model) if skeleton is None else skeleton
    try:
        inferred_graph = infer_proto_shapes(skeleton).graph
    except FileFormatError as contradiction:
        try:
            inferred_graph = infer_proto_shapes(without_declared_shapes(skeleton)).graph
        except FileFormatError:
            raise contradiction from None
        _forget_told(model.graph, inferred_graph)
    if behind := behind_pools(skeleton.graph):
        _forget_told(model.graph, inferred_graph, behind)
    _merge(model.graph, inferred_graph)


def refresh_shapes(model: ir.Model) -> None:
    """Infer shapes and types again, in place, except those that the file declares.

    Raises:
        FileFormatError: As for `infer_shapes`.
    """
    _forget(model)
    infer_shapes(model)


def guess_shapes(model: ir.Model) -> None:
    """Infer shapes as `refresh_shapes`, as far as operators of old opsets allow.

    Contradictions stay to be found.

    Before opset 9 operators knew fewer types than runtimes take: Constants of integers, for one.
    """
    _forget(model)
    with contextlib.suppress(*_ERRORS):
        _merge(model.graph, _infer(to_proto_without_weights(model), True, strict=False, checked=False).graph)


def _forget(model: ir.Model) -> None:
    for node in model.graph:
        for value in node.outputs:
            if INFERRED in value.meta and not value.is_graph_output():
                value.shape = None


def _forget_told(graph: ir.Graph, inferred: onnx.GraphProto, names: Collection[str] | None = None) -> None:
    """Forget shapes that `infer_proto_shapes` infers anew; `names`: of these alone, not in subgraphs."""
    infos = (*inferred.value_info, *inferred.output)
    inferred_names = {info.name for info in infos if info.type.tensor_type.HasField("shape")}
    for value in (value for node in graph for value in node.outputs):
        if value.name in inferred_names and (names is None or value.name in names):
            value.shape = None
    for inner, proto in _inside(graph, inferred) if names is None else ():
        _forget_told(inner, proto)


def _inside(graph: ir.Graph, proto: onnx.GraphProto) -> Iterator[tuple[ir.Graph, onnx.GraphProto]]:
    """Yield the graphs that nodes of `graph` have, beside those of `proto`, which has the same nodes."""
    for node, same in zip(graph, proto.node, strict=True):
        if inside := subgraphs(node):
            yield from zip(inside, node_graphs(same), strict=True)


def without_declared_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return `proto` without the shapes declared for node outputs; types stay."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    for graph in proto_graphs(bare):
        inner_names = {name for node in graph.node for name in node.output}
        for info in (*graph.value_info, *graph.output):
            if info.name in inner_names:
                info.type.tensor_type.ClearField("shape")
    return bare


def infer_proto_shapes(skeleton: onnx.ModelProto, *, follow: bool = True) -> onnx.ModelProto:
    """Return `skeleton` with the shapes and types that its operators determine.

    Args:
        skeleton: Changed, where pools or STFTs stand in it.
        follow: Follow the numbers of shape arithmetic, too.
    Raises:
        FileFormatError: As for `infer_shapes`.
    """
    for graph in proto_graphs(skeleton):
        for node in graph.node:
            say_onesided(node)
    try:
        return infer_runtime_operators(
            skeleton, lambda whole: infer_with_pools(whole, lambda proto: _infer(proto, follow, strict=True))
        )
    except _ERRORS as error:
        problem = error
    text = first_line(problem, 1000)
    if _within_operator(text):
        try:
            return infer_runtime_operators(skeleton, lambda proto: _infer(proto, follow, strict=False))
        except _ERRORS as error:
            text = first_line(error, 1000)
    raise _wrong(text) from problem


_ERRORS = (
    onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, IndexError
)  # fmt: skip


def _infer(skeleton: onnx.ModelProto, follow: bool, *, strict: bool, checked: bool = True) -> onnx.ModelProto:
    """Run ONNX's inference; it follows the numbers of shape arithmetic only where they stay small.

    It keeps an entry for every element of a vector that it follows, and a vector of 2**40 elements takes one
    number in a hostile file to ask for.
    """
    infer = partial(onnx.shape_inference.infer_shapes, skeleton, check_type=checked)
    first = infer(strict_mode=strict)
    if not follow or _is_large(first) or not vectors_stay_small(first, MAX_VECTOR):
        return first
    try:
        return infer(strict_mode=strict, data_prop=True)
    except _ERRORS as error:
        if _ITS_OWN not in str(error):
            raise
    return infer(data_prop=True)


_ITS_OWN = "broadcasting: ("
"""In what ONNX says where two vectors of numbers that it follows have no size for both: it takes every value
for a vector, [640, 1] + [455] too. Shapes that do not fit are found without numbers."""


def _is_large(proto: onnx.ModelProto) -> bool:
    graphs = list(proto_graphs(proto))
    for graph in graphs:
        for infos in (graph.input, graph.output, graph.value_info):
            for info in infos:
                dims = info.type.tensor_type.shape.dim
                if len(dims) == 1 and dims[0].dim_value > MAX_VECTOR:
                    return True
    numbers = [t for graph in graphs for t in graph.initializer if t.data_type == onnx.TensorProto.INT64]
    large = {t.name for t in numbers if _largest(t) > MAX_VECTOR}
    ends = {
        name
        for graph in (graphs if large else ())
        for node in graph.node
        if node.op_type == "Slice"
        for name in node.input
    }
    return not large <= ends  # where the largest number means the end


def _largest(tensor: onnx.TensorProto) -> float:
    return float(abs(onnx.numpy_helper.to_array(tensor).astype(float)).max(initial=0))


def _within_operator(text: str) -> bool:
    """Return whether ONNX fails within its own definition of an operator (MeanVarianceNormalization's
    axes)."""
    nodes = _NODE.findall(text)
    if len(nodes) < 2:
        return False
    try:
        schema = onnx.defs.get_schema(nodes[0][0])
    except onnx.defs.SchemaError:
        return False
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def _merge(graph: ir.Graph, inferred: onnx.GraphProto) -> None:
    infos = {info.name: info for info in (*inferred.value_info, *inferred.output)}
    for value in (value for node in graph for value in node.outputs):
        if (value.shape is None or value.type is None) and value.name in infos:
            _fill(value, infos[value.name])
    for inner, proto in _inside(graph, inferred):
        _merge(inner, proto)


def _fill(value: ir.Value, info: onnx.ValueInfoProto) -> None:
    if not info.type.HasField("tensor_type"):
        return
    tensor = info.type.tensor_type
    if any(dim.dim_value < 0 for dim in tensor.shape.dim):  # of sums that ONNX's inference took too far
        return
    check_value(info, "")
    if value.type is None and tensor.elem_type != onnx.TensorProto.UNDEFINED:
        value.type = ir.TensorType(ir.DataType(tensor.elem_type))
    if value.shape is None and tensor.HasField("shape"):
        value.shape = ir.Shape([_size(dim) for dim in tensor.shape.dim])


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    which = dim.WhichOneof("value")
    return getattr(dim, which) if which else None


def _wrong(text: str) -> FileFormatError:
    where = "model"
    if match := _NODE.search(text):
        where = f"node '{match[2]}' ({match[1]})" if match[2] else f"a node ({match[1]})"
        text = _NODE.split(text[match.end() :])[0].strip()  # the first error; the others follow from it
    return FileFormatError(
        where, f"shapes or types that do not fit: {text[:300]}", "a valid graph", "export the model again"
    )


DOUBTFUL = "intact.doubtful"
"""In the meta of an output of the graph: whether its declared sizes have names that no operator confirms."""


def forget_doubtful_names(model: ir.Model) -> None:
    """Forget names of inner sizes that equal an input's name only in the file, not by an operator, in place.

    Exporters write names that are not one size. Outputs stay as they are declared, marked `DOUBTFUL`.
    """
    free = {str(dim.value) for v in model.graph.inputs for dim in v.shape or () if not isinstance(dim, int)}
    values = [v for node in model.graph for v in node.outputs if not free.isdisjoint(_names(v))]
    if all(INFERRED in value.meta for value in values):
        return
    try:
        inferred_graph = infer_proto_shapes(without_declared_shapes(to_proto_without_weights(model))).graph
    except FileFormatError:  # a later inference says what is wrong
        return
    inferred_dims = {
        info.name: info.type.tensor_type.shape.dim
        for info in (*inferred_graph.value_info, *inferred_graph.output)
    }
    for value in values:
        dims = [dim.dim_param or dim.dim_value or None for dim in inferred_dims.get(value.name, ())]
        declared = _names(value)
        if len(dims) != len(declared):
            dims = [None] * len(declared)
        sizes = [a if a == b or a not in free else None for a, b in zip(declared, dims, strict=True)]
        if sizes == declared:
            continue
        if value.is_graph_output():
            value.meta[DOUBTFUL] = True
        else:
            value.shape = ir.Shape(sizes)


def _names(value: ir.Value) -> list[int | str | None]:
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape or ()]
