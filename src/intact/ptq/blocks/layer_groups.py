"""Groups the layers that multiply one tensor, in the order in which their codes are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intact.graph import Graph, Model, Node, Value, inner_graphs
from intact.ptq.blocks.linear_layers import LinearLayer


@dataclass(frozen=True)
class LayerGroup:
    """Holds the layers that multiply one tensor, in the order of the graph.

    Layers with twins in another branch may multiply one tensor in each branch.

    Attributes:
        source: The name of the tensor; of several the first one's.
        layers: One or more; they have the same K.
    """

    source: str
    layers: tuple[LinearLayer, ...]

    @property
    def name(self) -> str:
        """The name of the first layer."""
        return self.layers[0].name

    @property
    def size(self) -> int:
        """K."""
        return self.layers[0].shape[1]

    def by_source(self) -> list[tuple[LinearLayer, ...]]:
        """Return the layers and their twins, grouped by the tensor that they multiply and by branch."""
        readers: dict[object, list[LinearLayer]] = {}
        for layer in self.layers:
            for twin in layer.all:
                readers.setdefault((twin.path, twin.source), []).append(twin)
        return list(map(tuple, readers.values()))


def group_by_input(model: Model, layers: Sequence[LinearLayer]) -> list[LayerGroup]:
    """Group layers that read one tensor and have one K.

    Args:
        model: What the layers are of.
        layers: In the order of the graph.
    Returns:
        Groups in the order in which they run; those that several branches share in the first one's place.
    """
    gathered: list[tuple[set[tuple[Value, int]], list[LinearLayer]]] = []
    for layer in layers:
        keys, members = {(twin.source, layer.shape[1]) for twin in layer.all}, [layer]
        for group in [group for group in gathered if keys & group[0]]:
            gathered.remove(group)
            keys |= group[0]
            members = [*group[1], *members]
        gathered.append((keys, members))
    place = {layer.name: number for number, layer in enumerate(layers)}
    groups = []
    for _, members in gathered:
        members.sort(key=lambda layer: place[layer.name])
        groups.append(LayerGroup(members[0].source.name or "", tuple(members)))
    group_of = {twin.node: group for group in groups for layer in group.layers for twin in layer.all}
    return _sequence(model.graph, group_of)


def _sequence(graph: Graph, group_of: Mapping[Node, LayerGroup]) -> list[LayerGroup]:
    """Return the groups of a graph and of the graphs within, each where its first node stands."""
    order: dict[str, LayerGroup] = {}
    for node in graph:
        if node in group_of:
            order.setdefault(group_of[node].name, group_of[node])
        within: list[LayerGroup] = []
        for inner in inner_graphs(node).values():
            within = _merge(within, _sequence(inner, group_of))
        for group in within:
            order.setdefault(group.name, group)
    return list(order.values())


def _merge(first: Sequence[LayerGroup], second: Sequence[LayerGroup]) -> list[LayerGroup]:
    """Merge the sequences of two branches: each keeps its order, as far as both can."""
    places = {group.name: number for number, group in enumerate(second)}
    merged: dict[str, LayerGroup] = {}
    begin = 0
    for group in first:
        end = places.get(group.name, -1)
        for other in second[begin:end] if end >= begin else ():
            merged.setdefault(other.name, other)
        begin = max(begin, end + 1)
        merged.setdefault(group.name, group)
    for other in second[begin:]:
        merged.setdefault(other.name, other)
    return list(merged.values())
