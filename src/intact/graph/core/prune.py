"""Remove unused nodes, lift Constant nodes to initializers, and sort what is constant to the front."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

from intact.graph.core.constants import foldable
from intact.graph.ops.attributes import subgraphs

_LOOP_INPUTS = 2
"""Inputs that a Loop has at least: both may be left out, and are there as empty names."""


def prune(model: ir.Model) -> None:
    """Remove unused nodes and initializers, in place."""
    passes.RemoveUnusedNodesPass()(model)
    for node in model.graph.all_nodes():
        if node.op_type == "Loop" and not node.domain and len(node.inputs) < _LOOP_INPUTS:
            node.resize_inputs(_LOOP_INPUTS)  # the pass drops inputs at the end that are left out


def lift_constants(model: ir.Model) -> None:
    """Convert Constant nodes with several numbers to initializers of the same names, in place.

    Some exporters write weights as nodes: what rewrites weights would have to know both forms.
    """
    passes.LiftConstantsToInitializersPass(size_limit=2)(model)


def move_constants_first(model: ir.Model) -> None:
    """Move nodes whose results no graph input decides to the front of their graph, in place.

    Exporters write a Constant in front of its first reader. A pass that moves a reader towards the inputs (a
    QuantizeLinear through a Reshape, an Add through a Squeeze) would put it in front of its own constant.
    """
    _move_constants_first(model.graph, set())


def _move_constants_first(graph: ir.Graph, constant: set[ir.Value | None]) -> None:
    """Do so in `graph` and the graphs within; adds the constant values of this graph to `constant`."""
    constant |= {None, *(value for value in graph.initializers.values() if not value.is_graph_input())}
    late, first = [], None
    for node in graph:
        if constant.issuperset(node.inputs) and foldable(node):
            constant.update(node.outputs)
            if first is not None:
                late.append(node)
        elif first is None:
            first = node
        for inner in subgraphs(node):
            _move_constants_first(inner, constant)
    if first is not None and late:
        graph.remove(late)
        graph.insert_before(first, late)
