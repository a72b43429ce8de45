"""Remove unused nodes and lift Constant nodes to initializers, by onnx-ir's passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

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
