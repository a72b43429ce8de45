"""Remove unused nodes and lift Constant nodes to initializers, by onnx-ir's passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes


def prune(model: ir.Model) -> None:
    """Drop the nodes and initializers that nobody reads, in place: what rewrites leave behind."""
    passes.RemoveUnusedNodesPass()(model)


def lift_constants(model: ir.Model) -> None:
    """Make initializers of Constant nodes that hold a tensor of several numbers, in place, names and all.

    Some exporters write weights as nodes: what rewrites weights would have to know both forms.
    """
    passes.LiftConstantsToInitializersPass(size_limit=2)(model)
