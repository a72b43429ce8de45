"""Check invariants of a graph after a pass: sorted nodes, unique names, codes read as codes."""

from __future__ import annotations

import os

import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph.ops import data_inputs, may_move
from intact.graph.ops.attributes import subgraphs

_CODES = ("INT8", "UINT8")
FIX = "report the model to INTact: one of its passes is wrong"


def checks_every_pass() -> bool:
    """Return whether the graph is checked after every pass, as in tests; else after the last of a list.

    One check takes some hundredths of a pass's time, which all of them together would show.
    """
    return os.environ.get("INTACT_CHECK_PASSES", "") == "1"


def check_after(model: ir.Model, after: str) -> None:
    """Run `check_graph` where every pass is checked."""
    if checks_every_pass():
        check_graph(model, after)


def check_graph(model: ir.Model, after: str) -> None:
    """Raise an error for an inconsistent graph, and name the pass that made it.

    Each value is made before it is read, in subgraphs too, and has a name of its own. Each output is made.
    What only moves data puts out codes where codes come in, and nowhere else.

    Args:
        model: After a pass.
        after: That pass.
    Raises:
        UnsupportedError: Names the node and the pass.
    """
    _Check(after).graph(model.graph)


class _Check:
    """One walk through a graph: the values made so far.

    Values of a subgraph stay among them behind it: nobody outside can name them.
    """

    def __init__(self, after: str) -> None:
        self._after, self._made = after, set[ir.Value | None]([None])

    def graph(self, graph: ir.Graph) -> None:
        defined = self._made
        defined.update(graph.inputs)
        defined.update(graph.initializers.values())
        names = {value.name for value in (*graph.inputs, *graph.initializers.values())}
        for node in graph:
            if not defined.issuperset(node.inputs):
                missing = next(v.name for v in node.inputs if v is not None and v not in defined)
                raise self._error(node, f"reads '{missing}' before it is made")
            for value in node.outputs:
                if value.name in names and value.name:
                    raise self._error(node, f"makes a second '{value.name}'")
                names.add(value.name)
            for inner in subgraphs(node):
                self.graph(inner)
            defined.update(node.outputs)
            if may_move(node) and len({*map(_is_codes, node.outputs[:1]), *map(_is_codes, _data(node))}) > 1:
                raise self._error(node, "moves codes on one side and floats on the other")
        for value in graph.outputs:
            if value not in defined:
                got = f"nothing that makes it after '{self._after}'"
                raise UnsupportedError(f"graph output '{value.name}'", got, "a node", FIX)

    def _error(self, node: ir.Node, what: str) -> UnsupportedError:
        where, got = f"node '{node.name}' ({node.op_type})", f"a node that {what}, after '{self._after}'"
        return UnsupportedError(where, got, "a graph in order", FIX)


def _data(node: ir.Node) -> list[ir.Value | None]:
    return [node.inputs[index] for index in data_inputs(node) if index < len(node.inputs)]


def _is_codes(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is not None and value.dtype.name in _CODES
