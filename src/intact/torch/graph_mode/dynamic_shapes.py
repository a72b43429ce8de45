"""Placement by the sizes that all inputs of a module have, and not by those that the traced one has.

A trace has numbers for all sizes. Where none of them decides anything, the placement without them is the
same. Where one does, the module is traced once more with open sizes, and only those that its code fixes
count: a file with free dimensions says no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from intact.graph import Constants, Model, Node, Value
from intact.placement import Placement
from intact.placement.view import may_be_float, shape_of
from intact.torch.graph_mode.model_calls import ModelCall

__all__ = ["Calls", "place_by_fixed_sizes"]

Calls = tuple[Model, Mapping[str, ModelCall]]
"""A traced graph, and the call that each of its nodes belongs to, by the node's name."""

_Sizes = Sequence[int | None]


def place_by_fixed_sizes(
    model: Model, traced: Calls, place: Callable[[Model], Placement], trace_open: Callable[[], Calls | None]
) -> Placement:
    """The placement on a traced graph in which open sizes decide nothing.

    Args:
        model: The graph, which may have equal nodes of the traced one as one; the same afterwards.
        traced: As it was traced.
        place: Places pairs on a graph.
        trace_open: The same calls traced with open sizes; None where that cannot be.
    Returns:
        By the traced sizes where `trace_open` has nothing.
    """
    placement = place(model)
    with _sizes_of(model, _without_sizes(model)):
        if place(model) == placement:
            return placement
    opened = trace_open()
    if opened is None:
        return placement
    with _sizes_of(model, _fixed_sizes(traced, opened)):
        return place(model)


def _without_sizes(model: Model) -> dict[str, _Sizes]:
    """No size of any tensor that the input changes."""
    constants = Constants(model.graph)
    changing = (x for x in _values(model) if x not in constants)
    return {x.name or "": [None] * len(x.shape) for x in changing if x.shape is not None}


def _fixed_sizes(traced: Calls, opened: Calls) -> dict[str, _Sizes]:
    """The sizes of traced tensors by name; None for each that is open in `opened`.

    The graph with open sizes has more nodes, which compute sizes. Of floats its calls make the same nodes, in
    one order.
    """
    ours, theirs = _nodes_by_call(traced), _nodes_by_call(opened)
    alike = [key for key in ours if len(ours[key]) == len(theirs.get(key, []))]
    pairs = [pair for key in alike for pair in zip(ours[key], theirs[key], strict=True)]
    values = [pair for one, other in pairs for pair in zip(one.outputs, other.outputs, strict=False)]
    values += zip(traced[0].graph.inputs, opened[0].graph.inputs, strict=False)
    found: dict[str, _Sizes] = {}
    for value, its in values:
        known, fixed = shape_of(value), shape_of(its)
        if known is not None and fixed is not None and len(known) == len(fixed):
            found[value.name or ""] = fixed
    return found


def _nodes_by_call(traced: Calls) -> dict[tuple[ModelCall | None, str], list[Node]]:
    """The nodes that make floats, by their call and operator."""
    model, owners = traced
    found = defaultdict[tuple[ModelCall | None, str], list[Node]](list)
    for node in model.graph:
        if any(map(may_be_float, node.outputs)):
            found[owners.get(node.name or ""), node.op_type].append(node)
    return found


def _values(model: Model) -> list[Value]:
    return [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]


@contextmanager
def _sizes_of(model: Model, sizes: Mapping[str, _Sizes]) -> Iterator[None]:
    """While it is open, tensors have these sizes."""
    before = {x: x.shape for x in _values(model) if x.name in sizes and x.shape is not None}
    for value, shape in before.items():
        value.shape = type(shape)(sizes[value.name or ""])
    try:
        yield
    finally:
        for value, shape in before.items():
            value.shape = shape
