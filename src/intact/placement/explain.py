"""A placement as rows."""

from __future__ import annotations

from intact.placement.records import Placement


def explain(placement: Placement) -> list[dict[str, object]]:
    """One row for each layer, in the graph's order: what a table prints and JSON holds.

    Returns:
        Rows with "layer", "op_type", "precision", "fused", "nodes" (a list) and "reason".
    """
    return [
        {
            "layer": layer.name,
            "op_type": layer.op_type,
            "precision": layer.precision,
            "fused": layer.fused,
            "nodes": list(layer.nodes),
            "reason": layer.reason,
        }
        for layer in placement.layers
    ]
