"""Place pairs by the sizes that all inputs of a module have, and not by those of the traced input.

A trace has numbers for all sizes. Where the placement is the same without them, it stands. Where it differs,
the module is traced once more with dynamic sizes, and only sizes that its code fixes count. A file with free
dimensions has no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from intact.graph import Constants, Model, Node, Value
from intact.placement import Placement, may_be_float, shape_of
from intact.torch.graph_mode.model_calls import ModelCall

__all__ = ["TracedCalls", "place_by_fixed_sizes"]

TracedCalls = tuple[Model, Mapping[str, ModelCall]]
"""A traced graph, and the call that each of its nodes belongs to, by the node's name."""

_Sizes = Sequence[int | None]


def place_by_fixed_sizes(
    model: Model,
    traced: TracedCalls,
    place: Callable[[Model], Placement],
    trace_open: Callable[[], TracedCalls | None],
) -> Placement:
    """Return the placement on a traced graph in which sizes that the input may change decide nothing.

    Args:
        model: The graph, which may be the traced one with equal nodes joined; unchanged afterwards.
        traced: The graph as it was traced.
        place: Places pairs on a graph.
        trace_open: Returns the same calls traced with dynamic sizes; None where that cannot be.
    Returns:
        The placement by fixed sizes, or by the traced sizes where `trace_open` returns None.
    """
    placement = place(model)
    with _sizes_of(model, _without_sizes(model)):
        if place(model) == placement:
            return placement
    dynamic = trace_open()
    if dynamic is None:
        return placement
    with _sizes_of(model, _read_fixed_sizes(traced, dynamic)):
        return place(model)


def _without_sizes(model: Model) -> dict[str, _Sizes]:
    """Return shapes without sizes for every tensor that depends on the input."""
    constants = Constants(model.graph)
    changing = (x for x in _values(model) if x not in constants)
    return {x.name or "": [None] * len(x.shape) for x in changing if x.shape is not None}


def _read_fixed_sizes(traced: TracedCalls, dynamic: TracedCalls) -> dict[str, _Sizes]:
    """Return the sizes of traced tensors by name, with None for each that is dynamic.

    The graph with dynamic sizes has more nodes, which compute sizes. Its calls make the same nodes that
    return floats, in the same order.
    """
    ours, theirs = _nodes_by_call(traced), _nodes_by_call(dynamic)
    alike = [key for key in ours if len(ours[key]) == len(theirs.get(key, []))]
    pairs = [pair for key in alike for pair in zip(ours[key], theirs[key], strict=True)]
    values = [
        pair
        for traced_node, dynamic_node in pairs
        for pair in zip(traced_node.outputs, dynamic_node.outputs, strict=False)
    ]
    values += zip(traced[0].graph.inputs, dynamic[0].graph.inputs, strict=False)
    sizes: dict[str, _Sizes] = {}
    for value, dynamic_value in values:
        traced_shape, dynamic_shape = shape_of(value), shape_of(dynamic_value)
        if traced_shape is not None and dynamic_shape is not None and len(traced_shape) == len(dynamic_shape):
            sizes[value.name or ""] = dynamic_shape
    return sizes


def _nodes_by_call(traced: TracedCalls) -> dict[tuple[ModelCall | None, str], list[Node]]:
    """Return the nodes that return floats, by their call and operator."""
    model, owners = traced
    nodes = defaultdict[tuple[ModelCall | None, str], list[Node]](list)
    for node in model.graph:
        if any(map(may_be_float, node.outputs)):
            nodes[owners.get(node.name or ""), node.op_type].append(node)
    return nodes


def _values(model: Model) -> list[Value]:
    return [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]


@contextmanager
def _sizes_of(model: Model, sizes: Mapping[str, _Sizes]) -> Iterator[None]:
    """Give tensors these sizes inside the context."""
    before = {x: x.shape for x in _values(model) if x.name in sizes and x.shape is not None}
    for value, shape in before.items():
        value.shape = type(shape)(sizes[value.name or ""])
    try:
        yield
    finally:
        for value, shape in before.items():
            value.shape = shape
