"""Counts of nodes and of nesting once every call of a function is inlined.

ONNX's shape inference and ONNX Runtime do write them out: of functions that call functions twice each, 1.8 KB
are enough for nodes without end.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import onnx

from intact.errors import FileFormatError
from intact.graph.core.proto import node_graphs
from intact.limits import GRAPH_DEPTH, GRAPH_NODES

_Name = tuple[str, str]


def check_expansion(proto: onnx.ModelProto) -> None:
    """Refuse a model with too many nodes, those of functions counted at every call, or nested too deep.

    Raises:
        FileFormatError: Says how many, and the limit; or a function calls itself.
    """
    used = {(f.domain, f.name): list(_all_nodes(f.node, f"function '{f.name}'")) for f in proto.functions}
    sizes: dict[_Name, int] = {}
    for name in _inner_first(used):
        sizes[name] = _size(used[name], sizes)
        GRAPH_NODES.check(sizes[name], f"function '{name[1]}', its calls written out")
    GRAPH_NODES.check(_size(_all_nodes(proto.graph.node, "graph"), sizes), "graph, its calls written out")


def _size(nodes: Iterable[_Name], sizes: dict[_Name, int]) -> int:
    return sum(1 + sizes.get(name, 0) for name in nodes)


def _inner_first(used: dict[_Name, list[_Name]]) -> list[_Name]:
    """Return the functions in an order in which each comes behind those that it calls."""
    calls = {name: {callee for callee in inside if callee in used} for name, inside in used.items()}
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        where = f"function '{min(error.args[1])[1]}'"
        raise FileFormatError(
            where, "a call of itself", "functions without cycles",
            "export the model again; this file is damaged or was edited",
        ) from None  # fmt: skip


def _all_nodes(nodes: Iterable[onnx.NodeProto], where: str) -> Iterable[_Name]:
    """Yield domain and operator of every node, subgraphs included."""
    waiting = [(nodes, 1)]
    while waiting:
        some, depth = waiting.pop()
        GRAPH_DEPTH.check(depth, where)
        for node in some:
            yield node.domain, node.op_type
            waiting += [(graph.node, depth + 1) for graph in node_graphs(node)]
