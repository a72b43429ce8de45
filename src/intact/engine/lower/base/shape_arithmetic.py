"""Nodes that depend on the sizes of the graph's inputs alone, and the step that works out what they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.steps import Dim, ShapeArithmetic
from intact.graph import DOUBTFUL, Node, Value, cut, is_op, ops

_NEVER = ops.DRAWING | {"DequantizeLinear", "QuantizeLinear"}
"""Operators of pairs, which the plan rounds, and those that draw numbers."""


def nodes_of_sizes(builder: PlanBuilder) -> frozenset[Node]:
    """Find every Shape of sizes that the graph's inputs determine, and nodes that compute with those
    alone."""
    nodes: dict[Node, None] = {}
    for node in builder.model.graph:
        if node.domain or node.op_type in _NEVER or not all(map(_is_typed, node.outputs)):
            continue
        if all(value in builder.constants for value in node.outputs):
            continue
        if is_op(node, "Shape"):
            if sizes_of(builder, node) is not None:
                nodes[node] = None
            continue
        read = [value for value in node.inputs if value is not None and value not in builder.constants]
        if _expands_constant(builder, node):
            continue
        if read and all(value.producer() in nodes for value in read) and not ops.subgraphs(node):
            nodes[node] = None
    return frozenset(nodes)


def _expands_constant(builder: PlanBuilder, node: Node) -> bool:
    """Tell an Expand of constant reals to known sizes, which is a step of its own without ONNX Runtime."""
    output = node.outputs[0]
    is_real = output.dtype is not None and output.dtype.name == "FLOAT"
    if not is_op(node, "Expand") or node.inputs[0] not in builder.constants or not is_real:
        return False
    try:
        return all(map(builder.is_told, dims_of(output)))
    except NoMatch:
        return False


def sizes_of(builder: PlanBuilder, node: Node) -> tuple[Dim, ...] | None:
    """Return the sizes that a Shape puts out; None where the graph's inputs do not determine all of them."""
    if node.inputs[0] is not None and DOUBTFUL in node.inputs[0].meta:
        return None
    try:
        sizes = dims_of(node.inputs[0]) if node.inputs[0] is not None else ()
    except NoMatch:
        return None
    op = ops.Shape.of(node)
    selected = sizes[op.start : op.end]
    return selected if all(map(builder.is_told, selected)) else None


def _is_typed(value: Value) -> bool:
    return value.shape is not None and value.dtype is not None and value.dtype.name != "UNDEFINED"


def shape_arithmetic(builder: PlanBuilder, nodes: Sequence[Node], ys: tuple[str, ...]) -> ShapeArithmetic:
    """Make one step of nodes that depend on sizes alone, given in the graph's order.

    Args:
        builder: Receives the model.
        nodes: All that `ys` depend on.
        ys: Names of what others read of what they make.
    """
    roots = [node for node in nodes if is_op(node, "Shape")]
    sizes = [sizes_of(builder, node) or () for node in roots]
    inputs = [node.outputs[0] for node in roots]
    outputs = [v for node in nodes for v in node.outputs if v.name in ys and v not in inputs]
    name, model = nodes[0].name or nodes[0].op_type, ""
    if outputs:
        data = np.frombuffer(cut(builder.model, inputs, outputs), np.uint8)
        model = builder.hold(f"{name}.onnx", data)
    return ShapeArithmetic(
        name, tuple(n.name or "" for n in nodes), tuple(v.name or "" for v in inputs), tuple(sizes), ys, model
    )
