"""float16 models as float32 ones, with float16 at their borders."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.build import Inserter, Namer
from intact.graph.notes import Note
from intact.graph.proto import values_of, with_subgraphs
from intact.graph.view import is_op

_HALF, _SINGLE = ir.DataType.FLOAT16, ir.DataType.FLOAT
_ROUNDED = (_SINGLE, ir.DataType.DOUBLE)
_TYPES = ("to", "dtype")  # attributes that say what a node makes


def widen_float16(model: ir.Model) -> list[Note]:
    """Let everything between inputs and outputs be float32 where it is float16, in place.

    Before: ``x: float16 -> Conv(float16 weights) -> y: float16``.
    After: ``x: float16 -> Cast -> Conv(float32 weights) -> Cast -> y: float16``. Every float16 is a float32;
    what was rounded to float16 between two operators no longer is, nor becomes infinite beyond 65504.

    Casts of float32 to float16 that nothing but Casts back read are the user's own rounding, and stay.
    """
    graphs = with_subgraphs(model.graph)
    kept = _roundings(graphs)
    if not any(v.dtype == _HALF and v not in kept for graph in graphs for v in values_of(graph)):
        return []
    outputs = [value for value in model.graph.outputs if value.dtype == _HALF]
    inputs = [value for value in model.graph.inputs if value.dtype == _HALF and value.const_value is None]
    for graph in graphs:
        for value in values_of(graph):
            if value.dtype == _HALF and value not in kept:
                value.type = ir.TensorType(_SINGLE)
                if value.const_value is not None:
                    value.const_value = _single(value.const_value)
        for node in graph:
            if kept.isdisjoint(node.outputs):
                _widen_attributes(node)
    names = Namer(model.graph)
    for value in inputs:
        _read(model.graph, value, names)
    for value in dict.fromkeys(outputs):
        _write(model.graph, value, names)
    return [Note("model", "float16 inside is computed in float32; inputs and outputs keep their types")]


def _roundings(graphs: list[ir.Graph]) -> set[ir.Value]:
    """The float16 values between Casts of float32 to float16 and back, with moves of all elements between.

    Before and after: ``x: float32 -> Cast -> float16 -> Transpose -> float16 -> Cast -> float32``.
    """
    found = set[ir.Value]()
    for graph in graphs:
        for node in graph:
            source = node.inputs[0] if is_op(node, "Cast") else None
            if source is None or source.dtype not in _ROUNDED or node.outputs[0].dtype != _HALF:
                continue
            found |= _only_rounded(node.outputs[0])
    return found


def _only_rounded(value: ir.Value) -> set[ir.Value]:
    """`value` and what moves make of it, where Casts to wider floats alone read them; else nothing."""
    waiting, found = [value], set[ir.Value]()
    while waiting:
        one = waiting.pop()
        found.add(one)
        uses = list(one.uses())
        if one.is_graph_output() or not uses:
            return set()
        for node, index in uses:
            if is_op(node, "Cast") and node.outputs[0].dtype in _ROUNDED:
                continue
            if index or not ops.may_move(node, keeps_all=True):
                return set()
            waiting += node.outputs
    return found


def _single(tensor: ir.TensorProtocol) -> ir.Tensor:
    return ir.Tensor(tensor.numpy().astype(np.float32), name=tensor.name)


def _widen_attributes(node: ir.Node) -> None:
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == _HALF:
            node.attributes[name] = ir.AttrTensor(name, _single(attribute.as_tensor()))
        elif name in _TYPES and attribute.type == ir.AttributeType.INT and attribute.as_int() == _HALF:
            node.attributes[name] = ir.AttrInt64(name, int(_SINGLE))


def _read(graph: ir.Graph, value: ir.Value, names: Namer) -> None:
    """Let the readers of an input read its float32."""
    value.type = ir.TensorType(_HALF)
    uses = list(value.uses())
    first = next(iter(graph), None)
    if first is None or not uses:
        return
    insert = Inserter(graph, first, names)
    wide = insert.node(
        "Cast", [value], f"{value.name}.float32", dtype=_SINGLE, shape=value.shape, to=int(_SINGLE)
    )
    for node, index in uses:
        node.replace_input_with(index, wide)


def _write(graph: ir.Graph, value: ir.Value, names: Namer) -> None:
    """Let an output be the float16 of what is made, under its own name."""
    node = value.producer()
    if node is None:  # an input, or a constant: it is handed on as it is
        value.type = ir.TensorType(_HALF)
        if value.const_value is not None:
            value.const_value = ir.Tensor(value.const_value.numpy().astype(np.float16), name=value.name)
        return
    name = value.name or ""
    value.name = names(f"{name}.float32")
    insert = Inserter(graph, node, names, after=True)
    narrow = insert.node("Cast", [value], f"{name}.narrow", dtype=_HALF, shape=value.shape, to=int(_HALF))
    narrow.name = name
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = narrow
