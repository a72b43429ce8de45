"""Finds the products of activations with constant matrices, also in branches and bodies of loops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from intact.graph import SIDES, Graph, Model, Node, Value, inner_graphs, input_of, is_op, ops
from intact.patterns import check_patterns, exact, require_fitting

_FLOATS = ("float32", "float16")
_SHARED = "other nodes read its weight, too"

Path = tuple[tuple[str, str], ...]
"""The place of a graph: from the main graph inwards, names of nodes and of the attributes that hold it."""


@dataclass(frozen=True)
class LinearLayer:
    """Describes a MatMul or Gemm whose second input is a constant matrix.

    Attributes:
        node: The node.
        weight: The initializer that holds the matrix.
        outputs_first: Whether it is stored as [N, K] instead of [K, N].
        transposes: Whether the node itself transposes it (Gemm with transB).
        path: Of the graph that the node is in.
        twins: Layers with the same matrix in other branches of an If, of which only one runs.
    """

    node: Node
    weight: Value
    outputs_first: bool
    transposes: bool
    path: Path = ()
    twins: tuple[LinearLayer, ...] = ()

    @property
    def name(self) -> str:
        """Name of the node; in a branch, behind that of the branch."""
        return name_in(self.path, self.node)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that mean the layer."""
        return tuple(name for layer in self.all for name in (layer.name, layer.node.name or ""))

    @property
    def all(self) -> tuple[LinearLayer, ...]:
        """The layer itself and its twins."""
        return self, *self.twins

    @property
    def source(self) -> Value:
        """The tensor that it multiplies."""
        source = self.node.inputs[0]
        assert source is not None
        return source

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs N and inputs K."""
        first, second = self._matrix().shape
        return (first, second) if self.outputs_first else (second, first)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the weights, float32 or float16."""
        return self._matrix().dtype

    def rows(self) -> NDArray[np.float32]:
        """Return the weights as float32 [N, K]."""
        stored = self._matrix()
        return np.ascontiguousarray(stored if self.outputs_first else stored.T, np.float32)

    def digest(self) -> bytes:
        """Return a hash of the stored matrix."""
        return blake2b(np.ascontiguousarray(self._matrix()).data).digest()

    def _matrix(self) -> NDArray:
        assert self.weight.const_value is not None
        return np.asarray(self.weight.const_value.numpy())


def name_in(path: Path, node: Node) -> str:
    """Return the name of a node, behind those of the branches that it is in.

    Args:
        path: Of the graph that holds the node.
        node: The node.
    """
    return "/".join([*(f"{outer}.{side}" for outer, side in path), node.name or ""])


def find_linear_layers(
    model: Model, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[list[LinearLayer], dict[str, str]]:
    """Find the layers whose weights can be quantized, and say of the others why they stay as they are.

    Layers of different branches that read one matrix, or equal ones, are twins of the first.

    Args:
        model: Float; constants are initializers.
        include, exclude: Patterns over names of nodes and operator types; no include means all.
    Returns:
        The layers in the order of the graph; and the reason for each MatMul and Gemm that is none, by name.
    Raises:
        QuantValueError: A pattern fits nothing.
    """
    nodes = list(_walk(model.graph))
    names = [name for path, node in nodes for name in _names_of(path, node)]
    wanted, unwanted = (
        [exact(pattern, names) for pattern in check_patterns(where, patterns)]
        for where, patterns in (("include", include), ("exclude", exclude))
    )
    require_fitting("include", wanted, names, "nodes or operator types")
    require_fitting("exclude", unwanted, names, "nodes or operator types")
    layers: list[LinearLayer] = []
    reasons: dict[str, str] = {}
    for path, node in nodes:
        if not is_op(node, "MatMul", "Gemm"):
            continue
        if _matches_pattern(path, node, unwanted) or (wanted and not _matches_pattern(path, node, wanted)):
            reasons[name_in(path, node)] = "excluded"
            continue
        layer = _layer_of(node, path)
        if isinstance(layer, str):
            reasons[name_in(path, node)] = layer
        else:
            layers.append(layer)
    families, shared = _families(layers)
    reasons |= {layer.name: _SHARED for layer in shared}
    order = {layer.name: number for number, layer in enumerate(layers)}
    families.sort(key=lambda family: order[family[0].name])
    return [replace(first, twins=tuple(twins)) for first, *twins in families], reasons


def _walk(graph: Graph, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every node with the path of its graph, those within a node behind it."""
    for node in graph:
        yield path, node
        for name, inner in inner_graphs(node).items():
            yield from _walk(inner, (*path, (node.name or "", name)))


def _names_of(path: Path, node: Node) -> set[str]:
    return {node.name or "", name_in(path, node), node.op_type}


def _matches_pattern(path: Path, node: Node, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, p) for p in patterns for name in _names_of(path, node))


def _layer_of(node: Node, path: Path) -> LinearLayer | str:
    """Return the layer of a node, or why it is none; others may read its weight, too."""
    data, weight = node.inputs[:2]
    transposes = False
    if is_op(node, "Gemm"):
        form = ops.Gemm.of(node)
        if form.transA:
            return "it transposes its input"
        bias = input_of(node, 2)
        if form.beta != 1 and bias is not None and bias.const_value is None:
            return "beta scales a bias that is no constant"
        transposes = bool(form.transB)
    turned = False
    producer = None if weight is None else weight.producer()
    if producer is not None and is_op(producer, "Transpose"):
        (weight,) = producer.inputs
        turned = True
    if (
        weight is None
        or weight.const_value is None
        or weight.is_graph_input()
        or weight.producer() is not None
    ):
        return "it multiplies two activations"
    if data is None or data.const_value is not None:
        return "its input is constant"
    if len(weight.const_value.shape) != 2:
        return "its weight is no matrix"
    if not weight.const_value.size:
        return "its weight is empty"
    if weight.const_value.dtype.numpy().name not in _FLOATS:
        return f"its weight is {weight.const_value.dtype.numpy().name}"
    return LinearLayer(node, weight, transposes != turned, transposes, path)


def _families(layers: Sequence[LinearLayer]) -> tuple[list[list[LinearLayer]], list[LinearLayer]]:
    """Gather the layers of each matrix; return apart those whose matrix other nodes read, too."""
    by_weight: dict[Value, list[LinearLayer]] = {}
    for layer in layers:
        by_weight.setdefault(layer.weight, []).append(layer)
    families, shared = [], []
    for weight, family in by_weight.items():
        if _reads_alone(weight, family) and _are_exclusive(family):
            families.append(family)
        else:
            shared += family
    return _join_equal(families), shared


def _reads_alone(weight: Value, family: Sequence[LinearLayer]) -> bool:
    """Return whether no other node reads a matrix, or what a Transpose makes of it."""
    if weight.is_graph_output() or len({layer.outputs_first for layer in family}) > 1:
        return False
    nodes = {layer.node for layer in family}
    turned = {value for layer in family if (value := layer.node.inputs[1]) is not None} - {weight}
    readers = {use.node for value in (weight, *turned) for use in value.uses()}
    return readers <= nodes | {value.producer() for value in turned}


def _join_equal(families: Sequence[list[LinearLayer]]) -> list[list[LinearLayer]]:
    """Join families of different branches whose matrices are equal: some tools store one in each branch."""
    joined = [family for family in families if not family[0].path]
    within = [family for family in families if family[0].path]
    for alike in _group(within, lambda layer: (layer.shape, layer.dtype, layer.outputs_first)):
        if len(alike) == 1:
            joined += alike
            continue
        for equal in _group(alike, LinearLayer.digest):
            joined += _join_exclusive(equal)
    return joined


def _group(
    families: Sequence[list[LinearLayer]], key: Callable[[LinearLayer], Hashable]
) -> Iterable[list[list[LinearLayer]]]:
    """Group families by what `key` says of their first layer."""
    groups: dict[Hashable, list[list[LinearLayer]]] = {}
    for family in families:
        groups.setdefault(key(family[0]), []).append(family)
    return groups.values()


def _join_exclusive(families: Sequence[list[LinearLayer]]) -> list[list[LinearLayer]]:
    """Join families as long as only one of their layers runs."""
    joined: list[list[LinearLayer]] = []
    for family in families:
        fitting = next((other for other in joined if _are_exclusive([*other, *family])), None)
        if fitting is None:
            joined.append(list(family))
        else:
            fitting += family
    return joined


def _are_exclusive(layers: Sequence[LinearLayer]) -> bool:
    """Return whether no run computes two of the layers: each pair is in two branches of one If."""
    return all(_part(first.path, second.path) for first, second in combinations(layers, 2))


def _part(first: Path, second: Path) -> bool:
    for (node, side), (other, other_side) in zip(first, second, strict=False):
        if node != other or side != other_side:
            return node == other and {side, other_side} <= SIDES.keys()
    return False


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
