"""What every pass must leave behind: a graph in order, whose codes are read as codes."""

from __future__ import annotations

import os

from intact.errors import UnsupportedError
from intact.graph import Model, Node, Value
from intact.graph.ops import data_inputs, may_move

_CODES = ("INT8", "UINT8")


def every_pass() -> bool:
    """Whether it is checked behind every pass, as in tests; else behind the last of each stage.

    A look at the graph takes some hundredths of a pass's time, which all of them together would show.
    """
    return os.environ.get("INTACT_CHECK_PASSES", "") == "1"


def check_graph(model: Model, after: str) -> None:
    """Refuse a graph that contradicts itself: an error of ours, found where it was made.

    Each value is made before it is read, and has a name of its own; each output is made; what only moves data
    puts out codes where codes come in, and nowhere else.

    Args:
        model: After a pass.
        after: That pass.
    Raises:
        UnsupportedError: Names the node and the pass.
    """
    graph = model.graph
    made: set[Value | None] = {None, *graph.inputs, *graph.initializers.values()}
    names = {value.name for value in made if value is not None}
    for node in graph:
        if not made.issuperset(node.inputs):
            missing = next(v.name for v in node.inputs if v is not None and v not in made)
            raise _error(node, f"reads '{missing}' before it is made", after)
        for value in node.outputs:
            if value.name in names and value.name:
                raise _error(node, f"makes a second '{value.name}'", after)
            names.add(value.name)
        made.update(node.outputs)
        if may_move(node) and len({*map(_is_codes, node.outputs[:1]), *map(_is_codes, _data(node))}) > 1:
            raise _error(node, "moves codes on one side and floats on the other", after)
    for value in graph.outputs:
        if value not in made:
            raise UnsupportedError(
                f"graph output '{value.name}'", f"nothing that makes it after '{after}'", "a node", _FIX
            )


def _data(node: Node) -> list[Value | None]:
    return [node.inputs[index] for index in data_inputs(node) if index < len(node.inputs)]


def _is_codes(value: Value | None) -> bool:
    return value is not None and value.dtype is not None and value.dtype.name in _CODES


_FIX = "report the model to INTact: one of its passes is wrong"


def _error(node: Node, what: str, after: str) -> UnsupportedError:
    where = f"node '{node.name}' ({node.op_type})"
    return UnsupportedError(where, f"a node that {what}, after '{after}'", "a graph in order", _FIX)
