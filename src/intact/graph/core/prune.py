"""What nobody reads goes, and constants that are nodes become initializers."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

from intact.graph.core.proto import with_subgraphs
from intact.graph.core.view import is_op


def prune(model: ir.Model) -> None:
    """Drop the nodes and initializers that nobody reads, in place: what rewrites leave behind."""
    passes.RemoveUnusedNodesPass()(model)


def lift_constants(model: ir.Model) -> None:
    """Make initializers of Constant nodes that hold a tensor of several numbers, in place, names and all.

    Some exporters write weights as nodes: what rewrites weights would have to know both forms.
    """
    for graph in with_subgraphs(model.graph):
        for node in [node for node in graph if is_op(node, "Constant")]:
            (output,), attributes = node.outputs, list(node.attributes.values())
            if output.is_graph_output() or [one.name for one in attributes] != ["value"]:
                continue
            tensor = attributes[0].value
            if tensor.size < 2:
                continue
            lifted = ir.Value(
                name=output.name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor,
                metadata_props=output.metadata_props.copy(),
            )  # fmt: skip
            lifted.meta.update(output.meta)
            graph.register_initializer(lifted)
            output.replace_all_uses_with(lifted)
            graph.remove(node, safe=True)
