"""A limit on the length of vectors in shape arithmetic, checked before elements are evaluated."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from intact.graph.core.proto import proto_graphs

_GROWING = {"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile"}
_ROUNDS = 3
"""Vectors made of the contents of vectors, so many times, are looked at; nobody's sizes need more."""


def vectors_stay_small(inferred: onnx.ModelProto, most: int) -> bool:
    """Return whether no operator makes a vector of more than `most` elements out of computed numbers.

    ONNX's inference, with the growing operators taken out, computes these numbers; at the end stands a copy
    of each operator, which shows what it would make and which nobody reads.

    Args:
        inferred: With what ONNX's inference tells without following numbers; not changed.
        most: Elements of a vector.
    """
    open_ = set(_open_vectors(inferred))
    if not open_:
        return True
    main = {name for node in inferred.graph.node for name in node.output}
    for _ in range(_ROUNDS):
        if not open_ <= main:  # in a branch or a function
            return False
        sizes = _count_elements(inferred, open_)
        if any(size > most for size in sizes.values()):
            return False
        open_ -= sizes.keys()
        if not open_:
            return True
    return False


def _open_vectors(proto: onnx.ModelProto) -> Iterator[str]:
    """Yield outputs of growing operators that may be vectors of any size."""
    graphs = list(proto_graphs(proto))
    inside = [node for function in proto.functions for node in function.node]
    growing = [
        node.output[0]
        for nodes in (*(graph.node for graph in graphs), inside)
        for node in nodes
        if node.op_type in _GROWING and node.output
    ]
    wanted = set(growing)
    shapes = {
        info.name: info.type.tensor_type
        for graph in (graphs if wanted else ())
        for info in (*graph.value_info, *graph.output)
        if info.name in wanted
    }
    for name in growing:
        shape = shapes.get(name)
        dims = shape.shape.dim if shape is not None and shape.HasField("shape") else None
        if dims is None or (len(dims) == 1 and not dims[0].HasField("dim_value")):
            yield name


def _count_elements(proto: onnx.ModelProto, open_: set[str]) -> dict[str, int]:
    """Count the elements that these vectors would have, where numbers determine it.

    Sizes with a name stay small.
    """
    probe = onnx.ModelProto()
    probe.CopyFrom(proto)
    probe.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    shown: dict[str, str] = {}
    for node in list(probe.graph.node):
        if node.output and node.output[0] in open_:
            copy = probe.graph.node.add()
            copy.CopyFrom(node)
            shown[f"{_DOMAIN}.{len(shown)}"] = node.output[0]
            copy.output[0] = f"{_DOMAIN}.{len(shown) - 1}"
            node.op_type, node.domain = "Open", _DOMAIN
    inferred_probe = onnx.shape_inference.infer_shapes(probe, data_prop=True)
    sizes = {}
    for info in inferred_probe.graph.value_info:
        if info.name in shown and info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            if len(dims) != 1 or dims[0].HasField("dim_value") or dims[0].HasField("dim_param"):
                sizes[shown[info.name]] = dims[0].dim_value if len(dims) == 1 else 0
    return sizes


_DOMAIN = "intact.probe"
