"""Analyse a traced model: read its ONNX graph, and place quantizers on it.

The exporter writes input markers as nodes. They tell which node of the graph belongs to which call, and are
removed before pairs are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from typing import Any

from torch import nn

from intact import graph as onnx_graph
from intact.graph import ops
from intact.patterns import ends_of_path, exact, is_fitting, no_fit, no_path
from intact.placement import Placement, Site, place
from intact.processes import cached_property
from intact.torch.graph_mode.dynamic_shapes import TracedCalls, place_by_fixed_sizes
from intact.torch.graph_mode.input_markers import DOMAIN
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.recurrent_layers import LayerInput, find_layer_inputs
from intact.torch.graph_mode.trace_model import trace
from intact.torch.graph_mode.trace_records import Edge, Trace
from intact.torch.tracing.untranslated_operators import OPAQUE


@dataclass
class Analysis:
    """Holds an ONNX graph of the traced module, its placement, and how both correspond to the module's calls.

    Attributes:
        placement: Sites and layers; nodes have the names of their calls.
        traced: The trace that was analysed.
        placed: The graph of `placement`: the traced one, with equal nodes joined, as a file has them.
        edges: (ONNX node name, input index) -> the edge that it reads.
        owners: ONNX node name -> the call that it belongs to.
        inside: (ONNX node name, input index) -> the layer of a recurrent module that reads there.
        untranslated: Name of a call -> the operator in it that torch's exporter cannot write.
    """

    placement: Placement
    traced: Trace
    placed: onnx_graph.Model
    edges: dict[tuple[str, int], Edge]
    owners: dict[str, ModelCall]
    inside: dict[tuple[str, int], LayerInput]
    untranslated: dict[str, str]

    def label(self, node: str, op_type: str) -> str:
        """Return the name of the call that a node belongs to; each layer of a recurrent call has its own
        name.
        """
        owner = self.owners.get(node)
        return node if owner is None or op_type in ops.RECURRENT else owner.label

    def axis_of_edge(self, site: Site) -> int | tuple[int, ...] | None:
        """Return the axis of a weight in the tensor of its edge, or several where a call reshapes it."""
        name, index = site.readers[0]
        edge, value = self.edges.get((name, index)), self._nodes[name].inputs[index]
        axes: tuple[int, ...] | None = None if site.axis is None else (site.axis,)
        while axes is not None and edge is not None and value is not None:
            node = value.producer()
            if node is None or self.edges.get((node.name or "", 0)) != edge:
                break
            axes, value = onnx_graph.axes_in_front(node, axes), node.inputs[0]
        return axes[0] if axes is not None and len(axes) == 1 else axes

    @cached_property
    def _nodes(self) -> dict[str, onnx_graph.Node]:
        return {node.name or "": node for node in self.traced.model.graph}


def analyse(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    profile: str,
    include: Sequence[str],
    exclude: Sequence[str],
) -> Analysis:
    """Trace `model` and place Q/DQ pairs on its graph.

    Raises:
        Untraceable: The model's own forward cannot be traced.
        UnsupportedError: The exporter cannot write the model.
        QuantValueError: There is no path of a pattern "a -> b".
    """
    traced = trace(model, args, kwargs)
    reading = _read(traced.model, traced.edges)
    placed = traced.model.clone()
    joined = onnx_graph.merge_common_subexpressions(placed)
    labels = {name: call.label for name, call in reading.owners.items()}
    included, excluded = (
        _and_inside(_with_paths(argument, patterns, placed.graph, labels))
        for argument, patterns in (("include", include), ("exclude", exclude))
    )

    def trace_open() -> TracedCalls | None:
        dynamic = traced.with_open_sizes()
        return None if dynamic is None else (dynamic, _read(dynamic, traced.edges).owners)

    placement = place_by_fixed_sizes(
        placed, (traced.model, reading.owners),
        partial(place, profile=profile, include=included, exclude=excluded), trace_open,
    )  # fmt: skip
    sites = _expand_sites(placement.sites, traced.model, joined)
    placement = replace(placement, sites=tuple(_sites_at_calls(sites, traced.model, reading.edges)))
    inside = find_layer_inputs(traced.model, reading.owners, reading.edges)
    untranslated = {
        reading.owners[node.name or ""].label: ops.Opaque.of(node).operator
        for node in traced.model.graph
        if (node.domain, node.op_type) == (DOMAIN, OPAQUE) and node.name in reading.owners
    }
    return Analysis(placement, traced, placed, reading.edges, reading.owners, inside, untranslated)


def _read(model: onnx_graph.Model, edges: Sequence[Edge]) -> _Reading:
    """Rewrite a traced graph into the operators that placement knows, and remove its markers."""
    onnx_graph.run_stages(model, onnx_graph.pipelines.TORCH)
    return _Reading(model, edges)


def _and_inside(patterns: Sequence[str]) -> list[str]:
    """Return patterns that match what the given ones match, and everything inside it."""
    return [q for p in patterns for q in (p, f"{p}.*", f"{p}/*")]


def _with_paths(
    argument: str, patterns: Sequence[str], graph: onnx_graph.Graph, labels: Mapping[str, str]
) -> list[str]:
    """Return `patterns`, with the nodes between a and b in place of "a -> b".

    Raises:
        QuantValueError: There is no such path.
    """
    names = {node: (node.name or "", labels.get(node.name or "", ""), node.op_type) for node in graph}
    known_names = dict.fromkeys(name for node_names in names.values() for name in node_names if name)
    expanded = list[str]()
    for pattern in patterns:
        ends = ends_of_path(pattern, known_names)
        if ends is None:
            expanded.append(pattern)
            continue
        nodes = [_matching_nodes(argument, end, names, list(known_names)) for end in ends]
        path_nodes = onnx_graph.nodes_between(graph, *nodes)
        if not path_nodes:
            raise no_path(f"quantize: {argument}", pattern)
        expanded += [escape(node.name or "") for node in path_nodes]
    return expanded


def _matching_nodes(
    argument: str, pattern: str, names: Mapping[onnx_graph.Node, Sequence[str]], known_names: Sequence[str]
) -> list[onnx_graph.Node]:
    """Return the nodes that a pattern matches, or that are inside a module that it matches."""
    inside = _and_inside([exact(pattern, known_names)])
    nodes = [node for node, own in names.items() if any(is_fitting(inner, own) for inner in inside)]
    if not nodes:
        raise no_fit(f"quantize: {argument}", pattern, known_names, "module, call or operator")
    return nodes


Reader = tuple[str, int]


def _expand_sites(
    sites: Sequence[Site], model: onnx_graph.Model, same: Mapping[str, Sequence[str]]
) -> list[Site]:
    """Return the sites for all nodes that were joined into their readers, one for each tensor that these
    read.

    Equal tensors get ranges of their own, as their modules have, unless their group shares a range with
    others.
    """
    nodes = {node.name or "": node for node in model.graph}
    shared, groups = Counter(site.group for site in sites), max((site.group for site in sites), default=0)
    expanded = list[Site]()
    for site in sites:
        readers_by_value: dict[str, list[Reader]] = {}
        for name, index in site.readers:
            for twin in same[name]:
                operand = nodes[twin].inputs[index]
                readers_by_value.setdefault((operand.name if operand is not None else "") or "", []).append(
                    (twin, index)
                )
        for number, (name, readers) in enumerate(readers_by_value.items()):
            group = site.group
            if number and shared[group] == 1:
                groups += 1
                group = groups
            expanded.append(replace(site, value=name, readers=tuple(readers), group=group))
    return expanded


def _sites_at_calls(
    sites: Sequence[Site], model: onnx_graph.Model, edges: Mapping[Reader, Edge]
) -> Iterator[Site]:
    """Yield the sites, those inside of one call moved behind the last operator of the call.

    Before: ``mean -> Q/DQ -> Squeeze -> head``, with mean and Squeeze in one call of PyTorch.
    After: ``mean -> Squeeze -> Q/DQ -> head``, with the same codes.
    Or ``qkv -> Q/DQ -> Slice, Slice`` and ``qkv -> Slice`` in float, in one call that cuts it in three.

    Guards: the operators between only move the tensor, and every reader of their result reads an edge.
    """
    nodes = {node.name or "": node for node in model.graph}
    sites = _sites_behind_concats(sites, nodes, edges)
    read_already = {reader for site in sites for reader in site.readers}
    shared = _partly_quantized_edges(sites, nodes, edges)
    for site in sites:
        apart = {reader for reader in site.readers if edges.get(reader) in shared}
        if apart and not all(_behind(nodes[name], edges) for name, _ in apart):
            apart = set()  # what the call reads in float is quantized with the rest
        here = tuple(reader for reader in site.readers if reader in edges and reader not in apart)
        behind_by_reader = {
            reader: _behind(nodes[reader[0]], edges) for reader in site.readers if reader not in here
        }
        readers_behind = [inner for behind in behind_by_reader.values() for inner in behind or ()]
        if (
            site.role == "weight"
            or not all(behind_by_reader.values())
            or any(inner in read_already for _, inner in readers_behind)
        ):
            yield site
            continue
        if here:
            yield replace(site, readers=here)
        for value in dict.fromkeys(value for value, _ in readers_behind):
            yield replace(
                site, value=value, readers=tuple(inner for name, inner in readers_behind if name == value)
            )


def _partly_quantized_edges(
    sites: Sequence[Site], nodes: Mapping[str, onnx_graph.Node], edges: Mapping[Reader, Edge]
) -> set[Edge]:
    """Return the edges that some operators of a call read quantized, and others in float."""
    quantized_readers = {reader for site in sites for reader in site.readers}
    quantized = {edges[reader] for reader in quantized_readers if reader in edges}
    return {
        edge for reader, edge in edges.items()
        if edge in quantized and reader not in quantized_readers and _reads_values(nodes, reader)
    }  # fmt: skip


def _reads_values(nodes: Mapping[str, onnx_graph.Node], reader: Reader) -> bool:
    """Return whether a reader reads a tensor's values, and not only its sizes."""
    node = nodes.get(reader[0])
    return node is not None and not onnx_graph.is_op(node, "Shape")


def _sites_behind_concats(
    sites: Sequence[Site], nodes: Mapping[str, onnx_graph.Node], edges: Mapping[Reader, Edge]
) -> list[Site]:
    """Return the sites, with one behind a Concat inside of a call in place of those in front of it.

    Before: ``LSTM, LSTM -> Q/DQ, Q/DQ -> Concat``, the last states of a call's layers, on one scale.
    After: ``LSTM, LSTM -> Concat -> Q/DQ``, the same codes.

    Guards: those of `_sites_at_calls`; all parts are quantized, on one scale.
    """
    moved_sites = list(sites)
    for name, node in nodes.items():
        parts = {(name, index) for index in range(len(node.inputs))}
        if not onnx_graph.is_op(node, "Concat") or len(parts) < 2 or parts & edges.keys():
            continue
        fronts = [site for site in moved_sites if parts & set(site.readers)]
        read = {reader for site in fronts for reader in site.readers}
        behind = _behind(node, edges, parts=len(parts))
        already_read = any(reader in site.readers for site in moved_sites for _, reader in behind or ())
        if behind and not already_read and parts <= read and len({site.group for site in fronts}) == 1:
            moved_sites = [site for old_site in moved_sites if (site := _without(old_site, parts)).readers]
            for value in dict.fromkeys(value for value, _ in behind):
                readers = tuple(reader for name, reader in behind if name == value)
                moved_sites.append(replace(fronts[0], value=value, readers=readers))
    return moved_sites


def _without(site: Site, readers: set[Reader]) -> Site:
    return replace(site, readers=tuple(reader for reader in site.readers if reader not in readers))


def _behind(
    node: onnx_graph.Node, edges: Mapping[Reader, Edge], parts: int = 1
) -> list[tuple[str, Reader]] | None:
    """Find the readers of a node's output through nodes that only move data, with the tensor's name.

    None where a reader reads no edge.
    """
    if not ops.may_move(node) or len(ops.data_inputs(node)) != parts or len(node.outputs) != 1:
        return None
    output, readers = node.outputs[0], list[tuple[str, Reader]]()
    if output.is_graph_output():
        return None
    for use in output.uses():
        reader = (use.node.name or "", use.idx)
        if reader in edges:
            readers.append((output.name or "", reader))
        elif not onnx_graph.is_op(use.node, "Shape"):
            further = _behind(use.node, edges)
            if further is None or use.idx not in ops.data_inputs(use.node):
                return None
            readers += further
    return readers


class _Reading:
    """Names the nodes of an exported graph after their calls, and removes its markers."""

    def __init__(self, model: onnx_graph.Model, edges: Sequence[Edge]) -> None:
        self.edges: dict[tuple[str, int], Edge] = {}
        self.owners: dict[str, ModelCall] = {}
        self._edges_by_number = edges
        nodes = list(model.graph)
        owners = self._find_owners(nodes)
        self._rename(nodes, owners)
        for node in nodes:
            if _is_marker(node):
                self._remove_marker(node)
                model.graph.remove(node, safe=True)
        self._spread_edges(model)

    def _edge(self, node: onnx_graph.Node) -> Edge:
        return self._edges_by_number[ops.InputMarker.of(node).id]

    def _find_owners(self, nodes: Sequence[onnx_graph.Node]) -> dict[onnx_graph.Node, ModelCall]:
        owners: dict[onnx_graph.Node, ModelCall] = {}
        for node in nodes:
            for value in node.inputs:
                above = value.producer() if value is not None else None
                if above is None or _is_marker(node):
                    continue
                owner = self._edge(above).reader if _is_marker(above) else owners.get(above)
                if owner is not None:
                    owners[node] = owner
                    break
        return owners

    def _rename(self, nodes: Sequence[onnx_graph.Node], owners: Mapping[onnx_graph.Node, ModelCall]) -> None:
        used_names = set[str]()
        for node in nodes:
            owner = owners.get(node)
            first = owner.label if owner is not None else ""
            layer = node.op_type in ops.RECURRENT  # "lstm/LSTM", "lstm/LSTM_1": whatever is around them
            plain = first and first not in used_names and not layer
            base_name = first if plain else f"{first or node.name}/{node.op_type}"
            name, count = base_name, 0
            while name in used_names:
                count += 1
                name = f"{base_name}_{count}"
            used_names.add(name)
            node.name = name
            if owner is not None:
                self.owners[name] = owner

    def _remove_marker(self, node: onnx_graph.Node) -> None:
        output, source = node.outputs[0], node.inputs[0]
        assert source is not None
        for use in output.uses():
            if not _is_marker(use.node):
                self.edges[use.node.name or "", use.idx] = self._edge(node)
        output.replace_all_uses_with(source, replace_graph_outputs=True)

    def _spread_edges(self, model: onnx_graph.Model) -> None:
        """Let operators inside of a call that read an edge through data movement read that edge, too.

        A parameter's edge also spreads to another call's operators, where the parameter is a stack of
        matrices that one call selects from and the other multiplies by.
        """
        for node in model.graph:
            for index, value in enumerate(node.inputs):
                above = value.producer() if value is not None else None
                if above is None or (node.name or "", index) in self.edges or not _only_converts(above):
                    continue
                edge = self.edges.get((above.name or "", 0))
                if edge is None:
                    continue
                if edge.reader == self.owners.get(node.name or "") or edge.source.parameter:
                    self.edges[node.name or "", index] = edge


def _only_converts(node: onnx_graph.Node) -> bool:
    """Return whether the exporter writes a change of a tensor's sizes or type as this node."""
    return ops.may_move(node, keeps_all=True) or onnx_graph.is_op(node, "Cast")


def _is_marker(node: onnx_graph.Node) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, "Edge")
