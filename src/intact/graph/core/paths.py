"""Find the nodes on every path between two sets of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir


def nodes_between(graph: ir.Graph, starts: Iterable[ir.Node], ends: Iterable[ir.Node]) -> list[ir.Node]:
    """List the nodes on all paths from `starts` to `ends`, both included, in the graph's order.

    Args:
        graph: Its own nodes, not those of graphs inside.
        starts, ends: Nodes of it.
    """
    behind, before = (
        _reachable_nodes(starts, ir.Node.successors),
        _reachable_nodes(ends, ir.Node.predecessors),
    )
    return [node for node in graph if node in behind and node in before]


def _reachable_nodes(
    nodes: Iterable[ir.Node], neighbours: Callable[[ir.Node], Iterable[ir.Node]]
) -> set[ir.Node]:
    reached, waiting = set[ir.Node](), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += neighbours(node)
    return reached
