"""Print the layers of a placement or a plan as rows."""

from __future__ import annotations

from typing import Protocol

from intact.layer import Layer


class Layered(Protocol):
    """A placement or a plan: anything with layers."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """In the graph's order."""


def explain(layered: Layered) -> list[dict[str, object]]:
    """Return one row for each layer, in the graph's order: what a table prints and JSON holds.

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
        for layer in layered.layers
    ]
