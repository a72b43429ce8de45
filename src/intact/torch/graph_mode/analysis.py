"""The traced model as an ONNX graph without edges, and the placement on it.

The edges come out of the exporter as nodes, say which operator of the file belongs to which call, and are
taken away before pairs are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from glob import escape
from typing import Any

from torch import nn

from intact import graph as onnx_graph
from intact.graph import ops
from intact.graph.ops.attributes import integer, text
from intact.patterns import ends_of_path, exact, is_fitting, no_fit, no_path
from intact.placement import Placement, Site, place
from intact.torch.graph_mode.dynamic_shapes import Calls, place_by_fixed_sizes
from intact.torch.graph_mode.input_markers import DOMAIN
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.recurrent_layers import Inside, read_inside
from intact.torch.graph_mode.trace_model import trace
from intact.torch.graph_mode.trace_records import Edge, Traced
from intact.torch.tracing.untranslated_operators import OPAQUE


@dataclass
class Analysis:
    """An ONNX graph of the traced module, its placement, and how both fit together.

    Attributes:
        placement: Sites and layers; nodes are called like their call.
        traced: What it is about.
        placed: The graph that it is about: of `traced`, with equal nodes as one, as a file has them.
        edges: (ONNX node name, input index) -> the edge that it reads.
        owners: ONNX node name -> the call that it belongs to.
        inside: (ONNX node name, input index) -> the layer of a recurrent module that reads there.
        untranslated: Name of a call -> the operator in it that torch's exporter cannot write.
    """

    placement: Placement
    traced: Traced
    placed: onnx_graph.Model
    edges: dict[tuple[str, int], Edge]
    owners: dict[str, ModelCall]
    inside: dict[tuple[str, int], Inside]
    untranslated: dict[str, str]

    def label(self, node: str, op_type: str) -> str:
        """The name of the call that a node belongs to; of a recurrent call's layers, each its own."""
        owner = self.owners.get(node)
        return node if owner is None or op_type in ops.RECURRENT else owner.label

    def axis_of_edge(self, site: Site) -> int | tuple[int, ...] | None:
        """The axis of a weight as its edge brings it; several where its call makes one of them."""
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
    """Trace `model` and place pairs on what it does.

    Raises:
        Untraceable: The model's own forward cannot be traced.
        UnsupportedError: The exporter cannot write the model.
        QuantValueError: There is no path of a pattern "a -> b".
    """
    traced = trace(model, args, kwargs)
    read = _read(traced.model, traced.edges)
    placed = traced.model.clone()
    same = onnx_graph.join_equals(placed)
    labels = {name: call.label for name, call in read.owners.items()}
    wanted, unwanted = (
        _inside(_with_paths(argument, patterns, placed.graph, labels))
        for argument, patterns in (("include", include), ("exclude", exclude))
    )

    def trace_open() -> Calls | None:
        opened = traced.with_open_sizes()
        return None if opened is None else (opened, _read(opened, traced.edges).owners)

    placement = place_by_fixed_sizes(
        placed, (traced.model, read.owners),
        partial(place, profile=profile, include=wanted, exclude=unwanted), trace_open,
    )  # fmt: skip
    sites = _of_all(placement.sites, traced.model, same)
    placement = replace(placement, sites=tuple(_reached(sites, traced.model, read.edges)))
    inside = read_inside(traced.model, read.owners, read.edges)
    untranslated = {
        read.owners[node.name or ""].label: text(node, "operator", "")
        for node in traced.model.graph
        if (node.domain, node.op_type) == (DOMAIN, OPAQUE) and node.name in read.owners
    }
    return Analysis(placement, traced, placed, read.edges, read.owners, inside, untranslated)


def _read(model: onnx_graph.Model, edges: Sequence[Edge]) -> _Reading:
    """A traced graph in the operators that placement knows, without its edges."""
    onnx_graph.run_stages(model, onnx_graph.pipelines.TORCH)
    return _Reading(model, edges)


def _inside(patterns: Sequence[str]) -> list[str]:
    """Patterns that match what the given ones match, and everything inside it."""
    return [q for p in patterns for q in (p, f"{p}.*", f"{p}/*")]


def _with_paths(
    argument: str, patterns: Sequence[str], graph: onnx_graph.Graph, labels: Mapping[str, str]
) -> list[str]:
    """`patterns`, the nodes between a and b instead of "a -> b".

    Raises:
        QuantValueError: There is no such path.
    """
    names = {node: (node.name or "", labels.get(node.name or "", ""), node.op_type) for node in graph}
    known = dict.fromkeys(name for found in names.values() for name in found if name)
    found = list[str]()
    for pattern in patterns:
        ends = ends_of_path(pattern, known)
        if ends is None:
            found.append(pattern)
            continue
        nodes = [_fitting(argument, end, names, list(known)) for end in ends]
        between = onnx_graph.nodes_between(graph, *nodes)
        if not between:
            raise no_path(f"quantize: {argument}", pattern)
        found += [escape(node.name or "") for node in between]
    return found


def _fitting(
    argument: str, pattern: str, names: Mapping[onnx_graph.Node, Sequence[str]], known: Sequence[str]
) -> list[onnx_graph.Node]:
    """The nodes that a pattern fits, or that are inside a module that it fits."""
    inside = _inside([exact(pattern, known)])
    found = [node for node, own in names.items() if any(is_fitting(one, own) for one in inside)]
    if not found:
        raise no_fit(f"quantize: {argument}", pattern, known, "module, call or operator")
    return found


Reader = tuple[str, int]


def _of_all(sites: Sequence[Site], model: onnx_graph.Model, same: Mapping[str, Sequence[str]]) -> list[Site]:
    """The sites for all nodes that their readers stand for: one for each tensor that these read.

    Equal tensors have ranges of their own, as their modules do, unless others share the range.
    """
    nodes = {node.name or "": node for node in model.graph}
    shared, groups = Counter(site.group for site in sites), max((site.group for site in sites), default=0)
    made = list[Site]()
    for site in sites:
        found: dict[str, list[Reader]] = {}
        for name, index in site.readers:
            for one in same[name]:
                read = nodes[one].inputs[index]
                found.setdefault((read.name if read is not None else "") or "", []).append((one, index))
        for number, (value, readers) in enumerate(found.items()):
            group = site.group
            if number and shared[group] == 1:
                groups += 1
                group = groups
            made.append(replace(site, value=value, readers=tuple(readers), group=group))
    return made


def _reached(sites: Sequence[Site], model: onnx_graph.Model, edges: Mapping[Reader, Edge]) -> Iterator[Site]:
    """The sites, those inside one call moved behind what the call does last.

    Before: ``mean -> Q/DQ -> Squeeze -> head``, mean and Squeeze one call of PyTorch.
    After: ``mean -> Squeeze -> Q/DQ -> head``, the same codes.
    Or ``qkv -> Q/DQ -> Slice, Slice`` and ``qkv -> Slice`` in float, of one call that cuts it in three.

    Guards: the call only moves the tensor there, and everybody who reads what comes out reads an edge.
    """
    nodes = {node.name or "": node for node in model.graph}
    sites = _behind_concats(sites, nodes, edges)
    taken = {reader for site in sites for reader in site.readers}
    shared = _read_in_float_too(sites, nodes, edges)
    for site in sites:
        apart = {reader for reader in site.readers if edges.get(reader) in shared}
        if apart and not all(_behind(nodes[name], edges) for name, _ in apart):
            apart = set()  # what the call reads in float is quantized with the rest
        here = tuple(reader for reader in site.readers if reader in edges and reader not in apart)
        moved = {reader: _behind(nodes[reader[0]], edges) for reader in site.readers if reader not in here}
        found = [one for behind in moved.values() for one in behind or ()]
        if site.role == "weight" or not all(moved.values()) or any(one in taken for _, one in found):
            yield site
            continue
        if here:
            yield replace(site, readers=here)
        for value in dict.fromkeys(value for value, _ in found):
            yield replace(site, value=value, readers=tuple(one for name, one in found if name == value))


def _read_in_float_too(
    sites: Sequence[Site], nodes: Mapping[str, onnx_graph.Node], edges: Mapping[Reader, Edge]
) -> set[Edge]:
    """The edges that some operators of a call read quantized, and others in float."""
    wanted = {reader for site in sites for reader in site.readers}
    quantized = {edges[reader] for reader in wanted if reader in edges}
    return {
        edge for reader, edge in edges.items()
        if edge in quantized and reader not in wanted and _carries(nodes, reader)
    }  # fmt: skip


def _carries(nodes: Mapping[str, onnx_graph.Node], reader: Reader) -> bool:
    """Whether it reads a tensor's values, and not its sizes."""
    node = nodes.get(reader[0])
    return node is not None and not onnx_graph.is_op(node, "Shape")


def _behind_concats(
    sites: Sequence[Site], nodes: Mapping[str, onnx_graph.Node], edges: Mapping[Reader, Edge]
) -> list[Site]:
    """The sites; one behind a Concat inside one call in place of those in front of it.

    Before: ``LSTM, LSTM -> Q/DQ, Q/DQ -> Concat``, the last states of a call's layers, on one scale.
    After: ``LSTM, LSTM -> Concat -> Q/DQ``, the same codes.

    Guards: as `_reached`; all parts are quantized, on one scale.
    """
    found = list(sites)
    for name, node in nodes.items():
        parts = {(name, index) for index in range(len(node.inputs))}
        if not onnx_graph.is_op(node, "Concat") or len(parts) < 2 or parts & edges.keys():
            continue
        fronts = [site for site in found if parts & set(site.readers)]
        read = {reader for site in fronts for reader in site.readers}
        behind = _behind(node, edges, parts=len(parts))
        taken = any(reader in site.readers for site in found for _, reader in behind or ())
        if behind and not taken and parts <= read and len({site.group for site in fronts}) == 1:
            found = [site for one in found if (site := _without(one, parts)).readers]
            for value in dict.fromkeys(value for value, _ in behind):
                readers = tuple(reader for name, reader in behind if name == value)
                found.append(replace(fronts[0], value=value, readers=readers))
    return found


def _without(site: Site, readers: set[Reader]) -> Site:
    return replace(site, readers=tuple(reader for reader in site.readers if reader not in readers))


def _behind(
    node: onnx_graph.Node, edges: Mapping[Reader, Edge], parts: int = 1
) -> list[tuple[str, Reader]] | None:
    """Who reads what `node` only moves, and under which name; None where one of them reads no edge."""
    if not ops.may_move(node) or len(ops.data_inputs(node)) != parts or len(node.outputs) != 1:
        return None
    output, found = node.outputs[0], list[tuple[str, Reader]]()
    if output.is_graph_output():
        return None
    for use in output.uses():
        reader = (use.node.name or "", use.idx)
        if reader in edges:
            found.append((output.name or "", reader))
        elif not onnx_graph.is_op(use.node, "Shape"):
            further = _behind(use.node, edges)
            if further is None or use.idx not in ops.data_inputs(use.node):
                return None
            found += further
    return found


class _Reading:
    """Gives the nodes of an exported graph their owners' names, and takes the edges out."""

    def __init__(self, model: onnx_graph.Model, edges: Sequence[Edge]) -> None:
        self.edges: dict[tuple[str, int], Edge] = {}
        self.owners: dict[str, ModelCall] = {}
        self._numbered = edges
        nodes = list(model.graph)
        owners = self._find_owners(nodes)
        self._rename(nodes, owners)
        for node in nodes:
            if _is_edge(node):
                self._take_out(node)
                model.graph.remove(node, safe=True)
        self._spread(model)

    def _edge(self, node: onnx_graph.Node) -> Edge:
        return self._numbered[integer(node, "id", -1)]

    def _find_owners(self, nodes: Sequence[onnx_graph.Node]) -> dict[onnx_graph.Node, ModelCall]:
        owners: dict[onnx_graph.Node, ModelCall] = {}
        for node in nodes:
            for value in node.inputs:
                above = value.producer() if value is not None else None
                if above is None or _is_edge(node):
                    continue
                owner = self._edge(above).reader if _is_edge(above) else owners.get(above)
                if owner is not None:
                    owners[node] = owner
                    break
        return owners

    def _rename(self, nodes: Sequence[onnx_graph.Node], owners: Mapping[onnx_graph.Node, ModelCall]) -> None:
        taken = set[str]()
        for node in nodes:
            owner = owners.get(node)
            first = owner.label if owner is not None else ""
            layer = node.op_type in ops.RECURRENT  # "lstm/LSTM", "lstm/LSTM_1": whatever is around them
            plain = first and first not in taken and not layer
            wanted = first if plain else f"{first or node.name}/{node.op_type}"
            name, count = wanted, 0
            while name in taken:
                count += 1
                name = f"{wanted}_{count}"
            taken.add(name)
            node.name = name
            if owner is not None:
                self.owners[name] = owner

    def _take_out(self, node: onnx_graph.Node) -> None:
        output, source = node.outputs[0], node.inputs[0]
        assert source is not None
        for use in output.uses():
            if not _is_edge(use.node):
                self.edges[use.node.name or "", use.idx] = self._edge(node)
        output.replace_all_uses_with(source, replace_graph_outputs=True)

    def _spread(self, model: onnx_graph.Model) -> None:
        """An operator inside a call that reads an edge through moves of data reads that edge too.

        Of a parameter that another call reads, too: where it chooses of matrices that this one multiplies by.
        """
        for node in model.graph:
            for index, value in enumerate(node.inputs):
                above = value.producer() if value is not None else None
                if above is None or (node.name or "", index) in self.edges or not _hands_on(above):
                    continue
                edge = self.edges.get((above.name or "", 0))
                if edge is None:
                    continue
                if edge.reader == self.owners.get(node.name or "") or edge.source.parameter:
                    self.edges[node.name or "", index] = edge


def _hands_on(node: onnx_graph.Node) -> bool:
    """Whether a node is how the exporter writes a tensor of other sizes or of another type."""
    return ops.may_move(node, keeps_all=True) or onnx_graph.is_op(node, "Cast")


def _is_edge(node: onnx_graph.Node) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, "Edge")
