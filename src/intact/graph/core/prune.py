"""Remove unused nodes and lift Constant nodes to initializers, by onnx-ir's passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes


def prune(model: ir.Model) -> None:
    """Remove unused nodes and initializers, in place."""
    passes.RemoveUnusedNodesPass()(model)


def lift_constants(model: ir.Model) -> None:
    """Convert Constant nodes with several numbers to initializers of the same names, in place.

    Some exporters write weights as nodes: what rewrites weights would have to know both forms.
    """
    passes.LiftConstantsToInitializersPass(size_limit=2)(model)
