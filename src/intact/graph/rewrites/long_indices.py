"""Give GatherND and ScatterND the int64 indices that ONNX asks for; torch's exporter may write int32."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph.core.build import Inserter
from intact.graph.rewrites.rewrite import Outcome, Rewrite, Scene


def _cast_indices(node: ir.Node, scene: Scene) -> Outcome:
    """Cast the indices of a node.

    Before: ``ScatterND(x, int32 indices, y)``.  After: ``ScatterND(x, Cast(indices), y)``.
    """
    indices, long = node.inputs[1], ir.DataType.INT64
    assert indices is not None
    insert = Inserter(scene.graph, node, scene.names)
    name = f"{node.name}.indices"
    cast = insert.node("Cast", [indices], name, dtype=long, shape=indices.shape, to=int(long))
    node.replace_input_with(1, cast)
    return "its indices are int64"


def _has_int32(node: ir.Node) -> bool:
    indices = node.inputs[1] if len(node.inputs) > 1 else None
    return indices is not None and indices.dtype == ir.DataType.INT32


LONG_INDICES = Rewrite("cast indices to int64", _cast_indices, ("GatherND", "ScatterND"), matches=_has_int32)
