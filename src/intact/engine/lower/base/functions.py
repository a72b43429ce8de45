"""Functions of `numerics` for each operator and activation."""

from __future__ import annotations

from collections.abc import Sequence

from intact.graph import Node, ops


def function_of(nodes: Sequence[Node], name: str) -> str | None:
    """Return the name in `numerics.FUNCTIONS` of what `nodes` compute; None where it has none.

    Args:
        nodes: One node, or several that exporters write for one function.
        name: The function's name in reports, by which several nodes are known.
    """
    record = ops.read(nodes[0]) if len(nodes) == 1 else ops.NAMED_FUNCTIONS.get(name)
    return record.step or None if isinstance(record, ops.Function) else None
